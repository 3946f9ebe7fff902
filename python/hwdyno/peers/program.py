"""Runs a peer's program to its end, away from the terminal's Ctrl-C, and never leaves it behind."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


def output(command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> str:
    """What it printed. Raises ``OSError`` in one line where it cannot be started, fails or does not end."""
    out, err, status = finished(command, timeout_s, environment)
    if status:
        name = command[0].rpartition("/")[2]
        said = next((line.strip() for line in [*err.splitlines(), *out.splitlines()] if line.strip()), "no word")
        raise OSError(f"{name} failed with status {status}: {said[:200]}")
    return out


def finished(
    command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> tuple[str, str, int]:
    """What it printed, what it complained of, and its status; whatever ends us ends it, with all its children.

    Raises ``OSError`` in one line where it cannot be started, and ``TimeoutError`` where it does not end.
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
    """End a program that was started as the first of its session, with all its children, and wait for it."""
    # Gone already, with all of its own.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def cpu_s() -> float:
    """CPU time of all programs that were waited for so far, s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
