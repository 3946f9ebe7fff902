"""Samples of repeats as planted series: noise that persists, and two levels."""

from __future__ import annotations

import math

import numpy as np


def noise(
    seed: int, repeats: int = 3, count: int = 20, deviation: float = 0.05, ratio: float = 0.0
) -> list[list[float]]:
    """Samples around 1, as an AR(1) series that goes on from repeat to repeat."""
    draw = np.random.default_rng(seed)
    state, found = draw.standard_normal(), []
    for _ in range(repeats):
        repeat = []
        for _ in range(count):
            state = ratio * state + math.sqrt(1 - ratio**2) * draw.standard_normal()
            repeat.append(1 + deviation * state)
        found.append(repeat)
    return found


def levels(*shares: float, low: float = 0.6, count: int = 20) -> list[list[float]]:
    """Repeats with so large a share of their first samples at a low level, with a little noise."""
    draw = np.random.default_rng(3)
    return [
        [(low if at < share * count else 1.0) * (1 + 0.01 * draw.standard_normal()) for at in range(count)]
        for share in shares
    ]
