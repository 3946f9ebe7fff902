"""An object store that does not exist: its requests follow known laws, have known faults planted, and take no time.

A request takes a fixed time and its bytes over a connection's rate, which is at most window / round trip. All
together are bounded by the link, the store's bandwidth and its requests per second, with a rounded corner.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwdyno.measure.hosts.local import Local
from hwdyno.model.machine import Machine, Nic
from hwdyno.model.words import Declaration

from simulation.host import SimulatedHost, SimulatedMachine
from simulation.reading import count_operations, latencies, noisy, reading, stream

KERNEL = "object_requests"
CORNER = 6
SUITE = "TLS13_AES_256_GCM_SHA384"
HEADERS_BYTES = 90
"""Headers and gaps of a full segment on the wire, beside its payload."""


@dataclass(frozen=True)
class SimulatedStore:
    """What is true of a store and the path to it: its laws first, then what is planted (nothing, by default)."""

    seed: int = 1
    request_s: float = 2e-3
    """Time of a request besides its bytes."""
    requests_s: float = 6000.0
    """Requests that it serves a second at most."""
    bytes_s: float = 0.6e9
    link_bits_s: float = 10e9
    rtt_s: float = 300e-6
    window_bytes: float = 6e6
    connection_bytes_s: float = 0.2e9
    """What one connection gets of a store that does nothing else."""
    page_key_s: float = 2e-6
    """Time of a page for each of its keys."""
    processors: int = 8
    cpu_s: float = 10e-6
    cpu_s_byte: float = 0.1e-9
    noise: float = 0.01
    # What is planted.
    throttle_s: float = 0.0
    """Requests a second above which it answers 503."""
    failing: tuple[tuple[str, float], ...] = ()
    """Failures by their words, each with its share of the requests."""
    closes: float = 0.0
    """Share of the requests after which it closes the connection."""
    endpoint_factors: tuple[float, ...] = (1.0,)
    """How much longer each endpoint takes."""
    failing_endpoint: int = -1
    """The endpoint with all failures."""
    cache_bytes: float = 0.0
    """Objects of fewer bytes together are answered from memory."""
    page_s: float = 0.0
    """What a page takes longer."""
    repeats: float = 0.0
    """Share of a loader's requests that are sent again."""
    loader: float = 1.0
    """Share of the rate of plain requests that a loader reaches."""
    tls_bytes_s: float = 0.0
    """What one thread encrypts a second, where TLS is used; 0 where it is not."""
    first_read: float = 1.0
    """How many times as long the first read of an object takes, which no cache has yet."""

    @classmethod
    def random(cls, seed: int, **planted: Any) -> SimulatedStore:
        """A clean store drawn by ``seed``; then ``planted`` over it."""
        draw = random.Random(seed)
        link = draw.choice([10e9, 25e9, 100e9])
        bytes_s = link / 8 * draw.uniform(0.2, 0.7)
        rtt_s = math.exp(draw.uniform(math.log(100e-6), math.log(2e-3)))
        request_s = rtt_s + math.exp(draw.uniform(math.log(0.3e-3), math.log(4e-3)))
        connection = bytes_s / draw.uniform(4, 12)
        store = cls(
            seed=seed,
            request_s=request_s,
            # Some 16 small requests in flight are enough.
            requests_s=draw.uniform(8, 24) / request_s,
            bytes_s=bytes_s,
            link_bits_s=link,
            rtt_s=rtt_s,
            window_bytes=max(1e6, connection * rtt_s * draw.uniform(2, 4)),
            connection_bytes_s=connection,
            page_key_s=draw.uniform(0.5e-6, 5e-6),
            processors=draw.choice([8, 16, 32]),
            cpu_s=draw.uniform(0.02, 0.2) * request_s / 24,
            cpu_s_byte=draw.uniform(0.1, 0.4) / bytes_s,
            noise=draw.uniform(0.002, 0.015),
        )
        return replace(store, **planted)

    def without_cache(self) -> SimulatedStore:
        """It as it answers first reads."""
        factor = self.first_read
        return replace(
            self,
            first_read=1.0,
            request_s=self.rtt_s + factor * (self.request_s - self.rtt_s),
            requests_s=self.requests_s / factor,
            bytes_s=self.bytes_s / factor,
            connection_bytes_s=self.connection_bytes_s / factor,
        )

    @property
    def urls(self) -> str:
        """Its endpoints."""
        scheme = "https" if self.tls_bytes_s else "http"
        return ",".join(f"{scheme}://10.0.0.{2 + at}:9000" for at in range(len(self.endpoint_factors)))

    @property
    def link_bytes_s(self) -> float:
        """What the link leaves for payload."""
        return self.link_bits_s / 8 * 1460 / (1460 + HEADERS_BYTES - 12)


class SimulatedBucket(SimulatedHost):
    """A simulated machine with a bucket at a store."""

    def __init__(self, store: SimulatedStore | None = None) -> None:
        self.store = store or SimulatedStore()
        super().__init__(SimulatedMachine(seed=self.store.seed, threads=self.store.processors))

    def survey(self, path: Path | None = None) -> Machine:
        """The simulated machine with its interface."""
        nic = Nic("eth0", driver="simulated", virtual=False, bits_s=int(self.store.link_bits_s), mtu=1500, up=True)
        return replace(super().survey(path), nics=(nic,))

    def kernels(self) -> dict[str, Declaration]:
        """The declarations of the kernels that it simulates: this one as the engine declares it."""
        return super().kernels() | {KERNEL: Local().kernels()[KERNEL]}

    def read(self, kernel: str, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        """What one of its kernels returns of all of its parameters."""
        return self._requests(given, draw) if kernel == KERNEL else super().read(kernel, given, draw)

    def _requests(self, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        if given.get("visit") == "first" and self.store.first_read > 1:
            return SimulatedBucket(self.store.without_cache())._requests(given, draw)
        store, operation, in_flight = self.store, str(given["operation"]), int(given["concurrency"])
        moved = {"get": "object_size", "put": "object_size", "range": "range_size"}.get(operation)
        size = int(given[moved]) if moved else 0
        threads = min(int(given["client_threads"]), in_flight)
        first_s, transfer_s, keys = self._times(operation, size, int(given["objects"]), int(given["object_size"]))
        means = [(first_s + transfer_s) * factor for factor in store.endpoint_factors]
        alone_s = sum(means) / len(means)
        cost_s = store.cpu_s + (store.cpu_s_byte + (1 / store.tls_bytes_s if store.tls_bytes_s else 0.0)) * size
        by_processors = min(threads, store.processors) / cost_s
        limits = [store.requests_s, 0.97 * by_processors]
        if size:
            limits += [store.bytes_s / size, 0.985 * store.link_bytes_s / size]
        if self._is_cached(given):
            limits = [10 * limit for limit in limits[:1]] + limits[1:2] + [0.985 * store.link_bytes_s / max(1, size)]
        most = sum(limit**-CORNER for limit in limits) ** (-1 / CORNER)
        rate = float(((in_flight / alone_s) ** -CORNER + most**-CORNER) ** (-1 / CORNER))
        sent, rate = rate, min(rate, store.throttle_s or rate)
        level = noisy(store.noise, draw, 2.0)
        # Large objects take longer than a reading, so that whole ones are counted.
        runtime = max(float(given["runtime"]), 1000 / rate)
        rows = 10
        interval_s = runtime / rows
        rates = [rate * level * noisy(store.noise, draw, 2.0) for _ in range(rows)]
        counts = count_operations(rates, interval_s, self._limit_s(size, in_flight, by_processors))
        elapsed, count = rows * interval_s, sum(counts)
        mean_ns = in_flight / (count / elapsed) * 1e9 * (rate / sent)
        slower = mean_ns / (alone_s * 1e9)
        shares = dict(store.failing)
        if sent > 1.01 * rate:
            shares["503 SlowDown: the store sheds load"] = 1 - rate / sent
        failed = {says: round(count * share / (1 - share)) for says, share in shares.items()}
        connect = in_flight + round(count * store.closes) + sum(failed.values())
        did = stream(operation, count, count * size)
        did["latency_ns"] = {
            "total": latencies(count, mean_ns),
            "first_byte": latencies(count, first_s * 1e9 * slower if operation != "put" else 0.999 * mean_ns),
            "connect": latencies(connect, (2 * store.rtt_s) * 1e9),
        }
        cpu_s = count * cost_s
        return reading(
            elapsed,
            [did],
            (0.3 * cpu_s, 0.7 * cpu_s),
            in_flight=0.0 if given["rate"] else float(in_flight),
            samples={"interval_s": interval_s, "operations": [counts], "bytes": [[n * size for n in counts]]},
            faults=[{"operation": operation, "errno": 0, "says": says, "count": n} for says, n in failed.items() if n],
            details=self._details(operation, keys, connect, threads)
            | self._by_endpoint(count, sum(failed.values()), [mean * slower for mean in means]),
        )

    def _limit_s(self, size: int, in_flight: int, by_processors: float) -> float:
        """Requests a second that neither the link, nor the windows, nor the client's processors let by."""
        if not size:
            return by_processors
        store = self.store
        return min(by_processors, store.link_bytes_s / size, in_flight * store.window_bytes / store.rtt_s / size)

    def _is_cached(self, given: dict[str, Any]) -> bool:
        stored = int(given["objects"]) * int(given["object_size"])
        return given["operation"] in {"get", "range"} and stored <= self.store.cache_bytes

    def _times(self, operation: str, size: int, objects: int, object_size: int) -> tuple[float, float, int]:
        """Time to the first byte and from there on, s, of a request alone; and the keys of a page."""
        store, keys = self.store, 0
        first_s = store.request_s
        if operation in {"get", "range"} and objects * object_size <= store.cache_bytes:
            first_s = store.rtt_s + 0.1 * (first_s - store.rtt_s)
        if operation == "list":
            keys = min(1000, objects)
            first_s += store.page_s + keys * store.page_key_s
        rate = min(store.connection_bytes_s, store.window_bytes / store.rtt_s)
        return first_s, size / rate, keys

    def _details(self, operation: str, keys: int, connections: int, threads: int) -> dict[str, Any]:
        store = self.store
        is_limited = store.window_bytes / store.rtt_s < store.connection_bytes_s
        return {
            "loopback": False,
            "interface": "eth0",
            "interface_driver": "simulated",
            "interface_virtual": False,
            "interface_bits_s": store.link_bits_s,
            "interface_mtu_bytes": 1500,
            "connections_made": connections,
            "client_threads": threads,
            "rtt_mean_us": 1.1e6 * store.rtt_s,
            "rtt_min_us": 1e6 * store.rtt_s,
            "window_bytes": store.window_bytes,
            **({"receiver_limited_share": 0.9 if is_limited else 0.01} if operation == "put" else {}),
            **({"keys_a_page": keys} if operation == "list" else {}),
            **({"tls_suite": SUITE, "tls_bytes_cpu_s": store.tls_bytes_s} if store.tls_bytes_s else {}),
        }

    def _by_endpoint(self, count: int, failed: int, means: list[float]) -> dict[str, Any]:
        if len(means) < 2:
            return {}
        served = [1 / mean for mean in means]
        bad = self.store.failing_endpoint
        return {
            "endpoint_requests": [round(count * share / sum(served)) for share in served],
            "endpoint_failed": [failed * (at == bad) if bad >= 0 else failed // len(means) for at in range(len(means))],
            "endpoint_mean_ns": [round(mean * 1e9) for mean in means],
        }
