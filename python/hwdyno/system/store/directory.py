"""The directory that stores Runs, with an index that is only a cache."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from pathlib import Path

from hwdyno.model.words import Run
from hwdyno.system import safe_files
from hwdyno.system.store.atomic_files import StoreError, cause, open_file, write_once
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
from hwdyno.system.store.run_index import IndexRow, RunIndex, report_once

MAX_BYTES = 1 << 30
"""Longest document that is read; the largest real ones have tens of megabytes."""


def default_directory() -> Path:
    """The default store: ``$HWDYNO_HOME``, else ``hwdyno`` below the user's data directory (XDG)."""
    try:
        if home := os.environ.get("HWDYNO_HOME"):
            return Path(home).expanduser()
        data = Path(os.environ.get("XDG_DATA_HOME", ""))
        # The XDG Base Directory Specification has a relative path ignored.
        return (data if data.is_absolute() else Path.home() / ".local" / "share") / "hwdyno"
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
        self._run_index = RunIndex(self.index)
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
        with contextlib.suppress(OSError):
            self._run_index.update({path.name: _row(run, path, path.stat())})

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

    def history(self, *, without: str = "") -> list[HistoryEntry]:
        """List every Run, newest first, including unfinished and unreadable ones, but the one that is named."""
        entries: dict[str, HistoryEntry] = {}
        # Journals first: a Run that ends meanwhile then has its document below.
        for path in self._files(".journal"):
            if path.stem == without:
                continue
            verdict = "running" if is_being_written(path) else "partial"
            try:
                entries[path.stem] = make_entry(_read(path), path, verdict)
            except StoreError as error:
                if os.path.lexists(path):
                    entries[path.stem] = unreadable(path, error)
        entries |= {Path(entry.path).stem: entry for entry, _ in self._documents()}
        entries.pop(without, None)
        return sorted(entries.values(), key=lambda entry: entry.id, reverse=True)

    def running(self) -> list[Path]:
        """The journals of the Runs that are being measured on this machine, the newest first."""
        return [path for path in reversed(self._files(".journal")) if is_being_written(path)]

    def running_journal(self, run_id: str) -> Path:
        """The journal of a Run that is being measured; raises ``StoreError`` for any other. It lists no files."""
        check_id(run_id)
        path = self.runs / f"{run_id}.journal"
        if not is_being_written(path):
            raise StoreError(f"run {run_id} is not being measured now; `hwdyno history` lists the stored runs")
        return path

    def figures(self) -> list[tuple[HistoryEntry, tuple[PointFigure, ...]]]:
        """The figures of every Run that has ended and can be read, oldest first."""
        found = []
        for entry, text in self._documents(figures=True):
            if entry.error:
                report_once(entry.error)
            else:
                found.append((entry, figures_from(text)))
        return sorted(found, key=lambda pair: pair[0].id)

    def rebuild(self) -> tuple[int, bool]:
        """Rebuild the index from the documents, and remove leftover journals of finished Runs.

        It gives the number of documents, and whether the index can be used, which a line on stderr says otherwise.
        """
        is_empty = self._run_index.clear()
        for path in self._files(".journal"):
            if self._document(path.stem).exists() and (ended := left_journal(path)):
                ended.remove()
        count = len(self._documents())
        return count, is_empty and self._run_index.is_used

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
        known = self._run_index.rows(figures=figures)
        entries: list[tuple[HistoryEntry, str]] = []
        changed: dict[str, IndexRow] = {}
        for path in files:
            row = known.pop(path.name, None)
            try:
                status = path.stat()
                is_current = row is not None and row[:2] == (status.st_size, status.st_mtime_ns)
                if row is not None and is_current and (entry := entry_from(row.entry, path)) is not None:
                    entries.append((entry, row.figures))
                    continue
                run = _read(path)
                changed[path.name] = _row(run, path, status)
            except OSError as error:
                if os.path.lexists(path):  # It did not go meanwhile.
                    why = StoreError(f"cannot read {path}: {cause(error, path)}")
                    entries.append((unreadable(path, why), ""))
                continue
            except StoreError as error:
                entries.append((unreadable(path, error), ""))
                continue
            entries.append((make_entry(run, path), changed[path.name].figures))
        if changed or known or self._run_index.needs_rows:
            self._run_index.update(changed, known)
        return entries


def _row(run: Run, path: Path, status: os.stat_result) -> IndexRow:
    """What the index keeps of a document."""
    return IndexRow(status.st_size, status.st_mtime_ns, entry_text(make_entry(run, path)), figures_text(run))


def _read(path: Path) -> Run:
    try:
        text = _read_bytes(path)
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist; `hwdyno history` lists the stored runs") from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {cause(error, path)}") from None
    return from_journal(text, path) if path.suffix == ".journal" else from_json(text, str(path))


def _read_bytes(path: Path) -> bytes:
    """The content of a regular file of limited size; raises ``OSError`` and ``StoreError``."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise StoreError(f"cannot read {path}: it has more than {MAX_BYTES >> 20} MiB")
        return file.read(MAX_BYTES)


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
