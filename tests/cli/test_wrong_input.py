"""Any command answers a mistyped line in one line that says what is wrong and how to mend it, and measures nothing."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hwdyno.cli.main import commands, main
from hwdyno.measure.hosts.local import Local
from hwdyno.system.store import Store, from_json, to_json
from made_run import whole_run

LONG = "x" * 5000
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python"), "COLUMNS": "100"}


@functools.cache
def document() -> str:
    """A whole Run as JSON; made once, since that takes a while."""
    return to_json(whole_run())


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of every unfit kind; any measurement fails the test."""
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HWDYNO_TRACEBACK", raising=False)
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    monkeypatch.chdir(here)
    whole = document()
    texts = {
        "empty": "",
        "torn.json": whole[: len(whole) // 2],
        "newer.json": json.dumps({**json.loads(whole), "schema": "hwdyno.run/3"}),
        "bare.json": '{"schema": "hwdyno.run/1"}',
        "list.json": "[]",
        "deep.json": "[" * 100_000,
        "nan.json": '{"schema": "hwdyno.run/1", "id": NaN}',
        "key.toml": 'colour = "red"\n',
        "size.toml": '[[experiment]]\nname = "storage.grid"\naxes = {bs = "4x"}\n',
        "name.toml": '[[experiment]]\nname = "no.such"\n',
        "kind.toml": "experiment = 3\n",
        "seed.toml": "seed = 99999999999999999999\n",
        "ü ö.toml": "profile = 7\n",
        "keys.fio": "[a]\nfrobnicate=1\n",
    }
    for name, text in texts.items():
        (here / name).write_text(text)
    (here / "binary").write_bytes(bytes(range(256)) * 40)
    (here / "binary.toml").write_bytes(b"\xff\xfe\x00")

    def measured(_: Local, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(f"{kernel} was run with {parameters}")

    monkeypatch.setattr(Local, "run", measured)
    return here


TABLE: tuple[tuple[str, str], ...] = (
    # values of options that many commands have
    ("run --seed x", "'x' must be a whole number"),
    ("run --seed 99999999999999999999999999", "from 0 to 4611686018427387904"),
    ("run --seed=-1", "whole number"),
    ("run --profile ", "name a profile"),
    ("run --profile hasty", "known: quick, standard, full"),
    ("run --out empty", "empty is not a directory"),
    ("run --out empty/below", "empty is not a directory"),
    (f"run --out {LONG}", "too long"),
    ("run --budget nan", "write it as 30, 30s, 2m or 500ms"),
    ("run --budget=-3s", "not a time"),
    ("run --budget 1e999", "not a time"),
    ("run --fail-under nan", "percentage from 0 to 100"),
    (f"run --path {LONG}", "too long"),
    ("run --path nöwhere", "no such directory"),
    ("run --path empty", "not a directory"),
    # plan files
    ("run folder", "folder"),
    ("run binary.toml", "not readable as a TOML file"),
    ("run key.toml", "colour"),
    ("run size.toml", "'4x' is not a size"),
    ("run name.toml", "no.such"),
    ("run kind.toml", "experiment"),
    ("run seed.toml", "whole number from 0 to"),
    ("run ü_ö.toml", "profile"),
    (f"run {LONG}", "too long"),
    # axes
    ("storage --bs 0", "must be 1 to 1099511627776"),
    ("storage --bs nan", "not a size"),
    ("storage --bs 4k..", "a range needs both ends"),
    ("storage --bs ..4k", "a range needs both ends"),
    ("storage --bs 4k,,8k", "between the commas"),
    ("storage --bs 8k..4k", "lower end first"),
    ("storage --iodepth 1025", "must be 1 to 1024"),
    ("storage --iodepth 1.5", "not a whole number"),
    ("storage --iodepth 1..1024+0", "a step above 0"),
    ("storage --rate 1..100000000+0.001", "use a larger step"),
    ("storage --rate nan", "must be 0 to 1000000000"),
    ("storage --size=-1", "negative; it must be 0 or more"),
    ("storage --size 1Z", "not a size"),
    ("storage --runtime inf", "not a time"),
    ("storage --rw randrw:170", "share of reads must be 0 to 100"),
    ("storage --direct maybe", "must be 1 or 0"),
    ("storage --destroy /dev/null", "is for raw devices"),
    ("storage --path /dev/zero --destroy /dev/zero --rw write", "is for raw devices"),
    ("storage --ceiling nan", "not a ceiling"),
    ("memory --working-set 1", "--working-set 1: must be 64 to"),
    ("memory --node=-2", "--node -2: must be -1 to 1023"),
    ("memory --pages 3m", "use one of: 4k, 2m, 1g"),
    ("compute --n 0 linpack", "must be 2 to"),
    ("network --port 70000", "must be 1 to 65535"),
    # job files and tests with a name
    ("storage job", "takes one job file"),
    ("storage job none.fio", "no such file"),
    ("storage job folder", "is a directory"),
    ("storage job binary", "binary"),
    ("storage job empty", "has no job"),
    ("storage job keys.fio", "frobnicate"),
    ("storage snia nothing", "iops, throughput, latency"),
    ("training --workload none", "unet3d"),
    ("inference --kv-cache none", "llama3.1-8b"),
    ("study none", "sata-ssd-queue"),
    ("study sata-ssd-queue --path none", "none"),
    # Runs
    ("report none", "`hwdyno run` makes the first"),
    ("export none", "`hwdyno run` makes the first"),
    ("compare newer.json none", "update hwdyno"),
    ("compare bare.json none", "Field required"),
    ("report folder", "a Run is one page (.html) or document (.json) in it: has neither"),
    ("report empty", "has no known tool's output"),
    ("report binary", "has no known tool's output"),
    ("report torn.json", "cut off"),
    ("report newer.json", "update hwdyno"),
    ("report bare.json", "Field required"),
    ("report list.json", "no schema"),
    ("report deep.json", "not JSON"),
    ("report nan.json", "NaN"),
    (f"report {LONG}", "hwdyno: xxx"),
    ("report /etc/passwd", "has no known tool's output"),
    ("history --limit x", "whole number"),
    ("history --limit=-1", "whole number"),
    ("machine --path none", "does not exist"),
    ("schema extra", "unexpected argument 'extra'"),
)


def _words(line: str) -> list[str]:
    return [word.replace("ü_ö", "ü ö") for word in line.split(" ")]


@pytest.mark.parametrize(("line", "says"), TABLE, ids=[line[:60] for line, _ in TABLE])
def test_one_line_says_what_is_wrong(line: str, says: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_words(line)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    assert says in printed.err
    assert "internal error" not in printed.err and "Traceback" not in printed.err
    runs = place.parent / "home" / "runs"
    assert not runs.exists() or not list(runs.iterdir())


@pytest.mark.parametrize("command", sorted(commands()))
def test_an_unknown_option_is_one_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--no-such-option=1"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1, printed.err
    assert f"hwdyno {command} --help" in printed.err


def test_a_negative_number_is_taken_where_there_are_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "--node=-1", "--threads", "1", "--dry-run"]) == 0
    assert capsys.readouterr().err == ""


def test_unlike_runs_are_not_compared(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(document())
    (place / "one.json").write_text(json.dumps(whole))
    (place / "none.json").write_text(json.dumps({**whole, "id": "other", "experiments": []}))
    assert main(["compare", "one.json", "none.json"]) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err and printed.err.count("\n") == 1, printed.err


@pytest.mark.parametrize(
    "unset",
    [
        {"HOME": None, "XDG_DATA_HOME": None, "HWDYNO_HOME": None},
        {"PYTHONIOENCODING": "ascii"},
        pytest.param({"TERM": "dumb"}, marks=pytest.mark.long),
        pytest.param({"NO_COLOR": "1", "TERM": "xterm-256color", "FORCE_COLOR": None}, marks=pytest.mark.long),
        {"COLUMNS": "1"},
    ],
    ids=str,
)
def test_a_poor_environment_is_enough(unset: dict[str, str | None], place: Path) -> None:
    (place / "run.json").write_text(document(), encoding="utf-8")
    environment = {name: value for name, value in {**ENVIRONMENT, **unset}.items() if value is not None}
    done = subprocess.run(
        [sys.executable, "-m", "hwdyno", "report", "run.json"],
        env=environment,
        capture_output=True,
        check=False,
        cwd=place,
    )
    assert done.returncode in {0, 3}, done.stderr
    assert b"Traceback" not in done.stderr and b"\x1b" not in done.stdout


def test_a_document_that_cannot_be_read_is_named_in_the_history(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(place.parent / "home")
    store.save(from_json(document()))
    (next((place.parent / "home" / "runs").rglob("*.json"))).write_text("{")
    assert main(["history", "--rebuild"]) == 0
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert "cut off" in printed.err


@pytest.mark.parametrize("command", ["audit", "report", "compare", "import"])
def test_a_text_of_no_result_is_refused_in_the_same_words(
    command: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "hello.txt").write_text("hello\n")
    words = [command, *(["hello.txt"] if command == "compare" else []), "hello.txt"]
    assert main(words) == 2
    assert "hello.txt has no known tool's output and no table with results" in capsys.readouterr().err


def test_what_can_be_audited_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--formats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"fio-json", "stream-text", "table", "text"} <= {line.split()[0] for line in lines}
    assert all(len(line.split()) > 2 and " Run" not in line for line in lines)
