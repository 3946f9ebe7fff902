"""What the charts of experiments share: the axis of load, one measurement's tooltip, captions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from hwdyno.model.words import ExperimentResult
from hwdyno.report import figures, plotdata
from hwdyno.report.picture import CEILING, ChartAxis, Dot, Polyline, Tip, decades, even
from hwdyno.report.plotdata import PlotRows
from hwdyno.report.rows import ChartSeries

MAX_TICKS = 16
"""Loads that all have a tick; more of them have ticks at even steps."""
_PADDING = 0.04
"""Share of the width, left free beside the first and the last load."""


def load_title(experiment: ExperimentResult) -> str:
    """The axis of load in words."""
    axis = experiment.load_axis
    name = f" ({axis.name})" if axis.title and axis.title != axis.name else ""
    return f"{axis.words}{name}{f', {axis.unit}' if axis.unit not in {'', 'B'} else ''}"


def axis_of_load(experiment: ExperimentResult, loads: Iterable[float]) -> ChartAxis:
    """Logarithmic where the loads span it, linear where they do not; a tick at each load that was measured."""
    values = sorted(set(loads))
    low, high = values[0], values[-1]
    title, axis = load_title(experiment), experiment.load_axis
    ticks = values
    if low > 0 and high / low > 4:
        margin = (high / low) ** _PADDING
        side = ChartAxis(title, low / margin, high * margin, "log")
    else:
        symlog = high > 50
        margin = _PADDING * ((math.log1p(high) if symlog else high - low) or 1.0)
        side = ChartAxis(title, low - margin, math.expm1(math.log1p(high) + margin) if symlog else high + margin)
        side = ChartAxis(title, side.low, side.high, "symlog") if symlog else side
    if len(values) > MAX_TICKS:
        made = decades("", values) if low > 0 else even("", values)
        ticks = [low, *(tick for tick, _ in made.ticks if low < tick < high), high]
    labels = tuple((tick, figures.size(tick) if axis.unit == "B" else f"{tick:,.6g}") for tick in ticks)
    return ChartAxis(side.title, side.low, side.high, side.kind, labels)


def y_axis(title: str, over: Iterable[float | None]) -> ChartAxis:
    """The upright axis: from zero, or logarithmic where ``over`` spans too much for that."""
    known = [value for value in over if value is not None and value > 0]
    return decades(title, known) if plotdata.wide(known) else even(title, known)


def make_tip(row: dict[str, Any], *fields: tuple[str, str]) -> Tip:
    """The fields of a row that say something, each with its title."""
    return tuple((title, str(row[field])) for field, title in fields if row.get(field) not in (None, "", figures.NONE))


def standard_tip(experiment: ExperimentResult, row: dict[str, Any], *, many: bool) -> Tip:
    """What a measured point says of itself."""
    series = [("series", "series")] if many else []
    validity = [] if row["validity"] == "valid" else [("tip_validity", "validity")]
    fields = [("tip_load", experiment.load), ("tip_throughput", "throughput"), ("tip_rate", "rate")]
    return make_tip(row, *series, *fields, ("tip_latency", "latency"), *validity)


def numbers(group: list[ChartSeries]) -> dict[str, int]:
    """The number of each series' colour and shape."""
    return {name: at for at, name in enumerate(dict.fromkeys(series.label for series in group))}


def dots(experiment: ExperimentResult, rows: PlotRows, group: list[ChartSeries], across: str = "load") -> list[Dot]:
    """One dot a row, and a cross over each point that is not valid."""
    at = numbers(group)
    made = [
        Dot(at[row["series"]], row[across], row["y"], tip=standard_tip(experiment, row, many=len(at) > 1))
        for row in rows
    ]
    return made + [Dot(CEILING, row[across], row["y"], "cross") for row in rows if row["validity"] == "invalid"]


def join_rows(
    rows: PlotRows, at: dict[str, int], across: str = "load", *, least: int = 1, **look: Any
) -> list[Polyline]:
    """One line a series through its rows, of those that have at least this many."""
    lines = ((number, [row for row in rows if row["series"] == name]) for name, number in at.items())
    return [
        Polyline(number, tuple((row[across], row["y"]) for row in line), **look)
        for number, line in lines
        if len(line) >= least
    ]


def sentences(parts: list[str]) -> str:
    """A caption of those parts that say something."""
    kept = [part for part in parts if part]
    text = ". ".join(part[0].upper() + part[1:] for part in kept)
    return f"{text}." if text else ""
