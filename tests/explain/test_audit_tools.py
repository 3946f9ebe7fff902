"""What `hwdyno audit` reads of tools' other layouts: older versions, lines with commas, logs, XML.

The figures are made up; each layout is that of the tool, and what it means was worked out from what it states twice.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.formats import iozone
from hwdyno.model.words import Measurement, Run
from hwdyno.report import sources

FIO_2 = {
    "fio version": "fio-2.21",
    "jobs": [
        {
            "jobname": "a", "groupid": 0, "error": 0,
            "job options": {"rw": "randread", "bs": "16k", "iodepth": "1", "direct": "1", "ioengine": "libaio"},
            "read": {
                "io_bytes": 160_000, "bw": 16_000, "iops": 1000.0, "runtime": 10_000, "total_ios": 10_000,
                "lat": {"min": 100, "max": 9000, "mean": 990.0, "stddev": 50.0},
            },
        }
    ],
}  # fmt: skip
FIO_2_TEXT = """w: (groupid=0, jobs=1): err= 0: pid=1: Mon Jan  1 00:00:00 2024
  write: io=400.0MB, bw=40960KB/s, iops=10240, runt= 10000msec
    slat (usec): min=2, max=2157.7K, avg=27.39, stdev=42.51
     lat (usec): min=40, max=2157.7K, avg=97.00, stdev=42.51
"""
FIO_IN_A_LOG = """12:06:53 DEBUG| [stdout] r: (groupid=0, jobs=1): err= 0: pid=1: Mon Jan  1 00:00:00 2024
12:06:53 DEBUG| [stdout]   read: IOPS=100, BW=50.0MiB/s (52.4MB/s)(100MiB/2000msec)
12:06:53 DEBUG| [stdout]      lat (usec): min=1475, max=18494, avg=9900.00, stdev=4213.41
"""
SYSBENCH_MEMORY = """CPU 0 sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
Number of threads: 1
  block size: 1MiB
  operation: write
Total operations: 1000 (100.00 per second)
1000.00 MiB transferred (100.00 MiB/sec)
General statistics:
    total time:                          10.0000s
"""
SYSBENCH_SQL = """sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)
Number of threads: 16
SQL statistics:
    transactions:                        30000  (1000.00 per sec.)
General statistics:
    total time:                          30.0000s
Latency (ms):
         min:                                 12.00
         avg:                                 16.00
         max:                                115.00
         99th percentile:                     20.00
"""
NETPERF = """MIGRATED UDP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 20001 AF_INET to 10.0.0.9 ()
Throughput,Throughput Units,99th Percentile Latency Microseconds,Mean Latency Microseconds
2000.00,Trans/s,590,499.50
"""
CUDA = """ Device 0: Tesla K80
bandwidthTest-H2D-Pinned, Bandwidth = 8192.0 MB/s, Time = 0.00391 s, Size = 33554432 bytes, NumDevsUsed = 1
bandwidthTest-D2H-Pinned, Bandwidth = 9.5 GB/s, Time = 0.00353 s, Size = 33554432 bytes, NumDevsUsed = 1
"""
MLC = """Inject  Latency Bandwidth
Delay   (ns)    MB/sec
==========================
 00000  800.00    48000.0    ← all of it
 00500  230.00    32000.0
"""
IPERF3 = """$ iperf3 -c 10.0.0.2
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  11.0 GBytes  9.42 Gbits/sec    1            sender
[  5]   0.00-10.00  sec  11.0 GBytes  9.41 Gbits/sec                  receiver

$ iperf3 -c 10.0.0.2 -R
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  5.50 GBytes  4.72 Gbits/sec    1            sender
[  5]   0.00-10.00  sec  5.50 GBytes  4.72 Gbits/sec                  receiver
"""
CLPEAK = """<?xml version="1.0" encoding="utf-8"?>
<clpeak format_version="2" clpeak_version="2.0">
  <run backend="CUDA" device="NVIDIA Something">
    <category name="bandwidth">
      <test name="global_memory_bandwidth" display="Global memory bandwidth" unit="gbps">
        <metric name="float4">400.0</metric>
        <metric name="float8" status="unsupported"/>
      </test>
      <test name="transfer_bandwidth" display="Transfer bandwidth" unit="gbps">
        <metric name="h2d_pinned">12.0</metric>
      </test>
      <test name="memory_latency" display="Memory latency" unit="ns"><metric name="dram">90.0</metric></test>
      <test name="wmma" display="Matrix" unit="tflops"><metric name="fp16">5.0</metric></test>
    </category>
  </run>
</clpeak>
"""
IMB = """# Benchmarking PingPong
#-----------------------------------------------------------------------------
       #bytes #repetitions  t_avg[usec]   Mbytes/sec
         1024       100000        51.20        20.00
         2048       100000        64.00        32.00
"""
OSU = """[0] startup: Rank    Pid      Node
# OSU MPI Bandwidth Test v5.7.1
# Size      Bandwidth (MB/s)
1024                  200.00
2048                  400.00
"""
DLIO = """[METRIC] Number of Simulated Accelerators: 2
[METRIC] Training Accelerator Utilization [AU] (%): 90.0000 (±4.1275)
[METRIC] Training Throughput (samples/second): 18.0000 (±0.8547)
[METRIC] Training I/O Throughput (MB/second): 2520.0000 (±119.4992)
[METRIC] train_au_meet_expectation: success
[METRIC] Number of Simulated Accelerators: 4
[METRIC] Training Accelerator Utilization [AU] (%): 45.0 (0.1)
[METRIC] Training Throughput (samples/second): 18.0 (0.1)
[METRIC] Training I/O Throughput (MB/second): 2520.0 (1.1)
[METRIC] train_au_meet_expectation: fail
"""

FIO_RANGE = """t: (g=0): rw=read, bs=(R) 512B-1024KiB, (W) 512B-1024KiB, (T) 512B-1024KiB, ioengine=psync, iodepth=1
t: (groupid=0, jobs=1): err= 0: pid=1: Mon Jan  1 00:00:00 2024
  read: IOPS=100, BW=50.0MiB/s (52.4MB/s)(100MiB/2000msec)
     lat (usec): min=1475, max=18494, avg=9900.00, stdev=4213.41
"""
NO_HEAD_ABOVE_LABELS = """ | DDR4 Bandwidth | DDR4 Efficiency | LPDDR4 Bandwidth | LPDDR4 Efficiency |
---|---|---|---|---|
copy | 2482MB/s | 78% | 2221MB/s | 69% |
triad | 2355MB/s | 74% | 2139MB/s | 67% |
"""
SHARES = """| Storage | Accelerator | AU |
|---|---|---|
| one | A100 | 90.0 |
| two | A100 | 45.0 |
"""
TWO_RELEASES = """| item | iops/bandwidth | latency | 99.00th | old<br>iops/bandwidth | iops improvement percentage |
| :--: | :--: | :--: | :--: | :--: | :--: |
| 4K randwrite, 128 depth | 100,000 iops | 1,280 us | 2,040 us | 50,000 iops | 100% |
| 4K randread, 128 depth | 128,000 iops | 1,000 us | 1,500 us | 64,000 iops | 100% |
"""


def audited(text: str, folder: Path) -> Run:
    path = folder / "result.txt"
    path.write_text(text)
    return explain(sources.merge_sources(sources.read_sources([str(path)], {})))


def points(text: str, folder: Path) -> list[Measurement]:
    run = audited(text, folder)
    assert not [finding for finding in run.findings if finding.severity in {"error", "warning"}], (
        "nothing is wrong in it"
    )
    return [point for experiment in run.experiments for point in experiment.points]


def test_fio_2_counts_bytes_in_kib(tmp_path: Path) -> None:
    (point,) = points(json.dumps(FIO_2), tmp_path)
    assert point.bytes == 160_000 * 1024
    assert point.throughput.value == 16_000 * 1024


def test_fio_2s_text_is_read(tmp_path: Path) -> None:
    (point,) = points(FIO_2_TEXT, tmp_path)
    assert point.throughput.value == 40_960 * 1024
    assert point.details["printed"]["iops"] == 10_240
    assert point.latency_ns is not None
    assert point.latency_ns.mean == pytest.approx(97_000)


def test_a_logs_marks_at_the_beginnings_of_lines_are_left_out(tmp_path: Path) -> None:
    (point,) = points(FIO_IN_A_LOG, tmp_path)
    assert point.throughput.value == pytest.approx(52.4e6)


def test_sysbench_is_read_behind_other_words_on_its_line(tmp_path: Path) -> None:
    (point,) = points(SYSBENCH_MEMORY, tmp_path)
    assert point.throughput.value == 100 * 2**20


def test_sysbenchs_transactions_have_their_latency(tmp_path: Path) -> None:
    (point,) = points(SYSBENCH_SQL, tmp_path)
    assert (point.throughput.value, point.parameters["threads"]) == (1000, 16)
    assert point.latency_ns is not None
    assert point.latency_ns.p99 == pytest.approx(20e6)


def test_netperfs_values_between_commas_are_read(tmp_path: Path) -> None:
    (point,) = points(NETPERF, tmp_path)
    assert point.throughput.value == 2000
    assert point.latency_ns is not None
    assert point.latency_ns.mean == pytest.approx(499_500)
    assert point.latency_ns.p99 == pytest.approx(590_000)


def test_bandwidthtests_megabytes_are_of_two_to_the_twentieth_bytes(tmp_path: Path) -> None:
    up, down = points(CUDA, tmp_path)
    assert up.throughput.value == 8192 * 2**20
    assert up.throughput.value == pytest.approx(33_554_432 / 0.00391, rel=2e-3), "by the size and time beside it"
    assert down.throughput.value == 9.5e9
    assert (up.parameters["operation"], up.parameters["memory"]) == ("host-to-device", "pinned")


def test_mlcs_curve_is_read_without_its_heading_and_with_notes(tmp_path: Path) -> None:
    first, second = points(MLC, tmp_path)
    assert (first.parameters["delay"], second.parameters["delay"]) == (0, 500)
    assert first.throughput.value == 48e9


def test_each_iperf3_summary_is_a_test(tmp_path: Path) -> None:
    assert [point.throughput.value for point in points(IPERF3, tmp_path)] == [9.41e9 / 8, 4.72e9 / 8]


def test_clpeak_2s_xml_is_read_with_its_units(tmp_path: Path) -> None:
    memory, up, latency, matrix = points(CLPEAK, tmp_path)
    assert (memory.parameters["operation"], memory.throughput.value) == ("device-to-device", 400e9)
    assert (up.parameters["operation"], up.throughput.value) == ("host-to-device", 12e9)
    assert latency.latency_ns is not None
    assert latency.latency_ns.mean == pytest.approx(90)
    assert (matrix.throughput.value, matrix.throughput.unit) == (5e12, "FLOP/s")


def test_commented_heads_above_figures_count(tmp_path: Path) -> None:
    first, _ = points(IMB, tmp_path)
    assert first.throughput.value == 20e6
    assert first.latency_ns is not None
    assert first.latency_ns.mean == pytest.approx(51_200)
    assert [point.throughput.value for point in points(OSU, tmp_path)] == [200e6, 400e6]


def test_the_figures_at_the_end_of_dlios_log_are_read(tmp_path: Path) -> None:
    two, four = points(DLIO, tmp_path)
    assert (two.parameters["accelerators"], four.parameters["accelerators"]) == (2, 4)
    assert two.details["au_dlio"] == pytest.approx(0.9)
    assert two.throughput.value == pytest.approx(2520 * 2**20)
    assert (two.details["passes"], four.details["passes"]) == (True, False)


def test_dlio_checkpoint_summary_is_read(tmp_path: Path) -> None:
    checkpoints = {
        "save_checkpoint_io_mean_GB_per_second": 2.0,
        "save_checkpoint_io_stdev_GB_per_second": 0.25,
        "save_checkpoint_duration_mean_seconds": 6.0,
        "load_checkpoint_io_mean_GB_per_second": 4.0,
        "load_checkpoint_duration_mean_seconds": 3.0,
        "checkpoint_size_GB": 12.0,
    }
    summary = {"num_accelerators": 8, "num_hosts": 1, "start": "2025-01-01T00:00:00", "metric": checkpoints}
    save, load = points(json.dumps(summary), tmp_path)
    assert save.parameters == {"accelerators": 8, "operation": "save checkpoint"}
    assert (save.throughput.value, load.throughput.value) == (2 * 2**30, 4 * 2**30)
    assert (save.details["checkpoint_bytes"], save.details["deviation_bytes_s"]) == (12 * 2**30, 2**28)
    assert (save.details["duration_mean_s"], load.details["duration_mean_s"]) == (6, 3)
    assert "deviation_bytes_s" not in load.details

    trained = {"train_throughput_samples_per_second": [10.0], "train_au_percentage": [95.0]}
    summary["metric"] = checkpoints | trained | {"train_io_mean_MB_per_second": 1000.0}
    training, save, load = points(json.dumps(summary), tmp_path)
    assert training.throughput.value == pytest.approx(1000 * 2**20)
    assert save.throughput.value < load.throughput.value


def test_a_range_of_block_sizes_is_no_block_size(tmp_path: Path) -> None:
    (point,) = points(FIO_RANGE, tmp_path)
    assert "bs" not in point.parameters


def test_heads_without_one_above_the_labels_stand_above_their_figures(tmp_path: Path) -> None:
    found = points(NO_HEAD_ABOVE_LABELS, tmp_path)
    assert sorted(point.throughput.value for point in found if point.throughput.unit == "bytes/s") == [
        2139e6, 2221e6, 2355e6, 2482e6,
    ]  # fmt: skip


def test_a_share_is_shown_in_percent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.md"
    path.write_text(SHARES)
    main(["audit", str(path), "--all"])
    shown = capsys.readouterr().out
    assert "90.0 %" in shown
    assert "45.0 %" in shown


def test_a_change_is_no_rate_and_zeros_after_a_percentile_are_none(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    path.write_text(TWO_RELEASES)
    (source,) = sources.read_sources([str(path)], {})
    assert "'old iops/bandwidth' is operations/s" in source.readings[0]
    assert "'iops improvement percentage' is label" in source.readings[0]
    assert "'99.00th' is latency p99 " in source.readings[0]
    rates = [point.throughput.value for point in points(TWO_RELEASES, tmp_path)]
    assert set(rates) >= {100e3, 50e3, 128e3, 64e3}
    assert 100 not in rates


# --- GPUs, spreadsheets and JSON

DATA = Path(__file__).parents[1] / "data" / "fuzz"
BABELSTREAM = (DATA / "babelstream" / "cuda.txt").read_text()
IOZONE_QUOTED = """>>>> \tChildren see throughput for 12 initial writers  = 4534582.00 kB/sec
>>>> \tParent sees throughput for 12 initial writers   = 4458145.56 kB/sec
>>>> \tMin throughput per process                      = 373101.59 kB/sec
"""
REPORT = {
    "overall": {
        "model": "unet3d", "accelerator": "h100", "num_benchmark_runs": 2, "train_num_accelerators": "2",
        "num_files_train": 28000, "num_samples_per_file": 1,
        "train_throughput_mean_samples_per_second": 39.7, "train_throughput_mean_MB_per_second": 5550.0,
    },
    "runs": {
        "run-1": {"train_throughput_samples_per_second": 39.6, "train_num_accelerators": "2"},
        "run-2": {"train_throughput_samples_per_second": 39.8, "train_num_accelerators": "2"},
    },
}  # fmt: skip


def test_babelstream_on_gpu_and_on_processors(tmp_path: Path) -> None:
    run = audited(BABELSTREAM, tmp_path)
    (result,) = run.experiments
    assert result.resource == "gpu" and result.fixed == {"device": "NVIDIA A100-SXM4-80GB"}
    rates = {str(point.parameters["operation"]): point.throughput.value for point in result.points}
    assert rates["triad"] == pytest.approx(1724827.354e6) and set(rates) == {"copy", "scale", "add", "triad", "dot"}
    assert not [
        finding for finding in run.findings if finding.severity == "invalid" or finding.rule == "contradicts_itself"
    ]
    wrong = audited(BABELSTREAM.replace("1724827.354", "1149884.902"), tmp_path)  # As if it moved two arrays.
    assert "contradicts_itself" in {finding.rule for finding in wrong.findings}
    in_csv = audited((DATA / "babelstream" / "omp.csv").read_text(), tmp_path)
    assert in_csv.experiments[0].resource == "memory" and len(in_csv.experiments[0].points) == 5
    binary = audited(BABELSTREAM.replace("MBytes/sec  Min", "MiBytes/sec  Min"), tmp_path).experiments[0].points[3]
    assert binary.throughput.value == pytest.approx(1724827.354 * 2**20)


def test_iozones_sums_alone_and_its_spreadsheet(tmp_path: Path) -> None:
    (point,) = audited(IOZONE_QUOTED, tmp_path).experiments[0].points
    assert point.throughput.value == pytest.approx(4534582 * 1024) and point.parameters["numjobs"] == 12
    points = audited((DATA / "iozone" / "excel.txt").read_text(), tmp_path).experiments[0].points
    assert [(measurement.parameters["rw"], measurement.parameters["bs"]) for measurement in points[::4]] == [
        ("write", 4096), ("read", 65536), ("randread", 1 << 20)
    ]  # fmt: skip
    assert points[8].throughput.value == pytest.approx(412000 * 1024) and points[8].parameters["size"] == 102400 * 1024


IOZONE_HEADS = """      kB  reclen   write rewrite    read  reread    read   write    read rewrite \
   read  fwrite frewrite   fread freread
"""
IOZONE_TWICE = f"""Iozone: Performance Test of File I/O
Command line used: ./iozone -e -I -a -s 100M -r 1024k -i 0 -i 2
{IOZONE_HEADS}  102400    1024  300000  310000                  320000  330000

Command line used: ./iozone -a -r 4k -s 4m
{IOZONE_HEADS}    4096       4   42154   99119   51080   77531   33467   37211   55090   51222  \
 56382   78027    78473   51076   46822
    4096       8   42000   99000   51[   83.194629] a kernel's line
   55090   51222   56382   78027   78473   51076   46822
"""


def test_several_iozones_have_own_options(tmp_path: Path) -> None:
    points = audited(IOZONE_TWICE, tmp_path).experiments[0].points
    assert [(p.parameters["test"], p.parameters["bs"], p.parameters["direct"]) for p in points] == [
        *((test, 1 << 20, True) for test in ("write", "rewrite", "random read", "random write")),
        *((test, 4096, False) for test in iozone.TESTS),
    ]


PHORONIX_OF_OTHERS = """<PhoronixTestSuite>
<Result><Identifier>local/openclaw-1.0</Identifier><Title>OpenClaw</Title><Description>Prior streaming</Description>
<Scale>Seconds</Scale><Data><Entry><Value>12</Value><RawString></RawString></Entry></Data></Result>
<Result><Identifier>pts/stream-1.3</Identifier><Title>Stream</Title><Description>Type: Triad</Description>
<Scale>MB/s</Scale><Data><Entry><Identifier>a</Identifier><Value>24000</Value></Entry></Data></Result>
</PhoronixTestSuite>
"""


def test_a_test_of_phoronix_is_of_the_resource_that_its_whole_words_name(tmp_path: Path) -> None:
    tables = audited(PHORONIX_OF_OTHERS, tmp_path).experiments
    assert [experiment.resource for experiment in tables] == ["compute", "memory"]


def test_iors_json(tmp_path: Path) -> None:
    points = audited((DATA / "ior" / "ior.json").read_text(), tmp_path).experiments[0].points
    assert [point.parameters for point in points] == [
        {"ranks": 4, "bs": 1 << 20, "rw": "write"}, {"ranks": 4, "bs": 1 << 20, "rw": "read"}
    ]  # fmt: skip
    assert points[1].throughput.value == pytest.approx(8321.4 * 2**20)


def test_report_of_submission_to_mlperf_storage(tmp_path: Path) -> None:
    (point,) = audited(json.dumps(REPORT), tmp_path).experiments[0].points
    assert point.parameters["accelerators"] == 2 and point.repeats == 2
    assert point.throughput.value == pytest.approx(5550 * 2**20, rel=1e-4) and "passes" not in point.details


SERVERS_OUTPUT = """Connecting to host 10.0.0.2, port 5201
[  5] local 10.0.0.1 port 40000 connected to 10.0.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  11.0 GBytes  9.42 Gbits/sec    0             sender
[  5]   0.00-10.00  sec  11.0 GBytes  9.41 Gbits/sec                  receiver

Server output:
-----------------------------------------------------------
Server listening on 5201 (test #1)
-----------------------------------------------------------
Accepted connection from 10.0.0.1, port 40002
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.00   sec  1.10 GBytes  9.42 Gbits/sec
[  5]   0.00-10.00  sec  11.0 GBytes  9.41 Gbits/sec                  receiver


iperf Done.
"""


def test_servers_output_is_no_second_test(tmp_path: Path) -> None:
    (point,) = audited(SERVERS_OUTPUT, tmp_path).experiments[0].points
    assert point.throughput.value == pytest.approx(9.41e9 / 8)
    twice = audited(SERVERS_OUTPUT * 2, tmp_path).experiments[0].points
    assert len(twice) == 2
