"""Runs a peer's program to its end, shielded from Ctrl-C, and never leaves it running."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


def output(command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> str:
    """The program's stdout. Raises ``OSError`` in one line if it cannot be started, fails or does not end."""
    out, err, status = finished(command, timeout_s, environment)
    if status:
        name = command[0].rpartition("/")[2]
        complaint = next((line.strip() for line in [*err.splitlines(), *out.splitlines()] if line.strip()), "no word")
        raise OSError(f"{name} failed with status {status}: {complaint[:200]}")
    return out


def finished(
    command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> tuple[str, str, int]:
    """The program's stdout, stderr and exit status; if this process is stopped, the program and its children are too.

    Raises ``OSError`` in one line if it cannot be started, and ``TimeoutError`` if it does not end.
    """
    name = command[0].rpartition("/")[2]
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env=None if environment is None else {**os.environ, **environment},
        )
    except OSError as error:
        raise OSError(f"{name} cannot be started: {error.strerror}") from None
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{name} had not ended after {timeout_s:.0f} s, so it was killed") from None
    finally:
        if process.poll() is None:
            end(process)
            process.communicate()
    return out, err, process.returncode


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a program that leads a session, with all its children, and wait for it."""
    # It has ended already, with its children.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def cpu_s() -> float:
    """CPU time of all ended child processes so far, s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
