"""What the samples within readings show of a mean: how slowly it wanders, whether it has two modes, what repeats share.

An interval from a few repeats is often too narrow by luck, and a rule that repeats until it is narrow picks those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, groupby, pairwise

from hwdyno.analysis import estimates
from hwdyno.analysis.chances import chi_square_tail, f_tail
from hwdyno.model.words import Measurement, Value

MODES_NOTE = "two_modes"
"""Code of the note that throughput switches between two levels."""
SHARED_NOTE = "modes_nearby"
"""Code of the note that the interval counts with modes that other points of the experiment showed."""
MIN_EACH = 8
"""Samples of a reading from which they show a course."""
PERSISTENT = 0.35
"""Autocorrelation from which samples are no independent draws; white ones reach it in one of a thousand points."""
MODES_EXPLAIN = 0.85
"""Share of the variance that two levels explain, where there are two: normal noise gives 0.64, even noise 0.75."""
MODES_APART = 0.10
MIN_MINOR, STALL = 0.03, 0.5
MIN_EFFECTIVE, MIN_DISTINCT = 2.5, 10
MIN_POINTS = 2
"""Points of an experiment that show two modes, from which on they are not one point's own."""
UNEVEN = 1e-3
"""Probability, by chance alone, of modes spread so unevenly over the points, below which they are some points' own."""
FEW_REPEATS = 5
"""Up to this many, an interval reaches from the least repeat to the greatest where samples are no plain noise, and such
a point is not sure before."""
RARE, MISSED = 0.2, 1 - estimates.CONFIDENCE
"""Share of the repeats that are at a lower level, and of the points that may miss such a level."""


@cache
def repeats_that_show(points: int) -> int:
    """The least repeats after which at most ``MISSED`` of an experiment's points miss a level of ``RARE`` of them.

    The level is drawn once a repeat: 14 for one or two points, 9, 6, 5, 4 and 4 for three to seven, and 3 for eight.
    A point counts with it where its own repeats show it, or those of two others.
    """
    others = points - 1
    for repeats in count(1):
        unseen = (1 - RARE) ** repeats
        by_two = 1 - unseen**others - others * (1 - unseen) * unseen ** max(0, others - 1)
        if unseen * (1 - by_two) <= MISSED:
            return repeats
    raise AssertionError


@dataclass(frozen=True)
class Modes:
    """Two levels between which throughput switches."""

    low: float
    high: float
    share: float
    """Share of the samples that are at the low level."""
    visits: int
    """How often a level was entered, readings included: the most independent looks at the share that there can be."""
    rare: int
    """How often the rarer level was entered."""
    named: bool = True
    """Whether the rarer level was seen often enough to be called a mode; the interval counts it either way."""
    cut: float = 0.0
    """The threshold between the levels."""

    def shares(self) -> tuple[float, float]:
        """The 95% interval of the share at the low level.

        Wilson's score of the looks (JASA 22, 1927), or, where that is narrower, the visits to the rarer level as a
        Poisson count (Garwood, Biometrika 28, 1936) of stays whose lengths vary as much as their mean.
        """
        from scipy.special import gammaincinv

        least, most = share_interval(self.share, self.visits)
        rare, count = min(self.share, 1 - self.share), max(0.5, self.rare / 2)
        low, high = (
            min(1.0, rare * float(limit) / count)
            for limit in (gammaincinv(count, 0.025), gammaincinv(count + 1, 0.975))
        )
        return (max(least, low), min(most, high)) if rare == self.share else (max(least, 1 - high), min(most, 1 - low))


def two_modes(repeats: Sequence[Sequence[float]]) -> Modes | None:
    """The two levels of the samples; none where one level and noise explain them as well.

    The split is Otsu's (IEEE Trans. SMC 9, 1979): the one that explains most of the variance.
    """
    values = sorted(value for repeat in repeats for value in repeat)
    count = len(values)
    # Few distinct values are counts of a few operations a sample, whose steps are no modes.
    if count < 2 * MIN_EACH or len(set(values)) < MIN_DISTINCT:
        return None
    total = math.fsum(values)
    centre = total / count
    squares = math.fsum((value - centre) ** 2 for value in values)
    best, at, below = 0.0, 0, 0.0
    for place, value in enumerate(values[:-1], 1):
        below += value
        between = (below - place * centre) ** 2 * count / (place * (count - place))
        if between > best:
            best, at = between, place
    low = math.fsum(values[:at]) / at
    high = (total - low * at) / (count - at)
    if best < MODES_EXPLAIN * squares or high - low < MODES_APART * centre:
        return None
    # A stall is a mode at its first sight.
    seen = 1 if low < STALL * high else max(2, math.ceil(MIN_MINOR * count))
    cut = (values[at - 1] + values[at]) / 2
    levels = [[value < cut for value in repeat] for repeat in repeats]
    entered = [repeat[0] for repeat in levels] + [b for repeat in levels for a, b in pairwise(repeat) if a != b]
    rarer = at <= count - at
    return Modes(low, high, at / count, len(entered), entered.count(rarer), min(at, count - at) >= seen, cut)


def shared_modes(points: Sequence[Sequence[Sequence[float]]]) -> Modes | None:
    """The two levels, as shares of the upper one, that the points of an experiment show together.

    A mode that lasts for a reading is missing in most points of few repeats: one of a fifth of the time in half of
    those with three. What all points show together tells its share, where at least ``MIN_POINTS`` show it and the
    others may have missed it by chance: the index of dispersion of how often each point entered the lower level
    (Fisher, Statistical Methods for Research Workers, 1932, section 16), with each entry counted by how long it stayed.
    """
    found = [two_modes(repeats) for repeats in points]
    if sum(modes is not None and modes.named for modes in found) < MIN_POINTS:
        return None
    counts = [sum(map(len, repeats)) for repeats in points]
    stays = [
        [length for repeat in repeats for length in _stays(repeat, modes.cut)] if modes is not None else []
        for repeats, modes in zip(points, found, strict=True)
    ]
    times = sum(map(sum, stays))
    weight = math.fsum(length**2 for lengths in stays for length in lengths) / times
    expected = [times * count / sum(counts) for count in counts]
    dispersion = (
        math.fsum((sum(lengths) - due) ** 2 / due for lengths, due in zip(stays, expected, strict=True)) / weight
    )
    if chi_square_tail(len(points) - 1, dispersion) < UNEVEN:
        return None
    ratios = [
        (modes.low / modes.high, sum(lengths)) for modes, lengths in zip(found, stays, strict=True) if modes is not None
    ]
    low = math.fsum(ratio * length for ratio, length in ratios) / times
    visits = sum(
        modes.visits if modes is not None else len(repeats) for modes, repeats in zip(found, points, strict=True)
    )
    # Twice the number of stays of one length that would leave as much open.
    rare = round(2 * times / weight)
    return Modes(low, 1.0, times / sum(counts), visits, min(rare, sum(map(len, stays))))


def _stays(values: Sequence[float], cut: float) -> list[int]:
    """The lengths of the stays below a cut."""
    return [len(list(stay)) for is_low, stay in groupby(values, key=lambda value: value < cut) if is_low]


def each_over_time(point: Measurement) -> list[list[float]]:
    """The samples of each repeat, as many as the shortest has; none where they are too few to show a course."""
    values = list(point.samples.values) if point.samples is not None else []
    repeats = max(1, point.repeats)
    length = len(values) // repeats
    if length < MIN_EACH:
        return []
    starts = [round(at * len(values) / repeats) for at in range(repeats)]
    return [values[start : start + length] for start in starts]


def persistence(repeats: Sequence[Sequence[float]]) -> float:
    """Autocorrelation from one sample to the next within readings, 0 to 1.

    Around each reading's own mean, with the bias of short series taken out (Kendall, Biometrika 41, 1954): a level
    that differs between readings is no persistence.
    """
    both = squares = 0.0
    for repeat in repeats:
        centre = estimates.mean(repeat)
        both += math.fsum((a - centre) * (b - centre) for a, b in pairwise(repeat))
        squares += math.fsum((value - centre) ** 2 for value in repeat)
    if squares <= 0:
        return 0.0
    length = estimates.mean([len(repeat) for repeat in repeats])
    found = both / squares * length / (length - 1)
    return min(0.99, max(0.0, (found + 1 / length) / (1 - 3 / length)))


def mean_half_width(repeats: Sequence[Sequence[float]]) -> float:
    """Half of the 95% interval of the samples' mean, by their scatter and how long they wander.

    The variance of the mean of an AR(1) series (Priestley, Spectral Analysis and Time Series, 1981, section 5.3), and
    Student's t for its effective number of samples. Where samples persist, so may the level from reading to reading:
    their autocorrelation about the mean of all readings counts too.
    """
    ratio, count = persistence(repeats), sum(map(len, repeats))
    values = [value for repeat in repeats for value in repeat]
    ratio = 0.0 if ratio < PERSISTENT else max(ratio, persistence([values]))
    effective = max(MIN_EFFECTIVE, count / _inflation(ratio, count))
    deviation = estimates.standard_deviation(values) * math.sqrt(effective / (effective - 1))
    return estimates.t_quantile(effective - 1) * deviation / math.sqrt(effective)


def _inflation(ratio: float, count: int) -> float:
    """The factor by which autocorrelation raises the variance of the mean of this many samples."""
    return (1 + ratio) / (1 - ratio) - 2 * ratio * (1 - ratio**count) / (count * (1 - ratio) ** 2)


def plain_noise(repeats: Sequence[Sequence[float]]) -> bool:
    """Whether the samples show nothing but noise around one level, so that few repeats can be enough."""
    if not repeats or min(map(len, repeats)) < MIN_EACH:
        return True
    return persistence(repeats) < PERSISTENT and two_modes(repeats) is None


def share_interval(share: float, looks: float) -> tuple[float, float]:
    """The 95% interval of a share by Wilson's score (JASA 22, 1927)."""
    z = 1.96
    centre = (share + z * z / (2 * looks)) / (1 + z * z / looks)
    half = z / (1 + z * z / looks) * math.sqrt(share * (1 - share) / looks + z * z / (4 * looks * looks))
    return max(0.0, centre - half), min(1.0, centre + half)


def with_samples(
    value: Value, repeats: Sequence[Sequence[float]], rates: Sequence[float]
) -> tuple[Value, Modes | None]:
    """A value with an interval that also holds what its samples show, and its two modes if it has them."""
    if value.low is None or value.high is None or not repeats or min(map(len, repeats)) < MIN_EACH:
        return value, None
    half, modes = mean_half_width(repeats), two_modes(repeats)
    # Repeats that agree better than their samples can is luck.
    low, high = min(value.low, value.value - half), max(value.high, value.value + half)
    persists = persistence(repeats) >= PERSISTENT
    if persists and len(rates) > 2:
        # Of samples that persist few count, and Student's t of them is great: a mean of zero would seem possible beside
        # five repeats near 40. Half of the range of repeats is left open on each side, of fewer than five all of it. Of
        # a level that itself persists from repeat to repeat (AR(1), 0.7), 86 to 94% of intervals hold the mean then.
        margin = (max(rates) - min(rates)) * (0.5 if len(rates) >= FEW_REPEATS else 1.0)
        low, high = max(low, min(value.low, min(rates) - margin)), min(high, max(value.high, max(rates) + margin))
    if modes is not None:
        least, most = modes.shares()
        apart = modes.high - modes.low
        low, high = min(low, modes.high - most * apart), max(high, modes.high - least * apart)
        low, high = within_levels(low, high, modes, rates)
    if (modes is not None or persists) and len(rates) <= FEW_REPEATS:
        low, high = min(low, *rates), max(high, *rates)
    return replace(value, low=max(0.0, low), high=high), modes if modes is not None and modes.named else None


def within_levels(low: float, high: float, modes: Modes, rates: Sequence[float]) -> tuple[float, float]:
    """An interval without the part beyond both levels and all readings: no mean of the two levels is there.

    The few samples that count where levels last for whole readings give a Student's t that leaves even a mean of zero
    open.
    """
    return max(low, min(modes.low, *rates)), min(high, max(modes.high, *rates))


def with_shared(value: Value, repeats: Sequence[Sequence[float]], shared: Modes) -> Value:
    """A value with an interval that also holds what the modes of the whole experiment leave open of its mean."""
    if value.low is None or value.high is None:
        return value
    least, most = shared.shares()
    gap, modes, half = 1 - shared.low, two_modes(repeats), mean_half_width(repeats)
    upper, lower = (modes.high, modes.high) if modes is not None else (value.value, max(0.0, value.value - half))
    low, high = lower * (1 - most * gap), upper * (1 - least * gap)
    return replace(value, low=max(0.0, min(value.low, low)), high=max(value.high, high))


@dataclass(frozen=True)
class Disagreement:
    """How far repeats disagree, against what the samples within each leave open."""

    p_value: float
    """Probability of such a spread among repeats of one mean."""
    spread: float
    """Maximum minus minimum as a share of the mean."""


def disagreement(repeats: Sequence[Sequence[float]]) -> Disagreement | None:
    """Cochran's Q of the repeats, each weighted by what its samples leave open of its mean; none for too few samples.

    Q (Biometrics 10, 1954) over its degrees of freedom, with one variance for all repeats, is the F of an analysis of
    variance. Where samples persist, their autocorrelation raises that variance and lowers its degrees of freedom.
    """
    if len(repeats) < 2 or min(map(len, repeats)) < MIN_EACH:
        return None
    shortest = min(map(len, repeats))
    means = [estimates.mean(repeat) for repeat in repeats]
    centre = estimates.mean(means)
    if centre <= 0:
        return None
    ratio = persistence(repeats)
    inflation = _inflation(ratio, shortest) if ratio >= PERSISTENT else 1.0
    within = (
        math.fsum(estimates.standard_deviation(repeat) ** 2 for repeat in repeats) / len(repeats) * inflation / shortest
    )
    between = estimates.standard_deviation(means) ** 2
    ratio = between / within if within > 0 else math.inf if between > 0 else 0.0
    p_value = f_tail(len(means) - 1, len(means) * (shortest - 1) / inflation, ratio)
    return Disagreement(p_value, (max(means) - min(means)) / centre)
