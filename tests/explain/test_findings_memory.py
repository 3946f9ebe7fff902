"""Rules on memory and arithmetic: what is planted is found, and a clean machine is not accused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.curves.loaded import more_delays
from hwdyno.analysis.resources import list_ceilings, why_no_ceiling
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.tlb import _apart, _at, _footprint, _round
from hwdyno.measure.sweep import octaves
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Concurrency
from hwdyno.model.words import ExperimentResult, Finding, Latency, Measurement, Run, Stream, Value
from made_experiment import made_experiment

MIB = 1 << 20
SET = 512 * MIB


def point(value: float, unit: str = "bytes/s", ns: float | None = None, **more: Any) -> Measurement:
    details = more.pop("details", {})
    latency = None if ns is None else Latency(ns, ns, ns, ns, None, ns, ns, 1000)
    return Measurement(
        parameters=more,
        throughput=Value(value, unit, value * 0.99, value * 1.01),
        rate=None,
        latency_ns=latency,
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=1.0,
        cpu_system_s=0.0,
        elapsed_s=1.0,
        operations=1000,
        bytes=0,
        repeats=3,
        details=details,
    )


def result(kernel: str, load: str, *points: Measurement, name: str = "", **fixed: Any) -> ExperimentResult:
    resource = "memory" if kernel.startswith("memory") else "compute"
    return made_experiment(name or f"{resource}.test", resource, "?", load, kernel, points, fixed=fixed)


def make_run(*results: ExperimentResult, machine: dict[str, Any] | None = None) -> Run:
    cpu = {"threads": 2, "cores": 2, "caches": [{"level": 3, "type": "unified", "size_bytes": 8 * MIB}]}
    return explain(
        Run(
            "r",
            "2026-01-01T00:00:00Z",
            None,
            (Machine.of_survey(machine or {"cpu": cpu}),),
            "quick",
            "hwdyno memory",
            results,
        )
    )


def found(run: Run, rule: str) -> Finding | None:
    return next((finding for finding in run.findings if finding.rule == rule), None)


def moved(value: float, operation: str, threads: int = 2, **more: Any) -> Measurement:
    return point(value, operation=operation, threads=threads, **more)


def test_practical_ceiling_replaces_unknown_theory() -> None:
    run = make_run(result("memory_bandwidth", "threads", moved(30e9, "read"), moved(45e9, "nt_write"), working_set=SET))
    finding = found(run, "practical_bandwidth")
    assert finding is not None and "unknown (no DIMM table here)" in finding.says and "45.0 GB/s" in finding.says
    ceiling = run.experiments[0].ceilings[0]
    assert (ceiling.kind, ceiling.label, ceiling.value) == ("reference", "practical", 45e9)
    assert explain(run) == run


def test_theory_is_channels_times_speed_and_empty_slots_do_not_count() -> None:
    modules = [
        {"size_bytes": 16 << 30, "configured_mt_s": 4800, "locator": f"CPU0_DIMM_{letter}1"} for letter in "ABCD"
    ]
    modules.append({"size_bytes": None, "configured_mt_s": 4800, "locator": "CPU0_DIMM_E1"})
    machine = {"memory": {"modules": modules}, "cpu": {"threads": 2, "cores": 2}}
    (ceiling,) = list_ceilings(Machine.of_survey(machine), "memory")
    assert ceiling.value == 4800e6 * 4 * 8 and "4800 MT/s x 4 populated channels x 8 B" in ceiling.formula
    assert why_no_ceiling(Machine.of_survey(machine), "memory") == ()
    assert "no DIMM table" in why_no_ceiling(Machine(), "memory")[0]
    run = make_run(
        replace(result("memory_bandwidth", "threads", moved(120e9, "read"), working_set=SET), ceilings=(ceiling,)),
        machine=machine,
    )
    finding = found(run, "practical_bandwidth")
    assert finding is not None and finding.evidence["share"] == pytest.approx(120e9 / 153.6e9)
    above = make_run(
        replace(result("memory_bandwidth", "threads", moved(200e9, "read"), working_set=SET), ceilings=(ceiling,)),
        machine=machine,
    )
    assert above.experiments[0].points[0].validity == "invalid"
    cached = make_run(
        replace(result("memory_bandwidth", "threads", moved(200e9, "read"), working_set=32768), ceilings=(ceiling,)),
        machine=machine,
    )
    assert cached.experiments[0].points[0].validity == "valid"


@pytest.mark.parametrize(("ratio", "seen"), [(1.33, True), (1.0, False)])
def test_streaming_stores_show_write_allocate(ratio: float, seen: bool) -> None:
    points = moved(30e9, "triad"), moved(30e9 * ratio, "nt_triad"), moved(34e9, "read")
    run = make_run(result("memory_bandwidth", "threads", *points, working_set=SET))
    finding = found(run, "write_allocate")
    assert (finding is not None) == seen
    if finding is not None:
        assert finding.evidence["bus_bytes_s"] == pytest.approx(40e9)


@pytest.mark.parametrize(("huge_ns", "paid"), [(200.0, True), (299.0, False)])
def test_huge_pages_pay(huge_ns: float, paid: bool) -> None:
    points = [
        point(1e9 / ns, "operations/s", ns, working_set=SET, pages=pages)
        for pages, ns in (("4k", 300), ("2m", huge_ns))
    ]
    finding = found(make_run(result("memory_latency", "working_set", *points)), "huge_pages")
    assert (finding is not None) == paid
    assert finding is None or "33%" in finding.says


@pytest.mark.parametrize(("all_threads", "seen"), [(34e9, True), (17.5e9, False)])
def test_one_thread_cannot_fill_the_channel(all_threads: float, seen: bool) -> None:
    reads = result("memory_bandwidth", "threads", moved(17e9, "read", 1), moved(all_threads, "read"), working_set=SET)
    idle = point(1e7, "operations/s", 100.0, working_set=SET, pages="2m", locality="random")
    finding = found(make_run(reads, result("memory_latency", "working_set", idle)), "lines_in_flight")
    assert (finding is not None) == seen
    assert finding is None or finding.evidence["lines_in_flight"] == pytest.approx(17e9 * 100e-9 / 64)


@pytest.mark.parametrize(("claimed", "honest"), [(8 * MIB, True), (260 * MIB, False)])
def test_the_cache_that_works_is_found(claimed: int, honest: bool) -> None:
    def ns(size: float) -> float:
        return math.exp(math.log(5) + math.log(20) / (1 + (8 * MIB * 1.3 / size) ** 4))

    points = [
        point(1e9 / ns(size), "operations/s", ns(size), working_set=size, pages="2m", locality="random")
        for size in octaves(64 << 10, 256 * MIB, 8)
    ]
    cpu = {"threads": 2, "cores": 2, "caches": [{"level": 3, "type": "unified", "size_bytes": claimed}]}
    finding = found(make_run(result("memory_latency", "working_set", *points), machine={"cpu": cpu}), "claimed_cache")
    assert finding is not None and ("behaves as if it had" in finding.says) != honest
    assert 0.5 < finding.evidence["found_bytes"][-1] / (8 * MIB) < 2.5


@pytest.mark.parametrize(("far", "seen"), [(20e9, True), (33e9, False)])
def test_a_thread_on_the_wrong_node(far: float, seen: bool) -> None:
    points = moved(34e9, "read", node=0), moved(far, "read", node=1)
    run = make_run(result("memory_bandwidth", "threads", *points, working_set=SET))
    assert (found(run, "wrong_node") is not None) == seen


def flops(value: float, isa: str, clock: float = 3.7e9, threads: int = 1, **more: Any) -> Measurement:
    wide = {"scalar": 2.0, "avx512": 16.0, "amx": 32768.0}[isa]
    cycle = {"scalar": 4.0, "avx512": 32.0, "amx": 2048.0}[isa]
    details = {
        "isa": isa,
        "flop_per_instruction": wide,
        "instructions_per_cycle": cycle / wide,
        "flop_per_cycle": more.pop("flop_per_cycle", cycle),
        "flop_per_cycle_best_slice": cycle,
        "clock_hz_during": clock,
        "clock_hz_best": clock,
        "verification": more.pop("verification", "passed"),
    }
    parameters = {"operation": "fma", "precision": "double", "isa": isa, "threads": threads, **more}
    return point(value, "FLOP/s", details=details, **parameters)


def test_the_peak_of_auto_is_one_whatever_each_repeat_chose() -> None:
    """Two of 3 repeats took AVX-512 and 1 AVX2: 13.3 FLOP per instruction are of neither."""
    mixed = flops(100e9, "avx512", threads=2)
    mixed = replace(
        mixed,
        parameters={**mixed.parameters, "isa": "auto"},
        details={**mixed.details, "isa": "avx2", "flop_per_instruction": 40 / 3, "instructions_per_cycle": 1.4},
    )
    pure = flops(110e9, "avx512")
    pure = replace(pure, parameters={**pure.parameters, "isa": "auto"})
    for order in ((mixed, pure), (pure, mixed)):
        run = make_run(result("compute_flops", "threads", *order))
        by_cores = {
            ceiling.metric: ceiling.value for ceiling in run.experiments[0].ceilings if ceiling.kind == "physical"
        }
        assert by_cores["flop_s/fma/double/auto/2"] == pytest.approx(2 * 3.7e9 * 32)
        assert by_cores["flop_s/fma/double/auto/1"] == pytest.approx(3.7e9 * 32)


def test_mixed_precision_has_the_others_units() -> None:
    """Seven readings of FP32 took AVX2 and AVX-512 in turn: it was quoted without a ceiling."""
    mixed = flops(200e9, "avx512", threads=2, precision="single")
    mixed = replace(
        mixed,
        parameters={**mixed.parameters, "isa": "auto"},
        details={**mixed.details, "isa": "avx2", "flop_per_instruction": 80 / 3, "instructions_per_cycle": 1.4},
    )
    double = [flops(110e9, "avx512"), flops(100e9, "scalar")]
    run = make_run(result("compute_flops", "threads", mixed, *double))
    by_cores = {ceiling.metric: ceiling.value for ceiling in run.experiments[0].ceilings if ceiling.kind == "physical"}
    assert by_cores["flop_s/fma/single/auto/2"] == pytest.approx(2 * 3.7e9 * 64)


def test_the_peak_has_its_formula_and_nothing_exceeds_it() -> None:
    run = make_run(result("compute_flops", "threads", flops(116e9, "avx512"), flops(226e9, "avx512", threads=2)))
    finding = found(run, "peak_share")
    assert finding is not None and "2 cores x 3.70 GHz x 32 FLOP per cycle (2 AVX-512 units x 16 FLOP" in finding.says
    assert finding.evidence["share"] == pytest.approx(226e9 / (2 * 3.7e9 * 32))
    over = make_run(result("compute_flops", "threads", flops(130e9, "avx512")))
    assert over.experiments[0].points[0].validity == "invalid"


def test_oversubscribed_threads_keep_cores_ceiling() -> None:
    run = make_run(result("compute_flops", "threads", flops(230e9, "avx512", threads=4), flops(116e9, "avx512")))
    values = sorted(ceiling.value for ceiling in run.experiments[0].ceilings)
    assert values == pytest.approx([3.7e9 * 32, 2 * 3.7e9 * 32])
    assert all(measurement.validity == "valid" for measurement in run.experiments[0].points)


@pytest.mark.parametrize(("cycle", "noisy"), [(24.0, True), (31.5, False)])
def test_a_noisy_neighbour_is_named(cycle: float, noisy: bool) -> None:
    run = make_run(result("compute_flops", "threads", flops(80e9, "avx512", flop_per_cycle=cycle)))
    assert (found(run, "noisy_neighbour") is not None) == noisy
    assert (run.experiments[0].points[0].validity == "degraded") == noisy


@pytest.mark.parametrize(("clock", "falls"), [(3.0e9, True), (3.68e9, False)])
def test_wide_units_lower_the_clock(clock: float, falls: bool) -> None:
    run = make_run(result("compute_flops", "threads", flops(14e9, "scalar"), flops(90e9, "avx512", clock)))
    assert (found(run, "wide_clock_drop") is not None) == falls


def test_a_clock_read_beside_others_at_work_is_not_called_a_drop() -> None:
    disturbed = flops(30e9, "avx512", 1.5e9, flop_per_cycle=20.0)
    run = make_run(result("compute_flops", "threads", flops(14e9, "scalar"), disturbed))
    assert found(run, "wide_clock_drop") is None


def test_linpack_is_held_against_the_measured_peak_and_theory() -> None:
    peak = result("compute_flops", "threads", flops(226e9, "avx512", threads=2))
    peak = replace(peak, points=tuple(replace(p, parameters={**p.parameters, "isa": "auto"}) for p in peak.points))
    solved = result(
        "linpack",
        "n",
        point(100e9, "FLOP/s", operation="lu", n=2000, threads=2, details={"library": "openblas"}),
        point(130e9, "FLOP/s", operation="lu", n=5000, threads=2, details={"library": "openblas"}),
        point(170e9, "FLOP/s", operation="gemm", n=5000, threads=2),
    )
    finding = found(make_run(peak, solved), "linpack_share")
    assert finding is not None and "openblas" in finding.says and "n = 5000" in finding.says
    assert finding.evidence["measured_peak_share"] == pytest.approx(130 / 226)
    assert finding.evidence["theory_share"] == pytest.approx(130e9 / (2 * 3.7e9 * 32))
    assert finding.evidence["average_flop_s"] == pytest.approx(115e9)


def test_linpack_is_held_against_what_fewer_threads_reached_where_others_were_disturbed() -> None:
    """Other work took the processors while two threads ran; one thread alone reached four times as much."""
    loops = result("compute_flops", "threads", flops(57e9, "avx512", threads=1), flops(14e9, "avx512", threads=2))
    solved = point(19e9, "FLOP/s", operation="lu", n=5000, threads=2, details={"library": "openblas"})
    finding = found(make_run(loops, result("linpack", "n", solved)), "linpack_share")
    assert finding is not None and "of the measured FMA peak" in finding.says and "disturbed" not in finding.says
    assert finding.evidence["measured_peak_share"] == pytest.approx(19 / 57)
    alone = result("compute_flops", "threads", flops(10e9, "avx512", threads=1))
    unlike = found(make_run(alone, result("linpack", "n", solved)), "linpack_share")
    assert unlike is not None and unlike.evidence["measured_peak_share"] is None


def test_wrong_results_make_a_point_invalid() -> None:
    run = make_run(result("compute_flops", "threads", flops(100e9, "avx512", verification="failed")))
    assert run.experiments[0].points[0].validity == "invalid"
    assert run.experiments[0].points[0].why == ("wrong_result",)
    finding = found(run, "wrong_result")
    assert finding is not None and (finding.severity, finding.points) == ("invalid", (0,))
    assert "verification after the pass failed" in finding.says
    sound = make_run(result("compute_flops", "threads", flops(100e9, "avx512", verification="passed")))
    assert sound.experiments[0].points[0].validity == "valid" and found(sound, "wrong_result") is None


def test_littles_law_does_not_bind_a_probe_to_the_load_beside_it() -> None:
    latency = Latency(200, 200, 200, 200, None, 200, 200, 1000)
    probe = Stream("chase", 1000, 0, latency_ns={"total": latency})
    loaded = replace(
        point(20e9, "bytes/s", 200.0, delay=0, threads=1),
        rate=Value(20e9 / 64, "operations/s"),
        streams=(probe, Stream("read", 10**8, 64 * 10**8)),
        concurrency=Concurrency(1.0, None),
    )
    assert found(make_run(result("memory_loaded_latency", "delay", loaded, working_set=SET)), "little") is None


def test_loaded_latency_is_read_off_by_bandwidth_and_not_by_the_pause() -> None:
    def at(delay: float) -> Measurement:
        offered = 128 * 3.7e9 / (delay + 15)
        value = (offered**-4 + 20e9**-4) ** -0.25
        return point(value, "bytes/s", 100 / (1.02 - value / 20e9), delay=delay, threads=1)

    delays = (0, 2, 8, 15, 50, 100, 200, 500, 1000, 2500, 5000)
    run = make_run(result("memory_loaded_latency", "delay", *(at(d) for d in delays), working_set=SET))
    (curve,) = run.experiments[0].curves
    assert curve.state == "knee" and curve.ceiling is not None and curve.best is not None and curve.knee is not None
    assert curve.ceiling.value == pytest.approx(20e9, rel=0.05)
    # R = 100 / (1.02 - X / Xm) is 98 ns idle, and 1.2 times the lowest of the points where X is 0.185 of Xm.
    idle_ns = 100 / (1.02 - at(5000).throughput.value / 20e9)
    assert curve.knee.load == pytest.approx(20e9 * (1.02 - 100 / (1.2 * idle_ns)), rel=0.1)
    assert curve.best.measured and curve.best.throughput <= curve.knee.load
    finding = found(run, "loaded_latency")
    assert finding is not None and finding.says.startswith("Load latency stays within 20% of idle up to ")
    assert "% of peak (" in finding.says and " Latency: " in finding.says
    headline = finding.evidence["headline"]
    assert headline["value"] == pytest.approx(100 / (1.02 - 0.5), rel=0.1), "R at half of the peak"
    assert "cycles" not in finding.says and found(run, "knee") is None


def test_a_memory_that_never_slows_a_load_is_said_to() -> None:
    flat = (point(x * 1e9, "bytes/s", 100.0, delay=int(60 / x), threads=1) for x in (1, 2, 3, 4, 6, 10))
    finding = found(make_run(result("memory_loaded_latency", "delay", *flat, working_set=SET)), "loaded_latency")
    assert finding is not None and finding.says.startswith("Load latency stays within 20% of idle up to ")


@pytest.mark.parametrize("threads", [1, 3, 15, 63])
@pytest.mark.parametrize("full", [10e9, 40e9, 300e9])
def test_pauses_are_added_until_eight_points_lie_in_the_upper_decade(threads: int, full: float) -> None:
    def rate(delay: float) -> float:
        return ((threads * 128 * 3.5e9 / (delay + 15)) ** -6 + full**-6) ** (-1 / 6)

    delays: list[float] = [0, 20, 40, 80, 150, 300, 700, 2500, 20000]
    delays += more_delays(delays, [rate(delay) for delay in delays])
    rates = [rate(delay) for delay in delays]
    assert len(set(delays)) == len(delays) <= 9 + 5
    assert sum(measured_rate >= 0.1 * max(rates) for measured_rate in rates) >= 7, "what the law says, within one point"


def test_what_noise_alone_could_part_is_no_difference() -> None:
    """Means far apart whose intervals meet: no finding is on stores, pages or lines in flight."""

    def hardly(value: float, operation: str, threads: int = 2, **more: Any) -> Measurement:
        made = moved(value, operation, threads, **more)
        return replace(made, throughput=replace(made.throughput, low=0.3 * value, high=2.5 * value))

    for blur, says in ((hardly, False), (moved, True)):
        reads = [
            blur(10e9, "read", 1, pages="2m"),
            blur(18e9, "read", 2, pages="2m"),
            blur(13e9, "read", 2, pages="4k"),
        ]
        stores = [blur(20e9, "triad", pages="2m"), blur(32e9, "nt_triad", pages="2m")]
        chase = point(1e9 / 150, "operations/s", 150.0, working_set=SET, pages="2m", locality="random")
        run = make_run(
            result("memory_bandwidth", "threads", *reads, *stores, working_set=SET),
            result("memory_latency", "working_set", chase),
        )
        for rule in ("write_allocate", "huge_pages", "lines_in_flight"):
            assert (found(run, rule) is not None) == says, rule
    store = found(run, "write_allocate")
    assert store is not None and "which explains a factor of 1.33" in store.says


# --- each limit from both sides


ARRAYS = {"write": 1, "copy": 2, "scale": 2, "add": 3, "triad": 3}
"""What STREAM counts of each operation; a cached store reads its array first, which makes it one more on the bus."""

DDR4 = {"memory": {"modules": [{"size_bytes": 16 << 30, "configured_mt_s": 3200, "locator": "CPU0_DIMM_A1"}]}}
"""A module of DDR4-3200: 25.6 GB/s."""


def by(way: str, *rows: tuple[Any, float], operation: str = "read", **more: Any) -> list[Measurement]:
    return [moved(rate, operation, 1, **{way: value}, **more) for value, rate in rows]


def stores(size: int = SET, **gains: float) -> list[Measurement]:
    cached = [moved(1e10, name, working_set=size) for name in gains]
    return cached + [moved(1e10 * gain, f"nt_{name}", working_set=size) for name, gain in gains.items()]


def chase(way: str, *rows: tuple[Any, float, float | None]) -> list[Measurement]:
    return [point(rate, "operations/s", ns, **{way: value}) for value, rate, ns in rows]


def invalid(bad: int, points: list[Measurement]) -> list[Measurement]:
    return [
        replace(measurement, validity="invalid") if at == bad else measurement for at, measurement in enumerate(points)
    ]


@pytest.mark.parametrize(
    ("rule", "points", "shown"),
    [
        *(("write_allocate", stores(**{name: 1.3}), {"bus_bytes_s": 1e10 * (count + 1) / count, "ratio": 1.3})
          for name, count in ARRAYS.items()),
        ("write_allocate", stores(copy=1.051), {"operation": "copy", "points": "(0, 1)"}),
        ("write_allocate", stores(copy=1.049), None),
        ("write_allocate", stores(copy=1.25, add=1.5), {"operation": "add"}),
        ("write_allocate", stores(copy=1.5, triad=1.2), {"operation": "copy"}),
        ("write_allocate", stores(1 << 14, copy=1.5), None),
        ("write_allocate", invalid(0, stores(copy=1.5)), None),
        ("huge_pages", by("pages", ("4k", 8e9), ("2m", 12e9)), "8,000 MB/s ±1.0% on 4 KiB pages, 12.0 GB/s ±1.0% on 2"),
        ("huge_pages", by("pages", ("4k", 8e9), ("2m", 9.6e9))
         + by("pages", ("4k", 2e9), ("2m", 3e9), operation="copy"), {"gain": 0.5}),
        ("huge_pages", by("pages", ("4k", 1e10), ("2m", 1.051e10)), {"gain": 0.051}),
        ("huge_pages", by("pages", ("4k", 1e10), ("2m", 1.049e10)), None),
        ("huge_pages", by("pages", ("4k", 8e9), ("1g", 12e9)), None),
        *(("huge_pages", invalid(at, by("pages", ("4k", 8e9), ("2m", 12e9))), None) for at in (0, 1)),
        ("huge_pages", chase("pages", ("4k", 1e7, 100.0), ("2m", 1.0515e7, 95.1)), None),
        ("huge_pages", chase("pages", ("4k", 1e7, 100.0), ("2m", 1.0515e7, 94.9)), {"gain": 0.051}),
        ("wrong_node", by("node", (2, 4e10), (3, 2e10)), "--cpunodebind=2 --membind=2"),
        ("wrong_node", by("node", (2, 4e10), (3, 2e10)), {"far_node": 3, "near_node": 2, "points": "(1, 0)"}),
        ("wrong_node", by("node", (0, 1e10), (1, 0.899e10)), {"loss": 0.101}),
        ("wrong_node", by("node", (0, 1e10), (1, 0.901e10)), None),
        ("wrong_node", by("node", (0, 4e10), (1, 1e10), (2, 2e10)), {"far_node": 1, "near_node": 0, "loss": 0.75}),
        ("wrong_node", by("node", (0, 4e10), (1, 3e10)) + by("node", (0, 4e10), (1, 1e10), stride=1), {"loss": 0.75}),
        ("wrong_node", by("node", (0, 0.0), (1, 0.0)) + by("node", (0, 4e10), (1, 1e10), stride=1), {"loss": 0.75}),
        ("wrong_node", by("node", (0, 1.0), (1, 0.5)), {"loss": 0.5}),
        ("wrong_node", by("node", (0, 4e10)) + by("node", (1, 1e10), stride=1), None),
        ("wrong_node", by("node", (0, 0.0), (1, 0.0)), None),
        ("wrong_node", chase("node", (0, 2e7, 40.0), (1, 1e7, 80.0)), "(80 vs 40 ns)"),
        ("wrong_node", chase("node", (0, 2e7, None), (1, 1e7, None)), "(10 vs 20 M accesses/s)"),
        ("wrong_node", [point(3e7 - 1e7 * at, "bytes/s", 80.0, node=at) for at in (1, 2)], "(10 vs 20 MB/s)"),
        ("practical_bandwidth", by("node", (0, 0.0)), None),
        ("practical_bandwidth", by("node", (0, 1.0)), {"best_bytes_s": 1.0}),
        ("practical_bandwidth", by("node", (0, 23e9)), "Look for empty channels"),
        ("practical_bandwidth", by("node", (0, 23.1e9)), "Nothing to do."),
        ("practical_bandwidth", by("node", (0, 23.04e9)), {"share": 0.9}),
    ],
)  # fmt: skip
def test_memory_rule_has_its_limit(rule: str, points: list[Measurement], shown: Any) -> None:
    kernel = "memory_latency" if points[0].throughput.unit == "operations/s" else "memory_bandwidth"
    finding = found(make_run(result(kernel, "threads", *points, working_set=SET), machine=DDR4), rule)
    assert (finding is not None) == (shown is not None)
    if finding is not None and isinstance(shown, str):
        assert shown in finding.says + str(finding.advice)
    elif finding is not None:
        known = {**finding.evidence, "points": str(finding.points)}
        assert {name: known[name] for name in shown} == pytest.approx(shown)


# --- caches and the TLB, by chases of planned steps


def chased(
    sizes: list[float], steps: dict[float, float], pages: str = "2m", stride: int = 64, **more: Any
) -> ExperimentResult:
    """A chase of 8 ns that takes this many times longer beyond these sizes, half of it (by logarithm) at them."""
    points = []
    for size in sizes:
        ns = 8.0 * math.prod(factor ** (0.5 if size == at else float(size > at)) for at, factor in steps.items())
        given = {"pages": pages, "stride": stride, "locality": "random", "working_set": size, **more}
        points.append(point(1e9 / ns, "operations/s", ns, **given))
    return result("memory_latency", "working_set", *points, name=f"memory.{pages}.{len(sizes)}")


def around(at: float, below: int = 6, above: int = 6) -> list[float]:
    """Sizes in steps of half an octave."""
    return [at * 2.0 ** (step / 2) for step in range(-below, above + 1)]


STEP = chased(around(MIB), {MIB: 16.0})
HUGE = 1 << 40


@pytest.mark.parametrize(
    ("claimed", "chases", "says"),
    [
        (2 * MIB, [STEP], "Caches end at about 1 MiB"),
        (2 * MIB + 1, [STEP], "behaves as if it had about 1 MiB (latency 8.0"),
        (None, [STEP], None),
        (MIB, [chased([MIB, 2 * MIB], {}), STEP], "Caches end at about 1 MiB"),
        (MIB, [STEP, chased([MIB, 2 * MIB], {})], "Caches end at about 1 MiB"),
        (MIB, [chased(around(MIB, 3, 2), {MIB: 16.0})], "1 MiB"),  # Six sizes, up to twice the cache.
        (MIB, [chased(around(MIB, 2, 2), {MIB: 16.0})], None),
        (MIB, [chased(around(MIB, 6, 1), {MIB: 16.0})], None),
        (MIB, [chased(around(MIB), {MIB: 16.0}, stride=256)], "1 MiB"),
        (MIB, [chased(around(MIB), {MIB: 16.0}, stride=257)], None),
        (MIB, [chased(around(MIB), {MIB: 16.0}, "4k")], None),
        (MIB, [chased(around(MIB), {MIB: 16.0}, locality="page")], None),
        (HUGE, [chased(around(MIB, 12, 14), {MIB / 16: 8.0, MIB: 8.0})], "Smaller caches end at about 64 KiB (8.0"),
        (HUGE, [chased(around(MIB, 12, 14), {MIB / 16: 8.0, MIB: 8.0, 16.0 * MIB: 8.0})], "), 1 MiB (64"),
    ],
)
def test_caches_end_where_a_chase_slows(claimed: int | None, chases: list[ExperimentResult], says: Any) -> None:
    cpu = {"threads": 8, "caches": [{"level": 3, "type": "unified", "size_bytes": claimed}]}
    finding = found(make_run(*chases, machine={"cpu": cpu}), "claimed_cache")
    assert (finding and says in finding.says) == (says and True)
    assert finding is None or ("Smaller caches" in finding.says) == (claimed == HUGE)


PAGE, ENTRIES = 4096.0, 1024
SMALL, LARGE = 64 * PAGE, 16384 * PAGE


@pytest.mark.parametrize(
    ("sizes", "paged", "dense", "given", "pages"),
    [
        (around(8192 * PAGE), {8192 * PAGE: 4.0}, {}, {}, [8192]),
        (around(8193 * PAGE), {8193 * PAGE: 4.0}, {}, {}, []),
        (around(SMALL, 6, 22), {SMALL: 4.0, LARGE: 4.0}, {}, {}, [64]),
        (around(SMALL, 6, 14), {1024 * PAGE: 4.0}, {SMALL: 4.0}, {}, [1024]),  # A cache ends at the smaller one.
        (around(SMALL), {}, {SMALL: 4.0}, {}, []),
        (around(SMALL), {SMALL: 1.6}, {}, {}, [64]),
        (around(SMALL, 3, 2), {SMALL: 4.0}, {}, {}, [64]),
        (around(SMALL, 2, 2), {SMALL: 4.0}, {}, {}, []),
        *((around(SMALL), {SMALL: 4.0}, {}, {which: given}, [64] if given == {"stride": 256} else [])
          for which, given in (("dense", {"stride": 256}), ("dense", {"stride": 257}), ("dense", {"pages": "1g"}),
                               ("paged", {"stride": 4095}), ("paged", {"pages": "2m"}), ("paged", {"working_set": 0}),
                               ("paged", {"locality": "pages"}))),
    ],
)  # fmt: skip
def test_tlb_ends_where_only_pages_slow(sizes: list[float], paged: Any, dense: Any, given: Any, pages: Any) -> None:
    by_page = chased(sizes, {**dense, **paged}, **{"pages": "4k", "stride": 4096, **given.get("paged", {})})
    finding = found(make_run(by_page, chased(sizes, dense, **given.get("dense", {}))), "tlb_reach")
    assert (finding.evidence["pages"] if finding else []) == pytest.approx(pages)
    assert finding is None or ("From 16.0 k pages on, the page tables" in finding.says) == (LARGE in paged)
    if finding is not None and LARGE not in paged and not dense:
        (factor,) = paged.values()
        assert (finding.evidence["huge_ns"], finding.evidence["beyond_ns"]) == pytest.approx((8.0, 8.0 * factor))


@pytest.mark.parametrize(("lines", "degraded", "named"), [(6, 0, True), (5, 0, False), (13, 13, True), (13, 14, True)])
def test_tlb_needs_six_huge_page_sizes(lines: int, degraded: int, named: bool) -> None:
    """Where most of the 26 points are degraded, it says so."""
    both = (chased(around(SMALL), {SMALL: 4.0}, "4k", 4096), chased(around(SMALL)[-lines:], {}))
    left = iter(["degraded"] * degraded + ["valid"] * 26)
    both_judged = [
        replace(experiment, points=tuple(replace(at, validity=next(left)) for at in experiment.points))
        for experiment in both
    ]
    finding = found(make_run(*both_judged), "tlb_reach")
    assert (finding and "most points are degraded" in finding.says) == (degraded == 14 if named else None)


def test_steps_near_each_other_are_merged() -> None:
    """Steps within a factor of 2.5 of the first are merged to their geometric mean."""
    for counts, merged in (
        *(([100, 250], [25000**0.5]), ([100, 251], [100, 251]), ([100, 400, 900], [100, 600]), ([225, 100], [150])),
        *(([10, 100, 225], [10, 150]), ([4, 8, 16], [32**0.5, 16]), ([], [])),
    ):
        assert _apart(counts) == pytest.approx(merged)


def test_footprint_is_line_for_each_element() -> None:
    """Whole pages leave the other sets of the cache unused. An edge is known to an eighth of its power of two."""
    used = {stride: _footprint(41600.0, stride) for stride in (4096, 8192, 4160, 128)}
    assert used == {4096: 41600.0, 8192: 41600.0, 4160: 640.0, 128: 20800.0}
    assert [_round(size) for size in (9, 17, 1100, 4096, 5000)] == [9, 16, 1152, 4096, 5120]


def test_latency_between_sizes_is_by_logarithms() -> None:
    chase = [(1000.0, 2.0), (4000.0, 8.0), (16000.0, 2.0)]
    for size, ns in ((500.0, 2.0), (1000.0, 2.0), (2000.0, 4.0), (4000.0, 8.0), (8000.0, 4.0)):
        assert _at(chase, size) == pytest.approx(ns)
    assert _at(chase, 16001.0) is None and _at([(1000.0, 2.0), (1000.0, 8.0), (2000.0, 9.0)], 1000.0) == 2.0
