"""How loads that are words, or too few to follow, are drawn: a row of bars each, with whiskers and values."""

from __future__ import annotations

from typing import Any

from hwdyno.model.words import ExperimentResult
from hwdyno.report import plotdata
from hwdyno.report.drawing import load_title, numbers, standard_tip
from hwdyno.report.figures import Scale
from hwdyno.report.picture import Bar, Picture, Tip, even, make_names_axis, with_ends
from hwdyno.report.plotdata import PlotRows
from hwdyno.report.rows import ChartSeries, judged_unit, point_label

ROW = 20.0
"""Units of height that a bar and its gap take."""


def of_rows(
    title: str, caption: str, unit: str, rows: PlotRows, series: tuple[str, ...], *, reach: float = 0.0
) -> Picture | None:
    """Bars from rows of ``name``, ``series``, ``y``, ``text``, ``tip`` and, where known, ``low`` and ``high``.

    Their axis goes to ``reach`` at least.
    """
    if not rows:
        return None
    names = list(dict.fromkeys(row["name"] for row in rows))
    count = max(1, len(series))
    thick = 0.72 / count
    marks = tuple(
        Bar(
            (at := series.index(row["series"]) if row["series"] in series else 0),
            names.index(row["name"]) + thick * (at - (count - 1) / 2),
            thick * 0.9,
            row["y"],
            row["text"],
            row.get("low"),
            row.get("high"),
            row["tip"],
        )
        for row in rows
    )
    x = even(unit, with_ends((reach, *(row["y"] for row in rows)), (row.get("high") for row in rows)), steps=4)
    longest = max(map(len, names))
    # A long name has a separate line above its bars.
    height = len(names) * (ROW * count * 0.8 + (18.0 if longest > 20 else 8.0))
    return Picture(title, caption, x, make_names_axis(names), series, marks, height)


def _bars(
    experiment: ExperimentResult, group: list[ChartSeries], rows: PlotRows, scale: Scale, title: str, caption: str
) -> Picture | None:
    at = numbers(group)
    made = [_row(row, row["tip_load"], scale, standard_tip(experiment, row, many=len(at) > 1)) for row in rows]
    return of_rows(title, caption, scale.unit, made, tuple(at))


def _row(row: dict[str, Any], name: str, scale: Scale, tip: Tip) -> dict[str, Any]:
    known = bool(row.get("interval"))
    return {
        "name": name,
        "series": row["series"],
        "y": row["y"],
        "low": row["low"] if known else None,
        "high": row["high"] if known else None,
        "text": scale.number(row["y"] * scale.divisor),
        "tip": tip,
    }


def throughput(experiment: ExperimentResult, group: list[ChartSeries]) -> Picture | None:
    """Throughput by a load that is a word or has two values."""
    rows, scale = plotdata.make_rows(experiment, group, judged_unit(experiment))
    title = f"Throughput by {load_title(experiment)}"
    return _bars(experiment, group, rows, scale, title, f"{scale.unit}, more is better{_whiskers(rows)}.")


def latency(experiment: ExperimentResult, group: list[ChartSeries]) -> Picture | None:
    """Mean latency by such a load."""
    rows, scale = plotdata.latencies(experiment, group)
    title = f"Latency by {load_title(experiment)}"
    return _bars(experiment, group, rows, scale, title, f"Mean latency in {scale.unit}, less is better.")


def tests(experiment: ExperimentResult) -> Picture | None:
    """The throughput of each test of a grid, whose points differ in more than a load."""
    series = [ChartSeries(point_label(experiment, at), {}, (at,)) for at in range(len(experiment.points))]
    rows, scale = plotdata.make_rows(experiment, series, judged_unit(experiment))
    made = [
        _row(row, row["series"], scale, standard_tip(experiment, {**row, "tip_load": row["series"]}, many=False))
        for row in rows
    ]
    caption = f"{scale.unit}, more is better{_whiskers(rows)}."
    return of_rows("Throughput of each test", caption, scale.unit, made, (experiment.name,))


def draw_tests(experiment: ExperimentResult, group: list[ChartSeries], labels: dict[int, str]) -> Picture | None:
    """The throughput of each test by its label, a bar for each series."""
    made = []
    rows, scale = plotdata.make_rows(experiment, group, judged_unit(experiment))
    at = (index for series in group for index in series.points)
    for row, index in zip(rows, at, strict=False):
        tip = standard_tip(experiment, {**row, "tip_load": labels[index]}, many=True)
        made.append(_row(row, labels[index], scale, tip))
    caption = f"{scale.unit}, more is better{_whiskers(rows)}."
    return of_rows("Throughput of each test", caption, scale.unit, made, tuple(numbers(group)))


def _whiskers(rows: PlotRows) -> str:
    return "; whiskers show the 95% interval" if any(row["interval"] for row in rows) else ""
