"""A host that is measured by a bare engine over pipes: ``hwdyno-engine serve`` here, or behind any command."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hwdyno.measure import engine
from hwdyno.measure.hosts import counters
from hwdyno.measure.hosts.host import HostLostError
from hwdyno.measure.hosts.member import Done, Ended, MemberEvent, Ready, Refused, ScratchFile
from hwdyno.measure.hosts.reference_tools import Outcome, Program
from hwdyno.measure.topology import Topology
from hwdyno.model.axes import read_declarations
from hwdyno.model.histogram import ARRAYS, PACKED
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration, UserError
from hwdyno.system import foreign, signals

PROTOCOL = 4
"""The protocol version of ``crates/engine/src/agent.rs``."""
TIMEOUT_S = 5.0
"""Timeout of a request that needs no work."""
SURVEY_S = 60.0
CLOSE_S = 6.0
"""The agent gives a run five seconds to end."""
MAX_LINE = 1 << 28
PIECE = 1 << 16
"""Bytes read at once: the kernel allocates room for more anew each time."""


class Speaker(ABC):
    """A ``Member`` that uses the agent's protocol; how its lines come and go is a subclass's matter."""

    survey_s = SURVEY_S
    """Limit for what it does without a sign of life: a start, a survey, a removal of files."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._partial = bytearray()
        self._lines: deque[dict[str, Any]] = deque()
        """Documents of the current run that were read but not handled yet."""
        self._last_id = 0
        self._run_id = 0
        self._owed: dict[int, float] = {}
        """When the sign of life of each request was requested."""
        self._kernels: dict[str, Declaration] | None = None
        self._topology: Topology | None = None

    @property
    @abstractmethod
    def display_name(self) -> str:
        """What messages call it before its host is known."""

    @property
    def boot(self) -> str:
        """Not known of an agent behind a command."""
        return ""

    @property
    def processors(self) -> frozenset[int]:
        """Not known of an agent behind a command."""
        return frozenset()

    @property
    def server(self) -> tuple[str, int] | None:
        """None: an agent measures only what it is sent."""
        return None

    @property
    @abstractmethod
    def descriptor(self) -> int:
        """Where its lines are read."""

    @abstractmethod
    def _write(self, line: bytes) -> None:
        """Send a line; raises ``OSError`` or ``ValueError`` at the end of the connection."""

    @abstractmethod
    def _lost_error(self) -> HostLostError:
        """Why the connection has ended."""

    @abstractmethod
    def close(self) -> None:
        """End the agent: it stops its run and removes its files when its input ends."""

    @abstractmethod
    def abandon(self) -> None:
        """Release a lost agent without waiting for it."""

    def _greet(self) -> None:
        greeting = self._next(self.survey_s)
        if greeting is None or greeting.get("agent") != "hwdyno-engine":
            self.close()
            raise HostLostError(f"{self.display_name} does not start an agent; it must be: hwdyno-engine serve")
        if greeting.get("protocol") != PROTOCOL:
            self.close()
            raise HostLostError(
                f"{self.display_name}: its hwdyno-engine {greeting.get('version')} speaks protocol "
                f"{greeting.get('protocol')} and this hwdyno {PROTOCOL}; install the same version on both"
            )

    # --- lines

    def _send(self, verb: str, **fields: Any) -> int:
        self._last_id += 1
        line = json.dumps({"id": self._last_id, "do": verb, **fields}).encode() + b"\n"
        try:
            self._write(line)
        except (OSError, ValueError):
            raise self._lost_error() from None
        return self._last_id

    def _next(self, timeout_s: float) -> dict[str, Any] | None:
        """The next document; none if there is none in time. Raises ``HostLostError`` at the end of the pipe."""
        end = time.monotonic() + timeout_s
        while (at := self._partial.find(b"\n")) < 0:
            if not select.select([self.descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            piece = self._read()
            if not piece:
                raise self._lost_error()
            self._partial += piece
            if len(self._partial) > MAX_LINE:
                raise HostLostError(f"the agent sent {len(self._partial)} bytes without the end of a line")
        line = bytes(self._partial[:at])
        del self._partial[: at + 1]
        document = engine.document(line, foreign.DEEPEST)
        if document is None:
            try:
                document = foreign.parse_json(line, "what the agent sent", is_ours=True)
            except UserError as error:
                raise HostLostError(f"{error}: {line[:80]!r}") from None
        return document if isinstance(document, dict) else {}

    def _read(self) -> bytes:
        try:
            return os.read(self.descriptor, PIECE)
        except OSError:  # A connection that was reset.
            raise self._lost_error() from None

    def _request(self, verb: str, timeout_s: float | None = None, **fields: Any) -> Any:
        """Send a request and wait for its answer; events of the run are kept for ``poll``."""
        wanted = self._send(verb, **fields)
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        end = time.monotonic() + timeout_s
        while True:
            document = self._next(max(0.0, end - time.monotonic()))
            if document is None:
                raise HostLostError(f"its agent did not answer within {timeout_s:g} s")
            if document.get("id") == wanted:
                return _answer(document)
            self._keep(document)

    def _keep(self, document: dict[str, Any]) -> None:
        if document.get("id") == self._run_id:
            self._lines.append(document)
        elif document.get("id") in self._owed:
            self._owed.clear()

    # --- Host

    def survey(self, path: Path | None = None) -> Machine:
        """Describe the host, with the storage behind ``path``."""
        fields = {} if path is None else {"path": str(path)}
        return Machine.of_survey(self._request("survey", self.survey_s, **fields))

    def topology(self) -> Topology:
        """The processors that the agent may use, and the host's NUMA nodes."""
        if self._topology is None:
            self._topology = Topology.of_machine(self.survey())
        return self._topology

    def kernels(self) -> dict[str, Declaration]:
        """The kernels of the host's engine."""
        if self._kernels is None:
            try:
                self._kernels = read_declarations(self._request("kernels"))
            except (KeyError, TypeError, AttributeError):
                raise HostLostError(
                    "its hwdyno-engine declares kernels in another form; install the same version on both"
                ) from None
        return self._kernels

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run a kernel once, as this machine would; see ``Host.run``."""
        self._run_id = self._send("run", kernel=kernel, parameters=parameters)
        event, interrupted = self._await_end()
        assert isinstance(event, Done)
        return {**event.reading, "interrupted": True} if interrupted else dict(event.reading)

    def _await_end(self) -> tuple[MemberEvent, bool]:
        """How the current run ended, and whether it was interrupted; raises what the host raised."""
        interrupted = False
        while True:
            try:
                if not interrupted:
                    signals.check()
                event = self.poll(0.1)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                self.stop()
                continue
            if isinstance(event, Refused):
                raise event.error
            if isinstance(event, Done | Ended):
                return event, interrupted

    def find(self, program: Program) -> str | None:
        """Where the host has a reference tool; none if it is not installed."""
        found = self._request("find", tool=program.tool)["path"]
        return None if found is None else str(found)

    def execute(self, program: Program) -> Outcome:
        """Run a reference tool once; see ``Programs.execute``. Ctrl-C ends it."""
        self._run_id = self._send("program", **_fields(program))
        event, interrupted = self._await_end()
        if interrupted:
            raise KeyboardInterrupt
        assert isinstance(event, Ended)
        return event.outcome

    def snapshot(self) -> dict[str, float]:
        """The host's counters now."""
        return counters.parse_counters(self._request("snapshot"))

    # --- Member

    def clock_ns(self) -> int:
        """The host's monotonic clock now."""
        return int(self._request("clock")["ns"])

    def prepare(self, kernel: str, parameters: dict[str, Any]) -> None:
        """Begin to set a kernel up; it waits for ``start`` when its threads are ready."""
        self._lines.clear()
        self._owed.clear()
        self._run_id = self._send("run", kernel=kernel, parameters=parameters, hold=True)

    def prepare_program(self, program: Program) -> None:
        """Begin to set a program up; it waits for ``start``."""
        self._lines.clear()
        self._owed.clear()
        self._run_id = self._send("program", hold=True, **_fields(program))

    def start(self, at_ns: int) -> None:
        """Start the threads that are ready at this time of the host's clock."""
        self._send("start", at_ns=max(0, at_ns))

    def poll(self, timeout_s: float) -> MemberEvent | None:
        """The next event of the run; none if there is none in time."""
        end = time.monotonic() + timeout_s
        while not self._lines:
            document = self._next(max(0.0, end - time.monotonic()))
            if document is None:
                return None
            self._keep(document)
        document = self._lines.popleft()
        if document.get("ready"):
            return Ready()
        try:
            answer = _answer(document)
        except (ValueError, OSError) as error:
            return Refused(error)
        if "reading" in answer:
            try:
                unpack_reading(answer["reading"])
            except (ValueError, TypeError, AttributeError):
                raise HostLostError("its agent sent a histogram that is none") from None
            return Done(answer["reading"], int(answer["started_ns"]))
        return Ended(Outcome(answer["status"], answer["stdout"], answer["stderr"], answer["cpu_s"]))

    def silent_s(self) -> float:
        """How long the oldest pulse has been unanswered."""
        return time.monotonic() - min(self._owed.values()) if self._owed else 0.0

    def pulse(self) -> None:
        """Request a sign of life, unless one is pending."""
        if not self._owed:
            self._owed[self._send("clock")] = time.monotonic()

    def stop(self) -> None:
        """End the run early."""
        self._send("stop")

    def claim(self, path: Path) -> ScratchFile:
        """Make a scratch directory below ``path`` on the host."""
        return ScratchFile(**self._request("files", action="claim", path=str(path)))

    def file_size(self, path: str) -> int:
        """The length of a file of the host."""
        return int(self._request("files", action="size", path=path)["bytes"])

    def release(self, scratch: ScratchFile) -> None:
        """Remove a scratch directory of the host."""
        self._request("files", self.survey_s, action="release", path=scratch.directory)


class Agent(Speaker):
    """A ``Member`` behind a command that starts an agent, such as ``ssh node7 hwdyno-engine serve``."""

    def __init__(self, command: Sequence[str], timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(timeout_s)
        self.command = tuple(command)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the agent lives
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                start_new_session=True,  # The terminal's Ctrl-C is for the site, which then stops all hosts alike.
            )
        except OSError as error:
            self._complaints.close()
            raise HostLostError(f"the agent {self.command[0]} cannot be started: {error.strerror}") from None
        signals.spare(self._process.pid)
        self._greet()

    @property
    def display_name(self) -> str:
        """Its command."""
        return " ".join(self.command)

    @property
    def descriptor(self) -> int:
        """Its standard output."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def _lost_error(self) -> HostLostError:
        """Why the pipe has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        status = self._process.poll()
        self._complaints.seek(0)
        last = self._complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
        how = "closed its pipe" if status is None else f"was killed by signal {-status}" if status < 0 else "ended"
        return HostLostError(f"its agent {how}" + (f": {last}" if last else ""))

    def abandon(self) -> None:
        """Kill the agent."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the agent: it stops its run and removes its files when its input ends; one that hangs is killed."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._complaints.close()


def unpack_reading(reading: Mapping[str, Any]) -> None:
    """Turn the packed histograms of an agent's reading into arrays, in place; raises ``ValueError``."""
    import numpy as np

    for stream in reading.get("streams", ()):
        for histogram in stream.get("latency_ns", {}).values():
            if PACKED not in histogram:
                continue
            if (found := engine.unpack_histogram(histogram.pop(PACKED))) is None:
                raise ValueError("not a packed histogram")
            indices, counts, count = found
            if count != histogram.get("count"):
                raise ValueError("a packed histogram whose count is not that of its buckets")
            histogram[ARRAYS] = (np.frombuffer(indices, np.int64), np.frombuffer(counts, np.int64))


def _fields(program: Program) -> dict[str, Any]:
    """A program as an agent reads it; the agent itself knows the tool's files."""
    return {
        "tool": program.tool,
        "arguments": program.arguments,
        "environment": dict(program.environment),
        "timeout_s": program.timeout_s,
        "files": dict(program.files),
    }


def _answer(document: Mapping[str, Any]) -> Any:
    """The answer in a document; raises the exception of its error."""
    error = document.get("error")
    if not isinstance(error, dict):
        return document.get("answer")
    if error.get("kind") == "usage":
        raise ValueError(str(error.get("says")))
    raise OSError(int(error.get("errno") or 0), str(error.get("says")))
