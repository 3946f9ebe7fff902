"""Several hosts as one site: each reading starts on all of them at one time, and is merged whole.

The hosts set a kernel up and wait; when all are ready, each gets the same moment by its own clock, whose offset is
measured anew before. A host that dies, no longer answers or never ends is named and left out from there on, and what
the others did is kept.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwdyno.measure.hosts.clock_offset import clock_offset_ns
from hwdyno.measure.hosts.host import HostLostError
from hwdyno.measure.hosts.host_parameters import HostParameters
from hwdyno.measure.hosts.host_part import (
    POLL_S,
    HostPart,
    await_event,
    ends_last,
    is_here,
    is_start_possible,
    last_here,
    started_ns,
)
from hwdyno.measure.hosts.measured_site import Site
from hwdyno.measure.hosts.member import Done, Ended, Member, Refused, ScratchFile
from hwdyno.measure.hosts.merging import merge_readings
from hwdyno.measure.hosts.partners import parse_partners
from hwdyno.measure.hosts.reference_tools import Outcome, Program
from hwdyno.measure.topology import Topology
from hwdyno.measure.workspace import DataFile, Place, usable_bytes
from hwdyno.model.axes import BETWEEN, CLIENTS, with_clients
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration, UserError
from hwdyno.system import signals

LEAD_NS = 2_000_000
"""Delay from the last host's readiness to the start, so that the start time reaches every host before it."""
MESSAGE_NS = 50_000
"""Time to send one host the moment of the start."""
NEAR_LEAD_NS = 150_000
"""That delay where all hosts are processes of this machine, which a message reaches sooner."""
CLOCK_SLACK_NS = 60 * 10**9
"""How far outside of a reading a host's start may be by our clock, with the error of its offset."""
_WORST: dict[str, Callable[[Sequence[float]], float]] = {
    "load_1m": max,
    "memory_available_bytes": min,
    "clock_hz": min,
    "temperature_c": max,
}
"""Gauges of a snapshot, each with the function that picks the worst; everything else is summed."""


@dataclass(frozen=True)
class Timeouts:
    """Timeouts of the hosts, s."""

    silent_s: float = 3.0
    """Limit for a sign of life."""
    pulse_s: float = 1.0
    """Time between two requests for one."""
    apart_s: float = 10.0
    """Limit for the others once a first host has reached the next step, or three times what that one took."""
    setup_s: float = 60.0
    """Limit for a step of all hosts, in addition to three times the length in the parameters."""
    stop_s: float = 5.0
    """Limit for the end of a host that was stopped."""


class SeveralHosts(Site):
    """A site of several hosts."""

    def __init__(
        self,
        members: Sequence[Member],
        timeouts: Timeouts | None = None,
        says: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._members = dict(zip(_names(members), members, strict=True))
        self._all = tuple(self._members)
        self._timeouts = timeouts or Timeouts()
        self.lost: dict[str, str] = {}
        self._scratch: dict[str, ScratchFile] = {}
        self._kernels: dict[str, Declaration] | None = None
        self._interrupted = False
        self._parameters = HostParameters(self._members)
        self._says = says
        """Where a lost host is named at once; the Run names it, too."""

    @property
    def several(self) -> bool:
        """Yes, even where only one is left."""
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """Every host, lost ones too."""
        return self._all

    def machines(self, path: Path | None = None) -> tuple[Machine, ...]:
        """Describe each host under its unique name."""
        found = self._each(lambda member: member.survey(path))
        return tuple(replace(machine, hostname=name) for name, machine in found.items())

    def topology(self) -> Topology:
        """The processors and NUMA nodes that every host has."""
        common = Topology.common(list(self._each(lambda member: member.topology()).values()))
        return replace(common, between=self._serving)

    @property
    def _serving(self) -> bool:
        """Whether all serve network measurements of each other."""
        return len(self._all) > 1 and all(member.server is not None for member in self._members.values())

    def kernels(self) -> dict[str, Declaration]:
        """The kernels that every host has, as the first one declares them."""
        if self._kernels is None:
            first, *others = self._each(lambda member: member.kernels()).values()
            common = {
                name: replace(
                    kernel,
                    possible=tuple(
                        combination
                        for combination in kernel.possible
                        if all(combination in other[name].possible for other in others)
                    ),
                )
                for name, kernel in first.items()
                if all(name in other for other in others)
            }
            self._kernels = with_clients(common, len(self._all), between=self._serving)
        return self._kernels

    def snapshot(self) -> dict[str, float]:
        """Counters summed over the hosts, gauges at their worst; what some host does not give is left out."""
        try:
            found = list(self._each(lambda member: member.snapshot(), self._one_a_kernel()).values())
        except HostLostError:
            return {}
        names = [name for name in found[0] if all(name in snapshot for snapshot in found)]
        return {name: _WORST.get(name, sum)([snapshot[name] for snapshot in found]) for name in names}

    def _one_a_kernel(self) -> list[str]:
        """The first host of each running kernel: several ranks of one machine have one set of counters."""
        found = {member.boot or name: name for name, member in reversed(self._members.items())}
        return [name for name in self._members if name in found.values()]

    # --- one reading

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run a kernel once on every host, or on as many ``clients``, from one moment on; see ``Host.run``.

        The Reading's ``hosts`` has each host's own. Raises ``HostLostError`` where no host is left, and what the
        hosts raised where none of them gave a Reading.
        """
        pattern = self.kernels()[kernel].axis(BETWEEN.name).default if kernel in self.kernels() else None
        if pattern and not parameters.get("server"):
            parameters = {BETWEEN.name: pattern, **parameters}
        by_host = self.parameters_of_each(parameters)
        parts, interrupted = self._collect_results(
            by_host,
            lambda name, member: member.prepare(kernel, by_host[name]),
            _longest_s(parameters, self._timeouts.setup_s),
        )
        wanted = len(self._all)
        if between := str(parameters.get(BETWEEN.name) or ""):
            wanted = len(parse_partners(between, wanted))
        reading = self._reading(parts, interrupted, int(parameters.get(CLIENTS.name) or wanted))
        if parameters.get(BETWEEN.name):
            # Where the first host's partner listens is no parameter of the point.
            kept = {name: value for name, value in reading["parameters"].items() if name not in {"server", "port"}}
            reading["parameters"] = kept
        return reading

    def which(self, program: Program) -> dict[str, str | None]:
        """Where each host has a reference tool; none where it is not installed."""
        return self._each(lambda member: member.find(program))

    def execute_each(self, programs: Mapping[str, Program]) -> dict[str, Outcome | ValueError | OSError]:
        """Run a reference tool once on each host from one moment on; Ctrl-C ends it everywhere.

        A host that is lost has a ``HostLostError``.
        """
        longest_s = self._timeouts.setup_s + max(program.timeout_s for program in programs.values())
        parts, interrupted = self._collect_results(
            programs, lambda name, member: member.prepare_program(programs[name]), longest_s
        )
        if interrupted:
            raise KeyboardInterrupt
        return {name: part.outcome for name, part in parts.items()}

    def _collect_results(
        self, names: Collection[str], begin: Callable[[str, Member], None], longest_s: float | None
    ) -> tuple[dict[str, HostPart], bool]:
        """The results of the named hosts from a common start on, and whether Ctrl-C ended it."""
        parts = {name: HostPart(member) for name, member in self._members.items() if name in names}
        for name, part in parts.items():
            with self._losing(name, part):
                part.offset_ns = 0 if is_here(part.member) else clock_offset_ns(part.member)
                part.began_ns = time.monotonic_ns()
                begin(name, part.member)
        self._interrupted = False
        while True:
            try:
                self._step(parts, longest_s)
                break
            except KeyboardInterrupt:
                if self._interrupted:
                    raise
                self._interrupted = True
                self._stop(parts)
        return parts, self._interrupted

    def _step(self, parts: dict[str, HostPart], longest_s: float | None) -> None:
        """Run every part to its end, with one common start for each of the kernel's teams of threads."""
        while pending := {name: part for name, part in parts.items() if part.pending}:
            self._gather(pending, longest_s)
            ready = {name: part for name, part in pending.items() if part.ready and part.pending}
            is_near = all(is_here(part.member) for part in ready.values())
            # Each message of the moment takes its time, and the last host needs the same lead as the first.
            lead_ns = (NEAR_LEAD_NS if is_near else LEAD_NS) + len(ready) * MESSAGE_NS
            at_ns = time.monotonic_ns() + lead_ns
            for name, part in last_here(ready):
                part.ready = False
                with self._losing(name, part):
                    part.member.start(at_ns + part.offset_ns)

    def _gather(self, parts: dict[str, HostPart], longest_s: float | None) -> None:
        """Wait until each part is ready or has ended; a host that stays behind is stopped, then lost."""
        began = pulsed = time.monotonic()
        first_s: float | None = None
        while awaited := {name: part for name, part in parts.items() if part.pending and not part.ready}:
            now = time.monotonic()
            if not self._interrupted:
                signals.check()
            waits_s = 0.0 if await_event([part.member for part in ends_last(awaited)]) else POLL_S / len(awaited)
            for name, part in awaited.items():
                with self._losing(name, part):
                    if now - pulsed >= self._timeouts.pulse_s:
                        part.member.pulse()
                    part.take(part.member.poll(waits_s))
                    if part.member.silent_s() > self._timeouts.silent_s:
                        raise HostLostError(f"it has not answered for {self._timeouts.silent_s:g} s")
            pulsed = now if now - pulsed >= self._timeouts.pulse_s else pulsed
            if first_s is None and any(part.ready or isinstance(part.event, Done | Ended) for part in parts.values()):
                first_s = time.monotonic() - began
            self._press(awaited, time.monotonic() - began, first_s, longest_s)

    def _press(
        self, awaited: dict[str, HostPart], passed_s: float, first_s: float | None, longest_s: float | None
    ) -> None:
        """Stop hosts that are too far behind, and give up those that do not end when stopped."""
        limits = [longest_s] if longest_s is not None else []
        if first_s is not None:
            limits.append(first_s + max(3 * first_s, self._timeouts.apart_s))
        if not limits or passed_s < (limit := min(limits)):
            return
        for name, part in awaited.items():
            if not part.pending or part.ready:
                continue
            with self._losing(name, part):
                if not part.stopped:
                    part.stopped = True
                    part.member.stop()
                elif passed_s > limit + self._timeouts.stop_s:
                    raise HostLostError(f"it did not end within {passed_s:.3g} s, nor when it was stopped")

    def _stop(self, parts: dict[str, HostPart]) -> None:
        for name, part in parts.items():
            if part.pending:
                with self._losing(name, part):
                    part.stopped, part.ready = True, False
                    part.member.stop()

    def _reading(self, parts: Mapping[str, HostPart], interrupted: bool, wanted: int) -> dict[str, Any]:
        """One Reading of all parts; raises what every host raised where none has one.

        Where fewer hosts are left than were ``wanted``, the lost ones are named in it.
        """
        for name, part in parts.items():
            if isinstance(part.event, Done) and not is_start_possible(part, CLOCK_SLACK_NS):
                with self._losing(name, part):
                    raise HostLostError("it sent a start that is not in this reading, by its clock")
        done = {name: part for name, part in parts.items() if isinstance(part.event, Done) and not part.failure}
        if not done:
            refused = [part.event.error for part in parts.values() if isinstance(part.event, Refused)]
            if refused:
                raise refused[0]
            raise self._nobody()
        failures = {name: self._why(name, part) for name, part in parts.items() if name not in done}
        before = [name for name in self.lost if name not in parts][: max(0, wanted - len(parts))]
        failures |= {name: self.lost[name] for name in before}
        started = {name: started_ns(part) for name, part in done.items()}
        readings = {name: dict(part.event.reading) for name, part in done.items() if isinstance(part.event, Done)}
        for name, part in done.items():
            if part.stopped and not interrupted:
                failures[name] = "it was stopped, because it did not end with the others"
        made = merge_readings(
            readings, started, failures, [name for name in self._all if name in parts or name in failures]
        )
        return {**made, "interrupted": True} if interrupted else made

    def _why(self, name: str, part: HostPart) -> str:
        if not isinstance(part.event, Refused):
            return self.lost.get(name, part.failure)
        error = part.event.error
        return error.strerror if isinstance(error, OSError) and error.strerror else str(error)

    def parameters_of_each(self, parameters: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """A kernel's parameters as each host that takes part gets them: with its own data file and random order."""
        return self._parameters.of_each(parameters, self._scratch)

    # --- lost hosts

    def _each(self, query: Callable[[Member], Any], names: Sequence[str] = ()) -> dict[str, Any]:
        """Each host's answer to a query, or each named host's; raises ``HostLostError`` where none is left."""
        found: dict[str, Any] = {}
        for name in names or list(self._members):
            with self._losing(name):
                found[name] = query(self._members[name])
        if not found:
            raise self._nobody()
        return found

    def _nobody(self) -> HostLostError:
        """The error of a lost connection, after which nothing else is tried."""
        return HostLostError(errno.ENOTCONN, "no host is left: " + "; ".join(f"{n}: {w}" for n, w in self.lost.items()))

    @contextlib.contextmanager
    def _losing(self, name: str, part: HostPart | None = None) -> Iterator[None]:
        """Record a host that is lost in this block; the others continue."""
        try:
            yield
        except HostLostError as error:
            why = str(error)
            self.lost[name] = why
            self._says(f"{name} was lost, and the others continue: {why}")
            if part is not None:
                part.failure = why
            if (member := self._members.pop(name, None)) is not None:
                with contextlib.suppress(OSError):
                    member.abandon()

    # --- files

    def place(self, path: Path, *, writes: bool, destroy: str = "", serial: str = "") -> Place:
        """A directory on every host; whether it can be written is known when a data file is made there."""
        if destroy or serial:
            raise UserError("--destroy is for a raw device of one host; this site has several")
        return Place(path)

    def data_file(self, place: Place) -> DataFile:
        """Make a data file on every host; raises ``UserError`` where a host refuses."""
        try:
            self._scratch = self._each(lambda member: member.claim(place.path))
        except OSError as error:
            raise UserError(f"--path {place.path}: {error.strerror or error}; give a directory of every host") from None
        room = min(usable_bytes(scratch.size_bytes, scratch.free_bytes) for scratch in self._scratch.values())
        if any(member.boot for member in self._members.values()):
            room //= len(self._members)  # Ranks share a machine, or the filesystem that they were started to measure.
        return _DataFiles(self, replace(place, room_bytes=room), Path(next(iter(self._scratch.values())).data))

    def laid_out_bytes(self) -> int:
        """The length of the shortest data file; raises ``OSError`` where one is gone."""
        lengths = []
        for name, member in list(self._members.items()):
            with self._losing(name):
                lengths.append(member.file_size(self._scratch[name].data))
        if not lengths:
            raise self._nobody()
        return min(lengths)

    def release(self) -> None:
        """Remove every data file; a host that is gone removes its own."""
        scratch, self._scratch = self._scratch, {}
        for name, file in scratch.items():
            if name in self._members:
                with self._losing(name):
                    self._members[name].release(file)

    def close(self) -> None:
        """Release all hosts."""
        self.release()
        for member in self._members.values():
            member.close()
        self._members.clear()


class _DataFiles:
    """The data files of a site; ``data`` is the first host's, and each host replaces it by its own."""

    def __init__(self, site: SeveralHosts, place: Place, data: Path) -> None:
        self._site = site
        self.place: Place = place
        self.data: Path = data

    @property
    def laid_out_bytes(self) -> int:
        return self._site.laid_out_bytes()

    def close(self) -> None:
        self._site.release()


def _longest_s(parameters: Mapping[str, Any], setup_s: float) -> float | None:
    """How long a step may take at most, where the parameters say how long the reading is; none where they do not."""
    timed = [parameters.get(name) or 0.0 for name in ("runtime", "ramp_time", "startdelay")]
    if parameters.get("time_based") is False or not timed[0] or "io_size" in parameters:
        return None
    return setup_s + 3.0 * sum(float(seconds) for seconds in timed)


def _names(members: Sequence[Member]) -> list[str]:
    """Each host's name, numbered where two are alike."""
    seen: Counter[str] = Counter()
    names = []
    for member in members:
        try:
            name = member.survey().hostname or "host"
        except HostLostError as error:
            raise HostLostError(f"{member.display_name}: {error}") from None
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names
