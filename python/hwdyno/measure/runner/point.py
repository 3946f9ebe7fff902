"""One point while it is measured: its readings and its peers', its precision so far, and its Measurement."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hwdyno.analysis import estimates
from hwdyno.analysis.samples import FEW_REPEATS, plain_noise
from hwdyno.measure.measurement import (
    Reading,
    Snapshot,
    choose_unit,
    compute_throughput,
    make_measurement,
    mean_throughput,
    read_course,
)
from hwdyno.measure.peers import Peer, PeerReading
from hwdyno.measure.plan import Profile, Timing
from hwdyno.model.point_details import Note
from hwdyno.model.units import format_percent
from hwdyno.model.words import Declaration, Measurement, Parameters, PeerResult

WARM_UP = -1
"""Number of the warm-up in place of a reading's."""


def make_seed(seed: int, experiment: str, point: int, repeat: int) -> int:
    """The seed of one reading, the same for a Run's ``seed``, and no other reading's of the Run.

    Readings of one order find in a cache what the reading before them fetched: the blocks of a device, or the prompts
    of a server. A lucky order is no property of the storage, either.
    """
    return random.Random(f"{seed} {experiment} {point} {repeat}").getrandbits(48)


@dataclass
class PointInWork:
    """A point of the plan with its readings so far."""

    index: int
    """The point's place in the plan."""
    parameters: Parameters
    declaration: Declaration | None = None
    """Its kernel's."""
    readings: list[Reading] = field(default_factory=list)
    snapshots: list[tuple[Snapshot, Snapshot]] = field(default_factory=list)
    pairs: dict[str, list[tuple[Reading, Any]]] = field(default_factory=dict)
    """Our readings and each peer's, taken in turn."""
    notes: tuple[Note, ...] = ()
    """Notes on why it was measured."""
    spent_s: float = 0.0
    showing: int = 0
    """The repeats after which a rare level has been seen (``plan.repeats_that_show``); 0 where they take too long."""
    quoted: bool = False
    """Whether a headline quotes it."""
    done: bool = False
    measurement: Measurement | None = None
    peers: list[PeerResult] = field(default_factory=list)

    @property
    def pairs_taken(self) -> int:
        """How many readings its peers have."""
        return sum(map(len, self.pairs.values()))

    def half_width(self) -> float | None:
        """Half of the interval as a share of the throughput; none from fewer than two readings."""
        counted, unit = choose_unit(self.declaration, self.readings)
        return (
            estimates.half_width(mean_throughput(self.readings, counted, unit)[0]) if len(self.readings) > 1 else None
        )

    def plain_noise(self) -> bool:
        """Whether the samples of its readings show nothing but noise around one level."""
        counted, _ = choose_unit(self.declaration, self.readings)
        return plain_noise([read_course(reading, counted)[0] for reading in self.readings])

    def least(self, timing: Timing) -> int:
        """How many repeats it has at least where there is time; one is one."""
        least = timing.least(self.quoted)
        return max(least, self.showing) if least > 1 else least

    def ends(self, timing: Timing, target: float, *, hurried: bool = False) -> str:
        """What ends it: ``sure`` (within ``target``) or ``repeats``; empty if it goes on.

        The time that is left does not matter, unless it is ``hurried``: then the profile's repeats are enough.
        """
        repeats = len(self.readings)
        if repeats < (timing.least(self.quoted) if hurried else self.least(timing)):
            return ""
        half = self.half_width()
        if half is not None and half <= target and (repeats >= FEW_REPEATS or self.plain_noise()):
            return "sure"
        return "repeats" if repeats >= max(timing.most(self.quoted), self.least(timing)) else ""

    def to_measurement(self, profile: Profile, ended_by: str, notes: Sequence[Note] = ()) -> Measurement:
        """Its Measurement; ``ended_by`` is ``sure``, ``repeats``, ``time``, or empty where it was cut short."""
        made = make_measurement(self.parameters, self.readings, self.declaration, self.snapshots, (*notes, *self.notes))
        if ended_by not in {"repeats", "time"}:
            return made
        half = self.half_width()
        target, found = (format_percent(share, precise=True) for share in (profile.target, half or 0.0))
        reached = "one reading gives no interval" if half is None else f"it is within {found}"
        spent = f"all {len(self.readings)} repeats were" if ended_by == "repeats" else "its time was"
        says = f"the interval should be within {target}; {reached} after {spent} used"
        return replace(made, notes=(*made.notes, Note("interval_not_reached", says)))

    def peer_result(self, peer: Peer, version: str, command: str) -> PeerResult | None:
        """A peer's result on this point, with the ratio of hwdyno's result to the peer's from the pairs."""
        counted, unit = choose_unit(self.declaration, self.readings)
        pairs = self.pairs.get(peer.name, [])
        rates = [(compute_throughput(ours, counted), float(theirs.throughput)) for ours, theirs in pairs]
        rates = [pair for pair in rates if min(pair) > 0]
        if not rates:
            return None
        costs = [
            (cpu_s_per_operation(ours), theirs.cpu_s / theirs.operations)
            for ours, theirs in pairs
            if theirs.cpu_s and theirs.operations and cpu_s_per_operation(ours) > 0
        ]
        latencies = [theirs.latency_ns_mean for _, theirs in pairs if theirs.latency_ns_mean]
        return PeerResult(
            tool=peer.name,
            version=version,
            point=self.index,
            value=estimates.interval([theirs for _, theirs in rates], unit),
            ratio=_ratio(rates),
            pairs=len(rates),
            latency_ns_mean=estimates.mean(latencies) if latencies else None,
            cpu_s_per_operation=estimates.mean([theirs for _, theirs in costs]) if costs else None,
            cpu_ratio=_ratio(costs) if costs else None,
            command=command,
            details=_details([theirs for _, theirs in pairs]),
        )


def _details(readings: Sequence[PeerReading]) -> dict[str, Any]:
    """The last reading's details; a least sample (``…_min``) and a greatest (``…_max``) are those of all readings."""
    found = dict(readings[-1].details)
    for ends, choose in (("_min", min), ("_max", max)):
        for name in (name for name in found if name.endswith(ends)):
            found[name] = choose(reading.details[name] for reading in readings if name in reading.details)
    return found


def _ratio(pairs: Sequence[tuple[float, float]]) -> Any:
    return estimates.ratio_interval([ours for ours, _ in pairs], [theirs for _, theirs in pairs])


def cpu_s_per_operation(reading: Reading) -> float:
    """CPU time of our threads an operation, s; 0 where it is not known."""
    cpu = reading.get("cpu", {})
    operations = sum(int(stream["operations"]) for stream in reading.get("streams", ()))
    return (float(cpu.get("user_s", 0.0)) + float(cpu.get("system_s", 0.0))) / operations if operations else 0.0
