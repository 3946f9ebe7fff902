"""Where a point runs: what every host offers the runner, whether this machine, a cluster or a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from hwdyno.machine import Machine
from hwdyno.topology import Topology
from hwdyno.words import Declaration


class Host(Protocol):
    """A machine that can be described and measured.

    ``local`` is this one, ``simulated`` one with a known truth, and ``simulated_network`` one with a path besides.
    """

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
        """System counters and gauges at this moment; what the machine does not tell is left out.

        Counters: ``cpu_total_s``, ``cpu_idle_s``, ``cpu_user_s``, ``cpu_steal_s``,
        ``swap_in_bytes``, ``swap_out_bytes``.
        Gauges: ``load_1m``, ``memory_available_bytes``, ``clock_hz``, ``temperature_c``.
        """
        ...
