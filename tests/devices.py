"""Loop devices and filesystems for tests, where this user may create them."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from here import needs

MIB = 1 << 20
MAX_LOOPS = 256


def command(*words: str | Path, check: bool = True) -> str:
    """A command's output; raises with its error message."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout.strip()


@contextlib.contextmanager
def _reserve() -> Iterator[Path]:
    """A free loop device, kept from the tests of other processes.

    ``losetup --find`` opens devices in use to look for a free one, and hwdyno refuses one that another has open for
    writing.
    """
    locks = Path(tempfile.gettempdir()) / "hwdyno-test-loops"
    locks.mkdir(exist_ok=True)
    for number in range(MAX_LOOPS):
        with (locks / str(number)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if not Path(f"/sys/block/loop{number}/loop").exists():
                yield Path(f"/dev/loop{number}")
                return
    raise AssertionError("all loop devices are in use")


@contextlib.contextmanager
def loop(backing: Path, size: int = 64 * MIB, *options: str) -> Iterator[Path]:
    """A loop device on a temporary file, removed with all its partitions at the end."""
    if not backing.exists():
        with backing.open("wb") as file:
            file.truncate(size)
    with _reserve() as device:
        command("losetup", *options, device, backing)
        try:
            yield device
        finally:
            command("losetup", "--detach", device, check=False)


@contextlib.contextmanager
def mounted(device: Path | str, where: Path, *options: str) -> Iterator[Path]:
    """A device (or filesystem), mounted at a new directory."""
    where.mkdir(exist_ok=True)
    command("mount", *options, device, where)
    try:
        yield where
    finally:
        command("umount", "--lazy", where)
        _wait_until_free(Path(device))


def _wait_until_free(device: Path, longest_s: float = 60.0) -> None:
    """Wait until no mount keeps a block device: a process that made a namespace meanwhile has the mount in it too."""
    end_s = time.monotonic() + longest_s
    while _is_in_use(device) and time.monotonic() < end_s:
        time.sleep(0.05)


def _is_in_use(device: Path) -> bool:
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError:
        return device.is_block_device()
    return False


@functools.cache
def _may_loop() -> bool:
    if os.geteuid() != 0 or not shutil.which("losetup") or not shutil.which("mkfs.ext4"):
        return False
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        try:
            with loop(Path(directory) / "probe", MIB):
                return True
        except (AssertionError, OSError):
            return False


loops = needs(_may_loop(), "this user may make no loop devices; the rules themselves are tested on records and in Rust")
