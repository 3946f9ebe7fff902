"""Reads the extended table of ``iostat -x`` into a Run: its kB is of 1024 bytes, and its waits are milliseconds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "iostat-text"
_HEADS = re.compile(r"^[ \t]{0,20}Device:?[ \t]{1,40}(?=[^\n]{0,300}\br/s\b)(?=[^\n]{0,300}\bw/s\b)[^\n]{1,300}$", re.M)
_WAYS = (("read", "r"), ("write", "w"))
_BYTES = (("kB/s", 1024.0), ("MB/s", float(1 << 20)), ("sec/s", 512.0))


def recognizes(text: str) -> bool:
    """Whether this has the heads of iostat -x."""
    return _HEADS.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    tables = list(_HEADS.finditer(text))
    points = []
    for at, match in enumerate(tables):
        end = tables[at + 1].start() if at + 1 < len(tables) else len(text)
        interval: Parameters = {"interval": at + 1} if len(tables) > 1 else {}
        points += list(_read_rows(match[0].split(), text[match.end() : end], interval))
    table = printed.experiment("storage.iostat", "iostat's devices", STORAGE_BLOCKS, "row", points)
    return printed.run(NAME, "iostat", text, name, [table])


def _read_rows(heads: list[str], rows: str, interval: Parameters) -> Iterator[Measurement]:
    """The reads and the writes of each device below the heads."""
    for line in rows.lstrip("\n").splitlines():
        cells = line.split()
        if len(cells) != len(heads):
            return
        named = dict(zip(heads, cells, strict=True))
        for rw, letter in _WAYS:
            bandwidth = next(
                (number(named[letter + unit], factor) for unit, factor in _BYTES if letter + unit in named), None
            )
            rate, wait = number(named.get(f"{letter}/s")), number(named.get(f"{letter}_await"), 1e-3)
            if rate is None or rate.value <= 0:
                continue
            found = figures(iops=rate, bw=bandwidth, lat=wait if wait and wait.value else None)
            made = make_point({"device": cells[0][:60], "rw": rw, **interval}, found)
            if made is not None:
                yield made
