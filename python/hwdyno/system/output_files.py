"""Files that a user names for output: written whole, and over nothing that is not hwdyno's."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from hwdyno.model.words import UserError
from hwdyno.system import signals
from hwdyno.system.safe_files import (
    SHARED,
    Folder,
    Identity,
    file_identity,
    is_plain,
    why_refused,
    write_all,
)

ATTRIBUTE = "user.hwdyno"
_HEADER_BYTES = 4096

_written: set[tuple[Identity, bytes]] = set()
"""Outputs of this process with their marks, for filesystems without extended attributes."""


def check_output(path: Path, *, overwrite: bool = False, header: bytes = b"") -> None:
    """Raise ``UserError`` where ``write_output`` would refuse what is there by now."""
    with contextlib.suppress(FileNotFoundError), _explain_errors(path), Folder.open_named(path.parent) as folder:
        _may_replace(folder, path, overwrite, header)


def write_output(path: Path, data: bytes, *, overwrite: bool = False, header: bytes = b"") -> None:
    """Write a file whole, and over nothing that is not hwdyno's unless ``overwrite`` gives it away.

    ``header`` is what the file begins with, within 4 KiB: on a filesystem without extended attributes it tells
    hwdyno's files. Raises ``UserError`` in one line.
    """
    with signals.delay_exit(), _explain_errors(path), Folder.open_named(path.parent) as folder:
        replaces = _may_replace(folder, path, overwrite, header)
        part = f".hwdyno-{secrets.token_hex(8)}.part"
        descriptor = folder.create(part, SHARED)
        identity = file_identity(os.fstat(descriptor))
        try:
            try:
                write_all(descriptor, data)
                mark_output(descriptor)
            finally:
                os.close(descriptor)
            if replaces:
                folder.replace(part, path.name)
            else:
                folder.publish(part, path.name)
        finally:
            with contextlib.suppress(OSError):
                folder.remove(part, identity)


def output_folder(path: Path) -> Path:
    """Make a folder for outputs where it is missing, with those above it; raises ``UserError``."""
    with _explain_errors(path):
        if not path.is_dir():  # One that exists may be a link: it is the user's path.
            Folder.for_files(path).close()
    return path


@contextlib.contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise _foreign(path) from None
    except FileNotFoundError:
        raise UserError(f"cannot write {path}: there is no directory {path.parent}; create it") from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {why_refused(error, path.parent).lower()}") from None


def _foreign(path: Path) -> UserError:
    return UserError(f"{path} exists and is not hwdyno's: give another name, or --overwrite")


def _may_replace(folder: Folder, path: Path, overwrite: bool, header: bytes) -> bool:
    """Whether a file is there that may be replaced; raises ``UserError`` for one that may not."""
    status = folder.status(path.name)
    if status is None:
        return False
    if stat.S_ISLNK(status.st_mode):
        raise UserError(
            f"{path} is a symbolic link, and nothing is written through one: name the file that it leads to"
        )
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path} is no regular file; give another name")
    if overwrite:
        return True
    try:
        descriptor = folder.open(path.name)
    except OSError:
        raise _foreign(path) from None
    try:
        if is_plain(os.fstat(descriptor)) and _is_marked(descriptor, header):
            return True
    finally:
        os.close(descriptor)
    raise _foreign(path)


def mark_output(descriptor: int, *, changes: bool = False) -> None:
    """Mark a file as hwdyno's by its inode and, unless it is one that ``changes``, its length and time."""
    status = os.fstat(descriptor)
    mark = _output_mark(status, changes)
    try:
        os.setxattr(descriptor, ATTRIBUTE, mark)
    except OSError:
        _written.add((file_identity(status), mark))


def is_marked(path: Path) -> bool:
    """Whether a file that changes is hwdyno's, by its mark."""
    with contextlib.suppress(OSError), Folder.open_named(path.parent) as folder:
        descriptor = folder.open(path.name)
        try:
            return is_plain(os.fstat(descriptor)) and _is_marked(descriptor)
        finally:
            os.close(descriptor)
    return False


def _is_marked(descriptor: int, header: bytes = b"") -> bool:
    status = os.fstat(descriptor)
    marks = {_output_mark(status, changes) for changes in (True, False)}
    try:
        return os.getxattr(descriptor, ATTRIBUTE) in marks
    except OSError as error:
        if _written & {(file_identity(status), mark) for mark in marks}:
            return True
        # Without a mark on a filesystem that has them it is a copy, or never was hwdyno's.
        has_none = error.errno in {errno.ENOTSUP, errno.EPERM}
        return has_none and bool(header) and header in os.read(descriptor, _HEADER_BYTES)


def _output_mark(status: os.stat_result, changes: bool) -> bytes:
    if changes:
        return str(status.st_ino).encode()
    seconds, ns = divmod(status.st_mtime_ns, 10**9)
    return f"{status.st_ino} {status.st_size} {seconds}.{ns:09}".encode()
