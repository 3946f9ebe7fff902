"""Commands in processes that have imported hwdyno before: a start costs a fork, and the process is new as any other.

A parent without threads waits for a test's words, forks, and the child runs ``hwdyno.__main__`` with the test's
environment, directory and streams. The modules of ``hwdyno`` that a child imported are then imported by the parent.
What a start itself does (its imports, its signals, a lost stream), tests look at in other processes.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

PYTHON = Path(__file__).parents[1] / "python"
HEAVY = {"numpy", "onnxruntime", "torch"}
"""They start threads, without which a parent must be."""
MAX_BYTES = 1 << 17
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PYTHON)}
"""A parent's, without what a test sets and then looks for in all processes."""


class Parent:
    """A process that forks a command's, and waits for it."""

    def __init__(self, libraries: str) -> None:
        """``libraries`` are folders that the dynamic linker looks in first: it knows those of its start alone."""
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**ENVIRONMENT, "LD_LIBRARY_PATH": libraries} if libraries else ENVIRONMENT
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], env=environment, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        atexit.register(self.end)

    def end(self) -> None:
        """End it: its channel ends."""
        self.channel.close()
        self.process.wait()

    def perform(self, task: Mapping[str, object], streams: list[int], timeout_s: float) -> int:
        """The exit status of a command, which is killed at its timeout and at that of its test."""
        socket.send_fds(self.channel, [json.dumps(task).encode()], streams)
        child = int(self.channel.recv(MAX_BYTES))
        self.channel.settimeout(timeout_s)
        try:
            return int(self.channel.recv(MAX_BYTES))
        except BaseException:
            os.kill(child, signal.SIGKILL)
            self.channel.settimeout(None)
            self.channel.recv(MAX_BYTES)
            raise
        finally:
            self.channel.settimeout(None)


find_parent = cache(Parent)


def run(
    words: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout_s: float = 240.0
) -> subprocess.CompletedProcess[str]:
    """``python -m hwdyno WORDS`` to its end, with what it printed."""
    environment = dict(os.environ if env is None else env)
    task = {"words": [str(word) for word in words], "environment": environment, "folder": str(cwd or Path.cwd())}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open() as nothing:
        streams = [nothing.fileno(), out.fileno(), err.fileno()]
        status = find_parent(environment.get("LD_LIBRARY_PATH", "")).perform(task, streams, timeout_s)
        printed = []
        for stream in (out, err):
            stream.seek(0)
            printed.append(stream.read().decode())
    return subprocess.CompletedProcess(list(words), status, *printed)


def _import_from(listed: bytes) -> None:
    for name in json.loads(listed):
        importlib.import_module(name)
    gc.freeze()


def _child_task(channel: socket.socket) -> tuple[list[str], int]:
    """The words of a task, in a new child, which may write the names of its modules to a pipe."""
    while True:
        message, streams, *_ = socket.recv_fds(channel, MAX_BYTES, 3)
        if not message:
            sys.exit()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            channel.close()
            os.close(reading)
            task = json.loads(message)
            for at, stream in enumerate(streams):
                os.dup2(stream, at)
                os.close(stream)
            os.environ.clear()
            os.environ.update(task["environment"])
            os.chdir(task["folder"])
            return task["words"], writing
        for stream in (*streams, writing):
            os.close(stream)
        channel.send(b"%d" % child)
        with os.fdopen(reading, "rb") as pipe:
            listed = pipe.read()
        _, status = os.waitpid(child, 0)
        channel.send(b"%d" % os.waitstatus_to_exitcode(status))
        if listed:
            _import_from(listed)


def main(number: str) -> int:
    """Fork a child for each task; a child gives the status of its command."""
    from hwdyno import __main__ as program

    gc.freeze()
    words, writing = _child_task(socket.socket(fileno=int(number)))
    before = {*sys.modules}
    sys.argv = [str(program.__file__), *words]
    try:
        return program.main()
    finally:
        if not HEAVY & {*sys.modules}:
            new = [name for name in {*sys.modules} - before if name.startswith("hwdyno.")]
            os.write(writing, json.dumps(new).encode())
        os.close(writing)


if __name__ == "__main__":
    sys.path[0] = str(PYTHON)
    sys.exit(main(sys.argv[1]))
