"""A training loader on a simulated object store: its readers are requests in flight, its accelerators take time."""

from __future__ import annotations

import random
from typing import Any

from hwdyno.measure.hosts.local import Local
from hwdyno.model.kernels import OBJECT_REQUESTS, TRAINING_LOADER
from hwdyno.model.words import Declaration

from simulation.object_store import SimulatedBucket
from simulation.reading import filled, reading, stream

_DETAILS = ("loopback", "interface", "interface_driver", "interface_virtual", "interface_bits_s", "interface_mtu_bytes",
            "rtt_min_us", "window_bytes", "client_threads", "tls_suite", "tls_bytes_cpu_s")  # fmt: skip
RUNTIME_S = 60.0


class SimulatedTraining(SimulatedBucket):
    """A simulated machine with a loader whose data set has whole objects at a store."""

    def kernels(self) -> dict[str, Declaration]:
        """The declarations of the kernels that it simulates."""
        return super().kernels() | {TRAINING_LOADER: Local().kernels()[TRAINING_LOADER]}

    def read(self, kernel: str, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        """What one of its kernels returns of all of its parameters."""
        return self._load(given, draw) if kernel == TRAINING_LOADER else super().read(kernel, given, draw)

    def _load(self, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        number, record = int(given["accelerators"]), float(given["record_bytes"])
        requests = filled(OBJECT_REQUESTS, self.kernels()[OBJECT_REQUESTS], {
            "operation": "get", "object_size": int(record), "concurrency": number * int(given["read_threads"]),
            "client_threads": 16, "runtime": RUNTIME_S,
        })  # fmt: skip
        plain = self._requests(requests, draw)
        need = record * int(given["batch_size"]) / float(given["compute"])
        served = self.store.loader * plain["streams"][0]["bytes"] / plain["elapsed_s"]
        bytes_s = min(served, 0.995 * number * need)
        au, samples = bytes_s / (number * need), round(bytes_s / record * RUNTIME_S)
        details = {
            "au_rule": au, "au_dlio": au, "samples_s_dlio": bytes_s / record, "samples_s": bytes_s / record,
            "need_bytes_s": need, "dataset_bytes": 1e15, "steps": 500 * number, "epochs": 1, "lost_samples": 0,
            "cached_share_by_device": None, "requests": round(samples * (1 + self.store.repeats)),
            "requests_repeated": round(samples * self.store.repeats),
            **{name: plain["details"][name] for name in _DETAILS if name in plain["details"]},
        }  # fmt: skip
        did = stream("read", samples, round(samples * record))
        cpu_s = sum(plain["cpu"].values()) / plain["streams"][0]["bytes"] * samples * record
        return reading(RUNTIME_S, [did], (0.3 * cpu_s, 0.7 * cpu_s), in_flight=0.0, details=details)
