"""DLIO is run on just our point, its summary and CPU time are read, and its failures are one line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hwdyno.measure import engine, peers
from hwdyno.measure.peers import dlio
from hwdyno.model.words import UserError

SUMMARY = Path(__file__).parents[1] / "data" / "dlio" / "summary-2.0.0.json"
KERNEL = "training_loader"
DLIO = peers.find("dlio")
POINT: dict[str, Any] = {
    "format": "npz", "files": 12, "samples_per_file": 1, "record_bytes": 200_000, "record_bytes_stdev": 0,
    "batch_size": 2, "read_threads": 2, "prefetch": 2, "epochs": 3, "compute": 0.05, "accelerators": 1,
    "cache": "keep", "order": "dlio",
}  # fmt: skip


def overrides(**parameters: Any) -> dict[str, str]:
    words = DLIO.command(KERNEL, {"path": "/data", **POINT, **parameters})
    rows = [word.removeprefix("++workload.").partition("=") for word in words if word.startswith("++")]
    return {name: value for name, _, value in rows}


def test_the_same_point_in_dlios_words() -> None:
    parameters = overrides()
    expected = {
        "framework": "pytorch", "dataset.data_folder": "/data", "dataset.format": "npz",
        "dataset.num_files_train": "12", "dataset.record_length": "200000.0", "reader.batch_size": "2",
        "reader.read_threads": "2", "reader.prefetch_size": "4", "reader.sample_shuffle": "off", "train.epochs": "3",
        "train.computation_time": "0.05", "train.total_training_steps": "-1", "workflow.generate_data": "False",
    }  # fmt: skip
    assert {name: parameters[name] for name in expected} == expected
    assert overrides(format="tfrecord")["framework"] == "tensorflow"
    assert overrides(order="shuffled")["reader.file_shuffle"] == "seed"
    assert overrides(steps=3)["train.total_training_steps"] == "3"


def test_more_accelerators_are_ranks_of_mpi() -> None:
    assert DLIO.command(KERNEL, {"path": "/data", **POINT, "accelerators": 3})[:3] == ["mpirun", "-n", "3"]


@pytest.mark.parametrize(
    ("given", "epochs"),
    [
        ({"epochs": 5}, 5),
        ({"epochs": 1, "runtime": 60.0}, 1),
        # 6 steps of 50 ms an epoch: 20 in a second, and as many epochs as they take
        ({"epochs": 10_000, "runtime": 1.0}, 4),
        ({"epochs": 10_000, "runtime": 0.1}, dlio.MIN_EPOCHS),
        ({"epochs": 10_000, "runtime": 0.1, "cache": "drop"}, 1),
    ],
)
def test_time_limit_becomes_epoch_count(given: dict[str, Any], epochs: int) -> None:
    assert overrides(**given)["train.epochs"] == str(epochs)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"format": "bin"}, "further files to load bin"),
        ({"samples_per_file": 4}, "one sample per file"),
        ({"direct": True}, "through the page cache"),
    ],
)
def test_what_it_cannot_do_is_said(given: dict[str, Any], why: str) -> None:
    assert why in str(DLIO.unsupported_reason(KERNEL, {**POINT, **given}))
    assert DLIO.unsupported_reason(KERNEL, POINT) is None
    assert "storage_blocks" in str(DLIO.unsupported_reason("storage_blocks", POINT))


def test_a_recorded_summary_is_read() -> None:
    watch = dlio._Watch()
    for line, cpu_s in (
        ("[INFO] x Starting epoch 1: 32 steps expected [y]", 4.0), ("Maximum number of steps reached", 9.0),
        ("[INFO] x Starting epoch 2: Overriding number of steps to 32. [y]", 9.5),
        ("Maximum number of steps reached", 10.2),
    ):  # fmt: skip
        watch.line(line, lambda cpu_s=cpu_s: cpu_s)  # type: ignore[misc]
    parameters = {**POINT, "batch_size": 4, "files": 128, "record_bytes": 8 << 20}
    found = dlio.parse_output(SUMMARY.read_text(), parameters, 8 << 20, watch)
    assert found.operations == 32 * 4
    assert found.rate == pytest.approx(73.183387)
    assert found.throughput == pytest.approx(73.183387 * (8 << 20))
    assert found.cpu_s == pytest.approx(0.7)
    assert found.details["au"] == pytest.approx(0.9358983)
    assert found.details["start_cpu_s"] == 4.0
    assert found.details["cpu_s_per_gb"] == pytest.approx(0.7 / (32 * 4 * (8 << 20) / 1e9))


def test_a_damaged_summary_is_one_line() -> None:
    with pytest.raises(OSError, match="not a readable DLIO summary"):
        dlio.parse_output('{"metric": 1}', POINT, 1.0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    shape = {
        name: POINT[name] for name in ("format", "files", "samples_per_file", "record_bytes", "record_bytes_stdev")
    }
    engine.run("training_generate", {**shape, "path": str(tmp_path / "data")})
    return tmp_path / "data"


def stand_in(path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program that talks as DLIO does."""
    program = path / "dlio_benchmark"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("HWDYNO_DLIO", str(program))


TALKS = r"""
for word in "$@"; do case "$word" in ++workload.output.folder=*) out="${word#*folder=}";; esac; done
for epoch in 1 2 3; do
  echo "[INFO] x Starting epoch $epoch: 6 steps expected"
  i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done
  echo "[INFO] x Maximum number of steps reached"
done
mkdir -p "$out" && cp SUMMARY "$out/summary.json"
"""


@pytest.mark.machine
def test_a_program_that_talks_as_it_does_is_run_and_read(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, TALKS.replace("SUMMARY", str(SUMMARY)))
    found = DLIO.run(KERNEL, {**POINT, "path": str(data), "cache": "drop"})
    assert found.operations == 6 * 2
    assert found.cpu_s is not None and found.cpu_s > 0


@pytest.mark.machine
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo no such key; exit 3", "DLIO failed with status 3: no such key"),
        ("true", "DLIO ended without a summary.json"),
        ("exec sleep 60", "DLIO was killed after 1 s"),
        ("sleep 60 & sleep 60", "DLIO was killed after 1 s"),
    ],
)
def test_its_failures_are_one_line_and_leave_nothing_running(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    stand_in(tmp_path, monkeypatch, script)
    monkeypatch.setattr(dlio, "TIMEOUT_S", 1.0)
    began = time.monotonic()
    with pytest.raises(OSError, match=says):
        DLIO.run(KERNEL, {**POINT, "path": str(data)})
    assert time.monotonic() - began < 30


@pytest.mark.machine
def test_missing_data_is_said_before_it_is_started(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 0 of 12 files; generate the data set first"):
        DLIO.run(KERNEL, {**POINT, "path": str(tmp_path)})


# DLIO is 6.9 GB to install (PyTorch, TensorFlow, MPI), which CI does not wait for: this runs where it is.
@pytest.mark.long
@pytest.mark.peer("dlio")
@pytest.mark.machine
def test_dlio_itself_reads_our_files_and_agrees_on_au(data: Path) -> None:
    # a step of a second: 2 points are 20 ms of it, more than a busy machine makes either wait
    parameters = {**POINT, "path": str(data), "cache": "warm", "compute": 1.0, "epochs": 2}
    ours, theirs = engine.run(KERNEL, parameters), DLIO.run(KERNEL, parameters)
    assert theirs.operations == 12
    assert theirs.details["au"] == pytest.approx(ours["details"]["au_dlio"], abs=0.02)
