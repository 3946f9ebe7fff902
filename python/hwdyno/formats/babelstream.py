"""Reads BabelStream's text and CSV into a Run: a point for each of its five loops, on a GPU or on processors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.axes import FIELD_LOOPS
from hwdyno.model.kernels import GPU_BANDWIDTH, MEMORY_BANDWIDTH
from hwdyno.model.point_details import Claim
from hwdyno.model.units import printed_error, printed_number
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "babelstream"
_HEADS = re.compile(r"^\s*Function\s+M(i?)Bytes/sec\s+Min \(sec\)\s+Max\s+Average\s*$", re.M)
_ROW = re.compile(
    r"^\s*(Copy|Mul|Add|Triad|Dot)\s+(\d[\d.]{0,20})\s+(\d[\d.]{0,12})\s+\d[\d.]{0,12}\s+\d[\d.]{0,12}\s*$", re.M
)
_CSV = re.compile(
    r"^function,num_times,n_elements,sizeof,max_m(i?)bytes_per_sec,min_runtime,max_runtime,avg_runtime", re.M
)
_CSV_ROW = re.compile(
    r"^(Copy|Mul|Add|Triad|Dot),(\d{1,9}),(\d{1,15}),(\d{1,2}),(\d[\d.e+]{0,20}),(\d[\d.e+-]{0,20})(?:,[\d.e+-]{1,20}){2}",
    re.M,
)
_DEVICE = re.compile(r"^Using \w+ device (.{1,80}?)\s*$", re.M)
_ARRAY = re.compile(r"^Array size: (\d[\d.]{0,20}) M(i?)B", re.M)
_VERSION = re.compile(r"^Version: ([\w.]{1,20})", re.M)
_TIMES = re.compile(r"^Running kernels (\d{1,9}) times", re.M)
_NAMES = {"mul": "scale"}
"""STREAM's name of a loop, where it has another."""


def recognizes(text: str) -> bool:
    """Whether this looks like BabelStream's output."""
    return _HEADS.search(text) is not None or _CSV.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it; of a device that it names the GPU's memory, else that of the processors.

    Raises ``UserError`` in one line.
    """
    points = [*_of_text(text), *_of_csv(text)]
    device, version = _DEVICE.search(text), _VERSION.search(text)
    fixed: Parameters = {"device": device[1]} if device else {}
    resource, kernel = ("gpu", GPU_BANDWIDTH) if device else ("memory", MEMORY_BANDWIDTH)
    table = printed.experiment(f"{resource}.babelstream", "BabelStream results", kernel, "operation", points, **fixed)
    return printed.run(NAME, "BabelStream", text, name, [table], version[1] if version else "")


def _of_text(text: str) -> Iterator[Measurement]:
    heads = _HEADS.search(text)
    if heads is None:
        return
    array, times = _ARRAY.search(text), _TIMES.search(text)
    size = printed_number(array[1]) if array else None
    whole = size * (2.0**20 if array and array[2] else 1e6) if size else None
    error = printed_error(array[1]) if array else 0.0
    for row in _ROW.finditer(text, heads.end()):
        yield from _point(
            row[1], row[2], row[3], whole, 2.0**20 if heads[1] else 1e6, times[1] if times else "1", error
        )


def _of_csv(text: str) -> Iterator[Measurement]:
    heads = _CSV.search(text)
    for row in _CSV_ROW.finditer(text, heads.end()) if heads else ():
        whole = float(int(row[3]) * int(row[4]))
        yield from _point(row[1], row[5], row[6], whole, 2.0**20 if heads and heads[1] else 1e6, row[2], 0.0)


def _point(
    loop: str, rate: str, least: str, array_bytes: float | None, unit: float, times: str, error: float
) -> Iterator[Measurement]:
    operation, arrays = loop.lower(), FIELD_LOOPS[loop.lower()].arrays
    made = make_point({"operation": _NAMES.get(operation, operation)}, figures(bw=number(rate, unit)))
    if made is None:
        return
    seconds, claims = printed_number(least), made.claims
    if seconds and array_bytes:
        formula = f"{arrays} arrays of {array_bytes:.4g} B / the least time"
        follows, total = arrays * array_bytes / seconds, error + printed_error(rate) + printed_error(least)
        claims = (*claims, Claim("best rate", made.throughput.value, follows, "bytes/s", formula, total))
    yield replace(made, claims=claims, repeats=max(1, int(times)))
