"""Curves against exact queueing models with 2% noise, and what is read off them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hwdyno.axes import FIELD
from hwdyno.curves import curves_of, suggest_load
from hwdyno.curves.knee import fit_knee
from hwdyno.curves.models import fit_scalability
from hwdyno.words import Curve, ExperimentResult, Latency, Measurement, Parameters, Value
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
def test_the_knee_of_exact_queueing_models_is_found(name: str) -> None:
    throughput, ceiling, allowed = MODELS[name]
    true_90 = load_reaching(throughput, 0.9 * ceiling)
    generator = np.random.default_rng(2026)
    rounds, inside, off = 40, 0, []

    def noisy(load: int) -> float:
        return throughput(load) * (1 + NOISE * generator.standard_normal())

    for _ in range(rounds):
        points = {n: noisy(n) for n in DEPTHS}
        # As the runner does it: powers of two leave a gap at the bend of a hard knee, and one more point closes it.
        (curve,) = curves_of(experiment([measured({"iodepth": n}, rate) for n, rate in points.items()]))
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


def test_one_wild_point_does_not_move_the_knee() -> None:
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
    (curve,) = curves_of(experiment(points, axis))
    return curve


def test_a_curve_has_floor_knee_ceiling_and_best() -> None:
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


def test_each_combination_of_the_other_axes_is_a_curve() -> None:
    points = [
        measured({"iodepth": n, "rw": rw, "bs": bs, "seed": n}, min(n, 8) * 1e4, bs)
        for rw in ("randread", "randwrite")
        for bs in (4096, 65536)
        for n in (8, 1, 32, 2, 4)
    ]
    curves = curves_of(experiment(points))
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


def test_a_load_that_never_arrives_is_flat() -> None:
    points = [measured({"iodepth": n}, 1e4, latency_ns=1e5) for n in DEPTHS]
    (curve,) = curves_of(experiment(points))
    assert curve.state == "flat"


def test_fewer_than_three_points_have_no_model() -> None:
    curve = swept(lambda n: 1e4 * n, (1, 2))
    assert (curve.model, curve.state, curve.ceiling) == ("none", "unknown", None)
    assert curve.floor is not None
    assert curves_of(experiment([measured({"iodepth": 1}, 1e4)])) == ()


def test_loads_that_are_words_or_nothing_make_no_curve() -> None:
    points = [measured({"rw": rw, "iodepth": 1}, 1e4) for rw in ("read", "write", "rw")]
    assert curves_of(experiment(points, "rw")) == ()
    assert curves_of(experiment([measured({"iodepth": 1}, 0.0), measured({"iodepth": None}, 1.0)])) == ()


def test_block_sizes_have_a_half_size_and_a_bandwidth() -> None:
    sizes = tuple(4096 * 2**k for k in range(9))
    points = [measured({"bs": bs}, 1 / (20e-6 + bs / 2e9), bs) for bs in sizes]
    (curve,) = curves_of(experiment(points, "bs"))
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


def test_invalid_points_do_not_shape_the_model() -> None:
    points = [measured({"iodepth": n}, min(n, 8) * 1e4, latency_ns=1e5) for n in DEPTHS]
    points[-1] = replace(measured({"iodepth": 1024}, 1e7, latency_ns=1e5), validity="invalid")
    (curve,) = curves_of(experiment(points))
    assert len(curve.points) == 11
    assert curve.ceiling is not None and curve.ceiling.value == pytest.approx(8e4 * 4096, rel=0.02)


def test_a_delay_too_short_to_matter_is_no_rise() -> None:
    """Loops that take four cycles themselves, and offer twice what the bus carries: two cycles more double nothing."""
    delays = (0, 2, 8, 15, 50, 100, 200, 300, 500, 1000, 5000, 20000)
    amounts = [((8 / (4 + delay)) ** -10 + 1) ** -0.1 * 49e9 for delay in delays]
    points = tuple(measured_at("delay", delay, amount) for delay, amount in zip(delays, amounts, strict=True))
    (curve,) = curves_of(made_experiment("memory.loaded", "memory", "?", "delay", "memory_loaded_latency", points))
    assert curve.state == "knee" and curve.ceiling is not None and curve.best is not None
    assert curve.ceiling.value == pytest.approx(max(amounts), rel=0.12)
    assert "e+" not in curve.best.note


def measured_at(axis: str, load: int, amount: float) -> Measurement:
    """A point of so many bytes a second at a load, known to a percent."""
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
    """Servers that fail make a full queue noisy and a short one not: the quiet rise says nothing of the ceiling."""
    loads = [2.0**k for k in range(10)]
    rates = [100 * min(load, 16.0) for load in loads]

    def half(errors: list[float]) -> float:
        ceiling = fit_knee(loads, rates, errors, requests=True).ceiling
        assert ceiling.low is not None and ceiling.high is not None
        return math.log(ceiling.high / ceiling.low) / 2

    everywhere = half([0.04] * 10)
    assert half([0.002] * 4 + [0.04] * 6) == pytest.approx(everywhere, rel=0.03)
    assert half([0.002] * 10) < everywhere / 4
