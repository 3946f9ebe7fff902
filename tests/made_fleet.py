"""Fleets of simulated nodes, one Run's figures each, with planted faults."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import made_store as made
from hwdyno.model.machine import Machine
from hwdyno.model.words import Run
from hwdyno.system.store import HistoryEntry, PointFigure

CPU = "Some CPU 64-Core"
SURVEY: dict[str, Any] = {
    "os": {"kernel": "6.8.0"},
    "cpu": {"model": CPU, "threads": 128, "clock_hz": {"measured": 3.5e9}},
    "memory": {"total_bytes": 512 << 30, "modules": [{"size_bytes": 64 << 30}] * 8},
    "storage": {
        "disks": [{"model": "Some Disk", "kind": "nvme", "link": {"type": "pcie", "generation": 4, "lanes": 4}}]
    },
}
FIGURES = [
    *(
        ("compute.flops", "compute", "compute_flops", {"precision": word}, 4e12, "FLOP/s")
        for word in ("double", "single")
    ),
    *(
        ("memory.grid", "memory", "memory_bandwidth", {"operation": word}, 3e11, "bytes/s")
        for word in ("read", "copy", "triad")
    ),
    ("memory.latency", "memory", "memory_latency", {"working_set": 1 << 28}, 95.0, "ns"),
    *(
        ("storage.iodepth", "storage", "storage_blocks", {"rw": "randread", "iodepth": depth}, 6e7 * depth, "bytes/s")
        for depth in (1, 4, 16, 32)
    ),
    *(
        ("storage.seq", "storage", "storage_blocks", {"rw": word, "iodepth": 8}, 5e9, "bytes/s")
        for word in ("read", "write")
    ),
]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a node: the factors of its figures by experiment, and what its survey has in another way."""

    slower: Mapping[str, float]
    facts: Sequence[tuple[Sequence[str | int], Any]] = field(default=())


@dataclass
class Fleet:
    """Its rows as the index gives them, and the Runs behind them."""

    rows: list[tuple[HistoryEntry, tuple[PointFigure, ...]]]
    surveys: dict[str, dict[str, Any]]

    def load(self, path: str) -> Run:
        return replace(made.run(run_id=path), machines=(Machine.of_survey(self.surveys[path]),))


def fleet(
    count: int, faults: Mapping[int, Fault] | None = None, *, seed: int = 1, noise: float = 0.02, tail: float = 15.0
) -> Fleet:
    """Nodes whose figures vary by node and by figure, with tails as heavy as Student's t with ``tail`` degrees."""
    rng = random.Random(seed)
    faults = faults or {}
    rows, surveys = [], {}
    for at in range(count):
        name, survey = f"node{at:04}", copy.deepcopy(SURVEY)
        fault = faults.get(at, Fault({}))
        for path, value in fault.facts:
            place: Any = survey
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
        survey["hostname"] = name
        offset = noise / 2 * rng.gauss(0, 1)
        figures = tuple(_figures(rng, fault, offset, noise, tail))
        rows.append(
            (
                HistoryEntry(
                    f"r{at:04}",
                    "2026-11-01T00:00:00+00:00",
                    f"{name}, {CPU}",
                    "quick",
                    "",
                    "valid",
                    len(figures),
                    (),
                    f"r{at:04}",
                ),
                figures,
            )
        )
        surveys[f"r{at:04}"] = survey
    return Fleet(rows, surveys)


def _figures(rng: random.Random, fault: Fault, offset: float, noise: float, tail: float) -> Iterator[PointFigure]:
    for experiment, resource, kernel, parameters, base, unit in FIGURES:
        heavy = rng.gauss(0, 1) / math.sqrt(rng.gammavariate(tail / 2, 2) / tail)
        slower = fault.slower.get(experiment, 0.0)
        factor = 1 / (1 - slower) if unit == "ns" else 1 - slower
        yield PointFigure(
            experiment, resource, kernel, parameters, base * factor * math.exp(offset + noise * heavy), unit
        )
