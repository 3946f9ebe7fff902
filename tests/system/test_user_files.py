"""A user's files stay: what exists is never overwritten or removed unless hwdyno made it, and no link is followed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import made_store as made
import pytest
from hwdyno.cli.main import main
from hwdyno.measure import engine
from hwdyno.model.words import UserError
from hwdyno.system import safe_files
from hwdyno.system.store import Store

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]

MINE = b"the only copy of a thesis\n"
READS = ("--budget", "1s", "--rw", "read", "--bs", "64k", "--size", "16M", "--runtime", "0.05", "--profile", "quick")
VECTORS = (
    *("--vector-search", "ivf", "--vectors", "300", "--dim", "8", "--queries", "5", "--runtime", "0.05"),
    *("--quiet", "--no-page"),
)
CHECKPOINT = ("--checkpoint", "llama3-8b", "--scale", "0.0001", "--ranks", "1", "--quiet", "--no-page")
KV_CACHE = (
    *("--kv-cache", "llama3.1-8b", "--scale", "0.0005", "--users", "1", "--capacity", "64M", "--think", "0"),
    *("--runtime", "0.1", "--budget", "1s", "--quiet", "--no-page"),
)
YAML = """
model: {{name: "{name}"}}
framework: pytorch
dataset: {{data_folder: data, format: npz, num_files_train: 4, num_samples_per_file: 1,
  record_length_bytes: 40000, file_prefix: "{prefix}"}}
reader: {{data_loader: pytorch, batch_size: 2, read_threads: 1}}
train: {{epochs: 1, computation_time: 0.001}}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is measured, and where commands run; beside it are the store and files of the user's."""
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


@pytest.fixture
def thesis(tmp_path: Path) -> Iterator[Path]:
    """A file of the user's outside of the folder that is measured; it has to be the same after the test."""
    path = tmp_path / "thesis.txt"
    path.write_bytes(MINE)
    identity = path.stat().st_ino
    yield path
    assert path.read_bytes() == MINE
    assert path.stat().st_ino == identity


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, says: str = "--overwrite") -> None:
    """The command ends with one line that says what is wrong and what mends it."""
    assert main([*arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def storage(*more: str) -> list[str]:
    return ["storage", *READS, "--quiet", "--no-page", "--path", ".", *more]


def job(place: Path, lines: str, *more: str) -> list[str]:
    (place / "x.fio").write_text(f"[job]\nrw=read\nbs=64k\nsize=1m\n{lines}\n")
    return ["storage", "job", "x.fio", "--quiet", "--no-page", *more]


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
    safe_files.write_output(path, b"<html>" + header + b" once", header=header)
    path.write_bytes(MINE)
    table = place / "table"
    safe_files.write_output(table, b"first")
    safe_files.write_output(table, b"second")  # This process wrote it.
    (place / "users").write_bytes(MINE)
    for name in ("page", "users"):
        (place / name).rename(place / "moved")
        (place / name).write_bytes(MINE)
        with pytest.raises(UserError, match="--overwrite"):
            safe_files.write_output(place / name, b"x", header=header)
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


# --- files that a scenario makes


def test_checkpoint_link_is_not_followed(place: Path, thesis: Path) -> None:
    folder = place / "hwdyno-checkpoint"
    folder.mkdir(mode=0o777)
    for kind in ("model", "optimizer"):
        (folder / f"checkpoint-0-{kind}-rank-0000-0.hwdyno").symlink_to(thesis)
    assert main(["training", *CHECKPOINT, "--path", str(place)]) in {0, 3}
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(("command", "name"), [(CHECKPOINT, "hwdyno-checkpoint"), (KV_CACHE, "hwdyno-kv-cache")])
def test_linked_folder_is_not_followed(
    command: tuple[str, ...], name: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mine = [elsewhere / "kv-00000001.hwdyno", elsewhere / "checkpoint-notes.hwdyno"]
    for path in mine:
        path.write_bytes(MINE)
    (place / name).symlink_to(elsewhere)
    assert main(["training", *command, "--path", str(place)]) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert [path.read_bytes() for path in mine] == [MINE, MINE]
    assert (place / name).is_symlink()
    assert len(list(elsewhere.iterdir())) == 2


@pytest.mark.parametrize(("command", "name"), [(CHECKPOINT, "hwdyno-checkpoint"), (KV_CACHE, "hwdyno-kv-cache")])
def test_a_users_files_in_a_folder_of_that_name_stay(command: tuple[str, ...], name: str, place: Path) -> None:
    folder = place / name
    folder.mkdir()
    mine = [folder / "kv-mine.hwdyno", folder / "kv-00000000.hwdyno", folder / "checkpoint-mine.hwdyno"]
    for path in mine:
        path.write_bytes(MINE)
    assert main(["training", *command, "--path", str(place)]) in {0, 3}
    assert [path.read_bytes() for path in mine] == [MINE] * 3
    assert len(list(folder.iterdir())) == 3


def test_a_link_laid_for_a_vector_index_is_not_followed(
    place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["inference", *VECTORS, "--path", str(place)]
    assert main([*command, "--generate"]) == 0
    (folder,) = place.glob("hwdyno-vectors-*")
    (folder / "vectors.hwdyno").unlink()
    (folder / "vectors.part").symlink_to(thesis)
    refused(capsys, *command, says="vectors.part is not hwdyno's")
    assert (folder / "vectors.part").is_symlink()
    (folder / "vectors.part").unlink()
    (folder / "vectors.hwdyno").write_bytes(MINE)
    refused(capsys, *command, says="vectors.hwdyno is not hwdyno's")
    assert (folder / "vectors.hwdyno").read_bytes() == MINE


def data_set(place: Path, *, name: str = "small", prefix: str = "img") -> list[str]:
    (place.parent / "workload_x.yaml").write_text(YAML.format(name=name, prefix=prefix))
    workload = ["--workload", str(place.parent / "workload_x.yaml"), "--samples", "4"]
    return ["training", *workload, "--no-client", "--no-plain", "--quiet", "--no-page", "--accelerators", "1"]


def test_a_link_laid_for_a_data_set_is_not_followed(
    place: Path, thesis: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*data_set(place), "--path", str(place)]
    assert main([*command, "--generate"]) == 0
    train = place / "hwdyno-small-4" / "train"
    (train / "img_1_of_4.npz").unlink()
    part = train / "img_1_of_4.npz.part"
    part.symlink_to(thesis)
    refused(capsys, *command, says="img_1_of_4.npz.part")
    assert part.is_symlink()


def test_a_data_sets_folder_that_is_a_link_is_not_followed(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (place / "hwdyno-small-4").symlink_to(tmp_path / "elsewhere")
    refused(capsys, *data_set(place), "--path", str(place), says="symbolic link")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_users_file_in_data_set_stays(place: Path) -> None:
    kept = {**SHAPE, "path": str(place / "set")}
    engine.run("training_generate", kept)
    (place / "set" / "train" / "notes.txt").write_bytes(MINE)
    safe_files.remove_folder(place / "set", "img_*.npz")
    assert {path.name for path in (place / "set").rglob("*") if path.is_file()} == {"notes.txt", safe_files.MARK}


SHAPE = {"format": "npz", "files": 3, "samples_per_file": 1, "record_bytes": 40_000}


@pytest.mark.parametrize(
    ("name", "prefix"), [("../../x", "img"), ("x", "../../../../y"), ("x/y", "img"), ("x", "a/b"), ("..", "img")]
)
def test_names_that_climb_out_of_the_folder_are_refused(
    name: str, prefix: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path for path in place.parent.rglob("*") if "home" not in path.parts)
    command = [*data_set(place, name=name, prefix=prefix), "--path", str(place)]
    refused(capsys, *command, says="must be a plain name")
    after = sorted(path for path in place.parent.rglob("*") if "home" not in path.parts)
    assert set(after) - set(before) == {place.parent / "workload_x.yaml"}


def test_the_engine_makes_no_data_set_outside_of_its_folder(place: Path) -> None:
    with pytest.raises(engine.UsageError, match="plain name"):
        engine.run("training_generate", {**SHAPE, "path": str(place / "set"), "prefix": "../../y"})
    assert not list(place.parent.glob("y_*"))


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
        for _ in range(3):
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
    assert store.rebuild() == 1
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


# --- what another run left


def test_a_killed_runs_entries_go_with_the_next_and_those_of_others_stay(place: Path) -> None:
    script = (
        "import json, os, threading, time; from hwdyno.measure import engine\n"
        f"p = json.loads({json.dumps({**KV, 'path': str(place / 'hwdyno-kv-cache')})!r})\n"
        "threading.Thread(target=engine.run, args=('inference_kv_cache', p), daemon=True).start()\n"
        f"import pathlib; f = pathlib.Path({str(place)!r})\n"
        "while not list(f.rglob('kv-*.hwdyno')): time.sleep(0.01)\n"
        "os._exit(9)"
    )
    import subprocess
    import sys

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    folder = place / "hwdyno-kv-cache"
    assert list(folder.rglob("kv-*.hwdyno"))
    (folder / "kv-mine.hwdyno").write_bytes(MINE)
    assert main(["inference", *KV_CACHE, "--path", str(place)]) in {0, 3}
    assert [path.name for path in folder.iterdir()] == ["kv-mine.hwdyno"]


KV = {"users": 1, "scale": 0.0005, "think": 0.0, "runtime": 60.0, "capacity": 32 << 20, "transfer_size": 65536}
