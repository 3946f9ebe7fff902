"""Finds the quantities in a text: numbers with their units, also in prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hwdyno.model.unit_readings import Unit, unit_readings
from hwdyno.model.units import BINARY, DECIMAL, printed_number, split_number


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number as a table prints it. A range and a bound (``1-2 ms``, ``< 5``) are no numbers."""

    value: float
    rounding: float
    """Half a unit in its last printed digit, as a share of it; 0 for an exact zero."""
    unit: Unit | None = None
    """The unit in the cell itself."""


_UNIT = re.compile(
    r"[A-Za-z%/]+(?:[ -]?(?:bytes?|bits?))?(?: ?/ ?s(?:ec(?:ond)?s?)?| per s(?:ec(?:ond)?s?)?)?(?![A-Za-z])", re.I
)
_NAMED_FACTOR = re.compile(r"(thousand|million|billion|trillion)\b\s*", re.I)
_FACTORS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_SPREAD = re.compile(r"(?:±|\+/-)\s{0,2}\d[\d.,]{0,20}\s*")
"""What a mean varies by, between it and its unit."""
_WAY = re.compile(r"(?:read|write) (?=iops\b)", re.I)
_CLOCK = re.compile(r"(\d{1,4})m(\d{1,2}(?:[.,]\d{1,9})?)s(?![A-Za-z\d])")
"""``3m30.919s``, as a shell's ``time`` prints it."""
_UNIT_ASIDE = re.compile(r"\(([A-Za-z]{1,12}/s(?:ec)?)\)\s*$")
"""A rate's unit in brackets behind its number: ``250.5 (op/s)``."""
_PERCENTILE_NAME = re.compile(r"(?i)%-?t?ile\b|th (?:percentile|pct)\b")
"""What makes the number before it a percentile's name: ``99.9%ile``."""
_RANGE = re.compile(r"(?:[A-Za-z%]{1,6}(?:/s)?\s+|[kKMG])?(?:[-–…]|to\b|\.\.)\s*\d")


def number_in(cell: str) -> PrintedNumber | None:
    """The number that a cell begins with; none for words, empty cells and what is out of range."""
    if clock := _CLOCK.match(cell):
        seconds = 60 * float(clock[1]) + float(clock[2].replace(",", "."))
        return PrintedNumber(seconds, 0.0, Unit("s", 1.0, "s"))
    parts = split_number(cell)
    if parts is None or _PERCENTILE_NAME.match(parts[1]):
        return None
    plain, after = parts[0], _SPREAD.sub("", parts[1], 1) if parts[1][:1] in {"±", "+"} else parts[1]
    value = printed_number(plain)
    if value is None or _RANGE.match(after):
        return None
    mantissa, _, exponent = plain.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit_last = 10.0 ** (-decimals + int(exponent or 0)) if abs(int(exponent or 0)) < 30 else 0.0
    if not decimals and not exponent:
        # From three zeros on, an integer was probably rounded there: 138000 is 138 k.
        zeros = len(mantissa) - len(mantissa.rstrip("0"))
        figures = len(mantissa.lstrip("+-")) - zeros
        unit_last = 10.0 ** (zeros if zeros >= 3 and figures >= 2 else 0)
    scale, unit = 1.0, None
    if named := _NAMED_FACTOR.match(after):
        scale, after = _FACTORS[named[1].lower()], after[named.end() :]
    if (aside := _UNIT_ASIDE.match(after)) and unit_readings(aside[1])[0]:
        after = aside[1]
    after = _WAY.sub("", after, 1) if after[:1] in "rwRW" else after
    if word := _UNIT.match(after):
        short = re.fullmatch(r"([kKMG])", word[0])
        counted = unit_readings(after[1:])[0] if short else ()
        if short and counted and counted[0].kind == "operations/s":
            scale, unit = scale * DECIMAL[short[1].lower()], counted[0]  # 95 k IOPS
        elif short:
            scale *= DECIMAL[short[1].lower()]
            unit = Unit("short", BINARY[short[1].lower()], short[1])
        else:
            readings, _ = unit_readings(word[0])
            unit = readings[0] if readings else None
            if len(readings) > 1:
                unit = replace(readings[1], kind="bits or bytes")
    rounding = 0.5 * unit_last / abs(value) if value else 0.0
    return PrintedNumber(value * scale, rounding, unit)


_STARTS = re.compile(r"(?<![\w.,'^])(?<!\w/)[~≈]?\d")
_RANGE_BEFORE = re.compile(
    r"\d[kKMG]?(?: {0,3}[–—] {0,3}|[~…-]|\.\.| to )$|"
    r"(?i:between|anywhere from|rang\w+ from)[^.;]{1,20}(?:and|to) $"
)
_RANGE_BEHIND = re.compile(r"(?:[–—~…-]|\.\.)[~≈]?\d|(?<=[\dkKMG]) to \d")
_RANGE_WORDS = re.compile(r"(?i)(?:between|anywhere from|rang\w+ from) $")
"""A range's two ends are no figure: ``18.8~20.6 it/s``, ``5k-6k``, ``anywhere from 13 MB/s to 105 MB/s``."""
LONGEST = 60
"""Characters of a quantity."""
_NUMBER_AND_UNIT = re.compile(
    r"[~≈]?\d[\d.,']*(?<!,)(?:[eE][-+]?\d{1,3})?\+?[ \t]{0,4}"
    r"(?:(?:±|\+/-)[ \t]{0,2}\d[\d.,]{0,20}[ \t]{0,4})?"
    r"(?:(?:thousand|million|billion) )?[kKMG]? ?(?:(?i:read|write) (?=(?i:iops)\b))?"
    r"(?:[A-Za-zµμ%]+(?:[ -]?(?:bytes?|bits?|BYTES?|BITS?))?(?: ?/ ?[A-Za-z]+(?:/(?i:gpu|device|card|chip))?|"
    r" per [a-z]+)?|"
    r"\([A-Za-z]{1,12}/s(?:ec)?\))"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, and its place in its text."""

    number: PrintedNumber
    start: int
    end: int

    @property
    def kind(self) -> str:
        """The kind of its unit, where its letters leave one: ``bytes/s``, ``operations/s``, ``s`` …"""
        return self.number.unit.kind if self.number.unit else ""

    @property
    def base(self) -> float:
        """Its value in the base unit of its kind."""
        return self.number.value * (self.number.unit.factor if self.number.unit else 1.0)


def find_quantities(text: str, *, with_ranges: bool = False) -> Iterator[Quantity]:
    """Each quantity of a text, from left to right; without the ends of ranges unless these are wanted."""
    at = 0
    while start := _STARTS.search(text, at):
        at = start.end()
        quantity = text[start.start() : start.start() + LONGEST]
        if found := _CLOCK.match(quantity) or _NUMBER_AND_UNIT.match(quantity):
            number = number_in(found[0])
            if number is not None and number.unit is not None and number.unit.kind != "short":
                at = start.start() + found.end()
                if not with_ranges and _is_of_range(text, start.start(), at):
                    continue
                yield Quantity(number, start.start(), at)


def _is_of_range(text: str, start: int, end: int) -> bool:
    """Whether a quantity is an end of a range."""
    before = text[max(0, start - 40) : start]
    return (
        _RANGE_BEFORE.search(before) is not None
        or _RANGE_WORDS.search(before) is not None
        or _RANGE_BEHIND.match(text, end) is not None
    )
