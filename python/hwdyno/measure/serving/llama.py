"""llama.cpp's server of xllamacpp in a separate process: the same HTTP server as ``llama-server``."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

from hwdyno.model.words import UserError
from hwdyno.system import loopback

START_S = 300.0
"""A large model is read for so long at most."""
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
        return loopback.free_port()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{loopback.in_url()}:{self.port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """It answers inside of the context. Raises ``UserError`` where it does not."""
        threads = self.threads or max(1, (os.cpu_count() or 1) // 2)
        numbers = [str(number) for number in (self.port, self.slots, threads, self.context)]
        # By the name of this module, so that nothing but this file is what runs there.
        command = [sys.executable, "-m", __name__, str(self.model), *numbers]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        ) as server:
            messages = _Messages(server.stderr)
            try:
                self._wait(server, messages)
                yield
            finally:
                server.kill()
                messages.join()

    def _wait(self, server: subprocess.Popen[bytes], messages: _Messages) -> None:
        """Wait until the server is ready: it listens before the model is loaded, and ends where it cannot be."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if server.poll() is not None:
                messages.join(1.0)
                lines = messages.last.decode(errors="replace").strip().splitlines()
                raise UserError(f"llama.cpp cannot serve {self.model}: {lines[-1] if lines else 'it ended'}")
            if _is_well(self.port):
                return
            time.sleep(0.05)
        raise UserError(f"llama.cpp does not serve {self.model} after {START_S:.0f} s")


def _is_well(port: int) -> bool:
    """Whether the server answers its ``/health`` with status 200; 503 while it loads the model."""
    with contextlib.suppress(OSError), socket.create_connection((loopback.address(), port), 1.0) as sock:
        sock.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        return sock.recv(64).split(b" ")[1:2] == [b"200"]
    return False


class _Messages(threading.Thread):
    """Reads what the server prints, so that it never waits for a reader, and keeps the end of it."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self.last = b""
        self.start()

    def run(self) -> None:
        """Read until the server is gone."""
        while self._pipe is not None and (data := self._pipe.read1(1 << 16)):  # type: ignore[attr-defined]
            self.last = (self.last + data)[-_LAST_BYTES:]


def _leave_with_the_input() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main(arguments: Sequence[str]) -> None:
    """Serve until killed, or until the input ends: file, port, slots, threads, and the context of a slot."""
    # Its input ends with hwdyno, however that ends.
    threading.Thread(target=_leave_with_the_input, daemon=True).start()
    import xllamacpp

    model, port, slots, threads, context = arguments
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.hostnames = [loopback.address()]
    settings.port, settings.n_parallel = int(port), int(slots)
    settings.n_ctx = int(context) * int(slots)
    settings.endpoint_metrics = True
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int(threads)
    settings.n_gpu_layers = 0
    server = xllamacpp.Server(settings)
    while server is not None:
        time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1:])
