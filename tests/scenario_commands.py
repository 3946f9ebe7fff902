"""Commands that make files before they measure, as small as they can be, and a folder for them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


COMMANDS = {
    "data": [
        *("--workload", "cosmoflow", "--accelerator", "a100", "--samples", "24", "--accelerators", "1"),
        *("--runtime", "0.2", "--epochs", "1"),
    ],
    "index": ["--vector-search", "diskann", "--vectors", "600", "--dim", "1000", "--threads", "1", "--runtime", "0.1"],
    "checkpoints": ["--checkpoint", "llama3-8b", "--scale", "0.0005", "--ranks", "4"],
    "KV cache": [
        *("--kv-cache", "llama3.1-8b", "--scale", "0.002", "--users", "2", "--capacity", "16M"),
        *("--think", "0", "--runtime", "1"),
    ],
}
