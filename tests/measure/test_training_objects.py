"""Training from an object store: the same data set and figures as from files, only the run's own objects removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warm
from here import shortly
from hwdyno.cli.main import main
from hwdyno.measure import engine
from hwdyno.measure.models.installed import is_here
from object_store import ACCESS_KEY, SECRET_KEY, null_store, set_credentials
from object_store import real_store as serve_store

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]

SHAPE: dict[str, Any] = {"files": 6, "samples_per_file": 4, "record_bytes": 20_000, "record_bytes_stdev": 0}
FORMATS = ["npz", "tfrecord", "parquet", "npy", "hdf5", "jpeg", "png", "csv", "bin"]
FOLDER = "hwdyno-0123456789abcdef"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_credentials(monkeypatch, tmp_path)


@pytest.fixture
def store() -> Iterator[str]:
    with null_store() as url:
        yield url


@pytest.fixture
def real_store(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "buckets"
    (folder / "bench").mkdir(parents=True)
    with serve_store("versitygw", folder) as url:
        yield url, folder / "bench"


def shape(ending: str) -> dict[str, Any]:
    more = {"parquet": {"columns": 5, "row_group": 3}}
    images = {"samples_per_file": 1, "files": 24} if ending in {"jpeg", "png"} else {}
    return {**SHAPE, "format": ending, **more.get(ending, {}), **images}


def generate(url: str, ending: str, **more: Any) -> dict[str, Any]:
    return engine.run("training_generate", {**shape(ending), "endpoint": url, "path": f"s3://bench/{FOLDER}", **more})


def load(url: str, ending: str, path: str = f"s3://bench/{FOLDER}", **more: Any) -> dict[str, Any]:
    base = {"batch_size": 2, "epochs": 2, "compute": 0, "read_threads": 2, "endpoint": url, "path": path}
    return engine.run("training_loader", {**shape(ending), **base, **more})


def says(reading: dict[str, Any]) -> str:
    return " | ".join(fault["says"] for fault in reading["faults"])


def objects_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("ending", shortly(3, *FORMATS))
def test_every_format_is_read_whole_as_from_files(real_store: tuple[str, Path], tmp_path: Path, ending: str) -> None:
    url, bucket = real_store
    assert not generate(url, ending)["faults"]
    engine.run("training_generate", {**shape(ending), "path": str(tmp_path / "files")})
    named = sorted((tmp_path / "files" / "train").iterdir())
    assert [path.name for path in named] == sorted(path.name for path in (bucket / FOLDER / "train").iterdir())
    assert all(path.read_bytes() == (bucket / FOLDER / "train" / path.name).read_bytes() for path in named)
    for parse in ("full", "raw"):
        reading = load(url, ending, parse=parse)
        (stream,) = reading["streams"]
        assert not reading["faults"] and not reading["notes"], says(reading)
        assert stream["operations"] == 2 * 24
        if ending != "parquet":  # Its footers are read by each reader.
            assert stream["bytes"] == 2 * sum(path.stat().st_size for path in named)
    details = reading["details"]
    assert details["cached_share_by_device"] is None and details["cached_share_before"] is None
    assert 1 <= details["connections_made"] <= 2 and details["requests_repeated"] == 0


def test_a_whole_object_is_one_request_and_a_batch_of_a_shard_one_range(real_store: tuple[str, Path]) -> None:
    url, _ = real_store
    generate(url, "npz", samples_per_file=1, files=24)
    reading = load(url, "npz", samples_per_file=1, files=24)
    assert reading["details"]["requests"] == 2 * 24
    generate(url, "tfrecord", path=f"s3://bench/x/{FOLDER}")
    reading = load(url, "tfrecord", path=f"s3://bench/x/{FOLDER}")
    assert reading["details"]["requests"] == 2 * 24 / 2


def test_numpys_own_objects_are_read_and_a_corrupt_one_is_named(real_store: tuple[str, Path]) -> None:
    url, bucket = real_store
    train = bucket / "team" / "train"
    train.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for number in range(4):
        save = np.savez_compressed if number == 3 else np.savez
        save(train / f"img_{number}_of_4.npz", x=rng.integers(0, 256, (100, 200, 1), dtype=np.uint8), y=[0])
    given = {"path": "s3://bench/team", "files": 4, "samples_per_file": 1, "epochs": 1}
    assert not load(url, "npz", **given)["faults"]
    whole = (train / "img_1_of_4.npz").read_bytes()
    (train / "img_1_of_4.npz").write_bytes(whole[:5000] + bytes([whole[5000] ^ 0x55]) + whole[5001:])
    (train / "img_2_of_4.npz").write_bytes(whole[:-100])
    found = load(url, "npz", **given)
    assert "img_1_of_4.npz: the CRC-32 of its zip entry" in says(found) and found["details"]["lost_samples"] >= 1
    assert "s3://bench/team/train/" in says(found)


def test_objects_that_vanish_or_shrink_are_named(real_store: tuple[str, Path]) -> None:
    url, bucket = real_store
    generate(url, "bin", samples_per_file=1)
    (bucket / FOLDER / "train" / "img_3_of_6.bin").unlink()
    os.truncate(bucket / FOLDER / "train" / "img_4_of_6.bin", 100)
    reading = load(url, "bin", samples_per_file=1, epochs=1)
    assert "img_3_of_6.bin is missing: 5 of 6 files" in says(reading)
    assert "img_4_of_6.bin: it has 100 bytes where" in says(reading)


def test_a_large_object_is_written_in_parts(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, bucket = real_store
    large = {"files": 1, "samples_per_file": 1, "record_bytes": 150e6}
    assert not generate(url, "npz", **large)["faults"]
    with np.load(bucket / FOLDER / "train" / "img_0_of_1.npz") as archive:
        assert archive["x"].size > 149e6
    assert not load(url, "npz", **large, batch_size=1, epochs=1)["faults"]
    assert objects_in(bucket) == [f"{FOLDER}/.hwdyno", f"{FOLDER}/train/img_0_of_1.npz"]


def hwdyno(folder: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HWDYNO_HOME": str(folder / "home"), **changes}
    return warm.run(words, cwd=folder, env=environment)


TINY = ("--workload", "tiny.yaml", "--accelerators", "1,2", "--runtime", "0.3", "--no-page")


def write_workload(folder: Path) -> None:
    (folder / "tiny.yaml").write_text(
        "model: {name: tiny}\nframework: pytorch\n"
        "dataset: {data_folder: data, format: npz, num_files_train: 24, num_samples_per_file: 1,\n"
        "  record_length_bytes: 900}\n"
        "reader: {batch_size: 2, read_threads: 2}\ntrain: {epochs: 2, computation_time: 0.01}\n"
    )


def measured(folder: Path, *words: str) -> dict[str, Any]:
    write_workload(folder)
    done = hwdyno(folder, "training", *TINY, *words, "--json")
    assert done.returncode in {0, 3}, done.stderr
    assert SECRET_KEY not in done.stdout + done.stderr and ACCESS_KEY not in done.stdout + done.stderr
    run: dict[str, Any] = json.loads(done.stdout)
    return run


def test_a_run_on_objects_has_the_figures_of_files_and_no_claim_of_a_cache(store: str, tmp_path: Path) -> None:
    run = measured(tmp_path, "--path", "s3://bench/data", "--endpoint", store)
    result, plain = run["experiments"]
    assert [point["parameters"]["accelerators"] for point in result["points"]] == [1, 2]
    # Its own objects are read by as many plain GETs as there are readers.
    assert (plain["name"], plain["kernel"]) == ("object.pattern.tiny", "object_requests")
    assert [point["parameters"]["concurrency"] for point in plain["points"]] == [2, 4]
    assert all(point["operations"] > 0 and not point["faults"] for point in plain["points"])
    known = {ceiling["label"]: ceiling for ceiling in result["ceilings"]}
    assert set(known) == {"TCP over loopback", "plain GETs"}
    assert [ceiling["metric"] for ceiling in result["ceilings"]] == ["object/down", "object/down/2", "object/down/4"]
    for point in result["points"]:
        assert 0 < point["details"]["au_dlio"] <= 1 and point["details"]["samples_s"] > 0 and not point["faults"]
    rules = {finding["rule"] for finding in run["findings"]}
    assert "training_capacity" in rules and not rules & {"training_cached", "page_cache", "training_client_bound"}
    storage = run["machines"][0]["storage"]
    assert storage["path"] == "s3://bench/data" and not storage["disks"]
    assert not result["peers"]
    advice = " ".join(finding["advice"] for finding in run["findings"])
    assert "--path s3://bench/data" in advice and f"--endpoint {store}" in advice and "--path s3:/b" not in advice


def test_a_users_data_set_is_used_as_it_is(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, bucket = real_store
    write_workload(tmp_path)
    made = {"format": "npz", "files": 24, "record_bytes": 900, "record_bytes_stdev": 0, "path": str(bucket / "team")}
    engine.run("training_generate", made)
    before = objects_in(bucket)
    run = measured(tmp_path, "--path", "s3://bench/team", "--endpoint", url)
    assert all(point["details"]["lost_samples"] == 0 for point in run["experiments"][0]["points"])
    assert objects_in(bucket) == before and "--path s3://bench/team" in str(run["findings"])
    done = hwdyno(tmp_path, "training", "--workload", "cosmoflow", "--accelerator", "a100", "--path", "s3://bench/team",
                  "--endpoint", url)  # fmt: skip
    assert done.returncode == 2 and "has no .tfrecord object of cosmoflow, but .npz" in done.stderr, done.stderr


def test_what_a_run_wrote_goes(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, bucket = real_store
    (bucket / "mine").write_text("data")
    measured(tmp_path, "--path", "s3://bench", "--endpoint", url)
    assert objects_in(bucket) == ["mine"]


# The command, and how many objects are there once it measures.
INTERRUPTED = {
    "loader": ("training --workload tiny.yaml --accelerators 1 --runtime 60 --profile full --epochs 1000", 25),
    "checkpoint": ("training --checkpoint llama3-8b --scale 0.002 --ranks 2 --profile full", 3),
    "kv_cache": ("inference --kv-cache llama3.1-8b --users 2 --runtime 60", 3),
}


@pytest.mark.parametrize("kind", shortly(1, *INTERRUPTED))
def test_an_interrupt_ends_in_seconds_with_a_run_and_an_empty_bucket(
    real_store: tuple[str, Path], tmp_path: Path, kind: str
) -> None:
    url, bucket = real_store
    (bucket / "mine").write_text("data")
    write_workload(tmp_path)
    line, objects = INTERRUPTED[kind]
    endpoint = "--store-endpoint" if kind == "kv_cache" else "--endpoint"
    environment = {**os.environ, "HWDYNO_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        [sys.executable, "-m", "hwdyno", *line.split(), "--path", "s3://bench", endpoint, url, "--no-page", "--json"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as running:  # fmt: skip
        for _ in range(600):
            if len(objects_in(bucket)) > objects:
                break
            time.sleep(0.05)
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=15)
        assert running.returncode == 130
    run = json.loads(out)
    assert run["interrupted"] and run["schema"].startswith("hwdyno.run/")
    assert objects_in(bucket) == ["mine"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--path", "s3://bench/x"), "name the object store: --endpoint URL"),
        (("--path", "s3://", "--endpoint", "http://127.0.0.1:9"), "names no bucket"),
        (("--path", "s3://bench/x", "--endpoint", "http://127.0.0.1:9"), "connect to the store at http://127.0.0.1:9"),
        (("--path", "s3://No/x", "--endpoint", "http://127.0.0.1:9"), "a bucket's name has"),
        (("--path", "s3://bench/x", "--endpoint", "http://127.0.0.1:9", "--keep"), "keeps no generated data"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["training", "--workload", "cosmoflow", "--accelerator", "a100", *words]) == 2
    assert says in capsys.readouterr().err.strip().splitlines()[-1]


def test_checkpoints_are_saved_in_parts_and_loaded(real_store: tuple[str, Path]) -> None:
    url, bucket = real_store
    given = {"path": f"s3://bench/{FOLDER}", "endpoint": url, "checkpoint_bytes": 24 << 20, "ranks": 2,
             "model_share": 0.1, "writes": 2, "reads": 2, "slots": 2, "transfer_size": 5 << 20}  # fmt: skip
    reading = engine.run("training_checkpoint", given)
    size = reading["details"]["checkpoint_bytes"]
    assert not reading["faults"]
    assert [(stream["operations"], stream["bytes"]) for stream in reading["streams"]] == [(2, 2 * size), (2, 2 * size)]
    saved = {path.name: path.stat().st_size for path in (bucket / FOLDER).iterdir() if path.name != ".hwdyno"}
    assert sum(saved.values()) == 2 * size and len(saved) == 2 * 2 * 2
    # A model's part is one request; an optimizer's takes three parts, a beginning and an end; each is loaded by one.
    assert reading["details"]["requests"] == 2 * 2 * (1 + 5) + 2 * 2 * 2
    first = (bucket / FOLDER / "checkpoint-0-optimizer-rank-0000-0.hwdyno").read_bytes()
    second = (bucket / FOLDER / "checkpoint-1-optimizer-rank-0000-0.hwdyno").read_bytes()
    assert first != second


def test_a_checkpoint_leaves_nothing_in_the_bucket(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, bucket = real_store
    (bucket / "mine").write_text("data")
    done = hwdyno(tmp_path, "training", "--checkpoint", "llama3-8b", "--scale", "0.0002", "--ranks", "2", "--path",
                  "s3://bench/team", "--endpoint", url, "--no-page", "--json")  # fmt: skip
    assert done.returncode in {0, 3}, done.stderr
    (result,) = json.loads(done.stdout)["experiments"]
    (point,) = result["points"]
    assert point["details"]["save_bytes_s"] > 0 and point["details"]["load_bytes_s"] > 0 and not point["faults"]
    assert objects_in(bucket) == ["mine"]


def test_a_study_lists_a_store_beside_a_folder(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = ["study", "kubernetes-ai-storage", "--endpoint", store, "--samples", "42", "--dry-run"]
    on_ceph = ["--path", "ceph=s3://bench/x"]
    assert main([*study, "--path", f"disk={tmp_path}", *on_ceph, "--no-inference"]) == 0
    listed = capsys.readouterr().out
    assert "training.unet3d.a100.42@ceph" in listed and "training.unet3d.a100.42@disk" in listed
    assert "storage.grid@disk" in listed and "storage.grid@ceph" not in listed
    assert main([*study, "--path", f"disk={tmp_path}", *on_ceph]) == 0
    listed = capsys.readouterr().out
    for name in ("kv_cache.llama3.1-8b", "vector_search.diskann"):
        assert f"inference.{name}@ceph" in listed and f"inference.{name}@disk" in listed
    starts = ["inference.model_stream@ceph" in listed, "inference.cold_start@disk" in listed]
    assert starts == [is_here("onnxruntime")] * 2
    assert main([*study, *on_ceph]) == 0
    listed = capsys.readouterr().out
    assert "training.unet3d.a100" in listed and "vector_search.diskann" in listed and "cold_start" not in listed


def test_a_test_of_files_refuses_a_store(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (
        ["inference", "--decode", "onnxruntime"],
        ["inference", "--images", "8"],
        ["study", "cloud-vm-suite"],
    ):
        assert main([*words, "--path", "s3://bench/x"]) == 2
        assert "this test works on files" in capsys.readouterr().err
    assert not Path("s3:").exists()


def test_a_kv_cache_is_kept_in_a_store(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, bucket = real_store
    given = {"path": f"s3://bench/{FOLDER}", "endpoint": url, "users": 3, "scale": 0.02, "think": 0.0, "runtime": 1.0,
             "capacity": 1 << 30, "transfer_size": 5 << 20, "user_kind": "chatbot"}  # fmt: skip
    reading = engine.run("inference_kv_cache", given)
    details, (read, written) = reading["details"], reading["streams"]
    assert not reading["faults"] and details["corrupt_blocks"] == 0 and details["cached_share_by_device"] is None
    assert read["latency_ns"]["total"]["count"] >= details["storage_hits"] > 0 and written["operations"] > 0
    # An entry of one part is one request; a read is one, too.
    assert details["store_requests"] >= details["storage_hits"] + written["operations"]
    assert all(size % 4096 == 0 for size in (path.stat().st_size for path in bucket.rglob("kv-*")))


def test_a_kv_cache_leaves_nothing_in_the_bucket(real_store: tuple[str, Path], tmp_path: Path) -> None:
    url, bucket = real_store
    done = hwdyno(tmp_path, "inference", "--kv-cache", "llama3.1-8b", "--users", "2", "--runtime", "1.5", "--path",
                  "s3://bench/kv", "--store-endpoint", url, "--no-page", "--json")  # fmt: skip
    assert done.returncode in {0, 3}, done.stderr
    run = json.loads(done.stdout)
    (point,) = run["experiments"][0]["points"]
    assert point["details"]["storage_hits"] > 0 and not point["faults"]
    assert not {finding["rule"] for finding in run["findings"]} & {"page_cache", "kv_cached"}
    assert not objects_in(bucket)
