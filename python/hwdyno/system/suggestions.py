"""Suggests the right word for one that is unknown."""

from __future__ import annotations

from collections.abc import Iterable

MAX_LISTED = 12
"""Words that an error lists."""


def hint(word: str, known: Iterable[str], heading: str = "known: ") -> str:
    """The end of an error about an unknown word: the most similar word, or the words after ``heading``."""
    words = list(known)
    more = f" and {len(words) - MAX_LISTED} more" if len(words) > MAX_LISTED else ""
    return similar(word, words).removeprefix("; ") or f"{heading}{', '.join(words[:MAX_LISTED])}{more}"


def similar(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: the most similar word, or nothing."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
