"""`hwdyno audit` on published tables of GPUs: copies over a link, collectives between them, and their data sheets.

Figures of public tables are facts, typed with the source of each; the layouts are those that they had.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from audited import audited, faults, points, printed

# --- as users paste them

# Eight A100s by sendrecv_perf of nccl-tests (notes on GitHub).
NCCL = """```
./build/sendrecv_perf -b 128M -e 1G -f 2 -g 8
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   134217728      33554432     float     sum      -1   1211.2  110.81  110.81      0   1211.8  110.76  110.76    N/A
   268435456      67108864     float     sum      -1   1423.3  188.60  188.60      0   1420.2  189.01  189.01    N/A
  1073741824     268435456     float     sum      -1   5503.4  195.10  195.10      0   5490.5  195.56  195.56    N/A
```
"""
# A vectorised copy on an RTX 2070, whose title has the bandwidth of its memory (GitHub).
RATE_IN_TITLE = """### Nvidia - Geforce RTX 2070 with Max Q Design (352.06 GB/s max bandwidth)
| Solver | Kernel Runtime (ms) | Bandwidth (GB/s) |
| :--- | ---: | ---: |
| cudaMemcpy | 0.88 | 152.82
| scalar | 1.34 | 199.76
| vector4 | 1.20 | 222.89
"""
# bandwidthTest on an A100 of a cloud (notes on GitHub).
A100 = """[CUDA Bandwidth Test] - Starting...
 Device 0: NVIDIA A100-SXM4-40GB
 Quick Mode

 Host to Device Bandwidth, 1 Device(s)
 PINNED Memory Transfers
   Transfer Size (Bytes)	Bandwidth(GB/s)
   32000000			12.3

 Device to Device Bandwidth, 1 Device(s)
 PINNED Memory Transfers
   Transfer Size (Bytes)	Bandwidth(GB/s)
   32000000			1157.5
"""
# A node of eight H100s, copied from a page: rows end at their last cell (the results of a cloud on GitHub).
COPIED_CELLS = """Test	Result	vs Theoretical
CPU STREAM Triad	486.7 GB/s	79.3% of DDR5 peak (614 GB/s)
GPU H2D (PCIe)	54.8 GB/s	87% of PCIe 5.0 x16
GPU D2H (PCIe)	46.8 GB/s
GPU D2D (HBM3)	2,903 GB/s	86.7% of HBM3 peak
"""
COPIED_FLOPS = """Benchmark	Metric	Result	vs Theoretical Peak
HPCG (GPU)	GFLOP/s	523 GFLOP/s
HPCG (CPU baseline)	GFLOP/s	2.05 GFLOP/s
GPU Speedup	255×
HPL FP64	TFLOPS	365.4 TFLOPS	68% of FP64 peak
HPL-MxP FP8 LU peak	TFLOPS	3,554 TFLOPS	89.8% of FP8 peak
"""


def test_nccl_tests_are_read_and_held_against_bytes_over_time(tmp_path: Path) -> None:
    run = audited(NCCL, tmp_path, name="nccl.txt")
    assert run.imported_from == "nccl-tests-text" and not faults(run)
    assert run.experiments[0].fixed["operation"] == "sendrecv"
    assert [point.parameters["place"] for point in points(run)] == ["out-of-place", "in-place"] * 3
    assert points(run)[4].throughput.value == pytest.approx(195.10e9)
    assert points(run)[4].details["bus_bytes_s"] == pytest.approx(195.10e9)
    wrong = faults(audited(NCCL.replace("5503.4", "8503.4"), tmp_path, name="nccl.txt"))
    assert set(wrong) == {"contradicts_itself"} and "bytes / time" in wrong["contradicts_itself"].says


def test_rate_in_title_is_no_size(tmp_path: Path) -> None:
    run = audited(RATE_IN_TITLE, tmp_path)
    assert not faults(run) and len(points(run)) == 3
    assert all("bs" not in point.parameters for point in points(run))


def test_a_copy_on_a_known_gpu_is_held_against_its_link(tmp_path: Path) -> None:
    assert not faults(audited(A100, tmp_path, name="bandwidth.txt"))
    assert "physical_ceiling" in faults(audited(A100.replace("12.3", "42.3"), tmp_path, name="bandwidth.txt"))
    assert "physical_ceiling" in faults(audited(A100.replace("1157.5", "2157.5"), tmp_path, name="bandwidth.txt"))


def test_results_with_their_units_in_the_cells_are_read_without_a_named_head(tmp_path: Path) -> None:
    run = audited(COPIED_CELLS, tmp_path, name="clipboard.txt")
    assert not faults(run) and [point.parameters["operation"] for point in points(run)] == [
        "triad", "host-to-device", "device-to-host", "device-to-device",
    ]  # fmt: skip
    assert printed(run)[0] == {"bw": pytest.approx(486.7e9), "share": pytest.approx(0.793)}
    flops = audited(COPIED_FLOPS, tmp_path, name="clipboard.txt")
    rates = [point.throughput.value for point in points(flops) if point.throughput.unit == "FLOP/s"]
    assert rates == pytest.approx([523e9, 2.05e9, 365.4e12, 3554e12]) and not faults(flops)


def test_every_figure_of_gpu_has_source() -> None:
    """What could not be checked against a public source is left out of the catalogue."""
    import csv
    from importlib import resources

    rows = list(csv.DictReader((resources.files("hwdyno.analysis.ceilings") / "gpus.csv").read_text().splitlines()))
    assert len(rows) > 40 and not [row["name"] for row in rows if not row["source"] or "not checked" in row["source"]]
    for row in rows:
        # Cores x clock x 2 is the stated arithmetic.
        stated, by_clock = float(row["fp32_tflop_s"]), 2 * float(row["cores"]) * float(row["boost_mhz"]) * 1e-6
        assert stated == pytest.approx(by_clock, rel=0.02) or row["name"].startswith("Instinct"), row["name"]


# --- GPU copies

# An H100 behind PCIe 4.0, by PyTorch; device to host is slow there (a README on GitHub).
COPIES_BY_SIZE = """### Memory Bandwidth (H2D/D2H)

Host to device and device to host, pinned host memory.

| Size (MB) | H2D (GB/s) | D2H (GB/s) |
| - | - | - |
| 1 | 21.31 | 2.97 |
| 4 | 25.63 | 2.71 |
| 16 | 26.98 | 2.71 |
| 256 | 27.62 | 1.94 |
| 1024 | 27.66 | 1.95 |
"""
# What a lesson on GPUs expects of PCIe 5.0 (a README on GitHub).
PAGEABLE = """=== PCIe Bandwidth ===

Direction | Pageable | Pinned
--- | --- | ---
H2D       | 12 GB/s  | 52 GB/s
D2H       | 11 GB/s  | 55 GB/s
"""
# Eight B300 by cudaMemcpy (a report on GitHub).
COPIES_BY_GPU = """### CUDA Bandwidth Test — H2D / D2H / D2D per GPU

| GPU | H2D (GB/s) | D2H (GB/s) | D2D (GB/s) |
| - | - | - | - |
| GPU 0 | 55.8 | 57.3 | 3,240.8 |
| GPU 1 | 55.8 | 57.3 | 3,242.5 |
| **Avg** | **55.7** | **57.3** | **3,244** |
"""
# An RTX 3090 by vkpeak (a README on GitHub).
SEVERAL_UNITS = """#### vkpeak Benchmark
| Metric | Value | Unit |
| - | - | - |
| FP32 Scalar | 24,807 | GFLOPS |
| FP16 Matrix | 159,937 | GFLOPS |
| INT8 Matrix | 318,061 | GIOPS |
| D2D Bandwidth | 310 | GB/s |
"""
# Copies between CPU and GPU, ten runs each (a report on GitHub).
MEDIANS = """| Mode | Scenario | Success | Median (MB/s) | Min | Max | StdDev |
| - | - | - | - | - | - | - |
| auto | cpu2cpu | 10 | 7242.5 | 6893.7 | 7405.7 | 164.8 |
| auto | cpu2cuda | 10 | 4861.5 | 4539.7 | 4986.7 | 139.9 |
| pageable | cpu2cuda | 10 | 4136.9 | 3680.5 | 4286.1 | 188.0 |
| pinned | cpu2cuda | 10 | 4897.6 | 4546.4 | 5062.5 | 152.3 |
"""


def test_copies_of_a_gpu_by_size_stand_along_the_block_size(tmp_path: Path) -> None:
    run = audited(COPIES_BY_SIZE, tmp_path, links=("PCIe 4.0 x16",))
    found = points(run)
    assert {experiment.resource for experiment in run.experiments} == {"gpu"} and run.experiments[0].load == "bs"
    assert [
        point.throughput.value for point in found if point.parameters["operation"] == "device-to-host"
    ] == pytest.approx([2.97e9, 2.71e9, 2.71e9, 1.94e9, 1.95e9])
    assert found[0].parameters == {"bs": 1 << 20, "operation": "host-to-device"} and not faults(run)
    assert "physical_ceiling" in faults(audited(COPIES_BY_SIZE, tmp_path, links=("PCIe 3.0 x16",)))


def test_pageable_and_pinned_copies_with_the_unit_in_each_cell(tmp_path: Path) -> None:
    found = points(audited(PAGEABLE, tmp_path))
    assert [(point.parameters["operation"], point.parameters["series"]) for point in found] == [
        ("host-to-device", "pageable"),
        ("host-to-device", "pinned"),
        ("device-to-host", "pageable"),
        ("device-to-host", "pinned"),
    ]
    assert [point.throughput.value for point in found] == pytest.approx([12e9, 52e9, 11e9, 55e9])


def test_copies_of_each_gpu(tmp_path: Path) -> None:
    run = audited(COPIES_BY_GPU, tmp_path)
    assert [figures["bw"] for figures in printed(run)[:3]] == pytest.approx([55.8e9, 57.3e9, 3240.8e9]) and not faults(
        run
    )


def test_a_unit_of_a_row_holds_for_that_row_alone(tmp_path: Path) -> None:
    """318,061 GIOPS once read as 318,061 FLOP/s."""
    found = points(audited(SEVERAL_UNITS, tmp_path))
    units = [(point.throughput.unit, point.throughput.value) for point in found]
    assert units == [
        ("FLOP/s", 24.807e12),
        ("FLOP/s", 159.937e12),
        ("operations/s", 318.061e12),
        ("bytes/s", 310e9),
    ]
    strange = printed(audited(SEVERAL_UNITS.replace("GIOPS", "kvibes"), tmp_path))
    assert len(strange) == 3


def test_the_median_of_several_runs_counts_and_not_the_greatest(tmp_path: Path) -> None:
    found = points(audited(MEDIANS, tmp_path))
    assert [point.throughput.value for point in found] == pytest.approx([7242.5e6, 4861.5e6, 4136.9e6, 4897.6e6])
    assert found[2].parameters["mode"] == "pageable"


# --- collectives

# 16 B200 in two nodes over EFA, by nccl-tests (notes on GitHub).
ALL_REDUCE = """### AllReduce (2 nodes, 16x B200, EFA v3)

| Size | AlgBW (GB/s) | BusBW (GB/s) | Latency (μs) |
| - | - | - | - |
| 1 KB | 0.02 | 0.04 | 52.8 |
| 1 MB | 9.79 | 18.36 | 107.1 |
| 64 MB | 129.96 | 243.68 | 516.4 |
| 256 MB | 232.00 | 435.00 | 1,157 |
| 1 GB | 304.10 | 570.19 | 3,531 |
| 4 GB | 349.15 | 654.67 | 12,301 |
| **8 GB** | **364.75** | **683.90** | **23,550** |
"""
# Four GPUs by oneCCL (notes on GitHub).
BY_ONECCL = """### oneCCL Allreduce, 4 ranks, bfloat16

| Size | avg_us | var_us | algBW (GB/s) | busBW (GB/s) |
| - | - | - | - | - |
| 256 B | 20.10 | 149.19 | 0.013 | 0.019 |
| 64.00 KB | 32.11 | 28.70 | 2.041 | 3.062 |
| 256.00 KB | 32.42 | 47.06 | 8.085 | 12.128 |
| 1.00 MB | 83.91 | 29.69 | 12.497 | 18.745 |
"""
# The gradient of a model between A100s (a report on GitHub).
GRADIENT = """All-reduce of one full FP32 gradient:

| Config | GPUs | Size (MB) | Time (ms) | algbw (GB/s) | busbw (GB/s) |
| - | - | - | - | - | - |
| 1n2g | 2 | 435.6 | 34.0 | 12.81 | 12.81 |
| 2n1g | 2 | 435.6 | 40.3 | 10.80 | 10.80 |
| 2n2g | 4 | 435.6 | 42.9 | 10.16 | 15.24 |
"""
# Four GPUs of a node behind PCIe 5.0 (a report on GitHub).
UNDER_A_LINK = """## Table 2: 1-Node RTX6000, 4 GPUs

| Benchmark | algbw (GB/s) | busbw (GB/s) | PCIe link spec (GB/s) | % of link spec | Effective ceiling |
| - | - | - | - | - | - |
| sendrecv | 13.0 | 13.0 | 63 | **21%** | ~13 GB/s — IF 4-die bidir saturation |
| reduce | 13.2 | 13.2 | 63 | 21% | ~13 GB/s |
"""
# Eight GPUs by PyTorch, 1 GiB (a README on GitHub).
BY_OPERATION = """#### 1 node (8 GPUs) — NVLink only

| Op | Time (ms) | AlgBW (GB/s) | BusBW (GB/s) |
| - | - | - | - |
| allreduce | 4.17 | 257.6 | 450.9 |
| allgather | 20.88 | 411.3 | 359.9 |
| reduce_scatter | 20.84 | 412.2 | 360.7 |
| all_to_all | 2.82 | 380.7 | 333.1 |
"""


@pytest.mark.parametrize("table", [ALL_REDUCE, BY_ONECCL, GRADIENT, UNDER_A_LINK, BY_OPERATION])
def test_collectives_have_two_bandwidths_and_break_no_law(table: str, tmp_path: Path) -> None:
    run = audited(table, tmp_path)
    assert {experiment.resource for experiment in run.experiments} == {"gpu"} and not faults(run)
    assert all({"bw", "busbw"} <= set(figures) for figures in printed(run))


def test_all_reduce_has_size_and_time(tmp_path: Path) -> None:
    found = points(audited(ALL_REDUCE, tmp_path))
    assert found[1].parameters == {"bs": 1 << 20, "operation": "allreduce"}
    assert found[1].throughput.value == pytest.approx(9.79e9)
    assert found[1].latency_ns is not None and found[1].latency_ns.mean == pytest.approx(107_100)
    assert len(found) == 7


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("| 9.79 | 18.36 |", "| 9.79 | 21.36 |"), ("| 9.79 | 18.36 |", "| 11.79 | 18.36 |"), ("107.1", "171.1")],
)
def test_the_bus_moves_at_most_twice_the_bytes_over_the_time(right: str, wrong: str, tmp_path: Path) -> None:
    assert "contradicts_itself" in faults(audited(ALL_REDUCE.replace(right, wrong), tmp_path))


def test_with_its_ranks_an_all_reduce_has_one_factor(tmp_path: Path) -> None:
    wrong = GRADIENT.replace("| 10.16 | 15.24 |", "| 10.16 | 17.78 |")  # 1.75, that of 8 ranks
    assert "contradicts_itself" in faults(audited(wrong, tmp_path))
    other = BY_OPERATION.replace("359.9", "411.3")
    assert "contradicts_itself" in faults(audited(other, tmp_path))
