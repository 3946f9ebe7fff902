"""Which lines of a text have figures that no Run read from it has."""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hwdyno.formats.cell import has_several_figures
from hwdyno.formats.printed import NOT_READ
from hwdyno.model.point_details import Note
from hwdyno.model.quantities import find_quantities
from hwdyno.model.unit_readings import unit_readings
from hwdyno.model.units import BINARY, DECIMAL, plural, printed_number
from hwdyno.model.words import Run

LONGEST_LINE = 400
_MANY_DIGITS = 4
"""Digits that two figures do not share by chance."""
MAX_QUANTITIES = 4_000
"""Quantities that are looked up; of a longer text the count is a least one."""
_SETTINGS = {"", "bytes", "transfers/s", "cycles"}
"""Kinds of units that rather belong to a setting than to a result."""
_RATES = {"bytes/s", "operations/s", "FLOP/s"}
_ROUNDING = 6e-4
"""How far a reader's figure may be from the printed one, as a share: three digits and a half."""
_FACTORS = sorted({*DECIMAL.values(), *BINARY.values(), 1 / 8, 125.0, 125e3, 125e6, 125e9, 60} - {1})
"""What a reader may take a unit for that people write in several ways; a number alone may be a count."""
_UNIT_AHEAD = re.compile(r"\( *((?:[num]?sec|[nuµm]s)|[kKMG]i?B/s)\)")
_DOCUMENT = re.compile(r"\s*(?:\{\s*\"|\[\s*[{\"]|idx\tthread\top\t|Stage,Op-Name,Op-Type,)")
_NOTHING_NEW = re.compile(
    r"\bresolution\b|1,000,000 bytes/s|^\s+(?:bw +\(|iops +:|lat \([num]?sec\) +:|submit|complete|latency +:)", re.I
)
"""IOzone's clock, CrystalDiskMark's words on its units, fio's other statistics of the rates and times that are read."""
_PERCENTILE = re.compile(r"^\s{0,40}\d{2}(?:\.\d{1,3})?%(?=\s{1,40}[\d.]{1,20}\s*$)")
"""A row's name, before its figure."""
_PLAIN = re.compile(r"(?<![\w.])\d{1,20}(?:\.\d{1,12})?(?![\w.%])")


def note_unread(text: str, runs: Sequence[Run]) -> list[Run]:
    """The Runs read from a text, the first with a note that counts the lines whose figures are in none of them."""
    lines, is_whole = _list_unread(text, runs)
    if not lines:
        return list(runs)
    example = next((line for line, is_result in lines if is_result), lines[0][0])
    more = "" if is_whole else " or more"
    note = Note(NOT_READ, f"{plural(len(lines), 'line')}{more}, for example '{example[:80]}'")
    return [replace(runs[0], notes=(*runs[0].notes, note)), *runs[1:]]


def _list_unread(text: str, runs: Sequence[Run]) -> tuple[list[tuple[str, bool]], bool]:
    """Each line, with whether a unit in it is of a result; and whether the whole text was searched."""
    found: list[tuple[str, bool]] = []
    if _DOCUMENT.match(text):
        return found, True  # A document's figures have names.
    results = (result for run in runs for result in run.experiments)
    known = sorted({abs(number) for result in results for number in _numbers((result.points, result.fixed))})
    tried = 0
    for line in text.splitlines():
        figures = [] if _NOTHING_NEW.search(line) else list(_figures(line[:LONGEST_LINE]))
        tried += len(figures)
        if tried > MAX_QUANTITIES:
            return found, False
        # A known time beside a rate does not make the rate known.
        telling = [values for kind, values in figures if kind in {*_RATES, ""}]
        candidates = telling if any(kind in _RATES for kind, _ in figures) else [values for _, values in figures]
        is_known = any(_has(known, value) for values in candidates for value in values)
        # Of several times in a cell, those beside a known rate would be lost.
        if is_known and any(has_several_figures(cell.strip()) for cell in line.split("|")):
            times = (values for kind, values in figures if kind == "s")
            is_known = any(_has(known, value) for values in times for value in values)
        if figures and not is_known:
            found.append((" ".join(line.split()), any(kind not in _SETTINGS for kind, _ in figures)))
    return found, True


def _figures(line: str) -> Iterator[tuple[str, list[float]]]:
    """What each figure of a line may be in a Run, by the kind of its unit."""
    if head := _UNIT_AHEAD.search(line):
        (unit, *_), _ = unit_readings(head[1])
        numbers = [float(number) for number in _PLAIN.findall(line[head.end() :])]
        quantities = [(number * unit.factor, number, unit.kind) for number in numbers]
    else:
        line = _PERCENTILE.sub("", line)
        quantities = [
            (found.base, found.number.value, found.kind)
            for found in find_quantities(line, with_ranges=True)
            if found.kind
        ]
    for base, printed, kind in quantities:
        yield kind, [base, base * 1e9] if kind == "s" else [base, *(printed * factor for factor in _FACTORS)]
    if quantities:
        # A table's row has its units in its head.
        yield "", [float(number) for number in _PLAIN.findall(line) if len(number.strip("0.")) >= _MANY_DIGITS]


def _has(known: Sequence[float], value: float) -> bool:
    at = bisect_left(known, value * (1 - _ROUNDING))
    return value == 0 or (at < len(known) and known[at] <= value * (1 + _ROUNDING))


def _numbers(value: object) -> Iterator[float]:
    """Every number in words of a Run."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, dict):
        yield from (number for entry in value.values() for number in _numbers(entry))
    elif isinstance(value, list | tuple):
        yield from (number for entry in value for number in _numbers(entry))
    elif dataclasses.is_dataclass(value):
        yield from (number for entry in dataclasses.fields(value) for number in _numbers(getattr(value, entry.name)))
    elif isinstance(value, str) and (number := printed_number(value)) is not None:
        yield number
