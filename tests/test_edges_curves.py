"""The thresholds of curves, caches, knees, loaded latencies, open loops and projections, just below and just above.

Each expected outcome is written out, so that a threshold that moves by a tenth is seen.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hwdyno.curves import _state, curves_of
from hwdyno.curves.caches import edges_of
from hwdyno.curves.knee import ENDLESS, _knee_of, _odd_of, fit_knee, knee_at
from hwdyno.curves.loaded import more_delays
from hwdyno.curves.open_loop import fit_open_loop, mean_latency
from hwdyno.curves.projection import outlook
from hwdyno.words import Axis
from test_curves import experiment, measured
from test_single_curves import knee, series
from test_single_knee import DIP, LOADS, RISE, curve, fitted, off, points_of, weighted

# --- still rising


@pytest.mark.parametrize(("half_rise", "state"), [(3.2, "knee"), (3.55, "still rising")])
def test_a_curve_still_rises_where_the_last_doubling_gains_more_than_5_percent(half_rise: float, state: str) -> None:
    """N / (N + a) gains a / (64 + a) from a depth of 32 to one of 64: 4.8% or 5.26%."""
    points = [measured({"iodepth": depth}, 1e5 * depth / (depth + half_rise)) for depth in (1, 2, 4, 8, 16, 32, 64)]
    (found,) = curves_of(experiment(points))
    assert found.state == state


@pytest.mark.parametrize(("last", "state"), [(104.7, "knee"), (105.3, "still rising")])
def test_a_rate_by_delay_has_levelled_where_half_the_delay_gains_up_to_5_percent(last: float, state: str) -> None:
    """The model gains 6% over the last doubling, the points 4.7% or 5.3%."""
    points = replace(series((0.25, 0.5, 1.0), (60.0, 100.0, last)), axis=Axis("delay", "cycles", "delay"))
    assert _state(points, knee(6 / 94)) == state


# --- caches


@pytest.mark.parametrize(("rise", "edges"), [(0.78, 0), (0.82, 1)])
def test_a_cache_ends_where_the_logarithm_rises_by_0_4_an_octave(rise: float, edges: int) -> None:
    """Sizes an octave apart: the rise is taken over the two octaves around it, which gives 0.39 or 0.41."""
    sizes, latencies_ns = [1024.0 * 2**at for at in range(12)], [10.0] * 6 + [10 * math.exp(rise)] * 6
    assert len(edges_of(sizes, latencies_ns)) == edges


@pytest.mark.parametrize(("apart_octaves", "edges"), [(0.12, 0), (0.13, 1)])
def test_the_rise_at_the_end_of_a_cache_is_taken_over_half_an_octave(apart_octaves: float, edges: int) -> None:
    """Within a quarter of an octave lie two sizes on each side, or one: a step of 0.15 in 0.48 or in 0.26 octaves."""
    sizes = [1024.0 * 2 ** (apart_octaves * at) for at in range(20)]
    assert len(edges_of(sizes, [10.0] * 10 + [10 * math.exp(0.15)] * 10)) == edges


# --- the knee


@pytest.mark.parametrize(("loss", "falls"), [(0.0191, 0.0), (0.0209, 1.0)])
def test_a_curve_that_loses_less_than_2_percent_does_not_fall(loss: float, falls: float) -> None:
    """Level from a load of 8 on, then a power law from 64 to 2048 that loses this much of the logarithm, exactly."""
    throughputs = [knee_at(load, 100.0, 4.0, 8.0, fall=loss / math.log(32), bend=64.0, width=ENDLESS) for load in LOADS]
    assert fit_knee(LOADS, throughputs, [1e-4] * len(LOADS)).falls == pytest.approx(falls, abs=1e-3)


@pytest.mark.parametrize(("weight_of_rise", "ceiling"), [(0.0093, 8.007), (0.0097, 8.007), (0.0103, 8.026)])
def test_a_model_with_less_than_a_hundredth_of_the_weight_is_left_out(weight_of_rise: float, ceiling: float) -> None:
    """The rise reaches 10, and the fall 8.007; the ceiling is their mean by weight, in the logarithm."""
    plain, falling = weighted(1 - weight_of_rise, 12, 2e-4, 2e-4)
    assert _knee_of(plain, [falling], None).ceiling.value == pytest.approx(ceiling, abs=3e-3)


@pytest.mark.parametrize(("residual", "is_odd"), [(0.039, False), (0.041, True)])
def test_an_odd_point_is_looked_for_from_a_residual_of_4_percent_on(residual: float, is_odd: bool) -> None:
    """The planted point is 30% below the others, but the fit of all points leaves it only this far off."""
    throughputs = curve(RISE)
    throughputs[DIP] *= 0.7
    assert (_odd_of(fitted(points_of(throughputs), RISE, off(residual)), []) is not None) == is_odd


# --- latency by bandwidth


@pytest.mark.parametrize(("least_rate", "added"), [(9.5, [428]), (10.5, [])])
def test_a_point_lies_inside_from_a_tenth_of_the_reached_bandwidth_on(least_rate: float, added: list[int]) -> None:
    """Eight points are enough; with the least outside one is added, in the widest gap: between 320 and 640 cycles."""
    delays = (0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
    assert more_delays(delays, (100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, least_rate)) == added


# --- open loops

SHARES = (0.1, 0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Of the capacity, whose last is the greatest that is tried."""


@pytest.mark.parametrize(("servers", "found_servers"), [(994, 994), (1094, 1094), (1204, 1094)])
def test_up_to_1094_servers_are_tried(servers: int, found_servers: int) -> None:
    """The counts go by a tenth from 16 on, and 1094 is the first of at least 1024."""
    rates = [servers * 1e4 * share for share in SHARES]
    found = fit_open_loop(rates, [mean_latency(rate, 1e5, servers) for rate in rates])
    assert found is not None and found.servers == found_servers


@pytest.mark.parametrize(("off_by", "is_fitted"), [(0.24, True), (0.26, False)])
def test_a_latency_that_is_off_by_more_than_a_quarter_has_no_queue(off_by: float, is_fitted: bool) -> None:
    """Latency never falls with the rate, so that a level is the nearest: each point lies this far off in the log."""
    latencies_ns = [1e5 * math.exp(one) for one in (off_by, off_by, -off_by, -off_by)]
    assert (fit_open_loop((1e3, 2e3, 3e3, 4e3), latencies_ns) is not None) == is_fitted


@pytest.mark.parametrize(("variability", "found_variability"), [(0.019, 0.02), (0.021, 0.021)])
def test_the_variability_of_a_queue_is_at_least_0_02(variability: float, found_variability: float) -> None:
    """One server of nearly constant service, at nearly even arrivals."""
    rates = [1e4 * share for share in SHARES]
    found = fit_open_loop(rates, [mean_latency(rate, 1e5, 1, variability) for rate in rates])
    assert found is not None and found.servers == 1
    assert found.variability == pytest.approx(found_variability, rel=1e-3)


# --- projections


@pytest.mark.parametrize(("between_ns", "thinks_ns"), [(4.75e5, 0.0), (5.25e5, 5.25e5)])
def test_a_projected_client_thinks_where_that_takes_a_twentieth_of_its_first_request(
    between_ns: float, thinks_ns: float
) -> None:
    """One client makes 100 requests a second, one in 10 ms: 4.75% or 5.25% of that lies between two requests."""
    loads = (1, 2, 4, 8, 16, 32, 64)
    rates = [100.0 * min(load, 4) for load in loads]
    latencies_ns = [load / rate * 1e9 - between_ns for load, rate in zip(loads, rates, strict=True)]
    (found,) = outlook(loads, rates, [0.01] * 7, [1000], latencies_ns=latencies_ns).projections
    assert found.latency_ns is not None
    assert found.latency_ns.value == pytest.approx(1e12 / found.throughput.value - thinks_ns, abs=1e4)
