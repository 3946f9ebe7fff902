"""Widens intervals by the variance between runs, estimated from earlier Runs of the same machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hwdyno import statistics
from hwdyno.units import format_percent
from hwdyno.words import ExperimentResult, Measurement, Note, Run, Value

LEAST_EARLIER = 2
"""Two runs give one difference, too little for an interval."""
MOST_EARLIER = 8
NOTE = "between_runs"
DEVIATION, EARLIER = "between_runs_deviation", "between_runs_earlier"
"""Keys in a point's ``details``: the standard deviation between runs as a share, and the number of earlier runs."""
_UNLIKE = {"seed", "runtime", "interval_s", "ramp_time"}
"""Parameters that may differ between two runs of the same experiment."""


@dataclass(frozen=True, slots=True)
class _Mean:
    """The logarithm of a point's throughput in one run, and the variance of that from its repeats."""

    log: float
    variance: float
    sound: bool
    """Whether the point is valid."""


def with_earlier(run: Run, earlier: Sequence[Run]) -> Run:
    """The Run with intervals that include the variance between runs of its machine, and a note on each.

    Repeats of one run share that run's conditions: memory placement, neighbours, clock. Their interval holds for
    that run only. The variance between runs is estimated by the method of
    moments for one-way random effects (Searle, Casella & McCulloch, Variance Components, 1992, section 3.6), over all
    points of an experiment, and an interval is Student's t with Satterthwaite's degrees of freedom for the sum.
    """
    return replace(run, experiments=tuple(_widened(one, earlier) for one in run.experiments))


def comparable(result: ExperimentResult) -> bool:
    """Whether a point of one run is the same question as that of another: nothing that was written is left behind."""
    return not result.declaration.stateful


def _widened(result: ExperimentResult, earlier: Sequence[Run]) -> ExperimentResult:
    if not comparable(result):
        return result
    others = [found for run in earlier if (found := _same(result, run))][:MOST_EARLIER]
    if len(others) < LEAST_EARLIER:
        return result
    variance = _between([_means(result), *map(_means, others)])
    if variance <= 0:
        return result
    points = tuple(_wider(point, variance, len(others)) for point in result.points)
    return replace(result, points=points)


def _same(result: ExperimentResult, run: Run) -> ExperimentResult | None:
    """The same experiment in another run."""

    def fixed(one: ExperimentResult) -> dict[str, object]:
        return {name: value for name, value in one.fixed.items() if name not in _UNLIKE}

    alike = (one for one in run.experiments if one.name == result.name and one.kernel == result.kernel)
    return next((one for one in alike if one.points and fixed(one) == fixed(result)), None)


def _means(result: ExperimentResult) -> dict[str, _Mean]:
    found = {}
    for point in result.points:
        logs = [math.log(value) for value in point.repeat_values if value > 0]
        if point.validity != "invalid" and point.throughput.value > 0 and len(logs) > 1:
            spread = statistics.standard_deviation(logs) ** 2 / len(logs)
            found[repr(sorted(point.parameters.items()))] = _Mean(
                math.log(point.throughput.value), spread, point.validity == "valid"
            )
    return found


def _between(runs: Sequence[dict[str, _Mean]]) -> float:
    """The variance between runs, as a squared share, over the points of the first run that others have too.

    A valid point is only compared with valid ones: a disturbance of an earlier run is no property of the machine.
    """
    squares, freedom = 0.0, 0
    for name, mean in runs[0].items():
        means = [mean, *(run[name] for run in runs[1:] if name in run and (run[name].sound or not mean.sound))]
        if len(means) > 1:
            centre = statistics.mean([one.log for one in means])
            expected = (1 - 1 / len(means)) * math.fsum(one.variance for one in means)
            squares += math.fsum((one.log - centre) ** 2 for one in means) - expected
            freedom += len(means) - 1
    return max(0.0, squares / freedom) if freedom else 0.0


def _wider(point: Measurement, between: float, earlier: int) -> Measurement:
    value, repeats = point.throughput, [math.log(one) for one in point.repeat_values if one > 0]
    if value.low is None or value.high is None or value.value <= 0 or len(repeats) < 2:
        return point
    within = statistics.standard_deviation(repeats) ** 2 / len(repeats)
    # Points of a run share its conditions, so the degrees of freedom count runs and not points.
    freedom = (within + between) ** 2 / (within**2 / (len(repeats) - 1) + between**2 / earlier)
    half = statistics.t_quantile(max(1, int(freedom))) * math.sqrt(within + between)
    wide = Value(
        value.value,
        value.unit,
        min(value.low, value.value * math.exp(-half)),
        max(value.high, value.value * math.exp(half)),
    )
    apart = format_percent(math.sqrt(between), precise=True)
    alone = format_percent(statistics.half_width(value) or 0.0, precise=True)
    says = (
        f"the interval holds what differs between runs of this machine, {apart} from one to the next by {earlier} "
        f"earlier ones; of this run alone it is {alone} to each side"
    )
    details = {**point.details, DEVIATION: math.sqrt(between), EARLIER: earlier}
    return replace(point, throughput=wide, details=details, notes=(*point.notes, Note(NOTE, says)))
