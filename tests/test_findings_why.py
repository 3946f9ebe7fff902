"""Why a figure is not double: the limit that was planted is named, and none where no cause was measured."""

from __future__ import annotations

import re
from dataclasses import replace

from hwdyno.findings import explain, why_not_double
from hwdyno.findings.limits import Limit, limit_of
from hwdyno.findings.rule import Case
from hwdyno.words import Axis, Parameters, Run
from simulated_runs import at as _at
from simulated_runs import experiment, measured, run_of
from simulation.host import SimulatedHost, SimulatedMachine

DEPTHS = [_at(iodepth=2**k) for k in range(9)]


def _run(machine: SimulatedMachine, *points: Parameters, load: str = "iodepth") -> Run:
    return explain(run_of(machine, experiment(machine, load, points)))


def _limit(machine: SimulatedMachine, *points: Parameters, at: int = 0, load: str = "iodepth") -> Limit:
    run = _run(machine, *points, load=load)
    return limit_of(Case(run, run.experiments[0], at))


def _why(machine: SimulatedMachine, *points: Parameters, at: int = 0, load: str = "iodepth") -> str:
    run = _run(machine, *points, load=load)
    return why_not_double(run.experiments[0].points[at], run=run, experiment=run.experiments[0])


def test_the_limit_is_the_one_that_was_planted() -> None:
    clean = SimulatedMachine()
    paced = _limit(clean, *DEPTHS, at=1)
    assert paced.kind == "paced by a limit" and "Too little in flight: 2 operations" in paced.says
    saturated = _limit(clean, *DEPTHS, at=8)
    assert saturated.kind == "device queue full" and "of its ceiling" in saturated.says
    client = _limit(SimulatedMachine(client_bound=True), *DEPTHS)
    assert client.kind == "client CPU busy"
    assert re.search(r"1 core of the measuring threads is 9\d% busy \(\d+% user, \d+% system\)\.$", client.says)
    full = SimulatedMachine(read_bytes_s=3.8e9, operations_s=1e6, p=8)
    sequential = _limit(full, _at(rw="read", bs=1 << 20, iodepth=32))
    assert sequential.kind == "ceiling reached"
    assert sequential.says.startswith("At 9") and sequential.says.endswith("% of PCIe 3.0 x4.")
    small = _limit(clean, *[_at(bs=4096 * 4**k, iodepth=8) for k in range(6)], load="bs")
    assert small.kind == "paced by a limit" and "too small" in small.says
    unknown = _limit(clean, _at(iodepth=8))
    assert unknown.kind == "not identified" and "sweep the queue depth" in unknown.says
    stolen = _limit(SimulatedMachine(steal=0.3), _at(iodepth=8))
    assert stolen.kind == "processors busy elsewhere" and "hypervisor took 30%" in stolen.says


def test_user_and_system_time_add_up_to_the_clients_share() -> None:
    run = _run(SimulatedMachine(client_bound=True), *DEPTHS)
    (result,) = run.experiments
    point = replace(
        result.points[3], cpu_user_s=0.75 * result.points[3].elapsed_s, cpu_system_s=0.2 * result.points[3].elapsed_s
    )
    result = replace(result, points=(point,), curves=())
    assert "95% busy (75% user, 20% system)" in limit_of(Case(run, result, 0)).says


def test_a_rate_or_a_quota_paces_the_load() -> None:
    run = _run(SimulatedMachine(), _at(iodepth=8))
    (result,) = run.experiments
    axes = (*result.declaration.axes, Axis("rate", role="rate"))
    declared = replace(result, declaration=replace(result.declaration, axes=axes))
    offered = replace(declared, points=(replace(result.points[0], parameters={**_at(iodepth=8), "rate": 1000}),))
    assert limit_of(Case(run, offered, 0)) == Limit("paced by a limit", "Paced by the load: rate 1000 was requested.")
    stopped = replace(result, points=(replace(result.points[0], conditions={"cgroup_throttled": 0.4}),))
    assert "Paced by a CPU quota" in limit_of(Case(run, stopped, 0)).says
    assert "Paced" not in limit_of(Case(run, result, 0)).says


def test_a_stall_on_memory_is_named_by_the_processors_counters_alone() -> None:
    busy = {"client_bound": True}
    stalled = _limit(SimulatedMachine(stall_share=0.64, **busy), *DEPTHS, at=3)
    assert stalled.kind == "memory stall"
    assert re.search(r"threads were 9\d% busy, and 64% of the cycles waited for memory\.$", stalled.says)
    unit = _limit(SimulatedMachine(stall_share=0.64, stall_event="backend_stall_cycles", **busy), *DEPTHS, at=3)
    assert unit.kind == "memory stall" and "waited for memory or an execution unit." in unit.says
    for machine in (SimulatedMachine(**busy), SimulatedMachine(stall_share=0.4, **busy)):
        assert _limit(machine, *DEPTHS, at=3).kind == "client CPU busy"
    idle = _limit(SimulatedMachine(stall_share=0.64), *DEPTHS, at=8)
    assert idle.kind == "device queue full", "threads that wait for the device are not held up by memory"
    assert _why(SimulatedMachine(stall_share=0.64, **busy), *DEPTHS, at=3) == stalled.says
    assert _why(SimulatedMachine(stall_share=0.64, **busy), *DEPTHS) == "", "one operation at a time"


def test_waiting_for_wake_ups_is_named_where_the_system_counts_it() -> None:
    woken = _limit(SimulatedMachine(wake_share=0.95), *DEPTHS, at=3)
    assert woken.kind == "waiting for wake-ups"
    found = re.search(r"ran (\d+)% of their time, and for (\d+)% they were woken but did not run yet \(", woken.says)
    assert found is not None and 90 <= int(found[1]) + int(found[2]) <= 100, woken.says
    taken = _limit(SimulatedMachine(wake_share=0.95, preempted=True), *DEPTHS, at=3)
    assert taken.kind == "processors busy elsewhere" and "ready to run" in taken.says
    # Threads that sleep until the device answers wait for the device.
    assert _limit(SimulatedMachine(wake_share=0.3), *DEPTHS, at=1).kind == "paced by a limit"
    assert _limit(SimulatedMachine(wake_share=0.95, scheduler_hidden=True), *DEPTHS, at=1).kind == "paced by a limit"
    assert _why(SimulatedMachine(wake_share=0.95), *DEPTHS) == "", "one operation at a time"
    full = SimulatedMachine(read_bytes_s=3.8e9, operations_s=1e6, p=8, wake_share=0.95)
    assert _why(full, _at(rw="read", bs=1 << 20, iodepth=32)) == "", "above 90% of the ceiling"


def test_no_wait_is_named_on_clean_machines() -> None:
    for seed in range(60):
        run = _run(SimulatedMachine.random(seed), *DEPTHS)
        kinds = {limit_of(Case(run, run.experiments[0], at)).kind for at in range(len(DEPTHS))}
        assert not kinds & {"memory stall", "waiting for wake-ups"}, seed


def test_the_counters_of_all_repeats_and_hosts_are_summed() -> None:
    host = SimulatedHost(SimulatedMachine(wake_share=0.5, stall_share=0.2))
    one, two = (measured(host, _at(iodepth=8), repeats=many) for many in (1, 2))
    for name in ("voluntary_switches", "run_delay_s", "counted_cycles", "memory_stall_cycles"):
        assert 1.8 < two.counters[name] / one.counters[name] < 2.2, name


def test_the_question_is_answered_only_where_a_cause_was_measured() -> None:
    clean = SimulatedMachine()
    assert "Too little in flight" in _why(clean, *DEPTHS, at=1)
    assert _why(clean, _at(iodepth=8)) == "", "no cause was measured"
    full = SimulatedMachine(read_bytes_s=3.8e9, operations_s=1e6, p=8)
    assert _why(full, _at(rw="read", bs=1 << 20, iodepth=32)) == "", "above 90% of the ceiling"
    assert _why(SimulatedMachine(cache_share=0.9), *DEPTHS, at=3) == "", "an invalid point"
    alone = measured(SimulatedHost(clean), _at(iodepth=8), repeats=1)
    bare = replace(alone, counters={}, cpu_user_s=None, conditions={}, latency_ns=None, concurrency=None)
    assert why_not_double(bare) == ""


def test_a_latency_test_is_not_asked_why_it_is_not_double() -> None:
    assert _why(SimulatedMachine(), *DEPTHS) == "", "one operation at a time"
    run = _run(SimulatedMachine(client_bound=True), *DEPTHS)
    (result,) = run.experiments
    by_latency = replace(result, metric="latency")
    assert why_not_double(result.points[3], run=run, experiment=result)
    assert why_not_double(result.points[3], run=run, experiment=by_latency) == ""
