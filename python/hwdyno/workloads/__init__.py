"""Real software timed from outside, one file each: it declares itself and gives Readings as the engine's kernels do."""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

WORKLOADS = ("linpack",)
"""Each is the file ``workloads/<name>.py`` whose ``WORKLOAD`` fills the protocol."""


class Workload(Protocol):
    """Software that is measured as a kernel is."""

    def info(self) -> dict[str, Any]:
        """Its declaration, in the form of the engine's kernels."""
        ...

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run it once and give its Reading.

        Raises ``ValueError`` for a wrong value and ``OSError`` for what the machine refused.
        """
        ...


def find(name: str) -> Workload:
    """The workload called so."""
    return cast(Workload, importlib.import_module(f"hwdyno.workloads.{name}").WORKLOAD)


def all() -> dict[str, dict[str, Any]]:
    """Every workload's declaration by its name."""
    return {name: find(name).info() for name in WORKLOADS}
