"""llama-bench on our points: a program in its place that prints what it printed itself on a made model.

It is in no package registry; a build of its source ran on the same model as our decoding, and printed the file here.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from hwdyno.measure import peers
from hwdyno.model.words import UNNUMBERED, PeerResult, UserError, Value

PRINTED = Path(__file__).parents[1] / "data/fuzz/llama_bench/decode.json"
KERNEL = "inference_decode"
POINT: dict[str, Any] = {"stack": "llama.cpp", "threads": 2, "prompt": 16, "path": "models/made"}


def program(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in llama-bench's place."""
    file = folder / "llama-bench"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("HWDYNO_LLAMA_BENCH", str(file))


def test_it_decodes_the_same_file_after_as_long_a_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, f"printf '%s\\n' \"$@\" > {tmp_path}/arguments\ncat {PRINTED}", monkeypatch)
    peer = peers.find("llama_bench")
    assert peer.version() == "here" and peer.unsupported_reason(KERNEL, POINT) is None
    found = peer.run(KERNEL, POINT)
    # 64 tokens in 293 and in 336 ms: 219 and 191 tokens/s.
    assert (found.throughput, found.unit, found.operations) == (204.692208, "operations/s", 128)
    assert found.latency_ns_mean == pytest.approx(4.885e6, rel=1e-3)
    arguments = (tmp_path / "arguments").read_text().splitlines()
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert given["-m"] == "models/made/model.gguf"
    assert (given["-d"], given["-t"], given["-p"], given["-n"]) == ("16", "2", "0", "64")


@pytest.mark.parametrize(("kernel", "stack"), [(KERNEL, "onnxruntime"), ("inference_load", "llama.cpp")])
def test_it_decodes_with_llama_cpp_alone(kernel: str, stack: str) -> None:
    peer = peers.find("llama_bench")
    assert "--decode llama.cpp" in (peer.unsupported_reason(kernel, {**POINT, "stack": stack}) or "")
    with pytest.raises(UserError, match=r"llama\.cpp only"):
        peer.run(kernel, {**POINT, "stack": stack})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("echo 'error: failed to load model' >&2; exit 1", "failed with status 1: error: failed to load model"),
        ("echo '[]'", "no readable rate"),
        ("echo nonsense", "no readable rate"),
        (f"sed 's/204.692208/0/' {PRINTED}", "no readable rate"),
        (f'sed \'s/"n_gen": 64/"n_gen": 0/\' {PRINTED}', "no readable rate"),
    ],
)
def test_what_cannot_be_read_is_one_line(body: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, body, monkeypatch)
    with pytest.raises(OSError, match=says) as error:
        peers.find("llama_bench").run(KERNEL, POINT)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("version", "named"), [(UNNUMBERED, "fio"), ("3.33", "fio 3.33"), ("fio-3.33", "fio-3.33")])
def test_a_tool_is_named_once_and_alone_where_it_tells_no_version(version: str, named: str) -> None:
    assert PeerResult("fio", version, 0, Value(1.0, "1"), None).full_name == named
