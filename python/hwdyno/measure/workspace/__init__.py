"""Where a run puts its data: the place that is measured, and directories that are removed however the run ends."""

from __future__ import annotations

from hwdyno.measure.workspace.place import Place, check_place, fit, room, usable_bytes
from hwdyno.measure.workspace.scratch_directories import (
    DataFile,
    MadeFolder,
    ScratchDirectory,
    Workspace,
    clean_stale,
)

__all__ = [
    "DataFile",
    "MadeFolder",
    "Place",
    "ScratchDirectory",
    "Workspace",
    "check_place",
    "clean_stale",
    "fit",
    "room",
    "usable_bytes",
]
