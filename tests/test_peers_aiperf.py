"""The real AIPerf and guidellm on a server of known delays, where ``HWDYNO_AIPERF`` and the like name them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hwdyno import peers
from hwdyno.peers.load_generator import TOKENIZER
from model_server import ModelServer

KERNEL = "inference_serving"
POINT: dict[str, Any] = {"concurrency": 4, "runtime": 2.0}


@pytest.mark.parametrize("tool", ["aiperf", "guidellm"])
def test_the_real_tool_gives_the_figures_of_a_known_server(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not {f"HWDYNO_{tool.upper()}", TOKENIZER} <= set(os.environ):
        pytest.skip(f"{tool} is not named")
    monkeypatch.chdir(tmp_path)
    with ModelServer(prompt_s=0.05, token_s=0.02).running() as url:
        point = {**POINT, "server": url, "served_model": "made", "input_tokens": "64", "output_tokens": "16"}
        found = peers.find(tool).run(KERNEL, point)
        assert found.operations >= 4 * POINT["concurrency"]
        # No server answers before its delays are over, whatever else the machine does.
        assert found.latency_ns_mean is not None and found.latency_ns_mean >= 0.05e9 + 15 * 0.02e9
        assert found.details["per_token_ns_mean"] >= 0.95 * 0.02e9
        # guidellm counts tokens over another time than requests.
        error = 1e-3 if tool == "aiperf" else 0.25
        assert found.details["output_tokens_s"] == pytest.approx(16 * found.throughput, rel=error)
