"""One Reading out of those of several hosts: streams, histograms and samples stay whole, and counts add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hwdyno.analysis import estimates
from hwdyno.model.units import is_number

Reading = Mapping[str, Any]
MAX_ROWS = 1_000_000
"""Intervals before a host started, of which no samples are merged where there are more."""


def merge_readings(
    readings: Mapping[str, Reading],
    started_ns: Mapping[str, int],
    failures: Mapping[str, str],
    order: Sequence[str],
) -> dict[str, Any]:
    """The Reading of a site, by its hosts' Readings and when each started, by one clock.

    Every host's streams are listed, each with its whole histograms, so that percentiles are of all operations together.
    The timed region goes from the first start to the last end. ``hosts`` has each host's own Reading with its offset,
    or why there is none, in this ``order``.
    """
    first_ns = min(started_ns.values())
    offsets = {name: (at - first_ns) / 1e9 for name, at in started_ns.items()}
    every = list(readings.values())
    return {
        "kernel": every[0].get("kernel", ""),
        "parameters": every[0].get("parameters", {}),
        "elapsed_s": max(offsets[name] + float(reading.get("elapsed_s", 0.0)) for name, reading in readings.items()),
        "streams": [stream for reading in every for stream in reading.get("streams", ())],
        "samples": _samples(readings, offsets),
        "cpu": _sums(reading.get("cpu", {}) for reading in every),
        "concurrency_requested": sum(float(reading.get("concurrency_requested", 0.0)) for reading in every),
        "counters": _sums(reading.get("counters", {}) for reading in every),
        "faults": [fault for reading in every for fault in reading.get("faults", ())],
        "notes": [note for reading in every for note in reading.get("notes", ())],
        "details": _details([reading.get("details", {}) for reading in every]),
        "interrupted": False,
        "hosts": [
            {
                "host": name,
                "start_offset_s": offsets.get(name, 0.0),
                "failure": failures.get(name, ""),
                "reading": readings.get(name),
            }
            for name in order
        ],
    }


def _samples(readings: Mapping[str, Reading], offsets: Mapping[str, float]) -> dict[str, Any]:
    """Every host's rows of counts, each moved to its place after the first start."""
    intervals = [float(reading.get("samples", {}).get("interval_s") or 0.0) for reading in readings.values()]
    interval_s = min(intervals, default=0.0)
    before = {name: offset / interval_s for name, offset in offsets.items()} if interval_s > 0 else {}
    if not before or max(intervals) > interval_s or max(before.values()) > MAX_ROWS:
        return {"interval_s": 0.0, "operations": [], "bytes": []}
    rows: dict[str, list[list[int]]] = {"operations": [], "bytes": []}
    for name, reading in readings.items():
        idle = [0] * round(before[name])
        for counted, found in rows.items():
            found += [[*idle, *row] for row in reading["samples"].get(counted) or ()]
    return {"interval_s": interval_s, **rows}


def _sums(many: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for counts in many:
        for name, value in counts.items():
            if isinstance(value, int | float):
                found[name] = found.get(name, 0.0) + value
    return found


def _details(many: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A kernel's own figures: the mean of numbers, what holds for all hosts, and the first one's of others.

    A failed verification is kept.
    """
    found: dict[str, Any] = {}
    for name, value in many[0].items():
        values = [details[name] for details in many if name in details]
        if all(isinstance(part, bool) for part in values):
            found[name] = all(values)
        else:
            found[name] = estimates.mean(values) if all(map(is_number, values)) else value
    if any(details.get("verification") == "failed" for details in many):
        found["verification"] = "failed"
    return found
