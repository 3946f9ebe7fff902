"""Reads the totals of ``rados bench`` into a Run: what it calls MB is of 2^20 bytes, and its latencies are seconds."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "rados-text"
_MIB = float(1 << 20)
_TOTAL = re.compile(r"^[ \t]{0,20}Total (writes|reads) made:[ \t]{1,20}(\d{1,12})[ \t]{0,20}$", re.M)
_LOAD = re.compile(r"Maintaining (\d{1,6}) concurrent (?:writes|reads)")
_COMMAND = re.compile(r"\bbench\s(?:[^\n]{0,200}\s)?(write|seq|rand)\b")
_SIZE = re.compile(r"^[ \t]{0,20}(?:Write|Read|Object) size:[ \t]{1,20}(\d{1,12})[ \t]{0,20}$", re.M)
_ROW = re.compile(
    r"^[ \t]{0,20}\d{1,7}(?:[ \t]{1,20}\d{1,9}){3}[ \t]{1,20}(?P<bw>\d[\d.]{0,12})[ \t]{1,20}[\d.]{1,12}[ \t]{1,20}"
    r"[\d.e-]{1,14}[ \t]{1,20}(?P<lat>\d[\d.]{0,14})[ \t]{0,20}$",
    re.M,
)
"""A second of its table: the average rate and latency so far are in the fifth column and in the last."""
_FIGURES = (
    ("bw", r"Bandwidth \(MB/sec\)", _MIB),
    ("bw_max", r"Max bandwidth \(MB/sec\)", _MIB),
    ("bw_min", r"Min bandwidth \(MB/sec\)", _MIB),
    ("iops", r"Average IOPS", 1.0),
    ("lat_mean", r"Average Latency(?:\(s\))?", 1.0),
    ("lat_max", r"Max latency(?:\(s\))?", 1.0),
    ("lat_min", r"Min latency(?:\(s\))?", 1.0),
)
_LINES = {
    name: (re.compile(rf"^[ \t]{{0,20}}{words}:[ \t]{{1,20}}(\d[\d.e+-]{{0,20}})[ \t]{{0,20}}$", re.M | re.I), factor)
    for name, words, factor in _FIGURES
}
_PATTERNS = {"write": "write", "seq": "read", "rand": "randread"}


def recognizes(text: str) -> bool:
    """Whether this looks like the totals of rados bench."""
    return _TOTAL.search(text) is not None and "Total time run:" in text


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    ends = [match.start() for match in _TOTAL.finditer(text)]
    points = [_point(text, start, end, after) for start, end, after in _parts(ends, len(text))]
    made = [point for point in points if point is not None]
    table = printed.experiment("storage.rados", "rados bench's totals", STORAGE_BLOCKS, "iodepth", made)
    return printed.run(NAME, "rados bench", text, name, [table])


def _parts(ends: list[int], length: int) -> list[tuple[int, int, int]]:
    """The beginning of what is above each total, the total, and the end of what is below it."""
    return list(zip([0, *ends][: len(ends)], ends, [*ends[1:], length][: len(ends)], strict=True))


def _point(text: str, start: int, end: int, after: int) -> Measurement | None:
    above, below = text[start:end], text[end:after]
    total = _TOTAL.match(below)
    parameters: Parameters = {}
    if total is not None:
        parameters["rw"] = total[1][:-1]
    if commands := _COMMAND.findall(above):
        parameters["rw"] = _PATTERNS[commands[-1]]
    if size := _SIZE.search(below):
        parameters["bs"] = int(size[1])
    if loads := _LOAD.findall(above):
        parameters["iodepth"] = int(loads[-1])
    found: dict[str, PrintedNumber | None] = {
        key: number(match[1], factor) for key, (pattern, factor) in _LINES.items() if (match := pattern.search(below))
    }
    rows = list(_ROW.finditer(above))
    if "bw" not in found and rows:
        found |= {"bw": number(rows[-1]["bw"], _MIB), "lat_mean": number(rows[-1]["lat"])}
    return make_point(parameters, figures(**found))
