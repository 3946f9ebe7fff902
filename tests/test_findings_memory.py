"""Rules on memory and arithmetic: what is planted is found, and a clean machine is not accused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.curves.loaded import more_delays
from hwdyno.findings import explain
from hwdyno.machine import Machine
from hwdyno.resources import ceilings_of, why_no_ceiling
from hwdyno.sweep import octaves
from hwdyno.words import Concurrency, ExperimentResult, Finding, Latency, Measurement, Run, Stream, Value
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


def run_of(*results: ExperimentResult, machine: dict[str, Any] | None = None) -> Run:
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
    return next((one for one in run.findings if one.rule == rule), None)


def moved(value: float, operation: str, threads: int = 2, **more: Any) -> Measurement:
    return point(value, operation=operation, threads=threads, **more)


def test_the_practical_ceiling_stands_where_theory_is_unknown() -> None:
    run = run_of(result("memory_bandwidth", "threads", moved(30e9, "read"), moved(45e9, "nt_write"), working_set=SET))
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
    (ceiling,) = ceilings_of(Machine.of_survey(machine), "memory")
    assert ceiling.value == 4800e6 * 4 * 8 and "4800 MT/s x 4 populated channels x 8 B" in ceiling.formula
    assert why_no_ceiling(Machine.of_survey(machine), "memory") == ()
    assert "no DIMM table" in why_no_ceiling(Machine(), "memory")[0]
    run = run_of(
        replace(result("memory_bandwidth", "threads", moved(120e9, "read"), working_set=SET), ceilings=(ceiling,)),
        machine=machine,
    )
    finding = found(run, "practical_bandwidth")
    assert finding is not None and finding.evidence["share"] == pytest.approx(120e9 / 153.6e9)
    above = run_of(
        replace(result("memory_bandwidth", "threads", moved(200e9, "read"), working_set=SET), ceilings=(ceiling,)),
        machine=machine,
    )
    assert above.experiments[0].points[0].validity == "invalid"
    cached = run_of(
        replace(result("memory_bandwidth", "threads", moved(200e9, "read"), working_set=32768), ceilings=(ceiling,)),
        machine=machine,
    )
    assert cached.experiments[0].points[0].validity == "valid"


@pytest.mark.parametrize(("ratio", "seen"), [(1.33, True), (1.0, False)])
def test_write_allocate_is_seen_by_streaming_stores(ratio: float, seen: bool) -> None:
    points = moved(30e9, "triad"), moved(30e9 * ratio, "nt_triad"), moved(34e9, "read")
    run = run_of(result("memory_bandwidth", "threads", *points, working_set=SET))
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
    finding = found(run_of(result("memory_latency", "working_set", *points)), "huge_pages")
    assert (finding is not None) == paid
    assert finding is None or "33%" in finding.says


@pytest.mark.parametrize(("all_threads", "seen"), [(34e9, True), (17.5e9, False)])
def test_one_thread_cannot_fill_the_channel(all_threads: float, seen: bool) -> None:
    reads = result("memory_bandwidth", "threads", moved(17e9, "read", 1), moved(all_threads, "read"), working_set=SET)
    idle = point(1e7, "operations/s", 100.0, working_set=SET, pages="2m", locality="random")
    finding = found(run_of(reads, result("memory_latency", "working_set", idle)), "lines_in_flight")
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
    finding = found(run_of(result("memory_latency", "working_set", *points), machine={"cpu": cpu}), "claimed_cache")
    assert finding is not None and ("behaves as if it had" in finding.says) != honest
    assert 0.5 < finding.evidence["found_bytes"][-1] / (8 * MIB) < 2.5


@pytest.mark.parametrize(("far", "seen"), [(20e9, True), (33e9, False)])
def test_a_thread_on_the_wrong_node(far: float, seen: bool) -> None:
    points = moved(34e9, "read", node=0), moved(far, "read", node=1)
    run = run_of(result("memory_bandwidth", "threads", *points, working_set=SET))
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
    """Of 3 repeats, 2 took AVX-512 and 1 AVX2: 13.3 FLOP per instruction are of neither."""
    mixed = flops(100e9, "avx512", threads=2)
    mixed = replace(
        mixed,
        parameters={**mixed.parameters, "isa": "auto"},
        details={**mixed.details, "isa": "avx2", "flop_per_instruction": 40 / 3, "instructions_per_cycle": 1.4},
    )
    pure = flops(110e9, "avx512")
    pure = replace(pure, parameters={**pure.parameters, "isa": "auto"})
    for order in ((mixed, pure), (pure, mixed)):
        run = run_of(result("compute_flops", "threads", *order))
        by_cores = {one.metric: one.value for one in run.experiments[0].ceilings if one.kind == "physical"}
        assert by_cores["flop_s/fma/double/auto/2"] == pytest.approx(2 * 3.7e9 * 32)
        assert by_cores["flop_s/fma/double/auto/1"] == pytest.approx(3.7e9 * 32)


def test_the_peak_has_its_formula_and_nothing_exceeds_it() -> None:
    run = run_of(result("compute_flops", "threads", flops(116e9, "avx512"), flops(226e9, "avx512", threads=2)))
    finding = found(run, "peak_share")
    assert finding is not None and "2 cores x 3.70 GHz x 32 FLOP per cycle (2 AVX-512 units x 16 FLOP" in finding.says
    assert finding.evidence["share"] == pytest.approx(226e9 / (2 * 3.7e9 * 32))
    over = run_of(result("compute_flops", "threads", flops(130e9, "avx512")))
    assert over.experiments[0].points[0].validity == "invalid"


def test_more_threads_than_cores_have_the_cores_ceiling() -> None:
    run = run_of(result("compute_flops", "threads", flops(230e9, "avx512", threads=4), flops(116e9, "avx512")))
    values = sorted(one.value for one in run.experiments[0].ceilings)
    assert values == pytest.approx([3.7e9 * 32, 2 * 3.7e9 * 32])
    assert all(one.validity == "valid" for one in run.experiments[0].points)


@pytest.mark.parametrize(("cycle", "noisy"), [(24.0, True), (31.5, False)])
def test_a_noisy_neighbour_is_named(cycle: float, noisy: bool) -> None:
    run = run_of(result("compute_flops", "threads", flops(80e9, "avx512", flop_per_cycle=cycle)))
    assert (found(run, "noisy_neighbour") is not None) == noisy
    assert (run.experiments[0].points[0].validity == "degraded") == noisy


@pytest.mark.parametrize(("clock", "falls"), [(3.0e9, True), (3.68e9, False)])
def test_a_clock_that_falls_under_wide_units(clock: float, falls: bool) -> None:
    run = run_of(result("compute_flops", "threads", flops(14e9, "scalar"), flops(90e9, "avx512", clock)))
    assert (found(run, "wide_clock_drop") is not None) == falls


def test_a_clock_read_beside_others_at_work_is_not_called_a_drop() -> None:
    disturbed = flops(30e9, "avx512", 1.5e9, flop_per_cycle=20.0)
    run = run_of(result("compute_flops", "threads", flops(14e9, "scalar"), disturbed))
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
    finding = found(run_of(peak, solved), "linpack_share")
    assert finding is not None and "openblas" in finding.says and "n = 5000" in finding.says
    assert finding.evidence["measured_peak_share"] == pytest.approx(130 / 226)
    assert finding.evidence["theory_share"] == pytest.approx(130e9 / (2 * 3.7e9 * 32))
    assert finding.evidence["average_flop_s"] == pytest.approx(115e9)


def test_linpack_is_held_against_what_fewer_threads_reached_where_others_were_disturbed() -> None:
    """Other work took the processors while two threads ran; one thread alone reached four times as much."""
    loops = result("compute_flops", "threads", flops(57e9, "avx512", threads=1), flops(14e9, "avx512", threads=2))
    solved = point(19e9, "FLOP/s", operation="lu", n=5000, threads=2, details={"library": "openblas"})
    finding = found(run_of(loops, result("linpack", "n", solved)), "linpack_share")
    assert finding is not None and "of the measured FMA peak" in finding.says and "disturbed" not in finding.says
    assert finding.evidence["measured_peak_share"] == pytest.approx(19 / 57)
    alone = result("compute_flops", "threads", flops(10e9, "avx512", threads=1))
    unlike = found(run_of(alone, result("linpack", "n", solved)), "linpack_share")
    assert unlike is not None and unlike.evidence["measured_peak_share"] is None


def test_wrong_results_make_a_point_invalid() -> None:
    run = run_of(result("compute_flops", "threads", flops(100e9, "avx512", verification="failed")))
    assert run.experiments[0].points[0].validity == "invalid"
    assert run.experiments[0].points[0].why == ("wrong_result",)
    finding = found(run, "wrong_result")
    assert finding is not None and (finding.severity, finding.points) == ("invalid", (0,))
    assert "verification after the pass failed" in finding.says
    sound = run_of(result("compute_flops", "threads", flops(100e9, "avx512", verification="passed")))
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
    assert found(run_of(result("memory_loaded_latency", "delay", loaded, working_set=SET)), "little") is None


def test_loaded_latency_is_read_off_by_bandwidth_and_not_by_the_pause() -> None:
    def at(delay: float) -> Measurement:
        offered = 128 * 3.7e9 / (delay + 15)
        value = (offered**-4 + 20e9**-4) ** -0.25
        return point(value, "bytes/s", 100 / (1.02 - value / 20e9), delay=delay, threads=1)

    delays = (0, 2, 8, 15, 50, 100, 200, 500, 1000, 2500, 5000)
    run = run_of(result("memory_loaded_latency", "delay", *(at(d) for d in delays), working_set=SET))
    (curve,) = run.experiments[0].curves
    assert curve.state == "knee" and curve.ceiling is not None and curve.best is not None and curve.knee is not None
    assert curve.ceiling.value == pytest.approx(20e9, rel=0.05)
    # R = 100 / (1.02 - X / Xm) is 98 ns idle, and 1.2 times the lowest of the points where X is 0.185 of Xm.
    idle_ns = 100 / (1.02 - at(5000).throughput.value / 20e9)
    assert curve.knee.load == pytest.approx(20e9 * (1.02 - 100 / (1.2 * idle_ns)), rel=0.1)
    assert curve.best.measured and curve.best.throughput <= curve.knee.load
    finding = found(run, "loaded_latency")
    assert finding is not None and finding.says.startswith("Up to ")
    assert "GB/s (" in finding.says and "% of peak) a load takes under 1.2 times its idle latency" in finding.says
    assert "cycles" not in finding.says and found(run, "knee") is None


def test_a_memory_that_never_slows_a_load_is_said_to() -> None:
    flat = (point(x * 1e9, "bytes/s", 100.0, delay=int(60 / x), threads=1) for x in (1, 2, 3, 4, 6, 10))
    finding = found(run_of(result("memory_loaded_latency", "delay", *flat, working_set=SET)), "loaded_latency")
    assert finding is not None and finding.says.startswith("At any bandwidth that was reached a load takes under 1.2")


@pytest.mark.parametrize("threads", [1, 3, 15, 63])
@pytest.mark.parametrize("full", [10e9, 40e9, 300e9])
def test_pauses_are_added_until_eight_points_lie_in_the_upper_decade(threads: int, full: float) -> None:
    def rate(delay: float) -> float:
        return ((threads * 128 * 3.5e9 / (delay + 15)) ** -6 + full**-6) ** (-1 / 6)

    delays: list[float] = [0, 20, 40, 80, 150, 300, 700, 2500, 20000]
    delays += more_delays(delays, [rate(delay) for delay in delays])
    rates = [rate(delay) for delay in delays]
    assert len(set(delays)) == len(delays) <= 9 + 5
    assert sum(one >= 0.1 * max(rates) for one in rates) >= 7, "what the law says, within one point"


def test_what_noise_alone_could_part_is_no_difference() -> None:
    """Means far apart whose intervals meet: nothing is said of stores, pages or lines in flight."""

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
        run = run_of(
            result("memory_bandwidth", "threads", *reads, *stores, working_set=SET),
            result("memory_latency", "working_set", chase),
        )
        for rule in ("write_allocate", "huge_pages", "lines_in_flight"):
            assert (found(run, rule) is not None) == says, rule
    store = found(run, "write_allocate")
    assert store is not None and "which explains a factor of 1.33" in store.says
