"""Loads of published results: a rate that was not reached, all requests at once, and none at all."""

from __future__ import annotations

import math

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, operations_per_s, percent
from hwdyno.explain.findings.serving import KERNEL, find_latency
from hwdyno.model.units import amount_at, as_number, format_count, format_ns, number_at
from hwdyno.model.words import Measurement

REACHED = 0.9
"""Share of a requested rate below which requests queued up: arrivals and printed digits explain less."""
AT_ONCE = 0.4
"""Share of all requests in flight on average from which on most of them waited together."""
MORE = 1.25
"""Ratio of two loads from which on a rate that follows its load would differ from noise."""
SAME_RATE = 0.05
CLOSED_LOOP = 0.1
"""Largest difference of rate x mean latency from a load that waits for its answers."""
SERVED = 0.5
"""Least share of the smaller load that is served at a time, where the shortest latency is a service time."""
ENOUGH = 20
"""Requests below which few of them decide the average."""


def requested_rate(case: Case) -> Verdict | None:
    """The text's command requests a rate, and its result reached only a part of it."""
    requested = as_number(case.point.details.get("requested_operations_s"))
    reached = operations_per_s(case.point)
    if not requested or not reached or reached >= REACHED * requested:
        return None
    latency = case.point.latency_ns
    waits = f" {format_ns(latency.mean)}" if latency else ""
    return Verdict(
        "warning",
        f"Overloaded ({case.label}): {format_count(requested)} operations/s were requested, and "
        f"{format_count(reached)} ({percent(reached / requested)}) were served. The others queued up, so that the "
        f"latency{waits} is the backlog of this run's length, and no property of what was measured.",
        {"requested": requested, "reached": reached},
        "Request rates that are reached, up to the knee: hwdyno inference --help",
    )


def failed_requests(case: Case) -> Verdict | None:
    """The text counts requests without a good answer."""
    found = next((of for point in case.result.points if (of := point.details.get("failed_requests"))), None)
    if not found:
        return None
    return Verdict(
        "warning",
        f"{percent(found['share'])} of the requests failed ('{found['line']}'). Rates and times are of the others, or "
        "count errors as answers; both differ from those of a service that answers all.",
        {"share": found["share"], "failed": found["failed"], "requests": found["whole"]},
        "Find out why they failed, and repeat the test at a load that all requests pass.",
    )


def sent_at_once(case: Case) -> Verdict | None:
    """Most requests were in flight together, by Little's law, where no load is stated."""
    point = case.point
    first, gap = find_latency(point, "first_token_sent"), find_latency(point, "chunk_gap")
    total = find_latency(point, "total")
    rate, tokens_s = point.throughput.value, number_at(point.details, "output_tokens_s")
    if case.result.load != "test" or not first or point.operations < ENOUGH or rate <= 0:
        return None
    if total is None and (gap is None or not tokens_s):
        return None
    whole_ns = total.mean if total else first.mean + (tokens_s / rate - 1) * (gap.mean if gap else 0.0)
    in_flight = rate * whole_ns / 1e9
    if in_flight < AT_ONCE * point.operations:
        return None
    return Verdict(
        "warning",
        f"Nearly all requests were sent at once ({case.label}): {rate:.3g} requests/s x {format_ns(whole_ns)} is "
        f"{in_flight:,.0f} in flight on average, of {point.operations:,} in all. TTFT, "
        f"{format_ns(first.mean)} on average, is mostly their wait in the queue.",
        {"in_flight": in_flight, "requests": point.operations, "ttft_ns_mean": first.mean},
        "Measure at rates, or at numbers of users, that the service will have: hwdyno inference --help",
    )


def zero_result(case: Case) -> Verdict | None:
    """A tool that counted no step prints zeros."""
    point = case.point
    if point.throughput.value or (point.rate and point.rate.value) or point.latency_ns:
        return None
    return Verdict(
        "warning",
        f"Nothing was measured ({case.label}): its figures are zeros. Possible causes: it ended before its first "
        "whole epoch or interval was counted, or it failed.",
        {"throughput": 0.0},
        "Look for errors in the whole log, and measure longer.",
    )


def more_load_waits(case: Case) -> Verdict | None:
    """Two rows with one rate and latencies as their loads: what is more than the first load only waits.

    More rows than two make a curve, whose own rules say it.
    """
    points, load = case.result.points, case.result.load
    series: dict[str, list[int]] = {}
    for at, point in enumerate(points):
        others = {name: value for name, value in point.parameters.items() if name != load}
        series.setdefault(repr(sorted(others.items())), []).append(at)
    for pair in series.values():
        if len(pair) != 2:
            continue
        first, second = sorted(pair, key=lambda at: amount_at(points[at].parameters, load))
        if (says := _who_waits(points[first], points[second], load)) is not None:
            advice = "Look for what serves so few at a time, such as the processors that a VM or container really got."
            return Verdict("info", says[0], says[1], advice, points=(first, second))
    return None


def _who_waits(first: Measurement, second: Measurement, load: str) -> tuple[str, dict[str, float]] | None:
    """The sentence and its figures, where both rates are one and Little's law holds with both loads."""
    fewer, more = (amount_at(point.parameters, load) for point in (first, second))
    rates = [operations_per_s(point) or 0.0 for point in (first, second)]
    means = [point.latency_ns.mean if point.latency_ns else 0.0 for point in (first, second)]
    if not fewer or more < MORE * fewer or not all(rates) or abs(rates[1] / rates[0] - 1) > SAME_RATE:
        return None
    if any(
        abs(rate * mean / 1e9 / number - 1) > CLOSED_LOOP
        for rate, mean, number in zip(rates, means, (fewer, more), strict=True)
    ):
        return None
    shortest = min((point.latency_ns.min or math.inf for point in (first, second) if point.latency_ns), default=0.0)
    # By the utilization law; a shortest latency that a cache served is no service time.
    served = rates[1] * shortest / 1e9
    if not SERVED * fewer <= served <= more:
        return None
    return (
        f"The rate is the same from {fewer:g} to {more:g} {load}: {format_count(rates[0])}/s and "
        f"{format_count(rates[1])}/s. About {served:.0f} are served at a time (rate x shortest latency, "
        f"{format_ns(shortest)}) and the others wait, so that the mean latency rises from {format_ns(means[0])} to "
        f"{format_ns(means[1])}.",
        {"served": served, "operations_s": rates[1], "latency_ns_min": shortest},
    )


RULES = (
    Rule("zero_result", "point", zero_result, Applies(imported=True, resources=("training",)), degrades=True),
    Rule(
        "requested_rate",
        "point",
        requested_rate,
        Applies(imported=True, needs=("details.requested_operations_s",)),
        degrades=True,
    ),
    Rule(
        "failed_requests",
        "experiment",
        failed_requests,
        Applies(imported=True, needs=("details.failed_requests",)),
    ),
    Rule("more_load_waits", "experiment", more_load_waits, Applies(imported=True, needs=("latency",))),
    Rule("sent_at_once", "point", sent_at_once, Applies(imported=True, kernels=(KERNEL,)), degrades=True),
)
