"""The law of scalability: coherence is named where it is there, and its peak, ceiling and intervals are right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hwdyno.analysis.curves.scalability import Interval, Scalability, _half_widths, fit_scalability


@pytest.mark.parametrize("seed", range(10))
def test_scalability_names_coherence_only_when_it_is_there(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = np.array([1, 2, 4, 8, 12, 16, 24, 32, 48, 64], float)
    noise = 1 + 0.01 * generator.standard_normal(len(n))
    with_b = fit_scalability(list(n), list(100 * n / (1 + 0.03 * (n - 1) + 0.001 * n * (n - 1)) * noise))
    without = fit_scalability(list(n), list(100 * n / (1 + 0.03 * (n - 1)) * noise))
    assert with_b is not None and without is not None
    assert with_b.b is not None and with_b.b.value == pytest.approx(0.001, rel=0.25)
    assert with_b.peak_load == pytest.approx(math.sqrt(0.97 / 0.001), rel=0.1)
    assert with_b.a.value == pytest.approx(0.03, abs=0.015)
    assert (0.0 if without.b is None else without.b.value) < 5e-5
    assert without.a.value == pytest.approx(0.03, abs=0.006)


def test_scalability_needs_six_points() -> None:
    assert fit_scalability([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]) is None


THREADS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def gunther(load: float, c: float, a: float, b: float) -> float:
    """X = cN / (1 + a(N - 1) + bN(N - 1))."""
    return c * load / (1 + a * (load - 1) + b * load * (load - 1))


@pytest.mark.parametrize(("a", "b", "peak", "ceiling"), [
    (0.1, 0.01, math.sqrt(90), gunther(math.sqrt(90), 100, 0.1, 0.01)), (0.25, None, None, 400.0),
    (0.0011, None, None, 100 / 0.0011), (0.00095, None, None, None),
    # It falls from the first thread on.
    (1.0, None, None, 100.0), (1.5, 0.1, None, 100.0),
])  # fmt: skip
def test_law_has_its_peak_and_ceiling(a: float, b: float | None, peak: float | None, ceiling: float | None) -> None:
    law = Scalability(Interval(100.0), Interval(a), None if b is None else Interval(b))
    assert law.at(4.0) == pytest.approx(gunther(4.0, 100, a, b or 0.0))
    assert law.peak_load == (peak and pytest.approx(peak)) and law.ceiling == (ceiling and pytest.approx(ceiling))
    assert fit_scalability((0.99, *THREADS[1:]), [100.0] * 7) is None, "its divisor may be negative below one worker"


@pytest.mark.parametrize(
    ("c", "a", "b"), [(1e-4, 0.03, 0.001), (1e12, 0.03, 0.0), (1e2, 1e-4, 0.0), (1e2, 2.2, 0.0), (1e2, 5.0, 0.1)]
)
def test_law_is_found_with_its_interval(c: float, a: float, b: float) -> None:
    """The covariance of a fit in log space, of its slopes and errors of 2% (a root mean square); t of 30 degrees."""
    errors = [0.01] * 6 + [math.sqrt(7 * 0.0004 - 6 * 0.0001)]
    found = fit_scalability(THREADS, [gunther(load, c, a, b) for load in THREADS], errors)
    n = np.array(THREADS)
    below = 1 + a * (n - 1) + b * n * (n - 1)
    slopes = np.stack((np.ones(7), -(n - 1) / below, -n * (n - 1) / below)[: 3 if b else 2])
    half = 2.042272 * 0.02 * np.sqrt(np.diag(np.linalg.inv(slopes @ slopes.T)))
    assert found is not None and (found.b is not None) == bool(b)
    wide, (off, apart) = math.exp(half[0]), half[[1, -1]]
    ends = (c / wide, c * wide), (max(0.0, a - off), a + off), (b - apart, b + apart)
    for interval, value, (low, high) in zip((found.c, found.a, found.b), (c, a, b), ends, strict=True):
        expected = pytest.approx((value, low, high), rel=1e-4, abs=1e-9)
        assert interval is None or (interval.value, interval.low, interval.high) == expected


@pytest.mark.parametrize(("residuals", "errors", "half"), [
    # Two points of one parameter leave one degree of freedom, with its t of 12.7062. Of a residual of sqrt(3) times
    # 6%, three scales of the loss, the square counts half: 0.0108 / 2, twice. One point has its own error, or none.
    ((0.06 * math.sqrt(3), -0.06 * math.sqrt(3)), (), 12.7062 * math.sqrt(0.0108 / 2)),
    ((0.1,), (0.02,), 2.042272 * 0.02), ((0.1,), (), None), ((0.0, 0.0), (), None),
])  # fmt: skip
def test_parameter_is_known_by_its_errors(residuals: Any, errors: Any, half: float | None) -> None:
    (found,) = _half_widths(np.array(residuals), np.ones((len(residuals), 1)), errors)
    assert found == (half and pytest.approx(half, rel=1e-6))
