"""A directory or block device that can be measured: what may be done there, and how much fits."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from hwdyno.model.units import format_bytes, format_size
from hwdyno.model.words import UserError

# Space to leave free for other programs and for the Run: a full disk breaks more than a benchmark.
RESERVE_BYTES = 1 << 30
RESERVE_SHARE = 0.05
MIN_BYTES = 16 << 20


@dataclass(frozen=True)
class Place:
    """A directory or block device that can be measured."""

    path: Path
    device_bytes: int | None = None
    """Size of a raw block device; none for a directory."""
    written: bool = False
    """Whether it is a raw device whose data may be overwritten."""
    room_bytes: int | None = None
    """Space for a data file, where the filesystem is on another machine."""

    @property
    def is_device(self) -> bool:
        """Whether this is a raw block device."""
        return self.device_bytes is not None


def check_place(path: Path, *, writes: bool, reads: bool = True, destroy: str = "", serial: str = "") -> Place:
    """Check the path against what the points will do there. Raises ``UserError`` in one line.

    A raw device is only written if ``destroy`` names it and ``serial`` is given. The engine checks the serial number,
    and that the device is not in use, after it has opened the device exclusively.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise UserError(f"--path {shown}: its name is not UTF-8; use a symbolic link to it") from None
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise UserError(f"--path {path}: no such directory; create it or use another") from None
    except OSError as error:
        raise UserError(f"--path {path}: {error.strerror}; use a directory that you can enter") from None
    if stat.S_ISBLK(mode):
        if writes:
            _check_consent(path, destroy, serial)
        return Place(path, _device_bytes(path), written=writes)
    if destroy:
        raise UserError(f"--destroy is for raw devices, and --path {path} is not one; remove it")
    if not stat.S_ISDIR(mode):
        raise UserError(f"--path {path} is not a directory; use the directory to measure in")
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"--path {path}: {_why_not_writable(path)}; use a writable directory")
    return Place(path)


def _check_consent(path: Path, destroy: str, serial: str) -> None:
    """Check the consent to overwrite a raw device: its name given a second time, and a serial number."""
    if not destroy:
        raise UserError(
            f"--path {path} is a raw device and writes would destroy its data; use a directory on it or only reads "
            f"(--rw read,randread). To overwrite it, add --destroy {path} --serial TEXT"
        )
    if not Path(destroy).is_absolute() or Path(destroy).resolve() != path.resolve():
        raise UserError(f"--destroy {destroy} is not the device of --path {path}; name the same one, or remove it")
    if not serial:
        raise UserError(
            f"--destroy {destroy} needs --serial with the serial number on the device's label (lsblk -dno SERIAL "
            f"{destroy}), because device names change; without one its size in bytes, for a loop device its file"
        )


def _why_not_writable(path: Path) -> str:
    with contextlib.suppress(OSError):
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return "the filesystem is mounted read-only"
    return "no permission to write here"


def _device_bytes(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        hint = "is it still connected?"
        if error.errno in {errno.EACCES, errno.EPERM}:
            # For root it is not about permissions: a container's device list or a sandbox refuses.
            hint = "reading a raw device needs root"
            if os.geteuid() == 0:
                hint = "this container or sandbox does not let root read it; use a directory on it"
        raise UserError(f"--path {path}: {error.strerror}; {hint}") from None
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


def room(place: Place) -> int:
    """Bytes that a data file may take here, after a reserve for other programs."""
    if place.device_bytes is not None:
        return place.device_bytes
    if place.room_bytes is not None:
        return place.room_bytes
    filesystem = os.statvfs(place.path)
    return usable_bytes(filesystem.f_blocks * filesystem.f_frsize, filesystem.f_bavail * filesystem.f_frsize)


def usable_bytes(size_bytes: int, free_bytes: int) -> int:
    """Usable bytes of a filesystem of this size, after a reserve for other programs."""
    return max(0, free_bytes - min(RESERVE_BYTES, int(size_bytes * RESERVE_SHARE)))


def fit(place: Place, wanted_bytes: int, min_bytes: int, *, may_shrink: bool) -> tuple[int, str]:
    """The data file's size, and a remark if it is less than requested. Raises ``UserError``.

    The size is reduced to whole MiB, and never below ``min_bytes``.
    """
    available = room(place)
    if available >= wanted_bytes:
        return wanted_bytes, ""
    shrunk = available >> 20 << 20
    medium = "the device" if place.is_device else "the filesystem"
    if may_shrink and shrunk >= max(min_bytes, MIN_BYTES):
        sizes = f"{format_size(shrunk)} instead of {format_size(wanted_bytes)}"
        return shrunk, f"the data file has {sizes}: {medium} has no more space"
    needs = max(min_bytes, MIN_BYTES) if may_shrink else wanted_bytes
    raise UserError(
        f"--path {place.path}: {medium} has {format_bytes(available)} free (minus a reserve) but {format_size(needs)} "
        "are needed; free space, or use a smaller --size or another --path"
    )
