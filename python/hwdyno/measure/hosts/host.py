"""What a host is: a machine that can be described and measured, alone or under a load."""

from __future__ import annotations

from dataclasses import dataclass
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
