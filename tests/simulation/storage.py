"""Storage of a machine that does not exist: what its law and its planted faults make of a job, as a Reading."""

from __future__ import annotations

import errno
import math
import random
from typing import Any

from hwdyno.model.axes import list_traits, write_share
from hwdyno.model.words import Declaration

from simulation.machine import SimulatedMachine
from simulation.reading import (
    LEVEL,
    count_operations,
    latencies,
    left_by_the_hypervisor,
    noisy,
    parameter,
    reading,
    stream,
)

MEMORY_BYTES_S = 6e9
MEMORY_OPERATIONS_S = 1.5e6
LAYOUT_BLOCK = 1 << 20


def run(
    machine: SimulatedMachine, kernel: str, given: dict[str, Any], draw: random.Random, written_bytes: int
) -> dict[str, Any]:
    """A Reading of one kernel, on a drive to which this many bytes were written before."""
    return _layout(machine, given) if kernel == "storage_layout" else _blocks(machine, given, draw, written_bytes)


def _blocks(
    machine: SimulatedMachine, given: dict[str, Any], draw: random.Random, written_bytes: int
) -> dict[str, Any]:
    rw, bs = str(given["rw"]), int(given["bs"])
    jobs, runtime = int(given["numjobs"]), float(given["runtime"])
    direct = bool(given["direct"]) and not machine.direct_refused
    traits = list_traits(KERNELS["storage_blocks"].axes, given)
    synchronous = "synchronous" in traits
    buffered_aio = "synchronous_buffered" in traits and not direct
    depth = 1 if synchronous else int(given["iodepth"])
    reached = min(depth, machine.depth_cap or depth, 1 if buffered_aio else depth)
    read_share = 1 - write_share(KERNELS["storage_blocks"].axes, given)
    percent = round(100 * read_share)
    rate = machine.operations_per_s(rw, percent, bs, reached * jobs)
    missed = min(1.0, machine.cache_share + machine.unwritten_share + machine.hole_share) * read_share
    if missed:
        from_memory = min(MEMORY_OPERATIONS_S, MEMORY_BYTES_S / bs) * min(jobs, machine.threads)
        rate = 1 / ((1 - missed) / rate + missed / from_memory)
    if machine.host_cache_bytes_s:
        rate = machine.host_cache_bytes_s / bs
    if machine.write_cache_bytes_s and not read_share and (given["sync"] == "none" or machine.flushes_ignored):
        rate = machine.write_cache_bytes_s / bs
    mean_s, notes = 0.0, []
    if machine.servers:
        rate = min(reached * jobs, machine.servers) / machine.latency_one_s
    if given["rate"]:
        capacity, rate = rate, min(rate, float(given["rate"]))
        mean_s = _open_loop_s(float(given["rate"]), capacity, machine, runtime)
        if rate < 0.98 * float(given["rate"]):
            notes.append({"code": "rate_not_reached", "says": f"{rate / float(given['rate']):.0%} was reached"})
    if machine.fresh_bytes and read_share < 1:
        rate *= 1 + machine.fresh_gain * max(0.0, 1 - written_bytes / machine.fresh_bytes)
    if not given["time_based"]:
        runtime = int(given["io_size"] or given["size"]) / (rate * bs)
    bound = 0.97 * min(jobs, machine.threads) / rate
    cpu_per_operation = bound if machine.client_bound else min(machine.cpu_s_per_operation, 0.62 * bound)

    interval_s = max(float(given["interval_s"]), runtime / 4096) if given["time_based"] else runtime / 20
    rows = max(1, round(runtime / interval_s))
    past_the_link = missed or machine.host_cache_bytes_s or machine.write_cache_bytes_s
    course = _course(machine, rows, draw)
    left = left_by_the_hypervisor(machine.steal_bursts, rows, interval_s, draw)
    rates = [max(0.0, rate * factor * share) for factor, share in zip(course, left, strict=True)]
    counts = count_operations(rates, interval_s, math.inf if past_the_link else machine.link_bytes_s / bs)
    # What the whole run did; the samples carry it exactly.
    operations, elapsed = max(1, sum(counts)), rows * interval_s
    if sum(counts) == 0:
        counts[-1] = 1
    mean_ns = mean_s * 1e9 or reached * jobs * elapsed / operations * 1e9
    sampled = _by_direction(counts, read_share)
    streams = [
        _timed(name, sum(counted), bs, mean_ns, 0.9 if buffered_aio else 0.02) for name, counted in sampled.items()
    ]
    done_by = {measured_stream["name"]: measured_stream["bytes"] for measured_stream in streams}
    reads, writes = done_by.get("read", 0), done_by.get("write", 0)
    reached_device = reads * (1 - missed / read_share) if read_share else 0.0
    cpu, size = cpu_per_operation * operations, int(given["size"])
    straddling = reached * jobs * bs
    reached_device = max(0.0, reached_device - machine.edges * straddling * read_share)
    device_writes = writes if direct else 0
    written = max(0.0, device_writes - machine.edges * straddling * (1 - read_share))
    written += machine.others_write_bytes_s * elapsed
    if machine.direct_refused and given["direct"]:
        notes.append({"code": "direct_refused", "says": "O_DIRECT was refused; it went through the cache"})
    short = {"operation": "read", "errno": 0, "says": "short transfer", "count": machine.short_transfers}
    return reading(
        elapsed,
        streams,
        (0.2 * cpu, 0.8 * cpu),
        waits=_waits(machine, jobs * elapsed - cpu, operations, cpu),
        in_flight=0.0 if given["rate"] else float(depth * jobs),
        samples={
            "interval_s": interval_s,
            "operations": list(sampled.values()),
            "bytes": [[count * bs for count in row] for row in sampled.values()],
        },
        counters={
            "process_read_bytes": round(reached_device),
            "process_write_bytes": writes,
            "device_read_bytes": round(reached_device),
            "device_write_bytes": round(written),
            "device_read_operations": round(reached_device / bs),
            "device_write_operations": round(written / bs),
            "device_busy_s": elapsed * (1 - missed) * 0.99,
            "device_queue_s": elapsed * reached * jobs * (1 - missed),
            "straddling_bytes": straddling,
        }
        if not machine.counters_hidden
        else {},
        faults=[short] if machine.short_transfers else [],
        notes=notes,
        details={
            "size_bytes": size,
            "extent_unwritten_bytes": round(size * machine.unwritten_share),
            "extent_hole_bytes": round(size * machine.hole_share),
            "cached_share_before": machine.cached_before,
            "cached_share_after": max(machine.cached_before, 1.0 if writes and not direct else 0.0),
            "dirty_share_after": 0.3 if writes and not direct else 0.0,
            **_children(machine, jobs, (reads + writes) / elapsed),
        },
    )


def _course(machine: SimulatedMachine, rows: int, draw: random.Random) -> list[float]:
    """How throughput goes over a run of this many samples, as factors of its law."""
    level = noisy(machine.noise, draw)
    course = []
    for row in range(rows):
        at = (row + 0.5) / rows
        factor = level * noisy(2 * machine.noise, draw)
        factor *= 1 + machine.drift * (at - 0.5)
        factor *= 1 + machine.wobble * math.sin(2 * math.pi * (1.5 * at + draw.random() * 0.02))
        if machine.throttle_at is not None and at >= machine.throttle_at:
            factor *= machine.throttle_to
        if machine.hiccups and draw.random() < machine.hiccups:
            factor *= 0.05
        course.append(factor)
    return course


def _children(machine: SimulatedMachine, jobs: int, whole_bytes_s: float) -> dict[str, float]:
    """Each job's own throughput, where as much work takes some of them less time than the whole."""
    if jobs < 2:
        return {}
    took = [1 - machine.unequal_jobs * job / (jobs - 1) for job in range(jobs)]
    each_bytes_s = [whole_bytes_s / jobs / share for share in took]
    return {
        "children_sum_bytes_s": sum(each_bytes_s),
        "children_min_bytes_s": min(each_bytes_s),
        "children_max_bytes_s": max(each_bytes_s),
        "children_shortest_share": min(took),
        "children_sum_over_parent": sum(each_bytes_s) / whole_bytes_s,
    }


def _waits(machine: SimulatedMachine, asleep_s: float, operations: int, cpu_s: float) -> dict[str, float]:
    """What the kernel and the processor count of the threads beside their CPU time."""
    switched = "involuntary_switches" if machine.preempted else "voluntary_switches"
    made: dict[str, float] = {"voluntary_switches": 0, "involuntary_switches": 0, switched: operations}
    if not machine.scheduler_hidden:
        made["run_delay_s"] = machine.wake_share * max(0.0, asleep_s)
    if machine.stall_share:
        cycles = round(3e9 * cpu_s)
        made |= {"counted_cycles": cycles, machine.stall_event: round(machine.stall_share * cycles)}
    return made


def _by_direction(counts: list[int], read_share: float) -> dict[str, list[int]]:
    """The operations of each sample, reads and writes apart; a direction without any is left out."""
    if read_share in {0.0, 1.0}:
        return {"read" if read_share else "write": counts}
    reads = [round(count * read_share) for count in counts]
    return {"read": reads, "write": [count - read for count, read in zip(counts, reads, strict=True)]}


def _timed(name: str, done: int, bs: int, mean_ns: float, submit_share: float) -> dict[str, Any]:
    """What one direction did, with its latencies, of which submission took a share."""
    latency = {
        "submit": latencies(done, mean_ns * submit_share, LEVEL),
        "complete": latencies(done, mean_ns * (1 - submit_share), LEVEL),
        "total": latencies(done, mean_ns),
    }
    return stream(name, done, done * bs, latency_ns=latency)


def _layout(machine: SimulatedMachine, given: dict[str, Any]) -> dict[str, Any]:
    size = int(given["size"])
    if size > machine.free_bytes:
        raise OSError(errno.ENOSPC, "No space left on device", str(given["path"]))
    return reading(
        size / (machine.read_bytes_s * machine.write_bytes_factor),
        [stream("write", max(1, size // LAYOUT_BLOCK), size)],
        (size * 1e-10, size * 2e-10),
        in_flight=1.0,
        counters={"process_write_bytes": size, "device_write_bytes": size},
        details={"size_bytes": size},
    )


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


KERNELS = {
    "storage_blocks": Declaration(
        measures="reads and writes of blocks of a file (simulated)",
        operation="I/O",
        counts={"operations": "1", "bytes": "bs"},
        writes="device",
        consent=("destroy", "serial"),
        axes=(
            parameter("path", "text", "/simulated/data"),
            parameter("rw", "choice", "randread", choices=["read", "write", "randread", "randwrite", "rw", "randrw"]),
            parameter("rwmixread", "integer", 50, min=0, max=100),
            parameter("bs", "integer", 4096, "B", min=512, max=1 << 40),
            parameter("iodepth", "integer", 1, min=1, max=1024),
            parameter("numjobs", "integer", 1, min=1, max=1024),
            parameter("rate", "number", 0.0, "operations/s", min=0, max=1e9),
            parameter("rate_process", "choice", "linear", choices=["linear", "poisson"]),
            parameter("ioengine", "choice", "io_uring", choices=["io_uring", "libaio", "psync", "mmap"]),
            parameter("direct", "flag", True),
            parameter("size", "integer", 1 << 30, "B", min=512, max=1 << 50),
            parameter("offset", "integer", 0, "B", min=0, max=1 << 50),
            parameter("io_size", "integer", 0, "B", min=0, max=1 << 60),
            parameter("destroy", "text", ""),
            parameter("serial", "text", ""),
            parameter("runtime", "number", 1.0, "s", min=0, max=86_400.0),
            parameter("time_based", "flag", True),
            parameter("ramp_time", "number", 0.0, "s", min=0, max=86_400.0),
            parameter("startdelay", "number", 0.0, "s", min=0, max=86_400.0),
            parameter("seed", "integer", 1, min=0, max=1 << 62),
            parameter("interval_s", "number", 0.1, "s", min=0.001, max=3600.0),
            parameter("sync", "choice", "none", choices=["none", "sync", "dsync"]),
            parameter("share", "choice", "partition", choices=["partition", "whole"]),
            parameter("cpus", "integers", []),
        ),
    ),
    "storage_layout": Declaration(
        measures="writes a data file of incompressible data (simulated)",
        counts={"bytes": "size"},
        writes="file",
        axes=(
            parameter("path", "text", "/simulated/data"),
            parameter("size", "integer", 1 << 30, "B", min=512, max=1 << 50),
            parameter("seed", "integer", 1, min=0, max=1 << 62),
        ),
    ),
}
