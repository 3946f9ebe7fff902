"""Outputs of tools as people published them: parts of texts are read right, or counted as not read.

Figures are from public posts (their addresses are beside them), with names of hosts and files replaced.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.model.words import Measurement, Run
from hwdyno.report import sources
from hwdyno.report.rows import point_label
from hwdyno.system.store import from_json, to_json

KIB, MIB = 1024, 1 << 20


def audited(text: str, folder: Path, *ceilings: str) -> Run:
    path = folder / "result.txt"
    path.write_text(text)
    given = sources.ceilings_given(ceilings, limits=True)
    return explain(sources.merge_sources(sources.read_sources([str(path)], {}), given))


def points(text: str, folder: Path) -> list[Measurement]:
    return [point for experiment in audited(text, folder).experiments for point in experiment.points]


def near(value: float, rel: float = 1e-6) -> Any:
    return pytest.approx(value, rel=rel)


def findings(text: str, folder: Path, *ceilings: str) -> dict[str, str]:
    return {finding.rule: finding.says for finding in audited(text, folder, *ceilings).findings}


def codes(point: Measurement) -> set[str]:
    return {note.code for note in point.notes}


# --- fio

USB_COMMAND = (
    "$ fio -direct=1 -iodepth=64 -rw=read -ioengine=posixaio -bs=1024k -size=1G -numjobs=1 -runtime=1000 -name=NAME\n"
)
# github.com/axboe/fio/issues/1212
USB_RESULT = """
reads: (groupid=0, jobs=1): err= 0: pid=4925
  read: IOPS=4946, BW=4947MiB/s (5187MB/s)(1024MiB/207msec)
    slat (nsec): min=0, max=40000, avg=1347.66, stdev=1551.41
    clat (usec): min=1001, max=206081, avg=3211.30, stdev=9545.73
     lat (usec): min=1003, max=206084, avg=3212.65, stdev=9545.87
    clat percentiles (usec):
     | 50.00th=[ 1762], 90.00th=[ 2114], 95.00th=[ 4621],
     | 99.00th=[ 55313], 99.90th=[ 77071], 99.99th=[206570]
"""
# github.com/longhorn/longhorn/issues/1804
LONGHORN = """test: (groupid=0, jobs=10): err= 0: pid=26669: Mon Sep 21 17:39:30 2020
  write: IOPS=163, BW=2619KiB/s (2682kB/s)(154MiB/60059msec)
    clat (msec): min=8, max=259, avg=61.06, stdev=13.08
     lat (msec): min=8, max=259, avg=61.06, stdev=13.08
   bw (  KiB/s): min=  128, max=  320, per=10.00%, avg=261.83, stdev=25.76, samples=1200
  cpu          : usr=0.01%, sys=0.07%, ctx=9850, majf=0, minf=11
  IO depths    : 1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     issued rwts: total=0,9831,0,0 short=0,0,0,0 dropped=0,0,0,0
"""
# github.com/openzfs/zfs/issues/16993
ZFS = """randread: (groupid=0, jobs=6): err= 0: pid=1661936: Mon Jan 27 23:19:00 2025
  read: IOPS=532, BW=8524KiB/s (8729kB/s)(500MiB/60023msec)
    slat (usec): min=4, max=307509, avg=11255.39, stdev=12387.16
     lat (msec): min=14, max=973, avg=359.09, stdev=79.06
  cpu          : usr=0.05%, sys=0.59%, ctx=19106, majf=0, minf=1101
  IO depths    : 1=0.1%, 2=0.1%, 4=0.1%, 8=0.2%, 16=0.3%, 32=99.4%, >=64=0.0%
"""
FIO_2 = "  read : io=1439.0MB, bw=95.9MB/s, iops=24557, runt= 15001msec\n"


@pytest.mark.parametrize(("text", "expected", "bandwidth"), [
    (USB_RESULT, {"rw": "read", "bs": MIB, "numjobs": 1}, 5187e6),
    (USB_COMMAND + USB_RESULT,
     {"rw": "read", "bs": MIB, "iodepth": 64, "numjobs": 1, "ioengine": "posixaio", "direct": True, "size": 1 << 30},
     5187e6),
    (LONGHORN, {"rw": "write", "bs": 16 * KIB, "numjobs": 10}, 2682e3),
    (ZFS, {"rw": "read", "bs": 16 * KIB, "numjobs": 6}, 8729e3),
    (FIO_2, {"rw": "read", "bs": 4 * KIB}, 95.9 * MIB),
    # Too few digits for one size, and a mean of several.
    ("  read: IOPS=9, BW=9.1MiB/s (9.5MB/s)(91MiB/10000msec)\n", {"rw": "read"}, 9.5e6),
    ("  read: IOPS=1000, BW=9.77MiB/s (10.2MB/s)(97.7MiB/10000msec)\n", {"rw": "read"}, 10.2e6),
])  # fmt: skip
def test_fio_job_without_its_first_line(text: str, expected: dict[str, Any], bandwidth: float, tmp_path: Path) -> None:
    (point,) = points(text, tmp_path)
    assert point.parameters == expected
    assert point.throughput.value == near(bandwidth)
    assert ("block_size_follows" in codes(point)) == ("bs" in expected and "iodepth" not in expected)
    assert ("pattern_not_stated" in codes(point)) == ("iodepth" not in expected)


def test_fio_states_cpu_and_depth_of_all_jobs(tmp_path: Path) -> None:
    (point,) = points(LONGHORN, tmp_path)
    assert point.elapsed_s == near(60.059) and point.operations == 9831 and point.bytes == 154 * MIB
    assert point.cpu_user_s == near(60.059 * 10 * 0.0001) and point.cpu_system_s == near(60.059 * 10 * 0.0007)
    assert point.details["iodepth_level_most"] == 1 and point.samples is None
    (deep,) = points(ZFS, tmp_path)
    assert 32 < deep.details["iodepth_level_most"] < 63


def test_label_states_no_order_and_depth_that_are_unknown(tmp_path: Path) -> None:
    label = point_label(audited(LONGHORN, tmp_path).experiments[0], 0)
    assert label == "write 16 KiB, 10 jobs"
    assert point_label(audited(USB_COMMAND + USB_RESULT, tmp_path).experiments[0], 0) == "SEQ1M Q64T1 read"


WITHOUT_DIGITS = """$ iozone -i 0 -t 2
\tChildren see throughput for  2 rewriters \t=  2348392.50 KB/sec
\tMin throughput per process \t\t\t= . KB/sec

| Test | IOPS | BW (MB/s) |
|---|---|---|
| write | 284612 | 1165.7 |
"""
MISCOUNTED = """[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  4]   0.00-2.00   sec  23.8 MBytes   100 Mbits/sec  0.012 ms  1/763 (2.2%)
[  4] Sent 763 datagrams
"""


@pytest.mark.parametrize("text", [WITHOUT_DIGITS, MISCOUNTED])
def test_what_a_text_states_is_stored_as_it_was_read(text: str, tmp_path: Path) -> None:
    run = audited(text, tmp_path)
    assert from_json(to_json(run)) == run


DRIVES = "| Drive | Block | Read MB/s | Write MB/s |\n|---|---|---|---|\n| A | 128k | 450 | 400 |\n"


@pytest.mark.parametrize(
    ("above", "label"),
    [("", "read 128 KiB"), ("Sequential accesses.\n\n", "SEQ128K read"), ("fio:\n\n", "SEQ128K read")],
)
def test_a_table_is_called_sequential_only_where_its_text_is(above: str, label: str, tmp_path: Path) -> None:
    assert point_label(audited(above + DRIVES, tmp_path).experiments[0], 0) == label


def test_best_of_published_memory_figures_is_no_ceiling(tmp_path: Path) -> None:
    table = "| Working set | Bandwidth (GB/s) |\n|---|---|\n| 64 KiB | 210 |\n| 512 MiB | 22 |\n\nMemory.\n"
    run = audited(table, tmp_path)
    assert not any(result.ceilings for result in run.experiments)
    assert "practical_bandwidth" not in {finding.rule for finding in run.findings}


def test_usb_stick_faster_than_its_rating_is_named_without_first_line(tmp_path: Path) -> None:
    assert "34.6 times the rated 150 MB/s" in findings(USB_RESULT, tmp_path, "rated read 150 MB/s")["rated_exceeded"]
    named = findings(USB_COMMAND + USB_RESULT, tmp_path)
    assert "15.9 operations were in flight instead of 64" in named["depth_not_reached"]


@pytest.mark.parametrize("total", [True, False])
def test_percentiles_of_fio_are_those_of_completion(total: bool, tmp_path: Path) -> None:
    text = USB_RESULT if total else "".join(line for line in USB_RESULT.splitlines(True) if "     lat (" not in line)
    (point,) = points(text, tmp_path)
    latency = point.latency_ns
    assert latency is not None and latency.mean == near(3212650 if total else 3211300)
    assert (latency.p50, latency.p99, latency.p999) == (near(1762e3), near(55313e3), near(77071e3))
    assert point.details["printed"]["lat_p95"] == near(4621e-6)
    assert "percentiles_of_completion" in codes(point)
    assert ("latency_of_completion" in codes(point)) != total


# github.com/openzfs/zfs/issues/10856, and the same as fio 2 printed it.
STATUS = """Run status group 0 (all jobs):
   READ: bw=2176MiB/s (2282MB/s), 2176MiB/s-2176MiB/s (2282MB/s-2282MB/s), io=128GiB (137GB), run=60001-60001msec
  WRITE: bw=1412MiB/s (1480MB/s), 1412MiB/s-1412MiB/s (1480MB/s-1480MB/s), io=82.7GiB (88.8GB), run=60001-60001msec
"""
OLD_STATUS = "   READ: io=1439.0MB, aggrb=98231KB/s, minb=98231KB/s, maxb=98231KB/s, mint=15001msec, maxt=15001msec\n"


@pytest.mark.parametrize(("text", "expected"), [
    (STATUS, [("read", 2282e6, 128 << 30, 60.001), ("write", 1480e6, int(82.7 * 2**30), 60.001)]),
    (OLD_STATUS, [("read", 98231 * KIB, 1439 * MIB, 15.001)]),
])  # fmt: skip
def test_fio_status_of_group_alone(text: str, expected: list[tuple[str, float, int, float]], tmp_path: Path) -> None:
    found = points(text, tmp_path)
    assert [(point.parameters["rw"], point.throughput.value, point.bytes, point.elapsed_s) for point in found] == [
        (rw, near(rate), size, near(seconds)) for rw, rate, size, seconds in expected
    ]
    assert all(set(point.parameters) == {"rw"} and "group_total" in codes(point) for point in found)
    assert len(points(LONGHORN + STATUS, tmp_path)) == 1, "a group's total is none of its jobs"


TWO_JOBS = """a: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=8
b: (g=0): rw=write, bs=(R) 8192B-8192B, (W) 8192B-8192B, (T) 8192B-8192B, ioengine=psync, iodepth=1
a: (groupid=0, jobs=1): err= 0: pid=1: Mon Jan  1 00:00:00 2024
  read: IOPS=1000, BW=4000KiB/s (4096kB/s)(39.1MiB/10000msec)
b: (groupid=0, jobs=1): err= 0: pid=2: Mon Jan  1 00:00:00 2024
  write: IOPS=500, BW=4000KiB/s (4096kB/s)(39.1MiB/10000msec)
"""


def test_each_job_of_fio_has_its_options_in_every_run(tmp_path: Path) -> None:
    second = TWO_JOBS.replace("iodepth=8", "iodepth=16").replace("4096B", "2048B").replace("IOPS=1000", "IOPS=2000")
    found = points(TWO_JOBS + STATUS + second, tmp_path)
    assert [(p.parameters["rw"], p.parameters["bs"], p.parameters["iodepth"]) for p in found] == [
        ("randread", 4096, 8), ("write", 8192, 1), ("randread", 2048, 16), ("write", 8192, 1)
    ]  # fmt: skip
    assert all("ran_beside_others" in codes(point) for point in found)


def test_directions_that_grep_left_are_each_by_itself(tmp_path: Path) -> None:
    lines = [line for line in TWO_JOBS.splitlines(True) if "IOPS" in line]
    found = points("".join(lines * 2), tmp_path)
    assert [point.parameters["rw"] for point in found] == ["read", "write"] * 2
    assert [point.parameters["bs"] for point in found] == [4096, 8192] * 2


# github.com/axboe/fio/issues/1394
PACED = """mytest: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=1
Jobs: 1 (f=1), 0-300 IOPS: [w(1)][100.0%][w=1200KiB/s][w=300 IOPS][eta 00m:00s]
mytest: (groupid=0, jobs=1): err= 0: pid=1779481: Sun May  1 19:29:21 2022
  write: IOPS=300, BW=1200KiB/s (1229kB/s)(211MiB/180001msec); 0 zone resets
     lat (usec): min=26, max=5218, avg=63.55, stdev=23.44
"""
ALONE = "".join(line for line in PACED.splitlines(True) if not line.startswith("Jobs"))
BUSY = "  cpu          : usr=20.80%, sys=78.50%, ctx=3481, majf=0, minf=38\n"


def test_load_of_fio_that_is_paced_is_named(tmp_path: Path) -> None:
    says = findings(PACED, tmp_path)["underloaded"]
    assert says.startswith("Paced (randwrite 4 KiB, iodepth=1): rate_iops 300 was requested. 300 IOPS x 63.5 µs")
    says = findings(ALONE, tmp_path)["underloaded"]
    assert says.startswith("Nothing was in flight for 98% of the time (randwrite 4 KiB, iodepth=1)")
    busy = findings(ALONE + BUSY, tmp_path)
    assert "underloaded" not in busy and "used 99% of their core" in busy["client_bound"]


@pytest.mark.parametrize(("rate", "latency_us", "named"), [
    # github.com/virtio-win/kvm-guest-drivers-windows/issues/428: two figures of different runs.
    (4012, 144.81, True), (4767, 207.96, False),
    # A quarter of the time, and 10 µs an operation, may be a client's work.
    (4011, 185, True), (4011, 190, False), (50001, 9.9, True), (60001, 7, False),
])  # fmt: skip
def test_rate_and_latency_at_depth_1_leave_nothing_idle(
    rate: float, latency_us: float, named: bool, tmp_path: Path
) -> None:
    row = f"| randwrite | 4k | 1 | {rate} | {latency_us} |"
    table = f"| pattern | bs | iodepth | IOPS | lat us |\n|---|---|---|---|---|\n{row}\n"
    assert ("underloaded" in findings(table, tmp_path)) == named


def test_lines_of_fio_with_figures_that_are_not_read_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sync = "  fsync/fdatasync/sync_file_range:\n    sync (usec): min=2, max=379, avg= 6.20, stdev= 6.93\n"
    path = tmp_path / "fio.txt"
    path.write_text(LONGHORN + sync)
    main(["audit", str(path)])
    assert "not read: 1 line, for example 'sync (usec): min=2, max=379" in capsys.readouterr().out
    main(["audit", str(path), "--json"])
    assert [note["code"] for note in json.loads(capsys.readouterr().out)["notes"]] == ["not_read"]
    assert not audited(LONGHORN, tmp_path).notes


# --- iperf

# github.com/esnet/iperf/issues/114: iperf3 printed the sender's rate beside the receiver's loss.
UDP = """Test Complete. Summary Results:
[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  4]   0.00-10.00  sec  1.24 GBytes  1.06 Gbits/sec  0.001 ms  135795/162217 (84%)
[  4] Sent 162217 datagrams
Test Complete. Summary Results:
[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  4]   0.00-10.00  sec  24.8 GBytes  21.3 Gbits/sec  0.002 ms  2723914/3250236 (84%)
[  4] Sent 3250236 datagrams
Test Complete. Summary Results:
[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  4]   0.00-10.00  sec   124 MBytes   104 Mbits/sec  0.038 ms  13456/15827 (85%)
"""
UDP_INTERVALS = """[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  0.010 ms  8/24 (33%)
[  5]   1.00-2.00   sec   128 KBytes  1.05 Mbits/sec  0.010 ms  8/24 (33%)
[  5]   0.00-2.00   sec   384 KBytes  1.57 Mbits/sec  0.010 ms  16/48 (33%)
"""
UDP_BOTH = """[  5]   0.00-10.00  sec  11.9 MBytes  10.0 Mbits/sec  0.000 ms  0/8632 (0%)  sender
[  5]   0.00-10.00  sec  10.7 MBytes  9.00 Mbits/sec  0.012 ms  863/8632 (10%)  receiver
"""
UDP_HEAD = "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n"
TCP = """[  5]   0.00-5.00   sec  5.48 GBytes  9.42 Gbits/sec    0
[  5]   5.00-10.00  sec  5.48 GBytes  9.42 Gbits/sec    0
[  5]   0.00-10.00  sec  11.0 GBytes  9.42 Gbits/sec    0             sender
[  5]   0.00-10.04  sec  11.0 GBytes  9.38 Gbits/sec                  receiver
"""
IPERF_2 = """[ ID] Interval       Transfer     Bandwidth
[  3]  0.0-10.0 sec  11.9 MBytes  10.0 Mbits/sec
[  3] Sent 8505 datagrams
[  3] Server Report:
[  3]  0.0-10.0 sec  10.7 MBytes  9.00 Mbits/sec   0.023 ms  850/ 8505 (10%)
"""


@pytest.mark.parametrize(("text", "delivered", "sent"), [
    (UDP, [1.06e9 * 26422 / 162217, 21.3e9 * 526322 / 3250236, 104e6 * 2371 / 15827], [1.06e9, 21.3e9, 104e6]),
    (UDP_INTERVALS, [1.57e6 * 32 / 48], [1.57e6]),
    (UDP_BOTH, [9e6], [10e6]), (IPERF_2, [9e6], [10e6]), (TCP * 2, [9.38e9] * 2, [9.42e9] * 2),
    (IPERF_2 + UDP_HEAD + UDP_BOTH, [9e6] * 2, [10e6] * 2),
])  # fmt: skip
def test_rate_of_iperf_is_what_arrived(text: str, delivered: list[float], sent: list[float], tmp_path: Path) -> None:
    found = points(text, tmp_path)
    assert [8 * point.throughput.value for point in found] == [near(rate) for rate in delivered]
    assert [8 * point.details["sent_bytes_s"] for point in found] == [near(rate) for rate in sent]


def test_rate_of_sender_is_beside_that_of_receiver(tmp_path: Path) -> None:
    named = findings(UDP, tmp_path)["network_datagram_loss"]
    assert "13.0 MB/s was sent, and 1.95 MB/s arrived" in named
    assert "contradicts_itself" not in findings(UDP, tmp_path)
    run = audited(UDP_BOTH + "[  5]   0.00-2.04   sec  -nan MBytes  7.77 Mbits/sec\n", tmp_path)
    assert [note.code for note in run.notes] == ["not_read"]


# --- IOzone

# github.com/geerlingguy/raspberry-pi-dramble/issues/7
IOZONE_COMMAND = "$ ./iozone -e -I -a -s 100M -r 4k -r 512k -r 16M -i 0 -i 1 -i 2 -f /ssd/test\n"
IOZONE_HEADS = """                                                    random    random
    kB  reclen    write  rewrite    read    reread    read     write
"""
FULL_HEADS = "kB reclen write rewrite read reread read write read rewrite read fwrite frewrite fread freread\n"
IOZONE_ROWS = """102400       4     3877     5004     5184     5193     4553     4943
102400     512    29181    29630    30053    30036    29394    29554
102400   16384    31528    31540    32025    32153    32236    31446
"""


@pytest.mark.parametrize("heads", [IOZONE_HEADS, FULL_HEADS])
def test_every_column_of_iozone_is_read(heads: str, tmp_path: Path) -> None:
    run = audited(IOZONE_COMMAND + heads + IOZONE_ROWS, tmp_path)
    found = list(run.experiments[0].points)
    rows = [[int(word) for word in line.split()] for line in IOZONE_ROWS.splitlines()]
    assert [p.throughput.value for p in found] == [near(rate * KIB) for row in rows for rate in row[2:]]
    assert [p.parameters["test"] for p in found[:6]] == [
        "write", "rewrite", "read", "reread", "random read", "random write"
    ]  # fmt: skip
    assert {(p.parameters["bs"], p.parameters["size"]) for p in found} == {(row[1] * KIB, row[0] * KIB) for row in rows}
    assert all(point.parameters["direct"] is True for point in found) and not run.notes


def test_cells_of_iozone_without_certain_head_are_counted(tmp_path: Path) -> None:
    run = audited("iozone\n" + FULL_HEADS + IOZONE_ROWS, tmp_path)
    assert [point.parameters["test"] for point in run.experiments[0].points] == ["write", "rewrite"] * 3
    (note,) = run.notes
    assert note.code == "not_read" and note.says.startswith("3 lines, for example '102400       4")


@pytest.mark.parametrize(("mode", "unit", "value"), [
    ("OPS Mode. Output is in operations per second.\n", "operations/s", 3877),
    ("Microseconds/op Mode. Output is in microseconds per operation.\n", "s", 3877e-6),
])  # fmt: skip
def test_unit_of_iozone_is_that_of_its_mode(mode: str, unit: str, value: float, tmp_path: Path) -> None:
    first, *_ = points(mode + IOZONE_COMMAND + IOZONE_HEADS + IOZONE_ROWS, tmp_path)
    assert (first.throughput.unit, first.throughput.value) == (unit, near(value))


# --- kbench

# github.com/longhorn/longhorn/issues/5374; the misspelling is kbench's.
COMPARED = """================================
FIO Benchmark Comparsion Summary
For: Local-Path vs Longhorn
Size: 30G
================================
                              Local-Path   vs                 Longhorn    :              Change
IOPS (Read/Write)
        Random:        232,796 / 132,364   vs          25,412 / 24,683    :   -89.08% / -81.35%
"""


def test_each_side_of_a_comparison_of_kbench_is_read(tmp_path: Path) -> None:
    experiments = audited(COMPARED, tmp_path).experiments
    assert [
        (result.fixed["label"], point.parameters["rw"], point.throughput.value)
        for result in experiments
        for point in result.points
    ] == [
        ("Local-Path", "randread", 232_796),
        ("Local-Path", "randwrite", 132_364),
        ("Longhorn", "randread", 25_412),
        ("Longhorn", "randwrite", 24_683),
    ]


# --- yabs and sysbench

# github.com/masonr/yet-another-bench-script/pull/17.
YABS = """fio Disk Speed Tests (Mixed R/W 50/50):
---------------------------------
Block Size | 4k            (IOPS) | 64k           (IOPS)
  ------   | ---            ----  | ----           ----
Read       | 139.84 MB/s  (34.9k) | 1.34 GB/s    (21.0k)
"""
# github.com/akopytov/sysbench/issues/286.
SYSBENCH = """### 1. Test with 10 threads
General statistics:
    total time:                          10.0052s
    total number of events:              32189

Latency (ms):
         min:                                  3.06
         avg:                                  3.10
         max:                                  7.36
         95th percentile:                      3.19
### 2 Test with 16 threads
General statistics:
    total time:                          10.0057s
    total number of events:              32517
"""


def test_the_rate_in_brackets_behind_a_bandwidth_is_read(tmp_path: Path) -> None:
    found = points(YABS, tmp_path)
    assert [(point.parameters["bs"], point.throughput.value, point.rate.value) for point in found if point.rate] == [
        (4096, near(139.84e6), 34_900),
        (65536, near(1.34e9), 21_000),
    ]
    assert "unit_slip" in findings(YABS, tmp_path) or "rate_times_size" in findings(YABS, tmp_path)


def test_sysbench_without_its_first_line_states_events_and_seconds(tmp_path: Path) -> None:
    found = points(SYSBENCH, tmp_path)
    assert [(point.parameters["threads"], point.throughput.value) for point in found] == [
        (10, near(32189 / 10.0052)),
        (16, near(32517 / 10.0057)),
    ]
    assert found[0].latency_ns and found[0].latency_ns.mean == near(3.1e6)
