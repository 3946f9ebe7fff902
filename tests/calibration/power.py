"""What is planted in a point's readings and should be named, and how often the rules do name it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from hwdyno.explain.findings import explain
from hwdyno.measure.plan import PROFILES
from hwdyno.measure.runner.point import PointInWork
from hwdyno.model.axes import with_field_axes
from hwdyno.model.machine import Machine
from hwdyno.model.words import ExperimentResult, Finding, Run
from numpy.random import Generator
from numpy.typing import NDArray

from calibration.repeats import SAMPLES, reading

NOISE, LEVEL = 0.05, 0.005
"""Standard deviations of a sample, and of what a reading's samples share."""
Series = NDArray[np.float64]


def _clean(draw: Generator, level: float = 1.0) -> Series:
    return level * (1 + LEVEL * draw.standard_normal()) * (1 + NOISE * draw.standard_normal(SAMPLES))


def _stalls(draw: Generator, share: float) -> Series:
    values = _clean(draw)
    values[draw.random(SAMPLES) < share] = 0.0
    return values


def _throttled(draw: Generator, drop: float) -> Series:
    values = _clean(draw)
    values[int(draw.integers(4, SAMPLES - 3)) :] *= 1 - drop
    return values


@dataclass(frozen=True)
class Plant:
    """What is planted, and which rule should name it."""

    samples: Callable[[Generator, int], Series]
    """The samples of a repeat, by its number."""
    rule: str = ""
    """Empty where nothing should be named."""
    severities: Sequence[str] = ("warning",)
    others_cpu: float = 0.0
    """Share of the machine's CPU that others use."""


def _autoregressive(draw: Generator) -> Series:
    values, state = np.empty(SAMPLES), draw.standard_normal()
    for at in range(SAMPLES):
        state = 0.7 * state + math.sqrt(1 - 0.49) * draw.standard_normal()
        values[at] = 1 + 0.05 * state
    return values


PLANTS: dict[str, Plant] = {
    "clean": Plant(lambda draw, at: _clean(draw)),
    "clean, AR(1) 0.7": Plant(lambda draw, at: _autoregressive(draw)),
    "clean, others at 12%": Plant(lambda draw, at: _clean(draw), others_cpu=0.12),
    "5% of the samples stall": Plant(lambda draw, at: _stalls(draw, 0.05), "stalls"),
    "10% of the samples stall": Plant(lambda draw, at: _stalls(draw, 0.10), "stalls"),
    "8% less after the first repeat": Plant(lambda draw, at: _clean(draw, 0.92 if at else 1.0), "repeats_disagree"),
    "10% less after the first repeat": Plant(lambda draw, at: _clean(draw, 0.90 if at else 1.0), "repeats_disagree"),
    "one repeat 10% slower": Plant(
        lambda draw, at: _clean(draw, 0.90 if at == 1 else 1.0), "repeats_disagree", ("info", "warning")
    ),
    "10% less from a random moment on": Plant(lambda draw, at: _throttled(draw, 0.10), "throttled"),
    "20% less from a random moment on": Plant(lambda draw, at: _throttled(draw, 0.20), "throttled"),
    "25% less for a repeat, others at 12%": Plant(
        lambda draw, at: _clean(draw, 0.75 if at == 1 else 1.0), "others_at_work", others_cpu=0.12
    ),
}


@dataclass
class PowerScore:
    """How often what was planted was named."""

    points: int = 0
    named: int = 0
    warned: int = 0
    """Points with a finding above an info."""
    rules: Counter[str] = field(default_factory=Counter)


def explained(plant: Plant, draw: Generator, repeats: int = 3) -> tuple[Finding, ...]:
    """The findings on one point of this many repeats."""
    point = PointInWork(0, {"rw": "randread", "bs": 4096, "iodepth": 8, "numjobs": 1})
    point.readings = [
        {**reading(plant.samples(draw, at)), "cpu": {"user_s": 0.1, "system_s": 0.1}} for at in range(repeats)
    ]
    made = replace(point.to_measurement(PROFILES["quick"], ""), parameters=point.parameters)
    busy = plant.others_cpu + 0.2 / 4
    made = replace(made, conditions={"cpu_busy": busy, "cpu_user": busy - 0.1 / 4, "steal": 0.0})
    result = with_field_axes(ExperimentResult("storage.iodepth", "storage", "", "iodepth", "", (made,)))
    host = Machine.of_survey({"cpu": {"threads": 4}})
    run = Run("x", "2026-01-01T00:00:00+00:00", None, (host,), "quick", "hwdyno run", (result,))
    return explain(run).findings


def score(name: str, points: int, repeats: int = 3, seed: int = 0) -> PowerScore:
    """This many points with one thing planted."""
    plant, found = PLANTS[name], PowerScore()
    for number in range(points):
        findings = explained(plant, np.random.default_rng((seed, sum(name.encode()), number)), repeats)
        found.points += 1
        found.named += any(finding.rule == plant.rule and finding.severity in plant.severities for finding in findings)
        above = {finding.rule for finding in findings if finding.severity != "info"}
        found.warned += bool(above)
        found.rules.update(above)
    return found


def clean() -> Iterator[str]:
    """The names of the plants that plant nothing."""
    return (name for name, plant in PLANTS.items() if not plant.rule)
