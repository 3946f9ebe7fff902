"""Storage against fio: device throughput, CPU time per read, cached reads per core, and the overhead of our loop."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator

from hwdyno.measure import peers
from hwdyno.measure.peers import PeerReading
from hwdyno.measure.peers.fio import parse_output

from benchmarks import Bench, BenchError, BenchmarkRow, Parameters, Reading, Target, make_row

FILE_BYTES = 1 << 30
CACHED_BYTES = 256 << 20
KERNEL = "storage_blocks"

DEVICE: tuple[tuple[str, Parameters], ...] = (
    ("4 KiB random read, direct, depth 1", {"rw": "randread", "bs": 4096, "iodepth": 1}),
    ("4 KiB random read, direct, depth 32", {"rw": "randread", "bs": 4096, "iodepth": 32}),
    ("4 KiB random read, direct, depth 128", {"rw": "randread", "bs": 4096, "iodepth": 128}),
    ("1 MiB sequential read, direct, depth 8", {"rw": "read", "bs": 1 << 20, "iodepth": 8}),
    # As in fio, whose malloc uses 4 KiB pages.
    ("1 MiB sequential read, small pages", {"rw": "read", "bs": 1 << 20, "iodepth": 8, "mem": "small"}),
)
CACHED: tuple[tuple[str, Parameters, Target | None], ...] = (
    ("io_uring, depth 32", {"ioengine": "io_uring", "iodepth": 32}, Target(at_least=1.5)),
    ("psync", {"ioengine": "psync", "iodepth": 1}, None),
    ("mmap", {"ioengine": "mmap", "iodepth": 1}, None),
)
# The cheapest options for fio's cached reads; it then records no latencies, while we record all.
BEST_FLAGS = (
    "--gtod_reduce=1",
    "--fixedbufs",
    "--registerfiles",
    "--nonvectored=1",
    "--iodepth_batch_submit=32",
    "--iodepth_batch_complete_min=32",
    "--iodepth_batch_complete_max=32",
)
# At most 3% slower than the peer.
DEVICE_TARGET = Target(at_least=0.97)
CPU_TARGET = Target(at_most=0.5)
USER_TARGET = Target(at_most=100)
BEST_FLAGS_TARGET = Target(at_least=1.3)
IDLE_TARGET = Target(at_most=20)


def measure(bench: Bench) -> Iterator[BenchmarkRow]:
    """Yield every row as it is measured."""
    fio = peers.find("fio")
    version = fio.version()
    if version is None:
        raise BenchError("fio is not here: install it (apt-get install fio), or name it by HWDYNO_FIO")
    data = bench.directory / "data"
    bench.says(f"laying out 1 GiB beside {version}")
    bench.run("storage_layout", {"path": str(data), "size": FILE_BYTES, "seed": 1})
    yield from _idle(bench)
    base = {"path": str(data), "size": FILE_BYTES, "ioengine": "io_uring", "direct": True, "numjobs": 1}
    for label, point in DEVICE:
        bench.says(label)
        pairs = bench.in_turn(fio, KERNEL, {**base, **point})
        rates = [(_operations(ours) / ours["elapsed_s"], theirs.rate or 0.0) for ours, theirs in pairs]
        yield make_row(label, "IOPS", rates, DEVICE_TARGET)
        if (point["rw"], point["iodepth"]) == ("randread", 32):
            costs = [(_cpu_ns(ours), _their_cpu_ns(theirs)) for ours, theirs in pairs]
            yield make_row(f"CPU time of a {label}", "ns", costs, CPU_TARGET)
            yield _user_time(f"user time of a {label}", [ours for ours, _ in pairs])
            yield from _batched(bench, {**base, **point}, label)
    yield from _writes(bench, base)
    yield from _cached(bench, {**base, "size": CACHED_BYTES, "direct": False, "rw": "randread", "bs": 4096})


def _writes(bench: Bench, base: Parameters) -> Iterator[BenchmarkRow]:
    """Large writes, with buffers that are filled outside of the timed region."""
    title = "1 MiB sequential write, direct, depth 8"
    bench.says(title)
    pairs = bench.in_turn(peers.find("fio"), KERNEL, {**base, "rw": "write", "bs": 1 << 20, "iodepth": 8})
    yield make_row(title, "IOPS", [(_operations(a) / a["elapsed_s"], b.rate or 0.0) for a, b in pairs], DEVICE_TARGET)
    yield make_row(f"CPU time of a {title}", "ns", [(_cpu_ns(a), _their_cpu_ns(b)) for a, b in pairs])


def _user_time(title: str, readings: list[Reading]) -> BenchmarkRow:
    costs = sorted(float(r["cpu"]["user_s"]) / _operations(r) * 1e9 for r in readings)
    return BenchmarkRow(title, "ns", costs[len(costs) // 2], low=costs[0], high=costs[-1], target=USER_TARGET)


def _batched(bench: Bench, point: Parameters, title: str) -> Iterator[BenchmarkRow]:
    """The same with batched completions, as in fio's t/io_uring; fio runs with its defaults.

    Nearly all CPU time of a direct read is spent in the kernel, mostly on a submission's doorbell and a completion's
    wake-up, which a batch shares. The rate is shown too, because the queue runs empty between batches if the device
    is not saturated.
    """
    whole = {**point, "iodepth_batch_complete_min": point["iodepth"]}
    bench.says(f"{title}, whole batches")
    pairs = bench.in_turn(peers.find("fio"), KERNEL, whole)
    costs = [(_cpu_ns(ours), _their_cpu_ns(theirs)) for ours, theirs in pairs]
    yield make_row(f"CPU time of a {title}, whole batches", "ns", costs, CPU_TARGET)
    rates = [(_operations(ours) / ours["elapsed_s"], theirs.rate or 0.0) for ours, theirs in pairs]
    yield make_row(f"{title}, whole batches", "IOPS", rates)
    bare = shutil.which(os.environ.get("HWDYNO_T_IO_URING") or "t_io_uring")
    if bare is None:
        bench.says("t/io_uring is not here (HWDYNO_T_IO_URING names it): the kernel's own floor is not shown")
        return
    floors = [(_cpu_ns(bench.run(KERNEL, {**whole, "runtime": bench.runtime_s})), _bare_ns(bare, whole)) for _ in pairs]
    yield make_row(f"CPU time of a {title}, whole batches, t/io_uring", "ns", floors)


def _bare_ns(program: str, point: Parameters) -> float:
    """CPU time per read of fio's t/io_uring, which measures nothing, ns.

    It prints the rate of each second until -r ends it; its total CPU time is divided by the sum.
    """
    depth = str(point["iodepth"])
    options = ["-p0", "-F1", "-B1", "-O1", "-r2", f"-b{point['bs']}", f"-d{depth}", f"-s{depth}", f"-c{depth}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [program, *options, str(point["path"])], capture_output=True, text=True, timeout=30, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rates = [float(rate) * (1e3 if kilo else 1) for rate, kilo in re.findall(r"IOPS=([\d.]+)(K?)", done.stdout)]
    if not rates:
        raise BenchError(f"t/io_uring failed: {' '.join(done.stderr.split())[:200]}")
    return spent_s / sum(rates) * 1e9


def _cached(bench: Bench, base: Parameters) -> Iterator[BenchmarkRow]:
    """Random reads from the page cache per second of CPU time, that is, per core."""
    fio = peers.find("fio")
    # Read the region into the page cache for both tools.
    bench.run(KERNEL, {**base, "rw": "read", "bs": 1 << 20, "ioengine": "psync", "time_based": False, "runtime": 0})
    for engine, point, target in CACHED:
        title = f"4 KiB cached random reads a core, {engine}"
        bench.says(title)
        pairs = bench.in_turn(fio, KERNEL, {**base, **point})
        yield make_row(
            title, "IOPS", [(1e9 / _cpu_ns(ours), 1e9 / _their_cpu_ns(theirs)) for ours, theirs in pairs], target
        )
    title = "4 KiB cached random reads a core, io_uring, fio's best flags"
    bench.says(title)
    rates = []
    for seed in range(bench.pairs):
        parameters = {**base, "ioengine": "io_uring", "iodepth": 32, "runtime": bench.runtime_s, "seed": seed + 1}
        ours = bench.run(KERNEL, parameters)
        command = [*fio.command(KERNEL, parameters), *BEST_FLAGS]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        try:
            theirs = parse_output(done.stdout, done.stderr, done.returncode)
        except OSError as error:
            raise BenchError(f"fio: {error}") from None
        rates.append((1e9 / _cpu_ns(ours), 1e9 / _their_cpu_ns(theirs)))
    yield make_row(title, "IOPS", rates, BEST_FLAGS_TARGET)


def _idle(bench: Bench) -> Iterator[BenchmarkRow]:
    bench.says("the idle kernel")
    readings = [bench.run("idle", {"runtime": bench.runtime_s / 2}) for _ in range(bench.pairs)]
    costs = sorted(reading["elapsed_s"] / _operations(reading) * 1e9 for reading in readings)
    middle = costs[len(costs) // 2]
    yield BenchmarkRow(
        "an operation of the idle kernel", "ns", middle, low=costs[0], high=costs[-1], target=IDLE_TARGET
    )


def _operations(reading: Reading) -> int:
    return sum(int(stream["operations"]) for stream in reading["streams"])


def _cpu_ns(reading: Reading) -> float:
    cpu = reading["cpu"]
    return (float(cpu["user_s"]) + float(cpu["system_s"])) / _operations(reading) * 1e9


def _their_cpu_ns(reading: PeerReading) -> float:
    if not reading.cpu_s or not reading.operations:
        raise BenchError("fio told no CPU time")
    return reading.cpu_s / reading.operations * 1e9
