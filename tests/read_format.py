"""Reads another tool's file as the commands do, for tests that look at the Run itself."""

from __future__ import annotations

from pathlib import Path

from hwdyno import formats
from hwdyno.model.words import Run
from hwdyno.system import foreign


def read_run(path: Path) -> Run:
    """The only Run in a file. Raises ``UserError``."""
    text = foreign.read_text(path, formats.LARGEST_BYTES, errors="replace")
    (run,), _ = formats.read_every(text, str(path))
    return run
