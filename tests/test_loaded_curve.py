"""Latency by bandwidth: the bandwidth that is borne, the fit of an open queue, and delays worth adding."""

from __future__ import annotations

import pytest
from hwdyno.curves import curves_of, is_loaded
from hwdyno.curves.loaded import Loaded, loaded_curve, more_delays
from hwdyno.words import Value
from made_experiment import made_experiment
from made_point import base

RATES = (1.0, 14.9, 50.0, 100.0)


@pytest.mark.parametrize(
    ("latencies", "borne", "crosses"),
    [
        # Idle is the least up to 15% of the peak, and 1.2 times that is borne.
        ((100.0, 100.0, 100.0, 110.0), 100.0, False),
        ((100.0, 100.0, 110.0, 130.0), 75.0, True),
        ((200.0, 100.0, 110.0, 130.0), 75.0, True),
        ((100.0, 130.0, 110.0, 130.0), 75.0, True),
        # It crosses before the first load.
        ((200.0, 100.0, 100.0, 110.0), 1.0, True),
        ((120.0, 100.0, 100.0, 110.0), 100.0, False),
    ],
)
def test_the_last_crossing_is_borne(latencies: tuple[float, ...], borne: float, crosses: bool) -> None:
    found = loaded_curve(RATES, latencies)
    assert found is not None and found.borne == pytest.approx(borne) and found.crosses == crosses
    assert found == loaded_curve([0.0, *RATES, 120.0], [100.0, *latencies, 0.0]), "no traffic or no latency: no point"
    assert found.idle_ns == 100.0
    assert loaded_curve(RATES[:2], latencies[:2]) is None and loaded_curve(RATES[:3], latencies[:3]) is not None


@pytest.mark.parametrize(("top", "found_top"), [(14.0, 14.0), (30.0, 30.0), (40.0, 30.0)])
def test_the_queues_limit_is_found(top: float, found_top: float) -> None:
    """R = 100 + 50 X / (Xm - X); up to three times the greatest rate is tried."""
    rates = (1.0, 2.0, 4.0, 7.0, 10.0)
    found = loaded_curve(rates, [100 + 50 * rate / (top - rate) for rate in rates])
    assert found is not None and found.top == pytest.approx(found_top, rel=0.005)
    if top == found_top:
        assert (found.rest_ns, found.wait_ns) == pytest.approx((100.0, 50.0), rel=0.03)


def test_a_loaded_latency_has_a_limit() -> None:
    found = Loaded(90.0, 18.0, 10.0, 110.0, True, top=20.0, rest_ns=100.0, wait_ns=10.0)
    assert [found.latency_ns(rate) for rate in (15.0, 20.0)] == [pytest.approx(100 + 10 * 15 / 5), None]


@pytest.mark.parametrize(
    ("delays", "rates", "added"),
    [
        # No whole delay is between these; half the way to the greatest is below a tenth of the peak.
        ((0.0, 1.0), (100.0, 90.0), []),
        ((0.0, 1.0, 1000.0), (100.0, 15.0, 1.0), []),
        # Half the way from 5 to 15 is a tenth of the peak, at 6 as 1 / 21 is between 1 / 16 and 1 / 32.
        ((0.0, 1.0, 17.0), (100.0, 15.0, 5.0), [6, 3, 4, 2, 5]),
        # Eight points from a tenth of the peak on are enough; else the widest gap has one more.
        ((0, 10, 20, 40, 80, 160, 320, 640), (100, 90, 80, 70, 60, 50, 40, 10.5), []),
        ((0, 10, 20, 40, 80, 160, 320, 640), (100, 90, 80, 70, 60, 50, 40, 9.5), [428]),
    ],
)
def test_delays_fill_the_widest_gap(delays: tuple[float, ...], rates: tuple[float, ...], added: list[int]) -> None:
    assert more_delays(delays, rates) == added


@pytest.mark.parametrize(
    ("kernel", "load", "loaded"),
    [("memory_loaded_latency", "delay", True), ("memory_loaded_latency", "threads", False),
     ("memory_bandwidth", "delay", False)],
)  # fmt: skip
def test_a_loaded_latency_is_by_delay(kernel: str, load: str, loaded: bool) -> None:
    points = tuple(base(parameters={load: at}, throughput=Value(1e9 / at, "bytes/s"), rate=None) for at in (1, 2, 4))
    result = made_experiment("memory.x", "memory", "?", load, kernel, points)
    assert is_loaded(result) == loaded == (curves_of(result)[0].model == "loaded-latency")
