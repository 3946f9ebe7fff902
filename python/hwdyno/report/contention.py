"""What resources cost each other as a matrix: a row for each resource, a column for each load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hwdyno.analysis.resources import find_rate_word
from hwdyno.explain.findings.contention import Cell, cost_words, find_cause, list_cells
from hwdyno.model.axes import ALONE, BACKGROUND
from hwdyno.model.units import format_percent, format_quantity
from hwdyno.model.words import ExperimentResult, Run

ITSELF = "itself"
NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of text under heads, the resource first."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def matrices(run: Run) -> list[Matrix]:
    """The costs, and what the loads delivered; none for a Run without pairs."""
    cells = {(cell.resource, cell.load): cell for cell in list_cells(run)}
    if not cells:
        return []
    results = [experiment for experiment in run.experiments if experiment.load == BACKGROUND.name]
    return [
        _matrix("Cost beside a load, with its 95% interval", results, cells, _cost),
        _matrix("What the load still delivered, of its throughput alone", results, cells, _format_delivered),
    ]


def worst_pair(run: Run) -> str:
    """The pair that costs most and its cause, in a sentence or two; empty where no cost is certain."""
    worst = max(list_cells(run), key=lambda cell: cell.cost, default=None)
    if worst is None or not worst.is_certain:
        return ""
    cause = find_cause(worst, run)
    return f"Worst pair: {worst.resource} beside {worst.load}. {cause.says if cause else 'Limit not identified.'}"


def text(run: Run) -> str:
    """The same as plain text; empty for a Run without pairs."""
    parts = [_plain(matrix) for matrix in matrices(run)]
    worst = worst_pair(run) if parts else ""
    return "\n".join([*parts, f"{worst}\n"] if worst else parts)


def _plain(matrix: Matrix) -> str:
    rows = [matrix.heads, *matrix.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(matrix.heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([matrix.title, *(f"  {line}" for line in lines)]) + "\n"


def _matrix(
    title: str,
    results: list[ExperimentResult],
    cells: dict[tuple[str, str], Cell],
    words: Callable[[Cell], str],
) -> Matrix:
    names = [result.resource for result in results]
    rows = []
    for result in results:
        row = [result.resource, _alone(result)]
        for name in names:
            cell = cells.get((result.resource, name))
            row.append(ITSELF if name == result.resource else words(cell) if cell else NOT_MEASURED)
        rows.append(tuple(row))
    return Matrix(title, ("", "alone", *(f"beside {name}" for name in names)), tuple(rows))


def _alone(result: ExperimentResult) -> str:
    point = next(
        (measurement for measurement in result.points if measurement.parameters.get(BACKGROUND.name) == ALONE), None
    )
    if point is None:
        return NOT_MEASURED
    value = point.rate if find_rate_word(result) == "IOPS" and point.rate else point.throughput
    return format_quantity(value.value, value.unit, find_rate_word(result))


def _cost(cell: Cell) -> str:
    """A cost with its interval, or how large it is at most where it is not certain."""
    if cell.is_certain or cell.kept.low is None:
        return cost_words(cell.kept)
    return f"below {format_percent(max(0.001, 1 - cell.kept.low))}"


def _format_delivered(cell: Cell) -> str:
    return NOT_MEASURED if cell.load_kept is None else format_percent(cell.load_kept)
