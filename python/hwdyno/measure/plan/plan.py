"""The plan of a run: experiments with their points, the bounds that the user knows, and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from hwdyno.measure.experiments import Experiment
from hwdyno.measure.plan.profiles import Profile
from hwdyno.model.axes import write_share
from hwdyno.model.words import Declaration, Parameters

PEER_OVERHEAD_S = 0.5


@dataclass(frozen=True)
class Planned:
    """One experiment with its points, typed and checked against the kernel's declaration."""

    experiment: Experiment
    points: tuple[Parameters, ...]
    fixed: Parameters
    load: str
    declaration: Declaration = field(default_factory=Declaration)
    """The declaration of its kernel."""
    pairs: float | None = None
    """The average number of its peers' readings per reading, over its points; none where no peer was looked for yet."""
    peer_overhead_s: float = PEER_OVERHEAD_S
    """Time of a peer's reading, beyond what our own takes."""
    excess_s: float = 0.0
    """How much longer than estimated a reading takes beside its timed region, as far as that is known."""
    quoted: tuple[Parameters, ...] = ()
    """Those of its points that headlines quote."""

    def count_pairs(self, plan: Plan) -> float:
        """The number of its peers' readings per reading; one where it has peers and none was looked for yet."""
        if not plan.peers:
            return 0.0
        return float(bool(self.experiment.peers)) if self.pairs is None else self.pairs

    def with_peers_s(self, plan: Plan, once_s: float) -> float:
        """How long a reading of ``once_s`` takes with its peers'."""
        return once_s + self.count_pairs(plan) * (once_s + self.peer_overhead_s)

    @property
    def needs_data_file(self) -> bool:
        """Whether it works on the data file that the run lays out."""
        return "data_file" in self.experiment.needs

    @property
    def writes(self) -> bool:
        """Whether any point writes into the data file."""
        return any(self.write_share(point) > 0 for point in self.points)

    def write_share(self, point: Parameters) -> float:
        """The share of a point's operations that write into the data file."""
        if self.declaration.writes not in {"file", "device"}:
            return 0.0
        return write_share(self.declaration.axes, {**self.fixed, **point})


@dataclass(frozen=True)
class Limits:
    """Bounds that the user knows, as typed."""

    ceilings: tuple[str, ...] = ()
    """Such as ``rated read 400 MB/s``."""
    links: tuple[str, ...] = ()
    """Such as ``PCIe 3 x4``."""
    devices: tuple[str, ...] = ()
    """Drives and GPUs of the catalogue."""


NO_LIMITS = Limits()


class Making(Protocol):
    """What experiments read, each part made just before its first reading."""

    def unmade_s(self, names: Collection[str]) -> float:
        """Seconds that making what these experiments still lack takes at least."""

    def make(self, planned: Planned, left_s: float | None, says: Callable[[str], None]) -> str:
        """Make what an experiment reads, unless it is there, in the ``left_s`` that a budget has for it.

        Returns why it is left out; nothing where it can be read. Raises ``UserError`` for what the machine refused, and
        ``KeyboardInterrupt`` with what becomes of what was begun.
        """


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs to know before it begins."""

    profile: Profile
    experiments: tuple[Planned, ...]
    path: Path
    peers: bool = False
    seed: int = 1
    limits: Limits = NO_LIMITS
    budget_s: float | None = None
    prepared_s: float = 0.0
    """The part of the budget spent on preparation, and on what comes before it."""
    ending_s: float = 0.0
    """The part of the budget kept for what follows the readings."""
    left_out: tuple[str, ...] = ()
    """Why experiments are missing, a sentence each."""
    making: Making | None = field(default=None, compare=False, repr=False)
    """What makes the data of each experiment; none where they are there."""
    command: str = "hwdyno"
    study: str = ""
    destroy: str = ""
    """The raw device whose data the user allowed to destroy; empty for none."""
    serial: str = ""
    """Its serial number, as it was typed."""
    given: frozenset[str] = frozenset()
    """Parameters that the user gave: they are never scaled."""

    @property
    def writes(self) -> bool:
        """Whether any point writes storage."""
        return any(planned.writes for planned in self.experiments)

    @property
    def points(self) -> int:
        """How many points it has."""
        return sum(len(planned.points) for planned in self.experiments)

    @property
    def needs_data_file(self) -> bool:
        """Whether a data file has to be laid out."""
        return any(planned.needs_data_file for planned in self.experiments)

    @property
    def data_bytes(self) -> int:
        """How long the data file has to be for every point; 0 if none is needed."""
        ends = [
            int(parameters.get("offset") or 0) + int(parameters.get("size") or 0)
            for planned in self.experiments
            if planned.needs_data_file
            for parameters in every(planned)
        ]
        return max(ends, default=0)

    @property
    def min_bytes(self) -> int:
        """The least data file that the points' blocks and jobs fit into."""
        return max((min_region(parameters) for planned in self.experiments for parameters in every(planned)), default=0)

    def with_size(self, size_bytes: int) -> Plan:
        """This plan on a data file of another size."""
        return replace(
            self,
            experiments=tuple(
                replace(planned, fixed={**planned.fixed, "size": size_bytes})
                if planned.needs_data_file and "size" in planned.fixed
                else planned
                for planned in self.experiments
            ),
        )


def every(planned: Planned) -> list[Parameters]:
    """All parameters of each point."""
    return [{**planned.fixed, **point} for point in planned.points]


def min_region(parameters: Parameters) -> int:
    """Bytes for one block of each job."""
    block, jobs = parameters.get("bs"), parameters.get("numjobs", 1)
    return block * jobs if isinstance(block, int) and isinstance(jobs, int) else 0
