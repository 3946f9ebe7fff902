"""Caches that answer for the device: each is planted on random machines and named, and clean ones are not accused."""

from __future__ import annotations

import random
import shlex
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.hidden_caches import cache_hidden, cached_writes, host_cache
from hwdyno.model.words import Parameters, Run, Stream, Value
from made_experiment import made_experiment
from made_point import base, case_of_base, make_case
from simulated_runs import FIXED, MACHINES, at, experiment, list_rules, make_run, the
from simulation.host import SimulatedMachine

BUFFERED: Parameters = {**FIXED, "direct": False, "ioengine": "psync"}
CACHES = {"page_cache", "cached_writes", "cache_hidden", "host_cache"}
SEQUENTIAL: tuple[Parameters, ...] = tuple(at(rw=rw, bs=1 << 20, iodepth=8) for rw in ("read", "write"))


def judge_point(run: Run, rule: str) -> tuple[str, str]:
    """The rule's severity and the validity of its only point."""
    (point,) = run.experiments[0].points
    assert (rule in point.why) == (the(run, rule).severity != "info")
    return the(run, rule).severity, point.validity


def buffered(machine: SimulatedMachine, rw: str = "randread", bs: int = 4096) -> Run:
    return explain(make_run(machine, experiment(machine, "iodepth", [at(rw=rw, bs=bs)], BUFFERED, repeats=4)))


# --- buffered runs


@pytest.mark.parametrize(("share", "severity", "validity"), [(0.9, "warning", "degraded"), (0.06, "info", "valid")])
def test_buffered_run_from_cache_is_degraded(share: float, severity: str, validity: str) -> None:
    for seed in MACHINES[:50]:
        run = buffered(SimulatedMachine.random(seed, cache_share=share, cached_before=share))
        assert judge_point(run, "page_cache") == (severity, validity), seed
    assert f"{share:.0%} of the region was cached before" in the(run, "page_cache").says.replace("6.0%", "6%")


def test_buffered_run_from_device_is_valid() -> None:
    for seed in MACHINES[:50]:
        run = buffered(SimulatedMachine.random(seed))
        assert not list_rules(run.findings) & CACHES
        assert run.experiments[0].points[0].validity == "valid", seed


def test_buffered_writes_that_stay_in_the_cache_are_named() -> None:
    for seed in MACHINES[:50]:
        assert judge_point(buffered(SimulatedMachine.random(seed), "randwrite"), "page_cache") == (
            "warning",
            "degraded",
        )


def test_cached_writes_beside_another_writer_are_named() -> None:
    for seed in MACHINES[:50]:
        machine = SimulatedMachine.random(seed)
        busy = replace(machine, others_write_bytes_s=3 * machine.operations_s * 4096)
        run = buffered(busy, "randwrite")
        assert judge_point(run, "cached_writes") == ("warning", "degraded")
        assert "30% not yet written" in the(run, "cached_writes").says
        assert not list_rules(buffered(replace(busy, others_write_bytes_s=0.0), "randwrite").findings) & {
            "cached_writes"
        }


def test_direct_or_durable_writes_beside_another_writer_are_not() -> None:
    for fixed in (FIXED, {**BUFFERED, "sync": "dsync"}):
        machine = SimulatedMachine(others_write_bytes_s=5e9)
        run = explain(make_run(machine, experiment(machine, "iodepth", [at(rw="randwrite")], fixed)))
        assert not list_rules(run.findings) & CACHES


# --- counters that a container hides


def test_cachestat_replaces_missing_counters() -> None:
    for seed in MACHINES[:50]:
        share = random.Random(seed).uniform(0.15, 1.0)
        hidden = SimulatedMachine.random(seed, counters_hidden=True)
        cached = replace(hidden, cached_before=share, cache_share=share)
        assert judge_point(buffered(cached), "cache_hidden") == ("warning", "degraded")
        assert judge_point(buffered(hidden, "randwrite"), "cache_hidden") == ("warning", "degraded")
        for run in (buffered(hidden), buffered(replace(cached, counters_hidden=False))):
            assert "cache_hidden" not in list_rules(run.findings), seed


def test_where_no_counter_shows_the_device_a_latency_below_any_does() -> None:
    for seed in MACHINES[:50]:
        hidden = SimulatedMachine.random(seed, counters_hidden=True)
        cached = replace(hidden, cache_share=1.0)
        run = explain(make_run(cached, experiment(cached, "iodepth", [at()], FIXED)))
        severity, validity = judge_point(run, "cache_hidden")
        assert (severity, "at the median" in the(run, "cache_hidden").says) == ("warning", True)
        # What no memory carries is impossible besides.
        impossible = "physical_ceiling" in run.experiments[0].points[0].why
        assert validity == ("invalid" if impossible else "degraded"), seed
        clean = explain(make_run(hidden, experiment(hidden, "iodepth", [at(), at(iodepth=64)], FIXED)))
        assert not list_rules(clean.findings, "warning", "invalid"), seed


@pytest.mark.parametrize(("ns", "found"), [(2_990.0, True), (3_010.0, False)])
def test_the_latency_below_which_a_cache_answered_is_3_us(ns: float, found: bool) -> None:
    machine = SimulatedMachine(counters_hidden=True)
    result = experiment(machine, "iodepth", [at()])
    (point,) = result.points
    (stream,) = point.streams
    total = replace(stream.latency_ns["total"], p50=ns)
    fast = replace(point, streams=(replace(stream, latency_ns={**stream.latency_ns, "total": total}),))
    run = make_run(machine, replace(result, points=(fast,)))
    assert ("cache_hidden" in list_rules(explain(run).findings)) == found
    (host,) = run.machines
    memory = replace(host, storage=replace(host.storage, disks=(replace(host.storage.disk, kind="pmem"),)))
    assert "cache_hidden" not in list_rules(explain(replace(run, machines=(memory,))).findings), "memory is that fast"


# --- the host's cache


def test_writes_of_a_virtual_disk_that_outrun_its_reads_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    for seed in MACHINES[:50]:
        machine = SimulatedMachine.random(seed, hypervisor="kvm")
        factor = random.Random(seed).uniform(1.7, 4)
        cached = replace(machine, write_cache_bytes_s=factor * machine.read_bytes_s)
        run = explain(make_run(cached, replace(experiment(cached, "bs", SEQUENTIAL), ceilings=())))
        finding = the(run, "host_cache")
        assert finding.severity == "warning" and finding.points == (1,)
        assert finding.evidence["ratio"] == pytest.approx(factor, rel=0.15)
        clean = explain(make_run(machine, experiment(machine, "bs", SEQUENTIAL)))
        assert not list_rules(clean.findings, "warning", "invalid"), seed
        real = replace(cached, hypervisor=None)
        run = explain(make_run(real, replace(experiment(real, "bs", SEQUENTIAL), ceilings=())))
        assert "host_cache" not in list_rules(run.findings), "a real disk's cache is its own"
    command = finding.advice.partition(": ")[2]
    assert "--sync dsync" in command and "--rw read,write" in command and "--bs 1M" in command
    assert main([*shlex.split(command)[1:], "--dry-run", "--path", str(tmp_path)]) == 0
    assert "write" in capsys.readouterr().out


@pytest.mark.parametrize(("ignored", "severity", "says"), [
    (False, "info", "No cache of the host answers them: this is what the disk takes."),
    (True, "warning", "The host acknowledges flushes too: what the disk takes cannot be measured from this guest."),
])  # fmt: skip
def test_the_command_that_is_advised_answers_whether_the_host_stores(ignored: bool, severity: str, says: str) -> None:
    machine = SimulatedMachine(hypervisor="kvm", write_cache_bytes_s=9e9, flushes_ignored=ignored)
    fixed = {**FIXED, "sync": "dsync"}
    run = explain(make_run(machine, replace(experiment(machine, "bs", SEQUENTIAL, fixed), ceilings=())))
    finding = the(run, "host_cache")
    assert finding.severity == severity and finding.says.endswith(says) and finding.points == (1,)
    writes, reads = (run.experiments[0].points[at].throughput.value for at in (1, 0))
    assert (writes > reads) == ignored
    plain = explain(make_run(replace(machine, write_cache_bytes_s=0.0), experiment(machine, "bs", SEQUENTIAL)))
    assert "host_cache" not in list_rules(plain.findings)


# --- edges


def test_what_straddles_the_edges_of_the_timed_region_came_from_no_cache() -> None:
    """Clean direct runs, whose counters had all or part of what was in flight before the region began."""
    for seed in range(40_000, 40_000 + sample(100, 1000)):
        draw = random.Random(seed)
        machine = SimulatedMachine.random(seed, edges=draw.random())
        size = draw.choice([4096, 1 << 20, 64 << 20, 256 << 20])
        points = [at(rw=draw.choice(["read", "write", "randrw:50"]), bs=size, iodepth=draw.choice([1, 4, 16]))]
        fixed = {**FIXED, "ramp_time": 1.0}
        run = explain(make_run(machine, experiment(machine, "iodepth", points, fixed, repeats=1)))
        assert not list_rules(run.findings) & CACHES, f"{seed}: {points}"


def test_large_blocks_that_a_cache_answers_are_still_named() -> None:
    machine = SimulatedMachine(edges=1.0, cache_share=0.5)
    fixed = {**FIXED, "runtime": 20.0}
    run = explain(make_run(machine, experiment(machine, "iodepth", [at(rw="read", bs=64 << 20, iodepth=4)], fixed)))
    assert the(run, "page_cache").evidence["cached_share"] == pytest.approx(0.5, abs=0.05)


# --- each limit from both sides


@pytest.mark.parametrize(
    ("size", "moved", "share", "given", "found"),
    [
        (10**6, 1.021, 0.9, {}, True),
        (10**6, 1.019, 0.9, {}, False),
        (10**6, 1.5, 0.101, {}, True),
        (10**6, 1.5, 0.099, {}, False),
        (1, 2.0, 0.9, {}, True),
        (0, 2.0, 0.9, {}, False),
        *((10**6, 2.0, 0.9, {"sync": sync}, True) for sync in (0, "", "none")),
        *((10**6, 2.0, 0.9, given, False)
          for given in ({"sync": 1}, {"sync": "dsync"}, {"fsync": 1}, {"fdatasync": 1}, {"ioengine": "null"})),
    ],
)  # fmt: skip
def test_cached_writes_are_not_durable(size: int, moved: float, share: float, given: Any, found: bool) -> None:
    case = case_of_base(parameters={"rw": "randwrite", "bs": 4096, "ioengine": "psync", **given},
                        streams=(Stream("write", 1000, size),), details={"cached_share_after": share},
                        counters={"device_write_bytes": moved * max(size, 1)})  # fmt: skip
    assert (cached_writes(case) is not None) == found


@pytest.mark.parametrize(
    ("p50", "name", "given", "seen", "shown"),
    [
        (2999.0, "read", {}, {}, 2999.0),
        (3000.0, "read", {}, {}, None),
        (0.5, "read", {}, {}, 0.5),
        (0.0, "read", {}, {}, None),
        (None, "read", {}, {}, 2000.0),  # the mean
        (1e3, "read", {"bs": 16384}, {}, 1e3),
        (1e3, "read", {"bs": 16385}, {}, None),
        (1e3, "read", {"ioengine": "null"}, {}, None),
        (1e3, "trim", {}, {}, None),
        (1e3, "read", {}, {"counters": {"device_read_bytes": 4096e3}}, None),
        (1e3, "read", {}, {"details": {"disk_unseen_s": 1.0}}, None),
        (1e6, "read", {"direct": False}, {"details": {"cached_share_before": 0.101}}, 0.101),
        (1e6, "read", {"direct": False}, {"details": {"cached_share_before": 0.099}}, None),
    ],
)
def test_hidden_cache_answers_within_3_us(p50: Any, name: str, given: Any, seen: Any, shown: float | None) -> None:
    latency = replace(base().latency_ns or pytest.fail(), p50=p50, mean=2000.0)
    stream = Stream(name, 1000, 4096000, latency_ns={"total": latency})
    fields = {"counters": {}, "parameters": {**base().parameters, **given}, **seen}
    found = cache_hidden(case_of_base(streams=(stream,), **fields))
    assert (found and next(iter(found.evidence.values()))) == shown


@pytest.mark.parametrize(
    ("kind", "pairs", "ratio"),
    [
        ("virtio", [(1 << 20, 1e9, 1.5e9)], 1.5),
        ("virtio", [(1 << 20, 1e9, 1.49e9)], None),
        ("nvme", [(1 << 20, 1e9, 2e9)], None),
        ("virtio", [(1 << 20, 1e9, 2e9), (1 << 21, 1e9, 3e9)], 3.0),
        ("virtio", [(1 << 20, 0.0, 2e9)], None),
        ("virtio", [(1 << 20, 1.0, 2.0)], 2.0),
        ("virtio", [(128 << 10, 1e9, 2e9)], 2.0),
        ("virtio", [((128 << 10) - 1, 1e9, 2e9)], None),
    ],
)
def test_faster_virtual_writes_mean_a_cache(kind: str, pairs: Any, ratio: float | None) -> None:
    points = tuple(
        base(parameters={**SEQUENTIAL[0], **FIXED, "rw": rw, "bs": block}, throughput=Value(rate, "bytes/s"))
        for block, *rates in pairs for rw, rate in zip(("read", "write"), rates, strict=True)
    )  # fmt: skip
    case = make_case(made_experiment("storage.x", "storage", "?", "bs", "storage_blocks", points, fixed={}))
    machine = case.run.machine
    disks = (replace(machine.storage.disk, kind=kind),)
    machine = replace(machine, hypervisor=None, storage=replace(machine.storage, disks=disks))
    found = host_cache(replace(case, run=replace(case.run, machines=(machine,))))
    assert (found and found.evidence["ratio"]) == ratio
