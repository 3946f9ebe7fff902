"""The rows of a published table, and what tells those apart that state the same parameters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hwdyno.formats.grid import Grid
from hwdyno.model.point_details import Note
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Parameters

LONGEST_LABEL = 60
BLOCK_OF_REVIEWS = 4096
"""Accesses of this size are random in a review that does not say so."""


@dataclass(frozen=True)
class TableRow:
    """One row: its parameters, and its numbers by column."""

    at: int
    parameters: Parameters
    numbers: Mapping[int, PrintedNumber]
    texts: Mapping[int, str]


def add_labels(rows: list[TableRow], at: int, head: str) -> list[TableRow]:
    """The rows with the words of their tests, in column ``at``, where these differ and their parameters do not."""
    seen: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.texts[at] not in row.parameters.values():
            seen[repr(sorted(row.parameters.items(), key=str))].add(row.texts[at])
    if all(len(words) < 2 for words in seen.values()):
        return rows
    name = head.lower()[:40]
    return [
        replace(row, parameters={name: row.texts[at][:LONGEST_LABEL], **row.parameters})
        if row.texts[at].strip()
        else row
        for row in rows
    ]


_SEQUENTIAL = re.compile(r"(?i)\bseq")
_RANDOM = re.compile(r"(?i)r(?:a?nd)(?:om)?")


_ORDERED = re.compile(r"(?i)\bseq|\bfio\b")
"""Words of an order; fio's ``read`` and ``write`` are sequential."""
NO_ORDER = Note("pattern_not_stated", "the text does not state whether the order was random or sequential")


def note_order(parameters: Parameters, text: str) -> tuple[Note, ...]:
    """A note on a point that reads or writes in an order that no word of its text states."""
    return (NO_ORDER,) if parameters.get("rw") in {"read", "write", "rw"} and not _states_order(text) else ()


@lru_cache(maxsize=8)
def _states_order(text: str) -> bool:
    return _ORDERED.search(text) is not None


def without_implied_random(grid: Grid, rows: Sequence[TableRow]) -> list[TableRow]:
    """The rows with accesses of 4 KiB as sequential where their size alone made them random, beside others that say so.

    ``4k read`` means random reads in a review, and no longer beside ``4k random read``.
    """
    says = [any(_RANDOM.search(cell) for cell in cells) for cells in grid.rows]
    if not any(says) or all(says):
        return list(rows)
    found = []
    for row in rows:
        pattern = str(row.parameters.get("rw") or "")
        if not says[row.at - 1] and pattern.startswith("rand") and row.parameters.get("bs") == BLOCK_OF_REVIEWS:
            row = replace(row, parameters={**row.parameters, "rw": pattern.removeprefix("rand")})
        found.append(row)
    return found


def with_implied_random(grid: Grid, row: TableRow, parameters: Parameters) -> Parameters:
    """The parameters of a row with accesses of 4 KiB as random ones beside rows that are called sequential."""
    pattern, words = parameters.get("rw"), [" ".join(cells) for cells in grid.rows]
    if parameters.get("bs") != BLOCK_OF_REVIEWS or pattern not in {"read", "write"}:
        return parameters
    if any(map(_RANDOM.search, words)) or _SEQUENTIAL.search(words[row.at - 1]):
        return parameters
    return {**parameters, "rw": f"rand{pattern}"} if any(map(_SEQUENTIAL.search, words)) else parameters
