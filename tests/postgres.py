"""A real PostgreSQL server for tests, in a folder that is removed with it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

USER, PASSWORD = "team", "correct horse"


@dataclass(frozen=True)
class PostgresServer:
    folder: Path
    port: int
    password: str = PASSWORD

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self.password.replace(' ', '%20')}@127.0.0.1:{self.port}/postgres"

    def with_password(self, password: str) -> PostgresServer:
        return replace(self, password=password)

    def stop(self) -> None:
        _as_user([_program("pg_ctl"), "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop"], check=False)

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder} -F"
        log = str(self.folder / "log")
        _as_user([_program("pg_ctl"), "-D", str(self.folder / "data"), "-l", log, "-o", options, "-w", "start"])


def is_here() -> bool:
    return bool(_program("initdb")) and (os.geteuid() != 0 or shutil.which("setpriv") is not None)


def _program(name: str) -> str:
    """PostgreSQL's programs are outside of the path on Debian."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name) or ""


def _as_user(command: list[str], check: bool = True) -> None:
    """PostgreSQL refuses to run as root, so root lends it another user."""
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        command = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=120)
    assert done.returncode == 0 or not check, done.stderr + done.stdout


@contextmanager
def running() -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="hwdyno-pg-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = PostgresServer(folder, free.getsockname()[1])
    try:
        (folder / "password").write_text(f"{PASSWORD}\n")
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            for path in (folder, folder / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        _as_user(
            [
                *(_program("initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "scram-sha-256", "-N"),
                *("--pwfile", str(folder / "password"), "-E", "UTF8", "--locale=C"),
            ]
        )
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
