"""Throughput within repeats and from one repeat to the next: steps, drifts, swings, stalls, repeats that disagree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hwdyno.findings import about_this_run, explain
from hwdyno.findings import repeats as of_repeats
from hwdyno.findings.repeats import lasting_fall, repeats_disagree
from hwdyno.findings.steadiness import (
    _about_line,
    alike,
    lasting_step,
    not_steady,
    stalls,
    step_down,
    step_in_each,
    unsteady,
)
from hwdyno.samples import Disagreement, persistence
from hwdyno.statistics import mean
from hwdyno.words import Finding, Measurement, Note, Samples
from made_point import BLOCK, RATE, base, case_of, case_of_base, course, found_in, run_of
from scipy.special import chdtrc, stdtr

SPEED = RATE * BLOCK
NO_SLOPE = (1, -1, -1, 1, 1, -1, -1, 1)
"""A pattern whose least-squares line is level."""
Courses = Sequence[Sequence[float]]


def of_courses(courses: Courses, **changes: Any) -> Measurement:
    """A point with the samples of its repeats."""
    samples = course([value for values in courses for value in values], 1)
    return base(samples=samples, repeats=len(courses), **changes)


def flicker(levels: Sequence[float]) -> list[float]:
    """Samples at these levels of the clean point, with 0.1% of noise."""
    return [SPEED * level * (1 + 0.001 * (-1) ** at) for at, level in enumerate(levels)]


def stepping(places: Sequence[int], drop: float) -> Measurement:
    return of_courses([flicker([1 - (at >= place) * drop for at in range(20)]) for place in places])


def drifting(moves: float) -> Measurement:
    return of_courses([flicker([1 + moves * (at / 19 - 0.5) for at in range(20)])] * 3)


def at_levels(*levels: float) -> Measurement:
    """Repeats at levels of their own, each steady."""
    return of_courses([flicker([level] * 20) for level in levels], repeat_values=tuple(SPEED * one for one in levels))


def standing_still(
    still: int, of: int = 60, slow: int = 0, level: float = 1.0, left: float = 0.0, scale: float = SPEED
) -> Measurement:
    """So many samples of a course stand still, with what is left then, and so many are at a level below the others."""
    values = [scale] * of
    values[10 : 10 + still] = [scale * left] * still
    values[30 : 30 + slow] = [scale * level] * slow
    return of_courses([values])


def of_spread(cv: float) -> Measurement:
    return base(samples=Samples(1e7, 2e7, 4e7, 1.0, cv))


Change = Callable[[float], Measurement]
# Rule, what changes, a number just below and one just above, and its severity above.
THRESHOLDS: list[tuple[str, Change, float, float, str]] = [
    ("throttled", lambda drop: stepping([10], drop), 0.095, 0.105, "warning"),
    ("throttled", lambda drop: stepping([5, 10, 15], drop), 0.075, 0.085, "warning"),
    ("throttled", lambda place: stepping([round(place)], 0.4), 16, 15, "warning"),
    ("not_steady", drifting, 0.095, 0.105, "warning"),
    ("not_steady", drifting, -0.095, -0.105, "warning"),
    ("not_steady", of_spread, 0.2, 0.21, "warning"),
    ("repeats_disagree", lambda drop: at_levels(1, 1 - drop, 1 - drop), 0.055, 0.065, "warning"),
    ("repeats_disagree", lambda spread: at_levels(1, 1 - spread / 2, 1 + spread / 2), 0.079, 0.081, "info"),
    ("repeats_disagree", lambda spread: at_levels(1, 1 - spread / 2, 1 + spread / 2), 0.195, 0.205, "warning"),
    ("stalls", lambda count: standing_still(round(count)), 2, 3, "warning"),
    ("stalls", lambda count: standing_still(round(count), of=30), 2, 3, "warning"),
    ("stalls", lambda count: standing_still(round(count), of=400), 19, 20, "warning"),
    ("stalls", lambda count: standing_still(3, slow=round(count), level=0.39), 3, 2, "warning"),
    ("stalls", lambda level: standing_still(3, slow=3, level=level), 0.39, 0.41, "warning"),
    ("stalls", lambda level: standing_still(3, left=level), 0.105, 0.095, "warning"),
    ("stalls", lambda count: replace(standing_still(3), operations=round(count)), 1199, 1200, "warning"),
    ("stalls", lambda time_s: of_interval(standing_still(3), time_s), 0.0333, 0.0334, "warning"),
]


def of_interval(point: Measurement, interval_s: float) -> Measurement:
    assert point.samples is not None
    return replace(point, samples=replace(point.samples, interval_s=interval_s))


@pytest.mark.parametrize(("rule", "change", "below", "above", "severity"), THRESHOLDS)
def test_course_is_named_above_its_limit(rule: str, change: Change, below: float, above: float, severity: str) -> None:
    run = explain(run_of(change(above)))
    (point,) = run.experiments[0].points
    assert found_in(run).get(rule) == severity
    assert (rule in point.why) == (rule in {"throttled", "not_steady"})
    assert found_in(run_of(change(below))).get(rule) != severity


# --- one step


def is_step(found: tuple[Any, float] | None, expected: tuple[Any, float] | None) -> bool:
    if found is None or expected is None:
        return found is expected
    return bool(found[0] == expected[0]) and found[1] == pytest.approx(expected[1])


@pytest.mark.parametrize("scale", [1.0, 1e-12])
@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([100] * 10 + [50] * 10, (10, 0.5)),
        ([100] * 4 + [50] * 4, (4, 0.5)),
        ([100] * 4 + [50] * 3, None),  # Seven samples show no course.
        # A tenth of forty samples is four: the fourth is at the lower level already.
        ([100] * 3 + [50] * 37, (4, 1 - 50 / 87.5)),
        # At least three samples on each side: two may be hiccups.
        ([100] * 17 + [0] * 3, (17, 1.0)),
        ([100] * 18 + [0] * 2, None),
        ([100] * 28 + [0] * 2, (27, 2 / 3)),
        ([6, 10, 10, 6, 2, 2, 4, 2, 3, 2], (4, 1 - 2.5 / 8)),
        ([0] * 10 + [100] * 10, None),
        ([100] * 20, None),
    ],
)
def test_step_is_where_both_sides_scatter_least(
    values: list[float], step: tuple[int, float] | None, scale: float
) -> None:
    scaled = [scale * value for value in values]
    assert is_step(step_down(scaled), step) and is_step(lasting_step(of_courses([scaled] * 3)), step)


@pytest.mark.parametrize(("scatter", "found"), [(702.0, True), (738.0, False)])
def test_step_exceeds_five_standard_errors(scatter: float, found: bool) -> None:
    """From 100 to 60 after three of eight: 5 x sqrt(scatter / 6 x (1/3 + 1/5)) is 40 at a scatter of 720."""
    a, b = math.sqrt(scatter / 2 / 6), math.sqrt(scatter / 2 / 4)
    step = step_down([100 + a, 100 - 2 * a, 100 + a, 60 + b, 60 - b, 60.0, 60 - b, 60 + b])
    assert is_step(step, (3, 0.4) if found else None)


@pytest.mark.parametrize(("last", "found"), [(80.0, True), (86.0, False)])
def test_every_repeat_has_half_of_lasting_step(last: float, found: bool) -> None:
    """A fall of 14% is less than half of the mean course's 31%, and more than a third."""
    two = [100.0] * 10 + [60.0] * 10
    assert (lasting_step(of_courses([two, two, [100.0] * 10 + [last] * 10])) is not None) == found
    assert lasting_step(of_courses([two, two, [0.0] * 20])) is None


# --- a step in each repeat, at different moments


WAVE = (0, 2, 3, 1, -1, -3, -2, 0)
PLACES = (8, 16, 24)


def steps_under_waves(noise: float, scale: float) -> list[list[float]]:
    """Repeats that fall by a fifth, under a slow wave."""
    return [
        [scale * (1 - 0.2 * (at >= place) + noise * WAVE[(at + 3 * place // 8) % 8]) for at in range(32)]
        for place in PLACES
    ]


def p_value_of(repeats: Courses) -> float:
    """Student's t of each step with the pooled scatter, times the 32 places, combined by Fisher's method."""
    parts = [part for values, at in zip(repeats, PLACES, strict=True) for part in (values[:at], values[at:])]
    freedom, again = 3 * (32 - 2), persistence(parts)
    variance = sum((value - mean(part)) ** 2 for part in parts for value in part) / freedom
    logs = 0.0
    for values, at in zip(repeats, PLACES, strict=True):
        error = math.sqrt(variance * (1 / at + 1 / (32 - at)) * (1 + again) / (1 - again))
        logs += math.log(32 * stdtr(freedom, -(mean(values[:at]) - mean(values[at:])) / error))
    return float(chdtrc(2 * 3, -2 * logs))


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize(("noise", "found"), [(0.0217, True), (0.02175, False)])
def test_steps_in_all_repeats_exceed_one_in_a_million(noise: float, found: bool, scale: float) -> None:
    repeats = steps_under_waves(noise, scale)
    assert (9e-7 < p_value_of(repeats) < 1e-6) if found else (1e-6 < p_value_of(repeats) < 1.1e-6)
    assert is_step(step_in_each(of_courses(repeats)), ([*PLACES], 0.2) if found else None)


@pytest.mark.parametrize(
    ("courses", "step"),
    [
        # Falls of 30%, 30% and 14% have a mean of 24.7%; with 11% one is below half of the mean.
        ([(5, 0.3), (12, 0.3), (8, 0.14)], ([5, 12, 8], 0.74 / 3)),
        ([(5, 0.3), (12, 0.3), (8, 0.11)], None),
        # Of falls of 1 and 1/2 the mean is 3/4; two samples at the end are no side of a step.
        ([(17, 1.0), (10, 0.5)], ([17, 10], 3 / 4)),
        ([(18, 1.0), (10, 0.5)], ([17, 10], 7 / 12)),
        ([(10, 0.0), (12, 0.0)], None),
        ([(10, -0.2), (12, -0.2)], None),
        ([(10, 0.5)], None),
    ],
)
def test_every_repeat_has_half_of_mean_fall(
    courses: list[tuple[int, float]], step: tuple[list[int], float] | None
) -> None:
    values = [[100.0] * at + [100.0 * (1 - drop)] * (20 - at) for at, drop in courses]
    assert is_step(step_in_each(of_courses(values)), step)
    two = [[100.0] * 5 + [70.0] * 15, [100.0] * 12 + [70.0] * 8]
    assert step_in_each(of_courses([*two, [0.0] * 3 + [10.0] * 17])) is None, "a rise from nothing is no fall"


# --- drifts and swings


@pytest.mark.parametrize(("noise", "named"), [(0.042, True), (0.043, False)])
@pytest.mark.parametrize(("moves", "word"), [(-0.3, "fell"), (0.3, "rose")])
def test_drift_exceeds_five_standard_errors(moves: float, word: str, noise: float, named: bool) -> None:
    """The error is sqrt(12 x 8 x noise^2 / 6 / 8), and 5 of it are 0.3 at 0.0424; seven samples show no drift."""
    values = [1 + moves * (at / 7 - 0.5) + noise * sign for at, sign in enumerate(NO_SLOPE)]
    assert (unsteady(values) == f"throughput {word} by 30% from start to end") == named
    assert unsteady([1 + moves * (at / 6 - 0.5) for at in range(7)]) is None


@pytest.mark.parametrize(("noise", "named"), [(2.7, True), (2.9, False)])
def test_swing_exceeds_eight_standard_errors(noise: float, named: bool) -> None:
    """Of 40 in the middle fifth: the 19 squared steps sum to 76 noise^2 + 2 x 40^2; 8 errors are 40 at 2.81."""
    values = [100 + 40 * (8 <= at < 12) + noise * (-1) ** at for at in range(20)]
    assert unsteady(values) == ("the fifths of the run differ by 37% of the mean" if named else None)


@pytest.mark.parametrize(("height", "named"), [(20.0, False), (22.0, True)])
def test_swing_exceeds_fifth_of_mean(height: float, named: bool) -> None:
    """A middle fifth that is 20 or 22 above 100 differs by 19.2% or 21.1% of the mean."""
    assert (unsteady([100 + height * (8 <= at < 12) for at in range(20)]) is not None) == named


@pytest.mark.parametrize(("apart", "named"), [(1.31, True), (1.33, False)])
def test_repeats_share_half_of_drift(apart: float, named: bool) -> None:
    """Opposite waves on one line correlate by (1 - r) / (1 + r), r the ratio of their squares: 0.507 and 0.496."""
    courses = [[1e6 * (20 + at - 3.5 + way * apart * sign) for at, sign in enumerate(NO_SLOPE)] for way in (1, -1)]
    ratio = 8 * apart**2 / 42
    assert alike(courses) == pytest.approx([(1 - ratio) / (1 + ratio)] * 2)
    assert (not_steady(case_of(run_of(of_courses(courses)).experiments[0])) is not None) == named


def test_correlation_is_pearsons_in_any_unit() -> None:
    assert alike([[0.01, 0.02, 0.03], [0.03, 0.02, 0.01]]) == pytest.approx([-1.0, -1.0])
    assert alike([[5.0, 5.0, 5.0], [1.0, 2.0, 3.0]]) == [1.0, 1.0], "a level repeat differs from none"
    assert alike([[4.0, 1.0, 9.0]]) == pytest.approx([1.0])


@pytest.mark.parametrize("count", [8, 9, 25])
def test_scatter_about_line_is_least_squares(count: int) -> None:
    values = list(10 + 0.3 * np.arange(count) + np.random.default_rng(2).standard_normal(count))
    residuals = np.polyfit(np.arange(count), values, 1, full=True)[1]
    assert _about_line(values) == pytest.approx(float(residuals[0]))


def test_known_course_is_judged_by_itself() -> None:
    """The spread of samples counts only where their course is unknown."""
    steady = replace(course([SPEED] * 3), cv=0.5)
    assert not_steady(case_of_base(samples=steady)) is None
    spread = not_steady(case_of_base(samples=of_spread(0.3).samples))
    assert spread is not None and "--ramp-time 10 " in spread.advice and "--runtime 60" in spread.advice


# --- stalls


@pytest.mark.parametrize("scale", [1e6, 1e-3])
def test_stalls_are_named_in_any_unit(scale: float) -> None:
    assert stalls(case_of(run_of(standing_still(10, of=200, scale=scale)).experiments[0])) is not None


@pytest.mark.parametrize(
    ("rule", "resource", "about_run"),
    [
        ("stalls", "memory", True),
        ("stalls", "compute", True),
        ("stalls", "storage", False),
        ("stalls", "", False),
        ("cache_hidden", "memory", False),
    ],
)
def test_stalls_of_processors_are_about_the_run(rule: str, resource: str, about_run: bool) -> None:
    """A scheduler takes a processor away; a disk stalls by itself."""
    assert about_this_run(Finding(rule, "warning", resource, "", {}, "")) == about_run


# --- between repeats


@pytest.mark.parametrize(
    ("values", "fall"),
    [
        ([1.0, 0.9, 0.9], (1, 0.1)),
        ([1.0, 1.0, 0.8, 0.8], (2, 0.2)),
        ([1.0, 0.86, 0.94], (1, 0.1)),  # The levels are 6% apart, and the fall is 10%.
        ([1.0, 0.84, 0.96], None),  # The levels are 4% apart.
        ([1.0, 0.9], None),  # A single low repeat may be chance.
        ([1.0, 1.0, 0.9], None),
        ([1.0, 0.9, 1.0], None),
        ([0.9, 1.0, 1.0], None),
        ([0.0, 0.0, 0.0], None),
    ],
)
def test_fall_between_repeats_stays(values: list[float], fall: tuple[int, float] | None) -> None:
    assert is_step(lasting_fall(values), fall)


@pytest.mark.parametrize(
    ("values", "p_value", "says"),
    [
        (
            (1e8, 5e7, 5e7),
            0.99e-3,
            "Throughput fell by 50% after repeat 1 of 3 and stayed there (randread 4 KiB, iodepth=8: 100 → 50 MB/s).",
        ),
        ((1e8, 5e7, 5e7), 1.01e-3, ""),
        ((5e7, 1e8, 5e7), 0.99e-4, "3 repeats disagree by 50%: "),
        ((5e7, 1e8, 5e7), 1.01e-4, ""),
    ],
)
def test_repeats_disagree_beyond_chance(
    monkeypatch: pytest.MonkeyPatch, values: tuple[float, ...], p_value: float, says: str
) -> None:
    monkeypatch.setattr(of_repeats, "disagreement", lambda _: Disagreement(p_value, 0.5))
    found = repeats_disagree(case_of_base(repeat_values=values))
    assert (found is not None) == bool(says)
    if found is not None:
        assert found.says.startswith(says)
        assert found.evidence["fell_after"] == (1 if says.startswith("Throughput fell") else None)


def test_two_levels_are_printed_as_noted() -> None:
    text = "two levels were seen, 1.0 and 2.0 GB/s"
    found = explain(run_of(base(notes=(Note("two_modes", text),)))).findings
    (finding,) = [finding for finding in found if finding.points]
    assert (finding.rule, finding.severity, finding.evidence) == ("two_modes", "info", {"note": text})
    assert finding.says.startswith("Two levels were seen, 1.0 and 2.0 GB/s (")
