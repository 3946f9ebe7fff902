"""The agent's protocol: requests and answers, each a line, between this process and a host that is measured."""

from __future__ import annotations

import contextlib
import json
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hwdyno.measure import engine
from hwdyno.measure.hosts import counters, messages
from hwdyno.measure.hosts.host import HostLostError
from hwdyno.measure.hosts.lines import EndOfLinesError, LineReader
from hwdyno.measure.hosts.member import Done, Ended, MemberEvent, Ready, Refused, ScratchFile
from hwdyno.measure.hosts.messages import MessageError
from hwdyno.measure.hosts.reference_tools import Outcome, Program
from hwdyno.measure.topology import Topology
from hwdyno.model.axes import read_declarations
from hwdyno.model.histogram import ARRAYS, PACKED
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration
from hwdyno.system import signals

PROTOCOL = 4
"""The protocol version of ``crates/engine/src/agent.rs``."""
TIMEOUT_S = 5.0
"""Timeout of a request that needs no work, and of the other end to read one."""
SURVEY_S = 60.0
MAX_STARTS = 1000
"""Teams of one run that start with the other hosts: a kernel has one for each of some instruction sets at most."""


CLOCK_ERROR_S = 1.0
"""How much longer a reading may be by another host's clock."""
_MAY_REFUSE = {"run", "program", "find", "claim", "size", "start"}
"""Requests that a sound host may refuse."""


@dataclass
class _Request:
    """A request that was sent and has no answer yet."""

    verb: str
    """Its form in ``messages.ANSWERS``; of a request for files, the action."""
    kernel: str = ""
    holds: bool = False
    """Whether it waits for a start once it is ready."""
    is_ready: bool = False
    starts: int = 0
    sent_s: float = field(default_factory=time.monotonic)

    def check_reading(self, answer: Mapping[str, Any]) -> None:
        """Raise ``MessageError`` for the reading of another kernel, or of a time that it did not have."""
        reading, passed_s = answer["reading"], time.monotonic() - self.sent_s + CLOCK_ERROR_S
        if reading["kernel"] != self.kernel:
            raise MessageError(f"a reading of another kernel than {self.kernel}")
        if reading["elapsed_s"] > passed_s:
            raise MessageError(f"a reading of {reading['elapsed_s']:.4g} s within {passed_s:.3g} s")


class Speaker(ABC):
    """A ``Member`` that uses the agent's protocol; how its lines come and go is a subclass's matter."""

    survey_s = SURVEY_S
    """Limit for what it does without a sign of life: a start, a survey, a removal of files."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._reader = LineReader(lambda: self.descriptor)
        self._events: deque[MemberEvent] = deque()
        """Events of the current run that were read but not handled yet."""
        self._pending: dict[int, _Request] = {}
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
        """Read the greeting; raises ``HostLostError``, and the agent is released then."""
        try:
            self._check_greeting()
        except HostLostError as error:
            self.abandon()
            raise HostLostError(f"{self.display_name}: {error}") from None

    def _check_greeting(self) -> None:
        line = self._next_line(self.survey_s, messages.LENGTHS["greeting"])
        if line is None:
            raise HostLostError(f"its agent did not begin within {self.survey_s:g} s")
        with _losing():
            greeting = messages.parse_message(line)
        if greeting.get("agent") != "hwdyno-engine":
            raise HostLostError("it does not start an agent; it must be: hwdyno-engine serve")
        with _losing():
            messages.GREETING(greeting, "its greeting")
        if greeting["protocol"] != PROTOCOL:
            raise HostLostError(
                f"its hwdyno-engine {greeting['version']} speaks protocol "
                f"{greeting['protocol']} and this hwdyno {PROTOCOL}; install the same version on both"
            )

    # --- lines

    def _send(self, request: _Request, **fields: Any) -> int:
        self._last_id += 1
        line = json.dumps({"id": self._last_id, **fields}).encode() + b"\n"
        self._pending[self._last_id] = request
        try:
            self._write(line)
        except (OSError, ValueError) as error:
            if isinstance(error, MessageError):
                raise HostLostError(f"its agent is stuck: {error}") from None
            raise self._lost_error() from None
        return self._last_id

    def _next_line(self, timeout_s: float, max_bytes: int) -> bytes | None:
        """The next line; none if there is none in time. Raises ``HostLostError``."""
        try:
            with _losing():
                return self._reader.next(timeout_s, max_bytes)
        except EndOfLinesError:
            raise self._lost_error() from None

    def _next(self, timeout_s: float) -> tuple[int, dict[str, Any]] | None:
        """The next message by the number of its request; none if there is none in time. Raises ``HostLostError``."""
        longest = max(messages.LENGTHS[request.verb] for request in (*self._pending.values(), _Request("clock")))
        line = self._next_line(timeout_s, longest)
        if line is None:
            return None
        with _losing():
            return self._check_message(messages.parse_message(line), len(line))

    def _check_message(self, document: dict[str, Any], length: int) -> tuple[int, dict[str, Any]]:
        """A message that answers a request, with the number of that; raises ``MessageError``."""
        number = document.get("id")
        request = self._pending.get(number) if type(number) is int else None
        if request is None or number is None:
            raise MessageError(f"an answer to request {ascii(number)[:40]}, which was not made")
        if length > messages.LENGTHS[request.verb]:
            raise MessageError(f"a message of {length} bytes about '{request.verb}'")
        kind = next((kind for kind in ("answer", "error", "ready") if kind in document), "")
        if document.keys() != {"id", kind}:
            raise MessageError(f"a message about '{request.verb}' with {', '.join(map(ascii, sorted(document)))[:80]}")
        if kind == "ready":
            if document["ready"] is not True or not request.holds or request.is_ready:
                raise MessageError(f"'ready' to '{request.verb}', which does not wait")
            request.is_ready = True
            request.starts += 1
            if request.starts > MAX_STARTS:
                raise MessageError(f"'ready' more than {MAX_STARTS} times in one run")
            return number, document
        del self._pending[number]
        if kind == "error":
            messages.ERROR(document["error"], "its error")
            if request.verb not in _MAY_REFUSE:
                says = _one_line(document["error"]["says"])
                raise MessageError(f"an error to '{request.verb}', which cannot fail: {says}")
            return number, document
        if request.verb not in messages.ANSWERS:
            raise MessageError(f"an answer to '{request.verb}', which has none")
        messages.ANSWERS[request.verb](document["answer"], f"its answer to '{request.verb}'")
        if request.verb == "run":
            request.check_reading(document["answer"])
        return number, document

    def _request(self, verb: str, timeout_s: float | None = None, **fields: Any) -> Any:
        """Send a request and wait for its answer; events of the run are kept for ``poll``."""
        wanted = self._send(_Request(fields.get("action", verb)), do=verb, **fields)
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        end = time.monotonic() + timeout_s
        while True:
            found = self._next(max(0.0, end - time.monotonic()))
            if found is not None and found[0] == wanted:
                return _answer(found[1])
            if found is not None:
                self._keep(*found)
            if time.monotonic() > end:
                raise HostLostError(f"its agent did not answer within {timeout_s:g} s")

    def _keep(self, number: int, document: dict[str, Any]) -> None:
        if number == self._run_id:
            self._events.append(self._event(document))
        elif number in self._owed:
            self._owed.clear()

    def _event(self, document: dict[str, Any]) -> MemberEvent:
        """What a message of the run says; raises ``HostLostError`` for a histogram that is none."""
        if "ready" in document:
            return Ready()
        # A start has no answer but an error, which would have come before.
        self._pending = {at: request for at, request in self._pending.items() if request.verb != "start"}
        try:
            answer = _answer(document)
        except (ValueError, OSError) as error:
            return Refused(error)
        if "reading" not in answer:
            return Ended(Outcome(answer["status"], answer["stdout"], answer["stderr"], answer["cpu_s"]))
        with _losing():
            try:
                unpack_reading(answer["reading"])
            except ValueError as error:
                raise MessageError(f"{error}") from None
        return Done(answer["reading"], answer["started_ns"])

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
            self._kernels = read_declarations(self._request("kernels"))
        return self._kernels

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run a kernel once, as this machine would; see ``Host.run``."""
        self._begin(_Request("run", kernel), kernel=kernel, parameters=parameters)
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
        try:
            found: str | None = self._request("find", tool=program.tool)["path"]
        except ValueError:  # An older agent, that does not know the tool.
            return None
        return found

    def execute(self, program: Program) -> Outcome:
        """Run a reference tool once; see ``Programs.execute``. Ctrl-C ends it."""
        self._begin(_Request("program"), **_fields(program))
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
        found: int = self._request("clock")["ns"]
        return found

    def prepare(self, kernel: str, parameters: dict[str, Any]) -> None:
        """Begin to set a kernel up; it waits for ``start`` when its threads are ready."""
        self._begin(_Request("run", kernel, holds=True), kernel=kernel, parameters=parameters, hold=True)

    def prepare_program(self, program: Program) -> None:
        """Begin to set a program up; it waits for ``start``."""
        self._begin(_Request("program", holds=True), hold=True, **_fields(program))

    def _begin(self, request: _Request, **fields: Any) -> None:
        self._events.clear()
        self._owed.clear()
        self._run_id = self._send(request, do=request.verb, **fields)

    def start(self, at_ns: int) -> None:
        """Start the threads that are ready at this time of the host's clock."""
        if (request := self._pending.get(self._run_id)) is not None:
            request.is_ready = False
        self._send(_Request("start"), do="start", at_ns=max(0, at_ns))

    def poll(self, timeout_s: float) -> MemberEvent | None:
        """The next event of the run; none if there is none in time."""
        end = time.monotonic() + timeout_s
        while not self._events:
            found = self._next(max(0.0, end - time.monotonic()))
            if found is None:
                return None
            self._keep(*found)
        return self._events.popleft()

    def silent_s(self) -> float:
        """How long the oldest pulse has been unanswered."""
        return time.monotonic() - min(self._owed.values()) if self._owed else 0.0

    def pulse(self) -> None:
        """Request a sign of life, unless one is pending."""
        if not self._owed:
            self._owed[self._send(_Request("clock"), do="clock")] = time.monotonic()

    def stop(self) -> None:
        """End the run early."""
        self._send(_Request("stop"), do="stop")

    def claim(self, path: Path) -> ScratchFile:
        """Make a scratch directory below ``path`` on the host."""
        return ScratchFile(**self._request("files", action="claim", path=str(path)))

    def file_size(self, path: str) -> int:
        """The length of a file of the host."""
        found: int = self._request("files", action="size", path=path)["bytes"]
        return found

    def release(self, scratch: ScratchFile) -> None:
        """Remove a scratch directory of the host."""
        self._request("files", self.survey_s, action="release", path=scratch.directory)


@contextlib.contextmanager
def _losing() -> Iterator[None]:
    """Lose the host whose message is wrong."""
    try:
        yield
    except MessageError as error:
        raise HostLostError(f"it sent what an agent does not: {error}") from None


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
    if error is None:
        return document["answer"]
    if error["kind"] == "usage":
        raise ValueError(_one_line(error["says"]))
    raise OSError(error["errno"] or 0, _one_line(error["says"]))


def _one_line(says: str) -> str:
    return " ".join(says.split())[: messages.MAX_ERROR_TEXT]
