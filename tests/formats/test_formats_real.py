"""The readers on what the tools really print: short runs, kept as they were printed (tests/data/tools)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwdyno.explain.findings import explain
from hwdyno.model.words import Measurement
from read_format import read_run

TOOLS = Path(__file__).parents[1] / "data" / "tools"


def points(name: str) -> list[Measurement]:
    run = explain(read_run(TOOLS / f"{name}.txt"))
    return [point for experiment in run.experiments for point in experiment.points]


@pytest.mark.parametrize(
    ("name", "unit", "values"),
    [
        ("netperf-stream", "bytes/s", [15596.82e6 / 8]),
        ("netperf-omni", "bytes/s", [16674.74e6 / 8]),
        ("netperf-k", "bytes/s", [18203.35e6 / 8]),
        ("netperf-udp", "bytes/s", [612.16e6 / 8]),
        ("netperf-k-rr", "operations/s", [58055.10]),
        ("stress-ng", "operations/s", [266.28, 4300.91, 51.18]),
        ("stress-ng-brief", "operations/s", [947.01]),
        ("sysbench-cpu", "operations/s", [2422.03]),
        ("lmbench-pipe", "s", [7.9410e-6]),
        ("lmbench-mem", "s", [1.144e-9]),
        ("iozone", "bytes/s", [1024 * k for k in (3900255, 5936773, 10534589, 9636422, 10394367, 6169144)]),
    ],
)
def test_figures_are_the_printed_ones(name: str, unit: str, values: list[float]) -> None:
    found = points(name)
    assert {point.throughput.unit for point in found} == {unit}
    assert [point.throughput.value for point in found] == pytest.approx(values)


def test_netperf_selectors_have_size_and_path() -> None:
    (point,) = points("netperf-k-rr")
    assert point.latency_ns is not None
    latency = point.latency_ns
    assert (latency.mean, latency.p50, latency.p99, latency.max) == pytest.approx((17_180, 14_000, 17_000, 9_552_000))
    assert point.parameters == {"protocol": "tcp", "path": "loopback", "message": 1, "connects": False}
    (stream,) = points("netperf-k")
    assert stream.parameters["block"] == 16384


def test_iozone_cells_belong_to_heads() -> None:
    tests = [point.parameters["test"] for point in points("iozone")]
    assert tests == ["write", "rewrite", "read", "reread", "random read", "random write"]


def test_iozones_throughput_mode_has_each_test() -> None:
    found = {str(point.parameters["test"]): point for point in points("iozone-t")}
    assert found["initial writers"].throughput.value == pytest.approx(3957760.50 * 1024)
    assert all(point.parameters["numjobs"] == 2 and point.parameters["bs"] == 65536 for point in found.values())


def test_clpeak_on_a_processor_is_read() -> None:
    values = [point.throughput.value for point in points("clpeak")]
    assert 22.71e9 in values and 13.02e9 in values


@pytest.mark.parametrize("name", ["sysbench-memory", "sysbench-fileio"])
def test_sysbenchs_other_tests_are_read(name: str) -> None:
    assert points(name)
