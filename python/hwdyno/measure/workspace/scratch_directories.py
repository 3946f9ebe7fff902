"""The data file that storage points share: separate from the user's files, locked, and removed at the end.

It is in a new directory with a unique name and a lock file that this process locks. Another run removes the directory
only if the lock is free, that is, after this process has ended, and removes only what this module created: no file of
the user is ever opened for writing or removed. A folder with a scenario's name (a data set, an index) has such a lock
as long as its run means to remove it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import secrets
import stat
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from hwdyno.measure.workspace.place import Place
from hwdyno.model.words import UserError
from hwdyno.system import safe_files, signals
from hwdyno.system.printable import printable
from hwdyno.system.safe_files import Folder, file_identity, make_folder, remove_empty, remove_folder, write_all

_NAME = re.compile(r"hwdyno-scratch-[0-9a-f]{16}")
_LOCK, _DATA, _MADE = "lock", "data", "made"
_SIGNATURE = b"hwdyno scratch directory: removed by its run, or by the next one if that run died\n"
_LEASE = ".hwdyno-run"
_LEASE_SIGNATURE = b"hwdyno removes this folder and the files below: its run, or the next one if that run died\n"
_LONGEST_LEASE = 4096


class DataFile(Protocol):
    """The data file that the storage points of a run share, on one host or on each."""

    @property
    def place(self) -> Place:
        """Its directory or device."""
        ...

    @property
    def data(self) -> Path:
        """The file's path."""
        ...

    @property
    def laid_out_bytes(self) -> int:
        """The file's current length; raises ``OSError`` if it is gone."""
        ...

    def close(self) -> None:
        """Remove the file; a second call does nothing."""
        ...


class _ClaimedDirectory:
    """A directory that a run has claimed, and that is removed when it is closed."""

    def __init__(self) -> None:
        self._claim: _Claim | None = None

    def close(self) -> None:
        """Remove the directory with what the run made in it; a second call does nothing."""
        with signals.delay_exit():
            claim, self._claim = self._claim, None
            if claim is not None:
                claim.remove()
        atexit.unregister(self.close)
        signals.unregister(self.close)

    def __exit__(self, *_: object) -> None:
        self.close()


class Workspace(_ClaimedDirectory):
    """A run's directory with its data file; removed however the run ends."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place: Place = place
        self.data: Path = place.path
        if place.is_device:
            return
        clean_stale(place.path)
        try:
            with signals.delay_exit():
                self._claim = _claim(place.path)
                signals.register(signals.Stage.REMOVE, self.close)
        except OSError as error:
            why = safe_files.why_refused(error, place.path)
            raise UserError(f"--path {place.path}: {why}; use a writable directory") from None
        # After a kill, the next run cleans up.
        atexit.register(self.close)
        self.data = self._claim.folder.path / _DATA
        try:
            os.close(self._claim.folder.create(_DATA))
        except OSError as error:
            self.close()
            raise UserError(f"--path {place.path}: {error.strerror}; free space or use another --path") from None

    @property
    def laid_out_bytes(self) -> int:
        """The current length of the data file."""
        return self.place.device_bytes if self.place.device_bytes is not None else self.data.stat().st_size

    def files(self, count: int) -> tuple[Path, ...]:
        """Paths of more data files, which are removed with the first one."""
        return tuple(self.data.with_name(f"{_DATA}.{number}") for number in range(count))

    def __enter__(self) -> Workspace:
        return self


class ScratchDirectory(_ClaimedDirectory):
    """A run's directory for data sets and indices; removed however the run ends.

    It is created on entry, but its name is known before, so that a plan can state the paths.
    """

    def __init__(self, parent: Path) -> None:
        super().__init__()
        self.parent = parent
        self._name = _new_name()
        self.folder = parent / self._name / _MADE
        """The folder for the scenario's files, removed with the directory."""

    def __enter__(self) -> ScratchDirectory:
        clean_stale(self.parent)
        try:
            with signals.delay_exit():
                self._claim = _claim(self.parent, self._name)
                signals.register(signals.Stage.REMOVE, self.close)
                atexit.register(self.close)
                self._claim.folder.make_folder(_MADE, 0o755)
        except OSError as error:
            self.close()
            why = safe_files.why_refused(error, self.parent)
            raise UserError(f"--path {self.parent}: {why}; use a writable directory") from None
        return self


class _Claim:
    """A directory of one run's own by its handle, with the lock that it holds."""

    def __init__(self, folder: Folder, lock: int) -> None:
        self.folder = folder
        self.lock = lock
        self.lock_identity = file_identity(os.fstat(lock))  # A device that is gone answers nothing later.

    def remove(self) -> None:
        """Remove what this module created, then the lock and the directory; as long as one stays, the lock does too."""
        with self.folder as folder:
            try:
                for name in folder.names():
                    _remove_content(folder, name)
                left = [name for name in folder.settled_names() if name != _LOCK]
            except OSError as error:
                left = [f"its content ({error.strerror})"]
            # Closed first: FUSE and NFS keep an open file that is removed, under a hidden name.
            os.close(self.lock)
            if left:
                _report_left(folder.path, left)
                return
            with contextlib.suppress(OSError):
                folder.remove(_LOCK, self.lock_identity)
            with contextlib.suppress(OSError):
                folder.remove_itself()


def _remove_content(folder: Folder, name: str) -> None:
    """Remove a data file, names of a killed metadata reading, a scenario's files, or a removed file's hidden name."""
    if name not in {_DATA, _MADE} and not name.startswith((f"{_DATA}.", "names-", *safe_files.HIDDEN)):
        return
    with contextlib.suppress(OSError):
        status = folder.status(name)
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            with folder.folder(name) as inner:
                inner.clear()
        folder.remove(name, file_identity(status))


def _report_left(path: Path, names: Sequence[str]) -> None:
    """Name on stderr what stays, and what mends it."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    says = f"hwdyno: {path} stays: {names[0]}{more} could not be removed; the next run there tries again"
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(printable(says) + "\n")


def _new_name() -> str:
    return f"hwdyno-scratch-{secrets.token_hex(8)}"


def _claim(parent_path: Path, named: str | None = None) -> _Claim:
    """Create a directory, ``named`` or with a new name, with a lock file that this process locks."""
    with Folder.open_named(parent_path) as parent:
        while True:
            name = named or _new_name()
            try:
                parent.make_folder(name)
            except FileExistsError:
                if named:
                    raise
                continue
            folder = parent.folder(name)
            lock = -1
            try:
                lock = folder.create(_LOCK)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The signature is written after the lock: without it no run takes the directory for an abandoned one.
                write_all(lock, _SIGNATURE)
            except OSError:
                with contextlib.suppress(OSError), folder:
                    if lock >= 0:
                        folder.remove(_LOCK, file_identity(os.fstat(lock)))
                        os.close(lock)
                    parent.remove(name, file_identity(os.fstat(folder.descriptor)))
                raise
            return _Claim(folder, lock)


class MadeFolder:
    """A folder with a scenario's name, which this run makes unless it is there; what a dead run left there goes before.

    As long as this run means to remove the folder, it has a lock in there, in a file that names its files; and the
    folder goes when the process leaves (``signals``), from the moment on at which it is there.
    """

    def __init__(self, path: Path, *patterns: str, keeps: bool = False) -> None:
        """Make it, and hold it unless it ``keeps`` it for later commands; raises ``UserError``."""
        clean_stale(path.parent)
        self.path = path
        self.patterns = patterns
        with signals.delay_exit():
            self.is_new = make_folder(path)
            self._lease = _lease(path, patterns) if self.is_new and not keeps else None
            if self.is_new and not keeps:
                signals.register(signals.Stage.REMOVE, self.remove)

    def release(self) -> None:
        """Leave it as it is, for later commands."""
        with signals.delay_exit():
            signals.unregister(self.remove)
            lease, self._lease = self._lease, None
            if lease is not None:
                lease.release()

    def remove(self) -> None:
        """Remove it with its files if this run made it, or if it is hwdyno's and empty; other content stays."""
        # A process that leaves waits for it: whoever unregisters it has begun it.
        with signals.delay_exit():
            signals.unregister(self.remove)
            lease, self._lease = self._lease, None
            is_new, self.is_new = self.is_new, False
            if lease is not None:
                lease.remove()
            else:
                remove_folder(self.path, *(self.patterns if is_new else ()))


class _Lease:
    """The lock that a run holds in a folder that it made and means to remove."""

    def __init__(self, folder: Folder, lock: int, patterns: tuple[str, ...]) -> None:
        self.folder = folder
        self.lock = lock
        self.lock_identity = file_identity(os.fstat(lock))  # A device that is gone answers nothing later.
        self.patterns = patterns

    def release(self) -> None:
        """Remove the lock, and leave the folder."""
        with self.folder:
            with contextlib.suppress(OSError):
                self.folder.remove(_LEASE, self.lock_identity)
            os.close(self.lock)

    def remove(self) -> None:
        """Remove the files, the lock last, and the folder if nothing else is in it."""
        path = self.folder.path
        clean_stale(path)
        if self.patterns:
            self.folder.clear(*self.patterns)
            if left := self._left():
                _report_left(path, left)
                self.folder.close()
                os.close(self.lock)
                return
        with self.folder:
            os.close(self.lock)  # first, as above
            with contextlib.suppress(OSError):
                self.folder.remove(_LEASE, self.lock_identity)
            remove_empty(self.folder)

    def _left(self) -> list[str]:
        """What this run made and could not remove; a user's files stay in silence."""
        try:
            names = self.folder.settled_names()
        except OSError as error:
            return [f"its content ({error.strerror})"]
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in self.patterns)]


def _lease(path: Path, patterns: tuple[str, ...]) -> _Lease | None:
    """Hold a new folder; where the system refuses, the folder is only removed by this run itself."""
    with contextlib.suppress(OSError), Folder.open_named(path.parent) as parent:
        folder = parent.folder(path.name)
        lock = -1
        try:
            lock = folder.create(_LEASE)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # As above: without what it says no run takes the folder for an abandoned one.
            write_all(lock, _LEASE_SIGNATURE + "".join(f"{pattern}\n" for pattern in patterns).encode())
        except OSError:
            with folder:
                if lock >= 0:
                    folder.remove(_LEASE, file_identity(os.fstat(lock)))
                    os.close(lock)
            raise
        return _Lease(folder, lock, patterns)
    return None


def clean_stale(parent: Path) -> list[Path]:
    """Remove the directories that ended runs of this user left in ``parent``, and return them."""
    gone: list[Path] = []
    found: list[Path] = []
    with contextlib.suppress(OSError):  # What cannot be listed is named by whoever uses it next.
        found = sorted(parent.glob("hwdyno-*"))
    for directory in found:
        claim = _of_dead(directory)
        if claim is not None:
            claim.remove()
            gone.append(directory)
    return gone


def _of_dead(directory: Path) -> _Claim | _Lease | None:
    """An abandoned directory, which is then ours; none if its run goes on or no run would remove it."""
    is_scratch = bool(_NAME.fullmatch(directory.name))
    try:
        with Folder.open_named(directory.parent) as parent:
            folder = parent.folder(directory.name)
    except OSError:
        return None
    lock = -1
    with contextlib.suppress(OSError, UnicodeDecodeError):  # Locked: its run is going on.
        if os.fstat(folder.descriptor).st_uid == os.geteuid() and (is_scratch or folder.is_ours):
            lock = folder.open(_LOCK if is_scratch else _LEASE, os.O_RDWR)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            says = os.read(lock, _LONGEST_LEASE)
            if is_scratch and says == _SIGNATURE:
                return _Claim(folder, lock)
            if not is_scratch and says.startswith(_LEASE_SIGNATURE):
                return _Lease(folder, lock, tuple(says[len(_LEASE_SIGNATURE) :].decode().splitlines()))
    if lock >= 0:
        os.close(lock)
    folder.close()
    return None
