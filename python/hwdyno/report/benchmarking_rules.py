"""The report compared with the twelve rules of Hoefler & Belli (Scientific Benchmarking, SC'15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hwdyno.model.words import Measurement, Run
from hwdyno.report.verdict import count_points

MAX_REASONS = 2
Holds = Literal["yes", "partly", "no", "not applicable"]


@dataclass(frozen=True, slots=True)
class BenchmarkingRule:
    """One rule: whether it holds for this Run, and why."""

    number: int
    asks: str
    holds: Holds
    why: str


def judged_rules(run: Run) -> list[BenchmarkingRule]:
    """All twelve rules, judged by what this Run holds."""
    points = [point for experiment in run.experiments for point in experiment.points]
    made = [_speedup(run), _subset(run, points), _mean(points), _ratios(run), _intervals(points), _normality(points)]
    made += [_comparison(run), _percentiles(points), _setup(run), _timing(run, points), _bounds(run), _lines(run)]
    return [BenchmarkingRule(number, *judged) for number, judged in enumerate(made, start=1)]


_Judged = tuple[str, Holds, str]


def _speedup(run: Run) -> _Judged:
    asks = "A speed-up names its base case, in absolute figures"
    if any(experiment.curves and experiment.load_axis.role == "concurrency" for experiment in run.experiments):
        return (
            asks,
            "yes",
            "Scaling is shown as absolute throughput; the base case is the lowest load measured, in its own row.",
        )
    return asks, "not applicable", "No speed-up is reported."


def _subset(run: Run, points: list[Measurement]) -> _Judged:
    asks = "Missing points are explained"
    _, planned = count_points(run)
    if planned > len(points) or run.interrupted:
        missing = f"{planned - len(points)} of {planned} planned points are missing"
        return (
            asks,
            "partly" if run.degraded else "no",
            f"{missing}: {_reasons(run.degraded) or 'no reason is recorded.'}",
        )
    return asks, "yes", "Every point of the plan is in the raw data; none was dropped."


def _reasons(degraded: tuple[str, ...]) -> str:
    """The first reasons; a run that was cut short has one for each experiment."""
    reasons = [reason.removesuffix(".") for reason in degraded]
    if len(reasons) > MAX_REASONS + 1:
        reasons[MAX_REASONS:] = [f"and {len(reasons) - MAX_REASONS} more reasons in the raw data"]
    return "; ".join(reasons) + "." * bool(reasons)


def _mean(points: list[Measurement]) -> _Judged:
    asks = "Arithmetic mean for times, harmonic mean for rates, median where skewed"
    if not any(point.repeats > 1 for point in points):
        return asks, "not applicable", "Each point was measured once, so nothing is averaged."
    skewed = sum(note.code == "median_of_repeats" for point in points for note in point.notes)
    whose = "1 point has" if skewed == 1 else f"{skewed} points have"
    medians = f" {whose} skewed repeats; their median is reported." if skewed else ""
    return asks, "yes", f"Rates of repeats are averaged by the harmonic mean, times by the arithmetic mean.{medians}"


def _ratios(run: Run) -> _Judged:
    asks = "Ratios are not averaged"
    if not any(experiment.peers for experiment in run.experiments):
        return asks, "not applicable", "No ratio between tools is reported."
    return asks, "yes", "Each ratio to a peer is reported by itself; pairs are combined by the geometric mean."


def _intervals(points: list[Measurement]) -> _Judged:
    asks = "Measured values have a confidence interval"
    having = sum(point.throughput.low is not None and point.throughput.high is not None for point in points)
    if not points:
        return asks, "not applicable", "Nothing was measured."
    holds: Holds = "yes" if having == len(points) else "partly" if having else "no"
    return asks, holds, f"{having} of {len(points)} points have a 95% interval."


def _normality(points: list[Measurement]) -> _Judged:
    asks = "Normality is not assumed"
    whole = sum(bool(point.latency_ns and point.latency_ns.histogram) for point in points)
    if whole:
        return (
            asks,
            "yes",
            (
                f"{whole} of {len(points)} points keep the full latency distribution; means of repeats use Student's "
                "t, with the number of repeats."
            ),
        )
    return asks, "no", "Only summaries of the distributions are available."


def _comparison(run: Run) -> _Judged:
    asks = "Comparisons are statistically sound"
    peers = [peer for experiment in run.experiments for peer in experiment.peers]
    if not peers:
        return asks, "not applicable", "This run has no comparison with another tool."
    sound = sum(peer.ratio is not None and peer.ratio.low is not None for peer in peers)
    holds: Holds = "yes" if sound == len(peers) else "partly" if sound else "no"
    return (
        asks,
        holds,
        f"{sound} of {len(peers)} comparisons alternated on the same point and have an interval of the ratio.",
    )


def _percentiles(points: list[Measurement]) -> _Judged:
    asks = "Median and percentiles are shown"
    timed = [point.latency_ns for point in points if point.latency_ns is not None]
    if not timed:
        return asks, "not applicable", "No latencies were recorded."
    if all(latency.p50 is None for latency in timed):
        return asks, "no", "Only mean latencies are known; a mean is never shown as a percentile."
    return (
        asks,
        "yes",
        "Mean, median, p90, p99 and maximum are shown, and p99.9 from 10,000 operations; percentiles are never "
        "averaged.",
    )


def _setup(run: Run) -> _Judged:
    asks = "All factors, levels and the set-up are documented"
    count = sum(len(machine.unknown) for machine in run.machines)
    if not run.machines:
        return asks, "no", "The machine is not described in this result."
    if not run.command:
        return asks, "partly", "The command is not recorded."
    known = "machine, parameters, conditions and commands are below"
    return (
        asks,
        "partly" if count else "yes",
        f"The {known}; {count} facts are unknown, with the reason." if count else f"The {known}.",
    )


def _timing(run: Run, points: list[Measurement]) -> _Judged:
    asks = "Parallel time measurement and synchronisation are described"
    if run.imported_from:
        return asks, "no", f"The result was imported from {run.imported_from}, which does not describe it."
    if not points:
        return asks, "not applicable", "Nothing was measured."
    return (
        asks,
        "yes",
        "Jobs start together at a barrier; rates count all work in one shared timed region, by a monotonic clock.",
    )


def _bounds(run: Run) -> _Judged:
    asks = "Upper performance bounds are shown"
    bounded = sum(bool(experiment.ceilings) for experiment in run.experiments)
    if not run.experiments:
        return asks, "not applicable", "Nothing was measured."
    holds: Holds = "yes" if bounded == len(run.experiments) else "partly" if bounded else "no"
    return (
        asks,
        holds,
        f"{bounded} of {len(run.experiments)} experiments have a ceiling, each with its class and formula.",
    )


def _lines(run: Run) -> _Judged:
    asks = "Points are connected only where interpolation is valid"
    if not any(len(experiment.points) > 1 for experiment in run.experiments):
        return asks, "not applicable", "There is nothing to connect."
    return (
        asks,
        "yes",
        "Lines follow the fitted model, or connect three or more neighbours on a numeric axis; categories have bars.",
    )
