"""A second node for the network's questions: a named one, or a temporary network namespace of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
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
# Of the block that RFC 2544 sets aside for benchmarks between two networks.
NEAR, FAR, BITS = "198.18.67.1", "198.18.67.2", 30
START_S = 10.0


@contextlib.contextmanager
def second_node(server: str | None, *, dry_run: bool = False) -> Iterator[tuple[str, int] | None]:
    """Address of the second node's server; none if none was named and this process may not create a namespace.

    Raises ``UserError`` for a server that is not an address with a port.
    """
    place = find_server(server)
    if server or dry_run or place is None:
        yield place if server else None
        return
    tag = f"hwdyno{os.getpid()}"
    with contextlib.ExitStack() as stack, signals.at_leave(signals.Stage.REMOVE, partial(_remove_namespace, tag)):
        process = None
        if _build_namespace(tag):
            stack.callback(_remove_namespace, tag)
            process = _serving(tag)
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
    return (FAR, PORT) if os.geteuid() == 0 and shutil.which("ip") else None


@dataclass(frozen=True, kw_only=True, eq=False)
class SecondNode(Preparation):
    """A network namespace of this machine behind a veth, with a server in it."""

    where: Path = Path("/run/netns")
    description: str = f"second node: a network namespace behind a veth, with a server at {FAR} (created and removed)"
    compute_s: float = 1.0

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The namespace and its server, where this process may make them."""
        with second_node(None) as place:
            if place is not None:
                says(f"two nodes: the second one is a network namespace behind a veth ({FAR})")
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


def _build_namespace(tag: str) -> bool:
    near, far = f"hn{os.getpid()}", f"hf{os.getpid()}"
    if not _do("ip", "netns", "add", tag):
        return False
    built = (
        _do("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", tag)
        and _do("ip", "addr", "add", f"{NEAR}/{BITS}", "dev", near)
        and _do("ip", "link", "set", near, "up")
        and _do("ip", "-n", tag, "addr", "add", f"{FAR}/{BITS}", "dev", far)
        and _do("ip", "-n", tag, "link", "set", far, "up")
        and _do("ip", "-n", tag, "link", "set", "lo", "up")
    )
    if not built:
        _remove_namespace(tag)
    return built


def _remove_namespace(tag: str) -> None:
    # The veth goes with the namespace that holds its other end.
    _do("ip", "netns", "del", tag)


def _serving(tag: str) -> subprocess.Popen[bytes] | None:
    """The server in the namespace, once it listens."""
    command = ["ip", "netns", "exec", tag, sys.executable, "-m", "hwdyno", "network", "server"]
    process = subprocess.Popen(
        [*command, "--bind", FAR, "--port", str(PORT), "--parallel-clients"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wanted = f":{PORT:04X} 00000000:0000 0A"
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        table = subprocess.run(
            ["ip", "netns", "exec", tag, "cat", "/proc/net/tcp"], capture_output=True, text=True, check=False
        )
        if wanted in table.stdout:
            return process
        time.sleep(0.05)
    _end_process(process)
    return None


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
