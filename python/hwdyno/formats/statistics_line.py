"""Finds a distribution of times in one line of named statistics: ``wait: avg=1.5ms min=1ms p(90)=2ms``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hwdyno.model.quantities import PrintedNumber, Quantity

MIN_STATISTICS = 3
"""Statistics that make a line of times a distribution."""
_NAME = re.compile(
    r"(?i)(?<![\w.])(?:(?P<word>avg|average|mean|med|median|min|minimum|max|maximum|std ?dev|mdev)|"
    r"p(?:ercentile)?\(?(?P<share>\d{2})(?:\.(?P<part>\d{1,3}))?%?\)?)(?:\s{0,3}[=:]\s{0,8}|\s)$"
)
_WORDS = {
    "avg": "mean", "average": "mean", "mean": "mean", "med": "p50", "median": "p50", "stddev": "stdev",
    "std dev": "stdev", "mdev": "stdev", "min": "min", "minimum": "min", "max": "max", "maximum": "max",
}  # fmt: skip
_LONGEST_NAME = 24
_SUM = re.compile(r"(?i)\b(?:sum|total|count)\s{0,3}[=:]\s{0,8}$")


def find_statistics(line: str, quantities: Sequence[Quantity]) -> Mapping[str, PrintedNumber]:
    """The times of a line by the statistic right before each; empty where it has no mean or any is named otherwise."""
    found: dict[str, PrintedNumber] = {}
    quantities = [of for of in quantities if of.kind != "1" or not line[: of.start].endswith("percentile(")]
    for quantity in quantities if len(quantities) >= MIN_STATISTICS else ():
        if _SUM.search(line[max(0, quantity.start - _LONGEST_NAME) : quantity.start]):
            continue
        match = _NAME.search(line[max(0, quantity.start - _LONGEST_NAME) : quantity.start])
        if match is None or quantity.kind != "s":
            return {}
        statistic = _WORDS[match["word"].lower()] if match["word"] else f"p{match['share']}{match['part'] or ''}"
        number = PrintedNumber(quantity.base, quantity.number.rounding, quantity.number.unit)
        found.setdefault(f"lat_{statistic}", number)
    return found if "lat_mean" in found and found["lat_mean"].value > 0 else {}
