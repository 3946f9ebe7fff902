"""A second node for the network's questions: one that was named, or a namespace of this machine for the time."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

from hwdyno.words import UserError

PORT = 5201
# Of the block that RFC 2544 sets aside for benchmarks between two networks.
NEAR, FAR, BITS = "198.18.67.1", "198.18.67.2", 30
START_S = 10.0


@contextlib.contextmanager
def second_node(server: str | None, *, dry_run: bool = False) -> Iterator[tuple[str, int] | None]:
    """Where a second node's server is; none where nobody named one and this process may not make a namespace.

    Raises ``UserError`` for a server that is no address with a port.
    """
    if server:
        yield _place(server)
        return
    if dry_run or os.geteuid() != 0 or not shutil.which("ip"):
        yield None
        return
    tag = f"hwdyno{os.getpid()}"
    with contextlib.ExitStack() as stack:
        process = None
        if _built(tag):
            stack.callback(_removed, tag)
            process = _serving(tag)
        if process is None:
            yield None
            return
        stack.callback(_ended, process)
        sys.stderr.write(f"two nodes: a network namespace behind a veth stands for the other ({FAR})\n")
        yield FAR, PORT


def _place(server: str) -> tuple[str, int]:
    host, separator, port = server.rpartition(":")
    if not separator or "]" in port or (host.count(":") > 1 and not host.startswith("[")):
        return server.strip("[]"), PORT
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"--server {server}: give an address, or an address and a port such as 192.0.2.7:5201")
    return host.strip("[]"), int(port)


def _do(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0


def _built(tag: str) -> bool:
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
        _removed(tag)
    return built


def _removed(tag: str) -> None:
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
    _ended(process)
    return None


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
