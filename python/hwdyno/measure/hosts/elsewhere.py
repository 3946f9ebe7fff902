"""A host without Python, which a bare engine measures: planned here by its survey, and read here from its readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwdyno.measure import engine
from hwdyno.measure.topology import Topology
from hwdyno.model.machine import Machine
from hwdyno.model.words import Declaration, UserError

PLAN = "hwdyno.engine-plan/1"
"""The format of ``crates/engine/src/agent/measure.rs``."""
READINGS = "hwdyno.engine-readings/1"


@dataclass(frozen=True)
class Taken:
    """One step of the plan as the engine took it."""

    step: int
    reading: Mapping[str, Any]
    before: Mapping[str, str]
    """The host's counter files right before the reading, by their path below the root."""
    after: Mapping[str, str]


@dataclass(frozen=True)
class Readings:
    """What ``hwdyno-engine measure`` has written."""

    machine: Machine
    """The machine as it was when it was measured."""
    started_s: float
    """Start time, seconds since 1970."""
    ended_s: float | None
    """None where the measurement was killed."""
    interrupted: bool
    seed: int
    steps: tuple[Mapping[str, Any], ...]
    """Steps of the plan."""
    taken: tuple[Taken, ...]
    errors: Mapping[int, str]
    """Why a step has no reading, by its number."""


class Elsewhere:
    """A ``Host`` that is known by its survey; nothing can be run on it from here."""

    def __init__(self, machine: Machine, readings: Readings | None = None) -> None:
        self.machine, self.readings = machine, readings

    def survey(self, path: Path | None = None) -> Machine:
        """The machine, with the storage that the engine was queried for."""
        return self.machine

    def topology(self) -> Topology:
        """The processors and NUMA nodes that its survey names."""
        return Topology.of_machine(self.machine)

    def kernels(self) -> dict[str, Declaration]:
        """The kernels of an engine of this version; what that machine lacks is known there."""
        return {name: replace(declaration, possible=()) for name, declaration in engine.kernels().items()}

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Refuses."""
        raise UserError(f"{kernel} runs on another host; hwdyno-engine measures a plan there")

    def snapshot(self) -> dict[str, float]:
        """Nothing is known of now."""
        return {}
