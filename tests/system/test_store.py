"""The store: a Run comes back as it was, what is no Run is refused in one line, and the index is only a cache."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import made_store as made
import numpy as np
import pytest
from hwdyno.cli.main import main
from hwdyno.model.point_details import Quoted
from hwdyno.model.words import Curve, Finding, OperatingPoint, PeerResult, Run, Value
from hwdyno.system.store import (
    Store,
    StoreError,
    default_directory,
    directory,
    from_json,
    journal,
    json_schema,
    new_id,
    run_status,
    to_json,
)
from hwdyno.system.store.document import plain_values
from hwdyno.system.store.former_names import rename_keys
from hwdyno.system.store.history import figures_from, figures_text, list_figures
from hwdyno.system.store.journal import from_journal
from hwdyno.system.store.run_index import checksum
from pydantic import TypeAdapter

ROOT = Path(__file__).parents[2]


def full_run() -> Run:
    """A Run in which every word of the document is used."""
    value = Value(2e8, "bytes/s", 1.9e8, 2.1e8)
    spot = OperatingPoint(4.0, 2e8, 1e5, True, "near")
    curve = Curve(
        {"bs": 4096},
        "iodepth",
        (0, 1),
        "bytes/s",
        "queue-knee",
        {"Xm": value},
        spot,
        spot,
        value,
        spot,
        3.5,
        4.5,
        "knee",
    )
    peer = PeerResult("fio", "fio-3.33", 0, value, Value(1.0, "", 0.98, 1.02), 5, 1e5, 2e-6, None, "fio …", {"a": 1})
    result = replace(made.experiment(made.point(1), made.point(2)), curves=(curve,), peers=(peer,))
    finding = Finding(
        "page-cache", "warning", "storage", "It says.", {"ratio": 3.0}, "Do this.", "storage.iodepth", (0,)
    )
    return replace(made.run(result), findings=(finding,))


def test_a_run_comes_back_as_it_was() -> None:
    run = full_run()
    assert from_json(to_json(run)) == run


@pytest.mark.parametrize("golden", ["run-1.json", "run-machine.json.gz"])
def test_each_schemas_run_is_read(golden: str) -> None:
    """Each leaf of the document is one of what is written again, under its own name or its new one."""
    data = (ROOT / "tests" / "data" / golden).read_bytes()
    text = (gzip.decompress(data) if golden.endswith(".gz") else data).decode()
    before, after = json.loads(text), json.loads(to_json(from_json(text)))
    machine = before.pop("machine", None)
    if machine is not None:  # Schema 1: the survey became typed facts, and axes their declarations.
        (after_machine,) = after.pop("machines")
        assert after_machine["cpu"]["model"] == machine["cpu"]["model"]
        after["schema"] = before["schema"]
    found = dict(leaves(after))
    lost = [path for path, value in leaves(rename_keys(before)) if found.get(path, MISSING) != value]
    assert not lost


MISSING = object()


def leaves(plain: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of a document that is no object and no list, by its path."""
    if isinstance(plain, dict | list):
        for name, inner in plain.items() if isinstance(plain, dict) else enumerate(plain):
            yield from leaves(inner, f"{at}.{name}")
    else:
        yield at, plain


@pytest.mark.parametrize(
    "path", ["verdikt", "machines.0.cpu.modell", "experiments.0.askss", "experiments.0.points.0.latency_ns.p9999"]
)
def test_unknown_key_is_refused(path: str) -> None:
    """A field that is renamed without the table empties no stored Run in silence."""
    plain = json.loads(to_json(full_run()))
    *inner, name = path.split(".")
    word = plain
    for part in inner:
        word = word[int(part) if part.isdecimal() else part]
    word[name] = 1
    with pytest.raises(StoreError, match=rf"the unknown key {re.escape(path)};"):
        from_json(json.dumps(plain), "x.json")


def test_a_renamed_key_is_read_by_its_former_name() -> None:
    plain = json.loads(to_json(full_run()))
    point = plain["experiments"][0]["points"][0]
    point["concurrency"] = {"asked": 4.0, "effective": None}
    found = from_json(json.dumps(plain)).experiments[0].points[0].concurrency
    assert found is not None and found.requested == 4.0


@pytest.mark.parametrize("golden", ["run-1.json", "run-machine.json.gz"])
@pytest.mark.parametrize("name", ["kv_cache", "vector_index", "vector_search"])
def test_a_renamed_kernel_is_read_by_its_former_name(golden: str, name: str) -> None:
    """Former names are read in documents of both schemas, and in figures of an earlier version's index or database."""
    data = (ROOT / "tests" / "data" / golden).read_bytes()
    plain = json.loads(gzip.decompress(data) if golden.endswith(".gz") else data)
    plain["experiments"][0]["kernel"] = f"training_{name}"
    run = from_json(json.dumps(plain))
    assert run.experiments[0].kernel == f"inference_{name}"
    text = figures_text(run).replace(f"inference_{name}", f"training_{name}")
    assert figures_from(text) == list_figures(run) and list_figures(run)


def test_a_renamed_kernel_of_schema_1_keeps_its_option() -> None:
    plain = json.loads((ROOT / "tests" / "data" / "run-1.json").read_text())
    plain["experiments"][0]["kernel"] = "training_kv_cache"
    assert from_json(json.dumps(plain)).experiments[0].declaration.axis("model").option == "kv-cache"


def test_numbers_of_numpy_become_plain_ones() -> None:
    point = replace(made.point(), details={"count": np.int64(3), "share": np.float64(0.5)})
    again = from_json(to_json(made.run(made.experiment(point))))
    assert again.experiments[0].points[0].details == {"count": 3, "share": 0.5}


def test_a_document_is_what_its_declared_types_make_of_it() -> None:
    plain = plain_values(full_run())
    assert json.dumps(plain) == json.dumps(TypeAdapter(Run).dump_python(full_run(), mode="json"))


def test_a_stored_run_has_the_same_text_when_it_is_stored_again() -> None:
    """Also where it was made with a whole number for a float."""
    run = made.run(made.experiment(replace(made.point(), elapsed_s=2)))
    assert '"elapsed_s": 2.0' in to_json(run) and to_json(from_json(to_json(run))) == to_json(run)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_infinite_figure_is_named(wrong: float) -> None:
    run = made.run(made.experiment(replace(made.point(), elapsed_s=wrong)))
    with pytest.raises(StoreError, match=r"experiments\[0\]\.points\[0\]\.elapsed_s is not a finite number"):
        to_json(run)


def test_the_schema_accepts_runs_and_refuses_what_is_none() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    document = json.loads(to_json(full_run()))
    validator.validate(document)
    del document["experiments"][0]["points"][0]["throughput"]["unit"]
    assert [error.message for error in validator.iter_errors(document)] == ["'unit' is a required property"]


def test_the_schema_explains_itself() -> None:
    schema = json_schema()
    assert schema["title"] == "hwdyno Run"
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["properties"]["started"]["description"] == "ISO 8601 with offset."
    assert all(part["description"] and part["title"] for part in schema["$defs"].values())
    assert "Little's law" in schema["$defs"]["Concurrency"]["description"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ('{"schema": "hwdyno.run/1", "id"', "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1, 2]", "is not a hwdyno Run"),
        ('{"schema": "hwdyno.run/3"}', "has schema hwdyno.run/3, and this hwdyno reads hwdyno.run/2; update hwdyno"),
        ('{"schema": "hwdyno.run/1"}', "is not a valid Run: id: Field required"),
    ],
)
def test_what_is_no_run_is_said_in_one_line(text: str | bytes, says: str) -> None:
    with pytest.raises(StoreError) as caught:
        from_json(text, "x.json")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_whole_run_leaves_one_document_and_no_journal(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = replace(made.run(), verdict="sound", reason="All hold.", quoted=(Quoted("RND4K Q1T1 read", 250.0, "MB/s"),))
    empty = replace(run, experiments=(made.experiment(),), finished=None)
    with store.begin(empty) as writer:
        for point in run.experiments[0].points:
            writer.point("storage.iodepth", point)
        path = writer.finish(run)
    assert [file.name for file in store.runs.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o222 == 0, "a stored Run never changes"
    assert store.load(run.id) == store.load("last") == store.load("2026") == store.load(path) == run
    (entry,) = store.history()
    assert (entry.verdict, entry.points, entry.machine) == ("sound", 3, "bench-1, Some CPU")
    assert entry.headline == (("RND4K Q1T1 read", 250.0, "MB/s"),)


def test_a_run_is_not_read_to_compare_it_with_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, run = Store(tmp_path), made.run()
    store.save(replace(run, id="earlier"))
    with store.begin(run):
        assert {entry.id for entry in store.history()} == {"earlier", run.id}
        monkeypatch.setattr(directory, "_read", None)
        assert [entry.id for entry in store.history(without=run.id)] == ["earlier"]


def test_a_run_that_leaves_is_what_its_journal_says_and_does_not_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = Store(tmp_path), full_run()
    empty = replace(
        run, experiments=tuple(replace(result, points=(), peers=(), curves=()) for result in run.experiments)
    )
    with store.begin(replace(empty, experiments=empty.experiments[:1], finished=None)) as writer:
        for later in empty.experiments[1:]:
            writer.experiment(later)
        for result in run.experiments:
            for point in result.points:
                writer.point(result.name, replace(point, repeats=1))
                writer.point(result.name, point)
            for peer in result.peers:
                writer.peer(result.name, peer)
        in_journal = from_journal(writer.path.read_bytes(), writer.path, "interrupted")
        with monkeypatch.context() as reading:
            reading.setattr(journal, "foreign", None)
            writer.seal()
    stored = store.load(run.id)
    assert stored.interrupted and [result.points for result in stored.experiments] == [
        result.points for result in run.experiments
    ]
    assert replace(stored, finished=None) == replace(in_journal, finished=None)


def test_a_stored_run_is_never_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = made.run()
    path = store.save(run)
    assert store.save(run) == path
    with pytest.raises(StoreError, match="never change"):
        store.save(replace(run, profile="full"))
    with pytest.raises(StoreError, match="never change"):
        store.begin(run)
    assert store.load(run.id) == run


def test_the_index_is_only_a_cache(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(3):
        store.save(made.run(run_id=f"r{number}"))
    before = store.history()
    store.index.write_bytes(b"this is no database" * 1000)
    assert store.history() == before
    for path in tmp_path.glob("index.sqlite*"):
        path.unlink()
    assert store.history() == before
    (store.runs / "r1.json").unlink()
    assert [entry.id for entry in store.history()] == ["r2", "r0"]


def test_a_line_of_the_index_that_is_damaged_is_made_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(made.run())
    (entry,) = store.history()
    for text in ("", "[]", "{}", '{"headline": 3}', '{"headline": [["a", "b"]]}', '{"id": 3}', '{"id": NaN}', b"\xff"):
        with sqlite3.connect(store.index) as index:
            index.execute("UPDATE runs SET entry = ?", (text,))
        assert store.history() == [entry]


def test_the_index_is_used_and_not_trusted_over_a_changed_document(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.save(made.run())
    with sqlite3.connect(store.index) as index:
        (name, size, time_ns, text) = index.execute("SELECT path, size, time_ns, entry FROM runs").fetchone()
        text = text.replace("bench-1", "cached")
        index.execute("UPDATE runs SET entry = ?, entry_sum = ?", (text, checksum(name, size, time_ns, text)))
    assert store.history()[0].machine.startswith("cached")
    os.utime(path)
    assert store.history()[0].machine.startswith("bench-1")


def test_a_store_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["history", "--store", str(tmp_path / "file")]) == 2
    assert f"cannot read {tmp_path}/file/runs: " in capsys.readouterr().err
    assert main(["history", "--store", str(tmp_path / "none")]) == 0
    assert "no runs are stored in" in capsys.readouterr().err


def test_unreadable_document_does_not_hide_others(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(made.run())
    (store.runs / "torn.json").write_text('{"schema": "hwdyno.run/1", ')
    (store.runs / "newer.json").write_text('{"schema": "hwdyno.run/7"}')
    (store.runs / "odd.journal").write_text("nothing\n")
    found = {entry.id: entry for entry in store.history()}
    assert {name: entry.verdict for name, entry in found.items()} == {
        "20260101-000000-abcd": "valid",
        "torn": "unreadable",
        "newer": "unreadable",
        "odd": "unreadable",
    }
    assert "update hwdyno" in found["newer"].error
    assert all("\n" not in entry.error for entry in found.values())


def test_rebuild_removes_superseded_journals(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = made.run()
    writer = store.begin(run)
    writer.close()
    store.save(run)
    assert len(store.history()) == 1
    assert store.rebuild()[0] == 1
    assert not list(store.runs.glob("*.journal"))


@pytest.mark.parametrize(
    ("name", "says"), [("", "no run"), ("x", "no run x"), ("r", "matches 2 runs"), ("./no.json", "does not exist")]
)
def test_unknown_name_is_one_line(tmp_path: Path, name: str, says: str) -> None:
    store = Store(tmp_path)
    store.save(made.run(run_id="r1"))
    store.save(made.run(run_id="r2"))
    with pytest.raises(StoreError, match=says):
        store.load(name)


def test_empty_store_says_what_to_do(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    assert store.history() == []
    with pytest.raises(StoreError, match="`hwdyno run` makes the first"):
        store.load("last")


def test_unknown_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot store Runs in .*set HWDYNO_HOME"):
        Store(tmp_path / "file").save(made.run())
    with pytest.raises(StoreError, match="use a directory"):
        Store("postgresql://localhost/runs")


@pytest.mark.parametrize("bad", ["", "../x", "a/b", ".hidden", "last", "a b"])
def test_an_id_cannot_leave_the_directory(tmp_path: Path, bad: str) -> None:
    with pytest.raises(StoreError, match="cannot name a run"):
        Store(tmp_path).save(made.run(run_id=bad))


def test_where_runs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_HOME", "/some/where")
    assert default_directory() == Path("/some/where")
    monkeypatch.delenv("HWDYNO_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_directory() == Path("/data/hwdyno")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_directory() == Path.home() / ".local/share/hwdyno"


def test_names_sort_by_age() -> None:
    assert new_id() != new_id()
    assert new_id()[:8].isdigit()


def test_verdict_says_how_far_to_trust() -> None:
    run = made.run()
    finding = Finding("r", "invalid", "storage", "s", {}, "a")
    assert run_status(run) == "valid"
    assert run_status(replace(run, findings=(finding,))) == "invalid"
    assert run_status(replace(run, interrupted=True)) == "partial"
    assert run_status(replace(run, degraded=("the clock fell",))) == "degraded"
    assert run_status(made.run(made.experiment(made.point()))) == "partial"  # three points were planned
    assert run_status(made.run(made.experiment(replace(made.point(), validity="degraded"), planned=1))) == "degraded"
    assert run_status(made.run(made.experiment(replace(made.point(), validity="invalid")))) == "invalid"
    assert run_status(replace(run, experiments=())) == "empty"
