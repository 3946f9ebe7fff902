"""Hosts of a site that do not exist: their clocks differ, and one may start late, be slow, die, hang or never end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwdyno.measure.hosts import Done, Ended, HostLostError, MemberEvent, Outcome, Program, Ready, Refused, ScratchFile
from hwdyno.measure.hosts.several_hosts import SeveralHosts, Timeouts
from hwdyno.model.machine import Machine

from simulation.host import SimulatedHost, SimulatedMachine

SHORT_TIMEOUTS = Timeouts(silent_s=0.2, apart_s=0.2, stop_s=0.2, setup_s=0.4)


class SimulatedMember(SimulatedHost):
    """A simulated host that starts on request; every reading is counted, the warm-up too."""

    def __init__(self, name: str, machine: SimulatedMachine | None = None, clock_offset_ns: int = 0) -> None:
        super().__init__(machine)
        self.name, self.clock_offset_ns = name, clock_offset_ns
        self.skew_s = 0.0
        self.slow = 1.0
        self.dies_at = self.hangs_at = self.endless_at = self.refuses_at = 0
        """The reading at which that happens; 0 for never."""
        self.readings = 0
        self.starts: list[int] = []
        """Each start that was named to it, by its own clock."""
        self.parameters: list[dict[str, Any]] = []
        self.lengths: dict[str, int] = {}
        self.programs: dict[str, Callable[[Program], Outcome]] = {}
        """The reference tools that are installed, by name; one may raise what the host would refuse."""
        self.ran: list[Program] = []
        self.dies_in_program = self.hangs_in_program = False
        self.closed = False
        self._events: list[MemberEvent] = []
        self._pulse: float | None = None
        self._program: Program | None = None
        self._hanging = False
        self._reading: dict[str, Any] = {}

    display_name = "simulated"
    boot = ""
    processors: frozenset[int] = frozenset()
    server: tuple[str, int] | None = None
    sees = ""
    """How the name of another host's file ends that it has before it, too."""
    descriptor: int | None = None

    def survey(self, path: Path | None = None) -> Machine:
        """Describe the machine under its own name."""
        return replace(super().survey(path), hostname=self.name)

    def clock_ns(self) -> int:
        """Our clock, as far off as was planted."""
        self._alive()
        return time.monotonic_ns() + self.clock_offset_ns

    def _alive(self) -> None:
        if self.closed:
            raise HostLostError("it is closed")

    def prepare(self, kernel: str, parameters: dict[str, Any]) -> None:
        """Begin a reading, or what was planted for it."""
        self._alive()
        self.readings += 1
        self.parameters.append(parameters)
        self._events = [Ready()]
        if self.readings == self.dies_at:
            self.closed = True
        elif self.readings == self.hangs_at:
            self._events = []
        elif self.readings == self.refuses_at:
            self._events = [Refused(OSError(28, "No space left on device"))]
        else:
            if kernel == "storage_layout":
                self.lengths[parameters["path"]] = int(parameters["size"])
            self._reading = super().run(kernel, parameters)
            self._reading["elapsed_s"] *= self.slow

    def find(self, program: Program) -> str | None:
        """Where a simulated tool would be."""
        self._alive()
        return f"/simulated/{program.tool}" if program.tool in self.programs else None

    def execute(self, program: Program) -> Outcome:
        """Run a simulated tool."""
        self.ran.append(program)
        return self.programs[program.tool](program)

    def prepare_program(self, program: Program) -> None:
        """Begin a program; it ends when it is started."""
        self._alive()
        self._program, self._events = program, [Ready()]

    def start(self, at_ns: int) -> None:
        """Start then, or as much later as was planted."""
        self._alive()
        self.starts.append(at_ns)
        if self._program is not None:
            self._run_program(self._program)
            return
        if self.readings != self.endless_at:
            self._events.append(Done(self._reading, at_ns + round(self.skew_s * 1e9)))

    def _run_program(self, program: Program) -> None:
        self._program = None
        self.closed = self.closed or self.dies_in_program
        if self.hangs_in_program:
            self._hanging = True
            return
        try:
            self._events.append(Ended(self.execute(program)))
        except (ValueError, OSError) as error:
            self._events.append(Refused(error))

    def poll(self, timeout_s: float) -> MemberEvent | None:
        """The next event at once, or none after the whole time."""
        self._alive()
        if self._events:
            return self._events.pop(0)
        time.sleep(timeout_s)
        return None

    def pulse(self) -> None:
        """Ask for a sign of life, which only one that hangs owes."""
        if (self._hanging or self.readings == self.hangs_at) and self._pulse is None:
            self._pulse = time.monotonic()

    def silent_s(self) -> float:
        """The time for which one that hangs has been silent."""
        return time.monotonic() - self._pulse if self._pulse is not None else 0.0

    def stop(self) -> None:
        """End an endless reading."""
        if self.readings == self.endless_at:
            self._events.append(Done({**self._reading, "interrupted": True}, self.starts[-1]))

    def claim(self, path: Path) -> ScratchFile:
        """A data file that is only a name."""
        self._alive()
        directory = f"{path}/{self.name}"
        return ScratchFile(f"{directory}/data", directory, 1 << 40, 1 << 39)

    def file_size(self, path: str) -> int:
        """The length with which it was laid out."""
        self._alive()
        if self.sees and path.endswith(self.sees):
            return 1 << 30
        return self.lengths[path]

    def release(self, scratch: ScratchFile) -> None:
        """Forget a data file."""
        self.lengths.pop(scratch.data, None)

    def close(self) -> None:
        """Answer nothing from now on."""
        self.closed = True

    abandon = close


def site_of_two(
    *members: SimulatedMember, timeouts: Timeouts = SHORT_TIMEOUTS, machine: SimulatedMachine | None = None
) -> tuple[SeveralHosts, Sequence[SimulatedMember]]:
    """A site of the members, or of two alike hosts with clocks a day apart."""
    machine = machine or SimulatedMachine(seed=3, noise=0.005)
    hosts = members or (SimulatedMember("a", machine), SimulatedMember("b", machine, -86_400 * 10**9))
    return SeveralHosts(hosts, timeouts), hosts
