"""`hwdyno audit` on more public tables, as users paste them: what is read, which laws are broken, and nothing invented.

The figures are facts, typed with the source of each; the layouts are those of the tools and pages that showed them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from audited import audited, faults, points, printed
from hwdyno.analysis.resources import find_rate_word
from hwdyno.model.unit_readings import counted_in
from hwdyno.model.words import UserError

# --- memory

# A Xeon Silver 4110 with twelve DDR4-2666 DIMMs, by Memory Latency Checker 3.5; a line is quoted with a remark
# (a thread in Intel's forum on software tuning, 2018).
QUOTED_LINE = """Measuring Loaded Latencies for the system
Using all the threads from each core if Hyper-threading is enabled
Using Read-only traffic type
Inject  Latency Bandwidth
Delay   (ns)    MB/sec
00000  130.31   135655.9
00002  130.34   135653.8
00050  123.71   131282.0
"00100   98.94    68357.8" <--- pass criteria : "over 81XXX"
00200   94.56    42695.4
00500   90.16    18355.0
20000   81.96     1237.6
"""
# Memory behind CXL with version 3.11b: mixes are faster than reads alone (a log on GitHub).
FASTER_MIXES = """Intel(R) Memory Latency Checker - v3.11b
Measuring idle latencies for sequential access (in ns)...
		Numa node
Numa node	     0
       0	 292.9

Measuring Peak Injection Memory Bandwidths for the system
Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)
Using traffic with the following read-write ratios
ALL Reads        :	31031.7
3:1 Reads-Writes :	43700.9
2:1 Reads-Writes :	42475.2
1:1 Reads-Writes :	45973.2
Stream-triad like:	28339.2
"""
# A node without processors is 4 times as far, by 3.10 (a log on GitHub).
NODE_WITHOUT_CORES = """Intel(R) Memory Latency Checker - v3.10
*** Unable to modify prefetchers (try executing 'modprobe msr')
*** So, enabling random access for latency measurements
Measuring idle latencies for random access (in ns)...
                Numa node   Numa node
Numa node             0           1
       0          106.3       437.5
"""
# STREAM on two processors of Texas Instruments, with 16 bits of DDR4-1600 and LPDDR4-1600 (application note SPRACV1B).
EFFICIENCIES = """<table><caption>STREAM Benchmarks</caption>
<tr><th></th><th>DDR4-1600MT/s-16-Bit Bandwidth</th><th>DDR4-1600MT/s-16-Bit Efficiency</th>
<th>LPDDR4-1600MT/s-16-Bit Bandwidth</th><th>LPDDR4-1600MT/s-16-Bit Efficiency</th></tr>
<tr><td>copy</td><td>2482MB/s</td><td>78%</td><td>2221MB/s</td><td>69%</td></tr>
<tr><td>scale</td><td>2516MB/s</td><td>79%</td><td>2268MB/s</td><td>71%</td></tr>
<tr><td>add</td><td>2350MB/s</td><td>73%</td><td>2130MB/s</td><td>67%</td></tr>
<tr><td>triad</td><td>2355MB/s</td><td>74%</td><td>2139MB/s</td><td>67%</td></tr></table>
"""
# STREAM over the machines of a fleet (the documents of Microsoft's VirtualClient).
STATISTICS_AND_UNITS = """| Metric Name | Example Value (min) | Example Value (max) | Example Value (avg) | Unit |
|---|---|---|---|---|
| Best Rate Add | 8635.5 | 327893.5 | 42849.75 | MB/s |
| Best Rate Copy | 6787.4 | 346279.0 | 30720.40 | MB/s |
| Best Rate Triad | 10141.2 | 305781.6 | 42735.67 | MB/s |
"""


def test_quoted_latency_line_is_read(tmp_path: Path) -> None:
    run = audited(QUOTED_LINE, tmp_path, name="mlc.txt")
    assert [point.parameters["delay"] for point in points(run)] == [0, 2, 50, 100, 200, 500, 20000]
    assert points(run)[3].throughput.value == pytest.approx(68357.8e6) and not faults(run)


@pytest.mark.parametrize(("text", "count"), [(FASTER_MIXES, 6), (NODE_WITHOUT_CORES, 2)])
def test_unusual_memory_is_no_fault(text: str, count: int, tmp_path: Path) -> None:
    run = audited(text, tmp_path, name="mlc.txt")
    assert len(points(run)) == count and not faults(run)


def test_bandwidth_and_efficiency_of_two_memories_are_two_series(tmp_path: Path) -> None:
    run = audited(EFFICIENCIES, tmp_path, name="stream.html")
    assert len(points(run)) == 8 and not faults(run)
    assert printed(run)[0] == {"bw": pytest.approx(2482e6), "share": pytest.approx(0.78)}
    assert len({point.parameters["series"] for point in points(run)}) == 2


def test_min_in_brackets_beside_max_is_the_least_and_no_minute(tmp_path: Path) -> None:
    run = audited(STATISTICS_AND_UNITS, tmp_path)
    assert printed(run)[0] == {
        "bw_min": pytest.approx(8635.5e6), "bw_max": pytest.approx(327893.5e6), "bw_mean": pytest.approx(42849.75e6),
    }  # fmt: skip
    assert not faults(run)
    swapped = STATISTICS_AND_UNITS.replace("327893.5 | 42849.75", "42849.75 | 327893.5")
    assert "contradicts_itself" in faults(audited(swapped, tmp_path))
    assert printed(audited("| run | time (min) | BW (MB/s) |\n|---|---|---|\n| a | 2 | 5 |\n", tmp_path))[0][
        "time"
    ] == pytest.approx(120)


# --- storage

# A SATA drive through a Kubernetes volume, by kbench (a home cluster's log on GitHub).
KBENCH = """=========================
FIO Benchmark Summary
For: test_device
CPU Idleness Profiling: disabled
Size: 30G
Quick Mode: disabled
=========================
IOPS (Read/Write)
        Random:          90,546 / 73,514
    Sequential:          94,976 / 68,510

Bandwidth in KiB/sec (Read/Write)
        Random:        438,403 / 315,218
    Sequential:        459,349 / 349,123


Latency in ns (Read/Write)
        Random:         160,387 / 65,962
    Sequential:         166,476 / 68,810
"""
# A file system of a course against ext4, with Korean heads (GitHub).
KOREAN = """### 실험 결과

| 워크로드 | 파일시스템 | ioengine / Depth | IOPS | BW (MiB/s) | 평균 지연 (µs) | 지연 표준편차 (µs) | 실행 시간 (ms) |
| ----- | ----- | ---------------- | ----- | ---------- | ---------- | ------------ | ---------- |
| 순차 쓰기 | SFUSE | sync / 1         | 321   | 322        | 3085       | 650.9        | 311        |
| 순차 읽기 | Ext4  | sync / 1         | 469   | 469        | 2114       | 101.8        | 213        |
"""
# A consumer drive by JMH and by fio (GitHub).
THOUSANDS = """### Summary

| Test Name | IOPS | Throughput (MB/s) |
| :--- | :--- | :--- |
| **JMH fileChannel_random_read** | 65,166 | 266.92 |
| **JMH ioUring_random_write** | 282,187 | 1,155.84 |
| **FIO random_read** | 312,000 | 1,277.00 |
"""


def test_kbenchs_summary_is_three_tests_and_no_table_of_commas(tmp_path: Path) -> None:
    run = audited(KBENCH, tmp_path, name="kbench.txt", links=("SATA 3",))
    assert run.imported_from == "kbench-text" and not faults(run)
    first = points(run)[0]
    assert (first.parameters, first.throughput.value) == ({"rw": "randread", "test": "iops"}, 90_546)
    assert points(run)[6].throughput.value == pytest.approx(459_349 * 1024)
    latency = points(run)[-1].latency_ns
    assert latency is not None and latency.mean == pytest.approx(68_810)
    assert "physical_ceiling" in faults(audited(KBENCH.replace("459,349", "859,349"), tmp_path, links=("SATA 3",)))


def test_heads_in_another_language_are_read_by_their_words(tmp_path: Path) -> None:
    run = audited(KOREAN, tmp_path)
    assert not faults(run) and [point.parameters.get("rw") for point in points(run)] == ["write", "read"]
    assert printed(run)[0] == {
        "iops": 321, "bw": pytest.approx(322 * 2**20), "lat_mean": pytest.approx(3.085e-3),
        "lat_stdev": pytest.approx(650.9e-6), "time": pytest.approx(0.311),
    }  # fmt: skip
    wrong = KOREAN.replace("| 469   | 469 ", "| 469   | 569 ").replace("워크로드", "블록 크기").replace("순차", "1M")
    assert "rate_times_size" in faults(audited(wrong, tmp_path))


def test_names_of_jobs_are_patterns(tmp_path: Path) -> None:
    run = audited(THOUSANDS, tmp_path)
    assert [point.parameters["rw"] for point in points(run)] == ["randread", "randwrite", "randread"] and not faults(
        run
    )


@pytest.mark.parametrize(("rate", "severity"), [("3.90", None), ("4.25", "warning"), ("8.40", "invalid")])
def test_more_than_a_link_carries_one_way_is_named_where_no_direction_is(
    rate: str, severity: str | None, tmp_path: Path
) -> None:
    """PCI Express carries both directions at once, so less than both is no proof, and the text says so."""
    table = f"bs,BW (GB/s)\n1M,{rate}\n"
    found = faults(audited(table, tmp_path, name="drive.csv", links=("PCIe 3 x4",))).get("physical_ceiling")
    assert (found and found.severity) == severity
    if severity == "warning":
        assert found is not None and "names no direction" in found.says and "in one direction" in found.says
    one_way = faults(audited(table.replace("BW", "Read BW"), tmp_path, name="drive.csv", links=("PCIe 3 x4",)))
    assert ("physical_ceiling" in one_way) == (severity is not None)


# --- network

# Loopback of a virtual machine, from a diary: ranges are no figures (vcdx200, March 2025).
RATES_FROM_TO = """| Test | connections | Network Throughput | CPU usage |
|---|---|---|---|
| localhost, 1 iperf connection | 1 | 75.4Gb/s - 83Gb/s | 23% |
| localhost, 2 iperf connections | 2 | 92Gb/s | 28% |
"""


def test_a_range_with_its_unit_twice_is_no_figure(tmp_path: Path) -> None:
    run = audited(RATES_FROM_TO, tmp_path)
    assert [point.parameters["streams"] for point in points(run)] == [2] and not faults(run)


def test_a_table_without_units_is_asked_for_in_one_line(tmp_path: Path) -> None:
    """Copies of a Quadro RTX 6000 by size, of a course's program that prints no unit (GitHub)."""
    text = "   Bytes  H2D Pinned  D2H Pinned\n   65536       4.810       5.466\n 1048576      11.021      12.030\n"
    with pytest.raises(UserError, match=r"name a column: --map"):
        audited(text, tmp_path, name="copy.txt")
    run = audited(text, tmp_path, "H2D Pinned=GB/s", "D2H Pinned=GB/s", name="copy.txt")
    assert {point.parameters["operation"] for point in points(run)} == {"host-to-device", "device-to-host"}
    assert not faults(run) and points(run)[0].throughput.unit == "bytes/s"


# --- training

# MLPerf Storage v1.0, closed division (the result files of DDN and HPE on GitHub, August 2024). Its MB/s are MiB/s.
SUBMISSIONS = """| Submitter | Model | Accelerator | # Client Hosts | # Emulated GPUs | AU (%) | Samples/s | MiB/s |
|---|---|---|---:|---:|---:|---:|---:|
| DDN | 3D U-Net | A100 | 18 | 72 | 90.0 | 713.2 | 99,711.8 |
| DDN | CosmoFlow | H100 | 16 | 64 | - | 12,555.5 | 33,867.9 |
| DDN | ResNet-50 | A100 | 32 | 864 | - | 723,052.9 | 79,064.7 |
| HPE | 3D U-Net | H100 | 1 | 2 | 92.35 | 39.77 | 5,560.4 |
| HPE | ResNet-50 | H100 | 1 | 20 | 91.86 | 32,524.0 | 3,556.5 |
"""
# The same two of HPE under the names of the tool's own summary.
SUMMARIES = """model,accelerator,num_accelerators,train_au_mean_percentage,\
train_throughput_mean_samples_per_second,train_io_mean_MB_per_second
unet3d,h100,2,92.351,39.771,5560.359
resnet50,h100,20,91.859,32524.037,3556.450
"""
# Polaris at Argonne, v0.5: eight V100 on one node (its result files on GitHub, 2023); a row in percent of a unit.
OLDER_ROUND = """Workload\tAccelerators (V100)\tThroughput (samples/s)\tThroughput (MB/s)
unet3d\t8\t22.595\t3159.04
bert\t8\t394.164\t0.93976
"""
TRAINING = {"submissions": SUBMISSIONS, "summaries": SUMMARIES, "older": OLDER_ROUND}


@pytest.mark.parametrize("name", TRAINING)
def test_published_training_results_are_sound(name: str, tmp_path: Path) -> None:
    run = audited(TRAINING[name], tmp_path)
    assert not faults(run)
    counts = {"submissions": [2, 20, 64, 72, 864], "summaries": [2, 20], "older": [8, 8]}[name]
    assert sorted(int(str(point.parameters["accelerators"])) for point in points(run)) == counts
    assert all(point.throughput.unit == "bytes/s" and point.rate is not None for point in points(run))


@pytest.mark.parametrize(
    ("sound", "wrong", "rule"),
    [
        ("| 3D U-Net | H100 | 1 | 2 |", "| 3D U-Net | A100 | 1 | 2 |", "mislabelled_accelerator"),
        ("| ResNet-50 | H100 | 1 | 20 |", "| ResNet-50 | H100 | 1 | 10 |", "mislabelled_accelerator"),
        ("| 92.35 |", "| 192.35 |", "contradicts_itself"),
    ],
)
def test_a_fault_planted_in_published_training_results_is_named(
    sound: str, wrong: str, rule: str, tmp_path: Path
) -> None:
    assert SUBMISSIONS.count(sound) == 1
    assert list(faults(audited(SUBMISSIONS.replace(sound, wrong), tmp_path))) == [rule]


def test_a_model_that_is_not_in_the_catalogue_gets_no_others_need(tmp_path: Path) -> None:
    """One row names a workload that is known; the need of its accelerators says nothing about the other row."""
    table = SUBMISSIONS.replace("| ResNet-50 | H100", "| GPT-3 | H100").replace("| 3D U-Net |", "| Llama |")
    run = audited(table.replace("| ResNet-50 |", "| Mixtral |"), tmp_path)
    assert sorted(str(point.details.get("workload")) for point in points(run)) == ["None"] * 4 + ["cosmoflow"]
    assert not faults(run)


BACKENDS = """
| Backend | Sequential Read | Sequential Write | Random Read (4K) | Random Write (4K) |
|---|---|---|---|---|
| one (3 replicas, NVMe) | 1.2 GB/s | 800 MB/s | 95K IOPS | 60 k IOPS |
| another (SAN) | 800 MB/s | 500 MB/s | 60K IOPS | 35 k IOPS |
"""


def test_thousands_of_operations_in_the_cells_are_rates_beside_bandwidths(tmp_path: Path) -> None:
    (table,) = audited(BACKENDS, tmp_path).experiments
    rates = [point for point in table.points if point.throughput.unit == "operations/s"]
    assert [point.throughput.value for point in rates] == [95e3, 60e3, 60e3, 35e3]
    assert {(point.parameters["rw"], point.parameters["bs"]) for point in rates} == {
        ("randread", 4096),
        ("randwrite", 4096),
    }
    assert len(table.points) == 8


MODELS = """
| Model | Hardware | Throughput | Config |
|---|---|---|---|
| Llama 3.1 8B (BF16) | 1x H100 80GB | ~12,500 tok/s | 0.8 GPU util |
| Llama 3.1 70B (FP8) | 1x H100 80GB | 460 tok/s | Batch size 64 |
"""


def test_tokens_by_the_second_are_a_rate_of_inference_and_no_time(tmp_path: Path) -> None:
    run = audited(MODELS, tmp_path)
    assert {(experiment.resource, find_rate_word(experiment)) for experiment in run.experiments} == {
        ("inference", "tokens/s")
    }
    assert [(point.throughput.value, point.throughput.unit) for point in points(run)] == [
        (12500, "operations/s"), (460, "operations/s"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "noun"),
    [("tok/s", "token"), ("Tokens per second", "token"), ("req/s", "request"), ("images/s", "image"), ("qps", "query"),
     ("k messages/s", "message"), ("IOPS", ""), ("ops/s", ""), ("MB/s", "")],
)  # fmt: skip
def test_rate_unit_gives_its_count(unit: str, noun: str) -> None:
    assert counted_in(unit) == noun


BY_METRIC = """
| Target QPS | Metric | A: one plugin | B: another |
|---|---|---|---|
| 1,000 | Actual QPS | 999.6 | 999.7 |
| 1,000 | p50 (ms) | 4.39 | 4.36 |
| 1,000 | p99 (ms) | 10.92 | 9.87 |
| max | Actual QPS | 4103.9 | 4044.7 |
| max | p99 (ms) | 28.07 | 25.25 |
"""


def test_rows_of_one_figure_each_become_points_with_all_of_theirs(tmp_path: Path) -> None:
    (table,) = audited(BY_METRIC, tmp_path).experiments
    assert table.resource == "table" and find_rate_word(table) == "queries/s"
    found = [
        (point.parameters.get("rate"), point.throughput.value, point.latency_ns.p99 if point.latency_ns else None)
        for point in table.points
    ]
    assert [(rate, value) for rate, value, _ in found] == [
        (1000, 999.6), (1000, 999.7), ("max", 4103.9), ("max", 4044.7),
    ]  # fmt: skip
    assert all(point.details["printed"]["lat_p99"] > 0 for point in table.points)


PAIRED_UNITS = """
| Disk | fio 4K Random Write (IOPS/KiB/s) | fio 4K Random Read (IOPS/KiB/s) |
|---|---|---|
| SD card | 755/3023 | 2550/10203 |
| SSD | 21.9k/87.7MiB/s | 12.6k/50.3MiB/s |
"""


def test_one_figure_in_two_units_is_one_result_and_held_against_itself(tmp_path: Path) -> None:
    """755 × 4 KiB are 3,020 KiB/s; of 21.9 k they are 85.5 MiB/s and not 87.7."""
    run = audited(PAIRED_UNITS, tmp_path)
    assert [point.throughput.value for point in points(run)] == pytest.approx(
        [3023 * 1024, 10203 * 1024, 87.7 * 2**20, 50.3 * 2**20]
    )
    assert all(point.rate is not None for point in points(run))
    wrong = [finding for finding in run.findings if finding.severity == "warning" and "disagree" in finding.says]
    assert len(wrong) == 1 and "randwrite" in wrong[0].says


BELOW_A_UNIT = """
# Table for benchmark result

By a library

TFLOPS

| machine | fp32 | fp64 | fp16 |
|---|---|---|---|
| 2080Ti | 11.4 | 0.52 | 44.9 |
| A100(40G) | 14.1 | 13.7 | 153 |
"""


def test_a_line_that_is_a_unit_is_that_of_the_table_below_it(tmp_path: Path) -> None:
    """Rates of arithmetic without a number of equations are no LINPACK's."""
    run = audited(BELOW_A_UNIT, tmp_path)
    assert [point.throughput.value for point in points(run)] == pytest.approx(
        [11.4e12, 0.52e12, 44.9e12, 14.1e12, 13.7e12, 153e12]
    )
    assert not any("LINPACK" in finding.says for finding in run.findings)
