"""An interval keeps what it promises: on machines whose speed drifts, runs agree within theirs 95 times in 100."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pytest
from hwdyno import experiments, runner
from hwdyno.hosts.simulated import SimulatedHost, SimulatedMachine
from hwdyno.hosts.simulated_core import Core
from hwdyno.plan import build
from hwdyno.runner import in_turn
from hwdyno.runner.in_turn import blocks
from hwdyno.words import Run
from test_runner import Memory

ASKED = ("memory.grid", "memory.threads", "memory.levels", "memory.latency", "memory.loaded")
RUNS = 4
MACHINES = 6


def run_at(core: Core, begun_s: float, seed: int, path: Path) -> Run:
    """A quick run that begins at a moment of the machine's life."""
    host = SimulatedHost(SimulatedMachine(seed=seed, threads=core.threads, core=core))
    host.now_s = begun_s
    chosen = [(one, {}) for name in ASKED for one in experiments.find(name)]
    return runner.run(build(chosen, host.kernels(), path=path, seed=seed), host, Memory(), "run")


def intervals(run: Run) -> dict[tuple[str, str], tuple[float, float]]:
    return {
        (result.name, str(point.parameters)): (point.throughput.low, point.throughput.high)
        for result in run.experiments
        for point in result.points
        if point.throughput.low is not None and point.throughput.high is not None
    }


def least(share: float, cases: int) -> float:
    """What a binomial share of so many independent cases falls below once in a thousand."""
    return share - 3.1 * math.sqrt(share * (1 - share) / cases)


def test_experiments_of_a_stateless_resource_are_one_block(tmp_path: Path) -> None:
    host = SimulatedHost()
    names = ("storage.iodepth", "storage.blocksize", "memory.grid", "memory.latency", "compute.grid", "memory.threads")
    chosen = [(one, {}) for name in names for one in experiments.find(name)]
    found = blocks(build(chosen, host.kernels(), path=tmp_path).experiments)
    assert [[planned.experiment.name for planned in block] for block in found] == [
        ["storage.iodepth"],
        ["storage.blocksize"],
        ["memory.grid", "memory.latency"],
        ["compute.grid"],
        ["memory.threads"],
    ]


def test_a_points_repeats_lie_as_far_apart_as_the_run_is_long(tmp_path: Path) -> None:
    class Watched(SimulatedHost):
        def __init__(self) -> None:
            super().__init__()
            self.order: list[str] = []

        def run(self, kernel: str, parameters: dict[str, object]) -> dict[str, object]:
            self.order.append(kernel)
            return super().run(kernel, parameters)

    host = Watched()
    chosen = [(one, {}) for name in ASKED for one in experiments.find(name)]
    run = runner.run(build(chosen, host.kernels(), path=tmp_path, seed=3), host, Memory(), "run")
    for result in run.experiments:
        assert len(result.points) == result.planned
    points = sum(len(result.points) for result in run.experiments)
    # Each third of the readings, which is about a round, has every kernel.
    thirds = [host.order[len(ASKED) + at * points :][:points] for at in range(3)]
    assert all(set(third) == set(host.order) for third in thirds)


def shares(path: Path) -> tuple[float, float]:
    """Of all pairs of runs the share of points whose intervals meet, and of all intervals those that hold the truth."""
    met: list[float] = []
    covered: list[float] = []
    for seed in range(MACHINES):
        # A seventh of such a run's length later, the machine knows nothing of its speed.
        core = Core.random(seed, drift=0.03, drift_s=5.0)
        truth = {name: sum(span) / 2 for name, span in truths(Core.random(seed, noise=0.0), path).items()}
        runs = [intervals(run_at(core, 1000.0 * (seed * RUNS + at), seed + 100 * at, path)) for at in range(RUNS)]
        met += [mean(overlap(one[name], other[name]) for name in one) for one, other in combinations(runs, 2)]
        covered += [mean(low <= truth[name] <= high for name, (low, high) in one.items()) for one in runs]
    return mean(met), mean(covered)


def test_runs_of_a_drifting_machine_agree_within_their_intervals(tmp_path: Path) -> None:
    met, covered = shares(tmp_path)
    assert met >= 0.95
    assert covered >= least(0.95, len(ASKED) * MACHINES * RUNS)


def test_repeats_close_in_time_would_promise_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_turn, "STATELESS", frozenset())
    met, covered = shares(tmp_path)
    assert met < 0.95 and covered < 0.85


def truths(core: Core, path: Path) -> dict[tuple[str, str], tuple[float, float]]:
    return intervals(run_at(core, 0.0, 1, path))


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def mean(values: Iterable[float]) -> float:
    every = list(values)
    return sum(every) / len(every)
