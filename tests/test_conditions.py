"""Conditions while a point ran, each just below and just above the limit from which it is named."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.findings import explain
from hwdyno.findings.conditions import outlying_repeats, repeats_needed
from hwdyno.statistics import t_quantile
from hwdyno.words import Concurrency, Finding, HostShare, Measurement, Run, Value
from made_experiment import made_experiment
from made_point import BLOCK, DEPTH, QUIET, RATE, THREADS, base, case_of, found_in, run_of

SPEED = RATE * BLOCK
Change = Callable[[float], Measurement]


def condition(name: str) -> Change:
    """A point under one condition of the machine."""
    return lambda number: base(conditions={**QUIET, name: number})


def with_interval(half: float, **changes: Any) -> Measurement:
    return base(throughput=Value(SPEED, "bytes/s", (1 - half) * SPEED, (1 + half) * SPEED), **changes)


def beside_others(share: float, **changes: Any) -> Measurement:
    """Other processes take a share of the CPU; the point itself takes 0.6 s in 3 s on 8 processors."""
    own = 0.6 / 3 / THREADS
    return base(conditions={"cpu_busy": own + share, "cpu_user": own + share, "steal": 0.0}, **changes)


def noisy_beside_others(share: float) -> Measurement:
    return replace(with_interval(0.3), conditions=beside_others(share).conditions)


def others_in_user_mode(share: float) -> Measurement:
    """Of 40% busy, a share in user mode is other processes'; the point has 1.25%."""
    return base(conditions={"cpu_busy": 0.4, "cpu_user": 0.0125 + share, "steal": 0.0})


def at_clock(kept: float, busy: float = 2.0) -> Measurement:
    conditions = {**QUIET, "clock_hz_before": 3e9, "clock_hz": 3e9 * kept}
    return base(cpu_user_s=busy, cpu_system_s=0.0, conditions=conditions)


def share_of_host(name: str, value: float = 1e8, offset_s: float = 0.0, **changes: Any) -> HostShare:
    made = HostShare(name, Value(value, "bytes/s", 0.99 * value, 1.01 * value), 100, 100, 3.0, offset_s, 3)
    return replace(made, **changes)


def started_apart(share: float) -> Measurement:
    hosts = (share_of_host("a"), share_of_host("b", offset_s=share))
    return base(hosts=hosts, why=("hosts_apart",) if share > 0.01 else ())


def with_straggler(slower: float) -> Measurement:
    return base(hosts=(share_of_host("a"), share_of_host("b"), share_of_host("c", (1 - slower) * 1e8)))


def without_reading(missing: float) -> Measurement:
    failed = share_of_host("b", repeats=3 - round(missing), failure="it died" if missing else "")
    return base(hosts=(share_of_host("a"), failed))


# Rule, what changes, a number just below and one just above, severity and the point's validity above.
THRESHOLDS: list[tuple[str, Change, float, float, str, str]] = [
    ("steal", condition("steal"), 0.0195, 0.0205, "warning", "degraded"),
    ("cpu_limited", condition("cgroup_throttled"), 0.0195, 0.0205, "warning", "degraded"),
    ("swapping", condition("swap_in_bytes"), 2.95e6, 3.05e6, "warning", "degraded"),
    ("swapping", condition("swap_out_bytes"), 2.95e6, 3.05e6, "warning", "degraded"),
    ("another_run", condition("other_runs"), 0.0, 1.0, "warning", "degraded"),
    ("others_at_work", beside_others, 0.245, 0.255, "warning", "degraded"),
    ("others_at_work", noisy_beside_others, 0.098, 0.102, "warning", "degraded"),
    ("others_at_work", others_in_user_mode, 0.095, 0.105, "warning", "degraded"),
    ("interval_not_reached", with_interval, 0.098, 0.102, "info", "valid"),
    ("interval_not_reached", with_interval, 0.198, 0.202, "warning", "degraded"),
    ("clock_dropped", at_clock, 0.971, 0.969, "info", "valid"),
    ("clock_dropped", lambda busy: at_clock(0.9, 3 * busy), 0.49, 0.51, "info", "valid"),
    ("too_short", lambda count: base(operations=round(count)), 100, 99, "warning", "degraded"),
    ("host_missing", without_reading, 0, 1, "warning", "degraded"),
    ("hosts_apart", started_apart, 0.009, 0.011, "warning", "degraded"),
    ("straggler", with_straggler, 0.199, 0.201, "warning", "valid"),
]


@pytest.mark.parametrize(("rule", "change", "below", "above", "severity", "validity"), THRESHOLDS)
def test_condition_is_named_above_its_limit(
    rule: str, change: Change, below: float, above: float, severity: str, validity: str
) -> None:
    run = explain(run_of(change(above)))
    (point,) = run.experiments[0].points
    assert found_in(run).get(rule) == severity
    assert point.validity == validity and (rule in point.why) == (validity == "degraded")
    assert found_in(run_of(change(below))).get(rule) != severity


def test_clean_point_has_no_finding() -> None:
    assert not found_in(run_of(base())) and not found_in(run_of(base(conditions={})))


def the(rule: str, run: Run) -> Finding:
    (found,) = [finding for finding in explain(run).findings if finding.rule == rule]
    return found


# --- who else was at work


@pytest.mark.parametrize(("share", "explained"), [(0.095, False), (0.105, True)])
def test_steal_above_tenth_explains_wide_interval(share: float, explained: bool) -> None:
    found = found_in(run_of(with_interval(0.3, conditions={**QUIET, "steal": share})))
    assert "steal" in found and ("interval_not_reached" not in found) == explained


@pytest.mark.parametrize(
    ("point", "limit"), [(noisy_beside_others(0.2), 0.1), (noisy_beside_others(0.3), 0.25), (beside_others(0.3), 0.25)]
)
def test_noisy_point_has_the_stricter_limit(point: Measurement, limit: float) -> None:
    assert the("others_at_work", run_of(point)).evidence["limit"] == limit


@pytest.mark.parametrize(("threads", "named"), [(THREADS, True), (THREADS - 1, False)])
def test_point_that_needs_all_processors_suffers(threads: int, named: bool) -> None:
    point = beside_others(0.12, parameters={"operation": "fma", "threads": threads})
    assert ("others_at_work" in found_in(run_of(point, "compute"))) == named


@pytest.mark.parametrize(("before", "named"), [(0.099, False), (0.101, True), (None, False)])
def test_busy_before_the_first_point(before: float | None, named: bool) -> None:
    run = run_of(base(), conditions={"others_cpu_share": before})
    assert ("load_before" in {finding.rule for finding in explain(run).findings}) == named
    loaded = the("others_at_work", run_of(beside_others(0.3), conditions={"others_cpu_share": before}))
    assert ("before the first point" in loaded.says) == named
    for command, advised in (("hwdyno memory --seed 7", "hwdyno memory --seed 7"), ("", "hwdyno run")):
        if named:
            assert the("load_before", replace(run, command=command)).advice.endswith(f"run again: {advised}")


# --- limits of the container


@pytest.mark.parametrize("seconds", [3.0, 0.5])
@pytest.mark.parametrize(("share", "named"), [(0.84, False), (0.86, True), (1.49, True), (1.51, False)])
def test_io_limit_is_named_where_reached(share: float, named: bool, seconds: float) -> None:
    limits = [{"device": "sda", "read_bytes_s": base().bytes / seconds / share}]
    found = found_in(run_of(base(elapsed_s=seconds), storage={"limits": limits}))
    assert found.get("io_limit") == ("warning" if named else None)


def test_fullest_io_limit_is_named() -> None:
    limits = [{"device": "sda", "read_bytes_s": 10 * SPEED, "read_operations_s": RATE / 0.9}]
    found = the("io_limit", run_of(base(), storage={"limits": limits}))
    assert found.evidence["unit"] == "operations_s" and found.evidence["share"] == pytest.approx(0.9)


# --- the interval, and the repeats that would narrow it


@pytest.mark.parametrize(("profile", "target"), [("quick", 0.10), ("standard", 0.05), ("full", 0.02)])
def test_each_profile_has_its_target(profile: str, target: float) -> None:
    for half in (0.99 * target, 1.01 * target):
        assert ("interval_not_reached" in found_in(run_of(with_interval(half), profile=profile))) == (half > target)


def scattered(count: int, scatter: float, wider: float = 1.0) -> Measurement:
    """Repeats of a standard deviation as a share, and so many times the interval of their mean by Student's t."""
    offsets = [at - (count - 1) / 2 for at in range(count)]
    unit = math.sqrt(sum(offset**2 for offset in offsets) / (count - 1))
    values = tuple(SPEED * (1 + scatter * offset / unit) for offset in offsets)
    half = wider * t_quantile(count - 1) * scatter / math.sqrt(count)
    return with_interval(half, repeats=count, repeat_values=values, samples=None)


@pytest.mark.parametrize(
    ("point", "needed"),
    [
        (scattered(3, 0.139), 10),  # 0.10 x sqrt(10) / 2.262157 = 0.1398 after ten repeats.
        (scattered(3, 0.141), None),
        (scattered(3, 0.0952), 6),  # 0.10 x sqrt(6) / 2.570582 = 0.0953 after six.
        (scattered(3, 0.0954), 7),
        (scattered(4, 0.1), 7),
        # The samples leave more open than the scatter of the repeats.
        (scattered(3, 0.1, wider=1.19), 8),
        (scattered(3, 0.1, wider=1.21), None),
    ],
)
def test_interval_that_repeats_would_narrow_is_no_warning(point: Measurement, needed: int | None) -> None:
    found = the("interval_not_reached", run_of(point))
    assert found.evidence["repeats_needed"] == needed
    assert found.severity == ("info" if needed else "warning")
    assert (f"About {needed} repeats would reach the target." in found.says) == bool(needed)


@pytest.mark.parametrize(
    ("half", "count", "values", "needed"),
    [
        # Five degrees of freedom: half x sqrt(2) / 2.570582, which ten repeats hold at 0.1398 and eight at 0.1196.
        (0.254, 2, 2, 10),
        (0.256, 2, 2, None),
        (0.21, 2, 2, 8),
        (0.02, 1, 1, None),
        (0.02, 3, 0, None),
    ],
)
def test_two_repeats_need_more_by_pooled_spread(half: float, count: int, values: int, needed: int | None) -> None:
    assert repeats_needed(with_interval(half, repeats=count, repeat_values=(SPEED,) * values), 0.1) == needed


@pytest.mark.parametrize(
    ("half", "values", "words"),
    [(0.99, (1e7, 6e7), "±99%"), (1.0, (1e7, 6e7), "10 to 60 MB/s"), (1.0, (1e7,), "±100%")],
)
def test_interval_to_zero_is_printed_as_range(half: float, values: tuple[float, ...], words: str) -> None:
    point = with_interval(half, repeat_values=values, samples=None, repeats=len(values) + 2)
    assert f", {words}, " in the("interval_not_reached", run_of(point)).says


# --- repeats far from the others


@pytest.mark.parametrize(
    ("values", "words", "weight"),
    [
        ((10, 10, 10, 10, 5), "One of 5 repeats was half the others", 0.5),
        ((10, 10, 10, 10, 20), "One of 5 repeats was twice the others", 1.0),
        ((10, 10, 10, 10, 30), "One of 5 repeats was 3 times the others", 2.0),
        ((10, 10, 10, 10, 7), "One of 5 repeats was 30% below the others", 0.3),
        ((0, 0, 0, 0, 5), "One of 5 repeats were far from the others", 0.0),
        ((10, 10, 10, 10, 10, 20, 20), "2 of 7 repeats were far from the others", 1.0),
    ],
)
def test_repeat_far_off_is_named(values: tuple[float, ...], words: str, weight: float) -> None:
    point = base(repeat_values=tuple(map(float, values)), repeats=len(values))
    found = outlying_repeats(case_of(run_of(point).experiments[0]))
    assert found is not None and found.says.startswith(words) and found.weight == pytest.approx(weight)


def test_latency_test_has_slow_repeats_as_times() -> None:
    """Half of the rate is twice the time."""
    values = (10.0, 10.0, 10.0, 10.0, 5.0)
    point = base(repeat_values=values, repeats=5, concurrency=Concurrency(1.0, 1.0), parameters={"working_set": 4096})
    result = made_experiment("memory.x", "memory", "?", "working_set", "memory_latency", (point,), fixed={})
    found = the("outlying_repeats", replace(run_of(point), experiments=(result,)))
    assert found.says.startswith("One of 5 repeats was twice the others")


# --- hosts


@pytest.mark.parametrize(
    ("slow", "others", "waits"),
    [
        # Time and readings of the slow host and of each other one: by what one reading takes.
        ((10.4, 1), (10.0, 1), False),
        ((10.6, 1), (10.0, 1), True),
        ((30.0, 10), (10.0, 10), True),
        ((10.0, 10), (3.0, 1), False),
    ],
)
def test_site_waits_for_longer_readings(slow: tuple[float, int], others: tuple[float, int], waits: bool) -> None:
    hosts = [
        share_of_host(name, value, elapsed_s=time_s, repeats=readings)
        for name, value, (time_s, readings) in (("a", 5e7, slow), ("b", 1e8, others), ("c", 1e8, others))
    ]
    point = base(hosts=tuple(hosts), concurrency=Concurrency(DEPTH, 0.95 * DEPTH))
    found = explain(run_of(point)).findings
    (straggler,) = [finding for finding in found if finding.rule == "straggler"]
    assert straggler.says.split(". ")[1].startswith("The site waits for it" if waits else "The site's result includes")
    # A wait also explains that fewer operations were in flight.
    assert ("depth_not_reached" not in {finding.rule for finding in found}) == waits
