"""Conditions while a point ran, each just below and just above the limit from which it is named."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.estimates import t_quantile
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.conditions import outlying_repeats, repeats_needed
from hwdyno.model.point_details import Concurrency
from hwdyno.model.words import Finding, HostShare, Measurement, Run, Value
from made_point import BLOCK, DEPTH, QUIET, RATE, THREADS, base, case_of_base, found_in, make_run

SPEED = RATE * BLOCK
Change = Callable[[float], Run]


def condition(name: str) -> Change:
    """A point under one condition of the machine."""
    return lambda number: make_run(base(conditions={**QUIET, name: number}))


def with_interval(half: float, **changes: Any) -> Measurement:
    return base(throughput=Value(SPEED, "bytes/s", (1 - half) * SPEED, (1 + half) * SPEED), **changes)


def with_others(share: float, **changes: Any) -> Measurement:
    """Other processes take a share of the CPU; the point itself takes 0.6 s in 3 s on 8 processors."""
    busy = 0.6 / 3 / THREADS
    return base(conditions={"cpu_busy": busy + share, "cpu_user": busy + share, "steal": 0.0}, **changes)


def noisy_with_others(share: float) -> Run:
    return make_run(replace(with_interval(0.3), conditions=with_others(share).conditions))


def in_user_mode(share: float) -> Run:
    """A share in user mode, of 40% busy, is other processes'; the point has 1.25%."""
    return make_run(base(conditions={"cpu_busy": 0.4, "cpu_user": 0.0125 + share, "steal": 0.0}))


def at_clock(kept: float, busy: float = 2.0) -> Run:
    conditions = {**QUIET, "clock_hz_before": 3e9, "clock_hz": 3e9 * kept}
    return make_run(base(cpu_user_s=busy, cpu_system_s=0.0, conditions=conditions))


def at_io_limit(share: float, seconds: float = 3.0) -> Run:
    limits = [{"device": "sda", "read_bytes_s": base().bytes / seconds / share}]
    return make_run(base(elapsed_s=seconds), storage={"limits": limits})


def share_of_host(name: str, value: float = 1e8, **changes: Any) -> HostShare:
    made = HostShare(name, Value(value, "bytes/s", 0.99 * value, 1.01 * value), 100, 100, 3.0, 0.0, 3)
    return replace(made, **changes)


def on_hosts(*hosts: HostShare, **changes: Any) -> Run:
    return make_run(base(hosts=hosts, **changes))


def started_apart(share: float) -> Run:
    hosts = (share_of_host("a"), share_of_host("b", start_offset_s=share))
    return on_hosts(*hosts, why=("hosts_apart",) if share > 0.01 else ())


# Rule, what changes, a number just below and one just above, and its severity above.
THRESHOLDS: list[tuple[str, Change, float, float, str]] = [
    ("steal", condition("steal"), 0.0995, 0.1005, "warning"),
    ("cpu_limited", condition("cgroup_throttled"), 0.0195, 0.0205, "warning"),
    ("swapping", condition("swap_in_bytes"), 2.95e6, 3.05e6, "warning"),
    ("swapping", condition("swap_out_bytes"), 2.95e6, 3.05e6, "warning"),
    ("another_run", condition("other_runs"), 0.0, 1.0, "warning"),
    ("others_at_work", lambda share: make_run(with_others(share)), 0.245, 0.255, "warning"),
    ("others_at_work", noisy_with_others, 0.098, 0.102, "warning"),
    ("others_at_work", in_user_mode, 0.095, 0.105, "warning"),
    ("others_at_work", lambda threads: make_run(with_others(0.12, parameters={"threads": round(threads)}), "compute"),
     THREADS - 1, THREADS, "warning"),
    ("load_before", lambda share: make_run(base(), conditions={"others_cpu_share": share}), 0.099, 0.101, "warning"),
    ("io_limit", at_io_limit, 0.84, 0.86, "warning"),
    ("io_limit", at_io_limit, 1.51, 1.49, "warning"),
    ("io_limit", lambda share: at_io_limit(share, 0.5), 0.84, 0.86, "warning"),
    ("interval_not_reached", lambda half: make_run(with_interval(half)), 0.099, 0.101, "info"),
    ("interval_not_reached", lambda half: make_run(with_interval(half), profile="standard"), 0.0495, 0.0505, "info"),
    ("interval_not_reached", lambda half: make_run(with_interval(half), profile="full"), 0.0198, 0.0202, "info"),
    ("interval_not_reached", lambda half: make_run(with_interval(half)), 0.198, 0.202, "warning"),
    ("clock_dropped", at_clock, 0.971, 0.969, "info"),
    ("clock_dropped", lambda busy: at_clock(0.9, 3 * busy), 0.49, 0.51, "info"),
    ("too_short", lambda count: make_run(base(operations=round(count))), 100, 99, "warning"),
    ("host_missing", lambda missing: on_hosts(share_of_host("a"), share_of_host(
        "b", repeats=3 - round(missing), failure="it died" if missing else "")), 0, 1, "warning"),
    ("hosts_apart", started_apart, 0.009, 0.011, "warning"),
    ("straggler", lambda slower: on_hosts(share_of_host("a"), share_of_host("b"),
                                          share_of_host("c", (1 - slower) * 1e8)), 0.199, 0.201, "warning"),
]  # fmt: skip


def find_severity(rule: str, run: Run) -> str | None:
    return next((finding.severity for finding in run.findings if finding.rule == rule), None)


@pytest.mark.parametrize(("rule", "change", "below", "above", "severity"), THRESHOLDS)
def test_condition_is_named_beyond_limit(rule: str, change: Change, below: float, above: float, severity: str) -> None:
    run = explain(change(above))
    (point,) = run.experiments[0].points
    assert find_severity(rule, run) == severity
    is_degraded = severity == "warning" and rule not in {"load_before", "straggler"}
    assert point.validity == ("degraded" if is_degraded else "valid") and (rule in point.why) == is_degraded
    assert find_severity(rule, explain(change(below))) != severity


def test_clean_point_has_no_finding() -> None:
    assert not found_in(make_run(base())) and not found_in(make_run(base(conditions={})))


def the(rule: str, run: Run) -> Finding:
    (found,) = [finding for finding in explain(run).findings if finding.rule == rule]
    return found


@pytest.mark.parametrize(("share", "explained"), [(0.095, False), (0.105, True)])
def test_steal_above_tenth_explains_wide_interval(share: float, explained: bool) -> None:
    found = found_in(make_run(with_interval(0.3, conditions={**QUIET, "steal": share})))
    assert "steal" in found and ("interval_not_reached" not in found) == explained


@pytest.mark.parametrize(("share", "half", "named"), [(0.019, 0.3, False), (0.021, 0.3, True), (0.095, 0.02, False)])
def test_steal_of_a_shared_host_counts_where_the_result_is_noisy(share: float, half: float, named: bool) -> None:
    assert ("steal" in found_in(make_run(with_interval(half, conditions={**QUIET, "steal": share})))) == named


def test_noisy_point_has_the_stricter_limit() -> None:
    limits = [the("others_at_work", noisy_with_others(share)).evidence["limit"] for share in (0.2, 0.3)]
    assert limits == [0.1, 0.25]


@pytest.mark.parametrize(("before", "named"), [(0.099, False), (0.101, True), (None, False)])
def test_load_before_is_named_beside_others(before: float | None, named: bool) -> None:
    run = make_run(with_others(0.3), conditions={"others_cpu_share": before})
    assert ("before the first point" in the("others_at_work", run).says) == named
    assert find_severity("load_before", explain(run)) is None, "said once"


@pytest.mark.parametrize("command", ["hwdyno memory --seed 7", ""])
def test_busy_machine_gets_its_own_command(command: str) -> None:
    run = replace(make_run(base(), conditions={"others_cpu_share": 0.5}), command=command)
    assert the("load_before", run).advice.endswith(f"run again: {command or 'hwdyno run'}")


def test_fullest_io_limit_is_named() -> None:
    limits = [{"device": "sda", "read_bytes_s": 10 * SPEED, "read_operations_s": RATE / 0.9}]
    found = the("io_limit", make_run(base(), storage={"limits": limits}))
    assert found.evidence["unit"] == "operations_s" and found.evidence["share"] == pytest.approx(0.9)


def scattered(count: int, scatter: float, wider: float = 1.0) -> Measurement:
    """Repeats of a standard deviation as a share, and this many times the interval of their mean by Student's t."""
    offsets = [at - (count - 1) / 2 for at in range(count)]
    unit = math.sqrt(sum(offset**2 for offset in offsets) / (count - 1))
    values = tuple(SPEED * (1 + scatter * offset / unit) for offset in offsets)
    half = wider * t_quantile(count - 1) * scatter / math.sqrt(count)
    return with_interval(half, repeats=count, repeat_values=values, samples=None)


def read_twice(half: float) -> Measurement:
    return with_interval(half, repeats=2, repeat_values=(SPEED,) * 2)


@pytest.mark.parametrize(("point", "needed"), [
    # 0.10 x sqrt(10) / 2.262157 = 0.1398 after ten repeats, and 0.10 x sqrt(6) / 2.570582 = 0.0953 after six.
    (scattered(3, 0.139), 10), (scattered(3, 0.141), None), (scattered(3, 0.0952), 6), (scattered(3, 0.0954), 7),
    (scattered(4, 0.1), 7),
    # The samples leave more open than the scatter of the repeats.
    (scattered(3, 0.1, wider=1.19), 8), (scattered(3, 0.1, wider=1.21), None),
    # Two have five degrees of freedom: half x sqrt(2) / 2.570582, which ten hold at 0.1398 and eight at 0.1196.
    (read_twice(0.254), 10), (read_twice(0.256), None), (read_twice(0.21), 8),
    (with_interval(0.02, repeats=1, repeat_values=(SPEED,)), None), (with_interval(0.02, repeat_values=()), None),
])  # fmt: skip
def test_so_many_repeats_reach_target(point: Measurement, needed: int | None) -> None:
    assert repeats_needed(point, 0.1) == needed


def test_interval_that_repeats_would_narrow_is_no_warning() -> None:
    mended, open_ended = (the("interval_not_reached", make_run(scattered(3, scatter))) for scatter in (0.139, 0.141))
    assert mended.severity == "info" and "About 10 repeats would reach the target." in mended.says
    assert open_ended.severity == "warning" and "repeats would reach" not in open_ended.says


@pytest.mark.parametrize(("half", "values", "words"), [
    (0.99, (1e7, 6e7), "±99%"), (1.0, (1e7, 6e7), "10 to 60 MB/s"), (1.0, (1e7,), "±100%"),
])  # fmt: skip
def test_interval_to_zero_shows_a_range(half: float, values: tuple[float, ...], words: str) -> None:
    point = with_interval(half, repeat_values=values, samples=None)
    assert f", {words}, " in the("interval_not_reached", make_run(point)).says


@pytest.mark.parametrize(("values", "words", "weight"), [
    ((10, 10, 10, 10, 5), "One of 5 repeats was half the others", 0.5),
    ((10, 10, 10, 10, 20), "One of 5 repeats was twice the others", 1.0),
    ((10, 10, 10, 10, 30), "One of 5 repeats was 3 times the others", 2.0),
    ((10, 10, 10, 10, 7), "One of 5 repeats was 30% below the others", 0.3),
    ((0, 0, 0, 0, 5), "One of 5 repeats were far from the others", 0.0),
    ((10, 10, 10, 10, 10, 20, 20), "2 of 7 repeats were far from the others", 1.0),
])  # fmt: skip
def test_repeat_far_off_is_named(values: tuple[float, ...], words: str, weight: float) -> None:
    case = case_of_base(repeat_values=values, repeats=len(values), concurrency=Concurrency(1.0, 1.0))
    found = outlying_repeats(case)
    assert found is not None and found.says.startswith(words) and found.weight == pytest.approx(weight)
    # Of a latency test, half of the rate is twice the time.
    timed = outlying_repeats(replace(case, result=replace(case.result, metric="latency")))
    assert timed is not None and ("was twice the others" in timed.says) == ("was half" in words)


@pytest.mark.parametrize(("slow", "others", "waits"), [
    # Time and readings of the slow host and of each other one: by what one reading takes.
    ((10.4, 1), (10.0, 1), False), ((10.6, 1), (10.0, 1), True),
    ((30.0, 10), (10.0, 10), True), ((10.0, 10), (3.0, 1), False),
])  # fmt: skip
def test_site_waits_for_longer_readings(slow: tuple[float, int], others: tuple[float, int], waits: bool) -> None:
    made = (("a", 5e7, *slow), ("b", 1e8, *others), ("c", 1e8, *others))
    hosts = [share_of_host(name, value, elapsed_s=time_s, repeats=count) for name, value, time_s, count in made]
    run = on_hosts(*hosts, concurrency=Concurrency(DEPTH, 0.95 * DEPTH))
    assert (" The site waits for it." in the("straggler", run).says) == waits
    assert ("depth_not_reached" not in found_in(run)) == waits, "a wait explains that fewer were in flight"


@pytest.mark.parametrize("path", ["/data", "s3://bench/model"])
def test_a_stores_own_process_is_no_other_work(path: str) -> None:
    run = make_run(with_others(0.4), "inference")
    (result,) = run.experiments
    run = replace(run, experiments=(replace(result, fixed={**result.fixed, "path": path}),))
    rules = {finding.rule for finding in explain(run).findings}
    assert ("others_at_work" in rules) == (path == "/data")


@pytest.mark.parametrize(
    ("filesystem", "resource"), [("ext4", "storage"), ("fuse.rclone", "storage"), ("fuse", "memory")]
)
def test_a_mounts_own_process_is_no_other_work(filesystem: str, resource: str) -> None:
    run = make_run(with_others(0.4), resource)
    machine = replace(run.machine, storage=replace(run.machine.storage, filesystem=filesystem))
    rules = {finding.rule for finding in explain(replace(run, machines=(machine,))).findings}
    assert ("others_at_work" in rules) == (filesystem == "ext4" or resource == "memory")
