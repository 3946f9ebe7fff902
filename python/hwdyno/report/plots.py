"""How curves are drawn: throughput and latency against load, and the one against the other."""

from __future__ import annotations

from hwdyno.analysis.curves.loaded import BEARABLE
from hwdyno.model.words import ExperimentResult
from hwdyno.report import plotdata
from hwdyno.report.drawing import (
    axis_of_load,
    dots,
    join_rows,
    load_title,
    make_tip,
    numbers,
    sentences,
    y_axis,
)
from hwdyno.report.picture import (
    CEILING,
    Band,
    Dot,
    Mark,
    Picture,
    Polyline,
    ReferenceLine,
    Whisker,
    Words,
    even,
    with_ends,
)
from hwdyno.report.rows import ChartSeries, judged_unit

MAX_BANDS = 3
"""Series whose bands of latency can overlap and still be read."""


def throughput(experiment: ExperimentResult, group: list[ChartSeries]) -> Picture | None:
    """Throughput against load, with the fitted curve, the knee, the 90% load, the ceilings and the peers."""
    unit = judged_unit(experiment)
    rows, scale = plotdata.make_rows(experiment, group, unit)
    if not rows:
        return None
    at = numbers(group)
    x = axis_of_load(experiment, (row["load"] for row in rows))
    near, far = plotdata.ceilings(experiment, group, unit, scale, max(row["high"] for row in rows))
    lines, how = plotdata.lines(group, rows, scale)
    # Of more curves than can be named, the marks are lines that no one can tell apart.
    places = [row for row in plotdata.marks(group, rows, scale, experiment.load_axis) if row["text"]]
    peers = plotdata.peers(experiment, group, unit, scale)
    spread = [row for row in rows if row["interval"]]
    levels = [row["y"] for row in [*rows, *near, *lines, *peers]]
    y = even(scale.unit, with_ends(levels, (row["high"] for row in rows)))
    about = (("text", "ceiling"), ("tip_class", "class"), ("tip_formula", "formula"), ("tip_source", "source"))
    marks: list[Mark] = [
        ReferenceLine(CEILING, row["y"], x.low, x.high, row["text"], make_tip(row, *about)) for row in near
    ]
    marks += join_rows(lines, at)
    marks += [
        Polyline(at[row["series"]], ((row["load"], 0.0), (row["load"], row["y"])), dash="2 3", width=1.2)
        for row in places
    ]
    marks += [Words(at[row["series"]], row["load"], row["text_y"], row["text"]) for row in places]
    marks += [Whisker(at[row["series"]], row["load"], row["low"], row["high"]) for row in spread]
    peer_fields = (
        ("series", "series"),
        ("tip_load", experiment.load),
        ("tip_peer", "peer"),
        ("tip_ratio", "ours ÷ theirs"),
    )
    marks += [
        Dot(at[row["series"]], row["load"], row["y"], "peer", make_tip(row, *peer_fields))
        for row in peers
        if row["load"] is not None
    ]
    marks += dots(experiment, rows, group)
    clauses = [f"{scale.unit} at each {load_title(experiment)}"]
    clauses[0] += "; whiskers show the 95% interval" if spread else "; no interval with one repeat"
    clauses.append(
        "Line: the fitted model" if how == "model" else "Lines join neighbouring measurements" if how else ""
    )
    clauses.append("dotted: the knee, and the load for 90% of the fitted ceiling" if places else "")
    clauses.append(f"hollow rings: {', '.join(sorted({str(p.tool) for p in experiment.peers}))}" if peers else "")
    clauses.append(f"Above this chart: {'; '.join(far)}" if far else "")
    title = f"Throughput by {load_title(experiment)}"
    return Picture(title, sentences(clauses), x, y, tuple(at), tuple(marks))


def latency(experiment: ExperimentResult, group: list[ChartSeries]) -> Picture | None:
    """Mean latency against load, with a band from the median to the 99th percentile."""
    rows, scale = plotdata.latencies(experiment, group)
    if not rows:
        return None
    at = numbers(group)
    x = axis_of_load(experiment, (row["load"] for row in rows))
    lines = join_rows(rows, at, least=3)
    names = {name for name, number in at.items() if number in {line.series for line in lines}}
    banded = len(group) <= MAX_BANDS and all(
        row["p99"] > 0 and row["p50"] > 0 for row in rows if row["series"] in names
    )
    over = [row[name] for row in rows for name in (("y", "p50", "p99") if banded and lines else ("y",))]
    y = y_axis(scale.unit, over)
    marks: list[Mark] = [
        Band(at[name], tuple((row["load"], row["p50"], row["p99"]) for row in rows if row["series"] == name))
        for name in at
        if name in names and banded
    ]
    marks += [*lines, *dots(experiment, rows, group)]
    clauses = [f"mean latency in {scale.unit}{', on a log scale' if y.kind == 'log' else ''}"]
    clauses.append("Bands span the median to the 99th percentile" if banded and lines else "")
    clauses.append("Closed loop: latency at a fixed depth" if experiment.load_axis.role == "concurrency" else "")
    return Picture(f"Latency by {load_title(experiment)}", sentences(clauses), x, y, tuple(at), tuple(marks))


def tail(experiment: ExperimentResult, group: list[ChartSeries]) -> Picture | None:
    """The 99th percentile of latency against load."""
    rows, scale = plotdata.latencies(experiment, group)
    rows = [{**row, "y": row["p99"]} for row in rows if row["p99"] > 0]
    if not rows:
        return None
    at = numbers(group)
    x, y = (
        axis_of_load(experiment, (row["load"] for row in rows)),
        y_axis(f"p99 latency, {scale.unit}", [row["y"] for row in rows]),
    )
    marks: list[Mark] = [*join_rows(rows, at, least=3), *dots(experiment, rows, group)]
    caption = sentences([f"99 of 100 operations ended within this time{', log scale' if y.kind == 'log' else ''}"])
    return Picture(f"p99 latency by {load_title(experiment)}", caption, x, y, tuple(at), tuple(marks))


def tradeoff(experiment: ExperimentResult, group: list[ChartSeries]) -> Picture | None:
    """Latency against throughput, one mark a load: where more load buys only latency, the line turns up."""
    rows, x_scale, y_scale = plotdata.tradeoffs(experiment, group, judged_unit(experiment))
    if len(rows) < 3:
        return None
    at = numbers(group)
    places, tops = plotdata.tradeoff_marks(group, x_scale, y_scale)
    x = even(x_scale.unit, [row["x"] for row in [*rows, *places, *tops]])
    y = y_axis(f"mean latency, {y_scale.unit}", [row["y"] for row in [*rows, *places]])
    fit = plotdata.loaded_lines(group, rows, x_scale, y_scale)
    line = fit or sorted(rows, key=lambda row: row["load"] or 0.0)
    marks: list[Mark] = [
        Polyline(at[row["series"]], ((row["x"], y.low), (row["x"], y.high)), dash="2 3", width=1.2) for row in tops
    ]
    marks += [*join_rows(line, at, "x", width=1.4), *dots(experiment, rows, group, "x")]
    marks += [Dot(at[row["series"]], row["x"], row["y"], "ring") for row in places]
    marks += [Words(at[row["series"]], row["x"], row["y"], row["text"]) for row in places]
    marks += [Words(at[row["series"]], row["x"], row["y"], row["name"]) for row in rows if row["name"]]
    rings = (
        f"rings: {BEARABLE:g} times idle latency, and the best operating point"
        if fit
        else "rings: the knee, and the best operating point (lowest load for 90% of the ceiling)"
    )
    clauses = [
        "lower right is better",
        f"numbers at the marks: {load_title(experiment)}" if any(row["name"] for row in rows) else "",
        "line: the fitted queue" if fit else "",
        rings if places else "",
        ("dotted: the peak" if fit else "dotted: the fitted ceiling") if tops else "",
    ]
    return Picture("Latency against throughput", sentences(clauses), x, y, tuple(at), tuple(marks))
