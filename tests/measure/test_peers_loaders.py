"""Plain NumPy's loader beside the engine's: the same samples, steps and shards, read for real, and its messages."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwdyno.analysis.estimates import interval
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.training_loaders import LOADERS
from hwdyno.measure import engine, peers
from hwdyno.measure.peers import loaders, loading
from hwdyno.model.words import Finding, Measurement, Parameters, PeerResult, Run, UserError, Value
from made_experiment import made_experiment

KERNEL = "training_loader"
NUMPY, PYTORCH = (peers.find(name) for name in LOADERS)
SHAPE = {"format": "npz", "files": 12, "samples_per_file": 1, "record_bytes": 30_000.0, "record_bytes_stdev": 4_000.0}
POINT: dict[str, Any] = {
    **SHAPE, "accelerators": 2, "batch_size": 3, "read_threads": 2, "prefetch": 2, "epochs": 2, "steps": 0,
    "compute": 0.0, "runtime": 0.0, "cache": "keep",
}  # fmt: skip


def generate(path: Path, **changes: Any) -> dict[str, Any]:
    engine.run("training_generate", {**SHAPE, **changes, "path": str(path)})
    return {**POINT, **changes, "path": str(path)}


def files(parameters: Mapping[str, Any]) -> list[str]:
    return sorted(str(path) for path in (Path(parameters["path"]) / "train").iterdir())


@pytest.mark.machine
@pytest.mark.parametrize("kind", sorted(loaders.FORMATS))
def test_every_sample_is_what_its_formats_own_reader_gives(tmp_path: Path, kind: str) -> None:
    per_file = 1 if kind in {"jpeg", "png"} else 3
    parameters = generate(tmp_path, format=kind, samples_per_file=per_file)
    read = loading.SampleReader({**parameters, "files": files(parameters)})
    sizes = [sum(sample.size for sample in read.batch([number])) for number in range(12 * per_file)]
    assert 15_000 < min(sizes) <= max(sizes) < 60_000
    if kind == "npz":
        with np.load(files(parameters)[4]) as archive:
            assert np.array_equal(read(4 * per_file + 2), archive["x"][..., 2])


@pytest.mark.machine
def test_the_chosen_columns_of_a_table_are_read_over_groups_and_files(tmp_path: Path) -> None:
    from pyarrow import parquet

    shape = {"format": "parquet", "files": 2, "samples_per_file": 50, "record_bytes": 40.0, "record_bytes_stdev": 0}
    parameters = generate(tmp_path, **shape, row_group=20, columns=9)
    read = loading.SampleReader({**parameters, "files": files(parameters), "read_columns": 3})
    for numbers in (list(range(15, 70)), [99, 3, 4], list(range(10))):
        parts = read.batch(numbers)
        tables = [parquet.read_table(path).columns[:3] for path in files(parameters)]
        for column in range(3):
            whole = b"".join(part.tobytes() for part in parts[column::3])
            rows = sorted(numbers)
            expected = [int(tables[row // 50][column][row % 50].as_py()) for row in rows]
            assert sorted(np.frombuffer(whole, "<i4").tolist()) == sorted(expected)
    found = NUMPY.run(KERNEL, {**parameters, "read_columns": 3, "batch_size": 16})
    assert found.operations == 2 * 2 * 48


@pytest.mark.machine
def test_numpy_reads_each_sample_once_epoch(tmp_path: Path) -> None:
    parameters = generate(tmp_path)
    found = NUMPY.run(KERNEL, parameters)
    assert found.operations == engine.run(KERNEL, parameters)["streams"][0]["operations"] == 24
    assert found.rate is not None
    assert found.throughput / found.rate == pytest.approx(
        sum(Path(file).stat().st_size for file in files(parameters)) / 12
    )
    assert found.cpu_s is not None
    assert found.details["cpu_s_per_gb"] > 0


@pytest.mark.machine
def test_computing_makes_an_au_and_the_time_limit_ends_all_ranks(tmp_path: Path) -> None:
    parameters = {**generate(tmp_path), "read_threads": 1, "compute": 0.02, "cache": "drop"}
    assert 0 < NUMPY.run(KERNEL, parameters).details["au"] <= 1
    # both ranks end at the same step, long before the last epoch
    found = NUMPY.run(KERNEL, {**parameters, "epochs": 10_000, "runtime": 0.2})
    assert 0 < found.operations < 10_000 * 12
    assert found.operations % 6 == 0


@pytest.mark.machine
def test_missing_file_is_one_line(tmp_path: Path) -> None:
    parameters = generate(tmp_path)
    Path(files(parameters)[3]).write_bytes(b"no zip at all")
    with pytest.raises(OSError, match="numpy's loader failed: ") as failed:
        NUMPY.run(KERNEL, parameters)
    assert "\n" not in str(failed.value)
    with pytest.raises(UserError, match="has 12 of 13 files; generate the data set first"):
        NUMPY.run(KERNEL, {**parameters, "files": 13})
    with pytest.raises(OSError, match="fewer samples than one batch"):
        Path(files(parameters)[3]).unlink()
        NUMPY.run(KERNEL, {**parameters, "files": 11, "batch_size": 50})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "bin"}, "neither NumPy nor PyTorch reads bin"),
        ({"direct": True}, "page cache"),
        ({"order": "shuffled"}, "its order differs"),
    ],
)
def test_what_it_cannot_stand_beside_is_said(changes: dict[str, Any], says: str) -> None:
    assert says in (NUMPY.unsupported_reason(KERNEL, {**POINT, **changes}) or "")


def test_command_names_script_and_version_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HWDYNO_LOADER_PYTHON", raising=False)
    assert NUMPY.version() == np.__version__
    python, script, job = NUMPY.command(KERNEL, POINT)
    assert (python, Path(script).name) == (sys.executable, "loading.py")
    assert '"loader": "numpy"' in job


def test_another_python_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_LOADER_PYTHON", "/no/such/python")
    assert PYTORCH.version() is None


def finding(au: float, their_au: float | None) -> Finding:
    parameters: Parameters = {"accelerators": 2}
    point = Measurement(
        parameters=parameters, throughput=interval([2e9], "bytes/s"), rate=interval([700.0], "operations/s"),
        latency_ns=None, streams=(), samples=None, concurrency=None, cpu_user_s=1.0, cpu_system_s=1.0, elapsed_s=6.0,
        operations=4200, bytes=12_000_000_000, repeats=1, details={"au_dlio": au, "client_cpu_s_per_gb": 0.2},
    )  # fmt: skip
    peer = PeerResult(
        "pytorch", "2.15.0", 0, Value(0.5e9, "bytes/s"), Value(4.0, "1", 3.8, 4.2),
        details={"au": their_au, "cpu_s_per_gb": 1.5},
    )  # fmt: skip
    result = made_experiment(
        "training.unet3d.h100", "training", "?", "accelerators", KERNEL, (point,), peers=(peer,),
        fixed={"workload": "unet3d", "accelerator": "h100", "read_threads": 4},
    )  # fmt: skip
    run = Run(id="x", started="", finished="", machines=(), profile="", command="", experiments=(result,))
    (found,) = [
        printed_finding
        for printed_finding in explain(run).findings
        if printed_finding.rule == "training_beside_loaders"
    ]
    return found


def test_a_training_that_waits_for_its_own_loader_is_told_so() -> None:
    found = finding(0.9, 0.3)
    assert "pytorch 2.15.0's loader reads 500 MB/s. The engine reads 2,000 MB/s" in found.says
    assert "(4 times as much, 3.8 to 4.2). Each GB costs 1.50 s of CPU time there and 0.20 s here." in found.says
    assert "Its AU is 30% where 90% is possible" in found.says
    assert "--accelerators 2 --read-threads 8 --peers" in found.advice
    assert "waits for the loader" not in finding(0.9, 0.89).says
    assert "AU" not in finding(0.0, None).says
