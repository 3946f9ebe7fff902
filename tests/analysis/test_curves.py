"""Curves against exact queueing models with 2% noise, and what is read off them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hwdyno.analysis.curves import LOSS, fit_curves, is_loaded, relative_error, suggest_load
from hwdyno.analysis.curves.curve_fit import _read_off
from hwdyno.analysis.curves.knee import fit_knee
from hwdyno.analysis.curves.knee_model import Knee
from hwdyno.analysis.curves.loaded import loaded_curve, more_delays
from hwdyno.analysis.curves.operating_points import find_best, judge_state
from hwdyno.analysis.curves.scalability import Interval, Scalability, _half_widths, fit_scalability
from hwdyno.analysis.curves.series import Series, read_load
from hwdyno.analysis.estimates import t_quantile
from hwdyno.model.axes import FIELD
from hwdyno.model.words import Axis, Curve, ExperimentResult, Latency, Measurement, Parameters, Value
from made_experiment import made_experiment

IODEPTH = FIELD["iodepth"]
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
    rounds, inside, off = 40, 0, []

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


@pytest.mark.parametrize("seed", range(10))
def test_scalability_names_coherence_only_when_it_is_there(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = np.array([1, 2, 4, 8, 12, 16, 24, 32, 48, 64], float)
    noise = 1 + 0.01 * generator.standard_normal(len(n))
    with_b = fit_scalability(list(n), list(100 * n / (1 + 0.03 * (n - 1) + 0.001 * n * (n - 1)) * noise))
    without = fit_scalability(list(n), list(100 * n / (1 + 0.03 * (n - 1)) * noise))
    assert with_b is not None and without is not None
    assert with_b.b is not None and with_b.b.value == pytest.approx(0.001, rel=0.25)
    assert with_b.peak_load == pytest.approx(math.sqrt(0.97 / 0.001), rel=0.1)
    assert with_b.a.value == pytest.approx(0.03, abs=0.015)
    assert (0.0 if without.b is None else without.b.value) < 5e-5
    assert without.a.value == pytest.approx(0.03, abs=0.006)


def test_scalability_needs_six_points() -> None:
    assert fit_scalability([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]) is None


def measured(parameters: Parameters, rate: float, bs: int = 4096, latency_ns: float | None = None) -> Measurement:
    return Measurement(
        parameters=parameters,
        throughput=Value(rate * bs, "bytes/s", rate * bs * 0.99, rate * bs * 1.01),
        rate=Value(rate, "operations/s"),
        latency_ns=None
        if latency_ns is None
        else Latency(latency_ns, latency_ns, latency_ns, latency_ns, None, latency_ns, latency_ns, 10**6),
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=None,
        cpu_system_s=None,
        elapsed_s=1,
        operations=int(rate),
        bytes=int(rate) * bs,
        repeats=1,
    )


def experiment(points: list[Measurement], load: str = "iodepth") -> ExperimentResult:
    return made_experiment("storage.x", "storage", "?", load, "storage_blocks", tuple(points))


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


def test_a_ceiling_is_known_by_the_noise_of_the_points_that_tell_it() -> None:
    """Servers that fail make a full queue noisy and a short one not: the quiet rise leaves the ceiling open."""
    loads = [2.0**k for k in range(10)]
    rates = [100 * min(load, 16.0) for load in loads]

    def half(errors: list[float]) -> float:
        ceiling = fit_knee(loads, rates, errors, requests=True).ceiling
        assert ceiling.low is not None and ceiling.high is not None
        return math.log(ceiling.high / ceiling.low) / 2

    everywhere = half([0.04] * 10)
    assert half([0.002] * 4 + [0.04] * 6) == pytest.approx(everywhere, rel=0.03)
    assert half([0.002] * 10) < everywhere / 4


SATURATED = "saturated at the first point"
THREADS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def series(loads: Any, amounts: Any, latencies: Any = (), tails: Any = (), axis: Axis = IODEPTH) -> Series:
    """Points of queue depths, in bytes/s."""
    none, values = (None,) * len(loads), tuple(Value(amount, "bytes/s") for amount in amounts)
    return Series(tuple(range(len(loads))), loads, values, latencies or none, tails or none, axis, none, None, 1.0)


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
    assert _read_off(plain, series(loads, (100,) * 5, (50,) * 5), knee(), law).state == "flat", "whatever peak passed"


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


def gunther(load: float, c: float, a: float, b: float) -> float:
    """X = cN / (1 + a(N - 1) + bN(N - 1))."""
    return c * load / (1 + a * (load - 1) + b * load * (load - 1))


@pytest.mark.parametrize(("a", "b", "peak", "ceiling"), [
    (0.1, 0.01, math.sqrt(90), gunther(math.sqrt(90), 100, 0.1, 0.01)), (0.25, None, None, 400.0),
    (0.0011, None, None, 100 / 0.0011), (0.00095, None, None, None),
    # It falls from the first thread on.
    (1.0, None, None, 100.0), (1.5, 0.1, None, 100.0),
])  # fmt: skip
def test_law_has_its_peak_and_ceiling(a: float, b: float | None, peak: float | None, ceiling: float | None) -> None:
    law = Scalability(Interval(100.0), Interval(a), None if b is None else Interval(b))
    assert law.at(4.0) == pytest.approx(gunther(4.0, 100, a, b or 0.0))
    assert law.peak_load == (peak and pytest.approx(peak)) and law.ceiling == (ceiling and pytest.approx(ceiling))
    assert fit_scalability((0.99, *THREADS[1:]), [100.0] * 7) is None, "its divisor may be negative below one worker"


@pytest.mark.parametrize(
    ("c", "a", "b"), [(1e-4, 0.03, 0.001), (1e12, 0.03, 0.0), (1e2, 1e-4, 0.0), (1e2, 2.2, 0.0), (1e2, 5.0, 0.1)]
)
def test_law_is_found_with_its_interval(c: float, a: float, b: float) -> None:
    """The covariance of a fit in log space, of its slopes and errors of 2% (a root mean square); t of 30 degrees."""
    errors = [0.01] * 6 + [math.sqrt(7 * 0.0004 - 6 * 0.0001)]
    found = fit_scalability(THREADS, [gunther(load, c, a, b) for load in THREADS], errors)
    n = np.array(THREADS)
    below = 1 + a * (n - 1) + b * n * (n - 1)
    slopes = np.stack((np.ones(7), -(n - 1) / below, -n * (n - 1) / below)[: 3 if b else 2])
    half = 2.042272 * 0.02 * np.sqrt(np.diag(np.linalg.inv(slopes @ slopes.T)))
    assert found is not None and (found.b is not None) == bool(b)
    wide, (off, apart) = math.exp(half[0]), half[[1, -1]]
    ends = (c / wide, c * wide), (max(0.0, a - off), a + off), (b - apart, b + apart)
    for interval, value, (low, high) in zip((found.c, found.a, found.b), (c, a, b), ends, strict=True):
        expected = pytest.approx((value, low, high), rel=1e-4, abs=1e-9)
        assert interval is None or (interval.value, interval.low, interval.high) == expected


@pytest.mark.parametrize(("residuals", "errors", "half"), [
    # Two points of one parameter leave one degree of freedom, with its t of 12.7062. Of a residual of sqrt(3) times
    # 6%, three scales of the loss, the square counts half: 0.0108 / 2, twice. One point has its own error, or none.
    ((0.06 * math.sqrt(3), -0.06 * math.sqrt(3)), (), 12.7062 * math.sqrt(0.0108 / 2)),
    ((0.1,), (0.02,), 2.042272 * 0.02), ((0.1,), (), None), ((0.0, 0.0), (), None),
])  # fmt: skip
def test_parameter_is_known_by_its_errors(residuals: Any, errors: Any, half: float | None) -> None:
    (found,) = _half_widths(np.array(residuals), np.ones((len(residuals), 1)), errors)
    assert found == (half and pytest.approx(half, rel=1e-6))


@pytest.mark.parametrize(("latencies", "sustained", "crosses"), [
    # Idle is the least up to 15% of the peak, and 1.2 times that is sustained; it may cross before the first load.
    ((100, 100, 100, 110), 100, False), ((200, 100, 110, 130), 75, True), ((100, 130, 110, 130), 75, True),
    ((200, 100, 100, 110), 1, True), ((120, 100, 100, 110), 100, False),
])  # fmt: skip
def test_the_last_crossing_is_sustained(latencies: tuple[float, ...], sustained: float, crosses: bool) -> None:
    rates = (1.0, 14.9, 50.0, 100.0)
    found = loaded_curve(rates, latencies)
    assert found is not None and (found.sustained, found.crosses) == (pytest.approx(sustained), crosses)
    assert found == loaded_curve([0.0, *rates, 120.0], [100.0, *latencies, 0.0]), "no traffic or no latency: no point"
    few, busy = loaded_curve(rates[:2], latencies[:2]), loaded_curve((50.0, 75.0, 100.0), (100.0, 110.0, 130.0))
    assert few is None and busy is not None and busy.sustained == pytest.approx(87.5), "nothing idle: the least rate is"


@pytest.mark.parametrize(("top", "found_top"), [(10 * 3**0.5, 10 * 3**0.5), (30.0, 30.0), (40.0, 30.0)])
def test_the_queues_limit_is_found(top: float, found_top: float) -> None:
    """R = 100 + 50 X / (Xm - X); up to three times the greatest rate is tried."""
    rates = (1.0, 2.0, 4.0, 7.0, 10.0)
    found = loaded_curve(rates, [100 + 50 * rate / (top - rate) for rate in rates])
    assert found is not None and found.top == pytest.approx(found_top)
    if top == found_top:
        assert (found.rest_ns, found.wait_ns, found.latency_ns(5.0)) == pytest.approx((100, 50, 100 + 250 / (top - 5)))
        assert found.latency_ns(found.top) is None


@pytest.mark.parametrize(("delays", "rates", "added"), [
    # No whole delay is between these; half the way to the greatest is below a tenth of the peak.
    *(((0, 1), (100, 90), []), ((0, 1, 1000), (100, 15, 1), [])),
    # First 15, as 1 / 30 is nearly the mean of 1 / 15 and 1 / 10015.
    ((0, 10000), (100, 20), [15, 45, 5, 104, 25, 9]),
    # Half the way from 5 to 15 is a tenth of the peak, at 6 as 1 / 21 is between 1 / 16 and 1 / 32.
    ((0, 1, 17), (100, 15, 5), [6, 3, 4, 2, 5]),
    # Eight points from a tenth of the peak on are enough; else the widest gap has one more.
    *(((0, 10, 20, 40, 80, 160, 320, 640), (100, 90, 80, 70, 60, 50, 40, 10.5), []),
      ((0, 10, 20, 40, 80, 160, 320, 640), (100, 90, 80, 70, 60, 50, 40, 9.5), [428])),
])  # fmt: skip
def test_delays_fill_the_widest_gap(delays: tuple[float, ...], rates: tuple[float, ...], added: list[int]) -> None:
    assert more_delays(delays, rates) == added


def test_a_loaded_latency_is_by_delay() -> None:
    loaded = "memory_loaded_latency"
    for kernel, load in ((loaded, "delay"), (loaded, "threads"), ("memory_bandwidth", "delay")):
        result = made_experiment("memory.x", "memory", "?", load, kernel, (measured({load: 8}, 1.0),))
        assert is_loaded(result) == (kernel == loaded and load == "delay")
