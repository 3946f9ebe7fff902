"""What limits a server of a language model past its knee, by where the time of a request goes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from hwdyno.analysis.ceilings.inference import bandwidths
from hwdyno.explain.findings.applies import Rule
from hwdyno.explain.findings.bottleneck import BUSY
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.explain.findings.serving import (
    GOOD,
    IN_PROCESS,
    SERVING,
    LoadPoint,
    in_order_of_load,
    median_ns,
    read_detail,
)
from hwdyno.model.units import format_bytes_s, format_count, format_ns, plural
from hwdyno.model.words import Measurement

GROWTH = 0.5
"""Growth of a request's time from one load to another, as a share, from which on something limits it."""
MEMORY_BOUND = 0.7
"""Share of the memory bandwidth from which on steps wait for it: engines that nothing else limits reach 72 to 86%."""
FETCHED = 0.05
"""Share of the bytes that steps read that came from storage, from which on it is the limit: it is 20 times as slow."""
KV_FULL = 0.9
"""Share of a server's KV cache from which on requests wait for room in it."""
QUEUED = 0.1
"""Share of the requests in flight that wait by the server's own count, from which on its queue is the limit."""
_BY_SERVER = ("server_waiting", "server_running", "server_kv_cache_share", "server_preemptions")


def serving_limit(case: Case) -> Verdict | None:
    """What limits a server past its knee, by where the time of a request goes and what was sampled meanwhile."""
    curve = case.curve
    served = in_order_of_load(case.result, curve.points) if curve is not None else []
    if len(served) < 2 or served[-1].load < 2 * served[0].load:
        return None
    least, most = served[0], served[-1]
    gain = most.point.throughput.value / least.point.throughput.value
    if gain > GOOD * most.load / least.load:
        return None  # It still scales with the load: nothing limits it yet.
    here = Case(case.run, case.result, most.at)
    busy, client = most.point.conditions.get("cpu_busy"), here.cpu_share
    spent, steps, queue = (
        _Spent.from_points(least.point, most.point),
        _EngineSteps.from_case(here),
        _Queue.from_load(most),
    )
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
    def from_case(cls, case: Case) -> _EngineSteps:
        threads = int(case.number("threads") or 1)
        detail = partial(read_detail, case.point)
        sizes = [cache.size_bytes or 0 for cache in case.run.machine.cpu.caches] if case.run.machine.cpu else []
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
    def from_load(cls, most: LoadPoint) -> _Queue:
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
        return ", ".join(part for part in parts if part)


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
    def from_points(cls, least: Measurement, most: Measurement) -> _Spent:
        both = (least, most)
        first, token = (tuple(median_ns(point, kind) or 0.0 for point in both) for kind in ("first_token", "per_token"))
        prompt = tuple(read_detail(point, "server_prompt_s") for point in both)
        return cls(
            (first[0], first[1]),
            (token[0], token[1]),
            max(0.0, read_detail(most, "output_tokens_mean") - 1),
            (prompt[0], prompt[1]),
        )

    @property
    def growth(self) -> tuple[float, float]:
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
    first, after = spent.growth
    ttft, tpot = (f"{format_ns(pair[0])} to {format_ns(pair[1])}" for pair in (spent.first_ns, spent.token_ns))
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
    return f"Compare with this machine's memory bandwidth: {case.next_run('memory')}"


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
            which = "The only processor works" if known == 1 else f"All {known} processors work"
            return f"{which} for it: take a smaller model, and repeat: {case.command()}"
        return f"Give the engine more threads: {case.command(threads=min(2 * threads, known or 2 * threads))}"
    return f"Compare with this machine's memory bandwidth: {case.next_run('memory')}"


RULES = (Rule("serving_limit", "curve", serving_limit, replace(SERVING, roles=("concurrency",))),)
