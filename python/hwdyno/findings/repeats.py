"""Whether the repeats of a point agree, by what the samples within each leave open."""

from __future__ import annotations

from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, percent
from hwdyno.findings.steadiness import each_over_time
from hwdyno.samples import MODES_NOTE, disagreement
from hwdyno.statistics import outliers

CHANCE = 1e-4
OTHERS = 0.1
SPREAD = 0.08
"""Repeats within this share of each other are alike for any use."""


def repeats_disagree(case: Case) -> Verdict | None:
    """Repeats of one point differ by more than their own samples explain: something changed between them."""
    found = disagreement(each_over_time(case.point))
    if found is None or found.chance >= CHANCE or found.spread <= SPREAD or case.point.repeats < 2:
        return None
    # One repeat far off, and others at work, are named by rules that say more.
    if outliers(case.point.repeat_values) or (case.others_share or 0.0) > OTHERS:
        return None
    values = case.point.repeat_values or (0.0,)
    unit = case.point.throughput.unit
    return Verdict(
        "warning",
        f"{case.point.repeats} repeats disagree by {percent(found.spread)}: {case.quantity(min(values), unit)} to "
        f"{case.quantity(max(values), unit)} ({case.label}). Each is steady within itself.",
        {"spread": found.spread, "chance": found.chance, "repeats": list(values), "unit": unit},
        f"Measure again, and look for what changes between readings: {case.command()}",
        weight=found.spread,
    )


def two_modes(case: Case) -> Verdict | None:
    """Throughput switches between two levels, so that one mean stands for neither."""
    note = next((note for note in case.point.notes if note.code == MODES_NOTE), None)
    if note is None:
        return None
    return Verdict(
        "info",
        f"{note.says[0].upper()}{note.says[1:]} ({case.label}).",
        {"note": note.says},
        f"See each level over time: {case.command(runtime=60)}",
    )


RULES = (
    Rule("repeats_disagree", "point", repeats_disagree, Applies(where=lambda one: not one.bursty, needs=("samples",))),
    Rule("two_modes", "point", two_modes, Applies(where=lambda one: not one.bursty, needs=(f"notes.{MODES_NOTE}",))),
)
