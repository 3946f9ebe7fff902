"""The field's word for a resource's operations per second."""

from __future__ import annotations

from hwdyno.analysis.resources.catalogue import find
from hwdyno.model.words import Declaration, ExperimentResult


def rate_word(name: str, declaration: Declaration | None = None) -> str:
    """The field's word for the operations per second of a resource's kernel; empty where there is none.

    The kernel's declaration names the operation; without it, the resource's word applies.
    """
    if declaration is not None and declaration.operation != Declaration().operation:
        return "IOPS" if declaration.operation == "I/O" else f"{_many(declaration.operation)}/s"
    return find(name).rate_word


def find_rate_word(result: ExperimentResult) -> str:
    """The field's word for an experiment's operations per second; empty where there is none."""
    return rate_word(result.resource, result.declaration)


def _many(noun: str) -> str:
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
