"""What goes wrong with ``hwdyno training``, end to end: it is named, nothing hangs, and what was measured is kept."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from here import may_mount, needs, once
from hwdyno.cli.main import main
from hwdyno.measure import engine
from hwdyno.system.store import Store

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]

SHAPE: dict[str, Any] = {
    "format": "npz", "files": 12, "samples_per_file": 1, "record_bytes": 40_000, "record_bytes_stdev": 0,
}  # fmt: skip
YAML = """
model: {name: small}
framework: pytorch
dataset: {data_folder: data, format: npz, num_files_train: 12, num_samples_per_file: 1, record_length_bytes: 40000}
reader: {data_loader: pytorch, batch_size: 2, read_threads: 2}
train: {epochs: 2, computation_time: 0.01}
"""
Measured = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    (tmp_path / "small_x.yaml").write_text(YAML)
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.fixture
def data(place: Path) -> list[Path]:
    engine.run("training_generate", {**SHAPE, "path": str(place)})
    return sorted((place / "train").iterdir())


@pytest.fixture
def measured(place: Path, capsys: pytest.CaptureFixture[str]) -> Measured:
    def measure(*more: str) -> tuple[int, dict[str, Any]]:
        status = main(once(*command(place), "--json", "--quiet", "--no-page", *more))
        run: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert [entry["id"] for entry in map(plain_entry, Store(None).history())] == [run["id"]]
        return status, run

    return measure


def plain_entry(entry: Any) -> dict[str, Any]:
    return {"id": entry.id}


def command(place: Path) -> list[str]:
    workload = ["--workload", str(place.parent / "small_x.yaml"), "--path", str(place), "--no-client", "--no-plain"]
    return ["training", *workload, "--accelerators", "1"]


def find_sentences(run: dict[str, Any], rule: str) -> str:
    return " | ".join(found["says"] for found in run["findings"] if found["rule"] == rule)


def test_truncated_corrupt_and_missing_files_are_each_named(data: list[Path], measured: Measured) -> None:
    os.truncate(data[1], data[1].stat().st_size // 2)
    damaged = bytearray(data[3].read_bytes())
    damaged[len(damaged) // 2] ^= 0x55
    data[3].write_bytes(damaged)
    data[5].unlink()
    status, run = measured()
    assert status == 3
    says = find_sentences(run, "training_faults")
    for path, why in ((data[1], "truncated"), (data[3], "corrupt"), (data[5], "missing")):
        assert path.name in says and why in says
    (point,) = run["experiments"][0]["points"]
    assert point["validity"] == "invalid"
    assert not find_sentences(run, "faults")


def test_an_unreadable_file_is_named_and_the_others_are_read(data: list[Path], measured: Measured) -> None:
    data[2].unlink()
    data[2].symlink_to("/no/such/file")
    status, run = measured()
    assert status == 3
    assert f"{data[2].name}: No such file" in find_sentences(run, "training_faults")
    assert run["experiments"][0]["points"][0]["operations"] == 2 * 12


def test_uneven_tails_over_accelerators_end_together_and_are_told(data: list[Path], measured: Measured) -> None:
    _, run = measured("--accelerators", "5", "--batch-size", "1")
    says = find_sentences(run, "training_uneven")
    assert "share the samples unevenly (0 to 3)" in says
    assert run["experiments"][0]["points"]


def test_other_workloads_data_invalidates_point(data: list[Path], measured: Measured) -> None:
    for path in data:
        path.write_bytes(b"x" * 900_000)
    status, run = measured()
    assert status == 3
    assert "they belong to another one" in find_sentences(run, "training_other_data")
    assert run["experiments"][0]["points"][0]["validity"] == "invalid"


def test_data_of_another_format_is_named_before_anything_is_measured(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.run("training_generate", {**SHAPE, "format": "bin", "path": str(place)})
    assert main([*command(place), "--json", "--no-page", "--quiet"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "has no .npz file of" in printed.err and "img_00_of_12.bin: it belongs to another workload" in printed.err


# --- interrupts


def started(place: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hwdyno", *once(*command(place), "--json", "--no-page", *more)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def until(process: subprocess.Popen[str], is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def threads(process: subprocess.Popen[str]) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{process.pid}/task").iterdir())
    except FileNotFoundError:
        return 0


def test_an_interrupt_in_an_epoch_keeps_the_partial_run_and_removes_the_data(place: Path) -> None:
    process = started(place, "--samples", "12", "--epochs", "10000", "--runtime", "60", "--accelerators", "1,2")
    generated = place / "hwdyno-small-12"
    # the loader's own threads: 2 readers and the accelerator, beside the main and the watching one
    until(process, lambda: generated.is_dir() and threads(process) >= 5)
    time.sleep(0.6)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert json.loads(out)["interrupted"] is True
    assert not generated.exists()
    (entry,) = Store(None).history()
    assert Store(None).load(entry.id).interrupted


def test_an_interrupt_while_generating_keeps_what_is_whole_for_the_same_command(place: Path) -> None:
    # 3.2 GB are far from written when the first file is there
    larger = "++workload.dataset.record_length_bytes=8000000"
    process = started(place, "--samples", "400", "--generate", larger)
    train = place / "hwdyno-small-400" / "train"
    until(process, lambda: train.is_dir() and next(train.glob("*.npz"), None) is not None)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "run the same command to continue" in err
    assert not list(train.glob("*.part"))


# --- a full disk, on a separate filesystem


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    where, options = tmp_path / "disk", getattr(request, "param", "size=24m")
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)], check=True, capture_output=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True, capture_output=True)


mounts = needs(may_mount(), "this user may not mount; the check of room needs none")


@mounts
@pytest.mark.parametrize("small_disk", ["size=64m,nr_inodes=30"], indirect=True)
def test_a_data_set_of_more_files_than_inodes_is_one_line_and_left_clean(
    place: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Room for the bytes is there, and for the files it is not."""
    options = [
        *command(place)[:3],
        "--path",
        str(small_disk),
        "--samples",
        "440",
        "--no-client",
        "--no-plain",
    ]
    assert main([*options, "--quiet", "--no-page", "--accelerators", "1"]) == 2
    error = capsys.readouterr().err
    assert re.search(
        r"needs \d+ files and directories, and the filesystem of \S+ has \d+ inodes left: use fewer", error
    )
    assert error.count("\n") == 1
    assert not list(small_disk.iterdir())


@mounts
def test_a_data_set_beyond_a_small_disk_is_refused_with_what_would_fit(
    place: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*command(place)[:3], "--path", str(small_disk), "--samples", "2000", "--quiet", "--accelerators", "1"]
    assert main(options) == 2
    error = capsys.readouterr().err
    assert "free: use a path with more space, or at most" in error
    assert not list(small_disk.iterdir())
