"""Fits the latency of an open loop, whose requests arrive at a given rate, to the queue M/M/m."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_POINTS = 4
MOST_SERVERS = 256
NO_MODEL = 0.25
"""Above this rms error of the latency's logarithm the model does not fit."""


@dataclass(frozen=True)
class OpenLoop:
    """R = S + C(m, r) S / (m - r) with r = rate x S: the mean latency of M/M/m (Erlang 1917)."""

    service_ns: float
    """S: the latency of a request that does not wait."""
    servers: int
    """m: how many are served at once."""
    error: float
    """Root mean square of the errors of ln R."""

    @property
    def capacity_s(self) -> float:
        """Operations/s at which the wait is infinite: m / S."""
        return self.servers / self.service_ns * 1e9

    def latency_ns(self, rate: float) -> float:
        """Mean latency at a rate, operations/s; infinite from the capacity on."""
        return mean_latency(rate, self.service_ns, self.servers)


def mean_latency(rate: float, service_ns: float, servers: int) -> float:
    """Mean latency of M/M/m, ns."""
    offered = rate * service_ns / 1e9
    if offered >= servers:
        return math.inf
    blocked = 1.0  # Erlang B by its recursion, which never overflows
    for m in range(1, servers + 1):
        blocked = offered * blocked / (m + offered * blocked)
    waits = blocked / (1 - offered / servers * (1 - blocked))
    return service_ns * (1 + waits / (servers - offered))


def fit_open_loop(rates: Sequence[float], latencies_ns: Sequence[float]) -> OpenLoop | None:
    """The S and m that come nearest in log space; none for too few points, or where M/M/m does not fit."""
    pairs = [(rate, latency) for rate, latency in zip(rates, latencies_ns, strict=True) if rate > 0 and latency > 0]
    if len({rate for rate, _ in pairs}) < LEAST_POINTS:
        return None
    fits = (_fit_service(pairs, servers) for servers in _counts())
    best = min(fits, key=lambda fit: fit.error)
    return best if best.error <= NO_MODEL else None


def _counts() -> list[int]:
    """Servers to try: each up to 16, then about 10% apart."""
    counts = list(range(1, 17))
    while counts[-1] < MOST_SERVERS:
        counts.append(math.ceil(counts[-1] * 1.1))
    return counts


def _fit_service(pairs: Sequence[tuple[float, float]], servers: int) -> OpenLoop:
    """The best S for so many servers; the error has one minimum in ln S (golden section, Kiefer 1953)."""
    most_s = min(servers / max(rate for rate, _ in pairs) * 1e9, max(latency for _, latency in pairs))
    low, high = math.log(most_s * 1e-3), math.log(most_s * (1 - 1e-9))

    def error(log_s: float) -> float:
        squares = 0.0
        for rate, latency in pairs:
            modelled = mean_latency(rate, math.exp(log_s), servers)
            squares += math.log(modelled / latency) ** 2 if math.isfinite(modelled) else 1e6
        return math.sqrt(squares / len(pairs))

    golden = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        step = golden * (high - low)
        if error(high - step) <= error(low + step):
            high = low + step
        else:
            low = high - step
    found = (low + high) / 2
    return OpenLoop(math.exp(found), servers, error(found))
