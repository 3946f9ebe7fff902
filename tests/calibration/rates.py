"""Open loops by discrete events: requests that arrive even while none is served, at servers of known capacity."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hwdyno.analysis.curves import CAPACITY, fit_curves
from hwdyno.analysis.curves.open_loop import next_rate
from hwdyno.model.axes import with_field_axes
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Curve, ExperimentResult, Latency, Measurement, Value
from numpy.random import Generator
from numpy.typing import NDArray

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Rates that are tried, as shares of the capacity."""
REQUESTS = 20_000
"""A point's; a second at 20,000 requests a second."""
WITHIN = 0.10
SERVICES: dict[str, Callable[[Generator, int], NDArray[np.float64]]] = {
    "exponential": lambda draw, count: draw.exponential(1.0, count),
    "constant": lambda draw, count: np.ones(count),
    # Two phases with balanced means: a squared coefficient of variation of 4.
    "bursty": lambda draw, count: draw.exponential(1.0, count) * np.where(draw.random(count) < 0.8873, 0.5635, 4.4365),
}
"""Service times with mean 1."""


@dataclass
class RateScore:
    """How the capacity of one kind of server was read."""

    loops: int = 0
    within: int = 0
    open: int = 0
    """Loops whose data were found to leave it open."""
    answered: int = 0
    """Those of them that have an answer with one more point, at the rate that is advised."""
    settled: int = 0
    """Those whose answer is within then."""
    fits: int = 0
    """Loops whose best fit is within, also where it was left open."""
    off: list[float] = field(default_factory=list)


def latencies(share: float, servers: int, service: str, random_arrivals: bool, draw: Generator) -> NDArray[np.float64]:
    """Latencies, in mean service times, of requests that are served in the order of their arrival."""
    count = REQUESTS
    gaps = draw.exponential(1.0, count) if random_arrivals else np.ones(count)
    arrivals = np.cumsum(gaps) / (share * servers)
    times = SERVICES[service](draw, count)
    free = [0.0] * servers
    ends = []
    for arrival, time in zip(arrivals.tolist(), times.tolist(), strict=True):
        end = max(arrival, free[0]) + time
        heapq.heapreplace(free, end)
        ends.append(end)
    return np.asarray(ends) - arrivals


@dataclass
class Loop:
    """An open loop whose capacity is known, and the points that were measured of it."""

    service: str
    draw: Generator
    random_arrivals: bool = True
    points: list[Measurement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.servers = round(math.exp(self.draw.uniform(0, math.log(32))))
        self.service_s = math.exp(self.draw.uniform(math.log(1e-5), math.log(1e-3)))

    @property
    def capacity(self) -> float:
        """Operations/s."""
        return self.servers / self.service_s

    def measure(self, share: float) -> None:
        """One more point, at a share of the capacity."""
        found = latencies(share, self.servers, self.service, self.random_arrivals, self.draw) * self.service_s * 1e9
        found *= math.exp(0.01 * self.draw.standard_normal())
        summary = Histogram.from_values(found.tolist()).summary()
        self.points.append(
            _point(share * self.capacity, min(1.0, share) * self.capacity, summary, self.random_arrivals)
        )

    def curve(self) -> Curve:
        """The curve of the points."""
        points = tuple(sorted(self.points, key=lambda point: float(str(point.parameters["rate"]))))
        return fit_curves(with_field_axes(ExperimentResult("storage.rate", "storage", "", "rate", "", points)))[0]


def _point(rate: float, reached: float, latency: Latency, random_arrivals: bool) -> Measurement:
    return Measurement(
        parameters={"rate": rate, "rate_process": "poisson" if random_arrivals else "linear"},
        throughput=Value(reached, "operations/s", 0.99 * reached, 1.01 * reached),
        rate=None,
        latency_ns=latency,
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=None,
        cpu_system_s=None,
        elapsed_s=1.0,
        operations=REQUESTS,
        bytes=0,
        repeats=3,
    )


def score(service: str, most: float, loops: int, *, random_arrivals: bool = True, seed: int = 0) -> RateScore:
    """Reads this many open loops with one kind of service, tried up to a share of their capacity."""
    found = RateScore()
    for number in range(loops):
        draw = np.random.default_rng((seed, sum(service.encode()), round(100 * most), number))
        loop = Loop(service, draw, random_arrivals)
        shares = [share for share in SHARES if share <= most + 1e-9]
        for share in shares:
            loop.measure(share)
        curve, capacity = loop.curve(), loop.capacity
        found.loops += 1
        fitted = curve.parameters.get(CAPACITY)
        found.fits += fitted is not None and abs(fitted.value / capacity - 1) <= WITHIN
        if curve.ceiling is None:
            found.open += 1
            if (more := next_rate(shares[-1])) < 1:
                loop.measure(more)
                answered = loop.curve().ceiling
                found.answered += answered is not None
                found.settled += answered is not None and abs(answered.value / capacity - 1) <= WITHIN
            continue
        off = curve.ceiling.value / capacity - 1
        found.off.append(off)
        found.within += abs(off) <= WITHIN
    return found
