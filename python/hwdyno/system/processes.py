"""Finds a process's descendants, also those that outlived it, as Linux lists them in ``/proc``."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_MARK = "HWDYNO_PROCESS"
SILENT = {
    "ORT_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
"""What the environment of every engine and peer has, so that none reports its use to its makers.

ONNX Runtime, from its wheels for Linux of 2026 on, sends events unless the first is set before it is loaded (its
Privacy.md); the others are named in the documentation of huggingface_hub and vLLM.
"""
_STARTED = 19
"""The place of ``starttime`` among the fields of ``read_stat`` (proc(5))."""


def read_stat(pid: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` from the state on (proc(5)); empty if the process has ended."""
    try:
        # Plain calls: a process that leaves within a second reads this of each process on the machine.
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
    except OSError:
        return []
    return text.rpartition(b")")[2].decode("ascii", "replace").split()


def age_s() -> float:
    """Seconds since this process was started; 0 where the system does not say."""
    fields = read_stat(os.getpid())
    if len(fields) <= _STARTED:
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK"))


def family(pid: int) -> list[int]:
    """A process and its descendants, parents first; the process alone where there is no ``/proc``."""
    children: dict[int, list[int]] = {}
    try:
        entries = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        entries = []
    for entry in entries:
        if fields := read_stat(entry):
            children.setdefault(int(fields[1]), []).append(entry)
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


def is_group_alive(group: int) -> bool:
    """Whether a process of the process group ``group`` still runs; one that only waits to be reaped does not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    with os.scandir("/proc") as entries:
        fields = [read_stat(int(entry.name)) for entry in entries if entry.name.isdigit()]
    return any(found[2] == str(group) and found[0] not in "ZX" for found in fields if found)


def mark_children() -> None:
    """Let all children inherit whose they are: process, start and PID namespace, so that no other one is meant."""
    fields = read_stat(os.getpid())
    if namespace := pid_namespace():
        os.environ[_MARK] = f"{namespace}.{os.getpid()}.{fields[_STARTED]}"


def end_orphans() -> None:
    """Kill what is left of processes that marked their children and were killed, in this PID namespace."""
    namespace, wanted = pid_namespace(), f"\0{_MARK}=".encode()
    for entry in Path("/proc").iterdir() if namespace else ():
        with contextlib.suppress(OSError, ValueError):  # Another user's, or ended meanwhile.
            pid = int(entry.name)
            _, found, tail = (b"\0" + (entry / "environ").read_bytes()).partition(wanted)
            if found and pid != os.getpid():
                of, parent, started = tail.partition(b"\0")[0].decode().split(".")
                is_alive = read_stat(int(parent))[_STARTED : _STARTED + 1] == [started]
                if of == namespace and not is_alive:
                    os.kill(pid, signal.SIGKILL)


def pid_namespace() -> str:
    """The number of this process's PID namespace; empty where there is no ``/proc``."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""
