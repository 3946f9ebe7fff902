"""Operating points of a curve: the state that is judged, and the best load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.curves.curve_fit import _read_off
from hwdyno.analysis.curves.knee_model import Knee
from hwdyno.analysis.curves.operating_points import find_best, judge_state
from hwdyno.analysis.curves.scalability import Interval, Scalability
from hwdyno.analysis.curves.series import Series
from hwdyno.model.words import Axis, Curve
from made_curves import series

SATURATED = "saturated at the first point"


def knee(crossing: float = 1e-9, top: float = 1000.0, **changes: Any) -> Knee:
    """X(N) = Xm N / (N + N*): level where N* is next to nothing."""
    p = Interval(1.0)
    made = Knee(Interval(top), Interval(crossing), p=p, top=top, r1=crossing / top, gain=Interval(2.0))
    return replace(made, **changes)


@pytest.mark.parametrize(("peak_load", "a", "top", "ceiling", "state"), [
    *((None, 0.0, (400, 360, 440), [400, 360, 440], "still rising"), (8, 0.0, (400,), [800, None, None], "knee")),
    *((8, 0.0, (400, 300, 600), [800, 600, 1200], "knee"), (8, 0.0, (900, 800, 950), [900, 800, 950], "knee")),
    (12, 0.0, (400, 360, 440), [1174, 1057, 1291], "knee"),
    (16, 0.0, (400, 360, 440), [400, 360, 440], "still rising"),
    (8, 1.0, (400, 360, 440), [400, 360, 440], "still rising"),
    # A ceiling that still rises is given within a quarter on each side.
    *((None, 0.0, (400, 304, 496), [400, 304, 496], "still rising"), (16, 0.0, (400, 360, 500), None, None)),
    *((16, 0.0, (400, 300, 440), None, None), (16, 0.0, (400, None, 440), None, None)),
    *((16, 0.0, (400, 360, None), None, None), (16, 0.0, (0.4, 0.3, 0.44), None, None)),
])  # fmt: skip
def test_a_passed_peak_is_the_ceiling(peak_load: int | None, a: float, top: Any, ceiling: Any, state: str) -> None:
    """The law 187.5 N / (1 + N (N - 1) / peak^2): 800 at a peak of 8."""
    law = Scalability(Interval(187.5), Interval(a), None if peak_load is None else Interval(peak_load**-2))
    plain, loads = Curve({}, "threads", tuple(range(5)), "bytes/s", "none"), (1, 2, 4, 8, 16)
    found = _read_off(plain, series(loads, (100, 200, 300, 350, 400)), knee(8.0, ceiling=Interval(*top)), law)
    value = found.ceiling
    assert (value and [edge and round(edge) for edge in (value.value, value.low, value.high)]) == ceiling
    assert found.state == (state or "still rising")
    assert _read_off(plain, series(loads, (100,) * 5, (50,) * 5), knee(), law).state == "flat", "a peak that passed"


@pytest.mark.parametrize(("points", "fitted", "state"), [
    # The fit gains N* / (N + N*) over the last doubling, with N = 94: 5.2% or 4.8%; the points gain 6% or 1%. Where the
    # points do not show what the fit has, it is a knee if the fit knows its ceiling, and else unknown.
    *((series((1, 47, 94), (80, before, 100)), knee(94 * gain / (100 - gain), ceiling=Interval(*top)), state)
      for gain, before, top, state in (
        (5.2, 94, (1000,), "still rising"), (4.8, 94, (1000,), "knee"), (5.2, 99, (1000,), "unknown"),
        (5.2, 99, (1000, 900, 1100), "knee"), (5.2, 99, (1000, 700, 1100), "unknown"))),
    # The first point has 95% of the ceiling, or a rise within its own error.
    *((series((1, 47, 94), (100, 80, 100)), knee(gain=Interval(*gain)), state)
      for gain, state in (((1.06,), "knee"), ((1.05,), SATURATED), ((2.0, 1.01), "knee"), ((2.0, 1.0), SATURATED))),
    # Level within 5%; flat where three times the load leaves the latency within 1.5 times.
    *((series((8, most), (100, last), latencies), knee(), state) for most, last, latencies, state in (
        (24.0, 105.2, (100, 149), "flat"), (24.0, 105.3, (100, 149), "knee"), (24.0, 100, (149, 100), "flat"),
        (24.0, 100, (100, 151), SATURATED), (23.9, 100, (1, 1), SATURATED), (24.0, 100, (None, 149), SATURATED))),
    # The model gains 6% over the last doubling; points by delay from half of it on up to 5%, or more.
    *((series((0.25, 0.5, 1.0), amounts, axis=Axis("x", "cycles", role)), knee(6 / 94), state)
      for role, amounts, state in (
        ("delay", (60, 100, 104.7), "knee"), ("delay", (60, 100, 105.3), "still rising"),
        ("delay", (100, 60, 104.7), "still rising"), ("concurrency", (60, 100, 104.7), "unknown"))),
])  # fmt: skip
def test_knee_needs_rise_that_ended(points: Series, fitted: Knee, state: str) -> None:
    assert judge_state(points, fitted) == state


@pytest.mark.parametrize(("tails", "load"), [
    ((None, 1999, 1000), 2), ((None, 2000, 1000), 4), ((None, None, 1000), 2), ((None, None, 0.4), 2),
    ((None, 2000, None), 2),
])  # fmt: skip
def test_the_best_load_weighs_p99(tails: tuple[float | None, ...], load: int) -> None:
    """The least load with 90% of the ceiling, unless a greater one has half its p99."""
    best, *reached = find_best(series((1, 2, 4), (50.0, 90.0, 95.0), tails=tails), knee(top=100), "knee", 100.0)
    assert best.load == load and reached == [2, 4]


@pytest.mark.parametrize(("loads", "latencies", "tails", "end"), [
    ((1, 2, 4, 8), (10, 20, 40, 80), None, " at 2 times its latency; 25% of the latency at 8"),
    ((1, 2, 4, 8), (10, 20, 40, None), None, " at 2 times its latency"),
    ((1, 2, 4, 8), (None, 20, 40, 80), None, "; 25% of the latency at 8"),
    ((1, 2, 4, 8), None, (100, 200, 200, 200), "; 1 has 54% of its throughput at 50% of its p99"),
    # The trade is with a smaller load.
    ((1, 8, 8, 16), None, (100, 250, 100, 100), "; 1 has 52% of its throughput at 100% of its p99"),
])  # fmt: skip
def test_the_best_load_is_beside_others(loads: Any, latencies: Any, tails: Any, end: str) -> None:
    points = series(loads, (50.0, 92.0, 96.0, 100.0), latencies, tails)
    note = find_best(points, knee(top=100), "knee", 100.0)[0].note
    assert note.endswith(f" of the ceiling; 1.84 times 1's throughput{end}"), note
