"""Reads the output of STREAM 5 (also inside hpcc's) into a Run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hwdyno.formats import printed
from hwdyno.model.axes import FIELD_LOOPS
from hwdyno.model.kernels import MEMORY_BANDWIDTH
from hwdyno.model.point_details import Claim
from hwdyno.model.units import printed_error
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "stream-text"
LOOPS = ("copy", "scale", "add", "triad")
"""STREAM's rows, which are named as our operations are."""
_ROW = re.compile(
    rf"^\s*({'|'.join(LOOPS).title()}):\s+([0-9.eE+]+)\s+([0-9.eE+-]+)\s+([0-9.eE+-]+)\s+([0-9.eE+-]+)", re.M
)
_THREADS = re.compile(r"Number of Threads (?:requested|counted) = (\d{1,6})")
_SIZE = re.compile(r"Array size = (\d{1,15})")
# Up to 5.9 the column is "Rate (MB/s)", which is the best rate too.
_HEADS = re.compile(r"Function\s+(?:Best )?Rate \(?MB/s\)?")
_ELEMENT = re.compile(r"This system uses (\d{1,2}) bytes per")
_TIMES = re.compile(r"executed (\d{1,9}) times")
# What an output begins with; versions differ in which they print first.
_BEGINS = re.compile(r"^(?:-{10,}\s*\n)?\s*(?:STREAM version|This system uses|Number of Threads requested)", re.M)
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
    """Make a Run of it, of every output that it holds. Raises ``UserError`` in one line."""
    outputs = list(_outputs(text))
    points = [point for output in outputs for point in _points(output)]
    shared: Parameters = {"pattern": "sequential"}
    for key in ("threads", "working_set"):
        values = {point.parameters.get(key) for point in points}
        if len(values) == 1 and None not in values:
            shared[key] = next(iter(values))
    version = _VERSION.search(text)
    table = printed.experiment("memory.stream", "STREAM results", MEMORY_BANDWIDTH, "threads", points, **shared)
    return printed.run(NAME, "STREAM", text, name, [table], version[1] if version else "")


def _outputs(text: str) -> Iterator[str]:
    """The text of each output: what is printed before its heads, and its rows."""
    heads = [match.start() for match in _HEADS.finditer(text)]
    begin = 0
    for at, _ in enumerate(heads):
        rows = [match.end() for match in _ROW.finditer(text, heads[at], *heads[at + 1 : at + 2])]
        if rows:
            # The verdict is below the rows, and before what the next output prints first.
            next_one = _BEGINS.search(text, rows[-1])
            end = next_one.start() if next_one else heads[at + 1] if at + 1 < len(heads) else len(text)
            yield text[begin:end]
            begin = end


def _points(text: str) -> Iterator[Measurement]:
    threads, size = _THREADS.search(text), _SIZE.search(text)
    fixed: Parameters = {"threads": int(threads[1]) if threads else 1, "pattern": "sequential"}
    element = _ELEMENT.search(text)
    array_bytes = (int(size[1]) if size else 0) * (int(element[1]) if element else DOUBLE_BYTES)
    if size:
        whole = array_bytes * ARRAYS
        fixed["working_set"] = whole // max(1, int(threads[1]) if threads else 1)
    verdict = "failed" if _FAILED in text else "passed"
    times = _TIMES.search(text)
    about = {"array_elements": int(size[1]), "array_bytes": array_bytes} if size else {}
    claims = {match[1].lower(): _claims(match, array_bytes) for match in _ROW.finditer(text)}
    for operation, rate in rates(text).items():
        yield replace(
            printed.point({"operation": operation, **fixed}, rate, "bytes/s", verification=verdict, **about),
            repeats=max(1, int(times[1])) if times else 1,
            claims=claims[operation],
        )


def _claims(row: re.Match[str], array_bytes: int) -> tuple[Claim, ...]:
    """The best rate, and the same by the bytes of the arrays over the least time."""
    stated, seconds, arrays = printed.figure(row[2]), printed.figure(row[4]), FIELD_LOOPS[row[1].lower()].arrays
    if not stated or not seconds or not array_bytes:
        return ()
    error = printed_error(row[2]) + printed_error(row[4])
    formula = f"{arrays} arrays of {array_bytes} B / the least time"
    return (Claim("best rate", stated * 1e6, arrays * array_bytes / seconds, "bytes/s", formula, error),)
