"""The rows behind each chart: scaled numbers to draw, and the exact ones with units to read in a tooltip."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any

from hwdyno.analysis.ceilings import block_bytes
from hwdyno.analysis.curves import LOADED_MODEL
from hwdyno.analysis.curves.knee_model import knee_at
from hwdyno.analysis.resources import find_rate_word
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Axis, Curve, ExperimentResult, Latency, Measurement
from hwdyno.report import figures
from hwdyno.report.figures import Scale, latency_scale, scale_for
from hwdyno.report.rows import (
    ChartSeries,
    bounds,
    direction,
    in_unit,
    is_number,
    point_label,
    point_load,
    point_parameters,
)

PlotRows = list[dict[str, Any]]

QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
MIN_BEYOND = 10
"""Operations that must be beyond a quantile for it to be shown: p99.9 from 10^4 on."""
FAR = 1.7
"""A ceiling this many times above all results is only named in the caption: drawn, it would flatten the curve."""
STEPS_PER_OCTAVE = 8


MAX_NAMED = 2
"""Curves of one chart whose marks can be named and still be read."""
STEPS_OF_LOADED = 60
LABEL_SHARE = 0.05
"""Share of a chart's width or height: points nearer to each other cannot both be named."""


def wide(values: Iterable[float | None]) -> bool:
    """Whether values span such a range that only a log axis shows them all."""
    known = [value for value in values if value is not None and value > 0]
    return bool(known) and max(known) / min(known) > 20


def _load(experiment: ExperimentResult, at: int) -> Any:
    load = point_load(experiment, at)
    return load if is_number(load) else None


def _shared_fields(experiment: ExperimentResult, at: int, series: ChartSeries) -> dict[str, Any]:
    point = experiment.points[at]
    latency = point.latency_ns
    rate = point.rate
    return {
        "series": series.label,
        "load": _load(experiment, at),
        "tip_load": figures.parameter(experiment.load_axis, point_load(experiment, at)),
        "tip_throughput": _with_interval(experiment, point, point.throughput.unit),
        "tip_rate": _with_interval(experiment, point, rate.unit) if rate else figures.NONE,
        "tip_latency": _latency_words(latency),
        "tip_validity": point.validity + (f" ({', '.join(point.why)})" if point.why else ""),
        "validity": point.validity,
    }


def _with_interval(experiment: ExperimentResult, point: Measurement, unit: str) -> str:
    value = in_unit(point, unit)
    if value is None:
        return figures.NONE
    scale = scale_for([value.value], unit, find_rate_word(experiment))
    interval = scale.interval(value)
    return f"{scale.quantity(value.value)} ({interval})" if interval else scale.quantity(value.value)


def _latency_words(latency: Latency | None) -> str:
    if latency is None:
        return figures.NONE
    scale = latency_scale([latency.mean])
    words = (("mean", latency.mean), ("p50", latency.p50), ("p99", latency.p99))
    return ", ".join(f"{word} {scale.quantity(ns)}" for word, ns in words if ns is not None)


def make_rows(experiment: ExperimentResult, group: list[ChartSeries], unit: str) -> tuple[PlotRows, Scale]:
    """One row a point: ``y`` with ``low`` and ``high``."""
    values = [in_unit(experiment.points[at], unit) for series in group for at in series.points]
    scale = scale_for((value.value for value in values if value), unit, find_rate_word(experiment))
    rows = []
    for series in group:
        for at in series.points:
            value = in_unit(experiment.points[at], unit)
            if value is None:
                continue
            y = value.value / scale.divisor
            low = value.low / scale.divisor if value.low is not None else y
            high = value.high / scale.divisor if value.high is not None else y
            known = value.low is not None and value.high is not None
            rows.append({**_shared_fields(experiment, at, series), "y": y, "low": low, "high": high, "interval": known})
    return rows, scale


def latencies(experiment: ExperimentResult, group: list[ChartSeries]) -> tuple[PlotRows, Scale]:
    """One row a point with a latency: ``y`` its mean, ``p50`` and ``p99``, each 0 where only the mean is known."""
    found = [
        (series, at, latency)
        for series in group
        for at in series.points
        if (latency := experiment.points[at].latency_ns) is not None
    ]
    scale = latency_scale(latency.mean for _, _, latency in found)
    rows = [
        {
            **_shared_fields(experiment, at, series),
            "y": latency.mean / scale.divisor,
            "p50": (latency.p50 or 0.0) / scale.divisor,
            "p99": (latency.p99 or 0.0) / scale.divisor,
        }
        for series, at, latency in found
        if latency.mean > 0
    ]
    return rows, scale


def tradeoffs(experiment: ExperimentResult, group: list[ChartSeries], unit: str) -> tuple[PlotRows, Scale, Scale]:
    """One row a point that has both: ``x`` throughput, ``y`` mean latency; ``name`` its load where there is room."""
    rows, y_scale = latencies(experiment, group)
    with_x, x_scale = make_rows(experiment, group, unit)
    across = {(row["series"], row["load"]): row["y"] for row in with_x}
    kept = [{**row, "x": across[row["series"], row["load"]]} for row in rows if (row["series"], row["load"]) in across]
    wide, high = (max((row[field] for row in kept), default=0.0) for field in ("x", "y"))
    named: PlotRows = []
    for row in sorted(kept, key=lambda row: -row["x"]):
        # Overlapping labels are unreadable: the point with more throughput keeps its label.
        near = any(
            abs(row["x"] - named_row["x"]) < LABEL_SHARE * wide and abs(row["y"] - named_row["y"]) < LABEL_SHARE * high
            for named_row in named
        )
        row["name"] = "" if near or len(group) > MAX_NAMED else row["tip_load"]
        if row["name"]:
            named.append(row)
    return kept, x_scale, y_scale


def tradeoff_marks(group: list[ChartSeries], x_scale: Scale, y_scale: Scale) -> tuple[PlotRows, PlotRows]:
    """Where each fitted curve has its best operating point and its knee, ``x`` and ``y``; and its ceiling, ``x``."""
    places: PlotRows = []
    tops: PlotRows = []
    fitted = [(series, series.curve) for series in group if series.curve is not None and series.curve.state == "knee"]
    for series, curve in fitted:
        for word, place in (("best", curve.best), ("knee", curve.knee)):
            if place is not None and place.latency_ns:
                places.append(
                    {
                        "series": series.label,
                        "x": place.throughput / x_scale.divisor,
                        "y": place.latency_ns / y_scale.divisor,
                        "text": word if len(fitted) <= MAX_NAMED else "",
                    }
                )
        if curve.ceiling is not None and len(fitted) <= MAX_NAMED:
            tops.append({"series": series.label, "x": curve.ceiling.value / x_scale.divisor})
    return places, tops


def loaded_lines(group: list[ChartSeries], rows: PlotRows, x_scale: Scale, y_scale: Scale) -> PlotRows:
    """The fitted latency by bandwidth, R = R0 + A X / (Xm - X), within what was measured."""
    made: PlotRows = []
    for series in group:
        curve, across = series.curve, [row["x"] for row in rows if row["series"] == series.label]
        if curve is None or curve.model != LOADED_MODEL or not across:
            continue
        unloaded, wait, top = (curve.parameters[name].value for name in ("R0", "A", "Xm"))
        low, high = min(across), max(across)
        for step in range(STEPS_OF_LOADED + 1):
            x = low + (high - low) * step / STEPS_OF_LOADED
            rate = x * x_scale.divisor
            if rate >= top:
                break  # The fitted maximum may be below a point of noisy repeats; the law has no latency there.
            made.append(
                {"series": series.label, "x": x, "y": (unloaded + wait * rate / (top - rate)) / y_scale.divisor}
            )
    return made


def model_at(curve: Curve, load: float) -> float | None:
    """The fitted model's throughput at a load, in the curve's unit; none without a fit.

    A queue and block sizes, whose half is at n1/2: ``curves.knee``. Threads: X = cN / (1 + a(N-1) + bN(N-1)) (Gunther's
    Universal Scalability Law).
    """
    given = {name: value.value for name, value in curve.parameters.items()}
    try:
        if curve.model == "usl":
            b = given.get("b", 0.0)
            return given["c"] * load / (1 + given["a"] * (load - 1) + b * load * (load - 1))
        fall = given.get("d", 0.0), given.get("Nd", math.inf), given.get("w", 0.0)
        if curve.model == "block-size":
            p = given["p"]
            crossing = given["n1/2"] * math.expm1(p * math.log(2)) ** (1 / p)
            return knee_at(load, given["B"], crossing, p, False, *fall)
        if curve.model == "queue-knee":
            crossing = given["N*"] * given["Xm"] / (curve.ceiling.value if curve.ceiling else given["Xm"])
            return knee_at(load, given["Xm"], crossing, given["p"], True, *fall)
    except (KeyError, ValueError, OverflowError, ZeroDivisionError):
        pass
    return None


def lines(group: list[ChartSeries], rows: PlotRows, scale: Scale) -> tuple[PlotRows, str]:
    """The fitted curve where there is one; else neighbours joined, from three quantities on.

    A line claims that all values between two points are known to be on it (Hoefler & Belli, rule 12).
    """
    made: PlotRows = []
    kind = ""
    for series in group:
        line = [row for row in rows if row["series"] == series.label]
        loads = sorted(row["load"] for row in line)
        curve = series.curve
        if len(loads) < 3 or loads[0] <= 0:
            continue
        if curve is not None and model_at(curve, loads[0]) is not None:
            kind = "model"
            for load in _between(loads):
                value = model_at(curve, load)
                if value is not None:
                    made.append({"series": series.label, "load": load, "y": value / scale.divisor})
        else:
            kind = kind or "joined"
            made += [{"series": series.label, "load": row["load"], "y": row["y"]} for row in line]
    return made, kind


def _between(loads: list[float]) -> list[float]:
    steps = [loads[0]]
    for low, high in pairwise(loads):
        count = max(1, round(STEPS_PER_OCTAVE * math.log2(high / low)))
        steps += [low * (high / low) ** (step / count) for step in range(1, count + 1)]
    return steps


def marks(group: list[ChartSeries], rows: PlotRows, scale: Scale, axis: Axis) -> PlotRows:
    """The knee and the load for 90% of each fitted curve, within what was measured, with their words where they fit."""
    fitted = [
        (series, series.curve) for series in group if series.curve is not None and series.curve.ceiling is not None
    ]
    made: PlotRows = []
    for at, (series, curve) in enumerate(fitted):
        loads = [row["load"] for row in rows if row["series"] == series.label]
        words = (("knee", curve.knee.load if curve.knee else None), ("90% at", curve.load_90))
        places = [
            (load, f"{word} {_among(axis, loads, load)}")
            for word, load in words
            if load is not None and min(loads) <= load <= max(loads)
        ]
        places.sort()
        top = max(row["y"] for row in rows)
        for side, (load, text) in zip(("right", "left"), places, strict=False):
            y = model_at(curve, load)
            if y is None:
                continue
            # Close to the left edge words would run out of the chart.
            side = "left" if load < 2 * min(loads) else side
            made.append(
                {
                    "series": series.label,
                    "load": load,
                    "y": y / scale.divisor,
                    "zero": 0.0,
                    "align": side,
                    "text": text if len(fitted) <= 3 else "",
                    "text_y": top * (0.04 + 0.065 * at),
                }
            )
    return made


NEAR_LOAD = 0.1
"""A place on a curve this near to a measured load is that load."""


def _among(axis: Axis, loads: Iterable[float], place: float) -> str:
    """A place on a curve as the measured load there, or the two around it: a depth of 4.8 cannot be typed."""
    known = sorted(set(loads))
    near = min(known, key=lambda load: abs(load - place))
    if abs(near - place) <= NEAR_LOAD * place:
        return figures.load(axis, near)
    below, above = (max(load for load in known if load < place), min(load for load in known if load > place))
    return f"{figures.load(axis, below)} to {figures.load(axis, above)}"


def ceilings(
    experiment: ExperimentResult, group: list[ChartSeries], unit: str, scale: Scale, top: float
) -> tuple[PlotRows, list[str]]:
    """The ceilings that bound a series of this chart: those near enough to draw, and the others in words.

    A ceiling in bytes/s is carried over to operations/s where all points have one block size.
    """
    parameters = [point_parameters(experiment, experiment.points[at]) for series in group for at in series.points]
    axes = experiment.declaration.axes
    blocks = {block_bytes(point, axes) for point in parameters}
    block = blocks.pop() if len(blocks) == 1 else None
    directions = {direction(point, axes) for point in parameters}
    near: dict[tuple[float, str], dict[str, Any]] = {}
    far: list[str] = []
    for ceiling in experiment.ceilings:
        if not any(bounds(ceiling, point, axes) for point in parameters):
            continue
        value = ceiling.value
        if ceiling.unit != unit:
            if ceiling.unit != "bytes/s" or unit != "operations/s" or not block:
                continue
            value /= block
        label = ceiling.label or ceiling.kind
        if len(directions) > 1 and ceiling.metric.startswith(("read_", "write_")):
            label = f"{label} ({ceiling.metric.partition('_')[0]})"
        text = f"{label}: {scale.quantity(value)}"
        if value / scale.divisor > FAR * top:
            bare = f"{ceiling.label or ceiling.kind}, {scale.quantity(value)}"
            if bare not in far:
                far.append(bare)
            continue
        near.setdefault(
            (value, text),
            {
                "y": value / scale.divisor,
                "text": text,
                "tip_class": ceiling.kind,
                "tip_formula": ceiling.formula,
                "tip_source": ceiling.source,
            },
        )
    return list(near.values()), far


def peers(experiment: ExperimentResult, group: list[ChartSeries], unit: str, scale: Scale) -> PlotRows:
    """What the peers reached on this chart's points, in its unit."""
    rows = []
    of_point = {at: series for series in group for at in series.points}
    for peer in experiment.peers:
        series = of_point.get(peer.point)
        if series is None:
            continue
        ours = experiment.points[peer.point]
        value = peer.value.value
        if peer.value.unit != unit:
            shown = in_unit(ours, unit)
            base = in_unit(ours, peer.value.unit)
            if shown is None or base is None or base.value == 0:
                continue
            value *= shown.value / base.value
        ratio = figures.NONE
        if peer.ratio is not None:
            spread = Scale(1.0, "").interval(peer.ratio)
            ratio = f"{peer.ratio.value:.3f}" + (f" ({spread})" if spread else "")
        rows.append(
            {
                "series": series.label,
                "load": _load(experiment, peer.point),
                "y": value / scale.divisor,
                "tip_load": figures.parameter(experiment.load_axis, point_load(experiment, peer.point)),
                "tip_peer": f"{peer.full_name}: {scale.quantity(value)}",
                "tip_ratio": ratio,
            }
        )
    return rows


@lru_cache(maxsize=4096)
def _unpack_histogram(packed: str) -> Histogram:
    return Histogram.unpack(packed)


def list_quantiles(latency: Latency) -> list[tuple[float, float]]:
    """(quantile, ns) from the whole histogram, or from the summary where that is all there is; none for a mean."""
    if latency.histogram:
        histogram = _unpack_histogram(latency.histogram)
        return [(q, float(histogram.quantile(q))) for q in QUANTILES if latency.count * (1 - q) >= MIN_BEYOND - 1e-6]
    known = ((0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99), (0.999, latency.p999))
    return [(share, ns) for share, ns in known if ns is not None]


def quantiles(experiment: ExperimentResult, points: list[int]) -> tuple[PlotRows, Scale]:
    """Rows of ``tail`` = 1 / (1 - quantile) and ``y`` latency."""
    found = [
        (at, list_quantiles(latency)) for at in points if (latency := experiment.points[at].latency_ns) is not None
    ]
    scale = latency_scale(pairs[-1][1] for _, pairs in found if pairs)
    rows = []
    for at, pairs in found:
        label = point_label(experiment, at)
        for quantile, ns in pairs:
            if ns <= 0:
                continue
            rows.append(
                {
                    "series": label,
                    "tail": round(1 / (1 - quantile), 6),
                    "y": ns / scale.divisor,
                    "tip_share": f"{quantile * 100:.6g}%",
                    "tip_latency": scale.quantity(ns),
                }
            )
    return rows, scale


def over_time(experiment: ExperimentResult, points: list[int]) -> tuple[PlotRows, str]:
    """Rows of ``time`` and ``y``, and the unit; the last interval has a row at its end too."""
    found = [
        (at, samples) for at in points if (samples := experiment.points[at].samples) is not None and samples.values
    ]
    if not found:
        return [], ""
    unit = experiment.points[found[0][0]].throughput.unit
    scale = scale_for([value for _, samples in found for value in samples.values], unit, find_rate_word(experiment))
    rows = []
    for at, samples in found:
        label = point_label(experiment, at)
        spread = " … ".join(scale.number(value) for value in (samples.min, samples.avg, samples.max)) + f" {scale.unit}"
        for step, value in enumerate(samples.values):
            time = step * samples.interval_s
            rows.append(
                {
                    "series": label,
                    "time": round(time, 6),
                    "y": value / scale.divisor,
                    "tip_time": f"{time:.3g} s",
                    "tip_value": scale.quantity(value),
                    "tip_range": spread,
                }
            )
        rows.append({**rows[-1], "time": round(len(samples.values) * samples.interval_s, 6)})
    return rows, scale.unit
