"""Caches read off a chase with a known truth."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hwdyno.analysis.curves.caches import find_edges, settled_ns
from hwdyno.measure.sweep import octaves
from hwdyno.model.words import Latency

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
def test_planted_caches_found_within_half_octave(seed: int) -> None:
    noise = random.Random(seed)
    caches = [(48 << 10, 1.4), (2 << 20, 5.0), (8 << 20, 25.0)]
    latencies = [chase(size, caches, 150.0) * math.exp(noise.gauss(0, 0.02)) for size in SIZES]
    found = find_edges(SIZES, latencies)
    assert 2 <= len(found) <= 4
    for capacity in (48 << 10, 2 << 20):
        assert min(abs(math.log2(edge.size_bytes / capacity)) for edge in found) < 0.5


@pytest.mark.parametrize("seed", range(10))
def test_a_level_curve_has_no_edges(seed: int) -> None:
    noise = random.Random(seed)
    assert find_edges(SIZES, [100 * math.exp(noise.gauss(0, 0.01)) for _ in SIZES]) == ()


def test_few_points_tell_nothing() -> None:
    assert find_edges([1024, 2048, 4096], [1, 5, 100]) == ()


@pytest.mark.parametrize(("mean", "median", "settled"), [(15, 10, 11), (5, 10, 9), (10.4, 10, 10.4), (7, None, 7)])
def test_latency_is_its_mean_near_median(mean: float, median: float | None, settled: float) -> None:
    assert settled_ns(Latency(mean, median, None, None, None, None, None, 9)) == settled


@pytest.mark.parametrize(("apart_octaves", "levels", "edges"), [
    # A step of 0.78 or 0.82 over the two octaves around it is 0.39 or 0.41 of the logarithm an octave. Within a quarter
    # of an octave are two sizes on each side, or one: a step of 0.15 in 0.48 or in 0.26 octaves.
    (1, ((0.5, 6), (4.0, 6)), [5]), (1, ((1.0, 1), (8.0, 6)), [0]), (1, ((1.0, 3), (8.0, 2)), []),
    (1, ((10.0, 6), (10 * math.exp(0.78), 6)), []), (1, ((10.0, 6), (10 * math.exp(0.82), 6)), [5]),
    (0.12, ((10.0, 10), (10 * math.exp(0.15), 10)), []), (0.13, ((10.0, 10), (10 * math.exp(0.15), 10)), [9]),
    (1, ((10.0, 5), (40.0, 1), (10.0, 6)), []), (1, ((10.0, 5), (40.0, 5), (90.0, 5)), [4, 9]),
])  # fmt: skip
def test_a_cache_ends_at_a_step(apart_octaves: float, levels: Any, edges: list[int]) -> None:
    """A second node that takes twice as long changes nothing; a size or a latency of 0 is no reading."""
    latencies = [level for level, count in levels for _ in range(count)]
    sizes = [1024.0 * 2 ** (apart_octaves * at) for at in range(len(latencies))]
    for more in ([], [2 * ns for ns in latencies]):
        found = find_edges([0.0, *sizes, 1e9, *sizes[: len(more)]], [9.0, *latencies, 0.0, *more])
        assert [edge.size_bytes for edge in found] == pytest.approx([sizes[at] for at in edges])
        around = [(levels[at][0], levels[at + 1][0]) for at in range(len(edges))]
        assert [(edge.below_ns, edge.above_ns) for edge in found] == [pytest.approx(pair) for pair in around]
