"""Cells with several figures, such as ``78 / 120`` (read and write, or mean and maximum), as columns of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hwdyno.formats.column import FIGURES, Meaning, parse_head
from hwdyno.formats.grid import Grid
from hwdyno.model.words import UserError
from hwdyno.system.printable import escape_text

_WORDS = {
    "r": "read", "rd": "read", "read": "read", "reads": "read", "w": "write", "wr": "write", "write": "write",
    "writes": "write", "min": "min", "max": "max", "avg": "avg", "average": "avg", "mean": "mean", "median": "median",
    "stdev": "stdev", "mdev": "stdev", "up": "up", "down": "down", "tx": "tx", "rx": "rx", "sent": "sent",
    "received": "received", "h2d": "h2d", "d2h": "d2h",
}  # fmt: skip
"""What the parts of a cell may be, as a head or ``--map`` names them."""
_WORD = rf"(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))}|p\d{{2,5}}(?:\.\d+)?|0?\.\d{{2,4}}|\d{{2}}th)"
_NAMED = re.compile(rf"(?<![\w/])({_WORD}(?:\s*/\s*{_WORD}){{1,3}})(?![\w/])", re.I)
_UNIT = r"[kKM]?(?:IOPS|ops/s)|[kKMG]?i?B/s(?:ec)?|[numµμ]s"
_OF_UNITS = re.compile(rf"[(\[]\s*({_UNIT})\s*/\s*({_UNIT})\s*[)\]]")
"""``4K write (IOPS/KiB/s)``: the parts are the same in two units."""
_FIGURE = r"[~≈]?\d[\d.,']*\s*(?:[A-Za-zµμ%]+(?:/s(?:ec)?)?)?"
_CELL = re.compile(rf"\s*{_FIGURE}(?:\s*/\s*{_FIGURE}){{1,3}}\s*")
_BETWEEN = re.compile(r"\s*/\s*(?=[~≈]?\d)")
_UNIT_OF = re.compile(r"[\d.,']\s*([A-Za-zµμ%]+(?:/s(?:ec)?)?)\s*$")
_BOTH = re.compile(r"R(?:ead)?\s*[:=]\s*(\S+?)\s*[,;/]?\s+W(?:rite)?\s*[:=]\s*(\S+)", re.I)
"""One cell for both directions: ``R:21,405 W:9,177``."""


def split_pairs(grid: Grid, maps: Mapping[str, str]) -> Grid:
    """The table with one figure a cell. Raises ``UserError`` where neither head nor map says what the parts are."""
    heads: list[str] = []
    rows: list[list[str]] = [[] for _ in grid.rows]
    for at, head in enumerate(grid.heads):
        cells = [row[at] for row in grid.rows]
        names = _names(head, cells, maps)
        heads += [_with(head, name) for name in names]
        for row, cell in zip(rows, cells, strict=True):
            row += _parts(cell, names)
    return Grid(grid.title, tuple(heads), tuple(map(tuple, rows)))


def _names(head: str, cells: Sequence[str], maps: Mapping[str, str]) -> list[str]:
    """The parts that a column's cells have, after the whole (an empty name) where some cell is one figure."""
    meaning = parse_head(head)
    if "lost" in head.lower() or not _holds_figures(meaning, cells):
        return [""]
    if any(_BOTH.fullmatch(cell) for cell in cells):
        return ["", "read", "write"]
    pairs = [cell for cell in cells if _CELL.fullmatch(cell)]
    if not pairs:
        return [""]
    count = len(_BETWEEN.split(pairs[0].strip()))
    names = _part_names(_find_map(head, maps)) or _part_names(head)
    if len(names) != count:
        raise UserError(
            f"column '{escape_text(head)}' has {count} figures in a cell ('{escape_text(pairs[0].strip()[:30])}'); "
            f'say what they are: --map "{escape_text(_bare(head))}=read/write", or avg/max'
        )
    return names if len(pairs) == len([cell for cell in cells if cell.strip()]) else ["", *names]


def _holds_figures(meaning: Meaning, cells: Sequence[str]) -> bool:
    """Whether a column has results, and not the share of reads in a mix (``70 / 30``)."""
    if meaning.quantity in FIGURES:
        return True
    numbers = [re.findall(r"\d+(?:\.\d+)?", cell) for cell in cells if _CELL.fullmatch(cell)]
    return meaning.quantity == "rw" and any(sum(map(float, pair)) not in {1, 10, 100} for pair in numbers)


def _find_map(head: str, maps: Mapping[str, str]) -> str:
    from hwdyno.formats.table_rows import is_head

    return next((text for name, text in maps.items() if is_head(name, head)), "")


def _part_names(text: str) -> list[str]:
    """``read`` and ``write`` of ``BW r/w (MB/s)``; none where a text names no parts."""
    if units := _OF_UNITS.search(text):
        return [f"({units[1]})", f"({units[2]})"]
    match = _NAMED.search(text)
    words = (word.strip().lower() for word in match[1].split("/")) if match else ()
    return [_WORDS.get(word) or re.sub(r"^0?\.(?=\d)|^(?=\d\dth)", "p", word).removesuffix("th") for word in words]


def _bare(head: str) -> str:
    return re.sub(r"\s*[(\[].*", "", head).strip() or head


def _with(head: str, name: str) -> str:
    """The head of one part: the words for all of them give way to its own."""
    plain = (_OF_UNITS if name.startswith("(") else _NAMED).sub(name, head, count=1)
    return plain if plain != head or not name else f"{head} {name}"


def _parts(cell: str, names: Sequence[str]) -> list[str]:
    if list(names) == [""]:
        return [cell]
    if both := _BOTH.fullmatch(cell):
        parts = [both[1], both[2]]
    elif _CELL.fullmatch(cell):
        parts = _BETWEEN.split(cell.strip())
    else:
        # One figure covers the whole, or nothing does.
        return [cell, *[""] * (len(names) - 1)]
    unit = None if names[-1].startswith("(") else _UNIT_OF.search(parts[-1])
    found = [part if unit is None or _UNIT_OF.search(part) else f"{part} {unit[1]}" for part in parts]
    return ([""] if names[0] == "" else []) + found
