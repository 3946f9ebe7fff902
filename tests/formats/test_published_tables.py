"""Laws of published tables: for each row or table, whether a finding names it, on both sides of each limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.formats import printed, published
from hwdyno.model.axes import with_field_axes
from hwdyno.model.machine import Machine
from hwdyno.model.words import Ceiling, CeilingClass, Finding, Measurement, Run, Value

GIB = 1 << 30
LOADED = {"resource": "memory", "kernel": "memory_loaded_latency"}


def row(
    throughput: float,
    unit: str = "bytes/s",
    ns: float | None = None,
    rate: float | None = None,
    details: dict[str, Any] | None = None,
    **parameters: Any,
) -> Measurement:
    """A row of a table: what was printed in it, and no more."""
    point = printed.point(parameters, throughput, unit, ns, **(details or {}))
    return replace(point, rate=None if rate is None else Value(rate, "operations/s"))


def table(*rows: Measurement, resource: str = "storage", kernel: str = "", **fixed: Any) -> Run:
    result = with_field_axes(printed.experiment(f"{resource}.table", "?", kernel, "", rows, **fixed))
    return Run("x", "", None, (Machine(),), "imported", "table (x.csv)", (result,), imported_from="table")


def bounded(run: Run, kind: CeilingClass, metric: str, value: float) -> Run:
    ceiling = Ceiling(metric, kind, value, "bytes/s", "", "test")
    return replace(run, experiments=(replace(run.experiments[0], ceilings=(ceiling,)),))


def finding(rule: str, run: Run) -> Finding | None:
    found = [found for found in explain(run).findings if found.rule == rule]
    return found[0] if found else None


def named(rule: str, run: Run) -> bool:
    return finding(rule, run) is not None


# --- accelerators


def fed(label: str, need: float, known: dict[str, float] | None = None, rounding: float = 0.0) -> Measurement:
    """A row whose accelerator has an AU of 50%: it takes half its need."""
    details = {"printed": {"au": 0.5}, "rounding": {"bw": rounding}, "needs_bytes_s": known or {}}
    return row(need / 2, accelerator=label, details=details)


NEAR, FAR = {"a1": 100.0, "b2": 107.0}, {"a1": 100.0, "b2": 200.0}


@pytest.mark.parametrize(("need", "rounding", "known", "fits"), [
    # Within 5% of its label and the rounding, as AU leaves out the first step of an epoch.
    *((104.8, 0.0, NEAR, None), (105.2, 0.0, NEAR, "b2"), (106.8, 0.02, NEAR, None), (107.2, 0.02, NEAR, "b2")),
    # From 15% off it is wrong, no matter what it fits.
    *((114.5, 0.0, {"a1": 100.0}, None), (115.5, 0.0, {"a1": 100.0}, "")),
    # Another accelerator fits within 7.5%, and the nearest of several is named.
    *((214.4, 0.0, FAR, "b2"), (215.6, 0.0, FAR, "")),
    (100.0, 0.0, {"a1": 200.0, "less": 95.0, "near": 101.0, "more": 107.0}, "near"),
])  # fmt: skip
def test_label_of_accelerator_fits_its_need(need: float, rounding: float, known: Any, fits: str | None) -> None:
    found = finding("mislabelled_accelerator", table(fed("a1", need, known, rounding)))
    assert (found and found.evidence["fits"]) == fits


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ((0.9, 0.95), "All 2 rows pass MLPerf Storage's limit for unet3d, an AU of 90%."),
        ((0.9, 0.899), "1 of 2 rows fails MLPerf Storage's limit for unet3d, an AU of 90%. The lowest has 89.9%"),
        ((0.1081, 0.0558), "2 of 2 rows fail MLPerf Storage's limit for unet3d, an AU of 90%. The lowest has 5.58%"),
    ],
)
def test_rows_below_limit_of_workload_fail(shares: tuple[float, ...], says: str) -> None:
    known = {"workload": "unet3d", "au_pass": 0.9}
    rows = [row(1e8, accelerator=f"a{at}", details={"printed": {"au": au}, **known}) for at, au in enumerate(shares)]
    found = finding("published_au", table(*rows))
    assert found is not None and found.says.startswith(says)
    assert found.points == tuple(at for at, au in enumerate(shares) if au < 0.9)
    assert not named("published_au", table(row(1e8, accelerator="a1", details={"printed": {"au": 0.5}})))


@pytest.mark.parametrize("scale", [1e9, 1.0])
@pytest.mark.parametrize(
    ("needs", "expected"),
    [((1.0, 1.0, 1.5), 1.0), ((1.0, 1.096, 1.5), 1.048), ((1.0, 1.104, 1.5), None), ((1.0, 1.5), None)],
)
def test_two_rows_of_unknown_accelerator_show_its_need(
    needs: Sequence[float], expected: float | None, scale: float
) -> None:
    """They agree within 10%; a third is wrong."""
    rows = [*(fed("own", need * scale) for need in needs), fed("other", 3 * scale), fed("other", 3 * scale)]
    found = finding("mislabelled_accelerator", table(*rows))
    if expected is None:
        assert found is None
    else:
        assert found is not None and found.points == (2,)
        assert found.evidence["expected_bytes_s"] / scale == pytest.approx(expected)


# --- units of a column


def rated(factor: float, bandwidth: float = 1e6, rounding: dict[str, float] | None = None) -> Measurement:
    """A row of 4 KiB whose operations carry ``factor`` times its bandwidth."""
    return row(bandwidth, bs=4096, rate=factor * bandwidth / 4096, details={"rounding": rounding or {}})


@pytest.mark.parametrize("bandwidth", [1e6, 0.5])
@pytest.mark.parametrize(("factors", "rows"), [
    ((1.024, 1.024), 2),
    *(((1.024 * 1.0048,) * 2, 2), ((1.024 * 1.0052,) * 2, 0), ((1.024 * 0.9952,) * 2, 2)),
    ((1.024 * 0.9948,) * 2, 0),
    # One row of five may be off; one of four is too many.
    *(((8.0, 8.0, 8.0, 8.0, 1.0), 4), ((8.0, 8.0, 8.0, 1.0), 0)),
    # A single row shows bits for bytes, but not a difference of 2.4%.
    *(((8.0,), 1), ((1 / 8,), 1), ((1.024,), 0), ((), 0)),
])  # fmt: skip
def test_unit_slips_by_same_factor_in_most_rows(factors: Sequence[float], rows: int, bandwidth: float) -> None:
    found = finding("unit_slip", table(*(rated(factor, bandwidth) for factor in factors)))
    assert (found.evidence["rows"] if found else 0) == rows


@pytest.mark.parametrize(("factor", "rounding", "is_named"), [
    *((8.0, {"bw": 0.0039, "iops": 0.0039}, True), (8.0, {"bw": 0.0041, "iops": 0.0041}, False)),
    *((1.024 * 1.008, {"bw": 0.004}, True), (1.024 * 1.008, {"bw": 0.002}, False)),
    # The least and the greatest rate have fewer digits than the mean, which alone is compared.
    (1.0486, {"bw": 0.002, "iops_min": 0.009, "iops_max": 0.009}, True),
])  # fmt: skip
def test_unit_slips_by_more_than_rounding(factor: float, rounding: dict[str, float], is_named: bool) -> None:
    rows = [rated(factor, rounding=rounding)] * 2
    assert named("unit_slip", table(*rows)) == is_named


def test_shared_block_size_shows_slip() -> None:
    """1953 operations/s of 4 KiB are 8 MB/s, and the rows have 1."""
    found = finding("unit_slip", table(*[replace(rated(8.0), parameters={})] * 2, bs=4096))
    assert found is not None and "1.95 k IOPS x 4 KiB is 8.00 MB/s, but the table has 1.00 MB/s." in found.says


# --- injected delays


def delayed(*rows: tuple[float, float, float]) -> Run:
    """Rows of a bandwidth and a latency by the delay before."""
    return table(*(row(rate, ns=ns, delay=delay) for delay, rate, ns in rows), **LOADED)


@pytest.mark.parametrize(("before", "after", "backwards"), [
    *(((100e9, 50.0), (109.6e9, 50.0), None), ((100e9, 50.0), (110.4e9, 50.0), "bandwidth")),
    *(((100e9, 50.0), (90e9, 62.2), None), ((100e9, 50.0), (90e9, 62.8), "latency")),
    ((0.5, 50.0), (0.9, 50.0), "bandwidth"),
])  # fmt: skip
def test_more_delay_is_less_load(before: Any, after: Any, backwards: str | None) -> None:
    found = finding("runs_backwards", delayed((0, *before), (100, *after)))
    assert (found and found.evidence["what"]) == backwards


def test_repeats_of_delay_may_differ() -> None:
    repeats = ((0, 100e9, 50.0), (0, 120e9, 50.0), (100, 80e9, 50.0), (200, 60e9, 50.0))
    assert not named("runs_backwards", delayed(*repeats))
    found = finding("runs_backwards", delayed(*repeats, (300, 90e9, 50.0)))
    assert found is not None and found.points == (3, 4)
    assert found.says.startswith("The bandwidth runs backwards: it rises by 50% (60.0 GB/s to 90.0 GB/s)")


@pytest.mark.parametrize(("against", "pairs", "swapped"), [(1, 9, True), (2, 4, False), (4, 7, True), (2, 9, False)])
def test_most_rows_backwards_are_swapped(against: int, pairs: int, swapped: bool) -> None:
    rates = [100e9]
    for at in range(pairs):
        rates.append(rates[-1] * (1.2 if at < against else 0.8))
    found = finding("runs_backwards", delayed(*((100 * at, rate, 50.0) for at, rate in enumerate(rates))))
    assert found is not None and ("swapped" in found.says) == swapped
    assert swapped or f"at {against} of {pairs} delays" in found.says


# --- latencies


def find_floor(ns: float, resource: str, details: dict[str, Any] | None = None, **given: Any) -> float | None:
    """The floor that a latency is too short for."""
    found = finding("latency_floor", table(row(1e6, ns=ns, details=details, **given), resource=resource))
    return found.evidence["floor_ns"] if found else None


@pytest.mark.parametrize(("resource", "given", "floor"), [
    # Half a turn at 250 a second is 2 ms; only a random read waits for it.
    *(("storage", {"device": "st4000nm", "rw": rw}, ns) for rw, ns in (("randread", 2e6), ("randwrite", 1.5e3))),
    *(("storage", {"device": device, "rw": "read"}, ns) for device, ns in (("hdd", 1.5e3), ("sata ssd", 20e3))),
    *(("storage", {"device": device, "rw": "write"}, ns) for device, ns in (("sata", 20e3), ("usb stick", 30e3))),
    *(("storage", {"device": "nvme", "rw": "randread", **given}, 4e3) for given in ({}, {"direct": True})),
    ("storage", {"device": "disk", "rw": "read"}, 1.5e3),
    # The page cache has no floor, nor has an array of disks.
    ("storage", {"device": "nvme", "rw": "randread", "direct": False}, None),
    ("storage", {"device": "nvme raid", "rw": "randread"}, None),
    # More than a GiB of memory, and injected delays, reach its modules.
    *(("memory", {"working_set": 3 * GIB // 2}, 30.0), ("memory", {"bs": 3 * GIB // 2}, 30.0)),
    *(("memory", {"working_set": GIB}, None), ("memory", {"working_set": GIB // 2, "delay": 0}, 30.0)),
    ("memory", {}, None),
    # A message within a host crosses no network.
    *(("network", {"path": "10.0.0.2"}, 500.0), ("network", {}, 500.0), ("network", {"path": "127.0.0.1"}, None)),
    ("compute", {}, None),
])  # fmt: skip
def test_latency_has_floor(resource: str, given: dict[str, Any], floor: float | None) -> None:
    if floor is None:
        assert find_floor(1.0, resource, **given) is None
    else:
        assert find_floor(1.02 * floor, resource, **given) is None
        assert find_floor(0.98 * floor, resource, **given) == floor


def test_latency_is_below_floor_by_more_than_rounding() -> None:
    """A tenth below 4 µs is 3.6 µs."""
    given: dict[str, Any] = {"rw": "randread", "device": "nvme", "details": {"rounding": {"lat": 0.1}}}
    assert find_floor(3_640.0, "storage", **given) is None and find_floor(3_560.0, "storage", **given) == 4e3


@pytest.mark.parametrize(("unit", "ns", "words"), [
    # 5 µs are still too short for half a turn.
    *(("ns", 5.0, " In ms it would be plausible."), ("ns", 5_000.0, " In µs it would be plausible.")),
    *(("us", 5_000.0, " In µs it would be plausible."), ("us", 5.0, ""), ("ms", 5_000.0, "")),
])  # fmt: skip
def test_plausible_unit_of_latency_is_named(unit: str, ns: float, words: str) -> None:
    details = {"printed_in": {"lat": unit}}
    found = finding("latency_floor", table(row(1e6, ns=ns, rw="randread", device="hdd", details=details)))
    assert found is not None and f"at least 2.00 ms.{words} A cache answered" in found.says


# --- page cache


def buffered(throughput: float, size: int | None, parent: float | None = None, **given: Any) -> Run:
    details = {} if parent is None else {"parent_bytes_s": parent}
    return table(row(throughput, size=size, details=details, **{"rw": "write", "direct": False, **given}))


@pytest.mark.parametrize(("throughput", "size", "parent", "is_named"), [
    # Over 600 MB/s on a file of at most 16 GiB, which memory can hold.
    *((590e6, 16 * GIB, None, False), (610e6, 16 * GIB, None, True)),
    *((2e9, 31 * GIB // 2, None, True), (2e9, 33 * GIB // 2, None, False), (2e9, None, None, False)),
    # The parent process waits for the file, and sees less than half.
    *((400e6, 64 * GIB, 196e6, True), (400e6, 64 * GIB, 204e6, False), (4.0, 64 * GIB, 1.0, True)),
    (700e6, 64 * GIB, 0.0, False),
])  # fmt: skip
def test_fast_small_file_is_cached(throughput: float, size: int, parent: float | None, is_named: bool) -> None:
    assert named("through_page_cache", buffered(throughput, size, parent)) == is_named
    for direct in (True, None):
        assert not named("through_page_cache", buffered(throughput, size, parent, direct=direct))


@pytest.mark.parametrize(("throughput", "device", "says"), [
    *((3e9, None, "may be"), (3e9, "sata", "may be"), (3e9, "nvme", ""), (3e9, "raid of 4", "")),
    *((15.7e9, "nvme", ""), (15.9e9, "nvme", "is"), (15.9e9, None, "is")),
])  # fmt: skip
def test_file_may_be_read_as_fast_as_drive(throughput: float, device: str | None, says: str) -> None:
    """PCIe 5.0 x4 carries 15.75 GB/s. IOzone reads what it wrote, and so does a parent that waits."""
    given: dict[str, Any] = {"rw": "read", **({"device": device} if device else {})}
    found = finding("through_page_cache", buffered(throughput, 16 * GIB, **given))
    assert found is None if not says else found is not None and f"/s {says} the page cache's speed" in found.says
    by_iozone = replace(buffered(throughput, 16 * GIB, **given), imported_from="iozone-text")
    for run in (by_iozone, buffered(throughput, 16 * GIB, 1e8, **given)):
        found = finding("through_page_cache", run)
        assert found is not None and "/s is the page cache's speed" in found.says


# --- bandwidths


@pytest.mark.parametrize(("device", "most", "kind"), [
    *(("hdd", 600e6, "hard disk"), ("7200 rpm", 600e6, "hard disk"), ("sata", 600e6, "SATA SSD")),
    ("virtio", 4.75e9, "virtual disk"),
])  # fmt: skip
def test_class_of_device_has_greatest_bandwidth(device: str, most: float, kind: str) -> None:
    def fast(times: float, rounding: float = 0.0) -> Finding | None:
        details = {"rounding": {"bw": rounding}}
        return finding("too_fast_for_class", table(row(times * most, rw="read", device=device, details=details)))

    assert fast(1.0) is None and fast(1.02, rounding=0.03) is None and fast(1.04, rounding=0.03) is not None
    found = fast(1.02)
    assert found is not None and (found.evidence["most"], found.evidence["class"]) == (most, kind)
    assert "--direct 1 " in found.advice


@pytest.mark.parametrize(("device", "unit", "link", "is_named"), [
    *(("sata", "bytes/s", False, True), ("sata", "operations/s", False, False)),
    *(("sata raid", "bytes/s", False, False), ("drive", "bytes/s", False, False), ("sata", "bytes/s", True, False)),
])  # fmt: skip
def test_device_of_known_class_alone_is_too_fast(device: str, unit: str, link: bool, is_named: bool) -> None:
    run = table(row(1e9, unit=unit, rw="read", device=device))
    run = bounded(run, "physical", "read_bytes_s", 6e8) if link else run
    assert named("too_fast_for_class", run) == is_named


@pytest.mark.parametrize(("about", "size_of"), [
    ("Memory bandwidth (MB/s)", "working_set"), ("Sequential storage, fio (MB/s)", "size"),
    ("Network throughput, iperf3 (MB/s)", "bs"),
])  # fmt: skip
def test_size_of_table_is_of_what_its_resource_says(about: str, size_of: str) -> None:
    text = f"{about}\n\nSize      Read    Write\n64 KiB    4800    3050\n64 MiB    1210    910\n"
    run = published.read(text, "table")
    points = [point for result in run.experiments for point in result.points]
    assert {point.parameters.get(size_of) for point in points} == {64 << 10, 64 << 20}


def test_impossible_row_of_table_is_degraded() -> None:
    run = table(row(1e9, rw="read", device="sata"))
    validity = [explain(replace(run, imported_from=tool)).experiments[0].points[0].validity for tool in ("table", "")]
    assert validity == ["degraded", "valid"]


ROUNDED = {"details": {"rounding": {"bw": 0.05, "lat": 0.05}}}


@pytest.mark.parametrize(("lines", "threads", "more", "is_named"), [
    # A core has at most 128 lines in flight.
    *((126, 1, {}, False), (130, 1, {}, True), (140, 2, {}, False), (300, 2, {}, True), (140, None, {}, False)),
    *((140, 1, ROUNDED, False), (142, 1, ROUNDED, True)),
    # A block of 64 KiB is 1024 lines, and may be exceeded by 30%.
    *((1320, 1, {"bs": 65536}, False), (1342, 1, {"bs": 65536}, True)),
])  # fmt: skip
def test_thread_has_few_lines_in_flight(lines: int, threads: int | None, more: Any, is_named: bool) -> None:
    """There is one line of 64 B in 100 ns at 0.64 GB/s."""
    found = finding("too_many_lines", table(row(lines * 0.64e9, ns=100.0, threads=threads, **more), resource="memory"))
    assert (found is not None) == is_named
    assert found is None or found.evidence["lines"] == pytest.approx(lines / (threads or 1))


def copied(value: float, operation: str = "", unit: str = "bytes/s", memory: Any = None, gpu: str = "B200") -> Run:
    """A row of a table of copies, with the bandwidth of the device's memory in another row."""
    given: dict[str, Any] = {"gpu": gpu, **({"operation": operation} if operation else {})}
    others = [] if memory is None else [row(memory, gpu=gpu, operation="device-to-device")]
    return table(row(value, unit=unit, **given), *others, resource="gpu", kernel="gpu_transfer")


MEMORY = "the fastest memory of devices without HBM4 has 8,000 GB/s."
HOST = "the fastest link to the host of devices without HBM4 has 450 GB/s. "


@pytest.mark.parametrize(("operation", "memory", "gpu", "most", "words"), [
    *(("", None, "B200", 8e12, MEMORY), ("device-to-device", None, "MI355X", 8e12, MEMORY)),
    ("device-to-device", 1e12, "B200", 8e12, MEMORY),
    ("device-to-device", None, "Rubin", 22e12, "the fastest memory of any device has 22.0 TB/s."),
    ("", None, "MI455X", 22e12, "the fastest memory of any device has 22.0 TB/s."),
    *((way, None, "GH200", 450e9, f"{HOST}Nothing was copied") for way in ("host-to-device", "device-to-host")),
    ("device-to-host", None, "VR200 HBM4", 900e9, "link to the host of any device has 900 GB/s. Nothing"),
    ("Host-to-device", 100e9, "GH200", 100e9, "this device's memory has 100 GB/s. Nothing was copied"),
    ("buffer map", None, "GH200", 450e9, f"{HOST}Mapping a buffer moves no byte"),
    ("buffer map", 7e9, "Rubin", 7e9, "this device's memory has 7,000 MB/s. Mapping a buffer moves no byte"),
])  # fmt: skip
def test_copy_is_slower_than_memory(operation: str, memory: float | None, gpu: str, most: float, words: str) -> None:
    assert not named("more_than_memory", copied(1.49 * most, operation, memory=memory, gpu=gpu))
    found = finding("more_than_memory", copied(1.51 * most, operation, memory=memory, gpu=gpu))
    assert found is not None and words in found.says and found.evidence["most"] == most


@pytest.mark.parametrize(("run", "is_named"), [
    # clpeak prints arithmetic in the same table: 19.5 TFLOP/s are plausible where 19.5 TB/s are not.
    *((copied(19.5e12), True), (copied(19.5e12, unit="flop/s"), False)),
    # Where the device's own ceiling is known, physical_ceiling judges.
    (bounded(copied(20e12), "physical", "bytes_s", 22e12), False),
    *((bounded(copied(20e12), kind, "bytes_s", 22e12), True) for kind in ("rated", "reference")),
])  # fmt: skip
def test_copy_without_ceiling_is_bounded(run: Run, is_named: bool) -> None:
    assert named("more_than_memory", run) == is_named


def test_rate_of_copies_is_no_bandwidth_of_memory() -> None:
    rows = (row(800e9, operation="host-to-device"), row(1e12, unit="operations/s", operation="device-to-device"))
    found = finding("more_than_memory", table(*rows, resource="gpu", kernel="gpu_transfer"))
    assert found is not None and found.evidence["most"] == 450e9


@pytest.mark.parametrize(("rule", "rows", "resource", "says"), [
    ("too_fast_for_class", [row(rate, device="sata") for rate in (7e8, 2e9, 1e9)], "storage", "2,000 MB/s is more"),
    ("latency_floor", [row(1e6, ns=ns, device="disk") for ns in (900.0, 10.0, 90.0)], "storage", "10.0 ns is too"),
    ("more_than_memory", [row(rate) for rate in (13e12, 20e12, 15e12)], "gpu", "20.0 TB/s is no copy"),
    ("too_many_lines", [row(rate, ns=1e2, threads=1) for rate in (1e11, 3e11, 2e11)], "memory", "(x): 300 GB/s x"),
])  # fmt: skip
def test_worst_of_several_rows_is_named(rule: str, rows: list[Measurement], resource: str, says: str) -> None:
    found = finding(rule, table(*rows, resource=resource, kernel="gpu_transfer" if resource == "gpu" else ""))
    assert found is not None and found.points == (0, 1, 2)
    assert says in found.says.replace(f"{resource}.table", "x")


# --- loopback


@pytest.mark.parametrize(("claim_of", "study", "path", "words"), [
    ("network", "a", "127.0.0.1", "the claimed ceiling '100 GbE' (12.5 GB/s)"),
    *(("network", "b", "127.0.0.1", ""), ("storage", "a", "127.0.0.1", ""), ("network", "a", "10.0.0.2", "")),
    ("line", "", "127.0.0.1", "the link (1,250 MB/s)"),
])  # fmt: skip
def test_loopback_is_not_compared_with_link(claim_of: str, study: str, path: str, words: str) -> None:
    """A link is a ceiling of the table, or a claim of the same study."""
    run = table(row(5e9, path=path), resource="network", study="a")
    if claim_of == "line":
        link = Ceiling("line/x", "physical", 1.25e9, "bytes/s", "", "test", "the link")
        run = replace(run, experiments=(replace(run.experiments[0], ceilings=(link,)),))
    else:
        claims = table(row(12.5e9, study=study, claim="100 GbE"), resource=claim_of, kernel="claim")
        run = replace(run, experiments=(*run.experiments, *claims.experiments))
    found = finding("on_loopback", run)
    assert (found is not None) == bool(words) and (found is None or words in found.says)
