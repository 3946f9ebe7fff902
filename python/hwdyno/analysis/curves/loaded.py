"""Latency by bandwidth: what a load takes while other threads move bytes, with its fit and the load that it bears.

The load is what the traffic reached, in bytes/s, and not the pause that made it. The fit is that of an open queue,
R(X) = R0 + A u with u = X / (Xm - X): the wait of M/M/1 over one shared server (Kleinrock, Queueing Systems, 1975).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

BEARABLE = 1.2
"""A load is sustained while a load of memory takes under this multiple of its idle latency."""
IDLE_SHARE = 0.15
"""Share of the peak below which a latency counts as idle."""
MIN_INSIDE, INSIDE_SHARE = 8, 0.10
"""Minimum number of points between this share of the reached bandwidth and all of it."""
MIN_POINTS = 3
BASE_CYCLES = 15
"""Cycles of the traffic's loop beyond its pause: it moves 128 bytes in the pause and these."""
_STEPS, _MAX = 200, 3.0


@dataclass(frozen=True)
class Loaded:
    """A curve of latency by bandwidth."""

    idle_ns: float
    peak: float
    """The most that was reached, bytes/s."""
    sustained: float
    """The bandwidth up to which a load takes under ``BEARABLE`` times its idle latency, bytes/s."""
    sustained_ns: float
    crosses: bool
    """Whether any point takes longer than that."""
    top: float
    """Xm of the fit, bytes/s."""
    rest_ns: float
    """R0 of the fit."""
    wait_ns: float
    """A of the fit: how much a load waits at half of Xm."""

    def latency_ns(self, rate: float) -> float | None:
        """The fit's latency at a bandwidth; none from its limit on."""
        return self.rest_ns + self.wait_ns * rate / (self.top - rate) if rate < self.top else None


def loaded_curve(rates: Sequence[float], latencies_ns: Sequence[float]) -> Loaded | None:
    """The curve through bandwidths (bytes/s) with their mean latencies; none from too few points."""
    points = sorted((rate, ns) for rate, ns in zip(rates, latencies_ns, strict=True) if rate > 0 and ns > 0)
    if len(points) < MIN_POINTS:
        return None
    peak = points[-1][0]
    calm = [ns for rate, ns in points if rate <= IDLE_SHARE * peak] or [points[0][1]]
    idle_ns = min(calm)
    limit = BEARABLE * idle_ns
    # The last crossing upwards of points in order: one disturbed point below it crosses back.
    sustained, crosses = peak, False
    for (low, below), (high, above) in pairwise(points):
        if below <= limit < above:
            sustained, crosses = low + (high - low) * (limit - below) / (above - below), True
    if points[0][1] > limit and not crosses:
        sustained, crosses = points[0][0], True
    sustained_ns = limit if crosses else max(ns for _, ns in points)
    top, rest_ns, wait_ns = _fit_model(points, peak)
    return Loaded(idle_ns, peak, sustained, sustained_ns, crosses, top, rest_ns, wait_ns)


def _fit_model(points: Sequence[tuple[float, float]], peak: float) -> tuple[float, float, float]:
    """Xm, R0 and A with the least squared relative error: for each Xm the other two follow in closed form."""
    best = (math.inf, peak, points[0][1], 0.0)
    for step in range(1, _STEPS + 1):
        top = peak * _MAX ** (step / _STEPS)
        terms = [(rate / (top - rate), ns) for rate, ns in points]
        # Weighted by 1 / R^2: unknowns R0 and A of R = R0 + A u.
        ones = sum(1 / ns**2 for _, ns in terms)
        us = sum(u / ns**2 for u, ns in terms)
        squares = sum(u * u / ns**2 for u, ns in terms)
        value, both = sum(1 / ns for _, ns in terms), sum(u / ns for u, ns in terms)
        determinant = ones * squares - us * us
        if determinant <= 0:
            continue
        unloaded, wait = (value * squares - both * us) / determinant, (ones * both - us * value) / determinant
        if unloaded <= 0 or wait < 0:
            continue
        error = sum(((unloaded + wait * u) / ns - 1) ** 2 for u, ns in terms)
        best = min(best, (error, top, unloaded, wait))
    return best[1:]


def more_delays(delays: Sequence[float], rates: Sequence[float]) -> list[int]:
    """Pauses (cycles) to add, so that enough points are between a tenth of the reached bandwidth and all of it.

    Each halves the widest gap in bandwidth, by the law that bandwidth falls as one over the pause and 15 cycles.
    """
    known = sorted(zip(delays, rates, strict=True), reverse=True)
    peak = max(rates)
    added: list[int] = []
    while sum(rate >= INSIDE_SHARE * peak for _, rate in known) < MIN_INSIDE:
        gaps = []
        for (slow, low), (fast, high) in pairwise(known):
            between = round(2 / (1 / (slow + BASE_CYCLES) + 1 / (fast + BASE_CYCLES)) - BASE_CYCLES)
            middle = (low + high) / 2
            if fast < between < slow and middle >= INSIDE_SHARE * peak:
                gaps.append((high - low, between, middle))
        if not gaps:
            break
        _, between, middle = max(gaps)
        added.append(between)
        known = sorted([*known, (float(between), middle)], reverse=True)
    return added
