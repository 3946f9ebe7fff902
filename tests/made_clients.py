"""Runs over clients of a storage whose law is known, each client with its part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hwdyno.explain.findings import explain
from hwdyno.model.axes import CLIENTS, with_clients
from hwdyno.model.words import Ceiling, HostShare, Latency, Measurement, Run, Value
from made_experiment import made_experiment
from simulated_runs import FIXED, at, make_run
from simulation.host import SimulatedMachine

COUNTS = (1, 2, 4, 8, 16)
SERVICE_S, SERVERS, THINKS_S = 1e-4, 2, 1e-4
"""A storage with two servers, and clients that think: N* = 2 (1 + 1) = 4 clients."""


def closed_rate(clients: int) -> float:
    """Operations/s of the machine repairman, by its recursion (Allen, Probability, Statistics and Queueing, 1990)."""
    logs = [0.0]
    for busy in range(1, clients + 1):
        logs.append(logs[-1] + math.log((clients - busy + 1) * SERVICE_S / THINKS_S / min(busy, SERVERS)))
    weights = [math.exp(log - max(logs)) for log in logs]
    served = sum(weight * min(busy, SERVERS) for busy, weight in enumerate(weights))
    return served / sum(weights) / SERVICE_S


def point(clients: int, shares: Sequence[float] = (), **changes: Any) -> Measurement:
    """What this many clients reach together, in these parts of it."""
    rate = closed_rate(clients)
    parts = shares or [1 / clients] * clients
    mean = (clients / rate - THINKS_S) * 1e9
    latency = Latency(mean, mean, 2 * mean, 3 * mean, None, mean / 2, 4 * mean, round(rate))
    hosts = tuple(
        HostShare(
            f"n{at // 2} rank {at}", Value(rate * part * 4096, "bytes/s", rate * part * 4055, rate * part * 4137),
            round(rate * part), round(rate * part) * 4096, 3.0, 0.0, 3,
            latency_ns=replace(latency, p99=(3 + at) * mean),
        )
        for at, part in enumerate(parts)
    )  # fmt: skip
    made = Measurement(
        parameters={**at(), CLIENTS.name: clients},
        throughput=Value(rate * 4096, "bytes/s", rate * 4055, rate * 4137),
        rate=Value(rate, "operations/s", rate * 0.99, rate * 1.01),
        latency_ns=latency, streams=(), samples=None, concurrency=None,
        cpu_user_s=0.1 * clients, cpu_system_s=0.1 * clients, elapsed_s=3.0,
        operations=round(3 * rate), bytes=round(3 * rate) * 4096, repeats=3,
        repeat_values=(rate * 4070, rate * 4096, rate * 4122), hosts=hosts,
    )  # fmt: skip
    return replace(made, **changes)


def made(*points: Measurement, ceilings: tuple[Ceiling, ...] = ()) -> Run:
    machine = SimulatedMachine(seed=5)
    result = made_experiment(
        "storage.scaling", "storage", "Throughput by number of clients", CLIENTS.name, "storage_blocks", points,
        fixed=FIXED, ceilings=ceilings,
    )  # fmt: skip
    kernel = with_clients({result.kernel: result.declaration}, 100)[result.kernel]
    result = replace(result, declaration=kernel)
    most = max(len(measurement.hosts) for measurement in points)
    names = [f"n{rank // 2} rank {rank}" for rank in range(most)]
    machines = tuple(replace(machine.survey(), hostname=name) for name in names)
    return explain(replace(make_run(machine, result), machines=machines, job={"launcher": "mpi"}))


def whole_curve() -> Run:
    return made(*map(point, COUNTS))
