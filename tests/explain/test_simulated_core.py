"""Rules on memory and arithmetic, on machines drawn at random: what is planted is found, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.analysis.resources import list_ceilings
from hwdyno.explain.findings import explain
from hwdyno.measure.measurement import make_measurement
from hwdyno.measure.plan import build
from hwdyno.measure.sweep import Sweep, octaves
from hwdyno.model.words import ExperimentResult, Finding, Parameters, Run
from made_experiment import ON_ONE_HOST, made_experiment
from simulation.core import Core
from simulation.host import SimulatedHost, SimulatedMachine

SEEDS = range(sample(2, 12))
SET = 512 << 20
TROUBLE = {"noisy_neighbour", "wrong_result", "throttled", "not_steady", "little", "physical_ceiling", "wrong_node"}
OPERATIONS: list[Parameters] = [
    {"operation": operation, "threads": threads}
    for operation in ("read", "write", "nt_write", "copy", "nt_copy", "triad", "nt_triad")
    for threads in (1, 2)
]
CHASES: list[Parameters] = Sweep(working_set=octaves(8 << 10, 256 << 20, 8), pages="2m", stride=64).points()
PAGED: list[Parameters] = Sweep(working_set=octaves(64 << 10, 256 << 20, 8), pages="4k", stride=4160).points()
ISAS: list[Parameters] = [
    {"operation": "fma", "precision": "double", "isa": isa, "threads": 1} for isa in ("scalar", "sse", "avx2")
]
ON_ZEROS: list[Parameters] = [{**isa, "operands": "zero"} for isa in ISAS]


def measured(core: Core, kernel: str, load: str, points: Sequence[Parameters], **fixed: Any) -> ExperimentResult:
    """An experiment on a fresh host with this core, each point read three times."""
    machine = SimulatedMachine(seed=7, threads=core.threads, core=core)
    host = SimulatedHost(machine)
    parameters = {"runtime": 0.3, "interval_s": 0.015, **fixed}
    resource = kernel.partition("_")[0]
    made = [
        make_measurement(point, [host.run(kernel, {**parameters, **point}) for _ in range(3)], host.kernels()[kernel])
        for point in points
    ]
    ceilings = list_ceilings(machine.survey(), resource)
    return made_experiment(
        f"{resource}.test", resource, "?", load, kernel, tuple(made), fixed=parameters, ceilings=tuple(ceilings)
    )


def explained(core: Core, *results: ExperimentResult) -> dict[str, Finding]:
    machine = SimulatedMachine(seed=7, threads=core.threads, core=core)
    return {
        finding.rule: finding
        for finding in explain(Run("r", "", None, (machine.survey(),), "quick", "", results)).findings
    }


def bandwidths(core: Core, points: Sequence[Parameters] = OPERATIONS, **fixed: Any) -> ExperimentResult:
    return measured(core, "memory_bandwidth", "threads", points, **{"working_set": SET, **fixed})


def test_catalogue_is_queried() -> None:
    host = SimulatedHost()
    for experiment in ON_ONE_HOST:
        if experiment.kernel in {"memory_bandwidth", "memory_latency", "memory_loaded_latency", "compute_flops"}:
            (found,) = build([(experiment, {})], host, profile="quick").experiments
            reading = host.run(experiment.kernel, {**found.fixed, **found.points[0]})
            assert reading["streams"][0]["operations"] > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clean_machine_is_not_accused(seed: int) -> None:
    core = Core.random(seed)
    loaded = measured(
        core, "memory_loaded_latency", "delay",
        [{"delay": delay} for delay in (0, 50, 200, 500, 1000, 2500, 9000)],
        working_set=SET, block=256, threads=core.threads, operation="read",
    )  # fmt: skip
    found = explained(
        core,
        bandwidths(core),
        measured(core, "memory_latency", "working_set", [*CHASES, *PAGED], locality="random"),
        measured(core, "compute_flops", "threads", [*ISAS, *ON_ZEROS]),
        loaded,
    )
    planted = {"write_allocate", "huge_pages", "lines_in_flight", "tlb_reach", "wide_clock_drop", "operands_cost"}
    assert not set(found) & (TROUBLE | planted), {rule: found[rule].says for rule in set(found) & (TROUBLE | planted)}
    assert "behaves as if it had" not in found["claimed_cache"].says
    assert "unknown (no DIMM table here)" in found["practical_bandwidth"].says
    assert 0.97 < found["peak_share"].evidence["share"] <= 1.01


@pytest.mark.parametrize("seed", SEEDS)
def test_practical_ceiling_is_beside_theoretical_one(seed: int) -> None:
    speed, channels = (3200, 4800, 6400)[seed % 3], 1 + seed % 4
    theory = speed * 1e6 * channels * 8
    core = Core.random(seed, modules=((speed, channels),), channels_bytes_s=0.8 * theory, thread_bytes_s=0.78 * theory)
    finding = explained(core, bandwidths(core))["practical_bandwidth"]
    assert finding.evidence["theory_bytes_s"] == pytest.approx(theory)
    assert finding.evidence["share"] == pytest.approx(0.8, abs=0.03)
    assert f"{channels} populated channel" in finding.says


@pytest.mark.parametrize("seed", SEEDS)
def test_write_allocate_has_its_factor(seed: int) -> None:
    findings = explained(Core.random(seed, write_allocate=True), bandwidths(Core.random(seed, write_allocate=True)))
    ratio = findings["write_allocate"].evidence["ratio"]
    assert ratio == pytest.approx(findings["write_allocate"].evidence["factor"], rel=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_huge_pages_pay_is_found(seed: int) -> None:
    core = Core.random(seed, huge_gain=0.1 + 0.02 * (seed % 8))
    findings = explained(core, bandwidths(core, [{"operation": "read", "pages": p} for p in ("4k", "2m")], threads=2))
    assert findings["huge_pages"].evidence["gain"] == pytest.approx(1 / (1 - core.huge_gain) - 1, rel=0.25)


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_in_flight_are_counted(seed: int) -> None:
    """A core that keeps this many lines in flight reads this much: Little's law on loads."""
    base = Core.random(seed)
    lines = 10 + seed
    thread_bytes_s = lines * 64 / (base.memory_ns * 1e-9)
    core = Core.random(seed, thread_bytes_s=thread_bytes_s, channels_bytes_s=1.9 * thread_bytes_s, threads=4)
    chase = measured(
        core, "memory_latency", "working_set", [{"working_set": 1 << 30, "pages": "2m"}], locality="random"
    )
    reads: list[Parameters] = [{"operation": "read", "threads": threads} for threads in (1, 2, 4)]
    findings = explained(core, bandwidths(core, reads), chase)
    assert findings["lines_in_flight"].evidence["lines_in_flight"] == pytest.approx(lines, rel=0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_stop_at_full_channels(seed: int) -> None:
    full = (2, 4)[seed % 2]
    core = Core.random(seed, threads=16, thread_bytes_s=12e9, channels_bytes_s=12e9 * full, p=30.0)
    reads: list[Parameters] = [{"operation": "read", "threads": threads} for threads in (1, 2, 4, 8, 16)]
    findings = explained(core, bandwidths(core, reads, working_set=16 << 30))
    assert findings["knee"].evidence["best_load"] == pytest.approx(full, rel=0.15), findings["knee"].says
    assert findings["knee"].evidence["ceiling"] == pytest.approx(core.channels_bytes_s, rel=0.07)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cache_that_works_is_found_whatever_is_claimed(seed: int) -> None:
    core = Core.random(seed, claimed_bytes=260 << 20)
    finding = explained(core, measured(core, "memory_latency", "working_set", CHASES, locality="random"))[
        "claimed_cache"
    ]
    assert "behaves as if it had" in finding.says
    assert len(finding.evidence["found_bytes"]) == 3, finding.says
    for edge, size in zip(finding.evidence["found_bytes"], core.caches_bytes, strict=True):
        assert 0.9 < edge / size < 2.2, finding.says


@pytest.mark.parametrize("seed", SEEDS)
def test_the_reach_of_the_tlb_is_told_apart_from_the_caches(seed: int) -> None:
    core = Core.random(seed, tlb_pages=(1024, 1536, 2048)[seed % 3], walk_ns=20.0 + 2 * seed)
    chase = measured(core, "memory_latency", "working_set", [*CHASES, *PAGED], locality="random")
    finding = explained(core, chase)["tlb_reach"]
    assert len(finding.evidence["pages"]) == 1, finding.says
    assert 0.9 < finding.evidence["pages"][0] / core.tlb_pages < 1.8, finding.says
    assert finding.evidence["beyond_ns"] - finding.evidence["huge_ns"] > 0.5 * core.walk_ns
    assert "tlb_reach" not in explained(
        core, measured(core, "memory_latency", "working_set", CHASES, locality="random")
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_thread_on_wrong_node_is_named(seed: int) -> None:
    core = Core.random(seed, far_loss=0.15 + 0.03 * (seed % 8))
    nodes: list[Parameters] = [{"operation": "read", "node": node} for node in (0, 1)]
    finding = explained(core, bandwidths(core, nodes, threads=2))["wrong_node"]
    assert finding.evidence["far_node"] == 1 and finding.evidence["loss"] == pytest.approx(core.far_loss, abs=0.04)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clock_that_falls_under_wide_units_is_named(seed: int) -> None:
    core = Core.random(seed, wide_drop=0.06 + 0.02 * (seed % 8))
    findings = explained(core, measured(core, "compute_flops", "threads", ISAS))
    assert findings["wide_clock_drop"].evidence["drop"] == pytest.approx(core.wide_drop, abs=0.01)
    assert "noisy_neighbour" not in findings and "throttled" not in findings


@pytest.mark.parametrize("seed", SEEDS)
def test_cost_of_numbers_is_reported(seed: int) -> None:
    core = Core.random(seed, data_drop=0.08 + 0.02 * (seed % 8))
    findings = explained(core, measured(core, "compute_flops", "threads", [*ISAS, *ON_ZEROS]))
    assert findings["operands_cost"].evidence["cost"] == pytest.approx(core.data_drop, abs=0.015)
    # The clock under real numbers is reported; that under zeros does not hide it.
    assert findings["wide_clock_drop"].evidence["drop"] == pytest.approx(core.data_drop, abs=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_noisy_neighbour_is_named_and_degrades_its_points(seed: int) -> None:
    core = Core.random(seed, neighbour=0.15 + 0.05 * (seed % 6))
    result = measured(core, "compute_flops", "threads", ISAS)
    finding = explained(core, result)["noisy_neighbour"]
    assert 1 - finding.evidence["share"] == pytest.approx(core.neighbour, abs=0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_processor_exceeds_its_peak(seed: int) -> None:
    """Where the system claims fewer cores than work, the peak is wrong: the point is invalid, and no share is given."""
    core = Core.random(seed)
    loops: list[Parameters] = [{"operation": "fma", "precision": "double", "isa": "auto", "threads": n} for n in (1, 2)]
    result = measured(core, "compute_flops", "threads", loops)
    machine = SimulatedMachine(seed=7, threads=core.threads, core=core).survey()
    for cores, above in ((core.threads, False), (1, True)):
        claimed = replace(machine, cpu=replace(machine.cpu, cores=cores))
        run = explain(Run("r", "", None, (claimed,), "quick", "", (result,)))
        findings = {finding.rule: finding for finding in run.findings}
        assert ("physical_ceiling" in findings) == above
        assert [point.validity for point in run.experiments[0].points] == ["valid", "invalid" if above else "valid"]
        assert 0.9 < findings["peak_share"].evidence["share"] <= 1.05
        shares = re.findall(r"reaches (\d+)% of its FP64 peak", findings["peak_share"].says)
        assert all(int(share) <= 100 for share in shares)
        assert bool(shares) != ("reaches its FP64 peak" in findings["peak_share"].says)
        assert bool(shares) == (findings["peak_share"].evidence["share"] <= 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_throttling_in_mid_run_is_named_without_a_drive(seed: int) -> None:
    core = Core.random(seed, throttle_at=0.4 + 0.02 * (seed % 6), throttle_to=0.5 + 0.03 * (seed % 8))
    finding = explained(core, measured(core, "compute_flops", "threads", ISAS))["throttled"]
    assert finding.evidence["drop"] == pytest.approx(1 - core.throttle_to, abs=0.06)
    assert "drive" not in finding.says and "clock" in finding.advice


@pytest.mark.parametrize("seed", SEEDS)
def test_the_knee_of_loaded_latency_is_where_the_channels_are_full(seed: int) -> None:
    base = Core.random(seed)
    core = Core.random(seed, thread_bytes_s=base.channels_bytes_s, p=10.0)
    delays: list[Parameters] = [
        {"delay": delay} for delay in (0, 2, 8, 15, 50, 100, 200, 300, 500, 700, 1000, 1700, 2500, 5000, 9000, 20000)
    ]
    fixed = {"working_set": SET, "block": 4096, "threads": core.threads, "operation": "read"}
    result = measured(core, "memory_loaded_latency", "delay", delays, **fixed)
    machine = SimulatedMachine(seed=7, threads=core.threads, core=core)
    run = explain(Run("r", "", None, (machine.survey(),), "quick", "", (result,)))
    (curve,) = run.experiments[0].curves
    assert curve.state == "knee" and curve.ceiling is not None
    # Threads too few to fill the channels offer 128 bytes in 15 cycles at most.
    offered = core.threads * 128 * core.clock_hz / 15
    reached = (offered**-core.p + core.channels_bytes_s**-core.p) ** (-1 / core.p)
    assert curve.ceiling.value == pytest.approx(reached, rel=0.08)
    assert not {finding.rule for finding in run.findings} & TROUBLE
