"""The knee of a queue: the model's right values, planted falls and odd points, how models are weighted, and the fit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hwdyno.analysis.curves.knee import _find_knee, _find_odd, _Fit, _Points, _shares, _weight, fit_knee
from hwdyno.analysis.curves.knee_model import ENDLESS, Knee, knee_at
from hwdyno.analysis.curves.least_squares import fit
from hwdyno.analysis.curves.scalability import Interval
from hwdyno.analysis.estimates import t_quantile

LOADS = tuple(2.0**k for k in range(12))
DIP = 7
"""The point that is planted off the curve."""
RISE = (math.log(10), math.log(5), math.log(2), 0.0, 0.0, 0.7)
"""ln Xm, ln N*, ln p, d, ln Nd, width."""
FALL = (math.log(10), math.log(5), math.log(2), 0.5, math.log(8), ENDLESS)


def curve(theta: tuple[float, ...], loads: tuple[float, ...] = LOADS, dip: float = 1.0) -> list[float]:
    """The model's throughputs, with the planted point at this multiple."""
    top, crossing, p = (math.exp(log) for log in theta[:3])
    rates = [knee_at(load, top, crossing, p, False, theta[3], math.exp(theta[4]), theta[5]) for load in loads]
    return [rate * (dip if at == DIP else 1.0) for at, rate in enumerate(rates)]


def make_points(throughputs: list[float], error: float = 0.0, loads: Any = LOADS) -> _Points:
    n = np.log(np.array(loads[: len(throughputs)]))
    return _Points(n, np.log(np.array(throughputs)), error, np.zeros_like(n), requests=False)


def fitted(points: _Points, theta: tuple[float, ...], residuals: Any = 0.0, squares: float = 0.0) -> _Fit:
    """A fit with planted residuals, or so small that their loss is their square."""
    ones = np.ones_like(points.n)
    residuals = (residuals or math.sqrt(squares / len(ones))) if np.isscalar(residuals) else residuals
    return _Fit(points, np.array(theta), ones, 5 if theta[3] else 3, residuals * ones)


@pytest.mark.parametrize(("load", "crossing", "requests", "rate"), [
    (5.0, 5.0, False, 10 / (1 + 5 / 5)), (5.0, 5.0, True, 10 / (1 + (5 - 1) / 5)), (4.0, 1.5, True, 10 / 1.125),
    (4.0, 1.0, True, 10.0),
])  # fmt: skip
def test_a_soft_knee_is_balanced_servers(load: float, crossing: float, requests: bool, rate: float) -> None:
    """Gordon & Newell 1967 where loads count requests, half the top at N* where they do not, as by default."""
    assert knee_at(load, 10.0, crossing, 1.0, *([True] if requests else [])) == pytest.approx(rate)


@pytest.mark.parametrize(("changes", "peak_load", "loss", "half_load"), [
    ({"most": 5.0}, math.inf, 0.0, 5.0), ({"fall_load": 5.0}, math.inf, 0.0, 5.0),
    # By the square root of the load past 1600: half of nearly 10 at four times that.
    ({"fall": 0.5, "fall_load": 1600.0, "most": 6400.0}, 1600.0, 0.5, 4.45),
])  # fmt: skip
def test_only_fall_has_peak_and_loses(changes: Any, peak_load: float, loss: float, half_load: float) -> None:
    """10 N / (N + 5)."""
    knee = replace(Knee(Interval(10.0), Interval(5.0), Interval(1.0), 10.0, 0.5, gain=Interval(1.0)), **changes)
    assert (knee.falls, knee.peak_load) == (0.0, peak_load)
    assert (knee.loss, knee.load_for(0.5)) == (pytest.approx(loss, abs=0.01), pytest.approx(half_load, rel=0.01))


@pytest.mark.parametrize(
    ("fall", "fall_load", "width"), [(0.8, 12.0, 0.7), (0.8, 24.0, 0.7), (0.3, 24.0, 1e3), (1.0, 64.0, ENDLESS)]
)
def test_a_planted_fall_is_found(fall: float, fall_load: float, width: float) -> None:
    """A fall to a level within an octave (0.7 of the load's logarithm), or for ever."""
    rates = [knee_at(load, 100.0, 4.0, 8.0, fall=fall, fall_load=fall_load, width=width) for load in LOADS[:10]]
    knee = fit_knee(LOADS[:10], rates)
    assert knee.falls > 0.99 and knee.requests is False and knee.width == min(width, 50.0)
    assert (knee.fall, knee.fall_load) == pytest.approx((fall, fall_load), rel=0.03)
    assert [knee.at(load) for load in LOADS[:10]] == pytest.approx(rates, rel=0.002)


@pytest.mark.parametrize(("loss", "falls"), [(0.0191, 0.0), (0.0209, 1.0)])
def test_loss_below_2_percent_is_nothing(loss: float, falls: float) -> None:
    """Level from a load of 8 on, then a power law from 64 to 2048 that loses this much of the logarithm, exactly."""
    rates = [knee_at(load, 100.0, 4.0, 8.0, fall=loss / math.log(32), fall_load=64.0, width=ENDLESS) for load in LOADS]
    assert fit_knee(LOADS, rates, [1e-4] * len(LOADS)).falls == pytest.approx(falls, abs=1e-3)


@pytest.mark.parametrize(("ratio", "is_odd"), [(0.875, True), (0.9, False), (1.1, False), (1.14, True)])
def test_odd_point_is_11_percent_off(ratio: float, is_odd: bool) -> None:
    """A point is odd below by 11%, above by 1 / 0.89 = 1.124."""
    odd = fit_knee(LOADS, curve(RISE, dip=ratio)).odd
    assert (odd and (odd.at, odd.ratio)) == ((DIP, pytest.approx(ratio, rel=1e-3)) if is_odd else None)


@pytest.mark.parametrize(("plain", "falls", "is_odd"), [
    # 4% off the fit is worth a look. Squares of 0.00255: a fall with less than half of it, here 0.00118, is looked at
    # instead; of several the first, which is the best.
    (0.039, [], False), (0.041, [], True), (0.06, [(0.03, 0.020)], False), (0.06, [(0.03, 0.025)], True),
    (0.06, [(0.03, 0.020), (0.06, 0.06)], False),
])  # fmt: skip
def test_better_fit_shows_odd_point(plain: float, falls: list[tuple[float, float]], is_odd: bool) -> None:
    """Residuals of the planted point and of the last one, which cannot be odd."""
    points, at = make_points(curve(RISE, dip=0.7)), np.arange(len(LOADS))
    others = [fitted(points, FALL, off * (at == DIP) + last * (at == len(LOADS) - 1)) for off, last in falls]
    assert (_find_odd(fitted(points, RISE, plain * (at == DIP)), others) is not None) == is_odd


def test_odder_of_two_points_is_named() -> None:
    """The point whose absence helps the fit most."""
    loads, at = np.exp(np.linspace(0.0, 8.0, 30)), np.arange(30)
    points = make_points(list(np.array(curve(RISE, tuple(loads))) * np.select([at == 10, at == 20], [0.8, 0.6], 1.0)),
                       loads=loads)  # fmt: skip
    odd = _find_odd(fitted(points, RISE, 1.0 * (at == 10)), [fitted(points, FALL, 1.0 * (at == 20))])
    assert odd is not None and odd.at == 20 and odd.ratio == pytest.approx(0.6, rel=0.02)


def weighted(weight: float, count: int = 12, error: float = 2e-4, noise: float = 2e-4) -> tuple[_Fit, _Fit]:
    """A rise and an exact fall, with this much off the rise that the fall has this weight.

    By 2k + 2k (k + 1) / (count - k - 1), the noise being the one more: k is 4 and 6; the last divisor is 1 at least.
    """
    penalty = {7: (12 + 84 / 1) - (8 + 40 / 2), 12: (12 + 84 / 5) - (8 + 40 / 7)}[count]
    points = make_points(curve(FALL)[:count], error)
    squares = noise**2 * (penalty + 2 * math.log(weight / (1 - weight)))
    return fitted(points, RISE, squares=squares), fitted(points, FALL)


@pytest.mark.parametrize(("count", "error", "noise"), [(7, 2e-4, 2e-4), (12, 2e-4, 2e-4), (12, 0.0, 1e-4)])
def test_a_fall_has_its_akaike_weight(count: int, error: float, noise: float) -> None:
    """No noise counts as 0.01%."""
    found = [_weight(*weighted(weight, count, error, noise)) for weight in (0.1, 0.9)]
    assert found == pytest.approx([0.1, 0.9], abs=2e-3)


@pytest.mark.parametrize(
    ("weight", "fall", "ceiling"), [(0.45, 0.0, 9.05), (0.55, 0.5, 8.85), (0.9897, 0.5, 8.026), (0.9903, 0.5, 8.007)]
)
def test_the_likelier_model_is_the_knee(weight: float, fall: float, ceiling: float) -> None:
    """The rise reaches 10, the fall 8.007: the ceiling is their mean in the logarithm, without a weight below 1%."""
    plain, falling = weighted(weight)
    knee = _find_knee(plain, [falling], None)
    assert (knee.fall, knee.fall_load) == (fall, pytest.approx(8.0 if fall else math.inf))
    assert knee.ceiling.value == pytest.approx(ceiling, abs=5e-3)


def test_crossing_has_its_delta_method_interval() -> None:
    """ln N* is the greatest of the curve, plus ln R1: its slopes by the five parameters, taken by differences."""
    points = make_points(curve(FALL), error=0.01)
    falling = fitted(points, FALL)
    crossing = _find_knee(fitted(points, RISE, 0.2), [falling], None).crossing

    def log_crossing(step: float, changed: int) -> float:
        theta = tuple(value + step * (at == changed) for at, value in enumerate(FALL))
        return math.log(max(curve(theta, tuple(np.geomspace(1, 2048, 200))))) + theta[1] - theta[0]

    slopes = np.array([(log_crossing(1e-6, at) - log_crossing(-1e-6, at)) / 2e-6 for at in range(5)])
    half = t_quantile(30) * math.sqrt(slopes @ falling.covariance()[:5, :5] @ slopes)
    assert crossing.value == pytest.approx(math.exp(log_crossing(0.0, 0)))
    assert crossing.high is not None and math.log(crossing.high / crossing.value) == pytest.approx(half, rel=1e-4)


def test_a_crossings_interval_spans_the_models() -> None:
    """Two falls alike, 10% apart: 5% each from their mean. Six with 2% of their weight are left out."""
    points = make_points(curve(FALL), error=0.001)
    few = fitted(points, FALL, squares=0.001**2 * 2 * math.log(50))
    falls = [fitted(points, FALL), fitted(points, (FALL[0] + 0.1, *FALL[1:])), *[few] * 6]
    crossing = _find_knee(fitted(points, RISE, 0.2), falls, None).crossing
    assert crossing.high == pytest.approx(crossing.value * math.exp(t_quantile(30) * 0.05), rel=3e-4)
    # Half as likely at a criterion greater by 2 ln 2; the first is never less likely.
    half = fitted(points, FALL, squares=0.001**2 * 2 * math.log(2))
    assert _shares([falls[0], half], 0.9) == pytest.approx([0.6, 0.3], rel=1e-4)
    assert _shares([half, falls[0]], 0.9) == pytest.approx([0.45, 0.45])


@pytest.mark.parametrize("way", [1.0, -1.0])
@pytest.mark.parametrize(("data", "x", "y"), [((0.0, 2.0), 2.0, 2.0), ((-5.0, 2.0), 0.0, 3.5)])
def test_a_parameter_stops_at_its_bound(way: float, data: Any, x: float, y: float, monkeypatch: Any) -> None:
    """x - y and y, with x from 0 on: at (0, 0) the first data push x nowhere, the second down. Lines take one round."""
    monkeypatch.setattr("hwdyno.analysis.curves.least_squares.ROUNDS", 1)
    slopes, wide = np.array([[way, -1.0], [0.0, 1.0]]), np.array([9.0, 9.0])
    bounds = (-wide * [way < 0, 1], wide * [way > 0, 1])
    start, weights, pull = np.zeros((1, 2)), np.ones((1, 2)), np.zeros((2, 2))
    found, _ = fit(lambda theta: (theta @ slopes.T, slopes[None]), np.array([data]), start, bounds, weights, 1e6, pull)
    assert found[0] == pytest.approx([way * x, y], rel=0.01)


def test_a_ceiling_is_known_by_the_noise_of_the_points_that_tell_it() -> None:
    """Servers that fail make a full queue noisy and a short one not: the quiet rise leaves the ceiling open."""
    loads = [2.0**k for k in range(10)]
    rates = [100 * min(load, 16.0) for load in loads]

    def half(errors: list[float]) -> float:
        ceiling = fit_knee(loads, rates, errors, requests=True).ceiling
        assert ceiling.low is not None and ceiling.high is not None
        return math.log(ceiling.high / ceiling.low) / 2

    everywhere = half([0.04] * 10)
    assert half([0.002] * 4 + [0.04] * 6) == pytest.approx(everywhere, rel=0.03)
    assert half([0.002] * 10) < everywhere / 4
