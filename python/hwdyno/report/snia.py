"""SNIA's plots: how the rounds converge on a steady state, and the window in which it is measured."""

from __future__ import annotations

from typing import Any

import altair as alt

from hwdyno.report import figures
from hwdyno.report.drawing import Data, Drawn, tips_of
from hwdyno.resources import rate_word_of
from hwdyno.statistics import SNIA_RANGE, SNIA_SLOPE, snia_window
from hwdyno.units import format_size
from hwdyno.words import ExperimentResult, Measurement

TRACKED = "snia_tracked"
"""The note on the rounds that decide."""


def convergence(experiment: ExperimentResult) -> Drawn | None:
    """Each workload's rounds as a line; of the tracked one its window: the mean, 90% and 110% of it, the best line."""
    if not experiment.points:
        return None
    by_latency, by_bytes = "snia-latency" in experiment.name, "snia-throughput" in experiment.name

    def value(point: Measurement) -> float:
        if by_latency:
            return point.latency_ns.mean if point.latency_ns else 0.0
        return (point.throughput if by_bytes or point.rate is None else point.rate).value

    values = [value(point) for point in experiment.points]
    unit = "" if by_latency else "bytes/s" if by_bytes else "operations/s"
    scale = figures.latency_scale(values) if by_latency else figures.scale_for(values, unit, rate_word_of(experiment))
    rows: list[dict[str, Any]] = []
    tracked: list[float] = []
    for point, one in zip(experiment.points, values, strict=True):
        decides = any(note.code == TRACKED for note in point.notes)
        if decides:
            tracked.append(one)
        rows.append(
            {
                "round": point.parameters.get("round"),
                "y": one / scale.divisor,
                "series": _workload(point) + (" (decides)" if decides else ""),
                "tip": scale.quantity(one),
            }
        )
    title = f"mean latency, {scale.unit}" if by_latency else scale.unit
    x = alt.X(
        "round:Q", title="round", axis=alt.Axis(format="d", tickMinStep=1), scale=alt.Scale(nice=False, padding=14)
    )
    y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(format=",~r", tickCount=6))
    data = Data()
    names = list(dict.fromkeys(row["series"] for row in rows))
    colour = alt.Color("series:N", scale=alt.Scale(domain=names), legend=alt.Legend(columns=2) if names[1:] else None)
    tips = [*tips_of(("series", "workload")), alt.Tooltip("round:Q"), *tips_of(("tip", "value"))]
    base = data(rows)
    layers = [
        base.mark_line(strokeWidth=1.8).encode(x, y, colour),
        base.mark_point(filled=True, size=52).encode(x, y, colour, tooltip=tips),
    ]
    window = snia_window(tracked)
    caption = "Rounds by workload"
    if window is not None:
        middle, half = (window.first + window.last) / 2, (window.last - window.first) / 2
        bounds = [
            {"from": window.first, "to": window.last, "y": share * window.mean / scale.divisor, "text": text}
            for share, text in ((1.0, "mean"), (1 + SNIA_RANGE / 2, "110%"), (1 - SNIA_RANGE / 2, "90%"))
        ]
        slope = window.moves * window.mean / (2 * half)
        line = [
            {"round": at, "y": (window.mean + slope * (at - middle)) / scale.divisor}
            for at in (window.first, window.last)
        ]
        layers.append(
            data(bounds)
            .mark_rule(style="ceiling-rule")
            .encode(
                alt.X("from:Q", title="round"),
                alt.X2("to"),
                alt.Y("y:Q", title=title),
                tooltip=tips_of(("text", "bound")),
            )
        )
        layers.append(data(line).mark_line(strokeDash=[2, 3], strokeWidth=1.4).encode(x, y))
        state = "Steady" if window.steady else "Not steady"
        caption += (
            f". {state}: in rounds {window.first} to {window.last} the range is {window.spread:.1%} (at most "
            f"{SNIA_RANGE:.0%}) and the best line (dotted) changes by {abs(window.moves):.1%} (at most "
            f"{SNIA_SLOPE:.0%})"
            "; lines: their mean, and 90% and 110% of it"
        )
    return Drawn("Convergence to steady state", f"{caption}.", alt.layer(*layers), data.sets)


def _workload(point: Measurement) -> str:
    given = point.parameters
    size = given.get("bs")
    words = [str(given["rw"])] if "rw" in given else []
    words += [format_size(size)] if isinstance(size, int) else []
    words += [f"{given['numjobs']} x {given['iodepth']} in flight"] if {"numjobs", "iodepth"} <= set(given) else []
    return " ".join(words)
