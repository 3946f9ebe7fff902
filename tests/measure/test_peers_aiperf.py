"""The real AIPerf and guidellm on a server of known delays, where ``HWDYNO_AIPERF`` and the like name them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from here import needs
from hwdyno.measure import peers
from hwdyno.measure.peers import PeerReading
from hwdyno.measure.peers.load_generator import TOKENIZER
from model_server import ModelServer

KERNEL = "inference_serving"
POINT: dict[str, Any] = {"concurrency": 4, "runtime": 2.0}


def known(tool: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> PeerReading:
    """What a tool reads of a server of 50 ms a prompt and 20 ms a token, which answers no sooner."""
    monkeypatch.chdir(folder)
    with ModelServer(prompt_s=0.05, token_s=0.02).running() as url:
        point = {**POINT, "server": url, "served_model": "made", "input_tokens": "64", "output_tokens": "16"}
        found = peers.find(tool).run(KERNEL, point)
    # No server answers before its delays are over, even on a busy machine.
    assert found.latency_ns_mean is not None and found.latency_ns_mean >= 0.05e9 + 15 * 0.02e9
    assert found.details["per_token_ns_mean"] >= 0.95 * 0.02e9
    return found


@pytest.mark.long
@needs({"HWDYNO_AIPERF", TOKENIZER} <= set(os.environ), "AIPerf is not named")
def test_real_aiperf_matches_known_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = known("aiperf", tmp_path, monkeypatch)
    assert found.operations == 8 * POINT["concurrency"]
    assert found.details["output_tokens_s"] == pytest.approx(16 * found.throughput, rel=1e-3)


@pytest.mark.long
@needs({"HWDYNO_GUIDELLM", TOKENIZER} <= set(os.environ), "guidellm is not named")
def test_real_guidellm_matches_known_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends by time, and counts tokens over another time than requests."""
    found = known("guidellm", tmp_path, monkeypatch)
    assert 4 * POINT["concurrency"] <= found.operations <= 8 * POINT["concurrency"]
    assert 1.0 <= found.details["output_tokens_s"] / (16 * found.throughput) <= 1.25
