"""Curves against exact queueing models with 2% noise, and what is read off them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from here import sample
from hwdyno.analysis.curves import LOSS, fit_curves, is_loaded, relative_error, suggest_load
from hwdyno.analysis.curves.knee import fit_knee
from hwdyno.analysis.curves.series import read_load
from hwdyno.analysis.estimates import t_quantile
from hwdyno.model.axes import FIELD
from hwdyno.model.words import Axis, Curve, Measurement, Value
from made_curves import IODEPTH, experiment, measured, series
from made_experiment import made_experiment

DEPTHS = tuple(2**k for k in range(11))
NOISE = 0.02


def closed_mmm(load: int, servers: int, service_s: float, think_s: float) -> float:
    """Throughput of M/M/m with a finite population that thinks: its exact birth-death chain."""
    log_weights = [0.0]
    for k in range(1, load + 1):
        log_weights.append(log_weights[-1] + math.log((load - k + 1) / think_s * service_s / min(k, servers)))
    weights = np.exp(np.array(log_weights) - max(log_weights))
    busy = np.minimum(np.arange(load + 1), servers)
    return float((weights / weights.sum() * busy).sum() / service_s)


def mean_value_analysis(load: int, demands_s: list[float], think_s: float = 0.0) -> float:
    """Throughput of a closed network of single queues: exact MVA."""
    demands, queue, throughput = np.array(demands_s), np.zeros(len(demands_s)), 0.0
    for n in range(1, load + 1):
        residence = demands * (1 + queue)
        throughput = n / (think_s + residence.sum())
        queue = throughput * residence
    return throughput


# name: (throughput of a load, its true ceiling, how far the 90% depth may be off)
MODELS: dict[str, tuple[Callable[[int], float], float, float]] = {
    "hard: 8 servers, one queue": (lambda n: closed_mmm(n, 8, 1e-4, 3e-5), 8e4, 0.05),
    "hard: 32 servers, one queue": (lambda n: closed_mmm(n, 32, 1e-4, 1e-5), 32e4, 0.05),
    "hard: exactly two lines": (lambda n: min(n, 16) / 1e-4, 16e4, 0.05),
    "one queue behind a delay": (lambda n: mean_value_analysis(n, [1e-5], 9e-5), 1e5, 0.20),
    "soft: 8 independent dies": (lambda n: n / (n + 7) * 8e4, 8e4, 0.20),
    "soft: 64 independent dies": (lambda n: n / (n + 63) * 64e4, 64e4, 0.20),
    "soft: 16 dies behind a controller": (lambda n: mean_value_analysis(n, [6.25e-6] * 16 + [4e-6], 2e-5), 16e4, 0.30),
}


def load_reaching(throughput: Callable[[int], float], target: float) -> float:
    """Where a throughput is reached, between two whole loads."""
    n = next(n for n in range(1, 1025) if throughput(n) >= target)
    below = throughput(n - 1) if n > 1 else 0.0
    return n - 1 + (target - below) / (throughput(n) - below)


@pytest.mark.parametrize("name", MODELS)
def test_exact_queueing_models_have_their_knee(name: str) -> None:
    throughput, ceiling, allowed = MODELS[name]
    true_90 = load_reaching(throughput, 0.9 * ceiling)
    generator = np.random.default_rng(2026)
    rounds, inside, off = sample(12, 40), 0, []

    def noisy(load: int) -> float:
        return throughput(load) * (1 + NOISE * generator.standard_normal())

    for _ in range(rounds):
        points = {n: noisy(n) for n in DEPTHS}
        # As the runner does it: powers of two leave a gap at the bend of a hard knee, and one more point closes it.
        (curve,) = fit_curves(experiment([measured({"iodepth": n}, rate) for n, rate in points.items()]))
        more = suggest_load(curve, IODEPTH, DEPTHS)
        if more is not None:
            points = dict(sorted({**points, more: noisy(more)}.items()))
        knee = fit_knee(list(points), list(points.values()))
        assert -0.07 <= knee.ceiling.value / ceiling - 1 <= 0.05
        off.append(abs(math.log(knee.load_for(0.9) / true_90)))
        assert knee.ceiling.low is not None and knee.ceiling.high is not None
        inside += knee.ceiling.low <= ceiling <= knee.ceiling.high
    assert np.median(off) <= math.log(1 + allowed) / 2
    assert np.quantile(off, 0.9) <= math.log(1 + allowed)
    assert inside >= 0.85 * rounds, "a 95% interval that misses the truth this often is none"


def test_one_wild_point_leaves_the_knee() -> None:
    truth = [closed_mmm(n, 8, 1e-4, 3e-5) for n in DEPTHS]
    clean = fit_knee(DEPTHS, truth)
    truth[7] *= 0.5
    wild = fit_knee(DEPTHS, truth)
    assert wild.ceiling.value == pytest.approx(clean.ceiling.value, rel=0.02)


def swept(throughput: Callable[[int], float], loads: tuple[int, ...] = DEPTHS, axis: str = "iodepth") -> Curve:
    points = [measured({axis: n, "rw": "randread"}, throughput(n), latency_ns=n / throughput(n) * 1e9) for n in loads]
    (curve,) = fit_curves(experiment(points, axis))
    return curve


def test_curve_has_knee_ceiling_and_best() -> None:
    curve = swept(lambda n: closed_mmm(n, 8, 1e-4, 3e-5))
    assert curve.state == "knee" and curve.model == "queue-knee" and curve.unit == "bytes/s"
    assert curve.series == {"rw": "randread"}
    assert curve.ceiling is not None and curve.ceiling.value == pytest.approx(8e4 * 4096, rel=0.02)
    assert curve.floor is not None and curve.floor.load == 1
    assert curve.floor.latency_ns == pytest.approx(1.3e5, rel=0.01)
    assert curve.knee is not None and curve.knee.load == pytest.approx(10.4, rel=0.06)
    assert curve.parameters["R1"].value == pytest.approx(1.3e-4, rel=0.04)
    assert curve.parameters["R1"].unit == "s"
    assert curve.best is not None and curve.best.load == 16 and curve.best.measured
    assert "of the ceiling" in curve.best.note and "times 1's throughput" in curve.best.note
    assert curve.load_90 is not None and curve.load_95 is not None and 9 < curve.load_90 < curve.load_95 < 16
    assert suggest_load(curve, IODEPTH, DEPTHS) == round(curve.load_90)
    assert suggest_load(curve, IODEPTH, [*DEPTHS, 10]) is None


def test_each_axis_combination_is_a_curve() -> None:
    points = [
        measured({"iodepth": n, "rw": rw, "bs": bs, "seed": n}, min(n, 8) * 1e4, bs)
        for rw in ("randread", "randwrite")
        for bs in (4096, 65536)
        for n in (8, 1, 32, 2, 4)
    ]
    curves = fit_curves(experiment(points))
    assert len(curves) == 4
    for curve in curves:
        assert [points[at].parameters["iodepth"] for at in curve.points] == [1, 2, 4, 8, 32]


@pytest.mark.parametrize(
    ("throughput", "loads", "state"),
    [
        (lambda n: 1e4 * n, (1, 2, 4, 8), "still rising"),
        (lambda n: n / (n + 63) * 64e4, (1, 2, 4, 8, 16, 32, 64), "still rising"),
        (lambda n: 1e5, DEPTHS, "saturated at the first point"),
        (lambda n: n / (n + 7) * 8e4, DEPTHS, "knee"),
    ],
)
def test_state(throughput: Callable[[int], float], loads: tuple[int, ...], state: str) -> None:
    curve = swept(throughput, loads)
    assert curve.state == state
    if state != "knee":
        assert curve.knee is None
        assert suggest_load(curve, IODEPTH) is None
    if state == "still rising":
        assert curve.best is not None and "of the most measured" in curve.best.note
    if state == "saturated at the first point":
        assert curve.best is not None and curve.best.load == 1


@pytest.mark.parametrize("axis", ["iodepth", "numjobs"])
def test_points_that_stay_level_are_not_rising_whatever_the_fit_does(axis: str) -> None:
    """Points read with 1, 2, 4 and 8 threads: their fit goes on to rise without end."""
    points = dict(zip((1, 2, 4, 8), (871.0, 868.0, 1949.0, 1953.0), strict=True))
    curve = swept(points.__getitem__, tuple(points), axis)
    assert curve.state == "knee"
    assert curve.best is not None and curve.best.load == 4
    assert curve.knee is not None and 1 < curve.knee.load <= 4
    assert curve.ceiling is not None and curve.ceiling.high is not None and curve.ceiling.low is not None
    assert curve.ceiling.low < 1953 * 4096 < curve.ceiling.high < 1.06 * 1953 * 4096


@pytest.mark.parametrize(("error", "state"), [(0.001, "still rising"), (0.02, "still rising"), (0.15, "unknown")])
def test_a_rise_is_one_beyond_the_noise_of_its_points(error: float, state: str) -> None:
    points = [measured({"iodepth": n}, 1000 * n**0.3) for n in (1, 2, 4, 8)]
    points = [
        replace(point, throughput=replace(point.throughput, low=(1 - error) * (value := point.throughput.value),
                                        high=(1 + error) * value)) for point in points
    ]  # fmt: skip
    (curve,) = fit_curves(experiment(points))
    assert curve.state == state


@pytest.mark.parametrize(("amounts", "state", "loss"), [
    ((8350, 6065, 6000), "saturated at the first point", 0.28), ((1000, 8350, 6065), "knee", 0.27),
    ((8350, 8100, 8150), "saturated at the first point", None),
])  # fmt: skip
def test_a_fall_is_measured_where_points_are_too_few_for_its_model(
    amounts: tuple[float, ...], state: str, loss: float | None
) -> None:
    curve = swept(dict(zip((1, 2, 4), amounts, strict=True)).__getitem__, (1, 2, 4))
    assert curve.state == state
    assert (LOSS in curve.parameters) == (loss is not None)
    assert loss is None or curve.parameters[LOSS].value == pytest.approx(loss, abs=0.01)


def test_load_that_never_arrives_is_flat() -> None:
    points = [measured({"iodepth": n}, 1e4, latency_ns=1e5) for n in DEPTHS]
    (curve,) = fit_curves(experiment(points))
    assert curve.state == "flat"


def test_two_points_have_no_model() -> None:
    curve = swept(lambda n: 1e4 * n, (1, 2))
    assert (curve.model, curve.state, curve.ceiling) == ("none", "unknown", None)
    assert curve.floor is not None
    assert fit_curves(experiment([measured({"iodepth": 1}, 1e4)])) == ()


def test_loads_that_are_words_or_nothing_make_no_curve() -> None:
    points = [measured({"rw": rw, "iodepth": 1}, 1e4) for rw in ("read", "write", "rw")]
    assert fit_curves(experiment(points, "rw")) == ()
    assert fit_curves(experiment([measured({"iodepth": 1}, 0.0), measured({"iodepth": None}, 1.0)])) == ()


def test_block_sizes_have_half_size() -> None:
    sizes = tuple(4096 * 2**k for k in range(9))
    points = [measured({"bs": bs}, 1 / (20e-6 + bs / 2e9), bs) for bs in sizes]
    (curve,) = fit_curves(experiment(points, "bs"))
    assert curve.model == "block-size"
    assert curve.parameters["B"].value == pytest.approx(2e9, rel=0.02)
    assert curve.parameters["t0"].value == pytest.approx(20e-6, rel=0.02)
    assert curve.parameters["n1/2"].value == pytest.approx(40_000, rel=0.05)
    assert curve.best is not None and curve.best.load == 524288
    assert suggest_load(curve, FIELD["bs"]) is None


def test_threads_from_six_points_on_follow_the_scalability_law() -> None:
    curve = swept(lambda n: 1e4 * n / (1 + 0.02 * (n - 1) + 0.004 * n * (n - 1)), (1, 2, 4, 8, 16, 32), "numjobs")
    assert curve.model == "usl"
    assert curve.parameters["b"].value == pytest.approx(0.004, rel=0.1)
    assert curve.state == "knee" and curve.ceiling is not None and curve.best is not None
    assert curve.best.load == 16
    few = swept(lambda n: 1e4 * n / (1 + 0.1 * (n - 1)), (1, 2, 4, 8), "numjobs")
    assert few.model == "queue-knee"


def test_invalid_points_do_not_shape_model() -> None:
    points = [measured({"iodepth": n}, min(n, 8) * 1e4, latency_ns=1e5) for n in DEPTHS]
    points[-1] = replace(measured({"iodepth": 1024}, 1e7, latency_ns=1e5), validity="invalid")
    (curve,) = fit_curves(experiment(points))
    assert len(curve.points) == 11
    assert curve.ceiling is not None and curve.ceiling.value == pytest.approx(8e4 * 4096, rel=0.02)


def test_a_delay_too_short_to_matter_is_no_rise() -> None:
    """Loops that take four cycles themselves, and offer twice what the bus carries: two cycles more double nothing."""
    delays = (0, 2, 8, 15, 50, 100, 200, 300, 500, 1000, 5000, 20000)
    amounts = [((8 / (4 + delay)) ** -10 + 1) ** -0.1 * 49e9 for delay in delays]
    points = tuple(measured_at("delay", delay, amount) for delay, amount in zip(delays, amounts, strict=True))
    (curve,) = fit_curves(made_experiment("memory.loaded", "memory", "?", "delay", "memory_loaded_latency", points))
    assert curve.state == "knee" and curve.ceiling is not None and curve.best is not None
    assert curve.ceiling.value == pytest.approx(max(amounts), rel=0.12)
    assert "e+" not in curve.best.note


def measured_at(axis: str, load: int, amount: float) -> Measurement:
    """A point of this many bytes a second at a load, known to a percent."""
    return Measurement(
        parameters={axis: load},
        throughput=Value(amount, "bytes/s", 0.99 * amount, 1.01 * amount),
        rate=None,
        latency_ns=None,
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=None,
        cpu_system_s=None,
        elapsed_s=1.0,
        operations=1,
        bytes=1,
        repeats=3,
    )


@pytest.mark.parametrize(("unit", "value", "load", "back"), [
    ("cycles", 8, 1 / 8, 8.0), ("cycles", 1, 1.0, 0.0), ("cycles", 0, 1.0, 0.0), ("s", 1e-6, 1e-3, 1e-6),
    ("s", 0.0, 1.0, 0.0),
])  # fmt: skip
def test_a_delay_offers_its_reciprocal(unit: str, value: float, load: float, back: float) -> None:
    """Cycles or nanoseconds; no delay counts as the least of that unit."""
    axis = Axis("x", unit, "delay")
    assert read_load(measured({"x": value}, 1.0), axis) == pytest.approx(load)
    assert series((load,), (1.0,), axis=axis).as_given(load) == pytest.approx(back)
    in_bits = replace(series((1.0,), (1.0,), axis=Axis("x", "bit/s", "rate")), operation=4000.0)
    assert in_bits.offered_rate(1e6) == 31.25, "operations a second of 4 kB"


@pytest.mark.parametrize(("value", "repeats", "degrees"), [(0.5, 1, 30), (0.5, 2, 5), (1.0, 3, 2), (100.0, 31, 30)])
def test_a_standard_error_follows_from_repeats(value: float, repeats: int, degrees: int) -> None:
    """Half the interval over Student's t; two repeats borrow four degrees of freedom from other points."""
    wide = Value(value, "1", 0.9 * value, 1.1 * value)
    assert relative_error(wide, repeats) == pytest.approx(0.1 / t_quantile(degrees))
    assert (
        relative_error(replace(wide, value=0.0), repeats) is None
        and relative_error(replace(wide, low=None), repeats) is None
    )


def test_invalid_points_count_below_three_loads() -> None:
    """The floor is the least latency of the points that count; the invalid ones have a shorter latency."""
    points = [measured({"iodepth": load}, 100.0 * load, latency_ns=50.0 + load) for load in (1, 2, 4, 8)]
    for at, floor in ((0, 2), (1, 1)):
        points[at] = replace(points[at], validity="invalid")
        (curve,) = fit_curves(experiment(points))
        assert curve.floor is not None and curve.floor.load == floor


@pytest.mark.parametrize(("loads", "rate", "half", "parameter", "value"), [
    # 0.8 N / (N + 7): a request alone takes 10 s. N / (N + 8) from half a request on: no load is a count of requests.
    (DEPTHS[:7], 0.8, 7, "R1", 10.0), ((0.5, *DEPTHS[:7]), 1e5, 8, "N*", 8.0),
])  # fmt: skip
def test_slow_or_partial_request_is_known(loads: Any, rate: float, half: int, parameter: str, value: float) -> None:
    """A rate of 0 beside bytes has no request size, and a point without bytes is on no curve."""
    points = [measured({"iodepth": n}, rate * n / (n + half)) for n in loads]
    points[0] = replace(points[0], rate=Value(0.0, "operations/s"))
    (curve,) = fit_curves(experiment([*points, measured({"iodepth": 128}, 0.0)]))
    assert curve.points == tuple(range(len(points)))
    assert curve.parameters[parameter].value == pytest.approx(value, rel=0.01)


@pytest.mark.parametrize(("load_90", "suggested"), [(0.4, 1), (2.6, 3)])
def test_a_suggested_load_is_whole(load_90: float, suggested: int) -> None:
    curve = Curve({}, "iodepth", (0, 1), "bytes/s", "queue-knee", load_90=load_90, state="knee")
    assert suggest_load(curve, IODEPTH) == suggested and suggest_load(curve, IODEPTH, [1.1 * suggested]) is None


def test_a_latency_is_read_between_loads() -> None:
    """Straight lines in log-log; an unknown latency is passed over, and past the ends the nearest counts."""
    points = series((1.0, 2.0, 4.0, 8.0), (1.0,) * 4, (10.0, None, 40.0, 50.0))
    read = [points.latency_at(load) for load in (0.5, 2.0, 4.0, 6.0, 100.0)]
    assert read == pytest.approx([10.0, 20.0, 40.0, 45.58, 50.0], rel=1e-3)
    assert series((1.0,), (1.0,)).latency_at(1.0) is None


def test_a_loaded_latency_is_by_delay() -> None:
    loaded = "memory_loaded_latency"
    for kernel, load in ((loaded, "delay"), (loaded, "threads"), ("memory_bandwidth", "delay")):
        result = made_experiment("memory.x", "memory", "?", load, kernel, (measured({load: 8}, 1.0),))
        assert is_loaded(result) == (kernel == loaded and load == "delay")
