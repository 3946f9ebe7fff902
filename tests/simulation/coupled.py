"""A machine that does not exist whose resources take throughput from each other, by planted shares and causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwdyno.measure.hosts import KernelCall, LoadError, UnderLoad
from hwdyno.model.machine import Machine

from simulation.core import Core
from simulation.host import SimulatedMachine
from simulation.network import SimulatedNetwork, SimulatedPath

RESOURCE = {
    "storage_blocks": "storage",
    "memory_bandwidth": "memory",
    "compute_flops": "compute",
    "network_throughput": "network",
}
PROCESSORS = 4
SHARED = 0.2
"""The rise of steal or interrupts that is planted as a cause, as a share of the CPU time."""


@dataclass(frozen=True)
class Coupling:
    """What a load takes from a resource."""

    lost: float
    """Share of the resource's throughput."""
    cause: str = ""
    """``CPU``, ``steal``, ``interrupts``, ``memory bandwidth``, or empty for one that no counter shows."""
    load_lost: float = 0.0
    """Share of the load's throughput that is lost meanwhile."""


class CoupledHost(SimulatedNetwork):
    """A simulated machine with storage, memory, processor and network, and planted couplings by (resource, load)."""

    def __init__(self, seed: int = 1, couplings: Mapping[tuple[str, str], Coupling] | None = None) -> None:
        super().__init__(SimulatedPath.random(seed))
        core = replace(Core.random(seed), threads=PROCESSORS)
        self.machine = SimulatedMachine.random(seed, threads=PROCESSORS, core=core)
        self.couplings = couplings or {}
        self.drift = 0.0
        """Change of every rate a second, as a share."""
        self.fails = ""
        """The resource that cannot be driven as a load."""
        self.uncovered = ""
        """The load that never covers the reading beside it."""
        self.extra: dict[str, float] = {}
        """Added to its counters."""

    def survey(self, path: Path | None = None) -> Machine:
        """The simulated machine, with one thread a core."""
        found = super().survey(path)
        return replace(found, cpu=replace(found.cpu, cores=PROCESSORS, threads=PROCESSORS))

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """A Reading, with the drift of the moment; the noise is independent of the data file's path."""
        given = {name: value for name, value in parameters.items() if name != "path"}
        return _slower(super().run(kernel, given), 1 + self.drift * self.now_s, keeps_cores=True)

    def run_under_load(self, load: KernelCall, work: KernelCall, settle_s: float) -> UnderLoad:
        """Both Readings, each slower by what is planted."""
        resource, other = RESOURCE[work.kernel], RESOURCE[load.kernel]
        if self.fails == other:
            raise LoadError("planted")
        planted = self.couplings.get((resource, other), Coupling(0.0))
        before = self.snapshot()
        reading = self.run(work.kernel, work.parameters)
        reading = _slower(reading, 1 - planted.lost, keeps_cores=planted.cause in {"memory bandwidth", ""})
        driven = self.run(load.kernel, {**load.parameters, "runtime": 2.0})
        driven = _slower(driven, 1 - planted.load_lost, keeps_cores=True)
        for cause, counter in (("steal", "cpu_steal_s"), ("interrupts", "cpu_interrupt_s")):
            if planted.cause == cause:
                passed = (self.snapshot()["cpu_total_s"] - before["cpu_total_s"]) * SHARED
                self.extra[counter] = self.extra.get(counter, 0.0) + passed
        after = self.snapshot()
        if planted.cause == "CPU":
            after["cpu_idle_s"] = before["cpu_idle_s"]
        return UnderLoad(reading, {**driven, "interrupted": True}, self.uncovered != other, before, after)

    def snapshot(self) -> dict[str, float]:
        """Counters with time for interrupts."""
        found = {"cpu_interrupt_s": 0.0, **super().snapshot()}
        return {name: value + self.extra.get(name, 0.0) for name, value in found.items()}


def _slower(reading: dict[str, Any], share: float, *, keeps_cores: bool) -> dict[str, Any]:
    """The Reading at a share of its rate: the same counts in more time, with as much CPU time a second or in all."""
    cpu, samples, details = reading["cpu"], reading["samples"], reading["details"]
    if keeps_cores:
        cpu = {name: value / share for name, value in cpu.items()}
        if there_s := details.get("cpu_there_s"):
            details = {**details, "cpu_there_s": there_s / share}
    samples = {**samples, "interval_s": samples["interval_s"] / share}
    return {**reading, "elapsed_s": reading["elapsed_s"] / share, "cpu": cpu, "samples": samples, "details": details}
