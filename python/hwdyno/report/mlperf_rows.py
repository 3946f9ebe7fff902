"""The runs of a folder of MLPerf Storage as a table: accelerators, AU, rates, and the division that they fit."""

from __future__ import annotations

from collections.abc import Iterator

from hwdyno.analysis.mlperf_storage import RunFacts, division_by_parameters, measured_runs
from hwdyno.model.units import as_number, format_bytes_s, format_count, format_ns, plural
from hwdyno.model.words import Measurement, Run
from hwdyno.system.printable import columns, printable

MAX_ROWS = 60
_HEAD = ("result", "run", "accelerators", "hosts", "AU", "rate", "bandwidth", "division")


def format_runs(document: Run) -> str:
    """A row for each result of such a folder, at most ``MAX_ROWS``; empty for any other Run."""
    rows = [_HEAD, *_rows(document)]
    if len(rows) == 1:
        return ""
    kept = rows[: MAX_ROWS + 1]
    more = f"… and {plural(len(rows) - len(kept), 'more row')}: --json\n" if len(rows) > len(kept) else ""
    return columns(printable(kept)) + more


def _rows(document: Run) -> Iterator[tuple[str, ...]]:
    for result in document.experiments:
        rows = [
            (point, RunFacts.from_details(details))
            for point in result.points
            if isinstance(details := point.details.get("mlperf"), dict)
        ]
        counting = {facts.run for facts in measured_runs([facts for _, facts in rows])} if rows else set()
        for point, facts in rows:
            is_warm_up = facts.kind == "training" and facts.run not in counting
            yield _row(result.asks, point, facts, " (warm-up)" if is_warm_up else "")


def _row(title: str, point: Measurement, facts: RunFacts, remark: str) -> tuple[str, ...]:
    given = point.parameters
    operation = " ".join(str(given[name]) for name in ("option", "operation") if name in given)
    run = f"{facts.run} {given['host']}" if "host" in given else facts.run
    bandwidth = format_bytes_s(point.throughput.value) if point.throughput.unit == "bytes/s" else ""
    return (
        f"{title}, {operation}" if operation else title,
        f"{run}{remark}",
        _whole(facts.accelerators),
        _whole(facts.hosts),
        f"{100 * facts.au:.4g}%" if facts.au is not None else "",
        _rate(point, facts),
        bandwidth,
        _division(facts),
    )


def _rate(point: Measurement, facts: RunFacts) -> str:
    """The rate in the benchmark's own unit, with its latency and recall where it has them."""
    if facts.kind == "vector_database":
        latency = point.latency_ns
        p99 = f", p99 {format_ns(latency.p99)}" if latency is not None and latency.p99 else ""
        recall = f", recall {100 * facts.recall:.4g}%" if facts.recall is not None else ""
        return f"{format_count(point.throughput.value)} queries/s{p99}{recall}"
    if point.rate is not None:
        return f"{format_count(point.rate.value)} samples/s"
    found = []
    for name, says in (("tokens_s", "{} tokens/s"), ("storage_tokens_s", "{} storage tokens/s")):
        if tokens := as_number(point.details.get(name)):
            found.append(says.format(format_count(tokens)))
    for name, says in (("device_p95_ms", "device p95"), ("p95_ms", "p95")):
        if milliseconds := as_number(point.details.get(name)):
            found.append(f"{says} {format_ns(milliseconds * 1e6)}")
    return ", ".join(found)


def _division(facts: RunFacts) -> str:
    """The stated division, or in brackets the one that the changed parameters leave."""
    by_parameters = division_by_parameters(facts)
    return facts.division or (f"({by_parameters} by its parameters)" if by_parameters else "")


def _whole(number: float | None) -> str:
    return f"{number:.0f}" if number is not None else ""
