"""Rules on served models, by points made by hand: each limit from both sides, and what each says and advises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.serving import IN_PROCESS, percentile, serving_capacity
from hwdyno.measure.workloads import inference_in_process
from hwdyno.measure.workloads.inference_serving import DECLARATION, KERNEL
from hwdyno.model.point_details import Fault, Note
from hwdyno.model.words import Curve, ExperimentResult, Finding, Latency, Measurement, Parameters, Stream, Value
from made_experiment import made_experiment
from made_point import QUIET, THREADS, base, make_case, make_run

SERVER = "--server http://127.0.0.1:8000"
Found = Callable[..., dict[str, Finding]]


def _times(ns: float, count: int = 1000) -> Latency:
    """Times that are all the same."""
    return Latency(*[ns] * 7, count)


def _answered(parameters: Parameters, requests_s: float = 10.0, *, cpu: float = 0.0, busy: float = 0.1,
              ns: Mapping[str, float] | None = None, **details: Any) -> Measurement:  # fmt: skip
    """A million requests: their rate, the client's and the machine's CPU share, and their kinds of times in ns."""
    kinds = {kind: _times(median) for kind, median in (ns or {}).items()}
    rate = Value(requests_s, "requests/s", 0.99 * requests_s, 1.01 * requests_s)
    return base(
        parameters=parameters, throughput=rate, rate=rate, latency_ns=None, samples=None, concurrency=None,
        counters={}, streams=(Stream("token", 1000, 0, latency_ns=kinds),), operations=1_000_000, cpu_user_s=3.0 * cpu,
        cpu_system_s=0.0, conditions={**QUIET, "cpu_busy": busy}, details={"output_tokens_mean": 11.0, **details},
    )  # fmt: skip


def _result(points: Sequence[Measurement], load: str, kernel: str = KERNEL, **fixed: Any) -> ExperimentResult:
    given = {"server": SERVER.split()[1], **fixed} if kernel == KERNEL else {"stack": "onnxruntime", **fixed}
    axes = {KERNEL: DECLARATION, IN_PROCESS: inference_in_process.DECLARATION}[kernel]
    return ExperimentResult(
        "inference.serving", "inference", "?", load, kernel, tuple(points), fixed=given, declaration=axes
    )


def _rules(
    *points: Measurement, load: str = "concurrency", kernel: str = KERNEL, cache: int = 1 << 20, **fixed: Any
) -> dict[str, Finding]:
    """The findings, where four threads read memory at 30 GB/s, on 8 processors with a cache of this size."""
    reads = {"operation": "read", "working_set": 1 << 30, "threads": 4}
    memory = made_experiment(
        "memory.read", "memory", "?", "threads", "memory_bandwidth",
        (base(parameters=reads, throughput=Value(3e10, "bytes/s", 3e10, 3e10)),), fixed={},
    )  # fmt: skip
    caches = [{"level": 2, "type": "unified", "size_bytes": cache}]
    results = (_result(points, load, kernel, **fixed), memory)
    command = f"hwdyno inference {SERVER if kernel == KERNEL else '--in-process onnxruntime --model tiny'}"
    run = replace(make_run(base(), cpu={"threads": THREADS, "caches": caches}), experiments=results, command=command)
    return {found.rule: found for found in explain(run).findings}


def _alone(requests: int = 8, faults: tuple[Fault, ...] = (), **more: Any) -> dict[str, Finding]:
    return _rules(replace(_answered({"concurrency": requests, "connections": 8}, **more), faults=faults))


def _rated(share: float, operations: int = 10**9, rate: float = 100.0, **details: Any) -> dict[str, Finding]:
    """An open loop of which this share is served."""
    note = Note("rate_not_reached", "fewer were served")
    point = replace(_answered({"rate": rate}, share * rate, **details), operations=operations, notes=(note,))
    return _rules(point, load="rate")


def _with_prefixes(gain: float = 2.0, share: float = 0.5) -> dict[str, Finding]:
    """Prompts that share 512 tokens, with and without the prefix cache."""
    times = ((False, gain * 1e8), (True, 1e8))
    return _rules(*(
        _answered({"concurrency": 8, "reuse_prompts": reused, "shared_prefix": 512}, ns={"first_token": first},
                  cached_share=share)
        for reused, first in times
    ))  # fmt: skip


def _two_loads(gain: float = 1.5, first: float = 1.0, token: float = 1.0, *, most: float = 8.0, is_here: bool = False,
               few: Mapping[str, Any] | None = None, given: Parameters | None = None, cache: int = 1 << 20,
               **more: Any) -> dict[str, Finding]:  # fmt: skip
    """2 requests in flight of 1 s each, half of it their first token; and more, with growth of rate and times."""
    less = {"ns": {"first_token": 5e8, "per_token": 5e7}, **(few or {})}
    times = {"first_token": first * 5e8, "per_token": token * 5e7}
    point = _answered({"concurrency": most, **(given or {})}, gain * 10.0, ns=times, **more)
    points = (_answered({"concurrency": 2.0, **(given or {})}, **less), point)
    return _rules(*points, kernel=IN_PROCESS if is_here else KERNEL, cache=cache)


def _here(bytes_s: float = 24e9, cpu: float = 0.1, weights: float = 1e9, threads: int = 4, **more: Any
          ) -> dict[str, Finding]:  # fmt: skip
    """An engine in this process, whose steps read this of the memory's 30 GB/s."""
    engine = {"step_bytes_s": bytes_s, "engine_cpu_share": cpu, "weights_bytes": weights}
    given = {"threads": threads, **more.pop("given", {})}
    return _two_loads(is_here=True, given=given, **engine, **more)


def _late(lag_ns: float, requests: int = 8, waited: int = 0) -> dict[str, Finding]:
    return _alone(requests, ns={"send_lag": lag_ns, "first_token_sent": 1e8}, waited_for_connection=waited)


def _failed(count: float, requests_s: float = 10.0, load: str = "concurrency", value: float = 8) -> dict[str, Finding]:
    faults = (Fault("request", 500, "refused", round(count)),) if count else ()
    return _rules(replace(_answered({load: value}, requests_s), faults=faults), load=load)


CACHE = 32 << 20
# The rule, what it says, what is measured, a number at which it does not say so, and one at which it does.
THRESHOLDS: list[tuple[str, str, Found, float, float]] = [
    ("serving_late", "Requests were sent late", _late, 1e7, 1.01e7),
    ("serving_client_bound", "Client-bound", lambda share: _alone(cpu=share), 0.899, 0.901),
    ("serving_faults", "of the requests failed", _failed, 0, 1),
    ("serving_short", "Answers ended early", lambda share: _alone(short_share=share), 0.05, 0.0501),
    ("serving_cached", "the server's prefix cache", lambda share: _alone(cached_share=share), 0.1, 0.1001),
    ("serving_miscounted", "token counts are impossible in 1.0% of the answers",
     lambda share: _alone(**({"miscounted_share": share, "miscounted_tokens": 320.0} if share else {})), 0, 0.01),
    ("serving_one_piece", "Answers came in one piece",
     lambda share: _alone(**({"one_piece_share": share} if share else {})), 0, 0.5),
    ("serving_chunks", "A chunk has 1.2 tokens",
     lambda tokens: _alone(tokens_a_chunk=tokens, ns={"chunk_gap": 1e7, "per_token": 1e7}), 1.199, 1.2),
    ("serving_rate", "Rate not reached", _rated, 0.981, 0.979),
    # Of 400 random arrivals, 4 standard errors are a fifth.
    ("serving_rate", "Rate not reached", lambda count: _rated(0.97, round(count)), 400, 10**9),
    ("serving_rate", "Over-saturated",
     lambda growth: _rated(0.9, in_flight_growth=growth, first_token_growth=1.0), 0.2, 0.201),
    ("serving_rate", "Over-saturated",
     lambda growth: _rated(0.9, in_flight_growth=1.0, first_token_growth=growth), 0.2, 0.201),
    ("prefix_cache", "prefix cache helps", _with_prefixes, 1.0999, 1.1001),
    ("prefix_cache", "prefix cache helps", lambda share: _with_prefixes(share=share), 0.1, 0.1001),
    ("serving_limit", "", _two_loads, 3.61, 3.59),
    ("serving_limit", "", lambda most: _two_loads(1.0, most=most), 3.99, 4.0),
    ("serving_limit", "the server's queue.", lambda first: _two_loads(first=first), 1.99, 2.01),
    ("serving_limit", "what the requests of a batch share", lambda token: _two_loads(token=token), 1.99, 2.01),
    ("serving_limit", "the processors of this machine", lambda busy: _two_loads(busy=busy), 0.899, 0.901),
    ("serving_limit", "the client", lambda cpu: _two_loads(cpu=cpu), 0.899, 0.901),
    ("serving_limit", "for a slot (", lambda count: _two_loads(server_waiting=count), 0.9, 1.0),
    ("serving_limit", "for a slot (", lambda count: _two_loads(most=40.0, server_waiting=count), 3.9, 4.0),
    ("serving_limit", "for room in the KV cache",
     lambda full: _two_loads(server_waiting=4.0, server_kv_cache_share=full), 0.899, 0.9),
    ("serving_limit", "memory bandwidth. Steps read", _here, 20.9e9, 21.1e9),
    ("serving_limit", "memory bandwidth. Steps read", lambda share: _here(prompt_share=share), 0.5, 0.49),
    ("serving_limit", "memory bandwidth. Steps read", lambda size: _here(weights=size, cache=CACHE), CACHE, CACHE + 1),
    ("serving_limit", "storage. Of the", lambda share: _here(fetched_share=share), 0.05, 0.051),
    ("serving_limit", "CPU. The engine's 4 threads", lambda share: _here(1e9, share), 0.9, 0.901),
    ("serving_capacity", "Best load: 2 concurrent", lambda share: _two_loads(1 / share, most=64.0,
                                                                            output_tokens_s=100.0 / share,
                                                                            few={"output_tokens_s": 100.0}),
     0.899, 0.901),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "words", "found", "below", "above"), THRESHOLDS)
def test_a_serving_threshold_is_kept(rule: str, words: str, found: Found, below: float, above: float) -> None:
    silent, named = (found(number).get(rule) for number in (below, above))
    assert named is not None and words in named.says
    assert silent is None or (words and words not in silent.says)


FOUR = tuple(Fault("request", 500, f"kind {at}", 250_000) for at in range(4))
GOOD: dict[str, Any] = {"output_tokens_s": 100.0, "good_share": 0.75, "goodput_requests_s": 7.5}
QUEUE: dict[str, Any] = {"first": 3.0, "is_here": True}
PROMPTS: dict[str, Any] = {"bytes_s": 1e9, "cpu": 0.95, "prompt_share": 0.9}
# The rule, what is measured, the finding, and its advice.
MESSAGES: list[tuple[str, Found, str, str]] = [
    ("serving_faults", lambda: _alone(8, FOUR), "50% of the requests failed (8 concurrent requests): kind 0 (250000), "
     "kind 1 (250000), kind 2 (250000). They", f"try a lower load: hwdyno inference {SERVER} --concurrency 4 "),
    ("serving_faults", lambda: _failed(1, value=9), "", "--concurrency 4 "),
    ("serving_faults", lambda: _failed(1, value=2), "", "--concurrency 1 "),
    ("serving_faults", lambda: _failed(1, value=1), "", f", and repeat: hwdyno inference {SERVER} --concurrency 1 "),
    ("serving_faults", lambda: _failed(1, 10.0, "rate", 30.0), "", "--rate 15 "),
    ("serving_faults", lambda: _failed(1, 20.0, "rate", 0.0), "", "--rate 10 "),
    ("serving_late", lambda: _late(2e7, waited=3), "3 requests a reading waited for one of 8", "--connections 32 "),
    ("serving_late", lambda: _late(2e7), "busy or taken", "on another machine, or try a lower load: hwdyno inference "),
    ("serving_late", lambda: _late(2e7, 1), "", "on another machine, or repeat: hwdyno inference "),
    ("serving_client_bound", lambda: _alone(8, cpu=0.95, client_cpu_s_a_chunk=9e-5), "95% of its core, 90.0 µs a chunk",
     f"over two clients, each with half: hwdyno inference {SERVER} --concurrency 4 "),
    ("serving_client_bound", lambda: _alone(1, cpu=0.95), "", "Repeat: hwdyno inference"),
    ("prefix_cache", _with_prefixes, "TTFT p50 is 100 ms with it and 200 ms without", "--shared-prefix 256 "),
    ("serving_capacity", lambda: _rules(_answered({"concurrency": 2}, **GOOD), _answered({"concurrency": 8}, **GOOD),
                                       ttft_target=0.5), "75% of the requests met the targets (7.5/s goodput).", ""),
    ("serving_capacity", lambda: _two_loads(few=GOOD, given={"tpot_target": 0.5}, **GOOD), "(7.5/s goodput).", ""),
    ("serving_limit", lambda: _here(first=3.0, fetched_share=0.5), "storage. Of the 24.0 GB/s that steps read", ""),
    ("serving_limit", lambda: _here(first=3.0), "the server's queue", ""),
    ("serving_limit", lambda: _here(cpu=0.95), "KV cache, 80% of the 30.0 GB/s that 4 threads", ""),
    ("serving_limit", lambda: _here(1e9, 0.95), "Steps read 3.3% of the memory's bandwidth.", "--threads 8 "),
    ("serving_limit", lambda: _here(1e9, 0.95, 1e6), "not identified", "hwdyno memory"),
    ("serving_limit", lambda: _two_loads(first=0.0, token=0.0, few={"ns": {}}), "not identified", "hwdyno memory"),
    ("serving_limit", lambda: _two_loads(first=3.0, token=2.5), "the server's queue", "the server more slots"),
    ("serving_limit", lambda: _two_loads(first=2.5, token=3.0), "what the requests of a batch share", "hwdyno memory"),
    ("serving_limit", lambda: _two_loads(first=3.0, server_waiting=0.0, server_kv_cache_share=0.95),
     "for others' prompts (", "Give the server more slots"),
    ("serving_limit", lambda: _two_loads(server_waiting=4.0, server_kv_cache_share=0.95), "for room in", "more memory"),
    ("serving_limit", lambda: _two_loads(busy=0.95), "", "Give the server more processors"),
    ("serving_limit", lambda: _two_loads(cpu=0.95, most=9.0), "", "--concurrency 4 "),
    ("serving_limit", lambda: _two_loads(cpu=0.95, most=9.0, is_here=True), "", "half of the users: hwdyno inference "),
    ("serving_limit", lambda: _two_loads(given={"batch": 3}, **QUEUE), "", "--batch 8 "),
    ("serving_limit", lambda: _two_loads(given={"batch": 8}, **QUEUE), "", "--batch 16 "),
    ("serving_limit", lambda: _two_loads(given={"batch": 600}, **QUEUE), "", "--batch 1024 "),
    ("serving_limit", lambda: _two_loads(given={"batch": 1024}, **QUEUE), "", "--concurrency 4 --batch 1024 "),
    ("serving_limit", lambda: _here(threads=2, **PROMPTS), "CPU. The engine's 2 threads", "--threads 4 "),
    ("serving_limit", lambda: _here(threads=5, **PROMPTS), "", "Give the engine more threads: hwdyno inference "),
    ("serving_limit", lambda: _here(threads=8, **PROMPTS), "", "All 8 processors work for it: take a smaller model"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "found", "says", "advice"), MESSAGES)
def test_a_serving_rule_says_and_advises(rule: str, found: Found, says: str, advice: str) -> None:
    finding = found()[rule]
    assert says in finding.says
    assert advice in f"{finding.advice} "


@pytest.mark.parametrize(("few_s", "max_s", "is_named"), [(0.01, 0.02, True), (0.0, 0.02, False), (0.01, 0.0, False)])
def test_servers_own_prompt_time_is_reported(few_s: float, max_s: float, is_named: bool) -> None:
    found = _two_loads(first=3.0, few={"server_prompt_s": few_s}, server_prompt_s=max_s)["serving_limit"]
    assert ("The server computes a prompt in 20.0 ms." in found.says) == is_named


def test_limit_is_between_extreme_loads() -> None:
    """Twice the load is 4 to 8, though not 4 to 6."""
    found = _rules(*(_answered({"concurrency": load}) for load in (8, 4, 6)))["serving_limit"]
    assert found.says.startswith("Limit from 4 to 8 concurrent requests")


@pytest.mark.parametrize(("name", "least"), [("p50", 7), ("p90", 44), ("p99", 459), ("p99.9", 4603)])
def test_percentile_needs_mlperfs_count_of_queries(name: str, least: int) -> None:
    """The number of queries that are all below the percentile by a chance of 1%: 0.5 ** 7, 0.9 ** 44 …"""
    key = name.replace(".", "")
    assert percentile(_times(3e8, least), key) == f"{name} 300 ms"
    assert percentile(_times(3e8, least - 1), key) == f"{name} too few ({least - 1})"


def _best(points: Sequence[Measurement], load: str, ceiling: float | None = None) -> float | None:
    """The best load of a curve with this ceiling in requests/s."""
    known = None if ceiling is None else Value(ceiling, "requests/s")
    curve = Curve({}, load, tuple(range(len(points))), "requests/s", "", ceiling=known)
    found = serving_capacity(replace(make_case(_result(points, load)), at=-1, curve=curve))
    return None if found is None else found.evidence["best"]


@pytest.mark.parametrize(("ceiling", "best"), [(80.0, 4), (None, 8), (200.0, 8)])
def test_best_load_gives_90_percent(ceiling: float | None, best: int) -> None:
    """Ten tokens a request: of a ceiling of 80 requests/s, 720 tokens/s are enough; of 100 that were served, 900."""
    loads = ((50.0, 2), (75.0, 4), (100.0, 8))
    points = [_answered({"concurrency": load}, rate, output_tokens_s=10 * rate) for rate, load in loads]
    assert _best(points, "concurrency", ceiling) == best


@pytest.mark.parametrize(("served", "best"), [(50.0, None), (94.0, None), (96.0, 100.0)])
def test_a_rate_that_was_missed_is_no_best_load(served: float, best: float | None) -> None:
    point = replace(_answered({"rate": 100.0}, served, output_tokens_s=10 * served), operations=10**9)
    assert _best([point], "rate") == best
