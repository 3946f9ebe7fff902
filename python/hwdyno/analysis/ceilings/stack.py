"""Carries the ceilings of disks up through partitions, encryption and RAID to the path that is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwdyno.analysis.ceilings import links, rated
from hwdyno.model.machine import Disk, Layer, Link, Machine, Storage
from hwdyno.model.units import format_value
from hwdyno.model.words import Ceiling

_ALIKE = 1e-9
"""Members whose values differ by less than this share count as the same drive on the same kind of link."""


class Stack:
    """The layers below a path: its ceilings, and the reasons where there are none."""

    def __init__(self, storage: Storage, unknown: Mapping[str, str]) -> None:
        """``storage`` and ``unknown`` are those of a Machine."""
        self._disks = {str(disk.name): (index, disk) for index, disk in enumerate(storage.disks)}
        self._layers = {str(layer.name): layer for layer in storage.chain}
        self._unknown = unknown
        self.reasons: list[str] = []
        below = {name for layer in self._layers.values() for name in layer.on}
        tops = [name for name in (*self._layers, *self._disks) if name not in below]
        if not self._disks:
            self.reasons.append(unknown.get("storage.disks", "the disk below the path is not known"))
        # an imported Machine may list disks without saying how they are stacked
        self.ceilings = self._find_ceilings(tops[0], frozenset()) if len(tops) == 1 and self._disks else ()
        if self._disks and len(tops) != 1:
            self.reasons.append("how the path lies on its disks is not known")

    def _find_ceilings(self, name: str, above: frozenset[str]) -> tuple[Ceiling, ...]:
        if name in self._layers and name not in above:
            layer = self._layers[name]
            members = [self._find_ceilings(below, above | {name}) for below in layer.on]
            return self._over(layer, members)
        if name in self._disks:
            return self._of_disk(*self._disks[name])
        return ()

    def _of_disk(self, index: int, disk: Disk) -> tuple[Ceiling, ...]:
        rate = links.of_link(disk.link or Link())
        drive = rated.of_disk(disk)
        at = f"storage.disks.{index}"
        if rate is None:
            why = self._unknown.get(f"{at}.link.bits_s", "what its link carries is not known")
            self.reasons.append(f"no ceiling from the link of {disk.name}: {why}")
        if drive is None:
            unnamed = self._unknown.get(f"{at}.model", "no model is known")
            why = f"'{disk.model}' is not in the catalogue" if disk.model else unnamed
            self.reasons.append(f"no maker's figures for {disk.name}: {why}")
        return (*(rate.ceilings() if rate else ()), *(drive.ceilings() if drive else ()))

    def _over(self, layer: Layer, members: Sequence[tuple[Ceiling, ...]]) -> tuple[Ceiling, ...]:
        if len(members) == 1:
            return members[0]
        level = layer.level
        if members and level is None:
            self.reasons.append(
                f"no ceiling of {layer.name} ({layer.kind}): how it spreads over its "
                f"{len(members)} devices is not known"
            )
        if not members or level is None:
            return ()
        combined = []
        for first in members[0]:
            alike = [_same(first, ceilings) for ceilings in members]
            if all(alike):
                whole = combine(level, [ceiling for ceiling in alike if ceiling])
                combined += [whole] if whole else []
        return tuple(combined)


def _same(wanted: Ceiling, ceilings: Sequence[Ceiling]) -> Ceiling | None:
    return next((c for c in ceilings if (c.metric, c.kind) == (wanted.metric, wanted.kind)), None)


def share(level: str, metric: str, members: int) -> tuple[float, str] | None:
    """The share of the members' sum that a RAID level carries, and in words; none for an unknown level.

    Every copy and every parity is a write that a member has to make as well. Source: Patterson, Gibson and
    Katz, "A case for redundant arrays of inexpensive disks", 1988; for raid10, md(4): two copies.
    """
    if level not in {"raid0", "linear", "raid1", "raid10", "raid4", "raid5", "raid6"}:
        return None
    if not metric.startswith(("write", "randwrite")) or level in {"raid0", "linear"}:
        return 1.0, "the sum of all members"
    if level == "raid1":
        return 1.0 / members, "each write goes to every member"
    if level == "raid10":
        return 0.5, "each write goes to two members"
    parities = 2 if level == "raid6" else 1
    if metric.startswith("randwrite"):
        return 1.0 / (1 + parities), f"each small write makes {parities} of parity"
    return (members - parities) / members, f"{members - parities} of {members} hold data"


def combine(level: str, ceilings: Sequence[Ceiling]) -> Ceiling | None:
    """One ceiling over the members of a RAID; none for an unknown level."""
    first, members = ceilings[0], len(ceilings)
    through = share(level, first.metric, members)
    if through is None:
        return None
    part, why = through
    values = [ceiling.value for ceiling in ceilings]
    # a mirror writes as fast as its slowest member
    value = min(values) if level == "raid1" and part < 1 else sum(values) * part
    same = max(values) - min(values) <= _ALIKE * max(values)
    of = f"{members} × ({first.formula})" if same else " + ".join(f"({c.formula})" for c in ceilings)
    times = "" if part == 1 else f" × {part:.3g}"
    return Ceiling(
        first.metric,
        first.kind,
        value,
        first.unit,
        f"{level}, {why}: {of}{times} = {format_value(value, first.unit)}",
        first.source if same else "; ".join(dict.fromkeys(c.source for c in ceilings)),
        f"{level} of {members} × {first.label}" if same else f"{level} of {members}",
    )


def of_machine(machine: Machine) -> tuple[Ceiling, ...]:
    """The ceilings of a Machine's storage."""
    return Stack(machine.storage, machine.unknown).ceilings


def why_none(machine: Machine) -> tuple[str, ...]:
    """A sentence for each expected ceiling that is unknown."""
    return tuple(dict.fromkeys(Stack(machine.storage, machine.unknown).reasons))
