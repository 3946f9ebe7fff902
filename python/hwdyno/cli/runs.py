"""Loads the Run that a command shows: a stored one, or another tool's result from a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwdyno.words import Run


def add_ceiling(parser: argparse._ActionsContainer) -> None:
    """The option ``--ceiling``, of all commands that judge results."""
    parser.add_argument(
        "--ceiling", action="append", default=[], metavar="TEXT", help='a limit that you know: "rated read 400 MB/s"'
    )


def add_store(parser: argparse._ActionsContainer) -> None:
    """The option ``--store``, of all commands that read or keep Runs."""
    parser.add_argument(
        "--store", metavar="WHERE", help="the Runs: a folder or postgresql://… (default $HWDYNO_STORE, $HWDYNO_HOME)"
    )


def add_names(parser: argparse._ActionsContainer) -> None:
    """The option ``--with-names``, of all commands that write what others will see."""
    parser.add_argument(
        "--with-names", action="store_true", help="also show host names, serial numbers and users' folders"
    )


def loaded(name: str, where: str | None, ceilings: Sequence[str] = ()) -> Run:
    """Load a Run by name from the store, or another tool's result from a file, with findings.

    A stored Run keeps the findings that it has, unless ``ceilings`` are given, which it is then judged by too. Raises
    ``UserError`` for a ceiling that cannot be parsed.
    """
    from hwdyno import formats
    from hwdyno.ceilings import parse_given
    from hwdyno.store import StoreError, open_store

    given = tuple(map(parse_given, ceilings))
    try:
        found = open_store(where).load(name)
        if not given:
            return found
    except StoreError:
        path = Path(name)
        if not path.is_file() or not any(form.recognizes(_head(path)) for form in formats.known().values()):
            raise
        found = formats.read(path)
    from hwdyno import findings

    limited = (replace(one, ceilings=tuple(dict.fromkeys((*one.ceilings, *given)))) for one in found.experiments)
    return findings.explain(replace(found, experiments=tuple(limited)))


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(65536).decode(errors="replace")
    except OSError:
        return ""
