"""A scenario prepares, measures and cleans up: the protocol on a simulated host, and how scenarios are declared."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno.cli.main import main
from hwdyno.cli.options import add_options
from hwdyno.cli.perform import perform_scenario
from hwdyno.measure import experiments, plan, scenarios, workspace
from hwdyno.measure.hosts import Host
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.runner.allowance import Allowance
from hwdyno.measure.runner.observers import Silent
from hwdyno.measure.runner.point import PointInWork
from hwdyno.measure.scenarios import Interrupted, Preparation, Scenario
from hwdyno.measure.scenarios.affordable import uses
from hwdyno.measure.scenarios.preparation import FolderOfPoints, Says
from hwdyno.measure.scenarios.scenario import Bench, together
from hwdyno.model.words import Run, UserError
from hwdyno.system.store import Store, new_id
from scenario_commands import place as place
from simulation.host import SimulatedHost, SimulatedMachine

HOST = SimulatedHost(SimulatedMachine())


@dataclass(frozen=True, kw_only=True, eq=False)
class Noted(Preparation):
    """Says when it is made and when it is removed."""

    name: str
    notes: list[str]
    fails: BaseException | None = None
    is_here: bool = True

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        self.notes.append(f"make {self.name}")
        try:
            if self.fails is not None:
                raise self.fails
            yield self.is_here
        finally:
            self.notes.append(f"remove {self.name}")


class Slow(Preparation):
    """Takes its time."""

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        time.sleep(0.05)
        yield True


def planned(tmp_path: Path, names: Sequence[str] = ("memory.threads",), **how: Any) -> plan.Plan:
    chosen = [(experiment, {}) for name in names for experiment in experiments.find(name)]
    return plan.build(chosen, HOST, path=tmp_path, seed=1, **how)


def make_scenario(tmp_path: Path, notes: list[str], **second: Any) -> Scenario:
    first = Noted(name="a", notes=notes, where=tmp_path, bytes=1000, description="thing: a")
    other = Noted(name="b", notes=notes, where=tmp_path, bytes=500, description="thing: b", **second)
    return Scenario(plan=planned(tmp_path), preparations=(first, other))


def silent(_: str) -> None:
    """A progress that prints nothing, for tests that look at files instead."""


def test_what_is_made_is_removed_in_reverse_after_the_points(tmp_path: Path) -> None:
    notes: list[str] = []
    with make_scenario(tmp_path, notes).ready(HOST, silent) as ready:
        assert ready.points
        notes.append("points")
    assert notes == ["make a", "make b", "points", "remove b", "remove a"]


@pytest.mark.parametrize(
    "error", [UserError("no room"), Interrupted("while b was made"), KeyboardInterrupt(), OSError(5, "x")]
)
def test_a_preparation_that_fails_leaves_nothing_of_those_before_it(tmp_path: Path, error: BaseException) -> None:
    notes: list[str] = []
    with pytest.raises(type(error)), make_scenario(tmp_path, notes, fails=error).ready(HOST, silent):
        pytest.fail("nothing may be measured")
    assert notes == ["make a", "make b", "remove b", "remove a"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_an_error_among_the_points_removes_everything(tmp_path: Path, error: BaseException) -> None:
    notes: list[str] = []
    with pytest.raises(type(error)), make_scenario(tmp_path, notes).ready(HOST, silent):
        raise error
    assert notes[-2:] == ["remove b", "remove a"]


def test_experiments_whose_preparation_is_not_to_be_had_are_left_out(tmp_path: Path) -> None:
    made = planned(tmp_path, ("memory.threads", "compute.threads"))
    absent = Noted(name="a", notes=[], where=tmp_path, is_here=False, experiments=frozenset({"compute.threads"}))
    with Scenario(plan=made, preparations=(absent,)).ready(HOST, silent) as ready:
        assert [planned_experiment.experiment.name for planned_experiment in ready.experiments] == ["memory.threads"]


def reading(tmp_path: Path, sizes: dict[str, int], budget_s: float | None) -> tuple[Scenario, list[str]]:
    """Experiments that each read a file of their own, made at 2 GB/s."""
    made, notes = planned(tmp_path, ("memory.threads", "compute.threads", "memory.levels"), budget_s=budget_s), []
    with_files, preparations = [], []
    for experiment in made.experiments:
        file = tmp_path / experiment.experiment.name
        size = sizes.get(experiment.experiment.name, 0)
        with_files.append(
            replace(experiment, fixed={**experiment.fixed, "path": str(file)} if size else experiment.fixed)
        )
        preparations.append(Noted(name=experiment.experiment.name, notes=notes, where=file, bytes=size))
    kept = tuple(preparation for preparation in preparations if preparation.bytes)
    return Scenario(plan=replace(made, experiments=tuple(with_files)), preparations=kept), notes


@pytest.mark.parametrize(
    ("gigabytes", "budget_s", "made"),
    [
        ({"memory.threads": 30, "compute.threads": 2}, 12.0, ["compute.threads"]),
        ({"memory.threads": 30, "compute.threads": 2}, 60.0, ["memory.threads", "compute.threads"]),
        ({"memory.threads": 30, "compute.threads": 2}, None, ["memory.threads", "compute.threads"]),
        ({"memory.threads": 8, "compute.threads": 20, "memory.levels": 6}, 12.0, ["memory.threads", "memory.levels"]),
        # Some answer is better than none, so the least of them is made.
        ({"memory.threads": 90, "compute.threads": 80, "memory.levels": 99}, 12.0, ["compute.threads"]),
    ],
)
def test_nothing_is_made_for_a_part_that_the_budget_skips(
    tmp_path: Path, gigabytes: dict[str, int], budget_s: float | None, made: list[str]
) -> None:
    sizes = {name: size * 10**9 for name, size in gigabytes.items()}
    scenario, notes = reading(tmp_path, sizes, budget_s)
    messages: list[str] = []
    with scenario.ready(HOST, messages.append) as ready:
        assert notes == [] and ready.making is not None
        assert [ready.making.make(experiment, None, silent) for experiment in ready.experiments] == [""] * len(
            ready.experiments
        )
        assert notes == [f"make {name}" for name in made] and ready.making.unmade_s(sizes) == 0
    left_out = set(sizes) - set(made)
    assert {planned.experiment.name for planned in ready.experiments} == {
        planned.experiment.name for planned in scenario.plan.experiments
    } - left_out
    assert all(name in messages[0] for name in left_out) and ready.left_out == tuple(messages)
    assert {preparation.where.name for preparation in scenario.prepares()} == set(made)
    assert {line.experiment for line in scenario.points(2e9)} & set(sizes) == set(made)


def test_a_folder_in_a_store_is_used_by_the_points_below_it(tmp_path: Path) -> None:
    experiment = planned(tmp_path, ("memory.threads",)).experiments[0]
    folder = Noted(name="folder", notes=[], where=Path("s3://bench/data"), bytes=1)
    used = {
        place: uses(replace(experiment, fixed={**experiment.fixed, "path": place}), folder)
        for place in ("s3://bench/data", "s3://bench/data/train", "s3://bench/database", "/bench/data")
    }
    assert [place for place, is_used in used.items() if is_used] == ["s3://bench/data", "s3://bench/data/train"]


def test_what_is_made_slower_than_planned_costs_those_behind_it(tmp_path: Path) -> None:
    scenario, notes = reading(tmp_path, {"memory.threads": 4 * 10**9, "compute.threads": 4 * 10**9}, 20.0)
    with scenario.ready(HOST, silent) as ready:
        first, second, _ = ready.experiments
        making = ready.making
        both = {"memory.threads", "compute.threads"}
        assert making is not None and making.unmade_s(both) == 4.0 and making.unmade_s({"memory.levels"}) == 0
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(time, "monotonic", iter(range(0, 10_000, 7)).__next__)
            assert making.make(first, 12.0, silent) == ""
        assert making.unmade_s(both) == 7.0, "what took 7 s instead of 2 s will take as long again"
        points = {name: [PointInWork(0, {}, first.declaration)] for name in both}
        assert Allowance(ready, points).left_s == pytest.approx(20.0 - 7.0 - ready.ending_s, abs=0.5)
        points["compute.threads"][0].done = True
        assert Allowance(ready, points).left_s == pytest.approx(20.0 - ready.ending_s, abs=0.5)
        assert "compute.threads" in making.make(second, 0.1, silent)
    assert notes == ["make memory.threads", "remove memory.threads"]


class Noting(SimulatedHost):
    """Notes which file each reading reads."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(SimulatedMachine())
        self.notes = notes

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        known = dict(parameters)
        if path := known.pop("path", ""):
            self.notes.append(f"read {Path(path).name}")
        return super().run(kernel, known)


def measured(tmp_path: Path, scenario: Scenario, notes: list[str]) -> Run:
    store, host = Store(tmp_path / "store"), Noting(notes)
    with scenario.ready(host, silent) as ready:
        return scenario.measure(ready, Bench(host=host, store=store, run_id=new_id(), progress=Silent()))


def test_what_an_experiment_reads_is_made_just_before_it(tmp_path: Path) -> None:
    scenario, notes = reading(tmp_path, {"memory.threads": 10**9, "compute.threads": 10**9}, None)
    run = measured(tmp_path, scenario, notes)
    order = [note for note, before in zip(notes, ["", *notes], strict=False) if note != before]
    assert order == [
        "make memory.threads", "read memory.threads", "make compute.threads", "read compute.threads",
        "remove compute.threads", "remove memory.threads",
    ]  # fmt: skip
    assert not run.degraded and len(run.experiments) == 3


def failing(scenario: Scenario, error: BaseException, notes: list[str], at: int = 1) -> Scenario:
    """The scenario with one thing that cannot be made."""
    preparations = list(scenario.preparations)
    replaced = preparations[at]
    preparations[at] = Noted(name=replaced.where.name, notes=notes, where=replaced.where, bytes=1000, fails=error)
    return replace(scenario, preparations=tuple(preparations))


def test_what_cannot_be_made_costs_its_own_experiment_alone(tmp_path: Path) -> None:
    scenario, notes = reading(tmp_path, {"memory.threads": 10**9, "compute.threads": 10**9}, None)
    run = measured(tmp_path, failing(scenario, UserError("the disk is full"), notes), notes)
    points = {result.name: len(result.points) for result in run.experiments}
    assert points["compute.threads"] == 0 and points["memory.threads"] and points["memory.levels"]
    assert run.degraded == ("compute.threads: the disk is full",)
    assert "read compute.threads" not in notes


def test_an_interrupt_while_something_is_made_keeps_what_was_measured(tmp_path: Path) -> None:
    scenario, notes = reading(tmp_path, {"memory.threads": 10**9, "compute.threads": 10**9}, None)
    run = measured(tmp_path, failing(scenario, Interrupted("interrupted while b was made"), notes), notes)
    assert "interrupted while b was made" in run.degraded and any("interrupted" in why for why in run.degraded[1:])
    assert [result.name for result in run.experiments if result.points] == ["memory.threads"]
    assert notes[-2:] == ["remove compute.threads", "remove memory.threads"]
    with pytest.raises(Interrupted, match="while a was made"):
        measured(tmp_path, failing(scenario, Interrupted("interrupted while a was made"), notes, at=0), notes)
    assert len(list(Store(tmp_path / "store").history())) == 1


def test_preparing_time_is_not_points(tmp_path: Path) -> None:
    made = Scenario(plan=planned(tmp_path, budget_s=100.0), preparations=(Slow(where=tmp_path),))
    with made.ready(HOST, silent) as ready:
        assert ready.budget_s == 100.0 and 0.05 <= ready.prepared_s < 5
        left_s = Allowance(replace(ready, prepared_s=30.0), {}).left_s
        assert left_s == pytest.approx(70.0, abs=1.0)


def test_a_scenario_is_measured_and_reported_as_any_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    notes: list[str] = []
    made = replace(
        make_scenario(tmp_path, notes),
        remarks=("it takes memory",),
        summary=lambda run: [f"{len(run.experiments)} done"],
    )
    parser = argparse.ArgumentParser()
    add_options(parser)
    assert perform_scenario(made, parser.parse_args(["--dry-run"]), HOST) == 0
    printed = capsys.readouterr()
    assert "thing: a: writes 1 kB, at least 0.1 s" in printed.out and "1.5 kB written" in printed.out.splitlines()[-1]
    assert printed.err == "it takes memory\n" and not notes
    assert perform_scenario(made, parser.parse_args(["--no-page"]), HOST) in {0, 3}
    assert "1 done" in capsys.readouterr().out
    assert notes == ["make a", "make b", "remove b", "remove a"]
    prepared = replace(made, is_prepared_only=True)
    assert perform_scenario(prepared, parser.parse_args(["--no-page", "--quiet"]), HOST) == 0
    assert len(list(Store(None).history())) == 1


def test_several_as_one_have_the_preparations_of_all_and_no_name_twice(tmp_path: Path) -> None:
    notes: list[str] = []
    first = make_scenario(tmp_path, notes)
    second = replace(first, plan=planned(tmp_path, ("compute.threads",)), needs=("need: much",))
    both = together((first, second))
    assert [planned.experiment.name for planned in both.plan.experiments] == ["memory.threads", "compute.threads"]
    assert len(both.preparations) == 2 and both.needs == ("need: much",)
    with pytest.raises(UserError, match="named twice"):
        together((first, first))


def test_made_empty_folder_is_removed(tmp_path: Path) -> None:
    made = FolderOfPoints(where=tmp_path / "hwdyno-checkpoint")
    with made.make_available(HOST, silent):
        assert made.where.is_dir()
    assert not made.where.exists()
    with made.make_available(HOST, silent):
        (made.where / "checkpoint-0.hwdyno").write_text("stays")
    assert (made.where / "checkpoint-0.hwdyno").read_text() == "stays"
    (tmp_path / "users").mkdir()
    users = FolderOfPoints(where=tmp_path / "users")
    with users.make_available(HOST, silent):
        pass
    assert users.where.is_dir()


def test_the_scratch_of_a_dead_run_goes_with_the_next_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    script = (
        "import os, pathlib; from hwdyno.measure.workspace import ScratchDirectory\n"
        f"with ScratchDirectory(pathlib.Path({str(tmp_path)!r})) as made:\n"
        "    (made.folder / 'set').mkdir(); (made.folder / 'set' / 'file').write_text('x'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert len(list(tmp_path.glob("hwdyno-scratch-*/made/set/file"))) == 1
    with workspace.ScratchDirectory(tmp_path) as living:
        assert list(tmp_path.iterdir()) == [living.folder.parent]
        assert workspace.clean_stale(tmp_path) == []
        (living.folder / "file").write_text("x")
    assert not list(tmp_path.iterdir())


# --- declarations


def test_every_scenario_declares_itself_once() -> None:
    kinds = scenarios.all_kinds()
    assert {"training", "checkpoint", "kv_cache", "vector_search", "study", "snia", "fio_job"} <= {
        k.name for k in kinds
    }
    names = [(kind.command, option.name) for kind in kinds for option in kind.options]
    assert len(set(names)) == len(names)
    kernels = Local().kernels()
    for kind in kinds:
        known = {option.name for other in scenarios.of_command(kind.command) for option in other.options}
        assert set(kind.brief) <= known
        if kind.kernel:
            declared = set(kernels[kind.kernel].names)
            assert set(kind.hidden) - {"interval_s"} <= declared
    mine = {name for kind in kinds for name in kind.experiments}
    assert mine <= {experiment.name for experiment in experiments.all()}
    assert mine >= {
        experiment.name for experiment in experiments.all() if experiment.resource in {"training", "inference"}
    }


def test_a_groups_word_chooses_its_experiments() -> None:
    named = [experiment.name for experiment, _ in plan.select(["inference"], HOST)]
    assert {"inference.kv_cache", "inference.vector_search"} <= set(named)
    assert [experiment.name for experiment, _ in plan.select(["training"], HOST)] == [
        "training.accelerators", "training.client", "training.checkpoint",
    ]  # fmt: skip
    assert all(experiment.default for experiment, _ in plan.select(["network"], HOST))
    assert not any(experiment.resource == "training" for experiment, _ in plan.select(None, HOST))


# A given capacity: the default is half of the free space, which other tests change meanwhile.
@pytest.mark.parametrize("option", ["--kv-cache llama3.1-8b --capacity 1G", "--vector-search=diskann --vectors 500"])
def test_old_spelling_names_new_one(option: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*option.split(), "--path", str(place), "--dry-run", "--quiet"]
    assert main(["inference", *words]) == 0
    new = capsys.readouterr()
    assert main(["training", *words]) == 0
    old = capsys.readouterr()
    assert old.out == new.out and old.out
    moved = option.replace("=", " ").split()[0]
    (line,) = set(old.err.splitlines()) - set(new.err.splitlines())
    assert f"training {moved} is now `inference {moved}`" in line


@pytest.mark.parametrize("name", ["kv_cache", "vector_search"])
def test_an_experiments_old_name_selects_it_and_names_the_new_one(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--only", f"training.{name}", "--path", str(place), "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert f"training.{name} is now inference.{name}; the old name goes with the next release\n" in shown.err
    assert f"inference.{name}" in shown.out
    file = place / "plan.toml"
    file.write_text(f'path = "{place}"\n[[experiment]]\nname = "training.{name}"\n')
    assert main(["run", str(file), "--dry-run"]) == 0
    assert f"training.{name} is now inference.{name}" in capsys.readouterr().err


ONE_MORE = '''
"""Spins for a while beside a file."""
import contextlib
from dataclasses import dataclass
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.scenarios import Kind, Option, Preparation, Scenario
from hwdyno.measure.sweep import Sweep


@dataclass(frozen=True, kw_only=True, eq=False)
class File(Preparation):
    @contextlib.contextmanager
    def made(self, host, says):
        self.where.write_bytes(bytes(self.bytes))
        try:
            yield True
        finally:
            self.where.unlink()


def make(request, host):
    times = tuple(float(text) for text in request.options["spin"].split(","))
    spin = Experiment(name="training.spin", asks="How fast?", kernel="idle", load="runtime", sweep=Sweep(runtime=times))
    file = File(description="file: to spin beside", where=request.places[0][1] / "spin", bytes=4096)
    return Scenario(plan=request.plan([(spin, {})], host), preparations=(file,), summary=lambda run: ["spun"])


SPIN = Option("--spin", "how long", "TIMES")
KIND = Kind(name="spin", command="training", make=make, options=(SPIN,), chosen_by="spin")
'''


@pytest.mark.machine
def test_one_more_scenario_is_one_file(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = place.parent / "more"
    folder.mkdir()
    (folder / "spin.py").write_text(ONE_MORE)
    monkeypatch.setattr(scenarios, "__path__", [*scenarios.__path__, str(folder)])
    scenarios.all_kinds.cache_clear()
    try:
        assert main(["training", "--help-all"]) == 0
        assert "--spin TIMES" in capsys.readouterr().out
        words = ["training", "--spin", "0.01,0.02", "--budget=1s", "--path", str(place)]
        assert main([*words, "--dry-run"]) == 0
        assert "file: to spin beside: writes 4.1 kB" in capsys.readouterr().out
        assert main([*words, "--no-page", "--quiet"]) in {0, 3}
        assert "spun" in capsys.readouterr().out.splitlines()
        assert not list(place.iterdir())
    finally:
        scenarios.all_kinds.cache_clear()
        sys.modules.pop("hwdyno.measure.scenarios.spin", None)


@pytest.mark.parametrize(
    "path", sorted(Path(scenarios.__file__).parents[1].glob("cli/*.py")), ids=lambda path: path.stem
)
def test_command_line_makes_no_files(path: Path) -> None:
    text = path.read_text()
    for word in ("rmtree", ".unlink(", ".rmdir(", "training_generate", "inference_vector_index", "storage_layout"):
        assert word not in text
