"""Caches that answer for the device: each is planted on random machines and named, and clean ones are not accused."""

from __future__ import annotations

import random
import shlex
from dataclasses import replace

import pytest
from hwdyno.cli.main import main
from hwdyno.findings import explain
from hwdyno.words import Parameters, Run
from simulated_runs import FIXED, MACHINES, at, experiment, rules_of, run_of, the
from simulation.host import SimulatedMachine

BUFFERED: Parameters = {**FIXED, "direct": False, "ioengine": "psync"}
CACHES = {"page_cache", "cached_writes", "cache_hidden", "host_cache"}
SEQUENTIAL: tuple[Parameters, ...] = tuple(at(rw=rw, bs=1 << 20, iodepth=8) for rw in ("read", "write"))


def point_of(run: Run, rule: str) -> tuple[str, str]:
    """The rule's severity and the validity of its only point."""
    (point,) = run.experiments[0].points
    assert (rule in point.why) == (the(run, rule).severity != "info")
    return the(run, rule).severity, point.validity


def buffered(machine: SimulatedMachine, rw: str = "randread", bs: int = 4096) -> Run:
    return explain(run_of(machine, experiment(machine, "iodepth", [at(rw=rw, bs=bs)], BUFFERED, repeats=4)))


# --- buffered runs


@pytest.mark.parametrize(("share", "severity", "validity"), [(0.9, "warning", "degraded"), (0.06, "info", "valid")])
def test_a_buffered_run_from_the_cache_is_degraded(share: float, severity: str, validity: str) -> None:
    for seed in MACHINES[:50]:
        run = buffered(SimulatedMachine.random(seed, cache_share=share, cached_before=share))
        assert point_of(run, "page_cache") == (severity, validity), seed
    assert f"{share:.0%} of the region was cached before" in the(run, "page_cache").says.replace("6.0%", "6%")


def test_a_buffered_run_that_the_device_answered_is_valid() -> None:
    for seed in MACHINES[:50]:
        run = buffered(SimulatedMachine.random(seed))
        assert not rules_of(run.findings) & CACHES
        assert run.experiments[0].points[0].validity == "valid", seed


def test_buffered_writes_that_stay_in_the_cache_are_named() -> None:
    for seed in MACHINES[:50]:
        assert point_of(buffered(SimulatedMachine.random(seed), "randwrite"), "page_cache") == ("warning", "degraded")


def test_cached_writes_beside_another_writer_are_named() -> None:
    for seed in MACHINES[:50]:
        machine = SimulatedMachine.random(seed)
        busy = replace(machine, others_write_bytes_s=3 * machine.operations_s * 4096)
        run = buffered(busy, "randwrite")
        assert point_of(run, "cached_writes") == ("warning", "degraded")
        assert "30% not yet written" in the(run, "cached_writes").says
        assert not rules_of(buffered(replace(busy, others_write_bytes_s=0.0), "randwrite").findings) & {"cached_writes"}


def test_direct_or_durable_writes_beside_another_writer_are_not() -> None:
    for fixed in (FIXED, {**BUFFERED, "sync": "dsync"}):
        machine = SimulatedMachine(others_write_bytes_s=5e9)
        run = explain(run_of(machine, experiment(machine, "iodepth", [at(rw="randwrite")], fixed)))
        assert not rules_of(run.findings) & CACHES


# --- counters that a container hides


def test_where_no_counter_shows_the_device_cachestat_does() -> None:
    for seed in MACHINES[:50]:
        share = random.Random(seed).uniform(0.15, 1.0)
        hidden = SimulatedMachine.random(seed, counters_hidden=True)
        cached = replace(hidden, cached_before=share, cache_share=share)
        assert point_of(buffered(cached), "cache_hidden") == ("warning", "degraded")
        assert point_of(buffered(hidden, "randwrite"), "cache_hidden") == ("warning", "degraded")
        for run in (buffered(hidden), buffered(replace(cached, counters_hidden=False))):
            assert "cache_hidden" not in rules_of(run.findings), seed


def test_where_no_counter_shows_the_device_a_latency_below_any_does() -> None:
    for seed in MACHINES[:50]:
        hidden = SimulatedMachine.random(seed, counters_hidden=True)
        cached = replace(hidden, cache_share=1.0)
        run = explain(run_of(cached, experiment(cached, "iodepth", [at()], FIXED)))
        severity, validity = point_of(run, "cache_hidden")
        assert (severity, "at the median" in the(run, "cache_hidden").says) == ("warning", True)
        # What no memory carries is impossible besides.
        impossible = "physical_ceiling" in run.experiments[0].points[0].why
        assert validity == ("invalid" if impossible else "degraded"), seed
        clean = explain(run_of(hidden, experiment(hidden, "iodepth", [at(), at(iodepth=64)], FIXED)))
        assert not rules_of(clean.findings, "warning", "invalid"), seed


@pytest.mark.parametrize(("ns", "found"), [(2_990.0, True), (3_010.0, False)])
def test_the_latency_below_which_a_cache_answered_is_3_us(ns: float, found: bool) -> None:
    machine = SimulatedMachine(counters_hidden=True)
    result = experiment(machine, "iodepth", [at()])
    (point,) = result.points
    (stream,) = point.streams
    total = replace(stream.latency_ns["total"], p50=ns)
    fast = replace(point, streams=(replace(stream, latency_ns={**stream.latency_ns, "total": total}),))
    run = run_of(machine, replace(result, points=(fast,)))
    assert ("cache_hidden" in rules_of(explain(run).findings)) == found
    (host,) = run.machines
    memory = replace(host, storage=replace(host.storage, disks=(replace(host.storage.disk, kind="pmem"),)))
    assert "cache_hidden" not in rules_of(explain(replace(run, machines=(memory,))).findings), "memory is that fast"


# --- the host's cache


def test_writes_of_a_virtual_disk_that_outrun_its_reads_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    for seed in MACHINES[:50]:
        machine = SimulatedMachine.random(seed, hypervisor="kvm")
        factor = random.Random(seed).uniform(1.7, 4)
        cached = replace(machine, write_cache_bytes_s=factor * machine.read_bytes_s)
        run = explain(run_of(cached, replace(experiment(cached, "bs", SEQUENTIAL), ceilings=())))
        finding = the(run, "host_cache")
        assert finding.severity == "warning" and finding.points == (1,)
        assert finding.evidence["ratio"] == pytest.approx(factor, rel=0.15)
        clean = explain(run_of(machine, experiment(machine, "bs", SEQUENTIAL)))
        assert not rules_of(clean.findings, "warning", "invalid"), seed
        real = replace(cached, hypervisor=None)
        run = explain(run_of(real, replace(experiment(real, "bs", SEQUENTIAL), ceilings=())))
        assert "host_cache" not in rules_of(run.findings), "a real disk's cache is its own"
    command = finding.advice.partition(": ")[2]
    assert "--sync dsync" in command and "--rw write" in command and "--bs 1M" in command
    assert main([*shlex.split(command)[1:], "--dry-run", "--path", str(tmp_path)]) == 0
    assert "write" in capsys.readouterr().out


def test_the_test_that_goes_past_the_hosts_cache_finds_it_no_more() -> None:
    machine = SimulatedMachine(hypervisor="kvm", write_cache_bytes_s=9e9)
    fixed = {**FIXED, "sync": "dsync"}
    run = explain(run_of(machine, experiment(machine, "bs", SEQUENTIAL, fixed)))
    assert not rules_of(run.findings, "warning", "invalid")
    writes, reads = (run.experiments[0].points[at].throughput.value for at in (1, 0))
    assert writes < reads


# --- edges


def test_what_straddles_the_edges_of_the_timed_region_came_from_no_cache() -> None:
    """1,000 clean direct runs, whose counters had all or part of what was in flight before the region began."""
    for seed in range(40_000, 41_000):
        draw = random.Random(seed)
        machine = SimulatedMachine.random(seed, edges=draw.random())
        size = draw.choice([4096, 1 << 20, 64 << 20, 256 << 20])
        points = [at(rw=draw.choice(["read", "write", "randrw:50"]), bs=size, iodepth=draw.choice([1, 4, 16]))]
        fixed = {**FIXED, "ramp_time": 1.0}
        run = explain(run_of(machine, experiment(machine, "iodepth", points, fixed, repeats=1)))
        assert not rules_of(run.findings) & CACHES, f"{seed}: {points}"


def test_large_blocks_that_a_cache_answers_are_still_named() -> None:
    machine = SimulatedMachine(edges=1.0, cache_share=0.5)
    fixed = {**FIXED, "runtime": 20.0}
    run = explain(run_of(machine, experiment(machine, "iodepth", [at(rw="read", bs=64 << 20, iodepth=4)], fixed)))
    assert the(run, "page_cache").evidence["cached_share"] == pytest.approx(0.5, abs=0.05)
