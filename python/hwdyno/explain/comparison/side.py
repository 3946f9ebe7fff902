"""One side of a comparison beside the first: another Run, or a device of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hwdyno.analysis.ceilings import utilizations
from hwdyno.explain.comparison.changes import Change, changes_from_stated, changes_in, fails, is_open
from hwdyno.explain.comparison.differences import Difference, differences, is_one_machine
from hwdyno.explain.comparison.matching import Matching, as_rate, match_points
from hwdyno.explain.comparison.mounts import find_mount_cost
from hwdyno.model.words import Ceiling, Finding, Run, Value

NOTHING_ALIKE = Matching({})
PASSED, FAILED, OPEN = "passed", "failed", "open"


@dataclass(frozen=True, slots=True)
class Compared:
    """A side beside the first one: what differs, what is alike, and how the like points changed."""

    name: str
    before: Run | None
    """The first side; none where that is a device."""
    after: Run
    changes: tuple[Change, ...]
    differences: tuple[Difference, ...] = ()
    matching: Matching = NOTHING_ALIKE
    is_one_machine: bool = False
    """Whether a loss is a regression, and not a difference between machines."""
    finding: Finding | None = None
    """What both Runs tell together, such as what a mount costs against its store."""

    @property
    def is_alike(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self.changes or self.finding)


def runs_compared(before: Run, after: Run, name: str) -> Compared:
    """A Run beside the first one."""
    matching = match_points(before, after)
    return Compared(
        name,
        before,
        after,
        tuple(changes_in(matching)),
        tuple(differences(before, after)),
        matching,
        is_one_machine(before, after),
        find_mount_cost(before, after),
    )


def device_compared(run: Run, name: str, list_ceilings: Callable[[str], Sequence[Ceiling]]) -> Compared:
    """A Run beside a device of the catalogue: for each of its figures, the point that comes nearest to it."""
    found = []
    for resource in dict.fromkeys(experiment.resource for experiment in run.experiments):
        for ceiling in list_ceilings(resource):
            best = max(
                (
                    (utilization.share, at, result, point, utilization.bound)
                    for at, result in enumerate(run.experiments)
                    if result.resource == resource
                    for point in result.points
                    if point.validity != "invalid"
                    for utilization in utilizations(
                        (ceiling,), point, {**result.fixed, **point.parameters}, axes=result.declaration.axes
                    )
                    if utilization.bound.unit == point.throughput.unit
                ),
                key=lambda candidate: (candidate[0], -candidate[1]),
                default=None,
            )
            if best is not None:
                _, _, result, point, bound = best
                stated = Value(bound.value, bound.unit)
                rated = as_rate(point) if ceiling.unit == "operations/s" else None
                if rated is not None:  # As the maker states it.
                    stated = Value(bound.value * rated.throughput.value / point.throughput.value, "operations/s")
                    point = rated
                found.append((result, point, stated, f"{ceiling.label}, {ceiling.formula}"))
    return Compared(name, None, run, tuple(changes_from_stated(found)))


def status(sides: Sequence[Compared], limit: float | None) -> str:
    """``failed`` where a loss is proven, ``open`` where none can be for want of repeats, else ``passed``.

    Without a limit, losses count on one machine only: another one is not a regression.
    """
    judged = [change for side in sides for change in side.changes if limit is not None or side.is_one_machine]
    if any(fails(change, limit) for change in judged):
        return FAILED
    is_blind = all(change.verdict == "unknown" for side in sides for change in side.changes)
    if limit is None and not any(side.changes for side in sides):
        return PASSED
    return OPEN if is_blind or any(is_open(change, limit) for change in judged) else PASSED
