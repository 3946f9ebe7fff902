"""Reads curves off an experiment's points: floor, knee, ceiling, best operating point and state."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from hwdyno.analysis.curves.knee import FALL_MIN_POINTS, Knee, fit_knee
from hwdyno.analysis.curves.loaded import loaded_curve
from hwdyno.analysis.curves.models import USL_MIN_POINTS, Interval, Scalability, fit_scalability
from hwdyno.analysis.curves.open_loop import OF_OPERATIONS, Spread, fit_open_loop, next_rate
from hwdyno.analysis.states import OTHER_STATE
from hwdyno.analysis.statistics import POOLED_FREEDOM, t_quantile
from hwdyno.model.axes import series_of
from hwdyno.model.histogram import Histogram
from hwdyno.model.units import format_load, format_ratio
from hwdyno.model.words import (
    Axis,
    Curve,
    ExperimentResult,
    Latency,
    Measurement,
    OperatingPoint,
    Parameters,
    Scalar,
    Value,
)

__all__ = [
    "BEST_SHARE",
    "CAPACITY",
    "LOADED_MODEL",
    "LOSS",
    "ODD_LOAD",
    "ODD_RATIO",
    "REACHED_SHARE",
    "curves_of",
    "error_of",
    "is_loaded",
    "rate_to_settle",
    "suggest_load",
    "value_of",
]

REACHED_SHARE = 0.95
"""Below this share of its rate a point's latency is that of a backlog, which grows with the run."""
MIN_POINTS = 3
BEST_SHARE = 0.90
MUCH_WORSE_TAIL = 2.0
"""A load is not the best one if another that is good enough has p99 this many times shorter."""
RISING_GAIN = 0.05
"""A curve is still rising when the last doubling of the load gains more than this, by the fit and, beyond the noise, by
the points."""
MIN_NOISE = 0.01
"""No level is known better than this by its points."""
MIN_FALL = 0.05
"""A fall of the last point below the peak, beyond the noise, from which it counts without a model of it."""
SATURATED_SHARE = 0.95
FLAT_LATENCY = 1.5
"""Throughput and latency that both stay level (latency within this factor) mean that the load never arrived."""
CEILING_SPREAD = 0.25
"""A ceiling that still rises is given only when its interval is within this share on each side."""
FITTED = {"concurrency", "size", "delay"}
"""Roles of a load that a model is fitted along; a rate has a model of its own."""
SMALLEST_DELAY = {"s": 1e-9}
"""By unit: the value used for a delay of 0; 1 for any other unit, such as cycles."""
BITS = 8
LOADED, LOADED_MODEL = "memory_loaded_latency", "loaded-latency"
"""The kernel whose curve is latency by bandwidth, and the model of that: its loads are bytes/s."""
LOSS, ODD_LOAD, ODD_RATIO = "loss", "odd_load", "odd_ratio"
"""Among a curve's parameters: what its last load loses against the peak; a load off the curve of the others, and what
was measured there over what that curve has."""
CAPACITY = "capacity"
"""Among an open loop's parameters: the rate at which the wait is infinite, with its interval."""
ARRIVALS = {"poisson": 1.0, "linear": 0.0}
"""By ``rate_process``: the squared coefficient of variation of the time between requests."""
State = Literal["knee", "still rising", "saturated at the first point", "flat", "unknown"]


def curves_of(result: ExperimentResult) -> tuple[Curve, ...]:
    """One Curve for each combination of the other axes that has at least two loads.

    Points that are invalid stay on the curve, but do not shape its model (unless all are). Those that were read in
    another state of the device alone are on none.
    """
    axis = result.load_axis
    series: dict[tuple[tuple[str, Scalar], ...], list[int]] = defaultdict(list)
    for at, point in enumerate(result.points):
        load = point.parameters.get(result.load)
        least = 0 if axis.role == "delay" else 1e-300
        if isinstance(load, bool) or not isinstance(load, int | float) or load < least or _amount(point, result) <= 0:
            continue
        if OTHER_STATE in point.why:
            continue
        series[series_of(result.declaration, point.parameters, {result.load})].append(at)
    found = []
    for others_of, indices in series.items():
        indices.sort(key=lambda at: _load(result.points[at], axis))
        if len({_load(result.points[at], axis) for at in indices}) >= 2:
            measured = tuple((_load(result.points[at], axis), _amount(result.points[at], result)) for at in indices)
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


def _load(point: Measurement, axis: Axis) -> float:
    """The load at a point; of a delay the rate that it offers, one over it."""
    load = float(point.parameters[axis.name])  # type: ignore[arg-type]
    return 1 / max(load / _smallest(axis), 1.0) if axis.role == "delay" else load


def _smallest(axis: Axis) -> float:
    return SMALLEST_DELAY.get(axis.unit, 1.0)


def value_of(point: Measurement, result: ExperimentResult) -> Value:
    """What a point's curve has on its other axis."""
    return point.rate if result.metric == "rate" and point.rate else point.throughput


def _amount(point: Measurement, result: ExperimentResult) -> float:
    return value_of(point, result).value


def error_of(value: Value, repeats: int) -> float | None:
    """The standard error as a share, from the 95% interval of this many repeats."""
    if value.low is None or value.high is None or value.value <= 0:
        return None
    # Of two repeats the interval comes from other points' repeats too.
    degrees = 30 if repeats < 2 else POOLED_FREEDOM + 1 if repeats == 2 else repeats - 1
    return (value.high - value.low) / 2 / t_quantile(degrees) / value.value


@dataclass(frozen=True)
class _Series:
    """One curve's points in order of load, ready to be fitted."""

    indices: tuple[int, ...]
    loads: tuple[float, ...]
    values: tuple[Value, ...]
    latencies: tuple[float | None, ...]
    """Mean latency, ns."""
    tails: tuple[float | None, ...]
    """p99, ns."""
    axis: Axis
    spreads: tuple[Spread | None, ...]
    """How far the latencies spread, in an open loop."""
    arrivals: float | None
    """The squared coefficient of variation of the time between requests, in an open loop where it is known."""
    operation: float
    """Throughput over operations a second: bytes an operation, for bytes/s; 1 where that is unknown."""
    errors: tuple[float, ...] = ()
    """Each point's standard error, a share; none where one is not known."""

    @property
    def amounts(self) -> list[float]:
        return [value.value for value in self.values]

    def noise(self, one: int, other: int) -> float:
        """The noise of the ratio of two points (95%), a share; 0 where it is unknown."""
        return t_quantile(30) * math.hypot(self.errors[one], self.errors[other]) if self.errors else 0.0

    def point(self, load: float, amount: float | None = None, note: str = "") -> OperatingPoint:
        """The place at a load: measured, or read between the points (straight lines in log-log)."""
        for at, known in enumerate(self.loads):
            if known == load and amount is None:
                return OperatingPoint(
                    self.as_given(load), self.values[at].value, self.latencies[at], measured=True, note=note
                )
        return OperatingPoint(self.as_given(load), amount or 0.0, self.latency_at(load), measured=False, note=note)

    def as_given(self, load: float) -> float:
        """A load as its axis has it."""
        if self.axis.role != "delay":
            return load
        return 0.0 if load >= 1 else round(1 / load, 1) * _smallest(self.axis)

    def offered(self, load: float) -> float:
        """Operations a second that a rate offers, whichever unit it has."""
        if self.axis.unit.startswith(("B", "bytes")):
            return load / self.operation
        return load / BITS / self.operation if self.axis.unit.startswith("bit") else load

    def latency_at(self, load: float) -> float | None:
        known = [(n, r) for n, r in zip(self.loads, self.latencies, strict=True) if r]
        return _between(known, load)


def _between(known: Sequence[tuple[float, float]], load: float) -> float | None:
    """Interpolates in log-log; the nearest end outside; none without points."""
    if not known:
        return None
    if load <= known[0][0]:
        return known[0][1]
    for (low, a), (high, b) in pairwise(known):
        if low <= load <= high:
            share = math.log(load / low) / math.log(high / low)
            return math.exp(math.log(a) * (1 - share) + math.log(b) * share)
    return known[-1][1]


def _curve(result: ExperimentResult, axis: Axis, others: Parameters, indices: list[int]) -> Curve:
    points = result.points
    fitted = [at for at in indices if points[at].validity != "invalid"]
    if len({_load(points[at], axis) for at in fitted}) < min(MIN_POINTS, len(indices)):
        fitted = indices
    rates = [points[at].rate for at in fitted]
    amounts = [points[at].throughput.value for at in fitted]
    ratios = [a / rate.value for a, rate in zip(amounts, rates, strict=True) if rate and rate.value > 0]
    lat = [points[at].latency_ns for at in fitted]
    series = _Series(
        indices=tuple(indices),
        loads=tuple(_load(points[at], axis) for at in fitted),
        values=tuple(value_of(points[at], result) for at in fitted),
        latencies=tuple(None if one is None else one.mean for one in lat),
        tails=tuple(None if one is None else one.p99 for one in lat),
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
    if is_loaded(result) and (curve := _loaded(plain, series)) is not None:
        return curve
    # The model describes bandwidth by block size, not blocks a second.
    lawless = axis.role == "size" and plain.unit == "operations/s"
    if len(set(series.loads)) < MIN_POINTS or axis.role not in FITTED or lawless:
        return plain
    found = (error_of(value, points[at].repeats) for value, at in zip(series.values, fitted, strict=True))
    errors = [error for error in found if error is not None]
    if len(errors) < len(series.values):
        errors = []
    series = replace(series, errors=tuple(errors))
    requests = axis.role == "concurrency" and series.loads[0] >= 1
    knee = fit_knee(series.loads, series.amounts, errors, requests=requests)
    if (level := _level(series, knee)) is not None:
        knee = fit_knee(series.loads, series.amounts, errors, requests=requests, level=level)
    usl = None
    if axis.workers and len(set(series.loads)) >= USL_MIN_POINTS:
        usl = fit_scalability(series.loads, series.amounts, errors)
    best = max(amount for at, amount in enumerate(series.amounts) if knee.odd is None or at != knee.odd.at)
    return _read_off(plain, series, knee.with_best(best), usl)


def _spread(latency: Latency | None) -> Spread | None:
    return Spread.of(Histogram.unpack(latency.histogram)) if latency and latency.histogram else None


def is_loaded(result: ExperimentResult) -> bool:
    """Whether its load is the bandwidth of other threads' traffic, beside which a latency is measured."""
    return result.kernel == LOADED and result.load_axis.role == "delay"


def _loaded(plain: Curve, series: _Series) -> Curve | None:
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


def _open_loop(plain: Curve, series: _Series) -> Curve:
    """Latency by reached rate, compared with G/G/m; the ceiling is the rate at which the wait is infinite.

    There is none where the points leave it open.
    """
    reached = [
        (series.offered(load), latency, spread)
        for load, amount, latency, spread in zip(
            series.loads, series.amounts, series.latencies, series.spreads, strict=True
        )
        if latency and amount >= REACHED_SHARE * series.offered(load) * series.operation
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


def _read_off(plain: Curve, series: _Series, knee: Knee, usl: Scalability | None) -> Curve:
    """What the fitted model says: state, ceiling, knee and the best operating point."""
    least, most = series.loads[0], series.loads[-1]
    state = _state(series, knee)
    top = knee.ceiling
    if usl is not None and usl.peak_load is not None and usl.peak_load < most:
        # It turns down: the ceiling is the peak, and it was passed.
        reached = max(usl.at(usl.peak_load), top.value)
        share = reached / top.value
        top = Interval(reached, top.low and top.low * share, top.high and top.high * share)
        state = "knee" if state == "still rising" else state
    ceiling: Value | None = Value(top.value, plain.unit, top.low, top.high)
    if state == "still rising" and not _tight(top):
        ceiling = None
    sure = state == "knee" or (state == "still rising" and ceiling is not None)
    best, reach_90, reach_95 = _best(series, knee, state, top.value)
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


def _tight(top: Interval) -> bool:
    if top.low is None or top.high is None:
        return False
    return top.high / top.value - 1 < CEILING_SPREAD and 1 - top.low / top.value < CEILING_SPREAD


def _state(series: _Series, knee: Knee) -> State:
    """Whether the curve has a knee within what was measured; unknown where noise hides whether it still rises."""
    least, most = series.loads[0], series.loads[-1]
    gain, noise = _last_gain(series)
    # With hardly any delay, the loop's time dominates: shorter ones no longer raise the rate.
    if _fitted_gain(knee, series) > RISING_GAIN and not (series.axis.role == "delay" and gain <= RISING_GAIN):
        if gain - noise > RISING_GAIN:
            return "still rising"
        if not _tight(knee.ceiling):
            return "unknown"
    level = min(series.amounts) >= SATURATED_SHARE * max(series.amounts)
    # A rise within its own error is none.
    uncertain = (knee.gain.low or knee.gain.value) <= 1 and not _has_risen(series)
    if level or knee.gain.value <= 1 / SATURATED_SHARE or uncertain:
        known = [latency for latency in series.latencies if latency]
        same = len(known) == len(series.loads) and max(known) / min(known) < FLAT_LATENCY
        return "flat" if same and most / least >= 2 * FLAT_LATENCY else "saturated at the first point"
    return "knee"


def _fitted_gain(knee: Knee, series: _Series) -> float:
    """What the fitted curve gains over the last doubling of the load, a share."""
    most = series.loads[-1]
    return knee.at(most) / knee.at(most / 2) - 1


def _last_gain(series: _Series) -> tuple[float, float]:
    """What was measured to be gained over the last doubling of the load, and the noise of that (95%), both shares."""
    half = series.loads[-1] / 2
    before = _between(list(zip(series.loads, series.amounts, strict=True)), half)
    if not before:
        return math.inf, 0.0
    nearest = min(range(len(series.loads)), key=lambda at: abs(math.log(series.loads[at] / half)))
    ratio = series.amounts[-1] / before
    return ratio - 1, ratio * series.noise(nearest, -1)


def _has_risen(series: _Series) -> bool:
    """Whether the last point is measured to be above the first, beyond the noise of both."""
    ratio = series.amounts[-1] / series.amounts[0]
    return bool(series.errors) and ratio * (1 - series.noise(0, -1)) > 1 / SATURATED_SHARE


def _lost(series: _Series, knee: Knee) -> float:
    """What the greatest load loses against the peak, a share: by the fit, or by points too few to fit a fall."""
    if knee.fall > 0 or len(series.amounts) >= FALL_MIN_POINTS:
        return knee.loss
    places = [at for at in range(len(series.amounts)) if knee.odd is None or at != knee.odd.at]
    peak, last = max(places, key=lambda at: series.amounts[at]), series.amounts[-1]
    lost = 1 - last / series.amounts[peak]
    return lost if lost > MIN_FALL + series.noise(peak, -1) else 0.0


def _level(series: _Series, knee: Knee) -> Interval | None:
    """The level that the points reached where the last doubling of the load gains hardly anything, but in the fit."""
    gain, noise = _last_gain(series)
    if gain + noise > RISING_GAIN or _fitted_gain(knee, series) <= max(gain, 0) + noise + RISING_GAIN:
        return None
    most = max(series.amounts)
    return Interval(most, most * (1 - max(noise, MIN_NOISE)), most * (1 + max(noise, RISING_GAIN)))


def _best(series: _Series, knee: Knee, state: State, top: float) -> tuple[OperatingPoint, float, float]:
    """The best operating point, and the least measured loads that reach 90% and 95% of the ceiling (infinite: none).

    It is the least measured load with at least 90% of the ceiling found, or of the most measured where no point has
    that, unless a greater one of these has half its p99. Of a curve that falls again, none past its peak is it.
    """
    odd = None if knee.odd is None else knee.odd.at
    most = max(amount for at, amount in enumerate(series.amounts) if at != odd)
    found = most if state == "still rising" or most < BEST_SHARE * top else top

    def reaching(share: float, of: float) -> list[int]:
        return [at for at, amount in enumerate(series.amounts) if at != odd and amount >= share * of]

    places = reaching(BEST_SHARE, found)
    least_tail = min((tail for at in places if (tail := series.tails[at])), default=math.inf)
    at = next((at for at in places if (series.tails[at] or 0.0) < MUCH_WORSE_TAIL * least_tail), places[0])
    place = series.point(series.loads[at])
    words = [f"{place.throughput / found:.0%} of the {'ceiling' if found == top else 'most measured'}"]
    first, last = series.as_given(series.loads[0]), series.as_given(series.loads[-1])
    if first != place.load:
        words.append(f"{format_ratio(place.throughput / series.amounts[0], 3)} times {format_load(first)}'s throughput")
        if place.latency_ns and series.latencies[0]:
            words[-1] += f" at {format_ratio(place.latency_ns / series.latencies[0], 3)} times its latency"
    if place.load != last and place.latency_ns and series.latencies[-1]:
        words.append(f"{place.latency_ns / series.latencies[-1]:.0%} of the latency at {format_load(last)}")
    words += _trade(series, at, odd)
    best = OperatingPoint(place.load, place.throughput, place.latency_ns, place.measured, "; ".join(words))
    reached_90, reached_95 = (
        next((series.loads[one] for one in reaching(share, top)), math.inf) for share in (0.90, 0.95)
    )
    return best, reached_90, reached_95


def _trade(series: _Series, at: int, odd: int | None) -> list[str]:
    """What the measured load below the best one gives away in throughput, and gains in p99."""
    below = next((one for one in reversed(range(at)) if one != odd and series.loads[one] < series.loads[at]), None)
    if below is None:
        return []
    tail, less = series.tails[at], series.tails[below]
    if not tail or not less:
        return []
    share, gain = series.amounts[below] / series.amounts[at], less / tail
    load = format_load(series.as_given(series.loads[below]))
    return [f"{load} has {share:.0%} of its throughput at {gain:.0%} of its p99"]


def _parameters(plain: Curve, series: _Series, knee: Knee, usl: Scalability | None) -> dict[str, Value]:
    """The model's numbers under the names of its formula."""
    scale = series.operation
    one = knee.one * scale
    wide, lost = knee.crossing, _lost(series, knee)
    found = {"Xm": replace(_as_value(knee.ceiling, plain.unit), value=knee.top), "p": _as_value(knee.p, "1")}
    if knee.fall > 0:
        found |= {"d": Value(knee.fall, "1"), "Nd": Value(knee.bend, "1"), "w": Value(knee.width, "1")}
    if knee.fall > 0 or lost > 0:
        found[LOSS] = Value(lost, "share")
    if knee.odd is not None:
        found[ODD_LOAD] = Value(series.as_given(series.loads[knee.odd.at]), "1")
        found[ODD_RATIO] = Value(knee.odd.ratio, "ratio")
    if series.axis.role == "size":
        # X = bs / (t0 + bs / B): half of B is reached at n1/2 = t0 B where p is 1.
        half = knee.load_for(0.5) / wide.value
        found["B"] = found.pop("Xm")
        found["t0"] = _as_value(Interval(knee.one), "s")
        found["n1/2"] = _as_value(
            Interval(wide.value * half, wide.low and wide.low * half, wide.high and wide.high * half), "B"
        )
    elif series.axis.role != "delay":
        found["R1"] = _as_value(Interval(one), "s")
        found["N*"] = _as_value(wide, "1")
    if usl is not None:
        found["c"] = _as_value(usl.c, plain.unit)
        found["a"] = _as_value(usl.a, "1")
        if usl.b is not None:
            found["b"] = _as_value(usl.b, "1")
    return found


def _as_value(number: Interval, unit: str) -> Value:
    return Value(number.value, unit, number.low, number.high)
