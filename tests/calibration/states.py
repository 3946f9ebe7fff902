"""A device that changes while its points are read in rounds, or seems to, and how often the change is found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from hwdyno.analysis.states import change_in
from hwdyno.model.words import Measurement, Value
from numpy.random import Generator
from numpy.typing import NDArray

MIN_POINTS, MAX_POINTS = 6, 24
ROUNDS = (2, 3, 5)
WITHIN_SHARE = 0.15
"""A true change is found, within this share of the readings, at its place."""
EDGE_SHARE = 0.15
"""No change is planted in this share of the readings at either end: too little is read before it, or after."""
Noise = Callable[[Generator, int], NDArray[np.float64]]
POINT = Measurement(
    parameters={}, throughput=Value(1.0, "bytes/s"), rate=None, latency_ns=None, streams=(), samples=None,
    concurrency=None, cpu_user_s=None, cpu_system_s=None, elapsed_s=1.0, operations=1, bytes=1, repeats=1,
)  # fmt: skip


def _normal(deviation: float) -> Noise:
    return lambda draw, count: np.asarray(deviation * draw.standard_normal(count))


def _heavy(draw: Generator, count: int) -> NDArray[np.float64]:
    return np.asarray(0.02 * draw.standard_t(3, count))


def _two_modes(draw: Generator, count: int) -> NDArray[np.float64]:
    return np.asarray(np.where(draw.random(count) < 0.2, math.log(0.6), 0.0) + 0.02 * draw.standard_normal(count))


def _drift(draw: Generator, count: int) -> NDArray[np.float64]:
    return np.asarray(0.15 * draw.choice([-1, 1]) * np.linspace(0, 1, count) + 0.02 * draw.standard_normal(count))


def _one_point_wild(draw: Generator, count: int) -> NDArray[np.float64]:
    found = 0.02 * draw.standard_normal(count)
    found[draw.integers(count)] -= 1.0
    return found


NOISES: dict[str, Noise] = {
    "2% normal": _normal(0.02),
    "5% normal": _normal(0.05),
    "15% normal": _normal(0.15),
    "2%, Student's t of 3": _heavy,
    "readings at two levels": _two_modes,
    "a drift of 15%": _drift,
    "one reading far off": _one_point_wild,
}
"""What else moves the readings, in the order in which they are taken."""


@dataclass
class Found:
    """How often a change was named, and how often near its place."""

    named: int = 0
    placed: int = 0


def make_points(values: NDArray[np.float64], owners: NDArray[np.int64]) -> list[Measurement]:
    """Points with these readings, one a second."""
    made = []
    for owner in range(int(owners.max()) + 1):
        at = np.flatnonzero(owners == owner)
        made.append(replace(POINT, repeat_values=tuple(map(float, values[at])), repeat_starts_s=tuple(map(float, at))))
    return made


def score(noise: str, change: float, count: int, seed: int) -> Found:
    """This many runs of a few to many points in rounds, after whose change throughput is this share of what it was."""
    draw, found = np.random.default_rng((seed, round(1000 * change))), Found()
    for _ in range(count):
        points, rounds = int(draw.integers(MIN_POINTS, MAX_POINTS + 1)), int(draw.choice(ROUNDS))
        owners = np.concatenate([draw.permutation(points) for _ in range(rounds)])
        levels = 10 ** draw.uniform(5, 9, points)
        total = len(owners)
        at = int(draw.uniform(EDGE_SHARE, 1 - EDGE_SHARE) * total)
        logs = NOISES[noise](draw, total) + np.where(np.arange(total) >= at, math.log(change), 0.0)
        change_found = change_in(make_points(levels[owners] * np.exp(logs), owners))
        if change_found is not None:
            found.named += 1
            found.placed += abs(change_found.at_s - at) <= WITHIN_SHARE * total
    return found
