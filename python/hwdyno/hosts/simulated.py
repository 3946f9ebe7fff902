"""A machine that does not exist: its storage follows a known law, with known faults planted, and no time passes.

Tests of the runner, the curves and the findings know what is true here: the floor, knee and ceiling of
the queue, the noise, and everything that is wrong.
"""

from __future__ import annotations

import errno
import math
import random
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hwdyno.hosts import simulated_core
from hwdyno.hosts.simulated_core import Core
from hwdyno.statistics import Histogram
from hwdyno.words import UserError

SYNCHRONOUS = {"psync", "mmap"}
MEMORY_BYTES_S = 6e9
MEMORY_OPERATIONS_S = 1.5e6
IDLE_NS = 12

# The shape of latencies: quantiles of a log-normal with sigma 0.25, as shares of the mean.
_SHAPE_BINS = 24
_SIGMA = 0.25


def _shape() -> tuple[float, ...]:
    """Mid-quantiles of the shape, by the logistic approximation of the normal quantile; mean 1."""
    raw = []
    for k in range(_SHAPE_BINS):
        u = (k + 0.5) / _SHAPE_BINS
        raw.append(math.exp(_SIGMA * math.log(u / (1 - u)) / 1.702))
    average = sum(raw) / len(raw)
    return tuple(value / average for value in raw)


_SHAPE = _shape()
_LEVEL = (1.0,)
"""Parts of a latency, whose spread nobody asks for."""


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
    """Of a spinning disk: added to every random operation, and never overlapped by more than a little."""
    noise: float = 0.01
    """Of a repeat; samples inside have twice as much."""
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
    host_cache_bytes_s: float = 0.0
    """A cache below the device's counters (a hypervisor's) that answers at this rate, above the link."""
    unwritten_share: float = 0.0
    """Share of the file that was never written; such reads never reach the device."""
    hole_share: float = 0.0
    depth_cap: int = 0
    """Operations that a job really keeps in flight, whatever is asked; 0 for as asked."""
    client_bound: bool = False
    """The measuring threads' CPU is the limit."""
    direct_refused: bool = False
    short_transfers: int = 0
    """Short reads in each run."""
    others_cpu: float = 0.0
    """Share of the machine's CPU that other processes keep busy."""
    load_before: float = 0.0
    steal: float = 0.0
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
        one = math.exp(draw.uniform(math.log(60e-6), math.log(200e-6)))
        bandwidth = link * draw.uniform(0.55, 0.9)
        operations = min(servers / one, 0.6 * bandwidth / 4096)
        machine = cls(
            seed=seed,
            kind=kind,
            threads=draw.choice([2, 4, 8, 16]),
            link_bytes_s=link,
            latency_one_s=one,
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
        one = self.latency_one_s * (self.write_latency_factor if write else 1) + bs / bandwidth
        most = self.operations_s * (self.write_operations_factor if write else 1)
        if self.seek_s and random_order:
            # Sorting the queue saves a little of the way between requests, not the rotation.
            return one + self.seek_s, 1.8 / (one + self.seek_s)
        # Whichever of the two bounds is the lower, with a rounded corner.
        return one, (most**-6 + (bandwidth / bs) ** -6) ** (-1 / 6)

    def operations_per_s(self, rw: str, read_percent: float, bs: int, in_flight: float) -> float:
        """True throughput with so many in flight, before anything that is planted."""
        share = {"read": 1.0, "write": 0.0}.get(rw.removeprefix("rand"), read_percent / 100)
        rates = []
        for write in (False, True):
            one, most = self.law(rw.startswith("rand"), write, bs)
            rates.append(((in_flight / one) ** -self.p + most**-self.p) ** (-1 / self.p))
        in_turn = 1 / (share / rates[0] + (1 - share) / rates[1])
        return float(in_turn * (1 - self.mix_penalty * 4 * share * (1 - share)))

    def survey(self) -> dict[str, Any]:
        """The machine as the engine would describe it; what it does not say stands in ``unknown``."""
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
                "caches": self.core.survey()["cpu"]["caches"],
                "isa": ["sse2", "avx", "avx2", "fma"],
                "numa_nodes": [],
            },
            "memory": {
                "total_bytes": 16 << 30,
                "available_bytes": 12 << 30,
                "swap_total_bytes": 0,
                "huge_page_bytes": 2 << 20,
                "transparent_huge_pages": "madvise",
                "modules": self.core.survey()["memory"]["modules"],
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
            "hypervisor": None,
            "container": None,
            "conditions": {
                "load_1m": self.load_before,
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

    def survey(self, path: Path | None = None) -> dict[str, Any]:
        """Describe the simulated machine; ``path`` changes nothing but its own name."""
        found = self.machine.survey()
        if path is not None:
            found["storage"]["path"] = str(path)
        return found

    def kernels(self) -> dict[str, dict[str, Any]]:
        """The declarations of the kernels that it simulates."""
        return {kernel["name"]: kernel for kernel in (*_KERNELS, *simulated_core.KERNELS)}

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """A Reading as the engine gives it, at once."""
        declared = self.kernels().get(kernel)
        if declared is None:
            raise UserError(f"no kernel is called '{kernel}'; there are: {', '.join(self.kernels())}")
        known = {parameter["name"]: parameter["default"] for parameter in declared["parameters"]}
        for name in parameters:
            if name not in known:
                raise UserError(f"{kernel} has no parameter '{name}'; it has: {', '.join(known)}")
        full = {name: parameters[name] if parameters.get(name) is not None else value for name, value in known.items()}
        key = zlib.crc32(repr((self.machine.seed, kernel, sorted((k, str(v)) for k, v in full.items()))).encode())
        self._calls[key] = self._calls.get(key, 0) + 1
        draw = random.Random(key * 1009 + self._calls[key])
        if kernel in simulated_core.NAMES:
            reading = simulated_core.run(self.machine.core, kernel, full, draw, _latencies)
        elif kernel == "storage_blocks":
            reading = self._blocks(full, draw)
        elif kernel == "storage_layout":
            reading = self._layout(full)
        else:
            reading = self._idle(full)
        self.now_s += reading["elapsed_s"]
        self._busy_s += reading["cpu"]["user_s"] + reading["cpu"]["system_s"]
        self._user_s += reading["cpu"]["user_s"]
        self._swapped += self.machine.swap_bytes_s * reading["elapsed_s"]
        return reading

    def snapshot(self) -> dict[str, float]:
        """Counters and gauges at the simulated moment."""
        machine = self.machine
        total = self.now_s * machine.threads
        stolen, others = machine.steal * total, machine.others_cpu * total
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
        }

    def _blocks(self, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        machine, rw, bs = self.machine, str(given["rw"]), int(given["bs"])
        jobs, runtime = int(given["numjobs"]), float(given["runtime"])
        direct = bool(given["direct"]) and not machine.direct_refused
        synchronous = given["ioengine"] in SYNCHRONOUS
        buffered_aio = given["ioengine"] == "libaio" and not direct
        depth = 1 if synchronous else int(given["iodepth"])
        reached = min(depth, machine.depth_cap or depth, 1 if buffered_aio else depth)
        percent = {"read": 100, "write": 0}.get(rw.removeprefix("rand"), int(given["rwmixread"]))
        read_share = percent / 100
        rate = machine.operations_per_s(rw, percent, bs, reached * jobs)
        missed = min(1.0, machine.cache_share + machine.unwritten_share + machine.hole_share) * read_share
        if missed:
            from_memory = min(MEMORY_OPERATIONS_S, MEMORY_BYTES_S / bs) * min(jobs, machine.threads)
            rate = 1 / ((1 - missed) / rate + missed / from_memory)
        if machine.host_cache_bytes_s:
            rate = machine.host_cache_bytes_s / bs
        mean_s, notes = 0.0, []
        if machine.servers:
            rate = min(reached * jobs, machine.servers) / machine.latency_one_s
        if given["rate"]:
            capacity, rate = rate, min(rate, float(given["rate"]))
            mean_s = _open_loop_s(float(given["rate"]), capacity, machine, runtime)
            if rate < 0.98 * float(given["rate"]):
                notes.append({"code": "rate_not_reached", "says": f"{rate / float(given['rate']):.0%} was reached"})
        if machine.fresh_bytes and read_share < 1:
            rate *= 1 + machine.fresh_gain * max(0.0, 1 - self.written_bytes / machine.fresh_bytes)
        if not given["time_based"]:
            runtime = int(given["io_size"] or given["size"]) / (rate * bs)
        cores = min(jobs, machine.threads)
        bound = 0.97 * cores / rate
        cpu_per_operation = bound if machine.client_bound else min(machine.cpu_s_per_operation, 0.62 * bound)

        interval_s = max(float(given["interval_s"]), runtime / 4096) if given["time_based"] else runtime / 20
        rows = max(1, round(runtime / interval_s))
        level = 1 + machine.noise * max(-3.0, min(3.0, draw.gauss(0, 1)))
        counts = []
        for row in range(rows):
            at = (row + 0.5) / rows
            factor = level * (1 + 2 * machine.noise * max(-3.0, min(3.0, draw.gauss(0, 1))))
            factor *= 1 + machine.drift * (at - 0.5)
            factor *= 1 + machine.wobble * math.sin(2 * math.pi * (1.5 * at + draw.random() * 0.02))
            if machine.throttle_at is not None and at >= machine.throttle_at:
                factor *= machine.throttle_to
            if machine.hiccups and draw.random() < machine.hiccups:
                factor *= 0.05
            if not missed and not machine.host_cache_bytes_s:
                factor = min(factor, machine.link_bytes_s / bs / rate)  # Luck carries nothing past the link.
            counts.append(max(0, round(rate * factor * interval_s)))
        # What the whole run did; the samples carry it exactly.
        operations, elapsed = max(1, sum(counts)), rows * interval_s
        if sum(counts) == 0:
            counts[-1] = 1
        mean_ns = mean_s * 1e9 or reached * jobs * elapsed / operations * 1e9
        names = [name for name, share in (("read", read_share), ("write", 1 - read_share)) if share > 0]
        shares = {"read": read_share, "write": 1 - read_share}
        streams: list[dict[str, Any]] = []
        sampled: list[list[int]] = []
        left = list(counts)
        for name in names:
            own = left if name == names[-1] else [round(count * shares[name]) for count in counts]
            left = [total - mine for total, mine in zip(left, own, strict=True)]
            sampled.append(own)
            done = sum(own)
            submit = 0.9 if buffered_aio else 0.02
            latency = {
                "submit": _latencies(done, mean_ns * submit, _LEVEL),
                "complete": _latencies(done, mean_ns * (1 - submit), _LEVEL),
                "total": _latencies(done, mean_ns),
            }
            streams.append({"name": name, "operations": done, "bytes": done * bs, "flops": 0, "latency_ns": latency})
        done_by = {stream["name"]: stream["bytes"] for stream in streams}
        reads, writes = done_by.get("read", 0), done_by.get("write", 0)
        self.written_bytes += writes
        reached_device = reads * (1 - missed / read_share) if read_share else 0.0
        cpu = cpu_per_operation * operations
        size = int(given["size"])
        if machine.direct_refused and given["direct"]:
            notes.append({"code": "direct_refused", "says": "O_DIRECT was refused; it went through the cache"})
        return {
            "kernel": "storage_blocks",
            "parameters": given,
            "elapsed_s": elapsed,
            "streams": streams,
            "samples": {
                "interval_s": interval_s,
                "operations": sampled,
                "bytes": [[count * bs for count in own] for own in sampled],
            },
            "cpu": {"user_s": 0.2 * cpu, "system_s": 0.8 * cpu},
            "concurrency_asked": 0.0 if given["rate"] else float(depth * jobs),
            "counters": {
                "process_read_bytes": round(reached_device),
                "process_write_bytes": writes,
                "device_read_bytes": round(reached_device),
                "device_write_bytes": writes,
                "device_read_operations": round(reached_device / bs),
                "device_write_operations": writes // bs,
                "device_busy_s": elapsed * (1 - missed) * 0.99,
                "device_queue_s": elapsed * reached * jobs * (1 - missed),
            },
            "faults": [{"operation": "read", "errno": 0, "says": "short transfer", "count": machine.short_transfers}]
            if machine.short_transfers
            else [],
            "notes": notes,
            "details": {
                "size_bytes": size,
                "extent_unwritten_bytes": round(size * machine.unwritten_share),
                "extent_hole_bytes": round(size * machine.hole_share),
            },
            "interrupted": False,
        }

    def _layout(self, given: dict[str, Any]) -> dict[str, Any]:
        machine, size = self.machine, int(given["size"])
        if size > machine.free_bytes:
            raise OSError(errno.ENOSPC, "No space left on device", str(given["path"]))
        bs = 1 << 20
        rate = machine.read_bytes_s * machine.write_bytes_factor
        operations = max(1, size // bs)
        self.written_bytes += size
        return {
            "kernel": "storage_layout",
            "parameters": given,
            "elapsed_s": size / rate,
            "streams": [{"name": "write", "operations": operations, "bytes": size, "flops": 0, "latency_ns": {}}],
            "samples": {"interval_s": 0.0, "operations": [], "bytes": []},
            "cpu": {"user_s": size * 1e-10, "system_s": size * 2e-10},
            "concurrency_asked": 1.0,
            "counters": {"process_write_bytes": size, "device_write_bytes": size},
            "faults": [],
            "notes": [],
            "details": {"size_bytes": size},
            "interrupted": False,
        }

    def _idle(self, given: dict[str, Any]) -> dict[str, Any]:
        elapsed = float(given["runtime"])
        operations = round(elapsed * 1e9 / IDLE_NS)
        latency = {"total": _latencies(operations, IDLE_NS)}
        return {
            "kernel": "idle",
            "parameters": given,
            "elapsed_s": elapsed,
            "streams": [
                {"name": "idle", "operations": operations, "bytes": 0, "flops": 0, "latency_ns": latency},
            ],
            "samples": {"interval_s": elapsed, "operations": [[operations]], "bytes": [[0]]},
            "cpu": {"user_s": elapsed, "system_s": 0.0},
            "concurrency_asked": 1.0,
            "counters": {},
            "faults": [],
            "notes": [],
            "details": {},
            "interrupted": False,
        }


def _open_loop_s(rate: float, capacity: float, machine: SimulatedMachine, runtime_s: float) -> float:
    """Mean latency of requests that come at a rate: M/M/m by its stationary distribution, or half of the backlog.

    0 where the machine's law is no such queue and keeps up: then Little's law with the depth reached decides.
    """
    if rate >= capacity:
        return machine.latency_one_s + runtime_s / 2 * (1 - capacity / rate)
    if not machine.servers:
        return 0.0
    offered, m = rate * machine.latency_one_s, machine.servers
    shares = [1.0]
    for n in range(1, m + 1):
        shares.append(shares[-1] * offered / n)
    waiting = shares[m] / (1 - offered / m)
    all_busy = waiting / (math.fsum(shares[:m]) + waiting)
    return machine.latency_one_s + all_busy / (m / machine.latency_one_s - rate)


def _latencies(count: int, mean_ns: float, shape: tuple[float, ...] = _SHAPE) -> dict[str, Any]:
    """A histogram of ``count`` latencies of a shape with this mean."""
    histogram = Histogram()
    each, rest = divmod(count, len(shape))
    for k, share in enumerate(shape):
        # The odd ones out go to the middle, where they move the mean least.
        odd = 1 if abs(k - len(shape) // 2) * 2 < rest else 0
        histogram.record(max(1, round(share * mean_ns)), each + odd)
    if histogram.count != count:
        histogram.record(max(1, round(mean_ns)), count - histogram.count)
    histogram.sum = round(mean_ns * count)
    return histogram.to_reading()


def _parameter(name: str, kind: str, default: Any, unit: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "means": name, "unit": unit, "type": kind, "default": default, **more}


_KERNELS: tuple[dict[str, Any], ...] = (
    {
        "name": "storage_blocks",
        "measures": "reads and writes of blocks of a file (simulated)",
        "parameters": [
            _parameter("path", "text", "/simulated/data"),
            _parameter("rw", "choice", "randread", choices=["read", "write", "randread", "randwrite", "rw", "randrw"]),
            _parameter("rwmixread", "integer", 50, min=0, max=100),
            _parameter("bs", "integer", 4096, "B", min=512, max=1 << 40),
            _parameter("iodepth", "integer", 1, min=1, max=1024),
            _parameter("numjobs", "integer", 1, min=1, max=1024),
            _parameter("rate", "number", 0.0, "operations/s", min=0, max=1e9),
            _parameter("rate_process", "choice", "linear", choices=["linear", "poisson"]),
            _parameter("ioengine", "choice", "io_uring", choices=["io_uring", "libaio", "psync", "mmap"]),
            _parameter("direct", "flag", True),
            _parameter("size", "integer", 1 << 30, "B", min=512, max=1 << 50),
            _parameter("offset", "integer", 0, "B", min=0, max=1 << 50),
            _parameter("io_size", "integer", 0, "B", min=0, max=1 << 60),
            _parameter("destroy", "text", ""),
            _parameter("serial", "text", ""),
            _parameter("runtime", "number", 1.0, "s", min=0, max=86_400.0),
            _parameter("time_based", "flag", True),
            _parameter("ramp_time", "number", 0.0, "s", min=0, max=86_400.0),
            _parameter("startdelay", "number", 0.0, "s", min=0, max=86_400.0),
            _parameter("seed", "integer", 1, min=0, max=1 << 62),
            _parameter("interval_s", "number", 0.1, "s", min=0.001, max=3600.0),
            _parameter("share", "choice", "partition", choices=["partition", "whole"]),
            _parameter("cpus", "integers", []),
        ],
        "pass": [["operations", "1"], ["bytes", "bs"]],
    },
    {
        "name": "storage_layout",
        "measures": "writes a data file of incompressible data (simulated)",
        "parameters": [
            _parameter("path", "text", "/simulated/data"),
            _parameter("size", "integer", 1 << 30, "B", min=512, max=1 << 50),
            _parameter("seed", "integer", 1, min=0, max=1 << 62),
        ],
        "pass": [["bytes", "size"]],
    },
    {
        "name": "idle",
        "measures": "what the tool itself costs an operation (simulated)",
        "parameters": [_parameter("runtime", "number", 0.2, "s", min=0.001, max=86_400.0)],
        "pass": [["operations", "1"]],
    },
)
