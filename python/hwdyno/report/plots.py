"""How each kind of chart is drawn: load against throughput and latency, their trade-off, percentiles, samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from hwdyno.report import figures, plotdata
from hwdyno.report.figures import Scale
from hwdyno.report.plotdata import Rows
from hwdyno.report.rows import Series, load_of, point_label, series_of, unit_of
from hwdyno.words import ExperimentResult

MOST_BANDS = 3
"""Series whose bands of latency can lie over each other and still be read."""
MOST_LINES = 6
"""Points that the charts of percentiles and of samples show at once."""

_LOADS = {
    "iodepth": "queue depth (iodepth)",
    "bs": "block size (bs)",
    "numjobs": "jobs (numjobs)",
    "threads": "threads",
    "working_set": "working set",
    "delay": "delay between accesses, cycles",
    "block": "contiguous block",
    "n": "equations (n)",
    "streams": "streams",
    "concurrency": "requests in flight",
    "accelerators": "accelerators",
}
_BYTES_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~r') + ' GiB' : "
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~r') + ' KiB' : datum.value + ' B'"
)
_CROSS = "M-1,-1L1,1M1,-1L-1,1"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart with the words that go above and below it."""

    title: str
    caption: str
    chart: Any
    sets: dict[str, Rows]
    """The rows, by the names under which the chart asks for them."""


class _Data:
    """Rows kept out of Altair, which would check each against Vega-Lite's schema: seconds for a large sweep."""

    def __init__(self) -> None:
        self.sets: dict[str, Rows] = {}

    def __call__(self, rows: Rows) -> Any:
        name = f"rows-{len(self.sets)}"
        self.sets[name] = rows
        return alt.Chart(alt.NamedData(name=name))


def load_title(experiment: ExperimentResult) -> str:
    """The axis of load in words."""
    return _LOADS.get(experiment.load, experiment.load)


def _axis_of_load(experiment: ExperimentResult, loads: Iterable[float]) -> Any:
    """Log 2 where the loads span it, linear where they do not; a tick at each load that was measured."""
    values = sorted(set(loads))
    wide = values[0] > 0 and values[-1] / values[0] > 4
    kind = {"type": "log", "base": 2} if wide else {"type": "symlog"} if values[-1] > 50 else {"type": "linear"}
    axis: dict[str, Any] = {"title": load_title(experiment), "format": "~r"}
    if len(values) <= 16:
        axis["values"] = values
    if experiment.load in figures.SIZE_PARAMETERS:
        axis["labelExpr"] = _BYTES_LABEL
    return alt.X("load:Q", scale=alt.Scale(**kind, nice=False, padding=14), axis=alt.Axis(**axis))


def _y(field: str, title: str, over: Iterable[float | None] = ()) -> Any:
    """The upright axis: from zero, or logarithmic with ticks at 1, 2 and 5 where ``over`` spans too much for that."""
    known = [value for value in over if value is not None and value > 0]
    if not plotdata.wide(known):
        axis = alt.Axis(format=",~r", tickCount=6)
        return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(zero=True, nice=True), axis=axis)
    low, high = min(known) * 0.85, max(known) * 1.15
    steps = (1, 2, 5) if high / low < 3000 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
    scale = alt.Scale(type="log", nice=False, domain=[low, high])
    return alt.Y(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(format=",~r", values=ticks))


class _Legend:
    """One colour and shape a series, and a click on the legend that leaves only some in sight."""

    def __init__(self, labels: Sequence[str]) -> None:
        names = list(dict.fromkeys(labels))
        columns = max(1, min(len(names), 74 // (max(map(len, names), default=1) + 5)))
        legend = alt.Legend(columns=columns) if len(names) > 1 else None
        scale = alt.Scale(domain=names)
        self.colour = alt.Color("series:N", scale=scale, legend=legend)
        self.shape = alt.Shape("series:N", scale=scale, legend=legend)
        self.picked = alt.selection_point(name="picked", fields=["series"], bind="legend")
        self.opacity = alt.when(self.picked).then(alt.value(1)).otherwise(alt.value(0.07))
        self.many = len(names) > 1


def _layered(layers: list[Any], legend: _Legend) -> Any:
    """The layers as one chart. Vega-Lite hears clicks on a legend only through the first layer that has it."""
    at = next(at for at, layer in enumerate(layers) if layer.encoding.color is not alt.Undefined)
    layers[at] = layers[at].add_params(legend.picked)
    return alt.layer(*layers)


def _tips(*fields: tuple[str, str]) -> list[Any]:
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in fields]


def _standard_tips(experiment: ExperimentResult, legend: _Legend) -> list[Any]:
    series = [("series", "series")] if legend.many else []
    return _tips(
        *series,
        ("tip_load", experiment.load),
        ("tip_throughput", "throughput"),
        ("tip_rate", "rate"),
        ("tip_latency", "latency"),
        ("tip_validity", "validity"),
    )


def _crosses(data: _Data, rows: Rows, x: Any, y: Any, tips: list[Any]) -> list[Any]:
    """A cross over each point that is not valid."""
    wrong = [row for row in rows if row["validity"] == "invalid"]
    if not wrong:
        return []
    return [
        data(wrong)
        .mark_point(shape=_CROSS, size=150, style="ceiling-rule", strokeDash=[1, 0])
        .encode(x, y, tooltip=tips)
    ]


def throughput(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Throughput against load, with the fitted curve, the knee, the 90% load, the ceilings and the peers."""
    unit = unit_of(experiment)
    rows, scale = plotdata.measured(experiment, group, unit)
    if not rows:
        return None
    data = _Data()
    legend = _Legend([series.label for series in group])
    x = _axis_of_load(experiment, (row["load"] for row in rows))
    y = _y("y", scale.unit)
    tips = _standard_tips(experiment, legend)
    near, far = plotdata.ceilings(experiment, group, unit, scale, max(row["high"] for row in rows))
    lines, joined = plotdata.lines(group, rows, scale)
    marks = plotdata.marks(group, rows, scale)
    layers = [*_ceiling_layers(data, near)]
    if lines:
        layers.append(
            data(lines)
            .mark_line(strokeWidth=1.8)
            .encode(x, y, legend.colour, opacity=legend.opacity, detail="series:N")
        )
    if marks:
        layers.append(
            data(marks)
            .mark_rule(strokeDash=[2, 3], strokeWidth=1.2)
            .encode(x, alt.Y("zero:Q", title=scale.unit), alt.Y2("y"), legend.colour, opacity=legend.opacity)
        )
        for side in ("left", "right"):
            some = [row for row in marks if row["align"] == side and row["text"]]
            if some:
                layers.append(
                    data(some)
                    .mark_text(align=side, dx=5 if side == "left" else -5, style="note")
                    .encode(
                        x, alt.Y("text_y:Q", title=scale.unit), legend.colour, text="text:N", opacity=legend.opacity
                    )
                )
    bars = [row for row in rows if row["interval"]]
    if bars:
        layers.append(
            data(bars)
            .mark_rule(strokeWidth=1.4)
            .encode(x, alt.Y("low:Q", title=scale.unit), alt.Y2("high"), legend.colour, opacity=legend.opacity)
        )
    peers = plotdata.peers(experiment, group, unit, scale)
    if peers:
        peer_tips = _tips(
            ("series", "series"), ("tip_load", experiment.load), ("tip_peer", "peer"), ("tip_ratio", "ours ÷ theirs")
        )
        layers.append(
            data(peers)
            .mark_point(size=120, style="peer")
            .encode(x, y, legend.colour, tooltip=peer_tips, opacity=legend.opacity)
        )
    layers.append(
        data(rows)
        .mark_point(filled=True, size=52)
        .encode(x, y, legend.colour, legend.shape, tooltip=tips, opacity=legend.opacity)
    )
    layers += _crosses(data, rows, x, y, tips)
    said = [f"{scale.unit} at each {load_title(experiment)}"]
    said[0] += "; bars show the 95% interval" if bars else "; one repeat each, so no interval"
    said.append(
        "Line: the fitted model" if joined == "model" else "Lines join neighbouring measurements" if joined else ""
    )
    said.append("dotted: the knee and the load for 90% of the ceiling found" if marks else "")
    said.append(f"hollow rings: {', '.join(sorted({str(p.tool) for p in experiment.peers}))}" if peers else "")
    said.append(f"Above this chart: {'; '.join(far)}" if far else "")
    return Drawn(f"Throughput against {load_title(experiment)}", _sentences(said), _layered(layers, legend), data.sets)


def _ceiling_layers(data: _Data, near: Rows) -> list[Any]:
    if not near:
        return []
    tips = _tips(("text", "ceiling"), ("tip_class", "class"), ("tip_formula", "formula"), ("tip_source", "source"))
    base = data(near)
    y = alt.Y("y:Q")
    return [
        base.mark_rule(style="ceiling-rule").encode(y, tooltip=tips),
        base.mark_text(style="ceiling-text").encode(y, x=alt.value("width"), text="text:N"),
    ]


def _sentences(parts: list[str]) -> str:
    kept = [part for part in parts if part]
    text = ". ".join(part[0].upper() + part[1:] for part in kept)
    return f"{text}." if text else ""


def latency(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Mean latency against load, with a bar from the median to the 99th percentile."""
    rows, scale = plotdata.latencies(experiment, group)
    if not rows:
        return None
    data = _Data()
    legend = _Legend([series.label for series in group])
    x = _axis_of_load(experiment, (row["load"] for row in rows))
    joined = {row["series"] for row in rows if sum(other["series"] == row["series"] for other in rows) >= 3}
    lines = [row for row in rows if row["series"] in joined]
    banded = len(group) <= MOST_BANDS and bool(lines) and all(row["p99"] > 0 and row["p50"] > 0 for row in lines)
    over = [row[name] for row in rows for name in (("y", "p50", "p99") if banded else ("y",))]
    log = plotdata.wide(over)
    y = _y("y", scale.unit, over)
    tips = _standard_tips(experiment, legend)
    layers = []
    if banded:
        layers.append(
            data(lines)
            .mark_area(fillOpacity=0.15)
            .encode(x, _y("p50", scale.unit, over), alt.Y2("p99"), legend.colour, opacity=legend.opacity)
        )
    if lines:
        layers.append(data(lines).mark_line(strokeWidth=1.8).encode(x, y, legend.colour, opacity=legend.opacity))
    layers.append(
        data(rows)
        .mark_point(filled=True, size=52)
        .encode(x, y, legend.colour, legend.shape, tooltip=tips, opacity=legend.opacity)
    )
    layers += _crosses(data, rows, x, y, tips)
    said = [f"mean latency in {scale.unit}{', on a log scale' if log else ''}"]
    said.append("Bands reach from the median to the 99th percentile" if banded else "")
    said.append("A closed loop: latency at a fixed depth" if experiment.load in {"iodepth", "numjobs"} else "")
    return Drawn(f"Latency against {load_title(experiment)}", _sentences(said), _layered(layers, legend), data.sets)


def tradeoff(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Latency against throughput, one mark a load: where more load buys only latency, the line turns up."""
    unit = unit_of(experiment)
    rows, x_scale, y_scale = plotdata.tradeoffs(experiment, group, unit)
    if len(rows) < 3:
        return None
    data = _Data()
    legend = _Legend([series.label for series in group])
    x = alt.X(
        "x:Q",
        title=x_scale.unit,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(format=",~r", grid=True, tickCount=6),
    )
    y = _y("y", f"mean latency, {y_scale.unit}", [row["y"] for row in rows])
    tips = _standard_tips(experiment, legend)
    base = data(rows)
    layers = [
        base.mark_line(strokeWidth=1.4).encode(x, y, legend.colour, order="load:Q", opacity=legend.opacity),
        base.mark_point(filled=True, size=52).encode(
            x, y, legend.colour, legend.shape, tooltip=tips, opacity=legend.opacity
        ),
    ]
    named = [row for row in rows if row["name"]]
    if named:
        layers.append(
            data(named)
            .mark_text(align="right", dx=-7, dy=-7, style="note")
            .encode(x, y, legend.colour, text="name:N", opacity=legend.opacity)
        )
    said = [
        "down and to the right is better",
        f"numbers at the marks are the {load_title(experiment)}" if named else "",
    ]
    return Drawn("Latency against throughput", _sentences(said), _layered(layers, legend), data.sets)


def _bars(
    experiment: ExperimentResult, group: list[Series], rows: Rows, scale: Scale, title: str, caption: str
) -> Drawn | None:
    if not rows:
        return None
    data = _Data()
    legend = _Legend([series.label for series in group])
    order = list(dict.fromkeys(row["tip_load"] for row in rows))
    x = alt.X("tip_load:N", sort=order, title=load_title(experiment), axis=alt.Axis(labelAngle=0, labelLimit=120))
    offset = [alt.XOffset("series:N", sort=[series.label for series in group])] if legend.many else []
    tips = _standard_tips(experiment, legend)
    base = data(rows)
    layers = [
        base.mark_bar(cornerRadiusEnd=2, width={"band": 0.8}).encode(
            x, _y("y", scale.unit), legend.colour, *offset, tooltip=tips, opacity=legend.opacity
        )
    ]
    spread = [row for row in rows if row["interval"]]
    if spread:
        layers.append(
            data(spread)
            .mark_rule(style="note", strokeWidth=1.4, stroke="#888")
            .encode(x, alt.Y("low:Q", title=scale.unit), alt.Y2("high"), *offset, opacity=legend.opacity)
        )
    return Drawn(title, caption, _layered(layers, legend), data.sets)


def throughput_bars(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Throughput as grouped bars, for a load that is a word or has two values."""
    rows, scale = plotdata.measured(experiment, group, unit_of(experiment))
    title = f"Throughput by {load_title(experiment)}"
    return _bars(experiment, group, rows, scale, title, f"{scale.unit}, with the 95% interval where there is one.")


def latency_bars(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Mean latency as grouped bars."""
    rows, scale = plotdata.latencies(experiment, group)
    title = f"Latency by {load_title(experiment)}"
    return _bars(
        experiment, group, [{**row, "interval": False} for row in rows], scale, title, f"Mean latency in {scale.unit}."
    )


def chosen_points(experiment: ExperimentResult) -> list[int]:
    """Points whose distributions are worth a line: all of a grid; of a curve the least, best and greatest load."""
    if experiment.name.endswith(".grid") or len(experiment.points) <= MOST_LINES:
        return list(range(len(experiment.points)))[:MOST_LINES]
    series = series_of(experiment)
    wanted: list[int] = []
    for one in series:
        ends = [one.points[0], one.points[-1]] if len(series) <= MOST_LINES // 2 else []
        best = one.curve.best if one.curve else None
        middle = next(
            (at for at in one.points if best and load_of(experiment, at) == best.load), one.points[len(one.points) // 2]
        )
        wanted += dict.fromkeys([*ends[:1], middle, *ends[1:]])
    return wanted[:MOST_LINES]


def percentiles(experiment: ExperimentResult, points: list[int]) -> Drawn | None:
    """Latency against quantile from 50% to 99.99%, stretched so that the tail has room."""
    rows, scale = plotdata.quantiles(experiment, points)
    if not rows:
        return None
    data = _Data()
    legend = _Legend([point_label(experiment, at) for at in points if experiment.points[at].latency_ns])
    over = [row["y"] for row in rows]
    log = plotdata.wide(over)
    axis = alt.Axis(
        values=[2, 10, 100, 1000, 10000],
        labelExpr="format(100 - 100 / datum.value, '~r') + '%'",
        title="share of operations",
        grid=True,
    )
    x = alt.X(
        "tail:Q", scale=alt.Scale(type="log", base=10, domain=[2, max(100, *(row["tail"] for row in rows))]), axis=axis
    )
    tips = _tips(("series", "point"), ("tip_share", "share"), ("tip_latency", "at most"))
    base = data(rows)
    layers = [
        base.mark_line(strokeWidth=1.8).encode(x, _y("y", scale.unit, over), legend.colour, opacity=legend.opacity),
        base.mark_point(filled=True, size=34).encode(
            x, _y("y", scale.unit, over), legend.colour, legend.shape, tooltip=tips, opacity=legend.opacity
        ),
    ]
    said = f"{scale.unit} that this share of operations stayed within{', on a log scale' if log else ''}"
    caption = f"{said}; a share is shown only where ten operations lie beyond it."
    return Drawn("Latency percentiles", caption, _layered(layers, legend), data.sets)


def samples(experiment: ExperimentResult, points: list[int]) -> Drawn | None:
    """Throughput over the time of the measurement."""
    rows, unit = plotdata.over_time(experiment, points)
    if not rows:
        return None
    data = _Data()
    legend = _Legend(list(dict.fromkeys(row["series"] for row in rows)))
    x = alt.X("time:Q", title="time, s", scale=alt.Scale(zero=True, nice=False))
    over = [row["y"] for row in rows]
    y = _y("y", unit, over)
    tips = _tips(
        ("series", "point"), ("tip_time", "time"), ("tip_value", "throughput"), ("tip_range", "min … avg … max")
    )
    base = data(rows)
    layers = [
        base.mark_line(strokeWidth=1.3, interpolate="step-after").encode(x, y, legend.colour, opacity=legend.opacity),
        base.mark_point(filled=True, size=60, opacity=0).encode(x, y, legend.colour, tooltip=tips),
    ]
    log = ", on a log scale" if plotdata.wide(over) else ""
    return Drawn(
        "Throughput over time",
        f"{unit}, the average of each interval of the timed region{log}.",
        _layered(layers, legend),
        data.sets,
    )
