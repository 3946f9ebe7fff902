"""A model's start from an object store: the same bytes as from files, ranged reads, and nothing left in the bucket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hwdyno.cli.main import main
from hwdyno.measure import plan
from hwdyno.measure.models import GRAPH, WEIGHTS, installed, onnx, safetensors, shapes
from hwdyno.measure.scenarios.model import SEED
from hwdyno.measure.workloads import find
from object_store import ACCESS_KEY, SECRET_KEY, real_store, set_credentials

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]

ENGINES = [name for name in installed.STREAMING if installed.is_here(name)]
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    set_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], repeats_min=1, repeats_max=1))
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "buckets"
    (folder / "bench").mkdir(parents=True)
    with real_store("versitygw", folder) as url:
        yield url, folder / "bench"


def objects_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def made_files() -> dict[str, bytes]:
    """The tiny model as it is on a file system."""
    model = shapes.find("tiny")
    weights = b"".join(bytes(memoryview(part).cast("B")) for part in safetensors.parts(model, SEED))
    at, places = len(safetensors.header(model, SEED)), {}
    for tensor in model.tensors:
        places[tensor.name] = safetensors.TensorExtent(at, tensor.bytes)
        at += tensor.bytes
    return {WEIGHTS: weights, GRAPH: bytes(onnx.make_graph(model, WEIGHTS, places))}


@pytest.mark.parametrize("is_second", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_store_is_measured_also_beside_a_folder_and_left_empty(
    is_second: bool, store: tuple[str, Path], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, bucket = store
    (bucket / "mine").write_text("data")
    places = [f"disk={place}", "store=s3://bench/models"] if is_second else ["s3://bench"]
    words = ["--model", "tiny", "--cold", "raw,read", *(word for text in places for word in ("--path", text))]
    assert main(["inference", *words, "--store-endpoint", url, "--quiet", "--json", "--no-page"]) in {0, 3}
    text = capsys.readouterr().out
    run = json.loads(text)
    of_store = run["experiments"][-1]
    names = ["inference.cold_start@disk", "inference.model_stream@store"] if is_second else ["inference.model_stream"]
    assert [experiment["name"] for experiment in run["experiments"]] == names
    size = len(made_files()[WEIGHTS])
    for point in of_store["points"]:
        details = point["details"]
        assert point["bytes"] == point["repeats"] * size and not point["faults"]
        parts = sum(details.get(f"{name}_s", 0.0) for name in ("open", "read", "deserialize", "first_answer"))
        assert parts * point["repeats"] == pytest.approx(point["elapsed_s"], rel=0.01)
        # Its length, and one range: the tiny model is smaller than a chunk.
        assert details["requests"] == 2 and 1 <= details["connections_made"] <= 8
        assert "cache" not in {**of_store["fixed"], **point["parameters"]} and "cached_before" not in details
    way, plain = of_store["ceilings"]
    assert plain["formula"].startswith("plain ranged reads of the same object")
    assert way["label"] == "TCP over loopback" and way["value"] > plain["value"]
    rules = {finding["rule"] for finding in run["findings"] if finding["experiment"] == of_store["name"]}
    assert not rules & {"load_not_cold", "storage_stops_mattering", "page_cache"}
    assert objects_in(bucket) == ["mine"] and not list(place.iterdir())
    assert SECRET_KEY not in text and ACCESS_KEY not in text


@pytest.mark.long
def test_every_loader_of_memory_starts_the_model_of_a_store(
    store: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    url, bucket = store
    words = ["inference", "--model", "tiny", "--cold", ",".join(ENGINES), "--threads", "3", "--chunk", "64k"]
    words += ["--path", "s3://bench", "--store-endpoint", url, "--quiet", "--json", "--no-page"]
    assert main(words) in {0, 3}
    run = json.loads(capsys.readouterr().out)
    (result,) = run["experiments"]
    points = {point["parameters"]["loader"]: point for point in result["points"]}
    files = made_files()
    assert set(points) == set(ENGINES)
    for loader, point in points.items():
        sizes = [len(files[WEIGHTS])] + [len(files[GRAPH])] * (loader == "onnxruntime")
        assert point["bytes"] == point["repeats"] * sum(sizes) and not point["faults"]
        assert point["details"]["requests"] == sum(1 + -(-size // 65536) for size in sizes)
        if loader == "onnxruntime":
            assert point["details"]["deserialize_s"] > 0 and point["details"]["first_answer_s"] > 0
    assert "cold_start" in {finding["rule"] for finding in run["findings"]}
    assert f"--store-endpoint {url}" in str(run["findings"]) and not objects_in(bucket)


def test_a_users_object_is_read_and_stays_as_it_is(store: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    url, bucket = store
    (bucket / "team").mkdir()
    (bucket / "team" / "mine.safetensors").write_bytes(made_files()[WEIGHTS])
    words = ["--model", "s3://bench/team/mine.safetensors", "--cold", "read", "--store-endpoint", url]
    assert main(["inference", *words, "--quiet", "--json", "--no-page"]) in {0, 3}
    (result,) = json.loads(capsys.readouterr().out)["experiments"]
    assert result["points"][0]["bytes"] == result["points"][0]["repeats"] * len(made_files()[WEIGHTS])
    assert objects_in(bucket) == ["team/mine.safetensors"]
    assert (bucket / "team" / "mine.safetensors").read_bytes() == made_files()[WEIGHTS]
    job = {"loader": "raw", "path": "s3://bench/team/other.safetensors", "endpoint": url}
    with pytest.raises(OSError, match=r"read s3://bench/team/other\.safetensors: 404: the key is missing"):
        find("inference_stream").run(job)


def test_an_interrupt_while_it_is_written_leaves_nothing(store: tuple[str, Path], tmp_path: Path) -> None:
    url, bucket = store
    words = [
        "inference",
        "--model",
        "32m",
        "--cold",
        "raw",
        "--path",
        "s3://bench",
        "--store-endpoint",
        url,
        "--no-page",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "hwdyno", *words], env={**os.environ, "HWDYNO_HOME": str(tmp_path / "home")},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        for _ in range(600):
            if objects_in(bucket):
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
    assert not objects_in(bucket)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--cold", "mmap", "--store-endpoint", NOWHERE), "--cold mmap reads a file, and an object store has none"),
        (("--cold", "raw"), "name the object store: --store-endpoint URL"),
        (("--cold", "raw", "--store-endpoint", NOWHERE), f"connect to the store at {NOWHERE}"),
        (("--cold", "raw", "--store-endpoint", NOWHERE, "--keep"), "keeps no made model"),
        (("--cold", "raw", "--store-endpoint", NOWHERE, "--cache", "warm"), "cache"),
        (("--cold", "raw", "--store-endpoint", NOWHERE, "--model", "s3://bench/x.gguf"), "an object is a .safetensors"),
        (("--decode", "onnxruntime", "--store-endpoint", NOWHERE), "this test works on files"),
    ],
)
def test_what_a_store_cannot_do_is_one_line(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inference", "--path", "s3://bench/x", *words]) == 2
    assert says in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_dry_run_says_what_a_store_lacks(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--path", f"disk={place}", "--path", "store=s3://bench/x", "--store-endpoint", NOWHERE, "--dry-run"]
    assert main(["inference", "--cold", "raw,mmap", *words]) == 0
    listed, remarks = capsys.readouterr()
    assert "an object store has no files; left out on store: mmap\n" in remarks
    assert "below s3://bench/x/hwdyno-… (made and removed)" in listed


def test_a_run_without_a_store_leaves_it_out(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--only", "inference.model_stream", "--dry-run", "--path", str(place)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "reads from an object store: hwdyno inference --cold" in lines[0]
    both = "inference.memory,inference.model_stream"
    assert main(["run", "--only", both, "--dry-run", "--path", str(place)]) == 0
    assert "model_stream" not in capsys.readouterr().out
