"""Reads the output of STREAM 5 (also inside hpcc's) into a Run."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.words import Measurement, Parameters, Run

NAME = "stream-text"
_ROW = re.compile(r"^\s*(Copy|Scale|Add|Triad):\s+([0-9.eE+]+)\s+([0-9.eE+-]+)\s+([0-9.eE+-]+)\s+([0-9.eE+-]+)", re.M)
_THREADS = re.compile(r"Number of Threads (?:requested|counted) = (\d{1,6})")
_SIZE = re.compile(r"Array size = (\d{1,15})")
# Up to 5.9 the column is "Rate (MB/s)", which is the best rate too.
_HEADS = re.compile(r"Function\s+(?:Best )?Rate \(?MB/s\)?")
_ELEMENT = re.compile(r"This system uses (\d{1,2}) bytes per")
_VERSION = re.compile(r"STREAM version \$Revision: ([\d.]+)")
# By STREAM's rules, a result that failed validation does not count.
_FAILED = "Failed Validation"
ARRAYS = 3
DOUBLE_BYTES = 8


def recognizes(text: str) -> bool:
    """Whether this looks like STREAM's output."""
    return _HEADS.search(text) is not None and _ROW.search(text) is not None


def rates(text: str) -> dict[str, float]:
    """The best rate of each operation, bytes/s (STREAM's MB are 10^6)."""
    found = ((match[1].lower(), printed.figure(match[2])) for match in _ROW.finditer(text))
    return {name: rate * 1e6 for name, rate in found if rate}


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    threads, size, version = (pattern.search(text) for pattern in (_THREADS, _SIZE, _VERSION))
    fixed: Parameters = {"threads": int(threads[1]) if threads else 1, "pattern": "sequential"}
    if size:
        element = _ELEMENT.search(text)
        whole = int(size[1]) * ARRAYS * (int(element[1]) if element else DOUBLE_BYTES)
        fixed["working_set"] = whole // max(1, int(threads[1]) if threads else 1)
    verdict = "failed" if _FAILED in text else "passed"
    points: list[Measurement] = [
        printed.point({"operation": operation, **fixed}, rate, "bytes/s", verification=verdict)
        for operation, rate in rates(text).items()
    ]
    table = printed.experiment("memory.stream", "STREAM results", "memory_bandwidth", "threads", points, **fixed)
    return printed.run(NAME, "STREAM", text, name, [table], version[1] if version else "")
