"""Measures random machines as the runner does, reads their curves, and counts how often the reading holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hwdyno.analysis import estimates
from hwdyno.analysis.curves import fit_curves, suggest_load
from hwdyno.explain.findings import explain
from hwdyno.model.axes import FIELD, with_field_axes
from hwdyno.model.machine import Machine as Host
from hwdyno.model.words import Curve, ExperimentResult, Latency, Measurement, Run
from numpy.random import Generator

from calibration.machines import FAMILIES, REPEATS_MAX, REPEATS_MIN, Machine

TARGET = 0.10
"""The profile quick's."""
NAMING = {"rolls_over", "off_the_curve"}
"""Rules that name what a curve's shape shows."""


@dataclass
class Score:
    """How the curves of one family were read."""

    machines: int = 0
    right_state: int = 0
    knee_covered: int = 0
    ceiling_covered: int = 0
    knees: int = 0
    """Machines that were read as having a knee."""
    below_best: int = 0
    """Ceilings below a measured point."""
    off: list[float] = field(default_factory=list)
    """Error of each ceiling, against the truth."""
    named: Counter[str] = field(default_factory=Counter)
    """Rules that spoke."""
    rolled: int = 0
    """Machines that lose at least 10% past their peak."""
    rolled_named: int = 0

    @property
    def bias(self) -> float:
        """Median of the ceilings' errors."""
        return float(np.median(self.off)) if self.off else math.nan


def point(load: int, values: Sequence[float]) -> Measurement:
    """A point of this many operations a second, with the interval of its repeats."""
    rate = estimates.interval_of_repeats(values, "operations/s")[0]
    latency = load / max(rate.value, 1e-9) * 1e9
    return Measurement(
        parameters={"rw": "randread", "bs": 4096, "iodepth": load, "numjobs": 1},
        throughput=rate,
        rate=None,
        latency_ns=Latency(latency, latency, 1.5 * latency, 3 * latency, None, latency, 4 * latency, 10_000),
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=None,
        cpu_system_s=None,
        elapsed_s=float(len(values)),
        operations=round(rate.value * len(values)),
        bytes=0,
        repeats=len(values),
        repeat_values=tuple(values),
    )


def measured(machine: Machine, load: int, draw: Generator) -> Measurement:
    """A point, repeated until it is precise."""
    values = machine.repeats(load, REPEATS_MAX, draw)
    for count in range(REPEATS_MIN, REPEATS_MAX + 1):
        made = point(load, values[:count])
        half = estimates.half_width(made.throughput)
        if half is not None and half <= TARGET:
            break
    return made


def experiment(points: Sequence[Measurement]) -> ExperimentResult:
    """An experiment of the points along the depth of a queue."""
    return with_field_axes(ExperimentResult("storage.iodepth", "storage", "", "iodepth", "", tuple(points)))


def read(machine: Machine, draw: Generator) -> tuple[Curve, Run]:
    """The curve of a sweep with one more point near its bend, and the Run with its findings."""
    points = [measured(machine, load, draw) for load in machine.loads]
    (curve,) = fit_curves(experiment(points))
    more = suggest_load(curve, FIELD["iodepth"], machine.loads)
    if more is not None and machine.loads[0] < more < machine.loads[-1]:
        points.append(measured(machine, more, draw))
    run = explain(Run("x", "2026-01-01T00:00:00+00:00", None, (Host(),), "quick", "hwdyno run", (experiment(points),)))
    return run.experiments[0].curves[0], run


def score(family: str, machines: int, seed: int = 0) -> Score:
    """Reads this many machines of a family."""
    make, states = FAMILIES[family]
    found = Score()
    for number in range(machines):
        draw = np.random.default_rng((seed, sum(family.encode()), number))
        machine = make(draw)
        curve, run = read(machine, draw)
        add(found, machine, curve, run, states)
    return found


def add(found: Score, machine: Machine, curve: Curve, run: Run, states: Sequence[str]) -> None:
    """Counts one machine's curve."""
    found.machines += 1
    found.right_state += curve.state in states
    found.knees += curve.state == "knee"
    rules = {finding.rule for finding in run.findings} & NAMING
    found.named.update(rules)
    if machine.loss >= 0.10:
        found.rolled += 1
        found.rolled_named += "rolls_over" in rules
    crossing, ceiling = curve.parameters.get("N*"), curve.ceiling
    if crossing is not None and crossing.low is not None and crossing.high is not None:
        found.knee_covered += crossing.low <= machine.crossing <= crossing.high
    if ceiling is not None and ceiling.low is not None and ceiling.high is not None:
        found.ceiling_covered += ceiling.low <= machine.ceiling <= ceiling.high
        found.off.append(ceiling.value / machine.ceiling - 1)
        odd = curve.parameters.get("odd_load")
        loads = run.experiments[0].points
        best = max(
            measurement.throughput.value
            for measurement in loads
            if odd is None or measurement.parameters["iodepth"] != round(odd.value)
        )
        found.below_best += ceiling.value < best * (1 - 1e-9)
