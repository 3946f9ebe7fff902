"""The open loop over the closed one: what users wait at a rate, what a fixed depth shows, and the queue G/G/m."""

from __future__ import annotations

from typing import Any

from hwdyno.analysis.curves.open_loop import OpenLoop
from hwdyno.analysis.resources import find_rate_word
from hwdyno.model.units import format_size
from hwdyno.model.words import Axis, Curve, ExperimentResult, Measurement, Parameters, Run
from hwdyno.report import figures
from hwdyno.report.drawing import join_rows, make_tip
from hwdyno.report.picture import Dot, Mark, Picture, PicturePoint, Polyline, decades, even

SAME = ("rw", "rwmixread", "bs", "direct", "ioengine")
"""What two experiments must share to be of the same work."""
SHARES = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98)
"""Shares of the capacity, where the model is drawn."""


def draw_loops(run: Run, experiment: ExperimentResult) -> Picture | None:
    """Mean latency against the rate reached, of one experiment over rates; none for any other."""
    axis = experiment.load_axis
    if axis.role != "rate" or not experiment.curves:
        return None
    curve = experiment.curves[0]
    work = {**experiment.fixed, **curve.series}
    ours = [("open loop", point, axis) for point in _points(experiment, curve)]
    closed = _closed_points(run, experiment.resource, work)
    ours += [("closed loop", point, load) for point, load in closed]
    known = [(kind, point, load) for kind, point, load in ours if point.latency_ns and point.rate]
    if sum(kind == "open loop" for kind, *_ in known) < 2:
        return None
    model = _model(curve)
    rate = figures.scale_for([_rate(point) for _, point, _ in known], "operations/s", find_rate_word(experiment))
    latency = figures.latency_scale([_latency(point) for _, point, _ in known])
    names = list(dict.fromkeys(kind for kind, *_ in known)) + ([f"G/G/{model.servers}"] if model else [])
    rows = [_row(kind, point, load, rate, latency) for kind, point, load in known]
    at = {name: number for number, name in enumerate(names)}
    fields = (("series", "loop"), ("load", "load"), ("tip", "there"))
    marks: list[Mark] = [*join_rows(sorted(rows, key=lambda row: row["order"]), at, width=1.4, across="x")]
    marks += [Dot(at[row["series"]], row["x"], row["y"], tip=make_tip(row, *fields)) for row in rows]
    clauses = ["Open loop: requests arrive at a set rate; latency counts from the scheduled start"]
    clauses.append(
        "Closed loop: a fixed number in flight; the wait before the start is not counted"
        if closed
        else "No closed loop of the same work was measured; `hwdyno storage rate iodepth` measures both"
    )
    modelled: tuple[PicturePoint, ...] = ()
    if model is not None:
        modelled = tuple(
            (share * model.capacity_s / rate.divisor, model.latency_ns(share * model.capacity_s) / latency.divisor)
            for share in SHARES
        )
        marks.append(Polyline(at[names[-1]], modelled, dash="4 3"))
        clauses.append(f"Dashed: the G/G/{model.servers} queue that fits the open loop best")
    size = work.get("bs")
    named = " ".join([str(work.get("rw", "")), format_size(size) if isinstance(size, int) else ""]).strip()
    title = f"Response time: {named}" if named else "Response time by request rate"
    places = [(row["x"], row["y"]) for row in rows] + list(modelled)
    x = even(f"reached, {rate.unit}", [place[0] for place in places])
    y = decades(f"mean latency, {latency.unit} (log)", [place[1] for place in places])
    return Picture(title, f"{'. '.join(clauses)}.", x, y, tuple(names), tuple(marks))


def _points(experiment: ExperimentResult, curve: Curve) -> list[Measurement]:
    return [experiment.points[at] for at in curve.points]


def _model(curve: Curve) -> OpenLoop | None:
    if curve.model not in {"m-m-m", "g-g-m"} or curve.ceiling is None:
        return None
    return OpenLoop.from_parameters(curve.parameters)


def _closed_points(run: Run, resource: str, work: Parameters) -> list[tuple[Measurement, Axis]]:
    """The points of the first closed loop of the same work in the Run, each with its axis of load."""
    for experiment in run.experiments:
        # In a closed loop the next request waits for one before it.
        axis = experiment.load_axis
        if axis.role != "concurrency" or experiment.resource != resource:
            continue
        for curve in experiment.curves:
            theirs = {**experiment.fixed, **curve.series}
            if all(str(work.get(name)) == str(theirs.get(name)) for name in SAME if name in {**work, **curve.series}):
                return [(point, axis) for point in _points(experiment, curve)]
    return []


def _rate(point: Measurement) -> float:
    return point.rate.value if point.rate else 0.0


def _latency(point: Measurement) -> float:
    return point.latency_ns.mean if point.latency_ns else 0.0


def _row(kind: str, point: Measurement, load: Axis, rate: figures.Scale, latency: figures.Scale) -> dict[str, Any]:
    at = point.parameters.get(load.name)
    return {
        "x": _rate(point) / rate.divisor,
        "y": _latency(point) / latency.divisor,
        "series": kind,
        "order": float(at) if isinstance(at, int | float) else 0.0,
        "load": f"{load.name} {figures.parameter(load, at)}",
        "tip": f"{rate.quantity(_rate(point))} at {latency.quantity(_latency(point))}",
    }
