"""What a process that loads a model spends in each part of it: time, CPU time, page faults and memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Phases:
    """What a load spends in each of its parts: time, CPU time, page faults, and bytes fetched from storage."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self._before = anonymous_bytes()
        self.memory_bytes = 0.0
        """The most memory at the end of a part that no file of a storage backs, beyond what there was before."""
        self.kept_bytes = 0
        """Bytes in files in memory, which the process need not map."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside as a part of that name."""
        before = counters()
        yield
        for key, value in counters().items():
            self.found[f"{name}_{key}"] = self.found.get(f"{name}_{key}", 0.0) + value - before[key]
        self.memory_bytes = max(self.memory_bytes, anonymous_bytes() - self._before + self.kept_bytes)

    def split(self, whole: str, first: str, took_s: float) -> None:
        """Move seconds from a part to the one before it."""
        self.found[f"{first}_s"] = self.found.get(f"{first}_s", 0.0) + took_s
        self.found[f"{whole}_s"] -= took_s

    def total(self, key: str) -> float:
        """One counter over all parts."""
        return sum(value for name, value in self.found.items() if name.endswith(f"_{key}"))

    def report(self, size: int, details: Mapping[str, float]) -> dict[str, Any]:
        """The answer of a process that loaded ``size`` bytes, with more details."""
        return {
            "bytes": size,
            "elapsed_s": self.total("s"),
            "user_s": self.total("user"),
            "system_s": self.total("system"),
            "details": {
                **details,
                "major_faults": self.total("major"),
                "minor_faults": self.total("minor"),
                "memory_bytes": self.memory_bytes,
                **{name: value for name, value in self.found.items() if name.endswith(("_s", "_major", "_minor"))},
            },
        }


def counters() -> dict[str, float]:
    """The process's counters now; bytes from storage are 0 where the system does not count them (proc(5), io)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "s": time.perf_counter(),
        "user": used.ru_utime,
        "system": used.ru_stime,
        "major": float(used.ru_majflt),
        "minor": float(used.ru_minflt),
        "fetched": _proc_number("/proc/self/io", "read_bytes:"),
    }


def _proc_number(path: str, key: str) -> float:
    try:
        text = Path(path).read_text()
    except OSError:
        return 0.0
    words = next((line.split() for line in text.splitlines() if line.startswith(key)), [])
    return float(words[1]) if len(words) > 1 else 0.0


def anonymous_bytes() -> float:
    """Memory of the process that no file backs."""
    return _proc_number("/proc/self/status", "RssAnon:") * 1024
