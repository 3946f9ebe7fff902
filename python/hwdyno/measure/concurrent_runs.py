"""Lets Runs on one machine notice each other, by names that end with their processes and leave no file.

While a Run measures, its process has a Unix socket bound to an abstract name (unix(7)), and ``/proc/net/unix`` lists
those of all users and containers that share the network namespace. No one can connect to it. Anyone may bind such a
name, so it causes no more than a warning.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from hwdyno.system.processes import pid_namespace

NAME = "hwdyno-measuring"
"""Each name is this, the process's PID namespace and its PID in there."""


@contextlib.contextmanager
def announce_run() -> Iterator[None]:
    """Let other Runs see that this process measures; without effect where the system has no such names."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, AttributeError):  # Bound by a run around this one, or not Linux.
            mark = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            mark.bind(f"\0{NAME}.{pid_namespace()}.{os.getpid()}")
        yield


def other_runs(root: Path = Path("/")) -> frozenset[tuple[str, int]] | None:
    """The other processes that measure now: PID namespace and PID; none where the system does not list them."""
    try:
        listed = (root / "proc/net/unix").read_bytes()
    except OSError:
        return None
    found = re.findall(rb" @%s\.(\d{1,20})\.(\d{1,10})$" % NAME.encode(), listed, re.MULTILINE)
    return frozenset((space.decode(), int(pid)) for space, pid in found) - {(pid_namespace(), os.getpid())}


def name_runs(runs: frozenset[tuple[str, int]]) -> str:
    """Their PIDs as this process sees them: ``pid 7``, ``pids 7, 9 and 1 in another container``."""
    here = sorted(pid for space, pid in runs if space == pid_namespace())
    parts = [f"{'pid' if len(here) == 1 else 'pids'} {', '.join(map(str, here))}"] if here else []
    if elsewhere := len(runs) - len(here):
        parts.append(f"{elsewhere} in another container")
    return " and ".join(parts)
