"""Histograms of many hosts as arrays: added up, and summarized."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hwdyno.model.histogram import ARRAYS, P999_MIN_COUNT, SUMMARIZED, Histogram
from hwdyno.model.words import Latency

_MANY = 1000
"""Buckets from which on arrays are quicker than adding one by one."""


def sum_histograms(readings: Sequence[tuple[Mapping[str, Any], int]]) -> Histogram:
    """The values of many histograms of the engine's JSON, each counted this many times.

    Raises ``ValueError`` if the buckets of one have another width.
    """
    if len(readings) == 1:
        reading, weight = readings[0]
        made = Histogram.from_reading(reading)
        return made if weight == 1 else made.times(weight)
    if wrong := next((reading for reading, _ in readings if reading["sub_bits"] != Histogram.SUB_BITS), None):
        raise ValueError(f"histogram with sub_bits {wrong['sub_bits']}; this version reads {Histogram.SUB_BITS}")
    if sum(len(reading["buckets"]) if "buckets" in reading else _MANY for reading, _ in readings) < _MANY:
        return _sum_few(readings)
    import numpy as np

    arrays = [_bucket_arrays(reading) for reading, _ in readings]
    weights = [counts * weight for (_, counts), (_, weight) in zip(arrays, readings, strict=True)]
    at = np.concatenate([indices for indices, _ in arrays]) if arrays else np.empty(0, np.int64)
    made = Histogram()
    if len(at):
        # Counts stay whole in a float up to 2^53, which is more than any run has operations.
        totals = np.bincount(at, np.concatenate(weights))
        there = np.nonzero(totals)[0]
        made.buckets = dict(zip(there.tolist(), totals[there].astype(np.int64).tolist(), strict=True))
    known = [(reading, weight) for reading, weight in readings if reading["count"]]
    made.count = sum(int(reading["count"]) * weight for reading, weight in known)
    made.sum = sum(int(reading["sum"]) * weight for reading, weight in known)
    made.min = min((int(reading["min"]) for reading, _ in known), default=0)
    made.max = max((int(reading["max"]) for reading, _ in known), default=0)
    return made


def _sum_few(readings: Sequence[tuple[Mapping[str, Any], int]]) -> Histogram:
    made = Histogram()
    for reading, weight in readings:
        values = Histogram.from_reading(reading)
        made.add(values if weight == 1 else values.times(weight))
    return made


def _bucket_arrays(reading: Mapping[str, Any]) -> tuple[Any, Any]:
    import numpy as np

    if ARRAYS in reading:
        found: tuple[Any, Any] = reading[ARRAYS]
        return found
    buckets = Histogram.from_reading(reading).buckets
    return np.fromiter(buckets, np.int64), np.fromiter(buckets.values(), np.int64)


def summarize_histograms(readings: Sequence[Mapping[str, Any]]) -> Latency | None:
    """Mean and percentiles of some of the engine's histograms together, without the histogram; none of nothing.

    As ``Histogram.summary`` gives them, and many times as quick.
    """
    import numpy as np

    if len(readings) > 1:
        whole = sum_histograms([(reading, 1) for reading in readings])
        return whole.summary(packed=False) if whole.count else None
    if not readings or not readings[0]["count"]:
        return None
    (reading,) = readings
    at, counts = _bucket_arrays(reading)
    count, least, most = (int(reading[name]) for name in ("count", "min", "max"))
    ranks = [min(max(math.ceil(share * count), 1), count) for share in SUMMARIZED]
    values = []
    for place in np.searchsorted(np.cumsum(counts), ranks).tolist():
        low, width = Histogram.bounds(int(at[min(place, len(at) - 1)]))
        values.append(min(max(low + (width - 1) // 2, least), most))
    p50, p90, p99, p999 = values
    return Latency(
        mean=int(reading["sum"]) / count, p50=p50, p90=p90, p99=p99, p999=p999 if count >= P999_MIN_COUNT else None,
        min=least, max=most, count=count,
    )  # fmt: skip
