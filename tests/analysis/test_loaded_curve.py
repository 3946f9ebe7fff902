"""Latency of memory under load: the sustained bandwidth, the limit of the queue, and the delays that are added."""

from __future__ import annotations

import pytest
from hwdyno.analysis.curves.loaded import loaded_curve, more_delays


@pytest.mark.parametrize(("latencies", "sustained", "crosses"), [
    # Idle is the least up to 15% of the peak, and 1.2 times that is sustained; it may cross before the first load.
    ((100, 100, 100, 110), 100, False), ((200, 100, 110, 130), 75, True), ((100, 130, 110, 130), 75, True),
    ((200, 100, 100, 110), 1, True), ((120, 100, 100, 110), 100, False),
])  # fmt: skip
def test_the_last_crossing_is_sustained(latencies: tuple[float, ...], sustained: float, crosses: bool) -> None:
    rates = (1.0, 14.9, 50.0, 100.0)
    found = loaded_curve(rates, latencies)
    assert found is not None and (found.sustained, found.crosses) == (pytest.approx(sustained), crosses)
    assert found == loaded_curve([0.0, *rates, 120.0], [100.0, *latencies, 0.0]), "no traffic or no latency: no point"
    few, busy = loaded_curve(rates[:2], latencies[:2]), loaded_curve((50.0, 75.0, 100.0), (100.0, 110.0, 130.0))
    assert few is None and busy is not None and busy.sustained == pytest.approx(87.5), "nothing idle: the least rate is"


@pytest.mark.parametrize(("top", "found_top"), [(10 * 3**0.5, 10 * 3**0.5), (30.0, 30.0), (40.0, 30.0)])
def test_the_queues_limit_is_found(top: float, found_top: float) -> None:
    """R = 100 + 50 X / (Xm - X); up to three times the greatest rate is tried."""
    rates = (1.0, 2.0, 4.0, 7.0, 10.0)
    found = loaded_curve(rates, [100 + 50 * rate / (top - rate) for rate in rates])
    assert found is not None and found.top == pytest.approx(found_top)
    if top == found_top:
        assert (found.rest_ns, found.wait_ns, found.latency_ns(5.0)) == pytest.approx((100, 50, 100 + 250 / (top - 5)))
        assert found.latency_ns(found.top) is None


@pytest.mark.parametrize(("delays", "rates", "added"), [
    # No whole delay is between these; half the way to the greatest is below a tenth of the peak.
    *(((0, 1), (100, 90), []), ((0, 1, 1000), (100, 15, 1), [])),
    # First 15, as 1 / 30 is nearly the mean of 1 / 15 and 1 / 10015.
    ((0, 10000), (100, 20), [15, 45, 5, 104, 25, 9]),
    # Half the way from 5 to 15 is a tenth of the peak, at 6 as 1 / 21 is between 1 / 16 and 1 / 32.
    ((0, 1, 17), (100, 15, 5), [6, 3, 4, 2, 5]),
    # Eight points from a tenth of the peak on are enough; else the widest gap has one more.
    *(((0, 10, 20, 40, 80, 160, 320, 640), (100, 90, 80, 70, 60, 50, 40, 10.5), []),
      ((0, 10, 20, 40, 80, 160, 320, 640), (100, 90, 80, 70, 60, 50, 40, 9.5), [428])),
])  # fmt: skip
def test_delays_fill_the_widest_gap(delays: tuple[float, ...], rates: tuple[float, ...], added: list[int]) -> None:
    assert more_delays(delays, rates) == added
