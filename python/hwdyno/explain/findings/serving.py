"""Rules on a served language model: failures, late requests, a busy client, cut answers, over-saturation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hwdyno.analysis.curves import REACHED_SHARE
from hwdyno.analysis.estimates import early_stopping_count
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.bottleneck import BUSY
from hwdyno.explain.findings.open_loop import MISSED, arrival_tolerance
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.units import format_count, format_ns, plural
from hwdyno.model.words import ExperimentResult, Latency, Measurement

KERNEL, IN_PROCESS = "inference_serving", "inference_in_process"
LATE_SHARE = 0.1
"""Send lag (p99) as a share of the median TTFT, above which times from the sent time leave a wait out."""
CACHED_SHARE = 0.1
PREFIX_GAIN = 1.1
"""How much shorter TTFT must be with the prefix cache, as a factor, to call it a gain."""
GROWS = 0.2
"""Least growth over a reading, as a share of the mean, of a queue without end."""
GOOD = 0.9
"""Share of the ceiling from which on a load is as good as the best."""


def find_latency(point: Measurement, kind: str) -> Latency | None:
    """One kind of a point's times: ``first_token``, ``per_token`` …; none where it was not measured."""
    return next((stream.latency_ns[kind] for stream in point.streams if kind in stream.latency_ns), None)


def percentile(latency: Latency | None, name: str) -> str:
    """``p99 310 ms``; ``p99 too few (120 of 459)`` below MLPerf's count of queries for that percentile."""
    if latency is None:
        return f"{name} not measured"
    least = early_stopping_count({"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}[name])
    value = {"p50": latency.p50, "p90": latency.p90, "p99": latency.p99, "p999": latency.p999}[name]
    shown = name.replace("p999", "p99.9")
    return f"{shown} {format_ns(value)}" if value and latency.count >= least else f"{shown} too few ({latency.count})"


def read_detail(point: Measurement, name: str) -> float:
    """One of a point's details; 0 where it has none."""
    return as_number(point.details.get(name)) or 0.0


def serving_faults(case: Case) -> Verdict | None:
    """Requests that failed are in no percentile; their share says how much is missing."""
    point, failed = case.point, sum(fault.count for fault in case.point.faults)
    share = failed / (failed + point.operations) if failed else 0.0
    kinds = ", ".join(f"{fault.says} ({fault.count})" for fault in point.faults[:3])
    return Verdict(
        "warning",
        f"{percent(share)} of the requests failed ({case.label}): {kinds}. They are in no percentile.",
        {"failed": failed, "share": share},
        f"Read the server's log, and {_lower(case)}",
        weight=share,
    )


def _lower(case: Case) -> str:
    """What to try at less load, or again where there is none: one request at a time."""
    half = _half(case)
    return f"try a lower load: {half}" if half else f"repeat: {case.command()}"


def _half(case: Case) -> str:
    """The command at half of the load; none of one request at a time."""
    if case.result.load_axis.role == "rate":
        # A trace at its own times has a rate of 0.
        rate = case.number("rate") or case.point.throughput.value or 1.0
        return case.command(rate=float(f"{rate / 2:.3g}"))
    half = int((case.number("concurrency") or 1.0) / 2)
    return case.command(concurrency=half) if half else ""


def serving_late(case: Case) -> Verdict | None:
    """Requests that the client sent late: without their wait percentiles are too good (coordinated omission)."""
    lag, first = find_latency(case.point, "send_lag"), find_latency(case.point, "first_token_sent")
    if lag is None or first is None or not lag.p99 or not first.p50 or lag.p99 <= LATE_SHARE * first.p50:
        return None
    waited = int(read_detail(case.point, "waited_for_connection"))
    connections = case.number("connections") or 1
    why = (
        f" {plural(waited, 'request')} a reading waited for one of {plural(connections, 'connection')}."
        if waited
        else " The client's processor was busy or taken by others."
    )
    if waited:
        advice = f"Allow more connections: {case.command(connections=int(4 * connections))}"
    else:
        advice = f"Use a client on another machine, or {_lower(case)}"
    return Verdict(
        "warning",
        f"Requests were sent late ({case.label}): the send lag has p99 {format_ns(lag.p99)}, against a median TTFT of "
        f"{format_ns(first.p50)} from the sent time.{why} "
        "Times count from the schedule, so they include it.",
        {"send_lag_ns_p99": lag.p99, "first_token_ns_p50": first.p50, "waited_for_connection": waited},
        advice,
        weight=lag.p99 / first.p50,
        # What the client keeps back, the server cannot answer.
        explains=("serving_rate",) if waited else (),
    )


def serving_client_bound(case: Case) -> Verdict | None:
    """The load generator's only thread is full: it measures itself."""
    share = case.cpu_share
    if share is None or share <= BUSY:
        return None
    chunk_ns, half = read_detail(case.point, "client_cpu_s_a_chunk") * 1e9, _half(case)
    return Verdict(
        "warning",
        f"Client-bound ({case.label}): the load generator used {percent(share)} of its core, {format_ns(chunk_ns)} a "
        "chunk. This is what the client can read, not the server's limit.",
        {"cpu_share": share, "limit": BUSY, "client_cpu_ns_a_chunk": chunk_ns},
        f"Split the load over two clients, each with half: {half}" if half else f"Repeat: {case.command()}",
        weight=share,
    )


def serving_rate(case: Case) -> Verdict | None:
    """A rate that was not served: over-saturated where requests in flight and TTFT both grew all the time."""
    offered = case.number("rate")
    reached = case.point.rate or case.point.throughput
    if not offered or not reached.value:
        return None
    share = reached.value / offered
    if share >= MISSED - arrival_tolerance(case.point, share):
        return None
    flight, first = (read_detail(case.point, f"{name}_growth") for name in ("in_flight", "first_token"))
    both = min(flight, first) > GROWS
    room = float(f"{0.7 * reached.value:.2g}")
    grew = (
        f"Requests in flight grew by at least {percent(flight)} of their mean during a reading, TTFT by "
        f"{percent(first)}. Latency is the backlog of this runtime, not the server's."
        if both
        else "Its requests in flight did not grow steadily: it stalled, or the reading was too short to tell."
    )
    return Verdict(
        "warning",
        f"{'Over-saturated' if both else 'Rate not reached'} ({case.label}): {format_count(reached.value)} of "
        f"{format_count(offered)} requests/s ({percent(share)}). {grew}",
        {"offered": offered, "reached": reached.value, "share": share, "in_flight_growth": flight,
         "first_token_growth": first},
        f"Request a rate that it can serve: {case.command(rate=room)}"
        if both
        else f"Measure longer: {case.command(runtime=60)}",
        weight=1 - share,
    )  # fmt: skip


def prefix_cache(case: Case) -> list[Verdict]:
    """What the server's prefix cache gains for prompts that begin alike: TTFT with it and without."""
    found = []
    points = {at: {**case.result.fixed, **point.parameters} for at, point in enumerate(case.result.points)}
    for at, given in points.items():
        without = next((other for other, its in points.items() if its == {**given, "reuse_prompts": False}), None)
        if given.get("reuse_prompts") and without is not None:
            found.append(_prefix_gain(Case(case.run, case.result, at), case.result.points[without]))
    return [verdict for verdict in found if verdict is not None]


def _prefix_gain(case: Case, without: Measurement) -> Verdict | None:
    share = read_detail(case.point, "cached_share")
    cached, computed = median_ns(case.point, "first_token"), median_ns(without, "first_token")
    if not cached or not computed or "invalid" in {case.point.validity, without.validity}:
        return None
    times = f"TTFT p50 is {format_ns(cached)} with it and {format_ns(computed)} without"
    gains = computed >= PREFIX_GAIN * cached and share > CACHED_SHARE
    return Verdict(
        "info",
        f"The server's prefix cache {'helps' if gains else 'gains nothing'} ({case.label}): {times}. "
        f"{percent(share)} of the prompts' tokens came from the cache.",
        {"cached_share": share, "first_token_ns": cached, "first_token_ns_without": computed},
        f"Try prompts that share less: {case.command(shared_prefix=int((case.number('shared_prefix') or 0) / 2))}",
        points=(case.at,),
    )


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One load and what it gave."""

    at: int
    load: float
    point: Measurement

    @property
    def tokens_s(self) -> float:
        """Output tokens per second; 0 where they are not known."""
        return read_detail(self.point, "output_tokens_s")


def in_order_of_load(result: ExperimentResult, points: Iterable[int]) -> list[LoadPoint]:
    """The valid points with an answer, the least load first."""
    found = ((at, as_number(result.points[at].parameters.get(result.load)), result.points[at]) for at in points)
    valid = [
        LoadPoint(at, load, point)
        for at, load, point in found
        if load and point.validity != "invalid" and point.operations
    ]
    return sorted(valid, key=lambda step: step.load)


def serving_capacity(case: Case) -> Verdict | None:
    """The best load: the least one that gives 90% of the most, with its tokens/s and its times."""
    curve = case.curve
    served = in_order_of_load(case.result, curve.points) if curve is not None else []
    if curve is None or not served or not served[0].tokens_s:
        return None
    is_open = case.result.load_axis.role == "rate"
    kept_up = [step for step in served if not is_open or _kept_up(step)]
    if not kept_up:
        return None
    most = max(kept_up, key=lambda step: step.tokens_s)
    ceiling = curve.ceiling.value * (most.tokens_s / most.point.throughput.value) if curve.ceiling else most.tokens_s
    enough = GOOD * (most.tokens_s if is_open else min(ceiling, most.tokens_s))
    best = next(step for step in kept_up if step.tokens_s >= enough)
    first, per_token = find_latency(best.point, "first_token"), find_latency(best.point, "per_token")
    noun = "requests/s" if is_open else "concurrent requests" if best.load != 1 else "concurrent request"
    load = f"{format_count(best.load)} {noun}"
    targets = _targets(case, best.point)
    edge = (
        f" The most was {format_count(most.tokens_s)} tokens/s at {format_count(most.load)}."
        if most is not best
        else ""
    )
    more = ",".join(f"{factor * most.load:g}" for factor in (2, 4))
    return Verdict(
        "info",
        f"Best load: {load}, {format_count(best.tokens_s)} tokens/s, {format_count(best.point.throughput.value)} "
        f"requests/s. TTFT {percentile(first, 'p50')}, {percentile(first, 'p99')}; "
        f"TPOT {percentile(per_token, 'p50')}, {percentile(per_token, 'p99')}.{targets}{edge}",
        {
            "headline": {"title": f"tokens/s at {load}", "value": round(best.tokens_s, 1)},
            "best": best.load,
            "tokens_s": {step.load: step.tokens_s for step in served},
            "first_token_ns_p50": {step.load: median_ns(step.point, "first_token") for step in served},
            "per_token_ns_p50": {step.load: median_ns(step.point, "per_token") for step in served},
            "goodput_requests_s": {step.load: read_detail(step.point, "goodput_requests_s") for step in served},
        },
        f"Try more load, since throughput still rises: {case.command(**{case.result.load: more})}"
        if best is served[-1]
        else f"Repeat that load alone, longer: {case.command(**{case.result.load: best.load, 'runtime': 60})}",
        points=tuple(step.at for step in served),
    )


def median_ns(point: Measurement, kind: str) -> float | None:
    """The median of one kind of a point's times; none where it was not measured."""
    found = find_latency(point, kind)
    return None if found is None else found.p50


def _kept_up(step: LoadPoint) -> bool:
    share = step.point.throughput.value / step.load
    return share >= REACHED_SHARE - arrival_tolerance(step.point, share)


def _targets(case: Case, point: Measurement) -> str:
    """Goodput, where a target was given."""
    if not any(as_number(case.result.fixed.get(name)) or as_number(point.parameters.get(name)) for name in
               ("ttft_target", "tpot_target")):  # fmt: skip
        return ""
    share = read_detail(point, "good_share")
    return (
        f" {percent(share)} of the requests met the targets ({read_detail(point, 'goodput_requests_s'):.3g}/s goodput)."
    )


SERVING = Applies(kernels=(KERNEL, IN_PROCESS))
RULES = (
    Rule(
        "serving_faults", "point", serving_faults, replace(SERVING, needs=("faults",)), degrades=True,
        instead_of=("faults",),
    ),
    Rule("serving_late", "point", serving_late, SERVING, degrades=True),
    Rule("serving_client_bound", "point", serving_client_bound, SERVING, degrades=True, instead_of=("client_bound",)),
    Rule(
        "serving_rate", "point", serving_rate, replace(SERVING, needs=("notes.rate_not_reached",)), degrades=True,
        instead_of=("rate_not_reached",),
    ),
    Rule("prefix_cache", "experiment", prefix_cache, replace(SERVING, needs=("parameters.reuse_prompts",))),
    Rule("serving_capacity", "curve", serving_capacity, SERVING),
)  # fmt: skip
