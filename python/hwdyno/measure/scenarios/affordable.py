"""Chooses what a budget has time to make, so that nothing is made for a part that the budget would skip."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hwdyno.measure.plan import SHORTEST_S, WRITE_BYTES_S, Plan, Planned, Timing, reading_s
from hwdyno.measure.scenarios.preparation import Preparation
from hwdyno.model.units import format_duration, plural
from hwdyno.system.urls import format_place


def list_unaffordable(
    plan: Plan, unmade: Sequence[Preparation], spent_s: float = 0.0, write_bytes_s: float = WRITE_BYTES_S
) -> frozenset[str]:
    """The experiments that a budget has no time for, because what they read is unmade and takes too long to make.

    They are chosen in the plan's order, each with one shortest reading. The one whose making is shortest stays where
    no experiment would.
    """
    if plan.budget_s is None or "runtime" in plan.given:
        return frozenset()
    left_s, chosen = plan.budget_s - spent_s, list[Preparation]()
    out: dict[str, float] = {}
    for planned in plan.experiments:
        needs = [made for made in unmade if made not in chosen and uses(planned, made)]
        making_s = sum(made.seconds(write_bytes_s) for made in needs)
        if not making_s:
            continue
        takes_s = making_s + shortest_s(planned, plan)
        if takes_s <= left_s:
            left_s -= takes_s
            chosen += needs
        else:
            out[planned.experiment.name] = making_s
    if len(out) == len(plan.experiments):
        out.pop(min(out, key=lambda name: out[name]))
    return frozenset(out)


def uses(planned: Planned, made: Preparation) -> bool:
    """Whether any point works on the file or folder that a preparation makes, or below it."""
    where = format_place(made.where)
    values = (value for point in ({**planned.fixed}, *planned.points) for value in point.values())
    return any(isinstance(value, str) and (value == where or value.startswith(f"{where}/")) for value in values)


def explain_left_out(plan: Plan, names: Collection[str]) -> str:
    """Why these experiments are skipped, in a sentence that names them."""
    return (
        f"{plural(len(names), 'experiment')} skipped: the budget of {format_duration(plan.budget_s or 0.0)} has no "
        f"time to make what they read ({', '.join(sorted(names))}); raise it with --budget"
    )


def shortest_s(planned: Planned, plan: Plan) -> float:
    """Seconds of a warm-up and one reading of an experiment."""
    shortest = Timing(min(SHORTEST_S, plan.profile.runtime_s), 0.05, 1, 1)
    return 2 * reading_s(planned, planned.points[0], shortest, plan.given)
