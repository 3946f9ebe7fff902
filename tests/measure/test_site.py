"""A site of several hosts: one start, whole histograms, and whoever is late, slow, dead or stuck named in the Run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hwdyno.analysis.resources import ceilings_of_site, list_ceilings
from hwdyno.explain.findings import explain
from hwdyno.measure import experiments, plan, runner
from hwdyno.measure.hosts import HostLostError
from hwdyno.measure.hosts.clock_offset import clock_offset_ns
from hwdyno.measure.hosts.launch import boot_id
from hwdyno.measure.hosts.measured_site import SingleHost, make_site
from hwdyno.measure.hosts.several_hosts import SeveralHosts
from hwdyno.measure.measurement import make_measurement
from hwdyno.measure.topology import Topology
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Run, UserError
from hwdyno.system.store import from_json, to_json
from simulated_hosts import Memory
from simulation.host import SimulatedHost, SimulatedMachine
from simulation.site import SimulatedMember, site_of_two

IDLE = {"runtime": 0.2}
BLOCKS = {"rw": "randread", "iodepth": 8, "bs": 4096, "runtime": 0.5, "path": "/x", "size": 1 << 30}


def measured(site: SeveralHosts, path: Path, **how: Any) -> Run:
    chosen = [(experiments.find("storage.iodepth")[0], {"iodepth": "1,8,64", "size": "256M"})]
    return runner.run(plan.build(chosen, site, path=path, seed=5, **how), site, Memory(), "run-1", explain=explain)


def test_a_site_of_one_is_its_host_and_nothing_more() -> None:
    host = SimulatedHost()
    site = make_site(host)
    assert isinstance(site, SingleHost) and make_site(site) is site and not site.several
    reading = site.run("idle", IDLE)
    assert "hosts" not in reading and make_measurement({}, [reading]).hosts == ()
    assert site.machines() == (host.survey(),) and site.survey() == host.survey()
    site.close()


def test_clocks_that_are_a_day_apart_start_at_one_moment() -> None:
    site, (a, b) = site_of_two()
    site.run("idle", IDLE)
    assert abs(clock_offset_ns(b) + 86_400 * 10**9) < 5e6
    assert abs((a.starts[0] - a.clock_offset_ns) - (b.starts[0] - b.clock_offset_ns)) < 5e6


def test_who_measures_on_this_processor_learns_of_the_start_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads spin until then, and would keep this process from sending the others theirs."""
    members = [SimulatedMember(name) for name in "abcd"]
    for number, (member, boot) in enumerate(zip(members, (boot_id(), boot_id(), "", boot_id()), strict=True)):
        member.boot, member.processors = boot, frozenset({1} if number == 2 else {number, 8 + number})
    order: list[str] = []
    for member in members:
        start = member.start

        def noted(at_ns: int, name: str = member.name, start: Callable[[int], None] = start) -> None:
            order.append(name)
            start(at_ns)

        monkeypatch.setattr(member, "start", noted)
    site = SeveralHosts(members)
    for here, expected in ((1, "acdb"), (8, "bcda"), (5, "abcd")):
        monkeypatch.setattr("hwdyno.measure.engine.processor", lambda here=here: here)
        order.clear()
        site.run("idle", IDLE)
        assert "".join(order) == expected


@pytest.mark.parametrize(("here", "awaited"), [(0, "a"), (1, "b"), (5, "ab")])
def test_what_others_have_is_read_when_this_processors_host_has_something(
    monkeypatch: pytest.MonkeyPatch, here: int, awaited: str
) -> None:
    """It comes last, because to read would take the processor from it; with a processor for itself all are awaited."""
    members = [SimulatedMember(name) for name in "ab"]
    for number, member in enumerate(members):
        member.boot, member.processors = boot_id(), frozenset({number})
    calls: list[str] = []

    def noted(waiting: Sequence[SimulatedMember]) -> bool:
        calls.append("".join(member.name for member in waiting))
        return False

    monkeypatch.setattr("hwdyno.measure.hosts.several_hosts.await_event", noted)
    monkeypatch.setattr("hwdyno.measure.engine.processor", lambda: here)
    site = SeveralHosts(members)
    site.run("idle", IDLE)
    assert set(calls) == {awaited}


def test_counts_add_up_and_histograms_are_merged_whole() -> None:
    fast, slow = SimulatedMachine(seed=1, noise=0.0), SimulatedMachine(seed=2, noise=0.0, latency_one_s=900e-6)
    site = SeveralHosts([SimulatedMember("fast", fast), SimulatedMember("slow", slow)])
    reading = site.run("storage_blocks", BLOCKS)
    readings = {part["host"]: part["reading"] for part in reading["hosts"]}
    made = make_measurement({}, [reading], site.kernels()["storage_blocks"])
    alone = {
        name: make_measurement({}, [host_reading], site.kernels()["storage_blocks"])
        for name, host_reading in readings.items()
    }
    assert made.operations == sum(point.operations for point in alone.values())
    assert made.bytes == sum(point.bytes for point in alone.values())
    assert [(share.host, share.operations) for share in made.hosts] == [
        (n, point.operations) for n, point in alone.items()
    ]
    merged = Histogram()
    for host_reading in readings.values():
        for stream in host_reading["streams"]:
            if "total" in stream["latency_ns"]:
                merged = merged.merge(Histogram.from_reading(stream["latency_ns"]["total"]))
    assert made.latency_ns == merged.summary()
    # No mean of percentiles: most operations are the fast host's, and the slow one's are the tail.
    fast_ns, slow_ns = alone["fast"].latency_ns, alone["slow"].latency_ns
    assert made.latency_ns and fast_ns and slow_ns
    assert made.latency_ns.p50 < 1.3 * fast_ns.p50 and made.latency_ns.p99 > 0.7 * slow_ns.p99
    assert made.concurrency and made.concurrency.requested == 16
    assert made.samples and made.samples.avg == pytest.approx(made.throughput.value, rel=0.25)


def test_each_host_has_a_random_order_and_a_data_file_of_its_own(tmp_path: Path) -> None:
    site, (a, b) = site_of_two()
    run = measured(site, tmp_path)
    assert not run.degraded and [machine.hostname for machine in run.machines] == ["a", "b"]
    assert {parameters["path"] for parameters in a.parameters} == {f"{tmp_path}/a/data"}
    assert {parameters["path"] for parameters in b.parameters} == {f"{tmp_path}/b/data"}
    assert not {parameters["seed"] for parameters in a.parameters} & {parameters["seed"] for parameters in b.parameters}
    assert a.lengths == {} and b.lengths == {}, "they are removed at the end"
    for point in run.experiments[0].points:
        assert [share.host for share in point.hosts] == ["a", "b"]
        assert sum(share.operations for share in point.hosts) == point.operations
        rates = [share.throughput.value for share in point.hosts]
        assert point.throughput.value == pytest.approx(sum(rates), rel=0.02)
        assert point.validity == "valid", point.why
    assert from_json(to_json(run)) == run
    of_host, both = list_ceilings(a.survey(), "storage"), ceilings_of_site(run.machines, "storage")
    assert [c.value for c in both] == [2 * c.value for c in of_host] and run.experiments[0].ceilings == both


@pytest.mark.parametrize(("skew_s", "apart"), [(0.001, False), (0.05, True)])
def test_hosts_that_start_apart_degrade_point(skew_s: float, apart: bool) -> None:
    site, (_, b) = site_of_two()
    b.skew_s = skew_s
    reading = site.run("idle", {"runtime": 1.0})
    made = make_measurement({}, [reading])
    assert made.hosts[1].start_offset_s == pytest.approx(skew_s, abs=1e-3)
    assert made.elapsed_s == pytest.approx(1.0 + made.hosts[1].start_offset_s, abs=1e-6), "first start to last end"
    assert ("hosts_apart" in made.why) == apart and (made.validity == "degraded") == apart


def test_a_stragglers_time_counts() -> None:
    site, (_, b) = site_of_two()
    b.slow = 2.0
    made = make_measurement({}, [site.run("idle", IDLE)])
    assert made.elapsed_s == pytest.approx(0.4, rel=0.05)


@pytest.mark.parametrize("planted", ["dies_at", "hangs_at"])
def test_gone_host_is_named_in_time(tmp_path: Path, planted: str) -> None:
    site, (_, b) = site_of_two()
    setattr(b, planted, 4)  # After the layout, the warm-up and one reading.
    began = time.monotonic()
    run = measured(site, tmp_path)
    assert time.monotonic() - began < 20
    (why,) = [reason for reason in run.degraded if "host" in reason]
    assert why.startswith("host b was lost; the others continued: ")
    (result,) = run.experiments
    assert len(result.points) == 3 == result.planned and not run.interrupted
    missing = [point for point in result.points if any(share.failure for share in point.hosts)]
    assert missing and all("host_missing" in point.why and point.validity == "degraded" for point in missing)
    for point in result.points:
        assert [share.host for share in point.hosts] == ["a", "b"] and point.hosts[0].operations > 0
    assert from_json(to_json(run)) == run


def test_a_host_that_never_ends_is_stopped_and_named() -> None:
    site, (_, b) = site_of_two()
    b.endless_at = 1
    reading = site.run("idle", IDLE)
    share = make_measurement({}, [reading]).hosts[1]
    assert share.interrupted and "did not end with the others" in share.failure
    assert not reading["interrupted"] and not site.lost, "nobody pressed Ctrl-C, and the host is there"
    assert not make_measurement({}, [site.run("idle", IDLE)]).hosts[1].failure


def test_what_one_host_refuses_is_said_beside_what_the_other_measured(tmp_path: Path) -> None:
    site, (_, b) = site_of_two()
    b.refuses_at = 4
    run = measured(site, tmp_path)
    (why,) = run.degraded
    assert "host b: No space left on device" in why and not site.lost
    assert sum(any(share.failure for share in point.hosts) for point in run.experiments[0].points) == 1


def test_without_any_host_the_run_ends_and_keeps_what_it_has(tmp_path: Path) -> None:
    site, (a, b) = site_of_two()
    a.dies_at = b.dies_at = 5
    run = measured(site, tmp_path)
    assert any("no host is left" in why for why in run.degraded)
    assert sum(point.repeats for point in run.experiments[0].points) > 0
    assert site.snapshot() == {}
    with pytest.raises(HostLostError, match=r"no host is left: a: .*; b: "):
        site.run("idle", IDLE)


def test_common_refusal_is_the_sites() -> None:
    site, _ = site_of_two()
    with pytest.raises(UserError, match="no kernel is called 'none'"):
        site.run("none", {})


def test_snapshots_add_up_and_gauges_are_at_their_worst() -> None:
    calm, busy = SimulatedMachine(seed=1), SimulatedMachine(seed=2, load_before=7.0, threads=4)
    members = [SimulatedMember("a", calm), SimulatedMember("b", busy)]
    site = SeveralHosts(members)
    site.run("idle", IDLE)
    found, snapshots = site.snapshot(), [member.snapshot() for member in members]
    assert found["cpu_total_s"] == pytest.approx(sum(snapshot["cpu_total_s"] for snapshot in snapshots))
    assert found["load_1m"] == 7.0 and found["clock_hz"] == min(snapshot["clock_hz"] for snapshot in snapshots)


def test_a_site_has_what_each_of_its_hosts_has() -> None:
    site = SeveralHosts(
        [SimulatedMember("a", SimulatedMachine(threads=16)), SimulatedMember("b", SimulatedMachine(threads=4))]
    )
    assert site.topology().processors == 4
    numa = [Topology(8, (0, 1), (0, 1, 2)), Topology(4, (1,), (1, 2)), Topology(6, (1, 3), (2, 3))]
    assert Topology.common(numa) == Topology(4, (1,), (2,), clients=3)
    same = SeveralHosts([SimulatedMember("a"), SimulatedMember("a"), SimulatedMember("b")])
    assert [machine.hostname for machine in same.machines()] == ["a", "a#2", "b"]


def test_raw_device_is_for_one_host(tmp_path: Path) -> None:
    site, _ = site_of_two()
    with pytest.raises(UserError, match="--destroy is for a raw device of one host"):
        site.place(tmp_path, writes=True, destroy="/dev/sdz", serial="1")
