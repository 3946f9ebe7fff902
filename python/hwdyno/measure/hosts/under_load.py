"""Two kernels at once in threads of this process: one is measured, and the other loads the machine meanwhile.

Threads and not two processes: the engine runs without the interpreter's lock, and its timed loops share and allocate
nothing. One process keeps one stop, one clean-up and one set of signals for both. See ARCHITECTURE.md.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from hwdyno.measure import engine
from hwdyno.measure.hosts.host import KernelCall, LoadError, UnderLoad

LOOK_S = 0.1
"""Time within which a kernel that is stopped ends; it looks at its stop about every 50 ms."""
LONGEST_S = 3600.0
"""Runtime of a load that is never stopped."""


def run(load: KernelCall, work: KernelCall, settle_s: float, snapshot: Callable[[], dict[str, float]]) -> UnderLoad:
    """The body of ``Loadable.run_under_load``."""
    stop, ended = engine.Stop(), threading.Event()
    results: list[dict[str, Any]] = []
    failures: list[ValueError | OSError] = []

    def drive() -> None:
        try:
            results.append(engine.run(load.kernel, _at_the_other_end(load), stop))
        except (ValueError, OSError) as error:
            failures.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=drive, name="hwdyno-load")
    thread.start()
    try:
        ended.wait(settle_s)
        before, began = snapshot(), time.monotonic()
        reading = engine.run(work.kernel, work.parameters) if not ended.is_set() else {}
        after, finished = snapshot(), time.monotonic()
        early = ended.is_set()
    finally:
        stop.set()
        thread.join()
    if failures:
        raise LoadError(str(failures[0])) from failures[0]
    if early and not results[0].get("interrupted"):
        raise LoadError(f"{load.kernel} ended by itself")
    ran_s = float(results[0].get("elapsed_s", 0.0))
    # It ended at ``finished`` or up to a look later, so it began this long before or later.
    covered = not early and ran_s - LOOK_S >= finished - began
    return UnderLoad(reading, results[0], covered, before, after)


def _at_the_other_end(load: KernelCall) -> dict[str, Any]:
    """The load's parameters, with its pinned threads on the last processors first.

    What is measured takes the first ones, so both share a processor only where they want more than there are.
    """
    given = {"runtime": LONGEST_S, **load.parameters}
    pins = {"threads", "cpus"} <= set(engine.kernels()[load.kernel].names)
    if pins and "cpus" not in given:
        given["cpus"] = sorted(os.sched_getaffinity(0), reverse=True)
    return given
