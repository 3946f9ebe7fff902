"""A team's Runs in PostgreSQL, which any number of machines write to at once."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hwdyno.model.words import Run
from hwdyno.system.optional import missing
from hwdyno.system.store.atomic_files import StoreError
from hwdyno.system.store.directory import Store, check_id, default_directory, resolve_name
from hwdyno.system.store.document import from_json, to_json
from hwdyno.system.store.history import (
    HistoryEntry,
    PointFigure,
    entry_from,
    entry_text,
    figures_from,
    figures_text,
    make_entry,
)
from hwdyno.system.store.journal import Writer
from hwdyno.system.urls import without_password

if TYPE_CHECKING:
    import psycopg

_CHARACTERS = r"(?:[^\s%:@/?#]|%[0-9a-f]{2})*"
_URL = re.compile(
    rf"postgres(?:ql)?://(?:(?P<user>{_CHARACTERS})(?::{_CHARACTERS})?@)?(?P<host>[^\s@/?#]*)(?P<name>/[^\s@?#]*)?(?:\?\S*)?",
    re.IGNORECASE,
)
"""libpq's form (PostgreSQL's manual, 34.1.1.2). What it cannot read it would print, password and all."""
CONNECT_S, STATEMENT_S = 10, 60
_TABLE = "hwdyno_runs"
_LOCK = 0x68776479
"""The advisory lock under which the table is made: two first writers must not make it twice."""


def open_store(where: str | Path | None = None) -> Store:
    """The store at ``where``: a folder or a database's URL; without it, ``$HWDYNO_STORE``, else ``$HWDYNO_HOME``'s.

    Raises ``StoreError`` for a URL that is no PostgreSQL database's.
    """
    place = where or os.environ.get("HWDYNO_STORE") or None
    is_database = isinstance(place, str) and ("://" in place or "password=" in place)
    return TeamStore(str(place)) if is_database else Store(place)


class TeamStore(Store):
    """The Runs of a database; what is measured here is also kept in this machine's folder of Runs, first.

    ``trouble`` says in one line why a Run is only there. A connection lives as long as one call.
    """

    def __init__(self, url: str) -> None:
        super().__init__(default_directory())
        self.place = _plain_url(url)
        self._url = re.sub("^[a-z]+", "postgresql", url, flags=re.IGNORECASE)

    def begin(self, run: Run) -> Writer:
        """Open the journal of a Run, which is on this machine, once the database has answered."""
        with self._open_connection():
            return super().begin(run)

    def announce(self, run: Run, path: Path) -> None:
        """Store a Run that is here in the database, too; where that fails, ``trouble`` has the reason."""
        super().announce(run, path)
        try:
            self._insert(run)
        except StoreError as error:
            self.trouble = f"{error}; run {run.id} is kept in {path}, and `hwdyno history --send` sends it later"

    def send(self) -> list[str]:
        """Store this machine's Runs that the database does not have yet, and list their ids."""
        with self._open_connection() as database:
            there = {str(row[0]) for row in database.execute(f"SELECT id FROM {_TABLE}")}
        sent = []
        for entry in super().history():
            if entry.verdict not in {"running", "unreadable"} and entry.id not in there:
                self._insert(super().load(entry.path))
                sent.append(entry.id)
        return sent

    def load(self, name: str | Path) -> Run:
        """Read a Run of the database by id, unique prefix or ``last``, or a document by its path."""
        path = Path(name)
        if path.suffix in {".json", ".journal"} or path.parent != Path() or path.is_file():
            return super().load(name)
        with self._open_connection() as database:
            names = [str(row[0]) for row in database.execute(f"SELECT id FROM {_TABLE}")]
            found = resolve_name(str(name), names, self.place)
            row = database.execute(f"SELECT document FROM {_TABLE} WHERE id = %s", (found,)).fetchone()
        if row is None:
            raise StoreError(f"run {found} has left {self.place} meanwhile; `hwdyno history` lists what is there")
        return from_json(str(row[0]), f"run {found} of {self.place}")

    def history(self, *, without: str = "") -> list[HistoryEntry]:
        """List every Run of the database, newest first, but the one that is named."""
        return [entry for entry, _ in reversed(self._rows("''")) if entry.id != without]

    def figures(self) -> list[tuple[HistoryEntry, tuple[PointFigure, ...]]]:
        """The figures of every Run of the database, oldest first."""
        return [(entry, figures_from(text)) for entry, text in self._rows("figures") if not entry.error]

    def rebuild(self) -> tuple[int, bool]:
        """Nothing can be rebuilt: what another program broke in the database is listed as unreadable."""
        raise StoreError(f"{self.place} has no index to rebuild; --rebuild is for a folder")

    def _rows(self, figures: str) -> list[tuple[HistoryEntry, str]]:
        with self._open_connection() as database:
            rows = database.execute(f'SELECT id, entry, {figures} FROM {_TABLE} ORDER BY id COLLATE "C"').fetchall()
        found = []
        for name, text, points in rows:
            entry = entry_from(str(text), Path(str(name)))
            if entry is None:
                why = f"run {name} of {self.place} was not written by hwdyno, or by a newer one; update hwdyno"
                entry = HistoryEntry(str(name), "", "", "", "", "unreadable", 0, (), str(name), why)
            found.append((entry, str(points)))
        return found

    def _insert(self, run: Run) -> None:
        check_id(run.id)
        text, entry = to_json(run), entry_text(make_entry(run, Path(run.id)))
        with self._open_connection() as database:
            made = database.execute(
                f"INSERT INTO {_TABLE} (id, entry, figures, document) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (run.id, entry, figures_text(run), text),
            )
            if made.rowcount == 0:
                row = database.execute(f"SELECT document FROM {_TABLE} WHERE id = %s", (run.id,)).fetchone()
                if row is not None and row[0] != text:
                    raise StoreError(f"run {run.id} is already stored in {self.place}; stored Runs never change")

    @contextlib.contextmanager
    def _open_connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection in one transaction. Raises ``StoreError`` in one line for anything that the server refuses."""
        try:
            import psycopg
        except ImportError:
            raise StoreError(str(missing("postgres", self.place))) from None
        try:
            with psycopg.connect(
                self._url,
                connect_timeout=CONNECT_S,
                application_name="hwdyno",
                options=f"-c statement_timeout={STATEMENT_S}s -c client_encoding=UTF8",
            ) as database:
                _make_table(database)
                yield database
        except psycopg.Error as error:
            raise StoreError(self._cause(error)) from None

    def _cause(self, error: psycopg.Error) -> str:
        """Why the database cannot be used, with what mends it; never with the password."""
        import psycopg

        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        says = without_password(lines[-1]) if lines else type(error).__name__
        says = re.sub(r"^(connection failed: |.*FATAL: +)", "", says)
        low = says.lower()
        if "password" in low or "authentication" in low or isinstance(error, psycopg.errors.InvalidPassword):
            return f"{self.place} refuses the password: {says}; set PGPASSWORD or a line in ~/.pgpass"
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return f"{self.place} refuses this user: {says}; ask for the right to read and write {_TABLE}"
        if isinstance(error, psycopg.errors.QueryCanceled):
            return f"{self.place} did not answer within {STATEMENT_S} s: {says}; try again"
        if isinstance(error, psycopg.OperationalError):
            return f"cannot reach {self.place}: {says}; check the address and that the server runs"
        return f"{self.place} failed: {says}"


def _plain_url(url: str) -> str:
    """The URL as it may be shown: without password and options; raises ``StoreError`` where it is none."""
    found, shown = _URL.fullmatch(url), without_password(url)
    if not url.lower().startswith(("postgresql://", "postgres://")):
        raise StoreError(f"'{shown}' is no place for Runs; use a folder or postgresql://USER@HOST/DATABASE")
    try:
        port = urlsplit(url).port if found else None
    except ValueError:
        found = None
    if found is None:
        raise StoreError(
            f"'{shown}' is no database's URL; write postgresql://USER@HOST/DATABASE, and in a name or password %20 for "
            "a space, %25 for %, %2F for /, %3A for :, %40 for @"
        )
    user, host = found["user"], found["host"].removesuffix(f":{port}")
    at = f"{user}@{host}" if user else host
    return f"postgresql://{at}{f':{port}' if port else ''}{found['name'] or ''}"


def _make_table(database: psycopg.Connection[Any]) -> None:
    """Make the table on the first use; a user who may not make one needs it to be there."""
    there = database.execute("SELECT to_regclass(%s)", (_TABLE,)).fetchone()
    if there is not None and there[0] is not None:
        return
    database.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    database.execute(
        f"CREATE TABLE IF NOT EXISTS {_TABLE} (id text PRIMARY KEY, entry text NOT NULL, figures text NOT NULL, "
        "document text NOT NULL, saved timestamptz NOT NULL DEFAULT now())"
    )
