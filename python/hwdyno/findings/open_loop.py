"""What an open loop says: rates that were not reached, and what users wait at a share of what can be served."""

from __future__ import annotations

import math

from hwdyno.curves import REACHED_SHARE
from hwdyno.curves.open_loop import OpenLoop
from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, as_number, operations_per_s, percent
from hwdyno.findings.snia import PREFIX
from hwdyno.resources import rate_word_of
from hwdyno.units import format_count, format_ns
from hwdyno.words import Axis, Measurement

OF_OPERATIONS = {"", "operations/s", "1/s"}
"""Units of a rate that counts requests."""
SHARES = (0.5, 0.8, 0.95)
"""Loads at which the wait is told: half, where queues begin to matter, and where they govern."""
MISSED = 0.98
"""Below this share of a rate requests queued up, if it was no chance."""
CHANCE = 4.0
"""Standard errors of a count of random arrivals (1 / sqrt n each) that may be chance."""
ROOM = 0.7
"""Of what was reached, so much is a rate with room to spare."""


def offered_and_reached(case: Case) -> tuple[Axis, float, float] | None:
    """The axis by which requests are offered at a rate, its value, and what was reached in its unit; none without."""
    rates = [(axis, case.number(axis.name)) for axis in case.result.declaration.axes if axis.role == "rate"]
    offered = [(axis, rate) for axis, rate in rates if rate]
    if len(offered) != 1:
        return None
    ((axis, rate),) = offered
    reached = operations_per_s(case.point) if axis.unit in OF_OPERATIONS else None
    if axis.unit == "B" and case.point.throughput.unit == "bytes/s":
        reached = case.point.throughput.value
    return None if reached is None else (axis, rate, reached)


def chance(point: Measurement) -> float:
    """How far below its rate a count of random arrivals may lie by chance, as a share."""
    return CHANCE / math.sqrt(point.operations) if point.operations else 1.0


def rate_not_reached(case: Case) -> Verdict | None:
    """Requests came faster than they were served, so that their wait grew as long as the run lasted."""
    noted = any(note.code == "rate_not_reached" for note in case.point.notes)
    found = offered_and_reached(case)
    if found is None or not noted:
        return None
    axis, offered, reached = found
    share, latency = reached / offered, case.point.latency_ns
    if share >= MISSED - chance(case.point):
        return None
    counted = "bytes/s" if axis.unit == "B" else rate_word_of(case.result) or "operations/s"
    waits = f" of {format_ns(latency.mean)} on average" if latency else ""
    room = max(1, int(float(f"{ROOM * reached:.2g}")))
    return Verdict(
        "warning",
        f"{case.label}: {percent(share)} of the rate asked for was reached ({format_count(reached)} of "
        f"{format_count(offered)} {counted}), so requests queued up and their latency{waits} is the backlog of this "
        f"runtime, not the storage's.",
        {"asked": offered, "reached": reached, "share": share, "latency_ns_mean": latency.mean if latency else None},
        f"Ask for a rate that it can serve: {case.command(**{axis.name: room})}",
        weight=1 - share,
    )


def users_wait(case: Case) -> Verdict | None:
    """What a request waits at some shares of the rate that can be served, by M/M/m and as measured."""
    curve = case.curve
    axis = case.result.load_axis
    if curve is None or axis.unit not in OF_OPERATIONS:
        return None
    counted = rate_word_of(case.result) or "operations/s"
    rates = {at: as_number(case.result.points[at].parameters.get(axis.name)) or 0.0 for at in curve.points}
    served = [at for at, rate in rates.items() if _kept_up(case.result.points[at], rate)]
    if not served:
        return None
    least_at, most_at = min(served, key=rates.__getitem__), max(served, key=rates.__getitem__)
    beyond = [rate for rate in rates.values() if rate > rates[most_at]]
    edge = f" At {format_count(min(beyond))} {counted} asked for, requests queue up without an end." if beyond else ""
    if curve.model != "m-m-m":
        return _as_measured(case, counted, case.result.points[least_at], case.result.points[most_at], edge)
    model = OpenLoop(curve.parameters["S"].value, round(curve.parameters["m"].value), 0.0)
    waits = [f"{format_ns(model.latency_ns(share * model.capacity_s))} at {percent(share)}" for share in SHARES]
    kept_up = [case.result.points[at] for at in served]
    busiest = min(kept_up, key=lambda point: abs((operations_per_s(point) or 0.0) / model.capacity_s - 0.8))
    share = (operations_per_s(busiest) or 0.0) / model.capacity_s
    tail = (
        f" Measured at {percent(share)}: {format_ns(busiest.latency_ns.mean)} on average, one in a hundred "
        f"{format_ns(busiest.latency_ns.p99)} or longer."
        if busiest.latency_ns
        else ""
    )
    return Verdict(
        "info",
        f"{case.label}: of the {format_count(model.capacity_s)} {counted} that it can serve, users wait "
        f"{', '.join(waits)} load, and {format_ns(model.service_ns)} where nobody is before them "
        f"(M/M/{model.servers}).{tail}{edge}",
        {
            "capacity_operations_s": model.capacity_s,
            "service_ns": model.service_ns,
            "servers": model.servers,
            "latency_ns_at_share": {str(one): model.latency_ns(one * model.capacity_s) for one in SHARES},
        },
        f"Plan for less than {percent(SHARES[1])} of that rate, and see it beside the closed loop: "
        f"{_closed_loop(case)}",
    )


def _kept_up(point: Measurement, rate: float) -> bool:
    reached = operations_per_s(point)
    return bool(rate and reached and reached >= (REACHED_SHARE - chance(point)) * rate and point.latency_ns)


def _closed_loop(case: Case) -> str:
    """The command that measures the same work in a closed loop."""
    return case.resource.both_loops or case.command(**{case.result.load: 0})


def _as_measured(case: Case, counted: str, least: Measurement, most: Measurement, edge: str) -> Verdict | None:
    if least is most or least.latency_ns is None or most.latency_ns is None:
        return None
    rates = [operations_per_s(point) or 0.0 for point in (least, most)]
    return Verdict(
        "info",
        f"{case.label}: users wait {format_ns(least.latency_ns.mean)} at {format_count(rates[0])} {counted} and "
        f"{format_ns(most.latency_ns.mean)} at {format_count(rates[1])}, the most of these rates that was served; "
        f"no M/M/m queue fits these points.{edge}",
        {
            "rates": rates,
            "latency_ns_mean": [least.latency_ns.mean, most.latency_ns.mean],
            "latency_ns_p99": [least.latency_ns.p99, most.latency_ns.p99],
        },
        f"See it beside the closed loop: {_closed_loop(case)}",
    )


RULES = (
    Rule("rate_not_reached", "point", rate_not_reached, Applies(needs=("notes.rate_not_reached",))),
    Rule("users_wait", "curve", users_wait, Applies(roles=("rate",), not_named=PREFIX)),
)
