"""What limits a point, whether it measured what it claims, and what memory shows: each branch and threshold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.axes import CLIENTS
from hwdyno.findings import why_not_double
from hwdyno.findings.limits import (
    _client,
    _device,
    _machine,
    _next_test,
    _paced,
    _preempted,
    _stalled,
    _Waits,
    _waking,
    client_bound,
)
from hwdyno.findings.rule import Case
from hwdyno.findings.truth import (
    compressed_file,
    depth_not_reached,
    faults,
    missed_device,
    never_written,
    page_cache,
    synchronous_engine,
    unwritten_file,
)
from hwdyno.machine import Machine
from hwdyno.words import Concurrency, Curve, Fault, Run, Stream, Value
from test_thresholds import base, run_of


def at_work(resource: str = "storage", given: dict[str, Any] | None = None, **changes: Any) -> Case:
    """A case of one clean point of ten seconds with these parameters and fields."""
    point = base(elapsed_s=10.0)
    point = replace(point, parameters={**point.parameters, **(given or {})}, **changes)
    run = run_of(point, resource)
    return Case(run, run.experiments[0], 0)


# --- what limits a point


@pytest.mark.parametrize(
    ("stalled", "counted", "cpu_s", "says"),
    [
        (500.0, 1000.0, 10.0, "Memory stall: the measuring threads were 100% busy, and 50% of the cycles waited"),
        (499.0, 1000.0, 10.0, ""),
        (1.0, 1.0, 10.0, "Memory stall: the measuring threads were 100% busy, and 100% of the cycles waited"),
        (500.0, 1000.0, 9.5, "Memory stall: the measuring threads were 95% busy, and 50% of the cycles waited"),
        (500.0, 1000.0, 9.0, ""),
        (500.0, 1000.0, None, ""),
        (0.0, 0.0, 10.0, ""),
        (500.0, None, 10.0, ""),
        (None, 1000.0, 10.0, ""),
    ],
)
def test_memory_stalls_busy_threads_from_half_of_their_cycles(
    stalled: float | None, counted: float | None, cpu_s: float | None, says: str
) -> None:
    known = {"memory_stall_cycles": stalled, "counted_cycles": counted}
    counters = {name: value for name, value in known.items() if value is not None}
    seen: list[tuple[str, float]] = []
    found = _stalled(at_work(counters=counters, cpu_user_s=cpu_s, cpu_system_s=0.0), seen)
    assert found == (f"{says} for memory." if says else "")
    assert seen == ([("cycles that wait for memory", stalled / counted)] if stalled and counted else [])


def test_what_is_itself_the_work_stalls_however_busy_it_is() -> None:
    case = at_work("compute", counters={"backend_stall_cycles": 500.0, "counted_cycles": 1000.0}, cpu_user_s=None)
    assert _stalled(case, []) == "Memory stall: 50% of the cycles waited for memory or an execution unit."


@pytest.mark.parametrize(
    ("running", "waiting", "full"),
    [(0.875, 0.1, True), (0.875, 0.095, False), (0.95, 0.0, False), (0.5, 0.25, False), (0.75, 0.25, True)],
)
def test_threads_are_full_that_hardly_sleep_and_wait_for_a_tenth(running: float, waiting: float, full: bool) -> None:
    assert _Waits(running, waiting, 0, 0).full == full


@pytest.mark.parametrize(
    ("resource", "woken", "preempted", "word"),
    [("storage", 4, 5, "preempted"), ("storage", 5, 5, "preempted"), ("storage", 6, 5, "woken"), ("compute", 4, 5, "")],
)
def test_threads_wait_to_be_woken_or_for_others(resource: str, woken: float, preempted: float, word: str) -> None:
    """8 s of 10 s on the processor, and 2 s ready to run."""
    counters = {"run_delay_s": 2.0, "voluntary_switches": woken, "involuntary_switches": preempted}
    case = at_work(resource, counters=counters, cpu_user_s=8.0, cpu_system_s=0.0)
    pushed, waking = _preempted(case), _waking(case, [])
    assert (bool(pushed), bool(waking)) == (word == "preempted", word == "woken")
    if word == "preempted":
        assert "ran 80% of their time, and for 20% they were ready to run." in pushed
    if word == "woken":
        assert "for 20% they were woken but did not run yet (0.600 wake-ups/s, 333 ms each)." in waking


@pytest.mark.parametrize(("share", "paced"), [(0.1, False), (0.095, False), (0.105, True)])
def test_a_quota_paces_that_stops_threads_in_a_tenth_of_its_periods(share: float, paced: bool) -> None:
    assert ("Paced by a CPU quota" in _paced(at_work(conditions={"cgroup_throttled": share}))) == paced


@pytest.mark.parametrize(("user", "system", "words"), [(0.0, 10.0, "0% user, 100% system"),
                                                       (10.0, 0.0, "100% user, 0% system")])  # fmt: skip
def test_a_clients_time_is_split_where_one_part_is_nothing(user: float, system: float, words: str) -> None:
    case = at_work(cpu_user_s=user, cpu_system_s=system, operations=1000)
    assert f"({words})" in _client(case, [])
    found = client_bound(case)
    assert found is not None and "(10.0 ms per operation)" in found.says


@pytest.mark.parametrize(
    ("jobs", "threads", "advice"),
    [(4, 8, "--numjobs 8"), (8, 8, "all 8 processors"), (4, None, "--numjobs 8"), (1, 8, "--numjobs 2")],
)
def test_a_busy_client_gets_twice_the_jobs_while_processors_are_left(
    jobs: int, threads: int | None, advice: str
) -> None:
    case = at_work(given={"numjobs": jobs}, cpu_user_s=10.0 * jobs, cpu_system_s=0.0)
    machine = Machine.of_survey({"cpu": {"threads": threads}} if threads else {})
    found = client_bound(Case(replace(case.run, machines=(machine,)), case.result, 0))
    assert found is not None and advice in found.advice


def test_the_client_counts_the_cores_of_the_run_that_is_given() -> None:
    case = at_work(given={"numjobs": 16, "rw": "randread"}, cpu_user_s=160.0, cpu_system_s=0.0)
    assert "16 cores of" in why_not_double(case.point, experiment=case.result)
    shared = at_work(given={"numjobs": 16}, cpu_user_s=80.0, cpu_system_s=0.0)
    assert "8 cores of" in why_not_double(shared.point, run=shared.run, experiment=shared.result)


def test_an_invalid_point_and_a_test_of_latency_have_no_answer() -> None:
    case = at_work(cpu_user_s=10.0, cpu_system_s=0.0)
    assert "Client-bound" in why_not_double(case.point, run=case.run, experiment=case.result)
    invalid = replace(case.point, validity="invalid")
    assert why_not_double(invalid, run=case.run, experiment=replace(case.result, points=(invalid,))) == ""
    assert why_not_double(case.point, run=case.run, experiment=replace(case.result, metric="latency")) == ""


@pytest.mark.parametrize(
    ("ceiling", "value", "state", "load", "says"),
    [
        (2e9, 1.9e9, "knee", "iodepth", "at 95% of its ceiling of 2,000 MB/s, busy 100% of the time. A higher iodepth"),
        (2e9, 1.9e9, "knee", CLIENTS.name, "at 95% of its ceiling of 2,000 MB/s, busy 100% of the time. More clients"),
        (2e9, 1.78e9, "knee", "iodepth", ""),
        (2e9, 1.9e9, "still rising", "iodepth", ""),
        (0.0, 1.9e9, "knee", "iodepth", ""),
        (None, 1.9e9, "knee", "iodepth", ""),
        (2e9, 1.9e9, "unknown", "iodepth", ""),
    ],
)
def test_a_device_is_saturated_from_nine_tenths_of_its_ceiling(
    ceiling: float | None, value: float, state: Any, load: str, says: str
) -> None:
    """The device was busy for 12 s of 10 s by its counter: all the time."""
    case = at_work(throughput=Value(value, "bytes/s"), counters={"device_busy_s": 12.0})
    top = None if ceiling is None else Value(ceiling, "bytes/s")
    curve = Curve(series={}, load=load, points=(0,), unit="bytes/s", model="", ceiling=top, state=state)
    seen: list[tuple[str, float]] = []
    found = _device(case, (case.result, curve), seen)
    assert found == (f"The device is saturated: {says} {'adds' if load == 'iodepth' else 'add'} latency, "
                     "not throughput." if says else "")  # fmt: skip
    assert seen == [("the device", 1.0)]


def test_a_device_is_judged_by_the_rate_where_the_experiment_is() -> None:
    curve = Curve(series={}, load="iodepth", points=(0,), unit="operations/s", model="",
                  ceiling=Value(1000.0, "operations/s"), state="knee")  # fmt: skip
    case = at_work(throughput=Value(800.0, "bytes/s"), rate=Value(950.0, "operations/s"), counters={})
    assert "at 95% of" in _device(case, (replace(case.result, metric="rate"), curve), [])
    assert _device(case, (case.result, curve), []) == ""
    slow = at_work(rate=Value(0.95, "operations/s"), counters={})
    least = replace(curve, ceiling=Value(1.0, "operations/s"))
    assert "at 95% of" in _device(slow, (replace(case.result, metric="rate"), least), [])
    unrated = at_work(throughput=Value(980.0, "bytes/s"), rate=None, counters={})
    assert "at 98% of" in _device(unrated, (replace(unrated.result, metric="rate"), curve), [])


@pytest.mark.parametrize("elapsed_s", [1.0, 0.0])
def test_a_device_is_busy_for_a_share_of_the_time(elapsed_s: float) -> None:
    seen: list[tuple[str, float]] = []
    _device(at_work(elapsed_s=elapsed_s, counters={"device_busy_s": 0.5}), None, seen)
    assert seen == ([("the device", 0.5)] if elapsed_s else [])


@pytest.mark.parametrize(("steal", "stolen"), [(0.1, False), (0.11, True)])
def test_the_hypervisor_is_named_above_a_tenth(steal: float, stolen: bool) -> None:
    assert ("hypervisor" in _machine(at_work(conditions={"steal": steal}), [])) == stolen


@pytest.mark.parametrize(
    ("depth", "doubled"), [(400, "--iodepth 800"), (512, "--iodepth 1024"), (513, "--numjobs 2"), (0, "--numjobs 2")]
)
def test_a_depth_is_doubled_as_far_as_the_engine_goes(depth: int, doubled: str) -> None:
    """The depth of a queue ends at 1024; then the jobs are doubled."""
    assert doubled in _next_test(at_work(given={"iodepth": depth}))


# --- whether a point measured what it claims


@pytest.mark.parametrize(
    ("unwritten", "hole", "written", "size", "share"),
    [
        (10, 20, 30, None, 0.5),
        (25, None, None, 100, 0.25),
        (None, 150, None, 100, 1.0),
        (25, None, None, None, 25 / 200),
        (None, None, None, 100, 0.0),
        (0, 0, 0, None, 0.0),
    ],
)
def test_the_share_never_written_is_of_the_whole_file(
    unwritten: int | None, hole: int | None, written: int | None, size: int | None, share: float
) -> None:
    """Of what is written and missing together, else of the file's size, else of the size that was asked for."""
    known = {"extent_unwritten_bytes": unwritten, "extent_hole_bytes": hole, "extent_written_bytes": written,
             "size_bytes": size}  # fmt: skip
    details = {name: value for name, value in known.items() if value is not None}
    assert never_written(at_work(given={"size": 200}, details=details)) == share


def test_a_file_of_unknown_size_counts_as_written() -> None:
    assert never_written(at_work(given={"size": None}, details={"extent_hole_bytes": 25})) == 0.0


@pytest.mark.parametrize(
    ("details", "severity", "kind"),
    [
        ({"extent_unwritten_bytes": 10}, "warning", "preallocated but never written"),
        ({"extent_hole_bytes": 11}, "invalid", "holes (sparse)"),
        ({"extent_hole_bytes": 6, "extent_unwritten_bytes": 5}, "invalid", "holes (sparse)"),
        ({"extent_hole_bytes": 6, "extent_unwritten_bytes": 6}, "invalid", "preallocated but never written"),
    ],
)
def test_a_file_with_more_than_a_tenth_unwritten_counts_for_nothing(
    details: dict[str, int], severity: str, kind: str
) -> None:
    found = unwritten_file(at_work(details={"size_bytes": 100, **details}))
    assert found is not None and found.severity == severity and f"of the file is {kind}." in found.says
    for name in ("extent_unwritten_bytes", "extent_hole_bytes"):
        assert found.evidence[name] == details.get(name, 0.0)


@pytest.mark.parametrize(("encoded", "found"), [(None, False), (0, False), (1, True)])
def test_a_file_is_compressed_where_the_filesystem_says_so(encoded: int | None, found: bool) -> None:
    known = {} if encoded is None else {"extent_encoded_bytes": encoded}
    assert (compressed_file(at_work(details={"region_bytes": 10, **known})) is not None) == found


def test_what_carries_no_data_misses_no_device() -> None:
    counters = {"device_read_bytes": 0.0, "straddling_bytes": 0.0}
    missed = missed_device(at_work(counters=counters))
    assert missed is not None and missed[0] == 1.0
    assert missed_device(at_work(given={"ioengine": "null"}, counters=counters)) is None


@pytest.mark.parametrize(
    ("direct", "kernel", "share", "severity"),
    [
        (True, "storage_blocks", 0.0195, None),
        (True, "storage_blocks", 0.021, "warning"),
        (True, "storage_blocks", 0.5, "warning"),
        (True, "storage_blocks", 0.51, "invalid"),
        (False, "storage_blocks", 0.0195, None),
        (False, "storage_blocks", 0.095, "info"),
        (False, "storage_blocks", 0.105, "warning"),
        (False, "storage_blocks", 0.9, "warning"),
        (False, "storage_metadata", 0.9, "info"),
        (False, "storage_metadata", 0.05, "info"),
    ],
)
def test_what_a_cache_answered_weighs_by_its_share(
    direct: bool, kernel: str, share: float, severity: str | None
) -> None:
    stream = Stream("read", 10**6, 10**9)
    counters = {"device_read_bytes": (1 - share) * 1e9, "straddling_bytes": 0.0}
    case = at_work(given={"direct": direct}, streams=(stream,), counters=counters)
    found = page_cache(Case(case.run, replace(case.result, kernel=kernel), 0))
    assert (found.severity if found else None) == severity
    if found:
        assert ("Direct I/O was requested." in found.says) == direct


@pytest.mark.parametrize(
    ("engine", "direct", "details", "depth", "why"),
    [
        ("psync", True, {}, 1, None),
        ("psync", True, {}, 2, "psync has one operation in flight per job at any depth"),
        ("io_uring", False, {}, 8, None),
        ("libaio", True, {}, 8, None),
        ("libaio", False, {}, 8, "buffered libaio is synchronous"),
        ("libaio", None, {}, 8, None),
        ("libaio", True, {"direct_used": False}, 8, "buffered libaio is synchronous"),
        ("libaio", False, {"direct_used": True}, 8, None),
    ],
)
def test_a_synchronous_engine_has_no_depth(
    engine: str, direct: bool | None, details: dict[str, Any], depth: int, why: str | None
) -> None:
    given = {"ioengine": engine, "direct": direct, "iodepth": depth}
    found = synchronous_engine(at_work(given=given, details=details))
    assert (found is not None) == (why is not None)
    if found is not None and why is not None:
        assert f"Queue depth {depth} was not reached" in found.says and why in found.says
        assert found.evidence["iodepth"] == found.weight == depth


@pytest.mark.parametrize(
    ("submit", "queue_s", "words"),
    [
        (True, 15.0, "Measured: 75% of each operation's time was in the submitting call, and 1.5 operations were at"),
        (True, None, "Measured: 75% of each operation's time was in the submitting call."),
        (False, 15.0, "Measured: 1.5 operations were at the device on average."),
        (False, None, ""),
    ],
)
def test_a_synchronous_engine_is_shown_by_what_was_measured(submit: bool, queue_s: float | None, words: str) -> None:
    whole = base().latency_ns
    assert whole is not None
    part = replace(whole, mean=0.75 * whole.mean)
    stream = Stream("read", 1000, 4096000, latency_ns={"total": whole, **({"submit": part} if submit else {})})
    counters = {} if queue_s is None else {"device_queue_s": queue_s}
    found = synchronous_engine(at_work(given={"ioengine": "psync"}, streams=(stream,), counters=counters))
    assert found is not None and words in found.says and ("Measured" in found.says) == bool(words)


@pytest.mark.parametrize(
    ("jobs", "wanted", "effective", "most", "seen"),
    [
        (2, 2.0, 1.0, None, None),
        (2, 4.0, 2.0, None, ("warning", 2.0, False)),
        (1, 10.0, 9.05, None, ("info", 9.05, False)),
        (1, 10.0, 8.95, None, ("warning", 8.95, False)),
        (2, 16.0, 16.0, 8, None),
        (2, 16.0, 12.0, 8, ("warning", 12.0, False)),
        (1, 16.0, 16.0, 15, None),
        (2, 16.0, 16.0, 7, ("warning", 14.0, True)),
        (2, 16.0, 10.0, 7, ("warning", 10.0, True)),
        (1, 100.0, 100.0, 89.5, ("warning", 89.5, True)),
        (1, 100.0, 95.0, 90.5, ("info", 95.0, False)),
    ],
)
def test_a_depth_is_short_by_littles_law_or_by_its_levels(
    jobs: int, wanted: float, effective: float, most: float | None, seen: tuple[str, float, bool] | None
) -> None:
    """The levels count where they hold less than nine tenths of what was asked for, and each job has its own."""
    case = at_work(given={"numjobs": jobs}, concurrency=Concurrency(wanted, effective), latency_ns=None,
                   details={} if most is None else {"iodepth_level_most": most})  # fmt: skip
    found = depth_not_reached(case)
    levels = "by the shares of operations at each depth"
    shown = None if found is None else (found.severity, found.evidence["effective"], levels in found.says)
    assert shown == seen


@pytest.mark.parametrize(("effective", "severity"), [(5.2, "info"), (4.8, "warning")])
def test_another_tools_table_contradicts_itself_where_most_is_missing(effective: float, severity: str) -> None:
    case = at_work(concurrency=Concurrency(10.0, effective), latency_ns=None, operations=123457)
    run: Run = replace(case.run, imported_from="a table")
    found = depth_not_reached(Case(run, case.result, 0))
    assert found is not None and found.severity == severity


@pytest.mark.parametrize(
    ("operations", "count", "share", "severity"),
    [(0, 1, 1.0, "invalid"), (99, 1, 0.01, "warning"), (98, 2, 0.02, "invalid")],
)
def test_faults_are_a_share_of_all_operations(operations: int, count: int, share: float, severity: str) -> None:
    failed = (Fault("read", 5, "Input/output error", count),)
    found = faults(at_work(operations=operations, faults=failed))
    assert found is not None and (found.evidence["share"], found.severity) == (share, severity)
