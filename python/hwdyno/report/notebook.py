"""A Run and a Curve in Jupyter: small HTML and SVG without scripts, in which foreign text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from hwdyno.analysis.resources import find_rate_word
from hwdyno.model.units import format_load, format_ns, format_quantity
from hwdyno.model.words import Curve, ExperimentResult, OperatingPoint, Run
from hwdyno.report import figures, svg, theme
from hwdyno.report.headlines import MARKS
from hwdyno.report.picture import CEILING, ChartAxis, Dot, Mark, Picture, Polyline, ReferenceLine, Words, even
from hwdyno.report.plotdata import model_at
from hwdyno.report.rows import make_label
from hwdyno.report.scorecard import scorecard
from hwdyno.system.printable import printable

STEPS = 48
_CELL = 'style="padding:2px 12px 2px 0;text-align:left"'


def show(run: type[Run], curve: type[Curve]) -> None:
    """Give these words their methods for notebooks, which the words themselves know nothing of."""
    for kind, name, made in (
        (run, "_repr_html_", run_html),
        (run, "_repr_svg_", run_svg),
        (curve, "_repr_html_", curve_html),
        (curve, "_repr_svg_", curve_svg),
    ):
        setattr(kind, name, made)


def run_html(run: Run) -> str:
    """The Run's scorecard, as the terminal and the page have it, and its first curve."""
    run = printable(run)
    card = scorecard(run)
    parts = [
        f"<div><b>{escape(card.machine)}</b></div>",
        f"<div><b>{escape(card.verdict)}</b>: {escape(card.reason)}</div>",
        "<table>",
        _row("th", ("", "figure", "result", "95%", "of ceiling")),
    ]
    for row in card.rows:
        share = f"{figures.percent(row.share.of_ceiling)} of {row.share.ceiling}" if row.share else row.no_ceiling
        mark = MARKS.get(row.state, " ?")
        parts.append(_row("td", (row.resource, row.title, row.value + mark, row.interval, share)))
    parts.append("</table>")
    if card.todo:
        lines = (f"<li>{escape(todo.says)}<br/><code>{escape(todo.command)}</code></li>" for todo in card.todo)
        parts.append(f"<ol>{''.join(lines)}</ol>")
    parts.append(f"<div>{escape(card.counts)}: <code>hwdyno report {escape(run.id)}</code></div>")
    return "\n".join([*parts, run_svg(run)])


def _row(kind: str, cells: Iterable[str]) -> str:
    """A row of a table, escaped."""
    return "<tr>" + "".join(f"<{kind} {_CELL}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"


def run_svg(run: Run) -> str:
    """The first curve of the Run with its measured points; without any curve, one line that says so."""
    for result in printable(run).experiments:
        for curve in result.curves:
            if len(_measured_places(curve)) > 1:
                return _draw_curve(curve, _measured_places(curve), result)
    return _nothing("This run has no curve.")


def curve_html(curve: Curve) -> str:
    """The curve's drawing, its points and its operating points in a table."""
    curve = printable(curve)
    rows = [_row("th", (f"{len(curve.measured)} points", curve.load, "throughput", "latency"))]
    rows += [
        _row("td", ("", format_load(load), format_quantity(value, curve.unit), "")) for load, value in curve.measured
    ]
    for name, place in (("floor", curve.floor), ("knee", curve.knee), ("best", curve.best)):
        if place is not None:
            latency = format_ns(place.latency_ns) if place.latency_ns else ""
            reached = format_quantity(place.throughput, curve.unit)
            rows.append(_row("td", (name, f"{curve.load} {format_load(place.load)}", reached, latency)))
    if curve.ceiling is not None:
        rows.append(_row("td", ("ceiling", "", format_quantity(curve.ceiling), "")))
    return "\n".join([curve_svg(curve), f"<table>{''.join(rows)}</table>"])


def curve_svg(curve: Curve) -> str:
    """The measured points with the fitted curve, and the operating points that were read off it."""
    curve = printable(curve)
    return (
        _draw_curve(curve, _measured_places(curve), None)
        if _measured_places(curve)
        else _nothing("This curve has no point.")
    )


def _places(curve: Curve) -> list[OperatingPoint]:
    return [
        place
        for place in (curve.floor, curve.knee, curve.best)
        if place is not None and _fits(place.load, place.throughput)
    ]


def _measured_places(curve: Curve) -> list[tuple[float, float]]:
    """Load and throughput of the curve's points, where both are above 0; without any those that were read off."""
    found = [place for place in curve.measured if _fits(*place)]
    return found or [(place.load, place.throughput) for place in _places(curve)]


def _fits(load: float, value: float) -> bool:
    return math.isfinite(load) and math.isfinite(value) and load > 0 and value > 0


def _draw_curve(curve: Curve, points: Sequence[tuple[float, float]], result: ExperimentResult | None) -> str:
    """Points and model over the logarithm of the load, with the ceiling as a line."""
    loads = [load for load, _ in points] + [place.load for place in _places(curve)]
    first, last = min(loads), max(loads)
    last = last if last > first else 2 * first
    steps = [first * (last / first) ** (step / STEPS) for step in range(STEPS + 1)]
    model = [(load, value) for load in steps if (value := model_at(curve, load)) is not None and _fits(load, value)]
    ceiling = curve.ceiling.value if curve.ceiling is not None and _fits(1.0, curve.ceiling.value) else None
    levels = [value for _, value in (*points, *model)] + ([ceiling] if ceiling else [])
    scale = figures.scale_for(levels, curve.unit, find_rate_word(result) if result else "")
    margin = (last / first) ** 0.04
    ticks = tuple((load, format_load(load)) for load in sorted({load for load, _ in points}))
    x = ChartAxis(curve.load, first / margin, last * margin, "log", ticks)

    def scale_places(places: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
        return tuple((load, value / scale.divisor) for load, value in places)

    marks: list[Mark] = []
    if ceiling:
        marks.append(
            ReferenceLine(CEILING, ceiling / scale.divisor, x.low, x.high, f"ceiling {scale.quantity(ceiling)}")
        )
    if model:
        marks.append(Polyline(0, scale_places(model)))
    marks += [Dot(0, *place) for place in scale_places(points)]
    for name, place in (("knee", curve.knee), ("best", curve.best)):
        if place is not None and _fits(place.load, place.throughput):
            ((load, value),) = scale_places([(place.load, place.throughput)])
            marks += [Dot(1, load, value, "ring"), Words(1, load, value, name)]
    title = result.asks if result else f"Throughput by {curve.load}"
    names = make_label(curve.series, curve.series, result.declaration) if result else ""
    y = even(scale.unit, [level / scale.divisor for level in levels])
    return _frame(Picture(": ".join(filter(None, [title, names])), "", x, y, (names,), tuple(marks)))


def _nothing(text: str) -> str:
    return _frame(Picture(text, "", ChartAxis("", 0.0, 1.0), ChartAxis("", 0.0, 1.0), (), (), 20.0))


def _frame(picture: Picture) -> str:
    """A separate image, on white so that it can be read on a dark page."""
    return svg.draw(picture, theme.paint(), alone=True)
