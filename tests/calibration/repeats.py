"""Processes that a reading samples, and how often the interval by the tool's own stopping rule holds their mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hwdyno.analysis.samples import repeats_that_show
from hwdyno.explain.repeatability import with_pooled_repeats
from hwdyno.measure.plan import PROFILES, Timing
from hwdyno.measure.runner.point import PointInWork
from hwdyno.model.machine import Machine
from hwdyno.model.words import ExperimentResult, Measurement, Run
from numpy.random import Generator
from numpy.typing import NDArray

REMARKS = {"two_modes", "repeats_outside", "median_of_repeats"}
POINTS = 8
"""Points of an experiment, of which each counts with what the others show."""
SAMPLES = 20
"""A reading's."""
Series = NDArray[np.float64]


def _steady(draw: Generator) -> Iterator[Series]:
    while True:
        yield np.exp(0.02 * draw.standard_normal()) * (1 + 0.05 * draw.standard_normal(SAMPLES))


def _skewed(draw: Generator) -> Iterator[Series]:
    while True:
        level = math.exp(0.1 * draw.standard_normal())
        yield level * np.exp(0.4 * draw.standard_normal(SAMPLES))


def _two_modes(draw: Generator, dwell: float) -> Iterator[Series]:
    """80% of the time at 1 and 20% at 0.6; ``dwell`` is how many readings a stay in the slow mode takes on average."""
    leave_slow, leave_fast = 1 / (dwell * SAMPLES), 1 / (4 * dwell * SAMPLES)
    slow = bool(draw.random() < 0.2)
    while True:
        modes = np.empty(SAMPLES)
        for at in range(SAMPLES):
            modes[at] = 0.6 if slow else 1.0
            if draw.random() < (leave_slow if slow else leave_fast):
                slow = not slow
        yield modes * (1 + 0.02 * draw.standard_normal(SAMPLES))


def _mode_by_repeat(draw: Generator) -> Iterator[Series]:
    while True:
        yield (0.6 if draw.random() < 0.2 else 1.0) * (1 + 0.02 * draw.standard_normal(SAMPLES))


def _autoregressive(draw: Generator, by_sample: float) -> Iterator[Series]:
    """An AR(1) process that goes on from one reading to the next."""
    state, noise = draw.standard_normal(), math.sqrt(1 - by_sample**2)
    while True:
        values = np.empty(SAMPLES)
        for at in range(SAMPLES):
            state = by_sample * state + noise * draw.standard_normal()
            values[at] = state
        yield 1 + 0.15 * values


def _stalls(draw: Generator) -> Iterator[Series]:
    """Nothing moves for a while, now and then: the whiles follow a Pareto law with a tail of 1.5, cut at 40 samples."""
    working = draw.exponential(30.0)
    stalled = 0.0
    while True:
        values = np.empty(SAMPLES)
        for at in range(SAMPLES):
            left, moved = 1.0, 0.0
            while left > 0:
                if working > 0:
                    part = min(left, working)
                    working, moved = working - part, moved + part
                    if working <= 0:
                        stalled = min(40.0, (1 - draw.random()) ** (-1 / 1.5))
                else:
                    part = min(left, stalled)
                    stalled -= part
                    if stalled <= 0:
                        working = draw.exponential(30.0)
                left -= part
            values[at] = moved * (1 + 0.03 * draw.standard_normal())
        yield np.maximum(values, 0.0)


_STALL_MEAN = 3 - 2 / math.sqrt(40)
"""Mean of a Pareto law with tail 1.5 from 1, cut at 40."""
AR_BY_REPEAT = 0.7 ** (1 / SAMPLES)
PROCESSES: dict[str, tuple[Callable[[Generator], Iterator[Series]], float]] = {
    "normal": (_steady, math.exp(0.02**2 / 2)),
    "lognormal": (_skewed, math.exp(0.1**2 / 2 + 0.4**2 / 2)),
    "two modes, within a reading": (lambda draw: _two_modes(draw, 0.2), 0.92),
    "two modes, about a reading": (lambda draw: _two_modes(draw, 1.0), 0.92),
    "two modes, one a repeat": (_mode_by_repeat, 0.92),
    "AR(1) 0.7 by sample": (lambda draw: _autoregressive(draw, 0.7), 1.0),
    "AR(1) 0.7 by repeat": (lambda draw: _autoregressive(draw, AR_BY_REPEAT), 1.0),
    "heavy stalls": (_stalls, 30 / (30 + _STALL_MEAN)),
}
"""The process, and its mean in the long run, by name."""


@dataclass
class IntervalScore:
    """How often intervals contained the mean, how wide they were, and what they took."""

    trials: int = 0
    covered: int = 0
    shown: int = 0
    """Points whose samples show all that the process does: both of two modes, a stall."""
    shown_covered: int = 0
    halves: float = 0.0
    """Sum of the half widths, as shares."""
    repeats: int = 0
    repeats_alone: int = 0
    """Repeats of the points alone, which have as many as show a rare level."""
    unremarked: int = 0
    """Points, in either case, with a repeat outside of the interval, and no note on it."""
    together: int = 0
    """Points that are covered where eight alike are one experiment."""
    together_halves: float = 0.0
    noted: int = 0
    """Points whose note says that there are two modes."""

    @property
    def half(self) -> float:
        """The mean half width."""
        return self.halves / max(1, self.trials)


def reading(values: Series) -> dict[str, object]:
    """One Reading of a second whose samples are these, in thousands of operations."""
    counts = [max(0, round(1000 * value)) for value in values.tolist()]
    return {
        "elapsed_s": 1.0,
        "streams": [{"name": "read", "operations": sum(counts), "bytes": 0, "latency_ns": {}}],
        "samples": {"interval_s": 1.0 / SAMPLES, "operations": [counts]},
        "parameters": {},
    }


def measured(process: str, profile: str, draw: Generator, *, alone: bool = False) -> Measurement:
    """A point, of many or alone, as the runner measures it: repeated until it is precise, or its repeats are spent."""
    chosen = PROFILES[profile]
    timing = Timing(chosen.runtime_s, chosen.ramp_s, chosen.repeats_min, chosen.repeats_max)
    point = PointInWork(0, {}, showing=repeats_that_show(1 if alone else POINTS))
    readings = PROCESSES[process][0](draw)
    while not (ended := point.ends(timing, chosen.target)):
        point.readings.append(reading(next(readings)))
    return point.to_measurement(chosen, ended)


def shows(process: str, made: Measurement) -> bool:
    """Whether a point's samples show all that its process does; no interval holds a mode that nothing was seen of."""
    if made.samples is None or not process.startswith(("two modes", "heavy stalls")):
        return True
    below = [value < 0.8 * 1000 * SAMPLES for value in made.samples.values]
    return any(below) and not all(below)


def as_experiment(points: Sequence[Measurement]) -> Sequence[Measurement]:
    """The same points as one experiment, each of which counts with what the others show."""
    placed = tuple(replace(point, parameters={"iodepth": at}) for at, point in enumerate(points, 1))
    result = ExperimentResult("storage.iodepth", "storage", "", "iodepth", "storage_blocks", placed)
    return with_pooled_repeats(Run("x", "", None, (Machine(),), "quick", "", (result,))).experiments[0].points


def score(process: str, profile: str, trials: int, seed: int = 0) -> IntervalScore:
    """This many points of a process: alone, and as experiments of ``POINTS`` points each."""
    found, truth = IntervalScore(), PROCESSES[process][1] * 1000 * SAMPLES

    def measure_point(number: int, *, alone: bool) -> Measurement:
        draw = np.random.default_rng((seed, sum(process.encode()), number))
        return measured(process, profile, draw, alone=alone)

    every = [measure_point(number, alone=False) for number in range(trials)]
    together = [point for at in range(0, trials, POINTS) for point in as_experiment(every[at : at + POINTS])]
    for number, wide in enumerate(together):
        made = measure_point(number, alone=True)
        value, pooled = made.throughput, wide.throughput
        found.trials += 1
        found.repeats += wide.repeats
        found.repeats_alone += made.repeats
        codes = {note.code for note in made.notes}
        found.noted += "two_modes" in codes
        shown = shows(process, made)
        found.shown += shown
        if value.low is None or value.high is None or pooled.low is None or pooled.high is None:
            continue
        found.shown_covered += shown and value.low <= truth <= value.high
        found.covered += value.low <= truth <= value.high
        found.together += pooled.low <= truth <= pooled.high
        if value.value:
            found.halves += (value.high - value.low) / 2 / value.value
        if pooled.value:
            found.together_halves += (pooled.high - pooled.low) / 2 / pooled.value
        for point in (made, wide):
            outside = any(
                not (point.throughput.low or 0.0) <= rate <= (point.throughput.high or 0.0)
                for rate in point.repeat_values
            )
            found.unremarked += outside and not {note.code for note in point.notes} & REMARKS
    return found
