"""Single lines of the laws of published tables: needs, slips of a unit, floors, caches, lines in flight, loopback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.axes import with_field_axes
from hwdyno.findings import explain
from hwdyno.findings.published import (
    _why_backwards,
    latency_floor,
    mislabelled_accelerator,
    on_loopback,
    runs_backwards,
    through_page_cache,
    too_fast_for_class,
    too_many_lines,
    unit_slip,
)
from hwdyno.findings.rule import Case
from hwdyno.formats import printed
from hwdyno.machine import Machine
from hwdyno.words import Ceiling, Measurement, Run, Value

GIB = 1 << 30


def row(
    throughput: float,
    unit: str = "bytes/s",
    ns: float | None = None,
    rate: float | None = None,
    details: dict[str, Any] | None = None,
    **parameters: Any,
) -> Measurement:
    """A row of a table: what was printed in it, and no more."""
    found = printed.point(parameters, throughput, unit, ns, **(details or {}))
    return replace(found, rate=None if rate is None else Value(rate, "operations/s"))


def table(*points: Measurement, resource: str = "storage", at: int = -1, kernel: str = "", **fixed: Any) -> Case:
    """An imported table with these rows, and one of them."""
    result = with_field_axes(printed.experiment(f"{resource}.table", "?", kernel, "", points, **fixed))
    run = Run("x", "", None, (Machine(),), "imported", "table (x.csv)", (result,), imported_from="table")
    return Case(run, result, at)


def one(throughput: float = 1e6, resource: str = "storage", **more: Any) -> Case:
    """A table of one row, and that row."""
    return table(row(throughput, **more), resource=resource, at=0)


def one_of(point: Measurement) -> Case:
    """A table of one row."""
    return table(point, at=0)


# --- accelerators


def fed(label: str, need: float, known: dict[str, float] | None = None, off: float = 0.0) -> Measurement:
    """A row whose accelerator waits half the time: it takes half its need."""
    details = {"printed": {"au": 0.5}, "rounding": {"bw": off}, "needs_bytes_s": known or {}}
    return row(need / 2, accelerator=label, details=details)


@pytest.mark.parametrize(
    ("need", "off", "named"),
    [(104.0, 0.0, False), (106.0, 0.0, True), (106.0, 0.02, False), (108.0, 0.02, True)],
)
def test_a_row_within_a_twentieth_and_its_rounding_has_the_right_label(need: float, off: float, named: bool) -> None:
    """The need of another accelerator is as near, and does not count."""
    found = mislabelled_accelerator(table(fed("a1", need, {"a1": 100.0, "b2": 107.0}, off)))
    assert [verdict.evidence["fits"] for verdict in found] == ["b2"] * named


def test_the_row_fits_the_accelerator_whose_need_is_nearest() -> None:
    known = {"own": 200.0, "less": 95.0, "near": 101.0, "more": 107.0}
    (found,) = mislabelled_accelerator(table(fed("own", 100.0, known)))
    assert found.evidence["fits"] == "near"


@pytest.mark.parametrize("scale", [1e9, 1.0])
@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        # Two others agree on 1.0, or within 10% of each other on their median; two or more must.
        ((1.0, 1.0, 1.5), 1.0),
        ((1.0, 1.08, 1.5), 1.04),
        ((1.0, 1.12, 1.5), None),
        ((1.0, 1.5), None),
    ],
)
def test_an_unknown_need_is_what_two_other_rows_of_the_label_agree_on(
    needs: Sequence[float], expected: float | None, scale: float
) -> None:
    rows = [*(fed("own", need * scale) for need in needs), fed("other", 3 * scale), fed("other", 3 * scale)]
    found = mislabelled_accelerator(table(*rows))
    assert [verdict.points for verdict in found] == ([] if expected is None else [(len(needs) - 1,)])
    assert [verdict.evidence["expected_bytes_s"] / scale for verdict in found] == pytest.approx(
        [] if expected is None else [expected]
    )


# --- slips of a unit


def rated(factor: float, bandwidth: float = 1e6) -> Measurement:
    """A row of 4 KiB whose operations carry ``factor`` times its bandwidth."""
    return row(bandwidth, bs=4096, rate=factor * bandwidth / 4096)


@pytest.mark.parametrize(
    ("factors", "rows"),
    [
        ((1.024, 1.024), 2),
        ((1.024 * 1.0045, 1.024 * 0.9955), 2),
        ((1.024 * 1.0055, 1.024 * 0.9945), 0),
        # One row of five may be off; one of four is too many.
        ((8.0, 8.0, 8.0, 8.0, 1.0), 4),
        ((8.0, 8.0, 8.0, 1.0), 0),
        # One row tells of bits, and not of 2.4%.
        ((8.0,), 1),
        ((1.024,), 0),
        ((), 0),
    ],
)
@pytest.mark.parametrize("bandwidth", [1e6, 0.5])
def test_a_slip_is_one_factor_in_four_of_five_rows(factors: Sequence[float], rows: int, bandwidth: float) -> None:
    """Also where the unit makes less than 1 B/s of a bandwidth."""
    found = unit_slip(table(*(rated(factor, bandwidth) for factor in factors)))
    assert (found.evidence["rows"] if found else 0) == rows


# --- curves that run backwards


@pytest.mark.parametrize(
    ("rates", "times", "what"),
    [
        ((100.0, 109.0), (50.0, 50.0), ""),
        ((100.0, 111.0), (50.0, 50.0), "bandwidth"),
        ((100.0, 90.0), (50.0, 62.0), ""),
        ((100.0, 90.0), (50.0, 63.0), "latency"),
        ((0.5, 0.9), (50.0, 50.0), "bandwidth"),
    ],
)
def test_more_delay_may_add_a_tenth_of_bandwidth_and_a_quarter_of_latency(
    rates: Sequence[float], times: Sequence[float], what: str
) -> None:
    rows = (row(rate, ns=ns, delay=delay) for rate, ns, delay in zip(rates, times, (0, 100), strict=True))
    found = runs_backwards(table(*rows, resource="memory", kernel="memory_loaded_latency"))
    assert (found.evidence["what"] if found else "") == what


def test_rows_of_one_delay_are_repeats_and_run_nowhere() -> None:
    """Without a delay it read 100 and 120 GB/s; the second and third delay are neighbours of one row each."""
    rows = [row(gb_s * 1e9, ns=50.0, delay=delay) for delay, gb_s in ((0, 100.0), (0, 120.0), (100, 80.0), (200, 60.0))]
    measured = {"resource": "memory", "kernel": "memory_loaded_latency"}
    assert runs_backwards(table(*rows, **measured)) is None
    found = runs_backwards(table(*rows, row(90e9, ns=50.0, delay=300), **measured))
    assert found is not None and found.points == (3, 4)
    assert found.says.startswith("The bandwidth runs backwards: it rises by 50% (60.0 GB/s to 90.0 GB/s)")


@pytest.mark.parametrize(("against", "pairs", "swapped"), [(1, 9, True), (2, 4, False), (4, 7, True), (2, 9, False)])
def test_rows_are_swapped_where_one_pair_or_most_run_backwards(against: int, pairs: int, swapped: bool) -> None:
    assert ("swapped" in _why_backwards(against, pairs)) == swapped


# --- floors


def floor_of(case: Case, ns: float) -> float | None:
    """The floor that a latency is too short for."""
    parameters: dict[str, Any] = case.point.parameters
    timed = row(1e6, ns=ns, details=case.point.details, **parameters)
    found = latency_floor(table(timed, resource=case.result.resource, at=0))
    return found.evidence["floor_ns"] if found else None


@pytest.mark.parametrize(
    ("device", "rw", "floor"),
    [
        # Half a turn at 250 a second is 2 ms; only a random read waits for it.
        ("st4000nm", "randread", 2e6),
        ("st4000nm", "read", 1.5e3),
        ("st4000nm", "randwrite", 1.5e3),
        ("sata ssd", "randread", 20e3),
        ("sata ssd", "write", 20e3),
        ("usb stick", "randread", 30e3),
        ("nvme", "randread", 4e3),
        ("disk", "read", 1.5e3),
    ],
)
def test_each_class_of_device_has_its_least_latency(device: str, rw: str, floor: float) -> None:
    case = one(rw=rw, bs=4096, device=device)
    assert floor_of(case, 1.02 * floor) is None
    assert floor_of(case, 0.98 * floor) == floor


def test_a_latency_may_lie_below_its_floor_by_its_rounding() -> None:
    case = one(rw="randread", device="nvme", details={"rounding": {"lat": 0.1}})
    assert floor_of(case, 3_640.0) is None and floor_of(case, 3_560.0) == 4e3


@pytest.mark.parametrize(("direct", "floor"), [(True, 4e3), (None, 4e3), (False, None)])
def test_the_page_cache_has_no_floor(direct: bool | None, floor: float | None) -> None:
    assert floor_of(one(rw="randread", device="nvme", direct=direct), 100.0) == floor


@pytest.mark.parametrize(
    ("parameters", "floor"),
    [
        ({"working_set": 3 * GIB // 2}, 30.0),
        ({"bs": 3 * GIB // 2}, 30.0),
        ({"working_set": GIB}, None),
        ({"working_set": GIB // 2, "delay": 0}, 30.0),
        ({}, None),
    ],
)
def test_more_than_a_gib_of_memory_and_injected_delays_reach_its_modules(
    parameters: dict[str, Any], floor: float | None
) -> None:
    assert floor_of(one(resource="memory", **parameters), 20.0) == floor


@pytest.mark.parametrize(
    ("unit", "ns", "words"),
    [
        ("ns", 5.0, " In ms it would be plausible."),  # 5 µs are still too short for half a turn.
        ("ns", 5_000.0, " In µs it would be plausible."),
        ("us", 5_000.0, " In µs it would be plausible."),
        ("us", 5.0, ""),
        ("ms", 5_000.0, ""),
    ],
)
def test_the_next_unit_is_named_where_the_latency_would_be_plausible_in_it(unit: str, ns: float, words: str) -> None:
    found = latency_floor(one(rw="randread", device="hdd", ns=ns, details={"printed_in": {"lat": unit}}))
    assert found is not None and f"at least 2.00 ms.{words} A cache answered" in found.says


# --- the page cache


@pytest.mark.parametrize(
    ("throughput", "size", "parent", "named"),
    [
        (700e6, 16 * GIB, None, True),
        (600e6, 16 * GIB, None, False),
        (700e6, 33 * GIB // 2, None, False),
        (700e6, 20 * GIB, None, False),
        (700e6, None, None, False),
        (700e6, 64 * GIB, 0.0, False),
        (400e6, 64 * GIB, 199e6, True),
        (400e6, 64 * GIB, 200e6, False),
        (400e6, 64 * GIB, 220e6, False),
        (4.0, 64 * GIB, 1.0, True),
    ],
)
def test_a_small_file_or_a_parent_that_waits_shows_the_page_cache(
    throughput: float, size: int | None, parent: float | None, named: bool
) -> None:
    """Faster than 600 MB/s on a file of at most 16 GiB, or twice as fast as the parent, which waits for the file."""
    details = {} if parent is None else {"parent_bytes_s": parent}
    found = through_page_cache(one(throughput, rw="write", size=size, direct=False, details=details))
    assert (found is not None) == named


@pytest.mark.parametrize(
    ("throughput", "device", "says"),
    [
        (3e9, None, "3,000 MB/s may be the page cache's speed, not the disk's"),
        (3e9, "sata", "3,000 MB/s may be the page cache's speed, not the disk's"),
        (3e9, "nvme", ""),
        (3e9, "raid of 4", ""),
        (15.7e9, "nvme", ""),
        (15.9e9, "nvme", "15.9 GB/s is the page cache's speed, not the disk's"),
        (15.9e9, None, "15.9 GB/s is the page cache's speed, not the disk's"),
    ],
)
def test_a_file_that_may_lie_on_the_disk_alone_may_be_read_that_fast(
    throughput: float, device: str | None, says: str
) -> None:
    """An NVMe drive reads at up to what PCIe 5.0 x4 carries, 15.75 GB/s, also through the page cache."""
    case = one(throughput, rw="read", size=16 * GIB, direct=False, **({"device": device} if device else {}))
    found = through_page_cache(case)
    assert found is None if not says else found is not None and found.says.startswith(says)
    of_iozone = through_page_cache(replace(case, run=replace(case.run, imported_from="iozone-text")))
    assert of_iozone is not None and " is the page cache's speed" in of_iozone.says
    waits = replace(case.point, details={"parent_bytes_s": 1e8})
    assert (found := through_page_cache(one_of(waits))) is not None and " is the page cache's speed" in found.says


# --- faster than its class


@pytest.mark.parametrize(
    ("device", "most", "kind"),
    [
        ("hdd", 600e6, "hard disk"),
        ("7200 rpm", 600e6, "hard disk"),
        ("sata", 600e6, "SATA SSD"),
        ("virtio", 4.75e9, "virtual disk"),
    ],
)
def test_each_class_of_device_has_its_greatest_bandwidth(device: str, most: float, kind: str) -> None:
    assert too_fast_for_class(one(most, rw="read", device=device)) is None
    found = too_fast_for_class(one(1.02 * most, rw="read", device=device))
    assert found is not None and (found.evidence["most"], found.evidence["class"]) == (most, kind)
    assert found.weight == pytest.approx(1.02) and "--direct 1 " in found.advice
    rounded = {"rounding": {"bw": 0.03}}
    assert too_fast_for_class(one(1.02 * most, rw="read", device=device, details=rounded)) is None
    assert too_fast_for_class(one(1.04 * most, rw="read", device=device, details=rounded)) is not None


def test_operations_several_devices_and_a_known_link_are_held_to_no_class() -> None:
    assert too_fast_for_class(one(1e9, device="sata")) is not None
    assert too_fast_for_class(one(1e9, unit="operations/s", device="sata")) is None
    assert too_fast_for_class(one(1e9, device="sata raid")) is None
    assert too_fast_for_class(one(1e9, device="drive")) is None
    linked = one(1e9, device="sata")
    ceiling = Ceiling("read_bytes_s", "physical", 6e8, "bytes/s", "", "")
    assert too_fast_for_class(replace(linked, result=replace(linked.result, ceilings=(ceiling,)))) is None


@pytest.mark.parametrize(("imported_from", "named"), [("table", True), ("", False)])
def test_what_is_too_fast_for_its_class_degrades_a_table_alone(imported_from: str, named: bool) -> None:
    run = one(1e9, rw="read", device="sata").run
    explained = explain(replace(run, imported_from=imported_from))
    assert ("too_fast_for_class" in {finding.rule for finding in explained.findings}) == named
    assert explained.experiments[0].points[0].validity == ("degraded" if named else "valid")


# --- lines in flight


@pytest.mark.parametrize(
    ("lines", "threads", "more", "named"),
    [
        (126, 1, {}, False),
        (140, 1, {}, True),
        (140, 2, {}, False),
        (300, 2, {}, True),
        (140, 1, {"details": {"rounding": {"bw": 0.05, "lat": 0.05}}}, False),
        (142, 1, {"details": {"rounding": {"bw": 0.05, "lat": 0.05}}}, True),
        # 1024 lines are a block of 64 KiB.
        (1300, 1, {"bs": 65536}, False),
        (1360, 1, {"bs": 65536}, True),
        (1600, 1, {"bs": 65536}, True),
        (140, None, {}, False),
    ],
)
def test_a_thread_has_128_lines_or_its_block_in_flight(
    lines: int, threads: int | None, more: dict[str, Any], named: bool
) -> None:
    """In 100 ns at 0.64 GB/s there is one line of 64 B; a block of the program's own may be 30% more."""
    found = too_many_lines(one(lines * 0.64e9, resource="memory", ns=100.0, threads=threads, **more))
    assert (found is not None) == named
    assert found is None or found.evidence["lines"] == pytest.approx(lines / (threads or 1))


# --- loopback


@pytest.mark.parametrize(
    ("resource", "study", "named"), [("network", "a", True), ("network", "b", False), ("storage", "a", False)]
)
def test_loopback_stands_beside_the_claimed_links_of_its_own_study(resource: str, study: str, named: bool) -> None:
    case = table(row(5e9, path="127.0.0.1"), resource="network", study="a")
    claims = table(row(12.5e9, study=study, claim="100 GbE"), resource=resource, kernel="claim").result
    found = on_loopback(replace(case, run=replace(case.run, experiments=(*case.run.experiments, claims))))
    assert (found is not None) == named
    assert found is None or "'100 GbE' (12.5 GB/s)" in found.says


def test_a_block_size_that_all_rows_share_is_said_in_the_example() -> None:
    """1953 operations/s of 4 KiB are 8 MB/s, and the rows have 1."""
    found = unit_slip(table(*(replace(rated(8.0), parameters={}) for _ in range(2)), bs=4096))
    assert found is not None and "1.95 k IOPS x 4 KiB is 8.00 MB/s, but the table has 1.00 MB/s." in found.says


@pytest.mark.parametrize(
    ("rounding", "named"), [({"bw": 2e-3, "iops_min": 9e-3, "iops_max": 9e-3}, True), ({"bw": 9e-2}, False)]
)
def test_digits_of_other_figures_leave_a_slip_as_clear(rounding: dict[str, float], named: bool) -> None:
    """Least and greatest rates are printed with fewer digits than the mean, which alone is compared."""
    points = (replace(rated(1.0486), details={"rounding": rounding}) for _ in range(2))
    assert (unit_slip(table(*points)) is not None) == named
