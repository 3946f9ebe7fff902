"""Checks the options of the fio commands that a text states, as fio would."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwdyno.formats.fio_job.order import ORDERS

_COMMAND = re.compile(r"\bfio\b(?:[^\n`]|\\\n|\n(?=[ \t]*--)){0,2000}")
_QUOTED = re.compile(r"`([^`\n]{1,200})`")
_OPTION = re.compile(r"(?<![\w-])--(rand[a-z]{1,30})(?![\w-])")


def wrong_options(text: str) -> list[dict[str, str]]:
    """Orders of access that a text gives fio as an option: fio has no ``--randrw`` and stops there."""
    if not re.search(r"\bfio\b", text, re.I):
        return []
    found = {name: {"option": f"--{name}", "right": f"--rw={name}"} for name in _as_options(text)}
    return list(found.values())


def _as_options(text: str) -> Iterator[str]:
    spans = [match[0] for match in _COMMAND.finditer(text)] + [match[1] for match in _QUOTED.finditer(text)]
    for span in spans:
        yield from (match[1] for match in _OPTION.finditer(span) if match[1] in ORDERS)
