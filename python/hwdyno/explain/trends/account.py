"""What was different between the runs on both sides of a change: facts of the machine, versions, and its neighbours."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hwdyno.explain.comparison.differences import Difference, differences
from hwdyno.explain.trends.time_series import Event
from hwdyno.model.words import Run
from hwdyno.system.store import HistoryEntry, StoreError

SIDE = 3
"""Runs on each side that must agree: a setting that comes and goes explains no lasting change."""
CONDITIONS = {
    "others_cpu_share": ("other processes", 0.05),
    "steal_share": ("steal", 0.02),
    "temperature_c": ("temperature", 10.0),
}
"""Conditions before a run: the words for each, and the difference of medians from which on it is named."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A condition that was another one after a change than before it."""

    condition: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Account:
    """What differs on both sides of a change; it may be the cause, and need not."""

    differences: tuple[Difference, ...] = ()
    shifts: tuple[Shift, ...] = ()


def make_account(event: Event, runs: Sequence[HistoryEntry], load: Callable[[str], Run]) -> Account:
    """Compare the last runs before a change with the first ones after it; ``load`` reads a Run by its entry's path."""
    ids = [entry.id for entry in runs]
    at = ids.index(event.first.id)
    before = _load_runs(runs[max(0, at - SIDE) : at], load)
    after = _load_runs(runs[at : at + SIDE], load)
    if not before or not after:
        return Account()
    unsteady = {
        difference.path for side in (before, after) for run in side[1:] for difference in differences(side[0], run)
    }
    lasting = tuple(difference for difference in differences(before[-1], after[0]) if difference.path not in unsteady)
    return Account(lasting, tuple(shifts(before, after)))


def _load_runs(entries: Sequence[HistoryEntry], load: Callable[[str], Run]) -> list[Run]:
    found = []
    for entry in entries:
        with suppress(StoreError):  # It was removed meanwhile; the others still tell.
            found.append(load(entry.path))
    return found


def shifts(before: Sequence[Run], after: Sequence[Run]) -> list[Shift]:
    """The conditions whose medians on both sides are apart."""
    found = []
    for name, (_, least) in CONDITIONS.items():
        sides = [[getattr(run.machine.conditions, name) for run in side] for side in (before, after)]
        known = [[float(value) for value in side if value is not None] for side in sides]
        if all(known):
            old, new = (statistics.median(side) for side in known)
            if abs(new - old) >= least:
                found.append(Shift(name, old, new))
    return found
