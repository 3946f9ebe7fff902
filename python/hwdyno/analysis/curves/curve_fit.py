"""Reads curves off an experiment's points: floor, knee, ceiling, best operating point and state."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from hwdyno.analysis.curves.knee import fit_knee
from hwdyno.analysis.curves.knee_model import Knee
from hwdyno.analysis.curves.loaded import loaded_curve
from hwdyno.analysis.curves.open_loop import OF_OPERATIONS, LatencySpread, fit_open_loop, next_rate
from hwdyno.analysis.curves.operating_points import find_best, find_level, is_tight, judge_state, lost_share
from hwdyno.analysis.curves.scalability import USL_MIN_POINTS, Interval, Scalability, fit_scalability
from hwdyno.analysis.curves.series import Series, curve_value, read_amount, read_load, relative_error
from hwdyno.analysis.states import OTHER_STATE
from hwdyno.model.axes import series_key
from hwdyno.model.histogram import Histogram
from hwdyno.model.kernels import MEMORY_LOADED_LATENCY
from hwdyno.model.words import Axis, Curve, ExperimentResult, Latency, OperatingPoint, Parameters, Scalar, Value

REACHED_SHARE = 0.95
"""Share of a point's rate below which its latency is that of a backlog, which grows with the run."""


MIN_POINTS = 3


FITTED = {"concurrency", "size", "delay"}
"""Roles of a load that a model is fitted along; a rate has a separate model."""


LOADED, LOADED_MODEL = MEMORY_LOADED_LATENCY, "loaded-latency"
"""The kernel whose curve is latency by bandwidth, and the model of that: its loads are bytes/s."""


LOSS, ODD_LOAD, ODD_RATIO = "loss", "odd_load", "odd_ratio"
"""Names of a curve's parameters: what its last load loses against the peak; a load off the curve of the others, and
what was measured there over what that curve has."""


CAPACITY = "capacity"
"""Name of an open loop's parameter: the rate at which the wait is infinite, with its interval."""


ARRIVALS = {"poisson": 1.0, "linear": 0.0}
"""The squared coefficient of variation of the time between requests, by ``rate_process``."""


def fit_curves(result: ExperimentResult) -> tuple[Curve, ...]:
    """One Curve for each combination of the other axes that has at least two loads.

    Points that are invalid stay on the curve, but do not shape its model (unless all are). Those that were read in
    another state of the device alone are on none.
    """
    axis = result.load_axis
    series: dict[tuple[tuple[str, Scalar], ...], list[int]] = defaultdict(list)
    for at, point in enumerate(result.points):
        load = point.parameters.get(result.load)
        least = 0 if axis.role == "delay" else 1e-300
        if isinstance(load, bool) or not isinstance(load, int | float) or load < least:
            continue
        if read_amount(point, result) <= 0:
            continue
        if OTHER_STATE in point.why:
            continue
        series[series_key(result.declaration, point.parameters, {result.load})].append(at)
    found = []
    for others_of, indices in series.items():
        indices.sort(key=lambda at: read_load(result.points[at], axis))
        if len({read_load(result.points[at], axis) for at in indices}) >= 2:
            measured = tuple(
                (read_load(result.points[at], axis), read_amount(result.points[at], result)) for at in indices
            )
            found.append(replace(_curve(result, axis, dict(others_of), indices), measured=measured))
    return tuple(found)


def suggest_load(curve: Curve, axis: Axis, measured: Iterable[float] = ()) -> int | None:
    """One more load worth measuring: near 90% of the ceiling, unless one within 15% of it was measured.

    None for block sizes (they come in powers of two) and for curves without a knee.
    """
    if curve.load_90 is None or curve.state != "knee" or axis.role != "concurrency":
        return None
    load = max(1, round(curve.load_90))
    near = any(abs(math.log(load / other)) < math.log(1.15) for other in measured)
    return None if near else load


def _curve(result: ExperimentResult, axis: Axis, others: Parameters, indices: list[int]) -> Curve:
    points = result.points
    fitted = [at for at in indices if points[at].validity != "invalid"]
    if len({read_load(points[at], axis) for at in fitted}) < min(MIN_POINTS, len(indices)):
        fitted = indices
    rates = [points[at].rate for at in fitted]
    amounts = [points[at].throughput.value for at in fitted]
    ratios = [a / rate.value for a, rate in zip(amounts, rates, strict=True) if rate and rate.value > 0]
    lat = [points[at].latency_ns for at in fitted]
    series = Series(
        indices=tuple(indices),
        loads=tuple(read_load(points[at], axis) for at in fitted),
        values=tuple(curve_value(points[at], result) for at in fitted),
        latencies=tuple(None if latency is None else latency.mean for latency in lat),
        tails=tuple(None if latency is None else latency.p99 for latency in lat),
        axis=axis,
        spreads=tuple(map(_spread, lat)) if axis.role == "rate" else (None,) * len(lat),
        arrivals=ARRIVALS.get(str({**result.fixed, **points[fitted[0]].parameters}.get("rate_process"))),
        operation=sorted(ratios)[len(ratios) // 2] if ratios and result.metric == "throughput" else 1.0,
    )
    # Latencies within 2% of the least are the same; the least load among them is the floor.
    least = min((latency for latency in series.latencies if latency), default=None)
    floor = next(
        (
            n
            for n, latency in zip(series.loads, series.latencies, strict=True)
            if least and latency and latency <= 1.02 * least
        ),
        series.loads[0],
    )
    plain = Curve(
        series=others,
        load=result.load,
        points=tuple(indices),
        unit=series.values[0].unit,
        model="none",
        floor=series.point(floor),
    )
    if axis.role == "rate":
        return _open_loop(plain, series)
    if is_loaded(result) and (curve := _fit_loaded(plain, series)) is not None:
        return curve
    # The model describes bandwidth by block size, not blocks a second.
    lawless = axis.role == "size" and plain.unit == "operations/s"
    if len(set(series.loads)) < MIN_POINTS or axis.role not in FITTED or lawless:
        return plain
    found = (relative_error(value, points[at].repeats) for value, at in zip(series.values, fitted, strict=True))
    errors = [error for error in found if error is not None]
    if len(errors) < len(series.values):
        errors = []
    series = replace(series, errors=tuple(errors))
    requests = axis.role == "concurrency" and series.loads[0] >= 1
    knee = fit_knee(series.loads, series.amounts, errors, requests=requests)
    if (level := find_level(series, knee)) is not None:
        knee = fit_knee(series.loads, series.amounts, errors, requests=requests, level=level)
    usl = None
    if axis.workers and len(set(series.loads)) >= USL_MIN_POINTS:
        usl = fit_scalability(series.loads, series.amounts, errors)
    best = max(amount for at, amount in enumerate(series.amounts) if knee.odd is None or at != knee.odd.at)
    return _read_off(plain, series, knee.with_best(best), usl)


def _spread(latency: Latency | None) -> LatencySpread | None:
    return LatencySpread.from_histogram(Histogram.unpack(latency.histogram)) if latency and latency.histogram else None


def is_loaded(result: ExperimentResult) -> bool:
    """Whether its load is the bandwidth of other threads' traffic, beside which a latency is measured."""
    return result.kernel == LOADED and result.load_axis.role == "delay"


def _fit_loaded(plain: Curve, series: Series) -> Curve | None:
    """Latency by the traffic's bandwidth; none where a latency is unknown."""
    known = [ns for ns in series.latencies if ns]
    found = loaded_curve(series.amounts, known) if len(known) == len(series.amounts) else None
    if found is None:
        return None
    measured = list(zip(series.amounts, known, strict=True))
    good = max(((rate, ns) for rate, ns in measured if ns <= found.sustained_ns), default=min(measured))
    least = min(measured)

    def place(rate: float, ns: float | None, *, is_measured: bool) -> OperatingPoint:
        return OperatingPoint(rate, rate, ns, measured=is_measured)

    return replace(
        plain,
        model=LOADED_MODEL,
        parameters={
            "R0": Value(found.rest_ns, "ns"),
            "A": Value(found.wait_ns, "ns"),
            "Xm": Value(found.top, plain.unit),
            "idle": Value(found.idle_ns, "ns"),
        },
        floor=place(*least, is_measured=True),
        knee=place(found.sustained, found.sustained_ns, is_measured=False) if found.crosses else None,
        ceiling=Value(found.peak, plain.unit),
        best=place(*good, is_measured=True),
        state="knee" if found.crosses else "flat",
    )


def _open_loop(plain: Curve, series: Series) -> Curve:
    """Latency by reached rate, compared with G/G/m; the ceiling is the rate at which the wait is infinite.

    There is none where the points leave it open.
    """
    reached = [
        (series.offered_rate(load), latency, spread)
        for load, amount, latency, spread in zip(
            series.loads, series.amounts, series.latencies, series.spreads, strict=True
        )
        if latency and amount >= REACHED_SHARE * series.offered_rate(load) * series.operation
    ]
    rates, latencies, spreads = zip(*reached, strict=True) if reached else ((), (), ())
    model = fit_open_loop(rates, latencies, series.arrivals, spreads)
    if model is None:
        return plain
    scale = series.operation
    low, high = (edge and edge * scale for edge in (model.low_s, model.high_s))
    capacity = Value(model.capacity_s * scale, plain.unit, low, high)
    return replace(
        plain,
        model="g-g-m",
        parameters={
            "S": Value(model.service_ns, "ns"),
            "m": Value(float(model.servers), "servers"),
            "v": Value(model.variability, "1"),
            **({} if model.arrivals is None else {"a": Value(model.arrivals, "1")}),
            CAPACITY: capacity,
        },
        ceiling=None if model.left_open else capacity,
    )


def rate_to_settle(result: ExperimentResult, curve: Curve) -> float | None:
    """The rate to measure next where the points of an open loop leave its capacity open; none where they do not."""
    axis = result.axis(curve.load)
    if CAPACITY not in curve.parameters or curve.ceiling is not None or axis.unit not in OF_OPERATIONS:
        return None
    points = [result.points[at] for at in curve.points]
    rates = {float(point.parameters[curve.load]): point for point in points}  # type: ignore[arg-type]
    reached = {rate: (point.rate or point.throughput).value for rate, point in rates.items()}
    served = max((rate for rate, value in reached.items() if value >= REACHED_SHARE * rate), default=None)
    if served is None:
        return None
    return float(f"{next_rate(served, min((rate for rate in rates if rate > served), default=None)):.3g}")


def _read_off(plain: Curve, series: Series, knee: Knee, usl: Scalability | None) -> Curve:
    """What the fitted model says: state, ceiling, knee and the best operating point."""
    least, most = series.loads[0], series.loads[-1]
    state = judge_state(series, knee)
    top = knee.ceiling
    if usl is not None and usl.peak_load is not None and usl.peak_load < most:
        # It turns down: the ceiling is the peak, and it was passed.
        reached = max(usl.at(usl.peak_load), top.value)
        share = reached / top.value
        top = Interval(reached, top.low and top.low * share, top.high and top.high * share)
        state = "knee" if state == "still rising" else state
    ceiling: Value | None = Value(top.value, plain.unit, top.low, top.high)
    if state == "still rising" and not is_tight(top):
        ceiling = None
    sure = state == "knee" or (state == "still rising" and ceiling is not None)
    best, reach_90, reach_95 = find_best(series, knee, state, top.value)
    load_90, load_95 = (
        (min(knee.load_for(share), measured) for share, measured in ((0.90, reach_90), (0.95, reach_95)))
        if sure
        else (None, None)
    )
    # A hard knee has 90% before the two lines cross: its table has one order.
    at_knee = min(knee.crossing.value, load_90 or math.inf)
    return replace(
        plain,
        model="usl" if usl is not None else "block-size" if series.axis.role == "size" else "queue-knee",
        parameters=_parameters(plain, series, knee, usl),
        knee=series.point(at_knee, knee.at(at_knee)) if state == "knee" and least <= at_knee <= most else None,
        ceiling=ceiling,
        best=best,
        load_90=load_90 and series.as_given(load_90),
        load_95=load_95 and series.as_given(load_95),
        state=state,
    )


def _parameters(plain: Curve, series: Series, knee: Knee, usl: Scalability | None) -> dict[str, Value]:
    """The model's numbers under the names of its formula."""
    scale = series.operation
    r1 = knee.r1 * scale
    wide, lost = knee.crossing, lost_share(series, knee)
    found = {"Xm": replace(_as_value(knee.ceiling, plain.unit), value=knee.top), "p": _as_value(knee.p, "1")}
    if knee.fall > 0:
        found |= {"d": Value(knee.fall, "1"), "Nd": Value(knee.fall_load, "1"), "w": Value(knee.width, "1")}
    if knee.fall > 0 or lost > 0:
        found[LOSS] = Value(lost, "share")
    if knee.odd is not None:
        found[ODD_LOAD] = Value(series.as_given(series.loads[knee.odd.at]), "1")
        found[ODD_RATIO] = Value(knee.odd.ratio, "ratio")
    if series.axis.role == "size":
        # X = bs / (t0 + bs / B): half of B is reached at n1/2 = t0 B where p is 1.
        half = knee.load_for(0.5) / wide.value
        found["B"] = found.pop("Xm")
        found["t0"] = _as_value(Interval(knee.r1), "s")
        found["n1/2"] = _as_value(
            Interval(wide.value * half, wide.low and wide.low * half, wide.high and wide.high * half), "B"
        )
    elif series.axis.role != "delay":
        found["R1"] = _as_value(Interval(r1), "s")
        found["N*"] = _as_value(wide, "1")
    if usl is not None:
        found["c"] = _as_value(usl.c, plain.unit)
        found["a"] = _as_value(usl.a, "1")
        if usl.b is not None:
            found["b"] = _as_value(usl.b, "1")
    return found


def _as_value(number: Interval, unit: str) -> Value:
    return Value(number.value, unit, number.low, number.high)
