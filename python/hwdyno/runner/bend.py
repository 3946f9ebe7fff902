"""One more point a curve, near its bend: where 90% of the ceiling is reached, the sweep's own loads are far apart."""

from __future__ import annotations

from collections import defaultdict

from hwdyno.curves import LEAST_POINTS, curves_of, suggest_load
from hwdyno.plan import Planned
from hwdyno.words import ExperimentResult, Note, Parameters, Scalar

NOTE = Note("near_the_bend", "added to the plan where the curve reaches about 90% of its ceiling")


def may_add(planned: Planned) -> int:
    """How many points near bends an experiment may bring at most: one a curve along the load of a queue."""
    if planned.declaration.axis(planned.load).role != "concurrency":
        return 0
    loads: dict[tuple[tuple[str, Scalar], ...], set[Scalar]] = defaultdict(set)
    for point in planned.points:
        others = tuple(sorted((name, value) for name, value in point.items() if name != planned.load))
        loads[others].add(point.get(planned.load))
    return sum(len(one) >= LEAST_POINTS for one in loads.values())


def near_the_bend(result: ExperimentResult, planned: Planned) -> list[Parameters]:
    """The points worth adding to the measured ones."""
    found = []
    for curve in curves_of(result):
        measured = [result.points[at] for at in curve.points]
        loads = [float(point.parameters[curve.load]) for point in measured]  # type: ignore[arg-type]
        load = suggest_load(curve, result.axis(curve.load), loads)
        if load is None or not min(loads) < load < max(loads):
            continue
        parameters: Parameters = {**measured[0].parameters, curve.load: load}
        check = planned.experiment.check
        if check is None or check(planned.declaration, {**planned.fixed, **parameters}) is None:
            found.append(parameters)
    return found
