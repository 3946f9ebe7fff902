"""Texts of many tools become Runs: the figures, their units, and what follows from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwdyno import formats
from hwdyno.explain.findings import explain
from hwdyno.formats import geekbench, ior, published
from hwdyno.model.words import Measurement, Run, UserError

SEEDS = Path(__file__).parents[1] / "data" / "fuzz"


def read(name: str, file: str, folder: str = "") -> Run:
    text = (SEEDS / (folder or name) / file).read_text()
    form = formats.list_formats()[name]
    assert form.recognizes(text)
    return formats.read_as(form, text, file)


def points(run: Run, experiment: int = 0) -> tuple[Measurement, ...]:
    return run.experiments[experiment].points


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-6)


def test_fios_normal_output() -> None:
    (point,) = points(read("fio_text", "randread.txt"))
    assert point.parameters | {"rw": "randread", "bs": 4096, "iodepth": 8, "numjobs": 2} == point.parameters
    assert point.throughput.value == near(113e6) and point.rate is not None and point.rate.value == near(27700)
    assert (
        point.latency_ns is not None and point.latency_ns.mean == near(577140) and point.latency_ns.min == near(42000)
    )
    (mixed,) = points(read("fio_text", "randrw.txt"))
    assert mixed.parameters["rwmixread"] == 49 and mixed.throughput.value == near(98e6)


def test_iperf3s_text() -> None:
    (tcp,) = points(read("iperf3_text", "iperf3-tcp.txt"))
    assert tcp.parameters == {"protocol": "tcp", "streams": 2, "path": "loopback"}
    assert tcp.throughput.value == near(10.2e9 / 8)
    (udp,) = points(read("iperf3_text", "iperf3-udp.txt"))
    assert udp.parameters["protocol"] == "udp" and udp.details["loss_share"] == 0
    assert udp.throughput.value == near(100e6 / 8)


def test_mislabelled_bits_are_named() -> None:
    text = (SEEDS / "iperf3_text" / "iperf3-tcp.txt").read_text().replace("Gbits/sec", "GBytes/sec")
    run = explain(formats.read_as(formats.list_formats()["iperf3_text"], text, "x"))
    (finding,) = [candidate for candidate in run.findings if candidate.rule == "contradicts_itself"]
    assert "8 is what parts bytes from bits" in finding.says


def test_iozone_tells_direct_from_cached() -> None:
    run = explain(read("iozone", "auto.txt"))
    first, *_ = points(run)
    assert first.throughput.value == near(812345 * 1024) and first.parameters["bs"] == 4096
    assert len(points(run)) == 26 and first.parameters["direct"] is False
    (finding,) = [candidate for candidate in run.findings if candidate.rule == "through_page_cache"]
    assert "page cache's speed" in finding.says
    direct = explain(read("iozone", "throughput.txt"))
    point = points(direct)[0]
    assert point.parameters["direct"] is True and point.parameters["numjobs"] == 2
    assert point.throughput.value == near(412345.67 * 1024)
    assert not [candidate for candidate in direct.findings if candidate.rule == "through_page_cache"]


def test_a_parent_that_waits_shows_that_children_wrote_into_the_cache() -> None:
    text = (SEEDS / "iozone" / "throughput.txt").read_text().replace(" -I", "").replace("405678.90", "5678.90")
    run = explain(formats.read_as(formats.list_formats()["iozone"], text, "x"))
    (finding,) = [candidate for candidate in run.findings if candidate.rule == "through_page_cache"]
    assert "Its parent, which waits for the file, sees 5.82 MB/s" in finding.says


def test_lmbench() -> None:
    latency = read("lmbench", "lat.txt").experiments[0]
    assert [p.parameters["working_set"] for p in latency.points][-1] == 64 << 20
    assert latency.points[-1].latency_ns is not None and latency.points[-1].latency_ns.mean == near(88.951)
    run = read("lmbench", "bw.txt")
    assert points(run)[0].throughput.value == near(14211.52e6)
    assert points(run, 1)[0].parameters["operation"] == "simple syscall"


def test_sysbench() -> None:
    (memory,) = points(read("sysbench", "sysbench-memory.txt", "format_sysbench"))
    assert memory.throughput.value == near(3650.29 * 2**20)
    (files,) = points(read("sysbench", "sysbench-fileio.txt", "format_sysbench"))
    assert files.rate is not None and files.rate.value == near(6976.43 + 4650.95)
    (cpu,) = points(read("sysbench", "sysbench-cpu.txt", "format_sysbench"))
    assert cpu.throughput.value == near(2263.18)


def test_stress_ngs_rate_is_its_operations_over_time() -> None:
    run = read("stress_ng", "metrics.txt")
    assert points(run)[0].throughput.value == near(3215.31)
    text = (SEEDS / "stress_ng" / "metrics.txt").read_text().replace("3215.31", "9215.31")
    wrong = explain(formats.read_as(formats.list_formats()["stress_ng"], text, "x"))
    assert [finding.rule for finding in wrong.findings if finding.severity != "info"] == ["contradicts_itself"]


def test_round_trips_and_streams() -> None:
    (trip,) = points(read("sockperf", "sockperf-pp.txt", "format_sockperf"))
    assert trip.latency_ns is not None and trip.latency_ns.mean == near(10385) and trip.latency_ns.p99 == near(19634)
    (stream,) = points(read("sockperf", "sockperf-tp.txt", "format_sockperf"))
    assert stream.throughput.value == near(1.402 * 2**20)
    run = read("netperf", "stream.txt", "format_netperf")
    assert [round(p.throughput.value * 8 / 1e6, 2) for p in points(run)] == [9411.72, 9408.69]
    assert points(run, 1)[0].throughput.value == near(23512.44)
    (echo,) = points(read("ping", "ping.txt", "format_ping"))
    assert echo.parameters == {"protocol": "icmp", "message": 1000, "path": "loopback"}


def test_parallel_file_systems() -> None:
    assert points(read("mdtest", "mdtest.txt"))[1].throughput.value == near(11570.113)
    write, reads = points(read("ior", "ior.txt"))
    assert write.throughput.value == near(1890.22 * 2**20) and write.parameters["bs"] == 1 << 20
    assert reads.parameters == {"ranks": 4, "bs": 1 << 20, "size": 4 << 30, "rw": "read"}
    write, _ = points(read("elbencho", "elbencho.txt"))
    assert write.throughput.value == near(999 * 2**20) and write.latency_ns is not None


IOR_OLD = """IOR-3.0.1: MPI Coordinated Test of Parallel I/O

Summary:
        api                = POSIX
        access             = single-shared-file
        clients            = 24 (12 per node)
        repetitions        = 1
        xfersize           = 262144 bytes
        blocksize          = 2 MiB
        aggregate filesize = 48 MiB
access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ---------- ---------  --------   --------   --------   --------   ----
Commencing write performance test: Tue Dec 16 11:34:22 2014
write     31.25      2048.00    256.00     0.004612   1.52       0.01       1.54       0
remove    -          -          -          -          -          -          0.002008   0
Max Write: 31.25 MiB/sec (32.77 MB/sec)
"""
IOR_SUMMARY = """
Max Write: 4100.00 MiB/sec (4299.16 MB/sec)
Max Read:  5500.00 MiB/sec (5767.17 MB/sec)

Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev    Mean(s) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt blksiz xsize aggsize API RefNum
write        4100.00    3700.00    3900.00     164.00   84.02 0 32 4 4 1 0 1 0 0 1 10737418240 8388608 343597383680 POSIX 0
read         5500.00    4700.00    5100.00     300.00   64.25 0 32 4 4 1 0 1 0 0 1 10737418240 8388608 343597383680 POSIX 0

Finished: Tue Oct  8 16:59:51 2019
"""  # noqa: E501 - as the tool prints it


def test_iors_older_texts_state_their_ranks_and_a_summary_alone_its_mean() -> None:
    (old,) = points(ior.read(IOR_OLD, "old.txt"))
    assert old.parameters == {"ranks": 24, "bs": 256 << 10, "size": 48 << 20, "rw": "write"}
    assert old.throughput.value == near(31.25 * 2**20)
    write, reads = points(ior.read(IOR_SUMMARY, "summary.txt"))
    assert write.parameters == {"ranks": 32, "bs": 8 << 20, "size": 320 << 30, "rw": "write"}
    assert (write.throughput.value, reads.throughput.value) == (near(3900 * 2**20), near(5100 * 2**20))
    assert reads.details["repetitions"] == 4
    assert reads.details["printed"]["bw_min"] == near(4700 * 2**20)
    assert reads.details["printed"]["bw_max"] == near(5500 * 2**20)
    newer = IOR_SUMMARY.replace("StdDev    Mean(s)", "StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    Mean(s)")
    newer = newer.replace("aggsize", "aggs(MiB)").replace("343597383680", "327680.0")
    newer = newer.replace("84.02", "512.5 462.5 487.5 20.5 84.02").replace("64.25", "687.5 587.5 637.5 37.5 64.25")
    write, _ = points(ior.read(newer, "newer.txt"))
    assert write.parameters["size"] == 320 << 30 and write.throughput.value == near(3900 * 2**20)


def test_gpus() -> None:
    run = read("nvbandwidth", "nvbandwidth.txt")
    assert run.experiments[0].fixed["device"] == "NVIDIA A100-SXM4-80GB"
    assert [p.parameters["operation"] for p in points(run)][::2] == [
        "host-to-device", "device-to-host", "device-to-device-p2p",
    ]  # fmt: skip
    assert points(read("cuda_bandwidth", "bandwidthtest.txt"))[2].throughput.value == near(239.4e9)
    found = points(read("clpeak", "clpeak.txt"))
    assert {p.throughput.unit for p in found} == {"bytes/s", "FLOP/s", "s"}


def test_suites() -> None:
    run = read("phoronix", "composite.xml")
    memory = next(experiment for experiment in run.experiments if experiment.resource == "memory")
    assert memory.points[0].throughput.value == near(41234.5e6) and memory.points[0].repeats == 3
    assert points(read("phoronix", "result.json"))[0].throughput.value == near(21034.5e6)
    first = read("geekbench", "result.json").experiments[0].points[0]
    assert first.throughput.value == near(21.3e9) and first.details["score"] == 2100
    assert points(read("geekbench", "result.xml"))[0].parameters["threads"] == 8


PHORONIX_RESULT = {"value": "2195.02", "all_results": "2190.11:2195.02:2199.93"}
PHORONIX_JSON = {
    "as it was until 2018, by the test": {"pts/ramspeed-1.4.0": {"arguments": "Type: Copy", "units": "MB/s",
                                          "results": {"a": PHORONIX_RESULT}}},
    "as it was until 2021, a list": [{"test": "pts/ramspeed-1.4.0", "arguments": "Type: Copy", "units": "MB/s",
                                      "results": {"a": PHORONIX_RESULT}}],
    "as it is, by a hash": {"0f3a": {"identifier": "pts/ramspeed-1.4.0", "title": "RAMspeed SMP",
                                     "description": "Type: Copy", "scale": "MB/s", "proportion": "HIB",
                                     "display_format": "BAR_GRAPH",
                                     "results": {"a": {"value": 2195.02, "raw_values": [2190.11, 2195.02, 2199.93],
                                                       "test_run_times": [87, 85.5, 87.2]}}}},
}  # fmt: skip


@pytest.mark.parametrize("results", PHORONIX_JSON.values(), ids=PHORONIX_JSON)
def test_each_json_that_phoronix_has_written(results: object) -> None:
    text = json.dumps({"title": "a", "results": results})
    ((run,), _) = formats.read_every(text, "a.json")
    (table,) = run.experiments
    (point,) = table.points
    assert table.resource == "memory"
    assert point.parameters["operation"] in {"ramspeed Type: Copy", "RAMspeed SMP Type: Copy"}
    assert point.throughput.value == near(2195.02e6) and point.repeats == 3
    assert point.throughput.low is not None and point.throughput.low < 2195.02e6


def test_what_geekbench_counts_keeps_the_prefix_of_its_unit() -> None:
    """The shape of a ``.gb6`` file; one of its units is a thousand lines, another a million pixels."""
    rates = {"Clang": ("4.24 Klines/sec", 4240), "HDR": ("31.5 Mpixels/sec", 31.5e6), "Maps": ("12.5 routes/sec", 12.5)}
    workloads = [{"name": name, "score": 860, "rate_string": text} for name, (text, _) in rates.items()]
    workloads.append({"name": "File Compression", "score": 650, "rate_string": "93.4 MB/sec"})
    sections = [{"name": "Single-Core", "score": 700, "workloads": workloads}]
    document = {"version": "Geekbench 6.7.1", "score": 700, "multicore_score": 2100, "sections": sections}
    found = points(geekbench.read(json.dumps(document), "one.gb6"))
    assert [(point.throughput.value, point.throughput.unit) for point in found] == [
        *((near(value), "operations/s") for _, value in rates.values()),
        (near(93.4e6), "bytes/s"),
    ]


def test_xml_with_entities_is_refused_in_one_line() -> None:
    text = '<!DOCTYPE a [<!ENTITY b "c">]><PhoronixTestSuite>&b;</PhoronixTestSuite>'
    with pytest.raises(UserError, match="declares entities"):
        formats.read_as(formats.list_formats()["phoronix"], text, "x.xml")


@pytest.mark.parametrize(
    ("cell", "value", "rounding"),
    [("1,234", 1234, 0.5 / 1234), ("3,73", 3.73, 0.005 / 3.73), ("138k", 138e3, 0.5 / 138),
     ("138000", 138e3, 0.5 / 138), ("1.234,5", 1234.5, 0.05 / 1234.5),
     ("~12.0 ms", 12, 0.05 / 12), ("1 234", 1234, 0.5 / 1234)],
)  # fmt: skip
def test_cell_has_number_and_rounding(cell: str, value: float, rounding: float) -> None:
    from hwdyno.model.quantities import number_in

    found = number_in(cell)
    assert found is not None and found.value == near(value) and found.rounding == near(rounding)


@pytest.mark.parametrize(
    ("head", "quantity", "unit", "statistic"),
    [("BW (MB/s)", "bw", "MB/s", ""), ("lat avg us", "lat", "us", "mean"), ("IOPS", "iops", "IOPS", ""),
     ("bs", "bs", "", ""), ("QD", "iodepth", "", ""), ("throughput_mb_s", "bw", "MB/s", ""),
     ("99th percentile latency (ms)", "lat", "ms", "p99"), ("p99.9 (µs)", "lat", "us", "p999"),
     ("Latency Average (u-sec)", "lat", "us", "mean"), ("gbit_s", "bw", "Gbit/s", ""), ("AU (%)", "au", "%", ""),
     ("Bitrate (Gbits/sec)", "bw", "Gbit/s", ""), ("gflops_max", "flops", "GFLOP/s", "max"),
     ("Inject Delay (cycles)", "delay", "cycles", ""), ("% of peak", "share", "%", ""), ("Min BW", "bw", "", "min")],
)  # fmt: skip
def test_head_says_quantity_unit_and_statistic(head: str, quantity: str, unit: str, statistic: str) -> None:
    from hwdyno.formats.column import parse_head

    found = parse_head(head)
    assert (found.quantity, found.unit.name if found.unit else "", found.statistic) == (quantity, unit, statistic)


def test_tables_in_html_markdown_and_with_tabs_are_the_same() -> None:
    rows = [("bs", "QD", "BW (MB/s)"), ("4k", "8", "410"), ("128k", "8", "3210")]
    made = {
        "csv": "\n".join(",".join(row) for row in rows),
        "tsv": "\n".join("\t".join(row) for row in rows),
        "md": "\n".join(["|".join(rows[0]), "-|-|-", *("|".join(row) for row in rows[1:])]),
        "html": "<table>" + "".join("<tr>" + "".join(f"<td>{c}" for c in row) + "</tr>" for row in rows) + "</table>",
    }
    read_ = {kind: published.read(text, kind) for kind, text in made.items()}
    found = {tuple((p.parameters["bs"], p.throughput.value) for p in points(run)) for run in read_.values()}
    assert found == {((4096, 410e6), (131072, 3210e6))}
