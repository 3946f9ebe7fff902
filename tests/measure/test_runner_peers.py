"""The runner beside reference tools: in turn, within the run's time, and left out where they fail or take too long."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hwdyno.measure import experiments, plan, runner
from simulated_hosts import QUIET, Memory, Slow, planned
from simulation.host import SimulatedHost


class Made:
    """A peer of the storage kernel that measures any point of it."""

    name, kernels = "fio", frozenset({"storage_blocks"})

    def version(self) -> str:
        return "3.42"

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        return None

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        return [self.name, f"--iodepth={parameters.get('iodepth')}"]


def test_a_peer_runs_in_turn_and_its_ratio_comes_from_pairs(tmp_path: Path) -> None:
    class Half(Made):
        def run(self, kernel: str, parameters: Mapping[str, Any]) -> Any:
            rate = QUIET.operations_per_s("randread", 100, 4096, parameters["iodepth"]) / 2
            return SimpleNamespace(
                throughput=rate * 4096,
                unit="bytes/s",
                rate=rate,
                latency_ns_mean=1e5,
                cpu_s=4e-6 * 1000,
                operations=1000,
                details={"version": "3.42"},
            )

    host, store = SimulatedHost(QUIET), Memory()
    run = runner.run(planned(tmp_path, host, peers=True), host, store, "run-1", peers=[Half()])
    results = run.experiments[0].peers
    assert [result.point for result in results] == [0, 1, 2]
    assert all(result.ratio is not None and result.ratio.value == pytest.approx(2, rel=0.03) for result in results)
    assert all(result.pairs == point.repeats for result, point in zip(results, run.experiments[0].points, strict=True))
    assert results[2].command == "fio --iodepth=64"
    assert len(store.peers) == 3


@pytest.mark.parametrize(
    ("error", "calls_made"), [(OSError(errno.EPIPE, "fio ended with status 1"), 3), (TimeoutError("fio was killed"), 1)]
)
def test_a_peer_that_fails_is_asked_no_more_and_costs_nothing_else(
    tmp_path: Path, error: OSError, calls_made: int
) -> None:
    calls = []

    class Dead(Made):
        def run(self, kernel: str, parameters: Mapping[str, Any]) -> Any:
            calls.append(parameters)
            raise error

    host = SimulatedHost(QUIET)
    run = runner.run(planned(tmp_path, host, peers=True), host, Memory(), "run-1", peers=[Dead()])
    assert len(calls) == calls_made
    assert run.degraded[-1].endswith("; fio was skipped from there")
    assert len(run.degraded) == min(2, calls_made)
    assert len(run.experiments[0].points) == 3
    assert run.experiments[0].peers == ()


class Lengthy(Made):
    """A peer of the memory kernel whose readings take their time by the machine's clock, and say so or do not."""

    name, kernels = "stream", frozenset({"memory_bandwidth"})

    def __init__(self, host: Slow, seconds: float) -> None:
        self.host, self.seconds, self.runs = host, seconds, 0

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        return None if parameters.get("operation") == "triad" else "only its triad"

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> Any:
        self.host.clock_s += self.seconds
        self.runs += 1
        return SimpleNamespace(throughput=2e10, unit="bytes/s", rate=None, latency_ns_mean=None, cpu_s=None,
                               operations=0, details={})  # fmt: skip


class Announced(Lengthy):
    """One that knows how long it takes."""

    def takes_s(self, kernel: str, parameters: Mapping[str, Any]) -> float:
        return self.seconds


class Shown(runner.Silent):
    """Keeps what the runner says."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def says(self, text: str) -> None:
        self.sentences.append(text)


def with_a_peer(path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Lengthy], seconds: float) -> Any:
    """Memory beside the peer, then storage, in 100 s: the Run, the peer and the sentences."""
    from hwdyno.measure.runner import allowance, plan_run

    host, shown = Slow(0.01), Shown()
    for module in (allowance, plan_run):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: host.clock_s))
    memory, storage = (experiments.find(name)[0] for name in ("memory.threads", "storage.iodepth"))
    chosen = [
        (memory, {"operation": "read,triad", "threads": "1,2"}),
        (storage, {"iodepth": "1,2,4,8,16,32", "numjobs": "1,2,4", "bs": "4k,64k"}),
    ]
    made = plan.build(chosen, host, path=path, seed=5, budget_s=100.0, peers=True)
    peer = kind(host, seconds)
    return runner.run(made, host, Memory(), "run-1", progress=shown, peers=[peer]), peer, shown.sentences


def test_a_slow_peer_takes_no_point_from_what_it_does_not_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, peer, _ = with_a_peer(tmp_path, monkeypatch, Lengthy, 12.0)
    assert peer.runs >= 2
    assert not run.degraded and all(len(experiment.points) == experiment.planned for experiment in run.experiments)


@pytest.mark.parametrize(("seconds", "runs"), [(3.9, True), (4.1, False)])
def test_slow_peer_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, runs: bool) -> None:
    run, peer, sentences = with_a_peer(tmp_path, monkeypatch, Announced, seconds)
    assert bool(peer.runs) == runs and not run.degraded
    sentence = "stream is left out where a reading takes it over 4 s, 4.0% of the budget: it takes up to 4.1 s"
    assert (sentence in sentences) != runs


class OfStorage(Lengthy):
    """One of the storage kernel, that measures every point."""

    name, kernels = "fio", frozenset({"storage_blocks"})

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        return None


def test_where_peers_do_not_fit_every_point_is_measured_and_some_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """36 readings of 4 s are 144 s of 100: the points come first."""
    run, peer, _ = with_a_peer(tmp_path, monkeypatch, OfStorage, 4.0)
    assert not run.degraded and all(len(experiment.points) == experiment.planned for experiment in run.experiments)
    assert 8 <= len({peer_result.point for peer_result in run.experiments[1].peers}) <= 27
    assert peer.host.clock_s <= 115
