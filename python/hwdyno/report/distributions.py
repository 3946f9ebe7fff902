"""How single points are drawn: the percentiles of their latency, and their throughput over time."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.model.words import ExperimentResult
from hwdyno.report import plotdata
from hwdyno.report.drawing import join_rows, make_tip, y_axis
from hwdyno.report.picture import ChartAxis, Dot, Mark, Picture, Polyline, even
from hwdyno.report.rows import is_at, list_series

MAX_LINES = 6
"""Points that the charts of percentiles and of samples show at once."""
MAX_TIPS = 150
"""Samples that each have a tooltip; of more, each line has one."""


def chosen_points(experiment: ExperimentResult) -> list[int]:
    """Points whose distributions are worth a line: all of a grid; of a curve the least, best and greatest load."""
    if experiment.name.endswith(".grid") or len(experiment.points) <= MAX_LINES:
        return list(range(len(experiment.points)))[:MAX_LINES]
    series = list_series(experiment)
    wanted: list[int] = []
    for member in series:
        ends = [member.points[0], member.points[-1]] if len(series) <= MAX_LINES // 2 else []
        best = member.curve.best if member.curve else None
        middle = next(
            (at for at in member.points if is_at(experiment, at, best)), member.points[len(member.points) // 2]
        )
        wanted += dict.fromkeys([*ends[:1], middle, *ends[1:]])
    return wanted[:MAX_LINES]


def percentiles(experiment: ExperimentResult, points: list[int]) -> Picture | None:
    """Latency against quantile from 50% to 99.99%, stretched so that the tail has room."""
    rows, scale = plotdata.quantiles(experiment, points)
    if not rows:
        return None
    at = _numbers(rows)
    y = y_axis(scale.unit, [row["y"] for row in rows])
    end = max(100.0, *(row["tail"] for row in rows))
    ticks = tuple((tail, text) for tail, text in _SHARES if tail <= end * 1.001)
    x = ChartAxis("share of operations", 2.0, end, "log", ticks)
    fields = (("series", "point"), ("tip_share", "share"), ("tip_latency", "at most"))
    marks: list[Mark] = [*join_rows(rows, at, "tail")]
    marks += [Dot(at[row["series"]], row["tail"], row["y"], tip=make_tip(row, *fields)) for row in rows]
    words = (
        f"{scale.unit} within which this share of operations completed{', on a log scale' if y.kind == 'log' else ''}"
    )
    caption = f"{words}; a percentile is shown only if ten operations lie beyond it."
    return Picture("Latency percentiles", caption, x, y, tuple(at), tuple(marks))


_SHARES = ((2.0, "50%"), (10.0, "90%"), (100.0, "99%"), (1e3, "99.9%"), (1e4, "99.99%"))


def _numbers(rows: plotdata.PlotRows) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(row["series"] for row in rows))}


def samples(experiment: ExperimentResult, points: list[int]) -> Picture | None:
    """Throughput over the time of the measurement."""
    rows, unit = plotdata.over_time(experiment, points)
    if not rows:
        return None
    at = _numbers(rows)
    y = y_axis(unit, [row["y"] for row in rows])
    end = max(row["time"] for row in rows)
    made = even("time, s", [end])
    x = ChartAxis(made.title, 0.0, end or 1.0, ticks=tuple(tick for tick in made.ticks if tick[0] <= end * 1.001))
    fields = (("series", "point"), ("tip_time", "time"), ("tip_value", "throughput"), ("tip_range", "min … avg … max"))
    shown = [row for row in rows if row["y"] > 0 or y.kind != "log"]
    marks: list[Mark] = [*join_rows(shown, at, "time", width=1.3, stepped=True)]
    if len(rows) <= MAX_TIPS:
        marks += [Dot(at[row["series"]], row["time"], row["y"], "unseen", make_tip(row, *fields)) for row in shown]
    else:
        whole = {
            at[row["series"]]: make_tip(row, ("series", "point"), ("tip_range", "min … avg … max")) for row in rows
        }
        # A series of zeros has no line on a log scale.
        marks = [replace(mark, tip=whole[mark.series]) for mark in marks if isinstance(mark, Polyline)]
    log = ", on a log scale" if y.kind == "log" else ""
    caption = f"{unit}, average of each interval of the timed region{log}."
    return Picture("Throughput over time", caption, x, y, tuple(at), tuple(marks))
