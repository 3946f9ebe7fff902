"""A Run and a Curve in Jupyter: small HTML and SVG without scripts, in which foreign text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from hwdyno.printable import printable
from hwdyno.report import figures
from hwdyno.report.plotdata import model_at
from hwdyno.report.rows import label_of, rows_of
from hwdyno.resources import rate_word_of
from hwdyno.store import status_of
from hwdyno.units import format_load, format_ns, format_quantity, plural
from hwdyno.words import Curve, ExperimentResult, OperatingPoint, Run

WIDTH, HEIGHT = 460, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 26, 34
STEPS = 48
MOST_ROWS, MOST_FINDINGS = 12, 5
INK, MUTED, LINE, MARK, TOP_COLOUR = "#1c1f24", "#626973", "#0072b2", "#cf4d00", "#8a2b2b"
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
    """The Run's machine, its state, its first headline figures and findings, and its first curve."""
    run = printable(run)
    machine = run.machine
    threads = plural(machine.cpu.threads, "thread") if machine.cpu.threads else ""
    title = ", ".join(filter(None, [machine.hostname, machine.cpu.model, threads]))
    rows = rows_of(run)
    parts = [
        f"<div><b>{escape(run.id)}</b> ({escape(status_of(run))}) {escape(title)}</div>",
        f"<div><code>{escape(run.command)}</code></div>",
        "<table>",
        _row("th", ("experiment", "point", "result", "share of ceiling")),
    ]
    for row in rows[:MOST_ROWS]:
        result = format_quantity(row.measurement.throughput, "", rate_word_of(row.experiment))
        share = figures.percent(row.share) if row.share else ""
        parts.append(_row("td", (row.experiment.name, row.label, result, share)))
    parts.append("</table>")
    if len(rows) > MOST_ROWS:
        parts.append(f"<div>{len(rows) - MOST_ROWS} more in the report: hwdyno report {escape(run.id)}</div>")
    if run.findings:
        says = (f"<li>{escape(one.severity)}: {escape(one.says)}</li>" for one in run.findings[:MOST_FINDINGS])
        parts.append(f"<ul>{''.join(says)}</ul>")
    return "\n".join([*parts, run_svg(run)])


def _row(kind: str, cells: Iterable[str]) -> str:
    """A row of a table, escaped."""
    return "<tr>" + "".join(f"<{kind} {_CELL}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"


def run_svg(run: Run) -> str:
    """The first curve of the Run with its measured points; without any curve, one line that says so."""
    for result in printable(run).experiments:
        for curve in result.curves:
            if len(_measured(curve, result)) > 1:
                return _drawn(curve, _measured(curve, result), result)
    return _frame("This run has no curve.", [])


def curve_html(curve: Curve) -> str:
    """The curve's drawing, and its operating points in a table."""
    curve = printable(curve)
    rows = []
    for name, place in (("floor", curve.floor), ("knee", curve.knee), ("best", curve.best)):
        if place is not None:
            latency = format_ns(place.latency_ns) if place.latency_ns else ""
            reached = format_quantity(place.throughput, curve.unit)
            rows.append(_row("td", (name, f"{curve.load} {format_load(place.load)}", reached, latency)))
    if curve.ceiling is not None:
        rows.append(_row("td", ("ceiling", "", format_quantity(curve.ceiling), "")))
    return "\n".join([curve_svg(curve), f"<table>{''.join(rows)}</table>"])


def curve_svg(curve: Curve) -> str:
    """The fitted curve, with the operating points that were read off it."""
    curve = printable(curve)
    places = [(one.load, one.throughput) for one in _places(curve)]
    return _drawn(curve, places, None) if places else _frame("This curve has no fit.", [])


def _places(curve: Curve) -> list[OperatingPoint]:
    return [one for one in (curve.floor, curve.knee, curve.best) if one is not None and _fits(one.load, one.throughput)]


def _measured(curve: Curve, result: ExperimentResult) -> list[tuple[float, float]]:
    """Load and throughput of the curve's points, where both are numbers above 0."""
    found = []
    for at in curve.points:
        if 0 <= at < len(result.points):
            point = result.points[at]
            value = point.rate if point.throughput.unit != curve.unit and point.rate else point.throughput
            load = point.parameters.get(curve.load)
            if isinstance(load, (int, float)) and value.unit == curve.unit and _fits(load, value.value):
                found.append((float(load), value.value))
    return sorted(found)


def _fits(load: float, value: float) -> bool:
    return math.isfinite(load) and math.isfinite(value) and load > 0 and value > 0


def _drawn(curve: Curve, points: Sequence[tuple[float, float]], result: ExperimentResult | None) -> str:
    """Points and model over the logarithm of the load, with the ceiling as a line."""
    loads = [load for load, _ in points] + [one.load for one in _places(curve)]
    first, last = min(loads), max(loads)
    last = last if last > first else 2 * first
    steps = [first * (last / first) ** (step / STEPS) for step in range(STEPS + 1)]
    model = [(load, value) for load in steps if (value := model_at(curve, load)) is not None and _fits(load, value)]
    ceiling = curve.ceiling.value if curve.ceiling is not None and _fits(1.0, curve.ceiling.value) else None
    most = 1.08 * max([value for _, value in (*points, *model)] + ([ceiling] if ceiling else []))

    def place(load: float, value: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * math.log(load / first) / math.log(last / first)
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most

    shapes = []
    if ceiling:
        _, y = place(first, ceiling)
        shapes.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{TOP_COLOUR}" '
            'stroke-dasharray="4 3"/>'
        )
    if model:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*one) for one in model))
        shapes.append(f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.8"/>')
    for x, y in (place(*one) for one in points):
        shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{LINE}"/>')
    for name, one in (("knee", curve.knee), ("best", curve.best)):
        if one is not None and _fits(one.load, one.throughput):
            x, y = place(one.load, one.throughput)
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="none" stroke="{MARK}" stroke-width="1.8"/>')
            shapes.append(_text(x + 7, y + (14 if name == "knee" else -6), name, MARK))
    word = rate_word_of(result) if result else ""
    scale = ((place(first, value)[1] + 4, format_quantity(value, curve.unit, word)) for value in (0.0, most / 1.08))
    shapes += [_text(LEFT - 6, y, text, MUTED, "end") for y, text in scale]
    ends = ((first, "start"), (last, "end"))
    shapes += [_text(place(load, 0.0)[0], HEIGHT - BOTTOM + 16, format_load(load), MUTED, end) for load, end in ends]
    shapes.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, curve.load, MUTED, "middle"))
    title = result.asks if result else curve.model
    names = label_of(curve.series, curve.series, result.declaration) if result else ""
    return _frame(": ".join(filter(None, [title, names])), shapes)


def _text(x: float, y: float, text: str, colour: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'


def _frame(title: str, shapes: Iterable[str]) -> str:
    """An image of its own size, on white so that it can be read on a dark page."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="11" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            _text(LEFT, 15, title if len(title) <= 70 else f"{title[:69]}…", INK),
            f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="{MUTED}"/>',
            *shapes,
            "</svg>",
        ]
    )
