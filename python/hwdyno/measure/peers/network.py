"""Shared by the network's reference tools: the program, and over loopback the tool's server."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from hwdyno.measure.hosts import programs
from hwdyno.measure.peers.peer import PeerReading
from hwdyno.model.words import UserError
from hwdyno.system import loopback, safe_files

GRACE_S = 15.0
"""Allowance besides the timed region: connections, the exchange of results, a slow machine."""
TIMEOUT_S = 5.0
"""Time limit for a server to start to listen."""
# States of the kernel's tables of sockets (include/net/tcp_states.h): TCP_LISTEN, and TCP_CLOSE of a bound UDP socket.
_TABLES = {"tcp": ("/proc/net/tcp", "0A"), "udp": ("/proc/net/udp", "07")}


class NetworkPeer(ABC):
    """A program on the path, or named by ``HWDYNO_<NAME>``; each tool gives its command line and reads its output."""

    name: ClassVar[str]
    kernels: ClassVar[frozenset[str]]
    install: ClassVar[str] = "install it"
    """How to install the program."""
    asks_version: ClassVar[tuple[str, str]]
    """The option that prints the version, and the pattern that finds it."""
    calls_it: ClassVar[str] = ""
    """Prefix of the version."""

    @property
    def variable(self) -> str:
        """The environment variable that names the program."""
        return f"HWDYNO_{self.name.upper()}"

    def program(self) -> str | None:
        """The program's path; none if it is not installed."""
        return shutil.which(os.environ.get(self.variable) or self.name)

    def version(self) -> str | None:
        """The tool's version; none if it is not installed, or if the program is another of the same name."""
        program = self.program()
        return _version(program, *self.asks_version, self.calls_it or self.name) if program else None

    @abstractmethod
    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why the tool cannot measure this point; none if it can."""

    @abstractmethod
    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line."""

    @abstractmethod
    def server(self, program: str, parameters: Mapping[str, Any], port: int) -> list[str] | None:
        """The server to start on a loopback port; none if one answers already."""

    @abstractmethod
    def reading(self, kernel: str, out: str, complaint: str) -> PeerReading:
        """Read the tool's output. Raises ``OSError`` with its error message in one line if it failed."""

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run the tool once on this point; see ``Peer.run`` for the exceptions."""
        why = self.unsupported_reason(kernel, parameters)
        if why:
            raise UserError(why)
        program = self.program()
        if program is None:
            raise FileNotFoundError(f"{self.name} is not installed; {self.install} or set {self.variable} to its path")
        given, port = dict(parameters), loopback.free_port()
        server = self.server(program, given, port)
        timeout_s = GRACE_S + seconds(given) + float(given.get("ramp_time") or 0)
        if server is not None:
            given["port"] = port
        with contextlib.ExitStack() as stack:
            # iperf3 makes a file and removes its name at once, unless it is killed in between.
            environment = {"TMPDIR": str(stack.enter_context(safe_files.temporary("hwdyno-peer-"))), "LC_ALL": "C"}
            if server is not None:
                stack.enter_context(
                    listening(server, port, "udp" if self.listens_by_udp(given) else "tcp", environment)
                )
            command = [program, *self.command(kernel, given)[1:]]
            out, complaint, _ = programs.run_program(command, timeout_s, environment)
        return self.reading(kernel, out, complaint)

    def listens_by_udp(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the server only listens on UDP."""
        return False


def seconds(parameters: Mapping[str, Any]) -> int:
    """The timed region in whole seconds, which these tools take; at least one."""
    return max(1, round(float(parameters.get("runtime") or 1)))


def make_error(name: str, complaint: str, default: str) -> OSError:
    """A peer's failure in one line, with its error message."""
    return OSError(f"{name} failed: {' '.join(complaint.split())[:200] or default}")


@contextlib.contextmanager
def listening(
    command: Sequence[str], port: int, protocol: str = "tcp", environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Keep a server running inside a ``with`` block. Raises ``OSError`` if it does not start to listen."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    sees = {**os.environ, **(environment or {})}
    server = subprocess.Popen(list(command), start_new_session=True, env=sees, **quiet)  # type: ignore[call-overload]
    try:
        _wait_until_it_listens(server, port, protocol)
        yield
    finally:
        programs.end(server)


def _wait_until_it_listens(server: subprocess.Popen[bytes], port: int, protocol: str) -> None:
    """Wait by the kernel's socket table: a connection would count as the one test that the server accepts."""
    path, state = _TABLES[protocol]
    wanted = re.compile(rf":{port:04X} 0+:0000 {state}")
    name = os.path.basename(str(server.args[0]))  # type: ignore[index]  # noqa: PTH119 - a name
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        tables = [_text(path), _text(path + "6")]
        if any(wanted.search(table) for table in tables):
            return
        if server.poll() is not None:
            raise OSError(f"{name}: the server ended with status {server.returncode} before listening")
        time.sleep(0.01)
    raise OSError(f"{name}: the server did not listen within {TIMEOUT_S:.0f} s")


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii") as table:  # noqa: PTH123 - read at once, a few lines
            return table.read()
    except OSError:
        return ""


@cache
def _version(program: str, option: str, pattern: str, name: str) -> str | None:
    try:
        out, err, _ = programs.run_program([program, option], 10)
    except OSError:
        return None
    found = re.search(pattern, out + err)
    return f"{name} {found[1]}" if found else None
