"""Single lines of the rules on network paths, on settings and on the kind of device, at their edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.ceilings.network import _copies_key, _wire_key
from hwdyno.findings.device import mix_penalty, spinning_or_solid
from hwdyno.findings.network import bufferbloat, congestion_slow, datagram_loss, ends_bound, loss, window_limited
from hwdyno.findings.network_path import _copy, _is_paced, _lost_without_a_queue, blackhole, no_link, policed, server_of
from hwdyno.findings.rule import Case, Verdict
from hwdyno.findings.settings import (
    _client_bound,
    _cpuset,
    _holds_back,
    _memlock,
    _not_registered,
    _starved,
)
from hwdyno.machine import Machine
from hwdyno.words import Ceiling, Value
from made_experiment import made_experiment
from test_findings_settings import judged, linpack, machine_with, peak
from test_single_limits import at_work
from test_single_lines import case_of
from test_thresholds import base

# --- paths and their ends


def sent(*points: dict[str, Any]) -> Case:
    """Streams over a path, each of one second, with these parameters and fields."""
    made = tuple(
        base(**{"latency_ns": None, "elapsed_s": 1.0, "repeats": 1, "throughput": Value(1e9, "bytes/s"), **changes})
        for changes in points
    )
    result = made_experiment("network.x", "network", "?", "streams", "network_throughput", made, fixed={})
    return case_of(result)


@pytest.mark.parametrize(("direction", "cores"), [("both", 2), ("send", 1)])
def test_both_ways_take_two_cores(direction: str, cores: int) -> None:
    case = sent({"parameters": {"streams": 1, "direction": direction}, "details": {"cpu_here_s": 0.95 * cores}})
    found = ends_bound(case)
    assert found is not None and found.evidence["cpu_share"] == pytest.approx(0.95)


@pytest.mark.parametrize(("rtt_us", "found"), [(0.0, False), (100.0, True)])
def test_a_window_limits_where_the_round_trip_is_known(rtt_us: float, found: bool) -> None:
    details = {"rtt_mean_us": rtt_us, "receiver_limited_share": 0.9}
    assert (window_limited(sent({"parameters": {"streams": 1}, "details": details})) is not None) == found


@pytest.mark.parametrize(("protocol", "segments", "datagrams"), [("tcp", True, False), ("udp", False, True)])
def test_each_protocol_has_its_own_loss(protocol: str, segments: bool, datagrams: bool) -> None:
    case = sent({"parameters": {"protocol": protocol}, "details": {"retransmit_share": 0.1, "loss_share": 0.1}})
    assert (loss(case) is not None, datagram_loss(case) is not None) == (segments, datagrams)


@pytest.mark.parametrize(("ns", "falls"), [(999.0, True), (1000.0, False), (1001.0, False)])
def test_latency_falls_under_load_where_it_is_less(ns: float, falls: bool) -> None:
    latency = base().latency_ns
    assert latency is not None
    case = sent({"details": {"idle_p50_ns": 1000.0}, "latency_ns": replace(latency, p50=ns)})
    found = bufferbloat(case)
    assert found is not None and ("Latency falls" in found.says) == falls


@pytest.mark.parametrize(
    ("rates", "ratio"),
    [
        ([(1e9, 5e8), (3e8, 1e8)], 3.0),
        ([(3e8, 1e8), (1e9, 5e8)], 3.0),
        ([(2.0, 1.0)], 2.0),
        ([(1e9, 0.0)], None),
        ([(1.2e9, 1e9)], None),
    ],
)
def test_the_worst_ratio_of_two_congestion_controls_counts(
    rates: list[tuple[float, float]], ratio: float | None
) -> None:
    points = [
        {"parameters": {"congestion": name, "window": window}, "throughput": Value(rate, "bytes/s"),
         "details": {"congestion_control": name}}
        for window, pair in enumerate(rates)
        for name, rate in zip(("cubic", "bbr"), pair, strict=True)
    ]  # fmt: skip
    found = congestion_slow(sent(*points))
    assert (found.evidence["ratio"] if found else None) == ratio
    invalid = congestion_slow(sent(*({**one, "validity": "invalid"} for one in points[:1]), *points[1:2]))
    assert invalid is None, "nothing to compare with"


@pytest.mark.parametrize(
    ("given", "unit", "bytes_s"),
    [
        ({"operation": "copy", "threads": 4, "working_set": 128 << 20}, "bytes/s", 1e10),
        ({"operation": "nt_copy", "working_set": 128 << 20}, "bytes/s", 4e10),
        ({"operation": "read", "working_set": 128 << 20}, "bytes/s", 0.0),
        ({"operation": "copy", "working_set": (128 << 20) - 1}, "bytes/s", 0.0),
        ({"operation": "copy"}, "bytes/s", 0.0),
        ({"operation": "copy", "working_set": 128 << 20}, "operations/s", 0.0),
    ],
)
def test_a_core_copies_half_of_what_a_copy_moves_by_thread(given: dict[str, Any], unit: str, bytes_s: float) -> None:
    """80 GB/s moved are 40 GB/s copied; a copy timed beside the point itself comes first."""
    point = base(parameters=given, throughput=Value(8e10, unit))
    memory = made_experiment("memory.x", "memory", "?", "threads", "memory_bandwidth", (point,), fixed={})
    case = sent({"details": {"loopback": True}})
    case = Case(replace(case.run, experiments=(*case.run.experiments, memory)), case.result, 0)
    assert _copy(case, case.point) == bytes_s
    assert _copy(case, replace(case.point, details={"copy_bytes_s": 5e9})) == 5e9


@pytest.mark.parametrize(
    ("given", "rate", "paced"),
    [
        ({"rate": 8e9, "streams": 2}, 1.9e9, True),
        ({"rate": 8e9, "streams": 2}, 1.89e9, False),
        ({"rate": 8e9, "streams": 2, "direction": "both"}, 3.8e9, True),
        ({"rate": 8e9, "streams": 2, "direction": "both"}, 3.79e9, False),
        ({"rate": 8e9}, 0.95e9, True),
        ({"rate": 1}, 0.125, True),
        ({"rate": 0}, 1e9, False),
        ({}, 1e9, False),
    ],
)
def test_a_path_is_paced_that_moves_what_was_asked(given: dict[str, Any], rate: float, paced: bool) -> None:
    """In bit/s by stream and way; 95% of it is enough."""
    case = sent({"parameters": given, "throughput": Value(rate, "bytes/s")})
    assert _is_paced(case, case.point) == paced


@pytest.mark.parametrize(
    ("protocol", "loopback", "elapsed_s", "arrived", "found"),
    [
        ("tcp", False, 0.3, 19_999, True),
        ("tcp", False, 0.2, 0, True),
        ("tcp", False, 0.19, 0, False),
        ("tcp", False, 0.3, 20_000, False),
        ("udp", False, 0.3, 0, False),
        ("tcp", True, 0.3, 0, False),
    ],
)
def test_a_black_hole_passes_less_than_twenty_segments_in_a_fifth_of_a_second(
    protocol: str, loopback: bool, elapsed_s: float, arrived: int, found: bool
) -> None:
    details = {"mss_bytes": 1000, "server": "answered", "retransmits": 3, "loopback": loopback}
    case = sent(
        {
            "parameters": {"protocol": protocol, "mss": 1448},
            "details": details,
            "elapsed_s": elapsed_s,
            "bytes": arrived,
        }
    )
    verdict = blackhole(case)
    assert (verdict is not None) == found
    assert verdict is None or "--mss 1000" in verdict.advice


@pytest.mark.parametrize(("most", "found"), [(1.05e8, True), (1.07e8, False), (1.5e8, False)])
def test_a_policers_goodput_is_the_same_within_six_percent(most: float, found: bool) -> None:
    details = {"congestion_control": "cubic", "retransmit_share": 0.02, "rtt_mean_us": 1000.0, "rtt_min_us": 990.0}
    verdict = policed(sent(*({"parameters": {"protocol": "tcp", "streams": count}, "details": details,
                              "throughput": Value(rate, "bytes/s")}
                             for count, rate in ((1, 1e8), (2, 1e8), (4, most)))))  # fmt: skip
    assert (verdict is not None) == found
    assert verdict is None or "from 1 to 4 streams" in verdict.says


@pytest.mark.parametrize(("rtt_us", "lost"), [(2000.0, True), (2001.0, False), (0.0, False)])
def test_no_queue_builds_up_within_half_more_and_half_a_millisecond(rtt_us: float, lost: bool) -> None:
    point = base(details={"retransmit_share": 0.01, "rtt_mean_us": rtt_us, "rtt_min_us": 1000.0})
    assert _lost_without_a_queue(point) == lost


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"server": "there"}, {"server": "there"}),
        ({"server": "there", "port": 5201}, {"server": "there"}),
        ({"server": "there", "port": 0}, {"server": "there"}),
        ({"server": "there", "port": 1}, {"server": "there", "port": "1"}),
        ({"server": "there", "port": 5202}, {"server": "there", "port": "5202"}),
        ({"port": 5202}, {}),
    ],
)
def test_a_command_names_the_other_end_and_a_port_of_its_own(given: dict[str, Any], options: dict[str, str]) -> None:
    assert server_of(sent({"parameters": given}).result) == options


# --- settings


@pytest.mark.parametrize(
    ("allowed", "threads", "words"),
    [(2, 8, "2 of 8 processors"), (1, 8, "1 of 8 processors"), (0, 8, ""), (8, 8, ""), (9, 8, ""), (1, None, "")],
)
def test_a_cpuset_is_told_where_it_leaves_processors_out(allowed: int, threads: int | None, words: str) -> None:
    machine = Machine.of_survey({"cpu": {"threads": threads}} if threads else {})
    machine = replace(machine, container=replace(machine.container, cpuset=tuple(range(allowed))))
    assert _cpuset(machine) == (f"This process may run on {words} (cpuset)." if words else "")


def test_the_memory_that_may_be_locked_is_told_in_kib() -> None:
    machine = Machine()
    small = replace(machine, settings=replace(machine.settings, limits={"memlock": "65536"}))
    assert (_memlock(small), _memlock(machine)) == ("This process may lock 64 KiB of memory (ulimit -l).", "")


def bound(environment: dict[str, str], **changes: Any) -> Case:
    """Four threads of arithmetic for a second, in this environment."""
    case = at_work("compute", {"threads": 4}, **{"elapsed_s": 1.0, "cpu_system_s": 0.0, "conditions": {}, **changes})
    machine = replace(case.run.machine, settings=replace(case.run.machine.settings, environment=environment))
    return Case(replace(case.run, machines=(machine,)), case.result, 0)


@pytest.mark.parametrize(
    ("cpu_s", "elapsed_s", "words"),
    [(1.0, 1.0, "4 threads had 25% of"), (2.36, 1.0, "4 threads had 59% of"), (2.4, 1.0, ""), (2.8, 1.0, ""),
     (1.0, 0.0, ""), (None, 1.0, "")],
)  # fmt: skip
def test_threads_are_starved_below_three_fifths(cpu_s: float | None, elapsed_s: float, words: str) -> None:
    found = _starved(bound({"OMP_NUM_THREADS": "1"}, cpu_user_s=cpu_s, elapsed_s=elapsed_s))
    assert words in found and bool(found) == bool(words)


@pytest.mark.parametrize(
    ("name", "value", "holds"),
    [
        ("OMP_NUM_THREADS", "3", True),
        ("OMP_NUM_THREADS", "4", False),
        ("OMP_NUM_THREADS", "2,8", True),
        ("OMP_THREAD_LIMIT", "many", False),
        ("KMP_AFFINITY", "compact", True),
        ("KMP_AFFINITY", "", False),
    ],
)
def test_a_variable_holds_back_by_its_number_or_by_being_set(name: str, value: str, holds: bool) -> None:
    assert _holds_back(bound({name: value}), name, 4) == holds


@pytest.mark.parametrize(("user", "system", "words"), [(0.0, 10.0, "took 100% of"), (4.0, 6.0, "took 60% of"),
                                                       (5.0, 5.0, "")])  # fmt: skip
def test_the_kernels_part_of_a_busy_client_counts_above_half(user: float, system: float, words: str) -> None:
    found = _client_bound(at_work(cpu_user_s=user, cpu_system_s=system))
    assert words in found and bool(found) == bool(words)


@pytest.mark.parametrize(("refused", "found"), [(False, True), (True, False), (None, False)])
def test_buffers_are_refused_where_the_kernel_says_so(refused: bool | None, found: bool) -> None:
    assert bool(_not_registered(at_work(details={"io_uring_registered_buffers": refused}))) == found


@pytest.mark.parametrize("rates", [(1e9, 2e9), (2e9, 1e9)])
def test_a_pinned_library_is_shown_by_its_best_figure(rates: tuple[float, float]) -> None:
    run = judged(machine_with(), *(linpack(rate, "Haswell") for rate in rates), peak(1e10))
    (finding,) = [one for one in run.findings if one.rule == "pinned_library"]
    assert finding.evidence["peak_share"] == pytest.approx(0.2)


# --- the kind of device


def mixed(*points: tuple[int, Value, Any]) -> list[Verdict]:
    """Random operations by their share of reads, in percent."""
    made = tuple(
        base(parameters={"rw": {0: "randwrite", 100: "randread"}.get(share, "randrw"), "rwmixread": share, "bs": 4096,
                         "iodepth": 8}, throughput=value, streams=(), validity=validity)
        for share, value, validity in points
    )  # fmt: skip
    return mix_penalty(case_of(made_experiment("storage.x", "storage", "?", "rwmixread", "storage_blocks", made,
                                               fixed={})))  # fmt: skip


def near(value: float, half: float = 0.001) -> Value:
    return Value(value, "bytes/s", (1 - half) * value, (1 + half) * value)


PURE = ((0, near(1e9), "valid"), (100, near(1e9), "valid"))


@pytest.mark.parametrize(
    ("points", "penalty", "several"),
    [
        ([*PURE, (50, near(5e8), "valid")], 0.5, False),
        ([*PURE, (50, near(5e8), "valid"), (75, near(8e8), "valid")], 0.5, True),
        ([*PURE, (50, near(5e8), "invalid")], None, False),
        ([*PURE, (50, near(0.0), "valid")], None, False),
        ([(0, near(0.0), "valid"), PURE[1], (50, near(5e8), "valid")], None, False),
        ([(0, near(1.0), "valid"), (100, near(1.0), "valid"), (50, near(0.5), "valid")], 0.5, False),
        ([*PURE, (50, near(9e8, 0.4), "valid")], None, False),
        ([*PURE, (50, near(9.6e8), "valid")], None, False),
    ],
)
def test_a_mix_costs_what_it_lacks_of_taking_turns(
    points: list[tuple[int, Value, Any]], penalty: float | None, several: bool
) -> None:
    found = mixed(*points)
    assert [one.evidence["penalty"] for one in found] == ([] if penalty is None else [pytest.approx(penalty)])
    assert ["2 mixes of this sweep" in one.says for one in found] == [several] * len(found)


def test_a_mix_costs_at_most_everything() -> None:
    """90% lost, and the mix itself known to 150%: 15% of the whole."""
    (found,) = mixed(*PURE, (50, near(1e8, 1.5), "valid"))
    assert found.evidence["high"] == 1.0 and found.evidence["low"] == pytest.approx(0.75, abs=0.001)


@pytest.mark.parametrize(("block", "found"), [(4096, True), (8192, True), (8193, False)])
def test_a_disk_shows_its_kind_by_small_reads(block: int, found: bool) -> None:
    case = at_work(given={"bs": block, "iodepth": 1})
    assert (spinning_or_solid(case) is not None) == found


@pytest.mark.parametrize(("link", "found"), [(1.2e8, True), (1.15e8, False)])
def test_a_link_that_most_streams_fill_is_no_policer(link: float, found: bool) -> None:
    """Nine tenths of 1.2e8 are 1.08e8, and of 1.15e8 less than the 1.05e8 of four streams."""
    details = {"congestion_control": "cubic", "retransmit_share": 0.02, "rtt_mean_us": 1000.0, "rtt_min_us": 990.0}
    points: list[dict[str, Any]] = [
        {"parameters": {"streams": count}, "details": details, "throughput": Value(rate, "bytes/s")}
        for count, rate in ((1, 1e8), (2, 1e8), (4, 1.05e8))
    ]
    case = sent(*points)
    ceiling = Ceiling(f"wire/{_wire_key({'streams': 4})}", "physical", link, "bytes/s", "the link", "test")
    full = replace(case.result, ceilings=(ceiling,))
    assert (policed(Case(case.run, full, 0)) is not None) == found


@pytest.mark.parametrize(("rate", "says"), [(1.05e9, "The result is 105% of that."), (1.06e9, "was disturbed")])
def test_a_loopback_beats_its_copies_by_a_twentieth_at_most(rate: float, says: str) -> None:
    case = sent({"parameters": {"streams": 1}, "throughput": Value(rate, "bytes/s"),
                 "details": {"loopback": True, "copy_bytes_s": 1e9}})  # fmt: skip
    copies = Ceiling(f"copies/{_copies_key({'streams': 1})}", "reference", 1e9, "bytes/s", "copies", "test")
    found = no_link(Case(case.run, replace(case.result, ceilings=(copies,)), 0))
    assert found is not None and says in found.says


@pytest.mark.parametrize(("rate", "found"), [(9.44e8, 1), (9.56e8, 0)])
def test_a_mix_costs_from_a_twentieth_on(rate: float, found: int) -> None:
    assert len(mixed(*PURE, (50, near(rate), "valid"))) == found


@pytest.mark.parametrize(("ns", "kind"), [(1e6, "solid state"), (1.1e6, None), (2.9e6, None), (3e6, "spinning")])
def test_a_disk_between_one_and_three_milliseconds_is_of_no_known_kind(ns: float, kind: str | None) -> None:
    latency = base().latency_ns
    assert latency is not None
    found = spinning_or_solid(at_work(given={"iodepth": 1}, latency_ns=replace(latency, p50=ns)))
    assert (found.evidence["verdict"] if found else None) == kind
