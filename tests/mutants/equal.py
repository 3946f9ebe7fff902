"""Changes that change nothing that anybody could see, each with the reason."""

from __future__ import annotations

from mutants.changes import Change

EQUAL: dict[tuple[str, str, str], str] = {}
"""By file (in ``python/hwdyno``), line and change: why no test can tell."""


def why_equal(change: Change) -> str:
    """Why a change changes nothing; empty where it does."""
    return EQUAL.get((change.path.removeprefix("python/hwdyno/"), change.text, change.what), "")
