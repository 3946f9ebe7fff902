"""The open loop's model: exact where theory is, found again from noisy points, silent where it does not fit."""

from __future__ import annotations

import random

import pytest
from hwdyno.curves import curves_of
from hwdyno.curves.open_loop import fit_open_loop, mean_latency
from hwdyno.words import Latency, Measurement, Value
from made_experiment import made_experiment


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


def test_a_curve_over_rates_tells_service_and_capacity() -> None:
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
    (curve,) = curves_of(made_experiment("storage.rate", "storage", "?", "rate", "storage_blocks", points))
    assert curve.model == "g-g-m" and curve.ceiling is not None
    assert curve.parameters["S"].value == pytest.approx(1e5, rel=0.02)
    assert curve.ceiling.value == pytest.approx(4e4 * 4096, rel=0.02)
