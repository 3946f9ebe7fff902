"""A measured directory that is renamed, removed or gone with its filesystem: one answer, and nothing is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from devices import command
from here import missing, shortly
from signals.commands import COMMANDS, Place, environment

pytestmark = pytest.mark.machine

WORKING = {work.name: work for work in COMMANDS if work.works_in_directory}
SAMPLED = ("storage", "checkpoint")
NAMES = shortly(len(SAMPLED), *SAMPLED, *(name for name in WORKING if name not in SAMPLED))
STATUSES = {0, 2, 3}
LIMIT_S = 60.0


class Going:
    """A command that goes on, from the moment at which it has something in the measured directory."""

    def __init__(self, name: str, data: Path, scratch: Path) -> None:
        work = WORKING[name]
        if not work.is_here():
            missing(f"a program of the command {name}")
        out = scratch / "out"
        out.mkdir()
        place = Place(data, out, 0)
        seen = {**environment(place, scratch / "home", "vanished"), **dict(work.environment)}
        self.process = subprocess.Popen(
            work.line(place), env=seen, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        until_s = time.monotonic() + LIMIT_S
        while self.process.poll() is None and not any(data.iterdir()) and time.monotonic() < until_s:
            time.sleep(0.01)
        time.sleep(0.2)

    def end(self) -> None:
        """Wait for its end, which must be an answer or one line of error."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode in STATUSES, err
        assert "internal error" not in out + err and "Traceback" not in out + err, err
        if self.process.returncode == 2:
            assert err.splitlines()[-1].startswith("hwdyno: "), err
        else:
            assert out, err


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_in_a_renamed_directory(name: str, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    going = Going(name, before, tmp_path)
    before.rename(after)
    going.end()
    assert [path.name for path in after.iterdir()] == []
    assert not before.exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_removed_directory_is_not_made_again(name: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    going = Going(name, data, tmp_path)
    while data.exists():  # What is written meanwhile keeps it from going at once.
        shutil.rmtree(data, ignore_errors=True)
    going.end()
    assert not data.exists()


@pytest.mark.parametrize("name", NAMES if os.access("/dev/fuse", os.R_OK | os.W_OK) else [])
def test_a_filesystem_whose_server_died_takes_no_answer_with_it(name: str, tmp_path: Path) -> None:
    """Each system call on it fails from then on."""
    if not shutil.which("fuse2fs"):
        missing("fuse2fs is not installed")
    image, where = tmp_path / "disk", tmp_path / "mounted"
    with image.open("wb") as disk:
        disk.truncate(600 << 20)
    command("mkfs.ext4", "-q", "-N", "100000", image)
    where.mkdir()
    server = subprocess.Popen(["fuse2fs", "-f", "-o", "rw,fakeroot", image, where], stdout=-3, stderr=-3)
    try:
        until_s = time.monotonic() + LIMIT_S
        while not os.path.ismount(where) and time.monotonic() < until_s:
            time.sleep(0.02)
        (where / "data").mkdir()
        going = Going(name, where / "data", tmp_path)
        server.kill()
        server.wait()
        going.end()
    finally:
        server.kill()
        server.wait()
        command("umount", "--lazy", where, check=False)


def test_a_home_that_is_renamed_is_made_again_for_the_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    place = Place(tmp_path, tmp_path, 0)
    words = [*WORKING["storage"].program, "memory", "--threads", "1,2", "--budget", "3s", "--no-page"]
    process = subprocess.Popen(
        words, env=environment(place, home, "home"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until_s = time.monotonic() + LIMIT_S
    while process.poll() is None and not list(home.rglob("*.journal")) and time.monotonic() < until_s:
        time.sleep(0.01)
    home.rename(tmp_path / "elsewhere")
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode in {0, 3}, err
    documents = [*tmp_path.rglob("*.json"), *tmp_path.rglob("*.journal")]
    assert [path.suffix for path in documents] == [".json"], err
