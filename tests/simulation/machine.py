"""What is true of a machine that does not exist: the law of its storage, and every fault that is planted in it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

from hwdyno.model.machine import Machine

from simulation.core import Core


@dataclass(frozen=True)
class SimulatedMachine:
    """What is true of a machine: its laws first, then what is planted (nothing, by default)."""

    seed: int = 1
    kind: str = "nvme"
    model: str = "Simulated SSD"
    threads: int = 8
    link_bytes_s: float = 3.938e9
    """What the link carries: PCIe 3.0 x4."""
    # The queue: X(N) = [(N/R1)^-p + Xm^-p]^(-1/p), for reads; writes scale it.
    latency_one_s: float = 90e-6
    """R1 of a small read: latency with one in flight."""
    operations_s: float = 300e3
    """Xm of small reads."""
    p: float = 3.0
    read_bytes_s: float = 2.8e9
    """Bandwidth bound of large reads."""
    write_latency_factor: float = 0.4
    write_operations_factor: float = 0.6
    write_bytes_factor: float = 0.7
    mix_penalty: float = 0.0
    """Share lost by a 50/50 mix, below what taking turns would give."""
    seek_s: float = 0.0
    """Seek time of a spinning disk: added to every random operation, and never overlapped by more than a little."""
    noise: float = 0.01
    """Noise of a repeat; samples inside have twice as much."""
    hiccups: float = 0.0
    """Share of the samples that stall to a twentieth, here and there: timers, garbage collection, refreshes."""
    cpu_s_per_operation: float = 1.5e-6
    fresh_gain: float = 0.0
    """How much faster a drive without any data writes, as a share; it sinks with what is written."""
    fresh_bytes: float = 0.0
    """Bytes written after which nothing of that is left."""
    servers: int = 0
    """Requests served at once by a queue M/M/m whose service takes ``latency_one_s``; 0 for the law above."""
    # What is planted.
    throttle_at: float | None = None
    """Share of the run after which throughput falls to ``throttle_to`` of what it was."""
    throttle_to: float = 0.6
    drift: float = 0.0
    """Change from start to end as a share, along a straight line."""
    wobble: float = 0.0
    """Amplitude of slow swings, as a share."""
    cache_share: float = 0.0
    """Reads that the page cache answers, direct or not; the device's counters do not see them."""
    flushes_ignored: bool = False
    """Whether the host acknowledges a write to its cache even where it has to be stored."""
    host_cache_bytes_s: float = 0.0
    """A cache below the device's counters (a hypervisor's) that answers at this rate, above the link."""
    write_cache_bytes_s: float = 0.0
    """A hypervisor's cache that acknowledges writes at this rate, unless they have to be durable."""
    hypervisor: str | None = None
    counters_hidden: bool = False
    """A container shows neither the process's nor the device's counters."""
    cached_before: float = 0.0
    """Share of the region that lay in the page cache before the run, as cachestat shows it."""
    others_write_bytes_s: float = 0.0
    """What other processes write to the same device."""
    edges: float = 0.0
    """Share of what is in flight as a timed region begins that the counters had already."""
    unwritten_share: float = 0.0
    """Share of the file that was never written; such reads never reach the device."""
    hole_share: float = 0.0
    depth_cap: int = 0
    """Operations that a job really keeps in flight, independent of the request; 0 for as many as requested."""
    client_bound: bool = False
    """The measuring threads' CPU is the limit."""
    stall_share: float = 0.0
    """Share of its threads' cycles that wait for memory, by the processor's counters; 0 where it has none."""
    stall_event: str = "memory_stall_cycles"
    """The counter of those cycles."""
    wake_share: float = 0.0
    """Share of the time that its threads do not run which passes after they were woken."""
    preempted: bool = False
    """Other threads take their processors, instead of a sleep."""
    scheduler_hidden: bool = False
    """A kernel without schedstat."""
    direct_refused: bool = False
    unequal_jobs: float = 0.0
    """How much earlier than the last job the first one has done its part, as a share of the time."""
    short_transfers: int = 0
    """Short reads in each run."""
    others_cpu: float = 0.0
    """Share of the machine's CPU that other processes keep busy."""
    load_before: float = 0.0
    others_before: float = 0.0
    """Share of the CPU that others have before the first point."""
    other_runs: float = 0.0
    """Runs of hwdyno that measure on the machine at the same time."""
    steal: float = 0.0
    """Share of the CPU time that a hypervisor takes by its counters, without an effect on what is measured."""
    steal_bursts: float = 0.0
    """The same in bursts, in which nothing is done."""
    swap_bytes_s: float = 0.0
    clock_drop: float = 0.0
    core: Core = field(default_factory=Core)
    """Its memory and processor."""
    free_bytes: int = 200 * 10**9

    @classmethod
    def random(cls, seed: int, **planted: Any) -> SimulatedMachine:
        """A clean machine drawn by ``seed``: any solid-state disk on any link; then ``planted`` over it."""
        draw = random.Random(seed)
        kind, link = draw.choice([("nvme", 3.938e9), ("nvme", 7.877e9), ("sata", 0.6e9), ("usb", 1.212e9)])
        servers = draw.choice([4, 8, 16, 32, 64]) if kind == "nvme" else draw.choice([3, 4, 8, 16])
        latency_s = math.exp(draw.uniform(math.log(60e-6), math.log(200e-6)))
        bandwidth = link * draw.uniform(0.55, 0.9)
        operations = min(servers / latency_s, 0.6 * bandwidth / 4096)
        machine = cls(
            seed=seed,
            kind=kind,
            threads=draw.choice([2, 4, 8, 16]),
            link_bytes_s=link,
            latency_one_s=latency_s,
            operations_s=operations,
            p=math.exp(draw.uniform(math.log(1.1), math.log(8))),
            read_bytes_s=bandwidth,
            write_latency_factor=draw.uniform(0.3, 0.9),
            write_operations_factor=draw.uniform(0.4, 0.95),
            write_bytes_factor=draw.uniform(0.5, 0.98),
            noise=draw.uniform(0.002, 0.015),
            cpu_s_per_operation=min(2e-6, draw.uniform(0.2, 0.6) / operations),
        )
        return replace(machine, **planted)

    @classmethod
    def spinning(cls, seed: int, **planted: Any) -> SimulatedMachine:
        """A disk with a seek of 7 to 14 ms before every random operation."""
        draw = random.Random(seed)
        machine = cls(
            seed=seed,
            kind="sata",
            model="Simulated 7200 rpm disk",
            link_bytes_s=0.6e9,
            latency_one_s=60e-6,
            operations_s=30e3,
            p=2.0,
            read_bytes_s=draw.uniform(100e6, 250e6),
            seek_s=draw.uniform(7e-3, 14e-3),
        )
        return replace(machine, **planted)

    def law(self, random_order: bool, write: bool, bs: int) -> tuple[float, float]:
        """R1 (s) and Xm (operations/s) of one direction at a block size."""
        bandwidth = self.read_bytes_s * (self.write_bytes_factor if write else 1)
        r1 = self.latency_one_s * (self.write_latency_factor if write else 1) + bs / bandwidth
        most = self.operations_s * (self.write_operations_factor if write else 1)
        if self.seek_s and random_order:
            # Sorting the queue saves a little of the way between requests, not the rotation.
            return r1 + self.seek_s, 1.8 / (r1 + self.seek_s)
        # Whichever of the two bounds is the lower, with a rounded corner.
        return r1, (most**-6 + (bandwidth / bs) ** -6) ** (-1 / 6)

    def operations_per_s(self, rw: str, read_percent: float, bs: int, in_flight: float) -> float:
        """True throughput with this many in flight, before anything that is planted."""
        share = {"read": 1.0, "write": 0.0}.get(rw.removeprefix("rand"), read_percent / 100)
        rates = []
        for write in (False, True):
            r1, most = self.law(rw.startswith("rand"), write, bs)
            rates.append(((in_flight / r1) ** -self.p + most**-self.p) ** (-1 / self.p))
        in_turn = 1 / (share / rates[0] + (1 - share) / rates[1])
        return float(in_turn * (1 - self.mix_penalty * 4 * share * (1 - share)))

    def survey(self) -> Machine:
        """The machine described in full, as the engine would describe it; see ``described``."""
        return Machine.of_survey(self.described())

    def described(self) -> dict[str, Any]:
        """The machine as the engine would describe it; what it does not state is in ``unknown``."""
        return {
            "hostname": f"simulated-{self.seed}",
            "os": {"kernel": "Linux 6.1.0", "distribution": "Simulated", "architecture": "x86_64"},
            "cpu": {
                "model": "Simulated CPU",
                "vendor": "Simulated",
                "sockets": 1,
                "cores": max(1, self.threads // 2),
                "threads": self.threads,
                "clock_hz": {"measured": 3.0e9, "base": 2.4e9, "max": 3.6e9},
                "caches": self.core.described()["cpu"]["caches"],
                "isa": ["sse2", "avx", "avx2", "fma"],
                "numa_nodes": [],
            },
            "memory": {
                "total_bytes": 16 << 30,
                "available_bytes": 12 << 30,
                "swap_total_bytes": 0,
                "huge_page_bytes": 2 << 20,
                "transparent_huge_pages": "madvise",
                "modules": self.core.described()["memory"]["modules"],
            },
            "storage": {
                "path": "/simulated",
                "mount_point": "/simulated",
                "filesystem": "ext4",
                "options": ["rw", "relatime"],
                "source": "/dev/simulated1",
                "size_bytes": 2 * self.free_bytes,
                "free_bytes": self.free_bytes,
                "chain": [
                    {"name": "simulated1", "kind": "partition", "detail": "", "on": ["simulated"]},
                ],
                "disks": [
                    {
                        "name": "simulated",
                        "kind": self.kind,
                        "rotational": bool(self.seek_s),
                        "model": self.model,
                        "serial": None,
                        "size_bytes": 2 * self.free_bytes,
                        "firmware": None,
                        "link": self._link(),
                        "queue": {"scheduler": "none", "nr_requests": 1024, "logical_block_bytes": 512},
                    }
                ],
            },
            "nics": [],
            "gpus": [],
            "settings": {
                "environment": {},
                "nice": 0,
                "limits": {"memlock": "8388608", "nofile": "1024", "stack": "8388608"},
                "smt": "on",
                "mitigations": {"spectre_v1": "usercopy/swapgs barriers", "spectre_v2": "Enhanced IBRS"},
                "debug_kernel": [],
            },
            "hypervisor": self.hypervisor,
            "container": None,
            "conditions": {
                "load_1m": self.load_before,
                "others_cpu_share": self.others_before,
                "governor": "performance",
                "turbo": True,
                "steal_share": self.steal,
                "swap_in_bytes_s": self.swap_bytes_s,
                "swap_out_bytes_s": 0.0,
                "memory_available_bytes": 12 << 30,
                "temperature_c": 45.0,
            },
            "unknown": {"storage.disks.0.serial": "it is simulated", "storage.disks.0.firmware": "it is simulated"},
        }

    def _link(self) -> dict[str, Any]:
        if self.kind == "nvme":
            generation = 3 if self.link_bytes_s < 5e9 else 4
            return {
                "type": "pcie",
                "generation": generation,
                "lanes": 4,
                "generation_max": generation,
                "lanes_max": 4,
                "bits_s": self.link_bytes_s * 8,
                "bits_s_max": self.link_bytes_s * 8,
            }
        raw = {"sata": 6e9, "usb": 10e9}.get(self.kind)
        return {"type": self.kind, "generation": None, "lanes": None, "bits_s": raw, "bits_s_max": raw}
