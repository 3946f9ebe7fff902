"""Memory and processor of a machine that does not exist: caches, pages, channels and units with known laws."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any

from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration

from simulation.reading import latencies, noisy, parameter, reading, stream

LINE_BYTES = 64
PAGE_BYTES = {"4k": 4096, "2m": 2 << 20, "1g": 1 << 30}
COUNTED = {"write": 2.0, "copy": 1.5, "scale": 1.5, "add": 4 / 3, "triad": 4 / 3}
"""Bytes that the bus moves over those that STREAM counts, where each written line is read first."""
DOUBLES = {"scalar": 1, "sse": 2, "avx2": 4, "avx512": 8}
"""Lanes of double precision in a register."""
WIDE = {"avx2", "avx512"}
PIPES = 2


@dataclass(frozen=True)
class Core:
    """What is true of a machine's memory and processor: its laws first, then what is planted (nothing, by default)."""

    caches_bytes: tuple[int, ...] = (48 << 10, 2 << 20, 16 << 20)
    """Share of a thread in each cache, from the first level to the last."""
    caches_ns: tuple[float, ...] = (1.4, 4.5, 20.0)
    memory_ns: float = 100.0
    tlb_pages: int = 1536
    walk_ns: float = 0.0
    """What a load costs more whose page is not in the TLB; 0 for page walks that no one notices."""
    channels_bytes_s: float = 40e9
    thread_bytes_s: float = 38e9
    """What one thread can ask for; as much as the channels carry, where it fills them alone."""
    p: float = 8.0
    """How hard the bend is between what is requested and what the channels carry."""
    modules: tuple[tuple[int, int], ...] = ()
    """Memory modules as (transfers a second in millions, channels); empty where no table tells."""
    clock_hz: float = 3.5e9
    isas: tuple[str, ...] = ("scalar", "sse", "avx2", "avx512")
    threads: int = 2
    noise: float = 0.004
    # What is planted.
    drift: float = 0.0
    """Standard deviation of a slow change of its memory's speed, as a share."""
    drift_s: float = 10.0
    """Moments further apart than this know nothing of each other's speed."""
    write_allocate: bool = False
    huge_gain: float = 0.0
    """Share of bandwidth that 4 KiB pages cost."""
    claimed_bytes: int = 0
    """What the system claims for the last cache; 0 for the truth."""
    far_loss: float = 0.0
    """Share of bandwidth that memory of another node costs."""
    wide_drop: float = 0.0
    """Share of the clock that falls away under wide instructions."""
    data_drop: float = 0.0
    """Share of the clock that falls away further where wide instructions work on numbers, not zeros."""
    neighbour: float = 0.0
    """Share of the units' time that another thread of the same core takes."""
    throttle_at: float | None = None
    throttle_to: float = 0.7
    wrong_results: bool = False

    @classmethod
    def random(cls, seed: int, **planted: Any) -> Core:
        """A clean machine drawn by ``seed``; then ``planted`` over it."""
        draw = random.Random(seed)
        first = draw.choice([32, 48, 64]) << 10
        second = draw.choice([512, 1024, 2048]) << 10
        last = draw.choice([8, 16, 32]) << 20
        first_ns = draw.uniform(1.0, 1.6)
        channels = draw.uniform(20e9, 80e9)
        machine = cls(
            caches_bytes=(first, second, last),
            caches_ns=(first_ns, first_ns * draw.uniform(3, 4), first_ns * draw.uniform(12, 20)),
            memory_ns=draw.uniform(80, 160),
            channels_bytes_s=channels,
            thread_bytes_s=0.97 * channels,
            clock_hz=draw.uniform(2.4e9, 4.6e9),
            isas=("scalar", "sse", "avx2", "avx512")[: draw.choice([3, 4])],
            threads=draw.choice([2, 4, 8]),
            noise=draw.uniform(0.002, 0.01),
        )
        return replace(machine, **planted)

    def load_ns(self, working_set: float, pages: str, stride: float, locality: str = "random") -> float:
        """Mean time of a dependent load of a random cycle: the share of it that each level holds, and page walks."""
        occupied = working_set * LINE_BYTES / stride if stride > LINE_BYTES and stride % 4096 else working_set
        found, inside = 0.0, 0.0
        for size, ns in zip(self.caches_bytes, self.caches_ns, strict=True):
            share = min(1.0, (size / occupied) ** 2)
            found += max(0.0, share - inside) * ns
            inside = max(inside, share)
        found += (1 - inside) * self.memory_ns
        # Elements further apart than a page still take a page each.
        spread = working_set * PAGE_BYTES[pages] / max(PAGE_BYTES[pages], stride)
        reach = self.tlb_pages * PAGE_BYTES[pages]
        missed = max(0.0, 1 - (reach / spread) ** 2) if locality == "random" else 0.0
        return found + missed * self.walk_ns

    @property
    def theory_bytes_s(self) -> float:
        """What all modules transfer together; no bound where no table has them."""
        return sum(speed * 1e6 * channels * 8 for speed, channels in self.modules) or math.inf

    def moved_bytes_s(self, given: dict[str, Any], level: float = 1.0) -> float:
        """Bandwidth as STREAM counts it, at a level of the noise."""
        operation, threads = str(given["operation"]), int(given["threads"])
        asking = min(threads, self.threads)
        bus = float(((asking * self.thread_bytes_s) ** -self.p + self.channels_bytes_s**-self.p) ** (-1 / self.p))
        if int(given["working_set"]) / max(1, threads) <= self.caches_bytes[-1]:
            return level * 4 * asking * self.thread_bytes_s
        bus *= 1 - self.huge_gain * (given["pages"] == "4k")
        bus *= 1 - self.far_loss * (int(given["node"]) > 0)
        return float(min(level * bus, self.theory_bytes_s)) / (
            COUNTED.get(operation, 1.0) if self.write_allocate else 1.0
        )

    def speed(self, now_s: float) -> float:
        """What drift makes of the memory's speed at a moment: a line from one random height to the next."""
        if not self.drift:
            return 1.0
        at, part = divmod(now_s / self.drift_s, 1)
        before, after = (random.Random(f"{self.memory_ns} {turn}").gauss(0, 1) for turn in (int(at), int(at) + 1))
        # Between two heights the line has less than their spread; this gives it back.
        spread = math.sqrt((1 - part) ** 2 + part**2)
        return math.exp(self.drift * ((1 - part) * before + part * after) / spread)

    def survey(self) -> Machine:
        """The processor and the memory alone; see ``described``."""
        return Machine.of_survey(self.described())

    def described(self) -> dict[str, Any]:
        """The processor and the memory as the engine would describe them, without modules where no table lists any."""
        last = len(self.caches_bytes) - 1
        caches = [
            {
                "level": level + 1,
                "type": "data" if level == 0 else "unified",
                "size_bytes": self.claimed_bytes or size if level == last else size,
                "shared_threads": 1,
                "instances": 1,
            }
            for level, size in enumerate(self.caches_bytes)
        ]
        modules = [
            {"size_bytes": 16 << 30, "configured_mt_s": speed, "locator": f"CPU0_DIMM_{chr(65 + at)}1"}
            for speed, channels in self.modules
            for at in range(channels)
        ]
        cpu = {"caches": caches, "cores": self.threads, "threads": self.threads}
        return {"cpu": cpu, "memory": {"modules": modules or None}}


def run(core: Core, kernel: str, given: dict[str, Any], draw: random.Random, now_s: float = 0.0) -> dict[str, Any]:
    """A Reading of one kernel, begun at ``now_s``."""
    level = noisy(core.noise, draw) * core.speed(now_s)
    runtime = float(given["runtime"])
    if kernel == "memory_latency":
        ns = level * core.load_ns(
            int(given["working_set"]), str(given["pages"]), int(given["stride"]), str(given["locality"])
        )
        loads = max(1, round(runtime * 1e9 / ns))
        did = stream("read", loads, latency_ns={"total": latencies(loads, ns)})
        return _over_time(core, given, [did], 1, draw)
    if kernel == "memory_loaded_latency":
        return _loaded(core, given, draw, level)
    if kernel == "memory_bandwidth":
        rate = core.moved_bytes_s(given, level)
        operations = max(1, round(rate * runtime / LINE_BYTES))
        did = stream("read", operations, operations * LINE_BYTES)
        return _over_time(core, given, [did], int(given["threads"]), draw)
    return _arithmetic(core, given, draw, level)


def _loaded(core: Core, given: dict[str, Any], draw: random.Random, level: float) -> dict[str, Any]:
    threads, block, runtime = int(given["threads"]), int(given["block"]), float(given["runtime"])
    each_s = max(block / core.thread_bytes_s, block / 128 * (float(given["delay"]) + 15) / core.clock_hz)
    offered = min(threads, core.threads) * block / each_s
    rate = min(core.theory_bytes_s, level * (offered**-core.p + core.channels_bytes_s**-core.p) ** (-1 / core.p))
    busy = min(0.97, rate / core.channels_bytes_s / 1.02)
    ns = core.memory_ns * (1 + 0.2 * busy / (1 - busy))
    loads, moves = max(1, round(runtime * 1e9 / ns)), max(1, round(rate * runtime / block))
    chase = stream("chase", loads, latency_ns={"total": latencies(loads, ns)})
    return _over_time(core, given, [chase, stream("read", moves, moves * block)], threads, draw)


def _arithmetic(core: Core, given: dict[str, Any], draw: random.Random, level: float) -> dict[str, Any]:
    wanted, threads, runtime = str(given["isa"]), int(given["threads"]), float(given["runtime"])
    isa = core.isas[-1] if wanted == "auto" else wanted
    if isa not in core.isas:
        raise ValueError(f"this processor has no {isa}")
    data = core.data_drop * (isa in WIDE and given["operands"] != "zero")
    clock = core.clock_hz * (1 - core.wide_drop * (isa in WIDE)) * (1 - data)
    lanes = DOUBLES[isa] * (1 if given["precision"] == "double" or isa == "scalar" else 2)
    flops = lanes * (2 if given["operation"] == "fma" else 1)
    free = 1 - core.neighbour
    late = 1.0 if core.throttle_at is None else core.throttle_at + (1 - core.throttle_at) * core.throttle_to
    rate = min(threads, core.threads) * clock * PIPES * free * late * min(level, 1.0)
    operations = max(1, round(rate * runtime))
    made = _over_time(core, given, [stream("fma", operations, 0, operations * flops)], threads, draw)
    made["details"] |= {
        "isa": isa,
        "flop_per_instruction": float(flops),
        "instructions_per_cycle": PIPES * free,
        "flop_per_cycle": PIPES * free * flops,
        "flop_per_cycle_best_slice": float(PIPES * flops),
        "clock_hz_before": clock,
        "clock_hz_during": clock,
        "clock_hz_best": core.clock_hz,
    }
    return made


def _over_time(
    core: Core, given: dict[str, Any], streams: list[dict[str, Any]], threads: int, draw: random.Random
) -> dict[str, Any]:
    """A Reading of the streams, spread over the samples as the noise and what is planted have it."""
    runtime, interval_s = float(given["runtime"]), float(given["interval_s"])
    rows = max(1, round(runtime / interval_s))
    weights = []
    for row in range(rows):
        at = (row + 0.5) / rows
        slow = core.throttle_at is not None and at >= core.throttle_at
        weights.append((core.throttle_to if slow else 1.0) * noisy(core.noise, draw))
    total = math.fsum(weights)
    sampled = [
        [round(measured_stream["operations"] * weight / total) for weight in weights] for measured_stream in streams
    ]
    moved = [
        [round(count * measured_stream["bytes"] / measured_stream["operations"]) for count in counts]
        for measured_stream, counts in zip(streams, sampled, strict=True)
    ]
    return reading(
        runtime,
        streams,
        (runtime * min(threads, core.threads), 0.0),
        in_flight=float(threads),
        samples={"interval_s": interval_s, "operations": sampled, "bytes": moved},
        details={"verification": "failed" if core.wrong_results else "passed"},
    )


_OPERATIONS = ["read", "write", "nt_write", "copy", "nt_copy", "scale", "add", "triad", "nt_triad", "mix"]
_TIMES = [
    parameter("runtime", "number", 0.3, min=0.001, max=86_400.0),
    parameter("interval_s", "number", 0.1, min=0.001, max=3600.0),
    parameter("cpus", "integers", []),
]
_PLACE = [
    parameter("pages", "choice", "2m", choices=list(PAGE_BYTES)),
    parameter("node", "integer", -1, min=-1, max=1023),
    parameter("cpu_node", "integer", -1, min=-1, max=1023),
]
_TRAFFIC = [
    parameter("operation", "choice", "read", choices=_OPERATIONS),
    parameter("mix", "text", "1:0"),
    parameter("pattern", "choice", "sequential", choices=["sequential", "random"]),
    parameter("stride", "integer", 0, unit="B", min=0, max=1 << 40),
    parameter("block", "integer", 64, unit="B", min=1, max=1 << 40),
    parameter("isa", "text", "auto"),
    parameter("threads", "integer", 1, min=1, max=1024),
    parameter("working_set", "integer", 512 << 20, unit="B", min=64, max=1 << 44),
]
KERNELS = {
    "memory_bandwidth": Declaration(
        measures="bytes that memory moves (simulated)",
        operation="block",
        counts={"operations": "1", "bytes": "block"},
        stateful=False,
        axes=(*_TRAFFIC, *_TIMES, *_PLACE),
    ),
    "memory_latency": Declaration(
        measures="time of a dependent load (simulated)",
        operation="access",
        counts={"operations": "1"},
        stateful=False,
        axes=(
            parameter("working_set", "integer", 256 << 20, unit="B", min=64, max=1 << 44),
            parameter("locality", "choice", "random", choices=["random", "local"]),
            parameter("local_size", "integer", 256 << 10, unit="B", min=64, max=1 << 44),
            parameter("batch", "integer", 0, min=0, max=1 << 40),
            parameter("stride", "integer", 64, unit="B", min=8, max=1 << 40),
            parameter("threads", "integer", 1, min=1, max=1024),
            *_TIMES,
            *_PLACE,
        ),
    ),
    "memory_loaded_latency": Declaration(
        measures="time of a dependent load beside traffic (simulated)",
        operation="access",
        counts={"operations": "1", "bytes": "block"},
        stateful=False,
        axes=(*_TRAFFIC, parameter("delay", "integer", 0, min=0, max=1 << 32), *_TIMES, *_PLACE),
    ),
    "compute_flops": Declaration(
        measures="arithmetic in registers (simulated)",
        counts={"operations": "1"},
        stateful=False,
        axes=(
            parameter("operation", "choice", "fma", choices=["fma", "add", "multiply", "dot"]),
            parameter("precision", "text", "double"),
            parameter("isa", "text", "auto"),
            parameter("operands", "choice", "nonzero", choices=["nonzero", "zero"]),
            parameter("threads", "integer", 1, min=1, max=1024),
            *_TIMES,
        ),
    ),
}
