"""A host without Python: planned from its survey, measured by the bare engine alone, imported as a Run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hwdyno.cli.main import main
from hwdyno.model.words import Run
from hwdyno.system.store import Store
from test_agent import engine  # noqa: F401 - a fixture

pytestmark = pytest.mark.machine
FIO = sorted((Path(__file__).parents[1] / "data" / "fio").glob("*.json"))[0]
SWEEP = ("storage", "--rw", "randread", "--iodepth", "1,8", "--size", "16M", "--runtime", "50ms")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HWDYNO_AGENTS", raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path


def surveyed(engine: str, place: Path) -> Path:  # noqa: F811
    path = place / "board.json"
    path.write_bytes(subprocess.run([engine, "survey", str(place / "data")], capture_output=True, check=True).stdout)
    return path


def planned(words: tuple[str, ...], survey: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main([*words, "--plan-for", str(survey)]) == 0
    path = survey.parent / "plan.json"
    path.write_text(capsys.readouterr().out)
    return path


@pytest.fixture(scope="session")
def recorded(engine: str, tmp_path_factory: pytest.TempPathFactory) -> bytes:  # noqa: F811
    """The readings of a short sweep, taken by the bare engine once for all tests."""
    place = tmp_path_factory.mktemp("elsewhere")
    (place / "data").mkdir()
    words = (sys.executable, "-m", "hwdyno", *SWEEP, "--path", str(place / "data"))
    line = [*words, "--plan-for", str(surveyed(engine, place))]
    (place / "plan.json").write_bytes(subprocess.run(line, capture_output=True, check=True).stdout)
    done = subprocess.run([engine, "measure", str(place / "plan.json")], capture_output=True, check=True)
    assert not list((place / "data").iterdir())
    return done.stdout


@pytest.fixture
def readings(recorded: bytes, place: Path) -> Path:
    path = place / "readings.jsonl"
    path.write_bytes(recorded)
    return path


def imported(path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    assert main(["import", str(path), "--store", "store", "--no-page", "--quiet"]) in {0, 3}
    capsys.readouterr()
    return Store("store").load("last")


def edited(path: Path, change: Callable[[list[dict[str, Any]]], Any]) -> Path:
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    change(documents)
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err.strip()


def test_readings_of_the_bare_engine_become_a_run_of_that_host(
    readings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(documents: list[dict[str, Any]]) -> None:
        documents[0]["survey"]["hostname"] = "board-7"
        documents[0]["started_s"] = 1_700_000_000.0

    run = imported(edited(readings, change), capsys)
    assert run.machine.hostname == "board-7"
    assert run.started.startswith("2023-11-1")
    (experiment,) = run.experiments
    assert [point.parameters["iodepth"] for point in experiment.points] == [1, 8]
    assert all(point.repeats == 5 and point.latency_ns and point.latency_ns.histogram for point in experiment.points)
    assert experiment.fixed["size"] == 16 << 20 and experiment.fixed["path"].endswith("/data")
    assert experiment.declaration.axes and experiment.ceilings is not None
    assert not run.interrupted


def test_each_point_holds_its_readings_and_the_counters_around_them(
    readings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [json.loads(line) for line in readings.read_text().splitlines()]
    steps = documents[0]["plan"]["steps"]
    counted = [document for document in documents[1:-1] if steps[document["step"]]["repeat"] >= 0]
    deep = [document["reading"] for document in counted if steps[document["step"]]["point"]["iodepth"] == 8]
    run = imported(readings, capsys)
    point = run.experiments[0].points[1]
    assert point.operations == sum(stream["operations"] for reading in deep for stream in reading["streams"])
    assert len(counted) == 10 and len(documents) == 1 + 1 + 10 + 1, "the plan, a warm-up, the readings, the end"
    # The process's and the machine's counters are read around each reading, never by it.
    assert "process_read_bytes" in point.counters and "cpu_busy" in point.conditions


def test_readings_of_a_former_engine_keep_their_load(readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rename(documents: list[dict[str, Any]]) -> None:
        for document in documents[1:-1]:
            document["reading"]["concurrency_asked"] = document["reading"].pop("concurrency_requested")

    points = imported(edited(readings, rename), capsys).experiments[0].points
    assert [point.concurrency.requested for point in points if point.concurrency] == [1, 8]


def test_killed_measurement_is_partial(readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = readings.read_text().splitlines()
    readings.write_text("\n".join([*lines[:6], lines[6][:200]]))
    run = imported(readings, capsys)
    assert any("the readings have no end" in why for why in run.degraded)
    assert sum(point.repeats for point in run.experiments[0].points) == 4


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_engine_with_its_readings_and_no_file_left(
    engine: str,  # noqa: F811
    place: Path,
    ending: signal.Signals,
    capsys: pytest.CaptureFixture[str],
) -> None:
    slow = [word if word != "50ms" else "60s" for word in SWEEP]
    plan = planned((*slow, "--path", str(place / "data")), surveyed(engine, place), capsys)
    path = place / "readings.jsonl"
    with path.open("wb") as file, subprocess.Popen([engine, "measure", str(plan)], stdout=file) as process:
        end = time.monotonic() + 60
        while path.read_bytes().count(b"\n") < 2 and time.monotonic() < end:  # the plan and the warm-up
            time.sleep(0.05)
        process.send_signal(ending)
        assert process.wait(30) == 130
    assert not list((place / "data").iterdir())
    assert json.loads(path.read_text().splitlines()[-1])["interrupted"] is True


def test_what_another_host_cannot_measure_is_refused_in_one_line(
    engine: str,  # noqa: F811
    place: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    survey = str(surveyed(engine, place))
    says = refusal([*SWEEP, "--path", ".", "--peers", "--plan-for", survey], capsys)
    assert "--peers runs tools that are installed here" in says
    says = refusal(["run", "--only", "training", "--path", ".", "--plan-for", survey], capsys)
    assert "needs files that a bare engine does not prepare; choose other experiments with --only" in says
    (place / "other.json").write_text('{"a": 1}')
    says = refusal([*SWEEP, "--plan-for", "other.json"], capsys)
    assert says == "hwdyno: other.json is no survey; hwdyno-engine survey PATH prints one"
    assert "no such file" in refusal([*SWEEP, "--plan-for", "nowhere.json"], capsys)


def no_steps(documents: list[dict[str, Any]]) -> None:
    documents[0]["plan"]["steps"] = []


def other_command(documents: list[dict[str, Any]]) -> None:
    documents[0]["plan"]["words"] = ["report", "last", "--html", "x.html"]


def plan_file(documents: list[dict[str, Any]]) -> None:
    documents[0]["plan"]["words"] = ["run", "/etc/passwd"]


def other_points(documents: list[dict[str, Any]]) -> None:
    documents[0]["plan"]["steps"][1]["point"] = {"iodepth": 3}


def other_plan(documents: list[dict[str, Any]]) -> None:
    documents[0]["plan"]["format"] = "hwdyno.engine-plan/9"


def no_survey(documents: list[dict[str, Any]]) -> None:
    del documents[0]["survey"]


def spoilt(documents: list[dict[str, Any]]) -> None:
    for document in documents[1:-1]:
        document["reading"]["streams"] = 7


def wrong_name(documents: list[dict[str, Any]]) -> None:
    for step in documents[0]["plan"]["steps"]:
        del step["experiment"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (no_steps, "has readings of steps that its plan has not"),
        (other_command, "the plan is of no command that hwdyno can plan for another host"),
        (plan_file, "the plan was made of a file, which is not here"),
        (other_points, "that this hwdyno does not plan"),
        (other_plan, "has readings of another version's plan"),
        (no_survey, "readings.jsonl needs a table"),
        (spoilt, "is not as hwdyno-engine writes it"),
        (wrong_name, "that this hwdyno does not plan"),
    ],
)
def test_readings_that_cannot_be_are_refused_in_one_line_and_nothing_is_kept(
    change: Callable[[list[dict[str, Any]]], Any], says: str, readings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = edited(readings, change)
    line = refusal(["import", str(path), "--store", "store", "--no-page", "--quiet"], capsys)
    assert says in line
    assert not list((path.parent / "store").rglob("*.json"))


def test_another_tools_result_is_stored_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = imported(FIO, capsys)
    assert run.imported_from == "fio-json"


def test_engine_refuses_plan_of_another_version(engine: str, place: Path) -> None:  # noqa: F811
    (place / "plan.json").write_text(json.dumps({"format": "hwdyno.engine-plan/1", "version": "0.0.1", "steps": []}))
    done = subprocess.run([engine, "measure", "plan.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("hwdyno-engine: plan.json: made by hwdyno 0.0.1") and done.stderr.count("\n") == 1
    done = subprocess.run([engine, "measure", "none.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "No such file" in done.stderr


def test_the_engine_says_its_version(engine: str) -> None:  # noqa: F811
    from hwdyno import __version__

    done = subprocess.run([engine, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"hwdyno-engine {__version__}\n"
