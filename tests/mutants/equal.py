"""Changes that change nothing that anybody could see, each with the reason: ``equal.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path

from mutants.changes import Change

PAGE = Path(__file__).with_name("equal.jsonl")


def _read() -> dict[tuple[str, str, str], str]:
    lines = map(json.loads, PAGE.read_text(encoding="utf-8").splitlines())
    return {(one["file"], one["line"], one["change"]): one["why"] for one in lines}


EQUAL = _read()
"""By file (in ``python/hwdyno``), line and change: why no test can tell."""


def why_equal(change: Change) -> str:
    """Why a change changes nothing; empty where it does."""
    return EQUAL.get((change.path.removeprefix("python/hwdyno/"), change.text, change.what), "")
