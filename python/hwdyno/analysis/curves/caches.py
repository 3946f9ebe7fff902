"""Finds the effective caches in a pointer chase: a cache ends where latency rises with the working set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hwdyno.model.words import Latency

REACH = 1
"""Points on each side that the running median takes: one outlier leaves no trace."""
SPAN = 0.5
"""Octaves over which the slope is taken."""
PROMINENCE = 0.4
"""A peak of the slope, in the logarithm an octave, with a smaller prominence is noise."""
MIN_POINTS = 6


@dataclass(frozen=True, slots=True)
class Edge:
    """The end of a cache, or of a TLB's reach."""

    size_bytes: float
    """Where the latency rises most, by the logarithm."""
    below_ns: float
    above_ns: float


def settled_ns(latency: Latency) -> float:
    """Undisturbed latency of a load: the median, or the mean where the median's 1 ns resolution is too coarse."""
    if latency.p50 is None:
        return latency.mean
    return max(latency.p50 - 1, min(latency.mean, latency.p50 + 1))


def quickest(pairs: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The least latency of each size, in their order: a size may be measured on two nodes, or with two strides."""
    found: dict[float, float] = {}
    for size, latency in pairs:
        if size > 0 < latency:
            found[size] = min(latency, found.get(size, latency))
    return sorted(found.items())


def find_edges(
    sizes: Sequence[float], latencies_ns: Sequence[float], prominence: float = PROMINENCE
) -> tuple[Edge, ...]:
    """The edges of a chase by working set: peaks of the derivative of the median-filtered log latency.

    ``prominence`` is that of a peak, in the logarithm an octave.
    """
    pairs = quickest(zip(sizes, latencies_ns, strict=True))
    if len(pairs) < MIN_POINTS:
        return ()
    from scipy.signal import find_peaks

    places = [math.log2(size) for size, _ in pairs]
    heights = _median([math.log(latency) for _, latency in pairs])
    slopes = [_slope(places, heights, at) for at in range(len(places))]
    peaks, _ = find_peaks([0.0, *slopes, 0.0], prominence=prominence, plateau_size=(None, None))
    tops = [int(peak) - 1 for peak in peaks]
    found = []
    for at in tops:
        # A level is where the slope is least on each side.
        left = min(range(max((t for t in tops if t < at), default=0), at + 1), key=lambda k: (slopes[k], -k))
        right = min(range(at, min((t for t in tops if t > at), default=len(slopes) - 1) + 1), key=lambda k: slopes[k])
        found.append(Edge(2 ** places[at], math.exp(heights[left]), math.exp(heights[right])))
    return tuple(found)


def _slope(places: Sequence[float], heights: Sequence[float], at: int) -> float:
    """Rise of the log latency an octave, over ``SPAN`` around a place or over its two neighbours."""
    near = [k for k, place in enumerate(places) if abs(place - places[at]) <= SPAN / 2 + 1e-9]
    low, high = min(near[0], max(0, at - 1)), max(near[-1], min(len(places) - 1, at + 1))
    return (heights[high] - heights[low]) / (places[high] - places[low])


def _median(values: list[float]) -> list[float]:
    kept = values[:]
    for at in range(REACH, len(values) - REACH):
        kept[at] = sorted(values[at - REACH : at + REACH + 1])[REACH]
    return kept
