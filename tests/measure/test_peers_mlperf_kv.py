"""MLPerf Storage's KV-cache benchmark on just our point: its users, its answer, and what it cannot be compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hwdyno.measure import engine, peers
from hwdyno.measure.peers import mlperf_kv
from hwdyno.model.words import UserError

KERNEL = "inference_kv_cache"
PEER = peers.find("mlperf_kv")
POINT: dict[str, Any] = {
    "users": 4, "bytes_per_token": 131_072, "scale": 0.01, "user_kind": "chatbot", "model": "llama3.1-8b",
    "capacity": 1 << 30, "memory": 0, "runtime": 3.0, "direct": False, "drop_cache": True, "fsync": True, "seed": 1,
}  # fmt: skip
# Of 4 users in 12 s, as it was printed; the rest of its 60 figures is left out.
ANSWER = {
    "summary": {
        "total_requests": 54, "elapsed_time": 12.0, "avg_throughput_tokens_per_sec": 288.25,
        "cache_stats": {
            "tier_storage_kv_bytes_read_gb": 6.764, "tier_storage_kv_bytes_written_gb": 1.036, "read_iops": 353,
            "prefill_writes": 54, "storage_read_p95_ms": 297.5, "storage_write_p95_ms": 120.0,
        },
    }
}  # fmt: skip


def test_its_users_are_ours() -> None:
    users = mlperf_kv.users({**POINT, "scale": 0.1, "think": 0.5})
    assert set(users["user_templates"]) == {"chatbot", "coding", "document"}
    assert all(template["context_range"] == [51, 410] for template in users["user_templates"].values())
    assert users["user_templates"]["coding"]["think_time_range"] == [0.05, 0.25]
    mixed = mlperf_kv.users({**POINT, "user_kind": "mixed", "scale": 1.0})["user_templates"]
    assert mixed["document"] == {
        "context_range": [4096, 16_384], "generation_range": [200, 800], "think_time_range": [0.3, 1.5],
    }  # fmt: skip
    command = PEER.command(KERNEL, {**POINT, "memory": 1 << 29})
    assert command[command.index("--cpu-mem-gb") + 1] == "0.5"
    assert command[command.index("--num-users") + 1] == "4"


def test_its_answer_is_read_and_a_damaged_one_is_one_line() -> None:
    found = mlperf_kv.parse_output(json.dumps(ANSWER))
    assert found.throughput == pytest.approx(7.8 * 2**30 / 12)
    assert found.operations == 353 + 54
    assert found.details["reads_per_request"] == pytest.approx(6.54, abs=0.01)
    assert found.details["read_p95_ns"] == 297.5e6
    with pytest.raises(OSError, match="its answer cannot be read: it has no 'cache_stats'"):
        mlperf_kv.parse_output('{"summary": {}}')
    nothing = {"summary": {**ANSWER["summary"], "total_requests": 0}}
    with pytest.raises(OSError, match="it served no request"):
        mlperf_kv.parse_output(json.dumps(nothing))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"user_kind": "mixed"}, "use --user-kind chatbot or --scale 1 to compare"),
        ({"direct": True}, r"supports only direct 0 \(--direct 0\)"),
        ({"token_time": 0.03}, "supports only token time"),
    ],
)
def test_what_it_cannot_stand_beside_is_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        PEER.run(KERNEL, {**POINT, **changes})
    assert PEER.unsupported_reason(KERNEL, POINT) is None
    assert "storage_blocks" in str(PEER.unsupported_reason("storage_blocks", POINT))


@pytest.mark.machine
def test_a_program_that_talks_as_it_does_is_run_read_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "kv-cache.py"
    monkeypatch.setenv("HWDYNO_MLPERF_KV", str(program))
    assert PEER.version() is None
    program.write_text(
        "import json, pathlib, sys\n"
        "given = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
        "assert json.load(open(given['--config']))['user_templates']\n"
        "pathlib.Path(given['--cache-dir']).mkdir()\n"
        f"pathlib.Path(sys.argv[sys.argv.index('--output') + 1]).write_text({json.dumps(ANSWER)!r})\n"
    )
    assert PEER.version() == "v3"
    place = tmp_path / "place"
    place.mkdir()
    assert PEER.run(KERNEL, {**POINT, "path": str(place / "cache")}).operations == 407
    program.write_text("import sys; sys.exit('no such model')")
    with pytest.raises(OSError, match="failed with status 1: no such model"):
        PEER.run(KERNEL, {**POINT, "path": str(place / "cache")})
    program.write_text("")
    with pytest.raises(OSError, match="no request was served"):
        PEER.run(KERNEL, {**POINT, "path": str(place / "cache")})
    assert not list(place.iterdir())


# It is part of a repository and no package that CI could install: this runs where it is.
@pytest.mark.long
@pytest.mark.peer("mlperf_kv")
@pytest.mark.machine
def test_the_benchmark_itself_reads_and_writes_as_much_a_request(tmp_path: Path) -> None:
    parameters = {**POINT, "path": str(tmp_path / "cache"), "users": 8, "think": 0.2, "runtime": 10.0}
    ours, theirs = engine.run(KERNEL, parameters), PEER.run(KERNEL, parameters)
    reads, writes = ours["streams"]
    assert theirs.details["entry_bytes"] == pytest.approx(writes["bytes"] / writes["operations"], rel=0.35)
    expected = reads["operations"] / ours["details"]["requests"]
    assert theirs.details["reads_per_request"] == pytest.approx(expected, rel=0.35)
