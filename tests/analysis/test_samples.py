"""What the samples of a point show beside its repeats: mean_half_width levels, repeats that disagree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hwdyno.analysis.estimates import interval_of_repeats, t_quantile
from hwdyno.analysis.samples import (
    Modes,
    _inflation,
    disagreement,
    each_over_time,
    mean_half_width,
    persistence,
    plain_noise,
    repeats_that_show,
    shared_modes,
    two_modes,
    with_samples,
    with_shared,
)
from hwdyno.explain.findings import explain
from hwdyno.explain.repeatability import with_pooled_repeats
from hwdyno.model.point_details import Samples
from hwdyno.model.words import Value
from made_point import base, make_run
from made_samples import levels, noise


def test_persistence_is_that_of_the_series() -> None:
    for ratio in (0.0, 0.5, 0.8):
        found = [persistence(noise(seed, 5, 60, ratio=ratio)) for seed in range(40)]
        assert np.mean(found) == pytest.approx(ratio, abs=0.06)
    assert persistence([[1.0] * 20, [2.0] * 20]) == 0.0, "a level that differs between repeats is no persistence"


def test_the_mean_of_noise_is_known_by_its_samples() -> None:
    values = noise(1, 3, 20)
    whole = np.concatenate(values)
    # Student's t for 59 degrees of freedom; the deviation is once more unbiased by n / (n - 1).
    expected = 2.000995 * whole.std(ddof=1) * math.sqrt(60 / 59) / math.sqrt(60)
    assert mean_half_width(values) == pytest.approx(expected, rel=1e-3)


def test_wandering_level_is_known_less_well() -> None:
    for ratio, times in ((0.7, 2.0), (0.98, 4.0)):
        wide = np.mean([mean_half_width(noise(seed, ratio=ratio)) for seed in range(40)])
        plain = np.mean([2.0 * np.concatenate(noise(seed, ratio=ratio)).std() / math.sqrt(60) for seed in range(40)])
        assert wide > times * plain
    # At least 2.5 effective samples: 1.5 degrees of freedom, not one with its t of 12.7.
    line = [[float(at) for at in range(20)]] * 3
    assert mean_half_width(line) == pytest.approx(t_quantile(1.5) * np.std(line, ddof=1) / math.sqrt(1.5))


def test_persistence_is_unbiased_in_short_series() -> None:
    """Kendall (1954): of n values the autocorrelation is too low by (1 + 3 r) / n."""
    (values,) = noise(4, 1, 20, ratio=0.7)
    centred = np.array(values) - np.mean(values)
    found = float((centred[1:] @ centred[:-1]) / (centred @ centred)) * 20 / 19
    assert 0 < found < 0.8
    assert persistence([values]) == pytest.approx((found + 1 / 20) / (1 - 3 / 20))


def test_autocorrelation_raises_the_variance_of_a_mean_by_its_sum() -> None:
    """The sum for n values: 1 + 2 times the sum of (1 - k / n) r^k over k from 1 to n - 1."""
    for ratio, count in ((0.7, 5), (0.5, 3), (0.9, 20)):
        exact = 1 + 2 * sum((1 - k / count) * ratio**k for k in range(1, count))
        assert _inflation(ratio, count) == pytest.approx(exact)


def test_repeats_that_agree_better_than_their_samples_are_luck() -> None:
    values = noise(2, 3, 20, 0.4)
    value = Value(1.0, "x", 0.999, 1.001)
    wide, modes = with_samples(value, values, [1.0, 1.0, 1.0])
    assert wide.low is not None and wide.high is not None and modes is None
    assert wide.high - 1.0 == pytest.approx(mean_half_width(values)) and 1.0 - wide.low == pytest.approx(
        mean_half_width(values)
    )
    sure = Value(1.0, "x", 0.7, 1.3)
    assert with_samples(sure, values, [1.0, 1.0, 1.0])[0] == sure, "an interval that is wide enough stays"


def test_without_interval_or_samples_nothing_changes() -> None:
    alone, value = Value(1.0, "x"), Value(1.0, "x", 0.9, 1.1)
    assert with_samples(alone, levels(0.5, 0.0), [1.0]) == (alone, None)
    assert with_samples(value, [], [1.0]) == (value, None)
    assert with_samples(value, levels(0.5, 0.5, count=7), [1.0]) == (value, None)
    assert with_samples(value, levels(0.5, 0.5, count=8), [1.0])[1] is not None


def test_the_interval_holds_what_the_share_of_a_mode_leaves_open() -> None:
    values = levels(0.25, 0.0, 0.0)
    modes = two_modes(values)
    assert modes is not None
    least, most = modes.shares()
    rates, half = [0.9, 1.0, 1.0], mean_half_width(values)
    value, found = with_samples(Value(0.966, "x", 0.96, 0.97), values, rates)
    assert found == modes and persistence(values) > 0.35 and half > 0.5
    # By Student's t of few samples that count the mean could be 0.4: the range of the repeats is left beside them.
    upper, lower = (modes.high - share * (modes.high - modes.low) for share in (least, most))
    assert (value.low, value.high) == pytest.approx((lower, modes.high)) and upper < 1


def read_at(rates: Sequence[float]) -> tuple[Value, list[list[float]]]:
    """The interval of repeats by themselves, and samples within that show each level alone."""
    plain = interval_of_repeats(rates, "x")[0]
    values = [[rate * (1 + 0.01 * math.sin(at)) for at in range(20)] for rate in rates]
    assert mean_half_width(values) > plain.value, "the samples alone would leave zero possible"
    assert plain.low is not None and plain.high is not None
    return plain, values


def test_no_interval_is_wider_than_five_repeats_support() -> None:
    rates = [20.0, 31.0, 44.0, 56.0, 70.0]
    plain, values = read_at(rates)
    wide, modes = with_samples(plain, values, rates)
    assert modes is None and (wide.low, wide.high) == pytest.approx((0.0, 70.0 + 25.0))


@pytest.mark.parametrize("rates", [(42.9, 39.4, 41.7, 73.9, 46.7), (76.5, 47.9), (47.9, 76.5, 76.5)])
def test_mean_is_between_two_levels(rates: tuple[float, ...]) -> None:
    """No mean of 0 or of 110 GB/s is left open where nothing was read below 39.4 or above 73.9."""
    plain, values = read_at(rates)
    wide, modes = with_samples(plain, values, rates)
    assert modes is not None and (wide.low, wide.high) == pytest.approx((min(rates), max(rates)), rel=0.01)


def test_two_repeats_at_two_levels_lean_on_no_other_point() -> None:
    rates = (76.5, 47.9)
    plain, values = read_at(rates)
    samples = Samples(0.0, 0.0, 0.0, 0.05, values=tuple(value for repeat in values for value in repeat))
    point = base(throughput=plain, rate=plain, repeats=2, repeat_values=rates, samples=samples)
    found = with_pooled_repeats(make_run(point)).experiments[0].points[0].throughput
    assert (found.low, found.high) == pytest.approx((47.9, 76.5), rel=0.01)


def test_few_repeats_stay_inside_where_samples_are_no_plain_noise() -> None:
    values = levels(0.25, 0.0, 0.0)
    value = Value(0.966, "x", 0.96, 0.97)
    assert with_samples(value, values, [0.1, 1.0, 3.0])[0] == Value(0.966, "x", 0.1, 3.0)
    many = with_samples(value, levels(0.25, *[0.0] * 5), [0.1, *[1.0] * 4, 3.0])[0]
    assert many.low is not None and many.low > 0.5, "of six repeats the interval is that of the modes"
    plain = with_samples(value, noise(2), [0.1, 1.0, 3.0])[0]
    assert plain.low is not None and plain.low > 0.9


def test_disagreement_is_the_analysis_of_variance() -> None:
    from scipy import stats

    values = noise(4)
    values[2] = [1.05 * value for value in values[2]]
    found = disagreement(values)
    assert found is not None
    assert found.p_value == pytest.approx(stats.f_oneway(*values).pvalue, rel=1e-6)
    means = [np.mean(repeat) for repeat in values]
    assert found.spread == pytest.approx((max(means) - min(means)) / np.mean(means))
    assert disagreement(values[:1]) is None
    assert disagreement(noise(1, count=7)) is None and disagreement(noise(1, count=8)) is not None
    assert disagreement([[0.0] * 20] * 2) is None
    assert disagreement([[1.0] * 20] * 2) is not None


def test_samples_that_persist_leave_more_open() -> None:
    chances = [found.p_value for seed in range(100) if (found := disagreement(noise(seed, ratio=0.8, count=60)))]
    assert sum(p_value < 0.01 for p_value in chances) <= 10
    steady = [found.p_value for seed in range(100) if (found := disagreement(noise(seed)))]
    assert 0 < sum(p_value < 0.1 for p_value in steady) < 20


def test_the_samples_of_each_repeat_are_as_many_as_the_shortest_has() -> None:
    values = tuple(float(at) for at in range(61))
    point = replace(base(), repeats=3, samples=Samples(0.0, 1.0, 2.0, 0.1, None, values))
    assert [repeat[0] for repeat in each_over_time(point)] == [0.0, 20.0, 41.0]
    assert {len(repeat) for repeat in each_over_time(point)} == {20}
    short = replace(point, samples=Samples(0.0, 1.0, 2.0, 0.1, None, values[:23]))
    assert each_over_time(short) == []
    assert len(each_over_time(replace(point, samples=Samples(0.0, 1.0, 2.0, 0.1, None, values[:24])))) == 3
    assert each_over_time(replace(point, samples=None)) == []


def an_experiment(*low_repeats: int, low: float = 0.6, of: int = 3) -> list[list[list[float]]]:
    """Points of three repeats of twenty samples, this many of each whole at a low level; each at a different speed."""
    draw = np.random.default_rng(9)
    return [
        [
            [
                100 * speed * (low if at < lows else 1.0) * (1 + 0.01 * deviate)
                for deviate in draw.standard_normal(20)
            ]
            for at in range(of)
        ]
        for speed, lows in enumerate(low_repeats, 1)
    ]  # fmt: skip


def test_points_show_their_modes_together() -> None:
    found = shared_modes(an_experiment(1, 0, 0, 1, 0, 1, 0, 0))
    assert found is not None
    # Three of 24 repeats of twenty samples, each a stay; every repeat is a look.
    assert (found.low, found.high, found.share) == pytest.approx((0.6, 1.0, 3 / 24), rel=0.01)
    assert (found.visits, found.rare) == (24, 3)


@pytest.mark.parametrize(("lows", "known"), [((1, 0, 0, 0), False), ((1, 1, 0, 0), True), ((0, 0, 0, 0), False)])
def test_one_point_alone_is_no_sign_for_the_others(lows: tuple[int, ...], known: bool) -> None:
    assert (shared_modes(an_experiment(*lows)) is not None) == known


def test_a_level_of_some_points_alone_is_not_shared() -> None:
    # Nine of ten repeats of two points and none of eighteen others: chance does not spread them so.
    assert shared_modes(an_experiment(9, 9, *[0] * 18, of=10)) is None
    assert shared_modes(an_experiment(1, 2, 1, 2, 1, 0, 2, 1, of=10)) is not None


def test_entries_count_by_their_length() -> None:
    points = an_experiment(0, 0, 0, 0)
    for at in (0, 1):
        for place in (3, 4, 5, 6, 15):
            points[at][0][place] *= 0.5
    found = shared_modes(points)
    assert found is not None and found.share == pytest.approx(10 / 240) and found.low == pytest.approx(0.5, rel=0.02)
    # Two stays of four samples and two of one, 10 in all: 2 x 10^2 / (2 x 16 + 2) = 5.9 of the same length, of 4.
    assert found.rare == 4
    # Two repeats whose rare level comes and goes: two looks more each.
    assert found.visits == 4 * 3 + 2 * 4
    for at in (0, 1, 2, 3):
        points[at][1][9] *= 0.5
    more = shared_modes(points)
    # 14 samples: 2 x 14^2 / (2 x 16 + 6) = 10.3 of 8 stays.
    assert more is not None and more.rare == 8
    for at in (0, 1):
        points[at][2][:12] = [0.5 * sample for sample in points[at][2][:12]]
    longer = shared_modes(points)
    # 38 samples in 10 stays: 2 x 38^2 / (2 x 144 + 2 x 16 + 6) = 8.9.
    assert longer is not None and longer.rare == 9


def test_interval_includes_others_levels() -> None:
    points = an_experiment(1, 0, 0, 1, 0, 1, 0, 0)
    shared = shared_modes(points)
    assert shared is not None
    least, most = shared.shares()
    value = Value(200.0, "x", 199.9, 200.1)
    wide = with_shared(value, points[1], shared)
    assert wide.low == pytest.approx((200 - mean_half_width(points[1])) * (1 - 0.4 * most), rel=1e-3)
    assert wide.high == 200.1, "a mean of the upper level alone is the most that there can be"
    # A point that showed both knows its upper level.
    both = with_shared(Value(80.0, "x", 79.0, 81.0), points[0], shared)
    assert (both.low, both.high) == pytest.approx((min(79, 100 * (1 - 0.4 * most)), 100 * (1 - 0.4 * least)), rel=3e-3)
    alone = Value(200.0, "x")
    assert with_shared(alone, points[1], shared) == alone
    assert with_shared(Value(200.0, "x", 1.0, 999.0), points[1], shared) == Value(200.0, "x", 1.0, 999.0)


def test_an_experiment_says_which_intervals_count_with_the_lower_level() -> None:
    made = []
    for depth, repeats in enumerate(an_experiment(1, 0, 0, 1, 0, 1, 0, 0), 1):
        values = tuple(float(np.mean(repeat)) for repeat in repeats)
        samples = Samples(1.0, 1.0, 1.0, 0.05, None, tuple(value for repeat in repeats for value in repeat))
        value = float(np.mean(values))
        made.append(
            replace(
                base(), parameters={**base().parameters, "iodepth": depth}, samples=samples, repeat_values=values,
                throughput=Value(value, "bytes/s", 0.99 * value, 1.01 * value),
                rate=Value(value / 4096, "operations/s", 0.99 * value / 4096, 1.01 * value / 4096),
            )
        )  # fmt: skip
    run = make_run(made[0])
    run = replace(run, experiments=(replace(run.experiments[0], points=tuple(made)),))
    found = explain(run)
    (finding,) = [finding for finding in found.findings if finding.rule == "modes_nearby"]
    assert finding.severity == "info" and finding.points and len(finding.points) == 8
    assert finding.says.startswith("Throughput dropped to 60% of its usual level for 12% of the time")
    assert "8 of 8 intervals" in finding.says
    for before, after in zip(made, found.experiments[0].points, strict=True):
        assert before.throughput.low is not None and after.throughput.low is not None
        assert after.throughput.low <= before.throughput.low and after.throughput.value == before.throughput.value
        assert after.throughput != before.throughput
        assert after.rate is not None and after.rate.low is not None
        assert after.rate.low / after.rate.value == pytest.approx(after.throughput.low / after.throughput.value)
    assert explain(found) == found, "twice changes nothing"


def persisting(at: float) -> list[list[float]]:
    """Noise with so large an autocorrelation from one sample to the next."""
    white, slow = noise(21, 3, 40), noise(22, 3, 40, ratio=0.9)
    low, high = 0.0, 1.0
    for _ in range(60):
        part = (low + high) / 2
        mixed = [
            [(1 - part) * a + part * b for a, b in zip(*pair, strict=True)] for pair in zip(white, slow, strict=True)
        ]
        low, high = (part, high) if persistence(mixed) < at else (low, part)
    return mixed


@pytest.mark.parametrize(("at", "plain"), [(0.349, True), (0.351, False)])
def test_samples_persist_from_an_autocorrelation_of_35_percent_on(at: float, plain: bool) -> None:
    values = persisting(at)
    assert persistence(values) == pytest.approx(at) and plain_noise(values) == plain
    # Few repeats that persist reach from the least to the greatest; of five too, and not of six.
    for count, whole in ((3, not plain), (5, not plain), (6, False)):
        rates = [0.1, *[1.0] * (count - 2), 3.0]
        value, modes = with_samples(Value(1.0, "x", 0.99, 1.01), values, rates)
        assert modes is None and (value.low == 0.1 and value.high == 3.0) == whole


def test_persistence_is_below_one() -> None:
    assert persistence([[float(at) for at in range(400)]]) == 0.99
    assert persistence([[float(at % 2) for at in range(40)]]) == 0.0


def test_shared_modes_are_of_shares() -> None:
    found = shared_modes(an_experiment(1, 0, 0, 1, 0, 1, 0, 0))
    assert found is not None and found.named and found.cut == 0.0 and Modes(1.0, 2.0, 0.5, 2, 1).named


@pytest.mark.parametrize(("lows", "shared"), [((9, 6, 2, 2, 0, 0), True), ((9, 8, 3, 1, 1, 0), False)])
def test_an_uneven_spread_of_one_in_a_thousand_is_no_chance(lows: tuple[int, ...], shared: bool) -> None:
    """Fisher's index of dispersion, by its definition: the probability is within 25% of the limit."""
    from scipy import stats

    due = sum(lows) / len(lows)
    p_value = stats.chi2.sf(sum((count - due) ** 2 / due for count in lows), len(lows) - 1)
    assert (1e-3 < p_value < 1.2e-3) if shared else (0.8e-3 < p_value < 1e-3)
    assert (shared_modes(an_experiment(*lows, of=20)) is not None) == shared


def test_a_repeat_alone_is_all_samples() -> None:
    values = tuple(float(at) for at in range(20))
    point = replace(base(), repeats=1, samples=Samples(0.0, 1.0, 2.0, 0.1, None, values))
    assert each_over_time(point) == [list(values)]


def test_the_level_of_others_needs_both_ends_and_is_not_negative() -> None:
    shared = Modes(0.6, 1.0, 0.2, 24, 3)
    wild = [[value * 10 for value in values] for values in noise(3, deviation=0.4)]
    for value in (Value(2.0, "x", None, 3.0), Value(2.0, "x", 1.0, None)):
        assert with_shared(value, wild, shared) == value
    half = mean_half_width(wild)
    low = with_shared(Value(half / 2, "x", half / 3, half), wild, shared)
    assert low.low == 0.0, "a rate is not negative"
    calm = with_shared(Value(0.5, "x", 0.49, 0.51), [[value / 2 for value in values] for values in noise(3)], shared)
    assert calm.low is not None and 0 < calm.low < 0.45


def test_repeats_without_scatter_are_judged() -> None:
    same, other = disagreement([[1.0] * 20] * 2), disagreement([[1.0] * 20, [2.0] * 20])
    assert same is not None and (same.p_value, same.spread) == (1.0, 0.0)
    assert other is not None and other.p_value < 1e-9 and other.spread == pytest.approx(2 / 3)


@pytest.mark.parametrize("ratio", [0.6, 0.95])
def test_persistent_samples_have_fewer_degrees(ratio: float) -> None:
    """The F of the means, with variance and degrees of freedom of as many independent samples; at least one degree."""
    from scipy import stats

    values = noise(5, 3, 20, 0.3, ratio)
    found, kept = disagreement(values), persistence(values)
    assert found is not None and kept >= 0.35
    inflation = _inflation(kept, 20)
    within = float(np.mean([np.var(repeat, ddof=1) for repeat in values])) * inflation / 20
    between = float(np.var([np.mean(repeat) for repeat in values], ddof=1))
    degrees = max(1.0, 3 * 19 / inflation)
    assert found.p_value == pytest.approx(stats.f.sf(between / within, 2, degrees), rel=1e-6)


def test_two_short_repeats_that_wander_have_one_degree_of_freedom() -> None:
    from scipy import stats

    ramp = [[1.0 + 0.01 * at for at in range(8)], [1.3 + 0.01 * at for at in range(8)]]
    found = disagreement(ramp)
    inflation = _inflation(0.99, 8)
    assert found is not None and persistence(ramp) == 0.99 and 2 * 7 / inflation > 1
    variance = float(np.var(ramp[0], ddof=1)) * inflation / 8
    assert found.p_value == pytest.approx(stats.f.sf(0.045 / variance, 1, 14 / inflation), rel=1e-6)


@pytest.mark.parametrize(("points", "repeats"), [(1, 14), (2, 14), (3, 9), (4, 6), (5, 5), (6, 4), (7, 4), (8, 3)])
def test_so_many_repeats_show_a_level_of_a_fifth_of_them(points: int, repeats: int) -> None:
    """A point misses it where it never drew it itself, and at most one of the others did."""
    from scipy import stats

    def missed(count: int) -> float:
        unseen = 0.8**count
        return float(unseen * stats.binom.cdf(1, points - 1, 1 - unseen))

    assert repeats_that_show(points) == repeats
    assert missed(repeats) <= 0.05 < missed(repeats - 1)
