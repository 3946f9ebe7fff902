"""Results as people post them: in code fences, in bold, behind comment marks, cut, with a spread beside a figure."""

from __future__ import annotations

from typing import Any

import pytest
from hwdyno import formats
from hwdyno.explain.findings import explain
from hwdyno.model.words import Measurement, Run

MIB = float(1 << 20)


def runs_of(text: str) -> list[Run]:
    return formats.read_every(text, "post.txt")[0]


def points(text: str) -> list[Measurement]:
    return [point for run in runs_of(text) for result in run.experiments for point in result.points]


def resources(text: str) -> set[str]:
    return {result.resource for run in runs_of(text) for result in run.experiments}


FIGURES: dict[str, tuple[str, list[float]]] = {
    "a spread is no figure": ("Set A decodes at 61.5 ± 0.3 t/s here.\n", [61.5]),
    "cells with spreads": (
        "| Backend | pp512 | tg128 |\n| --- | ---: | ---: |\n"
        "| one | 1800.5 ± 33.7 t/s | 58.4 ± 0.1 t/s |\n| two | 2001.0 ± 2.6 t/s | 62.4 ± 0.1 t/s |\n",
        [1800.5, 58.4, 2001.0, 62.4],
    ),
    "bold figures": (
        "#bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        "1024       1000             0.00               **5000.00**\t\t   5.120000\n",
        [5000 * MIB],
    ),
    "a fence below the rows": (
        "```\n# OSU MPI_Put Bandwidth Test v5.3\n# Size      Bandwidth (MB/s)\n"
        "1                       1.75\n4096                 4440.10\n```\n",
        [1.75e6, 4440.1e6],
    ),
    "behind comment marks": (
        "  # [ ID] Interval       Transfer     Bandwidth\n  # [  4]  0.0-60.0 sec  3730 MBytes  521 Mbits/sec\n"
        "  # [  5]  0.0-60.0 sec  3499 MBytes  489 Mbits/sec\n  # [SUM]  0.0-60.0 sec  7229 MBytes  1010 Mbits/sec\n",
        [1010e6 / 8],
    ),
    "words behind the figure": ("latency average: 9.2 ms\ntps = 108.7 (including connections establishing)\n", [108.7]),
    "the mean in brackets": (
        "[RUN #1 100%, 105 secs] 0 threads: 600 ops, 1200 (avg: 570) ops/sec, 420.9MB/sec (avg: 187.2MB/sec)\n",
        [187.2e6],
    ),
    "glued to its name": ("   IOPS=700000, BWPS=2734 MB, IOS/call=32/31\n", [7e5]),
    "several in a line": (
        "For scsi we got 440 MB/s, and 2150 MB/s for virtio; the lab had about 380 MB/s.\n",
        [440e6, 2150e6, 380e6],
    ),
    "columns without heads": ("│  │    9.99 GB/s   │ 3.80 GB/s  │ 8.99 GB/s  │\nRead: 5 MB/s\n", [5e6]),
    "one figure in two units": ("Max Write: 1000.00 MiB/sec (1048.58 MB/sec)\n", [1000 * MIB]),
    "a readme of lines with commas": (
        "1 file, 1 thread, seq 1M writes, simple: 101 write iops\n1 file, 16 threads, rnd 4k writes: 144 write iops\n",
        [101, 144],
    ),
    "a deeply indented job of fio 2": (
        f"{' ' * 57}rand: (groupid=0, jobs=1): err= 0: pid=5: Mon Jul  1 22:14:42 2019\n"
        f"{' ' * 59}write: io=240000KB, bw=24000KB/s, iops=6000, runt= 10000msec\n",
        [24000 * 1024],
    ),
    "the end of sysbench's files": (
        "File operations:\n    reads/s:                      0.00\n    writes/s:                     15000.00\n"
        "    fsyncs/s:                     19500.00\n\nThroughput:\n    read, MiB/s:                  0.00\n"
        "    written, MiB/s:               234.38\n\nGeneral statistics:\n"
        "    total time:                          10.0000s\n    total number of events:              345000\n",
        [234.38 * MIB],
    ),
    "warp before 0.3": (
        "Mixed operations.\n\nOperation: GET\n * 212.79 MB/s, 120.80 obj/s (1m59.954s, starting 05:25:19 PST)\n\n"
        "Throughput by host:\n * http://127.0.0.1:9000: Avg: 115.33 MB/s, 65.98 obj/s (1m59.896s)\n"
        " * http://127.0.0.1:9001: Avg: 97.47 MB/s, 54.84 obj/s (1m59.954s)\n",
        [212.79 * MIB],
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_read(name: str) -> None:
    text, expected = FIGURES[name]
    assert [point.throughput.value for point in points(text)] == pytest.approx(expected)


STATED: dict[str, tuple[str, str, Any]] = {
    "a rate with a suffix is no block size": (
        "A: Random Read/Write IOPS: 235k/189k. BW: 766MiB/s / 419MiB/s\n", "bs", None,
    ),
    "sizes above the columns": (
        "Block Size | 4kb (IOPS) | 64kb (IOPS)\n ------ | --- --- | --- ---\n"
        "Read | 2.48 MB/s (621) | 32.6 MB/s (510)\n",
        "bs", 65536,
    ),
    "words behind a figure": (
        "About 334 MB/s sequential write speeds and 439 MB/s sequential reads.\n", "rw", None,
    ),
    "one of two is no mix": ("[1/2] 453 15450 read: 7.056 GBps\n", "rwmixread", None),
    "a sum alone has several streams": (
        "[SUM]   0.00-10.00  sec  5.97 GBytes  5.12 Gbits/sec  11749             sender\n"
        "[SUM]   0.00-10.03  sec  5.96 GBytes  5.11 Gbits/sec                  receiver\n",
        "streams",
        None,
    ),
    "4K beside Seq is random": (
        "| Test | Read MB/s |\n| --- | --- |\n| Seq Q32T1 | 716.9 |\n| 4K Q32T1 | 58.04 |\n", "rw", "randread",
    ),
    "messages have sizes": (
        "# OSU MPI Multiple Bandwidth / Message Rate Test v5.7.1\n# [ pairs: 4 ] [ window size: 64 ]\n"
        "# Size                  MB/s        Messages/s\n1   5.00       5000000.00\n4096    9000.00   2197265.62\n",
        "bs",
        4096,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATED)
def test_a_load_is_what_was_stated(name: str) -> None:
    text, parameter, expected = STATED[name]
    assert points(text)[-1].parameters.get(parameter) == expected


RESOURCES: dict[str, tuple[str, str]] = {
    "messages are of a network": (STATED["messages have sizes"][0], "network"),
    "one GPU to another": ("memory interleaved\np2p-bandwidth [1/2] 453 15450: 7.056 GBps\n", "gpu"),
    "a title in the first comment": (FIGURES["a fence below the rows"][0], "network"),
    "a file is no processor's": ("CPU 0: ARMv7\nCopy of a block 92320.1 KBps (30.0 s, 2 samples)\n", "table"),
    "an upload to a host": ("Upload 1MB [==-] 11.55 mbit/s | 1MB in 692ms\n", "table"),
    "CPU consumption beside a disk": ("scsi shows 117 MB/s on the NVMe SSD; the CPU consumption is 50%.\n", "storage"),
    "the end of sysbench's files": (FIGURES["the end of sysbench's files"][0], "storage"),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_the_resource_is_what_was_measured(name: str) -> None:
    text, resource = RESOURCES[name]
    assert resources(text) == {resource}


def findings(text: str) -> set[str]:
    return {finding.rule for run in runs_of(text) for finding in explain(run).findings}


SERVING = (
    "============ Serving Benchmark Result ============\nTraffic request rate: {rate}\n"
    "Max request concurrency: {users}\nSuccessful requests: 660\nBenchmark duration (s): 55.42\n"
    "Total generated tokens: 675840\nRequest throughput (req/s): 11.91\n"
    "Output token throughput (tok/s): 12195.89\nMean E2E Latency (ms): 26530.12\nMean TTFT (ms): 2533.44\n"
)


def test_a_rate_above_the_limit_of_users_is_overload() -> None:
    assert "requested_rate" in findings(SERVING.format(rate="330.0", users="330"))
    assert "requested_rate" not in findings(SERVING.format(rate="12.0", users="330"))


def test_an_infinite_rate_is_read() -> None:
    text = (
        '{"backend": "sglang", "request_rate": Infinity, "max_concurrency": 32, "duration": 100.0, "completed": 300,'
        ' "total_output_tokens": 300000, "request_throughput": 3.0, "output_throughput": 3000.0, "mean_ttft_ms": 155.0,'
        ' "median_ttft_ms": 150.0, "p99_ttft_ms": 274.0}'
    )
    (point,) = points(text)
    assert point.parameters == {"concurrency": 32} and point.throughput.value == 3.0
