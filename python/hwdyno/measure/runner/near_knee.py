"""Points beside the plan's: near 90% of the ceiling, below a full memory, and where an open loop's capacity is open."""

from __future__ import annotations

from collections import defaultdict

from hwdyno.analysis.curves import LOADED, LOADED_MODEL, MIN_POINTS, fit_curves, rate_to_settle, suggest_load
from hwdyno.analysis.curves.loaded import MIN_INSIDE, more_delays
from hwdyno.analysis.curves.open_loop import MIN_POINTS as MIN_RATES
from hwdyno.analysis.curves.open_loop import OF_OPERATIONS
from hwdyno.measure.plan import Planned
from hwdyno.model.point_details import Note
from hwdyno.model.words import ExperimentResult, Parameters, Scalar

NOTE = Note("near_the_knee", "added to the plan where the curve bends, or leaves its capacity open")


def may_add(planned: Planned) -> int:
    """How many points near bends an experiment may bring at most: one a curve along the load of a queue."""
    axis = planned.declaration.axis(planned.load)
    if planned.experiment.kernel == LOADED and axis.role == "delay":
        curves = len({tuple(sorted((n, v) for n, v in point.items() if n != planned.load)) for point in planned.points})
        return curves * (MIN_INSIDE - MIN_POINTS) if len(planned.points) >= MIN_POINTS * curves else 0
    least = {"concurrency": MIN_POINTS, "rate": MIN_RATES}.get(axis.role or "")
    if least is None or (axis.role == "rate" and axis.unit not in OF_OPERATIONS):
        return 0
    loads: dict[tuple[tuple[str, Scalar], ...], set[Scalar]] = defaultdict(set)
    for point in planned.points:
        others = tuple(sorted((name, value) for name, value in point.items() if name != planned.load))
        loads[others].add(point.get(planned.load))
    return sum(len(swept) >= least for swept in loads.values())


def near_the_knee(result: ExperimentResult, planned: Planned) -> list[Parameters]:
    """The points worth adding to the measured ones."""
    found = []
    for curve in fit_curves(result):
        measured = [result.points[at] for at in curve.points]
        if curve.model == LOADED_MODEL:
            delays = [float(point.parameters[curve.load]) for point in measured]  # type: ignore[arg-type]
            added = more_delays(delays, [point.throughput.value for point in measured])
            found += [{**measured[0].parameters, curve.load: delay} for delay in added]
            continue
        loads = [float(point.parameters[curve.load]) for point in measured]  # type: ignore[arg-type]
        load = rate_to_settle(result, curve)
        if load is None:
            load = suggest_load(curve, result.axis(curve.load), loads)
            if load is None or not min(loads) < load < max(loads):
                continue
        parameters: Parameters = {**measured[0].parameters, curve.load: load}
        check = planned.experiment.check
        if check is None or check(planned.declaration, {**planned.fixed, **parameters}) is None:
            found.append(parameters)
    return found
