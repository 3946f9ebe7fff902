"""What resources cost each other as a matrix: a row for each resource, a column for each load."""

from __future__ import annotations

from collections.abc import Callable

from hwdyno.axes import ALONE, BACKGROUND
from hwdyno.findings.contention import Cell, cause_of, cells_of, cost_words
from hwdyno.resources import rate_word_of
from hwdyno.units import format_percent, format_quantity
from hwdyno.words import ExperimentResult, Run

ITSELF = "itself"
NOT_MEASURED = "not measured"


def text(run: Run) -> str:
    """The costs and what the loads delivered, as plain text; empty for a Run without pairs."""
    cells = {(cell.resource, cell.load): cell for cell in cells_of(run)}
    if not cells:
        return ""
    results = [one for one in run.experiments if one.load == BACKGROUND.name]
    worst = max(cells.values(), key=lambda cell: cell.cost)
    parts = [
        _table("Cost beside a load, with its 95% interval", results, cells, _cost),
        _table("What the load still delivered, of its throughput alone", results, cells, _delivered),
    ]
    if worst.is_certain:
        cause = cause_of(worst, run)
        why = cause.says if cause else "Limit not identified."
        parts.append(f"Worst pair: {worst.resource} beside {worst.load}. {why}\n")
    return "\n".join(parts)


def _table(
    title: str,
    results: list[ExperimentResult],
    cells: dict[tuple[str, str], Cell],
    words: Callable[[Cell], str],
) -> str:
    names = [one.resource for one in results]
    rows = [["", "alone", *(f"beside {name}" for name in names)]]
    for result in results:
        row = [result.resource, _alone(result)]
        for name in names:
            cell = cells.get((result.resource, name))
            row.append(ITSELF if name == result.resource else words(cell) if cell else NOT_MEASURED)
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([title, *(f"  {line}" for line in lines)]) + "\n"


def _alone(result: ExperimentResult) -> str:
    point = next((one for one in result.points if one.parameters.get(BACKGROUND.name) == ALONE), None)
    if point is None:
        return NOT_MEASURED
    value = point.rate if rate_word_of(result) == "IOPS" and point.rate else point.throughput
    return format_quantity(value.value, value.unit, rate_word_of(result))


def _cost(cell: Cell) -> str:
    """A cost with its interval, or how large it is at most where it is not certain."""
    if cell.is_certain or cell.kept.low is None:
        return cost_words(cell.kept)
    return f"below {format_percent(max(0.001, 1 - cell.kept.low))}"


def _delivered(cell: Cell) -> str:
    return NOT_MEASURED if cell.load_kept is None else format_percent(cell.load_kept)
