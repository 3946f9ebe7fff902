"""What a chart shows, as plain values: two axes, the marks between them, and the words around them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

PicturePoint = tuple[float, float]
Tip = tuple[tuple[str, str], ...]
"""What a mark says of itself: names with their values."""

CEILING, NEUTRAL = -1, -2
"""Series of a mark that belongs to none: a bound, or plain grey."""

WIDTH = 460.0
"""Units of every picture's width: text of 12 units is read in two columns on a desk, and alone on a phone."""
WIDEST = 1.6
"""Times the greatest value, an interval may lengthen an axis: past that its end is outside."""
HEIGHT = 210.0
"""Units of the space between the axes, unless a picture says otherwise."""


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """An axis: what it spans, and where its ticks are.

    ``names`` has one place a name, from 0 on, the first on top.
    """

    title: str
    low: float
    high: float
    kind: Literal["linear", "log", "symlog", "names"] = "linear"
    ticks: tuple[tuple[float, str], ...] = ()

    def share(self, value: float) -> float:
        """The place of a value along the axis: 0 at its low end, 1 at its high end; never beyond."""
        low, high, at = (self._plain(amount) for amount in (self.low, self.high, value))
        return min(1.0, max(0.0, (at - low) / (high - low))) if high > low else 0.5

    def spans(self, value: float) -> bool:
        """Whether a value is between the axis's ends."""
        return self.low <= value <= self.high

    def _plain(self, value: float) -> float:
        if self.kind == "log":
            return math.log(max(value, self.low))
        return math.copysign(math.log1p(abs(value)), value) if self.kind == "symlog" else value


@dataclass(frozen=True, slots=True)
class Polyline:
    """Places that are joined."""

    series: int
    places: tuple[PicturePoint, ...]
    dash: str = ""
    width: float = 1.8
    stepped: bool = False
    """Whether each value holds until the next."""
    tip: Tip = ()


@dataclass(frozen=True, slots=True)
class Band:
    """An area between two lines: (x, low, high)."""

    series: int
    places: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """A measured point, or a place that is marked."""

    series: int
    x: float
    y: float
    look: Literal["point", "peer", "cross", "ring", "unseen"] = "point"
    tip: Tip = ()


@dataclass(frozen=True, slots=True)
class Whisker:
    """An interval above and below a point."""

    series: int
    x: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from zero to the right, with its value as text and its interval as a whisker."""

    series: int
    row: float
    """Its middle on the axis of names."""
    thick: float
    """Thickness as a share of one row's height."""
    value: float
    text: str
    low: float | None = None
    high: float | None = None
    tip: Tip = ()


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A level line with its name on it, as of a ceiling."""

    series: int
    y: float
    start: float
    end: float
    text: str
    tip: Tip = ()
    dash: str = "6 4"


@dataclass(frozen=True, slots=True)
class Words:
    """A text beside a place; left out where it would cover another."""

    series: int
    x: float
    y: float
    text: str


Mark = Polyline | Band | Dot | Whisker | Bar | ReferenceLine | Words


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart with the words that go above and below it."""

    title: str
    caption: str
    x: ChartAxis
    y: ChartAxis
    series: tuple[str, ...]
    """The names of its series; a legend has them where there are several."""
    marks: tuple[Mark, ...]
    height: float = HEIGHT
    margin: float = 0.0
    """Units left of the upright axis at least, so that pictures below each other have their axes in line."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The names on the picture itself, without ticks and legend."""
        return tuple(mark.text for mark in self.marks if isinstance(mark, Words | ReferenceLine | Bar) and mark.text)


def even(title: str, values: Iterable[float | None], *, steps: int = 5) -> ChartAxis:
    """An axis from zero with ticks at 1, 2 or 5 times a power of ten."""
    top = max((value for value in values if value is not None), default=0.0)
    if not top > 0:
        return ChartAxis(title, 0.0, 1.0, ticks=((0.0, "0"), (1.0, "1")))
    step = nice_step(top / steps)
    high = math.ceil(top / step - 1e-9) * step
    ticks = (count * step for count in range(round(high / step) + 1))
    return ChartAxis(title, 0.0, high, ticks=tuple((tick, plain(tick, step)) for tick in ticks))


def with_ends(values: Iterable[float], ends: Iterable[float | None]) -> list[float]:
    """Values with the ends of their intervals, as far as they do not press the values flat."""
    known = list(values)
    most = WIDEST * max(known, default=0.0)
    return known + [min(end, most) for end in ends if end is not None]


def nice_step(least: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is at least ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= least * (1 - 1e-9)), 10 * power)


def plain(value: float, step: float) -> str:
    """A tick's number with the decimals that its step needs."""
    return f"{value:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def decades(title: str, values: Iterable[float | None]) -> ChartAxis:
    """A logarithmic axis over positive values, with ticks at 1, 2 and 5 where they have room."""
    known = [value for value in values if value is not None and value > 0] or [1.0]
    low, high = min(known) * 0.85, max(known) * 1.15
    places = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps: Sequence[int] = (1, 2, 5) if high / low < 1500 else (1,)
    ticks = [step * 10.0**power for power in places for step in steps if low <= step * 10.0**power <= high]
    return ChartAxis(title, low, high, "log", tuple((tick, f"{tick:,.10g}") for tick in ticks))


def make_names_axis(names: Sequence[str]) -> ChartAxis:
    """An axis of names, the first on top."""
    return ChartAxis("", -0.5, len(names) - 0.5, "names", tuple((float(at), name) for at, name in enumerate(names)))
