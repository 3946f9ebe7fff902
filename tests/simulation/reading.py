"""What the readings of every simulated kernel are made of: noise, whole latencies, streams, and declarations."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hwdyno.model.axes import FIELD
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Axis, AxisKind, Declaration, UserError

# The shape of latencies: quantiles of a log-normal with sigma 0.25, as shares of the mean.
_SHAPE_BINS = 24
_SIGMA = 0.25


def _shape() -> tuple[float, ...]:
    """Mid-quantiles of the shape, by the logistic approximation of the normal quantile; mean 1."""
    raw = []
    for k in range(_SHAPE_BINS):
        u = (k + 0.5) / _SHAPE_BINS
        raw.append(math.exp(_SIGMA * math.log(u / (1 - u)) / 1.702))
    average = sum(raw) / len(raw)
    return tuple(value / average for value in raw)


_SHAPE = _shape()
LEVEL = (1.0,)
"""Parts of a latency, whose spread no one asks for."""


def noisy(noise: float, draw: random.Random, most: float = 3.0) -> float:
    """A factor about 1 with this standard deviation, cut at ``most`` of them."""
    return 1 + noise * max(-most, min(most, draw.gauss(0, 1)))


def count_operations(rates: Iterable[float], interval_s: float, limit_s: float = math.inf) -> list[int]:
    """Whole operations of each sample at its rate; noise carries none of them past a physical limit."""
    counts, done, left = list[int](), 0, 0.0
    for rate in rates:
        left += min(rate, limit_s) * interval_s
        counts.append(math.floor(left) - done)
        done += counts[-1]
    return counts


BURST_S = 0.02
"""Mean length of what a hypervisor takes at once: a few of its time slices."""


def left_by_the_hypervisor(share: float, rows: int, interval_s: float, draw: random.Random) -> list[float]:
    """What bursts that take this share of the time leave of each sample: they come by chance and last a while."""
    left = [1.0] * rows
    if share <= 0:
        return left
    begins_s = draw.expovariate(share / BURST_S)
    while begins_s < rows * interval_s:
        lasts_s = draw.expovariate(1 / BURST_S)
        for row in range(int(begins_s / interval_s), min(rows, int((begins_s + lasts_s) / interval_s) + 1)):
            within = min(begins_s + lasts_s, (row + 1) * interval_s) - max(begins_s, row * interval_s)
            left[row] = max(0.0, left[row] - within / interval_s)
        begins_s += lasts_s + draw.expovariate(share / BURST_S)
    return left


def latencies(count: int, mean_ns: float, shape: tuple[float, ...] = _SHAPE) -> dict[str, Any]:
    """A histogram of ``count`` latencies of a shape with this mean."""
    histogram = Histogram()
    per_share, remainder = divmod(count, len(shape))
    for k, share in enumerate(shape):
        # The odd ones out go to the middle, where they move the mean least.
        odd = 1 if abs(k - len(shape) // 2) * 2 < remainder else 0
        histogram.record(max(1, round(share * mean_ns)), per_share + odd)
    if histogram.count != count:
        histogram.record(max(1, round(mean_ns)), count - histogram.count)
    histogram.sum = round(mean_ns * count)
    return histogram.to_reading()


def stream(name: str, operations: int, moved_bytes: int = 0, flops: int = 0, **more: Any) -> dict[str, Any]:
    """What one direction did."""
    return {"name": name, "operations": operations, "bytes": moved_bytes, "flops": flops, "latency_ns": {}, **more}


def reading(
    elapsed_s: float,
    streams: Sequence[Mapping[str, Any]],
    cpu_s: tuple[float, float],
    in_flight: float,
    waits: Mapping[str, float] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A Reading without faults; ``cpu_s`` is the user's and the system's, ``in_flight`` the operations.

    ``waits`` is what is counted of the threads beside their CPU time.
    """
    return {
        "elapsed_s": elapsed_s,
        "streams": list(streams),
        "samples": {"interval_s": 0.0, "operations": [], "bytes": []},
        "cpu": {"user_s": cpu_s[0], "system_s": cpu_s[1], **(waits or {})},
        "concurrency_requested": in_flight,
        "counters": {},
        "faults": [],
        "notes": [],
        "details": {},
        "interrupted": False,
        **more,
    }


def parameter(name: str, kind: AxisKind, default: Any, unit: str = "", **more: Any) -> Axis:
    """The declaration of one parameter; of an axis that the field knows, its role and what its words mean besides."""
    known = replace(FIELD.get(name, Axis(name)), kind=kind, default=default, means=name)
    least, most, choices = more.get("min"), more.get("max"), tuple(more.get("choices", ()))
    return replace(known, unit=unit or known.unit, least=least, most=most, choices=choices)


def filled(kernel: str, declaration: Declaration, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a kernel uses: what is given, and its defaults for the rest; raises ``UserError`` for what it lacks."""
    known = {axis.name: axis.default for axis in declaration.axes}
    for name in given:
        if name not in known:
            raise UserError(f"{kernel} has no parameter '{name}'; it has: {', '.join(known)}")
    return {name: given[name] if given.get(name) is not None else value for name, value in known.items()}
