"""How a load is drawn that is a word or has two values: throughput and latency as grouped bars."""

from __future__ import annotations

import altair as alt

from hwdyno.report import plotdata
from hwdyno.report.drawing import Data, Drawn, Legend, layered, load_title, standard_tips, y_axis
from hwdyno.report.figures import Scale
from hwdyno.report.plotdata import Rows
from hwdyno.report.rows import Series, unit_of
from hwdyno.words import ExperimentResult


def _bars(
    experiment: ExperimentResult, group: list[Series], rows: Rows, scale: Scale, title: str, caption: str
) -> Drawn | None:
    if not rows:
        return None
    data = Data()
    legend = Legend([series.label for series in group])
    order = list(dict.fromkeys(row["tip_load"] for row in rows))
    x = alt.X("tip_load:N", sort=order, title=load_title(experiment), axis=alt.Axis(labelAngle=0, labelLimit=120))
    offset = [alt.XOffset("series:N", sort=[series.label for series in group])] if legend.many else []
    tips = standard_tips(experiment, legend)
    base = data(rows)
    layers = [
        base.mark_bar(cornerRadiusEnd=2, width={"band": 0.8}).encode(
            x, y_axis("y", scale.unit), legend.colour, *offset, tooltip=tips, opacity=legend.opacity
        )
    ]
    spread = [row for row in rows if row["interval"]]
    if spread:
        layers.append(
            data(spread)
            .mark_rule(style="note", strokeWidth=1.4, stroke="#888")
            .encode(x, alt.Y("low:Q", title=scale.unit), alt.Y2("high"), *offset, opacity=legend.opacity)
        )
    return Drawn(title, caption, layered(layers, legend), data.sets)


def throughput(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Throughput as grouped bars, for a load that is a word or has two values."""
    rows, scale = plotdata.measured(experiment, group, unit_of(experiment))
    title = f"Throughput by {load_title(experiment)}"
    return _bars(experiment, group, rows, scale, title, f"{scale.unit}, with the 95% interval where known.")


def latency(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Mean latency as grouped bars."""
    rows, scale = plotdata.latencies(experiment, group)
    title = f"Latency by {load_title(experiment)}"
    return _bars(
        experiment, group, [{**row, "interval": False} for row in rows], scale, title, f"Mean latency in {scale.unit}."
    )
