"""Tables with a row for each figure, which a cell names, turned into a column for each."""

from __future__ import annotations

from hwdyno.formats.column import FIGURES, parse_head
from hwdyno.formats.grid import Grid
from hwdyno.formats.grid_heads import is_number


def by_figure(grid: Grid) -> Grid:
    """The table with a column a figure, where each row is of one that a cell in its middle names."""
    at = next((at for at in range(1, len(grid.heads) - 1) if _names_figures(grid, at)), None)
    return grid if at is None else grid.pivot(at)


def _names_figures(grid: Grid, at: int) -> bool:
    """Whether a column's cells are the names of figures with their units, those of a few that come again and again."""
    cells = [row[at] for row in grid.rows]
    named = [meaning for meaning in map(parse_head, set(cells)) if meaning.quantity in FIGURES or meaning.units]
    numbers = [row[at + 1] for row in grid.rows]
    return (
        1 < len(named) == len(set(cells)) < len(cells)
        and all(map(is_number, numbers))
        and len({meaning.units[0].kind for meaning in named if meaning.units}) > 1
    )
