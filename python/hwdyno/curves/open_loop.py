"""Fits the latency of an open loop, whose requests arrive at a given rate, to the queue G/G/m."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hwdyno.words import Value

LEAST_POINTS = 4
MOST_SERVERS = 256
NO_MODEL = 0.25
"""Above this rms error of the latency's logarithm the model does not fit."""
LEAST_VARIABILITY, MOST_VARIABILITY = 0.02, 16.0
LEAST_ERROR = 0.015
"""A mean latency is known no better than this, as a share: its requests wait for each other."""
OPEN = 1.22
"""A capacity is left open where fits as good as the best one span more than this factor."""
LIKELY = 3.84
"""Rise of the squared errors, in units of their variance, within a 95% interval of one parameter (Wilks 1938)."""


@dataclass(frozen=True)
class OpenLoop:
    """R = S + v C(m, r) S / (m - r) with r = rate x S: the mean latency of G/G/m (Allen & Cunneen).

    C is Erlang's chance of waiting in M/M/m (1917), and v = (ca^2 + cs^2) / 2 the variability of arrivals and service:
    1 for random arrivals and exponential service, 1/2 for constant service (Allen, Probability, Statistics and Queueing
    Theory, 1990, section 5.3.4; for one server it is Kingman's bound, 1961).
    """

    service_ns: float
    """S: the latency of a request that does not wait."""
    servers: int
    """m: how many are served at once."""
    error: float
    """Root mean square of the errors of ln R."""
    variability: float = 1.0
    """v."""
    low_s: float | None = None
    high_s: float | None = None
    """The interval of the capacity, over all counts of servers and variabilities that fit as well."""

    @classmethod
    def of(cls, parameters: Mapping[str, Value]) -> OpenLoop:
        """The model that a curve's parameters describe."""
        given = {name: value.value for name, value in parameters.items()}
        return cls(given["S"], round(given["m"]), 0.0, given.get("v", 1.0))

    @property
    def capacity_s(self) -> float:
        """Operations/s at which the wait is infinite: m / S."""
        return self.servers / self.service_ns * 1e9

    @property
    def left_open(self) -> bool:
        """Whether the points fit capacities that are too far apart to name one."""
        return self.low_s is not None and self.high_s is not None and self.high_s > OPEN * self.low_s

    def latency_ns(self, rate: float) -> float:
        """Mean latency at a rate, operations/s; infinite from the capacity on."""
        return mean_latency(rate, self.service_ns, self.servers, self.variability)


def mean_latency(rate: float, service_ns: float, servers: int, variability: float = 1.0) -> float:
    """Mean latency of G/G/m, ns; of M/M/m with a variability of 1."""
    offered = rate * service_ns / 1e9
    if offered >= servers:
        return math.inf
    blocked = 1.0  # Erlang B by its recursion, which never overflows
    for m in range(1, servers + 1):
        blocked = offered * blocked / (m + offered * blocked)
    waits = blocked / (1 - offered / servers * (1 - blocked))
    return service_ns * (1 + variability * waits / (servers - offered))


@lru_cache(maxsize=8)
def _waits(most: int) -> tuple[list[int], list[float], list[list[float]]]:
    """Counts of servers, shares of the capacity, and the wait of M/M/m there in service times."""
    counts = _counts(most)
    shares = [at / 200 for at in range(1, 200)]
    return counts, shares, [[mean_latency(share * m, 1e9, m) / 1e9 - 1 for share in shares] for m in counts]


def fit_open_loop(rates: Sequence[float], latencies_ns: Sequence[float]) -> OpenLoop | None:
    """The S, m and v that come nearest in log space; none for too few points, or where G/G/m does not fit.

    For each count of servers and each capacity on a grid, S and v are found by least squares of the relative errors, in
    which they are linear. The interval of the capacity holds all that fit nearly as well (profile likelihood).
    """
    import numpy as np

    pairs = [(rate, latency) for rate, latency in zip(rates, latencies_ns, strict=True) if rate > 0 and latency > 0]
    if len({rate for rate, _ in pairs}) < LEAST_POINTS:
        return None
    x, r = (np.array(column) for column in zip(*pairs, strict=True))
    counts, grid, table = _waits(MOST_SERVERS)
    # The busiest point lies at 5% to 99% of the capacity.
    busiest = np.concatenate((np.linspace(0.05, 0.9, 86), np.linspace(0.905, 0.99, 18)))
    shares = busiest[:, None] * (x / x.max())[None]
    best: tuple[float, float, int, float, float] | None = None
    errors = []
    for m, waits in zip(counts, table, strict=True):
        wait = np.interp(shares, grid, waits, left=0.0)
        # R = S (1 + v w), with S = share m / rate known by the capacity and m.
        service = busiest * m / x.max() * 1e9
        a = service[:, None] / r
        b = a * wait
        squares = (b * b).sum(axis=1)
        v = np.where(squares > 1e-18, (b * (1 - a)).sum(axis=1) / np.maximum(squares, 1e-18), 1.0)
        v = np.clip(v, LEAST_VARIABILITY, MOST_VARIABILITY)
        off = np.log(np.maximum(a + v[:, None] * b, 1e-12))
        error = (off * off).sum(axis=1)
        errors.append(error)
        at = int(error.argmin())
        if best is None or error[at] < best[0]:
            best = (float(error[at]), float(service[at]), m, float(v[at]), float(busiest[at]))
    assert best is not None
    rms = math.sqrt(best[0] / len(pairs))
    if rms > NO_MODEL:
        return None
    noise = max(best[0] / max(1, len(pairs) - 3), LEAST_ERROR**2)
    fits = busiest[np.min(errors, axis=0) <= best[0] + LIKELY * noise]
    top = float(x.max())
    return OpenLoop(best[1], best[2], rms, best[3], top / float(fits.max()), top / float(fits.min()))


def _counts(most: int) -> list[int]:
    """Servers to try: each up to 16, then about 10% apart."""
    counts = list(range(1, 17))
    while counts[-1] < most:
        counts.append(math.ceil(counts[-1] * 1.1))
    return counts
