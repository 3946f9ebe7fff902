"""Memory and arithmetic against likwid-bench, STREAM, multichase, cpufp and NumPy's LU, in turn, on two threads;
in process against the bare engine; and one run against the next."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from hwdyno.analysis.curves.loaded import BASE_CYCLES
from hwdyno.measure import peers
from hwdyno.measure.peers import Peer
from hwdyno.measure.workloads import linpack

from benchmarks import Bench, BenchError, BenchmarkRow, Reading, Target, make_row

BANDWIDTH, FLOPS, LATENCY = "memory_bandwidth", "compute_flops", "memory_latency"
LOADED = "memory_loaded_latency"
SET_BYTES = 512 << 20
THREADS = min(2, len(os.sched_getaffinity(0)))
AT_LEAST = Target(at_least=1.0)
# Our loop and likwid's: a plain loop against a plain loop, a streaming one against a streaming one.
LOOPS: tuple[tuple[str, Target], ...] = (
    ("read", AT_LEAST),
    ("write", AT_LEAST),
    ("nt_write", AT_LEAST),
    ("copy", AT_LEAST),
    ("nt_copy", AT_LEAST),
    ("triad", AT_LEAST),
    ("nt_triad", Target(at_least=1.2)),
)
STREAMS = ("nt_copy", "scale", "add", "triad")
PEAK_SHARE = Target(at_least=0.98)
EQUATIONS = 3000
CHASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("1 MiB, 2 MiB pages", {"working_set": 1 << 20, "pages": "2m"}),
    ("64 MiB, 4 KiB pages", {"working_set": 64 << 20, "pages": "4k"}),
    ("64 MiB, 2 MiB pages", {"working_set": 64 << 20, "pages": "2m"}),
    ("512 MiB, 2 MiB pages", {"working_set": 512 << 20, "pages": "2m"}),
    ("512 MiB, 4 KiB pages, local", {"working_set": 512 << 20, "pages": "4k", "locality": "local"}),
)
WITHIN_5 = Target(0.95, 1.05)
# cpufp runs all of its loops each time, so one pair takes a minute.
TILE_PAIRS = 2
TILES = ("int8", "bfloat16")
# Where the law gives more than this share of what the memory gives, the memory and not the pause sets the rate.
UNSATURATED = 0.7
DELAYS = (15, 50, 100, 200, 500, 1000, 5000)
INTERVAL_S = 0.005
# The same loop in two processes with separate memory: pages and clock differ by up to 2%.
BARE = Target(0.98, 1.02)
RUNS = 4
RUN_TIME = "100s"
REPEATABLE = Target(at_least=0.95)
# Findings that name noise of the machine: they explain a pair of runs that differ.
NOISES = frozenset(
    {
        *("load_before", "others_at_work", "steal", "swapping", "clock_dropped", "throttled", "noisy_neighbour"),
        *("another_run", "not_steady", "outlying_repeats", "interval_not_reached"),
    }
)


def measure(bench: Bench) -> Iterator[BenchmarkRow]:
    """Yield every row as it is measured."""
    likwid = peers.find("likwid")
    if likwid.version() is None:
        raise BenchError("likwid-bench is not here: install it (apt-get install likwid)")
    for operation, target in LOOPS:
        yield _bandwidth(bench, likwid, operation, target)
    stream = peers.find("stream")
    if stream.version() is None:
        bench.says("STREAM is not here (HWDYNO_STREAM names it), so likwid alone stands beside the bandwidth")
    else:
        for operation in STREAMS:
            yield _bandwidth(bench, stream, operation, AT_LEAST)
    yield from _chases(bench)
    for precision in ("double", "single"):
        point = {"operation": "fma", "precision": precision, "isa": "auto", "threads": THREADS}
        bench.says(f"fma {precision}")
        pairs = [
            (bench.run(FLOPS, {**point, "runtime": bench.runtime_s / 2}), likwid.run(FLOPS, point))
            for _ in range(bench.pairs)
        ]
        rates = [(_rate(ours, "flops"), theirs.throughput) for ours, theirs in pairs]
        yield make_row(f"fma {precision}, {THREADS} threads, likwid", "FLOP/s", rates, AT_LEAST)
        shares = [_of_the_peak(ours) for ours, _ in pairs]
        yield make_row(f"fma {precision} of units x width", "FLOP a cycle", shares, PEAK_SHARE)
    yield from _paced(bench)
    yield from _tiles(bench)
    yield _equations(bench)
    yield from _bare(bench)
    yield from _repeats(bench)


def _chases(bench: Bench) -> Iterator[BenchmarkRow]:
    multichase = peers.find("multichase")
    if multichase.version() is None:
        bench.says("multichase is not here (HWDYNO_MULTICHASE names it), so nothing stands beside the latency")
        return
    for words, point in CHASES:
        parameters = {"locality": "random", "stride": 64, "runtime": bench.runtime_s, **point}
        if why := multichase.unsupported_reason(LATENCY, parameters):
            bench.says(f"latency of {words} is left out: {why}")
            continue
        bench.says(f"latency of {words} beside multichase")
        made = [bench.pair(multichase, LATENCY, parameters) for _ in range(bench.pairs)]
        yield make_row(
            f"latency, {words}, multichase",
            "ns",
            [(float(ours["details"]["latency_ns"]), theirs.latency_ns_mean or 0.0) for ours, theirs in made],
            WITHIN_5,
        )


def _paced(bench: Bench) -> Iterator[BenchmarkRow]:
    """Traffic at a delay against threads x 128 bytes x clock / (delay + 15), Intel MLC's law, where memory has room.

    One processor is left to the system, and the median of short intervals counts, because time that others take is no
    part of the law. The clock is read on the same processors, before the traffic and after it.
    """
    allowed = sorted(os.sched_getaffinity(0))
    threads = max(1, len(allowed) - 2)
    # The first processor chases, and the traffic begins on the second.
    used = [allowed[at % len(allowed)] for at in range(1, threads + 1)]
    traffic = {"operation": "read", "pattern": "random", "block": 256, "threads": threads}
    chase = {"locality": "random", "working_set": 16 << 10, "runtime": 0.02}
    length = {"runtime": bench.runtime_s / 2, "interval_s": INTERVAL_S}

    def bytes_s(delay: int) -> float:
        samples = bench.run(LOADED, {**traffic, **length, "delay": delay})["samples"]["bytes"][1]
        return statistics.median(samples[1:-1]) / INTERVAL_S

    def hertz() -> float:
        return sum(float(bench.run(LATENCY, {**chase, "cpus": [cpu]})["details"]["clock_hz"]) for cpu in used)

    bench.says("traffic at a delay beside MLC's law")
    most = bytes_s(0)
    for delay in DELAYS:
        pairs = []
        for _ in range(bench.pairs):
            before, moved, after = hertz(), bytes_s(delay), hertz()
            pairs.append((moved, 128 * (before + after) / 2 / (delay + BASE_CYCLES)))
        if max(law for _, law in pairs) <= UNSATURATED * most:
            yield make_row(f"traffic at a delay of {delay}, MLC's law", "bytes/s", pairs, WITHIN_5)
        else:
            bench.says(f"at a delay of {delay} the law gives more than the memory")


def _tiles(bench: Bench) -> Iterator[BenchmarkRow]:
    cpufp = peers.find("cpufp")
    if cpufp.version() is None:
        bench.says("cpufp is not here (HWDYNO_CPUFP names it), so nothing stands beside the tiles")
        return
    for precision in TILES:
        # cpufp's registers hold zeros.
        point = {"operation": "dot", "precision": precision, "isa": "amx", "operands": "zero", "threads": 1}
        bench.says(f"tiles in {precision} beside cpufp")
        try:
            parameters = {**point, "runtime": bench.runtime_s}
            made = [bench.pair(cpufp, FLOPS, parameters) for _ in range(min(bench.pairs, TILE_PAIRS))]
        except ValueError as error:
            bench.says(f"no tiles here: {error}")
            return
        pairs = [(_rate(ours, "flops"), theirs.throughput) for ours, theirs in made]
        yield make_row(
            f"amx dot {precision} on zeros, 1 thread, cpufp",
            "IOP/s" if precision == "int8" else "FLOP/s",
            pairs,
            Target(at_least=0.95),
        )


def _engine() -> str | None:
    """The bare engine, as ``make bench`` builds it."""
    built = Path(__file__).resolve().parent.parent / "target" / "release" / "hwdyno-engine"
    return os.environ.get("HWDYNO_ENGINE") or (str(built) if built.exists() else shutil.which("hwdyno-engine"))


def _bare(bench: Bench) -> Iterator[BenchmarkRow]:
    """The cost of the Python interpreter: the same kernel without it."""
    engine = _engine()
    if engine is None:
        bench.says("hwdyno-engine is not built (cargo build --release -p hwdyno-engine), so nothing stands bare")
        return
    seconds = bench.runtime_s / 2
    for words, kernel, point, figure in (
        ("read, 1 thread", BANDWIDTH, {"operation": "read", "working_set": 256 << 20, "isa": "avx2"}, "bytes"),
        ("latency, 64 KiB", LATENCY, {"working_set": 64 << 10}, "latency_ns"),
        ("fma double, 1 thread", FLOPS, {"operation": "fma", "precision": "double"}, "flops"),
    ):
        bench.says(f"{words} beside the bare engine")
        parameters = {**point, "runtime": seconds}
        if kernel == BANDWIDTH:
            parameters["isa"] = str(bench.run(kernel, {**parameters, "isa": "auto", "runtime": 0.01})["details"]["isa"])
        pairs = []
        for _ in range(bench.pairs):
            ours = bench.run(kernel, parameters)
            done = subprocess.run([engine, "run", kernel, json.dumps(parameters)], capture_output=True, text=True)
            if done.returncode:
                raise BenchError(f"{engine}: {done.stderr.strip()[:200]}")
            pairs.append((_figure(ours, figure), _figure(json.loads(done.stdout), figure)))
        unit = {"bytes": "bytes/s", "flops": "FLOP/s"}.get(figure, "ns")
        yield make_row(f"{words}, in process beside the bare engine", unit, pairs, BARE)


def _figure(reading: Reading, name: str) -> float:
    return float(reading["details"][name]) if name in reading["details"] else _rate(reading, name)


class Interval(NamedTuple):
    """One point's interval in one run, and whether that run names a noise that touched it."""

    low: float
    high: float
    noise: bool


def agreement(runs: Sequence[Mapping[str, Interval]]) -> tuple[float, float]:
    """The share of all pairs of runs' points whose intervals overlap, and of those that overlap or are explained."""
    pairs = [(run[name], other[name]) for run, other in combinations(runs, 2) for name in run.keys() & other.keys()]
    met = [interval.low <= other.high and other.low <= interval.high for interval, other in pairs]
    explained = [good or interval.noise or other.noise for good, (interval, other) in zip(met, pairs, strict=True)]
    return sum(met) / max(1, len(met)), sum(explained) / max(1, len(explained))


def _repeats(bench: Bench) -> Iterator[BenchmarkRow]:
    """Runs of the same command one after another, as a user repeats them; later runs use the earlier ones' variance."""
    runs = []
    for number in range(RUNS):
        bench.says(f"run {number + 1} of {RUNS} of hwdyno memory, to hold one against the other")
        store = str(bench.directory / "repeats")
        options = ["memory", "--profile", "quick", "--budget", RUN_TIME, "--json", "--quiet", "--no-page"]
        command = [sys.executable, "-m", "hwdyno", *options, "--store", store, "--out", store]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in {0, 3}:
            raise BenchError(f"hwdyno memory: {done.stderr.strip()[-200:]}")
        runs.append(_intervals(json.loads(done.stdout)))
    met, explained = agreement(runs)
    yield BenchmarkRow(f"pairs of {RUNS} runs whose intervals meet", "share", met, target=REPEATABLE)
    yield BenchmarkRow(
        f"pairs of {RUNS} runs that meet, or whose noise is named", "share", explained, target=REPEATABLE
    )


def _intervals(run: dict[str, Any]) -> dict[str, Interval]:
    noises = [finding for finding in run["findings"] if finding["rule"] in NOISES]
    found = {}
    for result in run["experiments"]:
        for at, point in enumerate(result["points"]):
            touched = any(
                noise.get("experiment") in {None, "", result["name"]}
                and (not noise.get("points") or at in noise["points"])
                for noise in noises
            )
            value = point["throughput"]
            if value["low"] is not None and value["high"] is not None:
                name = json.dumps([result["name"], point["parameters"]], sort_keys=True)
                found[name] = Interval(value["low"], value["high"], touched)
    return found


def _bandwidth(bench: Bench, peer: Peer, operation: str, target: Target) -> BenchmarkRow:
    bench.says(f"{operation} beside {peer.name}")
    point = {"threads": THREADS, "working_set": SET_BYTES, "operation": operation}
    pairs = []
    for _ in range(bench.pairs):
        reading = bench.run(BANDWIDTH, {**point, "runtime": bench.runtime_s})
        try:
            pairs.append((_rate(reading, "bytes"), peer.run(BANDWIDTH, point).throughput))
        except (OSError, ValueError) as error:
            raise BenchError(f"{peer.name}: {error}") from None
    return make_row(f"{operation}, {THREADS} threads, {peer.name}", "bytes/s", pairs, target)


def _rate(reading: Reading, counted: str) -> float:
    total = sum(int(stream[counted]) for stream in reading["streams"])
    return total / float(reading["elapsed_s"])


def _of_the_peak(reading: Reading) -> tuple[float, float]:
    """Operations per cycle of the clock measured under the same load, and units x operations per instruction."""
    details: dict[str, Any] = reading["details"]
    return float(details["flop_per_cycle"]), float(details["flop_per_instruction"]) * float(details["pipes"])


def _equations(bench: Bench) -> BenchmarkRow:
    """Our LU against numpy.linalg.solve on the same system."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    bench.says(f"LU of {EQUATIONS} equations beside NumPy")
    random = np.random.default_rng(1)
    a, b = random.random((EQUATIONS, EQUATIONS)) - 0.5, random.random(EQUATIONS)
    flops = linpack.count_flops("lu", EQUATIONS)
    pairs = []
    for _ in range(bench.pairs):
        reading = linpack.WORKLOAD.run({"n": EQUATIONS, "threads": THREADS, "runtime": bench.runtime_s})
        with threadpool_limits(THREADS):
            rounds, begun = 0, time.perf_counter()
            while time.perf_counter() - begun < bench.runtime_s or not rounds:
                np.linalg.solve(a, b)
                rounds += 1
            spent = time.perf_counter() - begun
        pairs.append((_rate(reading, "flops"), flops * rounds / spent))
    return make_row(f"LU n={EQUATIONS}, {THREADS} threads, NumPy", "FLOP/s", pairs, AT_LEAST)
