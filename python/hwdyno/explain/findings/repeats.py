"""Whether the repeats of a point agree, by what the samples within each leave open."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hwdyno.analysis.estimates import mean, outliers
from hwdyno.analysis.samples import MODES_NOTE, SHARED_NOTE, disagreement, each_over_time
from hwdyno.analysis.states import CHANGED_AT, CHANGED_NOTE, CHANGED_TO, format_levels
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, contrast, percent
from hwdyno.model.units import plural

MAX_P_VALUE, MAX_FALL_P_VALUE = 1e-4, 1e-3
"""Probability, by what samples leave open, below which repeats disagree, or fall and stay low (chance rarely does)."""
SPREAD = 0.08
"""Repeats within this share of each other are alike for any use."""
FALL = 0.06
"""A fall between repeats that stays, from which it is named: a true one of 8% may read as less."""
MAX_ORDER_P_VALUE = 0.01
"""Probability, over all points of a sweep, below which an order of repeats is named: repeats that differ in any order
happen to fall in many."""
LOSSES, GAINS = (
    "a full write cache, spent burst credits, heat, a lower clock, other load",
    "other load, a rebuild, heat",
)
"""What takes throughput for good, and what gives it back, for the reader to look for: none of it was measured."""
WIDE = 0.20
"""Repeats that differ by more are a warning, regardless of their order."""


def lasting_fall(values: Sequence[float]) -> tuple[int, float] | None:
    """The number of repeats after which throughput falls and stays low, and by what share; none where it does not.

    At least two repeats are low, and both levels are further apart than half of the fall.
    """
    falls = []
    for at in range(1, len(values) - 1):
        before, after = values[:at], values[at:]
        drop = 1 - mean(after) / mean(before) if mean(before) > 0 else 0.0
        if min(before) - max(after) > drop / 2 * mean(before):
            falls.append((drop, at))
    drop, at = max(falls, default=(0.0, 0))
    return (at, drop) if drop > 0 else None


def order_p_value(count: int, at: int, points: int) -> float:
    """The probability that of ``count`` repeats in random order the first ``at`` are the highest, in any of ``points``.

    One order of the two groups in C(n, k) has them so, for each of the cuts that were tried.
    """
    return min(1.0, points * (count - 2) / math.comb(count, at))


def repeats_disagree(case: Case) -> Verdict | None:
    """Repeats of one point differ by more than their own samples explain: something changed between them."""
    found = disagreement(each_over_time(case.point))
    values = case.point.repeat_values
    if found is None or found.p_value >= MAX_FALL_P_VALUE or len(values) < 2:
        return None
    unit, fall = case.point.throughput.unit, lasting_fall(values)
    repeated = sum(len(point.repeat_values) > 2 for point in case.result.points)  # Of two, none falls and stays low.
    is_low_later = fall is not None and fall[1] >= FALL
    says = (
        f"{case.point.repeats} repeats disagree by {percent(found.spread)}: {case.quantity(min(values), unit)} to "
        f"{case.quantity(max(values), unit)} ({case.label}). Each is steady within itself."
    )
    if fall is not None and is_low_later and order_p_value(len(values), fall[0], repeated) <= MAX_ORDER_P_VALUE:
        at, drop = fall
        figures = contrast(case.quantity(mean(values[:at]), unit), case.quantity(mean(values[at:]), unit))
        says = f"Throughput fell by {percent(drop)} after repeat {at} of {len(values)} and stayed there"
        says += f" ({case.label}: {figures})."
    else:
        fall = None
        if not is_low_later and (found.p_value >= MAX_P_VALUE or found.spread <= SPREAD or outliers(values)):
            return None  # Alike; or one repeat is far off, which has a separate rule.
    return Verdict(
        "warning" if is_low_later or found.spread > WIDE else "info",
        says,
        {
            "spread": found.spread,
            "p_value": found.p_value,
            "repeats": list(values),
            "unit": unit,
            "fell_after": fall and fall[0],
        },
        f"Measure again, and look for what changes between readings: {case.command()}",
        weight=found.spread,
    )


def device_changed(case: Case) -> Verdict | None:
    """All readings from some moment on are higher or lower by the same share: the device is in another state."""
    note = next((note for note in case.point.notes if note.code == CHANGED_NOTE), None)
    if note is None:
        return None
    at_s, ratio = case.point.conditions[CHANGED_AT], case.point.conditions[CHANGED_TO]
    figures = format_levels(case.point)
    says = f"{case.resource.title}: {note.says}, and stayed there"
    says += f" ({case.label}: {figures})." if figures else f" ({case.label})."
    curves = "Curves use the readings of one state."
    return Verdict(
        "warning",
        f"{says} {curves}",
        {"changed_at_s": at_s, "ratio": ratio, "unit": case.point.throughput.unit},
        f"Find what {'ended' if ratio > 1 else 'began'} then ({GAINS if ratio > 1 else LOSSES}), or measure the state "
        f"that lasts: {case.command(runtime=60)}",
        weight=len(case.point.repeat_values) * (1.0 if figures else 0.1),
        explains=(
            *("repeats_disagree", "interval_not_reached", "outlying_repeats", "two_modes", "not_steady", "throttled"),
        ),
        several=f"{says} {{count}} points were read in both states or in the other one. {curves}",
    )


def two_modes(case: Case) -> Verdict | None:
    """Throughput switches between two levels, so that one mean describes neither."""
    note = next((note for note in case.point.notes if note.code == MODES_NOTE), None)
    if note is None:
        return None
    return Verdict(
        "info",
        f"{note.says[0].upper()}{note.says[1:]} ({case.label}).",
        {"note": note.says},
        f"See each level over time: {case.command(runtime=60)}",
    )


def modes_nearby(case: Case) -> Verdict | None:
    """Points of an experiment switch between two levels, so that those which saw one may have missed the other."""
    noted = {
        at: note.says for at, point in enumerate(case.result.points) for note in point.notes if note.code == SHARED_NOTE
    }
    if not noted:
        return None
    (says,) = set(noted.values())
    return Verdict(
        "info",
        f"{says[0].upper()}{says[1:]}; {len(noted)} of {plural(len(case.result.points), 'interval')} "
        f"{'was' if len(noted) == 1 else 'were'} widened for it.",
        {"note": says, "points": len(noted)},
        f"See each level over time: {case.command(runtime=60)}",
        points=tuple(noted),
    )


RULES = (
    Rule(
        *("device_changed", "point", device_changed),
        Applies(needs=(f"notes.{CHANGED_NOTE}",)),
        degrades=True,
        explains=True,
    ),
    Rule(
        "repeats_disagree",
        "point",
        repeats_disagree,
        Applies(where=lambda resource: not resource.bursty, needs=("samples",)),
    ),
    Rule(
        "two_modes",
        "point",
        two_modes,
        Applies(where=lambda resource: not resource.bursty, needs=(f"notes.{MODES_NOTE}",)),
    ),
    Rule(
        *("modes_nearby", "experiment", modes_nearby),
        Applies(where=lambda resource: not resource.bursty, needs=(f"notes.{SHARED_NOTE}",)),
    ),
)
