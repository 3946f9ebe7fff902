"""Single lines of the knee's model and fit that a change would break and no curve showed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hwdyno.curves.knee import (
    ENDLESS,
    STEP,
    Knee,
    _Fit,
    _knee_of,
    _odd_of,
    _Points,
    _shares,
    _weight,
    fit_knee,
    knee_at,
)
from hwdyno.curves.models import Interval
from hwdyno.statistics import t_quantile

if TYPE_CHECKING:
    from hwdyno.curves.knee import Array

LOADS = tuple(2.0**k for k in range(12))
DIP = 7
"""The point that is planted off the curve."""
RISE = (math.log(10), math.log(5), math.log(2), 0.0, 0.0, STEP)
"""ln Xm, ln N*, ln p, d, ln Nd, width."""
FALL = (math.log(10), math.log(5), math.log(2), 0.5, math.log(8), ENDLESS)


def soft() -> Knee:
    """10 N / (N + 5)."""
    exact = Interval(1.0)
    return Knee(ceiling=Interval(10.0), crossing=Interval(5.0), p=exact, top=10.0, one=0.5, gain=exact)


def curve(theta: tuple[float, ...], loads: tuple[float, ...] = LOADS) -> list[float]:
    top, crossing, p = (math.exp(one) for one in theta[:3])
    return [knee_at(load, top, crossing, p, False, theta[3], math.exp(theta[4]), theta[5]) for load in loads]


def points_of(throughputs: list[float], error: float = 0.0) -> _Points:
    n = np.log(np.array(LOADS[: len(throughputs)]))
    return _Points(n, np.log(np.array(throughputs)), error, np.zeros_like(n), requests=False)


def fitted(points: _Points, theta: tuple[float, ...], residuals: float | Array = 0.0) -> _Fit:
    """A fit with planted residuals, at all points where they are one number."""
    ones = np.ones_like(points.n)
    return _Fit(points, np.array(theta), ones, 5 if theta[3] else 3, residuals * ones)


def with_squares(points: _Points, theta: tuple[float, ...], squares: float) -> _Fit:
    """A fit with this sum of squares; its residuals are too small for the loss to bound them."""
    return fitted(points, theta, math.sqrt(squares / len(points.n)))


# --- the model


def test_a_knee_without_a_fall_rises_to_its_top() -> None:
    knee = soft()
    assert knee.at(5.0) == pytest.approx(5.0)
    assert (knee.falls, knee.peak_load) == (0.0, math.inf)


def test_only_a_fall_loses_anything_at_the_greatest_load() -> None:
    """5 of 10 at a load of 5 is not yet reached, not lost."""
    assert replace(soft(), most=5.0).loss == 0.0


def test_a_bend_without_a_fall_does_not_lower_what_a_share_is_of() -> None:
    assert replace(soft(), bend=5.0).load_for(0.5) == pytest.approx(5.0)


def test_the_model_counts_no_requests_and_has_no_fall_unless_told() -> None:
    """Without requests 10 / (1 + 5/5); with them 10 / (1 + (5 - 1) / 5), and with a crossing at 1 the top at once."""
    assert knee_at(5.0, 10.0, 5.0, 1.0) == pytest.approx(5.0)
    assert knee_at(5.0, 10.0, 5.0, 1.0, requests=True) == pytest.approx(10 / 1.8)
    assert knee_at(4.0, 9.0, 1.5, 1.0, requests=True) == pytest.approx(8.0)
    assert knee_at(4.0, 9.0, 1.0, 1.0, requests=True) == 9.0


# --- the fit


def test_the_fit_looks_for_a_fall_and_takes_the_load_for_no_count_of_requests() -> None:
    """A fall by the load's first power, from 64 on."""
    truth = (math.log(10), math.log(5), math.log(2), 1.0, math.log(64), ENDLESS)
    knee = fit_knee(LOADS, curve(truth))
    assert knee.requests is False
    assert knee.falls == pytest.approx(1.0)
    assert knee.fall == pytest.approx(1.0, rel=1e-2)
    assert knee.bend == pytest.approx(64.0, rel=1e-2)


# --- the odd point


@pytest.mark.parametrize(("ratio", "is_odd"), [(0.875, True), (0.9, False), (1.1, False), (1.14, True)])
def test_a_point_is_odd_from_eleven_percent_off_the_others_on(ratio: float, is_odd: bool) -> None:
    """Below by 11%, above by 1 / 0.89 = 1.124."""
    throughputs = curve(RISE)
    throughputs[DIP] *= ratio
    odd = fit_knee(LOADS, throughputs).odd
    assert (odd is not None) == is_odd
    if odd is not None:
        assert odd.at == DIP
        assert odd.ratio == pytest.approx(ratio, rel=1e-3)


def off(dip: float, last: float = 0.0) -> Array:
    """Residuals of the planted point and of the last one, which is none of those that may be odd."""
    residuals = np.zeros(len(LOADS))
    residuals[[DIP, -1]] = dip, last
    return residuals


@pytest.mark.parametrize(
    ("plain", "falls", "is_odd"),
    [
        # 4% off the fit is worth a look.
        (off(0.039), [], False),
        (off(0.045), [], True),
        # Squares of 0.00255: a fall with less than half of it, here 0.00118, is looked at instead.
        (off(0.06), [off(0.03, 0.020)], False),
        (off(0.06), [off(0.03, 0.025)], True),
        # Of several falls the first, which is the best.
        (off(0.06), [off(0.03, 0.020), off(0.06, 0.06)], False),
    ],
)
def test_an_odd_point_is_looked_for_where_the_better_fit_leaves_one_off(
    plain: Array, falls: list[Array], is_odd: bool
) -> None:
    throughputs = curve(RISE)
    throughputs[DIP] *= 0.7
    points = points_of(throughputs)
    odd = _odd_of(fitted(points, RISE, plain), [fitted(points, FALL, one) for one in falls])
    assert (odd is not None) == is_odd


def test_of_two_points_that_may_be_odd_the_one_whose_absence_helps_most_is_named() -> None:
    n = np.linspace(0.0, 8.0, 30)
    throughputs = np.array(curve(RISE, tuple(np.exp(n))))
    throughputs[10] *= 0.8
    throughputs[20] *= 0.6
    points = _Points(n, np.log(throughputs), 0.0, np.zeros_like(n), requests=False)
    at = np.arange(len(n))
    plain, falling = (fitted(points, theta, 1.0 * (at == odd)) for theta, odd in ((RISE, 10), (FALL, 20)))
    odd = _odd_of(plain, [falling])
    assert odd is not None
    assert odd.at == 20
    assert odd.ratio == pytest.approx(0.6, rel=0.02)


# --- with a fall or without


def weighted(weight: float, count: int, error: float, noise: float) -> tuple[_Fit, _Fit]:
    """A rise and an exact fall, with so much off the rise that the fall has this weight.

    By 2k + 2k (k + 1) / (count - k - 1), the noise being the one more: k is 4 and 6; the last divisor is 1 at least.
    """
    penalty = {7: (12 + 84 / 1) - (8 + 40 / 2), 12: (12 + 84 / 5) - (8 + 40 / 7)}[count]
    points = points_of(curve(FALL)[:count], error)
    squares = noise**2 * (penalty + 2 * math.log(weight / (1 - weight)))
    return with_squares(points, RISE, squares), fitted(points, FALL)


@pytest.mark.parametrize("weight", [0.1, 0.45, 0.55, 0.9])
@pytest.mark.parametrize("count", [7, 12])
@pytest.mark.parametrize(("error", "noise"), [(2e-4, 2e-4), (0.0, 1e-4)])
def test_a_fall_is_weighted_by_akaikes_criterion_for_few_points(
    weight: float, count: int, error: float, noise: float
) -> None:
    """No noise is taken as 0.01%."""
    assert _weight(*weighted(weight, count, error, noise)) == pytest.approx(weight, abs=2e-3)


@pytest.mark.parametrize(("weight", "fall", "bend"), [(0.45, 0.0, math.inf), (0.55, 0.5, 8.0)])
def test_the_likelier_of_a_rise_and_a_fall_is_the_knee(weight: float, fall: float, bend: float) -> None:
    plain, falling = weighted(weight, 12, 2e-4, 2e-4)
    knee = _knee_of(plain, [falling], None)
    assert knee.fall == fall
    assert knee.bend == pytest.approx(bend)


def test_falls_share_their_weight_by_how_well_they_fit() -> None:
    """Half as likely at a criterion greater by 2 ln 2, with a noise of 0.01%; one in front is never the less likely."""
    points = points_of(curve(FALL))
    best, half = fitted(points, FALL), with_squares(points, FALL, 2e-8 * math.log(2))
    assert _shares([best, half], 0.9) == pytest.approx([0.6, 0.3], rel=1e-4)
    assert _shares([half, best], 0.9) == pytest.approx([0.45, 0.45])


# --- intervals


def test_the_crossing_of_a_fall_has_the_interval_of_the_delta_method() -> None:
    """ln N* is the greatest of the curve, plus ln R1: its slopes by the five parameters, taken by differences."""
    points = points_of(curve(FALL), error=0.01)
    falling = fitted(points, FALL)
    knee = _knee_of(fitted(points, RISE, 0.2), [falling], None)

    def log_crossing(theta: tuple[float, ...]) -> float:
        return max(math.log(one) for one in curve(theta, tuple(np.geomspace(1, 2048, 200)))) + theta[1] - theta[0]

    def slope(at: int) -> float:
        up, down = (tuple(one + step * (k == at) for k, one in enumerate(FALL)) for step in (1e-6, -1e-6))
        return (log_crossing(up) - log_crossing(down)) / 2e-6

    slopes = np.array([slope(at) for at in range(5)])
    assert np.abs(slopes[1:]).min() > 0.1, "each but the top counts, which R1 contains as well"
    half = t_quantile(30) * math.sqrt(slopes @ falling.covariance()[:5, :5] @ slopes)
    assert knee.crossing.value == pytest.approx(math.exp(log_crossing(FALL)))
    assert knee.crossing.high is not None
    assert math.log(knee.crossing.high / knee.crossing.value) == pytest.approx(half, rel=1e-4)


def test_the_interval_of_a_crossing_spans_the_models_that_count() -> None:
    """Two falls alike, 10% apart: 5% each from their mean. Six of 2% of them, under a hundredth of all, are none."""
    points = points_of(curve(FALL), error=0.001)
    higher = (FALL[0] + 0.1, *FALL[1:])
    few = with_squares(points, FALL, 0.001**2 * 2 * math.log(50))
    knee = _knee_of(fitted(points, RISE, 0.2), [fitted(points, FALL), fitted(points, higher), *[few] * 6], None)
    assert knee.crossing.high is not None
    assert math.log(knee.crossing.high / knee.crossing.value) == pytest.approx(t_quantile(30) * 0.05, rel=5e-3)
