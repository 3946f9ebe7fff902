"""Safe file access: makes, replaces and removes them by directory handle, through no link, and only hwdyno's.

A path that a user gives may lead through links up to its last component, which is the user's choice. Beneath it no
link is followed. A new file is made with ``O_EXCL``. What exists is replaced or removed only where it is verified as
hwdyno's: a folder by the mark in it, a file of this process by its inode, and an output (``output_files``) by its
extended attribute. The engine's ``safe_files.rs`` keeps the same marks.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import shutil
import stat
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from hwdyno.model.words import UserError
from hwdyno.system import signals

NO_INODES = "no inodes are left, of which each file takes one"
"""What is used up where the system says that space is."""
MARK = ".hwdyno"
"""The file that marks a folder as hwdyno's; it names the folder's inode, so that a copy is marked for nothing."""
PRIVATE, SHARED = 0o600, 0o644
_LONGEST_MARK = 256
HIDDEN = (".fuse_hidden", ".nfs")
"""Names of removed files on FUSE and NFS, until these learn that the file is closed."""
HIDDEN_S = 1.0
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK}
"""What a filesystem without hard links answers."""


class Identity(NamedTuple):
    """A file's identity, independent of its name."""

    device: int
    inode: int


def file_identity(status: os.stat_result) -> Identity:
    """The identity of a file by its status."""
    return Identity(status.st_dev, status.st_ino)


class Folder:
    """A directory by its handle; as a context manager it closes the handle."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def open_named(cls, path: Path) -> Folder:
        """Open a directory that the user named; links are followed."""
        flags = os.O_DIRECTORY | os.O_CLOEXEC
        try:
            return cls(path, os.open(path, os.O_RDONLY | flags))
        except PermissionError:  # It may be written and not be listed.
            return cls(path, os.open(path, os.O_PATH | flags))

    @classmethod
    def for_files(cls, path: Path) -> Folder:
        """Open a folder, made where it is missing with those above it; a link of its name is refused by ``OSError``."""
        try:
            parent = cls.open_named(path.parent)
        except FileNotFoundError:
            parent = cls.for_files(path.parent)
        with parent:
            with contextlib.suppress(FileExistsError):
                parent.make_folder(path.name, 0o755)
            return parent.folder(path.name)

    def make_folder(self, name: str, mode: int = 0o700) -> None:
        """Make a directory that was not there."""
        os.mkdir(_plain(name), mode, dir_fd=self.descriptor)

    def folder(self, name: str) -> Folder:
        """Open a directory in this one; a link is refused."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return Folder(self.path / name, os.open(_plain(name), flags, dir_fd=self.descriptor))
        except NotADirectoryError:
            if (status := self.status(name)) is not None and stat.S_ISLNK(status.st_mode):
                raise OSError(errno.ELOOP, "it is a symbolic link, and none is followed here") from None
            raise

    def create(self, name: str, mode: int = PRIVATE) -> int:
        """Make a file that was not there, and give its descriptor."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(_plain(name), flags, mode, dir_fd=self.descriptor)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a file that exists; a link is refused, and a pipe does not block."""
        return os.open(_plain(name), flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.descriptor)

    def status(self, name: str) -> os.stat_result | None:
        """The status of a name, a link's its own; none where there is nothing."""
        try:
            return os.stat(_plain(name), dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """The names of its content by now."""
        # Opened anew: btrfs lists what was there when the directory was opened.
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.descriptor)
        try:
            with os.scandir(descriptor) as entries:
                return sorted(entry.name for entry in entries)
        finally:
            os.close(descriptor)

    def remove(self, name: str, identity: Identity) -> None:
        """Remove a file or an empty directory if the name is still this one's; raises ``OSError``."""
        status = self.status(name)
        if status is None or file_identity(status) != identity:
            return
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=self.descriptor)
        else:
            os.unlink(name, dir_fd=self.descriptor)

    def remove_itself(self) -> None:
        """Remove the directory if it is empty, no matter what it is called by now; raises ``OSError``."""
        identity = file_identity(os.fstat(self.descriptor))
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with Folder(self.path.parent, os.open("..", flags, dir_fd=self.descriptor)) as parent:
            for name in dict.fromkeys((self.path.name, *parent.names())):
                parent.remove(name, identity)

    def settled_names(self) -> list[str]:
        """The names of its content, without those of removed files that are still being closed, if they end in time."""
        until_s = time.monotonic() + HIDDEN_S
        while True:
            names = self.names()
            if not any(name.startswith(HIDDEN) for name in names) or time.monotonic() > until_s:
                return names
            time.sleep(HIDDEN_S / 100)

    def publish(self, part: str, name: str) -> None:
        """Give a file a name that nothing has yet; raises ``FileExistsError``."""
        at = self.descriptor
        try:
            os.link(part, _plain(name), src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)  # it replaces nothing
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # A filesystem without links (FAT): the check and the rename are two steps, and names are random.
            if self.status(name) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path / name)) from None
            os.rename(part, name, src_dir_fd=at, dst_dir_fd=at)
        else:
            os.unlink(part, dir_fd=at)
        try:
            os.fsync(at)
        except OSError as error:
            if error.errno != errno.EBADF:  # Of a directory that may not be listed.
                raise

    def replace(self, part: str, name: str) -> None:
        """Give a file the name of one that was verified, and that is gone then; a link goes itself."""
        os.rename(part, _plain(name), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def clear(self, *patterns: str) -> None:
        """Remove its content, of files those that fit a pattern if there is any, and directories left empty."""
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = self.names()
        for name in names:
            with contextlib.suppress(OSError):
                status = self.status(name)
                if status is not None and stat.S_ISDIR(status.st_mode):
                    with self.folder(name) as inner:
                        inner.clear(*patterns)
                    os.rmdir(name, dir_fd=self.descriptor)
                elif not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                    os.unlink(name, dir_fd=self.descriptor)

    def mark(self) -> None:
        """Mark a folder that this process made; a mark that finds no room is left out."""
        with contextlib.suppress(OSError):
            descriptor = self.create(MARK)
            try:
                write_all(descriptor, self._mark())
            finally:
                os.close(descriptor)

    @property
    def is_ours(self) -> bool:
        """Whether hwdyno made the folder, by the mark in it."""
        try:
            descriptor = self.open(MARK)
        except OSError:
            return False
        try:
            return is_plain(os.fstat(descriptor)) and os.read(descriptor, _LONGEST_MARK) == self._mark()
        finally:
            os.close(descriptor)

    def _mark(self) -> bytes:
        inode = os.fstat(self.descriptor).st_ino
        return f"hwdyno made this folder (inode {inode}), and may remove what it made in it\n".encode()

    def close(self) -> None:
        """Close the handle; a second call does nothing."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _plain(name: str) -> str:
    """The name, if it is one in its directory; raises ``OSError`` for one that leads elsewhere."""
    if not name or "/" in name or name in {".", ".."}:
        raise OSError(errno.EINVAL, f"{name!r} must be a plain name: it leads out of its folder")
    return name


def is_plain(status: os.stat_result) -> bool:
    """Whether it is a regular file of one name that belongs to this user."""
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == os.geteuid()


# --- files of this process


class MadeFile:
    """A file that this process made or verified, under a name of the user's choice.

    Its descriptor is kept: while it is open, no other file gets its inode.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def remove(self) -> None:
        """Remove it, unless it is gone or its name is another file's by now; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            with contextlib.suppress(OSError), Folder.open_named(self.path.parent) as folder:
                folder.remove(self.path.name, file_identity(os.fstat(descriptor)))
        finally:
            os.close(descriptor)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def create(path: Path) -> MadeFile:
    """Make an empty file that was not there, and nothing where there is a link; raises ``OSError``."""
    with Folder.open_named(path.parent) as folder:
        return MadeFile(path, folder.create(path.name))


def made_with(path: Path, header: bytes) -> MadeFile | None:
    """The file at ``path`` if it begins as only hwdyno's do; none where it is another's or not there."""
    with contextlib.suppress(OSError), Folder.open_named(path.parent) as folder:
        made = MadeFile(path, descriptor := folder.open(path.name))
        if is_plain(os.fstat(descriptor)) and os.read(descriptor, len(header)) == header:
            return made
    return None


# --- folders of hwdyno's


def make_folder(path: Path) -> bool:
    """Make a folder of hwdyno's and mark it, and say whether it is new; raises ``UserError`` for a link."""
    try:
        with Folder.open_named(path.parent) as parent:
            try:
                parent.make_folder(path.name, 0o755)
            except FileExistsError:
                parent.folder(path.name).close()
                return False
            with parent.folder(path.name) as folder:
                folder.mark()
            return True
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; move it elsewhere, or give another --path") from None


def remove_folder(path: Path, *patterns: str) -> None:
    """Remove a folder of hwdyno's, with the files in it whose names fit a pattern; other content stays."""
    with contextlib.suppress(OSError), Folder.open_named(path.parent) as parent, parent.folder(path.name) as folder:
        if not folder.is_ours:
            return
        if patterns:
            folder.clear(*patterns)
        remove_empty(folder)


def remove_empty(folder: Folder) -> None:
    """Remove a folder of hwdyno's in which nothing but the mark is left."""
    with contextlib.suppress(OSError):
        if folder.is_ours and folder.settled_names() == [MARK]:
            folder.clear(MARK)
            folder.remove_itself()


@contextlib.contextmanager
def temporary(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A directory for this user alone, removed with all its content however this process ends, but by SIGKILL."""
    import tempfile

    with contextlib.ExitStack() as stack:
        with signals.delay_exit():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, dir=parent)))
            remove = partial(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(signals.at_leave(signals.Stage.REMOVE, remove))
        yield folder


# --- what all of them use


def why_refused(error: OSError, path: Path) -> str:
    """What the system says, or that inodes are used up on the filesystem of ``path``, where it says that space is."""
    if error.errno == errno.ENOSPC:
        with contextlib.suppress(OSError):
            room = os.statvfs(next(place for place in (path, *path.parents) if place.exists()))
            if room.f_files and not room.f_favail:
                return NO_INODES
    return error.strerror or str(error)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all data, also if the system takes it in parts."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def path_of_descriptor(descriptor: int) -> Path:
    """The path by which this process opens a file in memory, as long as it has that descriptor (proc(5), memfd)."""
    return Path(f"/proc/self/fd/{descriptor}")
