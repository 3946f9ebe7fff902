"""Several hosts as one site: each reading starts on all of them at one time, and is merged whole.

The hosts set a kernel up and wait; when all are ready, each gets the same moment by its own clock, whose offset is
measured anew before. A host that dies, no longer answers or never ends is named and left out from there on, and what
the others did is kept.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import select
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from hwdyno.measure import engine
from hwdyno.measure.hosts.agent import Agent
from hwdyno.measure.hosts.clock_offset import clock_offset_ns
from hwdyno.measure.hosts.host import HostLostError
from hwdyno.measure.hosts.launch import boot_id
from hwdyno.measure.hosts.measured_site import Site
from hwdyno.measure.hosts.member import Done, Ended, Member, MemberEvent, Ready, Refused, ScratchFile
from hwdyno.measure.hosts.merging import merged
from hwdyno.measure.hosts.reference_tools import Outcome, Program
from hwdyno.measure.topology import Topology
from hwdyno.measure.workspace import DataFile, Place, room_of
from hwdyno.model.axes import BETWEEN, CLIENTS, SHARED_FILE, with_clients
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration, UserError
from hwdyno.system import signals

LEAD_NS = 2_000_000
"""Delay from the last host's readiness to the start, so that the start time reaches every host before it."""
POLL_S = 0.05
MESSAGE_NS = 50_000
"""Time to send one host the moment of the start."""
NEAR_LEAD_NS = 150_000
"""That delay where all hosts are processes of this machine, which a message reaches sooner."""
_OF_A_SITE = {CLIENTS.name, SHARED_FILE.name, BETWEEN.name}
"""Axes that say what each host gets, and that no kernel knows."""
_PAGE = 4096
SEEDS_APART = 1_000_003
"""Distance between the random seeds of two hosts; a repeat moves a seed by one."""
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


@dataclass
class _Part:
    """One host's part in the current reading."""

    member: Member
    offset_ns: int = 0
    """Its clock minus ours."""
    ready: bool = False
    event: Done | Ended | Refused | None = None
    failure: str = ""
    stopped: bool = False

    @property
    def pending(self) -> bool:
        """Whether it has not ended."""
        return self.event is None and not self.failure


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
        self._seeing: set[str] = set()
        """The hosts that see the shared file."""
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
            first, *rest = self._each(lambda member: member.kernels()).values()
            common = {
                name: replace(
                    one, possible=tuple(it for it in one.possible if all(it in other[name].possible for other in rest))
                )
                for name, one in first.items()
                if all(name in other for other in rest)
            }
            self._kernels = with_clients(common, len(self._all), between=self._serving)
        return self._kernels

    def snapshot(self) -> dict[str, float]:
        """Counters summed over the hosts, gauges at their worst; what some host does not give is left out."""
        try:
            found = list(self._each(lambda member: member.snapshot(), self._one_a_kernel()).values())
        except HostLostError:
            return {}
        names = [name for name in found[0] if all(name in one for one in found)]
        return {name: _WORST.get(name, sum)([one[name] for one in found]) for name in names}

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
        each = self.parameters_of_each(parameters)
        parts, interrupted = self._ended(
            each,
            lambda name, member: member.prepare(kernel, each[name]),
            _longest_s(parameters, self._timeouts.setup_s),
        )
        wanted = len(self._all)
        if between := str(parameters.get(BETWEEN.name) or ""):
            wanted = len(partners_of(between, wanted))
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
        longest_s = self._timeouts.setup_s + max(one.timeout_s for one in programs.values())
        parts, interrupted = self._ended(
            programs, lambda name, member: member.prepare_program(programs[name]), longest_s
        )
        if interrupted:
            raise KeyboardInterrupt
        return {name: self._outcome(part) for name, part in parts.items()}

    @staticmethod
    def _outcome(part: _Part) -> Outcome | ValueError | OSError:
        if isinstance(part.event, Refused):
            return part.event.error
        return part.event.outcome if isinstance(part.event, Ended) else HostLostError(part.failure)

    def _ended(
        self, names: Collection[str], begin: Callable[[str, Member], None], longest_s: float | None
    ) -> tuple[dict[str, _Part], bool]:
        """The results of the named hosts from a common start on, and whether Ctrl-C ended it."""
        parts = {name: _Part(member) for name, member in self._members.items() if name in names}
        for name, part in parts.items():
            with self._losing(name, part):
                part.offset_ns = 0 if _is_here(part.member) else clock_offset_ns(part.member)
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

    def _step(self, parts: dict[str, _Part], longest_s: float | None) -> None:
        """Run every part to its end, with one common start for each of the kernel's teams of threads."""
        while pending := {name: part for name, part in parts.items() if part.pending}:
            self._gather(pending, longest_s)
            ready = {name: part for name, part in pending.items() if part.ready and part.pending}
            is_near = all(_is_here(part.member) for part in ready.values())
            # Each message of the moment takes its time, and the last host needs the same lead as the first.
            lead_ns = (NEAR_LEAD_NS if is_near else LEAD_NS) + len(ready) * MESSAGE_NS
            at_ns = time.monotonic_ns() + lead_ns
            for name, part in _last_here(ready):
                part.ready = False
                with self._losing(name, part):
                    part.member.start(at_ns + part.offset_ns)

    def _gather(self, parts: dict[str, _Part], longest_s: float | None) -> None:
        """Wait until each part is ready or has ended; a host that stays behind is stopped, then lost."""
        began = pulsed = time.monotonic()
        first_s: float | None = None
        while awaited := {name: part for name, part in parts.items() if part.pending and not part.ready}:
            now = time.monotonic()
            if not self._interrupted:
                signals.check()
            waits_s = 0.0 if _await([part.member for part in _ends_last(awaited)]) else POLL_S / len(awaited)
            for name, part in awaited.items():
                with self._losing(name, part):
                    if now - pulsed >= self._timeouts.pulse_s:
                        part.member.pulse()
                    self._take(part, part.member.poll(waits_s))
                    if part.member.silent_s() > self._timeouts.silent_s:
                        raise HostLostError(f"it has not answered for {self._timeouts.silent_s:g} s")
            pulsed = now if now - pulsed >= self._timeouts.pulse_s else pulsed
            if first_s is None and any(part.ready or isinstance(part.event, Done | Ended) for part in parts.values()):
                first_s = time.monotonic() - began
            self._press(awaited, time.monotonic() - began, first_s, longest_s)

    @staticmethod
    def _take(part: _Part, event: MemberEvent | None) -> None:
        if isinstance(event, Ready):
            part.ready = True
        elif event is not None:
            part.event = event

    def _press(
        self, awaited: dict[str, _Part], passed_s: float, first_s: float | None, longest_s: float | None
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

    def _stop(self, parts: dict[str, _Part]) -> None:
        for name, part in parts.items():
            if part.pending:
                with self._losing(name, part):
                    part.stopped, part.ready = True, False
                    part.member.stop()

    def _reading(self, parts: Mapping[str, _Part], interrupted: bool, wanted: int) -> dict[str, Any]:
        """One Reading of all parts; raises what every host raised where none has one.

        Where fewer hosts are left than were ``wanted``, the lost ones are named in it.
        """
        done = {name: part for name, part in parts.items() if isinstance(part.event, Done)}
        if not done:
            refused = [part.event.error for part in parts.values() if isinstance(part.event, Refused)]
            if refused:
                raise refused[0]
            raise self._nobody()
        failures = {name: self._why(name, part) for name, part in parts.items() if name not in done}
        before = [name for name in self.lost if name not in parts][: max(0, wanted - len(parts))]
        failures |= {name: self.lost[name] for name in before}
        started = {name: _started_ns(part) for name, part in done.items()}
        readings = {name: dict(part.event.reading) for name, part in done.items() if isinstance(part.event, Done)}
        for name, part in done.items():
            if part.stopped and not interrupted:
                failures[name] = "it was stopped, because it did not end with the others"
        made = merged(readings, started, failures, [name for name in self._all if name in parts or name in failures])
        return {**made, "interrupted": True} if interrupted else made

    def _why(self, name: str, part: _Part) -> str:
        if not isinstance(part.event, Refused):
            return self.lost.get(name, part.failure)
        error = part.event.error
        return error.strerror if isinstance(error, OSError) and error.strerror else str(error)

    def parameters_of_each(self, parameters: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """A kernel's parameters as each host that takes part gets them: with its own data file and random order."""
        adapted = {name: value for name, value in parameters.items() if name not in _OF_A_SITE}
        if between := str(parameters.get(BETWEEN.name) or ""):
            partners = partners_of(between, len(self._all))
            return {
                self._all[one]: {**adapted, **self._served_by(self._all[other])}
                for one, other in partners.items()
                if {self._all[one], self._all[other]} <= self._members.keys()
            }
        names = list(self._members)[: parameters.get(CLIENTS.name)]
        each = {name: self._parameters_of(adapted, name, number) for number, name in enumerate(names)}
        if parameters.get(SHARED_FILE.name) is not None and "path" in adapted:
            each = self._regions(each, parameters, is_shared=bool(parameters[SHARED_FILE.name]))
        return each

    def _served_by(self, name: str) -> dict[str, Any]:
        """The parameters by which a host finds another one's server."""
        served = self._members[name].server
        assert served is not None
        return {"server": served[0], "port": served[1]}

    def _regions(
        self, each: dict[str, dict[str, Any]], parameters: Mapping[str, Any], *, is_shared: bool
    ) -> dict[str, dict[str, Any]]:
        """The region of each host, all of one size: the beginning of its file, or the next part of the first host's.

        Raises ``UserError`` where the blocks do not fit, or where a host does not see that file.
        """
        size, block = int(parameters.get("size") or 0), int(parameters.get("bs") or _PAGE)
        grain = max(block, _PAGE)
        part = size // len(self._all) // grain * grain
        if part < block:
            raise UserError(f"--size {size} has no block for each of {len(self._all)} hosts; use a larger one")
        path = next(iter(self._scratch.values())).data if self._scratch else str(parameters["path"])
        found = {}
        for number, (name, given) in enumerate(each.items()):
            if is_shared:
                self._check_sees(name, path)
            at = {"path": path, "offset": int(parameters.get("offset") or 0) + number * part} if is_shared else {}
            found[name] = {**given, "size": part, **at}
        return found

    def _check_sees(self, name: str, path: str) -> None:
        if name in self._seeing:
            return
        try:
            self._members[name].size_of(path)
        except (ValueError, FileNotFoundError, NotADirectoryError):
            raise UserError(f"--shared-file: {name} does not see {path}; use a --path that all hosts share") from None
        except HostLostError:
            return
        except OSError as error:
            raise UserError(f"--shared-file: {name} cannot use {path}: {error.strerror or error}") from None
        self._seeing.add(name)

    def _parameters_of(self, parameters: dict[str, Any], name: str, number: int) -> dict[str, Any]:
        """The parameters for one host: with its data file and its random seed."""
        adapted = dict(parameters)
        shared = next(iter(self._scratch.values()), None)
        if shared is not None and adapted.get("path") == shared.data and name in self._scratch:
            adapted["path"] = self._scratch[name].data
        if isinstance(adapted.get("seed"), int):
            adapted["seed"] += number * SEEDS_APART
        return adapted

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
    def _losing(self, name: str, part: _Part | None = None) -> Iterator[None]:
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
        room = min(room_of(one.size_bytes, one.free_bytes) for one in self._scratch.values())
        if any(member.boot for member in self._members.values()):
            room //= len(self._members)  # Ranks share a machine, or the filesystem that they were started to measure.
        return _DataFiles(self, replace(place, room_bytes=room), Path(next(iter(self._scratch.values())).data))

    def laid_out_bytes(self) -> int:
        """The length of the shortest data file; raises ``OSError`` where one is gone."""
        lengths = []
        for name, member in list(self._members.items()):
            with self._losing(name):
                lengths.append(member.size_of(self._scratch[name].data))
        if not lengths:
            raise self._nobody()
        return min(lengths)

    def release(self) -> None:
        """Remove every data file; a host that is gone removes its own."""
        scratch, self._scratch = self._scratch, {}
        for name, one in scratch.items():
            if name in self._members:
                with self._losing(name), contextlib.suppress(ValueError):
                    self._members[name].release(one)

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


@cache
def of_commands(text: str) -> Site:
    """The site of the agents that these commands start, ``;`` between them; it is let go at the exit.

    Raises ``UserError`` where one cannot be started.
    """
    commands = [shlex.split(command) for command in text.split(";") if command.strip()]
    if not commands:
        raise UserError("HWDYNO_AGENTS names no command; write: hwdyno-engine serve; ssh node7 hwdyno-engine serve")
    members: list[Member] = []
    try:
        members.extend(map(Agent, commands))
        site = SeveralHosts(members)
    except HostLostError as error:
        for member in members:
            member.close()
        raise UserError(f"HWDYNO_AGENTS: {error}") from None
    atexit.register(site.close)
    return site


def partners_of(between: str, hosts: int) -> dict[int, int]:
    """Which host sends to which: ``0-3`` is one pair, ``+2`` each to the second one after it; raises ``UserError``."""
    first, _, second = between.partition("-")
    if first.isdecimal() and second.isdecimal() and int(first) != int(second) and max(int(first), int(second)) < hosts:
        return {int(first): int(second)}
    shift = int(between[1:]) if between.startswith("+") and between[1:].isdecimal() else 0
    if not 0 < shift < hosts:
        most = hosts - 1
        raise UserError(f"--between '{between}' must be two of hosts 0 to {most}, such as 0-1, or +1 to +{most}")
    return {one: (one + shift) % hosts for one in range(hosts)}


def _is_here(member: Member) -> bool:
    """Whether its monotonic clock is ours, because one kernel runs both."""
    return member.boot != "" and member.boot == boot_id()


def _last_here(parts: Mapping[str, _Part]) -> list[tuple[str, _Part]]:
    """The parts with those last that measure on the processor that this process is on.

    Their threads spin until the start, and take the processor from whoever has the others' start still to send.
    """
    here = engine.processor()
    return sorted(parts.items(), key=lambda item: _is_at(item[1], here))


def _is_at(part: _Part, processor: int) -> bool:
    """Whether it measures on that processor of this machine."""
    return _is_here(part.member) and processor in part.member.processors


def _ends_last(parts: Mapping[str, _Part]) -> list[_Part]:
    """The last part that measures on this process's own processor; all parts where none does.

    A wait for one of the others would only take the processor from it.
    """
    here = engine.processor()
    return [part for part in parts.values() if _is_at(part, here)][-1:] or list(parts.values())


def _await(members: Sequence[Member]) -> bool:
    """Wait until a member may have an event, for a poll's time at most; false where that cannot be waited for."""
    descriptors = [member.descriptor for member in members]
    if any(one is None for one in descriptors):
        return False
    waiting = select.poll()
    for one in descriptors:
        waiting.register(cast(int, one), select.POLLIN)
    waiting.poll(POLL_S * 1000)
    return True


def _started_ns(part: _Part) -> int:
    """When a host started, by our clock."""
    assert isinstance(part.event, Done)
    return part.event.started_ns - part.offset_ns


def _longest_s(parameters: Mapping[str, Any], setup_s: float) -> float | None:
    """How long a step may take at most, where the parameters say how long the reading is; none where they do not."""
    timed = [parameters.get(name) or 0.0 for name in ("runtime", "ramp_time", "startdelay")]
    if parameters.get("time_based") is False or not timed[0] or "io_size" in parameters:
        return None
    return setup_s + 3.0 * sum(float(one) for one in timed)


def _names(members: Sequence[Member]) -> list[str]:
    """Each host's name, numbered where two are alike."""
    seen: Counter[str] = Counter()
    names = []
    for member in members:
        name = member.survey().hostname or "host"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names
