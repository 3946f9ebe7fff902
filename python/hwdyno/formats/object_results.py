"""Shared by the readers of object storage's tools: requests to a store become points of an imported Run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hwdyno.formats import printed
from hwdyno.formats.row import make_point
from hwdyno.model.kernels import OBJECT_REQUESTS
from hwdyno.model.point_details import Claim, Concurrency, Fault, Note, Samples
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Axis, Declaration, ExperimentResult, Latency, Measurement, Parameters, Stream

OPERATIONS = {
    **dict.fromkeys(("get", "read", "download"), "get"),
    **dict.fromkeys(("put", "write", "upload", "prepare", "filewrite"), "put"),
    **dict.fromkeys(("stat", "head", "headobj"), "head"),
    **dict.fromkeys(("list", "listobj", "listobj_p"), "list"),
    **dict.fromkeys(("delete", "cleanup", "rmobjects", "multidel"), "delete"),
    **dict.fromkeys(("mixed", "total"), "mixed"),
}
"""The tools' words for a request, as the kernel names it; another word is kept as it is."""
SHARE_ERROR = 0.01
"""Tools count requests that straddle the ends of the timed region differently in bytes and in requests."""
_SIZE_ERROR = 1e-4
_MAX_MULTIPLE = 64
_ROUND_MULTIPLES = (100, 200, 500)
_UNITS = (1 << 30, 10**9, 1 << 20, 10**6, 1 << 10, 10**3)
_AXES = (
    Axis("operation", kind="choice"),
    Axis("object_size", "B", "size", kind="integer", title="object size", least=0),
    Axis("concurrency", role="concurrency", kind="integer", title="requests in flight", least=1),
)
_TIME = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,4})m)?(?:(\d{1,9}(?:\.\d{1,9})?)(ns|us|µs|μs|ms|s))?")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one kind that a tool made in one test."""

    operation: str
    """The tool's word."""
    numbers: Mapping[str, PrintedNumber]
    """``bw`` (bytes/s), ``iops`` (requests/s), ``lat_mean`` … until the last byte (s), as a table's row has them."""
    concurrency: int = 0
    """Requests in flight; 0 where it is not stated."""
    object_size: int = 0
    """Bytes of an object; 0 where it is not stated, or where objects have several sizes."""
    first_byte: Latency | None = None
    """Times until the first byte of the answer, ns; an upload's begin at the last byte that was sent."""
    completed: int = 0
    moved_bytes: int = 0
    elapsed_s: float = 0.0
    failed: Mapping[str, int] = field(default_factory=dict)
    """Requests that failed, by what the tool says of them."""
    samples: Samples | None = None
    claims: tuple[Claim, ...] = ()
    counts_objects: bool = False
    """Whether the rate counts objects of which a request has several, so that Little's law does not apply to it."""
    details: Mapping[str, Any] = field(default_factory=dict)


def to_point(requests: Requests) -> Measurement | None:
    """The requests as a point; none where the tool states no rate above 0."""
    word = requests.operation.lower()
    operation, numbers = OPERATIONS.get(word, word), requests.numbers
    size = requests.object_size or (0 if requests.counts_objects else find_size(numbers))
    parameters: Parameters = {"operation": operation}
    if size:
        parameters["object_size"] = size
    if requests.concurrency:
        parameters["concurrency"] = requests.concurrency
    made = make_point(parameters, numbers, **requests.details)
    if made is None:
        return None
    times = {"total": made.latency_ns, "response" if operation == "put" else "first_byte": requests.first_byte}
    latencies = {kind: replace(time, count=requests.completed) for kind, time in times.items() if time is not None}
    failed = sum(requests.failed.values())
    stream = Stream(operation, requests.completed, requests.moved_bytes, latency_ns=latencies)
    counted = (Note("counts_objects", "the rate counts objects, and a request may have several"),)
    details = dict(made.details)
    if requests.completed and failed:
        details["failed_share"] = failed / (requests.completed + failed)
    return replace(
        made,
        latency_ns=None if requests.counts_objects else latencies.get("total"),
        streams=(stream,),
        samples=requests.samples,
        concurrency=Concurrency(float(requests.concurrency), None) if requests.concurrency else None,
        elapsed_s=requests.elapsed_s,
        operations=requests.completed,
        bytes=requests.moved_bytes,
        faults=tuple(Fault(operation, 0, says, count) for says, count in requests.failed.items() if count),
        notes=counted if requests.counts_objects else (),
        claims=(*made.claims, *_list_size_claims(requests), *requests.claims),
        details=details,
    )


def _list_size_claims(requests: Requests) -> list[Claim]:
    """The bandwidth beside rate x size, where the tool states all three."""
    bandwidth, rate = requests.numbers.get("bw"), requests.numbers.get("iops")
    if not requests.object_size or bandwidth is None or rate is None or not bandwidth.value or not rate.value:
        return []
    error = bandwidth.rounding + rate.rounding + SHARE_ERROR
    follows = rate.value * requests.object_size
    return [Claim("bandwidth", bandwidth.value, follows, "bytes/s", "objects/s x object size", error)]


def find_rate_claim(rate: PrintedNumber | None, completed: int, elapsed: PrintedNumber | None) -> tuple[Claim, ...]:
    """The rate beside requests / time; empty where the tool does not state all three."""
    if rate is None or elapsed is None or not rate.value or not completed or elapsed.value <= 0:
        return ()
    error = rate.rounding + elapsed.rounding + SHARE_ERROR
    return (Claim("rate", rate.value, completed / elapsed.value, "operations/s", "requests / time", error),)


def find_size(numbers: Mapping[str, PrintedNumber]) -> int:
    """The size that bandwidth / rate is within its printed digits, if it is one that people choose; 0 for others."""
    bandwidth, rate = numbers.get("bw"), numbers.get("iops")
    if bandwidth is None or rate is None or bandwidth.value <= 0 or rate.value <= 0:
        return 0
    size, error = bandwidth.value / rate.value, bandwidth.rounding + rate.rounding + _SIZE_ERROR
    if error > 1 / (4 * _MAX_MULTIPLE):
        return 0
    chosen = {unit * round(size / unit) for unit in _UNITS if 1 <= round(size / unit) <= _MAX_MULTIPLE}
    chosen.update(unit * multiple for unit in _UNITS for multiple in _ROUND_MULTIPLES)
    chosen.update(1 << power for power in (round(size).bit_length() - 1, round(size).bit_length()) if power > 0)
    nearest = min(chosen, key=lambda candidate: abs(candidate / size - 1), default=0)
    return nearest if nearest and abs(nearest / size - 1) <= error else 0


def read_time(text: str, least: str = "") -> PrintedNumber | None:
    """Seconds of ``1h2m3.5s`` or ``900us`` as programs in Go print times; none for other text, with an error of the
    last digit, at least of one ``least``."""
    match = _TIME.fullmatch(text)
    if match is None or not text:
        return None
    hours, minutes, digits, unit = match.groups()
    scale = _UNIT_S[unit] if unit else 60.0
    value = 3600.0 * int(hours or 0) + 60.0 * int(minutes or 0) + (float(digits) * scale if unit else 0.0)
    last_s = max(scale * 10.0 ** -len((digits or "").partition(".")[2]), _UNIT_S.get(least, 0.0))
    return PrintedNumber(value, last_s / 2 / value if value else 0.0, None)


def latency(times: Mapping[str, PrintedNumber | None], count: int = 0) -> Latency | None:
    """A distribution of printed times in s, by ``mean``, ``p50`` …; none without a mean."""
    found = {name: time.value * 1e9 for name, time in times.items() if time is not None}
    if not found.get("mean"):
        return None
    p50, p90, p99, p999, least, most = (found.get(name) for name in ("p50", "p90", "p99", "p999", "min", "max"))
    return Latency(found["mean"], p50, p90, p99, p999, least, most, count)


def to_samples(values: Sequence[float], interval_s: float) -> Samples | None:
    """Throughput over equal intervals; none for fewer than two, or without an interval."""
    if len(values) < 2 or interval_s <= 0:
        return None
    group = -(-len(values) // _MAX_SAMPLES)
    groups = [values[at : at + group] for at in range(0, len(values), group)]
    merged = tuple(sum(part) / len(part) for part in groups)
    mean = sum(values) / len(values)
    deviation = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    cv = deviation / mean if mean and len(values) > 2 else None
    return Samples(min(values), mean, max(values), interval_s * group, cv, merged)


_MAX_SAMPLES = 600


def experiment(tool: str, points: Sequence[Measurement]) -> ExperimentResult:
    """The experiment of a tool's points: requests, by how many are in flight."""
    name = f"object.{tool.lower().replace(' ', '_').replace('-', '_')}"
    made = printed.experiment(name, f"{tool} results", OBJECT_REQUESTS, "concurrency", points)
    return replace(made, declaration=Declaration(operation="request", axes=_AXES))
