"""What differs between runs of one machine, learnt from its earlier Runs, and intervals that hold it as well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hwdyno import statistics
from hwdyno.units import format_percent
from hwdyno.words import ExperimentResult, Measurement, Note, Run, Value

RESOURCES = frozenset({"memory", "compute"})
"""On which a point of one run is the same question as that of another: nothing is left behind by what was written."""
LEAST_EARLIER = 2
"""Two runs tell one difference, whose interval would say nothing."""
MOST_EARLIER = 8
NOTE = "between_runs"
DEVIATION, EARLIER = "between_runs_deviation", "between_runs_earlier"
"""In a point's ``details``: the standard deviation between runs as a share, and how many earlier runs told it."""
_UNLIKE = {"seed", "runtime", "interval_s", "ramp_time"}
"""Parameters that may differ between two readings of the same thing."""


@dataclass(frozen=True, slots=True)
class _Mean:
    """A point's throughput in one run, by its logarithm, and the variance that its repeats leave to that."""

    log: float
    variance: float
    sound: bool
    """Nothing degraded it."""


def with_earlier(run: Run, earlier: Sequence[Run]) -> Run:
    """The Run with what differed between earlier runs of its machine inside of its intervals, and a note of it.

    Repeats of one run share what was so during that run: the memory's placement, the neighbours of that hour,
    the clock. Their interval is of that run alone. The variance between runs is estimated by the method of
    moments for one-way random effects (Searle, Casella & McCulloch, Variance Components, 1992, section 3.6), over all
    points of an experiment, and an interval is Student's t with Satterthwaite's degrees of freedom for the sum.
    """
    return replace(run, experiments=tuple(_widened(one, earlier) for one in run.experiments))


def _widened(result: ExperimentResult, earlier: Sequence[Run]) -> ExperimentResult:
    if result.resource not in RESOURCES:
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
    """The same question in another run."""

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
    """The variance between runs, as a share squared, over all points of the first that others have as well.

    Like is held against like: what was wrong in an earlier run is no property of the machine.
    """
    squares, freedom = 0.0, 0
    for name, own in runs[0].items():
        means = [own, *(run[name] for run in runs[1:] if name in run and (run[name].sound or not own.sound))]
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
    # Points of a run share what was so during it, so that the runs count, and not the points.
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
