"""The KV cache on storage: what the kernel does to real files, what the rules say of it, and its command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno.analysis.estimates import interval
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.formats import kv_model
from hwdyno.measure import engine
from hwdyno.model.histogram import Histogram
from hwdyno.model.machine import Cpu, Machine
from hwdyno.model.point_details import Fault, Note
from hwdyno.model.words import Finding, Measurement, Run, Stream, UserError
from made_experiment import made_experiment

SMALL = {
    "users": 3, "scale": 0.0005, "think": 0.0, "runtime": 0.4, "capacity": 32 << 20, "transfer_size": 65536,
    "interval_s": 0.05,
}  # fmt: skip


def serve(path: Path, **parameters: Any) -> dict[str, Any]:
    return engine.run("inference_kv_cache", {**SMALL, "path": str(path), **parameters})


def serve_until(path: Path, *counts: str, **parameters: Any) -> dict[str, Any]:
    """A reading as long as it takes until something of each is counted: a busy machine gets through little."""
    for runtime in (0.4, 4.0, 40.0):
        reading = serve(path, runtime=runtime, **parameters)
        if all(reading["details"][name] for name in counts):
            break
    return reading


@pytest.mark.parametrize(
    ("name", "expected"),
    [("llama3.1-8b", 131072), ("llama3.1-70b", 327680), ("llama2-7b", 524288), ("deepseek-v3", 70272)],
)
def test_a_token_has_the_bytes_that_its_model_gives_it(name: str, expected: int) -> None:
    assert kv_model.find(name).bytes_per_token == expected


def test_an_unknown_model_is_named_with_those_that_there_are() -> None:
    with pytest.raises(UserError, match=r"no model is called 'gpt'; known: llama3\.1-8b, llama3\.1-70b-instruct"):
        kv_model.find("gpt")


@pytest.mark.machine
def test_turns_write_their_entry_and_read_it_and_those_before(tmp_path: Path) -> None:
    reading = serve_until(tmp_path, "requests")
    details, (read, write) = reading["details"], reading["streams"]
    assert not reading["faults"]
    assert (read["name"], write["name"]) == ("read", "write")
    # each entry is read once, and once more for every 32 tokens
    assert read["operations"] > write["operations"] >= details["requests"] > 0
    assert details["storage_hits"] == read["latency_ns"]["total"]["count"] == read["operations"]
    assert details["memory_hits"] == details["corrupt_blocks"] == 0
    assert read["latency_ns"]["request"]["count"] == details["requests"]
    assert not list(tmp_path.iterdir())


@pytest.mark.machine
def test_least_recently_used_leaves_first(tmp_path: Path) -> None:
    details = serve_until(tmp_path, "evicted_entries", "misses", capacity=6 << 20)["details"]
    assert details["evicted_entries"] > 0
    assert details["most_on_storage_bytes"] <= 6 << 20
    # conversations reach back further than so little room
    assert details["misses"] > 0


@pytest.mark.machine
def test_a_memory_tier_answers_first_and_overflows_into_storage(tmp_path: Path) -> None:
    details = serve_until(tmp_path, "memory_hits", "demoted_entries", memory=4 << 20)["details"]
    assert details["memory_hits"] > 0
    assert details["demoted_entries"] > 0
    assert details["most_in_memory_bytes"] <= 4 << 20


@pytest.mark.machine
def test_too_many_users_are_turned_away(tmp_path: Path) -> None:
    reading = serve_until(tmp_path, "turned_away", users=8, scale=0.01, capacity=2 << 20)
    assert reading["details"]["turned_away"] > 0
    assert "no_room" in {note["code"] for note in reading["notes"]}


@pytest.mark.machine
def test_a_cache_beyond_the_room_is_refused_before_a_byte_is_written(tmp_path: Path) -> None:
    with pytest.raises(engine.MachineError, match=r"KV cache of .* does not fit in .* use a capacity of at most"):
        serve(tmp_path, capacity=1 << 49)
    with pytest.raises(engine.MachineError, match=r"memory tier of .* use less memory or fewer users"):
        serve(tmp_path, memory=1 << 49)
    assert not list(tmp_path.iterdir())


@pytest.mark.machine
def test_files_of_others_stay_whatever_they_are_called(tmp_path: Path) -> None:
    for name in ("kv-00000000.hwdyno", "mine.txt"):
        (tmp_path / name).write_text("stays")
    assert not serve(tmp_path, runtime=0.05)["faults"]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "kv-00000000.hwdyno": "stays",
        "mine.txt": "stays",
    }


@pytest.mark.machine
def test_an_interrupt_keeps_what_was_measured_and_leaves_no_file(tmp_path: Path) -> None:
    parameters = {**SMALL, "runtime": 60.0, "path": str(tmp_path / "kv")}
    script = (
        "import json, sys; from hwdyno.measure import engine; print('go', flush=True);"
        f"print(json.dumps(engine.run('inference_kv_cache', json.loads({json.dumps(parameters)!r}))))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        while not list(tmp_path.rglob("kv-*.hwdyno")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        reading = json.loads(process.stdout.read())
    assert reading["interrupted"] is True
    assert reading["elapsed_s"] < 30
    assert not list((tmp_path / "kv").iterdir())


def latencies(ms: float, count: int = 400) -> Any:
    histogram = Histogram()
    histogram.record(round(ms * 1e6), count)
    return histogram.summary()


def point(users: int, p95_ms: float, *, reads: int = 400, cpu_s: float = 1.0, **more: Any) -> Measurement:
    latency = latencies(p95_ms, reads)
    streams = (
        Stream("read", reads, reads << 20, latency_ns={"total": latency}),
        Stream("write", 40, 40 << 20, latency_ns={"total": latency}),
    )
    details = {"read_bytes_s": users * 1e8, "tokens_s": users * 100.0, "corrupt_blocks": 0, **more.pop("details", {})}
    made = Measurement(
        parameters={"users": users}, throughput=interval([users * 1.1e8], "bytes/s"), rate=None, latency_ns=latency,
        streams=streams, samples=None, concurrency=None, cpu_user_s=cpu_s, cpu_system_s=0.0, elapsed_s=10.0,
        operations=reads + 40, bytes=(reads + 40) << 20, repeats=1, details=details,
    )  # fmt: skip
    return replace(made, **more)


def findings(*points: Measurement, scale: float = 0.01, **place: str) -> dict[str, Finding]:
    fixed: dict[str, Any] = {"model": "llama3.1-8b", "scale": scale, "capacity": 8 << 30, "memory": 0, "runtime": 10.0}
    fixed.update(place)
    result = made_experiment(
        "inference.kv_cache.llama3.1-8b", "inference", "?", "users", "inference_kv_cache", points, fixed=fixed
    )
    run = Run(
        id="x",
        started="",
        finished="",
        machines=(Machine(cpu=Cpu(threads=4)),),
        profile="",
        command="",
        experiments=(result,),
    )
    return {found.rule: found for found in explain(run).findings}


def test_it_holds_as_many_users_as_stay_within_each_target() -> None:
    found = findings(*(point(n, ms) for n, ms in ((1, 5), (2, 20), (4, 60), (8, 150), (16, 1500))))["kv_users"]
    assert found.evidence["holds"] == {"interactive": 2, "responsive": 4, "batch": 8}
    assert "2 below 50.0 ms (interactive), 4 below 100 ms (responsive), 8 below 1.00 s (batch)" in found.says
    assert "shortened to 0.01 of their tokens" in found.says
    assert "--users 1,2,4,8,16 --memory 1G" in found.advice


def test_unpassed_targets_need_more_users() -> None:
    found = findings(point(1, 5), point(2, 6), scale=1.0)["kv_users"]
    assert "--kv-cache llama3.1-8b --scale 1 --capacity 8G --users 4,8,16" in found.advice
    assert "shortened" not in found.says


def test_curve_over_users_has_knee() -> None:
    rates = {1: 1.0, 2: 1.95, 4: 3.4, 8: 3.9, 16: 4.0, 32: 4.0}
    points = [replace(point(n, 5), throughput=interval([x * 1e8], "bytes/s")) for n, x in rates.items()]
    assert "knee" in findings(*points)


def test_a_block_that_is_not_what_was_written_makes_the_point_invalid() -> None:
    fault = Fault("verify", 0, "/data/kv-00000001.hwdyno: block 3 is flipped: its CRC-32C is wrong", 1)
    found = findings(point(1, 5, details={"corrupt_blocks": 1}, faults=(fault,)))["io_corrupt"]
    assert found.severity == "invalid"
    assert "1 block differs from what was written" in found.says
    assert "kv_users" not in findings(point(1, 5, details={"corrupt_blocks": 1}, faults=(fault,)))
    assert "block 3 is flipped" in found.says and "smartctl" in found.advice
    of_store = findings(point(1, 5, details={"corrupt_blocks": 1}, faults=(fault,)), path="s3://bench/x")["io_corrupt"]
    assert of_store.advice.startswith("Check the store's log") and "smartctl" not in of_store.advice


@pytest.mark.parametrize(
    ("number", "operation", "says", "advice"),
    [
        (28, "write", "The storage filled up before", "--capacity 4G"),
        (2, "open", "removed or truncated", "Check what else uses that folder"),
        (0, "read", "removed or truncated", "Check what else uses that folder"),
        (5, "read", "The storage returned an error", "Check dmesg, then: hwdyno inference --kv-cache llama3.1-8b"),
    ],
)
def test_a_failed_transfer_is_named_with_what_mends_it(number: int, operation: str, says: str, advice: str) -> None:
    found = findings(point(1, 5, faults=(Fault(operation, number, "/data/kv-00000001.hwdyno: it failed", 2),)))
    assert "faults" not in found
    assert says in found["io_faults"].says
    assert advice in found["io_faults"].advice


def test_few_reads_full_storage_a_busy_client_and_nothing_done_are_said() -> None:
    assert "rests on 2 of 40" in findings(point(1, 5, reads=40))["kv_too_few"].says
    notes = (Note("no_room", "9 entries found no room"),)
    assert "--capacity 32G" in findings(point(1, 5, notes=notes))["kv_no_room"].advice
    assert "kv_too_few" in findings(point(1, 5, reads=199)) and "kv_too_few" not in findings(point(1, 5, reads=200))
    turned = (point(users, 5, notes=notes, details={"turned_away": count}) for users, count in ((1, 3), (2, 7)))
    assert "(2 users)" in findings(*turned)["kv_no_room"].says
    used = ((9.01, None), (None, 9.01), (8.99, None))
    points = (replace(point(1, 5), cpu_user_s=user, cpu_system_s=system) for user, system in used)
    assert ["io_client_bound" in findings(busy) for busy in points] == [True, True, False]
    assert "used 95% of 2 processors" in findings(point(2, 5, cpu_s=19.0))["io_client_bound"].says
    assert "io_client_bound" not in findings(point(2, 5, cpu_s=17.0))
    idle = findings(point(1, 5, reads=0, notes=(Note("no_step", "no turn was answered"),)))
    assert idle["io_nothing_done"].severity == "invalid"
    full = (Fault("write", 28, "/data/kv-00000001.hwdyno: No space left on device", 1),)
    none = findings(point(1, 5, reads=0, notes=(Note("no_step", "no turn was answered"),), faults=full))
    assert none["io_nothing_done"].severity == "invalid"
    assert "the storage filled up" in none["io_nothing_done"].says


@pytest.mark.machine
def test_command_serves_reports_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    place = tmp_path / "place"
    place.mkdir()
    options = ["inference", "--kv-cache", "llama3.1-8b", "--scale", "0.0005", "--users", "1,2", "--path", str(place)]
    assert main([*options, "--dry-run"]) == 0
    assert "131072 bytes a token (contexts shortened to 0.0005 of their tokens)" in capsys.readouterr().err
    shorter = ["--capacity", "64M", "--think", "0", "--runtime", "0.3", "--no-page"]
    assert main([*options, *shorter]) in {0, 3}
    out = capsys.readouterr().out
    assert "inference.kv_cache.llama3.1-8b users 2: read" in out
    assert "tokens/s" in out
    assert main([*options, *shorter, "--quiet", "--json"]) in {0, 3}
    run = json.loads(capsys.readouterr().out)
    assert [measurement["parameters"]["users"] for measurement in run["experiments"][0]["points"]] == [1, 2]
    assert not list(place.iterdir())


@pytest.mark.machine
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--kv-cache", "gpt"], "no model is called 'gpt'"),
        (["--kv-cache", "tiny-1b", "--scale", "3"], "must be above 0 and at most 1"),
        (["--kv-cache", "tiny-1b", "--vectors", "3"], "inference_kv_cache has no parameter 'vectors'"),
        (["--kv-cache", "tiny-1b", "--capacity", "400T"], "does not fit in"),
        (["--kv-cache", "tiny-1b", "--path", "/no/such/place"], "is not a directory"),
    ],
)
def test_what_is_wrong_is_one_line(
    options: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path))
    place = [] if "--path" in options else ["--path", str(tmp_path)]
    assert main(["inference", "--quiet", *place, *options]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
