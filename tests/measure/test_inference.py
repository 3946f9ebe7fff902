"""``hwdyno inference`` from end to end, with the real ONNX Runtime and llama.cpp on a tiny model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from devices import loops, mounted
from here import shortly
from hwdyno.cli import inference
from hwdyno.cli.main import main, make_parser
from hwdyno.measure import plan
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.models import GGUF, GRAPH, WEIGHTS, gguf, installed, onnx, safetensors, shapes
from hwdyno.measure.scenarios import make_scenario
from hwdyno.measure.scenarios.model import SEED
from hwdyno.measure.scenarios.request import bytes_below
from hwdyno.measure.workloads import find, model_files
from hwdyno.model.words import UserError

pytestmark = pytest.mark.machine
TINY = ["--model", "tiny"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "place").mkdir()
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], repeats_min=1, repeats_max=1))
    return tmp_path / "place"


def measured(words: list[str], place: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["inference", *words, "--path", str(place), "--quiet", "--json", "--no-page"]) in {0, 3}
    run: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {experiment["name"]: experiment for experiment in run["experiments"]} | {"findings": run["findings"]}


def file_bytes(loader: str) -> int:
    """What a loader reads of the tiny model."""
    model = shapes.find("tiny")
    if loader == "llama.cpp":
        return sum(memoryview(part).nbytes for part in gguf.parts(model, SEED))
    if loader == "safetensors":
        return model.bytes
    weights = sum(memoryview(part).nbytes for part in safetensors.parts(model, SEED))
    at = len(safetensors.header(model, SEED))
    places = {}
    for tensor in model.tensors:
        places[tensor.name] = safetensors.TensorExtent(at, tensor.bytes)
        at += tensor.bytes
    return weights + (len(onnx.make_graph(model, WEIGHTS, places)) if loader in {"onnxruntime", "mapped"} else 0)


def by(result: dict[str, Any], *names: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Points by some of their parameters."""
    return {
        tuple({**result["fixed"], **point["parameters"]}[name] for name in names): point for point in result["points"]
    }


def test_a_cold_start_is_cold_and_has_its_parts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaders = [loader for loader in installed.LOADERS if installed.is_here(loader)]
    run = measured([*TINY, "--cold", ",".join(loaders)], place, capsys)
    points = by(run["inference.cold_start"], "loader", "cache")
    assert {loader for loader, _ in points} == set(loaders)
    assert {loader for loader, cache in points if cache == "warm"} == set(loaders) - {"raw", "direct"}
    for (loader, cache), point in points.items():
        details = point["details"]
        assert details["cached_before"] == (0.0 if cache == "cold" else 1.0), loader
        assert point["bytes"] / point["repeats"] == file_bytes(loader), loader
        parts = sum(details.get(f"{name}_s", 0.0) for name in ("open", "read", "deserialize", "first_answer"))
        assert parts * point["repeats"] == pytest.approx(point["elapsed_s"], rel=0.01)
        assert details["memory_bytes"] >= (0.8 * file_bytes(loader) if loader in {"read", "direct"} else 0)
        if loader in {"onnxruntime", "mapped", "llama.cpp"}:
            assert details["deserialize_s"] > 0 and details["first_answer_s"] > 0
    assert {"cold_start", "storage_stops_mattering"} <= {finding["rule"] for finding in run["findings"]}
    assert not list(place.iterdir())


@pytest.mark.parametrize("loader", ["mapped", "llama.cpp"])
def test_an_engine_reports_to_nobody_and_keeps_no_identity(
    loader: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ONNX Runtime's telemetry begins with a file of its session in ``TMPDIR`` and one of its user in the home."""
    user = tmp_path / "user"
    for name, folder in {"TMPDIR": "tmp", "HOME": "home", "XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache"}.items():
        (user / folder).mkdir(parents=True)
        monkeypatch.setenv(name, str(user / folder))
    # There it is off by itself.
    for name in ("CI", "GITHUB_ACTIONS", "TF_BUILD", "ORT_DISABLE_TELEMETRY"):
        monkeypatch.delenv(name, raising=False)
    measured([*TINY, "--cold", loader], place, capsys)
    assert [path for path in user.rglob("*") if path.is_file()] == []


def test_decoding_is_beside_its_memory_bound(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*TINY, "--decode", "onnxruntime,llama.cpp", "--threads", "1", "--runtime", "0.2"]
    run = measured(words, place, capsys)
    points = by(run["inference.decode"], "stack")
    model = shapes.find("tiny")
    assert model.decoder is not None
    for stack in ("onnxruntime", "llama.cpp"):
        details, count = points[(stack,)]["details"], points[(stack,)]["operations"] / points[(stack,)]["repeats"]
        assert count > 10 and points[(stack,)]["latency_ns"]["p50"] > 0
        assert details["bytes_per_token"] > model.bytes_per_token
    ceilings = [ceiling for ceiling in run["inference.decode"]["ceilings"] if ceiling["metric"] == "tokens_s/1"]
    (memory,) = (point for point in run["inference.memory"]["points"] if point["parameters"]["threads"] == 1)
    token_bytes = next(point["details"]["bytes_per_token"] for point in run["inference.decode"]["points"])
    assert ceilings[0]["value"] == pytest.approx(memory["throughput"]["value"] / token_bytes)
    assert not list(place.iterdir())


@pytest.mark.parametrize("stack", ["onnxruntime", "llama.cpp"])
def test_restored_cache_gives_computed_token(stack: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = measured([*TINY, "--restore", stack, "--tokens", "16,64"], place, capsys)
    points = by(run["inference.restore"], "way", "tokens")
    model = shapes.find("tiny")
    assert model.decoder is not None
    assert len(points) == 4
    for tokens in (16, 64):
        size = points["restore", tokens]["details"]["kv_bytes"]
        if stack == "onnxruntime":
            assert size == tokens * model.decoder.kv_bytes
        else:  # Its cache has half the precision.
            assert size == pytest.approx(tokens * model.decoder.kv_bytes / 2, rel=0.35)
        assert points["restore", tokens]["details"]["cached_before"] == 0.0
        assert points["recompute", tokens]["details"]["prefill_s"] > 0
    assert "kv_restore" in {finding["rule"] for finding in run["findings"]}
    assert not list(place.iterdir())


def test_wrong_restored_cache_is_refused(place: Path) -> None:
    assert main(["inference", *TINY, "--restore", "onnxruntime", "--path", str(place), "--generate", "--quiet"]) == 0
    folder = place / "hwdyno-model-tiny"
    model = shapes.find("tiny").decoder
    assert model is not None
    (folder / "kv-onnxruntime-16").write_bytes(bytes(16 * model.kv_bytes))
    job = {"way": "restore", "tokens": 16, "model": "tiny", "path": str(folder)}
    with pytest.raises(OSError, match="gives another token than the computed one"):
        find("inference_restore").run(job)
    assert main(["inference", *TINY, "--restore", "onnxruntime", "--path", str(place), "--dry-run", "--quiet"]) == 0


# --- a full disk, on a separate filesystem


def _fill(folder: Path, leave: int = 0) -> Path:
    """A file that takes all room of a filesystem but this many bytes."""
    room = os.statvfs(folder)
    filler = folder / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - leave)
    return filler


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    with mounted("tmpfs", tmp_path / "disk", "-t", "tmpfs", "-o", request.param) as disk:
        yield disk


@loops
@pytest.mark.parametrize("small_disk", ["size=8m"], indirect=True)
@pytest.mark.parametrize("stack", ["onnxruntime", "llama.cpp"])
def test_a_disk_that_is_full_leaves_no_part_of_a_kv_cache(stack: str, small_disk: Path, place: Path) -> None:
    words = ["inference", *TINY, "--restore", stack, "--tokens", "64", "--path", str(small_disk), "--quiet"]
    assert main([*words, "--generate"]) == 0
    folder = small_disk / "hwdyno-model-tiny"
    job = {"way": "restore", "tokens": 64, "model": "tiny", "stack": stack, "path": str(folder), "threads": 1}
    filler = _fill(small_disk, leave=8192)
    with pytest.raises(
        OSError, match=r"KV cache of 64 tokens could not be written to .*: No space left on device"
    ) as caught:
        find("inference_restore").run(job)
    assert "\n" not in str(caught.value) and "Errno" not in str(caught.value)
    assert not list(folder.glob("kv-*"))
    filler.unlink()
    assert find("inference_restore").run(job)["streams"][0]["operations"]


@loops
@pytest.mark.parametrize("small_disk", ["size=64m"], indirect=True)
def test_what_a_full_disk_does_not_need_is_measured(
    small_disk: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Room for the bytes is there, and for the files it is not: a partial Run with what is computed."""
    words = ["inference", *TINY, "--restore", "onnxruntime", "--tokens", "16", "--path", str(small_disk)]
    assert main([*words, "--generate", "--quiet"]) == 0
    before = sorted(small_disk.rglob("*"))
    subprocess.run(["mount", "-o", f"remount,nr_inodes={len(before) + 1}", str(small_disk)], check=True)
    capsys.readouterr()
    assert main([*words, "--json", "--no-page", "--quiet"]) == 3
    printed = capsys.readouterr()
    run = json.loads(printed.out)
    assert {point["parameters"]["way"] for point in run["experiments"][0]["points"]} == {"recompute"}
    (line,) = (candidate for candidate in printed.err.splitlines() if "No space left" in candidate)
    assert "the KV cache of 16 tokens could not be written" in line and "use fewer --tokens" in line
    assert sorted(small_disk.rglob("*")) == before


@loops
@pytest.mark.parametrize("small_disk", ["size=64m,nr_inodes=10"], indirect=True)
def test_users_whose_kv_cache_fills_the_disk_are_a_partial_run(
    small_disk: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--kv-cache", "llama3.1-8b", "--scale", "0.01", "--users", "4,8", "--runtime", "1", "--capacity", "32M"]
    assert main(["inference", *words, "--path", str(small_disk), "--json", "--no-page"]) == 3
    printed = capsys.readouterr()
    run = json.loads(printed.out)
    assert any(
        "The storage filled up" in finding["says"] or "the storage filled up" in finding["says"]
        for finding in run["findings"]
    )
    assert "No space left on device" in printed.err and "Traceback" not in printed.err
    assert not list(small_disk.iterdir())


def test_a_dry_run_names_the_bytes_that_then_lie_there(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*TINY, "--cold", "raw,mapped,llama.cpp", "--path", str(place)]
    request = inference.request(make_parser("inference").read([*words, "--generate"]))
    scenario = make_scenario(request, Local())
    (files,) = scenario.prepares()
    assert not list(place.iterdir())
    assert main(["inference", *words, "--generate", "--quiet"]) == 0
    folder = place / "hwdyno-model-tiny"
    assert {WEIGHTS, GRAPH, GGUF} <= {path.name for path in folder.iterdir()}
    # A tiny model's headers and its 512 tokens' names are not worth counting.
    assert bytes_below(place) == pytest.approx(files.bytes, rel=0.05)
    assert main(["inference", *words, "--dry-run", "--quiet"]) == 0
    assert "(existing model)\n" in capsys.readouterr().out


def test_flipped_bit_in_model_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["inference", *TINY, "--cold", "raw", "--path", str(place), "--quiet"]
    assert main([*words, "--generate"]) == 0
    file = place / "hwdyno-model-tiny" / WEIGHTS
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    capsys.readouterr()
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert "has another checksum than it was made with; remove it" in shown and shown.count("\n") == 1
    assert file.exists(), "what was there before stays"


@pytest.mark.parametrize("ending", shortly(2, "safetensors", "gguf", "onnx"))
def test_users_file_is_loaded_and_kept(ending: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*TINY, "--cold", "raw,llama.cpp", "--path", str(place), "--generate", "--quiet"]
    assert main(["inference", *words]) == 0
    source = place / "hwdyno-model-tiny"
    theirs = place / f"theirs.{ending}"
    (source / f"model.{ending}").rename(theirs)
    if ending == "onnx":
        (source / WEIGHTS).rename(place / WEIGHTS)
    before = {path.name: path.stat().st_mtime_ns for path in place.iterdir() if path.is_file()}
    run = measured(["--model", str(theirs)], place, capsys)
    loaders = {loader for (loader,) in by(run["inference.cold_start"], "loader")}
    wanted = {"onnx": {"onnxruntime", "mapped"}, "gguf": {"llama.cpp"}, "safetensors": set[str]()}[ending]
    assert loaders == {"raw", "read", "mmap"} | wanted
    if ending == "onnx":
        assert [path.name for path in model_files.list_files(theirs, "mapped")] == [theirs.name, WEIGHTS]
    assert {path.name: path.stat().st_mtime_ns for path in place.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", "7b"], "no model is called '7b'"),
        (["--model", "no/such.onnx"], "no such file"),
        (["--model", "place/x.onnx"], "no such file"),
        (["--cold", "torch"], "--cold torch is unknown"),
        (["--cold", "llama.cpp", "--model", "resnet50"], "llama.cpp does not read the model resnet50"),
        (["--decode", "onnxruntime", "--model", "home.gguf"], "no such file"),
        (["--threads", "2"], "--threads is an axis of one test; name it"),
        (["--cold", "raw", "--users", "2"], "inference_load has no parameter 'users'"),
        (["--cold", "raw", "--path", "/no/such"], "is not a directory"),
        (["--cold", "raw", "--chunk", "1"], "chunk"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], says: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [] if "--path" in words else ["--path", str(place)]
    assert main(["inference", *words, *where, "--quiet"]) == 2
    shown = capsys.readouterr()
    assert says in shown.err and shown.err.count("\n") == 1 and not shown.out
    assert not list(place.iterdir())


def test_a_missing_engine_is_one_line(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    for words in (["--cold", "mapped"], ["--decode", "onnxruntime"]):
        assert main(["inference", *TINY, *words, "--path", str(place), "--quiet"]) == 2
        shown = capsys.readouterr().err
        assert 'needs onnxruntime: pip install "hwdyno[inference]"' in shown and shown.count("\n") == 1
    with pytest.raises(UserError, match="xllamacpp: pip install xllamacpp"):
        installed.need("llama.cpp")


def test_command_imports_nothing_heavy() -> None:
    code = (
        "import sys; from hwdyno.cli.main import make_parser; make_parser('inference');"
        "print([name for name in ('onnxruntime', 'xllamacpp', 'google_crc32c', 'numpy') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(found.stdout.replace("'", '"'))) <= {"numpy"}


def test_resident_share_is_that_of_pages(tmp_path: Path) -> None:
    file = Path.cwd() / "target" / "resident" if (Path.cwd() / "target").is_dir() else tmp_path / "file"
    try:
        file.write_bytes(bytes(1 << 20))
        model_files.drop((file,))
        assert model_files.cached_share((file,)) == 0.0
        with file.open("rb", buffering=0) as opened:
            opened.read(4096)
        share = model_files.cached_share((file,))
        assert share is not None and 0 < share <= 1
        model_files.warm((file,))
        assert model_files.cached_share((file,)) == 1.0
        assert model_files.touch_mapped((file,)) == 1 << 20
    finally:
        file.unlink()


def test_each_plain_reader_reads_every_byte(tmp_path: Path) -> None:
    file = tmp_path / "model"
    data = bytes(range(256)) * 4096 + b"end"
    file.write_bytes(data)
    for threads in (1, 3):
        place = model_files.fresh((file,), 65536)
        assert model_files.read((file,), 65536, threads, place, direct=False) == len(data)
        assert bytes(place(0, 0, len(data))) == data
        assert model_files.read((file,), 4096, threads, model_files.reuse_buffers(4096, threads), direct=False) == len(
            data
        )


def test_kept_models_header_has_checksums(place: Path) -> None:
    assert main(["inference", *TINY, "--cold", "raw", "--path", str(place), "--generate", "--quiet"]) == 0
    opened = safetensors.read_header(place / "hwdyno-model-tiny" / WEIGHTS)
    assert (
        set(json.loads(opened.about["crc32c"]))
        == set(opened.places)
        == {tensor.name for tensor in shapes.find("tiny").tensors}
    )
