"""Compares two Runs point by point and experiment by experiment, and finds the changes that exceed noise."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hwdyno import statistics
from hwdyno.machine import Machine
from hwdyno.repeatability import PRIOR_RUNS, unknown
from hwdyno.words import ExperimentResult, Measurement, Parameters, Run, RunToRun, Value

DISCOVERY_RATE = 0.05
"""Share of false ones that is accepted among the changes that are reported; without any true change, the chance that
one is reported at all."""
NOISE_FLOOR = 0.01
"""A smaller change is none, whatever its interval says."""
_NORMAL = 1e6
"""Degrees of freedom from which on Student's t is the normal distribution."""
_IGNORED = {"path", "seed", "interval_s"}
"""Parameters that may differ between two points that are compared."""

Verdict = Literal["slower", "faster", "same", "unknown"]


@dataclass(frozen=True, slots=True)
class Change:
    """A point that is in both Runs, or an experiment over all its points, and the ratio after / before."""

    experiment: str
    parameters: Parameters
    """Empty for an experiment as a whole."""
    before: Value | None
    after: Value | None
    ratio: Value
    """With its own 95% interval, which no number of tests corrects."""
    p_value: float | None
    """Chance of at least this change where nothing changed; none where a side has fewer than two repeats."""
    points: int = 1
    """How many points it speaks of."""
    verdict: Verdict = "unknown"
    """After the correction for the number of tests."""
    unverified: bool = False
    """Whether a side is a single reading that nothing confirms."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """The difference of two logarithmic means, and where its variance comes from."""

    log: float
    repeats: tuple[tuple[float, int], ...]
    """Variance and degrees of freedom of each side's mean."""


def unlike(before: Run, after: Run) -> list[str]:
    """The differences between two Runs' machines, one phrase each."""
    differences = []
    for says, fact in _IDENTITY:
        one, other = fact(before.machine), fact(after.machine)
        if one is not None and other is not None and one != other:
            differences.append(f"{says}: {one} before, {other} after")
    return differences


_IDENTITY: tuple[tuple[str, Callable[[Machine], Any]], ...] = (
    ("processor", lambda machine: machine.cpu.model),
    ("threads", lambda machine: machine.cpu.threads),
    ("memory", lambda machine: machine.memory.total_bytes),
    ("disk", lambda machine: machine.storage.disk.model),
    ("disk's kind", lambda machine: machine.storage.disk.kind),
    ("filesystem", lambda machine: machine.storage.filesystem),
    ("link", lambda machine: machine.storage.disk.link and machine.storage.disk.link.bits_s),
)


def changes_of(before: Run, after: Run) -> list[Change]:
    """The changes of all like points, and of each experiment with several, without invalid points.

    Points are matched by experiment, kernel and parameters; one that has no such partner by kernel and parameters
    alone, where that is unique in both Runs. The test of a point is Welch's on logarithms (Welch 1947) with the
    variance between runs added, as the experiment states it or as it is assumed; a change below ``NOISE_FLOOR`` is
    none. The tests share a false discovery rate (Benjamini & Hochberg 1995).
    """
    found: list[Change] = []
    for name, pairs in _matched(before, after).items():
        spread = _spread(pairs)
        known = [(pair, one) for pair in pairs if (one := _difference(pair.old, pair.new)) is not None]
        found += [_change_of_point(pair, one, spread) for pair, one in known]
        measured = [one for _, one in known if one.repeats]
        if len(measured) > 1:
            between = spread.deviation**2 + spread.point_deviation**2 / len(measured)
            ratio, p_value = _tested(_together(measured), between, spread)
            found.append(Change(name, {}, None, None, ratio, p_value, len(measured)))
    return _judged(found)


@dataclass(frozen=True, slots=True)
class _Pair:
    result: ExperimentResult
    earlier: ExperimentResult
    old: Measurement
    new: Measurement


def _matched(before: Run, after: Run) -> dict[str, list[_Pair]]:
    """Like points by the later Run's experiment."""
    by_experiment = {(one.name, key): (one, point) for one, key, point in _points(before)}
    times = Counter(key for _, key, _ in _points(before))
    alone = {key: (one, point) for one, key, point in _points(before) if times[key] == 1}
    wanted = Counter(key for _, key, _ in _points(after))
    found: dict[str, list[_Pair]] = {}
    for one, key, point in _points(after):
        partner = by_experiment.get((one.name, key)) or (alone.get(key) if wanted[key] == 1 else None)
        if partner is not None and partner[1].throughput.unit == point.throughput.unit:
            found.setdefault(one.name, []).append(_Pair(one, partner[0], partner[1], point))
    return found


def _points(run: Run) -> Iterator[tuple[ExperimentResult, str, Measurement]]:
    for experiment in run.experiments:
        for point in experiment.points:
            if point.validity != "invalid":
                whole = {**experiment.fixed, **point.parameters}
                like = {name: value for name, value in whole.items() if name not in _IGNORED}
                yield experiment, json.dumps([experiment.kernel, like], sort_keys=True), point


def _spread(pairs: Sequence[_Pair]) -> RunToRun:
    """The spread between runs that holds for these pairs: what most earlier runs tell, or what is assumed."""
    stated = [one.run_to_run for pair in pairs for one in (pair.result, pair.earlier) if one.run_to_run is not None]
    return max(stated, key=lambda one: one.earlier, default=unknown())


def _difference(old: Measurement, new: Measurement) -> _Difference | None:
    """The logarithm of the ratio; none where a side has no positive value."""
    before = [math.log(value) for value in old.repeat_values or (old.throughput.value,) if value > 0]
    after = [math.log(value) for value in new.repeat_values or (new.throughput.value,) if value > 0]
    if not before or not after:
        return None
    sides = tuple((statistics.standard_deviation(one) ** 2 / len(one), len(one) - 1) for one in (before, after))
    known = all(freedom > 0 for _, freedom in sides)
    return _Difference(statistics.mean(after) - statistics.mean(before), sides if known else ())


def _together(differences: Sequence[_Difference]) -> _Difference:
    """The mean of the differences of one experiment's points, whose repeats are independent."""
    count = len(differences)
    sides = tuple((variance / count**2, freedom) for one in differences for variance, freedom in one.repeats)
    return _Difference(statistics.mean([one.log for one in differences]), sides)


def _change_of_point(pair: _Pair, difference: _Difference, spread: RunToRun) -> Change:
    between = spread.deviation**2 + spread.point_deviation**2
    ratio, p_value = _tested(difference, between, spread)
    name, parameters = pair.result.name, pair.new.parameters
    unverified = "unverified" in {pair.old.validity, pair.new.validity}
    return Change(name, parameters, pair.old.throughput, pair.new.throughput, ratio, p_value, unverified=unverified)


def _tested(difference: _Difference, between: float, spread: RunToRun) -> tuple[Value, float | None]:
    """The ratio with its interval, and the p-value of a change beyond the noise floor.

    ``between`` is the variance of one run's conditions, which two runs have twice. Degrees of freedom are
    Satterthwaite's (1946) for the sum.
    """
    from scipy.special import stdtr, stdtrit

    if not difference.repeats:
        return Value(math.exp(difference.log), "ratio"), None
    parts = list(difference.repeats)
    if spread.earlier:
        parts.append((2 * between, spread.earlier - 1 + PRIOR_RUNS))
    total = math.fsum(variance for variance, _ in difference.repeats) + 2 * between
    weighted = math.fsum(variance**2 / degrees for variance, degrees in parts)
    freedom = total**2 / weighted if weighted > 0 else math.inf
    error = math.sqrt(total)
    half = float(stdtrit(min(freedom, _NORMAL), 0.5 + statistics.CONFIDENCE / 2)) * error + NOISE_FLOOR
    low, high = math.exp(difference.log - half), math.exp(difference.log + half)
    ratio = Value(math.exp(difference.log), "ratio", low, high)
    beyond = max(0.0, abs(difference.log) - NOISE_FLOOR)
    if error == 0:
        return ratio, 0.0 if beyond > 0 else 1.0
    return ratio, min(1.0, 2 * float(stdtr(min(freedom, _NORMAL), -beyond / error)))


def _judged(changes: Sequence[Change]) -> list[Change]:
    """Each change with its verdict: the tests that pass Benjamini and Hochberg's step-up procedure.

    Experiments as a whole and single points are two families: many points must not hide what all of them share.
    Each family reports a false loss in half of ``DISCOVERY_RATE`` at most, as the other half are gains.
    """
    limits = {whole: _limit([one.p_value for one in changes if (one.points > 1) == whole]) for whole in (True, False)}
    return [replace(change, verdict=_verdict(change, limits[change.points > 1])) for change in changes]


def _limit(p_values: Sequence[float | None]) -> float:
    """The largest p-value that passes; below 0 where none does."""
    ordered = sorted(one for one in p_values if one is not None)
    return max((p for rank, p in enumerate(ordered, 1) if p <= DISCOVERY_RATE * rank / len(ordered)), default=-1.0)


def _verdict(change: Change, limit: float) -> Verdict:
    if change.p_value is None:
        return "unknown"
    if change.p_value > limit:
        return "same"
    return "slower" if change.ratio.value < 1 else "faster"


def overall(changes: list[Change]) -> float | None:
    """The geometric mean of the points' ratios (Fleming & Wallace 1986); none without any."""
    ratios = [change.ratio.value for change in changes if change.before is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def assumed(before: Run, after: Run) -> float | None:
    """The spread between runs that was assumed because no experiment states its own; none where one does."""
    stated = any(one.run_to_run is not None for run in (before, after) for one in run.experiments)
    return None if stated else unknown().deviation
