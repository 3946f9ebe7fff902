"""Ceilings of an object store: what the link to it leaves for payload, or what memory copies allow on loopback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hwdyno.analysis.ceilings import network
from hwdyno.model.units import format_bytes_s, format_value, plural, positive
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Run

METRIC = "object/"
_DIRECTIONS = {"get": "down", "range": "down", "put": "up", "multipart": "up"}
COPIES = 2
"""How often each byte is copied on loopback: into the kernel by one end, out of it by the other."""


def of_path(run: Run, result: ExperimentResult) -> tuple[Ceiling, ...]:
    """A ceiling for each direction in which some point moved objects."""
    processors = run.machine.cpu.threads or 1
    found: dict[str, Ceiling] = {}
    for point in result.points:
        direction = _find_direction({**result.fixed, **point.parameters})
        made = _make_ceiling(direction, point, processors) if direction else None
        if made is not None:
            found.setdefault(direction, made)
    return tuple(found.values())


def applies(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a ceiling of the path bounds a measurement with these parameters."""
    return metric.removeprefix(METRIC) == _find_direction(parameters)


def _find_direction(parameters: Mapping[str, Any]) -> str:
    """Where objects go: ``up``, ``down``, or nowhere."""
    return _DIRECTIONS.get(str(parameters.get("operation") or "get"), "")


def _make_ceiling(direction: str, point: Measurement, processors: int) -> Ceiling | None:
    wire = network.wire_ceiling({"protocol": "tcp", "direction": direction}, point)
    if wire is not None:
        return replace(wire, metric=METRIC + direction)
    copy = positive(point.details.get("copy_bytes_s"))
    if not copy or not point.details.get("loopback"):
        return None
    bytes_s = copy * processors / COPIES
    formula = (
        f"{format_value(copy, 'bytes/s')} that one core copies x {plural(processors, 'core')} / {COPIES} copies = "
        f"{format_bytes_s(bytes_s)}"
    )
    source = "a copy of a few MiB (memory_bandwidth) in the same run; loopback has no link"
    return Ceiling(METRIC + direction, "reference", bytes_s, "bytes/s", formula, source, "memory copies")
