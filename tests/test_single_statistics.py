"""Single lines of statistics, samples and laws of load that a change would break and no planted fault showed."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hwdyno.curves.models import Interval as Fitted
from hwdyno.curves.models import Scalability, _half_widths, fit_scalability
from hwdyno.curves.open_loop import OpenLoop, Spread, _spread_off, evenness, fit_open_loop, mean_latency
from hwdyno.hosts.agent import unpack_reading
from hwdyno.samples import repeats_that_show, two_modes
from hwdyno.statistics import Histogram, early_stopping_count, snia_window
from hwdyno.statistics.arrays import sum_of, summary_of
from hwdyno.words import Value

# --- repeats and rounds


def test_the_repeats_that_show_a_level_are_those_of_its_chance_to_be_missed() -> None:
    """A level of a fifth is missed by 8.6% of points after 11 repeats and by 6.9% after 12: at most 8.5% may."""
    assert 0.8**12 <= 0.085 < 0.8**11
    assert [repeats_that_show(points) for points in range(1, 8)] == [12, 12, 7, 5, 4, 4, 3]


@pytest.mark.parametrize(("distinct", "two"), [(9, False), (10, True)])
def test_two_levels_need_ten_distinct_values(distinct: int, two: bool) -> None:
    values = [(100.0 if at % distinct % 2 else 50.0) + at % distinct / 10 for at in range(20)]
    assert (two_modes([values]) is not None) == two


@pytest.mark.parametrize(("level", "known"), [(0.0, False), (0.5, True)])
def test_a_window_of_rounds_has_shares_where_its_mean_is_above_nothing(level: float, known: bool) -> None:
    window = snia_window([level] * 5)
    assert (window is not None and (window.mean, window.spread, window.moves, window.steady)) == (
        known and (level, 0.0, 0.0, True)
    )


def test_a_percentile_needs_the_queries_of_load_generator_at_99_percent() -> None:
    """With none above it: 0.99^458 is over 1%, 0.99^459 is not."""
    assert 0.99**459 <= 0.01 < 0.99**458
    assert early_stopping_count(0.99) == 459


# --- histograms


def test_the_last_bucket_ends_at_two_to_the_42nd() -> None:
    """By the formula e 2^10 + (v >> e): of v = 2^42 - 1, e is 31 and v >> e is 2047."""
    assert Histogram.index((1 << 42) - 1) == 31 * 1024 + 2047
    assert Histogram.index(1 << 42) == Histogram.index(1 << 50) == 31 * 1024 + 2047
    assert Histogram.index((1 << 42) - (1 << 31) - 1) == 31 * 1024 + 2046


def test_a_value_recorded_no_times_is_not_there() -> None:
    histogram = Histogram()
    histogram.record(5, 0)
    histogram.record(5, -1)
    assert histogram.to_reading() == {"sub_bits": 10, "count": 0, "sum": 0, "min": 0, "max": 0, "buckets": []}
    histogram.record(5)
    assert (histogram.count, histogram.min, histogram.buckets) == (1, 5, {5: 1})


def test_a_histogram_of_nothing_has_a_mean_and_quantiles_of_0() -> None:
    assert Histogram().mean == 0.0
    none = Histogram.from_values([100, 200]).times(0)
    assert none.count == 0 and none.quantiles((0.5, 0.99)) == [0, 0]


def test_histograms_are_equal_where_their_values_are() -> None:
    assert Histogram.from_values([1, 2]) == Histogram.from_values([2, 1])
    assert Histogram.from_values([1, 2]) != Histogram.from_values([1, 3])
    assert Histogram.from_values([1, 2]) != "a histogram"


def test_percentiles_are_those_of_the_ordered_values_and_the_thousandth_needs_ten_thousand() -> None:
    """Ten of each value from 1 to 1000, each with a bucket of its own."""
    histogram = Histogram()
    for value in range(1, 1001):
        histogram.record(value, 10)
    whole = histogram.summary()
    assert (whole.p50, whole.p90, whole.p99, whole.p999) == (500, 900, 990, 999)
    assert summary_of([histogram.to_reading()]) == histogram.summary(packed=False)
    histogram.buckets[1000] -= 1
    histogram.count -= 1
    assert histogram.summary().p999 is None
    fewer = summary_of([histogram.to_reading()])
    assert fewer is not None and (fewer.count, fewer.p999) == (9999, None)


def packed(*numbers: int) -> str:
    """What a packed histogram of these bytes looks like."""
    return base64.b64encode(zlib.compress(bytes(numbers))).decode()


@pytest.mark.parametrize(("times", "written"), [(127, (127,)), (128, (0x80, 1)), (300, (0xAC, 2))])
def test_a_packed_number_has_seven_bits_a_byte_and_no_byte_too_many(times: int, written: tuple[int, ...]) -> None:
    histogram = Histogram()
    histogram.record(1, times)
    text = histogram.pack()
    # Version, sub_bits, count, sum, least, most; then the gap to the bucket and its count.
    assert zlib.decompress(base64.b64decode(text)) == bytes((1, 10, *written, *written, 1, 1, 1, *written))
    assert Histogram.unpack(text) == histogram == Histogram.unpack(packed(1, 10, *written, *written, 1, 1, 1, *written))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (packed(1, 7, 1, 5, 5, 5, 5, 1), "of a version"),
        (packed(2, 10, 1, 5, 5, 5, 5, 1), "of a version"),
        (packed(1, 10, 1, 5, 5), "of a version"),
        (packed(), "of a version"),
        (base64.b64encode(b"no stream").decode(), "incorrect header"),
        ("é", "ASCII"),
    ],
)
def test_what_is_no_packed_histogram_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^not a packed histogram.*{why}"):
        Histogram.unpack(text)


def test_a_packed_histogram_has_no_foreign_characters() -> None:
    text = Histogram.from_values([5]).pack()
    assert Histogram.unpack(text) == Histogram.from_values([5])
    for foreign in (f"{text[:8]}!{text[8:]}", f"{text[:8]}\n{text[8:]}"):
        with pytest.raises(ValueError, match="not a packed histogram"):
            Histogram.unpack(foreign)


# --- histograms of many hosts


@pytest.mark.parametrize("weight", [1, 2, 3])
@pytest.mark.parametrize("hosts", [1, 2])
def test_each_hosts_values_count_by_its_weight(weight: int, hosts: int) -> None:
    one = Histogram.from_values([100, 300])
    found = sum_of([(one.to_reading(), weight)] * hosts)
    assert (found.count, found.sum, found.min, found.max) == (2 * weight * hosts, 400 * weight * hosts, 100, 300)
    assert found.buckets == {100: weight * hosts, 300: weight * hosts}


def test_the_sum_of_no_histograms_is_empty() -> None:
    assert sum_of([]) == Histogram()


@pytest.mark.parametrize("hosts", [1, 2, 3])
def test_a_histogram_with_other_buckets_is_not_added(hosts: int) -> None:
    one = Histogram.from_values([100]).to_reading()
    with pytest.raises(ValueError, match="sub_bits 7; this version reads 10"):
        sum_of([(one, 1)] * (hosts - 1) + [({**one, "sub_bits": 7}, 1)])


def of_agent(*numbers: int) -> dict[str, Any]:
    """A histogram as an agent packs it: numbers of four bytes, the least significant first."""
    packed = b"".join(number.to_bytes(4, "little") for number in numbers).hex()
    return {"packed": packed, "count": sum(numbers[1::2])}


@pytest.mark.parametrize("numbers", [(), (5, 2), (5, 2, 33791, 1), (5, 70000), (1, 1, 2, 2, 3, 70000)])
def test_an_agents_histogram_is_pairs_of_a_bucket_and_its_count(numbers: tuple[int, ...]) -> None:
    histogram = of_agent(*numbers)
    unpack_reading({"streams": [{"latency_ns": {"total": histogram}}]})
    at, counts = histogram["arrays"]
    assert (at.tolist(), counts.tolist()) == (list(numbers[::2]), list(numbers[1::2]))


@pytest.mark.parametrize("count", [0, 2, 4, None])
def test_a_packed_histogram_has_as_many_values_as_its_buckets(count: int | None) -> None:
    """A greater count would ask for a percentile past the last bucket."""
    with pytest.raises(ValueError, match="count is not that of its buckets"):
        unpack_reading({"streams": [{"latency_ns": {"total": {**of_agent(5, 2, 9, 1), "count": count}}}]})


@pytest.mark.parametrize("numbers", [(5,), (5, 2, 7), (33792, 1), (5, 2, 33792, 1), (1, 1, 2, 2, 65536, 1)])
def test_half_a_pair_and_a_bucket_that_no_histogram_has_are_refused(numbers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="not a packed histogram"):
        unpack_reading({"streams": [{"latency_ns": {"total": of_agent(*numbers)}}]})


@pytest.mark.parametrize("values", [(10,), (10, 20), (10, 20, 30), (5000, 70000, 900000)])
def test_the_summary_of_a_reading_is_that_of_its_histogram(values: tuple[int, ...]) -> None:
    histogram = Histogram.from_values(values)
    found = summary_of([histogram.to_reading()])
    assert found == histogram.summary(packed=False) == summary_of([histogram.to_reading(), Histogram().to_reading()])
    assert found is not None and found.p50 == pytest.approx(values[(len(values) - 1) // 2], rel=1e-3)


# --- scalability

THREADS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def gunther(load: float, c: float, a: float, b: float) -> float:
    return c * load / (1 + a * (load - 1) + b * load * (load - 1))


def fitted(c: float, a: float, b: float, errors: Sequence[float]) -> Scalability:
    found = fit_scalability(THREADS, [gunther(load, c, a, b) for load in THREADS], errors)
    assert found is not None
    return found


@pytest.mark.parametrize("c", [1e-4, 100.0, 1e12])
@pytest.mark.parametrize(
    ("a", "b"), [(0.03, 0.001), (0.2, 0.01), (0.03, 0.0), (0.5, 0.0), (2.2, 0.0), (5.0, 0.1), (0.5, 1.5)]
)
def test_the_law_is_found_again_from_its_own_points_in_any_unit(c: float, a: float, b: float) -> None:
    found = fitted(c, a, b, [0.01] * 7)
    assert found.c.value == pytest.approx(c, rel=1e-6) and found.a.value == pytest.approx(a, rel=1e-6)
    assert (0.0 if found.b is None else found.b.value) == pytest.approx(b, rel=1e-6)
    assert found.at(10.0) == pytest.approx(gunther(10.0, c, a, b), rel=1e-6)


@pytest.mark.parametrize(("a", "b"), [(0.03, 0.001), (0.2, 0.01), (0.03, 0.0)])
def test_what_the_points_errors_leave_open_of_the_law(a: float, b: float) -> None:
    """By the covariance of a fit in log space, of its slopes and errors of 2% (a root mean square); t of 30 degrees."""
    errors = [0.01, 0.01, 0.01, math.sqrt(7 * 0.0004 - 6 * 0.0001), 0.01, 0.01, 0.01]
    found = fitted(100.0, a, b, errors)
    below = [1 + a * (load - 1) + b * load * (load - 1) for load in THREADS]
    slopes = [
        [1.0, -(load - 1) / one, -load * (load - 1) / one][: 3 if b else 2]
        for load, one in zip(THREADS, below, strict=True)
    ]
    half = 2.042272 * 0.02 * np.sqrt(np.diag(np.linalg.inv(np.array(slopes).T @ np.array(slopes))))
    assert (found.c.low, found.c.high) == pytest.approx((100 / math.exp(half[0]), 100 * math.exp(half[0])), rel=1e-5)
    assert (found.a.low, found.a.high) == pytest.approx((a - half[1], a + half[1]), rel=1e-5)
    assert a > half[1], "the lower end is not the 0 that contention cannot fall below"
    if b:
        assert found.b is not None
        assert (found.b.low, found.b.high) == pytest.approx((b - half[2], b + half[2]), rel=1e-5)
    else:
        assert found.b is None


def test_contention_is_never_below_nothing() -> None:
    found = fitted(100.0, 0.001, 0.0, [0.1] * 7)
    assert found.a.low == 0.0 and found.a.high is not None and 0.002 < found.a.high < 0.01


def test_a_law_without_coherence_never_turns_down() -> None:
    assert Scalability(c=Fitted(100.0), a=Fitted(0.25), b=None).at(5.0) == 500.0 / 2.0


@pytest.mark.parametrize(
    ("residuals", "errors", "half"),
    [
        # Two points of one parameter leave one degree of freedom, with its t of 12.7062. Of a residual of sqrt(3) times
        # 6%, three scales of the loss, the square counts half: 0.0108 / 2, twice.
        ((0.06 * math.sqrt(3), -0.06 * math.sqrt(3)), (), 12.7062 * math.sqrt(0.0108 / 2)),
        # One point has its own error alone, or none.
        ((0.0,), (1.0,), 2.042272),
        ((0.1,), (0.02,), 2.042272 * 0.02),
        ((0.1,), (), None),
        ((0.0, 0.0), (), None),
    ],
)
def test_a_parameter_is_known_by_the_scatter_or_the_points_errors(
    residuals: tuple[float, ...], errors: tuple[float, ...], half: float | None
) -> None:
    (found,) = _half_widths(np.array(residuals), np.ones((len(residuals), 1)), errors)
    assert found == (None if half is None else pytest.approx(half, rel=1e-6))


# --- open loops


def test_one_server_of_random_arrivals_and_service_is_the_textbooks_queue() -> None:
    """R = S / (1 - r) of M/M/1, whose variability is 1: that of a model that says none."""
    assert mean_latency(5e3, 1e5, 1) == pytest.approx(2e5)
    assert OpenLoop(service_ns=1e5, servers=1, error=0.0).latency_ns(5e3) == pytest.approx(2e5)
    assert mean_latency(5e3, 1e5, 1, variability=0.5) == pytest.approx(1.5e5)


def test_a_model_is_that_of_its_curves_parameters() -> None:
    given = {"S": Value(1e5, "ns"), "m": Value(3.9, "1"), "v": Value(0.5, "1"), "a": Value(0.25, "1")}
    assert OpenLoop.of(given) == OpenLoop(1e5, 4, 0.0, 0.5, 0.25)
    assert OpenLoop.of({"S": Value(1e5, "ns"), "m": Value(1.0, "1")}) == OpenLoop(1e5, 1, 0.0, 1.0, None)


def test_even_arrivals_wait_less_between_nothing_and_the_capacity() -> None:
    """Half as varied arrivals at half the capacity: exp(-0.5 x 0.5^2 / (3 x 0.5 x 1)) of the wait of 1e5 ns."""
    model = OpenLoop(1e5, 1, 0.0, 1.0, 0.5)
    assert model.latency_ns(0.0) == 1e5
    assert model.latency_ns(5e3) == pytest.approx(1e5 + 1e5 * math.exp(-1 / 12))
    assert model.latency_ns(1e4) == model.latency_ns(1.5e4) == math.inf


@pytest.mark.parametrize("arrivals", [1.0, 1.5, 2.0])
def test_arrivals_that_are_not_evener_than_random_wait_as_the_formula_says(arrivals: float) -> None:
    assert evenness(0.5, arrivals, 1.0) == 1.0
    assert evenness(0.5, 0.0, 1.0) == pytest.approx(math.exp(-1 / 3))


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        ((), None),
        ((1, 1), Spread(0.0, 0.0)),
        # Around 2: a variance of 12 / 4 and a fourth moment of 84 / 4.
        ((1, 1, 1, 5), Spread(0.75, math.sqrt((21 - 9) / 4) / 4)),
    ],
)
def test_how_far_latencies_spread_is_by_their_moments(values: tuple[int, ...], spread: Spread | None) -> None:
    assert Spread.of(Histogram.from_values(values)) == spread


RATES = (1e3, 5e3, 8e3, 9e3, 9.85e3)
"""Of one server that takes 1e5 ns: shares of its capacity that the grid of capacities has."""


def queue(scale: float = 1.0) -> tuple[list[float], list[float]]:
    """Rates and the latencies of M/M/1 there; the rates and the server so many times as quick."""
    return [scale * rate for rate in RATES], [1e5 / scale / (1 - rate / 1e4) for rate in RATES]


@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e6])
def test_a_queue_is_found_again_at_any_pace(scale: float) -> None:
    """From less than one request a second to latencies below a nanosecond."""
    found = fit_open_loop(*queue(scale))
    assert found is not None and found.servers == 1 and found.variability == pytest.approx(1.0, rel=1e-6)
    assert found.service_ns == pytest.approx(1e5 / scale, rel=1e-6)
    # The grid's neighbours of 98.5%, at which the latency would be 50 and 100 service times and not 67, and 1%.
    assert found.high_s == pytest.approx(scale * 9.85e3 / 0.98 * 1.01) and found.low_s == pytest.approx(scale * 9.85e3)


def test_a_point_without_a_rate_or_a_latency_tells_nothing() -> None:
    rates, latencies = queue()
    found = fit_open_loop(rates, latencies)
    assert found is not None
    assert fit_open_loop([0.0, *rates], [5e6, *latencies]) == found
    assert fit_open_loop([*rates, 4e3], [*latencies, 0.0]) == found


def test_known_arrivals_tell_nothing_where_no_spread_is_known() -> None:
    found = fit_open_loop(*queue())
    assert found is not None and found.arrivals is None
    assert fit_open_loop(*queue(), arrivals=0.5) == fit_open_loop(*queue(), 0.5, [None] * 5) == found


def test_latencies_that_do_not_rise_leave_the_capacity_open_up_to_the_grids_end() -> None:
    """4,000 of 1e5 ns a second keep one server busy for 40%, and two to eight for as little as the grid's least, 5%."""
    found = fit_open_loop([1e3, 2e3, 3e3, 4e3], [1e5] * 4)
    assert found is not None and found.left_open
    # The grid's neighbour of 40%, and 1% for the formula.
    assert found.high_s == pytest.approx(4e3 / 0.05 * 1.01) and found.low_s == pytest.approx(4e3 / 0.41 * 0.99)


@pytest.mark.parametrize(
    ("shares", "found", "error", "off"),
    [
        # Latencies of M/M/1 are exponential at every rate: their squared coefficient of variation is 1.
        ((0.2, 0.5), 1.0, 0.1, 0.0),
        # 0.1 off, where waits are 3/4 of the square of the mean at half the capacity: a quarter of it is 0.1875.
        ((0.2, 0.5), 1.1, 0.0, 0.01 / 0.1875**2),
        ((0.2, 0.5), 1.1, 0.3, 0.01 / (0.3**2 + 0.1875**2)),
        # Without any wait or error every difference is far too great: three standard errors.
        ((0.0, 0.0), 1.1, 0.0, 9.0),
    ],
)
def test_spreads_are_held_against_those_of_the_queue(
    shares: tuple[float, float], found: float, error: float, off: float
) -> None:
    """The latency at the least rate, here the second point, tells how far service spreads."""
    least = Spread(1.0, 0.0)
    both = np.array([[shares[1], shares[0]]])
    waits = both / (1 - both)
    (sum_off,) = _spread_off(1, both, waits, np.array([[1.0]]), least, [Spread(found, error), least])
    assert sum_off == pytest.approx(off, abs=1e-9)
    assert _spread_off(1, both, waits, np.array([[1.0]]), least, [None, least]).tolist() == [0.0]


@pytest.mark.parametrize("b", [None, Fitted(0.1)])
def test_a_law_that_falls_from_the_first_thread_reaches_most_there(b: Fitted | None) -> None:
    law = Scalability(Fitted(100.0), Fitted(1.5), b)
    assert law.ceiling == law.at(1.0) == 100.0


@pytest.mark.parametrize(("least", "fits"), [(1.0, True), (0.99, False)])
def test_the_law_counts_workers_from_one_on(least: float, fits: bool) -> None:
    """Below one worker its divisor turns negative where contention is high."""
    assert (fit_scalability([least, *THREADS[1:]], [100.0] * 7) is not None) == fits
