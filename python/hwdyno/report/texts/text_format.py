"""What a text format of a report is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hwdyno.model.words import Run


@dataclass(frozen=True, slots=True)
class Text:
    """One text format of a report."""

    shows: str
    """What it prints, for the option's help: ``the tables as Markdown``."""
    of: Callable[[Run], str]
