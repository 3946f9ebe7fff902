"""Single lines of the rules on served models, their cold start and their KV cache that no planted fault showed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.findings.inference import Load, _by_stack, cause_of, decode_bound, loads_of
from hwdyno.findings.inference_images import points_of
from hwdyno.findings.kv_cache import io_client_bound, io_nothing_done
from hwdyno.findings.rule import Case
from hwdyno.findings.serving import (
    IN_PROCESS,
    KERNEL,
    _half,
    _next_step,
    _prefix_gain,
    _Queue,
    _reason,
    _Served,
    _Spent,
    _Steps,
    percentile,
    serving_capacity,
    serving_client_bound,
    serving_faults,
    serving_late,
    serving_limit,
    serving_rate,
)
from hwdyno.machine import Cache, Cpu, Machine
from hwdyno.words import Ceiling, Curve, ExperimentResult, Fault, Latency, Measurement, Note, Stream, Value
from hwdyno.workloads.inference_in_process import DECLARATION
from made_experiment import made_experiment
from test_single_lines import case_of
from test_single_rules import memory_reads, sure
from test_thresholds import base, run_of


def times(ns: float, count: int = 1000) -> Latency:
    """A distribution that is one value."""
    return Latency(ns, ns, ns, ns, ns, ns, ns, count)


def answered(requests_s: float = 10.0, details: dict[str, float] | None = None, medians: dict[str, float] | None = None,
             **parameters: Any) -> Measurement:  # fmt: skip
    """A load of a served model: what it gave, and its kinds of times in ns."""
    kinds = {kind: times(ns) for kind, ns in (medians or {}).items()}
    stream = Stream("token", 1000, 0, latency_ns=kinds)
    rate = sure(requests_s, "requests/s")
    return replace(base(), parameters=parameters, throughput=rate, rate=rate, streams=(stream,), details=details or {},
                   operations=1_000_000, cpu_user_s=0.0, cpu_system_s=0.0, conditions={})  # fmt: skip


def served(*points: Measurement, load: str = "concurrency", kernel: str = KERNEL, **fixed: Any) -> ExperimentResult:
    return made_experiment("inference.serving", "inference", "?", load, kernel, points, fixed=fixed)


def on_curve(result: ExperimentResult, ceiling: float | None = None) -> Case:
    known = None if ceiling is None else sure(ceiling, "requests/s")
    curve = Curve({}, result.load, tuple(range(len(result.points))), "requests/s", "", ceiling=known)
    return replace(case_of(result), at=-1, curve=curve)


# --- percentiles


@pytest.mark.parametrize(("name", "least"), [("p50", 7), ("p90", 44), ("p99", 459), ("p999", 4603)])
def test_a_percentile_is_said_from_mlperfs_count_of_queries_on(name: str, least: int) -> None:
    """As many queries as let all of them lie below the percentile by a chance of 1%: 0.5 ** 7, 0.9 ** 44 …"""
    shown = name.replace("p999", "p99.9")
    assert percentile(times(3e8, least), name) == f"{shown} 300 ms"
    assert percentile(times(3e8, least - 1), name) == f"{shown} too few ({least - 1})"


# --- requests that failed, were late, or were missed


def test_three_kinds_of_faults_are_named_and_all_are_counted() -> None:
    faults = tuple(Fault("request", 500, f"kind {at}", 10) for at in range(4))
    point = replace(answered(concurrency=8), faults=faults, operations=60)
    found = serving_faults(case_of(served(point)))
    assert found is not None and found.evidence == {"failed": 40, "share": 0.4}
    assert "): kind 0 (10), kind 1 (10), kind 2 (10). They" in found.says


@pytest.mark.parametrize(
    ("point", "load", "half"),
    [
        (answered(rate=30.0), "rate", "--rate 15 "),
        (answered(20.0, rate=0.0), "rate", "--rate 10 "),
        (answered(0.0, rate=0.0), "rate", "--rate 0.5 "),
        (answered(concurrency=9), "concurrency", "--concurrency 4 "),
    ],
)
def test_half_a_load_is_half_of_its_rate_or_of_its_requests_in_flight(point: Measurement, load: str, half: str) -> None:
    assert half in _half(case_of(served(point, load=load))) + " "


@pytest.mark.parametrize(("users", "half"), [(1, ""), (2, "--concurrency 1"), (3, "--concurrency 1")])
def test_one_request_at_a_time_has_no_half(users: int, half: str) -> None:
    """What would be tried at a lower load is repeated."""
    point = answered(medians={"send_lag": 2e7, "first_token_sent": 1e8}, concurrency=users)
    point = replace(point, cpu_user_s=point.elapsed_s, faults=(Fault("request", 500, "refused", 10),))
    case = case_of(served(point))
    advice = [one.advice for one in (serving_faults(case), serving_late(case), serving_client_bound(case)) if one]
    lower = f"try a lower load: hwdyno inference {half}" if half else "repeat: hwdyno inference --concurrency 1"
    assert [one.partition(" --allow-remote")[0] for one in advice] == [
        f"Read the server's log, and {lower}",
        f"Use a client on another machine, or {lower}",
        f"Split the load over two clients, each with half: hwdyno inference {half}" if half else lower.capitalize(),
    ]


@pytest.mark.parametrize(
    ("kind", "given", "words", "option"),
    [
        ("queue", {"batch": 512}, "Answer more requests in a step", "--batch 1024"),
        ("queue", {"batch": 600}, "Answer more requests in a step", "--batch 1024"),
        ("queue", {"batch": 1024}, "Divide the load over two models, each with half", "--concurrency 50"),
        ("processors", {"threads": 2}, "Give the engine more threads", "--threads 4"),
        ("processors", {"threads": 5}, "Give the engine more threads", "--threads 8"),
        ("processors", {"threads": 8}, "All 8 processors work for it: take a smaller model, and repeat", "--threads 8"),
    ],
)
def test_a_model_in_this_process_is_given_no_more_than_there_is(
    kind: str, given: dict[str, int], words: str, option: str
) -> None:
    """A step takes 1024 requests at most, and the machine has 8 processors."""
    result = replace(served(answered(concurrency=100, **given), kernel=IN_PROCESS), declaration=DECLARATION)
    case = case_of(result)
    case = replace(case, run=replace(case.run, machines=(Machine(cpu=Cpu(threads=8)),)))
    advice = _next_step(case, kind, 100.0)
    assert advice.startswith(f"{words}: hwdyno inference ") and f"{option} " in f"{advice} "


@pytest.mark.parametrize(
    ("lag_ns", "waited", "advice"),
    [
        (0.99e7, 3, None),
        (1e7, 3, None),
        (1.01e7, 3, "Allow more connections: hwdyno inference --connections 32 "),
        (1.01e7, 0, "Use a client on another machine, or repeat: "),
    ],
)
def test_requests_are_late_from_a_tenth_of_the_first_tokens_time_on(
    lag_ns: float, waited: int, advice: str | None
) -> None:
    medians = {"send_lag": lag_ns, "first_token_sent": 1e8}
    point = answered(details={"waited_for_connection": waited}, medians=medians, connections=8)
    found = serving_late(case_of(served(point)))
    assert (found is None) == (advice is None)
    assert found is None or f"{found.advice} ".startswith(str(advice))


@pytest.mark.parametrize(("share", "operations", "found"), [(0.979, 10**9, True), (0.981, 10**9, False),
                                                           (0.97, 400, False)])  # fmt: skip
def test_a_rate_is_missed_where_less_is_served_than_chance_allows(share: float, operations: int, found: bool) -> None:
    """Of 400 random arrivals, 4 standard errors are a fifth."""
    point = replace(answered(100.0 * share, rate=100.0), operations=operations)
    assert (serving_rate(case_of(served(point, load="rate"))) is not None) == found


def test_prompts_that_share_half_as_much_are_advised_beside_the_prefix_caches_gain() -> None:
    point = answered(details={"cached_share": 0.5}, medians={"first_token": 1e8}, concurrency=8, shared_prefix=512)
    found = _prefix_gain(case_of(served(point)), answered(medians={"first_token": 2e8}))
    assert found is not None and "--shared-prefix 256" in found.advice


# --- the best load


def test_no_load_is_the_best_where_no_rate_was_kept_up() -> None:
    """Of a rate of 100 requests/s, 50 are too few and 99 are enough."""
    missed, kept = (answered(rate, {"output_tokens_s": 10 * rate}, rate=100.0) for rate in (50.0, 99.0))
    assert serving_capacity(on_curve(served(missed, load="rate"))) is None
    found = serving_capacity(on_curve(served(kept, load="rate")))
    assert found is not None and found.evidence["best"] == 100.0


@pytest.mark.parametrize(("ceiling", "best"), [(80.0, 4), (None, 8), (200.0, 8)])
def test_the_best_load_gives_nine_tenths_of_the_ceiling_in_tokens(ceiling: float | None, best: int) -> None:
    """Ten tokens a request: of a ceiling of 80 requests/s, 720 tokens/s are enough; of 100 that were served, 900."""
    points = (answered(rate, {"output_tokens_s": 10 * rate}, concurrency=load)
              for rate, load in ((50.0, 2), (75.0, 4), (100.0, 8)))  # fmt: skip
    found = serving_capacity(on_curve(served(*points), ceiling))
    assert found is not None and found.evidence["best"] == best


@pytest.mark.parametrize(
    ("fixed", "varied", "words"),
    [
        ({"ttft_target": 0.5}, {}, True),
        ({"tpot_target": 0.5}, {}, True),
        ({}, {"ttft_target": 0.5}, True),
        ({}, {"tpot_target": 0.5}, True),
        ({"ttft_target": 0.0}, {"tpot_target": 0.0}, False),
    ],
)
def test_goodput_is_said_where_any_target_was_given(fixed: dict[str, Any], varied: dict[str, Any], words: bool) -> None:
    details = {"output_tokens_s": 100.0, "good_share": 0.75, "goodput_requests_s": 7.5}
    found = serving_capacity(on_curve(served(answered(10.0, details, concurrency=8, **varied), **fixed)))
    assert found is not None
    assert (" 75% of the requests met the targets (7.5/s goodput)." in found.says) == words


# --- what limits a server


def test_a_limit_is_looked_for_from_the_least_load_to_the_greatest() -> None:
    """From 4 to 8 it is twice the load, though not from 4 to 6."""
    found = serving_limit(on_curve(served(*(answered(10.0, concurrency=load) for load in (4, 6, 8)))))
    assert found is not None and found.says.startswith("Limit from 4 to 8 concurrent requests")
    assert serving_limit(on_curve(served(*(answered(10.0, concurrency=load) for load in (4, 6, 7))))) is None


@pytest.mark.parametrize(
    ("full", "advice"), [(0.9, "Give the server's KV cache more memory"), (0.89, "Give the server more slots")]
)
def test_a_queue_for_room_in_the_kv_cache_needs_memory_and_any_other_slots(full: float, advice: str) -> None:
    counted = {"server_waiting": 4.0, "server_kv_cache_share": full}
    found = serving_limit(on_curve(served(answered(concurrency=2), answered(10.0, counted, concurrency=8))))
    assert found is not None and found.evidence["limit"] == "queue" and found.advice.startswith(advice)
    assert found.evidence["server_waiting"] == 4.0


def machine_of(*caches: int | None) -> Machine:
    return Machine(
        cpu=Cpu(threads=8, caches=tuple(Cache(level, "unified", size) for level, size in enumerate(caches, 1)))
    )


@pytest.mark.parametrize(
    ("caches", "weights", "bandwidth"),
    [
        ((1 << 20, 32 << 20), 16 << 20, None),
        ((1 << 20, 32 << 20), 64 << 20, 3e10),
        ((1 << 20, None), 64 << 20, 3e10),
        ((), 64 << 20, 3e10),
        ((), 0, None),
    ],
)
def test_steps_read_memory_where_no_cache_has_all_weights(
    caches: tuple[int | None, ...], weights: int, bandwidth: float | None
) -> None:
    result = served(answered(details={"weights_bytes": weights}, threads=4), kernel=IN_PROCESS)
    run = replace(case_of(result).run, experiments=(result, memory_reads(({"threads": 4}, 3e10))))
    assert _Steps.of(Case(replace(run, machines=(machine_of(*caches),)), result, 0)).bandwidth == bandwidth


def steps(bytes_s: float = 8e9, bandwidth: float | None = 1e10, fetched: float = 0.0, prompts: float = 0.0,
          cpu: float = 0.1) -> _Steps:  # fmt: skip
    """An engine that reads 80% of its memory's bandwidth."""
    return _Steps(4, bytes_s, 1.0, bandwidth, fetched, prompts, cpu)


@pytest.mark.parametrize(
    ("made", "limit"),
    [
        (steps(fetched=0.051), "storage"),
        (steps(fetched=0.05), "memory bandwidth"),
        (steps(prompts=0.49), "memory bandwidth"),
        (steps(prompts=0.5), None),
        (steps(prompts=0.9), None),
        (steps(prompts=0.5, cpu=0.95), "processors"),
        (steps(bytes_s=1e9), None),
        (steps(bytes_s=1e9, cpu=0.95), "processors"),
        (steps(bandwidth=None, cpu=0.95), None),
        (steps(bandwidth=None, prompts=0.9, cpu=0.1), None),
        (steps(bandwidth=None, prompts=0.9, cpu=0.95), "processors"),
    ],
)
def test_an_engine_is_limited_by_the_resource_that_it_used_up(made: _Steps, limit: str | None) -> None:
    found = made.reason()
    assert (None if found is None else found[1]) == limit


@pytest.mark.parametrize(
    ("load", "waiting", "waits"),
    [(4, None, None), (4, 0.0, False), (4, 1.0, True), (40, 3.9, False), (40, 4.0, True)],
)
def test_requests_wait_where_a_tenth_of_them_and_one_at_least_do(
    load: int, waiting: float | None, waits: bool | None
) -> None:
    details = {} if waiting is None else {"server_waiting": waiting}
    assert _Queue.of(_Served(0, load, answered(details=details))).waits is waits


@pytest.mark.parametrize(("mean", "after"), [(11.0, 10.0), (1.5, 0.5), (1.0, 0.0), (0.0, 0.0)])
def test_a_requests_time_is_its_first_token_and_those_after(mean: float, after: float) -> None:
    least = answered(details={"server_prompt_s": 0.01}, medians={"first_token": 1e8, "per_token": 1e7})
    most = answered(details={"server_prompt_s": 0.02, "output_tokens_mean": mean}, medians={"first_token": 3e8})
    assert _Spent.of(least, most) == _Spent((1e8, 3e8), (1e7, 0.0), after, (0.01, 0.02))


@pytest.mark.parametrize(
    ("spent", "grown"),
    [
        (_Spent((1e8, 3e8), (1e7, 2e7), 10.0, (0.0, 0.0)), (1.0, 0.5)),
        (_Spent((1.0, 3.0), (0.0, 0.0), 0.0, (0.0, 0.0)), (2.0, 0.0)),
        (_Spent((0.0, 3e8), (0.0, 0.0), 10.0, (0.0, 0.0)), (0.0, 0.0)),
    ],
)
def test_growth_is_a_share_of_the_whole_request_at_the_least_load(spent: _Spent, grown: tuple[float, float]) -> None:
    """Of 200 ms at first: the first token takes 200 ms more, and ten others of 10 ms more each take 100 ms."""
    assert spent.grown == grown


QUEUED = _Spent((1e8, 3e8), (1e7, 1e7), 10.0, (0.0, 0.0))
"""A request whose first token comes 200 ms later, of 200 ms."""


@pytest.mark.parametrize(
    ("fetched", "prompt_s", "limit", "alone"),
    [
        (0.0, (0.0, 0.0), "queue", ""),
        (0.0, (0.0, 0.02), "queue", ""),
        (0.0, (0.01, 0.0), "queue", ""),
        (0.0, (0.01, 0.02), "queue", " The server computes a prompt in 20.0 ms."),
        (0.5, (0.01, 0.02), "storage", ""),
    ],
)
def test_storage_goes_before_a_queue_and_a_queue_before_memory(
    fetched: float, prompt_s: tuple[float, float], limit: str, alone: str
) -> None:
    spent, engine, unknown = replace(QUEUED, server_prompt_s=prompt_s), steps(fetched=fetched), _Queue(8, {})
    says, found = _reason(spent, engine, unknown, None, None)
    assert found == limit and ("computes a prompt" in says) == bool(alone) and says.endswith(alone)


# --- what to do next in this process


@pytest.mark.parametrize(
    ("kind", "most", "given", "option"),
    [
        ("queue", 4.0, {"batch": 8}, "--batch 16"),
        ("queue", 64.0, {"batch": 8}, "--batch 64"),
        ("queue", 4.0, {"batch": 600}, "--batch 1024"),
        ("client", 9.0, {}, "--concurrency 4"),
        ("client", 1.0, {}, "--concurrency 1"),
        ("processors", 4.0, {"threads": 3}, "--threads 6"),
        ("processors", 4.0, {}, "--threads 2"),
    ],
)
def test_an_engine_is_given_more_of_what_it_used_up(kind: str, most: float, given: dict[str, Any], option: str) -> None:
    result = served(answered(**given), kernel=IN_PROCESS)
    assert f"{option} " in f"{_next_step(case_of(result), kind, most)} "


# --- loads, tokens and images of a model


def test_any_rate_above_none_counts() -> None:
    """A model on a slow machine takes seconds for a token or for an image."""
    rates = (0.0, 0.5, 1.0)

    def points(**details: float) -> tuple[Measurement, ...]:
        given: dict[str, Any] = {"cache": "cold", "stack": "llama.cpp", "way": "restore", "tokens": 8}
        return tuple(
            replace(base(), throughput=Value(rate, "operations/s"), parameters=given, details=details) for rate in rates
        )

    loads, images, contexts = (
        made_experiment("inference.x", "inference", "?", "threads", kernel, points(read_s=0.5), fixed={})
        for kernel in ("inference_load", "inference_images", "inference_restore")
    )
    assert [one.bytes_s for one in loads_of(loads)] == [0.5, 1.0]
    assert [(one.rate, one.workers) for one in points_of(images)] == [(0.5, 1), (1.0, 1)]
    assert _by_stack(contexts) == {"llama.cpp": {"restore": [(8.0, 16.0), (8.0, 8.0)]}}


def decoded(rate: float, **details: float) -> ExperimentResult:
    point = replace(base(), parameters={"threads": 4}, throughput=Value(rate, "operations/s"), details=details)
    result = made_experiment("inference.decode", "inference", "?", "threads", "inference_decode", (point,), fixed={})
    bound = Ceiling("tokens_s/4", "reference", 40.0, "operations/s", "1.6 GB/s / 40 MB", "measured")
    return replace(result, ceilings=(bound,))


@pytest.mark.parametrize(("rate", "share"), [(0.0, None), (0.5, 0.0125), (1.0, 0.025), (32.0, 0.8)])
def test_any_rate_of_tokens_is_compared_with_the_memorys(rate: float, share: float | None) -> None:
    found = decode_bound(case_of(decoded(rate)))
    assert (None if found is None else found.evidence["share"]) == share


@pytest.mark.parametrize(
    ("rate", "details", "small"),
    [
        (31.9, {"weights": 199_999_999}, True),
        (31.9, {"weights": 200_000_000}, False),
        (31.9, {"weights": 1}, True),
        (31.9, {}, False),
        (32.0, {"weights": 199_999_999}, False),
    ],
)
def test_a_small_model_that_stays_below_the_memorys_rate_may_be_bound_by_its_operators(
    rate: float, details: dict[str, float], small: bool
) -> None:
    found = decode_bound(case_of(decoded(rate, **details)))
    assert found is not None and ("is a possible cause" in found.says) == small


MIB = 1 << 20


def cold(cpu_s: float, size: int = 100 * MIB, system: float = 0.0, **details: float) -> Load:
    """One load in a second."""
    point = replace(base(), throughput=Value(float(size), "bytes/s"), bytes=size, repeats=1, details=details,
                    cpu_user_s=cpu_s * (1 - system), cpu_system_s=cpu_s * system)  # fmt: skip
    return Load(0, "mapped", True, point)


@pytest.mark.parametrize(
    ("load", "says"),
    [
        (cold(0.2, major_faults=100), "It waits for 80% of that time, in 100 page faults that each bring 1 MiB."),
        (cold(0.2, 100 * MIB + 1, major_faults=100), "It waits for 80% of that time: too few reads are in flight"),
        (cold(0.2), "It waits for 80% of that time: too few reads are in flight"),
        (cold(0.5, major_faults=100), "It waits for 50% of that time, in 100 page faults"),
        (cold(0.6, major_faults=100), "Limit not identified: it computes for 60% of that time"),
    ],
)
def test_a_load_waits_by_faults_where_each_brings_a_mebibyte_at_most(load: Load, says: str) -> None:
    assert cause_of(load).startswith(says)


def test_the_kernels_part_of_one_load_is_its_system_time() -> None:
    """Half of the pages of 4 KiB fault one at a time."""
    faults = 100 * MIB / 4096 / 2
    assert ", 75% of it in the kernel. It faults 4 KiB pages" in cause_of(cold(0.8, system=0.75, minor_faults=faults))
    assert "in the kernel" not in cause_of(cold(0.8, system=0.75, minor_faults=faults - 1))


# --- the KV cache on storage


def test_a_reading_whose_runtime_is_unknown_took_a_second() -> None:
    point = replace(base(), parameters={"users": 4}, notes=(Note("no_step", "no turn ended"),))
    result = made_experiment("inference.kv", "inference", "?", "users", "training_kv_cache", (point,), fixed={})
    found = io_nothing_done(case_of(result))
    assert found is not None and found.evidence == {"runtime_s": 1.0} and "no turn ended in 1 s." in found.says


@pytest.mark.parametrize(
    ("user", "system", "share"), [(3.8, None, 0.95), (None, 3.8, 0.95), (None, None, None), (3.6, None, None)]
)
def test_a_client_is_full_by_the_cpu_time_that_is_known(
    user: float | None, system: float | None, share: float | None
) -> None:
    """Of one user's thread in 4 s."""
    point = replace(base(), parameters={"users": 1}, cpu_user_s=user, cpu_system_s=system, elapsed_s=4.0)
    found = io_client_bound(Case(run_of(point), run_of(point).experiments[0], 0))
    assert (None if found is None else found.evidence["cpu_share"]) == share


def test_a_full_kv_cache_that_no_request_waits_for_needs_no_more_memory() -> None:
    counted = {"server_waiting": 0.0, "server_kv_cache_share": 0.95}
    few = answered(medians={"first_token": 1e8, "per_token": 1e7}, concurrency=2)
    many = answered(10.0, counted, {"first_token": 3e8, "per_token": 1e7}, concurrency=8)
    found = serving_limit(on_curve(served(few, many)))
    assert found is not None and found.evidence["limit"] == "queue" and "for others' prompts" in found.says
    assert "KV cache" not in found.advice
