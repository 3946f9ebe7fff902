"""Loads of published results: a rate that was not reached, all requests at once, and none at all."""

from __future__ import annotations

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, operations_per_s, percent
from hwdyno.explain.findings.serving import KERNEL, find_latency
from hwdyno.model.units import as_number, format_count, format_ns, number_at

REACHED = 0.9
"""Share of a requested rate below which requests queued up: arrivals and printed digits explain less."""
AT_ONCE = 0.4
"""Share of all requests in flight on average from which on most of them waited together."""
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


RULES = (
    Rule("zero_result", "point", zero_result, Applies(imported=True, resources=("training",)), degrades=True),
    Rule(
        "requested_rate",
        "point",
        requested_rate,
        Applies(imported=True, needs=("details.requested_operations_s",)),
        degrades=True,
    ),
    Rule("sent_at_once", "point", sent_at_once, Applies(imported=True, kernels=(KERNEL,)), degrades=True),
)
