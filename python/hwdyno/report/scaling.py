"""Curves over clients, and pairs of hosts, as text, as tables of a page and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hwdyno.analysis.resources import find, find_rate_word
from hwdyno.explain.findings.host_pairs import HostPair, list_pairs
from hwdyno.explain.findings.scaling import NOT_KNOWN, ScalingStep, list_steps, plain_step
from hwdyno.model.axes import CLIENTS
from hwdyno.model.units import format_load, format_ns, format_percent, format_quantity
from hwdyno.model.words import Curve, ExperimentResult, Run
from hwdyno.report.contention import Matrix
from hwdyno.report.projections import plain_projection, project_curves, section
from hwdyno.report.rows import list_series
from hwdyno.system.printable import columns

NOTHING = "-"


@dataclass(frozen=True)
class Scaled:
    """One curve over clients."""

    result: ExperimentResult
    label: str
    curve: Curve
    steps: tuple[ScalingStep, ...]


def list_scaled(run: Run) -> list[Scaled]:
    """Every curve over clients of a Run."""
    return [
        Scaled(result, series.label, series.curve, list_steps(run, result, series.curve))
        for result in run.experiments
        if result.load == CLIENTS.name
        for series in list_series(result)
        if series.curve is not None
    ]


def matrices(run: Run) -> list[Matrix]:
    """A table a curve, and one of each network's pairs; none for a Run without any."""
    return [*_curves(run), *_networks(run)]


def _curves(run: Run) -> list[Matrix]:
    return [
        Matrix(
            f"{scaled_curve.result.asks}: {scaled_curve.label}",
            _HEADS,
            tuple(_row(scaled_curve, step) for step in scaled_curve.steps),
        )
        for scaled_curve in list_scaled(run)
    ]


def _networks(run: Run) -> list[Matrix]:
    """The networks between each pair of hosts, where single pairs were measured."""
    names = tuple(machine.hostname or str(at) for at, machine in enumerate(run.machines))
    found = []
    for result in run.experiments:
        pairs = {(pair.sender, pair.receiver): _pair_words(result, pair) for pair in list_pairs(result, names)}
        if pairs:
            rows = tuple((name, *(pairs.get((name, other), NOTHING) for other in names)) for name in names)
            way = " over loopback" if any(point.details.get("loopback") is True for point in result.points) else ""
            found.append(Matrix(f"{result.asks}{way}", ("from", *(f"to {name}" for name in names)), rows))
    return found


def _pair_words(result: ExperimentResult, pair: HostPair) -> str:
    if result.kernel in find(result.resource).latency_kernels and pair.point.latency_ns is not None:
        return format_ns(pair.point.latency_ns.mean)
    return format_quantity(pair.point.throughput.value, pair.point.throughput.unit, find_rate_word(result))


_HEADS = (
    *("clients", "nodes", "together", "of linear", "fairness", "mean", "p99", "slowest client's p99"),
    *("slowest client", "limit"),
)


def _row(scaled: Scaled, step: ScalingStep) -> tuple[str, ...]:
    latency = step.latency_ns
    return (
        format_load(step.clients),
        str(step.nodes),
        format_quantity(step.throughput.value, step.throughput.unit, find_rate_word(scaled.result)),
        format_percent(step.share_of_linear),
        NOTHING if step.fairness is None else f"{step.fairness:.3f}",
        NOTHING if latency is None else format_ns(latency.mean),
        NOTHING if latency is None or latency.p99 is None else format_ns(latency.p99),
        NOTHING if step.slowest_p99_ns is None else format_ns(step.slowest_p99_ns),
        step.slowest or NOTHING,
        step.limit,
    )


def notes(run: Run) -> list[str]:
    """Knee and limit of each curve, a sentence or two each."""
    return [
        f"{scaled_curve.label}: {_knee_words(scaled_curve)} {_limit_words(scaled_curve)}"
        for scaled_curve in list_scaled(run)
    ]


def _knee_words(scaled: Scaled) -> str:
    curve = scaled.curve
    if curve.state == "knee" and curve.knee is not None:
        return f"Knee at {format_load(curve.knee.load)} clients."
    if curve.state == "saturated at the first point":
        return f"Saturated from {format_load(curve.best.load if curve.best else scaled.steps[0].clients)} clients on."
    return "No knee up to " + format_load(scaled.steps[-1].clients) + " clients."


def _limit_words(scaled: Scaled) -> str:
    most = max(scaled.steps, key=lambda step: step.throughput.value)
    return most.says if most.limit == NOT_KNOWN else f"Limit: {most.limit}. {most.says}"


def text(run: Run, targets: Sequence[float] = ()) -> str:
    """Every curve with its knee and its limit, and projected to these numbers of clients; empty without any."""
    parts = []
    far = _by_curve(run, targets)
    for table, note, scaled_curve in zip(_curves(run), notes(run), list_scaled(run), strict=True):
        parts.append(_plain(table) + f"{note}\n")
        parts += [section(found) for found in far.get(_key(scaled_curve.result, scaled_curve.curve), ())]
    return "\n".join([*parts, *map(_plain, _networks(run))])


def _plain(table: Matrix) -> str:
    lines = columns([table.heads, *table.rows]).splitlines()
    return "\n".join([table.title, *(f"  {line}" for line in lines)]) + "\n"


def _by_curve(run: Run, targets: Sequence[float]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for projected in project_curves(run, list(targets)) if targets else ():
        found.setdefault(_key(projected.experiment, projected.curve), []).append(projected)
    return found


def _key(result: ExperimentResult, curve: Curve) -> str:
    return f"{result.name} {sorted(curve.series.items())}"


def documents(run: Run, targets: Sequence[float] = ()) -> list[dict[str, Any]]:
    """The curves as plain JSON values, times in ns."""
    far = _by_curve(run, targets)
    return [
        {
            "experiment": scaled_curve.result.name,
            "series": scaled_curve.curve.series,
            "unit": scaled_curve.curve.unit,
            "state": scaled_curve.curve.state,
            "knee_clients": scaled_curve.curve.knee.load if scaled_curve.curve.knee else None,
            "best_clients": scaled_curve.curve.best.load if scaled_curve.curve.best else None,
            "limit": max(scaled_curve.steps, key=lambda step: step.throughput.value).limit,
            "steps": [plain_step(step) for step in scaled_curve.steps],
            "projections": [
                plain_projection(found) for found in far.get(_key(scaled_curve.result, scaled_curve.curve), ())
            ],
        }
        for scaled_curve in list_scaled(run)
    ]
