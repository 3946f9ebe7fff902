"""Keeps a run within its budget: where even the shortest readings take too long, every other value of an axis goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hwdyno.measure.plan import SHORTEST_S, Plan, Planned, Timing, reading_s
from hwdyno.model.words import Parameters, Scalar

MIN_VALUES = 2
"""Values kept of an axis, as long as another has more: its ends say the most."""
GRACE = 0.1
"""Share by which a budget may be overrun before readings are left out."""


def min_s(planned: Planned, plan: Plan) -> float:
    """Seconds that one shortest reading of every point takes, with the warm-up; peers use what time is left then."""
    shortest = Timing(min(SHORTEST_S, plan.profile.runtime_s), 0.05, 1, 1)
    every = (reading_s(planned, point, shortest, plan.given) for point in (planned.points[0], *planned.points))
    return sum(every)


def needs_s(planned: Planned, plan: Plan, chosen: Timing) -> float:
    """Seconds that the least repeats of every point take, as they were chosen, with the peers' and the warm-up."""
    every = (reading_s(planned, point, chosen, plan.given) for point in planned.points)
    repeated = chosen.repeats_min * sum(planned.with_peers_s(plan, once) for once in every)
    return repeated + reading_s(planned, planned.points[0], chosen, plan.given)


def fit_plan(plan: Plan, left_s: float | None) -> Plan:
    """The plan without as many points, evenly chosen, as needed to read each of the rest once in ``left_s``.

    A run time that was given is kept, and so is every point then: a person who settles the time of a reading settles
    that of the run.
    """
    if left_s is None or "runtime" in plan.given or not plan.points:
        return plan
    needed = sum(min_s(planned, plan) for planned in plan.experiments)
    if needed <= left_s:
        return plan
    share = max(0.0, left_s / needed)
    return replace(
        plan,
        experiments=tuple(
            replace(planned, points=thin_points(planned.points, planned.load, max(1, int(len(planned.points) * share))))
            for planned in plan.experiments
        ),
    )


def thin_points(points: Sequence[Parameters], load: str, most: int) -> tuple[Parameters, ...]:
    """The points thinned to ``most``: every other value of the longest axis goes, its ends stay; the load's goes last.

    Axes of numbers go before axes of words, because between two numbers a reader may guess, and between two
    words he may not.
    """
    kept = list(points)
    while len(kept) > max(1, most):
        axes: dict[str, list[Scalar]] = {}
        for point in kept:
            for name, value in point.items():
                if value not in axes.setdefault(name, []):
                    axes[name].append(value)

        def rank(name: str, axes: dict[str, list[Scalar]] = axes) -> tuple[bool, bool, int]:
            values = axes[name]
            numbers = all(isinstance(value, int | float) for value in values)
            return len(values) > MIN_VALUES, numbers, len(values) - (name == load)

        longest = max(axes, key=rank)
        values = axes[longest]
        if len(values) == 1:
            return tuple(kept[:1])
        wanted = values[::2] if len(values) == MIN_VALUES else [*values[:-1:2], values[-1]]
        fewer = [point for point in kept if point.get(longest, wanted[0]) in wanted]
        if len(fewer) == len(kept):
            return tuple(kept[: max(1, most)])
        kept = fewer
    return tuple(kept)
