"""One operation of elbencho on an S3 store as a point: whole objects, or buckets; times of its parts are left out."""

from __future__ import annotations

import re

from hwdyno.formats.object_results import Requests, find_rate_claim, find_size, to_point
from hwdyno.formats.row import figures, number
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.unit_readings import Unit
from hwdyno.model.units import parse_size
from hwdyno.model.words import Measurement, UserError

_MARK = re.compile(r"^\s+(?:Objects|Buckets)(?:/s| total)\s*:", re.M)
_LINE = re.compile(
    r"^\s+(Objects/s|Buckets/s|Throughput MiB/s|Throughput MB/s|Total MiB|Objects total|Buckets total)"
    r"\s*:\s+([\d.]{1,20})\s+([\d.]{1,20})\s*$",
    re.M,
)
_LATENCY = re.compile(
    r"^\s+(?:Objects|Buckets) latency\s*:\s*\[ min=([\d.]{1,12})(us|ms|s) avg=([\d.]{1,12})(us|ms|s) "
    r"max=([\d.]{1,12})(us|ms|s) \]",
    re.M,
)
_EDGES = re.compile(r"^\s+(?:Objects|Buckets) lat % us\s*:\s*\[([^\]\n]{1,400})\]", re.M)
_EDGE = re.compile(r"\b(50|99|99\.9)%<=(\d{1,12})\b")
_EDGE_ERROR = 0.25
"""A percentile is the upper edge of its bin, and bins are up to this share apart."""
_COMMAND = re.compile(r"\belbencho (?:[^\n]{0,2000})")
_THREADS = re.compile(r" (?:-t|--threads)[ =]?(\d{1,6})(?= |$)")
_OBJECT_SIZE = re.compile(r" (?:-s|--size)[ =]?(\d{1,12}[kKmMgGtT]?)(?= |$)")
_SEVERAL = re.compile(r" --(?:hosts|hostsfile|iodepth|s3multi)[ =]")
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_MIB = 2.0**20


def is_of_store(part: str) -> bool:
    """Whether an operation's lines count objects or buckets."""
    return _MARK.search(part) is not None


def find_command(text: str) -> tuple[int, int]:
    """Threads of one host, and bytes of an object, of a command line in the text; 0 where it does not state them."""
    command = _COMMAND.search(text)
    line = command[0] if command else ""
    threads, size = _THREADS.search(line), _OBJECT_SIZE.search(line)
    try:
        size_bytes = parse_size(size[1].lower()) if size else 0
    except UserError:
        size_bytes = 0
    return int(threads[1]) if threads and not _SEVERAL.search(line) else 0, size_bytes


def read_operation(
    operation: str, part: str, command: tuple[int, int], elapsed: PrintedNumber | None
) -> Measurement | None:
    """The point of an operation's lines, until its last thread was done; none without a rate above 0."""
    lines = {label: last for label, _, last in _LINE.findall(part)}
    rate = _read_whole(lines.get("Objects/s") or lines.get("Buckets/s"))
    total = number(lines.get("Objects total") or lines.get("Buckets total"))
    moved, latency = _read_whole(lines.get("Total MiB"), _MIB), _LATENCY.search(part)
    found = figures(
        bw=_read_whole(lines.get("Throughput MiB/s"), _MIB) or _read_whole(lines.get("Throughput MB/s"), 1e6),
        iops=rate,
        lat_min=number(latency[1], _TIMES[latency[2]]) if latency else None,
        lat_mean=number(latency[3], _TIMES[latency[4]]) if latency else None,
        lat_max=number(latency[5], _TIMES[latency[6]]) if latency else None,
    )
    if latency and (edges := _EDGES.search(part)):
        for percent, edge in _EDGE.findall(edges[1]):
            if int(edge):
                found[f"lat_p{percent.replace('.', '')}"] = PrintedNumber(int(edge) * 1e-6, _EDGE_ERROR, None)
    found = {name: figure for name, figure in found.items() if figure.value > 0}
    has_bytes = "bw" in found
    if moved is not None and elapsed is not None and has_bytes:
        found |= {"data": moved, "time": elapsed}
    completed = round(total.value) if total else 0
    stated = figures(bw=moved, iops=PrintedNumber(total.value, 0.0, None) if total else None)
    return to_point(
        Requests(
            operation,
            found,
            concurrency=command[0],
            object_size=(command[1] or find_size(stated)) if has_bytes else 0,
            completed=completed,
            moved_bytes=round(moved.value) if moved else 0,
            elapsed_s=elapsed.value if elapsed else 0.0,
            claims=find_rate_claim(rate, completed, elapsed),
        )
    )


def _read_whole(text: str | None, factor: float = 1.0) -> PrintedNumber | None:
    """A whole number whose decimals elbencho cuts off."""
    found = number(text, factor)
    if found is None or found.value <= 0:
        return None
    return PrintedNumber(found.value, factor / found.value, Unit("", factor, "iB") if factor == _MIB else None)
