"""Which ceiling bounds which measurement, and which measurements become a ceiling of others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.ceilings import find_bound, gpu, utilizations
from hwdyno.analysis.ceilings.compute import LOOPS, of_loops
from hwdyno.analysis.ceilings.inference import of_file, of_images, of_memory, of_served
from hwdyno.analysis.ceilings.memory import practical
from hwdyno.analysis.ceilings.network import of_path
from hwdyno.explain.findings.inference import list_points
from hwdyno.model.machine import GpuDrivers, Machine, OpenClDevice
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Parameters, Run, Value
from made_experiment import made_experiment
from made_point import base, make_run

MIB = 1 << 20
TRIAD, D2D = {"operation": "triad", "threads": 4}, {"operation": "device-to-device"}
RAW: dict[str, Any] = {"loader": "raw", "cache": "cold"}
READ: dict[str, Any] = {"operation": "read", "working_set": 1 << 30}
COPY: dict[str, Any] = {**READ, "operation": "copy"}
COLD: dict[str, Any] = {"cache": "cold"}
DIRECT, SINGLE = {"access": "direct"}, {"precision": "single"}


def make_ceiling(metric: str, value: float = 1e9, unit: str = "bytes/s") -> Ceiling:
    return Ceiling(metric, "physical", value, unit, "", "")


@pytest.mark.parametrize(
    ("metric", "bounded", "others"),
    [
        ("read_bytes_s", [{"rw": "read", "bs": 4096}], []),
        ("copy_bytes_s", [], [{"rw": "read", "bs": 4096}]),
        # A smaller working set may fit a cache, which can be faster than the memory.
        ("dram_bytes_s", [TRIAD, {**TRIAD, "working_set": 128 * MIB}], [{**TRIAD, "working_set": 127 * MIB}]),
        ("line/bytes_s", [{"path": "eth0"}], [{"path": "Loopback"}]),
        ("host_copy/bytes_s", [{"operation": "host-to-device"}], [{"operation": "device-to-device"}, {}]),
        ("host_copy/bytes_s", [{**DIRECT, "part": "whole"}, {**DIRECT, "part": "copy"}], [{**DIRECT, "part": "read"}]),
        ("host_copy/bytes_s", [], [DIRECT, {"part": "whole"}]),
        ("device_copy/bytes_s", [D2D], [{**D2D, "path": "P2P"}]),
        ("gpu_peak/vector/single", [SINGLE, {**SINGLE, "array": 1 << 30, "intensity": 1.0}], [{"precision": "double"}]),
        ("gpu_peak/vector/single", [], [{**SINGLE, "array": 1 << 30}, {**SINGLE, "on": "cpu"}]),
        ("gpu_peak/tensor/fp16", [{"precision": "bf16", "n": 8192}], [{"precision": "bf16"}]),
        # All arrays of an operation together are four times the cache of 3000 B.
        *[
            ("gpu_memory/3000", [{"operation": name, "array": least}], [{"operation": name, "array": least - 1}])
            for name, least in (("copy", 6000), ("mul", 6000), ("dot", 6000), ("add", 4000), ("triad", 4000))
        ],
        ("gpu_memory/3000", [], [{"operation": "sort", "array": 1 << 40}]),
        # Read and written: two passes.
        ("gpu_memory/3000", [{"intensity": 1.0, "array": 6000}], [{"intensity": 1.0, "array": 5999}]),
        ("model_read_bytes_s", [{**COLD, "loader": "mmap"}], [{**COLD, "loader": "raw"}, {"loader": "mmap"}]),
        ("model_object_read_bytes_s", [{"loader": "read", "threads": 8}], [{"loader": "raw", "threads": 8}, {}]),
        ("tokens_s/4", [{"threads": 4}], [{"threads": 2}, {}]),
        ("tokens_s/1", [{}], [{"threads": 2}]),
        ("images_s/4", [{**COLD, "threads": 4}], [{"cache": "warm", "threads": 4}, {**COLD, "threads": 2}, COLD]),
        ("images_s/1", [COLD], [{}]),
        ("served/concurrency/8", [{"concurrency": 8}], [{"concurrency": 4}, {}]),
        ("served/concurrency/0", [{}], [{"concurrency": 1}]),
    ],
)
def test_a_ceiling_bounds_what_it_concerns(metric: str, bounded: list[Parameters], others: list[Parameters]) -> None:
    assert [found for found in bounded if find_bound(make_ceiling(metric), found) is None] == []
    assert [found for found in others if find_bound(make_ceiling(metric), found) is not None] == []


def test_bound_below_one_per_second_counts() -> None:
    point = measured(0.4, "operations/s", concurrency=8)
    (found,) = utilizations([make_ceiling("served/concurrency/8", 0.5, "operations/s")], point, point.parameters)
    assert found.share == pytest.approx(0.8)


@pytest.mark.parametrize(("kind", "count"), [("gpu", 1), ("cpu", 0)])
def test_opencl_gpus_lack_peaks_and_processors_do_not(kind: str, count: int) -> None:
    drivers = GpuDrivers(opencl=(OpenClDevice(platform="p", name="d", kind=kind),))
    assert len(gpu.why_none(replace(Machine(), gpu_drivers=drivers))) == count


# --- measured ceilings


def measured(value: float, unit: str = "bytes/s", **parameters: Any) -> Measurement:
    return replace(base(), parameters=parameters, throughput=Value(value, unit), rate=None)


def invalid(point: Measurement) -> Measurement:
    return replace(point, validity="invalid")


def make_result(kernel: str, *points: Measurement, load: str = "threads") -> ExperimentResult:
    return made_experiment("x.x", kernel.partition("_")[0], "?", load, kernel, points, fixed={})


def run_with(*results: ExperimentResult) -> Run:
    return replace(make_run(base()), experiments=results)


def image(rate: float, cache: str = "warm", **parameters: Any) -> Measurement:
    return measured(rate, "operations/s", cache=cache, **parameters)


def parts(rate: float) -> list[Measurement]:
    return [measured(rate, part=part, block=MIB, access="direct") for part in ("whole", "read", "copy")]


def loop(rate: float = 1e9, *, isa: str = "avx2", wide: float = 8.0, units: float = 2.0, seed: int = 0) -> Measurement:
    details = {"clock_hz_best": 1e9, "flop_per_instruction": wide, "instructions_per_cycle": units, "isa": isa}
    point = measured(rate, "FLOP/s", operation="add", precision="single", threads=1, isa="auto", seed=seed)
    return replace(point, details=details)


@pytest.mark.parametrize(
    ("ceilings", "kernel", "points", "rates"),
    [
        (of_file, "inference_load", [measured(0.5, **RAW)], [0.5]),
        (of_file, "inference_load", [measured(0.0, **RAW)], []),
        (of_file, "inference_load", [measured(1e9, **RAW), measured(2e9, **RAW), invalid(measured(5e9, **RAW))], [2e9]),
        (of_file, "inference_load", [measured(1e9, **RAW), measured(5e9, loader="raw"), measured(5e9, **COLD)], [1e9]),
        (of_file, "inference_stream", [measured(1e9, loader="raw"), measured(5e9, loader="read")], [1e9]),
        (of_images, "inference_images", [image(0.5)], [0.5]),
        (of_images, "inference_images", [image(0.0), image(9.0, "cold"), invalid(image(9.0))], []),
        (practical, "memory_bandwidth", [measured(0.5, **READ), measured(0.2, **READ)], [0.5]),
        (practical, "memory_bandwidth", [measured(0.0, **READ)], []),
        (practical, "memory_bandwidth", [measured(2e9, **READ), invalid(measured(5e9, **READ))], [2e9]),
        (gpu.of_parts, "gpu_load", parts(0.5), [0.5]),
        (gpu.of_parts, "gpu_load", parts(0.0), []),
        (of_loops, LOOPS, [loop(0.5)], [16e9]),
        (of_loops, LOOPS, [loop(0.0)], []),
        # A scalar does one operation.
        (of_loops, LOOPS, [loop(wide=1.0, units=2.0)], [2e9]),
        # Units are whole, from 1 to 4; a tile takes 16 cycles.
        (of_loops, LOOPS, [loop(units=0.2)], [8e9]),
        (of_loops, LOOPS, [loop(units=1.4)], [8e9]),
        (of_loops, LOOPS, [loop(units=1.6)], [16e9]),
        (of_loops, LOOPS, [loop(units=9.0)], [32e9]),
        (of_loops, LOOPS, [loop(isa="amx", wide=32768.0)], [2048e9]),
        # The best choice by width and units.
        (of_loops, LOOPS, [loop(wide=8.0, units=4.0), loop(isa="avx512", wide=32.0, seed=1)], [64e9]),
        (of_loops, LOOPS, [loop(wide=8.0, units=4.0), loop(isa="avx512", wide=16.0, units=1.0, seed=1)], [32e9]),
    ],
)
def test_valid_rates_become_ceilings(ceilings: Any, kernel: str, points: list[Measurement], rates: list[float]) -> None:
    result = make_result(kernel, *points)
    assert [found.value for found in ceilings(run_with(result), result)] == rates


def test_images_without_workers_had_one() -> None:
    result = make_result("inference_images", image(100.0), image(200.0, threads=2))
    assert [found.metric for found in of_images(run_with(result), result)] == ["images_s/1", "images_s/2"]


@pytest.mark.parametrize("wrong", [{"validity": "invalid"}, {"bytes": 0}, {"throughput": Value(0.0, "bytes/s")}])
def test_load_without_valid_bytes_is_none(wrong: dict[str, Any]) -> None:
    right = measured(5e8, loader="mapped", cache="cold")
    assert [len(list_points(make_result("inference_load", point))) for point in (right, replace(right, **wrong))] == [
        1,
        0,
    ]


READS = make_result("memory_bandwidth", measured(1e10, threads=1, **READ), measured(1.2e10, **READ),
    measured(3e10, threads=4, **READ), measured(9e10, threads=4, **COPY), invalid(measured(9e10, **READ)))  # fmt: skip
COUNTED = {"bytes_per_token": 1e8, "output_tokens_mean": 11.0}


@pytest.mark.parametrize(
    ("details", "parameters", "rates"),
    [
        # 12 GB/s / 100 MB = 120 tokens/s; ten tokens follow a request's first.
        (COUNTED, {}, [12.0]),
        (COUNTED, {"threads": 4}, [30.0]),
        (COUNTED, {"threads": 3}, []),
        ({**COUNTED, "output_tokens_mean": 1.0}, {}, []),
        ({"bytes_per_token": 1e8}, {}, []),
        ({"output_tokens_mean": 11.0}, {}, []),
    ],
)
def test_memory_bounds_requests_by_tokens(details: dict[str, float], parameters: Any, rates: list[float]) -> None:
    point = replace(base(), parameters={"concurrency": 8, **parameters}, details=details)
    served = make_result("inference_serving", point, load="concurrency")
    assert [found.value for found in of_served(run_with(READS, served), served)] == pytest.approx(rates)


def test_memory_bounds_tokens_by_best_reads() -> None:
    decoded = make_result("inference_decode", replace(base(), details=COUNTED))
    found = {bound.metric: bound.value for bound in of_memory(run_with(READS, decoded), decoded)}
    assert found == pytest.approx({"tokens_s/1": 120.0, "tokens_s/4": 300.0})


ETH0 = {"interface": "eth0", "interface_bits_s": 8e9, "interface_virtual": False}


def path(details: dict[str, Any], threads: int | None = None, hosts: int = 1, **parameters: Any) -> Ceiling:
    machine = Machine.of_survey({"cpu": {"threads": threads}})
    machines = tuple(replace(machine, hostname=f"host{number}") for number in range(hosts))
    result = make_result("network_stream", replace(base(), parameters=parameters, details=details))
    (found,) = of_path(replace(run_with(result), machines=machines), result)
    return found


@pytest.mark.parametrize(
    ("threads", "parameters", "bytes_s", "says"),
    [
        (64, {"streams": 4}, 4e9, "8 cores / 2 copies"),
        (4, {"streams": 4}, 2e9, "4 cores / 2 copies"),
        (None, {"streams": 4}, 4e9, "8 cores / 2 copies"),
        (64, {"streams": 4, "zero_copy": True}, 4e9, "4 cores / 1 copy ="),
        (64, {}, 1e9, "2 cores / 2 copies"),
        (64, {"direction": "both"}, 2e9, "4 cores / 2 copies"),
    ],
)
def test_loopback_is_copied_by_cores(threads: int | None, parameters: Any, bytes_s: float, says: str) -> None:
    found = path({"loopback": True, "copy_bytes_s": 1e9}, threads, protocol="tcp", **parameters)
    assert found.value == bytes_s and says in found.formula


# 8 B of UDP once, 20 B of IP and 38 B around every frame, which carries 46 B at least.
@pytest.mark.parametrize(("block", "mtu", "wire"), [(1000, 1500, 1000 + 8 + 20 + 38),
    (2000, 1500, 2000 + 8 + 2 * 20 + 2 * 38), (1, 1500, 46 + 38), (41, 68, 2 * 46 + 2 * 38)])  # fmt: skip
def test_datagram_fills_frames_of_wire(block: int, mtu: int, wire: int) -> None:
    found = path({**ETH0, "interface_mtu_bytes": mtu}, protocol="udp", block=block)
    assert found.value == pytest.approx(1e9 * block / wire, rel=1e-9)


def test_several_hosts_send_through_several_interfaces() -> None:
    alone, together = (path(ETH0, hosts=hosts, protocol="tcp", direction="up") for hosts in (1, 3))
    assert together.value == 3 * alone.value and together.label.startswith("3 hosts, each like ")
