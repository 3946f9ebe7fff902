"""The description of a resource for plans, findings and reports: its words, headline, ceilings and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hwdyno.model.machine import Machine
from hwdyno.model.words import Ceiling, ExperimentResult, Parameters, Run, Scalar, Trait

Client = Literal["beside", "measured", "by_rule"]
OfMachine = Callable[[Machine], tuple[Ceiling, ...]]
Derived = Callable[[Run, ExperimentResult], Iterable[Ceiling]]


def _nothing(machine: Machine) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineFigure:
    """One figure of the headline. Its point is chosen by configuration alone: a doubtful one is shown with its mark."""

    title: str = ""
    """The field's name of the test, such as ``LINPACK, n = {n}``: ``{axis}`` is replaced by the point's value on that
    axis, ``{path}`` by the way to the other end, ``{test}`` and ``{way}`` by the parts of the point's label. If empty,
    the point's label, such as ``RND4K Q32T1 read``."""
    unit: str
    """Which of a point's figures it is: ``bytes/s``, ``operations/s`` …, or ``ns`` for its mean latency."""
    kernels: tuple[str, ...] = ()
    """The kernels that measure it; any if empty."""
    not_in: tuple[str, ...] = ()
    """Experiments, without a storage's name, whose points of this kind are something else."""
    pattern: tuple[Trait, ...] = ()
    """The access pattern of its points: ``reads``, ``writes``, ``random``."""
    where: Parameters = field(default_factory=dict)
    """Further parameters that its points must have."""
    experiments: tuple[str, ...] = ()
    """Experiments, without a storage's name, whose points come before those of others."""
    most: str = ""
    """The axis on which the greatest value comes first, such as a working set beyond all caches; of threads the
    greatest number that has a processor each."""
    prefer: Parameters = field(default_factory=dict)
    """Parameters of the point that is meant; where none has them, the point closest to it."""
    typical: str = ""
    """Its name in the catalogue of typical figures; empty if it has none there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Possible causes of a wrong measurement, and the test that would show them."""

    cause: str
    """A list of nouns, which follows ``Possible causes:``."""
    test: str
    """An instruction, which the test's command follows."""
    changes: Mapping[str, Scalar] = field(default_factory=dict)
    """The parameters that the test's command changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource. What a kernel declares in the Run is read there, not repeated here."""

    name: str
    title: str
    """The heading: ``Processor``."""
    subject: str = ""
    """The subject of a sentence about it; the title if empty."""
    rate_word: str = ""
    """The field's word for its operations per second, where the kernel does not declare an operation."""

    # Its command, where any axis of its kernels is swept
    common_options: tuple[str, ...] = ()
    """The options on the first screen of its help, without dashes."""
    examples: tuple[str, ...] = ()
    """Command lines that run as they are."""

    # The survey
    facts: type | None = None
    """The frozen dataclass for the survey's part of this name, where ``Machine`` has no field for it;
    ``Machine.part`` makes it."""

    # The headline
    figures: tuple[HeadlineFigure, ...] = ()
    """The headline figures, the most quoted first. If none was measured, the fastest valid points are the headline."""
    headline_rules: tuple[str, ...] = ()
    """Rules whose findings are the headline, where no single figure is."""
    never_quoted: tuple[str, ...] = ()
    """How the names of experiments begin whose points are no headline even where nothing else is."""

    # Ceilings
    ceilings: OfMachine = _nothing
    """The ceilings that follow from a Machine alone."""
    why_no_ceiling: Callable[[Machine], tuple[str, ...]] = _nothing
    """A sentence for each expected ceiling that is unknown."""
    derived: Mapping[str, Derived] = field(default_factory=dict)
    """The ceilings that follow from the Run's readings, by kernel."""

    # Limits
    limits: tuple[str, ...] = ()
    """Possible limits besides the ceilings and processors that are measured."""
    client: Client = "beside"
    """The processors of the measuring threads: they only issue the operations (``beside``), they are what is
    ``measured``, or the resource's rules judge them (``by_rule``)."""
    fills_processors: bool = False
    """Whether a measurement keeps every processor busy by design."""
    latency_kernels: tuple[str, ...] = ()
    """Kernels that time one thing at a time, and are judged by that time alone."""
    two_ended: bool = False
    """Whether its other end may be another process on this machine, whose work is part of the measurement."""
    bursty: bool = False
    """Whether its load comes in bursts, so that its course over time means nothing."""
    by_scenario: bool = False
    """Whether its command's options choose and size what is prepared, on one storage or on several."""
    page_cache: bool = False
    """Whether operations go through the page cache unless they are direct."""

    # Advice
    above_ceiling: Doubt = Doubt(
        cause="a wrong unit or a wrong ceiling", test="Measure again, longer", changes={"runtime": 5}
    )
    """Why a point can be above a physical ceiling."""
    steps_down: tuple[str, str] = (
        "heat, a power limit, or CPU time taken by others",
        "the clock (`hwdyno compute clock`)",
    )
    """Possible causes of a step down in throughput while a point runs, and what to watch."""
    on_faults: str = "Check dmesg"
    workers: str = ""
    """The axis that spreads a load over more threads or processes, where the queue depth is another axis."""
    larger: Mapping[str, Scalar] = field(default_factory=dict)
    """Parameters that make operations larger, for when every processor already issues them."""
    both_loops: str = ""
    """The command that measures the same work in an open and a closed loop, where one command does both."""

    # Contention
    knee: str = ""
    """The experiment, without the resource's name, whose sweep finds the load at which ``hwdyno together`` drives it;
    empty where it is not driven beside others."""

    is_memory_traffic: bool = False
    """Whether the bytes that it counts cross the memory's channels."""

    # Its part of the survey
    survey_parts: tuple[str, ...] = ()
    """The parts of a Machine that bear on it most; where two machines differ in its figures, they come first."""

    # Its part of a run
    by_default: bool = True
    """Whether ``hwdyno run`` measures it by default."""
    runtime_share: float = 1.0
    """The share of the profile's time that a reading needs to settle."""
