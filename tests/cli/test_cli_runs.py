"""``history``, ``export``, ``compare`` and ``schema`` on a store of made Runs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_store as made
import pyarrow.parquet as pq
import pytest
from hwdyno.cli.main import main
from hwdyno.cli.perform import status
from hwdyno.model.machine import Cpu, Machine
from hwdyno.model.point_details import Quoted
from hwdyno.model.words import PeerResult, Run, Value
from hwdyno.system.store import Store, json_schema

DATA = Path(__file__).parents[1] / "data" / "fio"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    return Store()


def scaled(run_id: str, factor: float, noise: float = 0.001) -> Run:
    points = [
        made.point(depth, value * factor, (value * factor * (1 - noise), value * factor, value * factor * (1 + noise)))
        for depth, value in ((1, 1e8), (2, 1.9e8), (4, 2.5e8))
    ]
    return made.run(made.experiment(*points), run_id=run_id)


def test_history_lists_the_newest_first(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    figures = {"verdict": "use with care", "quoted": (Quoted("RND4K Q1T1 read", 2.5e8, "bytes/s"),)}
    store.save(replace(made.run(run_id="20260101-000000-aaaa"), **figures))
    store.save(replace(made.run(run_id="20260102-000000-bbbb"), study="sata-ssd-queue"))
    assert main(["history"]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "when", "machine", "profile", "verdict", "points", "headline"]
    assert first.startswith("20260102-000000-bbbb") and "sata-ssd-queue" in first
    assert "bench-1, Some CPU" in second and "use with care" in second and "RND4K Q1T1 read 250 MB/s" in second
    assert main(["history", "--json", "--limit", "1"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["id"], entry["verdict"]) == ("20260102-000000-bbbb", "valid")


@pytest.mark.parametrize(
    ("verdict", "imported_from", "validity", "ends"),
    [
        ("sound", "", "degraded", 0),  # Points that are not quoted make a remark.
        ("use with care", "", "valid", 3),
        ("not to be trusted", "", "valid", 3),
        ("use with care", "fio-json", "valid", 0),  # How it was measured is not known: its points alone decide.
        ("use with care", "fio-json", "degraded", 3),
        ("", "", "valid", 0),
        ("", "", "degraded", 3),
    ],
)
def test_the_exit_status_is_the_verdicts_and_of_an_imported_run_its_points(
    verdict: Any, imported_from: str, validity: Any, ends: int
) -> None:
    points = tuple(replace(point, validity=validity) for point in made.run().experiments[0].points)
    run = made.run(replace(made.run().experiments[0], points=points))
    assert status(replace(run, verdict=verdict, imported_from=imported_from), None) == ends


def test_history_survives_a_spoilt_run(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    path = store.save(made.run())
    (path.parent / "torn.json").write_text("{")
    assert main(["history", "--rebuild"]) == 0
    printed = capsys.readouterr()
    assert "torn" in printed.out and "20260101-000000-abcd" in printed.out
    assert printed.err.splitlines()[0] == "the index was rebuilt from 2 documents"
    assert "torn.json is not JSON" in printed.err.splitlines()[1]


def test_empty_history_gives_the_next_step(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "" and "`hwdyno run` makes the first" in printed.err


def test_schema_is_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def test_csv_has_one_row_a_point_and_units_in_its_columns(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    peer = PeerResult("fio", "fio-3.33", 1, Value(2e8, "bytes/s"), Value(0.95, "ratio", 0.9, 1.0), 5)
    store.save(made.run(replace(made.experiment(made.point(1), made.point(2)), peers=(peer,))))
    assert main(["export"]) == 0
    first, second = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert first["throughput_bytes_s"] == "100000000.0"
    assert (first["parameter_iodepth"], first["parameter_rw"]) == ("1", "randread")
    assert (first["fio_ratio"], second["fio_ratio"]) == ("", "0.95")
    assert {"latency_ns_p99", "sample_min_bytes_s", "cpu_user_s", "counter_process_read_bytes"} <= first.keys()


def test_parquet_and_csv_hold_the_same(store: Store, tmp_path: Path) -> None:
    store.save(made.run(made.experiment(made.point(1), made.point(2, bs=8192)), made.experiment(name="storage.bs")))
    store.save(made.run(made.experiment(made.point(1, bs="4k-8k")), run_id="20260102-000000-bbbb"))
    names = ["20260101", "20260102"]
    assert main(["export", *names, "--parquet", str(tmp_path / "a.parquet"), "--csv", str(tmp_path / "a.csv")]) == 0
    table = pq.read_table(tmp_path / "a.parquet").to_pylist()
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert len(table) == len(rows) == 3
    assert [row["throughput_bytes_s"] for row in table] == [float(row["throughput_bytes_s"]) for row in rows]
    assert [row["parameter_bs"] for row in table] == [row["parameter_bs"] for row in rows] == ["4096", "8192", "4k-8k"]
    assert sorted(path.name for path in tmp_path.glob("*a.*")) == ["a.csv", "a.parquet"]


def test_failed_write_is_one_line(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.save(made.run())
    assert main(["export", "--csv", str(tmp_path / "none" / "a.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("factor", "status", "verdict"), [(0.8, 1, "slower"), (1.0, 0, "same"), (1.3, 0, "faster")])
def test_only_a_loss_fails_the_comparison(
    factor: float, status: int, verdict: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.save(scaled("before", 1.0))
    store.save(scaled("after", factor))
    assert main(["compare", "before", "after"]) == status
    out = capsys.readouterr().out
    assert f"3 {verdict}" in out
    assert f"geometric mean {factor:.3f}" in out
    assert main(["compare", "before", "after", "--json"]) == status
    (side,) = json.loads(capsys.readouterr().out)["sides"]
    changes = side["changes"]
    assert [change["verdict"] for change in changes] == [verdict] * 4
    assert [change["points"] for change in changes] == [1, 1, 1, 3], "each point, and the experiment as a whole"
    assert all(change["ratio"]["low"] <= factor <= change["ratio"]["high"] for change in changes)


def test_a_change_within_the_noise_floor_or_the_spread_is_none(store: Store) -> None:
    store.save(scaled("before", 1.0))
    store.save(scaled("floor", 0.993))
    store.save(scaled("noisy", 0.9, noise=0.15))
    assert main(["compare", "before", "floor"]) == 0
    assert main(["compare", "before", "noisy"]) == 0


def test_machine_differences_come_first(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.save(scaled("before", 1.0))
    store.save(replace(scaled("after", 0.5), machines=(Machine(cpu=Cpu(model="Other")),)))
    assert main(["compare", "before", "after"]) == 0, "a slower machine is no regression"
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["before → after (different machines)", "Differs: processor Some CPU → Other"]
    assert "no regression" in lines[-1]
    assert main(["compare", "before", "after", "--fail-under", "95%"]) == 1


def test_runs_without_common_point_are_reported(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.save(scaled("before", 1.0))
    store.save(made.run(made.experiment(made.point(1, bs=512)), run_id="after"))
    assert main(["compare", "before", "after"]) == 2
    err = capsys.readouterr().err
    assert "bs 4 KiB against 512 B in storage.iodepth" in err and err.count("\n") == 1


def test_fios_json_is_compared_like_run(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    name = str(DATA / "depths.json")
    assert main(["compare", name, name]) == 3, "without repeats nothing is told"
    assert "4 common points: 4 cannot tell;" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["export", "none"], ["compare", "none", "last"], ["export", "./no.json"]])
def test_unknown_run_is_one_line(command: list[str], store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.save(made.run())
    assert main(command) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.startswith("hwdyno: ")


def test_fios_json_gets_our_report(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(DATA / "depths.json"), "--markdown"]) in {0, 3}
    out = capsys.readouterr().out
    assert "storage.fio" in out and "388" in out
