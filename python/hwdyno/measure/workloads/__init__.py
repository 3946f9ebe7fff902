"""Real software timed from outside, one file each: it gives Readings as the engine's kernels do."""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

from hwdyno.model.words import Declaration

WORKLOADS = (
    "linpack", "inference_load", "inference_decode", "inference_restore", "inference_images", "inference_serving",
    "inference_in_process",
)  # fmt: skip
"""Each is the file ``workloads/<name>.py`` whose ``WORKLOAD`` fills the protocol."""


class Workload(Protocol):
    """Software that is measured as a kernel is."""

    declaration: Declaration
    """What it states about itself, as the engine's kernels do."""

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run it once and give its Reading.

        Raises ``ValueError`` for a wrong value and ``OSError`` for what the machine refused.
        """
        ...


def find(name: str) -> Workload:
    """The workload called so."""
    return cast(Workload, importlib.import_module(f"hwdyno.measure.workloads.{name}").WORKLOAD)


def all() -> dict[str, Declaration]:
    """Every workload's declaration by its name."""
    return {name: find(name).declaration for name in WORKLOADS}
