"""The scorecard on top of every report: the machine, a verdict, the figures that the field quotes, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hwdyno.words import Run, Validity

Verdict = Literal["sound", "use with care", "not to be trusted"]

MOST_TODO = 3
MOST_ROWS = 10
"""Rows of a scorecard: with everything around them they fit 20 lines."""


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a ceiling a figure reaches."""

    of_ceiling: float
    """0 to 1; above 1 where a rated or reference ceiling is exceeded."""
    ceiling: str
    """Its name and value: ``PCIe 3.0 x4, 3,938 MB/s``."""
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class Typical:
    """A scale to judge a figure by, from the catalogue."""

    says: str
    """A value and what has it: ``3,500 MB/s for PCIe 3.0 x4 NVMe``."""
    source: str


@dataclass(frozen=True, slots=True)
class Headline:
    """One figure of a resource, as text."""

    resource: str
    """Its heading, with the storage's name where several were measured: ``Storage``, ``Storage fast``."""
    title: str
    """The field's name of the test: ``SEQ1M Q8T1 read``, ``FP64 peak``, ``idle latency, 256 MiB, 2 MiB pages``."""
    value: str
    """The figure with its unit: ``3,150 MB/s``, ``70.9 µs``."""
    interval: str
    """``±1.8%`` (95%); ``few repeats`` where the interval says nothing; empty where none is known."""
    share: Share | None
    p99: str | None
    """The 99th percentile with its unit; none where the figure is no latency."""
    typical: Typical | None
    state: Validity
    why: str
    """Why it is degraded, in a few words; empty for a valid figure."""
    experiment: int
    """Index of its experiment in the Run."""
    point: int
    """Index of its point there."""


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do: a sentence, and a command that works as printed."""

    says: str
    command: str


@dataclass(frozen=True, slots=True)
class Scorecard:
    """What a reader takes from a Run in ten seconds."""

    machine: str
    """The machine in one line."""
    verdict: Verdict
    reason: str
    """The verdict's one reason, a sentence."""
    rows: tuple[Headline, ...]
    """At most ``MOST_ROWS``, those of one resource together."""
    todo: tuple[Todo, ...]
    """At most ``MOST_TODO``, what is about the machine before what is about this run."""
    rest: str
    """How much more the Run has, a sentence: ``64 points, 14 findings and 3 curves in all``."""


def scorecard(run: Run) -> Scorecard:
    """The scorecard of a Run, whatever it lacks."""
    return Scorecard(machine_line(run), "sound", "", (), (), "")


def machine_line(run: Run) -> str:
    """The machine in one line."""
    return run.machine.hostname or "unnamed machine"
