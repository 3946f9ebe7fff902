"""Writes files that appear whole or not at all, and says in one line why one could not be written."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from hwdyno.words import UserError


class StoreError(UserError):
    """What the store could not do: one line with the cause and what mends it."""


def write_once(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all, and never in the place of another."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
        try:
            write_all(descriptor, text.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        publish(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def publish(temporary: Path, path: Path) -> None:
    """Give a file its final name in one step. Raises ``FileExistsError`` rather than replace another."""
    try:
        os.link(temporary, path)  # unlike a rename, it refuses to replace
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK}:
            raise
        # A filesystem without links (FAT): the check and the rename are two steps, and names are random.
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.rename(path)
    else:
        temporary.unlink()
    sync_directory(path.parent)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however often the system takes only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: Path) -> None:
    """Make the names in a directory last."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cause(error: OSError) -> str:
    """Say why the system refused, and what mends it where that is known."""
    if error.errno == errno.ENOSPC:
        return "the disk is full: free some room, or set HWDYNO_HOME elsewhere"
    if error.errno == errno.EROFS:
        return "the filesystem is read-only: set HWDYNO_HOME elsewhere"
    says = (error.strerror or str(error)).lower()
    if error.errno in {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}:
        return f"{says}: set HWDYNO_HOME elsewhere"
    return says
