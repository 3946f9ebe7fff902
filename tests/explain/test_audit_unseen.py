"""`hwdyno audit` on tables that others published: their figures with the source of each, and what is wrong in them.

The figures are facts; the layouts are those of the tools that printed them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from audited import audited, faults, points
from hwdyno.explain.findings import explain
from hwdyno.model.words import UserError
from hwdyno.report import sources

# --- storage

# A read-only mount compared with ext4 and FUSE, buffered (the erofs page of Nydus' documents, in Chinese).
RATIO_COLUMN = """fio read/randread buffer IO

| read   | IOPS | BW | perf |
| ------ | ---- | -- | ---- |
| native ext4 | 267K | 1093MB/s | 1 |
| loop | 240K | 982MB/s | 0.90 |
| fuse | 191K | 764MB/s | 0.70 |

| randread   | IOPS | BW | perf |
| ---------- | ---- | -- | ---- |
| native ext4 | 10.1K | 41.2MB/s | 1 |
| fuse | 7.6K | 31.2MB/s | 0.76 |
"""
# Ceph on worn drives, 4 KiB random writes at depth 1 with sync (a home cluster's diary on GitHub).
LADDER = """### The latency ladder (fio 4k randwrite)
| State            | IOPS | BW         | p50    | p95    | p99    | p99.9    | max      |
|------------------|-----:|-----------:|-------:|-------:|-------:|---------:|---------:|
| 2 fresh + 1 worn | 24   | 97.6 KiB/s | 36 ms  | 67 ms  | 128 ms | 334 ms   | 677 ms   |
| 1 + 1 fresh + 1  | 25   | 103 KiB/s  | 33 ms  | 73 ms  | 132 ms | 550 ms   | 1,556 ms |
| 3 worn           | 2    | 442 B/s    | —      | —      | —      | —        | mean 9 s |
"""
# A virtual machine on ZFS below DRBD (a Japanese report on GitHub): the bounds are those of the IOPS.
BOUNDS_OF_ANOTHER = """### GbE
| Test | IOPS | BW (MiB/s) | min | max |
|------|------|-----------|-----|-----|
| RandRead 4K QD1 | **8,778** | 34.3 | 8,763 | 8,864 |
| RandRead 4K QD32 | **49,905** | 194.9 | 49,756 | 50,351 |
| RandWrite 4K QD1 | 1,087 | 4.2 | 1,083 | 1,095 |
| SeqRead 1M QD32 | **737** | **737** | 704 | 826 |
| Mixed 4K QD32 | R:21,405 W:9,177 | R:84 W:36 | — | — |
"""
# A course's sample figures, with a row of words (GitHub).
WORDS_AND_PLUS = """| Job | IOPS | BW |
|-----|------|-----|
| 4k random read (direct, qd=32) | 380,000 | 1.5 GB/s |
| 4k random write (direct, qd=32) | 290,000 | 1.1 GB/s |
| 1m sequential read (direct, qd=8) | 3,300 | 3.4 GB/s |
| 4k random read (no direct, cold) | similar to direct above |
| 4k random read (no direct, warm) | 5,000,000+ | 20+ GB/s |
"""
# Block volumes of a cloud by fio (GitHub): MB/s that are MiB/s, by the block sizes in the names of the jobs.
MEBI_BY_NAME = """### FIO Performance Summary
| Job | Read BW (MB/s) | Write BW (MB/s) | Read IOPS | Write IOPS | Read Lat P99 (ms) | Write Lat P99 (ms) |
|-----|------|------|------|------|------|------|
| data-8k | 56.7 | 24.3 | 7264 | 3113 | 5.41 | 6.32 |
| data-8k | 56.8 | 24.3 | 7270 | 3110 | 5.41 | 6.32 |
| redo | 0.0 | 2.7 | 0 | 689 | 0.00 | 1.12 |
"""
# A KV cache on four drives (GitHub): latencies whose unit is in the title.
UNIT_IN_TITLE = """### Latency (storage_tier, ms)
| Disk | Read P50 | **Read P99** | **Read P999** | **Write P99** |
|---|---:|---:|---:|---:|
| Seagate FC530 | 51.1 | 209.2 | 289.6 | 128 |
| WD SN570 | 79.8 | 420.3 | 629.2 | 480 |
"""
# Estimates in a guide to storage for virtual machines (GitHub): ranges and bounds are no measurements.
RANGES = """### Expected IOPS (4K Random)
| Approach | Read IOPS | Write IOPS | Latency |
|----------|-----------|------------|---------|
| Local NVMe | 500k | 300k | <0.1ms |
| SAN | 80k | 50k | 1-2ms |
"""
# sysbench memory and fio (GitHub): the latency is of a block of 1 MiB, and MB/s of fio are MiB/s.
BLOCK_LATENCY = """## Memory Throughput
| Operation | Threads | Block Size | Throughput (MiB/s) | Latency (ms) |
| :--- | :--- | :--- | :--- | :--- |
| write | 4 | 1M | 47792.01 | 0.08 |
| read | 4 | 1M | 91955.48 | 0.04 |
"""


def test_a_ratio_to_the_first_row_is_no_rate_of_arithmetic(tmp_path: Path) -> None:
    run = audited(RATIO_COLUMN, tmp_path)
    assert not faults(run) and len(points(run)) == 5
    assert {str(point.parameters["rw"]) for point in points(run)} == {"read", "randread"}, (
        "the first head is the pattern"
    )


def test_percentiles_with_units_of_time_are_latencies_whatever_stands_before_them(tmp_path: Path) -> None:
    run = audited(LADDER, tmp_path)
    first = points(run)[0]
    assert first.details["printed"]["lat_p99"] == pytest.approx(0.128)
    assert set(faults(run)) == {"rate_times_size"} and "2 IOPS" in faults(run)["rate_times_size"].says


def test_least_and_greatest_belong_to_the_figure_that_they_bound(tmp_path: Path) -> None:
    run = audited(BOUNDS_OF_ANOTHER, tmp_path)
    assert not faults(run)
    assert points(run)[0].details["printed"]["iops_max"] == 8864
    mixed = next(point for point in points(run) if point.parameters["rw"] == "rw")
    assert mixed.throughput.value == pytest.approx(120 * 2**20)


def test_plus_is_numeric_unlike_words(tmp_path: Path) -> None:
    source = sources.read_sources([str(_written(tmp_path, WORDS_AND_PLUS))], {})[0]
    run = explain(sources.merge_sources([source]))
    assert [point.throughput.value for point in points(run)] == [1.5e9, 1.1e9, 3.4e9, 20e9]
    assert "4 rows, 1 without a figure left out" in source.readings[0]
    assert not faults(run)


def _written(folder: Path, text: str) -> Path:
    path = folder / "table.md"
    path.write_text(text)
    return path


def test_job_names_block_size_shows_unit(tmp_path: Path) -> None:
    found = faults(audited(MEBI_BY_NAME, tmp_path))
    assert "1.0486" in found["unit_slip"].says and "7.26 k IOPS x 8 KiB is 59.5 MB/s" in found["unit_slip"].says


def test_the_advice_on_a_slip_reads_the_column_by_the_unit_that_fits(tmp_path: Path) -> None:
    text = "rw,bs,IOPS,BW (MB/s)\nrandread,4k,218000,851.6\nrandwrite,4k,219000,855.5\n"
    found = faults(audited(text, tmp_path, name="a b.csv"))["unit_slip"]
    assert f"hwdyno audit '{tmp_path}/a b.csv' --map 'BW=MiB/s'" in found.advice
    assert not faults(audited(text, tmp_path, "BW=MiB/s", name="a b.csv"))


def test_percentiles_keep_their_places_where_the_title_has_the_unit(tmp_path: Path) -> None:
    run = audited(UNIT_IN_TITLE, tmp_path)
    printed = [point.details["printed"] for point in points(run) if point.parameters["rw"] == "read"]
    assert printed[0] == {
        "lat_p50": pytest.approx(0.0511),
        "lat_p99": pytest.approx(0.2092),
        "lat_p999": pytest.approx(0.2896),
    }
    swapped = UNIT_IN_TITLE.replace("| 209.2 | 289.6 |", "| 289.6 | 209.2 |")
    assert "contradicts_itself" in faults(audited(swapped, tmp_path))


def test_ranges_and_bounds_are_no_figures(tmp_path: Path) -> None:
    run = audited(RANGES, tmp_path)
    assert not faults(run) and len(points(run)) == 4
    assert all(point.latency_ns is None for point in points(run))


def test_the_latency_of_a_programs_block_is_not_that_of_a_line(tmp_path: Path) -> None:
    assert not faults(audited(BLOCK_LATENCY, tmp_path))
    assert "too_many_lines" in faults(audited(BLOCK_LATENCY.replace("0.08", "0.8"), tmp_path))


# --- cells with two figures

SLASHES = """| Test | IOPS {} | BW (MB/s) {} | lat avg/max (us) |
|---|---|---|---|
| randrw 70/30 4k qd16 | 78000 / 33400 | 319 / 137 | 140 / 5400 |
| randrw 50/50 4k qd16 | 50000 / 50100 | 205 / 205 | 158 / 6100 |
"""


def test_two_figures_in_a_cell_are_what_the_head_says(tmp_path: Path) -> None:
    run = audited(SLASHES.format("r/w", "read/write"), tmp_path)
    first = points(run)[0]
    assert first.throughput.value == pytest.approx(456e6) and first.rate is not None
    assert first.rate.value == pytest.approx(111_400)
    assert first.latency_ns is not None and first.latency_ns.max == pytest.approx(5.4e6)
    assert not faults(run)
    wrong = SLASHES.format("r/w", "r/w").replace("319 / 137", "304 / 131")
    assert "rate_times_size" in faults(audited(wrong, tmp_path))


def test_two_figures_without_a_name_are_asked_for_in_one_line_and_mapped(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        audited(SLASHES.format("", "r/w"), tmp_path)
    assert str(refused.value) == (
        "column 'IOPS' has 2 figures in a cell ('78000 / 33400'); "
        'say what they are: --map "IOPS=read/write", or avg/max'
    )
    run = audited(SLASHES.format("", "r/w"), tmp_path, "IOPS=read/write")
    assert points(run)[0].throughput.value == pytest.approx(456e6)


# --- CrystalDiskMark

# An NVMe drive on PCIe 4.0 x4 (a review on GitHub, January 2024).
CRYSTAL = """------------------------------------------------------------------------------
CrystalDiskMark 8.0.4 x64 (C) 2007-2021 hiyohiyo
------------------------------------------------------------------------------
[Read]
  SEQ    1MiB (Q=  8, T= 1):  7427.749 MB/s [   7083.7 IOPS] <   987.81 us>
  RND    4KiB (Q= 32, T=16):  4094.649 MB/s [ 999670.2 IOPS] <   494.56 us>
  RND    4KiB (Q=  1, T= 1):    84.503 MB/s [  20630.6 IOPS] <    48.38 us>

[Write]
  SEQ    1MiB (Q=  8, T= 1):  6520.188 MB/s [   6218.1 IOPS] <  1258.72 us>
  RND    4KiB (Q=  1, T= 1):   287.520 MB/s [  70195.3 IOPS] <    14.16 us>

[Mix] Read 70%/Write 30%
  SEQ    1MiB (Q=  8, T= 1):  3635.544 MB/s [   3467.1 IOPS] <  2303.51 us>

Profile: Default
   Test: 1 GiB (x5) [C: 4% (79/1862GiB)]
"""
# KDiskMark's own example: its MB/s are KiB/s / 1000.
KDISK = """KDiskMark (3.0.0): https://github.com/JonMagon/KDiskMark
* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]

[Read]
Sequential   1 MiB (Q=  8, T= 1):   508.897 MB/s [    497.0 IOPS] < 13840.05 us>
    Random   4 KiB (Q= 32, T= 1):   354.657 MB/s [  88664.6 IOPS] <   352.37 us>
    Random   4 KiB (Q=  1, T= 1):    44.166 MB/s [  11041.6 IOPS] <    88.48 us>
"""


def test_crystaldiskmark_is_read_with_its_mix(tmp_path: Path) -> None:
    run = audited(CRYSTAL, tmp_path, name="cdm.txt")
    assert not faults(run) and run.imported_from == "crystaldiskmark-text"
    first, *_, mix = points(run)
    assert first.parameters == {"rw": "read", "bs": 1 << 20, "iodepth": 8, "numjobs": 1}
    assert first.throughput.value == pytest.approx(7427.749e6) and run.experiments[0].fixed["size"] == 1 << 30
    assert (mix.parameters["rw"], mix.parameters["rwmixread"]) == ("rw", 70)
    quoted = "".join(f"> {line}\n" for line in CRYSTAL.splitlines())
    assert len(points(audited(quoted, tmp_path, name="cdm.txt"))) == len(points(run)), "as pasted in an issue"


def test_a_tool_that_divides_kib_by_1000_is_named(tmp_path: Path) -> None:
    found = faults(audited(KDISK, tmp_path, name="kdm.txt"))["unit_slip"]
    assert "1.024" in found.says and "3 rows" in found.says


# --- network

# Two virtual machines over 10 GbE (a home lab on GitHub), and four streams each way over a bond.
BOTH_WAYS = """[ ID][Role] Interval           Transfer     Bitrate         Retr
[  5][TX-C]   0.00-10.00  sec  10.8 GBytes  9.31 Gbits/sec  273             sender
[  5][TX-C]   0.00-10.00  sec  10.8 GBytes  9.30 Gbits/sec                  receiver
[  7][RX-C]   0.00-10.00  sec  10.1 GBytes  8.64 Gbits/sec  168             sender
[  7][RX-C]   0.00-10.00  sec  10.1 GBytes  8.64 Gbits/sec                  receiver
"""
BOTH_WAYS_OF_FOUR = """[ ID][Role] Interval           Transfer     Bitrate         Retr
[  5][TX-C]   0.00-10.07  sec  5.58 GBytes  4.76 Gbits/sec    0             sender
[  5][TX-C]   0.00-10.07  sec  5.58 GBytes  4.76 Gbits/sec                  receiver
[  9][TX-C]   0.00-10.07  sec  5.59 GBytes  4.77 Gbits/sec                  receiver
[SUM][TX-C]   0.00-10.07  sec  22.3 GBytes  19.1 Gbits/sec    0             sender
[SUM][TX-C]   0.00-10.07  sec  22.3 GBytes  19.1 Gbits/sec                  receiver
[ 13][RX-C]   0.00-10.07  sec  3.72 GBytes  3.17 Gbits/sec                  receiver
[ 15][RX-C]   0.00-10.07  sec  11.1 GBytes  9.50 Gbits/sec                  receiver
[SUM][RX-C]   0.00-10.07  sec  22.3 GBytes  19.0 Gbits/sec    7             sender
[SUM][RX-C]   0.00-10.07  sec  22.3 GBytes  19.0 Gbits/sec                  receiver
"""


@pytest.mark.parametrize(
    ("text", "rates", "streams"), [(BOTH_WAYS, (9.30, 8.64), 1), (BOTH_WAYS_OF_FOUR, (19.1, 19.0), 2)]
)
def test_bidirectional_test_gives_two_results(
    text: str, rates: tuple[float, ...], streams: int, tmp_path: Path
) -> None:
    run = audited(text, tmp_path, name="iperf3.txt")
    assert [point.throughput.value * 8e-9 for point in points(run)] == pytest.approx(rates)
    assert [point.parameters["direction"] for point in points(run)] == ["up", "down"]
    assert all(point.parameters["streams"] == streams for point in points(run)) and not faults(run)


# --- memory

# Two sockets with Memory Latency Checker 3.11b (a course's notes on GitHub), and a busy machine with 3.9.
TWO_SOCKETS = """Intel(R) Memory Latency Checker - v3.11b
Measuring idle latencies for sequential access (in ns)...
		Numa node
Numa node	     0	     1
       0	  82.1	 141.0
       1	 141.5	  81.5

Measuring Memory Bandwidths between nodes within system
		Numa node
Numa node	     0	     1
       0	79670.3	34393.4
       1	34385.7	79678.3

Measuring Loaded Latencies for the system
Using Read-only traffic type
Inject	Latency	Bandwidth
Delay	(ns)	MB/sec
==========================
 00000	329.26	 159154.0
 00100	325.98	 158992.6
 00300	127.88	 132998.9
 01000	 91.30	  42927.2
 20000	 82.30	   2932.1
"""
BUSY = """Measuring Loaded Latencies for the system
Using Read-only traffic type
Inject  Latency Bandwidth
Delay   (ns)    MB/sec
==========================
 00000  448.15   162864.7
 00002  259.96   163163.8
 00008  404.76   162521.4
 00050  199.32   156131.6
 00100  302.06   143492.7
 00200  128.80   110359.9
 00300  117.47    83460.5
 00400  184.74    65107.1
 00500   93.19    53571.3
 20000   80.18     2201.6
"""


def test_distance_between_sockets_is_no_fault(tmp_path: Path) -> None:
    assert not faults(audited(TWO_SOCKETS, tmp_path, name="mlc.txt"))
    swapped = TWO_SOCKETS.replace("       0	  82.1	 141.0", "       0	 141.0	  82.1")
    assert "wrong_node" in faults(audited(swapped, tmp_path, name="mlc.txt")), "its own node is the slower one"


def test_noisy_latency_curve_is_not_swapped(tmp_path: Path) -> None:
    (found,) = faults(audited(BUSY, tmp_path, name="mlc.txt")).values()
    assert found.rule == "runs_backwards" and "swapped" not in found.says
    assert "3 of 9 delays" in found.says and "another load" in found.says


# lmbench 3's summary of kernels 2.4.20 and 2.6.0 (the kernel's mailing list).
LMBENCH = """*Local* Communication latencies in microseconds - smaller is better
---------------------------------------------------------------------
Host                 OS 2p/0K  Pipe AF     UDP  RPC/   TCP  RPC/ TCP
                        ctxsw       UNIX         UDP         TCP conn
--------- ------------- ----- ----- ---- ----- ----- ----- ----- ----
lucent.rd Linux 2.4.20- 1.660 8.525 13.3              20.7        60.
lucent.rd   Linux 2.6.0 1.560 9.622 73.4             132.6       451.

*Local* Communication bandwidths in MB/s - bigger is better
-----------------------------------------------------------------------------
Host                OS  Pipe AF    TCP  File   Mmap  Bcopy  Bcopy  Mem   Mem
                             UNIX      reread reread (libc) (hand) read write
--------- ------------- ---- ---- ---- ------ ------ ------ ------ ---- -----
lucent.rd Linux 2.4.20- 799. 1348 378.  988.8 1522.1  406.9  418.0 1520 602.8
lucent.rd  Linux 2.4.20 754. 199.       758.3  900.5  304.3  341.9 971. 438.1

Memory latencies in nanoseconds - smaller is better
    (WARNING - may not be correct, check graphs)
------------------------------------------------------------------------------
Host                 OS   Mhz   L1 $   L2 $    Main mem    Rand mem    Guesses
--------- -------------   ---   ----   ----    --------    --------    -------
lucent.rd Linux 2.4.20-  1595 1.2980   11.6       135.9       254.9
"""


def test_lmbenchs_summary_is_read_by_the_places_of_its_cells(tmp_path: Path) -> None:
    run = audited(LMBENCH, tmp_path, name="lmbench.txt")
    assert not faults(run)
    latencies, bandwidths, memory = (
        {(str(point.parameters["system"]).split()[-1], point.parameters["operation"]): point for point in result.points}
        for result in run.experiments
    )
    assert latencies["2.6.0", "tcp"].latency_ns.mean == pytest.approx(132_600)  # type: ignore[union-attr]
    assert ("2.4.20", "tcp") not in bandwidths, "an empty cell is no figure"
    assert bandwidths["2.4.20", "file reread"].throughput.value == pytest.approx(758.3e6)
    assert memory["2.4.20-", "main mem"].latency_ns.mean == pytest.approx(135.9)  # type: ignore[union-attr]


# --- GPUs

# clpeak on a Mali-T860 (an issue on GitHub), and nvbandwidth on eight H100s (issue 24 of NVIDIA/nvbandwidth).
MALI = """Platform: ARM Platform
  Device: Mali-T860
    Global memory bandwidth (GBPS)
      float   : 3.84
      float4  : 7.33

    Single-precision compute (GFLOPS)
      float   : 22.86

    Transfer bandwidth (GBPS)
      enqueueWriteBuffer         : 4.06
      enqueueReadBuffer          : 2.17
      enqueueMapBuffer(for read) : 2015.28
        memcpy from mapped ptr   : 2.18
      enqueueUnmap(after write)  : 5406.56
        memcpy to mapped ptr     : 2.23
"""
QUOTED_MATRIX = """> Running host_to_device_memcpy_sm.
memcpy SM CPU(row) -> GPU(column) bandwidth (GB/s)
0         1         2         3         4         5         6         7
0     35.19     35.25     35.30     35.03     35.25     35.32     35.39     35.06

> Running device_to_host_memcpy_sm.
memcpy SM CPU(row) <- GPU(column) bandwidth (GB/s)
0         1         2         3         4         5         6         7
0     52.77     52.77     52.77     52.78     52.76     52.77     52.78     52.77
"""


def test_map_of_buffer_is_no_copy(tmp_path: Path) -> None:
    found = faults(audited(MALI, tmp_path, name="clpeak.txt"))
    assert set(found) == {"more_than_memory"}
    assert "5,407 GB/s is no copy" in found["more_than_memory"].says and "7,330 MB/s" in found["more_than_memory"].says
    without = "".join(f"{line}\n" for line in MALI.splitlines() if "Map" not in line and "Unmap" not in line)
    assert not faults(audited(without, tmp_path, name="clpeak.txt"))


def test_a_copy_above_every_memory_is_named_in_any_table(tmp_path: Path) -> None:
    text = "GPU,D2D copy (GB/s)\nsome card,12588\n"
    assert "more_than_memory" in faults(audited(text, tmp_path, name="gpu.csv"))
    assert not faults(audited(text.replace("12588", "2588"), tmp_path, name="gpu.csv"))


def test_a_quoted_matrix_is_read_and_held_against_its_link(tmp_path: Path) -> None:
    path = tmp_path / "nvbandwidth.txt"
    path.write_text(QUOTED_MATRIX)
    limits = sources.ceilings_given([], ["PCIe 4 x16"], [], limits=True)
    run = explain(sources.merge_sources(sources.read_sources([str(path)], {}), limits))
    assert len(points(run)) == 16 and set(faults(run)) == {"physical_ceiling"}
    assert not faults(audited(QUOTED_MATRIX, tmp_path, name="nvbandwidth.txt"))
