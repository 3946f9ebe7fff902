"""What an expert sees in a published table and `hwdyno audit` names; beside each, what is sound and stays unnamed."""

from __future__ import annotations

from pathlib import Path

import pytest
from audited import audited, faults, points
from hwdyno.report import sources

FILES = """# MLPerf Storage: unet3d

| Accelerator | Accelerators | Files | AU (%) |
|---|---|---|---|
"""
UNET3D = """MLPerf Storage, unet3d, one simulated GPU

| Simulated GPU | Samples | Storage | AU (%) | MB/s |
|---|---|---|---|---|
"""
CEPH = """| A100 | 3500 | Ceph | 10.81 | 165.35 |
| H100 | 3500 | Ceph | 5.58 | 168.05 |
"""
FLASH = """Storage by fio

| Test | Block Size (KB) | IOPS | Bandwidth (MB/s) |
|---|---|---|---|
"""
SYSBENCH = """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
Number of threads: 1
  block size: {block}
  operation: write
Total operations: 1024000 (102400.00 per second)
General statistics:
    total time:                          10.0000s
{rate}
"""
OLD_SYSBENCH = """$ sysbench --num-threads=4 --test=memory --memory-block-size={block} --memory-oper=read run
Operations performed: 5242880 (650506.28 ops/sec)
20480.00 MB transferred (2541.04 MB/sec)
"""
TWO_TESTS = """We compare TCP and UDP.

$ iperf3 -c 127.0.0.1
Connecting to host 127.0.0.1, port 5201
[  5]   0.00-10.00  sec  11.0 GBytes  9.42 Gbits/sec    0             sender
[  5]   0.00-10.00  sec  11.0 GBytes  9.41 Gbits/sec                  receiver

UDP is faster, as the next section shows.

$ iperf3 -c 10.0.0.2
Connecting to host 10.0.0.2, port 5201
[  5]   0.00-10.00  sec  1.10 GBytes   942 Mbits/sec    0             sender
[  5]   0.00-10.00  sec  1.10 GBytes   941 Mbits/sec                  receiver
"""
PING_PONG = """\
sockperf: Summary: Latency is 121.5 usec
sockperf: Total {count} observations; each percentile contains 0.01 observations
sockperf: ---> percentile 99.000 =  121.75
sockperf: ---> percentile 50.000 =  121.25
"""
STALLING = """\
[  4]   0.00-1.00   sec  84.5 KBytes   692 Kbits/sec    2   1.41 KBytes
[  4]   1.00-2.00   sec  0.00 Bytes  0.00 Kbits/sec    1   1.41 KBytes
[  4]   2.00-3.00   sec  0.00 Bytes  0.00 Kbits/sec    0   1.41 KBytes
[  4]   3.00-4.00   sec  {last} Kbits/sec    0   1.41 KBytes
"""
UDP_SERVER = """Accepted connection from 10.0.0.1, port 59996
[  5]   0.00-1.00  sec   200 MBytes  1678 Mbits/sec  0.005 ms  1000/100000 (1%)
[  5]   1.00-2.00  sec   200 MBytes  1678 Mbits/sec  0.005 ms  22000/100000 ({share}%)
[  5]   2.00-3.00  sec   200 MBytes  1678 Mbits/sec  0.005 ms  1000/100000 (1%)
[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  5]   0.00-3.00  sec  0.00 Bytes  0.00 bits/sec  0.005 ms  24000/300000 (8%)
"""
KIB_BLOCKS = "1000.00 MiB transferred (100.00 MiB/sec)"
DISK_TABLE = "\n\n| Test | Bandwidth |\n|---|---|\n| sequential read | {rate} |\n| sequential write | 110 MB/s |\n"


WHOLE_FILE = """fio --name=a --filename=/mnt/a --size=16G --rw=read --bs=4M --direct=1 --runtime=60{option}

| Test | File size | BW |
|---|---|---|
| sequential read | 16 GB | {rate} |
"""


def rows(*lines: str) -> str:
    return "".join(f"| {line} |\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "rule", "says"),
    [
        # MLPerf Storage's data set: 500 steps of each accelerator, 7 samples of unet3d a step.
        (UNET3D + rows("A100 | 1200 | NVMe | 99.16 | 1495.76"), "published_steps", "171 steps"),
        (UNET3D + rows("A100 | 1000 | NVMe | 24.51 | 376", "A100 | 1200 | NVMe | 24.51 | 376"), "published_steps",
         "2 of 2 rows have fewer"),
        (FILES + rows("A100 | 4 | 1400 | 99.16"), "published_steps", "1,400 samples are 50 steps"),
        (FILES + rows("A100 | 4 | 14000 | 99.16"), "published_steps", None),
        (FILES.replace("Files", "Steps per epoch") + rows("A100 | 4 | 120 | 99.16"), "published_steps", "120 steps"),
        (FILES.replace("Files", "Steps per epoch") + rows("A100 | 4 | 500 | 99.16"), "published_steps", None),
        (UNET3D + CEPH, "published_steps", None),
        (UNET3D.replace("unet3d", "a model") + CEPH.replace("3500", "100"), "published_steps", None),
        # One rate for accelerators that need more and less.
        (UNET3D + CEPH, "published_storage_bound", "165 MB/s and 168 MB/s"),
        (UNET3D + CEPH.replace("3500 | Ceph | 5.58", "3500 | NVMe | 5.58"), "published_storage_bound", None),
        (UNET3D + CEPH.replace("5.58 | 168.05", "9.0 | 271"), "published_storage_bound", None),
        (UNET3D + CEPH.replace("10.81 | 165.35", "95.0 | 1461"), "published_storage_bound", None),
        # MB/s that are MiB/s, by what an accelerator needs.
        (UNET3D + CEPH, "published_unit", "are MiB/s"),
        (UNET3D + CEPH.replace("165.35", "173.4").replace("168.05", "176.2"), "published_unit", None),
        (UNET3D + CEPH.replace("MB/s", "MiB/s").replace("165.35", "250"), "published_unit", None),
        # A figure that was copied, and one at a counter's limit.
        (FLASH + rows("read | 128 | 11342 | 1487", "write | 128 | 11342 | 1438"), "equal_figures", "11,342"),
        (FLASH + rows("read | 128 | 11342 | 1487", "write | 128 | 11342 | 1486"), "equal_figures", None),
        (FLASH + rows("read | 128 | 11342 | 1487", "write | 64 | 11342 | 743"), "equal_figures", None),
        (FLASH + rows("read | 128 | 11300 | 1487", "write | 128 | 11300 | 1438"), "equal_figures", None),
        (FLASH + rows("write | 4 | 262143 | 1074", "read | 4 | 262201 | 1074"), "full_counter", "2^18 - 1"),
        (FLASH + rows("write | 4 | 262144 | 1074", "read | 4 | 262k | 1073"), "full_counter", None),
        # A block that a core's cache holds is no memory.
        (SYSBENCH.format(block="1KiB", rate=KIB_BLOCKS), "block_in_cache", "1 KiB"),
        (OLD_SYSBENCH.format(block="4K"), "block_in_cache", "4 KiB"),
        (SYSBENCH.format(block="64MiB", rate=KIB_BLOCKS), "block_in_cache", None),
        (OLD_SYSBENCH.format(block="1G"), "block_in_cache", None),
        # A run that ends with its file.
        (WHOLE_FILE.format(option="", rate="4.0 GB/s"), "file_done_early", "4.3 s"),
        (WHOLE_FILE.format(option="", rate="400 MB/s"), "file_done_early", None),
        (WHOLE_FILE.format(option=" --time_based", rate="4.0 GB/s"), "file_done_early", None),
        (WHOLE_FILE.format(option="", rate="4.0 GB/s").replace("fio --name", "dd --name"), "file_done_early", None),
        # A loss that is not lost / sent.
        (UDP_SERVER.format(share=2.2), "loss_miscounted", "are 22%"),
        (UDP_SERVER.format(share=22), "loss_miscounted", None),
        # Percentiles of hardly any observations, and a connection that stalls.
        (PING_PONG.format(count=1), "percentile_of_few", "1 observation"),
        (PING_PONG.format(count=30), "percentile_of_few", "p99"),
        (PING_PONG.format(count=5000), "percentile_of_few", None),
        (STALLING.format(last="0.00 Bytes  0.00"), "stalled_intervals", "3 of 4"),
        (STALLING.format(last="80.0 KBytes  655"), "stalled_intervals", "2 of 4"),
        (STALLING.replace("0.00 Bytes  0.00", "80.0 KBytes  655").format(last=""), "stalled_intervals", None),
        # The link, the disk or the most that the text itself states.
        ("The drive is on a USB 2.0 port." + DISK_TABLE.format(rate="1473 MB/s"), "above_stated", "USB 2.0"),
        ("One NVMe drive on PCIe 3.0 x1." + DISK_TABLE.format(rate="1.1 GB/s"), "above_stated", "PCIe 3.0 x1"),
        ("One NVMe drive on PCIe 3.0 x1." + DISK_TABLE.format(rate="0.9 GB/s"), "above_stated", None),
        ("A Standard HDD of Azure." + DISK_TABLE.format(rate="900 MB/s"), "above_stated", "Standard HDD"),
        ("A Standard HDD of Azure." + DISK_TABLE.format(rate="450 MB/s"), "above_stated", None),
        ("The maximum theoretical bandwidth of the bus is 4 GB/s." + DISK_TABLE.format(rate="4.05 GB/s"),
         "above_stated", "4,000 MB/s"),
        ("The maximum theoretical bandwidth of the bus is 4 GB/s." + DISK_TABLE.format(rate="4.01 GB/s"),
         "above_stated", None),
        ("* 400 MB/s Read Speed\n* 240 MB/s Write Speed" + DISK_TABLE.format(rate="1473 MB/s"),
         "above_stated", "3.7 times the read speed"),
        ("* 400 MB/s Read Speed" + DISK_TABLE.format(rate="470 MB/s"), "above_stated", None),
        # Of two links no one knows which, and several disks have several links.
        ("USB 2.0 beside SATA." + DISK_TABLE.format(rate="470 MB/s"), "above_stated", None),
        ("* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]" + DISK_TABLE.format(rate="6226 MB/s"),
         "above_stated", None),
        ("Not a USB 2.0 port." + DISK_TABLE.format(rate="470 MB/s"), "above_stated", None),
        ("A RAID of PCIe 3.0 x1 drives." + DISK_TABLE.format(rate="3 GB/s"), "above_stated", None),
        ("An Azure Standard HDD and a Premium SSD." + DISK_TABLE.format(rate="900 MB/s"), "above_stated", None),
    ],
)  # fmt: skip
def test_what_an_expert_names(text: str, rule: str, says: str | None, tmp_path: Path) -> None:
    found = [finding for finding in audited(text, tmp_path).findings if finding.rule == rule]
    assert [says in finding.says for finding in found] == [True] if says is not None else not found


def test_what_a_study_states_is_named_together(tmp_path: Path) -> None:
    table = rows("A100 | 1000 | NVMe | 24.51 | 729.10")
    assert set(faults(audited(UNET3D + CEPH + table, tmp_path))) == {
        *("mislabelled_accelerator", "published_steps", "published_unit"),
    }


def test_what_was_repaired_in_cells_is_printed(tmp_path: Path) -> None:
    text = "| Test | Block size | BW |\n|---|---|---|\n| read | 4 Kb | 4.01 Gb/s |\n| read | 4 KiB | {} GB/s |\n"
    path = tmp_path / "table.md"
    for figure, repaired in (("3,73", "; read as bytes: '4 Kb', '4.01 Gb/s'; read with a decimal comma: '3,73 GB/s'"),
                             ("3.73", "; read as bytes: '4 Kb', '4.01 Gb/s'")):  # fmt: skip
        path.write_text(text.format(figure))
        (source,) = sources.read_sources([str(path)], {})
        assert source.readings[0].endswith(repaired)
    path.write_text(text.format("3.73").replace("Gb/s", "GB/s").replace("Kb", "KB"))
    (source,) = sources.read_sources([str(path)], {})
    assert "read as" not in source.readings[0]


def test_iperf3s_protocol_and_path_are_of_its_own_test(tmp_path: Path) -> None:
    found = points(audited(TWO_TESTS, tmp_path))
    assert [(point.parameters["protocol"], point.parameters.get("path")) for point in found] == [
        ("tcp", "loopback"),
        ("tcp", None),
    ]


def test_intervals_are_summed_where_their_sum_is_printed_as_0(tmp_path: Path) -> None:
    (point,) = points(audited(UDP_SERVER.format(share=22), tmp_path))
    assert point.throughput.value == pytest.approx(200 * 2**20)
    assert point.details["loss_share"] == pytest.approx(0.08)
