"""One curve over clients out of several Runs: what one host measured, and two, and four, at like points."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hwdyno.explain.comparison.matching import points_with_facts
from hwdyno.model.axes import CLIENTS
from hwdyno.model.words import Axis, Declaration, ExperimentResult, Measurement, Parameters, Run

_FOREIGN = "ranks"
"""What other tools' results call their clients."""
MIN_LOADS = 2


@dataclass
class _Alike:
    """Like points by their number of clients, and where the one with most of them is from."""

    points: dict[int, Measurement] = field(default_factory=dict)
    most: int = 0
    result: ExperimentResult | None = None
    run: Run | None = None


def has_curve(run: Run) -> bool:
    """Whether a Run has a curve over clients by itself."""
    return any(result.load == CLIENTS.name and result.curves for result in run.experiments)


def over_clients(runs: Sequence[Run]) -> Run | None:
    """A Run whose curves go along the number of clients, from Runs with different numbers, the newest first.

    Points are alike where all their other parameters agree. Of two with as many clients the newest counts. None where
    no point was measured with two numbers of clients.
    """
    found: dict[str, _Alike] = {}
    for run in runs:
        for result, point, facts in points_with_facts(run):
            clients = _clients(run, point, facts)
            others = {name: value for name, value in facts.items() if name not in {CLIENTS.name, _FOREIGN}}
            alike = found.setdefault(json.dumps([result.kernel, others], sort_keys=True, default=str), _Alike())
            alike.points.setdefault(clients, point)
            if clients > alike.most:
                alike.most, alike.result, alike.run = clients, result, run
    curves = [curve for curve in found.values() if len(curve.points) >= MIN_LOADS and curve.result is not None]
    if not curves:
        return None
    widest = max(curves, key=lambda curve: curve.most)
    assert widest.run is not None
    return replace(widest.run, experiments=_experiments(curves), findings=(), degraded=())


def _clients(run: Run, point: Measurement, facts: Parameters) -> int:
    for name in (CLIENTS.name, _FOREIGN) if run.imported_from else (CLIENTS.name,):
        value = facts.get(name)
        if isinstance(value, int) and value > 0:
            return value
    return max(1, sum(1 for share in point.hosts if share.repeats))


def _experiments(curves: Sequence[_Alike]) -> tuple[ExperimentResult, ...]:
    """The curves, those of one experiment together."""
    made: dict[str, ExperimentResult] = {}
    for curve in curves:
        assert curve.result is not None
        points = tuple(_with_clients(point, count) for count, point in sorted(curve.points.items()))
        base = made.get(curve.result.name)
        if base is None:
            made[curve.result.name] = replace(
                curve.result, load=CLIENTS.name, points=points, curves=(), peers=(), planned=len(points),
                declaration=_declare_clients(curve.result.declaration),
                fixed={name: value for name, value in curve.result.fixed.items() if name != CLIENTS.name},
            )  # fmt: skip
        else:
            both = (*base.points, *points)
            made[curve.result.name] = replace(base, points=both, planned=len(both))
    return tuple(made.values())


def _with_clients(point: Measurement, count: int) -> Measurement:
    kept = {name: value for name, value in point.parameters.items() if name != _FOREIGN}
    return replace(point, parameters={**kept, CLIENTS.name: count})


def _declare_clients(declaration: Declaration) -> Declaration:
    axes: tuple[Axis, ...] = tuple(axis for axis in declaration.axes if axis.name not in {CLIENTS.name, _FOREIGN})
    return replace(declaration, axes=(*axes, CLIENTS))
