"""The knee of a queue: the model's right values, planted falls and odd points, and how the models are weighted."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
EXACT = Interval(1.0)


def curve(theta: tuple[float, ...], loads: tuple[float, ...] = LOADS, dip: float = 1.0) -> list[float]:
    """The model's throughputs, with the planted point at this multiple."""
    top, crossing, p = (math.exp(log) for log in theta[:3])
    rates = [knee_at(load, top, crossing, p, False, theta[3], math.exp(theta[4]), theta[5]) for load in loads]
    rates[min(DIP, len(rates) - 1)] *= dip
    return rates


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


@pytest.mark.parametrize(
    ("load", "crossing", "requests", "rate"),
    [
        (5.0, 5.0, False, 10 / (1 + 5 / 5)),
        (5.0, 5.0, True, 10 / (1 + (5 - 1) / 5)),
        (4.0, 1.5, True, 10 / (1 + (1.5 - 1) / 4)),
        (4.0, 1.0, True, 10.0),
        (4.0, 0.5, True, 10.0),
    ],
)
def test_a_soft_knee_is_balanced_servers(load: float, crossing: float, requests: bool, rate: float) -> None:
    """Gordon & Newell 1967 where loads count requests, half the top at N* where they do not."""
    assert knee_at(load, 10.0, crossing, 1.0, requests=requests) == pytest.approx(rate)
    assert knee_at(5.0, 10.0, 5.0, 1.0) == pytest.approx(5.0), "loads are no requests by default"


@pytest.mark.parametrize(
    ("changes", "peak_load", "loss", "half_load"),
    [
        ({}, math.inf, 0.0, 5.0),
        ({"most": 5.0}, math.inf, 0.0, 5.0),
        ({"bend": 5.0}, math.inf, 0.0, 5.0),
        # By the square root of the load past 1600: half of nearly 10 at four times that.
        ({"fall": 0.5, "bend": 1600.0, "most": 6400.0}, 1600.0, 0.5, 4.45),
    ],
)
def test_only_a_fall_has_a_peak_and_loses(
    changes: dict[str, Any], peak_load: float, loss: float, half_load: float
) -> None:
    """10 N / (N + 5)."""
    knee = replace(Knee(Interval(10.0), Interval(5.0), EXACT, top=10.0, one=0.5, gain=EXACT), **changes)
    assert knee.at(5.0) == pytest.approx(5.0)
    assert (knee.falls, knee.peak_load) == (0.0, peak_load)
    assert knee.loss == pytest.approx(loss, abs=0.01)
    assert knee.load_for(0.5) == pytest.approx(half_load, rel=0.01)


@pytest.mark.parametrize(
    ("best", "fall", "ceiling"),
    [(9.0, 0.0, (10.0, 9.5, 10.5)), (12.0, 0.0, (12.0, 9.5, 12.6)), (9.0, 0.5, (10.0, 8.55, 10.5))],
)
def test_a_measured_best_moves_the_ceiling(best: float, fall: float, ceiling: tuple[float, ...]) -> None:
    """A peak between two points is the model's alone, so its interval reaches down to the best point."""
    top = Interval(10.0, 9.5, 10.5)
    moved = Knee(top, top, EXACT, top=10.0, one=0.5, gain=EXACT, fall=fall).with_best(best)
    assert (moved.ceiling.value, moved.ceiling.low, moved.ceiling.high) == pytest.approx(ceiling)
    assert moved.crossing == moved.ceiling


# --- the fit


@pytest.mark.parametrize(
    ("fall", "bend", "width", "found_width"),
    [(0.8, 12.0, 0.7, STEP), (0.8, 24.0, 0.7, STEP), (0.3, 24.0, 1000.0, 50.0), (1.0, 64.0, ENDLESS, 50.0)],
)
def test_a_planted_fall_is_found(fall: float, bend: float, width: float, found_width: float) -> None:
    """To a level within an octave (0.7 of the load's logarithm), or for ever."""
    loads = LOADS[:10]
    rates = [knee_at(load, 100.0, 4.0, 8.0, fall=fall, bend=bend, width=width) for load in loads]
    knee = fit_knee(loads, rates)
    assert knee.falls > 0.99 and knee.width == found_width and knee.requests is False
    assert (knee.fall, knee.bend) == pytest.approx((fall, bend), rel=0.03)
    assert [knee.at(load) for load in loads] == pytest.approx(rates, rel=0.002)


@pytest.mark.parametrize(("loss", "falls"), [(0.0191, 0.0), (0.0209, 1.0)])
def test_a_loss_below_2_percent_is_no_fall(loss: float, falls: float) -> None:
    """Level from a load of 8 on, then a power law from 64 to 2048 that loses this much of the logarithm, exactly."""
    rates = [knee_at(load, 100.0, 4.0, 8.0, fall=loss / math.log(32), bend=64.0, width=ENDLESS) for load in LOADS]
    assert fit_knee(LOADS, rates, [1e-4] * len(LOADS)).falls == pytest.approx(falls, abs=1e-3)


@pytest.mark.parametrize(("count", "falls"), [(6, False), (7, True)])
def test_a_fall_needs_seven_points(count: int, falls: bool) -> None:
    rates = [knee_at(load, 100.0, 2.0, 8.0, fall=1.0, bend=4.0) for load in LOADS[:count]]
    assert (fit_knee(LOADS[:count], rates).falls > 0.5) == falls


# --- the odd point


@pytest.mark.parametrize(("ratio", "is_odd"), [(0.875, True), (0.9, False), (1.1, False), (1.14, True)])
def test_a_point_is_odd_from_11_percent_off(ratio: float, is_odd: bool) -> None:
    """Below by 11%, above by 1 / 0.89 = 1.124."""
    odd = fit_knee(LOADS, curve(RISE, dip=ratio)).odd
    assert (odd and odd.at) == (DIP if is_odd else None)
    assert odd is None or odd.ratio == pytest.approx(ratio, rel=1e-3)


@pytest.mark.parametrize(("error", "is_odd"), [(0.03, True), (0.06, False)])
def test_a_point_within_4_standard_errors_is_not_odd(error: float, is_odd: bool) -> None:
    """Off by ln 0.8 = 0.223: four standard errors of 5.6% at most, less the curve's own."""
    assert (fit_knee(LOADS, curve(RISE, dip=0.8), [error] * len(LOADS)).odd is not None) == is_odd


@pytest.mark.parametrize(("count", "is_odd"), [(5, False), (6, True)])
def test_an_odd_point_needs_six_points(count: int, is_odd: bool) -> None:
    rates = [10.0 * load if load < 4 else 40.0 for load in LOADS[:count]]
    rates[-2] *= 0.5
    assert (fit_knee(LOADS[:count], rates).odd is not None) == is_odd


def off(dip: float, last: float = 0.0) -> Array:
    """Residuals of the planted point and of the last one, which cannot be odd."""
    residuals = np.zeros(len(LOADS))
    residuals[[DIP, -1]] = dip, last
    return residuals


@pytest.mark.parametrize(
    ("plain", "falls", "is_odd"),
    [
        # 4% off the fit is worth a look.
        (off(0.039), [], False),
        (off(0.041), [], True),
        # Squares of 0.00255: a fall with less than half of it, here 0.00118, is looked at instead.
        (off(0.06), [off(0.03, 0.020)], False),
        (off(0.06), [off(0.03, 0.025)], True),
        # Of several falls the first, which is the best.
        (off(0.06), [off(0.03, 0.020), off(0.06, 0.06)], False),
    ],
)
def test_the_better_fit_shows_an_odd_point(plain: Array, falls: list[Array], is_odd: bool) -> None:
    points = points_of(curve(RISE, dip=0.7))
    odd = _odd_of(fitted(points, RISE, plain), [fitted(points, FALL, residuals) for residuals in falls])
    assert (odd is not None) == is_odd


def test_the_odder_of_two_points_is_named() -> None:
    """The point whose absence helps the fit most."""
    n = np.linspace(0.0, 8.0, 30)
    throughputs = np.array(curve(RISE, tuple(np.exp(n))))
    throughputs[[10, 20]] *= 0.8, 0.6
    points = _Points(n, np.log(throughputs), 0.0, np.zeros_like(n), requests=False)
    at = np.arange(len(n))
    plain, falling = (fitted(points, theta, 1.0 * (at == odd)) for theta, odd in ((RISE, 10), (FALL, 20)))
    odd = _odd_of(plain, [falling])
    assert odd is not None and odd.at == 20 and odd.ratio == pytest.approx(0.6, rel=0.02)


# --- with a fall or without


def weighted(weight: float, count: int = 12, error: float = 2e-4, noise: float = 2e-4) -> tuple[_Fit, _Fit]:
    """A rise and an exact fall, with so much off the rise that the fall has this weight.

    By 2k + 2k (k + 1) / (count - k - 1), the noise being the one more: k is 4 and 6; the last divisor is 1 at least.
    """
    penalty = {7: (12 + 84 / 1) - (8 + 40 / 2), 12: (12 + 84 / 5) - (8 + 40 / 7)}[count]
    points = points_of(curve(FALL)[:count], error)
    squares = noise**2 * (penalty + 2 * math.log(weight / (1 - weight)))
    return with_squares(points, RISE, squares), fitted(points, FALL)


@pytest.mark.parametrize("weight", [0.1, 0.55, 0.9])
@pytest.mark.parametrize("count", [7, 12])
@pytest.mark.parametrize(("error", "noise"), [(2e-4, 2e-4), (0.0, 1e-4)])
def test_a_fall_has_its_akaike_weight(weight: float, count: int, error: float, noise: float) -> None:
    """No noise counts as 0.01%."""
    assert _weight(*weighted(weight, count, error, noise)) == pytest.approx(weight, abs=2e-3)


@pytest.mark.parametrize(("weight", "fall", "bend"), [(0.45, 0.0, math.inf), (0.55, 0.5, 8.0)])
def test_the_likelier_model_is_the_knee(weight: float, fall: float, bend: float) -> None:
    plain, falling = weighted(weight)
    knee = _knee_of(plain, [falling], None)
    assert (knee.fall, knee.bend) == (fall, pytest.approx(bend))


def test_falls_share_their_weight_by_fit() -> None:
    """Half as likely at a criterion greater by 2 ln 2, with a noise of 0.01%; the first is never less likely."""
    points = points_of(curve(FALL))
    best, half = fitted(points, FALL), with_squares(points, FALL, 2e-8 * math.log(2))
    assert _shares([best, half], 0.9) == pytest.approx([0.6, 0.3], rel=1e-4)
    assert _shares([half, best], 0.9) == pytest.approx([0.45, 0.45])


@pytest.mark.parametrize(("weight_of_rise", "ceiling"), [(0.0093, 8.007), (0.0097, 8.007), (0.0103, 8.026)])
def test_a_model_below_1_percent_is_left_out(weight_of_rise: float, ceiling: float) -> None:
    """The rise reaches 10, and the fall 8.007; the ceiling is their mean by weight, in the logarithm."""
    plain, falling = weighted(1 - weight_of_rise)
    assert _knee_of(plain, [falling], None).ceiling.value == pytest.approx(ceiling, abs=3e-3)


# --- intervals


def half_of(interval: Interval) -> float:
    assert interval.high is not None
    return math.log(interval.high / interval.value)


def test_a_crossing_has_its_delta_method_interval() -> None:
    """ln N* is the greatest of the curve, plus ln R1: its slopes by the five parameters, taken by differences."""
    points = points_of(curve(FALL), error=0.01)
    falling = fitted(points, FALL)
    knee = _knee_of(fitted(points, RISE, 0.2), [falling], None)

    def log_crossing(theta: tuple[float, ...]) -> float:
        return math.log(max(curve(theta, tuple(np.geomspace(1, 2048, 200))))) + theta[1] - theta[0]

    def slope(at: int) -> float:
        up, down = (tuple(value + step * (k == at) for k, value in enumerate(FALL)) for step in (1e-6, -1e-6))
        return (log_crossing(up) - log_crossing(down)) / 2e-6

    slopes = np.array([slope(at) for at in range(5)])
    half = t_quantile(30) * math.sqrt(slopes @ falling.covariance()[:5, :5] @ slopes)
    assert knee.crossing.value == pytest.approx(math.exp(log_crossing(FALL)))
    assert half_of(knee.crossing) == pytest.approx(half, rel=1e-4)


def test_a_crossings_interval_spans_the_models() -> None:
    """Two falls alike, 10% apart: 5% each from their mean. Six with 2% of their weight are left out."""
    points = points_of(curve(FALL), error=0.001)
    higher = (FALL[0] + 0.1, *FALL[1:])
    few = with_squares(points, FALL, 0.001**2 * 2 * math.log(50))
    knee = _knee_of(fitted(points, RISE, 0.2), [fitted(points, FALL), fitted(points, higher), *[few] * 6], None)
    assert half_of(knee.crossing) == pytest.approx(t_quantile(30) * 0.05, rel=5e-3)
