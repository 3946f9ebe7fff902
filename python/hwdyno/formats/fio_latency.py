"""Merges fio's latency records without averaging percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hwdyno.model.histogram import Histogram
from hwdyno.model.units import amount_at, as_number, printed_number
from hwdyno.model.words import Latency

P999_MIN_COUNT = 10_000
Quantiles = tuple[tuple[float, float], ...]
"""Pairs of share (0 to 1) and latency in ns, ascending."""

# A larger bin in json+ cannot be a measured time: 2^53 ns are 104 days.
LONGEST_NS = 2.0**53


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """One kind of latency of one direction: exact moments, and the distribution as far as fio reports it."""

    count: float
    mean: float
    min: float
    max: float
    quantiles: Quantiles = ()
    histogram: Histogram | None = None

    def merge(self, other: LatencySummary) -> LatencySummary:
        """Merge two spreads; the distribution is kept if both have histograms or one is empty."""
        if not other.count:
            return self
        if not self.count:
            return other
        count = self.count + other.count
        histogram = self.histogram.merge(other.histogram) if self.histogram and other.histogram else None
        return LatencySummary(
            count=count,
            mean=self.mean * (self.count / count) + other.mean * (other.count / count),
            min=min(self.min, other.min),
            max=max(self.max, other.max),
            histogram=histogram,
        )

    def with_quantiles(self, quantiles: Quantiles) -> LatencySummary:
        """A copy with this distribution."""
        return replace(self, quantiles=quantiles, histogram=None)

    def with_shape(self, other: LatencySummary, shift: float) -> LatencySummary:
        """A copy with another's distribution, shifted by ``shift`` ns."""
        histogram = None
        if other.histogram is not None:
            histogram = Histogram()
            for at, count in other.histogram.buckets.items():
                low, width = Histogram.bounds(at)
                histogram.record(round(low + (width - 1) // 2 + shift), count)
        return replace(
            self, quantiles=tuple((share, value + shift) for share, value in other.quantiles), histogram=histogram
        )


def merge_records(rows: Iterable[Mapping[str, Any]], kind: str) -> LatencySummary:
    """Merge one kind (``slat``, ``clat``, ``lat``) over the records of equal jobs; fio 2 wrote it in µs."""
    merged = LatencySummary(0, 0, 0, 0)
    for row in rows:
        scale, record = (1.0, row.get(f"{kind}_ns")) if f"{kind}_ns" in row else (1e3, row.get(kind))
        if not isinstance(record, dict):
            continue
        count = amount_at(record, "N") or (amount_at(row, "total_ios") if amount_at(record, "mean") else 0)
        merged = merged.merge(
            LatencySummary(
                count=count,
                mean=amount_at(record, "mean") * scale,
                min=amount_at(record, "min") * scale,
                max=amount_at(record, "max") * scale,
                quantiles=_quantiles(record.get("percentile"), scale),
                histogram=_histogram(record.get("bins"), scale),
            )
        )
    return merged


def _pairs(table: object) -> list[tuple[float, float]]:
    """Keys and values of a table whose keys are numbers as text; other entries are ignored."""
    found = []
    for key, value in table.items() if isinstance(table, dict) else ():
        edge, count = printed_number(str(key)), as_number(value)
        if edge is not None and count is not None and edge >= 0 and count >= 0:
            found.append((edge, count))
    return sorted(found)


def _quantiles(table: object, scale: float) -> Quantiles:
    found = [(percent / 100, value * scale) for percent, value in _pairs(table) if percent <= 100 and value > 0]
    return tuple(found)


def _histogram(table: object, scale: float) -> Histogram | None:
    pairs = [(ns * scale, count) for ns, count in _pairs(table) if 0 < count < 2**53 and ns * scale < LONGEST_NS]
    if not pairs:
        return None
    histogram = Histogram()
    for ns, count in pairs:
        histogram.record(round(ns), int(count))
    return histogram


def coarse_quantiles(parts: Iterable[Mapping[str, Any]]) -> Quantiles:
    """Quantiles from fio's coarse distribution (shares below round latencies, over all directions): upper edges."""
    shares: dict[float, float] = {}
    total = 0.0
    for part in parts:
        weight = sum(
            amount_at(part[d], "total_ios") for d in ("read", "write", "trim") if isinstance(part.get(d), dict)
        )
        total += weight
        for key, unit_ns in (("latency_ns", 1.0), ("latency_us", 1e3), ("latency_ms", 1e6)):
            for edge, share in _pairs(part.get(key)):
                shares[edge * unit_ns] = shares.get(edge * unit_ns, 0.0) + share * weight
    whole = sum(shares.values())
    if not whole or not total or math.isinf(whole):
        return ()
    found, seen = [], 0.0
    for edge, share in sorted(shares.items()):
        seen += share / whole
        if share:
            found.append((min(seen, 1.0), edge))
    return tuple(found)


def latency_from_summary(spread: LatencySummary) -> Latency | None:
    """Convert to a ``Latency``, without percentiles where fio reports none; none where it measured nothing."""
    if spread.histogram is not None and spread.histogram.count:
        summary = spread.histogram.summary()
        # Bins are rounded; fio's mean and extremes are exact.
        return replace(summary, mean=spread.mean, min=spread.min, max=spread.max) if spread.count else summary
    if not spread.count:
        return None

    def at(share: float) -> float | None:
        if not spread.quantiles:
            return None
        return next((value for known, value in spread.quantiles if known >= share - 1e-9), spread.max)

    return Latency(
        mean=spread.mean,
        p50=at(0.5),
        p90=at(0.9),
        p99=at(0.99),
        p999=at(0.999) if spread.count >= P999_MIN_COUNT else None,
        min=spread.min,
        max=spread.max,
        count=int(spread.count),
    )
