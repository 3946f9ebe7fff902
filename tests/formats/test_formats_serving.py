"""What vLLM, AIPerf and guidellm report becomes points under the right names: their words have other formulas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwdyno import formats
from hwdyno.analysis.resources import find_rate_word
from hwdyno.explain.findings import explain
from hwdyno.model.words import Measurement, Run, UserError

SEEDS = Path(__file__).parents[1] / "data" / "fuzz"


def _read(name: str, file: str) -> Run:
    text = (SEEDS / name / file).read_text()
    form = formats.list_formats()[name]
    known = {
        format_name: known_format
        for format_name, known_format in formats.list_formats().items()
        if format_name != "published"
    }
    assert [format_name for format_name, known_format in known.items() if known_format.recognizes(text)] == [name]
    return formats.read_as(form, text, file)


def _times(point: Measurement) -> dict[str, float]:
    return {kind: latency.mean for stream in point.streams for kind, latency in stream.latency_ns.items()}


@pytest.mark.parametrize(
    ("name", "file", "kinds"),
    [
        ("vllm_bench", "concurrency.json", {"first_token_sent", "per_token", "chunk_gap", "total"}),
        ("aiperf", "concurrency.json", {"first_token_sent", "per_token", "chunk_gap", "total"}),
        # Its time per output token includes the TTFT: no TPOT.
        ("guidellm", "benchmarks.json", {"first_token_sent", "per_token", "total"}),
    ],
)
def test_same_load_reads_alike_everywhere(name: str, file: str, kinds: set[str]) -> None:
    point = _read(name, file).experiments[0].points[0]
    assert point.parameters == {"concurrency": 4}
    assert point.throughput.value == 5.0 and point.details["output_tokens_s"] == 160.0
    assert set(_times(point)) == kinds
    assert _times(point)["first_token_sent"] == pytest.approx(120.5e6)
    assert _times(point)["per_token"] == pytest.approx(21e6)
    assert _times(point)["total"] == pytest.approx(771.5e6)
    assert point.operations == 40 and not any("first_token" in stream.latency_ns for stream in point.streams)


VLLM_PRINTED = """
INFO 11-20 warming up
============ Serving Benchmark Result ============
Successful requests:                     40
Failed requests:                         2
Maximum request concurrency:             4
Benchmark duration (s):                  8.00
Total input tokens:                      1280
Total generated tokens:                  1280
Request throughput (req/s):              5.00
Output token throughput (tok/s):         160.00
Peak concurrent requests:                6.00
Total Token throughput (tok/s):          320.00
---------------Time to First Token----------------
Mean TTFT (ms):                          120.50
Median TTFT (ms):                        118.00
P99 TTFT (ms):                           190.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          21.00
Median TPOT (ms):                        20.90
P99 TPOT (ms):                           25.00
---------------Inter-token Latency----------------
Mean ITL (ms):                           21.00
Median ITL (ms):                         20.50
P99 ITL (ms):                            31.00
----------------End-to-end Latency----------------
Mean E2EL (ms):                          771.50
Median E2EL (ms):                        770.00
P99 E2EL (ms):                           900.00
==================================================
"""
SGLANG_PRINTED = """
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 4
Successful requests:                     40
Benchmark duration (s):                  8.00
Total generated tokens:                  1280
Total generated tokens (retokenized):    1279
Request throughput (req/s):              5.00
Output token throughput (tok/s):         160.00
Concurrency:                             3.86
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   771.50
Median E2E Latency (ms):                 770.00
---------------Time to First Token----------------
Mean TTFT (ms):                          120.50
Median TTFT (ms):                        118.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          21.00
Median TPOT (ms):                        20.90
==================================================
"""


@pytest.mark.parametrize(
    ("text", "failed", "kinds"),
    [
        (VLLM_PRINTED, 2 / 42, {"first_token_sent", "per_token", "chunk_gap", "total"}),
        (SGLANG_PRINTED, 0, {"first_token_sent", "per_token", "total"}),
    ],
    ids=["vllm bench serve", "sglang.bench_serving"],
)
def test_what_a_load_generator_prints_reads_as_its_file_does(text: str, failed: float, kinds: set[str]) -> None:
    ((run,), _) = formats.read_every(text, "printed.txt")
    (result,) = run.experiments
    (point,) = result.points
    assert point.parameters == {"concurrency": 4} and find_rate_word(result) == "requests/s"
    assert point.throughput.value == 5.0 and point.details["output_tokens_s"] == 160.0
    assert point.operations == 40 and point.details["failed_share"] == pytest.approx(failed)
    assert set(_times(point)) == kinds and _times(point)["first_token_sent"] == pytest.approx(120.5e6)
    assert not [finding for finding in explain(run).findings if finding.severity == "error"]


def test_several_printed_results_are_a_curve() -> None:
    second = VLLM_PRINTED.replace("concurrency:             4", "concurrency:             8")
    ((run,), _) = formats.read_every(VLLM_PRINTED + second, "printed.txt")
    assert [point.parameters["concurrency"] for point in run.experiments[0].points] == [4, 8]


def test_rates_are_another_experiment() -> None:
    (result,) = _read("vllm_bench", "rate.json").experiments
    assert result.load == "rate" and result.points[0].parameters == {"rate": 4.0}
    closed, opened = _read("guidellm", "benchmarks.json").experiments
    assert (closed.load, opened.load) == ("concurrency", "rate")
    assert opened.points[0].parameters == {"rate": 3.0}
    assert closed.points[0].details["failed_share"] == pytest.approx(1 / 41)


def test_a_rate_that_its_own_counts_contradict_is_named() -> None:
    text = json.dumps({**json.loads((SEEDS / "vllm_bench/concurrency.json").read_text()), "request_throughput": 9.0})
    run = explain(formats.read_as(formats.list_formats()["vllm_bench"], text, "x.json"))
    assert any("requests/s" in finding.says for finding in run.findings if finding.severity != "info")


@pytest.mark.parametrize("file", ["two.json", "two.jsonl"])
def test_llama_bench_is_tokens_a_second_of_its_own_kernel(file: str) -> None:
    (result,) = _read("llama_bench", file).experiments
    prompt, answer = result.points
    assert (prompt.parameters["test"], answer.parameters["test"]) == ("pp512", "tg128@d256")
    assert prompt.throughput.value == 500.2 and prompt.repeats == 3 and prompt.throughput.low is not None
    assert result.kernel == "llama_bench" and prompt.latency_ns is None
    assert prompt.claims[0].follows == pytest.approx(500.0)


@pytest.mark.parametrize(
    ("name", "file", "key"),
    [("vllm_bench", "concurrency.json", "completed"), ("aiperf", "concurrency.json", "request_count")],
)
def test_a_result_without_answers_is_refused_in_one_line(name: str, file: str, key: str) -> None:
    document = json.loads((SEEDS / name / file).read_text())
    document[key] = 0 if name == "vllm_bench" else {"unit": "requests", "avg": 0}
    with pytest.raises(UserError, match="no request of"):
        formats.read_as(formats.list_formats()[name], json.dumps(document), "x.json")


def test_what_aiperf_itself_wrote_is_read() -> None:
    """AIPerf 0.13.0 on 4 users of a server that takes 50 ms for a prompt and 20 ms for each of 15 more tokens."""
    run = _read("aiperf", "measured-0.13.json")
    (point,) = run.experiments[0].points
    assert point.parameters == {"concurrency": 4} and point.operations == 32
    times = _times(point)
    assert 50e6 <= times["first_token_sent"] <= 70e6
    assert times["per_token"] == pytest.approx(20e6, rel=0.02)
    # Its own count of tokens would be of the text, by another tokenizer.
    assert point.details["output_tokens_s"] == pytest.approx(16 * point.throughput.value, rel=1e-6)
