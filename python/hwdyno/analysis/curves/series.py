"""The points of one curve as numbers: loads, amounts, their errors, and the intervals between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hwdyno.analysis.curves.open_loop import LatencySpread
from hwdyno.analysis.estimates import POOLED_FREEDOM, t_quantile
from hwdyno.model.words import Axis, ExperimentResult, Measurement, OperatingPoint, Value

SMALLEST_DELAY = {"s": 1e-9}
"""The value used for a delay of 0, by unit; 1 for any other unit, such as cycles."""


BITS = 8


def read_load(point: Measurement, axis: Axis) -> float:
    """The load at a point; of a delay the rate that it offers, one over it."""
    load = float(point.parameters[axis.name])  # type: ignore[arg-type]
    return 1 / max(load / _smallest(axis), 1.0) if axis.role == "delay" else load


def _smallest(axis: Axis) -> float:
    return SMALLEST_DELAY.get(axis.unit, 1.0)


def curve_value(point: Measurement, result: ExperimentResult) -> Value:
    """What a point's curve has on its other axis."""
    return point.rate if result.metric == "rate" and point.rate else point.throughput


def read_amount(point: Measurement, result: ExperimentResult) -> float:
    """The amount that a curve is fitted to, in the unit of the experiment's throughput."""
    return curve_value(point, result).value


def relative_error(value: Value, repeats: int) -> float | None:
    """The standard error as a share, from the 95% interval of this many repeats."""
    if value.low is None or value.high is None or value.value <= 0:
        return None
    # Of two repeats the interval comes from other points' repeats too.
    degrees = 30 if repeats < 2 else POOLED_FREEDOM + 1 if repeats == 2 else repeats - 1
    return (value.high - value.low) / 2 / t_quantile(degrees) / value.value


@dataclass(frozen=True)
class Series:
    """One curve's points in order of load, ready to be fitted."""

    indices: tuple[int, ...]
    loads: tuple[float, ...]
    values: tuple[Value, ...]
    latencies: tuple[float | None, ...]
    """Mean latency, ns."""
    tails: tuple[float | None, ...]
    """p99, ns."""
    axis: Axis
    spreads: tuple[LatencySpread | None, ...]
    """How far the latencies spread, in an open loop."""
    arrivals: float | None
    """The squared coefficient of variation of the time between requests, in an open loop where it is known."""
    operation: float
    """Throughput over operations a second: bytes an operation, for bytes/s; 1 where that is unknown."""
    errors: tuple[float, ...] = ()
    """Each point's standard error, a share; none where one is not known."""

    @property
    def amounts(self) -> list[float]:
        """The amounts of the points, in the order of their loads."""
        return [value.value for value in self.values]

    def noise(self, first: int, second: int) -> float:
        """The noise of the ratio of two points (95%), a share; 0 where it is unknown."""
        return t_quantile(30) * math.hypot(self.errors[first], self.errors[second]) if self.errors else 0.0

    def point(self, load: float, amount: float | None = None, note: str = "") -> OperatingPoint:
        """The place at a load: measured, or read between the points (straight lines in log-log)."""
        for at, known in enumerate(self.loads):
            if known == load and amount is None:
                return OperatingPoint(
                    self.as_given(load), self.values[at].value, self.latencies[at], measured=True, note=note
                )
        return OperatingPoint(self.as_given(load), amount or 0.0, self.latency_at(load), measured=False, note=note)

    def as_given(self, load: float) -> float:
        """A load as its axis has it."""
        if self.axis.role != "delay":
            return load
        return 0.0 if load >= 1 else round(1 / load, 1) * _smallest(self.axis)

    def offered_rate(self, load: float) -> float:
        """Operations a second that a rate offers, whichever unit it has."""
        if self.axis.unit.startswith(("B", "bytes")):
            return load / self.operation
        return load / BITS / self.operation if self.axis.unit.startswith("bit") else load

    def latency_at(self, load: float) -> float | None:
        """The latency at a load, between those that were measured, ns; none where no point has one."""
        known = [(n, r) for n, r in zip(self.loads, self.latencies, strict=True) if r]
        return interpolate(known, load)


def interpolate(known: Sequence[tuple[float, float]], load: float) -> float | None:
    """Interpolates in log-log; the nearest end outside; none without points."""
    if not known:
        return None
    if load <= known[0][0]:
        return known[0][1]
    for (low, a), (high, b) in pairwise(known):
        if low <= load <= high:
            share = math.log(load / low) / math.log(high / low)
            return math.exp(math.log(a) * (1 - share) + math.log(b) * share)
    return known[-1][1]
