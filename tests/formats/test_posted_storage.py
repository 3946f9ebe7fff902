"""Results of storage, databases and processors as people post them: listed names, rows of several kinds, intervals."""

from __future__ import annotations

import pytest
from hwdyno import formats
from hwdyno.formats.column import parse_pattern
from hwdyno.model.quantities import find_quantities, number_in
from hwdyno.model.words import Measurement, UserError

MIB = float(1 << 20)


def points(text: str) -> list[Measurement]:
    runs = formats.read_every(text, "post.txt")[0]
    return [point for run in runs for result in run.experiments for point in result.points]


FIGURES: dict[str, tuple[str, list[tuple[float, str]]]] = {
    "a shell's time is no rate": (
        "fillseq : 2.000 micros/op 500000 ops/sec; 55.0 MB/s\nreal\t1m3.939s\nuser\t0m41.962s\nsys\t0m2.829s\n",
        [(55e6, "bytes/s")],
    ),
    "rates of several kinds in a column": (
        "|   ITEM     |   VALUE       |\n|---|---|\n| Write big  | 512.5 MiB/s   |\n| Write many |  44.0 files/s |\n"
        "| Read many  | 700.0 files/s |\n| Calls      | 17000 calls   |\n",
        [(512.5 * MIB, "bytes/s"), (44.0, "operations/s"), (700.0, "operations/s")],
    ),
    "listed names": (
        "[OVERALL], RunTime(ms), 20000\n[OVERALL], Throughput(ops/sec), 4786.25\n[READ], Operations, 499\n"
        "[READ], AverageLatency(us), 1600.5\n[READ], LatencyVariance(us), 3.4E8\n"
        "[READ], 99thPercentileLatency(us), 7000\n",
        [(4786.25, "operations/s"), (1600.5e-6, "s")],
    ),
    "an interval is one figure": (
        "hash/size/0\n         time:   [205.2 ns 205.4 ns 205.6 ns]\n"
        "         thrpt:  [370.5 MiB/s 376.0 MiB/s 380.5 MiB/s]\n",
        [(376 * MIB, "bytes/s")],
    ),
    "a mean before its unit": (
        "[RUN #1 100%, 9 secs] 0 threads: 900 ops, 3500 (avg:  3600) ops/sec, 111.0MB/sec (avg: 112.5MB/sec)\n",
        [(112.5e6, "bytes/s")],
    ),
    "a range is no figure": (
        "Copies run at 130-160 MB/s, or between 90 and 120 MB/s.\nWrite: 35.5 MB/s\nQPS:  5,000  – 10,000 writes/sec\n",
        [(35.5e6, "bytes/s")],
    ),
    "words above the heads of a table": (
        "ALL STATS\n=====================================\n"
        "Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p99 Latency       KB/sec\n"
        "--------------------------------------------------------------------------------------------\n"
        "Sets         1000.50          ---          ---         0.69435        16.63900       512.25\n"
        "Waits           0.00          ---          ---             ---             ---          ---\n",
        [(512.25e3, "bytes/s")],
    ),
    "intervals of a pool": (
        "               capacity     operations    bandwidth\npool        alloc   free   read  write   read  write\n"
        "----------  -----  -----  -----  -----  -----  -----\n"
        "T           17.2T   103T     10  13.5K  41.5K  55.5M\nT           17.2T   103T      0      0      0      0\n"
        "  mirror        -      -      0    100      0   2.5M\n",
        [(41.5 * 1024, "bytes/s"), (55.5 * MIB, "bytes/s"), (2.5 * MIB, "bytes/s")],
    ),
    "devices of iostat": (
        "Device            r/s     rkB/s   rrqm/s  r_await     w/s     wMB/s   w_await  aqu-sz  %util\n"
        "dm-10          109.50  11710.00     0.00    9.23   41.00     32.50      8.57    1.36  71.30\n"
        "dm-11            0.00      0.00     0.00    0.00   16.50      1.50      2.94    2.38  82.80\n",
        [(11710 * 1024, "bytes/s"), (32.5 * MIB, "bytes/s"), (1.5 * MIB, "bytes/s")],
    ),
    "bytes with the letter of their way": ("Disk sda: 511.50 rkB/s\nRead: 5 MB/s\n", [(5e6, "bytes/s")]),
    "bytes in a column of bytes/s, by statistic": (
        "| Stat      | 1%      | 50%     | Avg       | Stdev  | Min     |\n|---|---|---|---|---|---|\n"
        "| Req/Sec   | 126719  | 146815  | 142995.25 | 8486.9 | 126696  |\n"
        "| Bytes/Sec | 23.8 MB | 27.6 MB | 26.5 MB   | 1.6 MB | 23.8 MB |\n",
        [(26.5e6, "bytes/s")],
    ),
    "times below a line whose unit is another": (
        "queries 10, QPS: 121.5, RPS: 27916625.879, MiB/s: 170.564.\n\n50.000%         0.008 sec.\n"
        "90.000%         0.011 sec.\n",
        [(121.5, "operations/s")],
    ),
    "a total without a pipe behind its label": (
        "thread |       bytes     |     I/Os     |     MB/s   |  I/O per s |  file\n"
        "-----------------------------------------------------------------------\n"
        "     0 |    121647398912 |       464048 |     193.50 |     773.40 | #2 (894GB)\n"
        "-----------------------------------------------------------------------\n"
        "total:      121647398912 |       464048 |     193.50 |     773.40\n",
        [(193.5e6, "bytes/s"), (193.5e6, "bytes/s")],
    ),
    "a count in thousands is no size": (
        "2.2 k requests completed in 3.0 s, 738 iops, 2.9 MiB/s\n",
        [(2.9 * MIB, "bytes/s")],
    ),
    "groups of columns between pipes": (
        " Name             # reqs      # fails     Avg     Min     Max  |  Median   req/s\n"
        "---------------------------------------------------------------------------------\n"
        " POST medium           7     0(0.00%)     468     199    1006  |     360    0.70\n"
        " POST short            2     0(0.00%)    1063     574    1553  |     570    0.33\n",
        [(0.7, "operations/s"), (0.33, "operations/s")],
    ),
    "a range in a cell": (
        "| Database | Read QPS | Write QPS |\n|---|---|---|\n| A | 25K | 5K |\n| B | 10K | 1K-2K |\n",
        [(25e3, "operations/s"), (5e3, "operations/s"), (10e3, "operations/s")],
    ),
    "memory of the machines is no resource": (
        "Three machines (32 cores, 128GB memory).\n100 threads, 1450 tps\n",
        [(1450.0, "operations/s")],
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_read(name: str) -> None:
    text, expected = FIGURES[name]
    found = [(point.throughput.value, point.throughput.unit) for point in points(text)]
    assert [unit for _, unit in found] == [unit for _, unit in expected]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected])


def test_the_memory_of_a_machine_is_not_measured() -> None:
    (run,) = formats.read_every(FIGURES["memory of the machines is no resource"][0], "post.txt")[0]
    assert run.experiments[0].resource == "table"


def test_a_count_and_a_query_name_no_resource() -> None:
    for name in ("a range in a cell", "times below a line whose unit is another"):
        (run,) = formats.read_every(f"CPU over threshold:\n{FIGURES[name][0]}", "post.txt")[0]
        assert {result.resource for result in run.experiments} == {"table"}
    assert "bs" not in points(FIGURES["a count in thousands is no size"][0])[0].parameters


def test_a_first_row_of_figures_below_fewer_heads_is_no_head() -> None:
    rows = (
        "type       total ops,    op/s,    mean\ntotal,       36,     36,    106.4\ntotal,       84,     48,     84.2\n"
    )
    with pytest.raises(UserError):
        formats.read_every(rows, "post.txt")


def test_several_times_beside_a_rate_are_counted() -> None:
    text = "| Load | Throughput (ops/sec) | Latency (ms) |\n|---|---|---|\n| A | 37377 | 1.5ms read, 12 ms update |\n"
    (run,) = formats.read_every(text, "post.txt")[0]
    assert [note.code for note in run.notes] == ["not_read"]


def test_waits_of_iostat_are_milliseconds() -> None:
    first, *_ = points(FIGURES["devices of iostat"][0])
    assert first.parameters == {"device": "dm-10", "rw": "read"}
    assert first.latency_ns is not None and first.latency_ns.mean == pytest.approx(9.23e6)


def test_a_column_without_a_unit_is_left_out_beside_others() -> None:
    _, says = formats.read_every(FIGURES["words above the heads of a table"][0], "post.txt")
    assert "'Avg. Latency' is not used (its unit is not stated" in says[0]


def test_a_listed_percentile_is_of_its_mean() -> None:
    (_, read) = points(FIGURES["listed names"][0])
    assert read.latency_ns is not None and read.latency_ns.p99 == pytest.approx(7e6)
    assert read.parameters["section"] == "READ"


def test_a_name_above_indented_figures_labels_them() -> None:
    (point,) = points(FIGURES["an interval is one figure"][0])
    assert point.parameters["section"] == "hash/size/0"


def test_heads_right_above_label_figures() -> None:
    text = (
        "#  Algorithm | Key |  Encryption |  Decryption\n"
        "     aes-one   128b    11.0 MiB/s    12.0 MiB/s\n     aes-two   256b     9.0 MiB/s     9.5 MiB/s\n"
    )
    found = points(text)
    assert [point.parameters["row"] for point in found[:2]] == ["aes-one 128b Encryption", "aes-one 128b Decryption"]
    assert all("bs" not in point.parameters for point in found)


def test_ruled_headings_label_rates() -> None:
    text = "".join(f"====== {name} ======\n  10 requests\n125.50 requests per second\n\n" for name in ("SET", "GET"))
    assert [point.parameters["section"] for point in points(text)] == ["SET", "GET"]


def test_a_rate_stands_beside_its_bandwidth() -> None:
    (point,) = points("out-disk-32G-2020-02-14@08:18:  write: IOPS=255, BW=256MiB/s (268MB/s)(32.0GiB/128135msec)\n")
    assert point.rate is not None and point.rate.value == 255
    assert point.parameters["rw"] == "write"
    assert not {"rwmixread", "bs"} & {*point.parameters}


def test_two_latencies_in_a_cell_are_none() -> None:
    text = "| Load | Throughput (ops/sec) | Latency (ms) |\n|---|---|---|\n| A | 3700 | 1.5ms read, 12 ms update |\n"
    (point,) = points(text)
    assert point.throughput.value == 3700
    assert point.latency_ns is None


def test_tasks_that_are_not_stated_are_unknown() -> None:
    text = "SUMMARY rate: (of 1 iterations)\n   File creation :  200.000  100.000  150.000  10.000\n"
    (point,) = points(text)
    assert "ranks" not in point.parameters


@pytest.mark.parametrize(
    ("words", "share"), [("read 70/30", 70), ("7:3 mix", 70), ("1:1", 50), ("at 08:18", None), ("32/31", None)]
)
def test_only_a_whole_is_a_mix(words: str, share: int | None) -> None:
    assert parse_pattern(words).get("rwmixread") == share


def test_a_time_of_minutes_is_in_seconds() -> None:
    number = number_in("3m30.5s")
    assert number is not None and number.value == 210.5
    assert [found.base for found in find_quantities("real 3m30.5s")] == [210.5]


RADOS = """rados bench -p made 2 write
Maintaining 16 concurrent writes of 4096 bytes to objects of size 4096 for up to 2 seconds or 0 objects
  sec Cur ops   started  finished  avg MB/s  cur MB/s last lat(s)  avg lat(s)
    0       0         0         0         0         0           -           0
    1      16       416       400     1.500     1.500    0.038000    0.040000
    2      16       816       800     1.625     1.625    0.041000    0.042000
Total time run:         2.0
Total writes made:      800
Write size:             4096
"""


def test_totals_of_an_object_store_are_read() -> None:
    (point,) = points(RADOS + "Bandwidth (MB/sec):     1.75\nAverage IOPS:   448\nAverage Latency(s):     0.035\n")
    assert point.throughput.value == 1.75 * MIB
    assert point.rate is not None and point.rate.value == 448
    assert point.latency_ns is not None and point.latency_ns.mean == pytest.approx(35e6)
    assert point.parameters == {"rw": "write", "bs": 4096, "iodepth": 16}


def test_totals_that_were_cut_are_the_last_row() -> None:
    (point,) = points(RADOS)
    assert point.throughput.value == 1.625 * MIB
    assert point.latency_ns is not None and point.latency_ns.mean == pytest.approx(42e6)


def test_a_first_line_of_figures_is_no_head() -> None:
    text = "Aligned reads:\n0.5KiB blocks:   5880 sectors/s,  3.01 MB/s\n  1KiB blocks:   7890 sectors/s,  4.03 MB/s\n"
    found = points(text)
    assert [point.throughput.value for point in found] == pytest.approx([3.01e6, 4.03e6])
    assert [point.rate.value for point in found if point.rate] == [5880, 7890]
    assert [point.parameters["row"] for point in found] == ["0.5KiB blocks", "1KiB blocks"]


def test_the_word_behind_a_rate_is_its_way() -> None:
    found = points("The share now does 1.5 GB/s writing and 2.5 GB/s reading.\n")
    assert [point.parameters["rw"] for point in found] == ["write", "read"]


def test_a_spread_is_no_label() -> None:
    found = points("Scan/rows=10-8     1.87MB/s ± 8%   2.51MB/s ± 1%\n")
    assert [point.parameters["row"] for point in found] == ["Scan/rows=10-8", "Scan/rows=10-8"]


def test_options_above_a_result_are_its_load() -> None:
    text = (
        "JobName: first\n  blocksize=4K filesize=2G iodepth=64 rw=randread\nread:\n"
        "  IOPS=1200.500000 BW(KiB/s)=4802\n  iops: min=1100 max=1300 avg=1201.5\n\n"
        "JobName: second\n  blocksize=128K filesize=2G iodepth=16 rw=randread\nread:\n"
        "  IOPS=1000.500000 BW(KiB/s)=128064\n"
    )
    first, second = points(text)
    assert first.throughput.value == 4802 * 1024
    assert first.rate is not None and first.rate.value == 1200.5
    assert {name: first.parameters[name] for name in ("bs", "iodepth", "rw")} == {
        "bs": 4096, "iodepth": 64, "rw": "randread",
    }  # fmt: skip
    assert (second.parameters["bs"], second.parameters["iodepth"]) == (131072, 16)


def test_a_count_beside_its_rate_is_no_rate() -> None:
    text = (
        "Total IO\nthread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  file\n"
        "------------------------------------------------------------------\n"
        "     0 |      1353888563 |        20657 |     129.11 |    2064.17 | made.dat\n"
    )
    (point,) = points(text)
    assert point.throughput.value == 129.11 * MIB
    assert point.rate is not None and point.rate.value == 2064.17
