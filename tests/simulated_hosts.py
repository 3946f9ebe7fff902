"""Simulated hosts on which something happens, a store that keeps all in lists, and a small plan measured with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hwdyno.measure import experiments, plan, runner
from hwdyno.model.words import Measurement, PeerResult, Run
from simulation.host import SimulatedHost, SimulatedMachine


class Memory:
    """A store that keeps everything in lists."""

    def __init__(self) -> None:
        self.header: Run | None = None
        self.points: list[tuple[str, Measurement]] = []
        self.peers: list[tuple[str, PeerResult]] = []
        self.finished: list[Run] = []
        self.abandoned = False

    def begin(self, run: Run) -> Memory:
        self.header = run
        return self

    def point(self, experiment: str, measurement: Measurement, left_s: float | None = None) -> None:
        self.points.append((experiment, measurement))

    def peer(self, experiment: str, result: PeerResult) -> None:
        self.peers.append((experiment, result))

    def finish(self, run: Run) -> None:
        self.finished.append(run)

    def abandon(self) -> None:
        self.abandoned = True


class Tampered(SimulatedHost):
    """A simulated machine on which something happens at the n-th reading of a point."""

    def __init__(self, machine: SimulatedMachine, happens: Callable[[int, dict[str, Any]], None]) -> None:
        super().__init__(machine)
        self.happens = happens
        self.calls: list[dict[str, Any]] = []

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        reading = super().run(kernel, parameters)
        if kernel == "storage_blocks":
            self.calls.append(parameters)
            self.happens(len(self.calls), reading)
        return reading


QUIET = SimulatedMachine(seed=3, noise=0.005)


def planned(path: Path, host: SimulatedHost, given: Mapping[str, Any] | None = None, **how: Any) -> plan.Plan:
    base = experiments.find("storage.iodepth")[0]
    return plan.build([(base, {"iodepth": "1,8,64", "size": "256M", **(given or {})})], host, path=path, seed=5, **how)


def measured(path: Path, host: SimulatedHost, **how: Any) -> tuple[Run, Memory]:
    store = Memory()
    return runner.run(planned(path, host, **how), host, store, "run-1"), store


def nothing(count: int, reading: dict[str, Any]) -> None:
    pass


class Slow(SimulatedHost):
    """A simulated machine whose readings take their time by a clock that the runner looks at."""

    def __init__(self, overhead_s: float, machine: SimulatedMachine = QUIET, slow: str = "") -> None:
        super().__init__(machine)
        self.overhead_s, self.clock_s, self.slow = overhead_s, 0.0, slow

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        reading = super().run(kernel, parameters)
        self.clock_s += reading["elapsed_s"] + self.overhead_s * kernel.startswith(self.slow)
        return reading
