"""A model in a process that does not exist: what its steps read and compute, by laws that are known.

A step reads the weights once and each sequence's KV cache, and computes for each sequence. It takes as long as the
slower of both, and longer where weights have to come from storage again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hwdyno.measure.workloads.inference_in_process import KERNEL

from simulation import serving
from simulation.serving import SimulatedServer


@dataclass(frozen=True)
class SimulatedEngine:
    """Its laws, and what is planted."""

    weights_bytes: float = 240e6
    kv_bytes: float = 4e6
    """KV cache of a sequence's context."""
    bandwidth: float = 20e9
    """Bandwidth of the memory's reads, with the engine's threads."""
    reached: float = 0.85
    """The share of it that the engine's loops reach where nothing else limits them."""
    sequence_compute_s: float = 0.0001
    step_compute_s: float = 0.001
    prompt_s: float = 0.001
    batch: int = 16
    threads: int = 2
    cpu_share: float = 0.99
    fetched_share: float = 0.0
    storage_bytes_s: float = 1e9

    def step_s(self, sequences: float) -> float:
        """The time of a step for this many sequences."""
        size = self.weights_bytes + sequences * self.kv_bytes
        compute_s = self.step_compute_s + sequences * self.sequence_compute_s
        return max(size / (self.reached * self.bandwidth), compute_s) + self.fetched_share * size / self.storage_bytes_s


def run(engine: SimulatedEngine, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A Reading of the kernel on this engine; requests go the way of the simulated server's."""
    users = min(int(given["concurrency"]), engine.batch)
    sequence_s = (engine.step_s(engine.batch) - engine.step_s(1)) / max(1, engine.batch - 1)
    server = SimulatedServer(
        prompt_s=engine.prompt_s,
        step_s=engine.step_s(1) - sequence_s,
        sequence_s=sequence_s,
        slots=engine.batch,
        noise=0.01,
    )
    reading = serving.run(server, {**given, "connections": 8192}, draw)
    size = engine.weights_bytes + users * engine.kv_bytes
    tokens = int(given["output_tokens"])
    steps_s = tokens * (server.step_s + server.sequence_s * users)
    reading["kernel"] = KERNEL
    reading["details"] |= {
        "weights_bytes": engine.weights_bytes,
        "bytes_per_token": size / users,
        "tokens_a_step": float(users),
        "step_bytes_s": size / (server.step_s + server.sequence_s * users),
        "fetched_share": engine.fetched_share,
        "prompt_share": users * engine.prompt_s / (users * engine.prompt_s + steps_s),
        "engine_cpu_share": engine.cpu_share,
    }
    return reading
