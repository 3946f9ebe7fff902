"""Every workload, by the name of its file."""

from __future__ import annotations

import importlib
from typing import cast

from hwdyno.measure.workloads.workload import Workload
from hwdyno.model.words import Declaration

WORKLOADS = (
    "linpack", "inference_load", "inference_stream", "inference_decode", "inference_restore", "inference_images",
    "inference_serving", "inference_in_process",
)  # fmt: skip
"""Each is the file ``workloads/<name>.py`` whose ``WORKLOAD`` fills the protocol."""


def find(name: str) -> Workload:
    """The workload called so."""
    return cast(Workload, importlib.import_module(f"hwdyno.measure.workloads.{name}").WORKLOAD)


def all() -> dict[str, Declaration]:
    """Every workload's declaration by its name."""
    return {name: find(name).declaration for name in WORKLOADS}
