"""The thresholds of statistics, samples and the bounds of disks and memory, just below and just above.

Each expected outcome is written out, so that a threshold that moves by a tenth is seen.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hwdyno.ceilings import bound_of, memory, parse_given
from hwdyno.curves import error_of
from hwdyno.findings.conditions import repeats_needed
from hwdyno.repeatability import with_pooled_repeats
from hwdyno.samples import two_modes
from hwdyno.statistics import outliers, snia_window, steady_snia
from hwdyno.words import Measurement, Value
from test_thresholds import base, run_of

# --- points that were read twice


def repeated(*rates: float) -> Measurement:
    """A point with these repeats around 100 bytes/s and no samples; its interval comes from the repeats alone."""
    return base(
        throughput=Value(100.0, "bytes/s", 90.0, 110.0),
        repeats=len(rates),
        repeat_values=rates,
        samples=None,
        rate=None,
    )


def pooled(*points: Measurement) -> Value:
    """The first point's throughput, with its interval by the spread of the others."""
    run = run_of(points[0])
    run = replace(run, experiments=(replace(run.experiments[0], points=points),))
    return with_pooled_repeats(run).experiments[0].points[0].throughput


def test_a_prior_deviation_counts_as_four_degrees_of_freedom() -> None:
    """Two equal repeats alone: a variance of 4/5 of 0.03 squared, and Student's t of 5 degrees, 2.5706."""
    value = pooled(repeated(100.0, 100.0))
    # exp(2.5706 sqrt(0.8 / 2) 0.03); with three degrees 105.23, with five 104.85.
    assert value.high == pytest.approx(104.998, abs=0.01)
    assert value.low == pytest.approx(95.240, abs=0.01)


@pytest.mark.parametrize(
    ("others", "high"), [((90.0, 90.0, 110.0, 110.0), 105.00), ((90.0, 90.0, 100.0, 110.0, 110.0), 117.7)]
)
def test_the_spread_of_other_points_counts_from_four_degrees_of_freedom(others: tuple[float, ...], high: float) -> None:
    """A point of four repeats leaves three and 3% is assumed; one of five, a tenth apart, gives 10%."""
    value = pooled(repeated(100.0, 100.0), repeated(*others))
    assert value.high == pytest.approx(high, abs=0.1)


def test_the_standard_error_of_two_repeats_is_that_of_five_degrees_of_freedom() -> None:
    """25.706% over Student's t of 5 degrees; of 4 or 6 it would be 9.26% or 10.51%."""
    assert error_of(Value(100.0, "bytes/s", 74.294, 125.706), 2) == pytest.approx(0.1, abs=1e-4)


def test_two_repeats_scatter_by_an_interval_of_five_degrees_of_freedom() -> None:
    """±21% of two is a scatter of 11.55%: within ±10% after 8 repeats; 7 or 9 by Student's t of 4 or 6 degrees."""
    point = replace(repeated(99.0, 101.0), throughput=Value(100.0, "bytes/s", 79.0, 121.0))
    assert repeats_needed(point, 0.1) == 8


# --- outliers


@pytest.mark.parametrize(("mads", "found"), [(14.0, ()), (14.5, ()), (15.1, (4,)), (16.0, (4,))])
def test_an_outlier_is_14_8_median_deviations_off(mads: float, found: tuple[int, ...]) -> None:
    """The median is 100 and the median distance from it 2, above the least of 1."""
    assert outliers([98.0, 98.0, 100.0, 102.0, 100 + 2 * mads]) == found


@pytest.mark.parametrize(("last", "found"), [(114.0, ()), (114.5, ()), (115.1, (4,)), (86.0, ()), (84.9, (4,))])
def test_of_equal_values_an_outlier_is_14_8_percent_off(last: float, found: tuple[int, ...]) -> None:
    """The median deviation is 0 and counts as 1% of the median."""
    assert outliers([100.0, 100.0, 100.0, 100.0, last]) == found


# --- SNIA's window


@pytest.mark.parametrize(("peak", "steady"), [(9.5, True), (9.9, True), (10.1, False), (10.5, False)])
def test_rounds_are_steady_within_20_percent_of_their_mean(peak: float, steady: bool) -> None:
    """A mean of 100 and a level line: 19%, 19.8%, 20.2% and 21% from the least to the greatest."""
    rounds = [100 + peak, 100 - peak, 100.0, 100 - peak, 100 + peak]
    assert steady_snia(rounds) == steady


@pytest.mark.parametrize(("moves", "steady"), [(9.5, True), (9.9, True), (10.1, False), (10.5, False)])
@pytest.mark.parametrize("direction", [1, -1])
def test_rounds_are_steady_where_their_line_moves_by_10_percent(moves: float, steady: bool, direction: int) -> None:
    """A straight line around 100: it moves by as much as the rounds differ, within the 20% allowed for these."""
    rounds = [100 + direction * moves * share for share in (-0.5, -0.25, 0.0, 0.25, 0.5)]
    assert steady_snia(rounds) == steady
    window = snia_window(rounds)
    assert window is not None and window.steady == steady


# --- two levels


def switching(low: float, samples_low: int, samples: int) -> list[list[float]]:
    """A reading at a low level first and then at 1, with ten values 0.01% apart at the upper level."""
    return [[low if at < samples_low else 1 + 0.0001 * (at % 10 - 4.5) for at in range(samples)]]


@pytest.mark.parametrize(("apart", "two"), [(0.095, False), (0.099, False), (0.101, True), (0.105, True)])
def test_two_levels_are_a_tenth_of_the_mean_apart(apart: float, two: bool) -> None:
    """Half of the samples each, around a mean of 1."""
    noise = [0.0001 * (at % 10 - 4.5) for at in range(20)]
    samples = [1 - apart / 2 + one for one in noise] + [1 + apart / 2 + one for one in noise]
    assert (two_modes([samples]) is not None) == two


@pytest.mark.parametrize(("samples_low", "named"), [(9, False), (10, True)])
def test_a_level_of_3_percent_of_the_samples_is_a_mode(samples_low: int, named: bool) -> None:
    """Of 320 samples 2.8% or 3.1%; at 0.7 of the upper level it is no stall, which would count at first sight."""
    modes = two_modes(switching(0.7, samples_low, 320))
    assert modes is not None
    assert (modes.low, modes.high, modes.share) == pytest.approx((0.7, 1.0, samples_low / 320), abs=1e-3)
    assert modes.named == named


@pytest.mark.parametrize(("distinct", "two"), [(9, False), (10, True)])
def test_samples_of_fewer_than_ten_values_are_steps_of_a_count(distinct: int, two: bool) -> None:
    """20 samples, half at 50 and half at 100, with steps of 0.1."""
    kinds = [(50.0 if at % 2 else 100.0) + at / 10 for at in range(distinct)]
    assert (two_modes([[kinds[at % distinct] for at in range(20)]]) is not None) == two


# --- bounds


@pytest.mark.parametrize(("block_bytes", "bytes_s"), [(3584, None), (4000, None), (4096, 4.096e9), (4352, 4.352e9)])
def test_rated_operations_bound_random_blocks_from_4096_bytes_on(block_bytes: int, bytes_s: float | None) -> None:
    """A million reads a second: smaller blocks may be read faster than the maker rates."""
    bound = bound_of(parse_given("rated randread 1000k IOPS"), {"rw": "randread", "bs": block_bytes})
    assert (bound and bound.value) == bytes_s


@pytest.mark.parametrize(("mebibytes", "bounded"), [(120, False), (127, False), (128, True), (136, True)])
def test_memory_bounds_working_sets_from_128_mib_on(mebibytes: int, bounded: bool) -> None:
    """Smaller ones may fit a cache, which can be faster than the memory."""
    parameters = {"operation": "triad", "working_set": mebibytes * 1048576, "threads": 4}
    assert memory.applies("dram_bytes_s", parameters) == bounded
