"""Real software timed from outside, one file each: it gives Readings as the engine's kernels do."""

from __future__ import annotations

from hwdyno.measure.workloads.catalogue import WORKLOADS, all, find

__all__ = [
    "WORKLOADS",
    "all",
    "find",
]
