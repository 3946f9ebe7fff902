"""What a rule applies to: the dispatcher checks it once and calls the rule for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from hwdyno.analysis.resources import Resource
from hwdyno.explain.findings.rule import Case, Scope, Verdict
from hwdyno.model.axes import BACKGROUND
from hwdyno.model.machine import Machine
from hwdyno.model.words import Measurement, Role, Run

ROUND = "round"
"""The load axis of rounds before steady state, none of which is a result by itself."""
_FIELDS = {"latency": "latency_ns"}


def _any(resource: Resource) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Applies:
    """What a rule applies to. An empty field sets no limit."""

    resources: tuple[str, ...] = ()
    where: Callable[[Resource], bool] = _any
    """A condition on the resource's description."""
    kernels: tuple[str, ...] = ()
    not_kernels: tuple[str, ...] = ()
    not_named: str = ""
    """The prefix of the names of experiments that are excluded."""
    roles: tuple[Role, ...] = ()
    """The roles of a curve's load axis."""
    loads: tuple[str, ...] = ()
    """A curve's load axes by name."""
    states: tuple[str, ...] = ()
    """The states of a curve by its model."""
    rounds: bool = False
    """Whether it applies to rounds before steady state, and to nothing else."""
    under_load: bool = False
    """Whether it applies to points beside another load, and to nothing else."""
    imported: bool | None = None
    """Whether the Run was imported from another tool's document."""
    needs: tuple[str, ...] = ()
    """What a point must have, or one of an experiment's points: ``latency``, ``samples``, ``faults``, ``hosts``,
    ``peers``, ``run_to_run``, ``counters.NAME``, ``conditions.NAME``, ``details.NAME``, ``notes.CODE``,
    ``parameters.NAME``."""
    machine: tuple[str, ...] = ()
    """The parts of the Machine that must be known, such as ``storage.disks``."""

    def to(self, case: Case) -> bool:
        """Whether the rule applies to this point, curve or experiment."""
        return self.to_experiment(case) and self.to_part(case)

    def to_experiment(self, case: Case) -> bool:
        """Whether the rule applies to the experiment of this case, as far as its points and curves do not decide."""
        result = case.result
        if (self.kernels and result.kernel not in self.kernels) or result.kernel in self.not_kernels:
            return False
        if (self.resources and result.resource not in self.resources) or not self.where(case.resource):
            return False
        if (result.load == ROUND) != self.rounds or (self.not_named and result.name.startswith(self.not_named)):
            return False
        if (result.load == BACKGROUND.name) != self.under_load:
            return False
        if self.imported not in {None, case.is_imported} or (self.roles and result.load_axis.role not in self.roles):
            return False
        return not self.loads or result.load in self.loads

    def to_part(self, case: Case) -> bool:
        """Whether a rule that applies to the experiment applies to this point, curve or experiment."""
        result, curve = case.result, case.curve
        if curve is not None and self.states and curve.state not in self.states:
            return False
        if not self.needs and not self.machine:
            return True
        points = (case.point,) if case.at >= 0 else result.points
        known = all(any(_has(case, point, need) for point in points) for need in self.needs)
        return known and all(_is_known(case.run.machine, path) for path in self.machine)

    def to_run(self, run: Run) -> bool:
        """Whether the rule applies to the machine alone, or to any experiment of this Run."""
        if self == Applies(machine=self.machine):
            return all(_is_known(run.machine, path) for path in self.machine)
        return any(self.to(Case(run, result)) for result in run.experiments)


def _is_known(machine: Machine, path: str) -> bool:
    return attrgetter(path)(machine) not in (None, ())


def _has(case: Case, point: Measurement, need: str) -> bool:
    kind, _, name = need.partition(".")
    if kind == "peers":
        return any(name in {"", peer.tool} for peer in case.result.peers)
    if kind == "run_to_run":
        return case.result.run_to_run is not None
    if kind == "notes":
        return any(note.code == name for note in point.notes)
    if kind == "parameters":
        return point.parameters.get(name) is not None or case.result.fixed.get(name) is not None
    known: Any = getattr(point, _FIELDS.get(kind, kind))
    return known.get(name) is not None if name else bool(known)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, its scope, its function, and what it applies to."""

    name: str
    scope: Scope
    check: Callable[[Case], Verdict | Sequence[Verdict] | None]
    applies: Applies = Applies()
    degrades: bool = False
    """Whether a warning degrades its points."""
    doubts: bool = False
    """Whether its finding leaves its points unverified, unless another rule lowers them further."""
    instead_of: tuple[str, ...] = ()
    """More general rules of the same scope, which are not called where this one applies."""
    about: str = ""
    """The resource that a finding on the whole Run belongs to."""
    explains: bool = False
    """Whether it explains other findings, and so comes before them."""
    unless: tuple[str, ...] = ()
    """More specific rules: where one of them has a finding, this one is left out."""
