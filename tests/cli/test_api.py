"""The Python API: the command line's own names, light to import, stopped on request, and Runs that show themselves."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html import escape, unescape
from pathlib import Path
from typing import Any

import hostile
import hwdyno
import pytest
from hwdyno import api, session
from hwdyno.api import measuring, options
from hwdyno.cli.help import list_options, spelling
from hwdyno.cli.main import make_parser
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.runner import contention
from hwdyno.model.units import format_quantity
from hwdyno.report import notebook
from hwdyno.report.scorecard import explain_run, scorecard
from hwdyno.system.store import Store, to_json
from simulated_runs import at, experiment, make_run
from simulation.coupled import CoupledHost
from simulation.host import SimulatedMachine

OF_OUTPUT = {
    *("dry_run", "json", "verbose", "out", "overwrite", "plan_for", "with_names", "no_page", "fail_under"),
    *("summary", "output_format", "help"),
}
"""Options that say what a command prints and writes: there is no report in Python."""
ELSEWHERE = {"port", "keys", "fio_dir", "after_power_cut", "ignore", "bind", "once", "parallel_clients", "merge"}
"""Options of a job file, a check, a server and a table of several Runs, which are no measurement."""


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Commands measure a simulated machine, and keep Runs in a folder of the test."""
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    host = CoupledHost(1)
    monkeypatch.setattr(session, "this_site", lambda: host)
    monkeypatch.setitem(contention.ROUNDS, "quick", 2)
    return tmp_path


def test_import_is_light() -> None:
    code = (
        "import sys, hwdyno; print(sorted(name for name in sys.modules if name.startswith('hwdyno.')), hwdyno.__all__)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("[] ['run'")
    assert set(hwdyno.__all__) <= set(dir(hwdyno)) and set(hwdyno.__all__) == set(api.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hwdyno.nothing  # noqa: B018


def test_run_has_names_of_command_line() -> None:
    known = {spelling(action).removeprefix("--").replace("-", "_") for action in list_options(make_parser("run"))}
    names = {*options.RunOptions.__annotations__} - {"progress", "cancellation"}
    assert names == known - OF_OUTPUT == measuring.option_names("run", Local()) | {"quiet"}


@pytest.mark.parametrize("command", measuring.MEASURED)
def test_a_command_takes_what_its_command_line_takes(command: str) -> None:
    """Every option of the command line, but for those of output and of other tools' formats, has its name here."""
    known = {spelling(action).removeprefix("--").replace("-", "_") for action in list_options(make_parser(command))}
    assert known - measuring.option_names(command, Local()) <= {*OF_OUTPUT, *ELSEWHERE, "quiet"}
    assert measuring.option_names(command, Local()) - known <= {"store"}


def test_call_is_command_that_it_names(simulated: Path) -> None:
    run = hwdyno.measure(
        "storage", "iodepth", path=simulated, iodepth=[1, 2, 4, 8], seed=3, ceiling=["rated read 5 GB/s"]
    )
    assert isinstance(run, hwdyno.Run)
    (result,) = run.experiments
    assert [point.parameters["iodepth"] for point in result.points] == [1, 2, 4, 8]
    assert run.command == (
        f"hwdyno storage iodepth --path {simulated} --iodepth 1,2,4,8 --seed 3 --ceiling 'rated read 5 GB/s'"
    )
    assert run.findings and result.curves
    assert hwdyno.load(run.id) == hwdyno.load() == run and to_json(Store().load(run.id)) == to_json(run)


def test_each_command_gives_its_run(simulated: Path) -> None:
    shared: dict[str, Any] = {"seed": 1, "path": simulated}
    runs = {
        "run": hwdyno.run(only=["storage.grid", "memory.threads"], budget="1h", **shared),
        "memory": hwdyno.measure("memory", operation="read", threads=[1, 2], seed=1),
        "compute": hwdyno.measure("compute", "threads", seed=1),
        "network": hwdyno.measure("network", streams="1,2", zero_copy=False, server="192.0.2.7", seed=1),
        "together": hwdyno.measure("together", resources=["memory", "compute"], at=["memory=2", "compute=4"], **shared),
        "study": hwdyno.measure("study", "sata-ssd-queue", path=[simulated], budget="1h", seed=1),
    }
    for name, run in runs.items():
        assert run.command.startswith(f"hwdyno {name} ") and run.experiments, name
    assert [result.name for result in runs["run"].experiments] == ["storage.grid", "memory.threads"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: hwdyno.run(only="storrage"), "did you mean 'storage'"),
        (lambda: hwdyno.run("missing.toml"), "does not exist"),
        (lambda: hwdyno.run(nonsense=True), "unknown option nonsense"),
        (lambda: hwdyno.run(bugdet="1m"), "did you mean 'budget'"),
        (lambda: hwdyno.run(quiet="x"), "must be True or False"),
        (lambda: hwdyno.measure("storrage"), "did you mean 'storage'"),
        (lambda: hwdyno.measure("together", "storage"), "takes no test"),
        (lambda: hwdyno.measure("study"), "name one study"),
        (lambda: hwdyno.measure("object", "server"), "on the command line"),
        (lambda: hwdyno.measure("storage", iodpeth=4), "did you mean 'iodepth'"),
        (lambda: hwdyno.measure("storage", rw="randraed"), "did you mean 'randread'"),
        (lambda: hwdyno.measure("storage", json=True), "unknown option json"),
        (lambda: hwdyno.measure("storage", peers=3), "must be True or False"),
        (lambda: hwdyno.measure("storage", "job", "a.fio"), "on the command line"),
        (lambda: hwdyno.measure("network", "server"), "on the command line"),
        (lambda: hwdyno.measure("together", resources="storage"), "at least two"),
        (lambda: hwdyno.measure("study", "nothing"), "no study is called"),
        (lambda: hwdyno.measure("memory", seed="x"), "seed"),
    ],
)
def test_refused_command_is_user_error(call: Any, says: str, simulated: Path) -> None:
    with pytest.raises(hwdyno.UserError, match=says) as refused:
        call()
    assert isinstance(refused.value, hwdyno.HwdynoError) and "\n" not in str(refused.value)
    assert not (simulated / "home" / "runs").exists() or not list((simulated / "home" / "runs").glob("*.json"))


def parsed(text: str) -> ElementTree.Element:
    """The text as XML, which it is where everything in it is escaped."""
    return ElementTree.fromstring(f"<x>{text}</x>")


def test_run_and_curve_show_themselves() -> None:
    machine = SimulatedMachine.random(4)
    run = explain_run(make_run(machine, experiment(machine, "iodepth", [at(iodepth=2**k) for k in range(9)])))
    shown: Any = run
    html, svg = shown._repr_html_(), shown._repr_svg_()
    assert run.id in html and "<script" not in html
    card = scorecard(run)
    assert card.reason in unescape(html) and card.rows and all(row.value in html for row in card.rows)
    assert all(escape(todo.command) in html for todo in card.todo)
    assert len(html) < 50_000 and parsed(html) is not None
    assert svg in html and svg.startswith("<svg ") and svg.count("<circle") >= 9 and "ceiling " in svg
    curve: Any = run.experiments[0].curves[0]
    assert "ceiling " in curve._repr_svg_()
    assert "knee" in curve._repr_html_() and parsed(curve._repr_html_()) is not None
    assert curve._repr_svg_().count("<circle") >= 9, "the measured points"
    for load, value in curve.measured:
        assert f">{load:g}</td>" in curve._repr_html_() and format_quantity(value, curve.unit) in curve._repr_html_()
    assert [load for load, _ in curve.measured] == [2**k for k in range(9)]
    plain = {"floor": None, "knee": None, "best": None, "ceiling": None, "parameters": {}, "model": "none"}
    bare: Any = replace(curve, **plain, measured=())
    assert "no point" in bare._repr_svg_()
    empty: Any = replace(run, experiments=(), findings=())
    assert "no curve" in empty._repr_html_()


@pytest.mark.parametrize("name", hostile.RUNS)
def test_foreign_text_is_escaped_in_notebook(name: str) -> None:
    run: Any = hostile.RUNS[name]()
    texts = [run._repr_html_(), run._repr_svg_()]
    texts += [notebook.curve_html(curve) for result in run.experiments for curve in result.curves]
    for text in texts:
        assert "<script" not in text and not hostile.steers(text.replace("\n", ""))
        parsed(text)
