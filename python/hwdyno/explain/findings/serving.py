"""Rules on a served language model: failures, late requests, a busy client, cut answers, over-saturation, the limit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from hwdyno.analysis.ceilings.inference import bandwidths
from hwdyno.analysis.curves import REACHED_SHARE
from hwdyno.analysis.estimates import early_stopping_count
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.bottleneck import BUSY
from hwdyno.explain.findings.open_loop import MISSED, chance
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.units import format_bytes_s, format_count, format_ns, plural
from hwdyno.model.words import ExperimentResult, Latency, Measurement

KERNEL, IN_PROCESS = "inference_serving", "inference_in_process"
LATE_SHARE = 0.1
"""Send lag (p99) as a share of the median TTFT, above which times from the sent time leave a wait out."""
CACHED_SHARE = 0.1
PREFIX_GAIN = 1.1
"""How much shorter TTFT must be with the prefix cache, as a factor, to call it a gain."""
GROWTH = 0.5
"""Growth of a request's time from one load to another, as a share, from which on something limits it."""
GROWS = 0.2
"""Least growth over a reading, as a share of the mean, of a queue without end."""
MEMORY_BOUND = 0.7
"""Share of the memory bandwidth from which on steps wait for it: engines that nothing else limits reach 72 to 86%."""
FETCHED = 0.05
"""Share of the bytes that steps read that came from storage, from which on it is the limit: it is 20 times as slow."""
KV_FULL = 0.9
"""Share of a server's KV cache from which on requests wait for room in it."""
QUEUED = 0.1
"""Share of the requests in flight that wait by the server's own count, from which on its queue is the limit."""
_BY_SERVER = ("server_waiting", "server_running", "server_kv_cache_share", "server_preemptions")
GOOD = 0.9
"""Share of the ceiling from which on a load is as good as the best."""


def time_of(point: Measurement, kind: str) -> Latency | None:
    """One kind of a point's times: ``first_token``, ``per_token`` …; none where it was not measured."""
    return next((one.latency_ns[kind] for one in point.streams if kind in one.latency_ns), None)


def percentile(latency: Latency | None, name: str) -> str:
    """``p99 310 ms``; ``p99 too few (120 of 459)`` below MLPerf's count of queries for that percentile."""
    if latency is None:
        return f"{name} not measured"
    least = early_stopping_count({"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}[name])
    value = {"p50": latency.p50, "p90": latency.p90, "p99": latency.p99, "p999": latency.p999}[name]
    shown = name.replace("p999", "p99.9")
    return f"{shown} {format_ns(value)}" if value and latency.count >= least else f"{shown} too few ({latency.count})"


def detail_of(point: Measurement, name: str) -> float:
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
    lag, first = time_of(case.point, "send_lag"), time_of(case.point, "first_token_sent")
    if lag is None or first is None or not lag.p99 or not first.p50 or lag.p99 <= LATE_SHARE * first.p50:
        return None
    waited = int(detail_of(case.point, "waited_for_connection"))
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
    each, half = detail_of(case.point, "client_cpu_s_a_chunk") * 1e9, _half(case)
    return Verdict(
        "warning",
        f"Client-bound ({case.label}): the load generator used {percent(share)} of its core, {format_ns(each)} a "
        "chunk. This is what the client can read, not the server's limit.",
        {"cpu_share": share, "limit": BUSY, "client_cpu_ns_a_chunk": each},
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
    if share >= MISSED - chance(case.point, share):
        return None
    flight, first = (detail_of(case.point, f"{name}_growth") for name in ("in_flight", "first_token"))
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
    points = {at: {**case.result.fixed, **one.parameters} for at, one in enumerate(case.result.points)}
    for at, given in points.items():
        without = next((other for other, its in points.items() if its == {**given, "reuse_prompts": False}), None)
        if given.get("reuse_prompts") and without is not None:
            found.append(_prefix_gain(Case(case.run, case.result, at), case.result.points[without]))
    return [one for one in found if one is not None]


def _prefix_gain(case: Case, without: Measurement) -> Verdict | None:
    share = detail_of(case.point, "cached_share")
    cached, computed = _median(case.point, "first_token"), _median(without, "first_token")
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
class _LoadPoint:
    """One load and what it gave."""

    at: int
    load: float
    point: Measurement

    @property
    def tokens_s(self) -> float:
        return detail_of(self.point, "output_tokens_s")


def _in_order(result: ExperimentResult, points: Iterable[int]) -> list[_LoadPoint]:
    found = ((at, as_number(result.points[at].parameters.get(result.load)), result.points[at]) for at in points)
    valid = [
        _LoadPoint(at, load, one) for at, load, one in found if load and one.validity != "invalid" and one.operations
    ]
    return sorted(valid, key=lambda one: one.load)


def serving_capacity(case: Case) -> Verdict | None:
    """The best load: the least one that gives 90% of the most, with its tokens/s and its times."""
    curve = case.curve
    served = _in_order(case.result, curve.points) if curve is not None else []
    if curve is None or not served or not served[0].tokens_s:
        return None
    is_open = case.result.load_axis.role == "rate"
    kept_up = [one for one in served if not is_open or _kept_up(one)]
    if not kept_up:
        return None
    most = max(kept_up, key=lambda one: one.tokens_s)
    ceiling = curve.ceiling.value * (most.tokens_s / most.point.throughput.value) if curve.ceiling else most.tokens_s
    enough = GOOD * (most.tokens_s if is_open else min(ceiling, most.tokens_s))
    best = next(one for one in kept_up if one.tokens_s >= enough)
    first, each = time_of(best.point, "first_token"), time_of(best.point, "per_token")
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
        f"requests/s. TTFT {percentile(first, 'p50')}, {percentile(first, 'p99')}; TPOT {percentile(each, 'p50')}, "
        f"{percentile(each, 'p99')}.{targets}{edge}",
        {
            "headline": {"title": f"tokens/s at {load}", "value": round(best.tokens_s, 1)},
            "best": best.load,
            "tokens_s": {one.load: one.tokens_s for one in served},
            "first_token_ns_p50": {one.load: _median(one.point, "first_token") for one in served},
            "per_token_ns_p50": {one.load: _median(one.point, "per_token") for one in served},
            "goodput_requests_s": {one.load: detail_of(one.point, "goodput_requests_s") for one in served},
        },
        f"Try more load, since throughput still rises: {case.command(**{case.result.load: more})}"
        if best is served[-1]
        else f"Repeat that load alone, longer: {case.command(**{case.result.load: best.load, 'runtime': 60})}",
        points=tuple(one.at for one in served),
    )


def _median(point: Measurement, kind: str) -> float | None:
    found = time_of(point, kind)
    return None if found is None else found.p50


def _kept_up(one: _LoadPoint) -> bool:
    share = one.point.throughput.value / one.load
    return share >= REACHED_SHARE - chance(one.point, share)


def _targets(case: Case, point: Measurement) -> str:
    """Goodput, where a target was given."""
    if not any(as_number(case.result.fixed.get(name)) or as_number(point.parameters.get(name)) for name in
               ("ttft_target", "tpot_target")):  # fmt: skip
        return ""
    share = detail_of(point, "good_share")
    return (
        f" {percent(share)} of the requests met the targets ({detail_of(point, 'goodput_requests_s'):.3g}/s goodput)."
    )


def serving_limit(case: Case) -> Verdict | None:
    """What limits a server past its knee, by where the time of a request goes and what was sampled meanwhile."""
    curve = case.curve
    served = _in_order(case.result, curve.points) if curve is not None else []
    if len(served) < 2 or served[-1].load < 2 * served[0].load:
        return None
    least, most = served[0], served[-1]
    gain = most.point.throughput.value / least.point.throughput.value
    if gain > GOOD * most.load / least.load:
        return None  # It still scales with the load: nothing limits it yet.
    here = Case(case.run, case.result, most.at)
    busy, client = most.point.conditions.get("cpu_busy"), here.cpu_share
    spent, steps, queue = _Spent.of(least.point, most.point), _EngineSteps.of(here), _Queue.of(most)
    reason, kind = _reason(spent, steps, queue, busy, client)
    if busy is not None and kind != "processors":
        reason += f" This machine's processors were {percent(busy)} busy."
    return Verdict(
        "info",
        f"Limit from {format_count(least.load)} to {format_count(most.load)} concurrent requests, which give "
        f"{gain:.2g}x the throughput: {reason}",
        {"limit": kind, "gain": gain, "cpu_busy": busy, "client_cpu_share": client,
         "first_token_ns": spent.first_ns, "per_token_ns": spent.token_ns,
         **queue.evidence,
         **({} if steps.of_memory is None else {"of_memory_bandwidth": steps.of_memory})},
        _next_step(here, "kv cache" if kind == "queue" and queue.is_kv_full else kind, most.load),
        points=(least.at, most.at),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _EngineSteps:
    """What an engine's steps did, where the model runs in this process; nothing is known of a server's."""

    threads: int
    bytes_s: float
    """Weights and KV cache that the steps read."""
    tokens: float
    """Tokens of a step."""
    bandwidth: float | None
    """What memory gave to as many threads in this Run; none where it was not measured, or where a cache has it all."""
    fetched_share: float
    """Share of those bytes that the process read from storage meanwhile."""
    prompt_share: float
    """Share of the engine's time that prompts took."""
    cpu_share: float
    """Share of CPU time of the engine's threads, while it had something to do."""

    @classmethod
    def of(cls, case: Case) -> _EngineSteps:
        threads = int(case.number("threads") or 1)
        detail = partial(detail_of, case.point)
        sizes = [one.size_bytes or 0 for one in case.run.machine.cpu.caches] if case.run.machine.cpu else []
        is_in_memory = detail("weights_bytes") > max(sizes, default=0)
        return cls(
            threads,
            detail("step_bytes_s"),
            detail("tokens_a_step"),
            bandwidths(case.run).get(threads) if is_in_memory else None,
            detail("fetched_share"),
            detail("prompt_share"),
            detail("engine_cpu_share"),
        )

    @property
    def of_memory(self) -> float | None:
        """The share of the memory's bandwidth that steps read."""
        return self.bytes_s / self.bandwidth if self.bandwidth and self.bytes_s else None

    def reason(self) -> tuple[str, str] | None:
        """The resource that the engine used up, and its name; none where it used up none."""
        read = format_bytes_s(self.bytes_s)
        if self.bytes_s and self.fetched_share > FETCHED:
            return (
                f"storage. Of the {read} that steps read, {percent(self.fetched_share)} came from the model's file: "
                "its weights do not stay in memory.",
                "storage",
            )
        share, mostly_steps = self.of_memory, self.prompt_share < 1 / 2
        workers = plural(self.threads, "thread")
        if share is not None and self.bandwidth is not None and share >= MEMORY_BOUND and mostly_steps:
            return (
                f"memory bandwidth. Steps read {read} of weights and KV cache, {percent(share)} of the "
                f"{format_bytes_s(self.bandwidth)} that {workers} read here.",
                "memory bandwidth",
            )
        if self.cpu_share > BUSY and (self.bandwidth is not None or not mostly_steps):
            reads = f" Steps read {percent(share)} of the memory's bandwidth." if share is not None else ""
            return (
                f"CPU. The engine's {workers} computed for {percent(self.cpu_share)} of the time.{reads}",
                "processors",
            )
        return None


@dataclass(frozen=True, slots=True)
class _Queue:
    """What a server says of itself under the most load, where it says so."""

    load: float
    evidence: dict[str, float]
    """Its figures by their names in the details."""

    @classmethod
    def of(cls, most: _LoadPoint) -> _Queue:
        found = {name: as_number(value) for name, value in most.point.details.items() if name in _BY_SERVER}
        return cls(most.load, {name: value for name, value in found.items() if value is not None})

    @property
    def is_kv_full(self) -> bool:
        """Whether its KV cache has no room for the requests that wait."""
        return bool(self.waits) and self.evidence.get("server_kv_cache_share", 0.0) >= KV_FULL

    @property
    def waits(self) -> bool | None:
        """Whether a good part of the requests waits in it; none where that is not known."""
        waiting = self.evidence.get("server_waiting")
        return None if waiting is None else waiting >= max(1.0, QUEUED * self.load)

    def __str__(self) -> str:
        """The server's figures, in the words of its counters."""
        waiting, running = (self.evidence.get(f"server_{name}") for name in ("waiting", "running"))
        share, again = (self.evidence.get(f"server_{name}") for name in ("kv_cache_share", "preemptions"))
        parts = [
            f"{plural(round(waiting), 'request')} waited" if waiting is not None else "",
            f"{format_count(running)} ran" if running is not None else "",
            f"KV cache {percent(share)} full" if share else "",
            f"{plural(round(again), 'preemption')}" if again else "",
        ]
        return ", ".join(one for one in parts if one)


@dataclass(frozen=True, slots=True)
class _Spent:
    """Where the time of a request goes at two loads, medians in ns."""

    first_ns: tuple[float, float]
    token_ns: tuple[float, float]
    tokens: float
    """Tokens after the first one."""
    server_prompt_s: tuple[float, float]
    """The server's own time of a prompt; 0 where it gives none."""

    @classmethod
    def of(cls, least: Measurement, most: Measurement) -> _Spent:
        both = (least, most)
        first, token = (tuple(_median(one, kind) or 0.0 for one in both) for kind in ("first_token", "per_token"))
        prompt = tuple(detail_of(one, "server_prompt_s") for one in both)
        return cls(
            (first[0], first[1]),
            (token[0], token[1]),
            max(0.0, detail_of(most, "output_tokens_mean") - 1),
            (prompt[0], prompt[1]),
        )

    @property
    def grown(self) -> tuple[float, float]:
        """How much longer a request takes, before its first token and after, as shares of the whole at the least."""
        whole = self.first_ns[0] + self.tokens * self.token_ns[0]
        after = self.tokens * (self.token_ns[1] - self.token_ns[0])
        return ((self.first_ns[1] - self.first_ns[0]) / whole, after / whole) if whole > 0 else (0.0, 0.0)


def _reason(
    spent: _Spent, steps: _EngineSteps, queue: _Queue, busy: float | None, client: float | None
) -> tuple[str, str]:
    """What the figures say, and its name."""
    if client is not None and client > BUSY:
        return f"the client, which used {percent(client)} of its core.", "client"
    known = steps.reason()
    if known is not None and known[1] == "storage":
        return known
    first, after = spent.grown
    ttft, tpot = (f"{format_ns(one[0])} to {format_ns(one[1])}" for one in (spent.first_ns, spent.token_ns))
    if first > max(GROWTH, after) or queue.waits:
        before, now = spent.server_prompt_s
        alone = f" The server computes a prompt in {format_ns(now * 1e9)}." if before and now else ""
        cause = {None: "for a slot or for others' prompts", True: "for a slot", False: "for others' prompts"}[
            queue.waits
        ]
        if queue.is_kv_full:
            cause = "for room in the KV cache"
        counted = f" By its own count, {queue}." if str(queue) else ""
        return (
            f"the server's queue.{counted} Requests wait before their first token, {cause} "
            f"(TTFT {ttft}, TPOT {tpot}).{alone}",
            "queue",
        )
    if known is not None:
        return known
    if busy is not None and busy > BUSY:
        return f"the processors of this machine, {percent(busy)} busy.", "processors"
    if after > GROWTH:
        return (
            f"what the requests of a batch share, memory bandwidth or arithmetic. A token slows down for all (TPOT "
            f"{tpot}, TTFT {ttft}).",
            "batch",
        )
    return f"not identified (TTFT {ttft}, TPOT {tpot}).", "unknown"


def _next_step(case: Case, kind: str, most: float) -> str:
    if case.result.kernel == IN_PROCESS:
        return _next_in_process(case, kind, most)
    if kind == "queue":
        return "Give the server more slots (llama.cpp --parallel, vLLM --max-num-seqs), and repeat: " + case.command()
    if kind == "kv cache":
        return (
            "Give the server's KV cache more memory (vLLM --gpu-memory-utilization, SGLang --mem-fraction-static), "
            f"and repeat: {case.command()}"
        )
    if kind == "client":
        return f"Split the load over two clients, each with half: {case.command(concurrency=max(1, int(most / 2)))}"
    if kind == "processors":
        return f"Give the server more processors, or the client another machine, and repeat: {case.command()}"
    return f"Compare with this machine's memory bandwidth: {case.named('memory')}"


def _next_in_process(case: Case, kind: str, most: float) -> str:
    if kind == "queue":
        batch = int(case.number("batch") or 1)
        limit = case.result.declaration.axis("batch").most or math.inf
        if batch >= limit:
            return f"Divide the load over two models, each with half: {case.command(concurrency=int(most / 2))}"
        return f"Answer more requests in a step: {case.command(batch=int(min(limit, max(2 * batch, int(most)))))}"
    if kind == "client":
        return f"Repeat with half of the users: {case.command(concurrency=max(1, int(most / 2)))}"
    if kind == "processors":
        threads, known = int(case.number("threads") or 1), case.threads or 0
        if known and threads >= known:
            return f"All {known} processors work for it: take a smaller model, and repeat: {case.command()}"
        return f"Give the engine more threads: {case.command(threads=min(2 * threads, known or 2 * threads))}"
    return f"Compare with this machine's memory bandwidth: {case.named('memory')}"


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
    Rule("serving_limit", "curve", serving_limit, replace(SERVING, roles=("concurrency",))),
)  # fmt: skip
