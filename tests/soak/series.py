"""Whether a figure grows from round to round: its slope with an interval, compared with what is allowed.

The slope is the median of the slopes of all pairs, and its interval holds 99%, both by P. K. Sen, "Estimates of the
regression coefficient based on Kendall's tau" (1968). One outlier or one step moves neither far, and a series that is
too short for an interval has an endless one.

What fills takes longer than a warm-up at times, and then stays; what leaks goes on. So the last half decides, where it
is long enough and its interval tells; else all rounds after the warm-up do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

QUANTILE = 2.576
"""Quantile of the normal distribution, for 99% on both sides."""
WARM_UP_SHARE = 0.2
MIN_WARM_UP = 2
"""Rounds left out at the start: caches, thread pools and imports fill there."""
MIN_HALF = 8
"""Rounds that the last half needs to decide; seven have no 99% interval narrower than all their slopes."""


HEAD = f"{'figure':34} {'unit':8} {'first':>12} {'last':>12} {'rounds':>6} {'a round':>10} {'99%':>24} {'allowed':>9}"


@dataclass(frozen=True)
class Slope:
    """Growth a round, and the ends of its interval."""

    value: float
    low: float
    high: float


def estimate_slope(values: Sequence[float]) -> Slope:
    """Sen's slope of values that are one round apart."""
    slopes = sorted((later - earlier) / (j - i) for (i, earlier), (j, later) in combinations(enumerate(values), 2))
    if not slopes:
        return Slope(math.nan, -math.inf, math.inf)
    count, pairs = len(values), len(slopes)
    spread = QUANTILE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    # Ranks from 1: the low end is outside of the slopes there are where the series is too short.
    low, high = math.floor((pairs - spread) / 2), math.ceil((pairs + spread) / 2) + 1
    middle = (slopes[(pairs - 1) // 2] + slopes[pairs // 2]) / 2
    return Slope(middle, slopes[low - 1] if low >= 1 else -math.inf, slopes[high - 1] if low >= 1 else math.inf)


@dataclass(frozen=True)
class Verdict:
    """What a series shows."""

    name: str
    unit: str
    allowed: float
    """Growth a round that counts as flat."""
    first: float
    last: float
    rounds: int
    """Rounds after the warm-up."""
    slope: Slope
    late: Slope | None = None
    """Slope of the last half, if it is long enough to decide."""

    @property
    def word(self) -> str:
        """``flat``: all of the interval is allowed; ``GROWS``: none of it; ``undecided``: the soak was too short."""
        whole = self._name_slope(self.slope)
        if self.late is None:
            return whole
        late = self._name_slope(self.late)
        # Half of the rounds have a wider interval: they take back no "flat" that all of them give.
        return whole if late == "undecided" and whole == "flat" else late

    def _name_slope(self, slope: Slope) -> str:
        if slope.high <= self.allowed:
            return "flat"
        return "GROWS" if slope.low > self.allowed else "undecided"

    def line(self) -> str:
        """One row of the table; its slope is the one that decides first."""
        slope = self.late or self.slope
        interval = f"{slope.low:+.3g} to {slope.high:+.3g}"
        return (
            f"{self.name:34} {self.unit:8} {self.first:12,.6g} {self.last:12,.6g} {self.rounds:6} "
            f"{slope.value:+10.3g} {interval:>24} {self.allowed:9.3g}  {self.word}"
        )


def judged(name: str, unit: str, allowed: float, values: Sequence[float]) -> Verdict:
    """Judge a series, but for its warm-up."""
    kept = values[max(MIN_WARM_UP, math.ceil(len(values) * WARM_UP_SHARE)) :]
    first, last = (kept[0], kept[-1]) if kept else (math.nan, math.nan)
    half = values[len(values) // 2 :]
    late = estimate_slope(half) if len(half) >= MIN_HALF else None
    return Verdict(name, unit, allowed, first, last, len(kept), estimate_slope(kept), late)
