"""What the title of a published table states of its rows."""

from __future__ import annotations

import re

from hwdyno.formats.column import parse_pattern
from hwdyno.formats.grid import Grid
from hwdyno.model.words import Parameters

_SIZES = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT])i?B? ?[/x×] ?(\d+(?:\.\d+)?) ?([KMGT])i?B\b", re.I)
_DIRECTIONS = re.compile(r"(?:rand(?:om)?|seq(?:uential)?)?[ _-]?(?:read|write)s?\b")


def stated_by_title(grid: Grid) -> Parameters:
    """What the title states, or the first head where it is a pattern: ``read`` above the names of what was tested."""
    stated = parse_pattern(grid.title)
    if match := _SIZES.search(grid.title):
        first_size, second_size = (
            float(match[at]) * 1024.0 ** (1 + "kmgt".index(match[at + 1].lower())) for at in (1, 3)
        )
        stated |= {"size": int(max(first_size, second_size)), "bs": int(min(first_size, second_size))}
    named = {word.strip() for word in _DIRECTIONS.findall(grid.title.lower())}
    if len(named) > 1:
        stated.pop("rw", None)
    first = parse_pattern(grid.heads[0]) if _DIRECTIONS.fullmatch(grid.heads[0].strip().lower()) else {}
    return {**stated, **first}
