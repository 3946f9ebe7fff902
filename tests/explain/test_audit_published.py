"""`hwdyno audit` on layouts of published tables: units in captions, headings within, figures named in their cells.

Figures of public tables are facts, typed with the source of each; the layouts are those that they had.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from audited import audited, faults, points, printed

# --- figures that a cell names


@pytest.mark.parametrize(
    "cell", ["AU 90.2", "AU 90.2%", "AU=90.2 %", "au: 90.2", "90.2% AU", "Accelerator utilization 90.2%"]
)
def test_a_utilisation_named_in_its_cell(cell: str, tmp_path: Path) -> None:
    table = (
        f"| Storage | Accelerator | Result | Throughput |\n|---|---|---|---|\n| ceph | H100 | {cell} | 2700 MB/s |\n"
    )
    (found,) = printed(audited(f"MLPerf Storage, unet3d\n\n{table}", tmp_path))
    assert found == {"au": pytest.approx(0.902), "bw": pytest.approx(2.7e9)}


def test_several_figures_in_one_cell(tmp_path: Path) -> None:
    table = """| Test | Result |
|---|---|
| 4k randread qd32 | IOPS=464k, BW=1.9 GB/s, p99 1.2 ms |
| 1M read qd8 | IOPS=6,592, BW=6.9 GB/s, p99 3.1 ms |
"""
    run = audited(table, tmp_path)
    assert printed(run) == [
        {"iops": pytest.approx(464e3), "bw": pytest.approx(1.9e9), "lat_p99": pytest.approx(1.2e-3)},
        {"iops": pytest.approx(6592), "bw": pytest.approx(6.9e9), "lat_p99": pytest.approx(3.1e-3)},
    ]
    assert not faults(run)
    assert "rate_times_size" in faults(audited(table.replace("464k", "564k"), tmp_path))


def test_columns_of_devices_with_the_figure_in_each_cell(tmp_path: Path) -> None:
    table = "| Test | A | B |\n|---|---|---|\n| 4k qd32 | p99 1.2 ms | p99=2.4 ms |\n| 4k qd64 | p99 2.5 ms | |\n"
    assert [figures["lat_p99"] for figures in printed(audited(table, tmp_path))] == pytest.approx(
        [1.2e-3, 2.4e-3, 2.5e-3]
    )


@pytest.mark.parametrize("cell", ["RAID 5", "Gen 4", "NVMe 2.0", "max 4", "QD 32"])
def test_name_with_number_is_no_figure(cell: str, tmp_path: Path) -> None:
    table = f"| Set-up | BW (MB/s) |\n|---|---|\n| {cell} | 1200 |\n| other | 2400 |\n"
    assert printed(audited(table, tmp_path)) == [{"bw": pytest.approx(1.2e9)}, {"bw": pytest.approx(2.4e9)}]


# --- captions and headings within a table


@pytest.mark.parametrize(
    "caption",
    ["Table 3: Sequential bandwidth in GB/s by threads", "**Table 3.** Sequential bandwidth (GB/s) by threads"],
)
def test_a_caption_with_an_empty_line_below_it_names_the_unit(caption: str, tmp_path: Path) -> None:
    table = "| Device | 1 thread | 4 threads |\n|---|---|---|\n| A | 1.9 | 3.8 |\n| B | 2.1 | 4.4 |\n"
    found = points(audited(f"# Results\n\n{caption}\n\n{table}", tmp_path))
    assert [point.throughput.value for point in found] == pytest.approx([1.9e9, 3.8e9, 2.1e9, 4.4e9])
    assert [point.parameters["threads"] for point in found] == [1, 4, 1, 4]


BY_SECTIONS = """Table 2. fio, 8 jobs (bandwidth in MiB/s, latency in ms)

| Block size | BW | IOPS | Lat |
|---|---|---|---|
| **Random read** | | | |
| 4K | 310 | 79360 | 12.1 |
| 16K | 910 | 58240 | 17.1 |
| **Random write** | | | |
| 4K | 280 | 71680 | 13.9 |
| 16K | 880 | 56320 | 19.9 |
"""


def test_headings_within_a_table_part_it_and_its_caption_has_the_units(tmp_path: Path) -> None:
    found = points(audited(BY_SECTIONS, tmp_path))
    assert [(point.parameters["rw"], point.parameters["bs"]) for point in found] == [
        ("randread", 4096), ("randread", 16384), ("randwrite", 4096), ("randwrite", 16384)
    ]  # fmt: skip
    assert [point.throughput.value for point in found] == pytest.approx([at * 2**20 for at in (310, 910, 280, 880)])
    assert [point.latency_ns.mean for point in found if point.latency_ns] == pytest.approx(
        [12.1e6, 17.1e6, 13.9e6, 19.9e6]
    )


def test_columns_without_a_unit_are_left_out_beside_rates(tmp_path: Path) -> None:
    found = points(audited(BY_SECTIONS.replace(" (bandwidth in MiB/s, latency in ms)", ""), tmp_path))
    assert found[0].throughput.value == pytest.approx(310 * 2**20)
    assert all(point.latency_ns is None for point in found)


def test_row_without_figures_is_no_heading(tmp_path: Path) -> None:
    table = "| Drive | Read MB/s | Write MB/s |\n|---|---|---|\n| A | 500 | 400 |\n| B | | |\n| C | | |\n"
    assert len(points(audited(table, tmp_path))) == 2


# --- RDMA and packets

# ConnectX over InfiniBand by perftest (notes on GitHub); its MB are of 2^20 bytes.
RDMA_TABLES = """|  | #bytes | #iterations | BW peak[MB/sec] | BW average[MB/sec] | MsgRate[Mpps] |
| - | - | - | - | - | - |
| ib_read_bw | 65536 | 1000 | 8354.37 | 8354.22 | 0.133667 |
| ib_write_bw | 65536 | 5000 | 11660.36 | 11660.12 | 0.186562 |
| ib_atomic_bw | 8 | 1000 | 16.29 | 16.25 | 2.129385 |

|  | #bytes | #iterations | t_min[usec] | t_max[usec] | t_typical[usec] | t_avg[usec] | 99.9% percentile[usec] |
| - | - | - | - | - | - | - | - |
| ib_read_lat | 2 | 1000 | 1.44 | 2.93 | 1.48 | 1.49 | 2.93 |
| ib_write_lat | 2 | 1000 | 0.76 | 0.95 | 0.78 | 0.78 | 0.95 |
"""
# What adapters should reach (a guide on GitHub).
EXPECTED = """### 1.2 Expected Bandwidth

| Adapter | Link Speed | Expected ib_write_bw | Expected ib_read_bw |
| - | - | - | - |
| ConnectX-5 | 100 Gbps | ~96 Gbps | ~96 Gbps |
| ConnectX-6 | 200 Gbps | ~190 Gbps | ~190 Gbps |
| ConnectX-7 | 400 Gbps | ~380 Gbps | ~380 Gbps |
"""
# ConnectX-5 by ib_write_bw (a README on GitHub, in Chinese).
IN_CHINESE = """### 写带宽 vs 消息大小

| 消息大小 | 平均带宽 | 消息速率 |
| - | - | - |
| 256 bytes | 1160 MiB/sec | 4.75 Mpps |
| 1024 bytes | 3641 MiB/sec | 3.73 Mpps |
| 4096 bytes | 5693 MiB/sec | 1.46 Mpps |
| 65536 bytes | 5942 MiB/sec | 0.095 Mpps |
| 1 MiB | 5921 MiB/sec | 0.006 Mpps |
"""
# A parser of packets at 10 Gbit/s (a README on GitHub); 0.8 Mpps has one digit.
PACKETS = """### Results

| Packet Size | Protocol | Throughput | Mpps | Cycles/Pkt | % Line Rate | Overhead |
| - | - | - | - | - | - | - |
| 64 B | UDP | 8.85 Gbps | 17.3 | 9.0 | 88.5% | 1.15 cyc gap |
| 256 B | UDP | 9.67 Gbps | 4.7 | 33.0 | 96.7% | 1.08 cyc gap |
| 512 B | UDP | 9.82 Gbps | 2.4 | 65.0 | 98.2% | 1.04 cyc gap |
| 1518 B | UDP | 9.91 Gbps | 0.8 | 191.0 | 99.1% | 1.02 cyc gap |
"""
# A small machine of a cloud (a report on GitHub).
FRAMES = """## 1. Throughput Benchmarks (iperf3)

| Frame Size (Bytes) | Queue Mode | Streams | Throughput (Gbps) | Packet Rate (Kpps) | CPU Utilization (%) |
| - | - | - | - | - | - |
| **64** | Standard SQ | 1 | 0.82 | 1,601 | 38.2 |
| **64** | LLQ Push | 1 | 0.94 | 1,835 | 31.4 |
| **512** | Standard SQ | 1 | 3.45 | 842 | 41.0 |
| **1500 (Standard MTU)** | Standard SQ | 1 | 4.88 | 401 | 44.5 |
| **1500 (Standard MTU)** | LLQ Push | 4 | 4.98 | 409 | 49.0 |
"""
# Forwarding by netmap, from its paper (notes on GitHub).
FORWARDED = """### Forwarding performance
| Configuration | Mpps |
| - | - |
| netmap-fwd zero-copy | 14.88 (line rate) |
| netmap-fwd + libpcap shim | 7.50 |
| Click + netmap | 3.95 |
"""
# Uploads over a long way (notes on GitHub).
UPLOADS = """Upload from one site to another:

| Streams | Throughput |
| - | - |
| 1 | 0.24 MB/s (1.9 Mbit/s) |
| 4 | 1.17 MB/s (9.4 Mbit/s) |
| 16 | 1.99 MB/s (15.9 Mbit/s) |
"""


def test_tables_of_perftest(tmp_path: Path) -> None:
    run = audited(RDMA_TABLES, tmp_path)
    rates, trips = printed(run)[:3], printed(run)[3:]
    assert [figures["bw_mean"] for figures in rates] == pytest.approx([at * 2**20 for at in (8354.22, 11660.12, 16.25)])
    assert [point.parameters["bs"] for point in points(run)] == [65536, 65536, 8, 2, 2]
    assert trips[0]["lat_mean"] == pytest.approx(1.49e-6) and trips[0]["lat_p50"] == pytest.approx(1.48e-6)
    assert trips[1]["lat_p999"] == pytest.approx(0.95e-6) and not faults(run)


@pytest.mark.parametrize("table", [EXPECTED, IN_CHINESE, PACKETS, FRAMES, FORWARDED, UPLOADS])
def test_tables_of_networks_break_no_law(table: str, tmp_path: Path) -> None:
    run = audited(table, tmp_path)
    assert {experiment.resource for experiment in run.experiments} == {"network"} and not faults(run)


def test_adapter_targets_are_beside_the_link(tmp_path: Path) -> None:
    found = printed(audited(EXPECTED, tmp_path))
    assert found[0] == {"bw": pytest.approx(12e9), "ceiling": pytest.approx(12.5e9)} and len(found) == 6
    assert "contradicts_itself" in faults(audited(EXPECTED.replace("~96 Gbps | ~96", "~106 Gbps | ~96"), tmp_path))


def test_packets_per_second_are_no_bandwidth(tmp_path: Path) -> None:
    found = printed(audited(IN_CHINESE, tmp_path))
    assert found[0] == {"bw_mean": pytest.approx(1160 * 2**20), "iops": pytest.approx(4.75e6)}


def test_share_of_line_is_no_ceiling(tmp_path: Path) -> None:
    found = printed(audited(PACKETS, tmp_path))
    assert [point["share"] for point in found] == pytest.approx([0.885, 0.967, 0.982, 0.991])
    wrong = PACKETS.replace("| 17.3 |", "| 14.3 |")
    assert faults(audited(wrong, tmp_path)), "64 B x 14.3 Mpps is 7.3 Gbit/s"


PERFTEST = """---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 4\t\tTransport type : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 2          5000             8.29               8.25   \t\t   4.326540
 4096       5000             11480.2            11457.1\t\t   2.933018
 65536      5000             11660.36           11660.12\t\t   0.186562
---------------------------------------------------------------------------------------
                    RDMA_Read Latency Test
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]  99% percentile[usec]
 2       1000          1.44           2.93         1.48     \t       1.49        \t0.02   \t\t1.56
"""


def test_the_output_of_perftest(tmp_path: Path) -> None:
    run = audited(PERFTEST, tmp_path, name="perftest.txt")
    rates, trips = run.experiments
    assert [measurement.parameters["bs"] for measurement in rates.points] == [2, 4096, 65536] and not faults(run)
    assert rates.points[2].throughput.value == pytest.approx(11660.12 * 2**20)
    assert rates.points[2].parameters["operation"] == "write" and rates.points[2].parameters["streams"] == 4
    (trip,) = trips.points
    assert trip.parameters["half_round_trip"] is False and trip.parameters["operation"] == "read"
    assert trip.latency_ns is not None and trip.latency_ns.p99 == pytest.approx(1560)
    in_bits = PERFTEST.replace("MB/sec", "Gb/sec").replace("11660.12", "97.81").replace("11660.36", "97.82")
    point = audited(in_bits, tmp_path, name="perftest.txt").experiments[0].points[2]
    assert point.throughput.value == pytest.approx(97.81e9 / 8)


# --- training

# TensorFlow on CPUs (TensorFlow's documentation of performance, 2017).
IMAGES = """| Optimization | Data Format | Images/Sec | Intra threads | Inter Threads |
| - | - | - | - | - |
| MKL | NCHW | 20.8 | 36 | 2 |
| AVX2 | NHWC | 6.2 | 36 | 0 |
| SSE3 | NHWC | 4.3 | 36 | 0 |
"""
# A model on one to four A100 (a report on GitHub); efficiencies above 1 are of another program.
SCALED = """| Config | GPUs | Global batch | Mean time (s) | Samples/s | Speedup | Eff. vs base | GPU util | Mean loss |
| - | - | - | - | - | - | - | - | - |
| 1n1g | 1 | 160 | 216.73 | 408 | 1.08x | 108.2% | 99.7% | 1.7158 |
| 1n2g | 2 | 320 | 112.37 | 788 | 2.09x | 104.4% | 99.3% | 2.0394 |
| 2n2g | 4 | 640 | 57.24 | 1546 | 4.10x | 102.5% | 98.1% | 2.5548 |
"""
# Recognition of texts on a T4 (a README on GitHub).
ON_A_T4 = """### GPU (T4)

| Batch Size | Images/sec | Avg Latency |
| - | - | - |
| 1 | 4.0 img/s | 250ms |
| 4 | 12.0 img/s | 333ms |
| 8 | 18.0 img/s | 444ms |
"""


def test_images_a_second_are_no_seconds(tmp_path: Path) -> None:
    found = points(audited(IMAGES, tmp_path))
    assert [(point.throughput.value, point.throughput.unit) for point in found] == [
        (20.8, "operations/s"),
        (6.2, "operations/s"),
        (4.3, "operations/s"),
    ]


def test_model_loss_is_no_packet_loss(tmp_path: Path) -> None:
    run = audited(SCALED, tmp_path)
    assert not faults(run) and all("loss_mean" not in figures for figures in printed(run))
    assert [point.throughput.value for point in points(run)] == [408, 788, 1546]
    assert {experiment.resource for experiment in run.experiments} == {"training"}


def test_a_t4_is_no_four_threads(tmp_path: Path) -> None:
    found = points(audited(ON_A_T4, tmp_path))
    assert all("threads" not in point.parameters for point in found)
    assert found[2].throughput.value == 18 and found[2].latency_ns and found[2].latency_ns.mean == pytest.approx(444e6)
    both = points(audited("| Test | MB/s |\n|---|---|\n| SEQ1M Q8T4 read | 3000 |\n", tmp_path))
    assert both[0].parameters | {"iodepth": 8, "threads": 4} == both[0].parameters


# --- memory

# A simulated DRAM (a report on GitHub): labels that hold for the rows below them are given once.
LABELS_ONCE = """| DRAM Preset | Workload | Controller | Cycles | Latency (ns) | Bandwidth (MB/s) |
| - | - | - | - | - | - |
| **DDR4-3200** | Benign | Baseline | 22,673 | 154.56 | 22,374.2 |
|  |  | BlockHammer | 22,673 | 154.56 | 22,374.2 |
|  | RowHammer | Baseline | 45,337 | 197.94 | 11,220.9 |
"""
MATRIX = """NUMA latency matrix (ns):

| | Node 0 | Node 1 |
|---|---|---|
| Node 0 | 81.9 | 139.2 |
| Node 1 | 139.6 | 82.1 |
"""
LOADED = """| Load (% of peak) | Bandwidth (GB/s) | Average latency (ns) | p99 (ns) |
|---|---|---|---|
| idle | 1.2 | 82 | 110 |
| 25% | 60 | 90 | 140 |
| 90% | 214 | 190 | 420 |
"""


def test_labels_that_stand_once_hold_for_the_rows_below_them(tmp_path: Path) -> None:
    found = points(audited(LABELS_ONCE, tmp_path))
    assert [(point.parameters["dram_preset"], point.parameters["workload"]) for point in found] == [
        ("DDR4-3200", "Benign"),
        ("DDR4-3200", "Benign"),
        ("DDR4-3200", "RowHammer"),
    ]


def test_a_row_without_a_label_but_with_figures_alone_takes_none(tmp_path: Path) -> None:
    table = "| Drive | Read MB/s | Write MB/s |\n|---|---|---|\n| A | 500 | 400 |\n| | 450 | 380 |\n"
    assert "device" not in audited(table, tmp_path).experiments[-1].fixed


@pytest.mark.parametrize("table", [MATRIX, LOADED])
def test_latencies_of_memory(table: str, tmp_path: Path) -> None:
    run = audited(table, tmp_path)
    assert {experiment.resource for experiment in run.experiments} == {"memory"} and not faults(run)
    latencies = [point.latency_ns.mean for point in points(run) if point.latency_ns]
    assert latencies == pytest.approx([81.9, 139.2, 139.6, 82.1] if table is MATRIX else [82, 90, 190])
