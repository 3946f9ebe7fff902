"""SNIA's plots: how the rounds converge on a steady state, and the window in which it is measured."""

from __future__ import annotations

from typing import Any

from hwdyno.analysis.estimates import SNIA_RANGE, SNIA_SLOPE, SniaWindow, snia_window
from hwdyno.analysis.resources import find_rate_word
from hwdyno.model.units import format_size, number_at
from hwdyno.model.words import ExperimentResult, Measurement
from hwdyno.report import figures
from hwdyno.report.drawing import join_rows, make_tip
from hwdyno.report.picture import CEILING, NEUTRAL, ChartAxis, Dot, Mark, Picture, Polyline, ReferenceLine, even

TRACKED = "snia_tracked"
"""The note on the rounds that decide."""
DECIDES = " (decides)"
MAX_NAMED = 8
"""Workloads that a legend has."""


def convergence(experiment: ExperimentResult) -> Picture | None:
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
    scale = figures.latency_scale(values) if by_latency else figures.scale_for(values, unit, find_rate_word(experiment))
    rows: list[dict[str, Any]] = []
    tracked: list[float] = []
    for point, figure in zip(experiment.points, values, strict=True):
        decides = any(note.code == TRACKED for note in point.notes)
        if decides:
            tracked.append(figure)
        rows.append(
            {
                "round": number_at(point.parameters, "round"),
                "y": figure / scale.divisor,
                "series": _workload(point) + (DECIDES if decides else ""),
                "tip": scale.quantity(figure),
            }
        )
    title = f"mean latency, {scale.unit}" if by_latency else scale.unit
    every = list(dict.fromkeys(row["series"] for row in rows))
    # More than a legend can tell apart are grey, but for what decides.
    names = every if len(every) <= MAX_NAMED else [name for name in every if name.endswith(DECIDES)]
    at = {name: names.index(name) if name in names else NEUTRAL for name in every}
    fields = (("series", "workload"), ("round", "round"), ("tip", "value"))
    marks: list[Mark] = [*join_rows(rows, at, "round")]
    marks += [Dot(at[row["series"]], row["round"], row["y"], tip=make_tip(row, *fields)) for row in rows]
    window = snia_window(tracked)
    caption = (
        "Rounds by workload"
        if len(names) == len(every)
        else f"Rounds of {len(every)} workloads; in colour: what decides"
    )
    if window is not None:
        marks += _window_marks(window, scale.divisor)
        caption += f". {_window_words(window)}"
    rounds = sorted({row["round"] for row in rows})
    ticks = tuple((number, f"{number:g}") for number in rounds)
    x = ChartAxis("round", rounds[0] - 0.3, rounds[-1] + 0.3, ticks=ticks)
    levels = [mark.y for mark in marks if isinstance(mark, ReferenceLine | Dot)]
    return Picture("Convergence to steady state", f"{caption}.", x, even(title, levels), tuple(names), tuple(marks))


def _window_marks(window: SniaWindow, divisor: float) -> list[Mark]:
    """The window's mean, 90% and 110% of it, and the line that fits its rounds best."""
    middle, half = (window.first + window.last) / 2, (window.last - window.first) / 2
    bounds = ((1.0, "mean"), (1 + SNIA_RANGE / 2, "110%"), (1 - SNIA_RANGE / 2, "90%"))
    lines = [
        ReferenceLine(CEILING, share * window.mean / divisor, window.first, window.last, text) for share, text in bounds
    ]
    slope = window.moves * window.mean / (2 * half)
    best = ((edge, (window.mean + slope * (edge - middle)) / divisor) for edge in (window.first, window.last))
    return [*lines, Polyline(NEUTRAL, tuple(best), dash="2 3", width=1.4)]


def _window_words(window: SniaWindow) -> str:
    state = "Steady" if window.steady else "Not steady"
    return (
        f"{state}: in rounds {window.first} to {window.last} the range is {window.spread:.1%} (at most "
        f"{SNIA_RANGE:.0%}) and the best line (dotted) changes by {abs(window.moves):.1%} (at most "
        f"{SNIA_SLOPE:.0%})"
        "; lines: their mean, and 90% and 110% of it"
    )


def _workload(point: Measurement) -> str:
    given = point.parameters
    size = given.get("bs")
    words = [str(given["rw"])] if "rw" in given else []
    words += [format_size(size)] if isinstance(size, int) else []
    words += [f"{given['numjobs']} x {given['iodepth']} in flight"] if {"numjobs", "iodepth"} <= set(given) else []
    return " ".join(words)
