"""Reads the text of CUDA's bandwidthTest sample into a Run, also with ``--csv``.

Where it prints MB/s they are of 2^20 bytes, as the size and time beside them in its ``--csv`` lines show; since CUDA 11
it prints GB/s of 10^9.
"""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import GPU_TRANSFER
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "bandwidthtest-text"
_TEST = re.compile(
    r"^[ \t]{0,8}-?[ \t]{0,8}(Host to Device|Device to Host|Device to Device) Bandwidth, (\d{1,3}) Device\(s\)", re.M
)
_MEMORY = re.compile(r"(PINNED|PAGEABLE|WRITE-COMBINED)[\w ]* Memory Transfers", re.I)
_HEADS = re.compile(r"Transfer Size \(Bytes\)\s+Bandwidth\((MB/s|GB/s)\)")
_ROW = re.compile(r"^[ \t]{0,8}-?[ \t]{0,8}(\d{1,12})[ \t]+(\d{1,9}(?:\.\d{1,4})?)[^\S\n]*$", re.M)
# "bandwidthTest-H2D-Pinned, Bandwidth = 8494.3 MB/s, Time = 0.00377 s, Size = 33554432 bytes, NumDevsUsed = 1"
_LINE = re.compile(
    r"^bandwidthTest-(H2D|D2H|D2D)(?:-(\w+))?, Bandwidth = (\d{1,9}(?:\.\d{1,4})?) (MB/s|GB/s), Time = [\d.e-]+ s, "
    r"Size = (\d{1,12}) bytes",
    re.M,
)
_ENDS = {"H": "host", "D": "device"}
_SCALES = {"MB/s": 2.0**20, "GB/s": 1e9}
_DEVICE = re.compile(r"Device \d+: ([^\n]{1,80})")


def recognizes(text: str) -> bool:
    """Whether this looks like bandwidthTest's output."""
    return _LINE.search(text) is not None or (_TEST.search(text) is not None and _HEADS.search(text) is not None)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    starts = list(_TEST.finditer(text))
    for at, match in enumerate(starts):
        part = text[match.end() : starts[at + 1].start() if at + 1 < len(starts) else len(text)]
        unit, memory = _HEADS.search(part), _MEMORY.search(part)
        if unit is None:
            continue
        for size, value in _ROW.findall(part[unit.end() :]):
            given: Parameters = {"operation": match[1].lower().replace(" ", "-"), "bs": int(size)}
            if memory is not None:
                given["memory"] = memory[1].lower()
            made = make_point(given, figures(bw=number(value, _SCALES[unit[1]])))
            points += [made] if made else []
    for line in _LINE.finditer(text):
        given = {"operation": f"{_ENDS[line[1][0]]}-to-{_ENDS[line[1][2]]}", "bs": int(line[5])}
        if line[2]:
            given["memory"] = line[2].lower()
        made = make_point(given, figures(bw=number(line[3], _SCALES[line[4]])))
        points += [made] if made else []
    device = _DEVICE.search(text)
    fixed: Parameters = {"device": device[1].strip()} if device else {}
    table = printed.experiment("gpu.bandwidthtest", "bandwidthTest results", GPU_TRANSFER, "bs", points, **fixed)
    return printed.run(NAME, "bandwidthTest", text, name, [table])
