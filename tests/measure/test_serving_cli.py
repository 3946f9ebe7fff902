"""``hwdyno inference --server`` and ``--serve`` from the command line: against a made server and real llama.cpp."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_gguf
from here import once
from hwdyno.cli.main import main
from hwdyno.measure import plan
from hwdyno.measure.serving.model_list import fetch_body, first_model
from hwdyno.measure.serving.server_address import KEY, resolve_server
from hwdyno.system import signals
from model_server import ModelServer

QUIET = ("--no-page", "--quiet", "--runtime", "0.3", "--budget", "6s")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    # What is asserted here is true of one reading.
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], repeats_min=1, repeats_max=1))


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["inference", *words])
    out, err = capsys.readouterr()
    return status, out, err


def _document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    status, out, err = _run(capsys, *once("--json", *QUIET, *words))
    assert status in {0, 3}, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_sweep_of_users_is_a_run_as_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(prompt_s=0.02, token_s=0.003, slots=2).running() as url:
        run = _document(capsys, "--server", url, "--concurrency", "1,2,4", "--output-tokens", "8")
    (result,) = run["experiments"]
    assert result["name"] == "inference.serving" and result["load"] == "concurrency"
    assert [point["parameters"]["concurrency"] for point in result["points"]] == [1, 2, 4]
    assert result["fixed"]["server"] == url
    for point in result["points"]:
        assert point["throughput"]["unit"] == "operations/s" and point["operations"] > 0
        assert point["details"]["output_tokens_s"] == pytest.approx(
            8 * point["operations"] / point["elapsed_s"], rel=0.3
        )
        # Little: the users are in flight.
        assert point["concurrency"]["effective"] == pytest.approx(point["parameters"]["concurrency"], rel=0.25)
    assert "serving_capacity" in {finding["rule"] for finding in run["findings"]}


@pytest.mark.parametrize(
    ("words", "cached"),
    [((), False), (("--shared-prefix", "48"), True), (("--reuse-prompts", "1"), True)],
    ids=["no prompt twice", "a shared prefix is asked for", "reuse is asked for"],
)
def test_a_prefix_cache_answers_only_where_it_was_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], cached: bool
) -> None:
    """The same prompts at every point, and in every warm-up, came from the cache of a server that has one."""
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], repeats_min=2, repeats_max=2))
    server = ModelServer(prompt_s=0.01, token_s=0.001, block_tokens=16)
    with server.running() as url:
        run = _document(
            capsys, "--server", url, "--concurrency", "1,2,4", "--input-tokens", "64", "--output-tokens", "4", *words
        )
    prompts = [tuple(body["prompt"]) for body in server.bodies]
    assert len(prompts) > 40 and (len(set(prompts)) < len(prompts)) == ("--reuse-prompts" in words)
    points = [point for result in run["experiments"] for point in result["points"]]
    assert len(points) == 3
    assert all((point["details"]["cached_share"] > 0) == cached for point in points)


def test_servers_own_queue_is_in_limit(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(prompt_s=0.1, slots=1, metrics="vllm", kv_tokens=100).running() as url:
        run = _document(capsys, "--server", url, "--concurrency", "1,6", "--output-tokens", "2", "--runtime", "1")
    (limit,) = (finding for finding in run["findings"] if finding["rule"] == "serving_limit")
    assert re.search(r"By its own count, \d requests? waited, [01] ran, KV cache 100% full, ", limit["says"])


def test_figures_have_formulas_beneath_report(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(prompt_s=0.01, token_s=0.002).running() as url:
        # Enough requests for a median of each reading, at any times that are drawn.
        _, out, _ = _run(capsys, "--server", url, "--rate", "200", "--output-tokens", "4", "--ttft-target", "1", *QUIET)
    for words in ("TTFT p50", "TPOT p50", "ITL p50", "ICL p50", "E2E p50", "send lag p50", "tokens/s", "goodput"):
        assert words in out, words
    assert "TPOT = (last - first) / (n - 1)" in out and "TTFT = first - due" in out
    assert "too few for p9" in out


def test_a_trace_is_one_point_at_its_own_times(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("Timestamp,Request tokens,Response tokens\n0,9,2\n0.05,11,3\n0.1,7,4\n0.2,7,4\n")
    server = ModelServer()
    with server.running() as url:
        run = _document(capsys, "--server", url, "--trace", str(trace))
    (result,) = run["experiments"]
    assert result["name"] == "inference.serving_trace" and result["points"][0]["operations"] % 4 == 0
    assert {(len(body["prompt"]), body["max_tokens"]) for body in server.bodies} >= {(9, 2), (11, 3), (7, 4)}


@pytest.mark.parametrize("fault", ["429", "500", "hang", "refuse", "html", "cut", "not_json", "endless_line"])
def test_each_server_fault_is_one_line(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer().running() as url:
        status, out, err = _run(capsys, "--server", url, "--served-model", f"fault:{fault}", "--timeout", "1", *QUIET)
    assert status == 2 and not out
    assert len(err.strip().splitlines()) == 1 and "answered none of" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--server", "http://192.0.2.1:80"), "add --allow-remote"),
        (("--server", "nothing"), "use a URL with a host and a port"),
        (("--server", "http://127.0.0.1:9", "--rate", "2", "--concurrency", "2"), "name one of them"),
        (("--server", "http://127.0.0.1:9", "--input-tokens", "many"), "uniform:64:256"),
        (("--server", "http://127.0.0.1:9", "--trace", "gone.csv"), "cannot read gone.csv"),
        (("--serve", "gone.gguf"), "is no file"),
    ],
)
def test_a_wrong_request_is_one_line(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = _run(capsys, *words, *QUIET)
    assert status == 2 and says in err and len(err.strip().splitlines()) == 1


def test_key_is_never_stored(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "sk-never-kept")
    with ModelServer(key="sk-never-kept", token_s=0.005).running() as url:
        run = _document(capsys, "--server", url, "--concurrency", "1", "--output-tokens", "4")
    assert run["experiments"][0]["points"][0]["operations"] > 0
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept and not any(b"sk-never-kept" in path.read_bytes() for path in kept)


# A short reading: where others take the processor, it may end before its first whole answer.
@pytest.mark.timing
def test_real_llama_cpp_serves_a_file_and_agrees_with_its_own_times(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The HTTP server of llama.cpp itself, with a model of random weights; it is gone afterwards.

    An answer of 128 tokens takes 20 ms: a client that waits for a processor does not find it whole.
    """
    model = tiny_gguf.write(tmp_path / "tiny.gguf")
    run = _document(
        capsys, "--serve", str(model), "--server-threads", "1", "--concurrency", "1,2", "--input-tokens", "64",
        "--output-tokens", "128",
    )  # fmt: skip
    (result,) = run["experiments"]
    for point in result["points"]:
        details = point["details"]
        assert point["operations"] > 0 and not point["faults"]
        assert details["output_tokens_mean"] == 128 and details["prompt_tokens_mean"] == 64
        assert details["short_share"] == 0 and details["cached_share"] == 0
        assert 0 <= details.get("server_running", 0) <= point["parameters"]["concurrency"]
        # The client cannot see a token before the server has it.
        tokens = next(stream for stream in point["streams"] if stream["name"] == "token")["latency_ns"]
        # The details are of one reading, the stream of all.
        assert 0 < details["server_prompt_s"] * 1e9 <= tokens["first_token_sent"]["max"]

    assert first_model(resolve_server(result["fixed"]["server"], allow_remote=False)) == ""


# Requests of a millisecond each: where others take the processor, what the cache saves is within the noise.
@pytest.mark.timing
def test_the_prefix_cache_of_real_llama_cpp_is_measured_with_and_without(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = tiny_gguf.write(tmp_path / "tiny.gguf")
    run = _document(
        capsys, "--serve", str(model), "--server-threads", "1", "--slots", "1", "--input-tokens", "200",
        "--shared-prefix", "160", "--reuse-prompts", "0,1", "--output-tokens", "4", "--concurrency", "1",
    )  # fmt: skip
    (result,) = run["experiments"]
    shares = {point["parameters"]["reuse_prompts"]: point["details"]["cached_share"] for point in result["points"]}
    # The first prompt of all is computed as a whole; the token after the prefix may be that of the prompt before.
    assert shares[False] == 0 and 0.5 < shares[True] < 161 / 200
    (found,) = (finding for finding in run["findings"] if finding["rule"] == "prefix_cache")
    assert found["evidence"]["cached_share"] == shares[True]
    assert "serving_cached" not in {finding["rule"] for finding in run["findings"]}


def test_chat_with_real_llama_cpp(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = tiny_gguf.write(tmp_path / "tiny.gguf")
    run = _document(
        capsys, "--serve", str(model), "--server-threads", "1", "--slots", "1", "--endpoint", "chat",
        "--concurrency", "1", "--output-tokens", "8", "--input-tokens", "16",
    )  # fmt: skip
    (point,) = run["experiments"][0]["points"]
    assert point["operations"] > 0 and point["details"]["output_tokens_mean"] == 8


def test_a_file_that_is_no_model_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for data, says in (
        (b"nothing of a model", "is no GGUF file"),
        (b"GGUF, and nothing more", "llama.cpp cannot serve"),
    ):
        (tmp_path / "not.gguf").write_bytes(data)
        status, _, err = _run(capsys, "--serve", "not.gguf", *QUIET)
        assert status == 2 and says in err and len(err.strip().splitlines()) == 1


def test_a_signal_ends_the_wait_for_what_a_server_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = resolve_server(f"http://127.0.0.1:{silent.getsockname()[1]}", allow_remote=False)
        looks = iter([False, True])
        monkeypatch.setattr(signals, "is_end_requested", lambda: next(looks))
        with pytest.raises(TimeoutError):
            fetch_body(server, "/metrics", max_s=60.0)
        assert next(looks, None) is None
        monkeypatch.setattr(signals, "is_end_requested", lambda: False)
        with pytest.raises(TimeoutError):
            fetch_body(server, "/metrics", max_s=0.15)
