"""Tables whose units are in a corner, in a caption or in each cell, as tables with one unit a column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hwdyno.formats.column import FIGURES, parse_head
from hwdyno.formats.grid import Grid
from hwdyno.formats.grid_heads import MARKS
from hwdyno.formats.request_times import find_statistic
from hwdyno.formats.statistics_line import MIN_STATISTICS
from hwdyno.formats.table_rows import is_head
from hwdyno.model.quantities import Quantity, find_quantities, number_in
from hwdyno.model.unit_readings import unit_readings

MISSING = {"", "-", "–", "—", "N/A", "n/a", "NA", "nan", "null", "None", "n/d", "x"}
"""Cells of what was not measured."""
_WORDS = {"bytes/s": "bandwidth", "bits or bytes": "bandwidth", "operations/s": "IOPS", "FLOP/s": "FLOP/s"}
_BETWEEN = re.compile(r"[\s()\[\],;/|=@:*]*")
_OCCUPANCY = re.compile(r"(?i)occ(?:upancy)?\b|sm ?blocks?\b|warps?\b")
_COUNT = re.compile(r"(?i)i/?os|ops|operations|requests|transactions|messages|queries")
_PLAIN_HEAD = ("test", "result")


def with_one_unit_a_column(grid: Grid, maps: Mapping[str, str]) -> Grid:
    """The table with heads where it has none, its corner's unit in its title, and a column for each kind of rate."""
    grid = _with_counts(_without_equations(_with_unique_heads(_with_statistics_apart(grid))))
    return _parted_by_kind(_with_corner(_with_heads(_with_thread_blocks(grid))), maps)


def _with_statistics_apart(grid: Grid) -> Grid:
    """One row for a table with a row for each figure and a column for each of its statistics (``50%``, ``Avg``)."""
    names = [find_statistic(head) for head in grid.heads[1:]]
    labels = [row[0] for row in grid.rows]
    if len(names) < MIN_STATISTICS or not all(names) or len(set(labels)) != len(labels):
        return grid
    if any(parse_head(label).quantity not in FIGURES for label in labels):
        return grid
    heads = (f"{label} {name}" for label in labels for name in names)
    cells = (cell for row in grid.rows for cell in row[1:])
    return Grid(grid.title, (_PLAIN_HEAD[0], *heads), ((grid.title, *cells),))


def _with_unique_heads(grid: Grid) -> Grid:
    """The second of two columns of results with one head as ``MB/s (#2)``, so that both are read."""
    heads = list[str]()
    for head in grid.heads:
        before = sum(known == head for known in grid.heads[: len(heads)])
        is_result = before and head.strip() and parse_head(head).quantity in {*FIGURES, "label"}
        heads.append(f"{head} (#{before + 1})" if is_result else head)
    return replace(grid, heads=tuple(heads))


def _with_counts(grid: Grid) -> Grid:
    """``I/Os`` beside ``I/O per s`` is how many there were, and no rate."""
    rates = [head for head in grid.heads if parse_head(head).quantity == "iops" and parse_head(head).units]
    if not rates:
        return grid
    heads = ("completed" if _COUNT.fullmatch(head.strip()) else head for head in grid.heads)
    return replace(grid, heads=tuple(heads))


def _without_equations(grid: Grid) -> Grid:
    """``N`` as a count beside no rate of arithmetic and no time, and as a matrix's beside ``M`` or ``K``."""
    names = {head.strip().lower() for head in grid.heads}
    if not names & {"k", "m"} and any(parse_head(head).quantity in {"flops", "time"} for head in grid.heads):
        return grid
    return replace(
        grid,
        heads=tuple(
            ("columns" if names & {"k", "m"} else "count") if head.strip().lower() == "n" else head
            for head in grid.heads
        ),
    )


def _with_thread_blocks(grid: Grid) -> Grid:
    """``block`` beside a GPU's occupancy is of threads, and no size."""
    is_gpu = any(_OCCUPANCY.match(head) for head in grid.heads)
    return replace(grid, heads=tuple("blockdim" if is_gpu and head == "block" else head for head in grid.heads))


def _with_heads(grid: Grid) -> Grid:
    """Two columns whose first line is a result, as all others are: it is no head."""
    marks = [at for at, head in enumerate(grid.heads) if head in MARKS and all(row[at] == head for row in grid.rows)]
    if marks:
        kept = [at for at in range(len(grid.heads)) if at not in marks]
        rows = tuple(tuple(row[at] for at in kept) for row in grid.rows)
        grid = Grid(grid.title, tuple(grid.heads[at] for at in kept), rows)
    first = number_in(grid.heads[-1])
    if len(grid.heads) != len(_PLAIN_HEAD) or first is None or first.unit is None or number_in(grid.heads[0]):
        return grid
    results = [number for row in grid.rows if (number := number_in(row[-1])) is not None and number.unit is not None]
    return Grid(grid.title, _PLAIN_HEAD, (grid.heads, *grid.rows)) if len(results) == len(grid.rows) else grid


def _with_corner(grid: Grid) -> Grid:
    """``| KB/s | A | B |``: the corner's unit is that of all cells."""
    readings, (start, end) = unit_readings(grid.heads[0])
    is_whole = bool(readings) and not grid.heads[0][:start].strip(" ([") and not grid.heads[0][end:].strip(" )]")
    rates = {"bytes/s", "operations/s", "FLOP/s"}
    if not is_whole or readings[0].kind not in rates or any(number_in(row[0]) for row in grid.rows):
        return grid
    title = f"{grid.title or 'table'} in {grid.heads[0]}"
    return Grid(title, (_PLAIN_HEAD[0], *grid.heads[1:]), grid.rows)


def _parted_by_kind(grid: Grid, maps: Mapping[str, str]) -> Grid:
    """A column whose cells have rates of several kinds, as one for each; what the user maps stays as it is."""
    heads: list[str] = []
    rows: list[list[str]] = [[] for _ in grid.rows]
    for at, head in enumerate(grid.heads):
        cells = ["" if row[at].strip() in MISSING else row[at] for row in grid.rows]
        quantities = [_only_rates(cell) for cell in cells]
        kinds = list(dict.fromkeys(_WORDS[found.kind] for some in quantities for found in some))
        meaning = parse_head(head)
        is_plain = not meaning.units and (meaning.quantity in {"value", "label"} or meaning.quantity not in FIGURES)
        if len(kinds) < 2 or not is_plain or any(is_head(key, head) for key in maps) or not _all_are(cells, quantities):
            heads.append(head)
            for row, cell in zip(rows, cells, strict=True):
                row.append(cell)
            continue
        for kind in kinds:
            heads.append(f"{head} {kind}" if meaning.quantity != "value" else kind)
            for row, cell, some in zip(rows, cells, quantities, strict=True):
                part = next((found for found in some if _WORDS[found.kind] == kind), None)
                row.append(cell[part.start : part.end] if part else "")
    return Grid(grid.title, tuple(heads), tuple(map(tuple, rows)))


def _only_rates(cell: str) -> list[Quantity]:
    """The rates of a cell that holds nothing but quantities (a count before one in brackets included)."""
    found = [quantity for quantity in find_quantities(cell) if quantity.kind in _WORDS]
    words = cell
    for quantity in reversed(found):
        words = words[: quantity.start] + words[quantity.end :]
    return found if _BETWEEN.fullmatch(words) else []


def _all_are(cells: Sequence[str], quantities: Sequence[Sequence[Quantity]]) -> bool:
    return all(some for cell, some in zip(cells, quantities, strict=True) if cell.strip())
