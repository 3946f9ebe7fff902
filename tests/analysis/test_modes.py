"""Two modes in the samples of a point: when they are named, their levels, shares and visits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwdyno.analysis.samples import Modes, mean_half_width, plain_noise, share_interval, two_modes, with_samples
from hwdyno.model.words import Value
from made_samples import levels, noise
from scipy.special import gammaincinv


def test_modes_leave_open_no_more_than_their_shares_do() -> None:
    draw = np.random.default_rng(8)
    values = [[(0.6, 1.0)[at % 2] * (1 + 0.01 * draw.standard_normal()) for at in range(20)] for _ in range(3)]
    modes = two_modes(values)
    assert modes is not None
    least, most = modes.shares()
    assert 0.3 < least < 0.5 < most < 0.7
    half = mean_half_width(values)
    for centre in (0.75, 0.85):
        wide, _ = with_samples(Value(centre, "x", centre, centre), values, [centre] * 3)
        upper, lower = modes.high - least * (modes.high - modes.low), modes.high - most * (modes.high - modes.low)
        assert wide.high == pytest.approx(max(upper, centre + half)) and wide.low == pytest.approx(
            min(lower, centre - half)
        )
        assert (wide.high == pytest.approx(upper)) == (centre == 0.75), "of the upper end the modes say more"
        assert (wide.low == pytest.approx(lower)) == (centre == 0.85)


@pytest.mark.parametrize(
    ("count", "distinct", "named"), [(16, 16, True), (15, 15, False), (20, 10, True), (20, 9, False)]
)
def test_modes_need_sixteen_samples(count: int, distinct: int, named: bool) -> None:
    values = [(0.5, 1.0)[at % distinct % 2] + 0.001 * (at % distinct) for at in range(count)]
    assert len(set(values)) == distinct
    assert (two_modes([values]) is not None) == named


def test_a_share_seen_once_is_known_by_half_a_stay() -> None:
    rare = Modes(0.6, 1.0, 0.02, visits=5, rare=1)
    least, most = share_interval(0.02, 5)
    low, high = (0.02 * float(gammaincinv(*limit)) / 0.5 for limit in ((0.5, 0.025), (1.5, 0.975)))
    assert rare.shares() == pytest.approx((max(least, low), min(most, high)))
    assert replace(rare, rare=0).shares() == rare.shares() != replace(rare, rare=2).shares()


def test_plain_noise_shows_no_modes() -> None:
    assert plain_noise(noise(1)) and plain_noise([]) and plain_noise(levels(0.5, count=7))
    assert not plain_noise(levels(0.25, 0.0, 0.0))
    assert not plain_noise(noise(1, ratio=0.9))


def test_modes_are_two_levels_with_their_share_and_visits() -> None:
    found = two_modes(levels(0.25, 0.0, 0.5))
    assert found is not None
    assert (found.low, found.high, found.share) == pytest.approx((0.6, 1.0, 0.25), rel=0.02)
    # Three repeats begin, and two of them change once.
    assert (found.visits, found.rare, found.named) == (5, 2, True)
    assert two_modes(levels(0.25, 0.0, 0.5, low=0.91)) is None, "levels within 10% are one"
    assert two_modes(levels(0.25, 0.0, 0.5, low=0.885)) is not None
    assert two_modes(levels(0.25, count=15)) is None, "too few samples"
    assert two_modes(levels(0.25, count=16)) is not None
    assert two_modes([[float(at % 5) + 1 for at in range(40)]]) is None, "steps of a count"
    assert two_modes([[0.0] * 40]) is None
    # Each repeat is low in its first sample alone.
    (first,) = levels(0.0, count=20)
    begins = two_modes([[0.6 + 0.001 * at, *first[1:]] for at in range(2)])
    assert begins is not None and (begins.visits, begins.rare) == (4, 2)


@pytest.mark.parametrize(
    ("low", "count", "named"), [(0.6, 1, False), (0.6, 2, True), (0.49, 1, True), (0.51, 1, False)]
)
def test_mode_needs_two_samples(low: float, count: int, named: bool) -> None:
    values = [[1.0 + 0.0001 * at for at in range(20)] for _ in range(3)]
    for at in range(count):
        values[0][at] = low + 0.0001 * at
    found = two_modes(values)
    assert found is not None and found.named == named
    modes = with_samples(Value(1.0, "x", 0.99, 1.01), values, [1.0] * 3)[1]
    assert (modes is not None) == named


def test_cut_lies_in_middle_between_levels() -> None:
    values = [[1.0 + 0.01 * at for at in range(10)] + [3.0 + 0.01 * at for at in range(10)]]
    found = two_modes(values)
    assert found is not None
    assert (found.visits, found.rare, found.share) == (2, 1, 0.5)


def test_shares_are_narrower_of_two_intervals() -> None:
    from scipy import stats

    # Wilson's score of 10 looks at 20%: 5.67% to 50.98% (Agresti & Coull's example of the formula, z = 1.96).
    assert share_interval(0.2, 10) == pytest.approx((0.0567, 0.5098), abs=1e-3)
    assert share_interval(0.0, 10)[0] == 0.0 and share_interval(1.0, 10)[1] == 1.0
    # Two stays as a Poisson count: Garwood's limits of 2 / 2 = 1 are 0.0253 and 5.572.
    low, high = Modes(0.6, 1.0, 0.2, 1000, 2).shares()
    wilson = share_interval(0.2, 1000)
    assert (low, high) == pytest.approx((max(wilson[0], 0.2 * 0.0253), min(wilson[1], 0.2 * 5.572)), rel=1e-2)
    few = Modes(0.6, 1.0, 0.1, 4, 20).shares()
    # Ten stays: chi-squared limits over two, as shares of 10%.
    assert few == pytest.approx((0.1 * stats.chi2.ppf(0.025, 20) / 20, 0.1 * stats.chi2.ppf(0.975, 22) / 20), rel=1e-6)
    often = Modes(0.6, 1.0, 0.9, 4, 20).shares()
    assert often == pytest.approx((1 - few[1], 1 - few[0]), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_modes_do_not_depend_on_unit(scale: float) -> None:
    for low, known in ((0.6, True), (0.45, True), (0.885, True), (0.91, False)):
        found = two_modes([[scale * value for value in repeat] for repeat in levels(0.25, 0.0, 0.5, low=low)])
        assert (found is not None) == known
        if found is not None:
            assert found.named and (found.low, found.high) == pytest.approx((low * scale, scale), rel=0.02)


@pytest.mark.parametrize(("apart", "two"), [(0.099, False), (0.101, True)])
def test_two_levels_differ_by_a_tenth(apart: float, two: bool) -> None:
    steps = [0.0001 * (at % 10 - 4.5) for at in range(20)]
    samples = [1 - apart / 2 + step for step in steps] + [1 + apart / 2 + step for step in steps]
    assert (two_modes([samples]) is not None) == two


def test_upper_level_may_be_rare_one() -> None:
    values = [[1.0 + 0.0001 * at for at in range(20)] for _ in range(3)]
    values[1][7] = 1.6
    once = two_modes(values)
    assert once is not None and not once.named, "one sample is no mode"
    assert (once.share, once.visits, once.rare) == (pytest.approx(59 / 60), 5, 1)
    values[2][3] = 1.61
    twice = two_modes(values)
    assert twice is not None and twice.named and twice.share == pytest.approx(58 / 60) and twice.rare == 2


@pytest.mark.parametrize(("low", "named"), [(5, False), (6, True)])
def test_mode_is_three_of_hundred_samples(low: int, named: bool) -> None:
    values = [0.6 + 0.0001 * at if at < low else 1.0 + 0.0001 * at for at in range(200)]
    found = two_modes([values[:100], values[100:]])
    assert found is not None and found.named == named
