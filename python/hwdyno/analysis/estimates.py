"""Statistics of repeats and samples: means, intervals and whole latency distributions.

Rates are averaged by the harmonic mean and costs by the arithmetic one (Hoefler & Belli, SC'15,
rule 3; Fleming & Wallace, CACM 1986, for ratios). Percentiles are never averaged: whole
histograms are merged. numpy and scipy are imported where they are used, so that importing this is cheap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from hwdyno.analysis.chances import t_of_tail
from hwdyno.model.words import Value

CONFIDENCE = 0.95
POOLED_FREEDOM = 4
"""Degrees of freedom that other points' repeats count for beside those of a point that was read only twice."""
OUTLIER_MADS = 14.8
"""Ten standard deviations of normal noise, in units of the MAD (10 / 0.6745)."""
OUTLIER_MIN_COUNT = 5
"""Minimum number of values: with fewer the MAD is too often tiny by chance (with five, in 3% of normal samples)."""
OUTLIER_MIN_MAD = 0.01
"""Lower bound of the MAD as a share of the median, so that nothing within 14.8% is an outlier."""
APART = 0.20
"""Difference of harmonic mean and median from which one repeat dominates the mean."""
SKEW_MIN_COUNT = 8
SKEW_SIGMAS = 3.0
SNIA_ROUNDS = 5
SNIA_RANGE = 0.20
SNIA_SLOPE = 0.10


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, for costs."""
    return math.fsum(values) / len(values)


def harmonic_mean(values: Sequence[float]) -> float:
    """The harmonic mean, for rates; 0 if one of them is 0."""
    return 0.0 if min(values) <= 0 else len(values) / math.fsum(1 / value for value in values)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean, for ratios; every one must be above 0."""
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def jain(values: Sequence[float]) -> float | None:
    """How equally some amounts are shared, from 1/n (one has all) to 1 (all alike); none where all are 0.

    Jain, Chiu and Hawe, DEC Research Report TR-301, 1984: (sum x)^2 / (n sum x^2).
    """
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else None


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def standard_deviation(values: Sequence[float]) -> float:
    """The sample standard deviation (n - 1); 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """Standard deviation divided by mean; none for fewer than three values or a mean of 0."""
    if len(values) < 3 or mean(values) == 0:
        return None
    return standard_deviation(values) / abs(mean(values))


def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Student's t for a two-sided interval."""
    return t_of_tail(degrees, (1 - confidence) / 2)


def false_discovery_rates(p_values: Sequence[float]) -> list[float]:
    """The least false discovery rate at which each p-value is still a discovery among all of them.

    Benjamini and Hochberg, J. R. Statist. Soc. B 57, 1995: from the greatest chance down, the least of
    chance x number / rank so far. ``scipy.stats`` has the same, but takes a second to import.
    """
    rates, least = [1.0] * len(p_values), 1.0
    for rank, place in sorted(enumerate(sorted(range(len(p_values)), key=p_values.__getitem__), 1), reverse=True):
        rates[place] = least = min(least, p_values[place] * len(p_values) / rank)
    return rates


def interval(values: Sequence[float], unit: str, kind: Literal["rate", "cost", "median"] = "rate") -> Value:
    """The mean of repeats with its 95% interval; no interval for a single value.

    ``rate``: harmonic mean, t interval on the reciprocals carried over by the delta method.
    ``cost``: arithmetic mean and t interval. ``median``: median with an interval of order
    statistics, for skewed data.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    if kind == "median":
        low, high = median_interval(values)
        return Value(median(values), unit, low, high)
    centre = harmonic_mean(values) if kind == "rate" else mean(values)
    if len(values) < 2 or centre == 0:
        return Value(centre, unit)
    if kind == "rate":
        deviation = centre**2 * standard_deviation([1 / value for value in values])
    else:
        deviation = standard_deviation(values)
    half = t_quantile(len(values) - 1) * deviation / math.sqrt(len(values))
    return Value(centre, unit, max(0.0, centre - half) if min(values) >= 0 else centre - half, centre + half)


def median_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The 95% interval of the median by order statistics (Conover, Practical Nonparametric Statistics, 1999, 3.2).

    From the least value to the greatest where there are fewer than nine; none for fewer than three.
    """
    count = len(values)
    if count < 3:
        return None, None
    ordered, left, tail = sorted(values), 0, 1 / 2**count
    # How many may be below: the binomial tail stays below half of what the interval leaves out.
    while tail <= (1 - CONFIDENCE) / 2:
        left += 1
        tail += math.comb(count, left) / 2**count
    at = max(0, left - 1)
    return ordered[at], ordered[count - 1 - at]


def half_width(value: Value) -> float | None:
    """Half of the interval as a share of the value: 0.05 means plus or minus 5%."""
    if value.low is None or value.high is None or value.value == 0:
        return None
    return (value.high - value.low) / 2 / abs(value.value)


def larger_side(value: Value) -> float | None:
    """The larger distance from a value to an end of its interval, as a share of it: with ±, it covers both ends."""
    if value.low is None or value.high is None or value.value == 0:
        return None
    return max(value.value - value.low, value.high - value.value) / abs(value.value)


def ratio_interval(ours: Sequence[float], theirs: Sequence[float], confidence: float = CONFIDENCE) -> Value:
    """The geometric mean of the ratios ours / theirs of pairs, with a t interval in log space."""
    if len(ours) != len(theirs) or not ours:
        raise ValueError("a ratio needs equally many values of both tools, and at least one pair")
    logs = [math.log(our / their) for our, their in zip(ours, theirs, strict=True)]
    centre = mean(logs)
    if len(logs) < 2:
        return Value(math.exp(centre), "ratio")
    half = t_quantile(len(logs) - 1, confidence) * standard_deviation(logs) / math.sqrt(len(logs))
    return Value(math.exp(centre), "ratio", math.exp(centre - half), math.exp(centre + half))


def outliers(values: Sequence[float]) -> tuple[int, ...]:
    """Indices of the values with |x - median| / MAD above 14.8; report them, never drop them silently.

    None for fewer than five values, and none within 14.8% of the median.
    """
    if len(values) < OUTLIER_MIN_COUNT:
        return ()
    centre = median(values)
    distances = [abs(value - centre) for value in values]
    limit = OUTLIER_MADS * max(median(distances), OUTLIER_MIN_MAD * abs(centre))
    return tuple(at for at, distance in enumerate(distances) if distance > limit)


def skewness(values: Sequence[float]) -> float | None:
    """Skewness over its standard error under normality (Joanes & Gill, 1998, G1); none for fewer than eight."""
    n = len(values)
    spread = standard_deviation(values)
    if n < SKEW_MIN_COUNT or spread == 0:
        return None
    centre = mean(values)
    third = math.fsum(((value - centre) / spread) ** 3 for value in values) * n / ((n - 1) * (n - 2))
    return third / math.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))


def interval_of_repeats(values: Sequence[float], unit: str) -> tuple[Value, str]:
    """A rate from its repeats, and the reason if it is their median instead of the harmonic mean.

    A stalled repeat would pull the mean to a value that no repeat has. The median with an interval of order statistics
    is used if a repeat is an outlier, if mean and median are far apart, or if the times (which the harmonic mean
    averages) are clearly skewed.
    """
    why = "" if len(values) < 3 or min(values) < 0 else _not_the_mean(values)
    return interval(values, unit, "median" if why else "rate"), why


def _not_the_mean(values: Sequence[float]) -> str:
    far, middle = outliers(values), median(values)
    if far:
        return f"{len(far)} of {len(values)} repeats {'lies' if len(far) == 1 else 'lie'} far off the others"
    if abs(harmonic_mean(values) - middle) > APART * middle:
        return f"the {len(values)} repeats are skewed: their harmonic mean is far from the middle one"
    skew = skewness([1 / value for value in values]) if min(values) > 0 else None
    return f"the {len(values)} repeats are clearly skewed" if skew is not None and abs(skew) > SKEW_SIGMAS else ""


def steady_snia(rounds: Sequence[float]) -> bool | None:
    """Whether the last five rounds are steady by SNIA PTS 2.0.2; none if there are fewer.

    Steady if max - min is at most 20% of their mean, and the least-squares line moves by at most 10% of the
    mean over the window.
    """
    if len(rounds) < SNIA_ROUNDS:
        return None
    window = rounds[-SNIA_ROUNDS:]
    centre = mean(window)
    if centre == 0:
        return None
    return (max(window) - min(window)) / centre <= SNIA_RANGE and abs(line_moves(window)) <= SNIA_SLOPE


@dataclass(frozen=True, slots=True)
class SniaWindow:
    """SNIA's steady state window: the last five rounds."""

    first: int
    """Number of the first of the five rounds, from 1."""
    last: int
    mean: float
    spread: float
    """Maximum minus minimum as a share of the mean; at most 20% if steady."""
    moves: float
    """Change of the least-squares line over the window as a share of the mean; at most 10% if steady."""
    steady: bool
    """Whether it and enough windows before it were steady."""
    in_a_row: int
    """How many windows up to this one were steady one after another."""
    wanted: int
    """How many it takes: one, or more after windows that were not steady."""


def snia_window(rounds: Sequence[float]) -> SniaWindow | None:
    """The window at the end of the rounds; none for fewer than five, or if their mean is 0."""
    if len(rounds) < SNIA_ROUNDS or mean(rounds[-SNIA_ROUNDS:]) <= 0:
        return None
    window = rounds[-SNIA_ROUNDS:]
    centre = mean(window)
    in_a_row, wanted = _windows_in_a_row(rounds)
    return SniaWindow(
        first=len(rounds) - SNIA_ROUNDS + 1,
        last=len(rounds),
        mean=centre,
        spread=(max(window) - min(window)) / centre,
        moves=line_moves(window),
        steady=in_a_row >= wanted,
        in_a_row=in_a_row,
        wanted=wanted,
    )


def _windows_in_a_row(rounds: Sequence[float]) -> tuple[int, int]:
    """How many windows up to the last were steady one after another, and how many it takes.

    The specification takes the first steady window. Each round tests another one, so noise alone passes in the end:
    of 4,000 series with a standard deviation of 30%, 15% did within 25 rounds. Once a window has failed, two in a
    row are required, and three from the fourth failure on: 3% pass then, and all series with 5%.
    """
    in_a_row = failed = 0
    for last in range(SNIA_ROUNDS, len(rounds) + 1):
        if steady_snia(rounds[:last]):
            in_a_row += 1
        else:
            in_a_row, failed = 0, failed + 1
    return in_a_row, 1 + (failed > 0) + (failed > 3)


def line_moves(values: Sequence[float]) -> float:
    """Change of the least-squares line from the first value to the last, as a share of the mean."""
    n, centre = len(values), mean(values)
    middle = (n - 1) / 2
    squares = math.fsum((at - middle) ** 2 for at in range(n))
    slope = math.fsum((at - middle) * (value - centre) for at, value in enumerate(values)) / squares
    return slope * (n - 1) / centre


def fold(samples: Sequence[float], rounds: int) -> list[float]:
    """Averages the samples over ``rounds`` equal intervals of time."""
    edges = [round(at * len(samples) / rounds) for at in range(rounds + 1)]
    return [mean(samples[low:high]) for low, high in pairwise(edges)]


def early_stopping_count(percentile: float, over: int = 0, confidence: float = 0.99) -> int:
    """The least number of queries that show a percentile, where ``over`` of them are above it (MLPerf LoadGen).

    With this count, if the share above the percentile were greater, so few above it would have a probability of at most
    ``1 - confidence``: 459 for p99, 4603 for p99.9.
    """
    from scipy.special import bdtr

    least, most = over + 1, over + 1
    while bdtr(over, most, 1 - percentile) > 1 - confidence:
        least, most = most, 2 * most
    while least < most:
        middle = (least + most) // 2
        if bdtr(over, middle, 1 - percentile) > 1 - confidence:
            least = middle + 1
        else:
            most = middle
    return most
