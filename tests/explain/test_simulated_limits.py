"""Simulated resources keep to their physical limits: noise carries no reading past a link, a channel or a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from simulation.core import PIPES, Core
from simulation.host import SimulatedHost, SimulatedMachine
from simulation.network import SimulatedNetwork, SimulatedPath
from simulation.object_store import KERNEL, SimulatedBucket, SimulatedStore
from simulation.training_store import SimulatedTraining

NOISE = 0.05
SEEDS = range(20)
THEORY_BYTES_S = 3200e6 * 8.0
CLOCK_HZ = 3e9


def read_storage(seed: int) -> tuple[dict[str, Any], float]:
    machine = SimulatedMachine(seed=seed, noise=NOISE, read_bytes_s=1e12, operations_s=1e9)
    given = {"path": "/x", "rw": "read", "bs": 1 << 20, "iodepth": 64, "numjobs": 4}
    return SimulatedHost(machine).run("storage_blocks", given), machine.link_bytes_s


def send(seed: int, **limits: Any) -> tuple[dict[str, Any], SimulatedPath]:
    path = SimulatedPath(seed=seed, noise=NOISE, cpu_ns_per_kib=1.0, **limits)
    return SimulatedNetwork(path).run("network_throughput", {"streams": 4}), path


def send_by_wire(seed: int) -> tuple[dict[str, Any], float]:
    read, path = send(seed)
    return read, path.wire_bytes_s()


def send_near_the_wire(seed: int) -> tuple[dict[str, Any], float]:
    """A window that lets through just less than the wire carries."""
    window = 0.998 * SimulatedPath().wire_bytes_s() * SimulatedPath().rtt_s / 4
    read, path = send(seed, window_bytes=window)
    return read, 4 * path.window_bytes / path.rtt_s


def send_past_a_policer(seed: int) -> tuple[dict[str, Any], float]:
    read, path = send(seed, policer_bits_s=1e9)
    return read, path.policer_bits_s / 8


def get_objects(seed: int, **limits: Any) -> tuple[dict[str, Any], SimulatedStore]:
    store = SimulatedStore(**{"seed": seed, "noise": NOISE, "bytes_s": 1e12, "connection_bytes_s": 1e10, **limits})
    given = {"operation": "get", "object_size": 8 << 20, "concurrency": 64, "client_threads": 8}
    return SimulatedBucket(store).run(KERNEL, given), store


def get_by_link(seed: int) -> tuple[dict[str, Any], float]:
    read, store = get_objects(seed, cpu_s_byte=1e-11)
    return read, store.link_bytes_s


def get_by_window(seed: int) -> tuple[dict[str, Any], float]:
    read, store = get_objects(seed, cpu_s_byte=1e-11, window_bytes=4e3, request_s=1e-9)
    return read, 64 * store.window_bytes / store.rtt_s


def get_by_tls(seed: int) -> tuple[dict[str, Any], float]:
    read, store = get_objects(seed, cpu_s_byte=0.0, cpu_s=0.0, tls_bytes_s=1e8)
    return read, 8 * store.tls_bytes_s


def train_by_link(seed: int) -> tuple[dict[str, Any], float]:
    store = SimulatedStore(seed=seed, noise=NOISE, bytes_s=1e12, connection_bytes_s=1e10, cpu_s_byte=1e-11)
    given = {"accelerators": 4, "record_bytes": 20e6, "batch_size": 7, "read_threads": 4, "compute": 1e-3}
    return SimulatedTraining(store).run("training_loader", {"path": "s3://b/d", **given}), store.link_bytes_s


def read_memory(seed: int) -> tuple[dict[str, Any], float]:
    core = Core(noise=NOISE, modules=((3200, 1),), channels_bytes_s=THEORY_BYTES_S, thread_bytes_s=2 * THEORY_BYTES_S)
    given = {"threads": 2, "working_set": 1 << 30}
    return SimulatedHost(SimulatedMachine(seed=seed, core=core)).run("memory_bandwidth", given), THEORY_BYTES_S


def read_loaded_memory(seed: int) -> tuple[dict[str, Any], float]:
    core = Core(noise=NOISE, modules=((3200, 1),), channels_bytes_s=THEORY_BYTES_S, thread_bytes_s=2 * THEORY_BYTES_S)
    given = {"threads": 2, "working_set": 1 << 30}
    return SimulatedHost(SimulatedMachine(seed=seed, core=core)).run("memory_loaded_latency", given), THEORY_BYTES_S


READS: list[Callable[[int], tuple[dict[str, Any], float]]] = [
    read_storage, send_by_wire, send_near_the_wire, send_past_a_policer, get_by_link, get_by_window, get_by_tls,
    train_by_link, read_memory, read_loaded_memory,
]  # fmt: skip


@pytest.mark.parametrize("read", READS, ids=lambda read: read.__name__)
def test_no_noise_carries_more_than_the_limit(read: Callable[[int], tuple[dict[str, Any], float]]) -> None:
    shares = []
    for seed in SEEDS:
        reading, limit = read(seed)
        shares.append(sum(stream["bytes"] for stream in reading["streams"]) / reading["elapsed_s"] / limit)
    # The limit is what bounds these readings, so an uncut noise would exceed it in half of them.
    assert 0.9 < max(shares) <= 1, shares


@pytest.mark.parametrize("seed", SEEDS)
def test_no_noise_computes_faster_than_the_clock(seed: int) -> None:
    core = Core(noise=NOISE, clock_hz=CLOCK_HZ)
    host = SimulatedHost(SimulatedMachine(seed=seed, core=core))
    reading = host.run("compute_flops", {"isa": "avx2", "threads": 2})
    (stream,) = reading["streams"]
    assert stream["operations"] / reading["elapsed_s"] <= 2 * PIPES * CLOCK_HZ
