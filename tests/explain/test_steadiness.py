"""Throughput within repeats and from one repeat to the next: steps, drifts, swings, stalls, repeats that disagree."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.analysis.samples import Disagreement
from hwdyno.explain.findings import about_this_run, explain
from hwdyno.explain.findings import repeats as of_repeats
from hwdyno.explain.findings.repeats import lasting_fall, repeats_disagree
from hwdyno.explain.findings.rule import Case
from hwdyno.explain.findings.steadiness import alike, lasting_step, step_down, step_in_each, unsteady
from hwdyno.model.point_details import Note, Samples
from hwdyno.model.words import Finding, Measurement
from made_point import BLOCK, RATE, base, case_of_base, course, found_in, make_run

SPEED = RATE * BLOCK
NO_SLOPE = (1, -1, -1, 1, 1, -1, -1, 1)
"""A pattern whose least-squares line is level."""


def of_courses(courses: Sequence[Sequence[float]], **changes: Any) -> Measurement:
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
    return of_courses(
        [flicker([level] * 20) for level in levels], repeat_values=tuple(SPEED * level for level in levels)
    )


def standing_still(still: int, of: int = 60, slow: int = 0, level: float = 1.0, left: float = 0.0) -> Measurement:
    """Samples that stall, with what is left then, and samples at a level below the others."""
    values = [SPEED] * of
    values[10 : 10 + still] = [SPEED * left] * still
    values[30 : 30 + slow] = [SPEED * level] * slow
    return of_courses([values])


def of_interval(point: Measurement, interval_s: float) -> Measurement:
    assert point.samples is not None
    return replace(point, samples=replace(point.samples, interval_s=interval_s))


Change = Callable[[float], Measurement]
# Rule, what changes, a number just below and one just above, and its severity above.
THRESHOLDS: list[tuple[str, Change, float, float, str]] = [
    ("throttled", lambda drop: stepping([10], drop), 0.095, 0.105, "warning"),
    ("throttled", lambda drop: stepping([5, 10, 15], drop), 0.075, 0.085, "warning"),
    ("throttled", lambda place: stepping([round(place)], 0.4), 16, 15, "warning"),
    ("not_steady", drifting, 0.095, 0.105, "warning"),
    ("not_steady", drifting, -0.095, -0.105, "warning"),
    ("not_steady", lambda cv: base(samples=Samples(1e7, 2e7, 4e7, 1.0, cv)), 0.2, 0.21, "warning"),
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


@pytest.mark.parametrize(("rule", "change", "below", "above", "severity"), THRESHOLDS)
def test_course_is_named_above_its_limit(rule: str, change: Change, below: float, above: float, severity: str) -> None:
    run = explain(make_run(change(above)))
    assert found_in(run)[rule] == severity and not {"throttled", "not_steady"} <= found_in(run).keys()
    assert (rule in run.experiments[0].points[0].why) == (rule in {"throttled", "not_steady"})
    assert found_in(make_run(change(below))).get(rule) != severity


@pytest.mark.parametrize(("point", "says"), [
    (stepping([10], 0.4), "Throughput fell by 40% after 0.5 s and stayed there (randread 4 KiB, iodepth=8: 41 → 25"),
    (stepping([4, 10, 16], 0.4), "Throughput fell by 40% in each of 3 repeats, after 0.2 to 0.8 s (randread 4 KiB, "),
    (standing_still(6), "Throughput stalls (randread 4 KiB, iodepth=8): 10% of the samples of 50.0 ms are below 10%"),
])  # fmt: skip
def test_step_or_stall_is_printed(point: Measurement, says: str) -> None:
    assert any(finding.says.startswith(says) for finding in explain(make_run(point)).findings)


Step = tuple[Any, float] | None


def is_step(found: Step, expected: Step) -> bool:
    if found is None or expected is None:
        return found is expected
    return bool(found[0] == expected[0]) and found[1] == pytest.approx(expected[1])


@pytest.mark.parametrize("scale", [1.0, 1e-12])
@pytest.mark.parametrize(("values", "step"), [
    ([100] * 10 + [50] * 10, (10, 0.5)), ([100] * 20, None), ([0] * 10 + [100] * 10, None),
    # Seven samples show no course.
    ([100] * 4 + [50] * 4, (4, 0.5)), ([100] * 4 + [50] * 3, None),
    # A tenth of forty samples is four: the fourth is at the lower level already.
    ([100] * 3 + [50] * 37, (4, 1 - 50 / 87.5)), ([6, 10, 10, 6, 2, 2, 4, 2, 3, 2], (4, 1 - 2.5 / 8)),
    # At least three samples on each side: two may be hiccups.
    ([100] * 17 + [0] * 3, (17, 1.0)), ([100] * 18 + [0] * 2, None), ([100] * 28 + [0] * 2, (27, 2 / 3)),
])  # fmt: skip
def test_step_has_least_scatter(values: list[float], step: Step, scale: float) -> None:
    scaled = [scale * value for value in values]
    assert is_step(step_down(scaled), step) and is_step(lasting_step(of_courses([scaled] * 3)), step)


@pytest.mark.parametrize(("scatter", "step"), [(702.0, (3, 0.4)), (738.0, None)])
def test_step_exceeds_five_standard_errors(scatter: float, step: Step) -> None:
    """A step from 100 to 60 after three of eight: 5 x sqrt(scatter / 6 x (1/3 + 1/5)) is 40 at a scatter of 720."""
    a, b = math.sqrt(scatter / 2 / 6), math.sqrt(scatter / 2 / 4)
    assert is_step(step_down([100 + a, 100 - 2 * a, 100 + a, 60 + b, 60 - b, 60.0, 60 - b, 60 + b]), step)


def falling(*falls: tuple[int, float]) -> Measurement:
    """Repeats of twenty samples that fall by a share at a place."""
    return of_courses([[100.0] * at + [100.0 * (1 - drop)] * (20 - at) for at, drop in falls])


def test_every_repeat_has_half_the_step() -> None:
    """A fall of 14% is less than half of the mean course's 31%, and more than a third."""
    assert lasting_step(falling((10, 0.4), (10, 0.4), (10, 0.2))) is not None
    assert lasting_step(falling((10, 0.4), (10, 0.4), (10, 0.14))) is None
    assert lasting_step(of_courses([[100.0] * 10 + [60.0] * 10] * 2 + [[0.0] * 20])) is None


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize(("noise", "step"), [(0.0217, ([8, 16, 24], 0.2)), (0.02175, None)])
def test_steps_in_all_repeats_exceed_one_in_a_million(noise: float, step: Step, scale: float) -> None:
    """Repeats that fall by a fifth under a slow wave: by Student's t and Fisher's method, p is 0.96e-6 and 1.05e-6."""
    wave = (0, 2, 3, 1, -1, -3, -2, 0)
    waves = [(at, [noise * wave[(k + 3 * at // 8) % 8] for k in range(32)]) for at in (8, 16, 24)]
    courses = [[scale * (1 - 0.2 * (k >= at) + extra) for k, extra in enumerate(extras)] for at, extras in waves]
    assert is_step(step_in_each(of_courses(courses)), step)


@pytest.mark.parametrize(("point", "step"), [
    # Falls of 30%, 30% and 14% have a mean of 24.7%; with 11% one is below half of the mean.
    (falling((5, 0.3), (12, 0.3), (8, 0.14)), ([5, 12, 8], 0.74 / 3)), (falling((5, 0.3), (12, 0.3), (8, 0.11)), None),
    # Of falls of 1 and 1/2 the mean is 3/4; two samples at the end are no side of a step.
    (falling((17, 1.0), (10, 0.5)), ([17, 10], 3 / 4)), (falling((18, 1.0), (10, 0.5)), ([17, 10], 7 / 12)),
    (falling((10, 0.0), (12, 0.0)), None), (falling((10, -0.2), (12, -0.2)), None), (falling((10, 0.5)), None),
    # A rise from nothing is no fall.
    (of_courses([[100.0] * 5 + [70.0] * 15, [100.0] * 12 + [70.0] * 8, [0.0] * 3 + [10.0] * 17]), None),
])  # fmt: skip
def test_every_repeat_has_half_the_fall(point: Measurement, step: Step) -> None:
    assert is_step(step_in_each(point), step)


def line(moves: float, noise: float = 0.0, count: int = 8) -> list[float]:
    pattern = zip(range(count), NO_SLOPE, strict=False)
    return [1 + moves * (at / (count - 1) - 0.5) + noise * sign for at, sign in pattern]


def bump(height: float, noise: float = 0.0) -> list[float]:
    return [100 + height * (8 <= at < 12) + noise * (-1) ** at for at in range(20)]


@pytest.mark.parametrize(("values", "words"), [
    # The error of a drift is sqrt(12 x 8 x noise^2 / 6 / 8), and 5 of it are 0.3 at 0.0424; seven samples show none.
    (line(-0.3, 0.042), "throughput fell by 30% from start to end"), (line(-0.3, 0.043), None),
    (line(0.3, 0.042), "throughput rose by 30% from start to end"), (line(0.3, 0.043), None),
    # Of 40 in the middle fifth the 19 squared steps sum to 76 noise^2 + 2 x 40^2; 8 errors are 40 at 2.81.
    (bump(40, 2.7), "the fifths of the run differ by 37% of the mean"), (bump(40, 2.9), None),
    # 20 and 22 above 100 are 19.2% and 21.1% of the mean.
    (bump(22), "the fifths of the run differ by 21% of the mean"), (bump(20), None), (line(0.3, count=7), None),
])  # fmt: skip
def test_unsteady_course_exceeds_its_noise(values: list[float], words: str | None) -> None:
    assert unsteady(values) == words


@pytest.mark.parametrize(("apart", "named"), [(1.31, True), (1.33, False)])
def test_repeats_share_half_of_drift(apart: float, named: bool) -> None:
    """Opposite waves on one line correlate by (1 - r) / (1 + r), r the ratio of their squares: 0.507 and 0.496."""
    courses = [[1e6 * (20 + at - 3.5 + way * apart * sign) for at, sign in enumerate(NO_SLOPE)] for way in (1, -1)]
    ratio = 8 * apart**2 / 42
    assert alike(courses) == pytest.approx([(1 - ratio) / (1 + ratio)] * 2)
    assert ("not_steady" in found_in(make_run(of_courses(courses)))) == named


def test_single_level_or_repeat_shows_nothing() -> None:
    assert alike([[0.01, 0.02, 0.03], [0.03, 0.02, 0.01]]) == pytest.approx([-1.0, -1.0])
    assert alike([[5.0, 5.0, 5.0], [1.0, 2.0, 3.0]]) == [1.0, 1.0] and alike([[4.0, 1.0]]) == pytest.approx([1.0])


def test_known_course_is_judged_by_itself() -> None:
    """The spread of samples counts only where their course is unknown."""
    for samples in (replace(course([SPEED] * 3), cv=0.5), Samples(1e7, 2e7, 4e7, 1.0, None)):
        assert not found_in(make_run(base(samples=samples)))


def test_stalls_of_processors_are_about_run() -> None:
    """A scheduler takes a processor away; a disk stalls by itself."""
    for resource, about_run in (("memory", True), ("compute", True), ("storage", False), ("", False)):
        assert about_this_run(Finding("stalls", "warning", resource, "", {}, "")) == about_run
    assert not about_this_run(Finding("cache_hidden", "warning", "memory", "", {}, ""))


@pytest.mark.parametrize(("values", "fall"), [
    ([1.0, 0.9, 0.9], (1, 0.1)), ([1.0, 1.0, 0.8, 0.8], (2, 0.2)),
    ([1.0, 0.86, 0.94], (1, 0.1)),  # The levels are 6% apart, and the fall is 10%.
    ([1.0, 0.84, 0.96], None),  # The levels are 4% apart.
    ([1.0, 0.9], None), ([1.0, 1.0, 0.9], None),  # A single low repeat may be chance.
    ([1.0, 0.9, 1.0], None), ([0.9, 1.0, 1.0], None), ([0.0, 0.0, 0.0], None),
])  # fmt: skip
def test_fall_between_repeats_stays(values: list[float], fall: Step) -> None:
    assert is_step(lasting_fall(values), fall)


FALLING = (*(1e8,) * 7, *(5e7,) * 7)


@pytest.mark.parametrize(("values", "p_value", "says"), [
    (FALLING, 0.99e-3, "Throughput fell by 50% after repeat 7 of 14 and stayed there (randread 4 KiB, iodepth"),
    # Of 12, one order in 924 / 10 is so.
    (FALLING[1:13], 0.99e-4, "3 repeats disagree by 50%: "),
    ((1e8, 5e7, 5e7), 0.99e-4, "3 repeats disagree by 50%: "),
    ((5e7, 1e8, 5e7), 0.99e-4, "3 repeats disagree by 50%: "),
    (FALLING, 1.01e-3, ""), ((5e7, 1e8, 5e7), 1.01e-4, ""),
])  # fmt: skip
def test_repeats_disagree_beyond_chance(monkeypatch: Any, values: Any, p_value: float, says: str) -> None:
    monkeypatch.setattr(of_repeats, "disagreement", lambda _: Disagreement(p_value, 0.5))
    found = repeats_disagree(case_of_base(repeat_values=values))
    assert (found is not None) == bool(says)
    assert found is None or found.says.startswith(says)
    assert found is None or found.evidence["fell_after"] == (7 if "fell" in says else None)


def test_repeats_in_any_order_are_no_fall_in_one_sweep_of_a_hundred(monkeypatch: Any) -> None:
    """Each repeat has a different level, in random order: of such sweeps 20 to 80% had a point that had "fallen"."""
    monkeypatch.setattr(of_repeats, "disagreement", lambda _: Disagreement(1e-9, 0.5))
    draw, fallen, sweeps = random.Random(11), 0, sample(100, 300)
    for _ in range(sweeps):
        count = draw.randint(3, 15)
        levels = [tuple(draw.choice((1e8, 7e7)) * draw.gauss(1, 0.01) for _ in range(count)) for _ in range(20)]
        result = replace(
            make_run(base()).experiments[0], points=tuple(base(repeat_values=repeats) for repeats in levels)
        )
        run = replace(make_run(base()), experiments=(result,))
        found = [repeats_disagree(Case(run, result, at)) for at in range(len(levels))]
        fallen += any(verdict is not None and verdict.says.startswith("Throughput fell") for verdict in found)
    assert fallen <= 0.01 * sweeps


def test_two_levels_are_printed_as_noted() -> None:
    text = "two levels were seen, 1.0 and 2.0 GB/s"
    found = explain(make_run(base(notes=(Note("two_modes", text),)))).findings
    (finding,) = [finding for finding in found if finding.points]
    assert (finding.rule, finding.severity, finding.evidence) == ("two_modes", "info", {"note": text})
    assert finding.says.startswith("Two levels were seen, 1.0 and 2.0 GB/s (")
