"""Open-loop results: rates that were not reached, and the latency at shares of the capacity."""

from __future__ import annotations

import math

from hwdyno.analysis.curves import CAPACITY, REACHED_SHARE
from hwdyno.analysis.curves.open_loop import OF_OPERATIONS, OpenLoop, next_rate
from hwdyno.analysis.resources import find_rate_word
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.bottleneck import BUSY
from hwdyno.explain.findings.commands import format_option
from hwdyno.explain.findings.point_labels import load_words
from hwdyno.explain.findings.rule import Case, Verdict, as_number, mean_rate, operations_per_s, percent
from hwdyno.explain.findings.snia import PREFIX
from hwdyno.model.units import format_count, format_ns
from hwdyno.model.words import Axis, Measurement

SHARES = (0.5, 0.8, 0.95)
"""Loads whose latency is printed: half, where queueing begins to matter, and where it dominates."""
MISSED = 0.98
"""Share of the requested rate below which requests queued up, unless it was chance."""
MAX_ARRIVAL_ERRORS = 4.0
"""Standard errors of a count of random arrivals (1 / sqrt n each) that may be chance."""
CLOSE = 0.1
"""A capacity whose interval is within this share is printed without it."""
MAX_IDLE = 0.25
"""Share of the time without an operation in flight that a client's work between two operations may take."""
MIN_GAP_NS = 10_000
"""A shorter time between two operations is a client's work."""
ROOM = 0.7
"""This share of the rate that was reached is a rate with headroom."""


def offered_and_reached(case: Case) -> tuple[Axis, float, float] | None:
    """The axis of the offered rate, its value, and the rate reached, in the same unit; none without such an axis."""
    rates = [(axis, case.number(axis.name)) for axis in case.result.declaration.axes if axis.role == "rate"]
    offered = [(axis, rate) for axis, rate in rates if rate]
    if len(offered) != 1:
        return None
    ((axis, rate),) = offered
    reached = operations_per_s(case.point) if axis.unit in OF_OPERATIONS else None
    if axis.unit == "B" and case.point.throughput.unit == "bytes/s":
        reached = case.point.throughput.value
    return None if reached is None else (axis, rate, reached)


def arrival_tolerance(point: Measurement, share: float) -> float:
    """How far below its rate a count of random arrivals may be by chance, as a share.

    Of all that arrived, of which this ``share`` was served: few served of many is no chance.
    """
    return MAX_ARRIVAL_ERRORS / math.sqrt(point.operations / share) if point.operations and share > 0 else 1.0


def rate_not_reached(case: Case) -> Verdict | None:
    """Requests arrived faster than they were served, so the backlog grew for as long as the run lasted."""
    noted = any(note.code == "rate_not_reached" for note in case.point.notes)
    found = offered_and_reached(case)
    if found is None or not noted:
        return None
    axis, offered, reached = found
    share, latency = reached / offered, case.point.latency_ns
    if share >= MISSED - arrival_tolerance(case.point, share):
        return None
    counted = "bytes/s" if axis.unit == "B" else find_rate_word(case.result) or "operations/s"
    waits = f" ({format_ns(latency.mean)} on average)" if latency else ""
    room = max(1, int(float(f"{ROOM * reached:.2g}")))
    return Verdict(
        "warning",
        f"Rate not reached ({case.label}): {format_count(reached)} of {format_count(offered)} {counted} "
        f"({percent(share)}). Requests queued up, so the latency{waits} is the backlog of this runtime, not the "
        "storage's.",
        {"asked": offered, "reached": reached, "share": share, "latency_ns_mean": latency.mean if latency else None},
        f"Request a rate that it can serve: {case.command(**{axis.name: room})}",
        weight=1 - share,
    )


def users_wait(case: Case) -> Verdict | None:
    """The latency of a request at shares of the capacity, by G/G/m and as measured."""
    curve = case.curve
    axis = case.result.load_axis
    if curve is None or axis.unit not in OF_OPERATIONS:
        return None
    counted = find_rate_word(case.result) or "operations/s"
    rates = {at: as_number(case.result.points[at].parameters.get(axis.name)) or 0.0 for at in curve.points}
    served = [at for at, rate in rates.items() if _kept_up(case.result.points[at], rate)]
    if not served:
        return None
    min_at, max_at = min(served, key=rates.__getitem__), max(served, key=rates.__getitem__)
    beyond = [rate for rate in rates.values() if rate > rates[max_at]]
    edge = f" At {format_count(min(beyond))} {counted}, requests queue up without end." if beyond else ""
    if curve.model != "g-g-m" or curve.ceiling is None:
        why, advice = "No queueing model fits these points.", f"Compare with the closed loop: {_closed_loop(case)}"
        if known := curve.parameters.get(CAPACITY):
            per = known.value / OpenLoop.from_parameters(curve.parameters).capacity_s
            least, most = (format_count((bound or 0.0) / per) for bound in (known.low, known.high))
            why = (
                f"The capacity is open: {least} to {most} {counted} fit these points alike (best fit: "
                f"{format_count(known.value / per)})."
            )
            advice = f"Measure a higher rate too: {_with_next(case, rates[max_at], min(beyond, default=None))}"
        min_point, max_point = case.result.points[min_at], case.result.points[max_at]
        return _as_measured(case, counted, min_point, max_point, edge, why, advice)
    model = OpenLoop.from_parameters(curve.parameters)
    waits = [f"{format_ns(model.latency_ns(share * model.capacity_s))} at {percent(share)}" for share in SHARES]
    kept_up = [case.result.points[at] for at in served]
    busiest = min(kept_up, key=lambda point: abs((operations_per_s(point) or 0.0) / model.capacity_s - 0.8))
    share = (operations_per_s(busiest) or 0.0) / model.capacity_s
    tail = (
        f" Measured at {percent(share)} load: {format_ns(busiest.latency_ns.mean)} on average"
        + (f", p99 {format_ns(busiest.latency_ns.p99)}." if busiest.latency_ns.p99 is not None else ".")
        if busiest.latency_ns
        else ""
    )
    return Verdict(
        "info",
        f"Capacity: {format_count(model.capacity_s)} {counted}{_range(case, model)} ({case.label}; "
        f"model G/G/{model.servers}, variability {model.variability:.2g}). "
        f"Users wait {', '.join(waits)} load, and {format_ns(model.service_ns)} without a queue.{tail}{edge}",
        {
            "capacity_operations_s": model.capacity_s,
            "service_ns": model.service_ns,
            "servers": model.servers,
            "variability": model.variability,
            "latency_ns_at_share": {str(part): model.latency_ns(part * model.capacity_s) for part in SHARES},
        },
        f"Plan for less than {percent(SHARES[1])} of the capacity. Compare with the closed loop: {_closed_loop(case)}",
    )


def _range(case: Case, model: OpenLoop) -> str:
    """The interval of a capacity that is not known within ``CLOSE``, in parentheses."""
    ceiling = case.curve.ceiling if case.curve is not None else None
    if ceiling is None or ceiling.low is None or ceiling.high is None:
        return ""
    per = ceiling.value / model.capacity_s
    close = max(ceiling.high / ceiling.value - 1, 1 - ceiling.low / ceiling.value) <= CLOSE
    return "" if close else f", {format_count(ceiling.low / per)} to {format_count(ceiling.high / per)}"


def _kept_up(point: Measurement, rate: float) -> bool:
    reached = operations_per_s(point)
    return bool(
        rate
        and reached
        and reached >= (REACHED_SHARE - arrival_tolerance(point, reached / rate)) * rate
        and point.latency_ns
    )


def _with_next(case: Case, served: float, missed: float | None) -> str:
    """The command that measures the curve again with the rate that tells most of an open capacity."""
    axis, rates = case.result.load_axis, [as_number(point.parameters[case.result.load]) for point in _points(case)]
    more = float(f"{next_rate(served, missed):.3g}")
    return case.command(
        **{axis.name: ",".join(format_option(axis, rate) for rate in sorted({more, *filter(None, rates)}))}
    )


def _points(case: Case) -> list[Measurement]:
    return [case.result.points[at] for at in case.curve.points] if case.curve is not None else []


def _closed_loop(case: Case) -> str:
    """The command that measures the same work in a closed loop."""
    both, size = case.resource.both_loops, case.parameter("size")
    if not both or case.is_imported:
        return case.command(**{case.result.load: 0})
    return case.next_run(both, **({"size": format_option(case.result.axis("size"), size)} if size else {}))


def _as_measured(
    case: Case, counted: str, least: Measurement, most: Measurement, edge: str, why: str, advice: str
) -> Verdict | None:
    if least is most or least.latency_ns is None or most.latency_ns is None:
        return None
    rates = [operations_per_s(point) or 0.0 for point in (least, most)]
    return Verdict(
        "info",
        f"Users wait {format_ns(least.latency_ns.mean)} at {format_count(rates[0])} {counted}, and "
        f"{format_ns(most.latency_ns.mean)} at {format_count(rates[1])}, the highest rate that was served "
        f"({case.label}). {why}{edge}",
        {
            "rates": rates,
            "latency_ns_mean": [least.latency_ns.mean, most.latency_ns.mean],
            "latency_ns_p99": [least.latency_ns.p99, most.latency_ns.p99],
        },
        advice,
    )


def find_idle_storage(case: Case) -> Verdict | None:
    """Less than one operation in flight for each job: a paced load, or a rate and a latency of different runs."""
    point, latency, effective = case.point, case.point.latency_ns, case.effective
    rate, stated = mean_rate(point), case.number("iodepth") or case.number("numjobs")
    if not effective or not rate or latency is None or not stated or case.read_share not in {0.0, 1.0}:
        return None  # Half of a mix may be all that a row has.
    if case.number("clients"):
        return None  # Its rate is of all of them, and its jobs are of each.
    offered = offered_and_reached(case)
    idle, gap_ns = 1 - effective / case.jobs, case.jobs / rate * 1e9 - latency.mean
    if idle <= case.tolerance(MAX_IDLE, rate, latency.mean) or gap_ns < MIN_GAP_NS:
        return None
    shown = f"{case.quantity(rate, 'operations/s')} x {format_ns(latency.mean)} is {effective:.2g} in flight"
    evidence = {"effective": effective, "idle_share": idle, "gap_ns": gap_ns}
    if offered is not None:
        return Verdict(
            "info",
            f"Paced ({case.label}): {load_words(offered[0], offered[1])} was requested. {shown}. "
            "This is the latency at that rate, not what the storage can do.",
            evidence,
            f"Measure its limit without a rate: {case.command(**{offered[0].name: 0})}",
            weight=idle,
        )
    if (case.number("iodepth") or 1) > 1 or (case.cpu_share or 0.0) > BUSY:
        return None  # Other rules name a depth that was not reached, and a client's CPU.
    return Verdict(
        "warning",
        f"Nothing was in flight for {percent(idle)} of the time ({case.label}): {shown}. Possible causes: a rate "
        "limit, think time, a busy client, or two figures of different runs.",
        evidence,
        f"Measure rate and latency in one run, without a limit: {case.command()}",
        weight=idle,
    )


RULES = (
    Rule("rate_not_reached", "point", rate_not_reached, Applies(needs=("notes.rate_not_reached",))),
    Rule("users_wait", "curve", users_wait, Applies(roles=("rate",), not_named=PREFIX)),
    Rule(
        "underloaded",
        "point",
        find_idle_storage,
        Applies(imported=True, resources=("storage",), needs=("latency",)),
        degrades=True,
    ),
)
