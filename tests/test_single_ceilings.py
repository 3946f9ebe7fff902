"""Single lines of ceilings, of advised commands, of what a rule reads, and of rules on figures, at their edges."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.ceilings import bound_of, named, network, parse_given
from hwdyno.ceilings.bounds import utilizations
from hwdyno.ceilings.compute import LOOPS, of_loops
from hwdyno.ceilings.gpu import applies as bounds_gpu
from hwdyno.ceilings.gpu import loads_of
from hwdyno.ceilings.inference import applies as bounds_decoding
from hwdyno.ceilings.inference import applies_to_images, applies_to_served, of_images, raw_of
from hwdyno.ceilings.links import of_link
from hwdyno.ceilings.memory import practical
from hwdyno.ceilings.named import (
    DEVICE_COPY,
    HOST_COPY,
    LINE,
    device_ceilings,
    gpu_named,
    gpus,
    link_rate,
    parse_device,
    rated_named,
)
from hwdyno.ceilings.rated import catalogue
from hwdyno.ceilings.stack import of_machine
from hwdyno.machine import Link, Machine
from hwdyno.words import (
    Ceiling,
    ExperimentResult,
    Measurement,
    Scalar,
    UserError,
    Value,
)
from made_experiment import made_experiment
from test_thresholds import base, run_of


def result_of(resource: str, *points: Measurement, kernel: str = "", **fixed: Any) -> ExperimentResult:
    return made_experiment(f"{resource}.x", resource, "?", "threads", kernel, points, fixed=fixed)


def slow(value: float, unit: str = "bytes/s", **given: Any) -> Measurement:
    return replace(base(), parameters=given, throughput=Value(value, unit), rate=None)


# --- names of links


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Gen 3 x4", "PCIe 3.0 x4"),
        ("PCIe 3.0x4", "PCIe 3.0 x4"),
        ("PCIe 3 4x", "PCIe 3.0 x4"),
        ("PCIe 3 x1", "PCIe 3.0 x1"),
        ("PCIe 3 x32", "PCIe 3.0 x32"),
        ("8 channels DDR5-4800", "DDR5-4800 x8"),
        ("DDR5-4800 x8", "DDR5-4800 x8"),
        ("USB 3 20 Gbit/s", "USB 3.2 Gen 2x2"),
    ],
)
def test_a_link_is_found_in_each_way_to_write_it(name: str, label: str) -> None:
    for most in (False, True):
        rate = link_rate(name, most=most)
        assert rate is not None and rate.label == label


def test_half_a_link_is_asked_for_unless_it_is_a_bound() -> None:
    with pytest.raises(UserError, match="has no lanes"):
        link_rate("PCIe 4.0")
    assert link_rate("PCIe 4.0", most=True) is None


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("DDR4-3200", "3200 MT/s × 8 B × 1 channel = 25.6 GB/s"),
        ("DDR4-3200 x2", "3200 MT/s × 8 B × 2 channels = 51.2 GB/s"),
    ],
)
def test_one_channel_of_memory_is_singular(name: str, formula: str) -> None:
    rate = link_rate(name)
    assert rate is not None and rate.formula == formula


@pytest.mark.parametrize(
    ("metric", "parameters", "bounds"),
    [
        (HOST_COPY, {"operation": "host-to-device"}, True),
        (HOST_COPY, {"operation": "device-to-device"}, False),
        (HOST_COPY, {}, False),
        (HOST_COPY, {"access": "direct", "part": "whole"}, True),
        (HOST_COPY, {"access": "direct", "part": "copy"}, True),
        (HOST_COPY, {"access": "direct", "part": "read"}, False),
        (HOST_COPY, {"access": "direct"}, False),
        (HOST_COPY, {"part": "whole"}, False),
        (DEVICE_COPY, {"operation": "device-to-device"}, True),
        (DEVICE_COPY, {"operation": "device-to-device", "path": "P2P"}, False),
        (LINE, {"path": "Loopback"}, False),
        (LINE, {"path": "eth0"}, True),
    ],
)
def test_a_line_and_a_copy_bound_what_goes_over_them(metric: str, parameters: dict[str, str], bounds: bool) -> None:
    assert named.applies(metric, parameters) == bounds


@pytest.mark.parametrize(
    ("link", "shared"), [(Link(type="sas", bits_s=12e9), False), (Link(type="usb", bits_s=5e9), False),
                         (Link(type="sata", bits_s=6e9), True)]
)  # fmt: skip
def test_only_a_half_duplex_link_is_shared_by_both_ways(link: Link, shared: bool) -> None:
    rate = of_link(link)
    assert rate is not None and rate.shared == shared


# --- names of devices


@pytest.mark.parametrize(
    ("name", "flops_s", "double_flops_s", "memory_bytes_s"),
    [
        ("Tesla M40", 6.84e12, 0.21e12, 288e9),
        ("RTX A6000", 38.71e12, 0.0, 768e9),
        ("NVIDIA A2", 4.53e12, 0.07e12, 0.0),
    ],
)
def test_a_gpu_has_the_figures_of_its_data_sheet(
    name: str, flops_s: float, double_flops_s: float, memory_bytes_s: float
) -> None:
    """What the sheet leaves out is 0."""
    gpu = gpu_named(name)
    assert gpu is not None
    assert (gpu.flops_s, gpu.double_flops_s, gpu.memory_bytes_s) == (flops_s, double_flops_s, memory_bytes_s)


def test_a_catalogues_link_without_lanes_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = replace(gpus()[0], link="PCIe 4", memory_bytes_s=1e9)
    assert [one.metric for one in gpu.ceilings()] == [DEVICE_COPY]
    drive = replace(catalogue()[0], interface="PCIe 4", figures={"read_bytes_s": 1e9})
    monkeypatch.setattr(named, "rated_named", lambda text, asks=False: drive)
    assert [one.metric for one in device_ceilings("it", "storage")] == ["read_bytes_s"]


def test_a_name_of_several_drives_is_asked_for_and_elsewhere_none() -> None:
    text = "990 PRO 980 PRO 970 PRO"
    drives = [one.name for one in catalogue() if one.name.startswith(("Samsung 99", "Samsung 98", "Samsung 97"))]
    drives = [one for one in drives if " PRO " in one]
    assert rated_named(text) is None
    assert device_ceilings(text, "storage") == ()
    for question in (lambda: rated_named(text, asks=True), lambda: parse_device(text)):
        with pytest.raises(UserError) as raised:
            question()
        why = f"can be {drives[0]} or {drives[-1]}; write one of these names"
        assert str(raised.value) == f"the device '{text}' {why}"


@pytest.mark.parametrize(("size", "known"), [(0.905, True), (0.895, False), (1.095, True), (1.105, False)])
def test_a_drives_capacity_may_be_off_by_a_tenth(size: float, known: bool) -> None:
    drive = next(one for one in catalogue() if one.name == "Samsung 980 PRO 1 TB")
    assert drive.is_it("Samsung SSD 980 PRO 1TB", size * 1e12) == known


@pytest.mark.parametrize(
    ("amount", "bytes_s"), [("400 kB/s", 4e5), ("400 KB/s", 4e5), ("4 MB/s", 4e6), ("2 PB/s", 2e15), ("3 KiB/s", 3072)]
)
def test_a_given_ceiling_has_the_power_of_its_prefix(amount: str, bytes_s: float) -> None:
    assert parse_given(f"rated read {amount}").value == bytes_s


# --- what bounds what


def test_a_ceiling_without_a_direction_bounds_no_reads() -> None:
    parameters: dict[str, Scalar] = {"rw": "read", "bs": 4096}
    assert bound_of(Ceiling("copy_bytes_s", "rated", 1e9, "bytes/s", "", ""), parameters) is None
    assert bound_of(Ceiling("read_bytes_s", "rated", 1e9, "bytes/s", "", ""), parameters) is not None


def test_a_bound_of_less_than_one_a_second_counts() -> None:
    ceiling = Ceiling("served/concurrency/8", "reference", 0.5, "operations/s", "", "")
    point = slow(0.4, "operations/s", concurrency=8)
    (found,) = utilizations([ceiling], point, point.parameters)
    assert found.share == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("metric", "parameters", "bounds"),
    [
        ("served/concurrency/8", {"concurrency": 8}, True),
        ("served/concurrency/8", {"concurrency": 4}, False),
        ("served/concurrency/0", {}, True),
        ("served/concurrency/1", {}, False),
    ],
)
def test_memory_bounds_requests_of_the_load_that_was_counted(
    metric: str, parameters: dict[str, Any], bounds: bool
) -> None:
    assert applies_to_served(metric, parameters) == bounds


@pytest.mark.parametrize(
    ("parameters", "workers", "bounds"),
    [
        ({"threads": 4}, 4, True),
        ({"threads": 4}, 2, False),
        ({}, 1, True),
        ({}, 2, False),
    ],
)
def test_workers_are_bounded_by_as_many(parameters: dict[str, Any], workers: int, bounds: bool) -> None:
    assert bounds_decoding(f"tokens_s/{workers}", parameters) == bounds
    assert applies_to_images(f"images_s/{workers}", {**parameters, "cache": "cold"}) == bounds
    assert not applies_to_images(f"images_s/{workers}", {**parameters, "cache": "warm"})


def test_images_without_a_number_of_workers_are_of_one() -> None:
    (found,) = of_images(run_of(base()), result_of("inference", slow(100.0, "operations/s", cache="warm")))
    assert (found.metric, found.value) == ("images_s/1", 100.0)


@pytest.mark.parametrize(("rate", "counts"), [(0.0, False), (0.5, True)])
def test_every_rate_above_zero_counts(rate: float, counts: bool) -> None:
    raw = result_of("inference", slow(rate, loader="raw", cache="cold"))
    assert (raw_of(raw) is not None) == counts
    reads = result_of("memory", slow(rate, operation="read", working_set=1 << 30), kernel="memory_bandwidth")
    assert len(list(practical(replace(run_of(base()), experiments=(reads,)), reads))) == counts
    parts = [slow(rate, part=part, block=1 << 20, access="direct") for part in ("whole", "read", "copy")]
    assert len(list(loads_of(result_of("gpu", *parts)))) == counts
    looped = result_of("compute", loop(0, rate), kernel=LOOPS)
    assert len(list(of_loops(replace(run_of(base()), experiments=(looped,)), looped))) == counts


def loop(number: int, rate: float = 1e9, *, isa: str = "avx2", wide: float = 8.0, units: float = 2.0) -> Measurement:
    details = {"clock_hz_best": 1e9, "flop_per_instruction": wide, "instructions_per_cycle": units, "isa": isa}
    given: dict[str, Any] = {"operation": "add", "precision": "single", "threads": 1, "isa": "auto", "seed": number}
    return replace(base(), parameters=given, throughput=Value(rate, "FLOP/s"), details=details)


@pytest.mark.parametrize(
    ("loops", "flop_s"),
    [
        # A scalar does one operation.
        ([loop(0, wide=1.0, units=2.0)], 2e9),
        ([loop(0, isa="avx2", wide=8.0, units=4.0), loop(1, isa="avx512", wide=32.0, units=2.0)], 64e9),
        ([loop(0, isa="avx2", wide=8.0, units=4.0), loop(1, isa="avx512", wide=16.0, units=1.0)], 32e9),
    ],
)
def test_the_peak_is_of_the_best_choice_by_width_and_units(loops: list[Measurement], flop_s: float) -> None:
    result = result_of("compute", *loops, kernel=LOOPS)
    (found,) = of_loops(replace(run_of(base()), experiments=(result,)), result)
    assert found.value == flop_s


@pytest.mark.parametrize(
    ("operation", "arrays"), [("copy", 2), ("mul", 2), ("dot", 2), ("add", 3), ("triad", 3), ("other", 0)]
)
def test_arrays_of_four_times_the_cache_come_from_a_gpus_memory(operation: str, arrays: int) -> None:
    if arrays:
        least = math.ceil(4 * 3000 / arrays)
        assert bounds_gpu("gpu_memory/3000", {"operation": operation, "array": least})
        assert not bounds_gpu("gpu_memory/3000", {"operation": operation, "array": least - 1})
    else:
        assert not bounds_gpu("gpu_memory/3000", {"operation": operation, "array": 1 << 40})


@pytest.mark.parametrize(("array", "from_memory"), [(6000, True), (5999, False)])
def test_an_array_that_is_read_and_written_counts_twice(array: int, from_memory: bool) -> None:
    """Four times the cache of 3000 B, by two passes over an array of 6000 B."""
    assert bounds_gpu("gpu_memory/3000", {"intensity": 1.0, "array": array}) == from_memory


def test_a_ceiling_of_one_byte_a_second_is_one() -> None:
    assert parse_given("physical read 1 B/s").value == 1.0


# --- paths


def of_loopback(threads: int | None, **given: Any) -> Ceiling:
    point = replace(base(), parameters={"protocol": "tcp", **given}, details={"loopback": True, "copy_bytes_s": 1e9})
    run = replace(run_of(base()), machines=(Machine.of_survey({"cpu": {"threads": threads}}),))
    (found,) = network.of_path(run, result_of("network", point))
    return found


@pytest.mark.parametrize(
    ("threads", "given", "bytes_s", "words"),
    [
        (64, {"streams": 4}, 4e9, "8 cores / 2 copies"),
        (4, {"streams": 4}, 2e9, "4 cores / 2 copies"),
        (None, {"streams": 4}, 4e9, "8 cores / 2 copies"),
        (64, {"streams": 4, "zero_copy": True}, 4e9, "4 cores / 1 copy ="),
    ],
)
def test_copies_of_loopback_are_made_by_the_cores_that_there_are(
    threads: int | None, given: dict[str, Any], bytes_s: float, words: str
) -> None:
    found = of_loopback(threads, **given)
    assert found.value == bytes_s and words in found.formula


@pytest.mark.parametrize(
    ("block", "mtu", "wire"),
    [
        # 8 B of UDP once, 20 B of IP and 38 B around each frame.
        (1000, 1500, 1000 + 8 + 20 + 38),
        (2000, 1500, 2000 + 8 + 2 * 20 + 2 * 38),
        # A frame carries 46 B at least.
        (1, 1500, 46 + 38),
        (41, 68, 2 * 46 + 2 * 38),
    ],
)
def test_a_datagram_takes_its_frames_on_the_wire(block: int, mtu: int, wire: int) -> None:
    details = {"interface": "eth0", "interface_bits_s": 8e9, "interface_virtual": False, "interface_mtu_bytes": mtu}
    point = replace(base(), parameters={"protocol": "udp", "block": block}, details=details)
    (found,) = network.of_path(run_of(base()), result_of("network", point))
    assert found.value == pytest.approx(1e9 * block / wire, rel=1e-9)


# --- stacks


def stacked(layers: list[dict[str, Any]], disks: int = 1) -> tuple[Ceiling, ...]:
    link = {"type": "sata", "bits_s": 6_000_000_000}
    made = [{"name": f"sd{one}", "kind": "disk", "link": link} for one in range(disks)]
    return of_machine(Machine.of_survey({"storage": {"chain": layers, "disks": made}}))


def test_a_path_has_ceilings_only_where_it_has_one_top() -> None:
    assert stacked([]) != ()
    assert stacked([], disks=2) == ()


def test_a_layer_on_nothing_carries_nothing() -> None:
    top = {"name": "top", "kind": "raid", "level": "raid0", "on": ["a", "sd0"]}
    assert stacked([top, {"name": "a", "kind": "raid", "level": "raid0", "on": []}]) == ()


def test_a_circle_below_a_top_ends() -> None:
    top = {"name": "top", "kind": "raid", "level": "raid0", "on": ["a", "sd0"]}
    assert stacked([top, {"name": "a", "kind": "x", "on": ["b"]}, {"name": "b", "kind": "x", "on": ["a"]}]) == ()
