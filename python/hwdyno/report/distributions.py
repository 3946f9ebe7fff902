"""How single points are drawn: the percentiles of their latency, and their throughput over time."""

from __future__ import annotations

import altair as alt

from hwdyno.report import plotdata
from hwdyno.report.drawing import Data, Drawn, Legend, layered, tips_of, y_axis
from hwdyno.report.rows import is_at, point_label, series_of
from hwdyno.words import ExperimentResult

MOST_LINES = 6
"""Points that the charts of percentiles and of samples show at once."""


def chosen_points(experiment: ExperimentResult) -> list[int]:
    """Points whose distributions are worth a line: all of a grid; of a curve the least, best and greatest load."""
    if experiment.name.endswith(".grid") or len(experiment.points) <= MOST_LINES:
        return list(range(len(experiment.points)))[:MOST_LINES]
    series = series_of(experiment)
    wanted: list[int] = []
    for one in series:
        ends = [one.points[0], one.points[-1]] if len(series) <= MOST_LINES // 2 else []
        best = one.curve.best if one.curve else None
        middle = next((at for at in one.points if is_at(experiment, at, best)), one.points[len(one.points) // 2])
        wanted += dict.fromkeys([*ends[:1], middle, *ends[1:]])
    return wanted[:MOST_LINES]


def percentiles(experiment: ExperimentResult, points: list[int]) -> Drawn | None:
    """Latency against quantile from 50% to 99.99%, stretched so that the tail has room."""
    rows, scale = plotdata.quantiles(experiment, points)
    if not rows:
        return None
    data = Data()
    legend = Legend([point_label(experiment, at) for at in points if experiment.points[at].latency_ns])
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
    tips = tips_of(("series", "point"), ("tip_share", "share"), ("tip_latency", "at most"))
    base = data(rows)
    layers = [
        base.mark_line(strokeWidth=1.8).encode(x, y_axis("y", scale.unit, over), legend.colour, opacity=legend.opacity),
        base.mark_point(filled=True, size=34).encode(
            x, y_axis("y", scale.unit, over), legend.colour, legend.shape, tooltip=tips, opacity=legend.opacity
        ),
    ]
    words = f"{scale.unit} within which this share of operations completed{', on a log scale' if log else ''}"
    caption = f"{words}; a percentile is shown only if ten operations lie beyond it."
    return Drawn("Latency percentiles", caption, layered(layers, legend), data.sets)


def samples(experiment: ExperimentResult, points: list[int]) -> Drawn | None:
    """Throughput over the time of the measurement."""
    rows, unit = plotdata.over_time(experiment, points)
    if not rows:
        return None
    data = Data()
    legend = Legend(list(dict.fromkeys(row["series"] for row in rows)))
    x = alt.X("time:Q", title="time, s", scale=alt.Scale(zero=True, nice=False))
    over = [row["y"] for row in rows]
    y = y_axis("y", unit, over)
    tips = tips_of(
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
        f"{unit}, average of each interval of the timed region{log}.",
        layered(layers, legend),
        data.sets,
    )
