"""Memory and arithmetic beside likwid-bench, STREAM and NumPy's own LU, in turn, on two threads."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from hwdyno import peers
from hwdyno.peers import Peer
from hwdyno.workloads import linpack

from benchmarks import Bench, BenchError, Reading, Row, Target, row_of

BANDWIDTH, FLOPS = "memory_bandwidth", "compute_flops"
SET_BYTES = 512 << 20
THREADS = min(2, len(os.sched_getaffinity(0)))
AT_LEAST = Target(at_least=1.0)
# What we do beside what likwid does: a plain loop beside its plain loop, a streaming one beside its streaming one.
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


def measure(bench: Bench) -> Iterator[Row]:
    """Every row, as it is measured."""
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
    for precision in ("double", "single"):
        point = {"operation": "fma", "precision": precision, "isa": "auto", "threads": THREADS}
        bench.says(f"fma {precision}")
        pairs = [
            (bench.run(FLOPS, {**point, "runtime": bench.runtime_s / 2}), likwid.run(FLOPS, point))
            for _ in range(bench.pairs)
        ]
        rates = [(_rate(ours, "flops"), theirs.throughput) for ours, theirs in pairs]
        yield row_of(f"fma {precision}, {THREADS} threads, likwid", "FLOP/s", rates, AT_LEAST)
        shares = [_of_the_peak(ours) for ours, _ in pairs]
        yield row_of(f"fma {precision} of chain clock x FLOP a cycle", "FLOP/s", shares, PEAK_SHARE)
    yield _equations(bench)


def _bandwidth(bench: Bench, peer: Peer, operation: str, target: Target) -> Row:
    bench.says(f"{operation} beside {peer.name}")
    point = {"threads": THREADS, "working_set": SET_BYTES, "operation": operation}
    pairs = []
    for _ in range(bench.pairs):
        reading = bench.run(BANDWIDTH, {**point, "runtime": bench.runtime_s})
        try:
            pairs.append((_rate(reading, "bytes"), peer.run(BANDWIDTH, point).throughput))
        except (OSError, ValueError) as error:
            raise BenchError(f"{peer.name}: {error}") from None
    return row_of(f"{operation}, {THREADS} threads, {peer.name}", "bytes/s", pairs, target)


def _rate(reading: Reading, counted: str) -> float:
    total = sum(int(stream[counted]) for stream in reading["streams"])
    return total / float(reading["elapsed_s"])


def _of_the_peak(reading: Reading) -> tuple[float, float]:
    """What was reached, and threads x clock of the chain x operations an instruction x units."""
    details: dict[str, Any] = reading["details"]
    each = float(details["flop_per_instruction"]) * float(details["pipes"])
    return float(details["flops_s"]), THREADS * float(details["clock_hz_during"]) * each


def _equations(bench: Bench) -> Row:
    """Our LU beside the same system through numpy.linalg.solve."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    bench.says(f"LU of {EQUATIONS} equations beside NumPy")
    random = np.random.default_rng(1)
    a, b = random.random((EQUATIONS, EQUATIONS)) - 0.5, random.random(EQUATIONS)
    flops = linpack.flops_of("lu", EQUATIONS)
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
    return row_of(f"LU n={EQUATIONS}, {THREADS} threads, NumPy", "FLOP/s", pairs, AT_LEAST)
