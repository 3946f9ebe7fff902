"""What rules read off a point, and how figures are printed in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.findings.rule import Case, contrast, quantity
from hwdyno.findings.summary import hedged
from hwdyno.machine import Machine
from hwdyno.words import Concurrency, Curve, HostShare, Latency, Stream, Value
from made_point import base, case_of_base


@pytest.mark.parametrize(("first", "second", "words"), [
    ("0.94 µs", "0.25 µs", "0.94 → 0.25 µs"), ("1.04 µs", "9.96 µs", "1.0 → 10.0 µs"),
    ("10.4 µs", "99.6 µs", "10 → 100 µs"), ("10.4 µs", "10.6 µs", "10.4 → 10.6 µs"),
    ("940 ns", "1.3 µs", "940 ns → 1.3 µs"), ("1,240 µs", "10.0 µs", "1,240 → 10 µs"),
])  # fmt: skip
def test_two_quantities_differ_in_their_digits(first: str, second: str, words: str) -> None:
    assert contrast(first, second) == words


@pytest.mark.parametrize(("value", "words"), [
    (Value(43.3e9, "bytes/s", 22e9, 64.6e9), "43.3 GB/s ±49%"),
    (Value(43.3e9, "bytes/s", 20e9, 66.6e9), "43.3 GB/s (20 to 67 GB/s)"),
    (Value(43.3e9, "bytes/s", 12e9, 95e9), "43.3 GB/s (12 to 95 GB/s)"),
    (Value(43.3e9, "bytes/s", 0.0, 135e9), "43.3 GB/s (few repeats)"),
    (Value(0.5, "ns", 0.45, 0.55), "0.500 ns ±10%"), (Value(0.0, "ns", 0.0, 0.0), "0 ns"), (Value(5.0, "s"), "5.00 s"),
])  # fmt: skip
def test_wide_interval_is_printed_by_its_ends(value: Value, words: str) -> None:
    assert quantity(value) == words


def test_rate_of_latency_test_is_printed_as_time() -> None:
    eight, alone = case_of_base(), case_of_base(concurrency=Concurrency(1.0, 1.0))
    timed = replace(alone, result=replace(alone.result, metric="latency"))
    assert timed.timed and not alone.timed and not replace(timed, at=-1).timed
    assert not replace(eight, result=replace(eight.result, metric="latency")).timed, "eight in flight"
    assert timed.quantity(Value(1e6, "operations/s", 0.8e6, 1.25e6)) == "1.00 µs ±25%"
    assert timed.quantity(Value(0.0, "operations/s", 0.0, 1e6)) == "0 ns"
    assert [timed.quantity(rate, "operations/s") for rate in (2e6, 0.0)] == ["500 ns", "0 ns"]


TIMED, UNTIMED = base().streams[0], Stream("write", 100, 409600)


@pytest.mark.parametrize(("changes", "in_flight"), [
    ({"concurrency": Concurrency(8, 7.5)}, 7.5),
    # By Little's law: 10,000 a second at 0.8 ms, where all streams are timed or none.
    ({"concurrency": None}, 8.0), ({"concurrency": None, "streams": (UNTIMED,)}, 8.0),
    ({"concurrency": None, "latency_ns": Latency(1e6, 1e6, 1e6, 1e6, None, 1e6, 1e6, 9)}, 10.0),
    ({"concurrency": None, "streams": (TIMED, UNTIMED)}, None),
    ({"concurrency": Concurrency(8, None), "streams": (TIMED, replace(UNTIMED, operations=0))}, 8.0),
])  # fmt: skip
def test_in_flight_is_measured_or_by_littles_law(changes: dict[str, Any], in_flight: float | None) -> None:
    assert case_of_base(**changes).effective == (in_flight and pytest.approx(in_flight))


@pytest.mark.parametrize(("cpu_s", "elapsed_s", "known", "share"), [
    # Half of 8 processors is busy for 3 s: 0.3 s are 1.25%.
    ((0.3, 0.3), 3.0, "busy user", 0.475), ((0.3, 0.0), 3.0, "busy user", 0.4875),
    ((0.0, 0.3), 3.0, "busy user", 0.4875), ((0.3, 0.3), 0.5, "busy user", 0.35), ((0.0, 0.0), 3.0, "busy user", None),
    ((0.3, 0.3), 0.0, "busy user", None), ((0.3, 0.3), 3.0, "busy", None), ((0.3, 0.3), 3.0, "user", None),
])  # fmt: skip
def test_others_share_is_neither_own_nor_idle(cpu_s: Any, elapsed_s: float, known: str, share: float | None) -> None:
    conditions = {f"cpu_{name}": 0.5 for name in known.split()}
    case = case_of_base(cpu_user_s=cpu_s[0], cpu_system_s=cpu_s[1], elapsed_s=elapsed_s, conditions=conditions)
    assert case.others_share == (share and pytest.approx(share))


@pytest.mark.parametrize(
    ("hosts", "at", "part", "jobs"),
    [("ab", 0, 0.5, 8), ("ax", 0, 0.25, 8), ("x", 0, 1.0, 4), ("", 0, 1.0, 16), ("ab", -1, 1.0, 4)],
)
def test_hosts_of_point_are_part_of_site(hosts: str, at: int, part: float, jobs: float) -> None:
    """Of four nodes, each with four jobs; the experiment as a whole has no number of jobs."""
    shares = tuple(HostShare(host, Value(1.0, "bytes/s"), 1, 1, 1.0, 0.0, 1) for host in hosts)
    case = case_of_base(hosts=shares, parameters={**base().parameters, "numjobs": 4})
    site = replace(case.run, machines=tuple(replace(Machine(), hostname=name) for name in "abcd"))
    found = Case(site, case.result, at)
    assert (found.part_of_site, found.jobs) == (part, jobs)


@pytest.mark.parametrize(("printed", "rounding", "tolerance"), [
    # Of 50.0 two digits count, so that it is off by 1 in 50, unless the table says how it was rounded.
    (None, None, 0.03), ({"x": 50.0}, None, 0.03), (None, {"x": 0.2}, 0.03),
    ({"x": 50.0}, {"x": 0.2}, 0.21), ({"x": 51.0}, {"x": 0.2}, 0.03),
])  # fmt: skip
def test_figure_of_table_is_as_exact_as_its_digits(printed: Any, rounding: Any, tolerance: float) -> None:
    case = case_of_base(details={"printed": printed, "rounding": rounding})
    assert replace(case, run=replace(case.run, imported_from="x")).tolerance(0.01, 50.0) == pytest.approx(tolerance)
    assert case.tolerance(0.001, 50.0) == 0.01


@pytest.mark.parametrize(("points", "caution"), [(4, ""), (3, " Caution: 2 of 3 points are degraded or invalid.")])
def test_curve_of_poor_points_has_caution(points: int, caution: str) -> None:
    poor = (base(validity="degraded"), base(validity="invalid"))
    result = replace(case_of_base().result, points=(*poor, *(base(),) * (points - 2)))
    assert hedged("It.", result, Curve({}, "iodepth", (*range(points),), "bytes/s", "none")) == f"It.{caution}"
