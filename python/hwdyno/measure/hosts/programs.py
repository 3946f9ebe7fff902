"""Reference tools as child processes of this machine: found, run to their end within bounds, and never left running."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from hwdyno.measure.hosts.reference_tools import Outcome, Program
from hwdyno.model.words import UserError
from hwdyno.system import processes, signals

MAX_OUTPUT = 8 << 20
"""Most of what a program may print to either of its outputs, bytes; an agent has the same limit."""
_END_S = 5.0
"""Longest wait for the children of a killed program, s."""


def find_program(program: Program) -> str | None:
    """The program's file; none if it is not installed. ``HWDYNO_<TOOL>`` may name it."""
    named = os.environ.get(program.variable)
    return shutil.which(named) if named else next(filter(None, map(shutil.which, program.names)), None)


def execute(program: Program) -> Outcome:
    """Run a program once on this machine; see ``Programs.execute`` for what it raises."""
    found = find_program(program)
    if found is None:
        raise FileNotFoundError(f"{program.tool} is not installed; install it or set {program.variable} to its path")
    for name, least in program.files.items():
        path = Path(name)
        if not path.is_file():
            raise UserError(f"{path} is not a regular file; {program.tool} runs on the data file only")
        if (size := path.stat().st_size) < least:
            raise UserError(
                f"{path} has {size} bytes but the point needs {least}; {program.tool} would extend the file"
            )
    before = cpu_s()
    out, err, status = run_program([found, *program.arguments], program.timeout_s, program.environment)
    return Outcome(status, out, err, cpu_s() - before)


def run_program(
    command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> tuple[str, str, int]:
    """A command's stdout, stderr and exit status; if this process is stopped, the program and its children are too.

    It is shielded from Ctrl-C. Raises ``OSError`` in one line if it cannot be started or prints too much, and
    ``TimeoutError`` if it does not end.
    """
    name = command[0].rpartition("/")[2]
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **(environment or {}), **processes.SILENT},
        )
    except OSError as error:
        raise OSError(f"{name} cannot be started: {error.strerror}") from None
    outputs = [_Output(pipe, process) for pipe in (process.stdout, process.stderr) if pipe is not None]
    end_s = time.monotonic() + timeout_s
    try:
        with signals.halting(lambda: end(process)):
            process.wait(timeout_s)
        for output in outputs:
            output.join(max(0.0, end_s - time.monotonic()))
        if any(output.is_alive() for output in outputs):
            raise subprocess.TimeoutExpired(name, timeout_s)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{name} was killed after {timeout_s:.0f} s") from None
    finally:
        if process.poll() is None or any(output.is_alive() for output in outputs):
            end(process)
        for output in outputs:
            output.join()
    if any(output.is_too_long for output in outputs):
        raise OSError(f"{name} printed more than {MAX_OUTPUT >> 20} MiB, so it was killed")
    out, err = (output.text for output in outputs)
    return out, err, process.returncode


class _Output(threading.Thread):
    """Reads one of a program's pipes; one that holds too much ends the program."""

    def __init__(self, pipe: IO[bytes], process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe, self._process = pipe, process
        self.text = ""
        self.is_too_long = False
        self.start()

    def run(self) -> None:
        """Read until the end of the pipe."""
        with self._pipe:
            found = self._pipe.read(MAX_OUTPUT + 1)
            self.is_too_long = len(found) > MAX_OUTPUT
            if self.is_too_long:
                _kill_all(self._process)
        self.text = found.decode(errors="replace")


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a program that leads a session, with all its children, and wait for all of them."""
    _kill_all(process)
    process.wait()
    # A killed child keeps its ports and files until the kernel has freed its memory.
    until = time.monotonic() + _END_S
    while processes.is_group_alive(process.pid) and time.monotonic() < until:
        time.sleep(0.002)


def _kill_all(process: subprocess.Popen[Any]) -> None:
    # It may have ended already, with its children.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def cpu_s() -> float:
    """CPU time of all ended child processes so far, s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
