"""A Run on the terminal: its scorecard on one screen, and on request every table and finding."""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from hwdyno.analysis.curves import LOADED_MODEL
from hwdyno.analysis.curves.loaded import BEARABLE
from hwdyno.analysis.resources import find_rate_word
from hwdyno.model.units import format_number
from hwdyno.model.words import ExperimentResult, Measurement, Run, Validity
from hwdyno.report import contention, figures, scaling, study
from hwdyno.report.headlines import MARKS, Share
from hwdyno.report.overview import make_overview, rank_findings
from hwdyno.report.rows import (
    ChartSeries,
    by_unit,
    direction,
    grid_label,
    in_unit,
    is_at,
    judged_unit,
    list_series,
    point_load,
    point_parameters,
    tightest,
)
from hwdyno.report.scorecard import COMMAND_COLUMNS, Scorecard, command_lines, scorecard
from hwdyno.system.failures import attempt
from hwdyno.system.printable import console_on, printable
from hwdyno.system.program_name import as_called

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

NARROW = 78
"""Columns below which the grid shows only what everyone compares."""
MAX_SERIES = 24
MAX_POINTS = 16

BAR = 10
"""Places of a bar that is full at the ceiling."""
_VERDICTS = {"sound": "bold green", "use with care": "bold yellow", "not to be trusted": "bold red"}
_STYLES = {
    **{"invalid": "bold red", "warning": "yellow", "info": "cyan", "partial": "yellow", "degraded": "yellow"},
    "unverified": "cyan",
}
_MARKS = {"invalid": "✗", "warning": "!", "info": "·"}
_FLAGS: dict[Validity, str] = {"valid": "", "unverified": "?", "degraded": "!", "invalid": "✗"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = "_.-=+*#@"


def print_run(
    run: Run,
    reports: Sequence[Path] = (),
    *,
    file: TextIO | None = None,
    width: int | None = None,
    verbose: bool = False,
    named: Sequence[str] = (),
) -> None:
    """Print a Run's scorecard to ``file`` (stdout unless given), and all that it has if ``verbose``.

    ``reports`` are the files that were made of it; ``named`` are the words by which ``hwdyno report`` finds it, if
    not its id alone.
    """
    from rich.text import Text

    run = printable(run)
    console = console_on(file or sys.stdout, width)
    if width is None and not console.is_terminal:
        console.width = max(console.width, 100)
    card = scorecard(run)
    for line in card_lines(card, console.width, ascii_only=not _unicode(console)):
        console.print(line, overflow="fold")
    for more in filter(None, (attempt(part, partial(write, run), "") for part, write in _TEXTS.items())):
        console.print()
        console.print(Text(more), end="", soft_wrap=True)
    # The figures are shown, too, where what sums them up failed.
    has_points = any(experiment.points for experiment in run.experiments)
    if verbose or (has_points and not (card.rows or run.quoted)):
        _print_all(run, console)
    else:
        for lost in textwrap.wrap(card.lost, console.width):
            console.print(Text(lost, style="yellow"))
        console.print(Text(_counts_line(card.counts, printable(list(named)) or [run.id], console.width), style="dim"))
    if reports:
        console.print()
    for path in reports:
        console.print(Text(f"report  {printable(str(path))}", overflow="fold"))


_TEXTS: dict[str, Callable[[Run], str]] = {
    "the study's table": study.text,
    "the table of contention": contention.text,
    "the table of clients": scaling.text,
}


def _counts_line(counts: str, named: Sequence[str], width: int) -> str:
    """What else the Run has, and the command that shows it, as far as there is room."""
    again = as_called(f"hwdyno report {shlex.join(named)} --verbose")
    texts = (f"{counts}: {again}", again, f"{counts}: add --verbose to see all of it")
    return next((text for text in texts if len(text) <= width), _cut(counts, width))


def _print_all(run: Run, console: Console) -> None:
    """Every experiment's table, how far the Run can be trusted, and every finding."""
    from rich.table import Table
    from rich.text import Text

    for experiment in run.experiments:
        if experiment.points:
            console.print()
            console.print(Text(experiment.asks or experiment.name, style="bold"))
            part = f"the table of {experiment.name}"
            console.print(attempt(part, partial(_body, experiment, console), Text(f"{part} could not be made")))
            for remark in attempt(f"the remarks on {experiment.name}", partial(figures.remarks, experiment), ()):
                console.print(Text(remark, style="dim"))
    overview = make_overview(run)
    console.print()
    console.print(Text(overview.says, style="bold"))
    if overview.more and not run.findings:
        console.print(Text(overview.more))
    console.print(Text(f"{overview.status}: {overview.tally}", style=_STYLES.get(overview.status, "green")))
    for finding in rank_findings(run.findings):
        mark = Text(f"{_mark(finding.severity, console)} {finding.severity}", style=_STYLES[finding.severity])
        says = Text(finding.says)
        says.append(f" [{finding.rule}]", style="dim")
        if finding.advice:
            says.append("\n" + as_called(finding.advice), style="dim")
        line = Table.grid(padding=(0, 2))
        line.add_column(no_wrap=True, min_width=9)
        line.add_column()
        line.add_row(mark, says)
        console.print()
        console.print(line)
    if run.findings:
        for sentence in run.degraded:
            console.print()
            console.print(Text(sentence, style="yellow"))


def card_lines(card: Scorecard, width: int, *, ascii_only: bool = False) -> list[Text]:
    """A scorecard in lines of at most ``width`` columns."""
    from rich.text import Text

    lines = [Text(_cut(card.machine, width), style="bold")]
    verdict = textwrap.wrap(f"{card.verdict.upper()}  {card.reason}", width)
    lines += [Text(line, style=_VERDICTS[card.verdict]) for line in verdict]
    lines += _figures(card, width, ascii_only=ascii_only)
    for number, todo in enumerate(card.todo, 1):
        lines.append(Text(_cut(f"{number} {todo.says}", width)))
        narrow = min(COMMAND_COLUMNS, width - 2)
        lines += [Text(f"  {line}", style="cyan") for line in command_lines(as_called(todo.command), narrow)]
    return lines


SHORT = {
    ", read / write": " r/w",
    " read / write": " r/w",
    " threads": " thr",
    " thread": " thr",
    " streams": " str",
    " stream": " str",
}
"""What a test's name loses where a line has no room for it."""
GIVEN_UP = (("typical",), ("bar",), ("p99",), ("names",), ("reasons",), ("ranges",), ("interval",), ("of",))
"""What goes, in this order, where the figures do not fit: what is typical, the bars, the 99th percentiles beside their
means (they get lines of their own), long names, what a share is of or why there is none, the ends of wide intervals,
intervals, shares of the ceiling."""


def _figures(card: Scorecard, width: int, *, ascii_only: bool) -> list[Text]:
    """A line a figure, its columns aligned, and as much of each as there is room for."""
    from rich.text import Text

    gone: set[str] = set()
    rows = _cells(card, gone, ascii_only=ascii_only)
    for more in GIVEN_UP:
        if _wide(rows) <= width:
            break
        gone |= {*more}
        rows = _cells(card, gone, ascii_only=ascii_only)
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[Text] = []
    for cells in rows if card.rows else ():
        places = enumerate(zip(cells, sizes, strict=True))
        parts = [cell.rjust(size) if at == 2 else cell.ljust(size) for at, (cell, size) in places]
        lines.append(Text(_cut("  ".join(parts).rstrip(), width), style="" if lines else "dim"))
    if card.todo:
        lines.append(Text(""))
    return lines


def _cells(card: Scorecard, gone: Collection[str], *, ascii_only: bool) -> list[list[str]]:
    """The columns of every line, the first line their heads; columns in which nothing is are left out."""
    shares, tails = (
        any(row.share or row.no_ceiling for row in card.rows),
        any(row.p99 for row in card.rows) and "p99" not in gone,
    )
    ceiling = "ceiling" if "bar" in gone else "of ceiling"
    of = ", ".join([ceiling] * (shares and "of" not in gone) + ["p99"] * tails)
    rows, before = [["", "", "", "95%", of, "typical"]], ""
    for row in card.rows:
        mark = MARKS.get(row.state, " ?")
        share = ""
        if row.share and "of" not in gone:
            share = (
                _percent(row.share, short="reasons" in gone)
                if "bar" in gone
                else _bar(row.share, ascii_only=ascii_only)
            )
        elif row.no_ceiling and "of" not in gone:
            share = "unknown" if "reasons" in gone else row.no_ceiling
        tail = f"p99 {row.p99}" if row.p99 and not share and "p99" not in gone else ""
        title = row.title
        for whole, short in SHORT.items() if "names" in gone else ():
            title = title.replace(whole, short)
        typical = row.typical.says if row.typical and "typical" not in gone else ""
        interval = row.interval if "interval" not in gone else ""
        interval = re.sub(r"[\d.,]+–[\d.,]+", "wide", interval) if "ranges" in gone else interval
        resource = row.resource * (row.resource != before)
        rows.append([resource, title, row.value + mark, interval, share or tail, typical])
        if row.p99 and "p99" in gone:
            rows.append(["", "  its p99", row.p99, "", "", ""])
        before = row.resource
    kept = [at for at in range(6) if at < 3 or any(cells[at] for cells in rows[1:])]
    return [[cells[at] for at in kept] for cells in rows]


def _wide(rows: list[list[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(1, width - 1)] + "…"


def _bar(share: Share, *, ascii_only: bool) -> str:
    """A bar, full at the ceiling, and the share as a number."""
    full = min(BAR, round(share.of_ceiling * BAR))
    drawn = "#" * full + "." * (BAR - full) if ascii_only else "█" * full + "░" * (BAR - full)
    return f"{drawn} {_percent(share)}"


def _percent(share: Share, *, short: bool = False) -> str:
    """``83%``, ``83% read``, or of what the run itself reached: ``83% of best kernel``."""
    of = ("own" if short else f"of {share.reference}") if share.reference else share.of
    return f"{figures.percent(share.of_ceiling)} {of}".rstrip()


def _unicode(console: Console) -> bool:
    return (console.encoding or "").lower().startswith("utf")


def _mark(severity: str, console: Console) -> str:
    return _MARKS[severity] if _unicode(console) else {"invalid": "x", "warning": "!", "info": "-"}[severity]


def _body(experiment: ExperimentResult, console: Console) -> RenderableType:
    points, axes = [point_parameters(experiment, point) for point in experiment.points], experiment.declaration.axes
    ways = {direction(parameters, axes) for parameters in points}
    named = all(grid_label(parameters, axes) for parameters in points)
    if experiment.name.endswith(".grid") and named and ways <= {"read", "write"}:
        return _grid(experiment, console)
    parts = by_unit(experiment)
    if len(parts) > 1:
        from rich.console import Group

        return Group(*(_body(part, console) for part in parts))
    series = list_series(experiment)
    if len(series) == 1 or len(experiment.points) <= MAX_POINTS // 2:
        return _points(experiment, series, console)
    return _curves(experiment, series, console)


def _table(console: Console) -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD if _unicode(console) else box.ASCII2, pad_edge=False, header_style="dim")


def _grid(experiment: ExperimentResult, console: Console) -> RenderableType:
    """CrystalDiskMark's grid: a row a pattern, reads beside writes, and how much of the ceiling each reached."""
    cells: dict[str, dict[str, int]] = {}
    for at, point in enumerate(experiment.points):
        parameters, axes = point_parameters(experiment, point), experiment.declaration.axes
        cells.setdefault(grid_label(parameters, axes), {})[direction(parameters, axes)] = at
    ways = [way for way in ("read", "write") if any(way in row for row in cells.values())]
    wide = console.width >= NARROW
    scale = figures.Scale(1e6, "MB/s")  # As everyone compares them, however fast.
    table = _table(console)
    table.add_column("", no_wrap=True)
    for way in ways:
        table.add_column(f"{way} {scale.unit}", justify="right", style="bold")
        for head in ("IOPS", "µs", "of ceiling") if wide else ("µs",):
            table.add_column(head, justify="right")
    for label, row in cells.items():
        texts: list[str] = []
        for way in ways:
            if way not in row:
                texts += [""] * (4 if wide else 2)
                continue
            at = row[way]
            point = experiment.points[at]
            latency = figures.Scale(1e3, "µs").number(point.latency_ns.mean if point.latency_ns else None)
            texts.append(_flag_figure(scale.number(point.throughput.value), point))
            if wide:
                rate = format_number(point.rate.value) if point.rate else figures.NONE
                texts += [rate, latency, figures.percent(tightest(experiment, at)[1])]
            else:
                texts.append(latency)
        table.add_row(label, *texts)
    return table


def _flag_figure(text: str, point: Measurement) -> str:
    """A figure that cannot be trusted carries a mark: colour alone does not reach everyone."""
    return f"{text} {_FLAGS[point.validity]}".rstrip()


def _choose_scale(experiment: ExperimentResult, unit: str) -> figures.Scale:
    values = [value.value for point in experiment.points if (value := in_unit(point, unit))]
    return (
        figures.latency_scale(values) if unit == "ns" else figures.scale_for(values, unit, find_rate_word(experiment))
    )


def _points(experiment: ExperimentResult, series: list[ChartSeries], console: Console) -> RenderableType:
    """A row a point, with the knee and the best operating point named."""
    unit = judged_unit(experiment)
    values = [in_unit(point, unit) for point in experiment.points]
    scale = _choose_scale(experiment, unit)
    latency = figures.latency_scale(p.latency_ns.mean if p.latency_ns else None for p in experiment.points)
    timed = any(point.latency_ns for point in experiment.points)
    wide = console.width >= NARROW
    table = _table(console)
    if len(series) > 1:
        table.add_column("series", overflow="fold")
    table.add_column(experiment.load, justify="right")
    table.add_column(scale.unit, justify="right", style="bold")
    wide = wide and any(value and value.low is not None for value in values)
    if wide:
        table.add_column("95% interval", justify="right")
    # Where latency is what is measured, its mean is there already.
    means = timed and unit != "ns"
    for head in ("mean", "p99") if means else ("p99",) if timed else ():
        table.add_column(f"{head} {latency.unit}", justify="right")
    table.add_column("")
    for member in series:
        for at in member.points[:MAX_POINTS]:
            point, value = experiment.points[at], values[at]
            row = [member.label] if len(series) > 1 else []
            row.append(figures.parameter(experiment.load_axis, point_load(experiment, at)))
            row.append(_flag_figure(scale.number(value.value if value else None), point))
            if wide:
                row.append(scale.interval(value) if value else "")
            if timed:
                known = point.latency_ns
                row += [latency.number(known.mean if known else None)] if means else []
                row.append(latency.number(known.p99 if known else None))
            best = member.curve.best if member.curve else None
            row.append("best" if is_at(experiment, at, best) else "")
            table.add_row(*row)
    if any(member.curve and member.curve.knee for member in series) or any(
        len(member.points) > MAX_POINTS for member in series
    ):
        table.caption = "; ".join(filter(None, (_read_off(experiment, member, scale) for member in series)))
        table.caption_justify = "left"
    return table


def _curves(experiment: ExperimentResult, series: list[ChartSeries], console: Console) -> RenderableType:
    """A row a series: its shape as a sparkline, what it reaches, where its knee is."""
    unit = judged_unit(experiment)
    values = [in_unit(point, unit) for point in experiment.points]
    scale = _choose_scale(experiment, unit)
    wide = console.width >= NARROW
    table = _table(console)
    longest = max(len(member.label) for member in series)
    table.add_column("series", overflow="fold", min_width=min(longest, console.width // 3))
    loads = [point_load(experiment, at) for at in series[0].points]
    span = " … ".join(figures.parameter(experiment.load_axis, load) for load in (loads[0], loads[-1]))
    table.add_column(f"{experiment.load} {span}" if wide else experiment.load, no_wrap=True)
    table.add_column(f"most {scale.unit}", justify="right", style="bold")
    if wide:
        table.add_column(f"at {experiment.load}", justify="right")
        table.add_column("", overflow="fold")
    for member in series[:MAX_SERIES]:
        known = [(at, value.value) for at in member.points if (value := values[at]) is not None]
        if not known:
            continue
        at, most = max(known, key=lambda pair: pair[1])
        row = [member.label, sparkline([value for _, value in known], ascii_only=not _unicode(console))]
        row.append(_flag_figure(scale.number(most), experiment.points[at]))
        where = figures.parameter(experiment.load_axis, point_load(experiment, at))
        table.add_row(*row, *([where, _read_off(experiment, member, scale)] if wide else []))
    if len(series) > MAX_SERIES:
        table.caption = f"and {len(series) - MAX_SERIES} more series in the report"
        table.caption_justify = "left"
    return table


def _read_off(experiment: ExperimentResult, series: ChartSeries, scale: figures.Scale) -> str:
    """``knee 10, 90% at 18.5, tends to 141,013``; empty without a fit."""
    curve = series.curve
    if curve is None or curve.state == "unknown":
        return ""
    axis = experiment.load_axis
    if curve.model == LOADED_MODEL:
        sustained = f"{BEARABLE:g} times idle latency at {scale.quantity(curve.knee.load)}" if curve.knee else ""
        return ", ".join(
            filter(None, [sustained, f"peak {scale.number(curve.ceiling.value)}" if curve.ceiling else ""])
        )
    cells = [f"knee {figures.load(axis, curve.knee.load)}" if curve.knee else curve.state]
    cells.append(f"90% at {figures.load(axis, curve.load_90)}" if curve.load_90 is not None else "")
    cells.append(f"limit {scale.number(curve.ceiling.value)}" if curve.ceiling else "")
    return ", ".join(filter(None, cells))


def sparkline(values: Sequence[float], *, ascii_only: bool = False) -> str:
    """One letter a value, its height from zero to the greatest."""
    letters = _ASCII_BLOCKS if ascii_only else _BLOCKS
    top = max(values, default=0.0)
    if top <= 0:
        return letters[0] * len(values)
    return "".join(letters[min(7, max(0, round(value / top * 7)))] for value in values)
