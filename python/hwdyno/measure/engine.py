"""The only module that calls the engine: its three verbs with Python's types on our side."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

from hwdyno import _engine
from hwdyno._engine import Chunks, MachineError, Receiver, Stop, UsageError, document, processor, unpack_histogram
from hwdyno.model.axes import read_declarations
from hwdyno.model.words import Declaration
from hwdyno.system import safe_files, signals

ENDS_S = 0.3
"""Time for a stopped kernel to see it and to remove its files, before a process that leaves removes the rest."""

__all__ = [
    "Chunks",
    "MachineError",
    "Receiver",
    "Stop",
    "UsageError",
    "document",
    "kernels",
    "processor",
    "run",
    "survey",
    "unpack_histogram",
]


def survey(path: Path | None = None, root: Path = Path("/")) -> dict[str, Any]:
    """Describe the machine, with the storage behind ``path``; ``root`` may be a recorded tree."""
    _show_packages()
    _place_opencl_cache()
    machine: dict[str, Any] = json.loads(_engine.survey(str(root), None if path is None else str(path)))
    return machine


def _place_opencl_cache() -> None:
    """Let PoCL, which keeps files where devices are listed and kernels compiled, keep them in a folder that goes."""
    if "POCL_CACHE_DIR" not in os.environ:
        # One text for the process: the C library frees none that a variable ever had.
        os.environ["POCL_CACHE_DIR"] = _make_opencl_cache()


@cache
def _make_opencl_cache() -> str:
    folders = contextlib.ExitStack()
    atexit.register(folders.close)
    return str(folders.enter_context(safe_files.temporary("hwdyno-opencl-")))


@cache
def _show_packages() -> None:
    """Let the engine look for NVIDIA's compiler in Python's packages, unless the user names folders."""
    folders = [str(path) for root in sys.path if root for path in Path(root).glob("nvidia/*/lib")]
    if folders:
        os.environ.setdefault("HWDYNO_LIBRARIES", ":".join(folders))


@cache
def kernels() -> dict[str, Declaration]:
    """Every kernel's declaration by its name."""
    return read_declarations(json.loads(_engine.kernels()))


def run(kernel: str, parameters: dict[str, Any], stop: Stop | None = None) -> dict[str, Any]:
    """Run a kernel once and give its Reading.

    Raises ``UsageError`` for a wrong name or value and ``MachineError`` (an OSError) for what the
    machine refused. The first interrupt, or a ``stop`` that is set, gives a reading with ``interrupted`` set.
    """
    stop = stop or Stop()
    _show_packages()
    if kernel.startswith("gpu"):
        _place_opencl_cache()
    with contextlib.ExitStack() as stack:
        if kernel in kernels() and kernels()[kernel].writes != "nothing":
            ends = partial(signals.patiently, stop.wait, ENDS_S)
            stack.enter_context(signals.at_leave(signals.Stage.REMOVE, ends))
        stack.enter_context(signals.halting(stop.set))
        reading: dict[str, Any] = json.loads(_engine.run(kernel, json.dumps(parameters), stop))
    return reading
