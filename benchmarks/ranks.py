"""Several ranks on this machine: beside threads, and what their common start, their merge and a death cost."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping

from hwdyno.measure import engine
from hwdyno.measure.hosts import ranks
from hwdyno.measure.hosts.launch import ByAddress, Meeting
from hwdyno.measure.hosts.merging import merge_readings
from hwdyno.measure.hosts.several_hosts import SeveralHosts
from hwdyno.measure.measurement import compute_throughput, make_measurement
from hwdyno.system.processes import family

from benchmarks import Bench, BenchmarkRow, Parameters, Target, make_row

SIZE = 256 << 20
BLOCKS: Parameters = {"rw": "randread", "bs": 4096, "iodepth": 1, "size": SIZE, "direct": True}
STARTS = 200
MANY, POINTS = 512, 20
EQUAL = Target(at_least=0.95, at_most=1.05)


def measure(bench: Bench) -> Iterator[BenchmarkRow]:
    """Yield every row as it is measured."""
    path = str(bench.directory / "ranks.data")
    engine.run("storage_layout", {"path": path, "size": SIZE, "seed": 1})
    few = max(2, min(4, os.cpu_count() or 2))
    for count in (1, 2, 4, 8):
        bench.says(f"{count} ranks beside threads")
        blocks = {**BLOCKS, "path": path, "runtime": bench.runtime_s}
        with started(count) as (site, _):
            threads = {**blocks, "numjobs": count, **_placed(site)}
            pairs = []
            for number in range(bench.pairs):
                found = {}
                # Each goes first in every second pair.
                for which in ("ranks", "threads")[:: 1 if number % 2 else -1]:
                    runner = site if which == "ranks" else engine
                    parameters = {**blocks, "numjobs": 1} if which == "ranks" else threads
                    found[which] = compute_throughput(runner.run("storage_blocks", parameters), "bytes")
                pairs.append((found["ranks"], found["threads"]))
        yield make_row(f"randread 4 KiB, {count} ranks | {count} threads", "bytes/s", pairs, EQUAL)
    bench.says(f"starts of {few} ranks")
    with started(few) as (site, _):
        yield from _starts(site, few)
        yield _merge(site.run("storage_blocks", {**BLOCKS, "path": path, "runtime": 0.2, "numjobs": 1})["hosts"][0])
    yield _death(few)


def _placed(site: SeveralHosts) -> Parameters:
    """Threads on the ranks' processors, where each rank has one: Linux may put several threads on the same."""
    given = [sorted(member.processors) for member in site._members.values()]
    return {"cpus": [processor for (processor,) in given]} if all(len(processors) == 1 for processors in given) else {}


def _starts(site: SeveralHosts, count: int) -> Iterator[BenchmarkRow]:
    costs_ns, skews_ns = [], []
    for _ in range(STARTS):
        began = time.perf_counter()
        reading = site.run("idle", {"runtime": 0.02})
        took_s = time.perf_counter() - began
        skews_ns.append(max(part["start_offset_s"] for part in reading["hosts"]) * 1e9)
        began = time.perf_counter()
        alone = engine.run("idle", {"runtime": 0.02})
        alone_s = time.perf_counter() - began - alone["elapsed_s"]
        costs_ns.append((took_s - reading["elapsed_s"] - alone_s) * 1e9)
    yield _row(f"coordination of a reading, {count} ranks, median", "ns", statistics.median(costs_ns), 1e6)
    yield _row(f"start skew, {count} ranks, p50", "ns", statistics.median(skews_ns), None)
    yield _row(f"start skew, {count} ranks, p99", "ns", statistics.quantiles(skews_ns, n=100)[98], 5e4)


def _merge(part: Mapping[str, object]) -> BenchmarkRow:
    names = [f"n{number}" for number in range(MANY)]
    readings = dict.fromkeys(names, part["reading"])
    began = time.process_time()
    for _ in range(POINTS):
        make_measurement({}, [merge_readings(readings, dict.fromkeys(names, 0), {}, names)])  # type: ignore[arg-type]
    return _row(f"merge of {MANY} ranks x {POINTS} points, CPU", "s", time.process_time() - began, 1.0)


def _death(count: int) -> BenchmarkRow:
    """How long after a rank's agent hangs it is named, in the middle of a reading."""
    with started(count) as (site, others):
        (victim,) = family(others[-1].pid)[1:]
        moments = []
        site._says = lambda text: moments.append(time.perf_counter())
        timer = threading.Timer(1.0, lambda: (moments.append(time.perf_counter()), os.kill(victim, signal.SIGSTOP)))
        timer.start()
        site.run("idle", {"runtime": 6.0})
        os.kill(victim, signal.SIGKILL)
    return _row("a rank that hangs is named after", "s", moments[1] - moments[0], 3.0)


def _row(title: str, unit: str, value: float, at_most: float | None) -> BenchmarkRow:
    return BenchmarkRow(title, unit, value, target=None if at_most is None else Target(at_most=at_most))


@contextlib.contextmanager
def started(count: int) -> Iterator[tuple[SeveralHosts, list[subprocess.Popen[bytes]]]]:
    """A site of ranks on this machine, this process being rank 0, and the processes of the others."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    secret = secrets.token_hex(16)
    shared = {"HWDYNO_RENDEZVOUS": f"127.0.0.1:{port}", "HWDYNO_SECRET": secret, "HWDYNO_RANKS": str(count)}
    others = [
        subprocess.Popen(
            [sys.executable, "-m", "hwdyno", "storage"], env={**os.environ, **shared, "HWDYNO_RANK": str(rank)}
        )
        for rank in range(1, count)
    ]
    try:
        site = ranks.join_ranks(ByAddress(0, count, Meeting("127.0.0.1", port, secret.encode())))
        try:
            yield site, others
        finally:
            site.close()
    finally:
        for process in others:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
