"""Estimates how much runs of one machine differ from each other, from its earlier Runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from hwdyno.analysis import estimates
from hwdyno.analysis.samples import (
    SHARED_NOTE,
    each_over_time,
    mean_half_width,
    shared_modes,
    two_modes,
    with_shared,
    within_levels,
)
from hwdyno.model.axes import FREE
from hwdyno.model.point_details import Note
from hwdyno.model.units import format_percent
from hwdyno.model.words import ExperimentResult, Measurement, Run, RunToRun, Value

if TYPE_CHECKING:
    from hwdyno.system.store import Store

MIN_EARLIER = 2
"""Two earlier runs give one difference; with fewer only the prior is known."""
MAX_EARLIER = 8
PRIOR_DEVIATION = 0.03
"""Standard deviation between runs that is assumed where a machine's own runs do not tell yet."""
PRIOR_RUNS = 2
"""How many degrees of freedom the prior counts for beside a machine's own runs."""
MIN_QN = 4
"""Earlier runs from which on the robust scale is used instead of the standard deviation."""
MIN_VALID = 0.5
"""Share of an earlier experiment's points that must be valid; with fewer, something disturbed the whole of it."""
MAD_OF_NORMAL = 1.4826
"""Standard deviation of normal data over its median absolute deviation."""
_QN_FACTORS = {2: 0.399, 3: 0.994, 4: 0.512, 5: 0.844, 6: 0.611, 7: 0.857, 8: 0.669, 9: 0.872}
"""Finite-sample factors of Qn (Croux & Rousseeuw, Time-efficient algorithms for two highly robust estimators of
scale, 1992, table 1)."""


@dataclass(frozen=True, slots=True)
class _Mean:
    """The logarithm of a point's throughput in one run, and the variance of that from its repeats."""

    log: float
    variance: float


def with_stored(run: Run, store: Store) -> Run:
    """The Run with the spread between earlier runs of its machine stated, if the store has any."""
    from hwdyno.system.store import StoreError, name_machine

    names = {experiment.name for experiment in run.experiments}
    earlier: list[Run] = []
    with suppress(StoreError):
        for entry in store.history(without=run.id):
            alike = entry.machine == name_machine(run) and names & {name for name, _, _ in entry.headline}
            if alike and len(earlier) < MAX_EARLIER:
                with suppress(StoreError):  # An unreadable Run is left out.
                    earlier.append(store.load(entry.path))
    return with_earlier(run, earlier)


def with_earlier(run: Run, earlier: Sequence[Run]) -> Run:
    """The Run with the spread between runs stated for each experiment that earlier Runs answered too.

    Repeats of one run share that run's conditions: memory placement, neighbours, clock. Their interval holds for that
    run only, so the spread between runs is given beside it, and never widens or degrades it. It is read from earlier
    Runs alone: this one must not be judged by itself.
    """
    found = [_earlier(experiment, run, earlier) for experiment in run.experiments]
    return replace(
        run,
        experiments=tuple(
            result
            if (spread := estimate_spread(others, _prior(at, run, found))) is None
            else replace(result, run_to_run=spread)
            for at, (result, others) in enumerate(zip(run.experiments, found, strict=True))
        ),
    )


def with_pooled_repeats(run: Run) -> Run:
    """The Run with the intervals of points that were read twice from the spread of others' repeats too.

    Two repeats have one degree of freedom, and Student's t is 12.7: 4% apart, they would give ±51%. The variance of
    their logarithms is shrunk toward the middle one of the other points' of the experiment, of the resource's where
    those are too few, or ``PRIOR_DEVIATION``, which counts as ``POOLED_FREEDOM`` degrees (moderated t; Smyth,
    Statistical Applications in Genetics and Molecular Biology 3, 2004). What the samples within leave open, and both
    repeats, stay inside.
    """
    return replace(
        run, experiments=tuple(_with_shared_modes(_pool_repeats(experiment, run)) for experiment in run.experiments)
    )


def _pool_repeats(result: ExperimentResult, run: Run) -> ExperimentResult:
    if all(point.repeats != 2 for point in result.points):
        return result
    alike = [
        point for experiment in run.experiments if experiment.resource == result.resource for point in experiment.points
    ]

    def pool_point(point: Measurement) -> Measurement:
        if len(logs := _logs(point)) != 2 or point.throughput.low is None:
            return point
        for others in (result.points, alike):
            spreads = [logs_of for other in others if other is not point and len(logs_of := _logs(other)) > 1]
            if sum(len(logs_of) - 1 for logs_of in spreads) >= estimates.POOLED_FREEDOM:
                return _with_spread(point, _middle_variance(spreads), estimates.standard_deviation(logs) ** 2)
        return _with_spread(point, PRIOR_DEVIATION**2, estimates.standard_deviation(logs) ** 2)

    return replace(result, points=tuple(map(pool_point, result.points)))


def _middle_variance(spreads: Sequence[Sequence[float]]) -> float:
    """The middle one of the variances, so that a few wild points are not all points' noise.

    The median of chi-square over its degrees of freedom is (1 - 2 / 9f)^3 (Wilson & Hilferty, PNAS 17, 1931).
    """
    return estimates.median(
        [estimates.standard_deviation(logs) ** 2 / (1 - 2 / (9 * (len(logs) - 1))) ** 3 for logs in spreads]
    )


def _with_shared_modes(result: ExperimentResult) -> ExperimentResult:
    """The experiment with intervals that count with the modes its points show together, where chance hid them."""
    if any(note.code == SHARED_NOTE for point in result.points for note in point.notes):
        return result
    seen = {at: repeats for at, point in enumerate(result.points) if (repeats := each_over_time(point))}
    shared = shared_modes(list(seen.values()))
    if shared is None:
        return result
    says = (
        f"throughput dropped to {format_percent(shared.low)} of its usual level for "
        f"{format_percent(shared.share)} of the time"
    )

    def widen_point(at: int, point: Measurement) -> Measurement:
        if at not in seen:
            return point
        wide = with_shared(point.throughput, seen[at], shared)
        if wide == point.throughput or wide.low is None or wide.high is None or wide.value <= 0:
            return point
        low, high = wide.low / wide.value, wide.high / wide.value
        rate = point.rate and replace(
            point.rate,
            low=min(point.rate.value * low, math.inf if point.rate.low is None else point.rate.low),
            high=max(point.rate.value * high, 0.0 if point.rate.high is None else point.rate.high),
        )
        return replace(point, throughput=wide, rate=rate, notes=(*point.notes, Note(SHARED_NOTE, says)))

    return replace(result, points=tuple(widen_point(at, point) for at, point in enumerate(result.points)))


def _with_spread(point: Measurement, prior: float, found: float) -> Measurement:
    """A point of two repeats with the interval by the variance of its logarithms and that of other points."""
    variance = (estimates.POOLED_FREEDOM * prior + found) / (estimates.POOLED_FREEDOM + 1)
    half = estimates.t_quantile(estimates.POOLED_FREEDOM + 1) * math.sqrt(variance / 2)
    value = point.throughput.value
    repeats = each_over_time(point)
    within = mean_half_width(repeats) / value if repeats and value > 0 else 0.0
    low = min(math.exp(-half), 1 - within, *(repeat / value for repeat in point.repeat_values))
    high = max(math.exp(half), 1 + within, *(repeat / value for repeat in point.repeat_values))
    if (modes := two_modes(repeats)) is not None and value > 0:
        low, high = (repeat / value for repeat in within_levels(low * value, high * value, modes, point.repeat_values))

    def scale_value(figure: Value) -> Value:
        return replace(figure, low=max(0.0, figure.value * low), high=figure.value * high)

    return replace(point, throughput=scale_value(point.throughput), rate=point.rate and scale_value(point.rate))


def _logs(point: Measurement) -> list[float]:
    return [math.log(value) for value in point.repeat_values if value > 0]


def unknown() -> RunToRun:
    """The spread between runs where earlier Runs do not tell: the prior alone."""
    return RunToRun(PRIOR_DEVIATION, 0.0, 0)


def half_width(spread: RunToRun) -> float:
    """Half of the 95% interval of what one point reads in one run and another, as a share."""
    deviation = math.hypot(spread.deviation, spread.point_deviation)
    return estimates.t_quantile(max(1, spread.earlier - 1) + PRIOR_RUNS) * deviation


def _earlier(result: ExperimentResult, run: Run, earlier: Sequence[Run]) -> list[ExperimentResult]:
    # Another version may measure otherwise, which is no spread of the machine.
    return [
        found for earlier_run in earlier if earlier_run.version == run.version and (found := _same(result, earlier_run))
    ][:MAX_EARLIER]


def _prior(at: int, run: Run, found: Sequence[Sequence[ExperimentResult]]) -> float:
    """The standard deviation between runs that an experiment leans on: that of the same resource's other experiments.

    Disks differ between runs by other shares than memory or processors do. The middle one of their variances, which
    counts for the runs that one of them has, because they share these, and ``PRIOR_DEVIATION`` for ``PRIOR_RUNS`` more.
    """
    alike = [
        spread
        for other, results in enumerate(found)
        if other != at
        and run.experiments[other].resource == run.experiments[at].resource
        and (spread := _between(results)) is not None
    ]
    freedom = max((spread.freedom for spread in alike), default=0)
    variance = estimates.median([spread.of_runs for spread in alike]) if alike else 0.0
    return math.sqrt((PRIOR_RUNS * PRIOR_DEVIATION**2 + freedom * variance) / (PRIOR_RUNS + freedom))


@dataclass(frozen=True, slots=True)
class _Between:
    """What differs between runs of one experiment, as variances of the logarithm."""

    of_runs: float
    of_points: float
    freedom: int


def estimate_spread(results: Sequence[ExperimentResult], prior: float = PRIOR_DEVIATION) -> RunToRun | None:
    """The spread between runs of one experiment; none for fewer than two.

    The variance between runs is shrunk toward that of the ``prior`` deviation, which counts as ``PRIOR_RUNS`` runs.
    """
    found = _between(results)
    if found is None:
        return None
    between = (PRIOR_RUNS * prior**2 + found.freedom * found.of_runs) / (PRIOR_RUNS + found.freedom)
    return RunToRun(math.sqrt(between), math.sqrt(found.of_points), len(results))


def _between(results: Sequence[ExperimentResult]) -> _Between | None:
    """What differs between runs of one experiment; none for fewer than two.

    Each run has one effect that all its points share, and each point of it one more. Both scales are robust, so that a
    few slow runs do not decide for all: Qn from four runs on, and the median absolute deviation over points. The
    variance that repeats explain is taken off.
    """
    runs = [_means(result) for result in results]
    shared = sorted(set.intersection(*map(set, runs))) if len(runs) >= MIN_EARLIER else []
    if not shared:
        return None
    centres = {name: estimates.median([run[name].log for run in runs]) for name in shared}
    effects = [estimates.median([run[name].log - centres[name] for name in shared]) for run in runs]
    residuals = [
        run[name].log - centres[name] - effect for run, effect in zip(runs, effects, strict=True) for name in shared
    ]
    repeats = estimates.median([run[name].variance for run in runs for name in shared])
    # The median of n normal values varies by pi / 2n of their variance, for one or two of them by 1 / n.
    explained = repeats * (math.pi / 2 if len(shared) > 2 else 1.0) / len(shared)
    of_runs = max(0.0, _scale(effects) ** 2 - explained)
    # Centres and effects were fitted to the same values.
    fitted = len(residuals) / ((len(runs) - 1) * (len(shared) - 1)) if len(shared) > 2 else 0.0
    of_points = max(0.0, (MAD_OF_NORMAL * estimates.median(list(map(abs, residuals)))) ** 2 * fitted - repeats)
    return _Between(of_runs, of_points, len(runs) - 1)


def _same(result: ExperimentResult, run: Run) -> ExperimentResult | None:
    """The same experiment in another run, if nothing disturbed the whole of it there."""
    alike = (
        experiment
        for experiment in run.experiments
        if experiment.name == result.name and experiment.kernel == result.kernel
    )
    found = next(
        (
            experiment
            for experiment in alike
            if experiment.points and _fixed_settings(experiment) == _fixed_settings(result)
        ),
        None,
    )
    if found is None or sum(point.validity == "valid" for point in found.points) < MIN_VALID * len(found.points):
        return None
    return found


def _fixed_settings(result: ExperimentResult) -> dict[str, object]:
    return {name: value for name, value in result.fixed.items() if name not in FREE}


def _means(result: ExperimentResult) -> Mapping[str, _Mean]:
    """What each valid point gives to the estimate, by its parameters."""
    found = {}
    for point in result.points:
        logs = [math.log(value) for value in point.repeat_values if value > 0]
        if point.validity == "valid" and point.throughput.value > 0 and len(logs) > 1:
            spread = estimates.standard_deviation(logs) ** 2 / len(logs)
            found[repr(sorted(point.parameters.items()))] = _Mean(math.log(point.throughput.value), spread)
    return found


def _scale(values: Sequence[float]) -> float:
    return qn_scale(values) if len(values) >= MIN_QN else estimates.standard_deviation(values)


def qn_scale(values: Sequence[float]) -> float:
    """Rousseeuw and Croux's Qn: the scale of normal data, where up to half of the values may be anything.

    The k-th smallest distance between two values, k = h(h - 1)/2 with h = n/2 + 1, times 2.2219 and a
    finite-sample factor (Croux & Rousseeuw 1992). 0 for fewer than two values.
    """
    n = len(values)
    if n < 2:
        return 0.0
    half = n // 2 + 1
    distance = sorted(abs(value - other) for value, other in combinations(values, 2))[half * (half - 1) // 2 - 1]
    factor = _QN_FACTORS.get(n) or (n / (n + 1.4) if n % 2 else n / (n + 3.8))
    return 2.2219 * factor * distance
