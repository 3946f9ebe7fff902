"""Compares two Runs point by point, and finds the changes that exceed noise."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hwdyno import statistics
from hwdyno.machine import Machine
from hwdyno.words import Measurement, Parameters, Run, Value

# Parameters that may differ between two points that are compared.
_IGNORED = {"path", "seed", "interval_s"}


@dataclass(frozen=True, slots=True)
class Change:
    """A point that is in both Runs, and the ratio after / before with its interval."""

    experiment: str
    parameters: Parameters
    before: Value
    after: Value
    ratio: Value

    @property
    def verdict(self) -> str:
        """``slower`` or ``faster`` if the whole interval is below or above 1, else ``same``."""
        if self.ratio.high is not None and self.ratio.high < 1:
            return "slower"
        return "faster" if self.ratio.low is not None and self.ratio.low > 1 else "same"


def unlike(before: Run, after: Run) -> list[str]:
    """The differences between two Runs' machines, a sentence each."""
    differences = []
    for says, fact in _IDENTITY:
        one, other = fact(before.machine), fact(after.machine)
        if one is not None and other is not None and one != other:
            differences.append(f"{says}: {one} before, {other} after")
    return differences


_IDENTITY: tuple[tuple[str, Callable[[Machine], Any]], ...] = (
    ("processor", lambda machine: machine.cpu.model),
    ("threads", lambda machine: machine.cpu.threads),
    ("memory", lambda machine: machine.memory.total_bytes),
    ("disk", lambda machine: machine.storage.disk.model),
    ("disk's kind", lambda machine: machine.storage.disk.kind),
    ("filesystem", lambda machine: machine.storage.filesystem),
    ("link", lambda machine: machine.storage.disk.link and machine.storage.disk.link.bits_s),
)


def changes_of(before: Run, after: Run) -> list[Change]:
    """The points that are in both Runs, matched by kernel and parameters, without invalid ones."""
    known = {key: point for key, _, point in _points(before)}
    changes = []
    for key, (name, parameters), point in _points(after):
        old = known.get(key)
        if old is None or old.throughput.unit != point.throughput.unit:
            continue
        ratio = _ratio(old, point)
        if ratio is not None:
            changes.append(Change(name, parameters, old.throughput, point.throughput, ratio))
    return changes


def _points(run: Run) -> list[tuple[str, tuple[str, Parameters], Measurement]]:
    found = []
    for experiment in run.experiments:
        for point in experiment.points:
            if point.validity == "invalid":
                continue
            whole = {**experiment.fixed, **point.parameters}
            like = {name: value for name, value in whole.items() if name not in _IGNORED}
            key = json.dumps([experiment.kernel, like], sort_keys=True)
            found.append((key, (experiment.name, point.parameters), point))
    return found


def _ratio(before: Measurement, after: Measurement) -> Value | None:
    """The ratio with a bootstrap interval over the repeats; without an interval for single values."""
    old = [value for value in before.repeat_values or (before.throughput.value,) if value > 0]
    new = [value for value in after.repeat_values or (after.throughput.value,) if value > 0]
    if not old or not new:
        return None
    if min(len(old), len(new)) < 2:
        return Value(statistics.median(new) / statistics.median(old), "ratio")
    return statistics.change_interval(old, new)


def overall(changes: list[Change]) -> float | None:
    """The geometric mean of the ratios (Fleming & Wallace 1986); none without changes."""
    ratios = [change.ratio.value for change in changes]
    return statistics.geometric_mean(ratios) if ratios else None
