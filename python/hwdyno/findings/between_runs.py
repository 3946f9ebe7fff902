"""What differs between runs of one machine, where its earlier Runs have told it."""

from __future__ import annotations

from hwdyno import statistics
from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, as_number, percent
from hwdyno.repeatability import DEVIATION, EARLIER

LEAST_DEVIATION = 0.005
"""Nobody asks for less."""


def between_runs(case: Case) -> Verdict | None:
    """Runs differ from each other by more than the repeats of one do: its intervals say so."""
    known = [
        (deviation, earlier, _within(list(point.repeat_values)))
        for point in case.result.points
        if (deviation := as_number(point.details.get(DEVIATION))) and (earlier := as_number(point.details.get(EARLIER)))
    ]
    if not known:
        return None
    deviation, earlier = known[0][:2]
    within = statistics.median([one for _, _, one in known])
    if deviation < max(LEAST_DEVIATION, within):
        return None
    return Verdict(
        "info",
        f"{case.result.name}: runs of this machine differ by {percent(deviation)} from one to the next (standard "
        f"deviation, over {earlier:.0f} earlier runs) where the repeats of one run leave {percent(within)}: placement "
        "of the memory, neighbours and clock stay the same within a run. Its intervals hold both.",
        {"deviation": deviation, "within": within, "earlier_runs": earlier},
        "Repeats in one run do not narrow this; runs at other times do, and so does a machine of one's own.",
        weight=deviation,
    )


def _within(values: list[float]) -> float:
    """The standard error of the mean of some repeats, as a share."""
    if len(values) < 2 or statistics.mean(values) <= 0:
        return 0.0
    return statistics.standard_deviation(values) / statistics.mean(values) / float(len(values) ** 0.5)


RULES = (Rule("between_runs", "experiment", between_runs, Applies(needs=(f"details.{DEVIATION}",))),)
