"""Cells that name their figures, such as ``AU 90.2%`` or ``IOPS=464k, BW=1.9 GB/s``, as columns of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hwdyno.formats.column import parse_head
from hwdyno.formats.grid import Grid
from hwdyno.formats.table_rows import is_head

_NAMED = frozenset({"bw", "iops", "lat", "flops", "au", "loss", "jitter"})
"""Figures that a cell may name; the other words of heads occur in labels, too."""
_STATISTICS = r"(?:min|max|avg|average|mean|median|p\d{2,5}(?:\.\d+)?|\d{2}(?:\.\d+)?th)"
_NAME = r"[A-Za-z][A-Za-z ./]{0,30}?|p\d{2,5}(?:\.\d+)?(?: [A-Za-z]{1,12})?"
_FIGURE = r"[~≈]?\d[\d.,']*\s?(?:[kKMG](?![A-Za-z]))?(?:[A-Za-zµμ%]+(?:/s(?:ec)?)?)?"
_FIRST = re.compile(rf"(?P<name>{_NAME})\s*[:=]?\s*(?P<figure>{_FIGURE})")
_LAST = re.compile(rf"(?P<figure>[~≈]?\d[\d.,']*\s?(?:[nuµμm]s|%|[kKMG]?i?B/s))\s+(?P<name>{_NAME})")
_BETWEEN = re.compile(r"\s*[;|]\s*|\s+/\s+|\s*,(?!\d{3}(?!\d))\s*")


def parted_by_name(grid: Grid, maps: Mapping[str, str]) -> Grid:
    """The table with a column for each figure that the cells of a column name; what the user maps stays as it is."""
    heads: list[str] = []
    rows: list[list[str]] = [[] for _ in grid.rows]
    for at, head in enumerate(grid.heads):
        cells = [row[at] for row in grid.rows]
        found = None if any(is_head(key, head) for key in maps) else _figures(cells)
        names = list(dict.fromkeys(name for parts in found for name in parts)) if found else [""]
        heads += [_join_head(head, name) for name in names]
        for row, cell, parts in zip(rows, cells, found or [{}] * len(cells), strict=True):
            row += [parts.get(name, "") for name in names] if found else [cell]
    return Grid(grid.title, tuple(heads), tuple(map(tuple, rows)))


def _figures(cells: Sequence[str]) -> list[dict[str, str]] | None:
    """The figures of each cell by their names; none unless every cell that is not empty names its figures."""
    found = [_split_names(cell) if any(map(str.isdigit, cell)) else {} for cell in cells]
    return [parts or {} for parts in found] if None not in found and any(found) else None


def _split_names(cell: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for part in _BETWEEN.split(cell.strip()):
        match = _FIRST.fullmatch(part) or _LAST.fullmatch(part)
        if match is None or not _is_figure(match["name"].strip(" :=."), match["figure"]):
            return None
        found[match["name"].strip(" :=.")] = match["figure"]
    return found


def _is_figure(name: str, figure: str) -> bool:
    """Whether the words before a number are nothing but a figure's name; of a statistic alone, that its number is a
    time.
    """
    if re.fullmatch(_STATISTICS, name, re.I):
        return re.search(r"[nuµμm]s$", figure) is not None
    meaning = parse_head(name)
    return meaning.quantity in _NAMED and not meaning.remainder


def _join_head(head: str, name: str) -> str:
    """The head of a figure; a word such as "latency" that both have is used once."""
    if not name:
        return head
    is_statistic = re.fullmatch(_STATISTICS, name, re.I) is not None
    quantity = "lat" if is_statistic else parse_head(name).quantity
    if parse_head(head).quantity == quantity:
        return f"{head} {name}" if is_statistic else head
    named = f"lat {name}" if is_statistic else name
    return named if re.fullmatch(r"(?i)(?:results?|values?|performance|measured)", head.strip()) else f"{head} {named}"
