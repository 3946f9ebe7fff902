"""How much runs of one machine differ, where its earlier Runs tell."""

from __future__ import annotations

import math

from hwdyno.analysis import estimates
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, percent
from hwdyno.explain.repeatability import half_width
from hwdyno.model.units import plural

MIN_DEVIATION = 0.02
"""No one asks for less."""


def between_runs(case: Case) -> Verdict | None:
    """Runs differ from each other by more than the repeats of one do."""
    spread = case.result.run_to_run
    if spread is None:
        return None
    deviation = math.hypot(spread.deviation, spread.point_deviation)
    within = estimates.median([_within(list(point.repeat_values)) for point in case.result.points])
    if deviation < max(MIN_DEVIATION, within):
        return None
    return Verdict(
        "info",
        f"Runs differ by ±{percent(half_width(spread))}, repeats of one run by ±{percent(2 * within)} "
        f"({case.result.name}, {plural(spread.earlier, 'earlier run')}). Memory placement, clock and neighbours stay "
        "the same within a run. The intervals hold for this run only.",
        {"deviation": deviation, "within": within, "earlier_runs": spread.earlier},
        "Compare runs made at different times; a comparison uses this variation.",
        weight=deviation,
    )


def _within(values: list[float]) -> float:
    """The standard error of the mean of some repeats, as a share."""
    if len(values) < 2 or estimates.mean(values) <= 0:
        return 0.0
    return estimates.standard_deviation(values) / estimates.mean(values) / float(len(values) ** 0.5)


RULES = (Rule("between_runs", "experiment", between_runs, Applies(needs=("run_to_run",))),)
