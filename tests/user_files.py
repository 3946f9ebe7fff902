"""A user's file that stays as it is, the folder that is measured beside it, and commands that would touch them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hwdyno.cli.main import main

MINE = b"the only copy of a thesis\n"
VECTORS = (
    *("--vector-search", "ivf", "--vectors", "300", "--dim", "8", "--queries", "5", "--runtime", "0.05"),
    *("--quiet", "--no-page"),
)
CHECKPOINT = ("--checkpoint", "llama3-8b", "--scale", "0.0001", "--ranks", "1", "--quiet", "--no-page")
KV_CACHE = (
    *("--kv-cache", "llama3.1-8b", "--scale", "0.0005", "--users", "1", "--capacity", "64M", "--think", "0"),
    *("--runtime", "0.1", "--budget", "1s", "--quiet", "--no-page"),
)
YAML = """
model: {{name: "{name}"}}
framework: pytorch
dataset: {{data_folder: data, format: npz, num_files_train: 4, num_samples_per_file: 1,
  record_length_bytes: 40000, file_prefix: "{prefix}"}}
reader: {{data_loader: pytorch, batch_size: 2, read_threads: 1}}
train: {{epochs: 1, computation_time: 0.001}}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is measured, and where commands run; beside it are the store and files of the user's."""
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


@pytest.fixture
def thesis(tmp_path: Path) -> Iterator[Path]:
    """A file of the user's outside of the folder that is measured; it has to be the same after the test."""
    path = tmp_path / "thesis.txt"
    path.write_bytes(MINE)
    identity = path.stat().st_ino
    yield path
    assert path.read_bytes() == MINE
    assert path.stat().st_ino == identity


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, says: str = "--overwrite") -> None:
    """The command ends with one line that says what is wrong and what mends it."""
    assert main([*arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def job(place: Path, lines: str, *more: str) -> list[str]:
    (place / "x.fio").write_text(f"[job]\nrw=read\nbs=64k\nsize=1m\n{lines}\n")
    return ["storage", "job", "x.fio", "--quiet", "--no-page", *more]


def data_set(place: Path, *, name: str = "small", prefix: str = "img") -> list[str]:
    (place.parent / "workload_x.yaml").write_text(YAML.format(name=name, prefix=prefix))
    workload = ["--workload", str(place.parent / "workload_x.yaml"), "--samples", "4"]
    return ["training", *workload, "--no-client", "--no-plain", "--quiet", "--no-page", "--accelerators", "1"]
