"""What load generators for language models report, under one set of names: each tool's words have its own formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hwdyno.formats import printed
from hwdyno.model.point_details import Claim, Concurrency
from hwdyno.model.words import Latency, Measurement, Parameters, Run, Stream
from hwdyno.system.foreign import Table

KERNEL = "inference_serving"
ERROR = 0.01
"""Tools print durations and rates with three digits or more."""

OVERLOADED = 0.5
"""Share of a stated rate below which the last answers of a short test do not explain what is missing."""
UNSTATED = "test"
"""The axis of results whose load is not stated."""


@dataclass(frozen=True, slots=True)
class Reported:
    """One load. Times are by the names of ``serving.figures``, each in ns."""

    requests_s: float
    output_tokens_s: float
    completed: int
    elapsed_s: float
    users: int = 0
    """Users of a closed loop; 0 for an open one."""
    rate: float = 0.0
    failed: int = 0
    output_tokens: int = 0
    """All; 0 where only the rate is stated."""
    times: Mapping[str, Latency] = field(default_factory=dict)


def read_latency(values: Table, scale: float, names: Mapping[str, str], count: int) -> Latency | None:
    """A distribution of printed percentiles; ``names`` has the tool's key of ``mean``, ``p50`` …"""
    found = {name: values.number(key) * scale for name, key in names.items() if key in values}
    if not found.get("mean"):
        return None
    p50, p90, p99, p999, least, most = (found.get(name) for name in ("p50", "p90", "p99", "p999", "min", "max"))
    return Latency(found["mean"], p50, p90, p99, p999, least, most, count)


def make_run(form: str, tool: str, text: str, name: str, loads: list[Reported], version: str = "") -> Run:
    """The Run of a tool's loads: closed and open ones are two experiments, and one is for what states none."""
    groups: dict[str, list[Measurement]] = {"concurrency": [], "rate": [], UNSTATED: []}
    for load in loads:
        groups["rate" if load.rate else "concurrency" if load.users else UNSTATED].append(_point(load))
    tables = [
        printed.counting(
            printed.experiment(f"inference.{axis}", f"{tool} results by {axis}", KERNEL, axis, points), "request"
        )
        for axis, points in groups.items()
    ]
    return printed.run(form, tool, text, name, tables, version)


def _point(reported: Reported) -> Measurement:
    parameters: Parameters = {}
    if reported.rate or reported.users:
        parameters = {"rate": reported.rate} if reported.rate else {"concurrency": reported.users}
    times = dict(reported.times)
    total = times.pop("total", None)
    stream = Stream("request", reported.completed, 0, latency_ns={"total": total} if total else {})
    made = printed.point(
        parameters,
        reported.requests_s,
        "operations/s",
        output_tokens_s=reported.output_tokens_s,
        **({"requested_operations_s": reported.rate} if reported.requests_s < OVERLOADED * reported.rate else {}),
        failed_share=reported.failed / max(1, reported.failed + reported.completed),
    )
    claims = []
    if reported.elapsed_s > 0:
        claims.append(
            _claim("requests/s", reported.requests_s, reported.completed / reported.elapsed_s, "completed / duration")
        )
    if reported.elapsed_s > 0 and reported.output_tokens:
        follows = reported.output_tokens / reported.elapsed_s
        claims.append(_claim("tokens/s", reported.output_tokens_s, follows, "output tokens / duration"))
    return replace(
        made,
        latency_ns=total,
        streams=(stream, Stream("token", 0, 0, latency_ns=times)),
        elapsed_s=reported.elapsed_s,
        operations=reported.completed,
        concurrency=Concurrency(float(reported.users), None) if reported.users else None,
        claims=tuple(claims),
    )


def _claim(quantity: str, stated: float, follows: float, formula: str) -> Claim:
    return Claim(quantity, stated, follows, "1/s", formula, ERROR)
