"""Each kind of filesystem is left as it was found, after each command that works in a directory of the user's."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm
from devices import MIB, command, loop, loops, mounted
from here import missing, shortly
from signals.commands import COMMANDS, HWDYNO, Command, Place, environment

pytestmark = [pytest.mark.machine, loops]

IN_DIRECTORY = [work for work in COMMANDS if work.works_in_directory]
SAMPLED = ("metadata stat", "checkpoint")
MADE_ON_DEVICE = {
    "btrfs": ("mkfs.btrfs", "-q"),
    "ext4": ("mkfs.ext4", "-q", "-N", "100000"),
    "f2fs": ("mkfs.f2fs", "-q"),
    "vfat": ("mkfs.vfat",),
    "xfs": ("mkfs.xfs", "-q"),
}
KERNELS = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
KINDS = [  # First the three that list or remove files in their own way.
    kind
    for kind in ("btrfs", "fuse", "overlay", *(kind for kind in MADE_ON_DEVICE if kind != "btrfs"), "tmpfs")
    if kind in KERNELS and (kind != "fuse" or os.access("/dev/fuse", os.R_OK | os.W_OK))
]
"""Those that this kernel has; a filesystem that it lacks cannot be mounted by any program."""


@contextlib.contextmanager
def filesystem(kind: str, scratch: Path) -> Iterator[Path]:
    """A new, empty filesystem of a kind."""
    where = scratch / "mounted"
    with contextlib.ExitStack() as stack:
        if kind in MADE_ON_DEVICE:
            device = stack.enter_context(loop(scratch / "disk", 600 * MIB))
            if not shutil.which(MADE_ON_DEVICE[kind][0]):
                missing(f"{MADE_ON_DEVICE[kind][0]} is not installed")
            command(*MADE_ON_DEVICE[kind], device)
            yield stack.enter_context(mounted(device, where))
        elif kind == "fuse":
            if not shutil.which("fuse2fs"):
                missing("fuse2fs is not installed")
            with (scratch / "disk").open("wb") as image:
                image.truncate(600 * MIB)
            command(*MADE_ON_DEVICE["ext4"], scratch / "disk")
            where.mkdir()
            command("fuse2fs", scratch / "disk", where, "-o", "rw,fakeroot")
            stack.callback(command, "umount", "--lazy", where)
            yield where
        elif kind == "overlay":
            # Its upper directory cannot be on an overlay, as a container's root is.
            memory = stack.enter_context(mounted("tmpfs", scratch / "memory", "-t", "tmpfs", "-o", "size=600m"))
            for name in ("lower", "upper", "work"):
                (memory / name).mkdir()
            layers = f"lowerdir={memory}/lower,upperdir={memory}/upper,workdir={memory}/work"
            yield stack.enter_context(mounted("overlay", where, "-t", "overlay", "-o", layers))
        else:
            yield stack.enter_context(mounted("tmpfs", where, "-t", "tmpfs", "-o", "size=600m"))


def names(directory: Path) -> set[str]:
    """What is in a directory, but for what the filesystem itself keeps there."""
    return {path.name for path in directory.iterdir()} - {"lost+found"}


def run(work: Command, place: Place, home: Path) -> subprocess.CompletedProcess[str]:
    environ = {**environment(place, home, "filesystems"), **dict(work.environment)}
    line = work.line(place)
    if work.program == HWDYNO:
        return warm.run(line[len(HWDYNO) :], env=environ, timeout_s=120)
    return subprocess.run(line, capture_output=True, text=True, env=environ, check=False, timeout=120)


@pytest.mark.parametrize("kind", shortly(3, *KINDS))
@pytest.mark.parametrize(
    "works", shortly(1, [work for work in IN_DIRECTORY if work.name in SAMPLED], IN_DIRECTORY), ids=("two", "all")
)
def test_nothing_is_left(tmp_path: Path, kind: str, works: list[Command]) -> None:
    (tmp_path / "out").mkdir()
    with filesystem(kind, tmp_path) as data:
        (data / "thesis").write_text("mine")
        for work in works:
            if not work.is_here():
                continue
            done = run(work, Place(data, tmp_path / "out", 0), tmp_path / "home")
            assert done.returncode in {0, 3}, (work.name, done.stderr)
            assert names(data) == {"thesis"}, f"{work.name}: {done.stderr}"
            assert "stays" not in done.stderr, work.name


def test_a_file_that_cannot_be_removed_is_named_and_goes_with_the_next_run(tmp_path: Path) -> None:
    """An immutable file refuses its removal, also to root."""
    storage = next(work for work in COMMANDS if work.name == "storage")
    (tmp_path / "out").mkdir()
    with filesystem("ext4", tmp_path) as data:
        place = Place(data, tmp_path / "out", 0)
        process = subprocess.Popen(
            storage.line(place), stderr=subprocess.PIPE, text=True, env=environment(place, tmp_path / "home", "stays")
        )
        while not (found := [path for path in data.glob("hwdyno-scratch-*/data") if path.stat().st_size >= 8 * MIB]):
            assert process.poll() is None
        os.sync()
        command("chattr", "+i", found[0].parent)
        _, says = process.communicate(timeout=60)
        assert f"{found[0].parent} stays: data could not be removed" in says
        command("chattr", "-i", found[0].parent)
        assert run(storage, place, tmp_path / "home").returncode in {0, 3}
        assert names(data) == set()
