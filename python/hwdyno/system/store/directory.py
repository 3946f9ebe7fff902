"""The directory that stores Runs, with an index that is only a cache."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
from collections.abc import Collection
from pathlib import Path

from hwdyno.model.words import Run
from hwdyno.system import output_files, safe_files
from hwdyno.system.store.atomic_files import StoreError, cause, write_once
from hwdyno.system.store.document import from_json, to_json
from hwdyno.system.store.history import (
    HistoryEntry,
    PointFigure,
    entry_from,
    entry_text,
    figures_from,
    figures_text,
    make_entry,
    unreadable,
)
from hwdyno.system.store.journal import Writer, from_journal, is_being_written, left_journal

INDEX_VERSION = 2
# What marks a database as this index (SQLite's PRAGMA application_id): "hwdy".
APPLICATION_ID = 0x68776479
# The same of an index of the first version, which may have none: its only table.
_TABLE = "CREATE TABLE runs (path TEXT PRIMARY KEY, size INTEGER, time_ns INTEGER, entry TEXT)"
_MADE = (
    "CREATE TABLE IF NOT EXISTS runs (path TEXT PRIMARY KEY, size INTEGER, time_ns INTEGER, entry TEXT, figures TEXT)"
)
# https://www.sqlite.org/fileformat.html, section 1.3: the database's header, the place of its application ID.
_SQLITE, _ID_AT, _PAGE_BYTES = b"SQLite format 3\0", 68, 4096
# Two processes may index at once; a write takes milliseconds, so only a hanging process reaches this.
BUSY_TIMEOUT_S = 20.0


def default_directory() -> Path:
    """The default store: ``$HWDYNO_HOME``, else ``hwdyno`` below the user's data directory (XDG)."""
    try:
        if home := os.environ.get("HWDYNO_HOME"):
            return Path(home).expanduser()
        data = os.environ.get("XDG_DATA_HOME")
        return (Path(data) if data else Path.home() / ".local" / "share") / "hwdyno"
    except RuntimeError:  # No such user, or a user without a home.
        which = f"HWDYNO_HOME={home}" if home else "this user"
        raise StoreError(f"{which} has no home directory; set HWDYNO_HOME to a directory for the Runs") from None


class Store:
    """A directory of Runs, which any number of processes may use at once."""

    def __init__(self, where: str | Path | None = None) -> None:
        if isinstance(where, str) and "://" in where:
            raise StoreError(f"{where} is no store; use a directory, or postgresql://USER@HOST/DATABASE")
        self.directory = default_directory() if where is None else Path(where)
        self.runs = self.directory / "runs"
        self.index = self.directory / "index.sqlite"
        self.place = str(self.runs)
        """Where its Runs are, as a message names it."""
        self.trouble = ""
        """Why a Run that was saved is not where it should be, in one line."""

    def begin(self, run: Run) -> Writer:
        """Open the journal of a Run that has no points yet."""
        self._make()
        check_id(run.id)
        if self._document(run.id).exists():
            raise self._duplicate_error(run)
        return Writer(self.runs / f"{run.id}.journal", run, self.write, self.announce)

    def save(self, run: Run) -> Path:
        """Store a whole Run, and return its document's path; raises as ``write`` does."""
        path = self.write(run)
        self.announce(run, path)
        return path

    def write(self, run: Run) -> Path:
        """Write a whole Run's document atomically, and return its path.

        Raises ``StoreError`` if there is no space or permission, or if another Run has that name.
        """
        self._make()
        check_id(run.id)
        path = self._document(run.id)
        text = to_json(run)
        try:
            write_once(path, text)
        except FileExistsError:
            if not path.is_file() or path.read_text() != text:
                raise self._duplicate_error(run) from None
        except OSError as error:
            raise StoreError(f"cannot save run {run.id} in {self.runs}: {cause(error, self.runs)}") from None
        return path

    def announce(self, run: Run, path: Path) -> None:
        """Add a stored Run to the index."""
        # The document is what counts; if the index cannot be written, the next history repairs it.
        with contextlib.suppress(StoreError, sqlite3.Error, OSError), contextlib.closing(self._open_index()) as index:
            self._remember(index, path, make_entry(run, path), figures_text(run))

    def load(self, name: str | Path) -> Run:
        """Read a Run by id, unique prefix of an id, ``last``, or the path of a document or journal.

        Raises ``StoreError`` in one line if there is none or it cannot be read.
        """
        path = Path(name)
        if path.suffix in {".json", ".journal"} or path.parent != Path() or path.is_file():
            return _read(path)
        path = self._find(str(name))
        # A Run that ends now writes its document before it removes its journal.
        return _read(path if path.exists() else self._document(path.stem))

    def history(self) -> list[HistoryEntry]:
        """List every Run, newest first, including unfinished and unreadable ones."""
        entries: dict[str, HistoryEntry] = {}
        # Journals first: a Run that ends meanwhile then has its document below.
        for path in self._files(".journal"):
            verdict = "running" if is_being_written(path) else "partial"
            try:
                entries[path.stem] = make_entry(_read(path), path, verdict)
            except StoreError as error:
                if path.exists():
                    entries[path.stem] = unreadable(path, error)
        entries |= {Path(entry.path).stem: entry for entry, _ in self._documents()}
        return sorted(entries.values(), key=lambda entry: entry.id, reverse=True)

    def figures(self) -> list[tuple[HistoryEntry, tuple[PointFigure, ...]]]:
        """The figures of every Run that has ended and can be read, oldest first."""
        found = [(entry, figures_from(text)) for entry, text in self._documents(figures=True) if not entry.error]
        return sorted(found, key=lambda pair: pair[0].id)

    def rebuild(self) -> int:
        """Rebuild the index from the documents, remove leftover journals of finished Runs, and count the documents."""
        # Emptied rather than removed: another process may have it open.
        try:
            with contextlib.closing(self._open_index()) as index:
                index.execute("DELETE FROM runs")
        except sqlite3.Error as error:
            raise StoreError(f"cannot rebuild the index {self.index}: {error}") from None
        for path in self._files(".journal"):
            if self._document(path.stem).exists() and (ended := left_journal(path)):
                ended.remove()
        return len(self._documents())

    def _duplicate_error(self, run: Run) -> StoreError:
        return StoreError(f"run {run.id} is already stored in {self.runs}; stored Runs never change")

    def _find(self, name: str) -> Path:
        names = {path.stem: path for suffix in (".journal", ".json") for path in self._files(suffix)}
        return names[resolve_name(name, names, self.place)]

    def _document(self, run_id: str) -> Path:
        return self.runs / f"{run_id}.json"

    def _files(self, suffix: str) -> list[Path]:
        # A glob leaves out what it cannot read, in silence.
        try:
            return sorted(path for path in self.runs.iterdir() if path.name.endswith(suffix))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"cannot read {self.runs}: {cause(error, self.runs)}") from None

    def _make(self) -> None:
        try:
            if not self.runs.is_dir():
                safe_files.Folder.for_files(self.runs).close()
        except OSError as error:
            raise StoreError(f"cannot store Runs in {self.runs}: {cause(error, self.runs.parent)}") from None

    # The index has one row per document, valid as long as the document's size and time match the row.

    def _documents(self, *, figures: bool = False) -> list[tuple[HistoryEntry, str]]:
        """The entry of every document, each with its figures as text where they are wanted."""
        files = self._files(".json")
        if not files:
            return []
        wanted = "figures" if figures else "''"
        with contextlib.closing(self._open_index()) as index:
            rows = index.execute(f"SELECT path, size, time_ns, entry, {wanted} FROM runs")
            known = {row[0]: row[1:] for row in rows}
            entries = []
            for path in files:
                try:
                    stat = path.stat()
                except OSError:
                    continue
                size, time_ns, text, points = known.pop(path.name, (None, None, None, ""))
                is_current = (size, time_ns) == (stat.st_size, stat.st_mtime_ns) and isinstance(text, str)
                if is_current and (entry := entry_from(text, path)) is not None:
                    entries.append((entry, str(points)))
                    continue
                try:
                    run = _read(path)
                    entry, points = make_entry(run, path), figures_text(run)
                except StoreError as error:
                    entry, points = unreadable(path, error), ""
                else:
                    with contextlib.suppress(sqlite3.Error):
                        self._remember(index, path, entry, points)
                entries.append((entry, points))
            for gone in known:
                with contextlib.suppress(sqlite3.Error):
                    index.execute("DELETE FROM runs WHERE path = ?", (gone,))
        return entries

    def _remember(self, index: sqlite3.Connection, path: Path, entry: HistoryEntry, figures: str) -> None:
        stat = path.stat()
        index.execute(
            "INSERT OR REPLACE INTO runs (path, size, time_ns, entry, figures) VALUES (?, ?, ?, ?, ?)",
            (path.name, stat.st_size, stat.st_mtime_ns, entry_text(entry), figures),
        )

    def _open_index(self) -> sqlite3.Connection:
        """Open the index; a damaged one is made again, and in place of one that is not hwdyno's is one in memory."""
        try:
            self._make_index()
            if not self._has_index():
                return self._connect(":memory:")
            return self._connect(str(self.index))
        except (OSError, sqlite3.OperationalError):
            return self._connect(":memory:")
        except sqlite3.DatabaseError:
            try:
                if damaged := safe_files.made_with(self.index, b""):
                    damaged.remove()
                self._make_index()
                return self._connect(str(self.index))
            except (OSError, sqlite3.Error):
                return self._connect(":memory:")

    def _make_index(self) -> None:
        """Make an empty, marked file for the index if there is nothing yet."""
        with contextlib.suppress(FileExistsError), safe_files.Folder.open_named(self.directory) as folder:
            descriptor = folder.create(self.index.name, safe_files.SHARED)
            try:
                output_files.mark_output(descriptor, changes=True)
            finally:
                os.close(descriptor)

    def _has_index(self) -> bool:
        """Whether the index is hwdyno's: by its mark, its application ID or its only table."""
        with safe_files.Folder.open_named(self.directory) as folder:
            try:
                descriptor = folder.open(self.index.name)
            except OSError:
                return False
            try:
                page = os.pread(descriptor, _PAGE_BYTES, 0)
                is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            finally:
                os.close(descriptor)
        if not is_regular:
            return False
        if page.startswith(_SQLITE):
            marked = int.from_bytes(page[_ID_AT : _ID_AT + 4], "big")
            is_ours = marked == APPLICATION_ID or (page.count(b"CREATE ") == 1 and _TABLE.encode() in page)
            # A database with nothing in it yet is one that another process of hwdyno makes now.
            return is_ours or output_files.is_marked(self.index)
        return not page or output_files.is_marked(self.index)

    @property
    def foreign_index(self) -> str:
        """What is in the index's place, in one line; empty if nothing is."""
        with contextlib.suppress(OSError):
            if os.path.lexists(self.index) and not self._has_index():
                return f"{self.index} is not hwdyno's, so the index is made anew each time; move that file elsewhere"
        return ""

    @staticmethod
    def _connect(name: str) -> sqlite3.Connection:
        index = sqlite3.connect(name, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            # On a network filesystem, which cannot share WAL's memory, SQLite keeps its rollback journal by itself.
            index.execute("PRAGMA journal_mode = WAL")
            index.execute("PRAGMA synchronous = NORMAL")
            if index.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
                index.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            (version,) = index.execute("PRAGMA user_version").fetchone()
            if version != INDEX_VERSION:
                index.execute("BEGIN IMMEDIATE")
                if version:  # rows of another version have other columns
                    index.execute("DROP TABLE IF EXISTS runs")
                index.execute(_MADE)
                index.execute(f"PRAGMA user_version = {INDEX_VERSION}")
                index.execute("COMMIT")
        except sqlite3.Error:
            index.close()
            raise
        return index


def _read(path: Path) -> Run:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist; `hwdyno history` lists the stored runs") from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {cause(error, path)}") from None
    return from_journal(text, path) if path.suffix == ".journal" else from_json(text, str(path))


def resolve_name(name: str, known: Collection[str], place: str) -> str:
    """The id that a name means: itself, its unique beginning, or the newest for ``last``. Raises ``StoreError``."""
    if not known:
        raise StoreError(f"no runs are stored in {place}; `hwdyno run` makes the first")
    if name == "last":
        return max(known)
    if name in known:
        return name
    found = sorted(run_id for run_id in known if run_id.startswith(name)) if name else []
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(found[:3])
        raise StoreError(f"{name} matches {len(found)} runs ({some} …); use more characters")
    raise StoreError(f"no run {name} in {place}; `hwdyno history` lists them")


def check_id(run_id: str) -> None:
    """Refuse an id that could not name a file. Raises ``StoreError``."""
    if run_id == "last" or not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", run_id):
        raise StoreError(f"{run_id!r} cannot name a run; use letters, digits, - and _")
