"""A machine that does not exist, as a host: its kernels follow known laws with known faults, and no time passes.

Tests of the runner, the curves and the findings know what is true here: the floor, knee and ceiling of
the queue, the noise, and everything that is wrong.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwdyno.measure.topology import Topology
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration, UserError

from simulation import core, storage
from simulation.machine import SimulatedMachine
from simulation.reading import filled, latencies, parameter, reading, stream

__all__ = ["SimulatedHost", "SimulatedMachine"]

IDLE_NS = 12
_IDLE = Declaration(
    measures="what the tool itself costs an operation (simulated)",
    counts={"operations": "1"},
    axes=(parameter("runtime", "number", 0.2, "s", min=0.001, max=86_400.0),),
)


class SimulatedHost:
    """A Host on a SimulatedMachine. Each call gives other noise, the same in every process."""

    def __init__(self, machine: SimulatedMachine | None = None) -> None:
        self.machine = machine or SimulatedMachine()
        self.now_s = 0.0
        """Time as the machine would have spent it."""
        self.written_bytes = 0
        self._calls: dict[int, int] = {}
        self._busy_s = 0.0
        self._user_s = 0.0
        self._swapped = 0.0

    def survey(self, path: Path | None = None) -> Machine:
        """Describe the simulated machine; ``path`` changes nothing but its own name."""
        found = self.machine.survey()
        return found if path is None else replace(found, storage=replace(found.storage, path=str(path)))

    def topology(self) -> Topology:
        """The simulated machine's processors."""
        return Topology.of_machine(self.machine.survey())

    def kernels(self) -> dict[str, Declaration]:
        """The declarations of the kernels that it simulates."""
        return {**storage.KERNELS, "idle": _IDLE, **core.KERNELS}

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """A Reading as the engine gives it, at once."""
        declared = self.kernels().get(kernel)
        if declared is None:
            raise UserError(f"no kernel is called '{kernel}'; known: {', '.join(self.kernels())}")
        full = filled(kernel, declared, parameters)
        # A test's directory has another name each time: the noise is always that of the default one.
        places = {axis.name: axis.default for axis in declared.axes if axis.name == "path"}
        named = sorted((name, str(value)) for name, value in {**full, **places}.items())
        key = zlib.crc32(repr((self.machine.seed, kernel, named)).encode())
        self._calls[key] = self._calls.get(key, 0) + 1
        read = {
            "kernel": kernel,
            "parameters": full,
            **self.read(kernel, full, random.Random(key * 1009 + self._calls[key])),
        }
        self.now_s += read["elapsed_s"]
        self._busy_s += read["cpu"]["user_s"] + read["cpu"]["system_s"]
        self._user_s += read["cpu"]["user_s"]
        self._swapped += self.machine.swap_bytes_s * read["elapsed_s"]
        return read

    def read(self, kernel: str, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        """What one of its kernels returns of all of its parameters."""
        if kernel in core.KERNELS:
            return core.run(self.machine.core, kernel, given, draw, self.now_s)
        if kernel == "idle":
            return _idle(float(given["runtime"]))
        made = storage.run(self.machine, kernel, given, draw, self.written_bytes)
        self.written_bytes += sum(
            measured_stream["bytes"] for measured_stream in made["streams"] if measured_stream["name"] == "write"
        )
        return made

    def snapshot(self) -> dict[str, float]:
        """Counters and gauges at the simulated moment."""
        machine = self.machine
        total = self.now_s * machine.threads
        stolen, others = (machine.steal + machine.steal_bursts) * total, machine.others_cpu * total
        return {
            "cpu_total_s": total,
            "cpu_idle_s": max(0.0, total - stolen - others - self._busy_s),
            "cpu_user_s": self._user_s + 0.7 * others,
            "cpu_steal_s": stolen,
            "swap_in_bytes": self._swapped,
            "swap_out_bytes": 0.0,
            "load_1m": machine.load_before,
            "memory_available_bytes": float(12 << 30),
            "clock_hz": 3.0e9 * (1 - machine.clock_drop if self.now_s > 0 else 1),
            "temperature_c": 45.0,
            "other_runs": machine.other_runs,
        }


def _idle(elapsed_s: float) -> dict[str, Any]:
    operations = round(elapsed_s * 1e9 / IDLE_NS)
    did = stream("idle", operations, latency_ns={"total": latencies(operations, IDLE_NS)})
    samples = {"interval_s": elapsed_s, "operations": [[operations]], "bytes": [[0]]}
    return reading(elapsed_s, [did], (elapsed_s, 0.0), in_flight=1.0, samples=samples)
