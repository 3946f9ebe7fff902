"""Reads the lesson of each rule: one Markdown file a rule, with its law, a drawing, an example, limits and source."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[2] / "data" / "lessons"


class Lesson(NamedTuple):
    """The title of a rule's lesson, and all of its text."""

    title: str
    text: str


def lesson(rule: str) -> Lesson:
    """The lesson of a rule. Raises ``OSError`` if there is none, which a test rules out."""
    text = (FOLDER / f"{rule}.md").read_text(encoding="utf-8")
    return Lesson(text.partition("\n")[0].removeprefix("# "), text)
