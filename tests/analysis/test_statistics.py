"""Means, intervals and steadiness against what is known exactly."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import pytest
from hwdyno.analysis import chances
from hwdyno.analysis import estimates as st
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Value
from scipy import special


def test_rates_take_the_harmonic_mean_and_costs_the_arithmetic_one() -> None:
    assert st.interval([100, 200], "operations/s").value == pytest.approx(400 / 3)
    assert st.interval([100, 200], "s", kind="cost").value == 150


def test_one_repeat_has_no_interval() -> None:
    value = st.interval([5.0], "s")
    assert (value.low, value.high) == (None, None)
    assert st.half_width(value) is None


def test_t_interval_is_students() -> None:
    value = st.interval([9.0, 10.0, 11.0], "s", kind="cost")
    assert value.high is not None
    assert value.high - 10 == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)


@pytest.mark.parametrize("kind", ["rate", "cost"])
def test_intervals_cover_the_truth_as_often_as_they_say(kind: str) -> None:
    generator = random.Random(7)
    inside = 0
    for _ in range(1000):
        value = st.interval([generator.gauss(100, 3) for _ in range(5)], "x", kind=kind)  # type: ignore[arg-type]
        assert value.low is not None and value.high is not None
        inside += value.low <= 100 <= value.high
    assert 930 <= inside <= 970


def test_median_interval_covers_skewed_data() -> None:
    generator = random.Random(3)
    inside = 0
    for _ in range(200):
        value = st.interval([generator.expovariate(1) for _ in range(30)], "s", kind="median")
        assert value.low is not None and value.high is not None
        inside += value.low <= math.log(2) <= value.high
    assert inside >= 180


def test_ratio_of_pairs_drops_shared_noise() -> None:
    generator = random.Random(1)
    drift = [generator.uniform(1, 10) for _ in range(6)]
    ours = [1.25 * speed * generator.gauss(1, 0.01) for speed in drift]
    ratio = st.ratio_interval(ours, drift)
    assert ratio.low is not None and ratio.high is not None
    assert ratio.low < 1.25 < ratio.high
    assert ratio.high - ratio.low < 0.06
    assert st.ratio_interval([2.0], [1.0]).low is None
    with pytest.raises(ValueError, match="equally many"):
        st.ratio_interval([1.0], [])


def test_false_discovery_rates_are_those_of_benjamini_and_hochberg() -> None:
    from scipy import stats

    rng = random.Random(1)
    for count in (1, 2, 7, 400):
        chances = [rng.random() ** 3 for _ in range(count)] + [0.0, 1.0, 0.04, 0.04]
        assert st.false_discovery_rates(chances) == pytest.approx(stats.false_discovery_control(chances), rel=1e-12)
    assert st.false_discovery_rates([]) == []


def test_geometric_mean_of_ratios() -> None:
    assert st.geometric_mean([0.5, 2.0]) == pytest.approx(1)


def test_outliers_are_named_by_index() -> None:
    assert st.outliers([10, 10.1, 9.9, 10.2, 50]) == (4,)
    assert st.outliers([10, 10.1, 9.9, 10.2, 10.4]) == ()
    assert st.outliers([7.0] * 5) == ()


@pytest.mark.parametrize(("rounds", "steady"), [
    # A level line, 19.8% and 20.2% of the mean from the least to the greatest.
    ((109.9, 90.1, 100, 90.1, 109.9), True), ((110.1, 89.9, 100, 89.9, 110.1), False),
    # A straight line that moves by 9.9% and 10.1% of the mean.
    ((95.05, 97.525, 100, 102.475, 104.95), True), ((94.95, 97.475, 100, 102.525, 105.05), False),
    ((104.95, 102.475, 100, 97.525, 95.05), True), ((105.05, 102.525, 100, 97.475, 94.95), False),
    ((0.5,) * 5, True), ((0.0,) * 5, None), ((1.0,) * 4, None), ((9.0, 1.0, 1.0, 1.0, 1.0, 1.0), True),
])  # fmt: skip
def test_both_limits_of_snias_window(rounds: tuple[float, ...], steady: bool | None) -> None:
    window = st.snia_window(rounds[-5:])
    assert st.steady_snia(rounds) is steady and (window and window.steady) == steady


def rounds_until_steady(noise: float, seed: int) -> int:
    """How many of at most 25 rounds a test takes whose rounds are normal about a level; 0 if it never is steady."""
    rng = random.Random(seed)
    rounds: list[float] = []
    for _ in range(25):
        rounds.append(max(0.01, rng.gauss(1 + 0.5 * 0.8 ** len(rounds), noise)))
        window = st.snia_window(rounds)
        if window is not None and window.steady:
            return len(rounds)
    return 0


def test_windows_that_are_tested_again_and_again_are_not_steady_by_luck() -> None:
    lucky = sum(rounds_until_steady(0.3, seed) > 0 for seed in range(1000)) / 1000
    calm = [rounds_until_steady(0.03, seed) for seed in range(200)]
    assert lucky < 0.05 and all(calm) and sum(calm) / len(calm) < 13


def test_the_first_window_alone_is_enough_and_after_a_failure_two_are() -> None:
    first = st.snia_window([100, 101, 99, 100, 102])
    again = st.snia_window([150, 100, 101, 99, 100, 102])
    assert first is not None and first.steady and (first.in_a_row, first.wanted) == (1, 1)
    assert again is not None and not again.steady and (again.in_a_row, again.wanted) == (1, 2)
    confirmed = st.snia_window([150, 100, 101, 99, 100, 102, 100])
    assert confirmed is not None and confirmed.steady


def test_coefficient_of_variation() -> None:
    assert st.coefficient_of_variation([1, 2]) is None
    assert st.coefficient_of_variation([9, 10, 11]) == pytest.approx(0.1)


def test_outliers_need_five_values_and_a_distance_that_matters() -> None:
    assert st.outliers([10, 10.0001, 20]) == ()  # of three, the MAD is tiny by chance
    assert st.outliers([10, 10, 10, 10, 11]) == ()  # 10% off, though the others are equal
    assert st.outliers([10, 10, 10, 10, 11.6]) == (4,)
    generator = random.Random(9)
    named = sum(bool(st.outliers([generator.gauss(100, 2) for _ in range(n)])) for n in (3, 5, 8) for _ in range(500))
    assert named == 0


@pytest.mark.parametrize(("values", "far"), [
    # The median distance from 100 is 2, and 14.8 times as far is 29.6.
    ((98.0, 98.0, 100.0, 102.0, 129.0), ()), ((98.0, 98.0, 100.0, 102.0, 130.2), (4,)),
    # A median distance of 0 counts as 1% of the median.
    ((100.0, 100.0, 100.0, 100.0, 114.5), ()), ((100.0, 100.0, 100.0, 100.0, 115.1), (4,)),
    ((100.0, 100.0, 100.0, 100.0, 85.5), ()), ((100.0, 100.0, 100.0, 100.0, 84.9), (4,)),
])  # fmt: skip
def test_outlier_is_14_8_deviations_off(values: tuple[float, ...], far: tuple[int, ...]) -> None:
    assert st.outliers(values) == far


def test_one_stalled_repeat_does_not_speak_for_the_others() -> None:
    stalled = [2.6e9, 2.58e9, 31e6, 2.61e9, 2.59e9]
    value, why = st.interval_of_repeats(stalled, "bytes/s")
    assert value.value == 2.59e9
    assert why == "1 of 5 repeats lies far off the others"
    assert (value.low, value.high) == st.median_interval(stalled)
    assert st.interval(stalled, "bytes/s").value < 160e6
    few, why = st.interval_of_repeats([2.6e9, 31e6, 2.58e9], "bytes/s")
    assert few.value == 2.58e9 and "skewed" in why
    assert not st.interval_of_repeats([1, 3], "x")[1] and not st.interval_of_repeats([-1, 1, 2], "x")[1]
    assert few.low is not None and few.low < 0.1e9, "three repeats cannot exclude that the slow one is the rule"


def test_a_repeat_of_nothing_is_an_outlier_like_any_other() -> None:
    value, why = st.interval_of_repeats([100.0, 0.0, 101.0, 99.0, 100.0], "x")
    assert value.value == 100.0 and why == "1 of 5 repeats lies far off the others"


def test_central_moments_are_those_of_values() -> None:
    histogram = Histogram.from_values([100, 100, 100, 200])
    assert histogram.moment(1) == 0.0
    assert histogram.moment(2) == pytest.approx((3 * 25**2 + 75**2) / 4)
    assert histogram.moment(3) == pytest.approx((75**3 - 3 * 25**3) / 4)
    assert Histogram().moment(2) == 0.0
    assert Histogram().quantiles((0.5, 0.99)) == [0, 0]


def test_repeats_without_skew_keep_harmonic_mean() -> None:
    generator = random.Random(4)
    medians = 0
    for n in (2, 3, 4, 5, 8, 20):
        for _ in range(200):
            values = [generator.gauss(100, 3) for _ in range(n)]
            value, why = st.interval_of_repeats(values, "x")
            medians += bool(why)
            assert why or value == st.interval(values, "x")
    assert medians <= 12, "1% of normal samples at most"


def test_clearly_skewed_repeats_have_a_median() -> None:
    generator = random.Random(6)
    found = sum(
        bool(st.interval_of_repeats([100 / (1 + generator.expovariate(3)) for _ in range(60)], "x")[1])
        for _ in range(100)
    )
    assert found >= 80
    assert st.skewness([1.0] * 20) is None and st.skewness([1, 2, 3]) is None


@pytest.mark.parametrize(("mean", "median"), [(80.1, False), (79.9, True)])
def test_repeats_are_skewed_from_a_fifth_between_mean_and_middle_on(mean: float, median: bool) -> None:
    low = 1 / (3 / mean - 2 / 100)
    value, why = st.interval_of_repeats([low, 100.0, 100.0], "x")
    assert ("skewed" in why) == median and value.value == pytest.approx(100.0 if median else mean)


def test_early_stopping_takes_the_least_count_whose_chance_is_small_enough() -> None:
    """The definition: with fewer queries, so few over the limit are likelier than what the confidence leaves out."""

    def probability(over: int, count: int, percentile: float) -> float:
        return sum(math.comb(count, k) * (1 - percentile) ** k * percentile ** (count - k) for k in range(over + 1))

    for percentile in (0.005, 0.2, 0.5, 0.9, 0.95):
        for over in (0, 1, 4):
            for confidence in (0.81, 0.96, 0.985):
                least = next(n for n in range(over + 1, 999) if probability(over, n, percentile) <= 1 - confidence)
                assert st.early_stopping_count(percentile, over, confidence) == least
    assert st.early_stopping_count(0.99) == 459 and st.early_stopping_count(0.999) == 4603


def test_a_chance_of_exactly_what_the_confidence_leaves_out_is_enough() -> None:
    assert st.early_stopping_count(0.5, 0, 0.75) == 2  # 0.5^2
    assert st.early_stopping_count(0.5, 1, 0.5) == 3  # (1 + 3) / 2^3
    assert st.early_stopping_count(0.5, 1, 0.6875) == 4  # (1 + 4) / 2^4


def test_means_and_deviations_by_hand() -> None:
    assert st.harmonic_mean([0.5, 0.5]) == 0.5 and st.harmonic_mean([2.0, 0.0]) == 0.0
    assert [st.median(values) for values in ([3.0, 1.0], [7.0, 1.0, 2.0, 4.0], [9.0, 1.0, 5.0])] == [2.0, 3.0, 5.0]
    assert st.standard_deviation([1.0, 3.0]) == pytest.approx(math.sqrt(2)) and st.standard_deviation([5.0]) == 0.0
    assert st.coefficient_of_variation([0.5, 1.0, 1.5]) == pytest.approx(0.5)
    assert st.coefficient_of_variation([-1.5, -1.0, -0.5]) == pytest.approx(0.5)
    assert st.coefficient_of_variation([-1.0, 0.0, 1.0]) is None


def test_interval_of_two_values_is_students() -> None:
    two = st.interval([0.9, 1.1], "s", kind="cost")
    # t of one degree of freedom, 12.7062, times sqrt(0.02) over sqrt(2).
    assert (two.low, two.high) == (0.0, pytest.approx(1 + 1.27062, rel=1e-5))
    assert st.interval([0.0, 0.0, 3.0], "s", kind="cost").low == 0.0, "no cost is negative"
    assert st.interval([-9.0, -10.0, -11.0], "s", kind="cost").low == pytest.approx(-10 - 4.302653 / math.sqrt(3))
    assert st.interval([-1.0, 10.0, 11.0], "s", kind="cost").low == pytest.approx(20 / 3 - 4.302653 * 6.658328 / 3**0.5)
    assert st.interval([0.0, 0.0], "x") == Value(0.0, "x") and st.interval([7.0], "x") == Value(7.0, "x")
    with pytest.raises(ValueError, match="at least one value"):
        st.interval([], "x")


def test_the_interval_of_a_rate_is_that_of_its_times() -> None:
    """The delta method: the square of the harmonic mean times the deviation of the reciprocals."""
    rate = st.interval([1.0, 0.5, 0.25], "x")
    assert rate.value == pytest.approx(3 / 7)
    wide = st.interval([100.0, 50.0, 100.0 / 1.5], "x")
    centre, deviation = 3 / 0.045, 0.005
    assert wide.high == pytest.approx(centre + 4.302653 * centre**2 * deviation / math.sqrt(3), rel=1e-6)


@pytest.mark.parametrize("count", range(3, 60))
def test_the_interval_of_a_median_leaves_out_what_the_binomial_allows(count: int) -> None:
    """Conover, Practical Nonparametric Statistics, 1999, section 3.2: at each end what 2.5% allow."""
    from scipy import stats

    values = [float(at) for at in range(count)]
    left = sum(bool(stats.binom.cdf(at, count, 0.5) <= 0.025) for at in range(1, count))
    assert st.median_interval(values[::-1]) == (values[left], values[count - 1 - left])
    assert st.median_interval(values[:2]) == (None, None)


def test_two_repeats_and_those_of_others_have_five_degrees_of_freedom() -> None:
    assert st.t_quantile(st.POOLED_FREEDOM + 1) == pytest.approx(2.570582, rel=1e-6)
    assert st.geometric_mean([2.0, 4.0, 8.0]) == pytest.approx(4.0)


def test_half_widths_are_shares() -> None:
    assert st.half_width(Value(50.0, "x", 40.0, 70.0)) == pytest.approx(0.3)
    assert st.half_width(Value(-50.0, "x", -70.0, -40.0)) == pytest.approx(0.3)
    assert st.half_width(Value(0.5, "x", 0.4, 0.6)) == pytest.approx(0.2)
    assert st.half_width(Value(0.0, "x", -1.0, 1.0)) is None
    assert st.half_width(Value(1.0, "x", None, 1.0)) is None and st.half_width(Value(1.0, "x", 1.0, None)) is None


def test_the_interval_of_a_ratio_is_students_of_its_logarithms() -> None:
    ratio = st.ratio_interval([1.0, 2.0, 8.0], [1.0, 1.0, 2.0])
    logs = [0.0, math.log(2), math.log(4)]
    half = 4.302653 * math.log(2) / math.sqrt(3)
    assert ratio.value == pytest.approx(2.0) and ratio.low == pytest.approx(math.exp(logs[1] - half), rel=1e-6)
    assert ratio.high == pytest.approx(math.exp(logs[1] + half), rel=1e-6)
    wider = st.ratio_interval([1.0, 2.0, 8.0], [1.0, 1.0, 2.0], 0.99)
    # t of two degrees of freedom at 99%: 9.924843.
    assert wider.high == pytest.approx(2 * math.exp(9.924843 * math.log(2) / math.sqrt(3)), rel=1e-6)
    two = st.ratio_interval([2.0, 2.2], [1.0, 1.0])
    assert two.low == pytest.approx(math.sqrt(4.4) * math.exp(-12.7062 * math.log(1.1) / 2), rel=1e-5)
    for ours, theirs in (([1.0, 2.0], [1.0]), ([], [])):
        with pytest.raises(ValueError, match="equally many"):
            st.ratio_interval(ours, theirs)


def test_skewness_is_over_its_standard_error() -> None:
    """G1 = n / ((n - 1) (n - 2)) sum z^3, over sqrt(6 n (n - 1) / ((n - 2) (n + 1) (n + 3))) (Joanes & Gill, 1998)."""
    from scipy import stats

    values = [1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 6.0, 12.0]
    error = math.sqrt(6 * 8 * 7 / (6 * 9 * 11))
    assert st.skewness(values) == pytest.approx(stats.skew(values, bias=False) / error)
    assert st.skewness(values[:7]) is None and st.skewness([2.0] * 9) is None


@pytest.mark.parametrize(("sigma", "skewed"), [(0.338, False), (0.342, True)])
def test_repeats_are_skewed_from_three_standard_errors_on(sigma: float, skewed: bool) -> None:
    """Repeats whose times are the quantiles of a lognormal distribution."""
    times = [math.exp(sigma * NormalDist().inv_cdf((at + 0.5) / 60)) for at in range(60)]
    found = st.skewness(times)
    assert found is not None and found == pytest.approx(3, abs=0.03)
    why = st.interval_of_repeats([1 / time for time in times], "x")[1]
    assert why == ("the 60 repeats are clearly skewed" if skewed else "")


@pytest.mark.parametrize("degrees", [1, 1.5, 2, 5, 29, 1e3, 1e5])
def test_tails_are_those_of_scipy(degrees: float) -> None:
    for at in (0.0, 1e-3, 0.3, 1.0, 2.5, 40.0, 1e3):
        assert chances.t_tail(degrees, at) == pytest.approx(float(special.stdtr(degrees, -at)), rel=1e-8, abs=1e-290)
        assert chances.t_tail(degrees, -at) == pytest.approx(float(special.stdtr(degrees, at)), rel=1e-8)
        for above in (1, 3, 40):
            expected = float(special.fdtrc(above, degrees, at))
            assert chances.f_tail(above, degrees, at) == pytest.approx(expected, rel=1e-7, abs=1e-290)
        expected = float(special.chdtrc(degrees, degrees * at))
        assert chances.chi_square_tail(degrees, degrees * at) == pytest.approx(expected, rel=1e-8, abs=1e-290)
    for chance in (1e-6, 0.025, 0.3, 0.5):
        assert chances.t_of_tail(degrees, chance) == pytest.approx(-float(special.stdtrit(degrees, chance)), rel=1e-8)
    assert chances.t_tail(degrees, math.inf) == chances.f_tail(2, degrees, math.inf) == 0
    assert chances.chi_square_tail(degrees, math.inf) == 0
    for tail in (chances.t_tail, chances.chi_square_tail):
        assert math.isnan(tail(degrees, math.nan))
    assert math.isnan(chances.f_tail(2, degrees, math.nan))
