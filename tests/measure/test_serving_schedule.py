"""What a serving load sends and when: lengths, arrivals, traces and prompts, all by a seed."""

from __future__ import annotations

import json
import random
import statistics
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hwdyno.formats import request_trace
from hwdyno.measure.serving import arrivals, lengths
from hwdyno.measure.serving.prompts import Prompt, Wording, token_ids
from hwdyno.measure.serving.schedule import Load
from hwdyno.model.words import UserError

TRACES = Path(__file__).parents[1] / "data" / "fuzz" / "request_trace"
FIXED = lengths.parse("128", "input-tokens")


def _load(**settings: object) -> Load:
    return Load(**{"prompt": FIXED, "output": FIXED, "seed": 7, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "mean", "deviation"),
    [
        ("128", 128, 0),
        ("uniform:64:256", 160, (193**2 / 12) ** 0.5),
        ("normal:500:50", 500, 50),
        # Median e^mu, mean e^(mu + s^2 / 2).
        ("lognormal:128:0.5", 128 * 2.718281828**0.125, None),
        ("exponential:1000", 1000, 1000),
    ],
)
def test_lengths_have_the_stated_distribution(text: str, mean: float, deviation: float | None) -> None:
    numbers = random.Random(1)
    drawn = [lengths.parse(text, "x").draw(numbers) for _ in range(20_000)]
    assert statistics.fmean(drawn) == pytest.approx(mean, rel=0.03)
    if deviation is not None:
        assert statistics.pstdev(drawn) == pytest.approx(deviation, rel=0.03, abs=0.01)
    assert min(drawn) >= 1


@pytest.mark.parametrize(
    "text",
    ["", "0", "-3", "1.5", "nan", "uniform:5", "uniform:9:5", "zipf:1", "normal:1:2:3", "lognormal:128:11", "1e9"],
)
def test_a_wrong_length_is_refused_with_what_is_right(text: str) -> None:
    with pytest.raises(UserError, match=r"--input-tokens .*uniform:64:256"):
        lengths.parse(text, "input-tokens")


@pytest.mark.parametrize(
    ("process", "burstiness", "variation"),
    [("poisson", 1.0, 1.0), ("gamma", 0.25, 2.0), ("gamma", 4.0, 0.5), ("constant", 1.0, 0.0)],
)
def test_gaps_have_the_rate_and_the_variation_of_their_process(
    process: str, burstiness: float, variation: float
) -> None:
    found = list(islice(arrivals.gaps(process, 50.0, burstiness, random.Random(3)), 40_000))
    assert 1 / statistics.fmean(found) == pytest.approx(50.0, rel=0.03)
    # CV = k^-1/2
    assert statistics.pstdev(found) * 50 == pytest.approx(variation, rel=0.04, abs=1e-9)


def test_arrival_count_has_poisson_variance() -> None:
    """Not stretched to fill the time: the count in a second has its mean as variance."""
    counts = []
    for seed in range(400):
        times = arrivals.due_times("poisson", 40.0, 1.0, random.Random(seed))
        counts.append(sum(1 for time in islice(times, 400) if time <= 1.0))
    assert statistics.fmean(counts) == pytest.approx(40, rel=0.03)
    assert statistics.pvariance(counts) == pytest.approx(40, rel=0.2)


def test_a_seed_gives_the_same_load_and_another_seed_another() -> None:
    def drawn(seed: int) -> list[object]:
        mixed = lengths.parse("uniform:10:500", "x")
        return list(islice(_load(prompt=mixed, output=mixed, seed=seed, rate=5.0).arrivals(), 50))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_prompts_have_their_exact_length_and_never_begin_alike() -> None:
    prompts = [token_ids(prompt) for prompt in islice(_load(prompt=lengths.parse("15", "x")).prompts(), 3)]
    assert {len(prompt) for prompt in prompts} == {15}
    many = [token_ids(prompt) for seed in range(20) for prompt in islice(_load(seed=seed).prompts(), 50)]
    assert all(len(tokens) == 128 and min(tokens) >= 300 for tokens in many)
    assert len({tuple(tokens[:8]) for tokens in many}) == len(many)


def test_the_body_asks_for_streaming_usage_and_the_whole_length() -> None:
    prompt = Prompt(tokens=16, output_tokens=9, seed=1)
    plain = json.loads(Wording(chat=False, model="m").body(prompt))
    assert plain["prompt"] == token_ids(prompt)
    assert plain["max_tokens"] == 9 and plain["stream"] is True and plain["ignore_eos"] is True
    assert plain["stream_options"] == {"include_usage": True} and plain["cache_prompt"] is False
    chat = json.loads(Wording(chat=True, model="", ignore_end=False, reuse_prompts=True).body(prompt))
    assert len(chat["messages"][0]["content"].split()) == 16
    assert not {"model", "ignore_eos", "cache_prompt"} & set(chat)


def test_mooncakes_shared_blocks_are_shared_tokens() -> None:
    found = request_trace.read(TRACES / "mooncake.jsonl")
    assert [(request.due_s, request.prompt_tokens, request.output_tokens) for request in found] == [
        (0.0, 6755, 500),
        (0.0, 7319, 490),
        (3.0, 1200, 52),
    ]
    first, second, third = (token_ids(arrival.prompt) for arrival in _load(trace=found).arrivals())
    assert (len(first), len(second), len(third)) == (6755, 7319, 1200)
    assert first[:512] == second[:512] and first[512:1024] != second[512:1024]
    assert first[:1024] == third[:1024] and first[1024:1200] != third[1024:]


def test_burstgpt_leaves_failed_requests_out() -> None:
    found = request_trace.read(TRACES / "burstgpt.csv")
    assert [(request.due_s, request.prompt_tokens, request.output_tokens) for request in found] == [
        (0.0, 472, 18),
        (40.0, 1087, 230),
        (113.0, 417, 276),
    ]


def test_columns_of_newer_files_and_lines_out_of_order_are_read() -> None:
    found = request_trace.read(TRACES / "burstgpt_3.csv")
    assert [(request.due_s, request.prompt_tokens) for request in found] == [(0.0, 40), (2.5, 88)]


def test_azure_dates_become_seconds() -> None:
    found = request_trace.read(TRACES / "azure.csv")
    assert [request.due_s for request in found] == pytest.approx([0.0, 4.314579, 59.319410], abs=1e-6)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no trace of requests"),
        ("{not json", "is not JSON"),
        ('{"timestamp": 1, "input_length": 5}', "has no 'output_length'"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 99999999999}', "more than"),
        ("Timestamp,Request tokens,Response tokens\nx,1,2\n", "is no time"),
        ("Timestamp,Request tokens,Response tokens\n1,1,0\n", "no request with an answer"),
        ("Timestamp,Request tokens,Response tokens\n1,1.5,2\n", "no count of tokens"),
        ("a,b\n1,2\n", "needs JSON lines of Mooncake or the columns"),
    ],
)
def test_wrong_trace_is_one_line(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        request_trace.read_requests(text, "x.trace")


def test_a_trace_is_replayed_at_its_own_times_or_stretched_to_a_rate() -> None:
    found = request_trace.read(TRACES / "burstgpt.csv")
    recorded = [arrival.due_s for arrival in _load(trace=found).arrivals()]
    assert recorded == [0.0, 40.0, 113.0]
    faster = [arrival.due_s for arrival in _load(trace=found, rate=2.0).arrivals()]
    assert faster == pytest.approx([0.0, 40 / 113, 1.0])
    assert statistics.fmean(b - a for a, b in pairwise(faster)) == pytest.approx(1 / 2.0)


def test_a_shared_prefix_is_all_that_prompts_have_in_common() -> None:
    first, second = (Prompt(100, 1, seed, shared=60) for seed in (1, 2))
    first_ids, second_ids = token_ids(first), token_ids(second)
    assert (
        len(first_ids) == len(second_ids) == 100
        and first_ids[:60] == second_ids[:60]
        and first_ids[60:] != second_ids[60:]
    )
    assert token_ids(Prompt(40, 1, 3, shared=60)) == first_ids[:40]
    assert token_ids(Prompt(100, 1, 1))[:60] != first_ids[:60]
