"""Removes stored Runs by age or number: the documents of hwdyno that it has read, and nothing beside them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

from hwdyno.model.units import parse_duration
from hwdyno.model.words import UserError
from hwdyno.system.safe_files import made_with
from hwdyno.system.store.atomic_files import StoreError
from hwdyno.system.store.directory import Store
from hwdyno.system.store.history import HistoryEntry
from hwdyno.system.store.journal import is_being_written, left_journal

KEPT = {"running", "unreadable"}
"""What is never chosen: a Run that is measured now, and a file that may be anybody's."""


def choose_old(entries: Sequence[HistoryEntry], limit: str, now: datetime | None = None) -> list[HistoryEntry]:
    """The Runs beyond a limit, oldest first: older than ``90d``, or all but the newest ``100``.

    A Run without a date, such as some imported ones, has no age. Raises ``UserError`` for another limit.
    """
    dated = sorted(((_began(entry), entry) for entry in entries if entry.verdict not in KEPT), key=_order)
    if limit.isdecimal():
        return [entry for _, entry in dated[: max(0, len(dated) - int(limit))]]
    try:
        age_s = parse_duration(limit)
    except UserError:
        raise UserError(f"--prune {limit}: name an age such as 90d, or how many runs to keep such as 100") from None
    before = (now or datetime.now(timezone.utc)) - timedelta(seconds=age_s)
    return [entry for began, entry in dated if began is not None and began < before]


def _order(pair: tuple[datetime | None, HistoryEntry]) -> tuple[float, str]:
    began, entry = pair
    return (began.timestamp() if began is not None else 0.0), entry.id


def _began(entry: HistoryEntry) -> datetime | None:
    try:
        return datetime.fromisoformat(entry.started).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def remove_runs(store: Store, entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Remove the Runs from the store and its index, and list those that are gone.

    A file that is another one by now, or that no longer has the Run of its name, stays.
    """
    gone = [entry for entry in entries if _remove(store, Path(entry.path))]
    store.history()  # It drops the rows of documents that are gone.
    return gone


def _remove(store: Store, path: Path) -> bool:
    if path.parent != store.runs or (path.suffix == ".journal" and is_being_written(path)):
        return False
    made = left_journal(path) if path.suffix == ".journal" else made_with(path, b"{")
    try:
        if made is None or store.load(path).id != path.stem:
            return False
    except StoreError:
        return False
    made.remove()
    return not path.exists()
