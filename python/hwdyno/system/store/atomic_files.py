"""Writes files atomically, opens regular ones, and explains a failure in one line."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from hwdyno.model.words import UserError
from hwdyno.system.safe_files import NO_INODES, Folder, file_identity, why_refused, write_all


class StoreError(UserError):
    """A failure of the store: one line with the cause and the remedy."""


def write_once(path: Path, text: str) -> None:
    """Write a new file atomically; never replace an existing one."""
    with Folder.open_named(path.parent) as folder:
        temporary = temporary_name(path)
        descriptor = folder.create(temporary, 0o444)
        identity = file_identity(os.fstat(descriptor))
        try:
            try:
                write_all(descriptor, text.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            folder.publish(temporary, path.name)
        finally:
            with contextlib.suppress(OSError):
                folder.remove(temporary, identity)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; raises ``OSError`` at once for a pipe, which would wait for a writer."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file")
    return file


def temporary_name(path: Path) -> str:
    """A name for a file until it is whole, which no other process takes."""
    return f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}"


def cause(error: OSError, folder: Path) -> str:
    """Explain why the system refused to write in a folder, with the remedy if known."""
    if (why := why_refused(error, folder)) == NO_INODES:
        return f"{why}; remove files, or set HWDYNO_HOME to another directory"
    if error.errno == errno.ENOSPC:
        return "the disk is full; free space, or set HWDYNO_HOME to another directory"
    if error.errno == errno.EROFS:
        return "the filesystem is read-only; set HWDYNO_HOME to another directory"
    says = (error.strerror or str(error)).lower()
    if error.errno in {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}:
        return f"{says}; set HWDYNO_HOME to another directory"
    return says
