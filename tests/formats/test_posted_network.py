"""Results of networks, GPUs and serving as people post them: system logs, frames, lines of statistics, sentences."""

from __future__ import annotations

import pytest
from hwdyno import formats
from hwdyno.model.words import Measurement


def points(text: str) -> list[Measurement]:
    runs, _ = formats.read_every(text, "post.txt")
    return [point for run in runs for result in run.experiments for point in result.points]


def resources(text: str) -> set[str]:
    return {result.resource for run in formats.read_every(text, "post.txt")[0] for result in run.experiments}


FIGURES: dict[str, tuple[str, list[float]]] = {
    "a rate's unit in brackets": (
        "| Driver | Duration | Avg value |\n| --- | --- | --- |\n"
        "| one | 10 | 5000.25 (op/s) |\n| two | 10 | 400.5 (op/s) |\n",
        [5000.25, 400.5],
    ),
    "named statistics": (
        "  wait_time.....: avg=1.5ms min=900µs med=1.25ms max=0.14s p(90)=1.75ms p(95)=1.8ms\n"
        "  tls_time......: avg=0s min=0s med=0s max=0s p(90)=0s\n"
        "  calls.........: 18000  601.25/s\n",
        [1.5e-3, 601.25],
    ),
    "a unit at the end of a heading": (
        "Device 0: A CPU\n\n  Word scan (v2) (GB/s)\n      scan ST : 50.5\n      scan MT : 400.25\n",
        [50.5e9, 400.25e9],
    ),
    "times of tokens": (
        "TTFT: 20.5 ± 0.5 ms\nTPOT: 19.25 ± 0.5 ms\nThroughput : 48.5 tokens/s\n",
        [20.5e-3, 19.25e-3, 48.5],
    ),
    "bold with its unit": (
        "sockperf: == version #3.7 ==\nsockperf: Summary: Latency is **100.5 usec**\n"
        "sockperf: ---> MAX observation = 200.25\n",
        [100.5e-6],
    ),
    "labels of several kinds": (
        "Summary:\n  Total:\t1.5 secs\n  Slowest:\t0.75 secs\n  Requests/sec:\t6.5\n\n"
        "Details (first, second, third):\n  dial:\t0.02 secs, 0.7 secs, 0.8 secs\n"
        "  read:\t0.01 secs, 0.1 secs, 0.2 secs\n",
        [6.5],
    ),
    "a unit in square brackets": (
        "Concurrency Level:      50\nTime taken for tests:   45.5 seconds\nComplete requests:      3000\n"
        "Requests per second:    65.75 [#/sec] (mean)\n",
        [65.75],
    ),
    "a clock before each line": (
        "2024/07/12 02:25:54 Request throughput (req/sec): 5.25\n"
        "2024/07/12 02:25:54 Generation throughput (tokens/second) avg: 21.5\n",
        [5.25, 21.5],
    ),
    "sentences of a paragraph": (
        "The card of this host is sold with 100 Gbps and it never saw them. "
        "The test wrote 4500 MB/s to the other host. "
        "By its counters it would be 2 GB/s, which we do not understand at all.\n",
        [4500e6],
    ),
}


@pytest.mark.parametrize("shape", FIGURES)
def test_posted_figures(shape: str) -> None:
    text, values = FIGURES[shape]
    assert [point.throughput.value for point in points(text)] == pytest.approx(values)


def test_statistics_are_a_distribution() -> None:
    latency = points(FIGURES["named statistics"][0])[0].latency_ns
    assert latency is not None
    assert latency.mean == pytest.approx(1.5e6)
    assert latency.p50 == pytest.approx(1.25e6)
    assert latency.p90 == pytest.approx(1.75e6)
    assert latency.max == pytest.approx(0.14e9)


def test_log_prefix_states_nothing() -> None:
    """A clock's 58:50 is no share of reads, and ``task 2044`` no option of a command."""
    text = (
        "Jan 02 14:58:42 host-8 server[12]: slot   operator(): id  0 | task 2044 | n_past was set to 9\n"
        "Jan 02 14:58:50 host-8 server[12]: slot timing: id  0 | n_gen =  673, tg =  18.5 t/s\n"
    )
    (point,) = points(text)
    assert point.throughput.value == 18.5
    assert {*point.parameters} == {"row"}


def test_framed_table_is_read() -> None:
    text = (
        "                LLM results\n┏━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━┓\n"
        "┃  Statistic ┃        avg ┃        p99 ┃\n┡━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━┩\n"
        "│ Request latency (ns) │ 4,100,000,000 │ 5,200,000,000 │\n│ Num output token │ 331 │ 412 │\n"
        "└────────────┴────────────┴────────────┘\n"
    )
    assert [point.throughput.value for point in points(text)] == pytest.approx([4.1, 5.2])
    assert resources(text) == {"inference"}


def test_tokens_are_inference_on_a_gpu() -> None:
    assert resources("My host has a GPU. We reached about 2000 tokens per second with it.\n") == {"inference"}


def test_copies_of_unknown_kind_are_no_storage() -> None:
    text = (
        " C copy backwards   :   1854.5 MB/s\n C copy backwards (32 B)   :   1853.5 MB/s\n C copy   :   1855.5 MB/s\n"
    )
    assert resources(text) != {"storage"}
