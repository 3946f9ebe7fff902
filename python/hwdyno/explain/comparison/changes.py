"""Finds the changes between two Runs that exceed noise, point by point and experiment by experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hwdyno.analysis import estimates
from hwdyno.explain.comparison.matching import Matching, PointPair
from hwdyno.explain.repeatability import PRIOR_RUNS, unknown
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run, RunToRun, Value

DISCOVERY_RATE = 0.05
"""Share of false ones that is accepted among the changes that are reported; without any true change, the chance that
one is reported at all."""
NOISE_FLOOR = 0.01
"""A smaller change is none, no matter what its interval says."""
_NORMAL = 1e6
"""Degrees of freedom from which on Student's t is the normal distribution."""

ChangeVerdict = Literal["slower", "faster", "same", "unknown"]


@dataclass(frozen=True, slots=True)
class Change:
    """A point that is in both Runs, or an experiment over all its points, and the ratio after / before."""

    experiment: str
    parameters: Parameters
    """Empty for an experiment as a whole."""
    before: Value | None
    after: Value | None
    """What both are judged by: throughputs, or mean latencies in ns of a test of latency."""
    ratio: Value
    """Ratio of their speeds, so that a greater one is better, also of times. With its own 95% interval, which no number
    of tests corrects."""
    p_value: float | None
    """Chance of at least this change where nothing changed; none where a side has fewer than two repeats."""
    points: int = 1
    """Number of points that it covers."""
    verdict: ChangeVerdict = "unknown"
    """The verdict after the correction for the number of tests."""
    unverified: bool = False
    """Whether a side is a single reading that nothing confirms."""
    doubt: str = ""
    """What a finding disbelieves of a side; there is no p-value then."""
    stated: str = ""
    """What the earlier side is, where it is a figure of the catalogue: ``maker's figure: 7,450 MB/s``."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """The difference of two logarithmic means, and where its variance comes from."""

    log: float
    repeats: tuple[tuple[float, int], ...]
    """Variance and degrees of freedom of each side's mean."""


def changes_in(matching: Matching) -> list[Change]:
    """The changes of all like points, and of each experiment with several.

    The test of a point is Welch's on logarithms (Welch 1947) with the variance between runs added, as the experiment
    states it or as it is assumed; a change below ``NOISE_FLOOR`` is none. The tests share a false discovery rate
    (Benjamini & Hochberg 1995).
    """
    found: list[Change] = []
    for name, pairs in matching.pairs.items():
        spread = _spread(pairs)
        known = [(pair, difference) for pair in pairs if (difference := _difference(pair.old, pair.new)) is not None]
        found += [_change_of_point(pair, difference, spread) for pair, difference in known]
        measured = [difference for pair, difference in known if difference.repeats and not pair.doubt]
        if len(measured) > 1:
            between = spread.deviation**2 + spread.point_deviation**2 / len(measured)
            ratio, p_value = _test_change(_together(measured), between, spread)
            found.append(Change(name, {}, None, None, ratio, p_value, len(measured)))
    return _judge_changes(found)


def changes_from_stated(found: Sequence[tuple[ExperimentResult, Measurement, Value, str]]) -> list[Change]:
    """The ratio of each point to a stated figure in the unit of its throughput, which has no spread."""
    made = []
    for result, point, stated, words in found:
        spread = result.run_to_run or unknown()
        logs = [math.log(value) for value in point.repeat_values or (point.throughput.value,) if value > 0]
        if not logs or stated.value <= 0:
            continue
        sides = ((_variance(logs), len(logs) - 1),) if len(logs) > 1 else ()
        difference = _Difference(estimates.mean(logs) - math.log(stated.value), sides)
        between = spread.deviation**2 + spread.point_deviation**2
        ratio, p_value = _test_change(difference, between, spread, runs=1)
        unverified = point.validity == "unverified"
        made.append(
            Change(
                result.name,
                point.parameters,
                stated,
                point.throughput,
                ratio,
                p_value,
                unverified=unverified,
                stated=words,
            )
        )
    return _judge_changes(made)


def fails(change: Change, limit: float | None) -> bool:
    """Whether it is a proven loss: to less than ``limit`` times before, or of any size without a limit."""
    return change.verdict == "slower" and (limit is None or change.ratio.value < limit)


def is_open(change: Change, limit: float | None) -> bool:
    """Whether it is below the limit, but without the repeats that could prove it."""
    return limit is not None and change.verdict == "unknown" and change.ratio.value < limit


def _spread(pairs: Sequence[PointPair]) -> RunToRun:
    """The spread between runs that holds for these pairs: what most earlier runs tell, or what is assumed."""
    stated = [
        result.run_to_run for pair in pairs for result in (pair.result, pair.earlier) if result.run_to_run is not None
    ]
    return max(stated, key=lambda run_to_run: run_to_run.earlier, default=unknown())


def _difference(old: Measurement, new: Measurement) -> _Difference | None:
    """The logarithm of the ratio; none where a side has no positive value."""
    before = [math.log(value) for value in old.repeat_values or (old.throughput.value,) if value > 0]
    after = [math.log(value) for value in new.repeat_values or (new.throughput.value,) if value > 0]
    if not before or not after:
        return None
    sides = tuple((_variance(repeats), len(repeats) - 1) for repeats in (before, after))
    known = all(freedom > 0 for _, freedom in sides)
    return _Difference(estimates.mean(after) - estimates.mean(before), sides if known else ())


def _variance(logs: Sequence[float]) -> float:
    """The variance of the mean of the logarithms."""
    return estimates.standard_deviation(logs) ** 2 / len(logs)


def _together(differences: Sequence[_Difference]) -> _Difference:
    """The mean of the differences of one experiment's points, whose repeats are independent."""
    count = len(differences)
    sides = tuple(
        (variance / count**2, freedom) for difference in differences for variance, freedom in difference.repeats
    )
    return _Difference(estimates.mean([difference.log for difference in differences]), sides)


def _change_of_point(pair: PointPair, difference: _Difference, spread: RunToRun) -> Change:
    between = spread.deviation**2 + spread.point_deviation**2
    ratio, p_value = _test_change(difference, between, spread)
    name, parameters = pair.result.name, pair.new.parameters
    unverified = "unverified" in {pair.old.validity, pair.new.validity}
    before, after = pair.earlier.judged_value(pair.old), pair.result.judged_value(pair.new)
    if before.unit != after.unit:
        before, after = pair.old.throughput, pair.new.throughput
    p_value = None if pair.doubt else p_value
    return Change(name, parameters, before, after, ratio, p_value, unverified=unverified, doubt=pair.doubt)


def _test_change(
    difference: _Difference, between: float, spread: RunToRun, runs: int = 2
) -> tuple[Value, float | None]:
    """The ratio with its interval, and the p-value of a change beyond the noise floor.

    ``between`` is the variance of one run's conditions, which each of ``runs`` has. Degrees of freedom are
    Satterthwaite's (1946) for the sum.
    """
    from scipy.special import stdtr, stdtrit

    if not difference.repeats:
        return Value(math.exp(difference.log), "ratio"), None
    parts = list(difference.repeats)
    if spread.earlier:
        parts.append((runs * between, spread.earlier - 1 + PRIOR_RUNS))
    total = math.fsum(variance for variance, _ in difference.repeats) + runs * between
    weighted = math.fsum(variance**2 / degrees for variance, degrees in parts)
    freedom = total**2 / weighted if weighted > 0 else math.inf
    error = math.sqrt(total)
    half = float(stdtrit(min(freedom, _NORMAL), 0.5 + estimates.CONFIDENCE / 2)) * error + NOISE_FLOOR
    low, high = math.exp(difference.log - half), math.exp(difference.log + half)
    ratio = Value(math.exp(difference.log), "ratio", low, high)
    beyond = max(0.0, abs(difference.log) - NOISE_FLOOR)
    if error == 0:
        return ratio, 0.0 if beyond > 0 else 1.0
    return ratio, min(1.0, 2 * float(stdtr(min(freedom, _NORMAL), -beyond / error)))


def _judge_changes(changes: Sequence[Change]) -> list[Change]:
    """Each change with its verdict: the tests that pass Benjamini and Hochberg's step-up procedure.

    Experiments as a whole and single points are two families: many points must not hide what all of them share.
    Each family reports a false loss in half of ``DISCOVERY_RATE`` at most, as the other half are gains.
    """
    limits = {
        whole: _limit([change.p_value for change in changes if (change.points > 1) == whole]) for whole in (True, False)
    }
    return [replace(change, verdict=_verdict(change, limits[change.points > 1])) for change in changes]


def _limit(p_values: Sequence[float | None]) -> float:
    """The largest p-value that passes; below 0 where none does."""
    ordered = sorted(p_value for p_value in p_values if p_value is not None)
    return max((p for rank, p in enumerate(ordered, 1) if p <= DISCOVERY_RATE * rank / len(ordered)), default=-1.0)


def _verdict(change: Change, limit: float) -> ChangeVerdict:
    if change.p_value is None:
        return "unknown"
    if change.p_value > limit:
        return "same"
    return "slower" if change.ratio.value < 1 else "faster"


def overall(changes: list[Change]) -> float | None:
    """The geometric mean of the points' ratios (Fleming & Wallace 1986); none without any."""
    ratios = [change.ratio.value for change in changes if change.before is not None]
    return estimates.geometric_mean(ratios) if ratios else None


def assumed_spread(before: Run, after: Run) -> float | None:
    """The spread between runs that was assumed because no experiment states its own; none where one does."""
    stated = any(experiment.run_to_run is not None for run in (before, after) for experiment in run.experiments)
    return None if stated else unknown().deviation
