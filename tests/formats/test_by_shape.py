"""A text of no known tool is read by the shape of its lines, and tables by the place of their units."""

from __future__ import annotations

from typing import Any

import pytest
from hwdyno import formats
from hwdyno.model.quantities import find_quantities
from hwdyno.model.words import Measurement, UserError

MIB = float(1 << 20)


def points(text: str) -> list[Measurement]:
    runs, _ = formats.read_every(text, "post.txt")
    return [point for run in runs for result in run.experiments for point in result.points]


def figures(text: str) -> list[tuple[float, str]]:
    return [(round(point.throughput.value, 6), point.throughput.unit) for point in points(text)]


LINES: dict[str, tuple[str, list[tuple[float, str]]]] = {
    "dd": (
        "2560+0 records in\n2560+0 records out\n10737418240 bytes (11 GB, 10 GiB) copied, 5.5149 s, 1.9 GB/s\n",
        [(1.9e9, "bytes/s")],
    ),
    "hdparm": (
        "/dev/nvme0n1:\n Timing O_DIRECT disk reads: 2218 MB in  3.00 seconds = 738.77 MB/sec\n",
        [(738.77e6, "bytes/s")],
    ),
    "columns of words and rates": ("Set      267745.41 MB/s\nTriad   260235.19 MB/s\n", 2 * [(0.0, "bytes/s")]),
    "a unit in the words": ("Throughput:\n    read, MiB/s:      6.92\n", [(6.92 * MIB, "bytes/s")]),
    "figures of one result": (
        "Throughput: 5.99 requests/s\nAverage latency: 67.59 s\n",
        [(5.99, "operations/s")],
    ),
    "latencies below their unit": (
        "Latency (ms):\n   min:  3.06\n   avg:  3.10\n   max:  7.36\n   95th percentile:  3.19\n   sum: 99921.22\n",
        [(0.0031, "s")],
    ),
    "prose": ("My disk is new. In the test it read 512 MB/s, which is fine.\n", [(512e6, "bytes/s")]),
    "what is sold": ("The link is rated 985 MB/s.\nReads of 512 KiB: 512 MB/s\n", [(512e6, "bytes/s")]),
    "a row without a table": (
        "Block Size | 4k     (IOPS) | 64k    (IOPS)\n  ------   | ---     ----  | ----    ----\n"
        "Read       | 139.84 MB/s  (34.9k) | 1.34 GB/s    (21.0k)\n",
        [(139.84e6, "bytes/s"), (1.34e9, "bytes/s")],
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_are_read(name: str) -> None:
    text, expected = LINES[name]
    found = figures(text)
    assert len(found) == len(expected)
    for (value, unit), (wanted, of) in zip(found, expected, strict=True):
        assert unit == of
        assert wanted == 0.0 or value == pytest.approx(wanted)


def test_a_command_above_states_how_it_was_measured() -> None:
    copied = "1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.8 s, 1.3 GB/s\n"
    text = (
        f"$ dd bs=512k count=2048 if=/dev/zero of=/root/data\n{copied}$ dd bs=512k if=/root/data of=/dev/null\n{copied}"
    )
    assert [(p.parameters["rw"], p.parameters["bs"]) for p in points(text)] == [("write", 1 << 19), ("read", 1 << 19)]


def test_a_rate_that_its_own_bytes_and_time_contradict_is_named() -> None:
    (point,) = points("hdparm says reads: 2218 MB in  3.00 seconds = 738.77 GB/sec\n")
    assert any(abs(claim.stated / claim.follows - 1) > 0.5 for claim in point.claims)


def test_lines_that_are_not_read_are_counted() -> None:
    (run,), _ = formats.read_every("RAM: 15.4 GiB\nDisk: 244 GiB\nRead of the disk: 512 MB/s\n", "post.txt")
    assert [note.says for note in run.notes] == ["2 lines, for example 'RAM: 15.4 GiB'"]


DD = "{0} bytes (4.3 GB, 4.0 GiB) copied, {1} s, {2} MB/s\n"
RECORDS = "4096+0 records in\n4096+0 records out\n"


@pytest.mark.parametrize(
    ("lines", "rates"),
    [
        (DD.format(2000, 2, 617) + DD.format(3000, 5, 647) + RECORDS + DD.format(4000, 6.5, 661), [661]),
        (RECORDS + DD.format(4000, 6.5, 661) + RECORDS + DD.format(4000, 6.4, 671), [661, 671]),
        (DD.format(4000, 6.5, 661) + DD.format(4000, 6.4, 671), [661, 671]),
    ],
    ids=["progress and a result", "two results with their records", "two results alone"],
)
def test_progress_of_dd_is_no_result(lines: str, rates: list[int]) -> None:
    assert [value / 1e6 for value, _ in figures(lines)] == rates


@pytest.mark.parametrize("text", ["hello\n", "", "RAM: 16 GiB\n", "It took 5 s and 3 retries.\n", "8 GT/s, 1866 MHz\n"])
def test_a_text_without_a_result_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="no known tool's output"):
        formats.read_every(text, "post.txt")


def test_quantities_are_found_where_they_stand() -> None:
    found = list(find_quantities("of 3 runs, 1.5 GB/s (12k IOPS) in 10 ms at 99%, v2.5"))
    assert [(quantity.kind, pytest.approx(quantity.base)) for quantity in found] == [
        ("bytes/s", 1.5e9),
        ("operations/s", 12_000),
        ("s", 0.01),
        ("1", 0.99),
    ]


# --- tables

TABLES: dict[str, tuple[str, list[tuple[dict[str, Any], float, str]]]] = {
    "an unknown rate is a rate": (
        "| model | t/s |\n|---|---|\n| llama 7B | 61.03 |\n| llama 13B | 31.2 |\n",
        [({}, 61.03, "operations/s"), ({}, 31.2, "operations/s")],
    ),
    "seconds in the plural": ("| drive | MB/secs |\n|---|---|\n| a | 100 |\n", [({}, 100e6, "bytes/s")]),
    "a unit in words": ("| drive | Megabytes per second |\n|---|---|\n| a | 100 |\n", [({}, 100e6, "bytes/s")]),
    "a latency alone is a latency": (
        "| pattern | bs | iodepth | lat us |\n|---|---|---|---|\n| randread | 4k | 32 | 10549 |\n",
        [({"iodepth": 32}, 0.010549, "s")],
    ),
    "4k read beside 4k random read": (
        "| test | result |\n|---|---|\n| 4k read | 57805 KB/s |\n| 4k random read | 56036 KB/s |\n",
        [({"rw": "read"}, 57805e3, "bytes/s"), ({"rw": "randread"}, 56036e3, "bytes/s")],
    ),
    "4k read alone": (
        "| test | result |\n|---|---|\n| 4k read | 57805 KB/s |\n",
        [({"rw": "randread"}, 57805e3, "bytes/s")],
    ),
    "a dash is a missing figure": (
        "| test | A | B |\n|---|---|---|\n| read | 70 GB/s | — |\n| write | 5 GB/s | 56 GB/s |\n",
        [({}, 70e9, "bytes/s"), ({}, 5e9, "bytes/s"), ({}, 56e9, "bytes/s")],
    ),
    "each row in its own unit": (
        "| test | result |\n|---|---|\n| seq read | 700 MB/s |\n| 4k random read | 50000 IOPS |\n",
        [({}, 700e6, "bytes/s"), ({}, 50_000, "operations/s")],
    ),
    "rows without a head": (
        "copy     1975.6 MB/s\nscale    3333.5 MB/s\n",
        [({}, 1975.6e6, "bytes/s"), ({}, 3333.5e6, "bytes/s")],
    ),
    "a unit in the corner": (
        "| KB/s | A | B |\n|---|---|---|\n| write | 5000 | 6000 |\n",
        [({}, 5e6, "bytes/s"), ({}, 6e6, "bytes/s")],
    ),
    "a unit in a caption": (
        "KBps\n\n| test | A |\n|---|---|\n| write | 5000 |\n| read | 7000 |\n",
        [({}, 5e6, "bytes/s"), ({}, 7e6, "bytes/s")],
    ),
    "a head over two columns": (
        "| | Read | | Write | |\n|---|---|---|---|---|\n| bs | IOPS | MB/s | IOPS | MB/s |\n"
        "| 4k | 1000 | 4.1 | 500 | 2 |\n| 64k | 900 | 59 | 450 | 29.5 |\n",
        [({"rw": "read"}, 4.1e6, "bytes/s"), ({"rw": "write"}, 2e6, "bytes/s"), ({"rw": "read"}, 59e6, "bytes/s"),
         ({"rw": "write"}, 29.5e6, "bytes/s")],
    ),
    "wide heads above aligned columns": (
        "         Read           Write\nbs    IOPS   MB/s   IOPS   MB/s\n4k    1000   4.1    500    2\n",
        [({"rw": "read"}, 4.1e6, "bytes/s"), ({"rw": "write"}, 2e6, "bytes/s")],
    ),
    "two columns of one head": (
        "| bs | MB/s | MB/s |\n|---|---|---|\n| 4k | 10 | 20 |\n",
        [({}, 10e6, "bytes/s"), ({}, 20e6, "bytes/s")],
    ),
    # github.com/RRZE-HPC/gpu-benches, issue 12.
    "groups of columns between pipes": (
        "block smBlocks   threads    occ%   |                init       read\n"
        "  16      2112       1    0.8%     |  GB/s:          76         32\n"
        "  32      4224       1    1.6%     |  GB/s:         150         63\n",
        [({"bs": None}, value, "bytes/s") for value in (76e9, 32e9, 150e9, 63e9)],
    ),
    # github.com/geerlingguy/sbc-reviews, issue 65: ramlat, the text's end included.
    "names that begin with digits": (
        "results in ns:\n\n       size:  1x32  2x32\n         4k: 3.697 3.670\n         8k: 3.667\n",
        [({"working_set": kib << 10}, ns * 1e-9, "s") for kib, ns in ((4, 3.697), (4, 3.67), (8, 3.667))],
    ),
    # github.com/ThomasKaiser/sbc-bench: tinymembench.
    "times that a slash parts": (
        "block size : single random read / dual random read\n    1024 :    0.0 ns   /     0.0 ns\n"
        "   65536 :    7.9 ns   /    11.1 ns\n",
        [({"bs": 65536}, 7.9e-9, "s"), ({"bs": 65536}, 11.1e-9, "s")],
    ),
    "pipes without a rule": ("test | KB/s\nwrite | 5000\nread | 7000\n", [({}, 5e6, "bytes/s"), ({}, 7e6, "bytes/s")]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read(name: str) -> None:
    text, expected = TABLES[name]
    found = points(text)
    assert [(point.throughput.value, point.throughput.unit) for point in found] == [
        (pytest.approx(value), unit) for _, value, unit in expected
    ]
    for point, (stated, _, _) in zip(found, expected, strict=True):
        assert {key: point.parameters.get(key) for key in stated} == stated


@pytest.mark.parametrize("unit", ["GT/s", "MHz", "GiB"])
def test_a_column_of_no_result_gives_none(unit: str) -> None:
    with pytest.raises(UserError, match="no known tool's output"):
        formats.read_every(f"| drive | {unit} |\n|---|---|\n| a | 100 |\n| b | 110 |\n", "post.md")


def test_a_unit_closes_the_sentence_above_its_tables() -> None:
    text = "12 disks, 32 GB RAM, KBps\n\n| | RAID6 |\n|---|---|\n| write | 552645 |\n| read | 128838 |\n"
    assert figures(text) == [(552645e3, "bytes/s"), (128838e3, "bytes/s")]


def test_a_link_clock_is_neither_a_result_nor_a_ceiling() -> None:
    text = "| CPU | Bus speed | Bandwidth |\n|---|---|---|\n| a | 6.4 GT/s | 42.6 GB/s |\n| b | 8 GT/s | 59.7 GB/s |\n"
    assert figures(text) == [(42.6e9, "bytes/s"), (59.7e9, "bytes/s")]
    assert all("ceiling" not in point.details.get("printed", {}) for point in points(text))


def test_a_cell_without_a_unit_is_in_that_of_the_cells_above_it() -> None:
    text = "| readers | CPU |\n|---|---|\n| alone | 70 GB/s |\n| both | 37 |\n"
    assert figures(text) == [(70e9, "bytes/s"), (37e9, "bytes/s")]


def test_rows_of_one_pattern_keep_their_names() -> None:
    text = " C copy backwards    :   1975.6 MB/s\n C copy prefetched   :   3169.8 MB/s\n C fill    :   6266.9 MB/s\n"
    assert [point.parameters["test"] for point in points(text)] == ["C copy backwards", "C copy prefetched", "C fill"]


def test_a_serving_result_that_states_no_load_has_none() -> None:
    text = (
        "============ Serving Benchmark Result ============\nSuccessful requests:                     1000\n"
        "Benchmark duration (s):                  30.85\nTotal input tokens:                      1000\n"
        "Total generated tokens:                  100000\nRequest throughput (req/s):              32.42\n"
        "Output token throughput (tok/s):         3241.00\nMean TTFT (ms):                          9600.00\n"
        "Median TTFT (ms):                        9500.00\nP99 TTFT (ms):                           12000.00\n"
    )
    (point,) = points(text)
    assert "concurrency" not in point.parameters and "rate" not in point.parameters
