"""What limits a point: the first resource above 90% utilisation (Gregg's active benchmarking)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.laws import against_ceilings
from hwdyno.explain.findings.point_labels import load_words
from hwdyno.explain.findings.rule import PACING_ROLES, Case, Verdict, as_number, percent, times
from hwdyno.model.axes import CLIENTS
from hwdyno.model.units import format_ns, format_number, format_size, plural
from hwdyno.model.words import Curve, ExperimentResult, Measurement, Run

BUSY = 0.90
"""Utilisation above which a resource counts as the limit."""
STALLED = 0.5
"""Share of cycles from which on a wait for memory is the limit: if all other work took no time, it would not double."""
WAITING = 0.1
"""Least share of their time that threads wait for a processor, for it to be named."""
THROTTLED = 0.1
"""Share of a control group's periods with a stop from which on its quota paces the load."""


def client_bound(case: Case) -> Verdict | None:
    """The CPU of the measuring threads is the limit, not the device."""
    share = case.cpu_share
    if share is None or share <= BUSY:
        return None
    point, resource = case.point, case.resource
    spent = (point.cpu_user_s or 0) + (point.cpu_system_s or 0)
    cost = f" ({format_ns(spent / point.operations * 1e9)} per operation)" if point.operations else ""
    cached = resource.page_cache and not case.direct
    return Verdict(
        "info" if cached else "warning",
        f"Client-bound ({case.label}): the measuring threads used {percent(share)} of their "
        f"{'core' if case.jobs == 1 else 'cores'}{cost}. This is what the CPU can issue, not "
        f"the {'other end' if resource.two_ended else 'device'}'s limit.",
        {"cpu_share": share, "limit": BUSY, "jobs": case.jobs},
        f"Repeat from another machine: {case.command()}"
        if not resource.workers
        else f"Spread the load over more {case.result.axis(resource.workers).words}: "
        + case.command(**{resource.workers: max(2, round(case.jobs * 2))})
        if case.threads is None or case.jobs < case.threads
        else f"Use larger {_larger(case)}, since all {plural(case.threads, 'processor')} of this machine issue them: "
        + case.command(**resource.larger),
        weight=share,
    )


def _larger(case: Case) -> str:
    """What a larger operation moves more of: ``blocks``, ``objects``."""
    sizes = (case.result.axis(name).words for name in case.resource.larger)
    return next((f"{words.removesuffix(' size')}s" for words in sizes if words.endswith(" size")), "blocks")


LimitKind = Literal[
    "ceiling reached",
    "memory stall",
    "client CPU busy",
    "waiting for wake-ups",
    "processors busy elsewhere",
    "paced by a limit",
    "device queue full",
    "not identified",
]
"""The top-down split of what limits a throughput. A memory stall needs the processor's counters, and waiting for
wake-ups the system's; where they are missing, neither is named."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits a point, by what was measured."""

    kind: LimitKind
    says: str


def why_not_double(
    measurement: Measurement, *, run: Run | None = None, experiment: ExperimentResult | None = None
) -> str:
    """Why a throughput is not double, in one or two sentences; empty where no cause was measured.

    A test of latency has one operation in flight by design, and above 90% of a ceiling the share says it: both have no
    answer here.
    """
    run = run or Run(
        id="", started="", finished=None, machines=(), profile="", command="",
        experiments=(experiment,) if experiment else (),
    )  # fmt: skip
    if experiment is None or measurement not in experiment.points:
        experiment = ExperimentResult("", "", "", "", "", (measurement,))
    case = Case(run, experiment, experiment.points.index(measurement))
    if measurement.validity == "invalid" or times_latency(case):
        return ""
    limit = find_limit(case)
    return "" if limit.kind in {"ceiling reached", "not identified"} else limit.says


def times_latency(case: Case) -> bool:
    """Whether a point is judged by its latency: by its experiment's metric, or with one operation at a time."""
    if case.result.metric == "latency" or case.result.kernel in case.resource.latency_kernels:
        return True
    # A thread that computes or copies by itself has one operation in flight too, but is judged by its throughput.
    return case.resource.client == "beside" and case.requested_depth == 1 and case.point.latency_ns is not None


def find_limit(case: Case) -> Limit:
    """What limits a point: the first limit above 90% utilisation, or else how far the load was paced.

    A physical ceiling, the client's wait for memory, its CPU, its wait to be woken, the machine's CPU, a rate or quota
    that paces the load, the device's queue (saturated by its curve), too little in flight. If none applies, the text
    has the utilisations that were measured and the next test.
    """
    seen: list[tuple[str, float]] = []
    curve = _find_curve(case)
    found: list[tuple[LimitKind, str]] = [
        ("ceiling reached", _ceiling(case, seen)),
        ("memory stall", _explain_stall(case, seen)),
        ("client CPU busy", _client(case, seen)),
        ("waiting for wake-ups", _waking(case, seen)),
        ("processors busy elsewhere", _explain_preemption(case) or _machine(case, seen)),
        ("paced by a limit", _explain_pacing(case)),
        ("device queue full", _device(case, curve, seen)),
        ("paced by a limit", _too_little(case, curve)),
    ]
    kind, says = next((candidate for candidate in found if candidate[1]), ("not identified", _nothing(case, seen)))
    return Limit(kind, says)


def _ceiling(case: Case, seen: list[tuple[str, float]]) -> str:
    fullest = max(against_ceilings(case, "physical"), key=lambda utilization: utilization.share, default=None)
    if fullest is None:
        return ""
    share, bound = fullest.share, fullest.bound
    name = bound.ceiling.label or "the link"
    seen.append((name, share))
    if share <= BUSY:
        return ""
    article = "the " if name.endswith(" peak") else ""
    return f"At {percent(share)} of {article}{name}."


def _client(case: Case, seen: list[tuple[str, float]]) -> str:
    """The measuring threads' CPU, by user and system time; where it is what is measured, being busy is no limit."""
    share, point = case.cpu_share, case.point
    if share is None or case.resource.client == "measured":
        return ""
    seen.append(("the tool's own CPU", share))
    if share <= BUSY:
        return ""
    cores = min(case.jobs, case.threads or case.jobs)
    verb = "is" if cores == 1 else "are"
    user, system = point.cpu_user_s or 0.0, point.cpu_system_s or 0.0
    parts = [f"{percent(share * part / (user + system))} {name}" for name, part in (("user", user), ("system", system))]
    return (
        f"Client-bound: {plural(cores, 'core')} of the measuring threads {verb} {percent(share)} busy "
        f"({', '.join(parts)})."
    )


def _explain_stall(case: Case, seen: list[tuple[str, float]]) -> str:
    """Busy threads whose cycles pass mostly without any progress, by the processor's own counters."""
    counters = case.point.counters
    counted = counters.get("counted_cycles", 0.0)
    waits = {"memory": "memory_stall_cycles", "memory or an execution unit": "backend_stall_cycles"}
    on, name = next(((on, name) for on, name in waits.items() if name in counters), ("", ""))
    if not name or counted <= 0:
        return ""
    share = counters[name] / counted
    seen.append((f"cycles that wait for {on}", share))
    if share < STALLED:
        return ""
    waited = f"{percent(share)} of the cycles waited for {on}"
    if case.resource.client == "measured":
        return f"Memory stall: {waited}."
    busy = case.cpu_share or 0.0
    return f"Memory stall: the measuring threads were {percent(busy)} busy, and {waited}." if busy > BUSY else ""


@dataclass(frozen=True, slots=True)
class _Waits:
    """How the measuring threads spent their time, as shares of it, by the scheduler's counters (proc(5), schedstat)."""

    running: float
    waiting: float
    """Ready to run, and not running yet."""
    woken: float
    """How often they were woken."""
    preempted: float
    """How often another thread took their processor."""

    @property
    def full(self) -> bool:
        """Whether they hardly slept and waited for a good part: what they waited for had nothing to do with it."""
        return self.waiting >= WAITING and self.running + self.waiting > BUSY


def _waits(case: Case) -> _Waits | None:
    point, counters = case.point, case.point.counters
    delay_s, had_s = counters.get("run_delay_s"), point.elapsed_s * max(1.0, case.jobs)
    if delay_s is None or had_s <= 0 or point.cpu_user_s is None or point.cpu_system_s is None:
        return None
    switches = (counters.get(f"{kind}_switches", 0.0) for kind in ("voluntary", "involuntary"))
    return _Waits((point.cpu_user_s + point.cpu_system_s) / had_s, delay_s / had_s, *switches)


def _waking(case: Case, seen: list[tuple[str, float]]) -> str:
    """Threads that sleep for so short a time that most of it passes until they run again."""
    waits = _waits(case)
    if waits is None or case.resource.client == "measured":
        return ""
    seen.append(("threads that wait to run", waits.waiting))
    if not waits.full or waits.woken <= waits.preempted:
        return ""
    rate, each_ns = waits.woken / case.point.elapsed_s, case.point.counters["run_delay_s"] / waits.woken * 1e9
    return (
        f"Waiting for wake-ups: the measuring threads ran {percent(waits.running)} of their time, and for "
        f"{percent(waits.waiting)} they were woken but did not run yet "
        f"({format_number(rate)} wake-ups/s, {format_ns(each_ns)} each)."
    )


def _explain_preemption(case: Case) -> str:
    """Threads that others push off their processors."""
    waits = _waits(case)
    if waits is None or case.resource.client == "measured" or not waits.full or waits.woken > waits.preempted:
        return ""
    return (
        f"Processors busy with other threads: the measuring threads ran {percent(waits.running)} of their time, "
        f"and for {percent(waits.waiting)} they were ready to run."
    )


def _machine(case: Case, seen: list[tuple[str, float]]) -> str:
    busy, stolen = case.point.conditions.get("cpu_busy"), case.point.conditions.get("steal")
    if busy is not None:
        seen.append(("the machine's CPU", busy))
    if stolen is not None and stolen > 0.1:
        return f"The hypervisor took {percent(stolen)} of the CPU time (steal)."
    # Where the processors are what is measured, and all of them are used, they are busy by design.
    by_design = case.resource.fills_processors or (
        case.resource.client == "measured" and case.threads is not None and case.jobs >= case.threads
    )
    if busy is not None and busy > BUSY and not by_design:
        ours = f"; this tool's threads used {percent(case.cpu_share)} of theirs" if case.cpu_share is not None else ""
        return f"The machine's processors were {percent(busy)} busy{ours}."
    return ""


def _explain_pacing(case: Case) -> str:
    """A CPU quota that stopped the threads, or a rate or delay that the load was given."""
    throttled = case.point.conditions.get("cgroup_throttled")
    if throttled is not None and throttled > THROTTLED:
        return f"Paced by a CPU quota: the control group stopped its threads in {percent(throttled)} of the periods."
    for axis in case.result.declaration.axes:
        value = case.number(axis.name)
        if axis.role in PACING_ROLES and value:
            return f"Paced by the load: {load_words(axis, value)} was requested."
    return ""


def _find_curve(case: Case) -> tuple[ExperimentResult, Curve] | None:
    """The curve of a point: of its experiment, or of another one with the same other parameters."""
    ours = next((curve for curve in case.result.curves if case.at in curve.points), None)
    if ours is not None and ours.ceiling is not None:
        return case.result, ours
    for result in case.run.experiments:
        for curve in result.curves:
            same = all(str(case.parameter(name)) == str(value) for name, value in curve.series.items())
            if result.resource == case.result.resource and same and case.number(curve.load) and curve.ceiling:
                return result, curve
    return None if ours is None else (case.result, ours)


def _device(case: Case, found: tuple[ExperimentResult, Curve] | None, seen: list[tuple[str, float]]) -> str:
    """A device is saturated if more in flight gains nothing; being busy all the time is not enough."""
    point = case.point
    busy_s = point.counters.get("device_busy_s")
    busy = min(1.0, busy_s / point.elapsed_s) if busy_s is not None and point.elapsed_s > 0 else None
    if busy is not None:
        seen.append(("the device", busy))
    curve = found[1] if found else None
    if curve is None or curve.ceiling is None or curve.state in {"still rising", "unknown"}:
        return ""
    value = point.rate if found and found[0].metric == "rate" and point.rate else point.throughput
    share = value.value / curve.ceiling.value if curve.ceiling.value > 0 else 0.0
    if share < BUSY:
        return ""
    state = f", busy {percent(busy)} of the time" if busy is not None else ""
    more = "More clients add" if curve.load == CLIENTS.name else f"A higher {curve.load} adds"
    return (
        f"The device is saturated: at {percent(share)} of its ceiling of {case.quantity(curve.ceiling)}{state}. "
        f"{more} latency, not throughput."
    )


def _too_little(case: Case, found: tuple[ExperimentResult, Curve] | None) -> str:
    """The load was too small: too few operations in flight, or too small blocks."""
    point, latency = case.point, case.point.latency_ns
    result, curve = found if found else (case.result, None)
    if curve is not None:
        points = [result.points[at] for at in curve.points]
        at_best = [
            measurement
            for measurement in points
            if curve.best and measurement.parameters.get(curve.load) == curve.best.load
        ]
        most = at_best[0] if at_best else max(points, key=lambda measurement: measurement.throughput.value)
        gain = most.throughput.value / point.throughput.value if point.throughput.value > 0 else 1.0
        load = as_number(most.parameters.get(curve.load))
        if gain > 1 / BUSY and load is not None and result.axis(curve.load).role == "size":
            return (
                f"Operations of {format_size(case.number(curve.load) or 0)} are too small: "
                f"{load_words(result.axis(curve.load), load)} move {times(gain)} times as much."
            )
        if gain > 1 / BUSY and load is not None:
            requested = case.requested_depth or 1
            waits = f", each {format_ns(latency.mean)}" if latency else ""
            few = f"Too little in flight: {plural(requested, 'operation')}{waits}"
            if case.resource.client == "measured":  # Its operations are instructions: those in flight are not counted.
                few = f"Not all processors were used: {load_words(result.axis(curve.load), requested)}"
            return f"{few}. With {load_words(result.axis(curve.load), load)}: {times(gain)} times as much."
    return ""


def _nothing(case: Case, seen: list[tuple[str, float]]) -> str:
    if not seen:
        return "Limit not identified: no utilisation was measured."
    parts = ", ".join(f"{name} {percent(share)}" for name, share in seen)
    busy = [name for name, share in seen if share > BUSY]
    if busy == ["the device"]:
        return f"Limit not identified: the device always had work ({parts}). Next test: sweep the queue depth."
    unmeasured = f" Not measured: {', '.join(case.resource.limits)}." if case.resource.limits else ""
    return f"Limit not identified: nothing measured was above 90% ({parts}).{unmeasured}{_next_test(case)}"


def _next_test(case: Case) -> str:
    """The command that doubles the load, as far as the axis and the machine go; empty where nothing doubles."""
    for axis in case.result.declaration.axes:
        load = case.number(axis.name)
        if axis.role != "concurrency" or not load or 2 * load > (axis.most or math.inf):
            continue
        if case.resource.client != "measured" or 2 * load <= (case.threads or 0):
            return f" Next test: `{case.command(**{axis.name: 2 * load})}`."
    return ""


_ISSUES_ONLY = Applies(where=lambda resource: resource.client == "beside", not_kernels=("idle",))
RULES = (Rule("client_bound", "point", client_bound, _ISSUES_ONLY, degrades=True),)
