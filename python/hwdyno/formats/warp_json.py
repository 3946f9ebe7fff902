"""Reads what warp writes with ``--json`` into a Run, and its ``.json.zst``: each operation by totals and windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hwdyno.formats import object_results, printed
from hwdyno.formats.object_results import Requests, latency, to_samples
from hwdyno.model.point_details import Samples
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Latency, Measurement, Run
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

NAME = "warp-json"
_MARKS = ('"measure_duration_millis"', '"objects"')
_TIMES = {
    **{"mean": "dur_avg_millis", "p50": "dur_median_millis", "p90": "dur_90_millis", "p99": "dur_99_millis"},
    **{"min": "fastest_millis", "max": "slowest_millis"},
}
_FIRST = {
    **{"mean": "average_millis", "p50": "median_millis", "p90": "p90_millis", "p99": "p99_millis"},
    **{"min": "fastest_millis", "max": "slowest_millis"},
}
_EXTREMES = {"min", "max"}
_MILLISECOND = 1e-3


def recognizes(text: str) -> bool:
    """Whether this looks like warp's JSON."""
    start = text.find("{")
    return 0 <= start < 4096 and all(mark in text for mark in _MARKS)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    document = Table.from_value(foreign.parse_json(text[text.find("{") :], name), name)
    operations = dict(_list_operations(document))
    spans = {word: _span(operation) for word, operation in operations.items()}
    points: list[Measurement] = []
    for word, operation in operations.items():
        others = [span for other, span in spans.items() if other != word]
        is_mixed = any(min(end, spans[word][1]) > max(start, spans[word][0]) for start, end in others)
        made = object_results.to_point(_to_requests(word, operation, is_mixed=is_mixed))
        points += [made] if made else []
    version = document.values.get("warp_version")
    table = object_results.experiment("warp", points)
    return printed.run(NAME, "warp", text, name, [table], version if isinstance(version, str) else "")


def _list_operations(document: Table) -> Iterator[tuple[str, Table]]:
    """Each operation by its word: of the report of version 1, or of the analysis before."""
    if "by_op_type" in document:
        by_type = document.table("by_op_type")
        yield from ((word, by_type.table(word)) for word in by_type.values)
        return
    listed = document.values.get("operations")
    for value in listed if isinstance(listed, list) else ():
        operation = Table.from_value(value, document.name)
        yield operation.text("type"), operation


def _span(operation: Table) -> tuple[str, str]:
    """When it began and ended, in the text that warp writes, which sorts by time where all have one time zone."""
    of = operation.table("throughput") if "throughput" in operation else operation
    begin, end = of.values.get("start_time"), of.values.get("end_time")
    return (begin, end) if isinstance(begin, str) and isinstance(end, str) else ("", "")


def _to_requests(word: str, operation: Table, *, is_mixed: bool) -> Requests:
    total = operation.table("throughput") if "throughput" in operation else Table({}, operation.name)
    span_s = _number(total, "measure_duration_millis") * _MILLISECOND
    requests, objects, moved = (_number(total, key) for key in ("ops", "objects", "bytes"))
    per_request = round(objects / requests) if requests and objects else 1
    found: dict[str, PrintedNumber] = {}
    if span_s > 0:
        error = 0.5e-3 / span_s
        found = {"iops": PrintedNumber(requests / span_s, error), "bw": PrintedNumber(moved / span_s, error)}
        found = {name: figure for name, figure in found.items() if figure.value > 0}
    sized = list(_list_windows(operation, "single_sized_requests"))
    mixed = list(_list_windows(operation, "multi_sized_requests"))
    times, windows = _merge(sized, _TIMES), len(sized)
    found |= {f"lat_{name}": PrintedNumber(value, 0.0) for name, value in times.items()}
    if not sized and (ranges := [part for window in mixed for part in _list_rows(window, "by_size")]):
        mean = _merge(ranges, {"mean": "avg_duration_millis"})
        found |= {f"lat_{name}": PrintedNumber(value, 0.0) for name, value in mean.items()}
        sized = ranges
    sizes = {_size(window) for window in sized} if windows else {0}
    failed = _number(operation, "total_errors") or _number(operation, "errors") or _number(total, "errors")
    concurrency = int(_number(operation, "concurrency"))
    details = {
        "objects_per_request": per_request if per_request > 1 else 0,
        "concurrency_of_all": concurrency if is_mixed else 0,
    }
    return Requests(
        word,
        found,
        concurrency=0 if is_mixed else concurrency,
        object_size=min(sizes) if len(sizes) == 1 and per_request == 1 else 0,
        first_byte=_first_byte(sized),
        completed=int(requests),
        moved_bytes=int(moved),
        elapsed_s=span_s,
        failed={"a request that warp counts as an error": int(failed)},
        samples=_read_samples(total, has_bytes=moved > 0),
        details={key: value for key, value in details.items() if value},
    )


def _number(table: Table, key: str) -> float:
    return table.number(key) if table.values.get(key) is not None else 0.0


def _list_windows(operation: Table, key: str) -> Iterator[Table]:
    """The statistics of requests, of each client's windows of time, or of the whole."""
    if operation.values.get(key) is not None:
        yield operation.table(key)
    clients = operation.values.get("requests_by_client")
    for windows in clients.values() if isinstance(clients, dict) else ():
        for value in windows if isinstance(windows, list) else ():
            window = Table.from_value(value, operation.name)
            if window.values.get(key) is not None:
                yield window.table(key)


def _list_rows(table: Table, key: str) -> list[Table]:
    listed = table.values.get(key)
    return [Table.from_value(row, table.name) for row in listed] if isinstance(listed, list) else []


def _size(window: Table) -> int:
    """Bytes of each object; a merged window has the sum over those that it is made of."""
    return round(_number(window, "obj_size") / max(1.0, _number(window, "merged_entries")))


def _merge(windows: list[Table], names: Mapping[str, str], within: str = "") -> dict[str, float]:
    """Times in s over windows: the mean weighted by requests, and the extremes of all.

    Percentiles are those of a single window: of several, none follows from theirs.
    """
    sums, weights, found = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0), dict[str, float]()
    for window in windows:
        if within and window.values.get(within) is None:
            continue
        times = window.table(within) if within else window
        requests, merged = _number(window, "requests"), max(1.0, _number(window, "merged_entries"))
        for name, key in names.items():
            value = _number(times, key) * _MILLISECOND
            if name in _EXTREMES and value > 0:
                found[name] = (min if name == "min" else max)(found.get(name, value), value)
            elif value > 0:
                sums[name] += requests * value / merged
                weights[name] += requests
    kept = {"mean"} if len(windows) > 1 else {*names}
    found |= {name: sums[name] / weight for name, weight in weights.items() if weight > 0 and name in kept}
    return found


def _first_byte(windows: list[Table]) -> Latency | None:
    times: dict[str, Any] = {
        name: PrintedNumber(value, 0.0) for name, value in _merge(windows, _FIRST, "first_byte").items()
    }
    return latency(times)


def _read_samples(total: Table, *, has_bytes: bool) -> Samples | None:
    """Throughput over the segments of the timed region, in their order of time."""
    if total.values.get("segmented") is None:
        return None
    segmented = total.table("segmented")
    key = "bytes_per_sec" if has_bytes else "obj_per_sec"
    values = [_number(segment, key) for segment in _list_rows(segmented, "segments")]
    return to_samples(values, _number(segmented, "segment_duration_millis") * _MILLISECOND)
