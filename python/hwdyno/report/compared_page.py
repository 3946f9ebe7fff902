"""A comparison as one HTML file: what differs, every ratio, and the curves over each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hwdyno import __version__
from hwdyno.explain.comparison import Change, Compared, fails, overall
from hwdyno.model.units import format_bytes
from hwdyno.model.words import Run
from hwdyno.report import overlay, page, svg, theme
from hwdyno.report.charts import Chart
from hwdyno.report.compared import (
    describe_machines,
    difference_words,
    format_sides,
    interval_text,
    label,
    list_rows,
    ratio_text,
    summary,
    unlike_words,
    verdict_words,
)
from hwdyno.report.compared_files import json_text
from hwdyno.report.embedding import pack_text
from hwdyno.system import output_files
from hwdyno.system.printable import printable

CHARTS_IN_SIGHT = 8
"""Charts that are open; the others wait in a fold."""


def write(
    base: str, sides: Sequence[Compared], path: Path, *, limit: float | None = None, overwrite: bool = False
) -> None:
    """Write the page as one file; raises ``UserError`` where another's is in the way."""
    output_files.write_output(path, html(base, sides, limit).encode(), overwrite=overwrite, header=page.HEADER)


def html(base: str, sides: Sequence[Compared], limit: float | None = None) -> str:
    """The whole page. Every name is escaped."""
    return page.render_page("compare.html.j2", _context(printable(base), [printable(side) for side in sides], limit))


def _context(base: str, sides: list[Compared], limit: float | None) -> dict[str, Any]:
    overview = overlay.ratios(base, sides)
    first = [_draw_chart(Chart("ratios", 0, overview))] if overview is not None else []
    charts = [_draw_chart(chart) for chart in overlay.overlays(base, sides)]
    text = json_text(base, sides, limit)
    parts = [_side(base, side, limit, at) for at, side in enumerate(sides, start=1)]
    contents = [
        ("top", "What differs", True),
        ("ratios", "Ratios", first),
        *((part["id"], part["name"], True) for part in parts),
        ("curves", "Curves", charts),
        ("data", "Data", True),
    ]
    return {
        "title": f"{base} and {', '.join(side.name for side in sides)} – hwdyno",
        "version": __version__,
        "contents": [{"id": name, "says": says} for name, says, there in contents if there],
        "base": base,
        "runs": [_run(name, run) for name, run in overlay.list_runs(base, sides)],
        "sides": parts,
        "ratios": first,
        "charts": charts[:CHARTS_IN_SIGHT],
        "more_charts": charts[CHARTS_IN_SIGHT:],
        "data": pack_text(text),
        "data_size": format_bytes(len(text)),
        "file_name": "hwdyno-comparison.json",
    }


def _draw_chart(chart: Chart) -> dict[str, Any]:
    drawing = svg.draw(chart.picture, theme.paint(page=True))
    return {"name": chart.name, "title": chart.title, "caption": chart.caption, "drawings": [drawing]}


def _run(name: str, run: Run) -> list[str]:
    machine = run.machine
    facts = [name, run.id, run.started[:16].replace("T", " "), machine.cpu.model or "", machine.os.kernel or ""]
    return [fact for fact in dict.fromkeys(facts) if fact]


def _side(base: str, side: Compared, limit: float | None, at: int) -> dict[str, Any]:
    differs = [difference_words(difference) for difference in side.differences]
    state = "failed" if limit is not None and any(fails(change, limit) for change in side.changes) else ""
    mean = overall(list(side.changes))
    return {
        "id": f"side-{at}",
        "name": side.name,
        "title": f"{side.name} beside {base}" if side.before is not None else f"{base} beside {side.name}",
        "machine": describe_machines(side),
        "state": state,
        "mean": f"{mean:.3f}" if mean is not None else "",
        "differs": differs,
        "not_compared": list(
            dict.fromkeys(f"{mismatch.experiment}: {unlike_words(mismatch)}" for mismatch in side.matching.unlike)
        ),
        "summary": summary(base, side, limit),
        "heads": ["Experiment", "Ratio", "Verdict", "95% interval", "Point", *_heads(base, side)],
        "rows": [_row(side, change) for change in list_rows(side)],
        "points": [
            _row(side, change)
            for change in sorted(side.changes, key=lambda change: (change.experiment, change.ratio.value))
            if change.points == 1
        ],
    }


def _row(side: Compared, change: Change) -> list[str]:
    before, after = format_sides(side, change)
    name = change.stated.partition(",")[0] or change.experiment
    return [
        name,
        ratio_text(change),
        verdict_words(side, change),
        interval_text(change.ratio),
        label(side, change),
        before,
        after,
    ]


def _heads(base: str, side: Compared) -> tuple[str, str]:
    return ("Before", "After") if side.before is not None else ("Maker's figure", base)
