"""Caches read off a chase with a known truth."""

from __future__ import annotations

import math
import random

import pytest
from hwdyno.curves.caches import edges_of
from hwdyno.sweep import octaves

SIZES = octaves(8 << 10, 1 << 30, 8)


def chase(size: float, caches: list[tuple[float, float]], memory_ns: float) -> float:
    """Mean latency of a random chase: each level holds its share of the set."""
    left, total = 1.0, 0.0
    for capacity, ns in caches:
        hit = min(left, capacity / size)
        hit = left if size <= capacity else max(0.0, hit - (1 - left))
        total += hit * ns
        left -= hit
        if left <= 0:
            break
    return total + left * memory_ns


@pytest.mark.parametrize("seed", range(10))
def test_planted_caches_are_found_within_half_an_octave(seed: int) -> None:
    noise = random.Random(seed)
    caches = [(48 << 10, 1.4), (2 << 20, 5.0), (8 << 20, 25.0)]
    latencies = [chase(size, caches, 150.0) * math.exp(noise.gauss(0, 0.02)) for size in SIZES]
    found = edges_of(SIZES, latencies)
    assert 2 <= len(found) <= 4
    for capacity in (48 << 10, 2 << 20):
        assert min(abs(math.log2(edge.size_bytes / capacity)) for edge in found) < 0.5


@pytest.mark.parametrize("seed", range(10))
def test_a_level_curve_has_no_edges(seed: int) -> None:
    noise = random.Random(seed)
    assert edges_of(SIZES, [100 * math.exp(noise.gauss(0, 0.01)) for _ in SIZES]) == ()


def test_few_points_tell_nothing() -> None:
    assert edges_of([1024, 2048, 4096], [1, 5, 100]) == ()
