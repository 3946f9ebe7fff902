"""Finds the quantities in a text: numbers with their units, also in prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hwdyno.formats.cell import PrintedNumber, number_in

_STARTS = re.compile(r"(?<![\w.,'])[~≈]?\d")
LONGEST = 60
"""Characters of a quantity."""
_NUMBER_AND_UNIT = re.compile(
    r"[~≈]?\d[\d.,']*(?:[eE][-+]?\d{1,3})?\+?[ \t]{0,4}(?:(?:thousand|million|billion) )?[kKMG]? ?"
    r"(?:[A-Za-zµμ%]+(?:[ -]?(?:bytes?|bits?|BYTES?|BITS?))?(?: ?/ ?[A-Za-z]+| per [a-z]+)?)"
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


def find_quantities(text: str) -> Iterator[Quantity]:
    """Each quantity of a text, from left to right."""
    at = 0
    while start := _STARTS.search(text, at):
        at = start.end()
        if found := _NUMBER_AND_UNIT.match(text[start.start() : start.start() + LONGEST]):
            number = number_in(found[0])
            if number is not None and number.unit is not None and number.unit.kind != "short":
                at = start.start() + found.end()
                yield Quantity(number, start.start(), at)
