"""Reads warp's ``.csv.zst`` and ``.csv`` of requests into a Run: rates while all threads were busy, whole times."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache

from hwdyno.formats import object_results, printed
from hwdyno.formats.object_results import OPERATIONS, Requests, to_samples
from hwdyno.model.point_details import Samples
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Latency, Measurement, Run, UserError

NAME = "warp-requests"
_HEAD = re.compile(r"^idx\tthread\top\t(?:\w{1,20}\t){0,20}?start\t", re.M)
_NEEDED = ("thread", "op", "bytes", "start", "end")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_NS = 10**9
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
MIN_P999 = 10_000
"""Requests from which on p99.9 is stated."""
MAX_NS = 10**18
MAX_BYTES = 1 << 50
# What kinds of errors say, in the order in which they are looked for.
_KINDS = (
    ("503 SlowDown: the store sheds load", re.compile(r"503|slow ?down|reduce your request rate", re.I)),
    ("no complete response by the deadline", re.compile(r"time(?:d ?)?-?out|deadline", re.I)),
    ("no connection could be made", re.compile(r"connection refused|no such host|no route", re.I)),
    ("the connection ended before the response did", re.compile(r"\bEOF\b|connection reset|broken pipe", re.I)),
    ("403: access is denied", re.compile(r"403|denied|forbidden|signature", re.I)),
    ("404: the key is missing", re.compile(r"404|not exist|no such key|not found", re.I)),
)
_OTHER = "another error of a request"


@dataclass(slots=True)
class _RequestRows:
    """All requests of one kind, in the order of the file; moments are in ns."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    first_bytes: list[int] = field(default_factory=list)
    """When the first byte of each answer came; 0 where that is not stated."""
    is_failed: list[bool] = field(default_factory=list)
    objects: int = 0
    threads: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The end of the first request and the start of the last one, by thread."""
    errors: Counter[str] = field(default_factory=Counter)


def recognizes(text: str) -> bool:
    """Whether this looks like warp's requests."""
    return _HEAD.match(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    operations: dict[str, _RequestRows] = {}
    for row in _list_rows(text, name):
        _add(operations.setdefault(row["op"][:40], _RequestRows()), row)
    spans = {word: _busy_span(operation) for word, operation in operations.items()}
    points: list[Measurement] = []
    for word, operation in operations.items():
        others = [span for other, span in spans.items() if other != word]
        is_mixed = any(min(end, spans[word][1]) > max(start, spans[word][0]) for start, end in others)
        made = object_results.to_point(_to_requests(word, operation, spans[word], is_mixed=is_mixed))
        points += [made] if made else []
    return printed.run(NAME, "warp", text, name, [object_results.experiment("warp", points)])


def _list_rows(text: str, name: str) -> Iterator[Mapping[str, str]]:
    """The rows by the names of their head; those that are not whole are left out. Raises ``UserError`` in one line."""
    lines = iter(text.splitlines())
    names = next(lines, "").split("\t")
    if lacking := [needed for needed in _NEEDED if needed not in names]:
        raise UserError(f"{name} has no column '{lacking[0]}' of warp's requests")
    for line in lines:
        cells = line.split("\t")
        # A quoted error may have line ends: its rows are parts, which have other numbers of cells.
        if len(cells) == len(names) and not line.startswith("#"):
            yield dict(zip(names, cells, strict=True))


@lru_cache(maxsize=4096)
def _second(text: str, zone: str) -> int | None:
    """Seconds since 1970."""
    try:
        moment = datetime.fromisoformat(text + ("+00:00" if zone == "Z" else zone))
    except ValueError:
        return None
    return int((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds())


def _moment_ns(text: str) -> int:
    """Nanoseconds since 1970; 0 for another text."""
    match = _MOMENT.fullmatch(text)
    second = _second(match[1], match[3]) if match else None
    moment = second * _NS + int((match[2] or "0").ljust(9, "0")) if match and second is not None else 0
    return moment if 0 < moment < 10 * MAX_NS else 0


def _add(operation: _RequestRows, row: Mapping[str, str]) -> None:
    """Adds a request, unless its times or bytes are none."""
    start, end, moved = _moment_ns(row["start"]), _moment_ns(row["end"]), row["bytes"]
    if not start or not start < end < start + MAX_NS or not moved.isdecimal() or len(moved) > 15:
        return
    thread = f"{row.get('client_id', '')[:60]} {row['thread'][:20]}"
    first_end, last_start = operation.threads.get(thread, (end, start))
    operation.threads[thread] = (min(first_end, end), max(last_start, start))
    first_byte = _moment_ns(row.get("first_byte", ""))
    objects = row.get("n_objects", "1")
    operation.objects += int(objects) if objects.isdecimal() and len(objects) < 8 else 1
    error = row.get("error", "")
    if error:
        operation.errors[next((kind for kind, pattern in _KINDS if pattern.search(error[:400])), _OTHER)] += 1
    operation.starts.append(start)
    operation.ends.append(end)
    operation.sizes.append(min(int(moved), MAX_BYTES))
    operation.first_bytes.append(first_byte if start <= first_byte <= end else 0)
    operation.is_failed.append(bool(error))


def _busy_span(operation: _RequestRows) -> tuple[int, int]:
    """When all threads were busy, as in warp's analysis: from their first end to a last start; else the whole."""
    if not operation.threads:
        return 0, 0
    begin = max(first for first, _ in operation.threads.values())
    end = min(last for _, last in operation.threads.values())
    return (begin, end) if end > begin else (min(operation.starts), max(operation.ends))


def _to_requests(word: str, operation: _RequestRows, span: tuple[int, int], *, is_mixed: bool) -> Requests:
    """The requests that ended within the span."""
    begin, end = span
    inside = [at for at, moment in enumerate(operation.ends) if begin < moment <= end and not operation.is_failed[at]]
    moved = sum(operation.sizes[at] for at in inside)
    span_s = (end - begin) / _NS
    found: dict[str, PrintedNumber] = {}
    if inside and span_s > 0:
        found = {"iops": PrintedNumber(len(inside) / span_s, 0.0), "bw": PrintedNumber(moved / span_s, 0.0)}
        found = {name: figure for name, figure in found.items() if figure.value > 0}
    total = _distribution([operation.ends[at] - operation.starts[at] for at in inside])
    firsts = [operation.first_bytes[at] - operation.starts[at] for at in inside if operation.first_bytes[at]]
    if total is not None:
        times = {"mean": total.mean, "p50": total.p50, "p90": total.p90, "p99": total.p99, "p999": total.p999}
        times |= {"min": total.min, "max": total.max}
        found |= {f"lat_{name}": PrintedNumber(time / 1e9, 0.0) for name, time in times.items() if time is not None}
    sizes = {operation.sizes[at] for at in inside}
    # Preparing uploads of some versions all have one thread's number.
    concurrency = max(len(operation.threads), _count_in_flight(operation))
    has_body = OPERATIONS.get(word.lower(), "") in {"get", "put"}
    per_request = round(operation.objects / max(1, len(operation.starts)))
    return Requests(
        word,
        found,
        concurrency=0 if is_mixed else concurrency,
        object_size=min(sizes) if len(sizes) == 1 and has_body and per_request == 1 else 0,
        first_byte=_distribution(firsts) if word.lower() != "put" else None,
        completed=len(inside),
        moved_bytes=moved,
        elapsed_s=span_s,
        failed=dict(operation.errors),
        samples=_sample(operation, inside, span, has_bytes=moved > 0),
        details={
            **({"concurrency_of_all": concurrency} if is_mixed else {}),
            **({"objects_per_request": per_request} if per_request > 1 else {}),
        },
    )


def _count_in_flight(operation: _RequestRows) -> int:
    """The most requests that were in flight at one moment."""
    ends, ended, most = sorted(operation.ends), 0, 0
    for begun, start in enumerate(sorted(operation.starts), 1):
        while ended < len(ends) and ends[ended] <= start:
            ended += 1
        most = max(most, begun - ended)
    return most


def _distribution(times_ns: list[int]) -> Latency | None:
    """The mean, the extremes and the percentiles (nearest rank) of all times."""
    times = sorted(times_ns)
    if not times or not times[-1]:
        return None
    ranks = {name: times[min(len(times) - 1, int(share * len(times)))] for name, share in _PERCENTILES.items()}
    p999 = float(ranks["p999"]) if len(times) >= MIN_P999 else None
    p50, p90, p99 = (float(ranks[name]) for name in ("p50", "p90", "p99"))
    return Latency(sum(times) / len(times), p50, p90, p99, p999, float(times[0]), float(times[-1]), len(times))


def _sample(
    operation: _RequestRows, inside: Sequence[int], span: tuple[int, int], *, has_bytes: bool
) -> Samples | None:
    """Throughput over whole intervals of the span, 600 at most, each at least a second."""
    interval_ns = max(_NS, -(-(span[1] - span[0]) // 600))
    edges = list(range(span[0], span[1] - interval_ns + 1, interval_ns))
    sums = [0] * len(edges)
    for at in inside:
        place = bisect_left(edges, operation.ends[at]) - 1
        if 0 <= place < len(sums) and operation.ends[at] <= edges[place] + interval_ns:
            sums[place] += operation.sizes[at] if has_bytes else 1
    return to_samples([amount * _NS / interval_ns for amount in sums], interval_ns / _NS)
