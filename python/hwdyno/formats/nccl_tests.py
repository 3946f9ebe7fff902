"""Reads the tables of NVIDIA's nccl-tests into a Run: a point for each size and place, in 10^9 bytes/s."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "nccl-tests-text"
_HEADS = re.compile(r"^#\s+size\s+count[^\n]*\balgbw\s+busbw\b", re.M)
_TIME = re.compile(r"^#\s+\(B\)[^\n]*\(us\)\s+\(GB/s\)", re.M)
_ROW = re.compile(
    r"^\s*(\d{1,15})\s+\d{1,15}\s+(\w{3,12})\s+(?:(\w{1,12})\s+)?(?:(-?\d{1,4})\s+)?"
    r"(\d[\d.]{0,14})\s+(\d[\d.]{0,14})\s+(\d[\d.]{0,14})\s+[\w/.+-]{1,12}"
    r"(?:\s+(\d[\d.]{0,14})\s+(\d[\d.]{0,14})\s+(\d[\d.]{0,14})(?:\s+[\w/.+-]{1,12})?)?\s*$",
    re.M,
)
_BARE = re.compile(
    r"^\s*\d{1,15}\s+\d{1,15}\s+(?:float|half|double|bfloat16|u?int(?:8|32|64)|fp?8\w{0,6})\s+"
    r"(?:sum|prod|max|min|avg|none|mulsum)\s+-?\d{1,4}\s+\d[\d.]{0,14}\s+\d",
    re.M,
)
"""A row by its types alone, where the heads were cut off."""
_RANK = re.compile(r"\[\d{1,4}\](?=[ \t])")
"""What a launcher puts before each rank's output."""
_COMMAND = re.compile(r"\b([a-z]{3,10}(?:_[a-z]{3,10}){0,2})_perf\b")
_GPUS = re.compile(r"^#\s+Rank\s+\d+\s", re.M)
_DEVICE = re.compile(r"^#\s+Rank\s+\d+[^\n]{0,120}\]\s+([^\n]{1,60}?)\s*$", re.M)


def recognizes(text: str) -> bool:
    """Whether this looks like the output of nccl-tests."""
    text = _RANK.sub(" ", text)
    return (_HEADS.search(text) is not None and _TIME.search(text) is not None) or len(_BARE.findall(text)) > 1


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line.

    A point's bandwidth is that of the algorithm, bytes over time. That of the bus is the same times a factor of the
    operation and the number of GPUs, and is kept beside it.
    """
    points: list[Measurement] = []
    text = _RANK.sub(" ", text)
    command, device = _COMMAND.search(text), _DEVICE.search(text)
    for row in _ROW.finditer(text):
        for place, at in (("out-of-place", 5), ("in-place", 8)):
            if row[at] is None:
                continue
            given: Parameters = {"bs": int(row[1]), "place": place}
            found = figures(
                data=number(row[1]), time=number(row[at], 1e-6), bw=number(row[at + 1], 1e9),
            )  # fmt: skip
            bus = number(row[at + 2], 1e9)
            made = make_point(given, found, bus_bytes_s=bus.value if bus else None)
            points += [made] if made else []
    fixed: Parameters = {"operation": command[1].replace("_", "-")} if command else {}
    if gpus := len(_GPUS.findall(text)):
        fixed["accelerators"] = gpus
    if device is not None:
        fixed["device"] = device[1]
    table = printed.experiment("gpu.nccl-tests", "nccl-tests results", "gpu_copy", "bs", points, **fixed)
    return printed.run(NAME, "nccl-tests", text, name, [table])
