"""The access engine where io_uring is forbidden, as in containers, and the user has chosen none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hwdyno.measure.plan import Plan, Planned
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Note

_AXIS = "ioengine"
_INSTEAD = ("libaio", "psync")
"""Engines in the order of what they can have in flight."""


def reachable(plan: Plan, machines: Sequence[Machine]) -> tuple[Plan, tuple[Note, ...]]:
    """The plan with an engine that every machine has, and a note where that is not io_uring; a given one stays."""
    if _AXIS in plan.given or all(machine.os.io_uring is not False for machine in machines):
        return plan, ()
    experiments = tuple(map(_reachable, plan.experiments))
    if experiments == plan.experiments:
        return plan, ()
    used = ", ".join(sorted({str(planned.fixed[_AXIS]) for planned in experiments if planned not in plan.experiments}))
    says = f"io_uring is forbidden or missing here, so storage was accessed by {used}"
    return replace(plan, experiments=experiments), (Note("io_uring_refused", says),)


def _reachable(planned: Planned) -> Planned:
    axis = planned.declaration.axis(_AXIS)
    there = [engine for engine in _INSTEAD if engine in axis.choices]
    if (
        planned.fixed.get(_AXIS, axis.default) != "io_uring"
        or not there
        or any(_AXIS in point for point in planned.points)
    ):
        return planned
    return replace(planned, fixed={**planned.fixed, _AXIS: there[0]})
