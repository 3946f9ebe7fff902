"""The grid's rows and the charts' series: which points a Run is judged by, and their ceilings and peers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hwdyno.analysis.ceilings import applies_by_key, utilizations
from hwdyno.analysis.curves import is_loaded
from hwdyno.explain.findings import why_not_double
from hwdyno.explain.findings.point_labels import format_label as field_label
from hwdyno.explain.findings.snia import is_rounds
from hwdyno.model.axes import BACKGROUND, list_traits, read_share
from hwdyno.model.words import (
    Axis,
    Ceiling,
    Curve,
    Declaration,
    ExperimentResult,
    Measurement,
    OperatingPoint,
    Parameters,
    PeerResult,
    Run,
    Scalar,
    Value,
)
from hwdyno.report import figures

MAX_ROWS = 12
"""Headline rows that one experiment other than a grid may have."""

SAME = 0.005
"""A bound within this of its ceiling is the ceiling: rate and throughput are rounded apart."""

_METRIC_UNITS = {
    "bytes_s": "bytes/s",
    "operations_s": "operations/s",
    "flop_s": "FLOP/s",
    "flops": "FLOP/s",
    "iop_s": "IOP/s",
}


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """Points that differ in the load alone, in order of load."""

    label: str
    parameters: Parameters
    points: tuple[int, ...]
    curve: Curve | None = None


@dataclass(frozen=True, slots=True)
class HeadlineRow:
    """One headline: a measurement, and all that it is compared with."""

    label: str
    experiment: ExperimentResult
    point: int
    measurement: Measurement
    peer: PeerResult | None
    ceiling: Ceiling | None
    """The tightest that applies."""
    share: float | None
    """Measured over ceiling."""
    why_not_double: str


def point_parameters(experiment: ExperimentResult, point: Measurement) -> Parameters:
    """What the point was measured with, what all points share included."""
    return {**experiment.fixed, **point.parameters}


def varying(sets: Sequence[Parameters]) -> list[str]:
    """The parameters that have more than one value among ``sets``, in their order."""
    names = dict.fromkeys(name for parameters in sets for name in parameters)
    return [name for name in names if len({repr(parameters.get(name)) for parameters in sets}) > 1]


def make_label(parameters: Parameters, names: Iterable[str], kernel: Declaration) -> str:
    """Words that distinguish one series or point from another: ``randread 4 KiB, iodepth=8``."""
    return field_label({name: parameters[name] for name in names if name in parameters}, kernel)


def grid_label(parameters: Parameters, axes: Sequence[Axis]) -> str:
    """A storage point's name in the words of CrystalDiskMark, without its direction; empty for other points."""
    rw, block = parameters.get("rw"), parameters.get("bs")
    if not isinstance(rw, str) or not isinstance(block, (int, float)):
        return ""
    pattern = "RND" if "random" in list_traits(axes, parameters) else "SEQ"
    name = f"{pattern}{figures.size(block, short=True)}"
    # A text that states no depth leaves it unknown; a kernel has a default.
    depth = parameters.get("iodepth", next((axis.default for axis in axes if axis.name == "iodepth"), None))
    return name if depth is None else f"{name} Q{depth}T{parameters.get('numjobs', parameters.get('ranks', 1))}"


def direction(parameters: Parameters, axes: Sequence[Axis]) -> str:
    """``read``, ``write``, ``mix 70% read``, or empty where the point has no direction."""
    share = read_share(axes, parameters)
    moves = list_traits(axes, parameters) & {"reads", "writes", "trims"}
    if share is None or "trims" in moves:
        return ""
    if moves == {"reads", "writes"}:
        return f"mix {100 * share:.0f}% read"
    return "read" if "reads" in moves else "write" if "writes" in moves else ""


def point_label(experiment: ExperimentResult, point: int) -> str:
    """A point's name among those of its experiment."""
    parameters = point_parameters(experiment, experiment.points[point])
    kernel = experiment.declaration
    is_part = any(note.code == "pattern_not_stated" for note in experiment.points[point].notes)
    # CrystalDiskMark's words state an order and a depth, which a part of another tool's text does not.
    short = "" if is_part else grid_label(parameters, kernel.axes)
    if short:
        way = direction(parameters, kernel.axes) or str(parameters["rw"])
        others = [name for name in varying([p.parameters for p in experiment.points]) if name not in _GRID_NAMES]
        return " · ".join(filter(None, [f"{short} {way}", make_label(parameters, others, kernel)]))
    names = varying([p.parameters for p in experiment.points])
    names = list(dict.fromkeys(["rw", "bs", *names])) if is_part and names else names
    names = names or list(experiment.points[point].parameters)
    return make_label(parameters, names, kernel) or experiment.name


_GRID_NAMES = {"rw", "rwmixread", "bs", "iodepth", "numjobs"}


def point_load(experiment: ExperimentResult, point: int) -> Scalar:
    """The point's value on the axis of load."""
    return point_parameters(experiment, experiment.points[point]).get(experiment.load)


def is_at(experiment: ExperimentResult, point: int, place: OperatingPoint | None) -> bool:
    """Whether a measured operating point of a curve is this point."""
    if place is None:
        return False
    if is_loaded(experiment) and place.load == place.throughput:
        return experiment.points[point].throughput.value == place.throughput
    return point_load(experiment, point) == place.load


def is_number(value: Scalar) -> bool:
    """Whether a parameter is a quantity (true and false are not)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def list_series(experiment: ExperimentResult) -> list[ChartSeries]:
    """The experiment's curves, then the points that belong to none, parted by all axes but the load."""
    groups: list[tuple[Parameters, tuple[int, ...], Curve | None]] = [
        (curve.series, curve.points, curve) for curve in experiment.curves if curve.points
    ]
    taken = {at for _, points, _ in groups for at in points}
    loose: dict[str, tuple[Parameters, list[int]]] = {}
    for at, point in enumerate(experiment.points):
        if at not in taken:
            others = {name: value for name, value in point.parameters.items() if name != experiment.load}
            loose.setdefault(repr(others), (others, []))[1].append(at)
    groups += [(others, tuple(points), None) for others, points in loose.values()]
    names = varying([parameters for parameters, _, _ in groups])

    def key(at: int) -> tuple[bool, float, str]:
        load = point_load(experiment, at)
        return (not is_number(load), float(load) if is_number(load) and load is not None else 0.0, str(load))

    return [
        ChartSeries(
            make_label(parameters, names or parameters, experiment.declaration) or experiment.name,
            parameters,
            tuple(sorted(points, key=key)),
            curve,
        )
        for parameters, points, curve in groups
    ]


def judged_unit(experiment: ExperimentResult) -> str:
    """The unit that the experiment is judged in."""
    if experiment.metric == "latency" and any(point.latency_ns for point in experiment.points):
        return "ns"
    for curve in experiment.curves:
        return curve.unit
    if experiment.metric in {"rate", "iops", "operations_s"} and all(point.rate for point in experiment.points):
        return "operations/s"
    return experiment.points[0].throughput.unit if experiment.points else ""


def by_unit(experiment: ExperimentResult) -> list[ExperimentResult]:
    """The experiment in parts of one unit each, such as FLOP/s and IOP/s: no axis and no column can hold two."""
    units = list(dict.fromkeys(point.throughput.unit for point in experiment.points))
    if len(units) < 2 or experiment.metric not in {"", "throughput"}:
        return [experiment]
    parts = []
    for unit in units:
        chosen = [at for at, point in enumerate(experiment.points) if point.throughput.unit == unit]
        new = {at: index for index, at in enumerate(chosen)}
        curves = tuple(
            replace(curve, points=tuple(new[at] for at in curve.points if at in new))
            for curve in experiment.curves
            if curve.unit == unit
        )
        peers = tuple(replace(peer, point=new[peer.point]) for peer in experiment.peers if peer.point in new)
        points = tuple(experiment.points[at] for at in chosen)
        parts.append(replace(experiment, points=points, curves=curves, peers=peers))
    return parts


def in_unit(measurement: Measurement, unit: str) -> Value | None:
    """The measurement's throughput, rate or mean latency, whichever has ``unit``."""
    if unit == "ns" and measurement.latency_ns is not None:
        return Value(measurement.latency_ns.mean, "ns")
    if measurement.throughput.unit == unit:
        return measurement.throughput
    return measurement.rate if measurement.rate is not None and measurement.rate.unit == unit else None


def split_metric(ceiling: Ceiling) -> tuple[str, str]:
    """A ceiling's direction (``read``, ``write`` or empty for both) and unit."""
    for direction_ in ("read", "write"):
        if ceiling.metric.startswith(direction_ + "_"):
            return direction_, _METRIC_UNITS.get(ceiling.metric[len(direction_) + 1 :], ceiling.unit)
    return "", _METRIC_UNITS.get(ceiling.metric, ceiling.unit)


def bounds(ceiling: Ceiling, parameters: Parameters, axes: Sequence[Axis]) -> bool:
    """Whether the ceiling bounds a point with these parameters: one of its direction, or any if it has none."""
    keyed = applies_by_key(ceiling, parameters)
    if keyed is not None:
        return keyed
    wanted, _ = split_metric(ceiling)
    return not wanted or direction(parameters, axes) == wanted


def tightest(experiment: ExperimentResult, point: int) -> tuple[Ceiling | None, float | None]:
    """The ceiling that leaves the least room above the point, and measured over ceiling.

    What a peer reached is a ceiling only where no link and no maker gives one.
    """
    measurement = experiment.points[point]
    parameters, axes = point_parameters(experiment, measurement), experiment.declaration.axes
    every = utilizations(experiment.ceilings, measurement, parameters, axes=axes)
    best = max(
        every, key=lambda utilization: (utilization.bound.ceiling.kind != "reference", utilization.share), default=None
    )
    if best is None:
        return None, None
    ceiling, shown = best.bound.ceiling, in_unit(measurement, best.bound.ceiling.unit)
    # What it lets a mix reach is more than what it lets its own direction reach.
    value = shown.value / best.share if shown and best.share else best.bound.value
    if abs(value / ceiling.value - 1) < SAME:
        return ceiling, best.share
    return replace(ceiling, value=value, formula=best.bound.formula), best.share


def find_peer(experiment: ExperimentResult, point: int) -> PeerResult | None:
    """What the first peer that measured this point reached."""
    return next((peer for peer in experiment.peers if peer.point == point), None)


def headline_points(experiment: ExperimentResult) -> list[int]:
    """All points of a grid, and those beside a load; of a sweep, one a series: its best point, or the fastest."""
    if experiment.name.endswith(".grid") or experiment.load == BACKGROUND.name:
        return list(range(len(experiment.points)))
    unit = judged_unit(experiment)

    def reached_value(at: int) -> float:
        value = in_unit(experiment.points[at], unit)
        return value.value if value and experiment.points[at].validity != "invalid" else -1.0

    chosen = []
    for series in list_series(experiment):
        best = series.curve.best if series.curve else None
        at_best = [at for at in series.points if is_at(experiment, at, best)]
        chosen.append(at_best[0] if at_best else max(series.points, key=reached_value))
    if len(chosen) > MAX_ROWS:
        chosen = sorted(chosen, key=reached_value, reverse=True)[:MAX_ROWS]
    return chosen


def make_rows(run: Run) -> list[HeadlineRow]:
    """The grid: headline rows of every experiment, grids first."""
    rows = []
    shown = [experiment for experiment in run.experiments if not is_rounds(experiment)]
    for experiment in sorted(shown, key=lambda e: not e.name.endswith(".grid")):
        for point in headline_points(experiment):
            ceiling, share = tightest(experiment, point)
            rows.append(
                HeadlineRow(
                    label=point_label(experiment, point),
                    experiment=experiment,
                    point=point,
                    measurement=experiment.points[point],
                    peer=find_peer(experiment, point),
                    ceiling=ceiling,
                    share=share,
                    why_not_double=why_not_double(experiment.points[point], run=run, experiment=experiment),
                )
            )
    return rows
