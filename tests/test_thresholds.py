"""Each threshold of the rules on points, just below and just above, and which rules degrade what they speak of.

The numbers stand here once more: a threshold that moves by a tenth, or a rule that no longer degrades, must be seen.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.axes import with_field_axes
from hwdyno.findings import RULES, about_this_run, explain
from hwdyno.findings.conditions import repeats_needed
from hwdyno.findings.open_loop import users_wait
from hwdyno.findings.repeats import lasting_fall
from hwdyno.findings.rule import Case, quantity
from hwdyno.machine import Machine
from hwdyno.repeatability import with_pooled_repeats
from hwdyno.statistics import Histogram, half_width, interval, t_quantile
from hwdyno.words import (
    Ceiling,
    Concurrency,
    Curve,
    ExperimentResult,
    Fault,
    Finding,
    HostShare,
    Latency,
    Measurement,
    Note,
    OperatingPoint,
    Run,
    Samples,
    Stream,
    Value,
)

DEGRADES = {
    # Conditions
    *("another_run", "others_at_work", "steal", "cpu_limited", "io_limit", "swapping", "clock_dropped"),
    *("interval_not_reached", "throttled", "not_steady", "noisy_neighbour"),
    # Whether it measured what it claims
    *("little", "rate_times_size", "unwritten_file", "compressed_file", "page_cache", "direct_refused", "faults"),
    *("synchronous_engine", "depth_not_reached", "too_short", "wrong_result", "client_bound", "io_client_bound"),
    "io_faults",
    # Sites, networks, training, caches
    *("host_missing", "hosts_apart", "network_blackhole", "training_cached", "training_faults", "training_law"),
    *("training_read_ahead", "kv_no_room"),
    # Models and their servers
    *(
        "images_not_cold",
        "load_not_cold",
        "serving_cached",
        "serving_client_bound",
        "serving_faults",
        "serving_late",
        "serving_rate",
    ),
    "serving_short",
    # Results of other tools
    *("contradicts_itself", "array_in_cache", "disk_not_reached", "flops_per_core", "formula_yields_other"),
    *("latency_floor", "line_rate_in_bytes", "memory_by_clock", "too_fast_for_class", "too_many_lines"),
    "more_than_memory",
    # Caches
    *("cache_hidden", "cached_writes", "through_page_cache"),
}
"""The rules whose warnings degrade their points."""
RATE, BLOCK, DEPTH, THREADS = 10_000.0, 4096, 8.0, 8
QUIET = {"cpu_busy": 0.1, "cpu_user": 0.05, "steal": 0.0}
Change = Callable[[Measurement, float], Measurement]


def test_just_these_rules_degrade_their_points() -> None:
    assert {rule.name for rule in RULES if rule.degrades} == DEGRADES


def test_these_rules_come_first_because_they_explain_others() -> None:
    first = {"another_run", "cpu_limited", "hosts_apart", "io_limit", "others_at_work", "stalls", "steal", "straggler"}
    first |= {"costly_setting", "pinned_library"}
    assert {rule.name for rule in RULES if rule.explains} == first


def course(values: Sequence[float], each: int = 20) -> Samples:
    """Samples of repeats at these levels, or one by one."""
    whole = [value for level in values for value in [level] * each]
    return Samples(min(whole), sum(whole) / len(whole), max(whole), 0.05, None, tuple(whole))


def base(**changes: Any) -> Measurement:
    """A clean point of random 4 KiB reads, three repeats of a second."""
    wait = DEPTH / RATE * 1e9
    done = round(3 * RATE)
    latency = Latency(wait, wait, wait, wait, None, wait, wait, done)
    made = Measurement(
        parameters={"rw": "randread", "bs": BLOCK, "iodepth": int(DEPTH), "numjobs": 1, "direct": True,
                    "ioengine": "io_uring", "size": 1 << 34},
        throughput=Value(RATE * BLOCK, "bytes/s", 0.98 * RATE * BLOCK, 1.02 * RATE * BLOCK),
        rate=Value(RATE, "operations/s", 0.98 * RATE, 1.02 * RATE),
        latency_ns=latency,
        streams=(Stream("read", done, done * BLOCK, latency_ns={"total": latency}),),
        samples=course([RATE * BLOCK] * 3),
        concurrency=Concurrency(DEPTH, DEPTH),
        cpu_user_s=0.3,
        cpu_system_s=0.3,
        elapsed_s=3.0,
        operations=done,
        bytes=done * BLOCK,
        repeats=3,
        repeat_values=(RATE * BLOCK,) * 3,
        counters={"device_read_bytes": float(done * BLOCK), "process_read_bytes": float(done * BLOCK)},
        conditions=dict(QUIET),
    )  # fmt: skip
    return replace(made, **changes)


def run_of(point: Measurement, resource: str = "storage", profile: str = "quick", **survey: Any) -> Run:
    host = Machine.of_survey({"cpu": {"threads": THREADS}, **survey})
    kernel = {"storage": "storage_blocks", "compute": "compute_flops"}.get(resource, "")
    load = "iodepth" if resource == "storage" else "threads"
    result = with_field_axes(ExperimentResult(f"{resource}.{load}", resource, "?", load, kernel, (point,)))
    return Run("x", "2026-01-01T00:00:00+00:00", None, (host,), profile, "hwdyno run", (result,))


def found_in(run: Run) -> dict[str, str]:
    """The findings on points, with their severities."""
    return {one.rule: one.severity for one in explain(run).findings if one.points}


def conditions(**names: str) -> Change:
    """A change that sets a condition to the number."""
    (name,) = names.values()
    return lambda point, number: replace(point, conditions={**point.conditions, name: number})


def _others(point: Measurement, share: float) -> Measurement:
    """Others' CPU time, beside ours of 0.6 s in 3 s on 8 processors."""
    ours = 0.6 / 3 / THREADS
    return replace(point, conditions={"cpu_busy": ours + share, "cpu_user": ours + share, "steal": 0.0})


def _restless_others(point: Measurement, share: float) -> Measurement:
    return _interval(_others(point, share), 0.3)


def _interval(point: Measurement, half: float) -> Measurement:
    value = point.throughput.value
    return replace(point, throughput=Value(value, "bytes/s", (1 - half) * value, (1 + half) * value))


def _in_flight(point: Measurement, times: float) -> Measurement:
    return replace(point, concurrency=Concurrency(DEPTH, times * DEPTH))


def _clock(point: Measurement, kept: float) -> Measurement:
    busy = replace(point, cpu_user_s=2.0, cpu_system_s=0.0)
    return replace(busy, conditions={**QUIET, "clock_hz_before": 3e9, "clock_hz": 3e9 * kept})


def _cached(point: Measurement, share: float) -> Measurement:
    seen = (1 - share) * point.bytes
    return replace(point, counters={"device_read_bytes": seen, "process_read_bytes": seen})


def _unwritten(point: Measurement, share: float) -> Measurement:
    return replace(point, details={"size_bytes": 1e9, "extent_unwritten_bytes": share * 1e9, "extent_hole_bytes": 0.0})


def _compressed(point: Measurement, share: float) -> Measurement:
    return replace(point, details={"region_bytes": 1e9, "extent_encoded_bytes": share * 1e9})


def _faults(point: Measurement, share: float) -> Measurement:
    count = round(share * point.operations / (1 - share))
    return replace(point, faults=(Fault("read", 5, "Input/output error", count),) if count else ())


def _rate(point: Measurement, times: float) -> Measurement:
    return replace(point, rate=Value(times * RATE, "operations/s"))


def _cpu(point: Measurement, share: float) -> Measurement:
    return replace(point, cpu_user_s=3 * share, cpu_system_s=0.0)


def _stepping(point: Measurement, drop: float) -> Measurement:
    levels = [RATE * BLOCK * (1 - (at >= 10) * drop) * (1 + 0.001 * (-1) ** at) for at in range(20)]
    return replace(point, samples=course(levels * 3, 1))


def _stepping_once(point: Measurement, drop: float) -> Measurement:
    stepping = _stepping(point, drop)
    assert stepping.samples is not None
    return replace(stepping, samples=course(stepping.samples.values[:20], 1), repeats=1)


def _drifting(point: Measurement, moves: float) -> Measurement:
    levels = [RATE * BLOCK * (1 - moves * at / 19) * (1 + 0.001 * (-1) ** at) for at in range(20)]
    return replace(point, samples=course(levels * 3, 1))


def _stepping_anywhere(point: Measurement, drop: float) -> Measurement:
    levels = [
        RATE * BLOCK * (1 - (at >= step) * drop) * (1 + 0.001 * (-1) ** at) for step in (5, 10, 15) for at in range(20)
    ]
    return replace(point, samples=course(levels, 1))


def _falling(point: Measurement, drop: float) -> Measurement:
    return _levels(point, (1.0, 1 - drop, 1 - drop))


def _spread(point: Measurement, share: float) -> Measurement:
    """Repeats whose maximum and minimum differ by a share of the mean, the last the greatest."""
    return _levels(point, (1.0, 1 - share / 2, 1 + share / 2))


def _levels(point: Measurement, levels: Sequence[float]) -> Measurement:
    values = tuple(RATE * BLOCK * level for level in levels)
    samples = [value * (1 + 0.001 * (-1) ** at) for value in values for at in range(20)]
    return replace(point, samples=course(samples, 1), repeat_values=values, repeats=len(values))


def _still(point: Measurement, count: float) -> Measurement:
    """So many of sixty samples stand still, at places of their own in each repeat."""
    values = [RATE * BLOCK * (1 + 0.01 * (-1) ** at) for at in range(60)]
    for place in (5, 27, 44, 13, 38, 59)[: round(count)]:
        values[place] = 0.0
    return replace(point, samples=course(values, 1))


def _started_apart(point: Measurement, share: float) -> Measurement:
    offset_s = share * point.elapsed_s / point.repeats
    value = point.throughput
    hosts = tuple(HostShare(f"node{at}", value, 100, 100, 3.0, at * offset_s, 3) for at in (0, 1))
    return replace(point, hosts=hosts, why=("hosts_apart",) if share > 0.01 else ())


def _straggling(point: Measurement, slower: float) -> Measurement:
    def host(at: int, value: float) -> HostShare:
        return HostShare(f"node{at}", Value(value, "bytes/s", 0.99 * value, 1.01 * value), 100, 100, 3.0, 0.0, 3)

    return replace(point, hosts=(host(0, 1e8), host(1, 1e8), host(2, (1 - slower) * 1e8)))


def _too_few(point: Measurement, count: float) -> Measurement:
    return replace(point, operations=round(count))


STEADY = "steady"
# Rule, what changes, a number just below and one just above, and its severity above.
THRESHOLDS: list[tuple[str, Change, float, float, str]] = [
    ("steal", conditions(name="steal"), 0.0195, 0.0205, "warning"),
    ("cpu_limited", conditions(name="cgroup_throttled"), 0.0195, 0.0205, "warning"),
    ("swapping", conditions(name="swap_in_bytes"), 2.95e6, 3.05e6, "warning"),
    ("swapping", conditions(name="swap_out_bytes"), 2.95e6, 3.05e6, "warning"),
    ("another_run", conditions(name="other_runs"), 0.0, 1.0, "warning"),
    ("others_at_work", _others, 0.245, 0.255, "warning"),
    ("others_at_work", _restless_others, 0.098, 0.102, "warning"),
    ("interval_not_reached", _interval, 0.098, 0.102, "info"),
    ("interval_not_reached", _interval, 0.198, 0.202, "warning"),
    ("little", _in_flight, 1.029, 1.031, "warning"),
    ("depth_not_reached", _in_flight, 0.971, 0.969, "info"),
    ("depth_not_reached", _in_flight, 0.901, 0.899, "warning"),
    ("clock_dropped", _clock, 0.971, 0.969, "info"),
    ("page_cache", _cached, 0.019, 0.021, "warning"),
    ("page_cache", _cached, 0.495, 0.505, "invalid"),
    ("unwritten_file", _unwritten, 0.0099, 0.0101, "warning"),
    ("unwritten_file", _unwritten, 0.099, 0.101, "invalid"),
    ("compressed_file", _compressed, 0.0099, 0.0101, "warning"),
    ("compressed_file", _compressed, 0.099, 0.101, "invalid"),
    ("faults", _faults, 0.0, 0.0001, "warning"),
    ("faults", _faults, 0.0098, 0.0102, "invalid"),
    ("rate_times_size", _rate, 1.0095, 1.0105, "warning"),
    ("rate_times_size", _rate, 0.9905, 0.9895, "warning"),
    ("client_bound", _cpu, 0.895, 0.905, "warning"),
    ("too_short", _too_few, 100, 99, "warning"),
    ("throttled", _stepping_once, 0.095, 0.105, "warning"),
    ("throttled", _stepping_anywhere, 0.075, 0.085, "warning"),
    ("not_steady", _drifting, 0.094, 0.106, "warning"),
    ("repeats_disagree", _falling, 0.055, 0.065, "warning"),
    ("repeats_disagree", _spread, 0.079, 0.081, "info"),
    ("repeats_disagree", _spread, 0.195, 0.205, "warning"),
    ("stalls", _still, 2, 3, "warning"),
    ("hosts_apart", _started_apart, 0.009, 0.011, "warning"),
    ("straggler", _straggling, 0.199, 0.201, "warning"),
]


@pytest.mark.parametrize(("rule", "change", "below", "above", "severity"), THRESHOLDS)
def test_a_threshold_is_where_it_is(rule: str, change: Change, below: float, above: float, severity: str) -> None:
    found = found_in(run_of(change(base(), above)))
    assert found.get(rule) == severity
    assert found_in(run_of(change(base(), below))).get(rule) != severity


def test_a_clean_point_has_nothing() -> None:
    assert not found_in(run_of(base()))


@pytest.mark.parametrize(("rule", "change", "below", "above", "severity"), THRESHOLDS)
def test_a_warning_degrades_its_point_where_the_rule_says_so(
    rule: str, change: Change, below: float, above: float, severity: str
) -> None:
    (point,) = explain(run_of(change(base(), above))).experiments[0].points
    degraded = rule in DEGRADES and severity == "warning"
    assert point.validity == {"invalid": "invalid"}.get(severity, "degraded" if degraded else point.validity)
    assert (rule in point.why) == (severity == "invalid" or degraded or rule == "hosts_apart")


@pytest.mark.parametrize(("profile", "target"), [("quick", 0.10), ("standard", 0.05), ("full", 0.02)])
def test_each_profile_has_its_target(profile: str, target: float) -> None:
    for half in (0.99 * target, 1.01 * target):
        assert ("interval_not_reached" in found_in(run_of(_interval(base(), half), profile=profile))) == (half > target)


@pytest.mark.parametrize("share", [0.09, 0.11])
def test_steal_explains_restlessness_from_a_tenth_on(share: float) -> None:
    point = _interval(replace(base(), conditions={**QUIET, "steal": share}), 0.3)
    found = found_in(run_of(point))
    assert ("interval_not_reached" in found) == (share < 0.10) and "steal" in found


@pytest.mark.parametrize(
    ("share", "named"), [(0.84, False), (0.86, True), (1.49, True), (1.51, False)]
)  # fmt: skip
def test_a_limit_is_what_was_reached_near_it(share: float, named: bool) -> None:
    limits = [{"device": "sda", "read_bytes_s": RATE * BLOCK / share}]
    run = run_of(base(), storage={"limits": limits})
    assert ("io_limit" in found_in(run)) == named


def test_the_fullest_limit_speaks() -> None:
    limits = [{"device": "sda", "read_bytes_s": 10 * RATE * BLOCK, "read_operations_s": RATE / 0.9}]
    found = explain(run_of(base(), storage={"limits": limits})).findings
    (one,) = [one for one in found if one.rule == "io_limit"]
    assert one.evidence["unit"] == "operations_s" and one.evidence["share"] == pytest.approx(0.9)


@pytest.mark.parametrize(("share", "named"), [(0.099, False), (0.101, True)])
def test_a_machine_is_busy_before_from_a_tenth_on(share: float, named: bool) -> None:
    found = explain(run_of(base(), conditions={"others_cpu_share": share})).findings
    assert ("load_before" in {one.rule for one in found}) == named


def _step_at(place: int, repeats: int) -> Measurement:
    levels = [RATE * BLOCK * (1 - (at >= place) * 0.4) * (1 + 0.001 * (-1) ** at) for at in range(20)]
    return replace(base(), samples=course(levels * repeats, 1), repeats=repeats)


@pytest.mark.parametrize(("place", "repeats", "named"), [(16, 1, False), (15, 1, True), (17, 3, True)])
def test_a_step_needs_samples_on_both_sides(place: int, repeats: int, named: bool) -> None:
    assert ("throttled" in found_in(run_of(_step_at(place, repeats)))) == named


def test_others_are_judged_by_the_limit_that_holds() -> None:
    for share, restless, limit in ((0.2, True, 0.1), (0.3, True, 0.25), (0.3, False, 0.25)):
        point = _restless_others(base(), share) if restless else _others(base(), share)
        (one,) = [one for one in explain(run_of(point)).findings if one.rule == "others_at_work"]
        assert one.evidence["limit"] == limit and one.evidence["others_cpu"] == pytest.approx(share)
    busy = replace(_others(base(), 0.12), parameters={"operation": "fma", "threads": THREADS})
    calm = replace(busy, parameters={"operation": "fma", "threads": THREADS - 1})
    assert "others_at_work" in found_in(run_of(busy, "compute")), "it needs all processors itself"
    assert "others_at_work" not in found_in(run_of(calm, "compute"))


def test_noise_has_more_slow_samples_than_still_ones() -> None:
    still = _still(base(), 3)
    assert still.samples is not None
    values = list(still.samples.values)
    for at, named in ((2, True), (3, False)):
        for place in range(at):
            values[50 + place] = 0.2 * RATE * BLOCK
        assert ("stalls" in found_in(run_of(replace(still, samples=course(values, 1))))) == named
    few = replace(still, operations=20 * 60 - 1)
    assert "stalls" not in found_in(run_of(few)) and "stalls" in found_in(run_of(replace(few, operations=1200)))


@pytest.mark.parametrize(("interval_s", "named"), [(0.0333, False), (0.0334, True)])
def test_stalls_of_less_than_a_tenth_of_a_second_in_all_are_a_scheduler(interval_s: float, named: bool) -> None:
    still = _still(base(), 3)
    assert still.samples is not None
    point = replace(still, samples=replace(still.samples, interval_s=interval_s))
    assert ("stalls" in found_in(run_of(point))) == named


@pytest.mark.parametrize(
    ("resource", "of_the_run"), [("memory", True), ("compute", True), ("storage", False), ("", False)]
)
def test_a_processor_stalls_because_it_is_taken_away(resource: str, of_the_run: bool) -> None:
    assert about_this_run(Finding("stalls", "warning", resource, "", {}, "")) == of_the_run
    assert not about_this_run(Finding("cache_hidden", "warning", resource, "", {}, ""))


def _scattered(count: int, scatter: float) -> Measurement:
    """Repeats of a standard deviation as a share, and the interval of their mean by Student's t."""
    offsets = [at - (count - 1) / 2 for at in range(count)]
    unit = math.sqrt(sum(one * one for one in offsets) / (count - 1))
    values = tuple(RATE * BLOCK * (1 + scatter * one / unit) for one in offsets)
    half = t_quantile(count - 1) * scatter / math.sqrt(count)
    return replace(_interval(base(), half), repeats=count, repeat_values=values, samples=None)


@pytest.mark.parametrize(
    ("count", "scatter", "needed"),
    # 0.10 x sqrt(10) / 2.262157 = 0.1398 after ten repeats, and 0.10 x sqrt(6) / 2.570582 = 0.0953 after six.
    [(3, 0.139, 10), (3, 0.141, None), (3, 0.0952, 6), (3, 0.0954, 7), (4, 0.1, 7), (2, 0.02, 3)],
)
def test_what_more_repeats_would_mend_is_no_warning(count: int, scatter: float, needed: int | None) -> None:
    point = _scattered(count, scatter)
    found = explain(run_of(point))
    (one,) = [one for one in found.findings if one.rule == "interval_not_reached"] or [None]
    if count == 2:
        assert one is None, "two repeats lean on the prior"
        return
    assert one is not None and one.evidence["repeats_needed"] == needed
    assert one.severity == ("info" if needed else "warning")
    assert (f"About {needed} repeats would reach the target." in one.says) == bool(needed)
    (judged,) = found.experiments[0].points
    assert judged.validity == ("valid" if needed else "degraded")


@pytest.mark.parametrize(("times", "named"), [(1.19, False), (1.21, True)])
def test_what_samples_leave_open_no_more_repeats_mend(times: float, named: bool) -> None:
    point = _scattered(3, 0.1)
    half = half_width(point.throughput)
    assert half is not None
    found = found_in(run_of(_interval(point, times * half)))
    assert found["interval_not_reached"] == ("warning" if named else "info")


def test_two_repeats_need_more_by_the_spread_of_all() -> None:
    for half, needed in ((0.254, 10), (0.256, None)):
        # Five degrees of freedom: half x sqrt(2) / 2.570582, which ten repeats hold at 0.1398.
        two = replace(_interval(base(), half), repeats=2, repeat_values=(RATE * BLOCK,) * 2)
        assert repeats_needed(two, 0.10) == needed
    assert repeats_needed(replace(base(), repeats=1), 0.10) is None
    assert repeats_needed(replace(base(), repeat_values=()), 0.10) is None


def test_a_fall_is_found_where_it_stays_alone() -> None:
    assert lasting_fall([1.0, 0.9, 0.9]) == (1, pytest.approx(0.1))
    assert lasting_fall([1.0, 1.0, 0.8, 0.8]) == (2, pytest.approx(0.2))
    assert lasting_fall([1.0, 0.9]) is None, "one low repeat may be chance"
    assert lasting_fall([1.0, 1.0, 0.9]) is None
    assert lasting_fall([1.0, 0.9, 1.0]) is None
    assert lasting_fall([0.9, 1.0, 1.0]) is None
    assert lasting_fall([1.0, 0.86, 0.94]) == (1, pytest.approx(0.1)), "the levels are 6% apart, and the fall is 10%"
    assert lasting_fall([1.0, 0.84, 0.96]) is None, "the levels are 4% apart"
    assert lasting_fall([0.0, 0.0, 0.0]) is None


def test_a_wide_interval_is_printed_by_its_ends() -> None:
    assert quantity(Value(43.3e9, "bytes/s", 22e9, 64.6e9)) == "43.3 GB/s ±49%"
    assert quantity(Value(43.3e9, "bytes/s", 20e9, 66.6e9)) == "43.3 GB/s (20 to 67 GB/s)"
    assert quantity(Value(43.3e9, "bytes/s", 12e9, 95e9)) == "43.3 GB/s (12 to 95 GB/s)"
    assert quantity(Value(43.3e9, "bytes/s", 0.0, 135e9)) == "43.3 GB/s (few repeats)"


def twice(*pairs: tuple[float, float]) -> Run:
    """Points of an experiment that were read twice each, without samples."""
    points = []
    for depth, (one, other) in enumerate(pairs, 1):
        value, half = 2 / (1 / one + 1 / other), 12.706 * abs(one - other) / 2
        points.append(
            replace(
                base(), parameters={**base().parameters, "iodepth": depth}, samples=None, repeats=2,
                repeat_values=(one, other), throughput=Value(value, "bytes/s", max(0.0, value - half), value + half),
                rate=Value(value / BLOCK, "operations/s", 0.0, 2 * value / BLOCK),
            )
        )  # fmt: skip
    run = run_of(points[0])
    return replace(run, experiments=(replace(run.experiments[0], points=tuple(points)),))


def test_two_repeats_lean_on_the_other_points() -> None:
    run = with_pooled_repeats(twice(*[(0.99, 1.01)] * 5, (0.96, 1.04)))
    calm, worse = run.experiments[0].points[0], run.experiments[0].points[-1]
    # ln(1.01 / 0.99)^2 / 2 = 0.0002 and ln(1.04 / 0.96)^2 / 2 = 0.0032: four degrees of the others, one of its own.
    spread = ((4 * 0.000200013 + 0.00320342) / 5 / 2) ** 0.5 * 2.570582
    assert worse.throughput.high == pytest.approx(worse.throughput.value * (1 + spread + spread**2 / 2), rel=1e-4)
    assert worse.throughput.low == pytest.approx(worse.throughput.value * (1 - spread + spread**2 / 2), rel=1e-4)
    assert worse.rate is not None and worse.rate.high is not None and worse.throughput.high is not None
    assert worse.rate.high / worse.rate.value == pytest.approx(worse.throughput.high / worse.throughput.value)
    assert calm.throughput.high is not None and calm.throughput.high / calm.throughput.value < 1.06
    assert with_pooled_repeats(run) == run, "twice changes nothing"


def test_two_repeats_alone_lean_on_a_prior_and_stay_inside() -> None:
    (point,) = with_pooled_repeats(twice((0.6, 1.0))).experiments[0].points
    assert point.throughput.low is not None and point.throughput.high is not None
    assert point.throughput.low <= 0.6 and point.throughput.high >= 1.0
    (near,) = with_pooled_repeats(twice((0.999, 1.001))).experiments[0].points
    # 3% assumed, by four degrees of five: 2.57 x sqrt(4 x 0.0009 / 5 / 2).
    assert near.throughput.high == pytest.approx(near.throughput.value * 1.05, rel=3e-3)


def test_three_repeats_speak_for_themselves() -> None:
    run = run_of(base())
    assert with_pooled_repeats(run) == run


def test_a_capacity_is_printed_with_its_range_where_it_is_not_known_well() -> None:
    def says(low: float, high: float) -> str:
        points = tuple(
            replace(base(), parameters={"rate": rate}, rate=None, throughput=Value(rate, "operations/s"),
                    operations=round(3 * rate))
            for rate in (1000.0, 2000.0, 5000.0)
        )  # fmt: skip
        result = with_field_axes(ExperimentResult("storage.rate", "storage", "?", "rate", "storage_blocks", points))
        capacity = Value(1e4, "operations/s", low, high)
        curve = Curve(
            series={}, load="rate", points=(0, 1, 2), unit="operations/s", model="g-g-m",
            parameters={"S": Value(1e5, "ns"), "m": Value(1.0, "servers"), "v": Value(1.0, "1"), "capacity": capacity},
            floor=OperatingPoint(1000.0, 1000.0, 1e5, True, ""), ceiling=capacity,
        )  # fmt: skip
        run = Run("x", "", None, (Machine(),), "quick", "hwdyno run", (result,))
        verdict = users_wait(Case(run, result, curve=curve))
        assert verdict is not None
        return verdict.says

    assert says(9.5e3, 10.9e3).startswith("Capacity: 10.0 k IOPS (")
    assert says(9.5e3, 11.1e3).startswith("Capacity: 10.0 k IOPS, 9.5")
    assert says(8.9e3, 10.9e3).startswith("Capacity: 10.0 k IOPS, 8.9")


def test_a_note_of_modes_is_told_and_physical_ceilings_hold() -> None:
    note = Note("two_modes", "throughput has two modes")
    assert found_in(run_of(replace(base(), notes=(note,)))) == {"two_modes": "info"}
    for times, severity in ((1.009, None), (1.011, "invalid")):
        ceiling = Ceiling("read_bytes_s", "physical", RATE * BLOCK / times, "bytes/s", "the link", "test")
        exact = replace(base(), throughput=Value(RATE * BLOCK, "bytes/s"))
        run = run_of(exact)
        result = replace(run.experiments[0], ceilings=(ceiling,))
        assert found_in(replace(run, experiments=(result,))).get("physical_ceiling") == severity


@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_a_reading_at_the_physical_ceiling_is_hardly_ever_called_invalid(noise: float) -> None:
    """Three repeats about the ceiling itself: by its value alone, every second one with 3% of noise lies above it."""
    ceiling = Ceiling("read_bytes_s", "physical", RATE * BLOCK, "bytes/s", "the link", "test")
    invalid = 0
    for seed in range(150):
        draw = random.Random(seed)
        values = [RATE * BLOCK * draw.gauss(1, noise) for _ in range(3)]
        run = run_of(replace(base(), throughput=interval(values, "bytes/s"), rate=None, samples=None))
        result = replace(run.experiments[0], ceilings=(ceiling,))
        invalid += found_in(replace(run, experiments=(result,))).get("physical_ceiling") == "invalid"
    assert invalid <= 0.02 * 150


def test_moments_are_those_of_the_values() -> None:
    values = Histogram.from_values([100, 200, 300, 1000])
    assert values.moment(2) == pytest.approx(125_000)
    assert values.moment(4) == pytest.approx((300**4 + 200**4 + 100**4 + 600**4) / 4)
    assert Histogram().moment(2) == 0.0
