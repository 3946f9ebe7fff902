"""Findings on served models: planted servers are named on many machines, clean ones are not accused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.analysis.estimates import early_stopping_count
from hwdyno.explain.findings import explain
from hwdyno.measure.experiments.inference_serving import SERVING, SERVING_RATE
from hwdyno.measure.measurement import make_measurement
from hwdyno.measure.workloads.inference_serving import DECLARATION, KERNEL
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Run
from simulation import serving
from simulation.machine import SimulatedMachine
from simulation.serving import SimulatedServer

DEFAULTS: dict[str, Any] = {axis.name: axis.default for axis in DECLARATION.axes} | {
    "server": "http://127.0.0.1:8000",
    "output_tokens": "32",
    "runtime": 8.0,
}
ACCUSES = {
    *("serving_faults", "serving_late", "serving_client_bound", "serving_short", "serving_cached", "serving_rate"),
    *("serving_miscounted", "serving_one_piece", "rate_not_reached", "client_bound", "faults"),
}


def _point(server: SimulatedServer, seed: int, **parameters: Any) -> Measurement:
    readings = [
        serving.run(server, {**DEFAULTS, **parameters, "seed": 100 * seed + at}, random.Random(f"{seed} {at}"))
        for at in range(3)
    ]
    busy = {"cpu_total_s": 0.0, "cpu_idle_s": 0.0, "cpu_user_s": 0.0, "cpu_steal_s": 0.0}
    after = {**busy, "cpu_total_s": 10.0, "cpu_idle_s": 10.0 * (1 - server.cpu_busy), "cpu_user_s": 1.0}
    return make_measurement(parameters, readings, DECLARATION, [(busy, after)] * 3)


def _run(server: SimulatedServer, load: str, values: Sequence[float], seed: int = 1, **fixed: Any) -> Run:
    experiment = SERVING_RATE if load == "rate" else SERVING
    points = tuple(_point(server, seed, **{load: value}, **fixed) for value in values)
    result = ExperimentResult(
        name=experiment.name, resource="inference", asks=experiment.asks, load=load, kernel=KERNEL, points=points,
        fixed={"server": "http://127.0.0.1:8000", "output_tokens": "32", **fixed}, declaration=DECLARATION,
    )  # fmt: skip
    run = Run(
        id="r", started="2026-01-01T00:00:00+00:00", finished="2026-01-01T00:01:00+00:00",
        machines=(SimulatedMachine().survey(),), profile="quick",
        command="hwdyno inference --server http://127.0.0.1:8000", experiments=(result,),
    )  # fmt: skip
    return explain(run)


def _found(run: Run, rule: str) -> Finding | None:
    return next((finding for finding in run.findings if finding.rule == rule), None)


def _random_server(seed: int) -> SimulatedServer:
    numbers = random.Random(seed)
    return SimulatedServer(
        prompt_s=numbers.uniform(0.005, 0.05),
        step_s=numbers.uniform(0.004, 0.03),
        sequence_s=numbers.uniform(0.00005, 0.0005),
        slots=numbers.choice((4, 8, 16)),
        noise=numbers.uniform(0.005, 0.05),
    )


def test_early_stopping_counts_are_mlperfs() -> None:
    """LoadGen's early_stopping.cc at a confidence of 99%, for 0, 1, 2, 5 and 10 queries over the limit."""
    over = (0, 1, 2, 5, 10)
    assert [early_stopping_count(0.9, count) for count in over] == [44, 64, 81, 127, 197]
    assert [early_stopping_count(0.99, count) for count in over] == [459, 662, 838, 1307, 2010]
    assert [early_stopping_count(0.999, count) for count in over] == [4603, 6636, 8403, 13105, 20140]


@pytest.mark.parametrize("seed", range(sample(3, 40)))
def test_clean_server_is_accused_of_nothing(seed: int) -> None:
    """Five loads each, closed and open up to 60% of the capacity: 200 clean points of either."""
    server = _random_server(seed)
    closed = _run(server, "concurrency", (1, 2, 4, 8, 16), seed)
    rates = tuple(round(share * server.capacity_s(32), 3) for share in (0.1, 0.2, 0.3, 0.45, 0.6))
    opened = _run(server, "rate", rates, seed)
    for run in (closed, opened):
        assert not {finding.rule for finding in run.findings} & ACCUSES
        assert _found(run, "serving_capacity") is not None


@pytest.mark.parametrize("seed", range(sample(3, 20)))
def test_the_knee_and_the_ceiling_of_a_known_server_are_found(seed: int) -> None:
    server = _random_server(seed)
    run = _run(server, "concurrency", (1, 2, 4, 8, 16, 32), seed)
    (curve,) = run.experiments[0].curves
    assert curve.ceiling is not None
    assert curve.ceiling.value == pytest.approx(server.capacity_s(32), rel=0.12)
    best = _found(run, "serving_capacity")
    assert best is not None
    # With as many requests as slots the server gives all that it can; prompts leave some of it idle before.
    assert server.slots / 4 <= best.evidence["best"] <= 2 * server.slots
    assert best.evidence["headline"]["value"] == pytest.approx(32 * server.capacity_s(32), rel=0.2)


@pytest.mark.parametrize("seed", range(sample(3, 20)))
def test_slots_that_are_all_taken_are_named_as_the_limit(seed: int) -> None:
    run = _run(replace(_random_server(seed), slots=2, sequence_s=0.0), "concurrency", (2, 4, 8, 16), seed)
    limit = _found(run, "serving_limit")
    assert limit is not None and limit.evidence["limit"] == "queue"
    assert "for a slot" in limit.says


def _counted(server: SimulatedServer, values: Sequence[float], **details: float) -> Finding:
    """The limit where the server counts its own requests under the most load."""
    run = _run(server, "concurrency", values)
    (result,) = run.experiments
    *others, most = result.points
    counted = replace(most, details={**most.details, **{f"server_{name}": detail for name, detail in details.items()}})
    limit = _found(explain(replace(run, experiments=(replace(result, points=(*others, counted)),))), "serving_limit")
    assert limit is not None
    return limit


def test_the_servers_own_count_says_which_queue_it_is() -> None:
    server = SimulatedServer(slots=4, sequence_s=0.0)
    full = _counted(server, (2, 4, 8, 16), waiting=12.0, running=4.0, kv_cache_share=0.97, preemptions=3.0)
    assert full.evidence["limit"] == "queue" and full.evidence["server_waiting"] == 12
    assert (
        "the server's queue. By its own count, 12 requests waited, 4 ran, KV cache 97% full, 3 preemptions. "
        in full.says
    )
    assert "for room in the KV cache" in full.says and "--gpu-memory-utilization" in full.advice
    slots = _counted(server, (2, 4, 8, 16), waiting=12.0, running=4.0, kv_cache_share=0.4, preemptions=0.0)
    assert "12 requests waited, 4 ran, KV cache 40% full. Requests wait before" in slots.says
    assert "for a slot (" in slots.says and "more slots" in slots.advice
    prompts = _counted(server, (2, 4, 8, 16), waiting=0.0, running=16.0)
    assert "0 requests waited, 16 ran. " in prompts.says and "for others' prompts (" in prompts.says


def test_a_queue_that_the_server_counts_goes_before_a_batch_that_slows_down() -> None:
    server = SimulatedServer(prompt_s=0.001, step_s=0.002, sequence_s=0.01, slots=64, noise=0.02)
    assert _counted(server, (1, 2, 4, 8), waiting=0.0, running=8.0).evidence["limit"] == "batch"
    assert _counted(server, (1, 2, 4, 8), waiting=2.0, running=6.0).evidence["limit"] == "queue"


@pytest.mark.parametrize("seed", range(sample(3, 20)))
def test_a_batch_that_shares_its_bandwidth_is_named_as_the_limit(seed: int) -> None:
    server = SimulatedServer(prompt_s=0.001, step_s=0.002, sequence_s=0.01, slots=64, noise=0.02)
    run = _run(server, "concurrency", (1, 2, 4, 8), seed)
    limit = _found(run, "serving_limit")
    assert limit is not None and limit.evidence["limit"] == "batch"


def test_busy_processors_are_named_as_limit() -> None:
    server = SimulatedServer(prompt_s=0.001, step_s=0.002, sequence_s=0.01, slots=64, cpu_busy=0.97)
    limit = _found(_run(server, "concurrency", (1, 2, 4, 8)), "serving_limit")
    assert limit is not None and limit.evidence["limit"] == "processors"


@pytest.mark.parametrize("seed", range(sample(3, 20)))
def test_a_full_client_is_named_and_its_points_are_degraded(seed: int) -> None:
    run = _run(replace(_random_server(seed), is_client_full=True), "concurrency", (4, 8), seed)
    found = _found(run, "serving_client_bound")
    assert found is not None and "Client-bound" in found.says
    assert all(point.validity == "degraded" for point in run.experiments[0].points)


@pytest.mark.parametrize("seed", range(sample(3, 20)))
def test_coordinated_omission_is_always_named(seed: int) -> None:
    """An open loop whose connections are used up: times from the sent time look well, and the point is degraded."""
    server = replace(_random_server(seed), slots=8)
    rate = round(0.8 * server.capacity_s(32), 3)
    run = _run(server, "rate", (rate,), seed, connections=1)
    found = _found(run, "serving_late")
    assert found is not None and "--connections" in found.advice
    (point,) = run.experiments[0].points
    assert point.validity == "degraded" and "serving_late" in point.why
    tokens = next(stream for stream in point.streams if stream.name == "token")
    assert tokens.latency_ns["first_token"].p50 > 5 * tokens.latency_ns["first_token_sent"].p50  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(sample(3, 20)))
def test_rate_beyond_capacity_is_over_saturation(seed: int) -> None:
    server = _random_server(seed)
    run = _run(server, "rate", (round(1.6 * server.capacity_s(32), 3),), seed, runtime=15.0)
    found = _found(run, "serving_rate")
    assert found is not None and found.says.startswith("Over-saturated")
    assert run.experiments[0].points[0].validity == "degraded"


@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        ({"failed_share": 0.1}, "serving_faults"),
        ({"ends_after": 8}, "serving_short"),
        ({"cached_share": 0.6}, "serving_cached"),
        ({"tokens_a_chunk": 4}, "serving_chunks"),
    ],
)
@pytest.mark.parametrize("seed", range(sample(2, 10)))
def test_what_server_does_wrong_is_named(planted: dict[str, Any], rule: str, seed: int) -> None:
    run = _run(replace(_random_server(seed), **planted), "concurrency", (2, 8), seed)
    assert _found(run, rule) is not None
    if rule != "serving_chunks":
        assert all(rule in point.why for point in run.experiments[0].points)


def test_a_cache_that_is_measured_on_purpose_is_no_fault() -> None:
    run = _run(SimulatedServer(cached_share=0.6), "concurrency", (2,), reuse_prompts=True)
    assert _found(run, "serving_cached") is None


def test_few_requests_have_no_p99() -> None:
    best = _found(_run(SimulatedServer(), "concurrency", (1, 2)), "serving_capacity")
    assert best is not None and "p99 too few" in best.says and "p50" in best.says and "goodput" not in best.says


def test_percentiles_of_repeats_are_merged() -> None:
    point = _point(SimulatedServer(), 1, concurrency=4)
    tokens = next(stream for stream in point.streams if stream.name == "token")
    assert tokens.latency_ns["first_token"].count == point.operations
    assert point.latency_ns is not None and point.latency_ns.count == point.operations


@pytest.mark.parametrize("seed", range(sample(3, 40)))
def test_prefix_cache_is_judged_by_times(seed: int) -> None:
    drawn = _random_server(seed)
    server = replace(drawn, noise=0.005, prompt_s=max(drawn.prompt_s, 2 * drawn.step_s))
    share = random.Random(seed).uniform(0.4, 0.9)
    # A server without a prefix cache ignores the request for one.
    for hits, says in ((share, "helps"), (0.0, "gains nothing")):
        without = _run(server, "concurrency", (1,), seed, reuse_prompts=False)
        cached = _run(replace(server, cached_share=hits), "concurrency", (1,), seed, reuse_prompts=True)
        points = tuple(
            replace(point, parameters={**point.parameters, "reuse_prompts": reused})
            for run, reused in ((without, False), (cached, True))
            for point in run.experiments[0].points
        )
        fixed = {name: value for name, value in cached.experiments[0].fixed.items() if name != "reuse_prompts"}
        result = replace(cached.experiments[0], points=points, fixed=fixed, curves=())
        found = _found(explain(replace(cached, experiments=(result,), findings=())), "prefix_cache")
        assert found is not None and f"prefix cache {says}" in found.says, (seed, hits)
        assert found.evidence["cached_share"] == pytest.approx(hits, abs=0.02)
    assert _found(without, "prefix_cache") is None
