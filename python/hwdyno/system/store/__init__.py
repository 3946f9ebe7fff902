"""Stores Runs: an immutable JSON document each, with a journal while it is measured and an index for listing.

A Run's points are appended to a journal as they end, so that a killed process loses nothing that was
measured; at the end the whole document is written next to it, atomically. The SQLite index only serves
``history``, and can be rebuilt from the documents at any time. A team's Runs can be in PostgreSQL besides (``team``).
"""

from __future__ import annotations

from hwdyno.system.store.atomic_files import StoreError
from hwdyno.system.store.directory import Store, default_directory
from hwdyno.system.store.document import from_json, json_schema, new_id, to_json
from hwdyno.system.store.history import (
    HistoryEntry,
    PointFigure,
    Status,
    list_figures,
    make_entry,
    name_machine,
    run_status,
)
from hwdyno.system.store.journal import JournalReader, Writer
from hwdyno.system.store.pruning import choose_old, remove_runs
from hwdyno.system.store.team import TeamStore, open_store

__all__ = [
    "HistoryEntry",
    "JournalReader",
    "PointFigure",
    "Status",
    "Store",
    "StoreError",
    "TeamStore",
    "Writer",
    "choose_old",
    "default_directory",
    "from_json",
    "json_schema",
    "list_figures",
    "make_entry",
    "name_machine",
    "new_id",
    "open_store",
    "remove_runs",
    "run_status",
    "to_json",
]
