"""Loads the Run that a command shows: a stored one, or another tool's result from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwdyno.words import Run


def loaded(name: str, where: str | None) -> Run:
    """Load a Run by name from the store, or another tool's result from a file, with findings."""
    from hwdyno import formats
    from hwdyno.store import Store, StoreError

    try:
        return Store(where).load(name)
    except StoreError:
        path = Path(name)
        if path.is_file() and any(form.recognizes(_head(path)) for form in formats.known().values()):
            from hwdyno import findings

            return findings.explain(formats.read(path))
        raise


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(65536).decode(errors="replace")
    except OSError:
        return ""
