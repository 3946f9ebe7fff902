"""Why a figure is not double: the limit that was planted is named, and none where no cause was measured."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.explain.findings import about_this_run, explain, why_not_double
from hwdyno.explain.findings.bottleneck import Limit, client_bound, find_limit
from hwdyno.explain.findings.rule import Case
from hwdyno.model.axes import CLIENTS
from hwdyno.model.machine import Machine
from hwdyno.model.words import Axis, Curve, Finding, Parameters, Run, Value
from made_point import base
from made_point import make_run as clean_run
from simulated_runs import at as _at
from simulated_runs import experiment, make_run, measured
from simulation.host import SimulatedHost, SimulatedMachine

DEPTHS = [_at(iodepth=2**k) for k in range(9)]


def _run(machine: SimulatedMachine, *points: Parameters, load: str = "iodepth") -> Run:
    return explain(make_run(machine, experiment(machine, load, points)))


def _limit(machine: SimulatedMachine, *points: Parameters, at: int = 0, load: str = "iodepth") -> Limit:
    run = _run(machine, *points, load=load)
    return find_limit(Case(run, run.experiments[0], at))


def _why(machine: SimulatedMachine, *points: Parameters, at: int = 0, load: str = "iodepth") -> str:
    run = _run(machine, *points, load=load)
    return why_not_double(run.experiments[0].points[at], run=run, experiment=run.experiments[0])


def test_limit_is_the_planted_one() -> None:
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
    assert "95% busy (75% user, 20% system)" in find_limit(Case(run, result, 0)).says


def test_rate_or_quota_paces_load() -> None:
    run = _run(SimulatedMachine(), _at(iodepth=8))
    (result,) = run.experiments
    axes = (*result.declaration.axes, Axis("rate", role="rate"))
    declared = replace(result, declaration=replace(result.declaration, axes=axes))
    offered = replace(declared, points=(replace(result.points[0], parameters={**_at(iodepth=8), "rate": 1000}),))
    assert find_limit(Case(run, offered, 0)) == Limit("paced by a limit", "Paced by the load: rate 1000 was requested.")
    stopped = replace(result, points=(replace(result.points[0], conditions={"cgroup_throttled": 0.4}),))
    assert "Paced by a CPU quota" in find_limit(Case(run, stopped, 0)).says
    assert "Paced" not in find_limit(Case(run, result, 0)).says


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


def test_clean_machines_have_no_waits() -> None:
    for seed in range(sample(12, 60)):
        run = _run(SimulatedMachine.random(seed), *DEPTHS)
        kinds = {find_limit(Case(run, run.experiments[0], at)).kind for at in range(len(DEPTHS))}
        assert not kinds & {"memory stall", "waiting for wake-ups"}, seed


def test_the_counters_of_all_repeats_and_hosts_are_summed() -> None:
    host = SimulatedHost(SimulatedMachine(wake_share=0.5, stall_share=0.2))
    once, twice = (measured(host, _at(iodepth=8), repeats=many) for many in (1, 2))
    for name in ("voluntary_switches", "run_delay_s", "counted_cycles", "memory_stall_cycles"):
        assert 1.8 < twice.counters[name] / once.counters[name] < 2.2, name


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


# --- a clean point of ten seconds with some fields changed: each limit from both sides


def _at_work(resource: str = "storage", given: dict[str, Any] | None = None, **changes: Any) -> Case:
    point = base(elapsed_s=10.0)
    run = clean_run(replace(point, **{"parameters": {**point.parameters, **(given or {})}, **changes}), resource)
    return Case(run, run.experiments[0], 0)


def _stalled(stalled: float | None, counted: float | None, cpu_s: float | None = 10.0) -> Case:
    counters = {"memory_stall_cycles": stalled, "counted_cycles": counted}
    known = {name: value for name, value in counters.items() if value is not None}
    return _at_work(counters=known, cpu_user_s=cpu_s, cpu_system_s=0.0)


def _waiting(cpu_s: float, delay_s: float, woken: int, pushed: int, jobs: int = 1, resource: str = "storage") -> Case:
    """Threads that ran for so long, were ready for so long without running, and slept or were pushed off so often."""
    counters = {"run_delay_s": delay_s, "voluntary_switches": woken, "involuntary_switches": pushed}
    return _at_work(resource, {"numjobs": jobs}, counters=counters, cpu_user_s=cpu_s - 1, cpu_system_s=1.0)


UNKNOWN = "Limit not identified"


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (_stalled(500.0, 1000.0), "threads were 100% busy, and 50% of the cycles waited for memory."),
        (_stalled(499.0, 1000.0), "Client-bound: 1 core of the measuring threads is 100% busy"),
        (_stalled(1.0, 1.0), "100% of the cycles waited for memory."),
        (_stalled(500.0, 1000.0, 9.5), "threads were 95% busy, and 50%"),
        (_stalled(500.0, 1000.0, 9.0), f"{UNKNOWN}: nothing measured was above 90% (cycles that wait for memory 50%,"),
        (_stalled(500.0, 1000.0, None), "(cycles that wait for memory 50%, the machine's CPU 10%)"),
        *((_stalled(*counters), "Client-bound: ") for counters in ((0.0, 0.0), (500.0, None), (None, 1000.0))),
        (_at_work("compute", counters={"backend_stall_cycles": 5.0, "counted_cycles": 10.0}, cpu_user_s=None),
         "Memory stall: 50% of the cycles waited for memory or an execution unit."),
        (_waiting(8.75, 1.0, 6, 5), "Waiting for wake-ups: the measuring threads ran 88% of their time"),
        (_waiting(8.75, 0.95, 6, 5), UNKNOWN),
        (_waiting(5.0, 2.5, 6, 5), UNKNOWN),
        (_waiting(8.0, 2.0, 6, 5), "for 20% they were woken but did not run yet (0.600 wake-ups/s, 333 ms each)."),
        (_waiting(32.0, 8.0, 6, 5, jobs=4), "ran 80% of their time, and for 20% they were woken"),
        (_waiting(8.0, 2.0, 5, 5), "with other threads: the measuring threads ran 80% of their time, and for 20% they"),
        (_waiting(8.0, 2.0, 4, 5), "Processors busy with other threads: "),
        *((_waiting(8.0, 2.0, woken, 5, resource="compute"), UNKNOWN) for woken in (4, 6)),
        (_at_work(conditions={"cgroup_throttled": 0.1}), UNKNOWN),
        (_at_work(conditions={"cgroup_throttled": 0.105}), "Paced by a CPU quota"),
        (_at_work(conditions={"steal": 0.1}), UNKNOWN),
        (_at_work(conditions={"steal": 0.11}), "The hypervisor took 11% of the CPU time"),
        (_at_work(conditions={"cpu_busy": 0.9}), UNKNOWN),
        (_at_work(conditions={"cpu_busy": 0.91}), "processors were 91% busy; this tool's threads used 6.0% of theirs."),
        (_at_work(elapsed_s=1.0, counters={"device_busy_s": 0.5}), "the device 50%"),
        (_at_work(elapsed_s=0.0, counters={"device_busy_s": 0.5}), UNKNOWN),
        (_at_work(given={"numjobs": 16}, cpu_user_s=80.0, cpu_system_s=0.0), "8 cores of the measuring threads are"),
        (_at_work(cpu_user_s=0.0, cpu_system_s=10.0), "(0% user, 100% system)"),
        (_at_work(cpu_user_s=10.0, cpu_system_s=0.0), "(100% user, 0% system)"),
        *((_at_work(given={"iodepth": depth}), f" Next test: `hwdyno storage --rw randread --bs 4k {doubled}")
          for depth, doubled in ((400, "--iodepth 800"), (512, "--iodepth 1024"), (513, "--iodepth 513 --numjobs 2"),
                                 (0, "--iodepth 0 --numjobs 2"))),
    ],
)  # fmt: skip
def test_a_limit_is_what_was_measured(case: Case, says: str) -> None:
    assert says in find_limit(case).says


@pytest.mark.parametrize(
    ("share", "direct", "severity"), [(0.895, True, None), (0.905, True, "warning"), (0.905, False, "info")]
)
def test_a_busy_client_is_bound(share: float, direct: bool, severity: str | None) -> None:
    case = _at_work(given={"direct": direct}, cpu_user_s=10 * share, cpu_system_s=0.0)
    run = explain(case.run)
    found = {finding.rule: finding.severity for finding in run.findings}
    assert found.get("client_bound") == severity
    assert ("client_bound" in run.experiments[0].points[0].why) == (severity == "warning")


@pytest.mark.parametrize(
    ("jobs", "threads", "advice"),
    [(4, 8, "--numjobs 8"), (8, 8, "all 8 processors"), (4, None, "--numjobs 8"), (1, 8, "--numjobs 2")],
)
def test_busy_client_gets_twice_jobs(jobs: int, threads: int | None, advice: str) -> None:
    case = _at_work(given={"numjobs": jobs}, cpu_user_s=10.0 * jobs, cpu_system_s=0.0, operations=10_000)
    machine = Machine.of_survey({"cpu": {"threads": threads}} if threads else {})
    found = client_bound(replace(case, run=replace(case.run, machines=(machine,))))
    assert found is not None and advice in found.advice and f"({jobs}.00 ms per operation)" in found.says


def test_cores_count_on_known_run() -> None:
    case = _at_work(given={"numjobs": 16}, cpu_user_s=160.0, cpu_system_s=0.0)
    assert "16 cores of" in why_not_double(case.point, experiment=case.result)
    invalid = replace(case.point, validity="invalid")
    assert why_not_double(invalid, run=case.run, experiment=replace(case.result, points=(invalid,))) == ""


CEILING = Curve(series={}, load="iodepth", points=(0,), unit="", model="", ceiling=Value(1000.0, "1"), state="knee")


@pytest.mark.parametrize(
    ("value", "rate", "metric", "changes", "says"),
    [
        (950.0, None, "throughput", {}, "at 95% of its ceiling of 1,000, busy 50% of the time. A higher iodepth"),
        (950.0, None, "throughput", {"load": CLIENTS.name}, "More clients add latency, not throughput."),
        (890.0, None, "throughput", {}, "Limit not identified"),
        (950.0, None, "throughput", {"state": "still rising"}, "Limit not identified"),
        (950.0, None, "throughput", {"ceiling": Value(0.0, "1")}, "Limit not identified"),
        (950.0, None, "throughput", {"ceiling": None}, "Limit not identified"),
        (800.0, 950.0, "rate", {}, "at 95% of"),
        (800.0, 950.0, "throughput", {}, "Limit not identified"),
        (800.0, 0.95, "rate", {"ceiling": Value(1.0, "1")}, "at 95% of"),
        (980.0, None, "rate", {}, "at 98% of"),
    ],
)
def test_device_at_its_ceiling_is_saturated(value: float, rate: Any, metric: str, changes: Any, says: str) -> None:
    rate = rate and Value(rate, "operations/s")
    case = _at_work(throughput=Value(value, "1"), rate=rate, counters={"device_busy_s": 5.0})
    result = replace(case.result, metric=metric, curves=(replace(CEILING, **changes),))
    assert says in find_limit(replace(case, result=result)).says


def test_curve_of_alike_points_tells_limit() -> None:
    case = _at_work(throughput=Value(950.0, "1"))
    other = replace(case.result, curves=(CEILING,))
    assert "saturated" in find_limit(replace(case, run=replace(case.run, experiments=(case.result, other)))).says
    points = (case.point, replace(case.point, parameters={"iodepth": 16}, throughput=Value(1900.0, "1")))
    rising = replace(case.result, points=points, curves=(replace(CEILING, points=(0, 1), ceiling=None),))
    assert find_limit(Case(replace(case.run, experiments=(rising,)), rising, 0)).says.endswith(": 2 times as much.")


@pytest.mark.parametrize(("threads", "advised"), [(16, True), (15, False)])
def test_threads_are_doubled_up_to_processors(threads: int, advised: bool) -> None:
    case = _at_work("compute", parameters={"threads": 8, "operation": "fma", "precision": "double"})
    machine = Machine.of_survey({"cpu": {"threads": threads}})
    says = find_limit(replace(case, run=replace(case.run, machines=(machine,)))).says
    assert ("Next test: `hwdyno compute" in says) == advised


def test_preempted_processor_shows_stalls() -> None:
    for resource, of_the_run in (("memory", True), ("compute", True), ("storage", False), ("", False)):
        assert about_this_run(Finding("stalls", "warning", resource, "", {}, "")) == of_the_run
        assert not about_this_run(Finding("cache_hidden", "warning", resource, "", {}, ""))
