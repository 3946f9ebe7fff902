"""A study's tables and observations as plain text for a terminal, and as Markdown."""

from __future__ import annotations

import textwrap
from typing import Any

from hwdyno import studies
from hwdyno.printable import markdown_text
from hwdyno.words import Run

WIDTH = 100


def text(run: Run) -> str:
    """Everything that the Run's study has to show; empty for a Run of none that is known here."""
    if not studies.is_known(run.study):
        return ""
    parts = [f"Study {run.study}: {studies.find(run.study).asks}\n"]
    for table in studies.tables(run):
        rows = [*_stacked(table.columns), *table.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        parts.append("\n".join([table.title, *(f"  {line}" for line in lines)]) + "\n")
    bullets = (textwrap.fill(f"- {sentence}", WIDTH, subsequent_indent="  ") for sentence in studies.observations(run))
    return "\n".join([*parts, "\n".join(bullets), ""])


def _stacked(heads: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Heads a word a line, so that a column is as wide as its figures."""
    words = [head.split(" ") for head in heads]
    height = max(map(len, words))
    return list(zip(*([""] * (height - len(column)) + column for column in words), strict=True))


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
