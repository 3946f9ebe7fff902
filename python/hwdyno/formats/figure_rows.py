"""Tables with a row for each figure, which a cell names, turned into a column for each."""

from __future__ import annotations

import re

from hwdyno.formats.column import FIGURES, parse_head
from hwdyno.formats.grid import Grid
from hwdyno.formats.grid_heads import is_number


def by_figure(grid: Grid) -> Grid:
    """The table with a column a figure, where rows are of percentiles or of what a cell in the middle names."""
    if _has_percentiles(grid):
        return _by_percentile(grid)
    at = next((at for at in range(1, len(grid.heads) - 1) if _names_figures(grid, at)), None)
    return grid if at is None else grid.pivot(at)


_PERCENTILES = re.compile(r"(?i)(?:latency |lat )?(?:percentiles?|quantiles?|%-?t?ile)s?")
_PERCENTILE = re.compile(r"(?i)p?(\d{2}(?:\.\d{1,3})?)(?: ?%|th)?")
_ENDS = {"min", "max", "avg", "mean", "average", "median", "minimum", "maximum"}


def _has_percentiles(grid: Grid) -> bool:
    """Whether each row is of a percentile or another statistic of the same times."""
    names = [row[0].strip().lower() for row in grid.rows]
    return (
        _PERCENTILES.fullmatch(grid.heads[0].strip()) is not None
        and all(name in _ENDS or _PERCENTILE.fullmatch(name) for name in names)
        and len(set(names)) == len(names) > 1
        and all(parse_head(head).quantity == "lat" for head in grid.heads[1:])
    )


def _by_percentile(grid: Grid) -> Grid:
    """A column for each statistic of the latencies, of which each has a row."""
    names = [row[0].strip().lower() for row in grid.rows]
    named = [f"p{match[1]}" if (match := _PERCENTILE.fullmatch(name)) else name for name in names]
    heads = ["test", *(f"{name} {grid.heads[1]}" for name in named)]
    rows = [(head, *(row[at] for row in grid.rows)) for at, head in enumerate(grid.heads) if at]
    return Grid(grid.title, tuple(heads), tuple(rows))


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
