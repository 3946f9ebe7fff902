"""A user's files stay: what exists is never overwritten or removed unless hwdyno made it, and no link is followed."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import made_store as made
import pytest
from here import sample
from hwdyno.cli.main import main
from hwdyno.model.words import UserError
from hwdyno.system import output_files, safe_files
from hwdyno.system.store import Store
from user_files import CHECKPOINT, MINE, VECTORS, data_set, job, refused
from user_files import place as place
from user_files import thesis as thesis

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]
READS = ("--budget", "1s", "--rw", "read", "--bs", "64k", "--size", "16M", "--runtime", "0.05", "--profile", "quick")


def storage(*more: str) -> list[str]:
    return ["storage", *READS, "--quiet", "--no-page", "--path", ".", *more]


# --- files that a user names


@pytest.mark.parametrize("way", ["option", "job file"])
def test_trace_replaces_no_file_of_users(
    way: str, place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(name: Path, *more: str) -> list[str]:
        return (
            storage("--write-iolog", str(name), *more) if way == "option" else job(place, f"write_iolog={name}", *more)
        )

    refused(capsys, *command(thesis))
    link = place / "link"
    link.symlink_to(thesis)
    refused(capsys, *command(link), says="symbolic link")
    refused(capsys, *command(link, "--overwrite"), says="symbolic link")
    assert link.is_symlink()
    trace = place / "trace"
    trace.write_bytes(MINE)
    assert main(command(trace, "--overwrite")) in {0, 3}
    assert trace.read_text().startswith("fio version 3 iolog")
    if way == "option":
        (entry,) = Store(None).history()
        (experiment,) = Store(None).load(entry.id).experiments
        assert "overwrite" not in experiment.fixed  # It is consent, and no property of what was measured.
    # What hwdyno wrote it may write again, until the user edits it.
    assert main(command(trace)) in {0, 3}
    with trace.open("a") as file:
        file.write("a note of the user's\n")
    refused(capsys, *command(trace))


def test_job_logs_keep_users_files(place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = job(place, "write_bw_log=mine\nruntime=0.1\ntime_based")
    log = place / "mine_bw.1.log"
    log.write_bytes(MINE)
    refused(capsys, *command)
    assert log.read_bytes() == MINE
    log.unlink()
    log.symlink_to(thesis)
    refused(capsys, *command, says="symbolic link")
    refused(capsys, *command, "--overwrite", says="symbolic link")
    log.unlink()
    log.write_bytes(MINE)
    assert main([*command, "--overwrite"]) in {0, 3}
    assert log.read_bytes() != MINE
    assert main(command) in {0, 3}


def test_report_replaces_no_page_of_users(place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["storage", *READS, "--quiet", "--path", ".", "--out", "out"]
    (place / "out").mkdir()
    page = place / "out" / "report.html"
    page.write_bytes(MINE)
    refused(capsys, *command)
    assert page.read_bytes() == MINE
    page.unlink()
    page.symlink_to(thesis)
    refused(capsys, *command, "--overwrite", says="symbolic link")
    page.unlink()
    page.write_bytes(MINE)
    assert main([*command, "--overwrite"]) in {0, 3}
    assert b"<html" in page.read_bytes()
    assert main(command) in {0, 3}


@pytest.mark.parametrize(
    "options", [["report", "-", "--html"], ["export", "last", "--csv"], ["export", "last", "--parquet"]]
)
def test_export_replaces_no_file_of_users(
    options: list[str], place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Store(None).save(made.run())
    refused(capsys, *options, str(thesis))
    link = place / "link"
    link.symlink_to(thesis)
    refused(capsys, *options, str(link), "--overwrite", says="symbolic link")
    link.unlink()
    (place / "free").write_bytes(MINE)
    assert main([*options, "free", "--overwrite"]) in {0, 3}
    assert (place / "free").read_bytes() != MINE
    assert main([*options, "free"]) in {0, 3}
    assert sorted(path.name for path in place.iterdir()) == ["free"]


def test_pictures_and_fios_documents_replace_no_file_of_the_users(
    place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = storage("--fio-dir", "fio", "--output-format", "fio-json")
    assert main(command) in {0, 3}
    (document,) = (place / "fio").glob("*.json")
    document.unlink()
    document.symlink_to(thesis)
    refused(capsys, *command, "--overwrite", says="symbolic link")
    capsys.readouterr()
    assert main(["report", "-", "--svg", "charts"]) in {0, 3}
    chart = next((place / "charts").iterdir())
    chart.unlink()
    chart.write_bytes(MINE)
    refused(capsys, "report", "-", "--svg", "charts")
    assert chart.read_bytes() == MINE


def test_copied_document_is_the_users(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    Store(None).save(made.run())
    assert main(["export", "last", "--csv", "first"]) == 0
    shutil.copy2("first", "copy")  # with its extended attributes
    refused(capsys, "export", "last", "--csv", "copy")


def test_header_identifies_page_without_attributes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> bytes:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", none)
    monkeypatch.setattr(os, "getxattr", none)
    header = b'<meta name="generator"'
    path = place / "page"
    path.write_bytes(b"<html>" + header)
    output_files.write_output(path, b"<html>" + header + b" once", header=header)
    path.write_bytes(MINE)
    table = place / "table"
    output_files.write_output(table, b"first")
    output_files.write_output(table, b"second")  # This process wrote it.
    (place / "users").write_bytes(MINE)
    for name in ("page", "users"):
        (place / name).rename(place / "moved")
        (place / name).write_bytes(MINE)
        with pytest.raises(UserError, match="--overwrite"):
            output_files.write_output(place / name, b"x", header=header)
        assert (place / name).read_bytes() == MINE


def test_file_under_our_name_stays(place: Path) -> None:
    made = safe_files.create(place / "data")
    (place / "data").rename(place / "moved")
    (place / "data").write_bytes(MINE)
    made.remove()
    assert (place / "data").read_bytes() == MINE
    with pytest.raises(FileExistsError):
        safe_files.create(place / "data")


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../x", "/etc/passwd"])
def test_name_in_folder_is_plain_one(name: str, place: Path) -> None:
    with safe_files.Folder.open_named(place) as folder, pytest.raises(OSError, match="plain name"):
        folder.create(name)


def test_dangling_link_as_job_file_stays(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = place / "data"
    link.symlink_to(place / "not there")
    refused(capsys, *job(place, "filename=data"), says="symbolic link")
    assert link.is_symlink()
    assert not (place / "not there").exists()


def test_journal_never_goes_through_link(place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writes = ["--rw=write", "--bs=64k", "--size=16M", "--runtime=0.05", "--budget=1s", "--verify=crc32c", "--path=."]
    command = ["storage", *writes, "--quiet", "--no-page", "--journal"]
    assert main([*command, "ended"]) in {0, 3}
    capsys.readouterr()
    link = place / "link"
    link.symlink_to(place / "ended")
    refused(capsys, *command, str(link), says="symbolic link")
    assert link.is_symlink()
    refused(capsys, *command, str(thesis), says="is not a journal")


# --- links laid while it runs


@contextlib.contextmanager
def laying(*links: tuple[Path, Path]) -> Iterator[None]:
    """Another process of someone who may write to the folder: lays the links again and again."""
    stop = threading.Event()

    def lay() -> None:
        while not stop.is_set():
            for link, target in links:
                with contextlib.suppress(OSError):
                    link.symlink_to(target)

    thread = threading.Thread(target=lay)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def checkpoints(place: Path) -> tuple[list[str], list[Path]]:
    folder = place / "hwdyno-checkpoint"
    names = [f"checkpoint-{slot}-{kind}-rank-0000-0.hwdyno" for slot in range(3) for kind in ("model", "optimizer")]
    return ["training", *CHECKPOINT, "--path", str(place)], [folder / name for name in names]


def vectors(place: Path) -> tuple[list[str], list[Path]]:
    command = ["inference", *VECTORS, "--path", str(place)]
    assert main([*command, "--generate"]) == 0
    (folder,) = place.glob("hwdyno-vectors-*")
    (folder / "vectors.hwdyno").unlink()
    return command, [folder / "vectors.part", folder / "vectors.hwdyno"]


def samples(place: Path) -> tuple[list[str], list[Path]]:
    train = place / "hwdyno-small-4" / "train"
    names = [f"img_{number}_of_4.npz{end}" for number in range(4) for end in ("", ".part")]
    return [*data_set(place), "--path", str(place)], [train / name for name in names]


def logs(place: Path) -> tuple[list[str], list[Path]]:
    return job(place, "write_bw_log=mine\nwrite_iolog=trace", "--overwrite"), [place / "mine_bw.1.log", place / "trace"]


@pytest.mark.parametrize("case", [checkpoints, vectors, samples, logs])
def test_a_link_laid_between_check_and_open_is_not_followed(
    case: Callable[[Path], tuple[list[str], list[Path]]], place: Path, thesis: Path
) -> None:
    command, links = case(place)
    links[0].parent.mkdir(parents=True, exist_ok=True)
    missing = place.parent / "not there"
    with laying(*((link, target) for link in links for target in (thesis, missing))):
        for _ in range(sample(1, 3)):
            assert main(command) in {0, 2, 3}
    # Links of others may be left, and neither their target nor anything new beside it was touched.
    assert not missing.exists()


# --- the store


def foreign_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as index, index:
        index.execute("CREATE TABLE runs (name TEXT)")
        index.execute("INSERT INTO runs VALUES ('marathon')")


@pytest.mark.parametrize("kind", ["text", "database", "empty database", "link"])
def test_a_foreign_index_is_left_alone(
    kind: str, place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(None)
    store.directory.mkdir()
    if kind == "text":
        store.index.write_bytes(MINE * 1000)
    elif kind == "link":
        store.index.symlink_to(thesis)
    else:
        foreign_database(store.index)
        if kind == "empty database":
            with contextlib.closing(sqlite3.connect(store.index)) as index, index:
                index.execute("DROP TABLE runs")
                index.execute("PRAGMA user_version = 7")
    before = store.index.read_bytes()
    store.save(made.run())
    assert len(store.history()) == 1
    assert store.rebuild()[0] == 1
    assert store.index.read_bytes() == before
    assert store.index.is_symlink() == (kind == "link")
    assert sorted(path.name for path in store.directory.iterdir()) == ["index.sqlite", "runs"]
    assert main(["history"]) == 0
    assert "index.sqlite is not hwdyno's" in capsys.readouterr().err


def test_no_run_is_stored_through_link(place: Path, thesis: Path) -> None:
    store = Store(None)
    store.runs.mkdir(parents=True)
    run = made.run()
    (store.runs / f"{run.id}.json").symlink_to(place / "not there")
    with pytest.raises(UserError, match="already stored"):
        store.save(run)
    assert not (place / "not there").exists()
