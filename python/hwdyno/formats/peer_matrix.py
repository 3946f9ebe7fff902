"""Reads the matrices of CUDA's p2pBandwidthLatencyTest sample into a Run: a point for each pair of GPUs."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import GPU_TRANSFER
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "p2p-text"
_MATRIX = re.compile(
    r"^[ \t]{0,8}(?P<way>(?:Uni|Bi)directional )?P2P=(?P<peer>Enabled|Disabled) (?P<what>Bandwidth|Latency)"
    r"(?: \(P2P (?P<by>Writes|Reads)\))? Matrix \((?P<unit>GB/s|us)\)[ \t]*$",
    re.M,
)
_HEADS = re.compile(r"\s*(?:D\\D|GPU|CPU)((?:\s{1,9}\d{1,3}){1,64})[ \t]*$", re.M)
_ROW = re.compile(r"\s*(\d{1,3})((?:\s{1,9}\d{1,7}\.\d{1,4}){1,64})[ \t]*$", re.M)
_DEVICE = re.compile(r"^Device: \d{1,3}, ([^,\n]{1,60}), pciBusID", re.M)


def recognizes(text: str) -> bool:
    """Whether this looks like p2pBandwidthLatencyTest's matrices."""
    return _MATRIX.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    for matrix in _MATRIX.finditer(text):
        heads = _HEADS.match(text, matrix.end())
        columns = heads[1].split() if heads is not None else []
        row = _ROW.match(text, heads.end()) if heads is not None else None
        while row is not None and columns:
            # A matrix that ends early has a short last row.
            for to, cell in zip(columns, row[2].split(), strict=False):
                points += _pair(matrix, row[1], to, cell)
            row = _ROW.match(text, row.end())
    names = {match.strip() for match in _DEVICE.findall(text)}
    fixed: Parameters = {"device": names.pop()} if len(names) == 1 else {}
    table = printed.experiment("gpu.p2p", "p2pBandwidthLatencyTest results", GPU_TRANSFER, "to", points, **fixed)
    return printed.run(NAME, "p2pBandwidthLatencyTest", text, name, [table])


def _pair(matrix: re.Match[str], source: str, to: str, cell: str) -> list[Measurement]:
    """The point of one cell: a copy within a GPU on the diagonal, between two elsewhere."""
    operation = "device-to-device" if source == to else "device-to-device-p2p"
    given: Parameters = {
        "operation": f"{operation}-both" if matrix["way"] == "Bidirectional " else operation,
        "p2p": matrix["peer"].lower(),
        **({"by": matrix["by"].lower()} if matrix["by"] else {}),
        "from": int(source),
        "to": int(to),
    }
    value = number(cell, 1e9 if matrix["unit"] == "GB/s" else 1e-6)
    made = make_point(given, figures(**{"bw" if matrix["unit"] == "GB/s" else "lat": value}))
    return [made] if made else []
