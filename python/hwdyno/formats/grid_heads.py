"""Heads of tables in two lines, and of groups of columns between pipes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from hwdyno.model.quantities import find_quantities, number_in
from hwdyno.model.unit_readings import unit_readings

_NUMBER = re.compile(r"[~≈<>]?\s*[-+]?\d(?!\d*[x×][\dA-Za-z])(?![\d.]*%-?t?ile)")
"""``2x64`` and ``99.9%ile`` are names."""
_FIGURE_ALONE = re.compile(r"[-+]?\d[\d.,']{0,30}")


def is_number(cell: str) -> bool:
    """Whether a cell begins with a number."""
    return _NUMBER.match(cell) is not None


MIN_COLUMNS = 4
"""Columns that lines of words do not have by chance."""
MISSING = {"-", "--", "---", "n/a", "N/A"}
MARKS = {":", "=", "|", "-", "->"}
"""What parts a label from its figure."""


def are_figures(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line of three columns or more is a result, as all others are: they have no heads."""
    last = number_in(heads[-1]) if is_number(heads[0]) else None
    if last is not None and last.unit is not None and last.unit.kind in {"bytes/s", "operations/s"}:
        return True  # Figures before a rate with its unit are a result.
    if sum(head not in MARKS for head in heads) < 3:
        return False
    if _are_plain_figures(heads, rows):
        return True
    if _FIGURE_ALONE.fullmatch(heads[-1]) and heads[-2].endswith(")") and unit_readings(heads[-2])[0]:
        return True  # A name with its unit right before its figure.
    for at, head in enumerate(heads):
        first, cells = number_in(head), [number_in(row[at]) for row in rows if row[at]]
        if first is None or first.unit is None or not cells:
            continue
        if all(number and number.unit and number.unit.kind == first.unit.kind for number in cells):
            return True
    return False


def _are_plain_figures(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether most heads are numbers above numbers, and no scale: one comes twice, or has decimals."""
    numbers = [head for at, head in enumerate(heads) if _FIGURE_ALONE.fullmatch(head) and is_number(rows[0][at])]
    is_scale = len(set(numbers)) == len(numbers) and not any("." in number for number in numbers)
    return 2 * len(numbers) > len(heads) and not is_scale


def spread_heads(heads: list[str], second: Sequence[str]) -> list[str]:
    """Heads in two lines with a wide one above each column that it covers: ``Read``, empty over ``IOPS``, ``MB/s``."""
    if any(map(is_number, second)) or len(set(second)) == len(second):
        return heads
    spread = list(heads)
    for at in range(1, len(heads)):
        if not heads[at] and second[at] and second[at - 1] and spread[at - 1]:
            spread[at] = spread[at - 1]
    return spread


def rows_below_words(rows: list[list[str]]) -> list[list[str]]:
    """The heads and rows of a block whose first lines are words of fewer columns; empty for other blocks."""
    first = next((at for at, row in enumerate(rows) if len(row) == len(rows[-1])), 0) if rows else 0
    heads, body = rows[first : first + 1], rows[first + 1 :]
    if not first or not body or len(heads[0]) < MIN_COLUMNS or any(map(is_number, heads[0])):
        return []
    cells = [cell for row in body for cell in row[1:]]
    is_table = {len(row) for row in body} == {len(heads[0])} and all(
        is_number(cell) or cell in MISSING for cell in cells
    )
    return [*heads, *body] if is_table and any(map(is_number, cells)) else []


def with_wide_heads(rows: list[list[str]]) -> list[list[str]]:
    """Rows whose first line has a head for each like group of the heads below it; empty for other rows."""
    if len(rows) < 3 or {len(row) for row in rows[1:]} != {len(rows[1])} or not rows[0]:
        return []
    above, heads = rows[0], rows[1]
    width, labels = divmod(len(heads), len(above))
    groups = [heads[labels + at * width : labels + (at + 1) * width] for at in range(len(above))]
    if len(above) < 2 or width < 2 or any(group != groups[0] for group in groups) or any(map(is_number, heads)):
        return []
    return [[""] * labels + [head for head in above for _ in range(width)], *rows[1:]]


def columns_in_groups(block: Sequence[Sequence[str]]) -> list[list[str]]:
    """The cells of a table whose pipes part groups of columns (``size threads | GB/s: 76 32``); empty for others.

    A unit with a colon at the beginning of a group's rows is that of all its columns.
    """
    if len(block) < 2 or {len(row) for row in block} != {len(block[0])}:
        return []
    lines: list[list[str]] = [[] for _ in block]
    for group in zip(*block, strict=True):
        parts = [cell.split() for cell in group]
        heads, rows = parts[0], parts[1:]
        unit = rows[0][0][:-1] if rows[0] and rows[0][0].endswith(":") else ""
        if unit and unit_readings(unit)[0] and all(row[:1] == rows[0][:1] for row in rows):
            heads, rows = [f"{head} {unit}" for head in heads], [row[1:] for row in rows]
        if not heads or any(len(row) != len(heads) or not all(map(is_number, row)) for row in rows):
            return []
        for line, cells in zip(lines, [heads, *rows], strict=True):
            line += cells
    is_clear = len(set(lines[0])) == len(lines[0])  # One head in two groups is of two things.
    return lines if is_clear and len(lines[0]) > len(block[0]) else []


_COMMENT_MARK = re.compile(r"#\s*")


def heads_in_comment(comment: str, row: str) -> str:
    """The heads that a comment right above a row of figures has, as many as the row has cells; else nothing."""
    heads = _COMMENT_MARK.sub("", comment).strip()
    if not heads:
        return ""
    for mark in (r"\t", r",", r";", r"\s{2,}", r"\s+"):
        names, cells = re.split(mark, heads), re.split(mark, row.strip())
        if len(names) == len(cells) > 1 and all(map(is_number, cells)) and not any(map(is_number, names)):
            return "  ".join(names) if mark == r"\s+" else heads
    return ""


_SEVERAL_NUMBERS = re.compile(r"\d\)?\s{2,}\d")


def has_groups(block: Sequence[Sequence[str]]) -> bool:
    """Whether the pipes part groups of columns: each row has a cell of several numbers."""
    return len(block) > 1 and all(any(map(_SEVERAL_NUMBERS.search, row)) for row in block[1:])


_NAMED_RATE = re.compile(r"[A-Za-z][\w ]{0,30}: {1,4}\d[\d.,]{0,20} [A-Za-z]{1,12}/s")
"""``Throughput: 24.3 requests/s``, which begins a list of figures with their units."""
_RECORD = re.compile(
    r"(?P<name>[A-Za-z][^:|]{0,60}?)\s{0,3}:\s{0,20}(?P<value>[-+]?\d[\d.,]{0,20}(?:[eE][-+]?\d{1,3})?%?)"
)
MIN_NAMED = 0.5
"""Share of the cells of a log's line that name their values."""


def heads_again(lines: Sequence[Sequence[str]], at: int) -> bool:
    """Whether a line among rows of figures has other heads, with a unit, for the rows below it."""
    line, below = lines[at], lines[at + 1]
    return (
        len(line) == len(lines[0]) > 1
        and list(line) != list(lines[0])
        and all(line)
        and not any(map(is_number, [*lines[0], *line]))
        and all(is_number(cell) for row in (lines[at - 1], below) for cell in row)
        and any(unit_readings(cell)[0] for cell in line)
    )


def is_label_list(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether lines are words with a colon and what they name, of several kinds, or the heads are a sentence's."""
    if any(head.count("(") > head.count(")") for head in heads) and ")" in heads[-1]:
        return True
    lines = [heads, *rows]
    if all(_NAMED_RATE.match(line[0]) for line in lines):
        return True
    if len(heads) != 2 or not all(line[0].endswith(":") for line in lines):
        return False
    values = [[found.kind for found in find_quantities(line[1]) if found.kind] for line in lines]
    kinds = {*chain.from_iterable(values), *("" for value in values if not value)}
    return any(map(any, values)) and (len(kinds) > 1 or any(len(value) > 1 for value in values))


def records_in(block: Sequence[Sequence[str]]) -> list[list[str]]:
    """The values of a log whose lines name them, below their names; empty for other lines."""
    lines = [[match for cell in cells if (match := _RECORD.fullmatch(cell.strip()))] for cells in block]
    names = [[match["name"] for match in line] for line in lines]
    few = any(len(line) < max(2, MIN_NAMED * len(cells)) for line, cells in zip(lines, block, strict=True))
    if few or not names or any(line != names[0] for line in names):
        return []
    return [names[0], *([match["value"] for match in line] for line in lines)]
