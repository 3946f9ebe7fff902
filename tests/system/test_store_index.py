"""The index is a cache: with any damage to it the answers are those of the documents, and one line says so."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_store as made
import pytest
from here import sample
from hwdyno.cli.main import main
from hwdyno.explain.repeatability import with_stored
from hwdyno.system import output_files, safe_files
from hwdyno.system.store import Store, run_index

ROOT = Path(__file__).parents[2]
OLD_TABLE = "CREATE TABLE runs (path TEXT PRIMARY KEY, size INTEGER, time_ns INTEGER, entry TEXT, figures TEXT)"


@pytest.fixture(autouse=True)
def _nothing_reported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(run_index, "_reported", set())
    yield


def filled(folder: Path, count: int = 2) -> Store:
    store = Store(folder)
    for number in range(count):
        machine = replace(made.run().machine, hostname=f"node{number}")
        store.save(replace(made.run(run_id=f"r{number}"), machines=(machine,)))
    return store


def answers(store: Store) -> tuple[Any, Any]:
    return store.history(), store.figures()


def replaced(store: Store, content: bytes) -> None:
    """Other content in the same file, which keeps its mark."""
    for extra in store.directory.glob("index.sqlite-*"):
        extra.unlink()
    store.index.write_bytes(content)


def flipped(whole: bytes, at: int, bits: int = 0xFF) -> bytes:
    return whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :]


@pytest.mark.sampled
def test_any_flipped_byte_gives_the_same_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = filled(tmp_path)
    expected, whole = answers(store), store.index.read_bytes()
    places = random.Random(7).sample(range(len(whole)), sample(60, len(whole)))
    for number, at in enumerate(places):
        replaced(store, flipped(whole, at, (0xFF, 1, 0x80)[number % 3]))
        assert answers(store) == expected, at
        assert answers(store) == expected, at
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(line.startswith(f"hwdyno: the index {store.index} ") for line in lines)
    assert all(" was rebuilt from the documents: " in line for line in lines), lines


@pytest.mark.sampled
def test_a_flipped_byte_in_what_sqlite_left_beside_it_gives_the_same_answers(tmp_path: Path) -> None:
    store = filled(tmp_path)
    expected = answers(store)
    with contextlib.closing(sqlite3.connect(store.index, isolation_level=None)) as index:
        index.execute("UPDATE runs SET size = size + 1")
        index.execute("UPDATE runs SET size = size - 1")
        kept = {path: path.read_bytes() for path in store.directory.glob("index.sqlite*")}
    log = store.directory / "index.sqlite-wal"
    assert len(kept) == 3 and kept[log]
    for path in kept:
        for at in random.Random(7).sample(range(len(kept[path])), sample(10, 800)):
            for name, content in kept.items():
                name.write_bytes(flipped(content, at) if name == path else content)
            assert answers(store) == expected, (path, at)


def of_version(store: Store, version: int, *statements: str) -> None:
    for path in store.directory.glob("index.sqlite*"):
        path.unlink()
    with contextlib.closing(sqlite3.connect(store.index, isolation_level=None)) as index:
        index.execute(f"PRAGMA application_id = {run_index.APPLICATION_ID}")
        index.execute(f"PRAGMA user_version = {version}")
        for statement in statements:
            index.execute(statement)


def with_table(statement: str) -> Callable[[Store], None]:
    def alter(store: Store) -> None:
        with contextlib.closing(sqlite3.connect(store.index, isolation_level=None)) as index:
            index.execute(statement)

    return alter


DAMAGES: dict[str, Callable[[Store], object]] = {
    "zeros": lambda store: replaced(store, b"\0" * 12288),
    "text": lambda store: replaced(store, b"this is no database" * 1000),
    "half": lambda store: replaced(store, store.index.read_bytes()[:6000]),
    "a page": lambda store: replaced(store, store.index.read_bytes()[:4096]),
    "100 bytes": lambda store: replaced(store, store.index.read_bytes()[:100]),
    "60 bytes": lambda store: replaced(store, store.index.read_bytes()[:60]),
    "pages of zeros": lambda store: replaced(store, store.index.read_bytes()[:4096] + b"\0" * 8192),
    "older": lambda store: of_version(store, 2, OLD_TABLE, "INSERT INTO runs VALUES ('r0.json', 1, 2, '{}', '[]')"),
    "oldest": lambda store: of_version(store, 1, OLD_TABLE.replace(", figures TEXT", "")),
    "newer": lambda store: of_version(store, 9, "CREATE TABLE runs (path TEXT, all_of_it BLOB)"),
    "a row": with_table("UPDATE runs SET entry = replace(entry, 'node0', 'node9')"),
    "a figure": with_table("UPDATE runs SET figures = replace(figures, '1', '2')"),
    "a blob": with_table("UPDATE runs SET entry = CAST(entry AS BLOB)"),
    "a type": with_table("UPDATE runs SET size = 'many'"),
    "a name": with_table("UPDATE runs SET path = CAST(path AS BLOB)"),
    "no table": with_table("DROP TABLE runs"),
    "another table": with_table("ALTER TABLE runs RENAME COLUMN entry TO line"),
    "a trigger": with_table("CREATE TRIGGER more BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'no'); END"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ["history", "fleet", "rebuild"])
def test_a_damaged_index_is_rebuilt_and_one_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str, command: str
) -> None:
    store = filled(tmp_path)
    words = ["history", "--rebuild"] if command == "rebuild" else [command]
    assert main([*words, "--store", str(tmp_path)]) == 0
    expected = capsys.readouterr().out
    DAMAGES[damage](store)
    assert main([*words, "--store", str(tmp_path)]) == 0
    found = capsys.readouterr()
    assert found.out == expected
    lines = [line for line in found.err.splitlines() if not line.startswith("the index was rebuilt from 2 documents")]
    # An empty database is a new one; what is emptied is not read; and the list has no figures.
    is_unseen = damage == "no table" or command == "rebuild" or (command, damage) == ("history", "a figure")
    (line,) = lines or [""]
    assert line.startswith(f"hwdyno: the index {store.index} ") or (is_unseen and not line), line
    assert " was rebuilt from the documents: " in line or not line, line
    assert main([*words, "--store", str(tmp_path)]) == 0
    found = capsys.readouterr()
    assert found.out == expected and "rebuilt from the documents:" not in found.err


def test_measuring_goes_on_with_a_damaged_index(tmp_path: Path) -> None:
    store = filled(tmp_path, 4)
    run = made.run(run_id="r9")
    expected, whole = with_stored(run, store), store.index.read_bytes()
    for at in range(0, len(whole), 600):
        replaced(store, flipped(whole, at))
        assert with_stored(run, store) == expected, at
        store.announce(store.load("r1"), store.runs / "r1.json")
    assert len(store.history()) == 4


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made_socket, safe_files.Folder.open_named(path.parent) as folder:
        made_socket.bind(f"/proc/self/fd/{folder.descriptor}/{path.name}")  # A socket's path is short.


FOREIGN: dict[str, Callable[[Path], object]] = {
    "directory": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": a_socket,
    "text": lambda path: path.write_text("my thesis\n" * 1000),
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "loop": lambda path: path.symlink_to(path),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_not_the_index_stays_and_is_worked_around(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    store = filled(tmp_path)
    expected = answers(store)
    store.index.unlink()
    FOREIGN[kind](store.index)
    before = store.index.lstat()
    assert answers(store) == expected and store.rebuild() == (2, False)
    store.announce(store.load("r1"), store.runs / "r1.json")
    assert store.index.lstat() == before
    assert capsys.readouterr().err == (
        f"hwdyno: {store.index} is not hwdyno's, so the documents are read each time; move it elsewhere\n"
    )


@pytest.mark.parametrize("header", [b"", b"SQLite", b"\0" * 5000])
def test_what_holds_nothing_is_made_the_index_also_without_a_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: bytes
) -> None:
    store = filled(tmp_path)
    expected = answers(store)
    monkeypatch.setattr(output_files, "is_marked", lambda path: False)
    replaced(store, header)
    assert answers(store) == expected
    assert store.index.read_bytes().startswith(b"SQLite format 3")


def test_a_damaged_header_is_known_without_a_mark_by_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    expected, whole = answers(store), store.index.read_bytes()
    monkeypatch.setattr(output_files, "is_marked", lambda path: False)
    for at in range(100):
        replaced(store, flipped(whole, at))
        assert answers(store) == expected
        assert store.index.read_bytes().startswith(b"SQLite format 3"), at


@pytest.mark.parametrize("statement", ["BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"])
def test_an_index_that_is_locked_for_long_is_worked_around(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    store = filled(tmp_path)
    expected = answers(store)
    monkeypatch.setattr(run_index, "BUSY_TIMEOUT_S", 0.1)
    with contextlib.closing(sqlite3.connect(store.index, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE" if "EXCLUSIVE" in statement else "PRAGMA synchronous")
        other.execute(statement)
        other.execute("UPDATE runs SET size = size + 1")
        assert answers(store) == expected
        assert store.rebuild() == (2, False)
        store.announce(store.load("r1"), store.runs / "r1.json")
        printed = capsys.readouterr().err
    assert printed == (
        f"hwdyno: the index {store.index} cannot be used (database is locked), so the documents are read\n"
    )
    assert answers(store) == expected and not capsys.readouterr().err


@pytest.mark.parametrize(
    ("pragma", "why"),
    [("query_only = ON", "attempt to write a readonly database"), ("max_page_count = 2", "database or disk is full")],
)
def test_an_index_that_cannot_be_written_is_worked_around(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, pragma: str, why: str
) -> None:
    store = filled(tmp_path, 16)
    expected = answers(store)
    real = run_index._read_state

    def limited(index: sqlite3.Connection) -> Any:
        index.execute(f"PRAGMA {pragma}").fetchall()
        return real(index)

    monkeypatch.setattr(run_index, "_read_state", limited)
    replaced(store, b"damaged" * 1000)
    assert answers(store) == expected
    assert store.rebuild() == (16, False)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"hwdyno: the index {store.index} cannot be used ({why}), so the documents are read"


# --- damaged documents


@pytest.mark.sampled
def test_any_flipped_byte_of_a_document_leaves_the_others_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = filled(tmp_path, 3)
    path = store.runs / "r1.json"
    whole = path.read_bytes()
    path.chmod(0o644)
    for number, at in enumerate(random.Random(7).sample(range(len(whole)), sample(60, 4000))):
        path.write_bytes(flipped(whole, at, (0xFF, 1, 0x20)[number % 3]))
        os.utime(path, ns=(number, number))
        assert main(["history", "--store", str(tmp_path)]) == 0, at
        listed = capsys.readouterr()
        assert all(name in listed.out for name in ("r0", "r1", "r2")), at
        assert main(["fleet", "--store", str(tmp_path)]) in {0, 1}, at
        fleet = capsys.readouterr()
        is_unreadable = "unreadable" in listed.out
        assert listed.err.count(f"{path} ") == is_unreadable and listed.err.count("\n") == is_unreadable, at
        assert "internal error" not in fleet.err, at


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path),
    "empty": Path.touch,
    "zeros": lambda path: path.write_bytes(b"\0" * 5000),
    "nested": lambda path: path.write_text("[" * 100_000),
    "endless": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40),
}


@pytest.mark.parametrize("suffix", [".json", ".journal"])
@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_no_document_is_named_in_one_line_and_the_others_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, suffix: str
) -> None:
    store = filled(tmp_path, 2)
    path = store.runs / f"x{suffix}"
    UNREADABLE[kind](path)
    for words in (["history"], ["history", "--rebuild"], ["fleet"], ["export", "all"]):
        assert main([*words, "--store", str(tmp_path)]) == 0
        found = capsys.readouterr()
        lines = [line for line in found.err.splitlines() if str(path) in line]
        assert len(lines) == (words[0] != "fleet" or suffix == ".json"), (words, found.err)
        assert words[0] != "history" or all(name in found.out for name in ("r0", "r1", "x", "unreadable"))
