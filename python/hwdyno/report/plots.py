"""How curves are drawn: throughput and latency against load, and the one against the other."""

from __future__ import annotations

from typing import Any

import altair as alt

from hwdyno.curves.loaded import BEARABLE
from hwdyno.report import plotdata
from hwdyno.report.drawing import (
    Data,
    Drawn,
    Legend,
    axis_of_load,
    crosses,
    layered,
    load_title,
    sentences,
    standard_tips,
    tips_of,
    y_axis,
)
from hwdyno.report.plotdata import Rows
from hwdyno.report.rows import Series, unit_of
from hwdyno.words import ExperimentResult

MOST_BANDS = 3
"""Series whose bands of latency can lie over each other and still be read."""


def throughput(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Throughput against load, with the fitted curve, the knee, the 90% load, the ceilings and the peers."""
    unit = unit_of(experiment)
    rows, scale = plotdata.measured(experiment, group, unit)
    if not rows:
        return None
    data = Data()
    legend = Legend([series.label for series in group])
    x = axis_of_load(experiment, (row["load"] for row in rows))
    y = y_axis("y", scale.unit)
    tips = standard_tips(experiment, legend)
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
        peer_tips = tips_of(
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
    layers += crosses(data, rows, x, y, tips)
    clauses = [f"{scale.unit} at each {load_title(experiment)}"]
    clauses[0] += "; bars show the 95% interval" if bars else "; no interval with one repeat"
    clauses.append(
        "Line: the fitted model" if joined == "model" else "Lines join neighbouring measurements" if joined else ""
    )
    clauses.append("dotted: the knee, and the load for 90% of the fitted ceiling" if marks else "")
    clauses.append(f"hollow rings: {', '.join(sorted({str(p.tool) for p in experiment.peers}))}" if peers else "")
    clauses.append(f"Above this chart: {'; '.join(far)}" if far else "")
    return Drawn(f"Throughput against {load_title(experiment)}", sentences(clauses), layered(layers, legend), data.sets)


def _ceiling_layers(data: Data, near: Rows) -> list[Any]:
    if not near:
        return []
    tips = tips_of(("text", "ceiling"), ("tip_class", "class"), ("tip_formula", "formula"), ("tip_source", "source"))
    base = data(near)
    y = alt.Y("y:Q")
    return [
        base.mark_rule(style="ceiling-rule").encode(y, tooltip=tips),
        base.mark_text(style="ceiling-text").encode(y, x=alt.value("width"), text="text:N"),
    ]


def latency(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Mean latency against load, with a bar from the median to the 99th percentile."""
    rows, scale = plotdata.latencies(experiment, group)
    if not rows:
        return None
    data = Data()
    legend = Legend([series.label for series in group])
    x = axis_of_load(experiment, (row["load"] for row in rows))
    joined = {row["series"] for row in rows if sum(other["series"] == row["series"] for other in rows) >= 3}
    lines = [row for row in rows if row["series"] in joined]
    banded = len(group) <= MOST_BANDS and bool(lines) and all(row["p99"] > 0 and row["p50"] > 0 for row in lines)
    over = [row[name] for row in rows for name in (("y", "p50", "p99") if banded else ("y",))]
    log = plotdata.wide(over)
    y = y_axis("y", scale.unit, over)
    tips = standard_tips(experiment, legend)
    layers = []
    if banded:
        layers.append(
            data(lines)
            .mark_area(fillOpacity=0.15)
            .encode(x, y_axis("p50", scale.unit, over), alt.Y2("p99"), legend.colour, opacity=legend.opacity)
        )
    if lines:
        layers.append(data(lines).mark_line(strokeWidth=1.8).encode(x, y, legend.colour, opacity=legend.opacity))
    layers.append(
        data(rows)
        .mark_point(filled=True, size=52)
        .encode(x, y, legend.colour, legend.shape, tooltip=tips, opacity=legend.opacity)
    )
    layers += crosses(data, rows, x, y, tips)
    clauses = [f"mean latency in {scale.unit}{', on a log scale' if log else ''}"]
    clauses.append("Bands span the median to the 99th percentile" if banded else "")
    clauses.append("Closed loop: latency at a fixed depth" if experiment.load_axis.role == "concurrency" else "")
    return Drawn(f"Latency against {load_title(experiment)}", sentences(clauses), layered(layers, legend), data.sets)


def tradeoff(experiment: ExperimentResult, group: list[Series]) -> Drawn | None:
    """Latency against throughput, one mark a load: where more load buys only latency, the line turns up."""
    unit = unit_of(experiment)
    rows, x_scale, y_scale = plotdata.tradeoffs(experiment, group, unit)
    if len(rows) < 3:
        return None
    data = Data()
    legend = Legend([series.label for series in group])
    x = alt.X(
        "x:Q",
        title=x_scale.unit,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(format=",~r", grid=True, tickCount=6),
    )
    y = y_axis("y", f"mean latency, {y_scale.unit}", [row["y"] for row in rows])
    tips = standard_tips(experiment, legend)
    base = data(rows)
    fit = plotdata.loaded_lines(group, rows, x_scale, y_scale)
    line, order = (data(fit), "x:Q") if fit else (base, "load:Q")
    layers = [
        line.mark_line(strokeWidth=1.4).encode(x, y, legend.colour, order=order, opacity=legend.opacity),
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
    places, tops = plotdata.tradeoff_marks(group, x_scale, y_scale)
    if tops:
        layers.append(
            data(tops).mark_rule(strokeDash=[2, 3], strokeWidth=1.2).encode(x, legend.colour, opacity=legend.opacity)
        )
    if places:
        ring = data(places).encode(x, y, legend.colour, opacity=legend.opacity)
        layers += [
            ring.mark_point(filled=False, size=220, strokeWidth=1.8),
            ring.mark_text(align="left", dx=10, dy=12, style="note").encode(text="text:N"),
        ]
    clauses = [
        "lower right is better",
        f"numbers at the marks: {load_title(experiment)}" if named else "",
        "line: the fitted queue" if fit else "",
        (f"rings: {BEARABLE:g} times idle latency" if fit else "rings: the knee")
        + ", and the best operating point"
        + ("" if fit else " (lowest load for 90% of the ceiling)")
        if places
        else "",
        ("dashed: the peak" if fit else "dashed: the fitted ceiling") if tops else "",
    ]
    return Drawn("Latency against throughput", sentences(clauses), layered(layers, legend), data.sets)
