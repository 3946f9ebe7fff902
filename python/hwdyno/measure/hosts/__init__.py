"""Where points run: a host is one machine, and a site is the set of hosts that is measured as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hwdyno.measure.topology import Topology
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration


class Host(Protocol):
    """A machine that can be described and measured; ``local`` is this one."""

    def survey(self, path: Path | None = None) -> Machine:
        """Describe the machine, with the storage behind ``path``."""
        ...

    def topology(self) -> Topology:
        """The processors and NUMA nodes that a sweep may use."""
        ...

    def kernels(self) -> dict[str, Declaration]:
        """Every kernel's declaration by its name."""
        ...

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run a kernel once and give its Reading.

        Raises ``ValueError`` for a wrong name or value and ``OSError`` for what the machine refused.
        The first interrupt gives a Reading with ``interrupted`` set; a second raises ``KeyboardInterrupt``.
        """
        ...

    def snapshot(self) -> dict[str, float]:
        """Current system counters and gauges; those that the machine lacks are left out.

        Counters: ``cpu_total_s``, ``cpu_idle_s``, ``cpu_user_s``, ``cpu_steal_s``, ``cpu_interrupt_s``,
        ``interrupts``, ``soft_interrupts``, ``context_switches``, ``swap_in_bytes``, ``swap_out_bytes``.
        Gauges: ``load_1m``, ``memory_available_bytes``, ``clock_hz``, ``temperature_c``, ``other_runs``
        (of hwdyno, that measure on the machine).
        """
        ...


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One kernel with its parameters."""

    kernel: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """A Reading that was taken while another kernel loaded the machine, and that load's Reading."""

    reading: dict[str, Any]
    load: dict[str, Any]
    """The load's Reading of the whole time that it ran; it was stopped, so ``interrupted`` is set."""
    covered: bool
    """Whether the load ran before the first and after the last moment of ``reading``, by the monotonic clock."""
    before: dict[str, float]
    after: dict[str, float]
    """The snapshots around ``reading``, both under the load."""


@runtime_checkable
class Loadable(Protocol):
    """A host that can run one kernel while another one loads it."""

    def run_under_load(self, load: KernelCall, work: KernelCall, settle_s: float) -> UnderLoad:
        """Start ``load``, run ``work`` ``settle_s`` later, and stop ``load`` after it.

        Raises as ``run`` does for ``work``, and ``LoadError`` for what stopped the load.
        """
        ...


class LoadError(OSError):
    """Why the load beside a reading could not run."""


class HostLostError(OSError):
    """A host that died, or that no longer answers; its text says which and why."""


@dataclass(frozen=True, slots=True)
class Program:
    """One run of a reference tool: the same on each host, apart from the paths."""

    tool: str
    """What hwdyno calls it."""
    names: tuple[str, ...]
    """Its common file names on the path, the best first."""
    arguments: tuple[str, ...] = ()
    timeout_s: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    """Regular files that it works on, each with the length in bytes that it must have."""

    @property
    def variable(self) -> str:
        """The environment variable of a host that names the file there."""
        return f"HWDYNO_{self.tool.upper()}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended on one host, and what it printed."""

    status: int
    stdout: str
    stderr: str
    cpu_s: float
    """CPU time of the program and its children, user and system."""


@runtime_checkable
class Programs(Protocol):
    """A host that can run reference tools."""

    def find(self, program: Program) -> str | None:
        """Where the host has the tool; none if it is not installed."""
        ...

    def execute(self, program: Program) -> Outcome:
        """Run a tool once.

        Raises ``UserError`` for a file that is missing or too short, and ``OSError`` in one line for a tool that is
        not there (``FileNotFoundError``), cannot be started, prints too much or does not end (``TimeoutError``).
        """
        ...


@dataclass(frozen=True, slots=True)
class ScratchFile:
    """A data file of a run on one host, in a directory that is removed at the end."""

    data: str
    """Path of the data file, as that host knows it."""
    directory: str
    size_bytes: int
    free_bytes: int
    """Size and room of its filesystem."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A host's threads are set up, and wait for the common start."""


@dataclass(frozen=True, slots=True)
class Done:
    """A host's Reading, with the start of its timed region by its own clock."""

    reading: Mapping[str, Any]
    started_ns: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A program has ended on a host."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Refused:
    """What a host raised instead of a Reading or an Outcome."""

    error: ValueError | OSError


MemberEvent = Ready | Done | Ended | Refused


class Member(Host, Programs, Protocol):
    """A host of a site of several: it sets a kernel or a program up, waits, and starts at a time by the host's clock.

    Every method raises ``HostLostError`` where the host is gone.
    """

    @property
    def boot(self) -> str:
        """What names the start of the kernel that it runs under; empty where that is not known."""
        ...

    @property
    def processors(self) -> frozenset[int]:
        """The numbers of those that it measures with, as far as they are known here."""
        ...

    @property
    def server(self) -> tuple[str, int] | None:
        """Address and port where it serves network measurements of the others; none where it does not."""
        ...

    @property
    def descriptor(self) -> int | None:
        """What can be read once it has an event; none where only ``poll`` shows that."""
        ...

    def clock_ns(self) -> int:
        """The host's monotonic clock now."""
        ...

    def prepare(self, kernel: str, parameters: dict[str, Any]) -> None:
        """Begin to set a kernel up; ``poll`` gives ``Ready`` then."""
        ...

    def prepare_program(self, program: Program) -> None:
        """Begin to set a program up; ``poll`` gives ``Ready`` then, and ``Ended`` when it has run."""
        ...

    def start(self, at_ns: int) -> None:
        """Start the threads that are ready at this time of the host's clock."""
        ...

    def poll(self, timeout_s: float) -> MemberEvent | None:
        """The next event of the running kernel; none at the timeout."""
        ...

    def silent_s(self) -> float:
        """How long a pulse has been unanswered; 0 where none is pending."""
        ...

    def pulse(self) -> None:
        """Request a sign of life."""
        ...

    def stop(self) -> None:
        """End the running kernel early; it still gives its Reading."""
        ...

    def claim(self, path: Path) -> ScratchFile:
        """Make a scratch directory below ``path``; raises ``OSError`` where that is refused."""
        ...

    def size_of(self, path: str) -> int:
        """The length of a file, bytes."""
        ...

    def release(self, scratch: ScratchFile) -> None:
        """Remove a scratch directory."""
        ...

    def close(self) -> None:
        """Release the host and end what runs there."""
        ...

    def abandon(self) -> None:
        """Release a lost host without waiting for it."""
        ...
