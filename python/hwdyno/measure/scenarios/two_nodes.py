"""A second node for the network's questions: a named one, or a temporary network namespace of this machine."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hwdyno.measure.hosts import Host
from hwdyno.measure.scenarios.preparation import Preparation, Says
from hwdyno.model.words import UserError
from hwdyno.system import signals

PORT = 5201
# RFC 2544 sets this block aside for benchmarks between two networks. Each process takes another four addresses of it,
# so that two at a time do not measure each other's server.
BLOCK, BITS = ipaddress.ip_network("198.18.0.0/15"), 30
START_S = 10.0


@dataclass(frozen=True)
class NodePair:
    """The names and addresses of this process's two nodes."""

    pid: int

    @classmethod
    def of_process(cls) -> NodePair:
        """The same at each call in a process, and others in the next one."""
        return cls(os.getpid())

    @property
    def number(self) -> int:
        """Which four addresses of the block."""
        return self.pid % (BLOCK.num_addresses >> (32 - BITS))

    @property
    def namespace(self) -> str:
        """Name of the second node's network namespace."""
        return f"hwdyno{self.pid}"

    @property
    def links(self) -> tuple[str, str]:
        """Names of the veth's ends, here and there; the kernel has each once, and so the addresses."""
        return f"hn{self.number}", f"hf{self.number}"

    @property
    def addresses(self) -> tuple[str, str]:
        """The addresses here and there."""
        first = BLOCK[self.number << (32 - BITS)]
        return str(first + 1), str(first + 2)


@contextlib.contextmanager
def second_node(server: str | None, *, dry_run: bool = False) -> Iterator[tuple[str, int] | None]:
    """Address of the second node's server; none if none was named and this process may not create a namespace.

    Raises ``UserError`` for a server that is not an address with a port.
    """
    place = find_server(server)
    if server or dry_run or place is None:
        yield place if server else None
        return
    pair = NodePair.of_process()
    remove = partial(_remove_namespace, pair)
    with contextlib.ExitStack() as stack, signals.at_leave(signals.Stage.REMOVE, remove):
        process = None
        if _build_namespace(pair):
            stack.callback(remove)
            process = _serving(pair)
        if process is None:
            yield None
            return
        stack.callback(_end_process, process)
        yield place


def find_server(server: str | None) -> tuple[str, int] | None:
    """Where the second node's server is, or will be; none where there can be none.

    Raises ``UserError`` for a server that is not an address with a port.
    """
    if server:
        return _address(server)
    return (NodePair.of_process().addresses[1], PORT) if os.geteuid() == 0 and shutil.which("ip") else None


@dataclass(frozen=True, kw_only=True, eq=False)
class SecondNode(Preparation):
    """A network namespace of this machine behind a veth, with a server in it."""

    where: Path = Path("/run/netns")
    description: str = "second node: a network namespace behind a veth, with a server (created and removed)"
    compute_s: float = 1.0

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The namespace and its server, where this process may make them."""
        with second_node(None) as place:
            if place is not None:
                says(f"two nodes: the second one is a network namespace behind a veth ({place[0]})")
            yield place is not None


def check_listens(bind: str, port: int) -> None:
    """Bind an address for a moment, so that what cannot be served is refused in one line."""
    try:
        family, *_, place = socket.getaddrinfo(
            bind.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
    except (OSError, UnicodeError):
        raise UserError(f"--bind {bind}: use an address of this machine, such as 127.0.0.1 or 0.0.0.0") from None
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place)
        except OSError as error:
            hint = "another port" if error.errno == errno.EADDRINUSE else "an address of this machine, or 0.0.0.0"
            raise UserError(f"{bind} port {port} cannot be served: {error.strerror}; use {hint}") from None


def _address(server: str) -> tuple[str, int]:
    host, separator, port = server.rpartition(":")
    if not separator or "]" in port or (host.count(":") > 1 and not host.startswith("[")):
        return server.strip("[]"), PORT
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise UserError(f"--server {server}: use an address, or address and port such as 192.0.2.7:5201")
    return host.strip("[]"), int(port)


def _do(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0


def _build_namespace(pair: NodePair) -> bool:
    (near, far), (here, there) = pair.links, pair.addresses
    _remove_abandoned()
    if not _do("ip", "netns", "add", pair.namespace):
        return False
    built = (
        _do("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", pair.namespace)
        and _do("ip", "addr", "add", f"{here}/{BITS}", "dev", near)
        and _do("ip", "link", "set", near, "up")
        and _do("ip", "-n", pair.namespace, "addr", "add", f"{there}/{BITS}", "dev", far)
        and _do("ip", "-n", pair.namespace, "link", "set", far, "up")
        and _do("ip", "-n", pair.namespace, "link", "set", "lo", "up")
    )
    if not built:
        _remove_namespace(pair)
    return built


def _remove_abandoned() -> None:
    """Remove what a killed process left: its namespace and the server in it."""
    with contextlib.suppress(OSError):
        for entry in Path("/run/netns").iterdir():
            named = re.fullmatch(r"hwdyno([0-9]{1,10})", entry.name)
            if named is None or Path("/proc", named[1]).exists():
                continue
            inside = subprocess.run(["ip", "netns", "pids", entry.name], capture_output=True, text=True, check=False)
            for pid in inside.stdout.split():
                os.kill(int(pid), signal.SIGKILL)
            _do("ip", "netns", "del", entry.name)


def _remove_namespace(pair: NodePair) -> None:
    # The veth goes with the namespace that holds its other end.
    _do("ip", "netns", "del", pair.namespace)


def _serving(pair: NodePair) -> subprocess.Popen[bytes] | None:
    """The server in the namespace, once it listens."""
    inside = ("ip", "netns", "exec", pair.namespace)
    command = (sys.executable, "-m", "hwdyno", "network", "server")
    process = subprocess.Popen(
        [*inside, *command, "--bind", pair.addresses[1], "--port", str(PORT), "--parallel-clients"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wanted = f":{PORT:04X} 00000000:0000 0A"
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        table = subprocess.run([*inside, "cat", "/proc/net/tcp"], capture_output=True, text=True, check=False)
        if wanted in table.stdout:
            return process
        time.sleep(0.05)
    _end_process(process)
    return None


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
