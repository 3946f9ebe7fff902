"""Programs that wait at a port: how a test starts them and waits for them."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "python")}
HWDYNO = [sys.executable, "-m", "hwdyno"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, *inside: str, state: str = "0A", least: int = 1) -> None:
    """Wait until someone listens at a port (0A), or it has this many connections (01), by the kernel's table."""
    for _ in range(1500):
        table = subprocess.run(
            [*inside, "cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True, text=True, check=False
        ).stdout
        if len(re.findall(rf"\d: [0-9A-F]+:{port:04X} [0-9A-F]+:[0-9A-F]{{4}} {state}", table)) >= least:
            return
        time.sleep(0.02)
    raise AssertionError(f"nothing listens at {port}")


@contextlib.contextmanager
def running(*command: str, port: int, inside: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*inside, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)
    try:
        wait_for(port, *inside)
        yield process
    finally:
        process.kill()
        process.communicate()
