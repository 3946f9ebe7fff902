"""``hwdyno history --prune``: old Runs go after a question, and nothing else does."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import made_store as made
import pytest
from hwdyno.cli.main import main
from hwdyno.model.words import UserError
from hwdyno.system.store import Store, choose_old, default_directory

NOW = datetime.now(timezone.utc)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with Runs of 1, 10 and 100 days, one without a date, one that was killed, and files of others."""
    store = Store(tmp_path / "store")
    for days in (1, 10, 100):
        started = (NOW - timedelta(days=days)).isoformat()
        store.save(replace(made.run(run_id=f"of-{days}-days"), started=started))
    store.save(replace(made.run(run_id="undated"), started=""))
    killed = replace(made.run(run_id="killed"), started=(NOW - timedelta(days=200)).isoformat())
    writer = store.begin(replace(killed, experiments=(made.experiment(),)))
    writer.point("storage.iodepth", made.point(1))
    path = store.runs / "killed.journal"
    content = path.read_bytes()
    writer.abandon()
    path.write_bytes(content)
    (store.runs / "notes.json").write_text("mine")
    (store.runs / "copy.json").write_text((store.runs / "of-100-days.json").read_text())
    (store.runs / "page.html").write_text("mine")
    return store


def left(store: Store) -> set[str]:
    """The names of the files that are there."""
    return {path.name for path in store.runs.iterdir()}


def prune(store: Store, *words: str) -> int:
    """The exit status of the command."""
    return main(["history", "--store", str(store.directory), "--prune", *words])


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A terminal at which someone types this."""
    typed = io.StringIO(text)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", typed)


def test_runs_older_than_an_age_go_and_all_else_stays(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    before = left(store)
    assert prune(store, "30d", "--yes") == 2, "the copy has another Run's id, so that it is not removed"
    assert before - left(store) == {"of-100-days.json", "killed.journal"}
    out, error = capsys.readouterr()
    assert "2 runs removed from" in out and "copy.json was not removed" in error
    listed = {entry.id for entry in Store(store.directory).history()}
    assert {"of-1-days", "of-10-days", "undated"} <= listed and "killed" not in listed


def test_all_but_the_newest_go(store: Store) -> None:
    (store.runs / "copy.json").unlink()
    assert prune(store, "2", "--yes") == 0
    assert left(store) == {"of-1-days.json", "of-10-days.json", "notes.json", "page.html"}
    index = Store(store.directory)._run_index.rows(figures=False)
    assert set(index) == {"of-1-days.json", "of-10-days.json"}


def test_it_asks_first(store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    before = left(store)
    answer(monkeypatch, "\n")
    assert prune(store, "50d") == 0 and left(store) == before
    out, error = capsys.readouterr()
    assert "of-100-days" in out and "of-1-days" not in out and "[y/N]" in error and "nothing was removed" in out
    answer(monkeypatch, "y\n")
    prune(store, "50d")
    assert "of-100-days.json" not in left(store)


def test_without_a_terminal_nothing_goes(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = left(store)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert prune(store, "50d") == 2 and left(store) == before
    assert "add --yes in a script" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["all", "-1", "90x", "", "1e400d"])
def test_other_limit_is_refused(limit: str, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    before = left(store)
    with pytest.raises(UserError):
        choose_old(store.history(), limit)
    assert (
        main(["history", "--store", str(store.directory), f"--prune={limit}", "--yes"]) == 2 and left(store) == before
    )
    assert capsys.readouterr().err.count("\n") >= 1


def test_run_that_is_measured_now_stays(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    old = replace(made.run(run_id="now"), started=(NOW - timedelta(days=400)).isoformat(), experiments=())
    writer = store.begin(old)
    assert prune(store, "0", "--yes") == 0 and left(store) == {"now.journal"}
    writer.abandon()


def test_relative_home_of_xdg_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HWDYNO_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert default_directory() == tmp_path / ".local" / "share" / "hwdyno"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_directory() == tmp_path / "data" / "hwdyno"
