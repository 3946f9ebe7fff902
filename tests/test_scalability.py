"""The Universal Scalability Law: its formula, its ceiling, and the fit with its intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hwdyno.curves.models import Interval, Scalability, _half_widths, fit_scalability

THREADS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def gunther(load: float, c: float, a: float, b: float) -> float:
    """X = cN / (1 + a(N - 1) + bN(N - 1))."""
    return c * load / (1 + a * (load - 1) + b * load * (load - 1))


def fitted(c: float, a: float, b: float, errors: Sequence[float]) -> Scalability:
    found = fit_scalability(THREADS, [gunther(load, c, a, b) for load in THREADS], errors)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("a", "b", "peak", "ceiling"),
    [
        (0.1, 0.01, math.sqrt(0.9 / 0.01), gunther(math.sqrt(90), 100, 0.1, 0.01)),
        (0.25, None, None, 400.0),
        (0.0011, None, None, 100 / 0.0011),
        (0.0009, None, None, None),
        # It falls from the first thread on.
        (1.0, None, None, 100.0),
        (1.5, 0.1, None, 100.0),
    ],
)
def test_a_law_has_its_peak_and_ceiling(a: float, b: float | None, peak: float | None, ceiling: float | None) -> None:
    law = Scalability(Interval(100.0), Interval(a), None if b is None else Interval(b))
    assert law.at(4.0) == pytest.approx(gunther(4.0, 100, a, b or 0.0))
    assert law.peak_load == (peak and pytest.approx(peak))
    assert law.ceiling == (ceiling and pytest.approx(ceiling))


@pytest.mark.parametrize("c", [1e-4, 1e12])
@pytest.mark.parametrize(("a", "b"), [(0.2, 0.01), (0.03, 0.0), (2.2, 0.0), (5.0, 0.1), (0.5, 1.5)])
def test_a_law_is_found_in_any_unit(c: float, a: float, b: float) -> None:
    found = fitted(c, a, b, [0.01] * 7)
    assert (found.c.value, found.a.value) == pytest.approx((c, a), rel=1e-6)
    assert (0.0 if found.b is None else found.b.value) == pytest.approx(b, rel=1e-6)


@pytest.mark.parametrize(("a", "b"), [(0.03, 0.001), (0.03, 0.0), (0.001, 0.0)])
def test_a_laws_interval_is_that_of_its_points(a: float, b: float) -> None:
    """By the covariance of a fit in log space, of its slopes and errors of 2% (a root mean square); t of 30 degrees."""
    errors = [0.01] * 6 + [math.sqrt(7 * 0.0004 - 6 * 0.0001)]
    found = fitted(100.0, a, b, errors)
    below = [1 + a * (load - 1) + b * load * (load - 1) for load in THREADS]
    slopes = np.array([
        [1.0, -(load - 1) / by, -load * (load - 1) / by][: 3 if b else 2]
        for load, by in zip(THREADS, below, strict=True)
    ])  # fmt: skip
    half = 2.042272 * 0.02 * np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
    assert (found.c.low, found.c.high) == pytest.approx((100 / math.exp(half[0]), 100 * math.exp(half[0])), rel=1e-5)
    assert (found.a.low, found.a.high) == pytest.approx((max(0.0, a - half[1]), a + half[1]), rel=1e-5, abs=1e-9)
    assert (found.b and (found.b.low, found.b.high)) == (pytest.approx((b - half[2], b + half[2])) if b else None)


@pytest.mark.parametrize(
    ("residuals", "errors", "half"),
    [
        # Two points of one parameter leave one degree of freedom, with its t of 12.7062. Of a residual of sqrt(3) times
        # 6%, three scales of the loss, the square counts half: 0.0108 / 2, twice.
        ((0.06 * math.sqrt(3), -0.06 * math.sqrt(3)), (), 12.7062 * math.sqrt(0.0108 / 2)),
        # A single point has its own error, or none.
        ((0.1,), (0.02,), 2.042272 * 0.02),
        *(((0.1,), (), None), ((0.0, 0.0), (), None)),
    ],
)
def test_a_parameter_is_known_by_scatter_or_errors(
    residuals: tuple[float, ...], errors: tuple[float, ...], half: float | None
) -> None:
    (found,) = _half_widths(np.array(residuals), np.ones((len(residuals), 1)), errors)
    assert found == (half and pytest.approx(half, rel=1e-6))


@pytest.mark.parametrize(("loads", "fits"), [((1.0, *THREADS[1:]), True), ((0.99, *THREADS[1:]), False),
                                             (THREADS[:6], True), (THREADS[:5], False)])  # fmt: skip
def test_a_law_counts_six_loads_from_one(loads: tuple[float, ...], fits: bool) -> None:
    """Below one worker its divisor is negative where contention is high."""
    assert (fit_scalability(loads, [100.0] * len(loads)) is not None) == fits
