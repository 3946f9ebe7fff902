"""A run of metadata ended in its middle: what was measured is kept, its own files go, and no one else's are touched."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm
from here import shortly
from hwdyno.system.store import Store, from_json

# A pass that none of the tests waits for: its files are made durable one by one, or looked up for a minute.
CREATE = ("--operation", "create", "--fsync", "file", "--nrfiles", "100000", "--filesize", "0", "--runtime", "60s")
STAT = ("--operation", "stat", "--nrfiles", "500", "--runtime", "60s")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with files of someone else's, some of them called as if they were ours."""
    path = tmp_path / "data"
    for name in ("names-1-2f", "hwdyno-scratch-0123456789abcdef"):
        (path / name).mkdir(parents=True)
        (path / name / "f0-0").write_text("mine")
    (path / "thesis").write_text("mine")
    return path


def others(data: Path) -> dict[str, str]:
    """All that is there and is not in a scratch directory of a run."""
    theirs = data / "hwdyno-scratch-0123456789abcdef"
    files = [path for path in data.rglob("*") if path.is_file()]
    scratch = [path for path in data.glob("hwdyno-scratch-*") if path != theirs]
    return {
        str(path.relative_to(data)): path.read_text()
        for path in files
        if not any(folder in path.parents for folder in scratch)
    }


def left(data: Path) -> list[Path]:
    """Scratch directories of runs."""
    return [path for path in data.glob("hwdyno-scratch-*") if path.name != "hwdyno-scratch-0123456789abcdef"]


@contextlib.contextmanager
def reading(data: Path, home: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A run whose warm-up is over: the tree of files is the second one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hwdyno", "storage", *words, "--path", str(data), "--no-page", "--json"],
        env={**os.environ, "HWDYNO_HOME": str(home)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    seen: set[str] = set()
    deadline = time.monotonic() + 100
    try:
        while len(seen) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no reading began"
            seen |= {tree.name for scratch in left(data) for tree in scratch.glob("names-*")}
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("words", [CREATE, STAT], ids=["create", "stat"])
@pytest.mark.parametrize("interrupts", shortly(1, 1, 2))
def test_ctrl_c_amid_metadata_keeps_the_run_and_removes_its_files_alone(
    data: Path, tmp_path: Path, words: tuple[str, ...], interrupts: int
) -> None:
    before, home = others(data), tmp_path / "home"
    with reading(data, home, *words) as process:
        for _ in range(interrupts):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    assert process.returncode == 130 and "Traceback" not in err, err
    (entry,) = Store(home).history()
    kept = Store(home).load(entry.id)
    assert kept.interrupted and kept.finished and kept.degraded[0].startswith("interrupted: ")
    assert not out or from_json(out) == kept
    assert not left(data) and others(data) == before


def test_a_run_of_metadata_that_was_killed_is_cleaned_by_the_next_one(data: Path, tmp_path: Path) -> None:
    before, home = others(data), tmp_path / "home"
    with reading(data, home, *CREATE) as process:
        process.kill()
        process.wait()
    (scratch,) = left(data)
    assert list(scratch.glob("names-*")), "what the killed run made is still there"
    (entry,) = Store(home).history()
    assert Store(home).load(entry.id).interrupted
    few = ("--operation", "stat", "--nrfiles", "10", "--runtime", "50ms", "--no-page", "--quiet")
    done = warm.run(["storage", *few, "--path", str(data)], env={**os.environ, "HWDYNO_HOME": str(home)})
    assert done.returncode in {0, 3}, done.stderr
    assert not left(data) and others(data) == before
