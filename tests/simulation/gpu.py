"""A GPU that does not exist: its clock, link, memory and copy engines give every rate that a measurement has."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any

from hwdyno.analysis.ceilings.links import pcie
from hwdyno.analysis.estimates import interval
from hwdyno.analysis.resources import list_ceilings
from hwdyno.model.machine import Cpu, CudaDevice, GpuDrivers, Machine
from hwdyno.model.words import ExperimentResult, Measurement, Parameters
from made_experiment import made_experiment

NOISE = 0.01


def _hits(size: float) -> float:
    """The share of loads that hit a cache of random replacement, on a ring of this many times its size.

    A line stays for the misses of one turn with the chance exp(-size × share of misses), and that is the share of hits.
    """
    hits = 1.0 if size <= 1 else 0.0
    for _ in range(100 if size > 1 else 0):
        hits = math.exp(-size * (1 - hits))
    return hits


USABLE = 0.87
"""Usable share of a link's rate, after the headers of its packets."""
PROCESSORS = 8
MEMORY_BYTES_S = 1.2e9 * 2 * 5120 / 8
INTENSITIES = tuple(2.0**power for power in range(-3, 8))
BLOCKS = (64 << 10, 1 << 20, 64 << 20)


@dataclass(frozen=True, slots=True)
class Gpu:
    """What it is, and what is wrong with it."""

    seed: int
    units: int
    boost_hz: float
    clock_hz: float
    generation: int
    lanes: int
    link: tuple[int, int]
    """Generation and lanes of its link while it copies."""
    pageable: float
    """Share of pinned memory's rate that pageable memory carries."""
    both: float
    """Times one way that both ways carry."""
    slowed_by: str = ""
    read: float = 2e9
    """What its storage reads alone, bytes/s."""
    copy: float = 8e9
    """What its host copies to it alone, bytes/s."""
    overlap: float = 1.0
    """Share of the shorter part's time that is saved when both run at once."""
    buffers: int = 2
    busy: float = 0.3
    """Share of the processors' time while it loads."""

    @classmethod
    def random(cls, seed: int, **planted: Any) -> Gpu:
        """A healthy one, with what is planted."""
        draw = random.Random(seed)
        generation, lanes = draw.choice((3, 4, 5)), draw.choice((8, 16))
        boost_hz = draw.uniform(1.0e9, 2.6e9)
        healthy: dict[str, Any] = {
            "units": draw.randint(10, 150), "boost_hz": boost_hz, "clock_hz": boost_hz * draw.uniform(0.97, 1.0),
            "generation": generation, "lanes": lanes, "link": (generation, lanes), "pageable": draw.uniform(0.95, 1.0),
            "both": draw.uniform(1.6, 1.95),
        }  # fmt: skip
        if "clock" in planted:
            planted["clock_hz"] = boost_hz * planted.pop("clock")
        return cls(seed=seed, **{**healthy, **planted})

    def loads(self) -> ExperimentResult:
        """Loads from storage, and their parts alone."""
        in_turn_s, slower_s = 1 / self.read + 1 / self.copy, 1 / min(self.read, self.copy)
        rates = {
            "whole": 1 / (in_turn_s - self.overlap * (in_turn_s - slower_s)),
            "read": self.read,
            "copy": self.copy,
        }
        points = [self._point(rate, "bytes/s", part=part, access="direct") for part, rate in rates.items()]
        used = {"process_cpu_user_s": self.busy * PROCESSORS, "process_cpu_system_s": 0.0}
        points = [replace(point, counters=used) for point in points]
        fixed: Parameters = {"on": "gpu", "block": 8 << 20, "buffers": self.buffers, "readers": 1}
        return made_experiment("gpu.load", "gpu", "?", "block", "gpu_load", tuple(points), fixed=fixed)

    def machine(self) -> Machine:
        """What its driver states."""
        stated = CudaDevice(
            name="Simulated GPU", compute_capability="8.0", multiprocessors=self.units, boost_max_hz=self.boost_hz,
            memory_clock_max_hz=1.2e9, memory_bus_bits=5120, l2_bytes=40 << 20, link_generation=1,
            link_lanes=self.link[1], link_generation_max=self.generation, link_lanes_max=self.lanes,
        )  # fmt: skip
        return Machine(gpu_drivers=GpuDrivers(cuda=(stated,)), cpu=Cpu(threads=PROCESSORS))

    def peaks(self) -> ExperimentResult:
        """Arithmetic by precision."""
        rates = {"single": 64 * 2, "double": 32 * 2}
        points = [
            self._point(0.98 * self.units * rate * self.clock_hz, "FLOP/s", precision=name)
            for name, rate in rates.items()
        ]
        return made_experiment("gpu.peaks", "gpu", "?", "precision", "gpu_flops", tuple(points), fixed={"on": "gpu"})

    def roofline(
        self, at: float = 1.0, share: float = 1.0, intensities: tuple[float, ...] = INTENSITIES
    ) -> ExperimentResult:
        """Arithmetic by intensity under both roofs, and at one intensity a share of them."""
        peak, memory = 0.98 * self.units * 128 * self.clock_hz, 0.92 * MEMORY_BYTES_S
        points = [
            self._point(
                min(peak, memory * intensity) * (share if intensity == at else 1.0), "FLOP/s", intensity=intensity
            )
            for intensity in intensities
        ]
        fixed: Parameters = {"on": "gpu", "precision": "single", "array": 256 << 20}
        return made_experiment("gpu.roofline", "gpu", "?", "intensity", "gpu_roofline", tuple(points), fixed=fixed)

    def bandwidth(self, share: float) -> ExperimentResult:
        """A triad that reaches a share of the memory's bandwidth."""
        point = self._point(share * MEMORY_BYTES_S, "bytes/s", operation="triad", array=256 << 20)
        fixed: Parameters = {"on": "gpu", "precision": "single"}
        return made_experiment("gpu.bandwidth", "gpu", "?", "operation", "gpu_bandwidth", (point,), fixed=fixed)

    def arrays(
        self, sizes: tuple[int, ...], cache: tuple[float, float] = (0.0, 1.0), start_s: float = 0.0
    ) -> ExperimentResult:
        """A triad by array: a cache of this many bytes is this many times as fast as the memory; a pass has a start."""
        points = []
        for array in sizes:
            size = 3 * array
            rate = 0.92 * MEMORY_BYTES_S * (cache[1] if size <= cache[0] else 1.0)
            points.append(self._point(size / (size / rate + start_s), "bytes/s", operation="triad", array=array))
        fixed: Parameters = {"on": "gpu", "precision": "single"}
        made = made_experiment("gpu.bandwidth", "gpu", "?", "array", "gpu_bandwidth", tuple(points), fixed=fixed)
        return replace(made, ceilings=list_ceilings(self.machine(), "gpu"))

    def chase(self, levels: tuple[tuple[float, float], ...], sizes: tuple[int, ...]) -> ExperimentResult:
        """A pointer chase: each level's size and latency, the last one's without an end."""
        points = []
        for size in sizes:
            ns, missed = 0.0, 1.0
            for end, latency in levels:
                hits = _hits(size / end)
                ns, missed = ns + missed * hits * latency, missed * (1 - hits)
            points.append(self._point(1e9 / ns, "operations/s", working_set=size))
        return made_experiment(
            "gpu.latency", "gpu", "?", "working_set", "gpu_latency", tuple(points), fixed={"on": "gpu"}
        )

    def copies(self) -> ExperimentResult:
        """Copies by way, memory and block."""
        most = pcie(*self.link).bytes_s * USABLE
        points = []
        for way, times in (("host-to-device", 1.0), ("device-to-host", 1.0), ("both-ways", self.both)):
            for memory, share in (("pinned", 1.0), ("pageable", self.pageable)):
                for block in BLOCKS:
                    rate = most * times * share * block / (block + 4096 * 20)
                    points.append(self._point(rate, "bytes/s", operation=way, memory=memory, block=block))
        return made_experiment("gpu.transfer", "gpu", "?", "block", "gpu_transfer", tuple(points), fixed={"on": "gpu"})

    def _point(self, rate: float, unit: str, **parameters: Any) -> Measurement:
        draw = random.Random(f"{self.seed} {parameters}")
        given: Parameters = parameters
        values = [rate * draw.gauss(1, NOISE / 3) for _ in range(5)]
        details: dict[str, Any] = {
            "clock_hz": self.clock_hz, "link_generation": self.link[0], "link_lanes": self.link[1],
            "verification": "passed", "interface": "CUDA",
        }  # fmt: skip
        if self.slowed_by:
            details["slowed_by"] = self.slowed_by
        return Measurement(
            parameters=given, throughput=interval(values, unit), rate=None, latency_ns=None, streams=(), samples=None,
            concurrency=None, cpu_user_s=None, cpu_system_s=None, elapsed_s=1.0, operations=1000, bytes=0, repeats=5,
            repeat_values=tuple(values), details=details,
        )  # fmt: skip
