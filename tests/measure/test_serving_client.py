"""The client against a real server with known delays, and against every fault: one clear line, never a hang."""

from __future__ import annotations

import itertools
import json
import shutil
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from here import missing
from hwdyno.measure.serving import client, client_result, lengths, metrics
from hwdyno.measure.serving.prompts import Wording
from hwdyno.measure.serving.schedule import Load
from hwdyno.measure.serving.server_address import KEY, resolve_server
from hwdyno.measure.serving.wire import parse_events
from hwdyno.measure.workloads.inference_serving import WORKLOAD
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import UserError
from hwdyno.system import signals
from model_server import ModelServer


def _read(url: str, **parameters: Any) -> dict[str, Any]:
    return WORKLOAD.run({"server": url, "runtime": 0.5, "timeout": 10.0, **parameters})


def _times(reading: dict[str, Any], kind: str) -> Histogram:
    return next(
        Histogram.from_reading(stream["latency_ns"][kind])
        for stream in reading["streams"]
        if kind in stream["latency_ns"]
    )


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("crlf", [False, True])
def test_known_delays_come_back(endpoint: str, crlf: bool) -> None:
    with ModelServer(prompt_s=0.03, token_s=0.01, crlf=crlf).running() as url:
        found = _read(url, endpoint=endpoint, output_tokens="11", concurrency=3)
    assert not found["faults"] and not found["notes"]
    # A server's delays are never shorter than the requested ones; how much longer is this machine's load.
    assert _times(found, "first_token").min >= 30e6
    # One of a late first token is shorter.
    assert _times(found, "per_token").quantile(0.5) >= 9.5e6
    assert _times(found, "total").min >= 129e6
    assert found["details"]["output_tokens_mean"] == 11
    assert found["details"]["tokens_a_chunk"] == 1
    requests = found["streams"][0]["operations"]
    assert requests >= 3 and _times(found, "token_gap").count == 10 * requests
    assert found["details"]["output_tokens_s"] == pytest.approx(11 * requests / found["elapsed_s"])


def test_a_users_requests_follow_each_other_and_connections_are_used_again() -> None:
    server = ModelServer(prompt_s=0.01)
    with server.running() as url:
        found = _read(url, concurrency=4, output_tokens="2", think_time=0.01)
    assert server.most_open <= 4 + 1  # the list of models has a separate connection
    assert found["details"]["connections"] == 4
    assert found["streams"][0]["operations"] > 8


def test_the_limit_of_connections_is_kept_and_waiting_counts_from_the_schedule() -> None:
    """A server of one slot behind two connections: what waits in the client is in TTFT, and is named."""
    server = ModelServer(prompt_s=0.1)
    with server.running() as url:
        found = _read(url, rate=60, arrivals="constant", connections=2, output_tokens="1")
    assert server.most_open <= 3
    assert found["details"]["waited_for_connection"] > 10
    assert [note["code"] for note in found["notes"]] == ["rate_not_reached", "connections_used_up"]
    # 20 requests/s are served of 60: the last of about 30 waits for over half a second, though each is served in 0.1 s.
    assert _times(found, "first_token").max > 0.5e9
    assert _times(found, "first_token_sent").quantile(0.5) < 0.4e9
    assert _times(found, "send_lag").max > 0.4e9


def test_open_loop_ignores_answers() -> None:
    server = ModelServer(prompt_s=0.3)
    with server.running() as url:
        found = _read(url, rate=40, arrivals="constant", output_tokens="1")
    # Little: 40/s x 0.3 s are 12 in flight.
    assert server.most_open >= 8
    assert 19 <= found["streams"][0]["operations"] <= 20
    assert found["concurrency_requested"] == 0


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("429", "status 429: made to fail"),
        ("500", "status 500: made to fail"),
        ("hang", "timeout before the first byte"),
        ("refuse", "cut before the first byte"),
        ("html", "no event stream but text/html"),
        ("whole", "no event stream but application/json"),
        ("garbage", "not HTTP"),
        ("endless_head", "not HTTP"),
        ("endless_line", "endless answer"),
        ("wrong_chunk", "wrong chunk"),
        ("cut", "cut within the answer"),
        ("not_json", "not JSON"),
        ("error", "error within the stream: out of memory"),
        ("no_token", "an answer without a token"),
    ],
)
def test_silent_server_is_one_line(kind: str, says: str) -> None:
    begun = time.monotonic()
    with ModelServer().running() as url, pytest.raises(OSError, match="answered none of") as caught:
        _read(url, served_model=f"fault:{kind}", timeout=2.0, runtime=0.2)
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("kind", ["huge", "no_done", "slow"])
def test_odd_but_whole_answers_count(kind: str) -> None:
    with ModelServer().running() as url:
        found = _read(url, served_model=f"fault:{kind}", output_tokens="3")
    assert found["streams"][0]["operations"] > 0 and not found["faults"]


def test_failures_are_in_no_percentile_and_their_share_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other answer is cut."""
    server, turns = ModelServer(prompt_s=0.05, token_s=0.02), itertools.count()
    real = ModelServer._tokens

    async def some(self: ModelServer, request: Any, chat: bool, kind: str, writer: Any) -> bool:
        return await real(self, request, chat, "cut" if next(turns) % 2 else kind, writer)

    monkeypatch.setattr(ModelServer, "_tokens", some)
    with server.running() as url:
        found = _read(url, concurrency=2, output_tokens="5")
    answered, failed = found["streams"][0]["operations"], sum(fault["count"] for fault in found["faults"])
    assert answered and failed and found["faults"][0]["says"] == "cut within the answer"
    assert found["details"]["failed_share"] == pytest.approx(failed / (answered + failed))
    assert _times(found, "total").count == answered
    assert _times(found, "total").min >= 0.05e9 + 4 * 0.019e9


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    server = ModelServer()
    with server.running() as url, pytest.raises(OSError, match="429"):
        _read(url, served_model="fault:429", runtime=0.5)
    # Retry-After is 0.2 s: at 0, 0.2 and 0.4.
    assert len(server.bodies) <= 3


def test_a_connection_that_the_server_closed_meanwhile_is_made_again() -> None:
    with ModelServer(closes=True).running() as url:
        found = _read(url, output_tokens="2", think_time=0.02)
    assert not found["faults"] and found["streams"][0]["operations"] > 3


def test_server_stopping_midway_degrades_reading() -> None:
    server = ModelServer(prompt_s=0.02, token_s=0.01)
    running = server.running()
    url = running.__enter__()
    timer = threading.Timer(0.8, lambda: running.__exit__(None, None, None))
    timer.start()
    found = _read(url, concurrency=2, output_tokens="5", runtime=1.5)
    timer.join()
    assert found["streams"][0]["operations"] > 0
    assert "connection refused" in {fault["says"] for fault in found["faults"]}


def test_several_tokens_a_chunk_make_no_itl_and_a_right_tpot() -> None:
    with ModelServer(token_s=0.005, tokens_a_chunk=4).running() as url:
        found = _read(url, output_tokens="13")
    assert found["details"]["tokens_a_chunk"] == pytest.approx(13 / 4)
    kinds = {kind for stream in found["streams"] for kind in stream["latency_ns"]}
    assert "chunk_gap" in kinds and "token_gap" not in kinds
    # Gaps of 4, 4 and 1 tokens: 45 ms over 12 tokens after the first. A late first chunk shortens its own request's.
    assert _times(found, "per_token").mean >= 3.7e6


def test_without_usage_no_token_is_counted() -> None:
    with ModelServer(with_usage=False).running() as url:
        found = _read(url, output_tokens="5")
    kinds = {kind for stream in found["streams"] for kind in stream["latency_ns"]}
    assert not {"per_token", "token_gap"} & kinds and "output_tokens_s" not in found["details"]
    assert "no_usage" in {note["code"] for note in found["notes"]}


@pytest.mark.parametrize(
    ("planted", "tokens"),
    [({"counts_times": 10}, "16"), ({"counts_times": 10, "stop_after": 3}, "64"), ({"counts_times": 0}, "16")],
    ids=["more than requested", "more than was sent", "none"],
)
def test_a_count_of_tokens_that_cannot_be_is_not_used(planted: dict[str, Any], tokens: str) -> None:
    """It was believed: 10 times the rate."""
    with ModelServer(prompt_s=0.01, token_s=0.002, **planted).running() as url:
        found = _read(url, output_tokens=tokens)
    assert not {"output_tokens_s", "tokens_a_chunk", "short_share"} & set(found["details"])
    kinds = {kind for stream in found["streams"] for kind in stream["latency_ns"]}
    assert "first_token" in kinds and not {"per_token", "token_gap"} & kinds
    assert found["details"]["miscounted_share"] == 1
    assert "no_usage" not in {note["code"] for note in found["notes"]}


def test_an_answer_in_one_piece_has_no_times_of_tokens() -> None:
    """TPOT was 0 ns and TTFT the time of the whole answer behind a proxy that buffers."""
    with ModelServer(prompt_s=0.02, token_s=0.005, keeps_back=True).running() as url:
        found = _read(url, output_tokens="16", ttft_target=1.0)
    kinds = {kind for stream in found["streams"] for kind in stream["latency_ns"]}
    assert "total" in kinds and not {"first_token", "per_token", "token_gap", "chunk_gap"} & kinds
    assert found["details"]["one_piece_share"] == 1 and found["details"]["output_tokens_mean"] == 16
    assert found["details"]["good_share"] == 1  # The whole answer comes before the limit of its first token.


def test_answers_that_end_early_and_cached_prompts_are_counted() -> None:
    with ModelServer(stop_after=3, cached_share=0.5).running() as url:
        found = _read(url, output_tokens="5")
    assert found["details"]["short_share"] == 1 and found["details"]["cached_share"] == 0.5


def test_goodput_counts_requests_within_both_targets() -> None:
    # A machine that does other work reads tokens late and then together, so that they seem to come fast.
    with ModelServer(prompt_s=0.03, token_s=0.04).running() as url:
        within = _read(url, output_tokens="4", ttft_target=5.0, tpot_target=5.0)
        late = _read(url, output_tokens="4", ttft_target=0.02, tpot_target=5.0)
        slow = _read(url, output_tokens="4", ttft_target=5.0, tpot_target=0.005)
    assert within["details"]["good_share"] == 1
    assert within["details"]["goodput_requests_s"] == pytest.approx(
        within["streams"][0]["operations"] / within["elapsed_s"]
    )
    assert late["details"]["good_share"] == slow["details"]["good_share"] == 0


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        '{"timestamp": 0, "input_length": 20, "output_length": 3}\n'
        '{"timestamp": 100, "input_length": 30, "output_length": 5}\n'
        '{"timestamp": 90000, "input_length": 30, "output_length": 5}\n'
    )
    server = ModelServer()
    with server.running() as url:
        _read(url, arrivals="trace", trace=str(trace), runtime=0.3)
    assert [(len(body["prompt"]), body["max_tokens"]) for body in server.bodies] == [(20, 3), (30, 5)]


# --- the moment of a piece


def _moments(url: str, runtime_s: float = 1.0) -> list[tuple[int, int]]:
    """When the server sent the only token of each answer, and when the client says that it came."""
    server = resolve_server(url, allow_remote=False)
    load = Load(prompt=lengths.parse("4", "x"), output=lengths.parse("1", "x"), seed=1, users=4)
    wording = Wording(chat=False, model="made")
    settings = client_result.ClientSettings(runtime_s=runtime_s, timeout_s=20.0, connections=4)
    result = client.drive(server, load, settings, lambda prompt: server.request("completions", wording.body(prompt)))
    firsts = [next(iter(parse_events(request.exchange))) for request in result.sent if not request.failure]
    return [(json.loads(data)["sent_ns"], moment) for moment, data in firsts]


def test_client_delay_is_not_in_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped again and again; what came meanwhile is timed within that stop, not after it."""
    stops: list[tuple[int, int]] = []

    def stopped() -> bool:
        began = time.perf_counter_ns()
        time.sleep(0.06)
        stops.append((began, time.perf_counter_ns()))
        return False

    monkeypatch.setattr(signals, "is_end_requested", stopped)
    with ModelServer(prompt_s=0.03).running() as url:
        found = _moments(url)
    # A token that was sent so long before the end of a stop had come by then.
    within = [
        (moment, end) for sent, moment in found for began, end in stops if began < sent < end - 20_000_000
    ]  # fmt: skip
    assert within and all(moment < end for moment, end in within)


def test_without_kernels_stamps_moments_are_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "STAMPS", 1 << 20)
    before = time.perf_counter_ns()
    with ModelServer(prompt_s=0.01).running() as url:
        found = _moments(url, 0.3)
    assert found and all(before < sent <= moment <= time.perf_counter_ns() for sent, moment in found)


# --- what the server says of itself


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama.cpp"])
def test_a_servers_own_queue_is_read_while_it_is_loaded(kind: str) -> None:
    server = ModelServer(prompt_s=0.1, slots=2, metrics=kind, kv_tokens=200)
    with server.running() as url:
        found = _read(url, concurrency=6, output_tokens="1", runtime=1.5)["details"]
    waiting, running = zip(*server.states, strict=True)
    # Two slots and six users, however slowly they send again.
    assert min(running) <= found["server_running"] <= max(running) <= 2 and found["server_running"] > 0
    assert min(waiting) <= found["server_waiting"] <= max(waiting) <= 4 and found["server_waiting"] > 0
    assert found.get("server_kv_cache_share") == (None if kind == "llama.cpp" else 1.0)
    # The made server counts one at each question.
    assert found.get("server_preemptions") == (server.questions - 1 if kind == "vllm" else None)


@pytest.mark.parametrize("kind", ["", "absurd", "binary", "other", "cut", "status", "endless"])
def test_what_a_server_says_wrongly_of_itself_is_left_out(kind: str) -> None:
    server = ModelServer(prompt_s=0.02, metrics=kind)
    with server.running() as url:
        found = _read(url, concurrency=2, output_tokens="1")
    assert not [name for name in found["details"] if name.startswith("server_")]
    assert not found["faults"] and found["streams"][0]["operations"] > 2
    assert server.questions <= 1


def test_a_server_that_hangs_when_asked_of_itself_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_S", 0.2)
    server = ModelServer(metrics="hang")
    with server.running() as url:
        assert _read(url)["streams"][0]["operations"] > 2
    assert server.questions == 1


def test_one_servers_engines_add_up() -> None:
    text = b"""vllm:num_requests_waiting{engine="0",model_name="a b}c"} 3
vllm:num_requests_waiting{engine="1",model_name="a"} 4.0 1790000000
vllm:gpu_cache_usage_perc{engine="0"} 0.9
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.5
sglang:num_running_reqs{tp_rank="0"} 5
sglang:num_running_reqs{tp_rank="1"} 5
"""
    assert metrics.parse_figures(text) == {"waiting": 7, "kv_cache_share": 0.5, "running": 5}


# --- where it goes, and with which key


def test_another_host_is_refused_unless_allowed() -> None:
    with pytest.raises(UserError, match=r"is another host; add --allow-remote"):
        resolve_server("http://192.0.2.1:8000", allow_remote=False)
    assert resolve_server("http://192.0.2.1:8000", allow_remote=True).address[0] == "192.0.2.1"
    for here in ("http://127.0.0.1:1", "http://localhost:1/v1", "http://[::1]:1"):
        assert resolve_server(here, allow_remote=False).path == ""


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://127.0.0.1",
        "http://",
        "http://127.0.0.1:99999",
        "http://a b",
        "http://x\n",
        "http://[::1",
    ],
)
def test_wrong_url_is_one_line(url: str) -> None:
    with pytest.raises(UserError, match="--server"):
        resolve_server(url, allow_remote=True)


def test_key_within_url_is_refused() -> None:
    with pytest.raises(UserError, match=KEY):
        resolve_server("http://user:secret@127.0.0.1:1", allow_remote=False)


def test_the_key_is_sent_and_stands_in_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(key="sk-1234").running() as url:
        with pytest.raises(OSError, match="status 401: no such key"):
            _read(url)
        monkeypatch.setenv(KEY, "sk-1234")
        found = _read(url)
    assert found["streams"][0]["operations"] > 0
    assert "sk-1234" not in str(found)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of localhost with its key, made by openssl."""
    if not shutil.which("openssl"):
        missing("openssl is not installed")
    made, key = tmp_path / "localhost.pem", tmp_path / "localhost.key"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run(
        ["openssl", "req", *kind, "-keyout", str(key), "-out", str(made), *subject], check=True, capture_output=True
    )
    return made, key


def test_https_is_spoken_and_an_unknown_certificate_is_refused(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with ModelServer(tls=context, token_s=0.001).running() as url:
        with pytest.raises(OSError, match="certificate refused"):
            _read(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        found = _read(url, concurrency=3)
    assert found["streams"][0]["operations"] > 3 and not found["faults"]


def test_https_mismatch_is_one_line() -> None:
    # This server waits for the rest of what is no request to it; others say so (no TLS).
    with ModelServer().running() as url, pytest.raises(OSError, match=r"no TLS|reset|cut|timeout"):
        _read(url.replace("http:", "https:"), timeout=1.0)


def test_missing_server_is_one_line() -> None:
    with pytest.raises(OSError, match=r"answered none of .*: connection refused"):
        _read("http://127.0.0.1:9", runtime=0.1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"arrivals": "trace"}, "--trace FILE belong together"),
        ({"trace": "x"}, "--trace FILE belong together"),
        ({"concurrency": 20, "connections": 10}, "needs as many --connections"),
        ({"arrivals": "trace", "trace": "/nonexistent"}, "cannot read /nonexistent"),
    ],
)
def test_contradicting_settings_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        _read("http://127.0.0.1:9", **given)
