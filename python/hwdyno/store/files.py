"""Writes files atomically, and explains a failure in one line."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from hwdyno.words import UserError


class StoreError(UserError):
    """A failure of the store: one line with the cause and the remedy."""


def write_once(path: Path, text: str) -> None:
    """Write a new file atomically; never replace an existing one."""
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
    """Rename a file atomically. Raises ``FileExistsError`` rather than replace another file."""
    try:
        os.link(temporary, path)  # unlike a rename, it does not replace
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
    """Write all data, also if the system takes it in parts."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: Path) -> None:
    """Sync a directory's entries to storage."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cause(error: OSError) -> str:
    """Explain why the system refused, with the remedy if known."""
    if error.errno == errno.ENOSPC:
        return "the disk is full: free some room, or set HWDYNO_HOME elsewhere"
    if error.errno == errno.EROFS:
        return "the filesystem is read-only: set HWDYNO_HOME elsewhere"
    says = (error.strerror or str(error)).lower()
    if error.errno in {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}:
        return f"{says}: set HWDYNO_HOME elsewhere"
    return says
