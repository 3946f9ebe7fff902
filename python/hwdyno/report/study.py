"""A study's tables and observations as plain text for a terminal, and as Markdown."""

from __future__ import annotations

import textwrap
from typing import Any

from hwdyno import studies
from hwdyno.model.words import Run
from hwdyno.studies import StudyTable
from hwdyno.system.printable import markdown_text

WIDTH = 96
HEAD_LINES = 2


def text(run: Run) -> str:
    """Everything that the Run's study has to show; empty for a Run of none that is known here."""
    if not studies.is_known(run.study):
        return ""
    parts = [f"Study {run.study}: {studies.find(run.study).asks}\n"]
    parts += [
        "\n".join([table.title, *(f"  {line}" for line in _lines(table))]) + "\n" for table in studies.tables(run)
    ]
    bullets = (textwrap.fill(f"- {sentence}", WIDTH, subsequent_indent="  ") for sentence in studies.observations(run))
    return "\n".join([*parts, "\n".join(bullets), ""])


def _lines(table: StudyTable) -> list[str]:
    """The table's lines: words to the left, figures to the right, and heads on few lines.

    A table that is too wide says once, below it, what all of its rows have in common.
    """
    shown, alike = list(range(len(table.columns))), list[int]()
    while _width(table, shown) > WIDTH and len(table.rows) > 1:
        same = next((at for at in shown if len({row[at] for row in table.rows}) == 1 and table.rows[0][at]), None)
        if same is None:
            break
        shown.remove(same)
        alike.append(same)
    columns = [_column(table, at) for at in shown]
    height = max(len(heads) for heads, *_ in columns)
    above = [[""] * (height - len(heads)) + heads for heads, *_ in columns]
    lines = [
        "  ".join(
            _align_cell(cell, width, left) for cell, (_, width, left) in zip(cells, columns, strict=True)
        ).rstrip()
        for cells in [*zip(*above, strict=True), *([row[at] for at in shown] for row in table.rows)]
    ]
    common = ", ".join(f"{table.columns[at]} {table.rows[0][at]}" for at in alike)
    return [*lines, *textwrap.wrap(f"in all rows: {common}", WIDTH)] if common else lines


def _align_cell(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)


def _column(table: StudyTable, at: int) -> tuple[list[str], int, bool]:
    """The head of a column in lines, the column's width, and whether it holds words."""
    cells, head = [row[at] for row in table.rows], table.columns[at]
    width = max((len(cell) for cell in (*cells, *head.split())), default=0)
    while len(textwrap.wrap(head, max(1, width))) > HEAD_LINES:
        width += 1
    words = [cell for cell in cells if cell not in {"", "-"}]
    left = bool(words) and sum(not word[0].isdigit() for word in words) > len(words) / 2
    return textwrap.wrap(head, max(1, width)), width, left


def _width(table: StudyTable, shown: list[int]) -> int:
    return sum(_column(table, at)[1] + 2 for at in shown)


def markdown(run: Run) -> str:
    """The same as Markdown."""
    if not studies.is_known(run.study):
        return ""
    parts = [f"## Study {run.study}\n\n{studies.find(run.study).asks}\n"]
    for table in studies.tables(run):
        rows = [table.columns, ("---:",) * len(table.columns), *table.rows]
        lines = ("| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in rows)
        parts.append(f"### {table.title}\n\n" + "\n".join(lines) + "\n")
    parts.append("\n".join(f"- {markdown_text(sentence)}" for sentence in studies.observations(run)))
    return "\n".join(parts)


def page(run: Run) -> dict[str, Any] | None:
    """The same for the page's template; none for a Run of no study."""
    if not studies.is_known(run.study):
        return None
    asks, tables = studies.find(run.study).asks, studies.tables(run)
    return {"name": run.study, "asks": asks, "tables": tables, "observations": studies.observations(run)}
