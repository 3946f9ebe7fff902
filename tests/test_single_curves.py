"""Single lines of curves that a change would break and no planted fault showed: what is read off a fit, and caches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hwdyno.axes import FIELD
from hwdyno.curves import (
    CAPACITY,
    _best,
    _load,
    _read_off,
    _Series,
    _state,
    _tight,
    curves_of,
    error_of,
    is_loaded,
    rate_to_settle,
    suggest_load,
)
from hwdyno.curves.caches import _median, _slope, edges_of, quickest, settled_ns
from hwdyno.curves.knee import Knee, fit_knee
from hwdyno.curves.least_squares import fit
from hwdyno.curves.loaded import loaded_curve, more_delays
from hwdyno.curves.models import Interval, Scalability
from hwdyno.curves.open_loop import mean_latency
from hwdyno.curves.projection import _thinking_ns, outlook
from hwdyno.curves.roofline import roofs_of
from hwdyno.statistics import Histogram, t_quantile
from hwdyno.words import Axis, Curve, ExperimentResult, Latency, Measurement, Parameters, Value
from made_experiment import made_experiment
from test_curves import experiment, measured

if TYPE_CHECKING:
    from hwdyno.curves.least_squares import Array

DEPTHS = (1, 2, 4, 8, 16)


def series(
    loads: tuple[float, ...],
    amounts: tuple[float, ...],
    latencies: tuple[float | None, ...] = (),
    tails: tuple[float | None, ...] = (),
) -> _Series:
    """Points of queue depths, in bytes/s."""
    none = (None,) * len(loads)
    values = tuple(Value(one, "bytes/s") for one in amounts)
    return _Series(
        tuple(range(len(loads))), loads, values, latencies or none, tails or none, FIELD["iodepth"], none, None, 1.0
    )


def knee(crossing: float = 1e-9, top: float = 1000.0, **changes: Any) -> Knee:
    """X(N) = 1000 N / (N + N*): level where N* is next to nothing."""
    one = Interval(1.0)
    made = Knee(Interval(top), Interval(crossing), p=one, top=top, one=crossing / top, gain=Interval(2.0))
    return replace(made, **changes)


# --- points, loads and errors


def test_a_point_of_less_than_one_a_second_lies_on_its_curve() -> None:
    rates = (0.0, 0.25, 0.5, 1.0)
    points = [measured({"iodepth": load}, rate, bs=1) for load, rate in zip((1, 2, 4, 8), rates, strict=True)]
    (curve,) = curves_of(experiment(points))
    assert curve.points == (1, 2, 3)


@pytest.mark.parametrize(
    ("unit", "role", "given", "load"),
    [
        ("cycles", "delay", 8, 1 / 8),
        ("cycles", "delay", 1, 1.0),
        ("cycles", "delay", 0, 1.0),
        ("s", "delay", 1e-6, 1e-3),
        ("s", "delay", 0.0, 1.0),
        ("", "concurrency", 8, 8.0),
    ],
)
def test_a_delay_offers_one_over_it_by_its_smallest_value(unit: str, role: Any, given: float, load: float) -> None:
    """One cycle or 1 ns; no delay counts as that."""
    axis = Axis("x", unit, role)
    assert _load(measured({"x": given}, 1.0), axis) == pytest.approx(load)


@pytest.mark.parametrize(
    ("value", "repeats", "degrees"), [(0.5, 1, 30), (0.5, 2, 5), (0.5, 3, 2), (1.0, 10, 9), (100.0, 31, 30)]
)
def test_an_intervals_standard_error_is_by_its_repeats(value: float, repeats: int, degrees: int) -> None:
    """Half the interval over Student's t; two repeats borrow four degrees of freedom from other points."""
    wide = Value(value, "1", 0.9 * value, 1.1 * value)
    assert error_of(wide, repeats) == pytest.approx(0.1 / t_quantile(degrees))
    assert error_of(replace(wide, value=0.0), repeats) is None
    assert error_of(replace(wide, low=None), repeats) is None


def test_a_model_needs_three_loads_that_are_valid_and_takes_no_others_then() -> None:
    """The floor is the least latency of those that count: the invalid point has a shorter one."""
    points = [measured({"iodepth": load}, 100.0 * load, latency_ns=50.0 + load) for load in (1, 2, 4, 8)]
    points[0] = replace(points[0], validity="invalid")
    (three,) = curves_of(experiment(points))
    assert three.floor is not None and three.floor.load == 2
    points[1] = replace(points[1], validity="invalid")
    (two,) = curves_of(experiment(points))
    assert two.floor is not None and two.floor.load == 1


def test_the_time_of_a_request_is_known_from_rates_below_one_a_second() -> None:
    """0.8 N / (N + 7) requests a second: one alone takes 10 s. A rate of 0 beside bytes tells no size."""
    points = [measured({"iodepth": load}, 0.8 * load / (load + 7)) for load in (*DEPTHS, 32, 64)]
    points[0] = replace(points[0], rate=Value(0.0, "operations/s"))
    (curve,) = curves_of(experiment(points))
    assert curve.parameters["R1"].value == pytest.approx(10.0, rel=0.01)


def test_less_than_one_request_in_flight_is_no_count_of_requests() -> None:
    """X = Xm N / (N + 8); where loads count requests the same points would have 9."""
    points = [measured({"iodepth": load}, 1e5 * load / (load + 8)) for load in (0.5, *DEPTHS, 32, 64)]
    (curve,) = curves_of(experiment(points))
    assert curve.parameters["N*"].value == pytest.approx(8.0, rel=0.01)


@pytest.mark.parametrize(
    ("kernel", "load", "loaded"),
    [
        ("memory_loaded_latency", "delay", True),
        ("memory_loaded_latency", "threads", False),
        ("memory_bandwidth", "delay", False),
    ],
)
def test_a_loaded_latency_is_of_its_kernel_and_by_its_delay(kernel: str, load: str, loaded: bool) -> None:
    result = made_experiment("memory.x", "memory", "?", load, kernel, (measured({load: 8}, 1.0),))
    assert is_loaded(result) == loaded


def test_a_load_to_suggest_is_at_least_one() -> None:
    curve = Curve({}, "iodepth", (0, 1), "bytes/s", "queue-knee", load_90=0.4, state="knee")
    assert suggest_load(curve, FIELD["iodepth"]) == 1
    assert suggest_load(replace(curve, load_90=2.6), FIELD["iodepth"]) == 3


# --- open loops


def offered(*points: Measurement) -> ExperimentResult:
    return made_experiment("storage.rate", "storage", "?", "rate", "storage_blocks", points)


@pytest.mark.parametrize(
    ("reached", "following"),
    [
        ((100.0, 200.0, 300.0), 250.0),
        ((100.0, 200.0, 380.0), 500.0),
        ((100.0, 150.0, 300.0), 125.0),
        ((90.0, 150.0, 300.0), None),
    ],
)
@pytest.mark.parametrize("counted", [True, False])
def test_the_next_rate_is_a_quarter_above_the_highest_that_was_served(
    reached: tuple[float, ...], following: float | None, counted: bool
) -> None:
    """Of 100, 200 and 400 a second; at least 95% of it is served, whether a point has operations/s or these alone."""
    points = [measured({"rate": rate}, done) for rate, done in zip((100.0, 200.0, 400.0), reached, strict=True)]
    if not counted:
        points = [replace(one, throughput=one.rate, rate=None) for one in points if one.rate]
    capacity = {CAPACITY: Value(1e3, "operations/s")}
    curve = Curve({}, "rate", (0, 1, 2), "operations/s", "g-g-m", capacity)
    assert rate_to_settle(offered(*points), curve) == following


@pytest.mark.parametrize(("process", "varies"), [("poisson", 1.0), ("linear", 0.0), ("bursts", None)])
def test_the_variability_of_arrivals_is_that_of_their_process(process: str, varies: float | None) -> None:
    """Random ones have a coefficient of variation of 1, evenly spaced ones of 0."""

    def point(rate: float) -> Measurement:
        waits = mean_latency(rate, 1e5, 4)
        # Half at once and half after twice the mean: their squared coefficient of variation is 1 or just below.
        spread = Histogram.from_values([1.0, 2 * waits] * 500).pack()
        latency = Latency(waits, waits, waits, waits, None, waits, waits, 1000, spread)
        return replace(measured({"rate": rate, "rate_process": process}, rate), latency_ns=latency)

    (curve,) = curves_of(offered(*(point(rate) for rate in (2e3, 1e4, 2e4, 3e4, 3.5e4))))
    found = curve.parameters.get("a")
    assert curve.model == "g-g-m" and (found and found.value) == varies


# --- what is read off a fit


def law(peak_load: float | None, a: float = 0.0) -> Scalability:
    """X(N) = 187.5 N / (1 + N (N - 1) / peak^2): 800 at a peak of 8."""
    return Scalability(Interval(187.5), Interval(a), None if peak_load is None else Interval(peak_load**-2))


@pytest.mark.parametrize(
    ("usl", "top", "ceiling", "state"),
    [
        (None, Interval(400.0, 360.0, 440.0), Value(400.0, "bytes/s", 360.0, 440.0), "still rising"),
        (law(None), Interval(400.0, 360.0, 440.0), Value(400.0, "bytes/s", 360.0, 440.0), "still rising"),
        (law(8.0), Interval(400.0, 300.0, 600.0), Value(800.0, "bytes/s", 600.0, 1200.0), "knee"),
        (law(8.0), Interval(400.0), Value(800.0, "bytes/s"), "knee"),
        (law(8.0), Interval(900.0, 800.0, 950.0), Value(900.0, "bytes/s", 800.0, 950.0), "knee"),
        (law(16.0), Interval(400.0, 360.0, 440.0), Value(400.0, "bytes/s", 360.0, 440.0), "still rising"),
        (law(8.0, a=1.0), Interval(400.0, 360.0, 440.0), Value(400.0, "bytes/s", 360.0, 440.0), "still rising"),
    ],
)
def test_a_peak_that_was_passed_is_the_ceiling_and_moves_its_interval(
    usl: Scalability | None, top: Interval, ceiling: Value, state: str
) -> None:
    points = series(DEPTHS, (100.0, 200.0, 300.0, 350.0, 400.0))
    plain = Curve({}, "threads", tuple(range(5)), "bytes/s", "none")
    found = _read_off(plain, points, knee(8.0, ceiling=top), usl)
    assert found.ceiling == ceiling and found.state == state


def test_a_peak_between_the_last_two_loads_was_passed() -> None:
    plain = Curve({}, "threads", tuple(range(5)), "bytes/s", "none")
    points = series(DEPTHS, (100.0, 200.0, 300.0, 350.0, 400.0))
    assert _read_off(plain, points, knee(8.0), law(12.0)).state == "knee"


def test_a_passed_peak_leaves_a_level_curve_level() -> None:
    plain = Curve({}, "threads", tuple(range(5)), "bytes/s", "none")
    points = series(DEPTHS, (100.0,) * 5, (50.0,) * 5)
    assert _read_off(plain, points, knee(), law(8.0)).state == "flat"


@pytest.mark.parametrize(
    ("low", "high", "tight"),
    [
        (1.9, 2.1, True),
        (1.52, 2.48, True),
        (1.9, 2.5, False),
        (1.5, 2.1, False),
        (1.9, 3.0, False),
        (1.0, 2.1, False),
        (None, 2.1, False),
        (1.9, None, False),
    ],
)
def test_a_rising_ceiling_is_known_within_a_quarter_on_each_side(
    low: float | None, high: float | None, tight: bool
) -> None:
    assert _tight(Interval(2.0, low, high)) == tight


@pytest.mark.parametrize(
    ("crossing", "gain", "state"),
    [
        # The last doubling gains N* / (N + N*) with N = 94: 6% or 4%.
        (6.0, Interval(2.0), "still rising"),
        (94 / 24, Interval(2.0), "knee"),
        (1e-9, Interval(2.0), "knee"),
        (1e-9, Interval(1.06), "knee"),
        # The first point has 95% of the ceiling.
        (1e-9, Interval(1 / 0.95), "saturated at the first point"),
        (1e-9, Interval(1.05), "saturated at the first point"),
        # A rise within its own error is none.
        (1e-9, Interval(2.0, 1.01), "knee"),
        (1e-9, Interval(2.0, 1.0), "saturated at the first point"),
    ],
)
def test_a_curve_has_a_knee_where_it_rose_and_rises_no_more(crossing: float, gain: Interval, state: str) -> None:
    assert _state(series((1.0, 47.0, 94.0), (100.0, 80.0, 100.0)), knee(crossing, gain=gain)) == state


@pytest.mark.parametrize(
    ("most", "latencies", "state"),
    [
        (24.0, (100.0, 140.0), "flat"),
        (24.0, (140.0, 100.0), "flat"),
        (24.0, (100.0, 160.0), "saturated at the first point"),
        (20.0, (100.0, 140.0), "saturated at the first point"),
        (24.0, (None, 140.0), "saturated at the first point"),
    ],
)
def test_a_level_curve_is_flat_where_three_times_the_load_leaves_the_latency_as_it_was(
    most: float, latencies: tuple[float | None, ...], state: str
) -> None:
    assert _state(series((8.0, most), (100.0, 100.0), latencies), knee()) == state


# --- the best place and its words


@pytest.mark.parametrize(
    ("tails", "load"),
    [
        ((None, 1999.0, 1000.0), 2),
        ((None, 2000.0, 1000.0), 4),
        ((None, 2200.0, 1000.0), 4),
        ((None, None, 1000.0), 2),
        ((None, None, 0.4), 2),
        ((None, 2000.0, None), 2),
    ],
)
def test_a_greater_load_is_the_best_where_it_has_half_the_p99(tails: tuple[float | None, ...], load: int) -> None:
    """Both have 90% of the ceiling; a p99 that is not known is no worse."""
    best, reach_90, reach_95 = _best(series((1, 2, 4), (50.0, 92.0, 96.0), tails=tails), knee(top=100), "knee", 100.0)
    assert (best.load, reach_90, reach_95) == (load, 2, 4)


@pytest.mark.parametrize(
    ("latencies", "of_last"),
    [
        ((10.0, 20.0, 40.0, 80.0), "; 25% of the latency at 8"),
        ((10.0, 20.0, None, 80.0), "; 25% of the latency at 8"),
        ((10.0, 20.0, 40.0, None), ""),
    ],
)
def test_the_best_place_is_said_beside_the_first_load_and_the_last(
    latencies: tuple[float | None, ...], of_last: str
) -> None:
    best, _, _ = _best(series((1, 2, 4, 8), (50.0, 92.0, 96.0, 100.0), latencies), knee(top=100), "knee", 100.0)
    assert best.note == f"92% of the ceiling; 1.84 times 1's throughput at 2 times its latency{of_last}"


@pytest.mark.parametrize(
    ("loads", "below"), [((1, 2, 4, 8), "4 has 80%"), ((1, 2, 8, 8), "2 has 60%"), ((8, 8, 8, 8), "")]
)
def test_the_trade_is_with_the_next_smaller_load(loads: tuple[float, ...], below: str) -> None:
    points = series(loads, (20.0, 60.0, 80.0, 100.0), tails=(100.0, 100.0, 100.0, 200.0))
    best, _, _ = _best(points, knee(top=100), "knee", 100.0)
    words = [one for one in best.note.split("; ") if "of its throughput" in one]
    assert words == ([f"{below} of its throughput at 50% of its p99"] if below else [])


# --- caches


@pytest.mark.parametrize(
    ("mean", "median", "settled"), [(15.0, 10.0, 11.0), (5.0, 10.0, 9.0), (10.4, 10.0, 10.4), (7.0, None, 7.0)]
)
def test_a_chases_latency_is_its_mean_within_1_ns_of_its_median(
    mean: float, median: float | None, settled: float
) -> None:
    assert settled_ns(Latency(mean, median, None, None, None, None, None, 9)) == settled


def test_an_edge_lies_between_latencies_below_one_ns_and_above() -> None:
    """A set or a latency of 0 is no reading."""
    sizes, latencies = [1024.0 * 2**at for at in range(12)], [0.5] * 6 + [4.0] * 6
    (edge,) = edges_of([0.0, *sizes, 1e9], [9.0, *latencies, 0.0])
    assert (edge.size_bytes, edge.below_ns, edge.above_ns) == pytest.approx((2.0**15, 0.5, 4.0))


def test_a_cache_may_end_at_the_first_size() -> None:
    (edge,) = edges_of([1024.0 * 2**at for at in range(7)], [1.0] + [8.0] * 6)
    assert (edge.size_bytes, edge.below_ns, edge.above_ns) == pytest.approx((1024.0, 1.0, 8.0))


@pytest.mark.parametrize(("rise", "edges"), [(0.7, 0), (0.9, 1)])
def test_an_edge_rises_by_more_than_two_fifths_of_the_logarithm_an_octave(rise: float, edges: int) -> None:
    """Taken over the two octaves around it."""
    sizes, latencies = [1024.0 * 2**at for at in range(12)], [10.0] * 6 + [10 * math.exp(rise)] * 6
    assert len(edges_of(sizes, latencies)) == edges


@pytest.mark.parametrize(("at", "slope"), [(0, 35.0), (3, 2.0), (6, 10.0)])
def test_the_slope_is_taken_over_half_an_octave(at: int, slope: float) -> None:
    """Or over what lies on one side of the first and the last place."""
    places = (9.7, 9.75, 9.9, 10.0, 10.1, 10.25, 10.3)
    heights = (0.0, 1.0, 7.0, 5.0, 7.0, 2.0, 9.0)
    assert _slope(places, heights, at) == pytest.approx(slope)


def test_the_slope_of_places_far_apart_is_between_the_neighbours() -> None:
    assert [_slope((1.0, 2.0, 3.0), (0.0, 5.0, 8.0), at) for at in range(3)] == [5.0, 4.0, 3.0]


def test_a_running_median_is_of_three() -> None:
    assert _median([5.0, 6.0, 7.0, 1.0, 8.0]) == [5.0, 6.0, 6.0, 7.0, 8.0]


# --- many small fits


def line(theta: Array) -> tuple[Array, Array]:
    """y = a x at x = 1, 2, 3, and its slopes."""
    x = np.array([1.0, 2.0, 3.0])
    return theta[:, :1] * x, np.repeat(x[None, :, None], len(theta), axis=0)


@pytest.mark.parametrize(("start", "rounds"), [(2.0, 15), (2.0 + 1e-10, 1)])
def test_a_fit_of_exact_points_ends_early(start: float, rounds: int) -> None:
    """No step is better than the truth: a damping of 1e-3 is past a million after 15 rises to the fourfold.

    What lowers a cost of next to nothing is the last step.
    """
    calls = 0

    def counted(theta: Array) -> tuple[Array, Array]:
        nonlocal calls
        calls += 1
        return line(theta)

    bounds, pull = (np.array([0.0]), np.array([9.0])), np.zeros((2, 1))
    found, _ = fit(counted, np.array([[2.0, 4.0, 6.0]]), np.array([[start]]), bounds, np.ones((1, 3)), 0.01, pull)
    assert found[0, 0] == pytest.approx(2.0)
    assert calls == 1 + rounds


@pytest.mark.parametrize("way", [1.0, -1.0])
@pytest.mark.parametrize(("data", "x", "y"), [((0.0, 2.0), 2.0, 2.0), ((-5.0, 2.0), 0.0, 3.5)])
def test_only_a_parameter_that_is_pushed_over_its_bound_stays_there(
    way: float, data: tuple[float, float], x: float, y: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """x - y and y, with x from 0 on: at (0, 0) the first data push x nowhere, the second down. Lines take one round."""
    monkeypatch.setattr("hwdyno.curves.least_squares.ROUNDS", 1)
    slopes = np.array([[way, -1.0], [0.0, 1.0]])

    def plane(theta: Array) -> tuple[Array, Array]:
        return theta @ slopes.T, slopes[None]

    bounds = (np.array([0.0, -9.0]), np.array([9.0, 9.0])) if way > 0 else (np.full(2, -9.0), np.array([0.0, 9.0]))
    found, _ = fit(plane, np.array([data]), np.zeros((1, 2)), bounds, np.ones((1, 2)), 1e6, np.zeros((2, 2)))
    assert found[0] == pytest.approx([way * x, y], rel=0.01)


# --- latency by bandwidth


@pytest.mark.parametrize(
    ("latencies", "borne", "crosses"),
    [
        # Idle is the least up to 15% of the peak, and 1.2 times that is borne.
        ((100.0, 100.0, 100.0, 110.0), 100.0, False),
        ((100.0, 100.0, 110.0, 130.0), 75.0, True),
        ((200.0, 100.0, 110.0, 130.0), 75.0, True),
        # It crosses before the first load.
        ((200.0, 100.0, 100.0, 110.0), 1.0, True),
        ((120.0, 100.0, 100.0, 110.0), 100.0, False),
    ],
)
def test_the_bandwidth_that_is_borne_is_that_of_the_last_crossing(
    latencies: tuple[float, ...], borne: float, crosses: bool
) -> None:
    found = loaded_curve((1.0, 2.0, 50.0, 100.0), latencies)
    assert found is not None and found.borne == pytest.approx(borne) and found.crosses == crosses


def test_a_loaded_latency_needs_three_points() -> None:
    assert loaded_curve((1.0, 2.0), (1.0, 2.0)) is None
    assert loaded_curve((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)) is not None


@pytest.mark.parametrize(
    ("delays", "rates"),
    [
        ((0.0, 1.0), (100.0, 90.0)),  # no whole delay lies between
        ((0.0, 1.0, 1000.0), (100.0, 15.0, 1.0)),  # half the way to the greatest is below a tenth of the peak
    ],
)
def test_no_delay_is_added_where_none_would_lie_inside(delays: tuple[float, ...], rates: tuple[float, ...]) -> None:
    assert more_delays(delays, rates) == []


def test_all_whole_delays_between_two_are_added_where_these_are_few() -> None:
    """Half the way from 5 to 15 is just a tenth of the peak, at 6 as 1 / 21 lies between 1 / 16 and 1 / 32."""
    assert more_delays((0.0, 1.0, 17.0), (100.0, 15.0, 5.0)) == [6, 3, 4, 2, 5]


# --- projections

HARD = [100.0 * min(load, 4) for load in (1, 2, 4, 8, 16, 32, 64)]
LOADS = (1, 2, 4, 8, 16, 32, 64)
SURE = [0.01] * 7


def test_a_projected_latency_is_by_littles_law_and_none_without_a_requests_share() -> None:
    """One request adds 1 unless another share is given."""
    (plain,) = outlook(LOADS, HARD, SURE, [1000]).projections
    assert plain.throughput.value == pytest.approx(400.0, rel=0.01)
    assert plain.latency_ns is not None and plain.latency_ns.value == pytest.approx(1e12 / plain.throughput.value)
    (unknown,) = outlook(LOADS, HARD, SURE, [1000], per_request=None).projections
    assert unknown.latency_ns is None and unknown.throughput == plain.throughput


@pytest.mark.parametrize(("crossing", "measure"), [(100.0, 256), (1e6, 1024)])
def test_a_knee_far_away_is_looked_for_within_64_times_the_load(
    crossing: float, measure: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a power of two from twice the knee on, where the most so far is a load of 8."""
    monkeypatch.setattr("hwdyno.curves.projection.fit_knee", lambda *given, **named: knee(crossing))
    found = outlook((1, 2, 4, 8), [100.0, 200.0, 400.0, 800.0], [0.01] * 4, [1000])
    assert found.refused == "the knee was not reached" and found.measure == measure


def test_four_loads_predict_no_fifth() -> None:
    found = outlook((1, 16, 64, 256), [100.0, 400.0, 400.0, 400.0], [0.001] * 4, [1000])
    assert found.projections and found.predicted_share is None


@pytest.mark.parametrize(("least", "counts"), [(0.5, False), (1, True)])
def test_less_than_one_request_in_flight_is_projected_as_no_count_of_requests(
    least: float, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for the projection nor for the prediction of the last load."""
    loads, seen = (least, 2, 4, 8, 16, 32, 64, 128, 256), []

    def fitted(*given: Any, requests: bool) -> Knee:
        seen.append(requests)
        return fit_knee(*given, requests=requests)

    monkeypatch.setattr("hwdyno.curves.projection.fit_knee", fitted)
    found = outlook(loads, [1000 * load / (load + 8) for load in loads], [0.01] * 9, [1000])
    assert found.predicted_share == pytest.approx(1.0, rel=0.01) and seen == [counts, counts]


@pytest.mark.parametrize(("falls", "refused"), [(0.0, False), (0.49, False), (0.5, True), (0.6, True)])
def test_a_curve_that_more_likely_falls_than_not_is_not_projected(
    falls: float, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(knee(4.0, ceiling=Interval(400.0, 390.0, 410.0), falls=falls), crossing=Interval(4.0, 3.0, 5.0))
    monkeypatch.setattr("hwdyno.curves.projection.fit_knee", lambda *given, **named: made)
    found = outlook(LOADS, HARD, SURE, [1000])
    assert bool(found.refused) == refused == (not found.projections)


@pytest.mark.parametrize(
    ("latencies", "between"),
    [
        ((944.0, 1944.0), 56.0),
        ((952.0, 1952.0), 0.0),
        ((500.0, 1500.0), 500.0),
        ((None, 1944.0), 0.0),
        ((None, None), 0.0),
    ],
)
def test_clients_think_where_it_takes_a_twentieth_of_the_first_requests_time(
    latencies: tuple[float | None, ...], between: float
) -> None:
    """A request of one client takes 1000 ns in all, and of two that share the rate 2000 ns."""
    assert _thinking_ns((1, 2), (1e6, 1e6), latencies) == pytest.approx(between)


# --- rooflines


def test_a_roofline_of_less_than_one_flop_a_second_has_its_points() -> None:
    """0.25 FLOP/s at 1 FLOP/B take 0.25 B/s, and 0.5 FLOP/s is the most."""
    rows = ((1.0, 0.25), (2.0, 0.5), (2.0, 0.4), (4.0, 0.5), (8.0, 0.0))
    points = tuple(
        replace(measured({"intensity": intensity}, 1.0), throughput=Value(rate, "FLOP/s")) for intensity, rate in rows
    )
    fixed: Parameters = {"precision": "single", "on": "gpu", "array": 1 << 20}
    found = roofs_of(ExperimentResult("gpu.x", "gpu", "?", "intensity", "gpu_roofline", points, fixed=fixed))
    assert found is not None and (found.bytes_s, found.flop_s) == (0.25, 0.5)
    assert [(one.intensity, one.flop_s, one.at) for one in found.spots] == [
        (1.0, 0.25, 0),
        (2.0, 0.5, 1),
        (4.0, 0.5, 3),
    ]


def test_the_quickest_of_one_size_counts_and_a_size_counts_once() -> None:
    """As where each size is measured on two nodes, or with two strides."""
    sizes = [1024.0 * 4**at for at in range(6)]
    levels = [1.0, 1.0, 1.0, 8.0, 8.0, 8.0]
    twice = edges_of([*sizes, *sizes], [*(2 * one for one in levels), *levels])
    assert twice == edges_of(sizes, levels) and len(twice) == 1
    assert edges_of([4096.0] * 9, [1.0] * 9) == ()
    assert quickest([(2.0, 3.0), (1.0, 5.0), (2.0, 1.0), (0.0, 1.0), (4.0, 0.0)]) == [(1.0, 5.0), (2.0, 1.0)]
