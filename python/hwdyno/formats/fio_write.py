"""Writes a Run's storage points as fio's JSON (``json`` and ``json+``), for tools that read it.

The fields are those of fio 3 (its manual, "Interpreting the output"): bandwidth ``bw`` in KiB/s, ``bw_bytes`` in
bytes/s, times of a job in ms, latencies in ns. What hwdyno does not measure is 0, as in fio.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from hwdyno.formats import fio_log
from hwdyno.formats.fio_job_options import options_from_point
from hwdyno.formats.fio_log import Logs
from hwdyno.formats.fio_options import KERNEL
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Latency, Measurement, Parameters, Run, Stream, UserError
from hwdyno.system import output_files

# fio's default percentile_list (its manual).
PERCENTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
KINDS = (("slat_ns", "submit"), ("clat_ns", "complete"), ("lat_ns", "total"))
_EDGES = {
    "latency_ns": (1.0, (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)),
    "latency_us": (1e3, (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)),
    "latency_ms": (1e6, (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000)),
}


def format_run(run: Run, *, plus: bool = False) -> str:
    """The document as text, with all histogram bins if ``plus``. Raises ``UserError`` without points."""
    return json.dumps(make_document(run, plus=plus), indent=2) + "\n"


def make_document(run: Run, *, plus: bool = False) -> dict[str, Any]:
    """The document; see ``format_run``."""
    ended = _time(run.finished or run.started)
    points = [(given, point) for _, _, point, given in run.measured_points(KERNEL)]
    if not points:
        raise UserError(f"{run.id} has no storage points to write as fio JSON")
    return {
        # Readers take the number after the dash as fio's version; the rest names the writer.
        "fio version": f"fio-3.33-hwdyno-{run.version or '0'}",
        "timestamp": int(ended.timestamp()),
        "timestamp_ms": int(ended.timestamp() * 1000),
        "time": ended.strftime("%a %b %e %H:%M:%S %Y"),
        "global options": {},
        "jobs": [_job(group, shared, point, plus) for group, (shared, point) in enumerate(points)],
        "disk_util": _disks(run, [point for _, point in points]),
    }


def _disks(run: Run, points: list[Measurement]) -> list[dict[str, Any]]:
    """The disks by name; a single one with what the system counted there while the points ran."""
    made: list[dict[str, Any]] = [{"name": disk.name} for disk in run.machine.storage.disks if disk.name]
    counters = [point.counters for point in points if point.streams]
    if len(made) == 1 and all("device_read_operations" in snapshot for snapshot in counters):
        for name, ours in (("ios", "operations"), ("merges", "merges")):
            for direction in ("read", "write"):
                total = sum(snapshot.get(f"device_{direction}_{ours}", 0.0) for snapshot in counters)
                made[0][f"{direction}_{name}"] = round(total)
    return made


def write_directory(run: Run, directory: Path, *, overwrite: bool = False) -> list[Path]:
    """Write one document per point, and its threads' logs, under the names that fio-plot looks for.

    Raises ``UserError`` if the directory is not writable, or if two points would have the same name.
    """
    made: dict[str, str] = {}
    for experiment, _, point, shared in run.measured_points(KERNEL):
        alone = replace(run, experiments=(replace(experiment, points=(point,)),))
        depth, jobs = int(shared.get("iodepth") or 1), int(shared.get("numjobs") or 1)
        stem = f"{shared.get('rw')}-iodepth-{depth}-numjobs-{jobs}"
        if f"{stem}.json" in made:
            stem = f"{stem}-{len(made)}"
        made[f"{stem}.json"] = format_run(alone, plus=True)
        logs = Logs(bw=stem, iops=stem, lat=stem)
        made |= dict(fio_log.files(logs, point.details.get("logs") or [], 1))
    output_files.output_folder(directory)
    for name in made:
        output_files.check_output(directory / name, overwrite=overwrite)
    for name, text in made.items():
        output_files.write_output(directory / name, text.encode(), overwrite=overwrite)
    return [directory / name for name in made]


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromtimestamp(0).astimezone()


def _job(group: int, parameters: Parameters, point: Measurement, plus: bool) -> dict[str, Any]:
    elapsed_ms = round(point.elapsed_s * 1000)
    streams = {stream.name: stream for stream in point.streams}

    def share(seconds: float | None) -> float:
        jobs = max(1, int(parameters.get("numjobs") or 1))
        return 100 * (seconds or 0.0) / point.elapsed_s / jobs if point.elapsed_s else 0.0

    error = next((fault.errno for fault in point.faults if fault.errno), 5 if point.faults else 0)
    depth = int(parameters.get("iodepth") or 1)
    only = len(point.streams) == 1
    steady = _steady(point)
    return {
        **({"steadystate": steady} if steady else {}),
        "jobname": str(parameters.get("job") or f"point{group + 1}"),
        "groupid": group,
        "error": error,
        "total_err": sum(fault.count for fault in point.faults),
        "eta": 0,
        "elapsed": math.ceil(point.elapsed_s),
        "job options": options_from_point(parameters),
        **{name: _direction(streams.get(name), point, plus, only) for name in ("read", "write", "trim")},
        "sync": {"total_ios": int(point.details.get("sync_count", 0)), "lat_ns": _latency(None, plus)},
        "job_runtime": elapsed_ms * max(1, int(parameters.get("numjobs") or 1)),
        "usr_cpu": share(point.cpu_user_s),
        "sys_cpu": share(point.cpu_system_s),
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        **{
            name: _depths(depth, zero)
            for name, zero in (("iodepth_level", False), ("iodepth_submit", True), ("iodepth_complete", True))
        },
        **_shares(point),
        **_latency_search(point, depth),
    }


def _latency_search(point: Measurement, depth: int) -> dict[str, Any]:
    """fio's record of a latency-target depth search; target and window in µs."""
    found = point.details.get("latency_target")
    if not isinstance(found, dict):
        return {"latency_depth": depth, "latency_target": 0, "latency_percentile": 100.0, "latency_window": 0}
    return {
        "latency_depth": found["depth"],
        "latency_target": round(found["latency_ns"] / 1000),
        "latency_percentile": found["percentile"],
        "latency_window": round(found["window_ns"] / 1000),
    }


def _steady(point: Measurement) -> dict[str, Any]:
    """fio's record of a steady-state criterion; empty without one."""
    found = point.details.get("steadystate")
    if not isinstance(found, dict):
        return {}
    percent = str(found["criterion"]).endswith("%")
    return {
        "ss": found["criterion"],
        "duration": round(found["duration_s"]),
        "attained": int(found["attained"]),
        "criterion": f"{found['value']:f}%" if percent else found["value"],
        "max_deviation": found["max_deviation"],
        "slope": found["slope"],
        "data": {
            "bw_mean": round(found["bytes_s_mean"] / 1024),
            "iops_mean": round(found["operations_s_mean"]),
            "iops": found["operations_s"],
            "bw": [round(value / 1024) for value in found["bytes_s"]],
            "lat_mean": found["latency_ns_mean"],
            "lat": found["latency_ns"],
        },
    }


def _direction(stream: Stream | None, point: Measurement, plus: bool, only: bool) -> dict[str, Any]:
    elapsed_ms = round(point.elapsed_s * 1000) if stream else 0
    bytes_s = stream.bytes / point.elapsed_s if stream and point.elapsed_s else 0.0
    rate = stream.operations / point.elapsed_s if stream and point.elapsed_s else 0.0
    samples = point.samples if stream and only and point.samples and point.throughput.unit == "bytes/s" else None
    size = stream.bytes / stream.operations if stream and stream.operations else 1.0
    made: dict[str, Any] = {
        "io_bytes": stream.bytes if stream else 0,
        "io_kbytes": (stream.bytes if stream else 0) >> 10,
        "bw_bytes": round(bytes_s),
        "bw": round(bytes_s / 1024),
        "iops": rate,
        "runtime": elapsed_ms,
        "total_ios": stream.operations if stream else 0,
        "short_ios": sum(f.count for f in point.faults if stream and f.operation == stream.name and not f.errno),
        "drop_ios": 0,
    }
    for name, kind in KINDS:
        made[name] = _latency(stream.latency_ns.get(kind) if stream else None, plus, percentiles=name != "slat_ns")
    values = list(samples.values) if samples else []
    deviation = (samples.cv or 0.0) * samples.avg if samples else 0.0
    low, mean, high = (samples.min, samples.avg, samples.max) if samples else (0.0, 0.0, 0.0)
    made |= {
        "bw_min": round(low / 1024),
        "bw_max": round(high / 1024),
        "bw_agg": 100.0 if samples else 0.0,
        "bw_mean": mean / 1024,
        "bw_dev": deviation / 1024,
        "bw_samples": len(values),
        "iops_min": round(low / size),
        "iops_max": round(high / size),
        "iops_mean": mean / size,
        "iops_stddev": deviation / size,
        "iops_samples": len(values),
    }
    return made


def _latency(latency: Latency | None, plus: bool, *, percentiles: bool = True) -> dict[str, Any]:
    if latency is None:
        return {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    histogram = Histogram.unpack(latency.histogram) if latency.histogram else None
    made: dict[str, Any] = {
        "min": round(latency.min or 0),
        "max": round(latency.max or 0),
        "mean": latency.mean,
        "stddev": _deviation(histogram, latency.mean),
        "N": latency.count,
    }
    if not percentiles or not latency.count:
        return made
    known = {50: latency.p50, 90: latency.p90, 99: latency.p99, 99.9: latency.p999}
    made["percentile"] = {
        f"{percent:.6f}": round(value)
        for percent in PERCENTILES
        if (value := histogram.quantile(percent / 100) if histogram else known.get(percent)) is not None
    }
    if plus and histogram is not None:
        made["bins"] = {str(_middle(at)): count for at, count in sorted(histogram.buckets.items())}
    return made


def _middle(at: int) -> int:
    low, width = Histogram.bounds(at)
    return low + (width - 1) // 2


def _deviation(histogram: Histogram | None, mean: float) -> float:
    if histogram is None or histogram.count < 2:
        return 0.0
    squares = sum(count * (_middle(at) - mean) ** 2 for at, count in histogram.buckets.items())
    return math.sqrt(squares / (histogram.count - 1))


def _depths(depth: int, zero: bool) -> dict[str, float]:
    """Share of operations at each depth: all at the requested depth; submission batches are not known."""
    edges = (1, 2, 4, 8, 16, 32, 64)
    if zero:
        return {"0": 0.0, **{str(edge): 100.0 * (edge == 4) for edge in edges[2:]}, ">=64": 0.0}
    chosen = max(edge for edge in edges if edge <= max(1, depth))
    return {**{str(edge): 100.0 * (edge == chosen) for edge in edges[:-1]}, ">=64": 100.0 * (chosen == 64)}


def _shares(point: Measurement) -> dict[str, dict[str, float]]:
    """fio's coarse distribution: the share of operations between each two consecutive edges."""
    found = {name: {str(edge): 0.0 for edge in edges} for name, (_, edges) in _EDGES.items()}
    found["latency_ms"][">=2000"] = 0.0
    latency = point.latency_ns
    if latency is None or not latency.histogram:
        return found
    histogram = Histogram.unpack(latency.histogram)
    places = [(edge * scale, name, str(edge)) for name, (scale, edges) in _EDGES.items() for edge in edges]
    for at, count in histogram.buckets.items():
        value = _middle(at)
        name, key = next(((name, key) for edge, name, key in places if value <= edge), ("latency_ms", ">=2000"))
        found[name][key] += 100 * count / histogram.count
    return found
