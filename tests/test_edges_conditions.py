"""Thresholds on courses, conditions, contention, clocks and laws, each with an input within a tenth on either side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hwdyno.axes import BACKGROUND
from hwdyno.findings.commands import takable
from hwdyno.findings.compute import wide_clock_drop
from hwdyno.findings.contention import contention, no_contention
from hwdyno.findings.laws import rate_times_size
from hwdyno.findings.rule import Case
from hwdyno.findings.steadiness import not_steady, stalls, step_down, step_in_each, unsteady
from hwdyno.words import Ceiling, CeilingClass, ExperimentResult, Value
from made_experiment import made_experiment
from test_single_claims import loop, of_loops
from test_single_lines import case_of
from test_single_steadiness import of_courses, on
from test_thresholds import BLOCK, RATE, base, found_in, run_of

# --- courses


@pytest.mark.parametrize(("count", "step"), [(7, None), (8, (4, 0.5))])
def test_a_step_is_looked_for_from_eight_samples_on(count: int, step: tuple[int, float] | None) -> None:
    assert step_down([100.0] * 4 + [50.0] * (count - 4)) == step


@pytest.mark.parametrize(("count", "words"), [(7, None), (8, "throughput fell by 30% from start to end")])
def test_a_drift_is_looked_for_from_eight_samples_on(count: int, words: str | None) -> None:
    assert unsteady([100 + 15 - 30 * at / (count - 1) for at in range(count)]) == words


@pytest.mark.parametrize(("low", "step"), [(2, None), (3, (17, 1.0))])
def test_a_step_has_three_samples_on_each_side(low: int, step: tuple[int, float] | None) -> None:
    """Two samples at the end that stand still may be hiccups."""
    assert step_down([100.0] * (20 - low) + [0.0] * low) == step


@pytest.mark.parametrize(("low", "places", "drop"), [(2, [17, 10], 7 / 12), (3, [17, 10], 3 / 4)])
def test_a_step_of_each_repeat_has_three_samples_on_each_side(low: int, places: list[int], drop: float) -> None:
    """Beside a fall to a half in the middle: of falls of 2/3 and 1/2 the mean is 7/12, of 1 and 1/2 it is 3/4."""
    late = [100.0] * (20 - low) + [0.0] * low
    step = step_in_each(of_courses(late, [100.0] * 10 + [50.0] * 10))
    assert step is not None and step[0] == places and step[1] == pytest.approx(drop)


@pytest.mark.parametrize(("moves", "named"), [(0.095, False), (0.105, True), (-0.095, False), (-0.105, True)])
def test_a_steady_line_moves_by_at_most_a_tenth_of_the_mean(moves: float, named: bool) -> None:
    """The limit of SNIA's performance test specification; noise of 0.1% leaves no doubt."""
    values = [1 + moves * (at / 19 - 0.5) + 0.001 * (-1) ** at for at in range(20)]
    assert (unsteady(values) is not None) == named
    assert (not_steady(on(of_courses(*[[RATE * BLOCK * value for value in values]] * 3))) is not None) == named


@pytest.mark.parametrize(
    ("wave", "named"),
    [
        (1.27, True),  # Correlation 0.53.
        (1.31, True),  # 0.507
        (1.33, False),  # 0.496
    ],
)
def test_repeats_share_a_drift_that_correlate_by_a_half(wave: float, named: bool) -> None:
    """One line with opposite waves: the correlation is (42 - 8 wave^2) / (42 + 8 wave^2)."""
    signs = (1, -1, -1, 1, 1, -1, -1, 1)
    courses = [[1e6 * (20 + at - 3.5 + way * wave * one) for at, one in enumerate(signs)] for way in (1, -1)]
    assert (not_steady(on(of_courses(*courses))) is not None) == named


@pytest.mark.parametrize(
    ("count", "still", "named"),
    [
        (400, 19, False),  # 4.75% of the samples.
        (400, 21, True),  # 5.25%
        (30, 2, False),  # 6.7%, but only two.
        (30, 3, True),
    ],
)
def test_stalls_are_three_samples_and_a_twentieth_of_all(count: int, still: int, named: bool) -> None:
    values = [1e6] * count
    values[10 : 10 + still] = [0.0] * still
    assert (stalls(on(of_courses(values))) is not None) == named


# --- conditions


@pytest.mark.parametrize(("share", "explained"), [(0.095, False), (0.105, True)])
def test_steal_above_a_tenth_is_why_repeats_vary(share: float, explained: bool) -> None:
    """An interval of 30% is a finding of its own unless the hypervisor explains it."""
    speed = RATE * BLOCK
    wide = replace(base(), throughput=Value(speed, "bytes/s", 0.7 * speed, 1.3 * speed))
    found = found_in(run_of(replace(wide, conditions={"cpu_busy": 0.1, "cpu_user": 0.05, "steal": share})))
    assert "steal" in found and ("interval_not_reached" not in found) == explained


# --- contention


def matrix(*loads: tuple[str, Sequence[float]]) -> Case:
    """Beside each load, the share of its throughput alone that storage keeps in each round."""
    points = tuple(
        replace(base(), parameters={BACKGROUND.name: load},
                details={"loaded_by_round": [1e6 * one for one in kept], "alone_by_round": [1e6] * len(kept)})
        for load, kept in loads
    )  # fmt: skip
    return case_of(made_experiment("storage.x", "storage", "?", BACKGROUND.name, "", points, fixed={}))


@pytest.mark.parametrize(("kept", "named"), [(0.981, False), (0.979, True)])
def test_a_cost_is_worth_a_finding_from_a_fiftieth_on(kept: float, named: bool) -> None:
    case = matrix(("compute", (kept, kept)))
    assert (contention(case) is not None) == named and (no_contention(case) is None) == named


@pytest.mark.parametrize(("kept", "severity"), [(0.905, "info"), (0.895, "warning")])
def test_a_cost_is_a_warning_from_a_tenth_on(kept: float, severity: str) -> None:
    found = contention(matrix(("compute", (kept, kept))))
    assert found is not None and found.severity == severity


@pytest.mark.parametrize(
    ("scatter", "says"),
    [
        (0.053, "No contention found: together, no resource loses more than 9.4%."),
        (0.059, "Too noisy to find contention: a cost below 10% would not be seen."),
    ],
)
def test_contention_is_not_ruled_out_where_a_cost_of_a_tenth_would_not_be_seen(scatter: float, says: str) -> None:
    """Four rounds about no cost: the interval's end is 9.4% and 10.5%."""
    found = no_contention(matrix(("compute", (1 + scatter, 1 - scatter, 1 + scatter, 1 - scatter))))
    assert found is not None and found.says.startswith(says)


@pytest.mark.parametrize(
    ("loads", "says"),
    [
        (("compute",), "This holds with 95% confidence."),
        (("compute", "memory"), "This holds for all 2 pairs at once, with 95% confidence."),
    ],
)
def test_one_pair_is_not_called_all(loads: tuple[str, ...], says: str) -> None:
    found = no_contention(matrix(*((load, (1.001, 0.999, 1.001, 0.999)) for load in loads)))
    assert found is not None and found.says.endswith(says)


# --- clocks


@pytest.mark.parametrize(
    ("clock_hz", "drop"),
    [
        (3.886e9, None),  # 2.85% below the clock under narrow instructions.
        (3.874e9, 0.0315),
    ],
)
def test_a_clock_under_wide_instructions_falls_by_more_than_three_percent(clock_hz: float, drop: float | None) -> None:
    found = wide_clock_drop(case_of(of_loops(loop("scalar", hz=4e9), loop("avx512", hz=clock_hz))))
    assert (found and found.evidence["drop"]) == (None if drop is None else pytest.approx(drop))


# --- laws


@pytest.mark.parametrize(("off", "severity"), [(0.047, "info"), (0.0525, "warning")])
def test_bandwidth_and_rate_of_a_table_are_means_of_different_samples_up_to_a_twentieth(
    off: float, severity: str
) -> None:
    """Neither ratio is that of two units, which would be a warning by itself."""
    point = replace(
        base(), rate=Value(123_457 * (1 + off), "operations/s"), throughput=Value(123_457.0 * 4096, "bytes/s")
    )
    run = replace(run_of(point), imported_from="a table")
    found = rate_times_size(Case(run, run.experiments[0], 0))
    assert found is not None and found.severity == severity and "The factor" not in found.says


@pytest.mark.parametrize(
    ("kind", "rule", "severity"), [("physical", "physical_ceiling", "invalid"), ("rated", "rated_exceeded", "info")]
)
@pytest.mark.parametrize(("times", "above"), [(1.0095, False), (1.0105, True)])
def test_a_ceiling_holds_within_a_rounding_of_one_percent(
    kind: CeilingClass, rule: str, severity: str, times: float, above: bool
) -> None:
    """The value is exact: no interval excuses it."""
    run = run_of(replace(base(), throughput=Value(times * 1e9, "bytes/s"), rate=None))
    link = Ceiling("read_bytes_s", kind, 1e9, "bytes/s", "the link", "test")
    run = replace(run, experiments=(replace(run.experiments[0], ceilings=(link,)),))
    assert found_in(run).get(rule) == (severity if above else None)


# --- commands


@pytest.mark.parametrize(
    ("resource", "name"),
    [("storage", "iodepth"), ("storage", "numjobs"), ("memory", "threads"), ("compute", "threads")],
)
def test_no_command_takes_a_foreign_count_below_one(resource: str, name: str) -> None:
    """A table may have the mean of a depth, which is less than one where operations have pauses between them."""
    result = ExperimentResult("one", resource, "?", name, "foreign", ())
    for below in (0, 0.0, 0.95):
        assert takable(result, {name: below}) == {}
    assert takable(result, {name: 1.0}) == {name: 1.0}
