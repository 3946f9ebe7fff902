"""Projections of a Run's curves, as text and as JSON: what they say of loads far past the measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from hwdyno.analysis.curves import curve_value, relative_error
from hwdyno.analysis.curves.projection import Outlook, outlook
from hwdyno.analysis.curves.scalability import Interval
from hwdyno.analysis.resources import find_rate_word
from hwdyno.explain.findings.commands import add_launcher, make_command, shared_options
from hwdyno.model.axes import CLIENTS
from hwdyno.model.units import format_load, format_ns, format_percent, format_quantity
from hwdyno.model.words import Axis, Curve, ExperimentResult, Measurement, Parameters, Run, Value
from hwdyno.report.rows import is_number, list_series, tightest
from hwdyno.system.printable import columns

MODELS = {"queue-knee", "usl", "none"}
"""Models of curves along the number of what is in flight in a closed loop."""


@dataclass(frozen=True)
class Projected:
    """One curve with its outlook."""

    experiment: ExperimentResult
    label: str
    curve: Curve
    outlook: Outlook
    axis: Axis
    cap: Value | None
    """The tightest physical ceiling, in the curve's unit; none where none is known."""
    cap_label: str
    command: str
    """Measures what is missing; empty where nothing is."""


def project_curves(run: Run, targets: list[float]) -> list[Projected]:
    """Every curve along a number of requests, clients or threads, projected to the loads ``targets``."""
    return [projected for result in run.experiments for projected in _of_experiment(run, result, targets)]


def _of_experiment(run: Run, result: ExperimentResult, targets: list[float]) -> list[Projected]:
    if result.load_axis.role != "concurrency":
        return []
    return [
        _project_curve(run, result, series.label, series.curve, targets)
        for series in list_series(result)
        if series.curve is not None and series.curve.model in MODELS and _has_loads(result, series.curve)
    ]


def _has_loads(result: ExperimentResult, curve: Curve) -> bool:
    """Whether each of a curve's points has its load, which a document from elsewhere may lack."""
    names = {curve.load, result.load}
    return all(is_number(result.points[at].parameters.get(name)) for at in curve.points for name in names)


def _project_curve(run: Run, result: ExperimentResult, label: str, curve: Curve, targets: list[float]) -> Projected:
    points = [result.points[at] for at in curve.points]
    used = [point for point in points if point.validity != "invalid"] or points
    values = [curve_value(point, result) for point in used]
    errors = [relative_error(value, point.repeats) for value, point in zip(values, used, strict=True)]
    known = [error for error in errors if error is not None]
    found = outlook(
        [float(point.parameters[result.load]) for point in used],  # type: ignore[arg-type]
        [value.value for value in values],
        known if len(known) == len(values) else [],
        targets,
        latencies_ns=[None if point.latency_ns is None else point.latency_ns.mean for point in used],
        per_request=_per_request(used, values),
    )
    command = ""
    if found.measure is not None and not run.imported_from:
        change: Parameters = {result.load: f"1..{found.measure}"}
        command = make_command(run, result, {**shared_options(result), **curve.series}, change)
        command = add_launcher(run, command, found.measure if result.load == CLIENTS.name else None)
    best = max(curve.points, key=lambda at: curve_value(result.points[at], result).value)
    ceiling, share = tightest(result, best)
    cap = None
    if ceiling is not None and share and ceiling.kind == "physical":
        cap = Value(curve_value(result.points[best], result).value / share, curve.unit)
    return Projected(
        result,
        label,
        curve,
        found,
        result.load_axis,
        cap,
        (ceiling.label or ceiling.formula) if ceiling is not None else "",
        command,
    )


def _per_request(points: Sequence[Measurement], values: Sequence[Value]) -> float | None:
    """What a request adds to the throughput, as the median of the points; none where requests were not counted."""
    amounts = [value.value / point.rate.value for point, value in zip(points, values, strict=True) if point.rate]
    return median(amounts) if amounts else None


def section(projected: Projected) -> str:
    """What a reader sees of one curve."""
    found, load_words = projected.outlook, projected.axis.words
    curve, points = projected.curve, projected.experiment.points
    measured = [float(points[at].parameters[curve.load]) for at in curve.points]  # type: ignore[arg-type]
    head = f"{projected.experiment.name} · {projected.label}: measured {load_words} {format_load(min(measured))} to "
    lines = [head + format_load(max(measured))]
    if found.refused:
        lines.append(f"no projection: {found.refused}.")
        rows = [(load_words, "throughput, bounds of any closed system")]
        rows += [
            (
                format_load(item.load),
                f"{_quantity(item.low, projected)} to {_quantity(_cap_value(item.high, projected), projected)}",
            )
            for item in found.brackets
        ]
        lines += _indent_lines(columns(rows))
        if projected.command:
            lines.append(f"measure: {projected.command}")
        return "\n".join(lines) + "\n"
    whole = [(load_words, "throughput (95%)", "latency (95%)")]
    whole += [
        (format_load(item.load), _range(item.throughput, projected), _wait(item.latency_ns))
        for item in found.projections
    ]
    return "\n".join([*lines, *_indent_lines(columns(whole)), *_assumptions(projected)]) + "\n"


def _wait(latency: Interval | None) -> str:
    if latency is None or latency.low is None:
        return ""
    return f"{format_ns(latency.value)} ({format_ns(latency.low)} to {format_ns(latency.high)})"


def _indent_lines(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _assumptions(projected: Projected) -> list[str]:
    """What the projection rests on, in words."""
    found = projected.outlook
    check = "none, since the knee is not seen without the largest load."
    if found.predicted_share is not None:
        share = format_percent(found.predicted_share)
        check = f"the smaller loads predict the largest one's throughput at {share} of what was measured."
    place = f" ({projected.axis.words} {format_load(found.crossing.value)})" if found.crossing else ""
    limit = "and no other shared limit is met: a switch, a server's memory, a licence."
    if projected.cap is not None:
        cap = f"{projected.cap_label} ({_quantity(projected.cap.value, projected)})"
        limit = f"under {cap}, and no other shared limit is met."
    return [f"check: {check}", f"assumed: the queue stays as it is past its knee{place}, {limit}"]


def _quantity(value: float, projected: Projected) -> str:
    return format_quantity(value, projected.curve.unit, find_rate_word(projected.experiment))


def _cap_value(value: float, projected: Projected) -> float:
    return value if projected.cap is None else min(value, projected.cap.value)


def _range(interval: Interval, projected: Projected) -> str:
    assert interval.low is not None and interval.high is not None
    low, value, high = (
        _quantity(_cap_value(end, projected), projected) for end in (interval.low, interval.value, interval.high)
    )
    return f"{value} ({low} to {high})"


def plain_projection(projected: Projected) -> dict[str, Any]:
    """One curve's projection as plain JSON values."""
    return {
        "experiment": projected.experiment.name,
        "series": projected.curve.series,
        "load": projected.curve.load,
        "unit": projected.curve.unit,
        "ceiling": None if projected.cap is None else {"value": projected.cap.value, "label": projected.cap_label},
        **asdict(projected.outlook),
        "command": projected.command,
    }
