"""Reads the JSON that fio 3 writes (``--output-format=json`` or ``json+``) into a Run.

What the fields mean is in fio's manual, "Interpreting the output"; ``bw_min``, ``bw_mean`` and ``bw_max``
are KiB/s, ``bw_bytes`` is bytes/s, run times are ms and CPU shares percent of ``job_runtime``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from hwdyno.formats import fio_options as options
from hwdyno.formats.fio_latency import LatencySummary, coarse_quantiles, latency_from_summary, merge_records
from hwdyno.formats.fio_options import KERNEL
from hwdyno.model.machine import Disk, Machine, Storage
from hwdyno.model.point_details import Claim, Concurrency, Fault, Note, Samples
from hwdyno.model.units import amount_at, printed_error
from hwdyno.model.words import ExperimentResult, Latency, Measurement, Run, Stream, UserError, Value
from hwdyno.system import foreign

NAME = "fio-json"
DIRECTIONS = ("read", "write", "trim")
MAX_BRACES = 100
"""Lines that begin with a brace and hold no document before the one that does."""
# fio averages bandwidth over this unless bwavgtime says otherwise.
SAMPLE_S = 0.5
DISK_SAMPLE_S = 0.25
"""fio reads a disk's counters this often, and not at the very end (fio 3.33, ``DISK_UTIL_MSEC``)."""


def recognizes(text: str) -> bool:
    """Whether this looks like fio's JSON."""
    return '"fio version"' in text[:65536]


def parse(text: str, name: str = "fio's output") -> dict[str, Any]:
    """Find the JSON document in fio's output, which may have notes and warnings before and after it.

    Raises ``UserError`` in one line when there is none.
    """
    start = text.find("{")
    for _ in range(MAX_BRACES):
        if start < 0:
            break
        document = foreign.json_at(text, start)
        if isinstance(document, dict) and ("fio version" in document or "jobs" in document):
            whole: dict[str, Any] = foreign.check_document(document, name)
            return whole
        # The document starts at the beginning of a line; a brace inside a note does not.
        following = text.find("\n{", start)
        start = following + 1 if following >= 0 else -1
    raise UserError(f"{name} is not fio JSON; run fio with --output-format=json")


@dataclass(frozen=True, slots=True)
class JobResult:
    """One fio job, or several equal jobs that ran together (``numjobs``)."""

    name: str
    group: int
    options: dict[str, Any]
    parts: tuple[Mapping[str, Any], ...]
    """fio's records: one for the whole group, or one for each of the equal jobs."""


def list_jobs(document: Mapping[str, Any], name: str = "fio's output") -> list[JobResult]:
    """List the jobs of a document, with equal jobs merged. Raises ``UserError`` if there are none."""
    raw = document.get("jobs")
    if raw is None:
        raw = document.get("client_stats")  # client and server
    if not isinstance(raw, list) or not all(isinstance(job, dict) for job in raw):
        raise UserError(f"{name} has no list of jobs; the file may be cut off")
    shared = document.get("global options")
    shared = shared if isinstance(shared, dict) else {}
    together: dict[str, JobResult] = {}
    for job in raw:
        options_of_job = job.get("job options")
        given = {**shared, **(options_of_job if isinstance(options_of_job, dict) else {})}
        title = str(job.get("jobname", ""))
        if title == "All clients":
            continue
        group = int(amount_at(job, "groupid"))
        key = json.dumps([title, group, given], sort_keys=True, default=str)
        known = together.get(key)
        together[key] = JobResult(title, group, given, (*(known.parts if known else ()), job))
    if not together:
        raise UserError(f"{name} has no jobs: fio ended before the first")
    return list(together.values())


def convert_job(job: JobResult) -> Measurement:
    """Convert a job to a Measurement; what fio does not report is absent and named in the notes."""
    parameters = options.convert_options(job.options, len(job.parts))
    notes: list[Note] = []
    streams, spreads, bandwidth, rate, elapsed_s = [], [], 0.0, 0.0, 0.0
    claims: list[Claim] = []
    active = [(d, [part[d] for part in job.parts if isinstance(part.get(d), dict)]) for d in DIRECTIONS]
    active = [(direction, rows) for direction, rows in active if sum(amount_at(row, "total_ios") for row in rows) > 0]
    for direction, rows in active:
        kinds = {kind: merge_records(rows, field) for kind, field in _KINDS.items()}
        total = _total(kinds, notes)
        spreads.append(total)
        streams.append(
            Stream(
                name=direction,
                operations=int(sum(amount_at(row, "total_ios") for row in rows)),
                bytes=int(sum(map(_bytes, rows))),
                latency_ns={
                    kind: latency
                    for kind, spread in {**kinds, "total": total}.items()
                    if (latency := latency_from_summary(spread)) is not None
                },
            )
        )
        bandwidth += sum(_bandwidth(row) for row in rows)
        rate += sum(amount_at(row, "iops") for row in rows)
        elapsed_s = max(elapsed_s, *(amount_at(row, "runtime") / 1e3 for row in rows))
        claims += _claims(direction, rows)
    latency = _latency(spreads, job.parts, notes)
    faults = _faults(job.parts)
    effective = rate * latency.mean / 1e9 if latency is not None else None
    requested = float(amount_at(parameters, "iodepth", 1) * amount_at(parameters, "numjobs", 1))
    return Measurement(
        parameters=parameters,
        throughput=Value(bandwidth, "bytes/s"),
        rate=Value(rate, "operations/s"),
        latency_ns=latency,
        streams=tuple(streams),
        samples=_samples([row for _, rows in active for row in rows], len(active)),
        concurrency=Concurrency(requested, effective),
        cpu_user_s=_cpu_s(job.parts, "usr_cpu"),
        cpu_system_s=_cpu_s(job.parts, "sys_cpu"),
        elapsed_s=elapsed_s,
        operations=sum(stream.operations for stream in streams),
        bytes=sum(stream.bytes for stream in streams),
        repeats=1,
        repeat_values=(bandwidth,),
        validity="degraded" if faults or not streams else "valid",
        why=("tool-error",) if faults else () if streams else ("nothing-measured",),
        details={
            "jobname": job.name,
            "context_switches": int(sum(amount_at(part, "ctx") for part in job.parts)),
            **depth_reached(job.parts),
        },
        faults=faults,
        notes=tuple(dict.fromkeys(notes)),
        claims=tuple(claims),
    )


def _claims(direction: str, rows: Iterable[Mapping[str, Any]]) -> Iterable[Claim]:
    """What fio states twice of a direction; it computes rates from ``runtime``, whole ms (fio 3.33, ``stat.c``)."""
    for row in rows:
        runtime_ms = amount_at(row, "runtime")
        if runtime_ms <= 0:
            continue
        for quantity, stated, counted, unit in (
            ("bandwidth", "bw_bytes" if amount_at(row, "bw_bytes") else "bw", "io_bytes", "bytes/s"),
            ("rate", "iops", "total_ios", "operations/s"),
        ):
            given, total = amount_at(row, stated), _bytes(row) if counted == "io_bytes" else amount_at(row, counted)
            if given and total:
                value = given * (1024 if stated == "bw" else 1)
                error = 1 / runtime_ms + (1 / given if unit == "bytes/s" else printed_error(str(row[stated])))
                formula = f"{counted} / runtime"
                yield Claim(f"{direction} {quantity}", value, total / runtime_ms * 1e3, unit, formula, error)


def _bytes(row: Mapping[str, Any]) -> float:
    """Bytes that were moved; fio 2 counts ``io_bytes`` in KiB and has neither field that fio 3 added."""
    return amount_at(row, "io_bytes") * (1 if "bw_bytes" in row or "io_kbytes" in row else 1024)


def depth_reached(parts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The most that the mean depth of one job can be, by fio's shares of operations at depths of 1, 2-3, 4-7 …"""
    most = 0.0
    for part in parts:
        level = part.get("iodepth_level")
        shares = level if isinstance(level, dict) else {}
        whole = sum(amount_at(shares, name) for name in shares)
        if amount_at(shares, ">=64") or whole <= 0:
            return {}
        found = sum(amount_at(shares, str(name)) * (2 * name - 1) for name in (1, 2, 4, 8, 16, 32))
        most = max(most, found / whole)
    return {"iodepth_level_most": most} if most else {}


def _at_disk(document: Mapping[str, Any], points: Sequence[Measurement]) -> dict[str, float]:
    """What the disks' counters saw of all jobs together: ``disk_read_operations`` and the like; empty without any.

    Slaves of a volume are listed beside it and counted too, so that the figures are upper bounds.
    """
    listed = document.get("disk_util")
    disks = [disk for disk in listed if isinstance(disk, dict)] if isinstance(listed, list) else []
    found: dict[str, float] = {}
    for direction in ("read", "write"):
        if not any(f"{direction}_ios" in disk for disk in disks):
            continue
        found[f"disk_{direction}_operations"] = sum(amount_at(disk, f"{direction}_ios") for disk in disks)
        found[f"disk_{direction}_merges"] = sum(amount_at(disk, f"{direction}_merges") for disk in disks)
        if all(f"{direction}_sectors" in disk for disk in disks):
            found[f"disk_{direction}_bytes"] = 512 * sum(amount_at(disk, f"{direction}_sectors") for disk in disks)
        issued = [stream for point in points for stream in point.streams if stream.name == direction]
        found[f"issued_{direction}_operations"] = float(sum(stream.operations for stream in issued))
        found[f"issued_{direction}_bytes"] = float(sum(stream.bytes for stream in issued))
    if found:
        found["disk_unseen_s"] = DISK_SAMPLE_S
        found["issued_s"] = max(point.elapsed_s for point in points)
    return found


_KINDS = {"submit": "slat", "complete": "clat", "total": "lat"}


def _total(kinds: Mapping[str, LatencySummary], notes: list[Note]) -> LatencySummary:
    """Total latency; its percentiles are those of completion where fio reports only them (its default)."""
    total, complete = kinds["total"], kinds["complete"]
    if total.quantiles or total.histogram or not (complete.quantiles or complete.histogram):
        return total
    submit = kinds["submit"].mean
    notes.append(
        Note(
            "percentiles_of_completion",
            f"fio has percentiles of completion only; the mean submission time of {submit:.0f} ns is added",
        )
    )
    return total.with_shape(complete, submit)


def _latency(spreads: list[LatencySummary], parts: Iterable[Mapping[str, Any]], notes: list[Note]) -> Latency | None:
    if not spreads:
        return None
    both = spreads[0]
    for spread in spreads[1:]:
        both = both.merge(spread)
    latency = latency_from_summary(both)
    if latency is not None and latency.p50 is None:
        coarse = coarse_quantiles(parts)
        if coarse:
            notes.append(Note("coarse_percentiles", "percentiles are the upper edges of fio's latency bins"))
            latency = latency_from_summary(both.with_quantiles(coarse))
    return latency


def _bandwidth(row: Mapping[str, Any]) -> float:
    return amount_at(row, "bw_bytes") or amount_at(row, "bw") * 1024


def _samples(rows: list[Mapping[str, Any]], directions: int) -> Samples | None:
    """Sum over equal jobs; none for a mix, whose two directions may not reach their extremes at the same time."""
    if directions != 1 or any(amount_at(row, "bw_samples") < 1 for row in rows):
        return None
    low, mean, high, spread = (
        sum(amount_at(row, key) for row in rows) * 1024 for key in ("bw_min", "bw_mean", "bw_max", "bw_dev")
    )
    counted = min(amount_at(row, "bw_samples") for row in rows)
    if mean <= 0:
        return None
    return Samples(low, mean, high, SAMPLE_S, spread / mean if counted >= 3 else None)


def _cpu_s(parts: Iterable[Mapping[str, Any]], key: str) -> float:
    return sum(amount_at(part, "job_runtime") / 1e3 * amount_at(part, key) / 100 for part in parts)


def _faults(parts: Iterable[Mapping[str, Any]]) -> tuple[Fault, ...]:
    counts: dict[int, int] = {}
    for part in parts:
        code = int(amount_at(part, "error")) or int(amount_at(part, "first_error"))
        if code:
            counts[code] = counts.get(code, 0) + max(1, int(amount_at(part, "total_err")))
    return tuple(Fault("job", code, _strerror(code), count) for code, count in counts.items())


def _strerror(code: int) -> str:
    try:
        return os.strerror(code)
    except (ValueError, OverflowError):
        return "unknown error"


def read(text: str, name: str) -> Run:
    """Read fio's JSON into a Run. The same file always gives the same Run, including its id."""
    document = parse(text, name)
    jobs = list_jobs(document, name)
    points = [convert_job(job) for job in jobs]
    at_disk = _at_disk(document, points)
    points = [replace(point, details={**point.details, **at_disk}) for point in points]
    crowded = {job.group for job in jobs if sum(other.group == job.group for other in jobs) > 1}
    points = [
        _with_concurrent_jobs(point) if job.group in crowded else point for job, point in zip(jobs, points, strict=True)
    ]
    ended = _time(document)
    began = ended - timedelta(seconds=min(sum(point.elapsed_s for point in points), 1e9)) if ended else None
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    degraded = [
        f"fio's job {job.name} failed: {p.faults[0].says}" for job, p in zip(jobs, points, strict=True) if p.faults
    ]
    return Run(
        id=f"fio-{f'{ended:%Y%m%d-%H%M%S}' if ended else 'undated'}-{digest}",
        started=began.isoformat() if began else "",
        finished=ended.isoformat() if ended else None,
        machines=(_machine(document),),
        profile="imported",
        command=f"fio ({name})",
        experiments=(
            ExperimentResult(
                name="storage.fio",
                resource="storage",
                asks="fio results",
                load=options.choose_load([point.parameters for point in points]),
                kernel=KERNEL,
                points=tuple(points),
                planned=len(points),
            ),
        ),
        degraded=tuple(degraded),
        version=str(document.get("fio version", "")),
        imported_from=NAME,
    )


def _with_concurrent_jobs(point: Measurement) -> Measurement:
    says = "it ran together with other jobs of its group (no stonewall between them)"
    return replace(point, notes=(*point.notes, Note("ran_beside_others", says)))


def _time(document: Mapping[str, Any]) -> datetime | None:
    stamp = amount_at(document, "timestamp_ms") / 1e3 or amount_at(document, "timestamp")
    try:
        return datetime.fromtimestamp(stamp, timezone.utc) if stamp > 1e9 else None
    except (ValueError, OverflowError, OSError):
        return None


def _machine(document: Mapping[str, Any]) -> Machine:
    used = document.get("disk_util")
    names = (
        [str(disk["name"]) for disk in used if isinstance(disk, dict) and disk.get("name")]
        if isinstance(used, list)
        else []
    )
    why = "not in fio's JSON"
    return Machine(
        storage=Storage(disks=tuple(Disk(name=name) for name in names)),
        unknown={"hostname": why, "cpu": why, "memory": why},
    )
