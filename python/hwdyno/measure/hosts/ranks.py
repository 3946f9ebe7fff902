"""Several ranks as one site: rank 0 measures, and each rank serves as an agent over a separate connection.

Rank 0 listens, and each rank, 0 too, connects an agent to it. Both ends prove that they know the secret of the start
(HMAC-SHA-256 of the other end's random number), and neither sends it. From there on it is the agent's protocol.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwdyno import __version__
from hwdyno.measure.hosts import lines, messages, rank_process, rank_server
from hwdyno.measure.hosts.host import HostLostError
from hwdyno.measure.hosts.launch import Launch, Meeting, boot_id, describe_job, host_name
from hwdyno.measure.hosts.lines import EndOfLinesError
from hwdyno.measure.hosts.messages import MessageError
from hwdyno.measure.hosts.reference_tools import Program
from hwdyno.measure.hosts.several_hosts import SeveralHosts, Timeouts
from hwdyno.measure.hosts.speaker import PROTOCOL, Speaker
from hwdyno.model.machine import Machine
from hwdyno.model.words import UserError
from hwdyno.system import loopback, signals

JOIN_S = 60.0
"""Limit for all ranks to connect."""
GREET_S = 5.0
"""Limit for one end of a connection to identify itself."""
RETRY_S = 0.1
STOP_S = 5.0
"""Limit for rank 0 to end the agents after a signal."""
TIMEOUT_S = 2.5
"""Limit for an answer that needs no work; with ``TIMEOUTS``, a rank that hangs is named within 3 s."""
TIMEOUTS = Timeouts(silent_s=2.0, pulse_s=0.5)
MAX_STRANGERS = 64
"""Connections beside those of ranks that may introduce themselves at once."""
KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
"""Options by which a connection ends half a minute after the other end's last sign of life (tcp(7))."""


class Rank(Speaker):
    """The agent of one rank, at the other end of a connection."""

    survey_s = 15.0

    def __init__(self, arrival: _Arrival, processors: Iterable[int]) -> None:
        super().__init__(TIMEOUT_S)
        self._processors = frozenset(processors)
        connection = arrival.connection
        self.number, self.name, self._boot = arrival.number, arrival.name, arrival.boot
        self._server = arrival.server
        self._connection = connection
        connection.settimeout(TIMEOUT_S)

    @property
    def display_name(self) -> str:
        """Its host and its number."""
        return f"{self.name} rank {self.number}"

    @property
    def descriptor(self) -> int:
        """Its connection."""
        return self._connection.fileno()

    @property
    def boot(self) -> str:
        """The boot that the rank read."""
        return self._boot

    @property
    def processors(self) -> frozenset[int]:
        """Those that it was given."""
        return self._processors

    @property
    def server(self) -> tuple[str, int] | None:
        """The address at which the rank's server listens, if it has one."""
        return self._server

    def survey(self, path: Path | None = None) -> Machine:
        """Describe the host under the rank's name."""
        return replace(super().survey(path), hostname=self.display_name)

    def find(self, program: Program) -> None:
        """No reference tool: a rank has no minder that would end one with it."""

    def _write(self, line: bytes) -> None:
        self._connection.sendall(line)

    def _lost_error(self) -> HostLostError:
        return HostLostError("its connection ended: its process has died, or the network between is gone")

    def close(self) -> None:
        """End the connection, and with it the agent."""
        self._connection.close()

    abandon = close


@dataclass(frozen=True)
class _Arrival:
    """A rank that has proved itself, before it is given its processors."""

    number: int
    name: str
    boot: str
    processors: tuple[int, ...]
    nonce: str
    connection: socket.socket
    server: tuple[str, int] | None = None


class _Admission:
    """Where ranks arrive; whoever does not prove to be one is sent away without holding up the others."""

    def __init__(self, listener: socket.socket, size: int, secret: bytes) -> None:
        self._listener, self._size, self._secret = listener, size, secret
        self._changed = threading.Condition()
        self._room = threading.Semaphore(size + MAX_STRANGERS)
        self._last_stranger = ""
        """Who was sent away last, and why."""
        self.arrivals: dict[int, _Arrival] = {}
        self.refused = ""
        """Why a rank cannot take part; empty while each can."""
        threading.Thread(target=self._accept, daemon=True).start()

    def all(self, timeout_s: float) -> list[_Arrival]:
        """Every rank, once each is there; raises ``UserError`` that names those that are not."""
        until = time.monotonic() + timeout_s
        while len(self.arrivals) < self._size and not self.refused and time.monotonic() < until:
            signals.check()
            with self._changed:
                self._changed.wait(RETRY_S)
        if self.refused:
            raise UserError(self.refused)
        absent = [number for number in range(self._size) if number not in self.arrivals]
        if absent:
            stranger = f"; {self._last_stranger}" if self._last_stranger else ""
            raise UserError(
                f"{_ranks(absent)} of {self._size} did not connect within {timeout_s:g} s; check that each host "
                f"reaches rank 0 and has hwdyno{stranger}"
            )
        return [self.arrivals[number] for number in range(self._size)]

    def close(self) -> None:
        """End every connection, and with it the rank's agent."""
        for arrival in self.arrivals.values():
            arrival.connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # Closed: all are there.
            while True:
                connection, address = self._listener.accept()
                self._room.acquire()
                threading.Thread(target=self._meet, args=(connection, address[0]), daemon=True).start()

    def _meet(self, connection: socket.socket, address: str) -> None:
        try:
            found = self._introduce(connection)
        except (OSError, MessageError, EndOfLinesError) as error:
            self._last_stranger = f"{address} was sent away: {_one_line(error)}"
            connection.close()
            return
        finally:
            self._room.release()
        number = found["rank"]
        arrival = _Arrival(
            number, found["name"], found["boot"], tuple(found["processors"]), found["nonce"], connection,
            None if found["server"] is None else (found["server"][0], found["server"][1]),
        )  # fmt: skip
        with self._changed:
            if found["version"] != [__version__, PROTOCOL]:
                self.refused = (
                    f"rank {number} on {arrival.name} has hwdyno {found['version']} and rank 0 "
                    f"{[__version__, PROTOCOL]} (version, protocol); install the same version on both"
                )
            elif number >= self._size or number in self.arrivals:
                self.refused = f"rank {number} came twice or is not one of {self._size}; start all with one launcher"
            else:
                self.arrivals[number] = arrival
            self._changed.notify_all()

    def _introduce(self, connection: socket.socket) -> dict[str, Any]:
        """What a rank says that knows the secret; raises ``MessageError``, ``EndOfLinesError`` and ``OSError``."""
        connection.settimeout(GREET_S)
        nonce = secrets.token_hex(16)
        _send(connection, {"hwdyno": "ranks", "nonce": nonce})
        found = _receive(connection, messages.RANKS_HELLO, GREET_S)
        if not hmac.compare_digest(found["proof"].encode(), _proof(self._secret, f"rank {found['rank']} {nonce}")):
            raise MessageError("it does not know the secret of this start")
        return found


_SITE: list[SeveralHosts] = []


def join(launch: Launch, *, serves: bool = False) -> None:
    """Make the site of all ranks on rank 0, for ``site``, until this process ends; ``serves`` as for ``serve``."""
    _SITE[:] = [join_ranks(launch, serves=serves)]
    atexit.register(_SITE[0].close)


def site() -> SeveralHosts | None:
    """The site of all ranks, on rank 0 of a start of several."""
    return _SITE[0] if _SITE else None


def join_ranks(launch: Launch, timeout_s: float = JOIN_S, *, serves: bool = False) -> SeveralHosts:
    """The site of all ranks, on rank 0. Raises ``UserError`` where a rank does not come."""
    here = _outward_address()
    listener = socket.create_server(launch.listens_at, family=loopback.family(here), backlog=min(launch.size, 4096))
    meeting = Meeting(here, listener.getsockname()[1], secrets.token_bytes(16))
    meeting = launch.share(meeting)
    admission = _Admission(listener, launch.size, meeting.secret)
    served = _RankAgent(launch, meeting, serves=serves)
    served.begin()
    try:
        arrivals = admission.all(timeout_s)
        ranks = [_welcome_rank(arrival, shared, meeting.secret) for arrival, shared in _shares(arrivals)]
        for rank in ranks:
            rank._greet()
        site = SeveralHosts(ranks, TIMEOUTS, lambda why: sys.stderr.write(f"hwdyno: {why}\n"))
        site.job = describe_job()
        return site
    except UserError:
        admission.close()
        raise
    except (HostLostError, OSError) as error:
        admission.close()
        raise UserError(f"a rank was lost at the start: {error}; start again") from None
    finally:
        listener.close()


def serve(launch: Launch, *, serves: bool = False) -> None:
    """Serve rank 0 on any other rank until it ends. Raises ``UserError`` where it is not found.

    ``serves``: also the network measurements of the other ranks, by a separate server.
    """
    served = _RankAgent(launch, launch.share(None), serves=serves)
    served.begin()
    with signals.keeping():
        served.end()


class _RankAgent:
    """This rank's agent: connected, then a separate process, whose standard input is the connection."""

    def __init__(self, launch: Launch, meeting: Meeting, *, serves: bool = False) -> None:
        self._launch, self._meeting, self._serves = launch, meeting, serves
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: UserError | None = None
        self._listens: tuple[str, int] | None = None

    def begin(self) -> None:
        """Connect, and start the process as soon as rank 0 has all ranks."""
        self._thread.start()

    def end(self) -> None:
        """Wait for the end of the process; raises what kept it from being started.

        A signal is rank 0's to act on, because a launcher sends it to all: its agents stop, and their parts are kept.
        """
        until: float | None = None
        while self._thread.is_alive() and (until is None or time.monotonic() < until):
            self._thread.join(0.2)
            if signals.is_end_requested() and until is None:
                until = time.monotonic() + STOP_S
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            connection, processors = self._connect_rank()
        except UserError as error:
            self._error = error
            return
        except MessageError as error:
            at = f"{self._meeting.address}:{self._meeting.port}"
            self._error = UserError(f"rank 0 at {at} sent what a rank 0 does not: {_one_line(error)}")
            return
        except (OSError, EndOfLinesError):
            return  # Rank 0 has ended, and says why.
        life, kept = os.pipe()
        server = self._start_server(life)
        command = [sys.executable, "-m", rank_process.__name__, ",".join(map(str, processors)), str(life)]
        with connection:
            process = subprocess.Popen(
                command, stdin=connection.fileno(), stdout=connection.fileno(), pass_fds=(life,), start_new_session=True
            )
        os.close(life)
        signals.spare(process.pid)
        process.wait()
        os.close(kept)
        if server is not None:
            server.wait()

    def _start_server(self, life: int) -> subprocess.Popen[bytes] | None:
        """The process that serves other ranks' network measurements, until the pipe ``life`` ends."""
        if self._listens is None:
            return None
        command = [sys.executable, "-m", rank_server.__name__, *map(str, self._listens), str(life)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(life,), start_new_session=True)
        signals.spare(process.pid)
        return process

    def _connect_rank(self) -> tuple[socket.socket, list[int]]:
        """The connection, and the processors that this rank is to use."""
        meeting, launch = self._meeting, self._launch
        connection = _dial(meeting, JOIN_S)
        _set_up(connection)
        nonce = secrets.token_hex(16)
        if self._serves:
            here = connection.getsockname()[0]
            self._listens = here, loopback.free_port(here)
        greeting = _receive(connection, messages.RANKS_GREETING, GREET_S)
        connection.settimeout(GREET_S)
        _send(connection, {
            "rank": launch.rank,
            "name": host_name(),
            "boot": boot_id(),
            "processors": sorted(os.sched_getaffinity(0)),
            "version": [__version__, PROTOCOL],
            "nonce": nonce,
            "server": self._listens,
            "proof": _proof(meeting.secret, f"rank {launch.rank} {greeting['nonce']}").decode(),
        })  # fmt: skip
        welcome = _receive(connection, messages.RANKS_WELCOME, JOIN_S + GREET_S)
        if not hmac.compare_digest(welcome["proof"].encode(), _proof(meeting.secret, f"site {nonce}")):
            raise UserError(f"{meeting.address}:{meeting.port} is not this start's rank 0; use another port")
        connection.settimeout(None)
        processors: list[int] = welcome["processors"]
        return connection, processors


def _dial(meeting: Meeting, timeout_s: float) -> socket.socket:
    """A connection to rank 0, which may not listen yet."""
    until = time.monotonic() + timeout_s
    while True:
        signals.check()
        try:
            return socket.create_connection((meeting.address, meeting.port), timeout=GREET_S)
        except UnicodeError:
            raise UserError(f"{meeting.address}:{meeting.port} is no address of rank 0") from None
        except OSError as error:
            if time.monotonic() > until:
                why = error.strerror or error
                raise UserError(f"rank 0 is not at {meeting.address}:{meeting.port} ({why}); is it started?") from None
            time.sleep(RETRY_S)


def _welcome_rank(arrival: _Arrival, processors: tuple[int, ...], secret: bytes) -> Rank:
    """Give a rank its processors; its agent sends next."""
    _set_up(arrival.connection)
    proof = _proof(secret, f"site {arrival.nonce}").decode()
    try:
        _send(arrival.connection, {"proof": proof, "processors": processors})
    except OSError as error:
        raise HostLostError(f"{arrival.name} rank {arrival.number} reads no welcome: {_one_line(error)}") from None
    return Rank(arrival, processors)


def _shares(arrivals: list[_Arrival]) -> list[tuple[_Arrival, tuple[int, ...]]]:
    """The processors of each rank: those that ranks of one kernel have in common are dealt out in blocks.

    Without that each of them would pin its first thread to the same one.
    """
    alike: Mapping[Any, list[_Arrival]] = defaultdict(list)
    for arrival in arrivals:
        alike[(arrival.boot or arrival.number, arrival.processors)].append(arrival)
    found: dict[int, tuple[int, ...]] = {}
    for (_, processors), many in alike.items():
        for place, arrival in enumerate(many):
            found[arrival.number] = _block(processors, place, len(many))
    return [(arrival, found[arrival.number]) for arrival in arrivals]


def _block(processors: tuple[int, ...], place: int, many: int) -> tuple[int, ...]:
    if many > len(processors):
        return (processors[place % len(processors)],)
    return processors[place * len(processors) // many : (place + 1) * len(processors) // many]


def _ranks(numbers: list[int]) -> str:
    """Some ranks in words; of many, the first ones."""
    shown = ", ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"


def _outward_address() -> str:
    """The address by which others reach this host: that of its route outwards; the loopback where there is none."""
    # Addresses for documentation (RFC 5737, RFC 3849): a datagram socket sends nothing when it is connected.
    for family, outside in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, 9))
            return str(probe.getsockname()[0])
    return loopback.address()


def _set_up(connection: socket.socket) -> None:
    """Have a connection wait for no acknowledgement, and end where the other end's network is gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        with contextlib.suppress(OSError, AttributeError):  # Another system's, or an old kernel's.
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _proof(secret: bytes, text: str) -> bytes:
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest().encode()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or "it closed the connection"


def _send(connection: socket.socket, document: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(document).encode() + b"\n")


def _receive(connection: socket.socket, form: messages.Form, timeout_s: float) -> dict[str, Any]:
    """The next line as a table of this form; raises ``MessageError``, ``EndOfLinesError`` and ``OSError``."""
    found = messages.parse_message(lines.receive_line(connection, messages.MAX_HELLO, timeout_s), messages.HELLO_LEVELS)
    form(found, "its message")
    return found
