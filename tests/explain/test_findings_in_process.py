"""What limits a model in this process: planted engines are named by what they use up, and clean ones are not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.explain.findings import explain
from hwdyno.measure.experiments.inference import MEMORY
from hwdyno.measure.experiments.inference_serving import IN_PROCESS
from hwdyno.measure.measurement import make_measurement
from hwdyno.measure.workloads.inference_in_process import DECLARATION, KERNEL
from hwdyno.model.words import Declaration, ExperimentResult, Finding, Measurement, Run
from simulation import in_process
from simulation.in_process import SimulatedEngine
from simulation.machine import SimulatedMachine

LOADS = (1, 2, 4, 8)
DEFAULTS: dict[str, Any] = {axis.name: axis.default for axis in DECLARATION.axes} | {"runtime": 8.0}
BUSY = {"cpu_total_s": 0.0, "cpu_idle_s": 0.0, "cpu_user_s": 0.0, "cpu_steal_s": 0.0}


def _random_engine(seed: int) -> SimulatedEngine:
    """One that memory limits: its weights are large, and it computes little for each sequence."""
    numbers = random.Random(seed)
    return SimulatedEngine(
        weights_bytes=numbers.uniform(150e6, 4e9),
        kv_bytes=numbers.uniform(100e6, 400e6),
        bandwidth=numbers.uniform(8e9, 60e9),
        reached=numbers.uniform(0.75, 0.95),
        sequence_compute_s=1e-5,
        prompt_s=numbers.uniform(1e-4, 1e-3),
        threads=numbers.choice((1, 2, 8)),
    )


def _computes(engine: SimulatedEngine) -> SimulatedEngine:
    """The same, where arithmetic takes twice as long as the reads."""
    read_s = (engine.weights_bytes + 8 * engine.kv_bytes) / engine.bandwidth
    return replace(engine, step_compute_s=0.2 * read_s, sequence_compute_s=0.25 * read_s)


def _point(engine: SimulatedEngine, seed: int, **parameters: Any) -> Measurement:
    given = {**DEFAULTS, "threads": engine.threads, "batch": engine.batch, **parameters}
    readings = [
        in_process.run(engine, {**given, "seed": 10 * seed + at}, random.Random(f"{seed} {at}")) for at in range(3)
    ]
    after = {**BUSY, "cpu_total_s": 10.0, "cpu_idle_s": 6.0, "cpu_user_s": 4.0}
    return make_measurement(parameters, readings, DECLARATION, [(BUSY, after)] * 3)


def _memory(engine: SimulatedEngine) -> ExperimentResult:
    reading = {
        "elapsed_s": 1.0, "streams": [{"name": "read", "operations": 1, "bytes": int(engine.bandwidth), "flops": 0}],
        "cpu": {"user_s": 1.0, "system_s": 0.0},
    }  # fmt: skip
    declaration = Declaration(measures="reads", operation="pass", counts={"bytes": "working_set"}, axes=())
    points = (make_measurement({"operation": "read", "threads": engine.threads}, [reading] * 3, declaration),)
    return ExperimentResult(
        MEMORY.name, "inference", MEMORY.asks, "threads", MEMORY.kernel, points, declaration=declaration
    )


def _run(engine: SimulatedEngine, seed: int = 1, loads: Sequence[int] = LOADS, *, with_memory: bool = True) -> Run:
    points = tuple(_point(engine, seed, concurrency=load) for load in loads)
    result = ExperimentResult(
        name=IN_PROCESS.name, resource="inference", asks=IN_PROCESS.asks, load="concurrency", kernel=KERNEL,
        points=points, declaration=DECLARATION,
        fixed={"stack": "onnxruntime", "model": "246m", "threads": engine.threads, "batch": engine.batch},
    )  # fmt: skip
    run = Run(
        id="r", started="2026-01-01T00:00:00+00:00", finished="2026-01-01T00:01:00+00:00",
        machines=(SimulatedMachine().survey(),), profile="quick",
        command="hwdyno inference --in-process onnxruntime --model 246m",
        experiments=(result, *([_memory(engine)] if with_memory else [])),
    )  # fmt: skip
    return explain(run)


def _limit(run: Run) -> Finding | None:
    return next((finding for finding in run.findings if finding.rule == "serving_limit"), None)


@pytest.mark.parametrize("seed", range(sample(16, 200)))
def test_memory_bandwidth_is_named_where_steps_wait_for_it(seed: int) -> None:
    engine = _random_engine(seed)
    found = _limit(_run(engine, seed, (2, 8)))
    assert found is not None and found.evidence["limit"] == "memory bandwidth", seed
    assert found.evidence["of_memory_bandwidth"] == pytest.approx(engine.reached, rel=0.02)
    assert f"that {engine.threads} thread" in found.says


@pytest.mark.parametrize("seed", range(sample(16, 200)))
def test_an_engine_that_computes_is_not_accused_of_its_memory(seed: int) -> None:
    found = _limit(_run(_computes(_random_engine(seed)), seed, (2, 8)))
    assert found is not None and found.evidence["limit"] == "processors", seed
    assert found.evidence["of_memory_bandwidth"] < 0.7


@pytest.mark.parametrize("seed", range(20))
def test_weights_from_storage_are_named(seed: int) -> None:
    engine = replace(_random_engine(seed), fetched_share=0.3)
    found = _limit(_run(engine, seed, (2, 8)))
    assert found is not None and found.evidence["limit"] == "storage"
    assert "do not stay in memory" in found.says


@pytest.mark.parametrize("seed", range(20))
def test_users_beyond_slots_wait_in_queue(seed: int) -> None:
    found = _limit(_run(replace(_random_engine(seed), batch=2), seed, (2, 8)))
    assert found is not None and found.evidence["limit"] == "queue"
    assert "--batch" in found.advice


def test_the_edge_of_each_share() -> None:
    """Just above and just below the shares from which on memory and storage are named."""
    engine = _random_engine(3)
    for share, kind in ((0.71, "memory bandwidth"), (0.69, "processors")):
        found = _limit(_run(replace(engine, reached=share), 3, (2, 8)))
        assert found is not None and found.evidence["limit"] == kind
    for share, kind in ((0.051, "storage"), (0.049, "memory bandwidth")):
        found = _limit(_run(replace(engine, fetched_share=share, storage_bytes_s=1e13), 3, (2, 8)))
        assert found is not None and found.evidence["limit"] == kind


def test_unmeasured_cause_is_not_named() -> None:
    """Memory is not named without its bandwidth in the Run, nor with weights that a cache holds."""
    engine = _random_engine(5)
    for run in (_run(engine, 5, (2, 8), with_memory=False), _run(replace(engine, weights_bytes=1e6), 5, (2, 8))):
        found = _limit(run)
        assert found is not None and found.evidence["limit"] == "batch"
        assert "of_memory_bandwidth" not in found.evidence


@pytest.mark.parametrize("seed", range(20))
def test_scaling_engine_has_no_limit(seed: int) -> None:
    """Weights of which a step reads far more than of any context: more sequences cost next to nothing."""
    assert _limit(_run(replace(_random_engine(seed), kv_bytes=1e5, prompt_s=1e-6), seed, (1, 4))) is None


def test_ceiling_is_bandwidth_by_token_bytes() -> None:
    engine = _random_engine(7)
    served, _ = _run(engine, 7).experiments
    for point, load in zip(served.points, LOADS, strict=True):
        (ceiling,) = (candidate for candidate in served.ceilings if candidate.metric == f"served/concurrency/{load}")
        token_bytes = engine.weights_bytes / load + engine.kv_bytes
        assert ceiling.value == pytest.approx(engine.bandwidth / token_bytes / 31, rel=1e-6)
        assert point.throughput.value < ceiling.value
        assert "of weights and KV cache a token" in ceiling.formula
