"""Many Runs: how long it takes to summarise 10,000 of them, and to judge a fleet of 1,000 nodes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from hwdyno.explain.fleet.slow import judge_fleet, list_nodes
from hwdyno.measure import engine
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.measurement import make_measurement
from hwdyno.model.words import ExperimentResult, Measurement, Run
from hwdyno.system.store import Store, to_json

from benchmarks import Bench, BenchmarkRow, Parameters, Target

RUNS, NODES, VARIANTS = 10_000, 1_000, 100
OPERATIONS = ("read", "write", "copy", "triad")
NOISE = 0.01
ID, HOST = "id-of-the-run", "name-of-the-node"


def measure(bench: Bench) -> Iterator[BenchmarkRow]:
    """Yield every row as it is measured."""
    bench.says(f"{RUNS} Runs")
    store = Store(bench.directory / "fleet")
    store.runs.mkdir(parents=True)
    texts = list(_variants())
    for number in range(RUNS):
        run_id = f"20260101-{number // 3600 % 24:02}{number // 60 % 60:02}{number % 60:02}-{number:04x}"
        text = texts[number % VARIANTS].replace(ID, run_id).replace(HOST, f"node{number % NODES:04}")
        (store.runs / f"{run_id}.json").write_text(text)
    yield _row(f"index of {RUNS} Runs made anew", _seconds(store.history), None)
    yield _row(f"{RUNS} Runs summarised", _seconds(store.history), 5.0)
    rows = store.figures()[-NODES:]
    yield _row(f"fleet of {NODES} nodes judged", _seconds(lambda: judge_fleet(list_nodes(rows), store.load)), 2.0)


def _variants() -> Iterator[str]:
    """Documents of Runs that differ by noise alone."""
    host, rng = Local(), random.Random(1)
    kernel = host.kernels()["memory_bandwidth"]
    points = []
    for operation in OPERATIONS:
        given: Parameters = {"operation": operation, "threads": 1, "working_set": 1 << 26}
        readings = [engine.run("memory_bandwidth", {**given, "runtime": 0.05}) for _ in range(3)]
        points.append(make_measurement(given, readings, kernel))
    machine = replace(host.survey(), hostname=HOST)
    for _ in range(VARIANTS):
        noisy = tuple(_noisy(point, rng.gauss(1.0, NOISE)) for point in points)
        result = ExperimentResult(
            "memory.grid", "memory", "?", "threads", "memory_bandwidth", noisy, planned=len(noisy), declaration=kernel
        )
        begun = "2026-01-01T00:00:00+00:00"
        yield to_json(Run(ID, begun, begun, (machine,), "quick", "hwdyno memory", (result,)))


def _noisy(point: Measurement, factor: float) -> Measurement:
    value = point.throughput
    low, high = (None if end is None else end * factor for end in (value.low, value.high))
    return replace(point, throughput=replace(value, value=value.value * factor, low=low, high=high))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _row(title: str, seconds: float, at_most: float | None) -> BenchmarkRow:
    return BenchmarkRow(title, "s", seconds, target=None if at_most is None else Target(at_most=at_most))
