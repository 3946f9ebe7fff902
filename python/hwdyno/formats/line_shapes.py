"""Shapes of single lines: intervals and means as one figure, names listed before figures, and heads right above."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hwdyno.model.quantities import Quantity

_VALUE = r"\d[\d.,]{0,20} [A-Za-zµμ/]{1,10}"
_INTERVAL = re.compile(rf"\[{_VALUE} ({_VALUE}) {_VALUE}\]")
"""``[375.6 MiB/s 376.0 MiB/s 376.4 MiB/s]``: an estimate within its interval."""
_MEAN = re.compile(r"(?<![\w.])\d[\d.,]{0,20} \(avg: {0,8}(\d[\d.,]{0,20})\) (?=[a-zA-Z]{1,12}/s)")
"""``3549 (avg:  3604) ops/sec``: the mean of what is counted, before its unit."""
_LISTED = re.compile(
    r"\[(?P<of>[\w %-]{1,40})\],\s{0,4}(?P<head>[\w .]{1,60}\([\w/]{1,10}\)),\s{0,4}"
    r"(?P<figure>\d[\d.]{0,30}(?:E-?\d{1,2})?)"
)
"""``[READ], AverageLatency(us), 1657.3``: what it is of, the figure's name with its unit, and the figure."""
_UNIT_IN_NAME = re.compile(r"\b([A-Za-z]\w{0,20})\(([kKMG]i?B/s)\)=(\d[\d.]{0,20})(?![\w.])")
"""``BW(KiB/s)=51159``."""
_OPTION = r"[a-z]\w{0,30}=[\w./-]{1,40}"
_SETTINGS = re.compile(rf"\s{{0,40}}{_OPTION}(?:[ \t]{{1,4}}{_OPTION}){{1,20}}\s{{0,40}}")
_SPREAD = re.compile(r"(?<=/s) {1,3}(?:±|\+/-) {0,2}\d[\d.]{0,8} ?%")
"""``1.87MB/s ± 8%``."""
_DOING = re.compile(r"\s{1,4}(read|writ)(?:ing|es?|s)?\b", re.I)
_JOINED = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"[A-Za-z][\w./%()-]{0,30}")


@dataclass(frozen=True, slots=True)
class ListedFigure:
    """A figure with its name, and what it is of."""

    subject: str
    head: str
    figure: str


def take_estimates(line: str) -> str:
    """The line with the estimate alone of each interval, and the mean of what is printed beside its last value."""
    line = _UNIT_IN_NAME.sub(r"\1=\3 \2", line) if "/s)=" in line else line
    line = _SPREAD.sub("", line) if "±" in line or "+/-" in line else line
    return _MEAN.sub(r"\1 ", _INTERVAL.sub(r"\1", line)) if "[" in line or "(avg" in line else line


def is_of_settings(line: str) -> bool:
    """Whether a line has options of a test and nothing else: ``blocksize=4K iodepth=64 rw=randread``."""
    return line.count("=") > 1 and _SETTINGS.fullmatch(line) is not None


def ways_behind(line: str, quantities: Sequence[Quantity]) -> list[str]:
    """What is done at each rate, ``read`` or ``write``, by the word behind it; empty unless all differ."""
    matches = [_DOING.match(line, quantity.end) for quantity in quantities]
    found = [{"read": "read", "writ": "write"}[match[1].lower()] for match in matches if match]
    return found if len(set(found)) == len(found) == len(quantities) else []


def read_listed(line: str) -> ListedFigure | None:
    """The figure of a line of comma-separated names; none for other lines, and for a variance."""
    match = _LISTED.fullmatch(line.strip())
    if match is None or "variance" in match["head"].lower():
        return None
    return ListedFigure(match["of"], _JOINED.sub(" ", match["head"]), match["figure"])


def heads_above(heads: str, quantities: Sequence[Quantity]) -> list[str]:
    """The word of a line of heads that is right above each of several figures; empty unless each has another."""
    words = [(match.start(), match.end(), match[0]) for match in _WORD.finditer(heads)]
    found = []
    for quantity in quantities:
        above = [word for start, end, word in words if start < quantity.end and quantity.start < end]
        if len(above) != 1:
            return []
        found.append(above[0].rstrip("."))
    return found if len(set(found)) == len(found) else []
