"""The open loop's model: exact where theory is, found again from noisy points, silent where it does not fit."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hwdyno.analysis.curves import CAPACITY, fit_curves, rate_to_settle
from hwdyno.analysis.curves.open_loop import LatencySpread, OpenLoop, _spread_off, fit_open_loop, mean_latency
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Curve, Latency, Measurement, Value
from made_experiment import made_experiment
from made_point import base


def test_one_server_is_the_textbooks_queue() -> None:
    for load in (0.1, 0.5, 0.9, 0.99):
        assert mean_latency(load * 1e4, 1e5, 1) == pytest.approx(1e5 / (1 - load))
    # Two servers: R = S / (1 - r^2).
    assert mean_latency(1.6e4, 1e5, 2) == pytest.approx(1e5 / (1 - 0.64))


@pytest.mark.parametrize("servers", [1, 4, 16])
def test_service_and_capacity_are_found_again(servers: int) -> None:
    draw = random.Random(7)
    capacity = servers / 1e-4
    rates = [capacity * share for share in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)]
    latencies = [mean_latency(rate, 1e5, servers) * draw.gauss(1, 0.02) for rate in rates]
    found = fit_open_loop(rates, latencies)
    assert found is not None
    assert found.service_ns == pytest.approx(1e5, rel=0.05)
    assert found.capacity_s == pytest.approx(capacity, rel=0.05)


def test_what_is_no_such_queue_has_no_model() -> None:
    assert fit_open_loop([1e3, 2e3, 4e3, 8e3], [1e6, 1e4, 1e6, 1e4]) is None
    assert fit_open_loop([1e3, 2e3], [1e5, 1e5]) is None


def test_rate_curve_gives_service_and_capacity() -> None:
    def point(rate: float) -> Measurement:
        reached, latency = min(rate, 4e4), mean_latency(min(rate, 3.9e4), 1e5, 4)
        return Measurement(
            parameters={"rw": "randread", "bs": 4096, "rate": rate},
            throughput=Value(reached * 4096, "bytes/s"),
            rate=Value(reached, "operations/s"),
            latency_ns=Latency(latency, latency, latency, latency, None, latency, latency, 1000),
            streams=(),
            samples=None,
            concurrency=None,
            cpu_user_s=None,
            cpu_system_s=None,
            elapsed_s=1.0,
            operations=int(reached),
            bytes=int(reached) * 4096,
            repeats=1,
        )

    points = tuple(point(rate) for rate in (2e3, 1e4, 2e4, 3e4, 3.8e4, 1e5))
    (curve,) = fit_curves(made_experiment("storage.rate", "storage", "?", "rate", "storage_blocks", points))
    assert curve.model == "g-g-m" and curve.ceiling is not None
    assert curve.parameters["S"].value == pytest.approx(1e5, rel=0.02)
    assert curve.ceiling.value == pytest.approx(4e4 * 4096, rel=0.02)


@pytest.mark.parametrize(("rate", "variability", "arrivals", "latency_ns"), [
    # M/M/1 at half its capacity: R = S / (1 - r), and half the wait at half the variability. Half as varied arrivals
    # leave exp(-0.5 x 0.5^2 / (3 x 0.5 x 1)) of the wait (Kraemer & Langenbach-Belz).
    (5e3, 1.0, None, 2e5), (5e3, 0.5, None, 1.5e5), (5e3, 1.0, 0.5, 1e5 + 1e5 * math.exp(-1 / 12)),
    (5e3, 1.0, 0.0, 1e5 + 1e5 * math.exp(-1 / 3)), (5e3, 1.0, 1.0, 2e5), (5e3, 1.0, 2.0, 2e5), (0.0, 1.0, 0.5, 1e5),
    (1e4, 1.0, 0.5, math.inf), (1.5e4, 1.0, None, math.inf),
])  # fmt: skip
def test_a_server_waits_by_its_formula(rate: float, variability: float, arrivals: Any, latency_ns: float) -> None:
    numbers = {"S": 1e5, "m": 1.1, **({} if variability == 1.0 else {"v": variability})}
    numbers |= {} if arrivals is None else {"a": arrivals}
    model = OpenLoop.from_parameters({name: Value(number, "1") for name, number in numbers.items()})
    assert (model.servers, model.latency_ns(rate)) == (1, pytest.approx(latency_ns))
    assert OpenLoop(1e5, 1, 0.0).variability == 1.0


@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e6])
def test_queue_is_found_at_any_pace(scale: float) -> None:
    """Rates below one request a second to latencies below a nanosecond, at shares that the grid has."""
    shares = (0.1, 0.5, 0.8, 0.9, 0.985)
    rates, latencies = [scale * 1e4 * share for share in shares], [1e5 / scale / (1 - share) for share in shares]
    found = fit_open_loop(rates, latencies)
    assert found is not None and found.servers == 1
    assert (found.service_ns, found.variability) == pytest.approx((1e5 / scale, 1.0), rel=1e-6)
    # The grid's neighbours of 98.5%, at which the latency would be 50 and 100 service times and not 67, and 1%.
    assert (found.low_s, found.high_s) == pytest.approx((scale * 9.85e3, scale * 9.85e3 / 0.98 * 1.01))
    assert fit_open_loop([0.0, *rates, rates[1]], [5e6, *latencies, 0.0]) == found, "no rate or no latency"
    assert fit_open_loop(rates, latencies, 0.5, [None] * 5) == found, "arrivals without a known spread of service"


@pytest.mark.parametrize(("servers", "variability", "found_servers", "found"), [
    (994, 1.0, 994, 1.0), (1094, 1.0, 1094, 1.0), (1204, 1.0, 1094, None), (1, 0.019, 1, 0.02), (1, 0.021, 1, 0.021),
])  # fmt: skip
def test_servers_and_variability_have_bounds(servers: int, variability: float, found_servers: int, found: Any) -> None:
    """The counts go by a tenth from 16 on, and 1094 is the first of at least 1024."""
    rates = [servers * 1e4 * share for share in (0.1, 0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99)]
    queue = fit_open_loop(rates, [mean_latency(rate, 1e5, servers, variability) for rate in rates])
    assert queue is not None and queue.servers == found_servers
    assert found is None or queue.variability == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize(("off_by", "is_fitted"), [(0.0, True), (0.24, True), (0.26, False)])
def test_quarter_latency_errors_hide_the_queue(off_by: float, is_fitted: bool) -> None:
    """Latency never falls with the rate, so that a level is the nearest: each point is this far off in the log."""
    found = fit_open_loop((1e3, 2e3, 3e3, 4e3), [1e5 * math.exp(sign * off_by) for sign in (1, 1, -1, -1)])
    assert (found is not None) == is_fitted
    if found is not None and not off_by:
        # One server is busy for 40%, eight for 5%, the grid's least: the neighbour of 40%, and 1% for the formula.
        assert (found.low_s, found.high_s) == pytest.approx((4e3 / 0.41 * 0.99, 4e3 / 0.05 * 1.01))
        for times, even, is_open in ((1.49, None, False), (1.51, None, True), (1.2, 0.5, False), (1.22, 0.5, True)):
            assert replace(found, arrivals=even, low_s=1e3, high_s=times * 1e3).left_open == is_open


@pytest.mark.parametrize(("shares", "spread", "off"), [
    # Latencies of M/M/1 are exponential at every rate: their squared coefficient of variation is 1. Then 0.1 off, where
    # waits are 3/4 of the square of the mean at half the capacity: a quarter of it is 0.1875. Without any wait or error
    # every difference is far too great: three standard errors.
    ((0.2, 0.5), LatencySpread(1.0, 0.1), 0.0), ((0.2, 0.5), LatencySpread(1.1, 0.0), 0.01 / 0.1875**2),
    ((0.2, 0.5), None, 0.0),
    ((0.2, 0.5), LatencySpread(1.1, 0.3), 0.01 / (0.3**2 + 0.1875**2)), ((0.0, 0.0), LatencySpread(1.1, 0.0), 9.0),
])  # fmt: skip
def test_spreads_are_those_of_the_queue(shares: tuple[float, float], spread: LatencySpread | None, off: float) -> None:
    """The latency at the least rate, here the second point, tells how far service spreads."""
    least, both = LatencySpread(1.0, 0.0), np.array([[shares[1], shares[0]]])
    (sum_off,) = _spread_off(1, both, both / (1 - both), np.array([[1.0]]), least, [spread, least])
    assert sum_off == pytest.approx(off, abs=1e-9)
    # Of 1, 1, 1 and 5: a mean of 2, a variance of 12 / 4 and a fourth moment of 84 / 4.
    assert LatencySpread.from_histogram(Histogram.from_values((1, 1, 1, 5))) == LatencySpread(
        0.75, math.sqrt((21 - 9) / 4) / 4
    )
    assert LatencySpread.from_histogram(Histogram()) is None


@pytest.mark.parametrize(("unit", "per", "process", "varies"), [
    ("", 1, "poisson", 1.0), ("", 1, "linear", 0.0), ("", 1, "bursts", None), ("B", 4000, "poisson", 1.0),
    ("bytes/s", 4000, "poisson", 1.0), ("bit/s", 32000, "poisson", 1.0),
])  # fmt: skip
def test_rate_of_any_unit_counts_requests(unit: str, per: int, process: str, varies: float | None) -> None:
    """Requests of 4 kB each; random arrivals vary by 1, evenly spaced ones by 0."""

    def point(rate: float) -> Measurement:
        waits = mean_latency(rate, 1e5, 4)
        # Half at once and half after twice the mean: their squared coefficient of variation is 1 or just below.
        spread = Histogram.from_values([1.0, 2 * waits] * 500).pack()
        latency = Latency(waits, waits, waits, waits, None, waits, waits, 1000, spread)
        return base(parameters={"rate": rate * per, "rate_process": process}, latency_ns=latency,
                    rate=Value(rate, "operations/s"), throughput=Value(rate * 4000, "bytes/s"))  # fmt: skip

    points = tuple(point(rate) for rate in (2e3, 1e4, 2e4, 3e4, 3.5e4))
    made = made_experiment("storage.rate", "storage", "?", "rate", "storage_blocks", points)
    axes = tuple(replace(axis, unit=unit) if axis.name == "rate" else axis for axis in made.declaration.axes)
    (curve,) = fit_curves(replace(made, declaration=replace(made.declaration, axes=axes)))
    arrivals = curve.parameters.get("a")
    assert curve.model == "g-g-m" and (arrivals and arrivals.value) == varies


@pytest.mark.parametrize(("reached", "following"), [
    ((100, 200, 380), 500.0), ((100, 200, 379), 250.0), ((100, 150, 300), 125.0), ((90, 150, 300), None),
])  # fmt: skip
@pytest.mark.parametrize("counted", [True, False])
def test_next_rate_is_above_last_served(reached: Any, following: float | None, counted: bool) -> None:
    """Rates of 100, 200 and 400 a second; at least 95% is served, by operations/s or the throughput."""
    values = [Value(rate, "operations/s") for rate in reached]
    given = [{"rate": value} if counted else {"rate": None, "throughput": value} for value in values]
    points = tuple(base(parameters={"rate": rate}, **made) for rate, made in zip((100, 200, 400), given, strict=True))
    curve = Curve({}, "rate", (0, 1, 2), "1/s", "g-g-m", {CAPACITY: Value(1e3, "operations/s")})
    result = made_experiment("storage.rate", "storage", "?", "rate", "storage_blocks", points)
    assert rate_to_settle(result, curve) == following
