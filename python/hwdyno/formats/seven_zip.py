"""Reads the text of 7-Zip's benchmark (``7z b``) into a Run: KiB/s of data before it is compressed, by dictionary."""

from __future__ import annotations

import re
from itertools import pairwise

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "7zip-text"
_HEADS = re.compile(r"^\s{0,40}Dict\s{1,20}Speed\s{1,20}Usage\s{1,20}R/U\s{1,20}Rating\s{1,20}\|", re.M)
_ROW = re.compile(
    r"^[ \t]{0,40}(\d\d):\s{1,20}(\d{1,9})\s{1,20}(\d{1,6})\s{1,20}\d{1,9}\s{1,20}(\d{1,9})\s{1,9}\|"
    r"\s{1,20}(\d{1,9})\s{1,20}(\d{1,6})\s{1,20}\d{1,9}\s{1,20}(\d{1,9})[ \t]*$",
    re.M,
)
_THREADS = re.compile(r"# Benchmark threads:\s{1,20}(\d{1,5})")
_VERSION = re.compile(r"^\s{0,40}7-Zip [^\n:]{0,30}?(\d{1,2}\.\d\d)", re.M)


def recognizes(text: str) -> bool:
    """Whether this looks like 7-Zip's benchmark."""
    return _HEADS.search(text) is not None and _ROW.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    starts = [match.start() for match in _HEADS.finditer(text)]
    for begin, (start, end) in zip([0, *starts], pairwise([*starts, len(text)]), strict=False):
        threads = _THREADS.findall(text, begin, start)
        for row in _ROW.finditer(text, start, end):
            for operation, at in (("compress", 2), ("decompress", 5)):
                rating = number(row[at + 2])
                given: Parameters = {"operation": operation, "dictionary": 1 << int(row[1])}
                if threads:
                    given["threads"] = int(threads[-1])
                found = figures(bw=number(row[at], 1024.0))
                made = make_point(given, found, mips=rating.value if rating else None)
                points += [made] if made else []
    version = _VERSION.search(text)
    table = printed.experiment("compute.7zip", "7-Zip benchmark results", "table", "dictionary", points)
    return printed.run(NAME, "7-Zip", text, name, [table], version[1] if version else "")
