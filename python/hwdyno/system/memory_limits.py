"""The limits of this process's memory (``ulimit -v``, ``ulimit -d``), and what libraries need of it.

A library of native code may do anything where memory is refused to it: OpenBLAS raises SIGINT, ends the
process or tries for ever. So a large one is not imported where the limit leaves too little.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

MIB = 1 << 20
THREAD_BYTES = 48 * MIB
"""Address space of each thread of OpenBLAS: a buffer of 32 MiB, a stack and a part of an arena."""
MAX_THREADS = 64
"""Threads of the OpenBLAS in the wheels of NumPy and SciPy at most."""


class LibraryNeeds(NamedTuple):
    """What a library takes when it is imported and first used: address space, and memory that it touches, in bytes.

    Measured on Linux x86-64 as the growth of VmPeak and VmRSS.
    """

    address_space: int
    resident: int
    has_threads: bool = False
    """Whether each of its threads takes more."""


LIBRARIES = {
    "numpy": LibraryNeeds(128 * MIB, 16 * MIB, has_threads=True),
    "scipy": LibraryNeeds(128 * MIB, 32 * MIB, has_threads=True),
    "pyarrow": LibraryNeeds(256 * MIB, 48 * MIB),
    "vl_convert": LibraryNeeds(320 * MIB, 48 * MIB),
    "onnxruntime": LibraryNeeds(256 * MIB, 40 * MIB),
}
NO_LIMIT_BYTES = 1 << 60
"""A control group of version 1 without a limit has nearly 2^63."""
_FIELDS = ((resource.RLIMIT_AS, "VmSize", "-v"), (resource.RLIMIT_DATA, "VmData", "-d"))
_NO_THREAD = "can't start new thread"
_REFUSALS = ("failed to map segment", "cannot allocate memory", "bad_alloc", _NO_THREAD)
"""What libraries and Python say where memory is refused, and no type of an exception does."""


class MemoryLimit(NamedTuple):
    """A limit of this process: the shell's option, its bytes, and those in use."""

    option: str
    total: int
    used: int

    @property
    def left(self) -> int:
        """Bytes that are left."""
        return max(0, self.total - self.used)

    def __str__(self) -> str:
        return (
            f"`ulimit {self.option}` allows this process {self.total // MIB} MiB of memory, of which "
            f"{self.used // MIB} MiB are in use; raise it"
        )


def find_limit() -> MemoryLimit | None:
    """The limit that leaves the least; none where there is none."""
    bounded = [(field, option, resource.getrlimit(kind)[0]) for kind, field, option in _FIELDS]
    bounded = [limit for limit in bounded if limit[2] != resource.RLIM_INFINITY]
    if not bounded:
        return None
    try:
        status = Path("/proc/self/status").read_text()
    except (OSError, MemoryError):
        return None
    found = [
        MemoryLimit(option, total, int(used[1]) << 10)
        for field, option, total in bounded
        if (used := re.search(rf"^{field}:\s*(\d+) kB$", status, re.MULTILINE))
    ]
    return min(found, key=lambda limit: limit.left, default=None)


def explain_refusal(error: BaseException) -> str | None:
    """One line on an error that a lack of memory caused, with the limit where there is one; none for another error."""
    says = " ".join(str(error.strerror or error if isinstance(error, OSError) else error).split())
    is_refused = (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, ImportError | OSError | RuntimeError) and any(part in says.lower() for part in _REFUSALS))
    )
    if not is_refused:
        return None
    error.__traceback__ = None  # Its frames keep what they allocated, and this line needs memory, too.
    if says.startswith("out of memory"):
        return says
    limit = find_limit()
    if _NO_THREAD in says:
        why = f"{limit}, or allow more" if limit else "allow more"
        return f"no thread can be started: {why} threads (`ulimit -u`, pids.max of the control group)"
    if limit is None or "ulimit" in says:
        return f"out of memory: {says}" if says else "out of memory"
    return f"out of memory: {says or 'an allocation was refused'}; {limit}"


class _Gate:
    """Refuses the import of a library for which the limit leaves too little; one of ``sys.meta_path``."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Nothing, so that the next one finds the module; raises ``MemoryError``."""
        if name in LIBRARIES:
            # SciPy's modules import NumPy first.
            needs = [LIBRARIES[part] for part in {name, "numpy"} if part == name or not _has_numpy(name)]
            check_room(
                sum(part.address_space for part in needs),
                name,
                _count_threads() * sum(part.has_threads for part in needs),
            )
            left, resident = control_group_left(), sum(part.resident for part in needs)
            if left is not None and left < resident:
                granted = f"this process's control group grants {left // MIB} MiB more; raise its memory limit"
                raise MemoryError(f"{name} needs {resident // MIB} MiB; {granted}")
        return None


def control_group_left() -> int | None:
    """Bytes that the tightest control group still grants, with its page cache; none without a limit."""
    left = []
    for line in _read_text(Path("/proc/self/cgroup")).splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        if controllers not in {"", "memory"}:
            continue
        top = Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        directory = top / group.lstrip("/")
        for place in (directory, *(above for above in directory.parents if top in (above, *above.parents))):
            total, used = (_read_text(place / name).strip() for name in names)
            if total.isdecimal() and used.isdecimal() and int(total) < NO_LIMIT_BYTES:
                pattern = rf"^{'total_' if controllers else ''}(?:in)?active_file (\d+)$"
                kept = re.findall(pattern, _read_text(place / "memory.stat"), re.MULTILINE)
                left.append(max(0, int(total) - int(used) + sum(map(int, kept))))
    return min(left, default=None)


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def check_room(needed: int, name: str, threads: int = 0) -> None:
    """Raise ``MemoryError`` where the limit leaves less than ``needed`` bytes and the buffers of BLAS's threads."""
    limit = find_limit()
    needed += THREAD_BYTES * threads
    if limit is not None and limit.left < needed:
        raise MemoryError(f"{name} needs {needed // MIB} MiB; {limit}")


def _has_numpy(name: str) -> bool:
    """Whether NumPy is imported, or a library does without."""
    return name != "scipy" or "numpy" in sys.modules


def _count_threads() -> int:
    wanted = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    here = min(MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    return min(here, int(wanted)) if wanted.isdecimal() and int(wanted) else here


def refuse_large_libraries() -> None:
    """Let no large library be imported from now on for which this process's limits leave too little."""
    if find_limit() is not None or control_group_left() is not None:
        sys.meta_path.insert(0, _Gate())
