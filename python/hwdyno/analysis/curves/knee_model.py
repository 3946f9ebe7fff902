"""The model of a throughput over its load: a rise, a ceiling, and a fall past a load."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hwdyno.analysis.curves.scalability import Interval

SHARPNESS = 6.0
"""How sharply the fall begins, by the logarithm of the load: within about a fifth of an octave."""
STEP, ENDLESS = 0.7, 50.0
"""Width of the fall in the load's logarithm: about an octave, down to a level, or for ever."""


@dataclass(frozen=True)
class Odd:
    """A point that is off the curve of all others."""

    at: int
    """Its index."""
    ratio: float
    """Measured over what the others' curve has there."""


@dataclass(frozen=True)
class Knee:
    """X(N) = Xm (1 + (N*^p - k) / N^p)^(-1/p), times a fall past a load Nd by its power -d.

    Where the load counts requests in flight, k is 1: X(1) = Xm / N* is exactly one over the latency of a request
    alone, and p = 1 is the exact throughput of balanced independent servers, N / (N + N* - 1) Xm (Gordon & Newell
    1967). p well above 1 is a hard knee (one shared queue). Elsewhere k is 0: X rises as N / R1 and tends to Xm, and
    with N a block size and p = 1 it is X = bs / (t0 + bs / B).
    """

    ceiling: Interval
    """The most that the curve reaches."""
    crossing: Interval
    """N*: where the rise would meet the ceiling, R1 times it."""
    p: Interval
    top: float
    """Xm: the ceiling, or what it would be without the fall."""
    r1: float
    """R1, in loads per unit of throughput."""
    gain: Interval
    """The ceiling over the throughput at the least load."""
    requests: bool = False
    fall: float = 0.0
    """d: past ``fall_load`` the throughput falls by this power of the load."""
    fall_load: float = math.inf
    width: float = ENDLESS
    """Width of the fall in the load's logarithm."""
    falls: float = 0.0
    """The weight of the evidence for a fall, 0 to 1 (Akaike weight)."""
    most: float = math.inf
    """The greatest load of the fit."""
    odd: Odd | None = None

    @property
    def peak_load(self) -> float:
        """Where the throughput is greatest; infinite where it never falls."""
        return self.fall_load if self.fall > 0 else math.inf

    @property
    def loss(self) -> float:
        """What the greatest load loses against the ceiling, as a share; 0 without a fall."""
        return max(0.0, 1 - self.at(self.most) / self.ceiling.value) if self.fall > 0 else 0.0

    def at(self, load: float) -> float:
        """Throughput at a load."""
        p, wide = self.p.value, self.r1 * self.top
        return knee_at(load, self.top, wide, p, self.requests, self.fall, self.fall_load, self.width)

    def with_best(self, best: float) -> Knee:
        """The knee where a point was measured at ``best``: what was measured can be had, so the ceiling is no lower.

        A peak between two points is the model's alone, so the interval of a ceiling above ``best`` reaches down to it.
        """
        value = self.ceiling.value
        if best <= value and not self.fall:
            return self
        higher, lower = max(1.0, best / value), min(1.0, best / value)

        def scale_interval(interval: Interval) -> Interval:
            return Interval(
                interval.value * higher, interval.low and interval.low * lower, interval.high and interval.high * higher
            )

        return replace(self, ceiling=scale_interval(self.ceiling), crossing=scale_interval(self.crossing))

    def within(self, level: Interval) -> Knee:
        """The knee whose ceiling is this level, as it was measured: its crossing is within the loads of the fit."""
        edges = [edge and min(edge, self.most) for edge in (self.crossing.low, self.crossing.high)]
        return replace(self, ceiling=level, crossing=Interval(min(self.crossing.value, self.most), *edges))

    def load_for(self, share: float) -> float:
        """The least load that reaches a share (below 1) of the most that the model reaches."""
        target = share * (self.at(self.fall_load) if self.fall > 0 else self.top)
        low, high = 1e-9, self.crossing.value
        while self.at(high) < target and high < 1e18:
            high *= 2
            if high > self.peak_load:
                high = self.peak_load
                break
        while high > low * (1 + 1e-12):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.at(middle) < target else (low, middle)
        return high


def knee_at(
    load: float,
    top: float,
    crossing: float,
    p: float,
    requests: bool = False,
    fall: float = 0.0,
    fall_load: float = math.inf,
    width: float = ENDLESS,
) -> float:
    """The model of ``Knee`` at a load, in the unit of ``top``."""
    if requests and crossing <= 1:
        below = 0.0
    else:
        log_a = p * math.log(crossing) + (math.log(-math.expm1(-p * math.log(crossing))) if requests else 0.0)
        below = _softplus(log_a - p * math.log(load)) / p
    if fall > 0:
        past = SHARPNESS * math.log(load / fall_load)
        below += fall * (_softplus(past) - _softplus(past - SHARPNESS * width)) / SHARPNESS
    return top * math.exp(-below)


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))
