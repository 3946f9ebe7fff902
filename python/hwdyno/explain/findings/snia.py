"""Whether a test by SNIA's specification reached steady state."""

from __future__ import annotations

from hwdyno.analysis.estimates import SNIA_RANGE, SNIA_SLOPE, snia_window
from hwdyno.explain.findings.applies import ROUND, Applies, Rule
from hwdyno.explain.findings.commands import typed_command
from hwdyno.explain.findings.rule import Case, Verdict, percent
from hwdyno.model.units import plural
from hwdyno.model.words import ExperimentResult, Measurement, Run

PREFIX = "storage.snia-"


def is_rounds(experiment: ExperimentResult) -> bool:
    """Whether an experiment holds the rounds of one of SNIA's tests, none of which is a result by itself."""
    return experiment.load == ROUND and experiment.name.startswith(PREFIX)


def is_tracked(point: Measurement) -> bool:
    """Whether a round is one of those that decide on the steady state."""
    return any(note.code == "snia_tracked" for note in point.notes)


def snia_not_steady(case: Case) -> Verdict | None:
    """The tracked workload did not meet both of SNIA's criteria over the last five rounds."""
    by_latency = case.result.name.startswith("storage.snia-latency")
    rounds = [point for point in case.result.points if is_tracked(point)]
    window = snia_window([_value(point, by_latency) for point in rounds])
    if window is None or window.steady:
        return None
    wanted = (
        f"The last window passed; after windows that failed, {window.wanted} in a row are required."
        if window.in_a_row
        else "SNIA requires both."
    )
    return Verdict(
        "warning",
        f"No steady state after {plural(window.last, 'round')}: over the last five, the range is "
        f"{percent(window.spread)} of the mean ({percent(SNIA_RANGE)} allowed) and the slope "
        f"{percent(abs(window.moves))} ({percent(SNIA_SLOPE)} allowed). {wanted}",
        {"rounds": window.last, "range": window.spread, "moves": window.moves},
        f"Run longer rounds on a quiet machine: {_longer(case.run)}",
    )


def _value(point: Measurement, by_latency: bool) -> float:
    if by_latency:
        return point.latency_ns.mean if point.latency_ns else 0.0
    return (point.rate or point.throughput).value


def _longer(run: Run) -> str:
    """The run's command with more time: the next profile, without a budget."""
    command = typed_command(run.command).without({"budget"})
    return command.with_options({"profile": "standard" if run.profile == "quick" else "full"}).line


RULES = (Rule("snia_not_steady", "experiment", snia_not_steady, Applies(rounds=True, needs=("notes.snia_tracked",))),)
