"""What one resource is to plans, findings and reports: its words, its headline, its ceilings, its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hwdyno.machine import Machine
from hwdyno.words import Ceiling, ExperimentResult, Parameters, Run, Scalar, Trait

Client = Literal["beside", "measured", "by_rule"]
OfMachine = Callable[[Machine], tuple[Ceiling, ...]]
Derived = Callable[[Run, ExperimentResult], Iterable[Ceiling]]


def _nothing(machine: Machine) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of the headline: the best valid point of its pattern and parameters."""

    does: str
    """The verb before the figure, such as ``reads``."""
    how: str = ""
    """What follows it, such as ``at random``; figures that share it stand in one clause."""
    unit: str
    """Which of a point's figures it is: ``bytes/s``, ``operations/s`` or, of its mean latency, ``ns``."""
    experiment: str = ""
    """The experiment that it is read from, without the name of a storage; any where empty."""
    pattern: tuple[Trait, ...] = ()
    """What its points do: ``reads``, ``writes``, ``random``."""
    where: Parameters = field(default_factory=dict)
    """Further parameters that its points have."""
    lowest: bool = False
    """Whether less is better, as of a latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a measurement can be wrong, and the test that would show it."""

    cause: str
    test: str
    changes: Mapping[str, Scalar] = field(default_factory=dict)
    """What the test's command changes of the point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource. What a kernel declares of itself in the Run is read there, and not repeated here."""

    name: str
    title: str
    """As a heading: ``Processor``."""
    subject: str = ""
    """How a sentence begins that speaks of it; its title where empty."""
    rate_word: str = ""
    """What the field calls its operations a second, where the kernel does not declare what one is."""

    # What the survey gives of it
    facts: type | None = None
    """The frozen dataclass of the survey's part that has this resource's name, where ``Machine`` has no field for it;
    ``Machine.part`` makes it."""

    # The headline
    figures: tuple[Figure, ...] = ()
    """What everyone compares. Where none of them was measured: the fastest valid point."""
    headline_rules: tuple[str, ...] = ()
    """Rules whose findings are the headline, where no figure alone is one."""

    # Ceilings
    ceilings: OfMachine = _nothing
    """The ceilings that follow from a Machine alone."""
    why_no_ceiling: Callable[[Machine], tuple[str, ...]] = _nothing
    """A sentence for each ceiling that one would expect and that cannot be stated."""
    derived: Mapping[str, Derived] = field(default_factory=dict)
    """By kernel: the ceilings that take this Run's own readings to state."""

    # What can limit it
    limits: tuple[str, ...] = ()
    """What can limit it beside the ceilings and the processors that are looked at."""
    client: Client = "beside"
    """The processors of the measuring threads: they only issue the operations (``beside``), they are what is
    ``measured``, or the resource's own rules judge them (``by_rule``)."""
    fills_processors: bool = False
    """Whether a measurement is meant to keep every processor busy."""
    two_ended: bool = False
    """Whether its other end may be another process on this machine, whose work is part of the measurement."""
    bursty: bool = False
    """Whether its load comes in bursts by itself, so that a course over time says nothing."""
    page_cache: bool = False
    """Whether operations go through the page cache unless they are direct."""

    # What to advise
    above_ceiling: Doubt = Doubt(
        cause="a unit is wrong, or the ceiling is", test="Measure it again, longer", changes={"runtime": 5}
    )
    """Why a point can lie above a physical ceiling."""
    steps_down: tuple[str, str] = (
        "heat, a power limit, or processor time that others took",
        "the clock (hwdyno compute clock)",
    )
    """What makes throughput step down while a point runs, and what to watch."""
    on_faults: str = "Look at dmesg"
    workers: str = ""
    """The axis that spreads a load over more threads or processes, where its depth is an axis of its own."""
    larger: Mapping[str, Scalar] = field(default_factory=dict)
    """What lets an operation move more, where every processor already issues them."""
    both_loops: str = ""
    """The command that measures an open loop and a closed one of the same work, where one does both."""

    # Its part of a run
    by_default: bool = True
    """Whether ``hwdyno run`` measures it where nothing is chosen."""
    runtime_share: float = 1.0
    """How much of the profile's time a reading needs to settle."""
