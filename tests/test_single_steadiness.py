"""Single lines of the rules on courses, repeats, conditions, contention and queues that no planted fault showed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.axes import BACKGROUND
from hwdyno.findings import repeats as of_repeats
from hwdyno.findings.conditions import (
    another_run,
    interval_not_reached,
    io_limit,
    others_at_work,
    outlying_repeats,
    steal,
    swapping,
)
from hwdyno.findings.contention import Cause, Cell, cause_of, cells_of, contention, no_contention
from hwdyno.findings.queue import (
    _go_on,
    best_block_size,
    best_combination,
    knee,
    load_without_effect,
    saturated,
    still_rising,
)
from hwdyno.findings.repeats import repeats_disagree
from hwdyno.findings.rule import Case
from hwdyno.findings.steadiness import alike, lasting_step, not_steady, stalls, step_down, step_in_each, unsteady
from hwdyno.machine import Conditions, IoLimit, Storage
from hwdyno.samples import Disagreement, persistence
from hwdyno.statistics import mean
from hwdyno.words import Concurrency, Curve, ExperimentResult, Measurement, OperatingPoint, Samples, Value
from made_experiment import made_experiment
from scipy.special import chdtrc, stdtr
from test_single_lines import case_of
from test_thresholds import BLOCK, RATE, base, course, run_of


def of_courses(*courses: Sequence[float], **changes: Any) -> Measurement:
    values = [one for each in courses for one in each]
    return replace(base(), samples=course(values, 1), repeats=len(courses), **changes)


def on(point: Measurement) -> Case:
    return Case(run_of(point), run_of(point).experiments[0], 0)


def is_step(found: tuple[Any, float] | None, expected: tuple[Any, float] | None) -> bool:
    """Whether a step has the place and the share that were expected, or none was found where none was."""
    if found is None or expected is None:
        return found is expected
    return bool(found[0] == expected[0]) and found[1] == pytest.approx(expected[1])


# --- one step


@pytest.mark.parametrize("scale", [1.0, 1e-12])
@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([100.0] * 10 + [50.0] * 10, (10, 0.5)),
        # A tenth of forty samples is four: the fourth is at the lower level already.
        ([100.0] * 3 + [50.0] * 37, (4, 1 - 50 / 87.5)),
        # At least three samples on each side: their mean is a third.
        ([100.0] * 28 + [0.0] * 2, (27, 2 / 3)),
        # The first sample counts as any other: 8 and 2.5 are the means.
        ([6.0, 10.0, 10.0, 6.0, 2.0, 2.0, 4.0, 2.0, 3.0, 2.0], (4, 1 - 2.5 / 8)),
        ([0.0] * 10 + [100.0] * 10, None),
        ([100.0] * 20, None),
    ],
)
def test_a_step_is_where_both_sides_scatter_least_in_any_unit(
    values: list[float], step: tuple[int, float] | None, scale: float
) -> None:
    found = step_down([scale * value for value in values])
    assert is_step(found, step)
    lasting = lasting_step(of_courses(*[[scale * value for value in values]] * 3))
    assert is_step(lasting, step)


@pytest.mark.parametrize(("scatter", "found"), [(702.0, True), (738.0, False)])
def test_a_step_stands_out_by_five_standard_errors(scatter: float, found: bool) -> None:
    """From 100 to 60 after three of eight: 5 x sqrt(scatter / 6 x (1/3 + 1/5)) is 40 at a scatter of 720."""
    a, b = math.sqrt(scatter / 2 / 6), math.sqrt(scatter / 2 / 4)
    step = step_down([100 + a, 100 - 2 * a, 100 + a, 60 + b, 60 - b, 60.0, 60 - b, 60 + b])
    assert is_step(step, (3, 0.4) if found else None)


@pytest.mark.parametrize(
    ("third", "found"), [([100.0] * 10 + [80.0] * 10, True), ([100.0] * 10 + [86.0] * 10, False), ([0.0] * 20, False)]
)
def test_each_repeat_shows_half_of_a_lasting_step(third: list[float], found: bool) -> None:
    """A fall of 14% is less than half of the mean course's 31%, and more than a third."""
    two = [100.0] * 10 + [60.0] * 10
    assert (lasting_step(of_courses(two, two, third)) is not None) == found


# --- a step in each repeat

WAVE = (0, 2, 3, 1, -1, -3, -2, 0)
STEPS = (8, 16, 24)


def stepping(noise: float, scale: float = 1.0) -> list[list[float]]:
    """Repeats that fall by a fifth, under a slow wave."""
    return [
        [scale * (1 - 0.2 * (at >= step) + noise * WAVE[(at + 3 * step // 8) % 8]) for at in range(32)]
        for step in STEPS
    ]


def chance_of(repeats: Sequence[Sequence[float]]) -> float:
    """Student's t of each step with the pooled scatter, times the 32 places, combined by Fisher's method."""
    parts = [part for one, at in zip(repeats, STEPS, strict=True) for part in (one[:at], one[at:])]
    freedom, again = 3 * (32 - 2), persistence(parts)
    variance = sum((value - mean(part)) ** 2 for part in parts for value in part) / freedom
    logs = 0.0
    for one, at in zip(repeats, STEPS, strict=True):
        error = math.sqrt(variance * (1 / at + 1 / (32 - at)) * (1 + again) / (1 - again))
        logs += math.log(32 * stdtr(freedom, -(mean(one[:at]) - mean(one[at:])) / error))
    return float(chdtrc(2 * 3, -2 * logs))


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize(("noise", "found"), [(0.0217, True), (0.02175, False)])
def test_steps_at_moments_of_their_own_are_beyond_a_chance_of_one_in_a_million(
    noise: float, found: bool, scale: float
) -> None:
    repeats = stepping(noise, scale)
    assert (9e-7 < chance_of(repeats) < 1e-6) if found else (1e-6 < chance_of(repeats) < 1.1e-6)
    step = step_in_each(of_courses(*repeats))
    assert is_step(step, (list(STEPS), 0.2) if found else None)


@pytest.mark.parametrize(
    ("third", "found"),
    [
        ([100.0] * 8 + [86.0] * 12, True),
        # Less than half of the mean fall, and more than a third.
        ([100.0] * 8 + [89.0] * 12, False),
        # Nothing falls, and the share of a fall from nothing is none.
        ([0.0] * 3 + [10.0] * 17, False),
    ],
)
def test_each_repeat_has_half_of_the_mean_fall(third: list[float], found: bool) -> None:
    """Falls of 30%, 30% and 14% have a mean of 24.7%; with 11%, of 23.7%."""
    two = ([100.0] * 5 + [70.0] * 15, [100.0] * 12 + [70.0] * 8)
    assert (step_in_each(of_courses(*two, third)) is not None) == found


# --- drifts and swings


@pytest.mark.parametrize(("noise", "says"), [(0.042, True), (0.043, False)])
@pytest.mark.parametrize(("moves", "word"), [(-0.3, "fell"), (0.3, "rose")])
def test_a_drift_stands_out_by_five_standard_errors(moves: float, word: str, noise: float, says: bool) -> None:
    """The pattern has no slope: the error is sqrt(12 x 8 x noise^2 / 6 / 8), and 5 of it are 0.3 at 0.0424."""
    pattern = (1, -1, -1, 1, 1, -1, -1, 1)
    found = unsteady([1 + moves * (at / 7 - 0.5) + noise * one for at, one in enumerate(pattern)])
    assert (found == f"throughput {word} by 30% from start to end") == says


@pytest.mark.parametrize(("noise", "found"), [(2.7, True), (2.9, False)])
def test_a_swing_stands_out_by_eight_standard_errors(noise: float, found: bool) -> None:
    """Of 40 in the middle fifth: the 19 squared steps sum to 76 noise^2 + 2 x 40^2; 8 errors are 40 at 2.81."""
    values = [100 + 40 * (8 <= at < 12) + noise * (-1) ** at for at in range(20)]
    assert unsteady(values) == ("the fifths of the run differ by 37% of the mean" if found else None)


def test_courses_are_alike_in_any_unit() -> None:
    assert alike([[0.01, 0.02, 0.03], [0.03, 0.02, 0.01]]) == pytest.approx([-1.0, -1.0])


@pytest.mark.parametrize(("apart", "found"), [(1.2, True), (1.4, False)])
def test_a_drift_counts_where_each_repeat_shares_half_of_it(apart: float, found: bool) -> None:
    """Opposite waves without slope on one line correlate by (1 - r) / (1 + r), with r the ratio of their squares."""
    wave = (1, -1, -1, 1, 1, -1, -1, 1)
    line = [at - 3.5 for at in range(8)]
    courses = [[1e6 * (20 + one + sign * apart * two) for one, two in zip(line, wave, strict=True)] for sign in (1, -1)]
    ratio = 8 * apart**2 / 42
    assert alike(courses) == pytest.approx([(1 - ratio) / (1 + ratio)] * 2)
    assert ((1 - ratio) / (1 + ratio) >= 0.5) == found
    assert (not_steady(on(of_courses(*courses))) is not None) == found


@pytest.mark.parametrize(("cv", "found"), [(0.2, False), (0.21, True), (None, False)])
def test_samples_of_which_only_the_spread_is_known_vary_beyond_a_fifth(cv: float | None, found: bool) -> None:
    verdict = not_steady(on(replace(base(), samples=Samples(1e7, 2e7, 4e7, 1.0, cv))))
    assert (verdict is not None) == found
    if verdict is not None:
        assert "--ramp-time 10 " in f"{verdict.advice} " and "--runtime 60 " in f"{verdict.advice} "


def test_the_spread_of_samples_is_not_asked_where_their_course_is_known() -> None:
    steady = replace(course([RATE * BLOCK] * 3), cv=0.5)
    assert not_steady(on(replace(base(), samples=steady))) is None


# --- stalls


@pytest.mark.parametrize(
    ("count", "still", "slow", "share", "found"),
    [
        (60, 3, 2, 0.39, True),
        (60, 3, 3, 0.39, False),
        (60, 3, 3, 0.41, True),
        (200, 9, 0, 1.0, False),
        (200, 10, 0, 1.0, True),
    ],
)
@pytest.mark.parametrize("scale", [1e6, 1e-3])
def test_stalls_are_a_twentieth_of_the_samples_and_more_than_the_slow_ones(
    count: int, still: int, slow: int, share: float, found: bool, scale: float
) -> None:
    values = [scale] * count
    values[10 : 10 + still] = [0.0] * still
    values[30 : 30 + slow] = [scale * share] * slow
    assert (stalls(on(of_courses(values))) is not None) == found


# --- conditions


@pytest.mark.parametrize(
    ("half", "values", "words"),
    [
        (0.99, (1e7, 6e7), "±99%"),
        (1.0, (1e7, 6e7), "10 to 60 MB/s"),
        (1.0, (1e7,), "±100%"),
    ],
)
def test_an_interval_that_reaches_zero_is_said_as_the_range_of_the_repeats(
    half: float, values: tuple[float, ...], words: str
) -> None:
    value = Value(4e7, "bytes/s", (1 - half) * 4e7, (1 + half) * 4e7)
    found = interval_not_reached(on(replace(base(), throughput=value, repeat_values=values, repeats=len(values))))
    assert found is not None and f", {words}, " in found.says


def test_a_condition_that_was_not_read_is_none() -> None:
    case = on(replace(base(), conditions={}))
    assert another_run(case) is None and steal(case) is None


@pytest.mark.parametrize("name", ["swap_in_bytes", "swap_out_bytes"])
def test_one_way_of_swapping_is_counted_alone(name: str) -> None:
    found = swapping(on(replace(base(), conditions={name: 9e6})))
    assert found is not None and found.evidence["swapped_bytes"] == 9e6


@pytest.mark.parametrize(("before", "named"), [(0.1, False), (0.11, True), (None, False)])
def test_others_are_said_to_have_worked_before_above_a_tenth(before: float | None, named: bool) -> None:
    case = on(replace(base(), conditions={"cpu_busy": 0.6, "cpu_user": 0.6, "steal": 0.0}))
    (host,) = case.run.machines
    machines = (replace(host, conditions=Conditions(others_cpu_share=before)),)
    found = others_at_work(replace(case, run=replace(case.run, machines=machines)))
    assert found is not None and ("before the first point" in found.says) == named


@pytest.mark.parametrize("seconds", [3.0, 0.5])
@pytest.mark.parametrize(("share", "found"), [(0.84, False), (0.86, True), (1.49, True), (1.51, False)])
def test_a_limit_is_what_was_reached_near_it_however_short(share: float, found: bool, seconds: float) -> None:
    case = on(replace(base(), elapsed_s=seconds))
    (host,) = case.run.machines
    limit = IoLimit("8:0", read_bytes_s=case.point.streams[0].bytes / seconds / share)
    machines = (replace(host, storage=Storage(limits=(limit,))),)
    assert (io_limit(replace(case, run=replace(case.run, machines=machines))) is not None) == found


@pytest.mark.parametrize(
    ("values", "words", "weight"),
    [
        ((10.0, 10.0, 10.0, 10.0, 5.0), "One of 5 repeats was half the others", 0.5),
        ((10.0, 10.0, 10.0, 10.0, 20.0), "One of 5 repeats was twice the others", 1.0),
        ((10.0, 10.0, 10.0, 10.0, 30.0), "One of 5 repeats was 3 times the others", 2.0),
        ((10.0, 10.0, 10.0, 10.0, 7.0), "One of 5 repeats was 30% below the others", 0.3),
        ((0.0, 0.0, 0.0, 0.0, 5.0), "One of 5 repeats were far from the others", 0.0),
        ((10.0, 10.0, 10.0, 10.0, 10.0, 20.0, 20.0), "2 of 7 repeats were far from the others", 1.0),
    ],
)
def test_a_repeat_far_off_is_said_beside_the_median(values: tuple[float, ...], words: str, weight: float) -> None:
    found = outlying_repeats(on(replace(base(), repeat_values=values, repeats=len(values))))
    assert found is not None and found.says.startswith(words) and found.weight == pytest.approx(weight)


def test_a_latency_test_has_its_repeats_far_off_as_times() -> None:
    """Half of the rate is twice the time."""
    point = replace(base(), repeat_values=(10.0, 10.0, 10.0, 10.0, 5.0), repeats=5, concurrency=Concurrency(1.0, 1.0))
    result = made_experiment("memory.x", "memory", "?", "working_set", "memory_latency", (point,), fixed={})
    found = outlying_repeats(case_of(result))
    assert found is not None and found.says.startswith("One of 5 repeats was twice the others")


# --- repeats


@pytest.mark.parametrize(
    ("values", "chance", "says"),
    [
        (
            (1e8, 5e7, 5e7),
            0.99e-3,
            "Throughput fell by 50% after repeat 1 of 3 and stayed there (randread 4 KiB, iodepth=8: 100 → 50 MB/s).",
        ),
        ((1e8, 5e7, 5e7), 1.01e-3, None),
        ((5e7, 1e8, 5e7), 0.99e-4, "3 repeats disagree by 50%: "),
        ((5e7, 1e8, 5e7), 1.01e-4, None),
    ],
)
def test_repeats_disagree_below_a_chance_and_a_lasting_fall_below_a_greater_one(
    monkeypatch: pytest.MonkeyPatch, values: tuple[float, ...], chance: float, says: str | None
) -> None:
    monkeypatch.setattr(of_repeats, "disagreement", lambda _: Disagreement(chance, 0.5))
    found = repeats_disagree(on(replace(base(), repeat_values=values)))
    assert (found is not None) == (says is not None)
    if found is not None and says is not None:
        assert found.says.startswith(says)
        assert found.evidence["fell_after"] == (1 if says.startswith("Throughput fell") else None)


# --- contention


def cell(details: dict[str, float], kept: Value, resource: str = "storage", high: float | None = None) -> Cell:
    point = replace(base(), parameters={BACKGROUND.name: "compute"}, details=details)
    result = made_experiment(f"{resource}.x", resource, "?", BACKGROUND.name, "", (point,), fixed={})
    return Cell(result, 0, "memory" if resource == "memory" else "compute", kept, replace(kept, high=high))


@pytest.mark.parametrize(
    ("kept", "high", "certain"),
    [(0.978, 0.99, True), (0.985, 0.99, False), (0.9, 0.999, True), (0.9, 1.0, False), (0.9, None, False)],
)
def test_a_cost_is_certain_from_a_fiftieth_and_with_an_interval_below_one(
    kept: float, high: float | None, certain: bool
) -> None:
    assert cell({}, Value(kept, "1"), high=high).is_certain == certain


@pytest.mark.parametrize(
    ("resource", "details", "cause"),
    [
        ("storage", {"cores": 2.0, "cores_alone": 2.0, "steal_share": 0.122, "steal_share_alone": 0.1}, None),
        ("storage", {"cores": 0.4, "cores_alone": 0.5, "steal_share": 0.121, "steal_share_alone": 0.1},
         Cause("steal", "Steal rose from 10% to 12% of the CPU time.")),
        ("storage", {"cores": 0.4, "cores_alone": 0.5, "steal_share": 0.119, "steal_share_alone": 0.1}, None),
        ("storage", {"cores": 0.4, "cores_alone": 0.5, "steal_share_alone": 0.1}, None),
        ("storage", {"cores": 5.0, "cores_alone": 7.5}, None),
        ("storage", {"cores": 5.0, "cores_alone": 6.5, "busy_share": 0.95}, None),
        ("storage", {"cores": 5.0, "cores_alone": 6.0, "busy_share": 0.95, "load_cores_alone": 1.5},
         Cause("CPU", "CPU time is short: alone, both together use 7.50 of 8 processors.")),
        ("compute", {"cores": 3.0, "cores_alone": 4.0, "busy_share": 0.95},
         Cause("CPU", "CPU time is short: its threads ran 25% less, with 95% of it in use.")),
        ("memory", {"cores": 2.0, "cores_alone": 2.0, "bytes_s": 0.5, "load_bytes_s": 0.5, "bytes_s_alone": 1.0},
         Cause("memory bandwidth",
               "Memory bandwidth is full: both moved 0.00100 kB/s, and memory alone moves 0.00100 kB/s.")),
    ],
)  # fmt: skip
def test_a_cause_is_what_was_measured_of_both_sides(
    resource: str, details: dict[str, float], cause: Cause | None
) -> None:
    """On eight processors, of a cost of 30%: what was not measured is no cause."""
    assert cause_of(cell(details, Value(0.7, "1"), resource), run_of(base())) == cause


def loaded(*kept: float, scale: float = 1.0) -> Case:
    """Points beside a load, each with two rounds of nearly one share kept."""
    points = tuple(
        replace(base(), parameters={BACKGROUND.name: name},
                details={"loaded_by_round": [scale * one, scale * one], "alone_by_round": [scale, scale]})
        for name, one in zip(("compute", "memory", "network", "storage"), kept, strict=False)
    )  # fmt: skip
    return case_of(made_experiment("storage.x", "storage", "?", BACKGROUND.name, "", points, fixed={}))


def test_the_least_of_the_other_costs_is_said() -> None:
    found = contention(loaded(0.5, 0.6, 0.8))
    assert found is not None and found.says.endswith("2 more pairs lose at least 20%.")


def test_rounds_of_any_unit_make_a_cell() -> None:
    (found,) = cells_of(loaded(0.5, scale=0.01).run)
    assert found.kept.value == pytest.approx(0.5)
    assert cells_of(loaded(0.0).run) == []


def test_a_bound_of_nothing_is_said_as_a_tenth_of_a_percent() -> None:
    found = no_contention(loaded(1.0))
    assert found is not None and "loses more than 0.1%." in found.says


# --- queues


def queue(curve: dict[str, Any], load: str = "iodepth", loads: Sequence[float] = (1, 8), **changes: Any) -> Case:
    resource, kernel = ("memory", "memory_bandwidth") if load == "block" else ("storage", "storage_blocks")
    points = tuple(replace(base(), parameters={"rw": "randread", load: one}, **changes) for one in loads)
    result = made_experiment(f"{resource}.x", resource, "?", load, kernel, points, fixed={})
    made = Curve(series={}, load=load, points=tuple(range(len(loads))), unit="bytes/s", model="", **curve)
    return replace(case_of(result, 0), curve=made)


CEILING, BEST = Value(1e8, "bytes/s"), OperatingPoint(8.0, 9e7, None, True)


def test_a_curve_without_a_ceiling_or_a_best_point_has_no_finding() -> None:
    for rule in (knee, best_block_size):
        assert rule(queue({"ceiling": CEILING, "best": BEST})) is not None
        assert rule(queue({"ceiling": CEILING})) is None
        assert rule(queue({"best": BEST})) is None
    assert saturated(queue({"ceiling": CEILING})) is None
    for rule in (knee, best_block_size, saturated, still_rising, load_without_effect):
        assert rule(replace(queue({}), curve=None)) is None


def test_the_best_point_is_compared_with_ends_of_any_unit() -> None:
    best = OperatingPoint(8.0, 0.9, None, True)
    found = knee(queue({"ceiling": CEILING, "best": best}, throughput=Value(0.3, "bytes/s")))
    assert found is not None and found.evidence["throughput_to_first"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("load", "value", "jobs", "command"),
    [
        ("bs", 1 << 20, 1, "--bs 1M..8M"),
        ("bs", 4 << 20, 1, "--bs 4M..16M"),
        ("iodepth", 64, 1, "--iodepth 64..512"),
        ("iodepth", 512, 1, "--iodepth 512..1024"),
        ("iodepth", 1024, 1, "--numjobs 4"),
        ("iodepth", 1024, 256, "--numjobs 1024"),
        ("iodepth", 1024, 257, "Run a second process"),
    ],
)
def test_a_load_goes_on_eightfold_as_far_as_its_axis_allows(load: str, value: int, jobs: int, command: str) -> None:
    case = queue({}, load, (value,))
    point = replace(case.point, parameters={**case.point.parameters, "numjobs": jobs})
    case = replace(case, result=replace(case.result, points=(point,)))
    assert f"{command} " in f"{_go_on(case, case.result.load_axis, float(value))} "


@pytest.mark.parametrize(
    ("load", "size", "command"), [("bs", 100.0, "--bs 512"), ("bs", 1000.0, "--bs 1k"), ("block", 3.0, "--block 8")]
)
def test_a_block_is_measured_at_the_next_power_of_two_from_a_sector_on(load: str, size: float, command: str) -> None:
    found = best_block_size(queue({"ceiling": CEILING, "best": OperatingPoint(size, 9e7, None, False)}, load))
    assert found is not None and f"{found.advice} ".endswith(f"{command} ")


def grid(*cells: tuple[int | None, int, float]) -> ExperimentResult:
    points = tuple(
        replace(base(), parameters={"rw": "randread", "iodepth": depth, "bs": size}, throughput=Value(rate, "bytes/s"))
        for depth, size, rate in cells
    )
    return made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})


def test_four_points_that_moved_anything_make_a_grid() -> None:
    full = case_of(grid((1, 512, 0.2), (2, 512, 0.4), (1, 1024, 0.4), (2, 1024, 0.8)))
    (found,) = best_combination(full)
    assert found.evidence["best"] == {"iodepth": 2, "bs": 1024}
    assert best_combination(case_of(grid((1, 512, 0.0), (2, 512, 0.4), (1, 1024, 0.4), (2, 1024, 0.8)))) == []


def test_the_least_bytes_in_flight_are_the_best_combination() -> None:
    (found,) = best_combination(case_of(grid((5, 1, 1.0), (3, 2, 1.0), (8, 1, 1.0), (8, 2, 1.0))))
    assert found.evidence["best"] == {"iodepth": 5, "bs": 1}


def test_a_point_without_a_depth_has_one_operation_in_flight() -> None:
    """1000 bytes in flight are less than two times 600."""
    (found,) = best_combination(case_of(grid((None, 1000, 1.0), (2, 600, 1.0), (4, 600, 1.0), (4, 1000, 1.0))))
    assert found.evidence["best"] == {"iodepth": None, "bs": 1000}


def test_no_load_is_none_and_not_one() -> None:
    """Beside none, 2 and 3 the load of 1 was not measured."""
    found = knee(queue({"ceiling": CEILING, "best": BEST, "load_90": 1.0}, loads=(0, 2, 3)))
    assert found is not None and "--iodepth 1,2,3" in found.advice
    rising = still_rising(queue({}, loads=(0,)))
    assert rising is not None and rising.says.startswith("Not saturated at iodepth 0 ")


@pytest.mark.parametrize("name", ["steal_share", "interrupt_share", "steal_share_alone"])
def test_a_share_that_is_known_of_one_side_alone_is_no_cause(name: str) -> None:
    found = cell({"cores": 0.4, "cores_alone": 0.5, name: 0.3}, Value(0.7, "1"))
    assert cause_of(found, run_of(base())) is None
