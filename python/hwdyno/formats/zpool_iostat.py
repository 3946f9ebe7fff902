"""Reads ``zpool iostat`` into a Run: its K, M and G are of 1024, and each row is of a pool, a vdev or a disk."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.quantities import PrintedNumber, number_in
from hwdyno.model.units import BINARY
from hwdyno.model.words import Measurement, Run

NAME = "zpool-iostat-text"
_HEADS = re.compile(
    r"^[ \t]{0,120}capacity[ \t]{1,60}operations[ \t]{1,60}bandwidth(?P<more>[^\n]{0,200})\n"
    r"[ \t]{0,60}(?:pool|vdev)?[ \t]{1,120}alloc[ \t]{1,20}free[ \t]{1,20}read[ \t]{1,20}write[ \t]{1,20}"
    r"read[ \t]{1,20}write[^\n]{0,200}$",
    re.M,
)
_CELL = re.compile(r"(\d[\d.]{0,12})([KMGT]?)")
_COLUMNS = 7
"""A name, what is allocated and free, and the reads and writes of two figures."""


def recognizes(text: str) -> bool:
    """Whether this has the heads of zpool iostat."""
    return _HEADS.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    tables = list(_HEADS.finditer(text))
    points: list[Measurement] = []
    for at, match in enumerate(tables):
        end = tables[at + 1].start() if at + 1 < len(tables) else len(text)
        points += list(_read_rows(text[match.end() : end], "total_wait" in match["more"]))
    table = printed.experiment("storage.zpool", "zpool iostat", STORAGE_BLOCKS, "row", points)
    return printed.run(NAME, "zpool iostat", text, name, [table])


def _read_rows(rows: str, has_waits: bool) -> Iterator[Measurement]:
    """The reads and the writes of each row that had any; a row of the same name is another interval."""
    counts: dict[str, int] = {}
    for line in rows.splitlines():
        cells = line.split()
        if len(cells) < _COLUMNS or line.lstrip().startswith("-"):
            continue
        counts[cells[0]] = counts.get(cells[0], 0) + 1
        for at, rw in enumerate(("read", "write")):
            rate, bandwidth = _in_1024(cells[3 + at]), _in_1024(cells[5 + at])
            wait = number_in(cells[_COLUMNS + at]) if has_waits and len(cells) > _COLUMNS + at else None
            if rate is None or bandwidth is None or bandwidth.value <= 0:
                continue
            lat = None
            if wait is not None and wait.unit is not None and wait.unit.kind == "s":
                lat = PrintedNumber(wait.value * wait.unit.factor, wait.rounding)
            made = make_point(
                {"device": cells[0][:60], "rw": rw, "interval": counts[cells[0]]},
                figures(iops=rate if rate.value else None, bw=bandwidth, lat=lat),
            )
            if made is not None:
                yield made


def _in_1024(cell: str) -> PrintedNumber | None:
    match = _CELL.fullmatch(cell)
    found = number_in(match[1]) if match else None
    if match is None or found is None:
        return None
    return PrintedNumber(found.value * BINARY[match[2].lower()], found.rounding)
