"""Curves, capacities and intervals hold as often as they claim, on simulators that share no code with them.

Each limit is a share that must hold, less what chance takes from a sample of this size: a right product fails such a
test once in a thousand seeds. docs/dev/calibration.md has the whole tables.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from calibration import curves, machines, rates, repeats
from here import at_least, at_most, sample, shortly
from hwdyno.analysis.curves.open_loop import LatencySpread, OpenLoop, fit_open_loop, next_rate
from hwdyno.analysis.samples import disagreement, two_modes
from hwdyno.model.units import format_load
from hwdyno.model.words import Measurement, Value

MACHINES = sample(8, 40)

KNEES = (
    "one queue",
    "queue behind a delay",
    "dies at random",
    "dies behind a controller",
    "failing servers",
    "rolls over",
    "shared noise",
    "quiet",
    "odd load",
)


@pytest.mark.parametrize("family", KNEES)
def test_knee_and_its_ceiling_are_covered(family: str) -> None:
    found = curves.score(family, MACHINES, seed=1)
    assert at_least(found.right_state, MACHINES, 0.99)
    assert at_least(found.knee_covered, MACHINES, 0.93 if family != "dies behind a controller" else 0.9)
    assert at_least(found.ceiling_covered, MACHINES, 0.93)
    assert found.below_best == 0, "a ceiling lies below a measured point"
    assert abs(found.bias) < 0.05
    if family == "odd load":
        assert at_least(found.named["off_the_curve"], MACHINES, 0.93)
    elif family == "rolls over":
        assert at_least(found.rolled_named, found.rolled, 0.9)
    else:
        assert at_most(sum(found.named.values()), MACHINES, 0.01)


@pytest.mark.parametrize("family", KNEES)
def test_knee_and_best_load_agree(family: str) -> None:
    for number in range(sample(3, 12)):
        draw = np.random.default_rng((7, sum(family.encode()), number))
        curve, run = curves.read(machines.FAMILIES[family][0](draw), draw)
        if curve.state != "knee":
            continue
        assert curve.knee is not None and curve.load_90 is not None and curve.load_95 is not None
        assert curve.best is not None and curve.ceiling is not None
        assert curve.knee.load <= curve.load_90 <= curve.load_95
        points = {point.parameters["iodepth"]: point for point in run.experiments[0].points}
        assert curve.best.measured and curve.best.load in points, "the best load is one that was measured"
        odd = curve.parameters.get("odd_load")
        amounts = {load: point.throughput.value for load, point in points.items() if odd is None or load != odd.value}
        most = curve.ceiling.value if max(amounts.values()) >= 0.9 * curve.ceiling.value else max(amounts.values())
        enough = sorted(int(str(load)) for load, amount in amounts.items() if amount >= 0.9 * most)
        assert curve.best.load in enough
        if most == curve.ceiling.value:
            assert curve.load_90 <= enough[0] + 1e-9 <= curve.best.load + 1e-9

        def tail(load: float, points: dict[Any, Measurement] = points) -> float:
            latency = points[load].latency_ns
            assert latency is not None
            return latency.p99

        lower = [load for load in enough if load < curve.best.load]
        assert all(tail(load) >= 2 * min(map(tail, enough)) for load in lower), "a smaller load is as good"
        sentence = next(finding.says for finding in run.findings if finding.rule == "knee")
        (at,) = re.findall(r"Knee: (?:between )?iodepth ([\d.]+)", sentence)
        assert float(at) <= float(format_load(curve.load_90)), "the knee lies after the 90% load"


@pytest.mark.parametrize("family", ["rising", "saturated", "flat"])
def test_what_has_no_knee_is_not_read_as_one(family: str) -> None:
    found = curves.score(family, MACHINES, seed=1)
    assert at_most(found.knees, MACHINES, 0.02)
    assert at_most(sum(found.named.values()), MACHINES, 0.01)


@pytest.mark.parametrize("service", shortly(1, *rates.SERVICES))
def test_capacity_is_right_or_left_open(service: str) -> None:
    found = rates.score(service, 0.9, sample(4, 12), seed=1)
    assert at_least(found.within, found.loops - found.open, 0.9)
    assert found.open <= 1 and at_least(found.fits, found.loops, 0.95)
    some = rates.score(service, 0.7, sample(4, 10), seed=1)
    assert at_least(some.within, some.loops - some.open, 0.9) and at_least(some.fits, some.loops, 0.9)
    assert at_most(some.open, some.loops, 0.25), "the spread of latencies tells more than their means"
    assert at_least(some.within + some.settled, some.loops, 0.9), "with the rate that a run adds where it is open"


def test_an_open_capacity_is_settled_by_the_rate_that_is_advised() -> None:
    found = rates.score("bursty", 0.7, sample(4, 24), seed=2)
    assert found.open >= 1 and at_least(found.answered, found.open, 0.9)
    assert found.settled == found.answered


@pytest.mark.parametrize(
    ("served", "missed", "rate"),
    [(1000.0, None, 1250.0), (1000.0, 1251.0, 1250.0), (1000.0, 1250.0, 1118.03), (1000.0, 1100.0, 1048.81)],
)
def test_the_next_rate_lies_below_one_that_was_missed(served: float, missed: float | None, rate: float) -> None:
    assert next_rate(served, missed) == pytest.approx(rate, rel=1e-4)


def test_variability_is_found_again() -> None:
    shares = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    # One server with random arrivals and constant service: R = S (1 + r / 2 / (1 - r)) (Pollaczek 1930).
    found = fit_open_loop([1e4 * r for r in shares], [1e5 * (1 + r / 2 / (1 - r)) for r in shares])
    assert found is not None and not found.left_open
    assert found.servers == 1 and found.variability == pytest.approx(0.5, rel=0.05)
    assert found.capacity_s == pytest.approx(1e4, rel=0.01)


@pytest.mark.parametrize("shares", [(0.1, 0.3, 0.5, 0.6, 0.7), (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)])
def test_even_arrivals_wait_for_less(shares: tuple[float, ...]) -> None:
    """D/M/1: R = S / (1 - z) with z = exp(-(1 - z) / r), and exponential latencies (Kleinrock, 1975, section 6.4)."""

    def latency(share: float) -> float:
        z = 0.5
        for _ in range(500):
            z = math.exp(-(1 - z) / share)
        return 1e5 / (1 - z)

    spreads = [LatencySpread(1.0, 0.02)] * len(shares)
    found = fit_open_loop([1e4 * r for r in shares], [latency(r) for r in shares], 0.0, spreads)
    assert found is not None and found.servers == 1 and not found.left_open
    assert found.capacity_s == pytest.approx(1e4, rel=0.01)
    assert found.latency_ns(9e3) == pytest.approx(latency(0.9), rel=0.01), "what it predicts is even arrivals' too"
    again = OpenLoop.from_parameters({"S": Value(found.service_ns, "ns"), "m": Value(1.0, "servers"),
                         "v": Value(found.variability, "1"), "a": Value(0.0, "1")})  # fmt: skip
    assert again.latency_ns(9e3) == pytest.approx(found.latency_ns(9e3))


@pytest.mark.parametrize(
    ("arrivals", "ratio", "left_open"),
    [(1.0, 1.49, False), (1.0, 1.51, True), (0.0, 1.20, False), (0.0, 1.22, True), (None, 1.49, False)],
)
def test_even_arrivals_leave_less_capacity_room(arrivals: float | None, ratio: float, left_open: bool) -> None:
    assert OpenLoop(1e5, 1, 0.0, 1.0, arrivals, 1e4, ratio * 1e4).left_open == left_open


@pytest.mark.parametrize("service", shortly(1, "exponential", "bursty"))
def test_a_capacity_of_even_arrivals_is_right_or_left_open(service: str) -> None:
    found = rates.score(service, 0.7, sample(4, 8), random_arrivals=False, seed=1)
    assert at_least(found.within, found.loops - found.open, 0.9)


@pytest.mark.parametrize(
    ("process", "share"),
    [
        ("normal", 0.93),
        ("lognormal", 0.93),
        ("two modes, within a reading", 0.90),
        ("two modes, about a reading", 0.90),
        ("two modes, one a repeat", 0.93),
        ("AR(1) 0.7 by sample", 0.93),
        ("AR(1) 0.7 by repeat", 0.92),
        ("heavy stalls", 0.90),
    ],
)
@pytest.mark.parametrize("profile", shortly(1, "quick", "standard"))
def test_an_interval_holds_the_mean(process: str, share: float, profile: str) -> None:
    experiments = sample(5, 20)
    found = repeats.score(process, profile, experiments * repeats.POINTS, seed=1)
    # All points of an experiment are covered, independent of what each has seen itself. They share what they show, so
    # that the experiments are what is independent.
    assert at_least(found.together // repeats.POINTS, experiments, 0.9)
    # No interval holds a mode that no sample shows: docs/dev/calibration.md says how often that is.
    assert at_least(found.shown_covered, found.shown, share)
    assert found.shown > 0.35 * found.trials
    # A point alone has as many repeats as show a rare level to nine of ten.
    assert at_least(found.covered, found.trials, 0.9)
    assert found.unremarked == 0
    if process == "normal":
        assert at_most(found.noted, found.trials, 0.01) and found.half < 0.055, "an interval is wide for nothing"


def test_two_modes_are_named_and_one_is_not() -> None:
    draw = np.random.default_rng(5)
    single = [list(1 + 0.1 * draw.standard_normal(20)) for _ in range(3)]
    assert two_modes(single) is None
    levels = [[1.0, 0.6, 1.0, 1.0, 0.6] * 4, [1.0] * 20]
    found = two_modes([[level * (1 + 0.02 * draw.standard_normal()) for level in repeat] for repeat in levels])
    assert found is not None
    assert (found.low, found.high, found.share) == pytest.approx((0.6, 1.0, 0.2), rel=0.02)
    assert two_modes(levels) is None, "two values are steps of a small count"


def test_repeats_that_disagree_are_found_and_clean_ones_are_not() -> None:
    draw = np.random.default_rng(6)

    def point(levels: list[float]) -> list[list[float]]:
        return [list(level * (1 + 0.05 * draw.standard_normal(20))) for level in levels]

    def p_value(levels: list[float]) -> float:
        found = disagreement(point(levels))
        assert found is not None
        return found.p_value if found.spread > 0.08 else 1.0

    assert min(p_value([1.0] * 3) for _ in range(400)) > 1e-4
    assert sum(p_value([1.0, 0.8, 0.8]) < 1e-4 for _ in range(100)) >= 99
    assert sum(p_value([1.0, 1.0, 0.6]) < 1e-4 for _ in range(100)) >= 99
