"""The SQLite index of a store's documents: a cache that is checked row by row, and made anew where it is wrong."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import sys
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hwdyno.system import output_files, safe_files

INDEX_VERSION = 4
# What marks a database as this index (SQLite's PRAGMA application_id): "hwdy".
APPLICATION_ID = 0x68776479
_COLUMNS = ("path", "size", "time_ns", "entry", "entry_sum", "figures", "figures_sum")
_TABLE = (
    "CREATE TABLE runs (path TEXT PRIMARY KEY, size INTEGER, time_ns INTEGER, entry TEXT, entry_sum INTEGER, "
    "figures TEXT, figures_sum INTEGER) WITHOUT ROWID"
)
# How the table of an index of any version begins; the first versions have no application ID.
_ANY_TABLE = b"CREATE TABLE runs (path TEXT PRIMARY KEY, size INTEGER, time_ns INTEGER, entry TEXT"
# https://www.sqlite.org/fileformat.html, section 1.3: the database's header, the place of its application ID.
_SQLITE, _ID_AT, _PAGE_BYTES = b"SQLite format 3\0", 68, 4096
# Two processes may index at once; a write takes milliseconds, so only a hanging process reaches this.
BUSY_TIMEOUT_S = 5.0
# A damaged tree may lead a statement astray; a sound one takes milliseconds.
STATEMENT_S = 20.0
_STATEMENT_STEPS = 100_000
_UNUSABLE = ("locked", "readonly", "full", "unable to open")
"""What SQLite says of an index that is not damaged and cannot be used now."""

Made = TypeVar("Made")


class IndexRow(NamedTuple):
    """What the index keeps of a document, valid as long as size and time are the document's."""

    size: int
    time_ns: int
    entry: str
    figures: str
    """Empty where they were not requested."""


class DamageError(Exception):
    """What is wrong with the index."""


_ERRORS = (sqlite3.Error, OSError, UnicodeError, DamageError)
_reported: set[str] = set()


def report_once(line: str) -> None:
    """Write a line to stderr, unless this process has written it already."""
    if line not in _reported:
        _reported.add(line)
        sys.stderr.write(f"hwdyno: {line}\n")


class RunIndex:
    """The index at a path. Each method works without it where it cannot be used, and says so once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._damage = ""
        """What was wrong with the file that was removed, until the rows of the new one are written."""
        self.is_used = True
        """Whether the last call could use it."""

    @property
    def needs_rows(self) -> bool:
        """Whether it was damaged and has no rows yet."""
        return bool(self._damage)

    def rows(self, *, figures: bool) -> dict[str, IndexRow]:
        """Every row by its document's name, with the figures where they are wanted; nothing where it has to be made."""
        return self._use(lambda index: _read_rows(index, figures=figures), {})

    def update(self, rows: Mapping[str, IndexRow], gone: Collection[str] = ()) -> None:
        """Write rows, and remove those of the documents that are ``gone``."""

        def write(index: sqlite3.Connection) -> bool:
            index.execute("BEGIN IMMEDIATE")
            index.executemany("DELETE FROM runs WHERE path = ?", [(name,) for name in gone])
            index.executemany(
                f"INSERT OR REPLACE INTO runs ({', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                [_values(name, row) for name, row in rows.items()],
            )
            index.execute("COMMIT")
            return True

        if self._use(write, False) and self._damage:
            report_once(f"the index {self._path} was rebuilt from the documents: {self._damage}")
            self._damage = ""

    def clear(self) -> bool:
        """Remove every row, and say whether that was possible."""

        # Emptied rather than removed: another process may have it open.
        def empty(index: sqlite3.Connection) -> bool:
            index.execute("DELETE FROM runs")
            return True

        return self._use(empty, False)

    def _use(self, work: Callable[[sqlite3.Connection], Made], default: Made) -> Made:
        """The result of ``work``; a damaged index is removed and made again first."""
        self.is_used = False
        try:
            return self._try(work, default)
        except _ERRORS as error:
            why = _cause(error)
            if not _is_damage(error, why):
                return self._go_without(error, default)
        self._damage = self._damage or why
        self._remove()
        try:
            return self._try(work, default)
        except _ERRORS as error:
            return self._go_without(error, default)

    def _try(self, work: Callable[[sqlite3.Connection], Made], default: Made) -> Made:
        self._make_file()
        if not self._is_ours():
            report_once(f"{self._path} is not hwdyno's, so the documents are read each time; move it elsewhere")
            return default
        with contextlib.closing(self._connect()) as index:
            found = work(index)
        self.is_used = True
        return found

    def _go_without(self, error: Exception, default: Made) -> Made:
        self._damage = ""
        if not isinstance(error, FileNotFoundError):  # A store without a folder has no documents either.
            report_once(f"the index {self._path} cannot be used ({_cause(error)}), so the documents are read")
        return default

    def _remove(self) -> None:
        if damaged := safe_files.made_with(self._path, b""):
            damaged.remove()

    def _make_file(self) -> None:
        """Make an empty, marked file for the index if there is nothing yet."""
        with contextlib.suppress(FileExistsError), safe_files.Folder.open_named(self._path.parent) as folder:
            descriptor = folder.create(self._path.name, safe_files.SHARED)
            try:
                output_files.mark_output(descriptor, changes=True)
            finally:
                os.close(descriptor)

    def _is_ours(self) -> bool:
        """Whether the file is hwdyno's: by its mark, its application ID or its table, or because nothing is in it."""
        with safe_files.Folder.open_named(self._path.parent) as folder:
            try:
                descriptor = folder.open(self._path.name)
            except OSError:
                return False
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return False
                page = os.pread(descriptor, _PAGE_BYTES, 0)
                is_empty = _SQLITE.startswith(page) or (not page.strip(b"\0") and _has_only_zeros(descriptor))
            finally:
                os.close(descriptor)
        marked = int.from_bytes(page[_ID_AT : _ID_AT + 4], "big")
        is_known = marked == APPLICATION_ID or (page.count(b"CREATE ") == 1 and _ANY_TABLE in page)
        # A database with nothing in it yet is one that another process of hwdyno makes now.
        return is_empty or is_known or output_files.is_marked(self._path)

    def _connect(self) -> sqlite3.Connection:
        index = sqlite3.connect(str(self._path), timeout=BUSY_TIMEOUT_S, isolation_level=None)
        until_s = time.monotonic() + STATEMENT_S
        try:
            index.set_progress_handler(lambda: time.monotonic() > until_s, _STATEMENT_STEPS)
            # On a network filesystem, which cannot share WAL's memory, SQLite keeps its rollback journal by itself.
            index.execute("PRAGMA journal_mode = WAL")
            index.execute("PRAGMA synchronous = NORMAL")
            index.execute("PRAGMA cell_size_check = ON")
            if (state := _read_state(index)) == _FRESH:
                index.execute("BEGIN IMMEDIATE")
                if _read_state(index) == _FRESH:  # Another process may have made it meanwhile.
                    index.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    index.execute(_TABLE)
                    index.execute(f"PRAGMA user_version = {INDEX_VERSION}")
                index.execute("COMMIT")
                state = _read_state(index)
            if state != _MADE:
                is_other = state[:2] != _MADE[:2]
                raise DamageError(
                    "it is of another version of hwdyno" if is_other else "was damaged (its table is another)"
                )
        except BaseException:
            index.close()
            raise
        return index


_State = tuple[int, int, tuple[str, ...]]
_FRESH: _State = (0, 0, ())
_MADE: _State = (APPLICATION_ID, INDEX_VERSION, (_TABLE,))


def _read_state(index: sqlite3.Connection) -> _State:
    """The application ID, the version, and what the database was made by."""
    (application,) = index.execute("PRAGMA application_id").fetchone()
    (version,) = index.execute("PRAGMA user_version").fetchone()
    made_by = tuple(str(sql) for (sql,) in index.execute("SELECT sql FROM sqlite_master"))
    return application, version, made_by


def _read_rows(index: sqlite3.Connection, *, figures: bool) -> dict[str, IndexRow]:
    """Every row by its document's name; raises ``DamageError`` for one that is not as it was written."""
    found = {}
    texts = "figures, figures_sum" if figures else "NULL, NULL"
    for name, *values in index.execute(f"SELECT path, size, time_ns, entry, entry_sum, {texts} FROM runs"):
        size, time_ns, entry, entry_sum, points, points_sum = values
        if entry_sum != checksum(name, size, time_ns, entry) or (
            figures and points_sum != checksum(name, size, time_ns, points)
        ):
            raise DamageError("a row differs from its checksum")
        found[name] = IndexRow(size, time_ns, entry, points if figures else "")
    return found


def _values(name: str, row: IndexRow) -> tuple[Any, ...]:
    sums = [checksum(name, row.size, row.time_ns, text) for text in (row.entry, row.figures)]
    return name, row.size, row.time_ns, row.entry, sums[0], row.figures, sums[1]


def checksum(*values: object) -> int:
    """A checksum that tells any flipped byte, and another type of a value."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


def _has_only_zeros(descriptor: int) -> bool:
    """Whether a file has no content, as after a crash of the system."""
    at = 0
    while piece := os.pread(descriptor, 1 << 20, at):
        if piece.strip(b"\0"):
            return False
        at += len(piece)
    return True


def _cause(error: Exception) -> str:
    """What the system or SQLite says, without the text of a row."""
    says = (error.strerror or str(error)) if isinstance(error, OSError) else str(error).partition(" with text ")[0]
    return " ".join(says.split())


def _is_damage(error: Exception, why: str) -> bool:
    """Whether a new file may be better than this one."""
    is_unusable = isinstance(error, sqlite3.OperationalError) and any(word in why for word in _UNUSABLE)
    return not is_unusable and not isinstance(error, OSError)
