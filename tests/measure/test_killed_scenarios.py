"""What a scenario made in the user's path, and a killed run left there, goes with the next run in that place."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from here import shortly
from hwdyno.cli.main import main
from hwdyno.measure.workspace import MadeFolder, clean_stale
from hwdyno.system import safe_files

DIES = """
import os, sys
from hwdyno.measure.runner.plan_run import PlanRun
from hwdyno.cli.main import main
PlanRun._begin = lambda *args: os._exit(9)
main(sys.argv[1:])
"""
WITH_PLAIN_READS = ("--workload", "cosmoflow", "--accelerators", "1", "--samples", "8", "--no-client")
DATA_SET = (*WITH_PLAIN_READS, "--no-plain")
INDEX = ("--vector-search", "ivf", "--vectors", "2000")
CHECKPOINT = ("--checkpoint", "llama3-8b", "--scale", "0.0005", "--ranks", "1")
MODEL = ("--cold", "raw", "--model", "tiny")
IMAGES = ("--images", "4", "--threads", "1")
KV_CACHE = ("--kv-cache", "llama3.1-8b", "--users", "1", "--scale", "0.0005", "--runtime", "50ms")
NEXT = ("storage", "--rw=read", "--size=1M", "--runtime=10ms", "--budget=1s", "--ramp-time=0", "--no-page", "--quiet")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def choose_command(words: tuple[str, ...]) -> str:
    """The command that has these options."""
    return "inference" if {"--cold", "--images", "--vector-search", "--kv-cache"} & {*words} else "training"


def killed(place: Path, *words: str) -> Path:
    """The folder that a run with these options leaves when it is killed at its first point."""
    line = [sys.executable, "-c", DIES, choose_command(words), *words, "--path", str(place), "--no-page", "--quiet"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    return min(place.glob("hwdyno-*"))


@pytest.mark.machine
@pytest.mark.parametrize(
    "words",
    shortly(4, DATA_SET, INDEX, MODEL, CHECKPOINT, WITH_PLAIN_READS, KV_CACHE, IMAGES),
    ids=lambda words: words[-1],
)
def test_the_folder_of_a_killed_run_goes_with_the_next_of_any_kind(place: Path, words: tuple[str, ...]) -> None:
    killed(place, *words)
    assert main([*NEXT, "--path", str(place)]) in {0, 3}
    assert not list(place.iterdir())


@pytest.mark.machine
@pytest.mark.parametrize("words", shortly(1, INDEX, WITH_PLAIN_READS), ids=lambda words: words[-1])
def test_the_same_command_makes_it_anew_and_removes_it(place: Path, words: tuple[str, ...]) -> None:
    killed(place, *words)
    assert main(
        [choose_command(words), *words, "--runtime=50ms", "--budget=1s", "--path", str(place), "--no-page", "--quiet"]
    ) in {
        0,
        3,
    }
    assert not list(place.iterdir())


@pytest.mark.machine
def test_killed_runs_kept_files_stay(place: Path) -> None:
    folder = killed(place, *DATA_SET, "--keep")
    made = sorted(folder.rglob("*"))
    assert clean_stale(place) == [] and sorted(folder.rglob("*")) == made


@pytest.mark.machine
def test_a_users_file_among_them_stays_and_the_rest_goes(place: Path) -> None:
    folder = killed(place, *DATA_SET)
    (folder / "train" / "notes.txt").write_text("mine")
    assert clean_stale(place) == [folder]
    assert {path for path in folder.rglob("*") if path.is_file()} == {
        folder / safe_files.MARK, folder / "train" / "notes.txt",
    }  # fmt: skip
    assert clean_stale(place) == []


def test_folder_of_living_run_stays(place: Path) -> None:
    living = MadeFolder(place / "hwdyno-set", "*.npz")
    (living.path / "1.npz").write_text("x")
    second = MadeFolder(living.path, "*.npz")
    assert living.is_new and not second.is_new and clean_stale(place) == []
    second.remove()
    assert (living.path / "1.npz").exists()
    living.remove()
    assert not list(place.iterdir())
    living.remove()


def test_a_folder_that_was_released_stays(place: Path) -> None:
    made = MadeFolder(place / "hwdyno-set", "*.npz")
    (made.path / "1.npz").write_text("x")
    made.release()
    assert clean_stale(place) == [] and sorted(path.name for path in made.path.iterdir()) == [safe_files.MARK, "1.npz"]


LEAVES = """
import os, pathlib, sys
from hwdyno.measure.workspace import MadeFolder
made = MadeFolder(pathlib.Path(sys.argv[1]), "*.npz")
(made.path / "1.npz").write_text("x")
os._exit(9)
"""


def abandoned(path: Path) -> Path:
    """A folder that a dead run left."""
    assert subprocess.run([sys.executable, "-c", LEAVES, str(path)], check=False).returncode == 9
    return path


def test_folder_that_dead_run_left_goes(place: Path) -> None:
    folder = abandoned(place / "hwdyno-set")
    assert clean_stale(place) == [folder] and not list(place.iterdir())


@pytest.mark.parametrize("change", ["copy", "other name", "link", "no mark", "lock is a link", "other signature"])
def test_what_looks_alike_but_is_the_users_stays(place: Path, change: str) -> None:
    folder = abandoned(place / "hwdyno-set")
    lock = folder / ".hwdyno-run"
    if change == "copy":
        shutil.copytree(folder, place / "copy")
        shutil.rmtree(folder)
        (place / "copy").rename(folder)
    elif change == "other name":
        folder = folder.rename(place / "set")
    elif change == "link":
        folder = folder.rename(place / "set")
        (place / "hwdyno-set").symlink_to(folder)
    elif change == "no mark":
        (folder / safe_files.MARK).unlink()
    elif change == "lock is a link":
        lock.replace(place / "lock")
        lock.symlink_to(place / "lock")
    else:
        lock.write_text("*.npz\n")
    assert clean_stale(place) == [] and (folder / "1.npz").read_text() == "x"
