"""The loader reads what is there, names what is not, and never hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwdyno.measure import engine

pytestmark = [pytest.mark.machine, pytest.mark.timeout(60)]

SHAPE: dict[str, Any] = {"files": 6, "samples_per_file": 4, "record_bytes": 20_000, "record_bytes_stdev": 0}
FORMATS = ["npz", "npy", "tfrecord", "hdf5", "jpeg", "png", "csv", "bin", "parquet"]


def shape(ending: str) -> dict[str, Any]:
    extra = {"jpeg": {"samples_per_file": 1, "files": 24}, "png": {"samples_per_file": 1, "files": 24}}
    return {**SHAPE, "format": ending, **extra.get(ending, {})}


def generate(path: Path, ending: str = "npz", **more: Any) -> list[Path]:
    columns = {"columns": 5, "row_group": 3} if ending == "parquet" else {}
    engine.run("training_generate", {**shape(ending), **columns, **more, "path": str(path)})
    return sorted((path / "train").glob(f"*.{ending}"))


def load(path: Path, ending: str = "npz", **more: Any) -> dict[str, Any]:
    base = {**shape(ending), "batch_size": 2, "epochs": 2, "compute": 0, "read_threads": 2, "transfer_size": 4096}
    return engine.run("training_loader", {**base, **more, "path": str(path)})


def says(reading: dict[str, Any]) -> str:
    return " | ".join(fault["says"] for fault in reading["faults"])


def notes(reading: dict[str, Any]) -> set[str]:
    return {note["code"] for note in reading["notes"]}


@pytest.mark.parametrize("parse", ["full", "raw"])
@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_is_read_whole_and_found_sound(tmp_path: Path, ending: str, parse: str) -> None:
    files = generate(tmp_path, ending)
    reading = load(tmp_path, ending, parse=parse)
    (stream,) = reading["streams"]
    assert not reading["faults"]
    assert stream["operations"] == 2 * 24
    assert stream["latency_ns"]["total"]["count"] == 2 * 12
    total = 2 * sum(path.stat().st_size for path in files)
    if ending == "parquet":  # columns and footers, the latter once a file and reader
        assert 0.9 * total < stream["bytes"] < 3 * total
    else:
        assert stream["bytes"] == total
    assert reading["details"]["nominal_bytes"] == 2 * 24 * 20_000
    assert not notes(reading)


@pytest.mark.parametrize("ending", FORMATS)
def test_random_epoch_reads_all_samples_once(tmp_path: Path, ending: str) -> None:
    generate(tmp_path, ending)
    plain, shuffled = load(tmp_path, ending, batch_size=4), load(tmp_path, ending, batch_size=4, order="shuffled")
    assert not shuffled["faults"]
    assert shuffled["streams"][0]["operations"] == plain["streams"][0]["operations"]
    if ending not in {"parquet", "hdf5"}:  # footers and uneven slices differ
        assert shuffled["streams"][0]["bytes"] == plain["streams"][0]["bytes"]


def test_accelerators_share_the_samples(tmp_path: Path) -> None:
    generate(tmp_path, "tfrecord")
    reading = load(tmp_path, "tfrecord", accelerators=4, batch_size=3)
    assert reading["details"]["steps"] == 4 * 2 * 2
    assert reading["streams"][0]["operations"] == 2 * 24
    assert not notes(reading)


def test_numpys_own_files_are_read(tmp_path: Path) -> None:
    train = tmp_path / "train"
    train.mkdir()
    rng = np.random.default_rng(1)
    for number in range(4):
        record = rng.integers(0, 256, (100, 200, 1), dtype=np.uint8)
        np.savez(train / f"img_{number}_of_4.npz", x=record, y=[0])
    reading = load(tmp_path, files=4, samples_per_file=1)
    assert not reading["faults"]
    np.savez_compressed(train / "img_3_of_4.npz", x=np.zeros((100, 200, 1), dtype=np.uint8), y=[0])
    assert not load(tmp_path, files=4, samples_per_file=1)["faults"]


def damage(path: Path, at: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0x55
    path.write_bytes(data)


@pytest.mark.parametrize(("ending", "lost"), [("npz", 2), ("tfrecord", 2), ("png", 1), ("parquet", 2)])
def test_a_corrupt_file_is_named(tmp_path: Path, ending: str, lost: int) -> None:
    files = generate(tmp_path, ending)
    damage(files[2], 0.2)
    reading = load(tmp_path, ending, epochs=1)
    assert files[2].name in says(reading)
    assert "corrupt" in says(reading)
    assert reading["details"]["lost_samples"] == lost
    assert not load(tmp_path, ending, epochs=1, parse="raw")["faults"]


@pytest.mark.parametrize("ending", FORMATS)
def test_a_truncated_file_is_named(tmp_path: Path, ending: str) -> None:
    files = generate(tmp_path, ending)
    os.truncate(files[1], files[1].stat().st_size - 100)
    reading = load(tmp_path, ending, epochs=1)
    assert files[1].name in says(reading)
    assert {fault["operation"] for fault in reading["faults"]} <= {"parse", "read"}
    assert reading["streams"][0]["latency_ns"]["total"]["count"] == 12


def test_empty_and_missing_files_are_named(tmp_path: Path) -> None:
    files = generate(tmp_path)
    os.truncate(files[0], 0)
    files[4].unlink()
    reading = load(tmp_path, epochs=1)
    assert f"{files[4]} is missing: 5 of 6 files are there" in says(reading)
    assert f"{files[0]}: it is empty" in says(reading)
    assert reading["streams"][0]["operations"] == 20


def test_another_workloads_data_is_named(tmp_path: Path) -> None:
    generate(tmp_path)
    with pytest.raises(engine.MachineError, match=r"no \.jpeg file under .*img_0_of_6\.npz is of another workload"):
        load(tmp_path, "jpeg")
    (tmp_path / "train" / "notes.txt").write_text("mine")
    assert "notes.txt is no .npz" in says(load(tmp_path))
    reading = load(tmp_path, record_bytes=5e6)
    assert "other_workload" in notes(reading)


def test_no_data_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(engine.MachineError, match="generate it first"):
        load(tmp_path / "nowhere")


def test_uneven_tails_end_epoch_for_all(tmp_path: Path) -> None:
    generate(tmp_path, files=5, samples_per_file=1)
    reading = load(tmp_path, files=5, samples_per_file=1, accelerators=3, batch_size=1)
    assert "uneven_tails" in notes(reading)
    assert reading["details"]["steps"] == 3 * 2
    assert reading["details"]["samples_left_over"] == 2


def test_more_accelerators_than_batches_do_nothing_and_say_so(tmp_path: Path) -> None:
    generate(tmp_path)
    assert "no_step" in notes(load(tmp_path, accelerators=40))


def test_time_limit_ends_all_together(tmp_path: Path) -> None:
    generate(tmp_path)
    reading = load(tmp_path, accelerators=2, compute=0.02, epochs=10_000, runtime=0.3)
    assert not reading["interrupted"]
    assert 0 < reading["details"]["steps"] < 2 * 60
    assert reading["details"]["steps"] % 2 == 0


def test_computing_is_emulated_and_counted(tmp_path: Path) -> None:
    generate(tmp_path)
    details = load(tmp_path, compute=0.01, epochs=1)["details"]
    assert details["compute_s"] >= 11 * 0.01
    assert 0 < details["au_rule"] <= 1
    assert 0 < details["au_dlio"] <= 1
    assert details["au_without_barrier"] >= details["au_dlio"]


def test_interrupted_epoch_keeps_its_steps(tmp_path: Path) -> None:
    generate(tmp_path)
    parameters = {**shape("npz"), "batch_size": 2, "epochs": 10_000, "compute": 0.02, "path": str(tmp_path)}
    script = (
        "import json, sys; from hwdyno.measure import engine; print('go', flush=True);"
        f"print(json.dumps(engine.run('training_loader', json.loads({json.dumps(parameters)!r}))))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        while sum(1 for _ in Path(f"/proc/{process.pid}/task").iterdir()) < 6:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        reading = json.loads(process.stdout.read())
    assert reading["interrupted"] is True


@pytest.mark.parametrize("accelerators", [1, 3])
def test_without_readers_accelerator_reads_for_itself(tmp_path: Path, accelerators: int) -> None:
    files = generate(tmp_path)
    reading = load(tmp_path, read_threads=0, accelerators=accelerators)
    assert not reading["faults"]
    assert reading["streams"][0]["bytes"] == 2 * sum(path.stat().st_size for path in files)


def test_direct_reads_or_says_why_not(tmp_path: Path) -> None:
    files = generate(tmp_path)
    reading = load(tmp_path, direct=True, epochs=1)
    assert not reading["faults"]
    whole = sum(path.stat().st_size for path in files)
    assert reading["streams"][0]["bytes"] == whole
    # The files were just written: only direct reads of them reach the device.
    refused = [note["code"] for note in reading["notes"]] == ["direct_refused"]
    assert refused or reading["counters"]["process_read_bytes"] >= whole


def test_zip_directory_beyond_file_is_rejected(tmp_path: Path) -> None:
    files = generate(tmp_path)
    data = bytearray(files[0].read_bytes())
    end = data.rindex(b"PK\x05\x06")
    data[end + 16 : end + 20] = (2**31).to_bytes(4, "little")
    files[0].write_bytes(data)
    assert "directory lies beyond its end" in says(load(tmp_path, epochs=1))


def test_dlrm_reads_row_groups_of_6144_and_40_of_200_columns(tmp_path: Path) -> None:
    from hwdyno.formats import workload

    dlrm = workload.find("dlrm", "b200").with_samples(6144 * 8)
    engine.run("training_generate", {**dlrm.layout, "path": str(tmp_path)})
    parameters = {**dlrm.parameters, "path": str(tmp_path), "compute": 0, "read_threads": 1}
    (chosen,), (whole,) = (
        engine.run("training_loader", {**parameters, "read_columns": columns})["streams"] for columns in (40, 0)
    )
    assert chosen["operations"] == whole["operations"] == 3 * 16384
    # beside the columns: page headers, and the footer of 8 x 200 chunks once
    assert 160 < chosen["bytes"] / chosen["operations"] < 180
    assert 761 < whole["bytes"] / whole["operations"] < 785


def test_checkpoint_has_models_layout_over_ranks(tmp_path: Path) -> None:
    """Model and optimizer are in separate files, and only one replica of the model is saved."""
    parameters = {"path": str(tmp_path), "checkpoint_bytes": 14 << 20, "ranks": 4, "writes": 2, "reads": 2, "slots": 2}
    whole = engine.run("training_checkpoint", {**parameters, "model_share": 1 / 7})
    part = engine.run("training_checkpoint", {**parameters, "model_share": 1 / 7, "model_ranks_share": 0.5})
    by_layer = engine.run("training_checkpoint", {**parameters, "model_share": 1 / 7, "model_files": 3})
    for reading in (whole, part, by_layer):
        saved, loaded = reading["streams"]
        assert not reading["faults"]
        assert saved["bytes"] == loaded["bytes"] == 2 * reading["details"]["checkpoint_bytes"]
        assert reading["details"]["checkpoint_bytes"] == pytest.approx(14 << 20, abs=16)
    assert not list(tmp_path.iterdir())
