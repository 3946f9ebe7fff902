"""Reads COSBench's CSV of a workload into a Run: each operation of each stage. Its percentiles are edges of bins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hwdyno.formats import object_results, printed
from hwdyno.formats.object_results import OPERATIONS, SHARE_ERROR, Requests, latency
from hwdyno.formats.row import figures, number
from hwdyno.model.point_details import Claim
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import ExperimentResult, Measurement, Run, UserError

NAME = "cosbench-csv"
HEAD = "Stage,Op-Name,Op-Type,Op-Count,Byte-Count,Avg-ResTime,"
_NEEDED = (*HEAD.rstrip(",").split(","), "Throughput", "Bandwidth", "Succ-Ratio")
_MILLISECOND = 1e-3
_BIN_S = 10e-3
"""Percentiles are upper edges of a histogram's bins, which are at least this wide."""
_MEAN_ERROR = 0.05
"""Ramps and pauses between requests are in none of the means."""


def recognizes(text: str) -> bool:
    """Whether this looks like COSBench's CSV of a workload."""
    return text.lstrip("\ufeff").startswith(HEAD)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    return printed.run(NAME, "COSBench", text, name, [read_stages(text, name, {})])


def read_stages(text: str, name: str, workers: Mapping[str, int]) -> ExperimentResult:
    """The operations of a CSV; ``workers`` has those of a stage by its name. Raises ``UserError`` in one line."""
    stages: dict[str, list[Mapping[str, str]]] = {}
    for row in _list_rows(text, name):
        stages.setdefault(row["Stage"][:80], []).append(row)
    points: list[Measurement] = []
    for stage, rows in stages.items():
        requests = [_to_requests(row, workers.get(stage, 0) if len(rows) == 1 else 0) for row in rows]
        claims = _claim_in_flight(requests, workers.get(stage, 0)) if len(rows) > 1 else ()
        for at, made in enumerate(map(object_results.to_point, requests)):
            if made is not None:
                made.details["stage"] = stage
                points.append(_with_claims(made, claims if at == 0 else ()))
    return object_results.experiment("cosbench", points)


def _with_claims(point: Measurement, claims: Sequence[Claim]) -> Measurement:
    return replace(point, claims=(*point.claims, *claims)) if claims else point


def _list_rows(text: str, name: str) -> Iterator[Mapping[str, str]]:
    """The rows of requests by the names of their head. Raises ``UserError`` in one line."""
    lines = iter(text.lstrip("\ufeff").splitlines())
    names = next(lines, "").split(",")
    if lacking := [needed for needed in _NEEDED if needed not in names]:
        raise UserError(f"{name} has no column '{lacking[0]}' of COSBench's CSV")
    for line in lines:
        if line.count(",") < len(names) - 2:
            continue
        # The last column has each state of its stage, separated by commas.
        row = dict(zip(names, line.split(","), strict=False))
        if OPERATIONS.get(_word(row)) is not None:
            yield row


def _word(row: Mapping[str, str]) -> str:
    """The kind of its requests; archives that were loaded again have it in the operation's name alone."""
    kind = row["Op-Type"].lower()
    return kind if kind in OPERATIONS else row["Op-Name"].rpartition("-")[2].lower()


def _to_requests(row: Mapping[str, str], workers: int) -> Requests:
    count, moved = (_count(row[key]) for key in ("Op-Count", "Byte-Count"))
    mean, processing = number(row["Avg-ResTime"], _MILLISECOND), number(row.get("Avg-ProcTime"), _MILLISECOND)
    found = figures(
        bw=number(row["Bandwidth"]),
        iops=number(row["Throughput"]),
        lat_mean=mean,
        lat_p90=_read_edge(row.get("90%-ResTime")),
        lat_p95=_read_edge(row.get("95%-ResTime")),
        lat_p99=_read_edge(row.get("99%-ResTime")),
        lat_max=_read_edge(row.get("100%-ResTime")),
    )
    found = {name: figure for name, figure in found.items() if figure.value > 0}
    share = number(row["Succ-Ratio"].removesuffix("%"), 0.01)
    failed = round(count * (1 / share.value - 1)) if share and 0 < share.value < 1 else 0
    bandwidth, rate = found.get("bw"), found.get("iops")
    claims: tuple[Claim, ...] = ()
    if bandwidth and rate and count and moved:
        error = bandwidth.rounding + rate.rounding + SHARE_ERROR
        follows = rate.value * moved / count
        claims = (Claim("bandwidth", bandwidth.value, follows, "bytes/s", "rate x bytes / operations", error),)
    return Requests(
        _word(row),
        found,
        concurrency=workers,
        # The time until the data begin to come; for an upload it would be what is left after the data.
        first_byte=latency({"mean": processing}) if OPERATIONS[_word(row)] == "get" else None,
        completed=count,
        moved_bytes=moved,
        failed={"a request that COSBench counts as failed": failed},
        claims=claims,
    )


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= 15 else 0


def _read_edge(text: str | None) -> PrintedNumber | None:
    """A percentile: true to the width of a bin."""
    found = number(text, _MILLISECOND)
    return PrintedNumber(found.value, _BIN_S / found.value, None) if found is not None and found.value > 0 else None


def _claim_in_flight(requests: Sequence[Requests], workers: int) -> tuple[Claim, ...]:
    """The workers of a stage beside what all its operations have in flight (Little's law)."""
    stated = [
        made.numbers["iops"].value * made.numbers["lat_mean"].value
        for made in requests
        if {"iops", "lat_mean"} <= made.numbers.keys()
    ]
    if not workers or len(stated) != len(requests):
        return ()
    formula = "workers of its stage (Little's law)"
    return (Claim("requests in flight", sum(stated), float(workers), "1", formula, _MEAN_ERROR, at_most=True),)
