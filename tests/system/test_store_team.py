"""A team's Runs in a real PostgreSQL server: many writers, lost connections, refusals, no password shown."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import made_store as made
import postgres
import pytest
from here import missing
from hwdyno.cli.main import main
from hwdyno.system.store import Store, StoreError, TeamStore, open_store
from hwdyno.system.urls import without_password

RUN = Path(__file__).parents[1] / "data" / "run-1.json"


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.PostgresServer]:
    if not postgres.is_here():
        missing("no PostgreSQL server")
    with postgres.running() as started:
        yield started


@pytest.fixture
def team(server: postgres.PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TeamStore:
    import psycopg

    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    with psycopg.connect(server.url) as database:
        database.execute("DROP TABLE IF EXISTS hwdyno_runs")
    store = open_store(server.url)
    assert isinstance(store, TeamStore)
    return store


def test_runs_come_back_as_they_were(team: TeamStore) -> None:
    runs = [made.run(run_id=f"20260101-00000{at}-abcd") for at in range(3)]
    for run in runs:
        with team.begin(run) as writer:
            writer.finish(run)
    assert team.trouble == ""
    assert team.load("last") == runs[2] and team.load(runs[0].id) == runs[0] and team.load("20260101-000001") == runs[1]
    assert [entry.id for entry in team.history()] == [run.id for run in reversed(runs)]
    # The same lines as in a folder, but for where the document is.
    local = Store().figures()
    assert [(entry.id, entry.headline, entry.machine) for entry, _ in team.figures()] == [
        (entry.id, entry.headline, entry.machine) for entry, _ in local
    ]
    assert [figures for _, figures in team.figures()] == [figures for _, figures in local] and local[0][1]
    team.save(runs[0])  # again: the same document is no error
    assert team.trouble == "" and len(team.history()) == 3


def test_an_import_goes_to_the_database_of_the_environment(
    team: TeamStore,
    server: postgres.PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HWDYNO_STORE", server.url)
    assert main(["import", str(RUN), "--no-page"]) in {0, 3}
    (entry,) = team.history()
    assert main(["report", entry.id]) in {0, 3}
    # A server that does not answer: the Run is on this machine, in one line.
    monkeypatch.setenv("HWDYNO_STORE", "postgresql://me@127.0.0.1:9/runs")
    capsys.readouterr()
    assert main(["import", str(RUN), "--no-page"]) in {0, 3}
    says = capsys.readouterr().err
    assert "hwdyno history --send" in says and "cannot reach" in says
    assert Store().load(entry.id).id == entry.id


def test_any_text_survives(team: TeamStore) -> None:
    import hostile

    run = hostile.wholly_hostile_run("\x00\ud800'; DROP TABLE hwdyno_runs; --\u202e")
    from dataclasses import replace

    from hwdyno.system.store import from_json, to_json

    run = replace(run, id="hostile")
    team.save(run)
    assert team.trouble == ""
    assert team.load("hostile") == from_json(to_json(run))
    assert [entry.id for entry in team.history()] == ["hostile"]


def test_a_stored_run_is_never_replaced(team: TeamStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    team.save(made.run())
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "other machine"))
    other = open_store(team._url)
    assert isinstance(other, TeamStore)
    other.save(replace(made.run(), profile="full"))
    assert "already stored" in other.trouble and "\n" not in other.trouble
    assert team.load("last").profile == "quick"


WRITER = """
import sys
sys.path[:0] = sys.argv[3:]
import made_store as made
from hwdyno.system.store import open_store
for at in range(12):
    store = open_store(sys.argv[1])
    store.save(made.run(run_id=f"w{sys.argv[2]}-{at:02}"))
    store.save(made.run(run_id="shared"))
    assert not store.trouble, store.trouble
"""


def test_writers_at_once_lose_nothing(team: TeamStore, tmp_path: Path) -> None:
    here = [str(Path(__file__).parents[1]), *sys.path]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, team._url, str(number), *here],
            env={"HWDYNO_HOME": str(tmp_path / str(number))},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for writer in writers:
        _, says = writer.communicate(timeout=120)
        assert writer.returncode == 0, says
    assert len(team.history()) == 4 * 12 + 1


def test_wrong_password_line_hides_it(
    server: postgres.PostgresServer, team: TeamStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "--store", server.with_password("hunter2").url]) == 2
    says = capsys.readouterr().err
    assert "refuses the password" in says and "PGPASSWORD" in says and says.count("\n") == 1 and "hunter2" not in says


def test_absent_server_costs_no_run(
    server: postgres.PostgresServer, team: TeamStore, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made.run()
    with team.begin(run) as writer:
        writer.point("storage.iodepth", run.experiments[0].points[0])
        server.stop()
        try:
            path = writer.finish(run)
        finally:
            server.start()
    assert path.exists() and Store().load(run.id) == run
    assert "cannot reach" in team.trouble and "--send" in team.trouble and "\n" not in team.trouble
    assert postgres.PASSWORD not in team.trouble and "horse" not in team.trouble
    assert team.history() == []
    assert main(["history", "--send", "--store", server.url]) == 0
    assert run.id in capsys.readouterr().err
    assert team.load(run.id) == run
    server.stop()
    try:
        with pytest.raises(StoreError, match=r"cannot reach postgresql://team@127\.0\.0\.1") as caught:
            team.history()
        assert "\n" not in str(caught.value)
    finally:
        server.start()


def test_a_connection_that_is_cut_in_a_call_is_one_line(team: TeamStore, server: postgres.PostgresServer) -> None:
    team.save(made.run())
    with pytest.raises(StoreError) as caught, team._open_connection() as database:
        pid = database.info.backend_pid
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        database.execute("SELECT 1")
    assert "cannot reach" in str(caught.value) and "\n" not in str(caught.value)
    assert len(team.history()) == 1


def test_user_without_rights_is_one_line(team: TeamStore, server: postgres.PostgresServer) -> None:
    import psycopg

    team.save(made.run())
    with psycopg.connect(server.url, autocommit=True) as database:
        database.execute("DROP ROLE IF EXISTS guest")
        database.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        database.execute("GRANT SELECT ON hwdyno_runs TO guest")
    guest = open_store(f"postgresql://guest:guest@127.0.0.1:{server.port}/postgres")
    assert isinstance(guest, TeamStore)
    assert len(guest.history()) == 1  # to read is enough for a list
    guest.save(made.run(run_id="new"))
    assert "refuses this user" in guest.trouble and "\n" not in guest.trouble


def test_foreign_document_hides_no_run(team: TeamStore, server: postgres.PostgresServer) -> None:
    import psycopg

    team.save(made.run())
    with psycopg.connect(server.url) as database:
        database.execute("INSERT INTO hwdyno_runs VALUES ('zz', 'no JSON', '[[[', 'nothing')")
    assert [(entry.id, entry.verdict) for entry in team.history()] == [("zz", "unreadable"), (made.run().id, "valid")]
    with pytest.raises(StoreError, match="run zz of"):
        team.load("zz")
    assert len(team.figures()) == 1


def test_the_variable_names_the_store(
    team: TeamStore, server: postgres.PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.save(made.run())
    monkeypatch.setenv("HWDYNO_STORE", server.url)
    assert [entry.id for entry in open_store().history()] == [made.run().id]
    assert not isinstance(open_store("/a/folder"), TeamStore)


@pytest.mark.parametrize(
    "url", ["postgresql://u:secret@h:nan/d", "postgresql://u:secret@nowhere.invalid/d", "postgres://:x@/"]
)
def test_wrong_address_is_one_line(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path))
    with pytest.raises(StoreError) as caught:
        open_store(url).history()
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("--store=postgresql://me:secret@db/runs", "--store=postgresql://me@db/runs"),
        ("postgres://me:se:cret@x@db:5/runs", "postgres://me@db:5/runs"),
        ("postgresql://db/runs?user=me&password=secret", "postgresql://db/runs?user=me&password=…"),
        ("postgresql://me@db/runs", "postgresql://me@db/runs"),
        ("POSTGRESQL://me:se/cr et%?#@db/runs", "POSTGRESQL://me@db/runs"),
        ("mysql://me:secret@db/runs", "mysql://me@db/runs"),
        ("postgresql://me:12/secret@db/runs", "postgresql://me@db/runs"),
        ("https://host:8000/v1/a@b", "https://host:8000/v1/a@b"),
        ("http://[::1]:8000/a@b", "http://[::1]:8000/a@b"),
        ("cannot use postgresql://me:se cret@db/runs: try again", "cannot use postgresql://me@db/runs: try again"),
        ("host=db PASSWORD=secret", "host=db PASSWORD=…"),
        ("--path", "--path"),
    ],
)
def test_no_password_stays_in_command_line(typed: str, kept: str) -> None:
    from hwdyno.cli.options import command_line

    assert without_password(typed) == kept
    assert "secret" not in command_line("hwdyno storage", [typed])
