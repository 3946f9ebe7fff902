"""Object stores for tests: the engine's null server in this process, and a real one, versitygw, where it is built."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from here import not_packaged
from hwdyno.measure import engine
from hwdyno.measure.engine import Stop

VERSION = "v1.8.0"
CERTIFICATES = Path(__file__).parents[1] / "crates/engine/tests/certificates"
"""One for 127.0.0.1, one that has expired, and the authority that signed them."""
ACCESS_KEY, SECRET_KEY = "AKIDHWDYNO", "correcthorsebatterystaple"


def _find_versitygw() -> str:
    """The program, by the environment, on the path, or where ``.ci/run`` builds it; empty where it is not there."""
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"hwdyno-ci/versitygw-{VERSION}/versitygw"
    )
    built = str(cache) if cache.is_file() else ""
    return os.environ.get("HWDYNO_VERSITYGW") or shutil.which("versitygw") or built


PROGRAM = _find_versitygw()
"""It is found before a test has another home."""


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
def versitygw(folder: Path, *options: str) -> Iterator[str]:
    """The URL of a real store, whose buckets are the folders below ``folder``; by TLS where the options say so."""
    if not PROGRAM:
        not_packaged(
            f"no versitygw (go install github.com/versity/versitygw/cmd/versitygw@{VERSION}, HWDYNO_VERSITYGW)"
        )
    port = free_port()
    keys = {"ROOT_ACCESS_KEY_ID": ACCESS_KEY, "ROOT_SECRET_ACCESS_KEY": SECRET_KEY}
    store = subprocess.Popen(
        [PROGRAM, "--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet", *options, "posix", str(folder)],
        env={**os.environ, **keys}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(port)
        yield f"{'https' if '--cert' in options else 'http'}://127.0.0.1:{port}"
    finally:
        store.kill()
        store.wait()
