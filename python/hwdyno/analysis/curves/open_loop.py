"""Fits the latency of an open loop, whose requests arrive at a given rate, to the queue G/G/m."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

OF_OPERATIONS = {"", "operations/s", "1/s"}
"""Units of a rate that counts requests."""
MIN_POINTS = 4
MAX_SERVERS = 1024
"""Largest number of servers: vLLM's max_num_seqs is up to 1024; a drive or a pool has fewer."""
NO_MODEL = 0.25
"""The rms error of the latency's logarithm above which the model does not fit."""
MIN_VARIABILITY, MAX_VARIABILITY = 0.02, 16.0
KNOWN_WITHIN = 0.15
"""How well the formula's variability holds where those of arrivals and service are known, as a share."""
MODEL_ERROR = 0.01
"""Relative error of the capacity where the formula is an approximation, beyond the noise."""
SPREAD_WITHIN = 0.25
"""The same for how far waits spread."""
MAX_OFF = 3.0
"""A point's spread counts for no more standard errors: a device also stalls for reasons outside of the model."""
MIN_ERROR = 0.015
"""A mean latency is known no better than this, as a share: its requests wait for each other."""
OPEN = 1.5
"""A capacity is left open where fits as good as the best one span more than this factor."""
OPEN_EVEN = 1.21
"""The same of arrivals that are evener than random: the formula is off by more there, and an answer has less room."""
NEXT_STEP = 1.25
"""What to measure next beside the highest rate that was served, where the capacity is open: from 70% this is 88%."""
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
    arrivals: float | None = None
    """ca^2, where it is known: arrivals that are evener than random (below 1) wait for less than the formula says."""
    low_s: float | None = None
    high_s: float | None = None
    """The interval of the capacity, over all counts of servers and variabilities that fit as well."""

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Value]) -> OpenLoop:
        """The model that a curve's parameters describe."""
        given = {name: value.value for name, value in parameters.items()}
        return cls(given["S"], round(given["m"]), 0.0, given.get("v", 1.0), given.get("a"))

    @property
    def capacity_s(self) -> float:
        """Operations/s at which the wait is infinite: m / S."""
        return self.servers / self.service_ns * 1e9

    @property
    def left_open(self) -> bool:
        """Whether the points fit capacities that are too far apart to name one."""
        most = OPEN if self.arrivals is None or self.arrivals >= 1 else OPEN_EVEN
        return self.low_s is not None and self.high_s is not None and self.high_s > most * self.low_s

    def latency_ns(self, rate: float) -> float:
        """Mean latency at a rate, operations/s; infinite from the capacity on."""
        plain = mean_latency(rate, self.service_ns, self.servers, self.variability)
        share = rate / self.capacity_s
        if self.arrivals is None or share <= 0:
            return plain
        return self.service_ns + (plain - self.service_ns) * float(evenness(share, self.arrivals, self.variability))


def next_rate(served: float, missed: float | None = None) -> float:
    """The rate to measure next where the capacity is open: above the highest ``served``, below the least ``missed``.

    More of it waits there, and it takes no rate that queues up without end to know.
    """
    step = NEXT_STEP * served
    return step if missed is None or step < missed else math.sqrt(served * missed)


def evenness(shares: Array | float, arrivals: float, variability: float) -> Array | float:
    """The share of the formula's wait that is left where arrivals are evener than random; 1 where they are not.

    exp(-2 (1 - r) (1 - ca^2)^2 / (3 r (ca^2 + cs^2))) (Kraemer & Langenbach-Belz, ITC 8, 1976), with 2 v = ca^2 + cs^2.
    """
    import numpy as np

    if arrivals >= 1:
        return 1.0
    return np.exp(-(1 - shares) * (1 - arrivals) ** 2 / (3 * shares * variability))


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


@dataclass(frozen=True)
class LatencySpread:
    """How far a point's latencies spread."""

    squared: float
    """Their squared coefficient of variation."""
    error: float
    """Its standard error."""

    @classmethod
    def from_histogram(cls, latencies: Histogram) -> LatencySpread | None:
        """The spread by the second and fourth moments; none for no latencies."""
        second, fourth = latencies.moment(2), latencies.moment(4)
        if latencies.mean <= 0:
            return None
        error = math.sqrt(max(0.0, fourth - second**2) / latencies.count)
        return cls(second / latencies.mean**2, error / latencies.mean**2)


def fit_open_loop(
    rates: Sequence[float],
    latencies_ns: Sequence[float],
    arrivals: float | None = None,
    spreads: Sequence[LatencySpread | None] = (),
) -> OpenLoop | None:
    """The S, m and v that come nearest in log space; none for too few points, or where G/G/m does not fit.

    For each count of servers and each capacity on a grid, S and v are found by least squares of the relative errors, in
    which they are linear. Where the squared coefficient of variation of the time between ``arrivals`` is known, and
    how far latencies spread, those at the least rate tell v (within a share: for several servers the model is an
    approximation), and those at all rates how many wait: some wait long, exponentially (Kingman 1962), others not at
    all. The interval of the capacity holds all that fit nearly as well (profile likelihood).
    """
    import numpy as np

    given = list(spreads) or [None] * len(rates)
    points = [point for point in zip(rates, latencies_ns, given, strict=True) if point[0] > 0 and point[1] > 0]
    if len({rate for rate, *_ in points}) < MIN_POINTS:
        return None
    x, r = np.array([rate for rate, *_ in points]), np.array([latency for _, latency, _ in points])
    first = min(points, key=lambda point: point[0])[2]
    known = 0.0 if arrivals is None or first is None else max((arrivals + first.squared) / 2, MIN_VARIABILITY)
    pull = MIN_ERROR**2 / (KNOWN_WITHIN * known) ** 2 if known else 0.0
    counts, grid, table = _waits(MAX_SERVERS)
    # The busiest point is at 5% to 99% of the capacity.
    busiest = np.concatenate((np.linspace(0.05, 0.9, 86), np.linspace(0.905, 0.99, 18)))
    shares = busiest[:, None] * (x / x.max())[None]
    best: tuple[float, float, int, float, float] | None = None
    errors = []
    for m, waits in zip(counts, table, strict=True):
        wait = np.interp(shares, grid, waits, left=0.0)
        if known and arrivals is not None:
            wait *= evenness(shares, arrivals, known)
        # R = S (1 + v w), with S = share m / rate known by the capacity and m.
        service = busiest * m / x.max() * 1e9
        a = service[:, None] / r
        b = a * wait
        squares = (b * b).sum(axis=1) + pull
        v = np.where(squares > 1e-18, ((b * (1 - a)).sum(axis=1) + pull * known) / np.maximum(squares, 1e-18), 1.0)
        v = np.clip(v, MIN_VARIABILITY, MAX_VARIABILITY)
        off = np.log(np.maximum(a + v[:, None] * b, 1e-12))
        error = (off * off).sum(axis=1) + pull * (v - known) ** 2
        if known and first is not None:
            error += MIN_ERROR**2 * _spread_off(m, shares, wait, v[:, None], first, [spread for *_, spread in points])
        errors.append(error)
        at = int(error.argmin())
        if best is None or error[at] < best[0]:
            best = (float(error[at]), float(service[at]), m, float(v[at]), float(busiest[at]))
    assert best is not None
    rms = math.sqrt(best[0] / len(points))
    if rms > NO_MODEL:
        return None
    noise = max(best[0] / (len(points) - 3), MIN_ERROR**2)
    fits = np.flatnonzero(np.min(errors, axis=0) <= best[0] + LIKELY * noise)
    # The edge of what fits is between two capacities of the grid.
    low, high = busiest[min(fits[-1] + 1, len(busiest) - 1)], busiest[max(fits[0] - 1, 0)]
    least, most = float(x.max()) / float(low), float(x.max()) / float(high)
    given_arrivals = arrivals if known else None
    return OpenLoop(best[1], best[2], rms, best[3], given_arrivals, least * (1 - MODEL_ERROR), most * (1 + MODEL_ERROR))


def _spread_off(
    m: int, shares: Array, wait: Array, v: Array, least: LatencySpread, spreads: Sequence[LatencySpread | None]
) -> Array:
    """How far latencies spread otherwise than the model has it: the sum of squares in standard errors, by capacity."""
    import numpy as np

    known = [at for at, spread in enumerate(spreads) if spread is not None and spread is not least]
    # All waits over those that wait: v / (m (1 - r)), in service times.
    mean = v * wait
    mean_if_waiting = v / (m * (1 - shares))
    of_waits = mean * (2 * mean_if_waiting - mean)
    first = spreads.index(least)
    served = least.squared * (1 + mean[:, first : first + 1]) ** 2 - of_waits[:, first : first + 1]
    expected = (np.maximum(served, 0.0) + of_waits) / (1 + mean) ** 2
    found = np.array([spread.squared for spread in spreads if spread is not None and spread is not least])
    sure = np.array(
        [spread.error**2 + least.error**2 for spread in spreads if spread is not None and spread is not least]
    )
    scale = sure[None] + (SPREAD_WITHIN * of_waits[:, known] / (1 + mean[:, known]) ** 2) ** 2 + 1e-12
    off = np.minimum((found[None] - expected[:, known]) ** 2 / scale, MAX_OFF**2)
    return np.asarray(off.sum(axis=1))


def _counts(most: int) -> list[int]:
    """Servers to try: each up to 16, then about 10% apart."""
    counts = list(range(1, 17))
    while counts[-1] < most:
        counts.append(math.ceil(counts[-1] * 1.1))
    return counts
