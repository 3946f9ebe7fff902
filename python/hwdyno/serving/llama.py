"""llama.cpp's server of xllamacpp in a process of its own: the same HTTP server as ``llama-server``."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hwdyno.words import UserError

START_S = 300.0
"""A large model is read for so long at most."""
LOOPBACK = "127.0.0.1"
_LAST_BYTES = 4096


def check() -> None:
    """Raise ``UserError`` where llama.cpp is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise UserError("--serve needs llama.cpp: pip install xllamacpp; or start any server, and name it by --server")


@dataclass(frozen=True, eq=False)
class Started:
    """A server for a file."""

    model: Path
    slots: int
    threads: int
    """0 for half of the processors: the client and the system need some too."""
    context: int
    """Tokens in each slot."""

    @cached_property
    def port(self) -> int:
        """A free port of the loopback."""
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            return int(probe.getsockname()[1])

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{LOOPBACK}:{self.port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """It answers inside of the context. Raises ``UserError`` where it does not."""
        threads = self.threads or max(1, (os.cpu_count() or 1) // 2)
        numbers = [str(one) for one in (self.port, self.slots, threads, self.context)]
        # By the name of this module, so that nothing but this file is what runs there.
        command = [sys.executable, "-m", __name__, str(self.model), *numbers]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        ) as server:
            try:
                self._wait(server)
                yield
            finally:
                server.kill()

    def _wait(self, server: subprocess.Popen[bytes]) -> None:
        """Until the server listens, which it does when the model is loaded."""
        assert server.stderr is not None
        os.set_blocking(server.stderr.fileno(), False)
        until, complaint = time.monotonic() + START_S, b""
        while time.monotonic() < until:
            complaint = (complaint + (server.stderr.read() or b""))[-_LAST_BYTES:]
            if server.poll() is not None:
                lines = complaint.decode(errors="replace").strip().splitlines()
                raise UserError(f"llama.cpp cannot serve {self.model}: {lines[-1] if lines else 'it ended'}")
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), 1.0):
                return
            time.sleep(0.05)
        raise UserError(f"llama.cpp does not serve {self.model} after {START_S:.0f} s")


def main(arguments: Sequence[str]) -> None:
    """Serve until killed: the file, the port, the slots, the threads, and the context of a slot."""
    import xllamacpp

    model, port, slots, threads, context = arguments
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.hostnames = [LOOPBACK]
    settings.port, settings.n_parallel = int(port), int(slots)
    settings.n_ctx = int(context) * int(slots)
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int(threads)
    settings.n_gpu_layers = 0
    server = xllamacpp.Server(settings)
    # Its messages are read until it listens; after that nobody waits for them.
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    while server is not None:
        time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1:])
