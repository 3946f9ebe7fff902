"""A scenario prepares, measures and cleans up: the protocol on a simulated host, and the bytes that a dry run names."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from here import shortly
from hwdyno.cli.main import main, make_parser
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform_scenario
from hwdyno.formats import data_set, workload
from hwdyno.measure import engine, experiments, plan, scenarios, workspace
from hwdyno.measure.hosts import Host
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.runner.allowance import Allowance
from hwdyno.measure.scenarios import Interrupted, Preparation, Scenario
from hwdyno.measure.scenarios.preparation import FolderOfPoints, Says
from hwdyno.measure.scenarios.request import bytes_below
from hwdyno.measure.scenarios.scenario import together
from hwdyno.model.units import format_bytes
from hwdyno.model.words import UserError
from hwdyno.system.store import Store
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


@pytest.mark.parametrize("option", ["--kv-cache llama3.1-8b", "--vector-search=diskann --vectors 500"])
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


# --- the bytes that a dry run names


SIZES = [(50_000.0, 9_000.0, 1), (2_000.0, 0.0, 40), (200_000.0, 0.0, 3)]


@pytest.mark.machine
@pytest.mark.parametrize("form", ["npz", "npy", "tfrecord", "hdf5", "jpeg", "png", "csv", "bin", "parquet"])
@pytest.mark.parametrize(("record", "spread", "samples"), SIZES)
def test_data_sets_bytes_are_known_before(
    form: str, record: float, spread: float, samples: int, tmp_path: Path
) -> None:
    kind = replace(
        workload.find("cosmoflow", "a100"), format=form, files=6, record_bytes=record, record_bytes_stdev=spread,
        samples_per_file=1 if form in {"jpeg", "png"} else samples, row_group=10, columns=4 if form == "parquet" else 1,
    )  # fmt: skip
    engine.run("training_generate", {**kind.layout, "path": str(tmp_path)})
    assert data_set.file_bytes(kind) == pytest.approx(bytes_below(tmp_path), rel=0.01)


def test_a_data_set_of_many_files_costs_no_memory_to_count() -> None:
    kind = workload.find("unet3d", "a100").with_samples(10**9)
    assert data_set.file_bytes(kind) == pytest.approx(kind.bytes, rel=0.02)


class Watched:
    """The most bytes that lay below a folder, looked at all the time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.most = folder, 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._ends.is_set():
            with contextlib.suppress(OSError):  # A file went while it was looked at.
                self.most = max(self.most, bytes_below(self.folder))
            time.sleep(0.002)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def choose_command(words: Sequence[str]) -> str:
    """The command that has these options."""
    return "inference" if {"--kv-cache", "--vector-search"} & {*words} else "training"


def prepared(*words: str) -> dict[str, Preparation]:
    """What a command's dry run counts, by the first words of its line."""
    command = choose_command(words)
    request = make_request(make_parser(command).read([*words]), command, scenarios.of_command(command))
    scenario = scenarios.make_scenario(request, Local())
    return {preparation.description.partition(":")[0]: preparation for preparation in scenario.prepares()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


COMMANDS = {
    "data": [
        *("--workload", "cosmoflow", "--accelerator", "a100", "--samples", "24", "--accelerators", "1"),
        *("--runtime", "0.2", "--epochs", "1"),
    ],
    "index": ["--vector-search", "diskann", "--vectors", "1500", "--dim", "1000", "--threads", "1", "--runtime", "0.1"],
    "checkpoints": ["--checkpoint", "llama3-8b", "--scale", "0.0005", "--ranks", "4"],
    "KV cache": [
        *("--kv-cache", "llama3.1-8b", "--scale", "0.002", "--users", "2", "--capacity", "16M"),
        *("--think", "0", "--runtime", "1"),
    ],
}


@pytest.mark.machine
@pytest.mark.parametrize("name", COMMANDS)
def test_a_dry_run_names_the_bytes_that_the_run_then_writes(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*COMMANDS[name], "--path", str(place)]
    made = prepared(*words)
    assert main([choose_command(words), *words, "--dry-run"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{name}:"))
    assert format_bytes(made[name].bytes) in line and not list(place.iterdir())
    total = sum(preparation.bytes for preparation in made.values())
    assert total >= made[name].bytes > 0 and made[name].seconds(1e9) >= 0
    with Watched(place) as watched:
        assert main([choose_command(words), *words, "--no-page", "--quiet", "--json"]) in {0, 3}
    if made[name].is_limit:
        marks = 512  # The mark of the folder and the lock of the directory in it, less than 256 B each.
        assert 0 < watched.most <= total + marks
    else:
        assert watched.most == pytest.approx(total, rel=0.01)
    assert not list(place.iterdir())


@pytest.mark.machine
@pytest.mark.parametrize("kind", ["diskann", "hnsw", "ivf"])
def test_an_indexs_bytes_are_known_before(kind: str, place: Path) -> None:
    words = ["--vector-search", kind, "--vectors", "6000", "--dim", "96", "--path", str(place), "--generate"]
    size = prepared(*words)["index"].bytes
    assert main([choose_command(words), *words, "--quiet"]) == 0
    assert bytes_below(place) == pytest.approx(size, rel=0.01)
    assert prepared(*words)["index"].bytes == 0, "it is there"


@pytest.mark.machine
def test_what_is_there_of_a_data_set_is_not_counted_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*COMMANDS["data"], "--path", str(place), "--no-plain"]
    whole = prepared(*words)["data"].bytes
    assert main(["training", *words, "--generate", "--quiet"]) == 0
    assert prepared(*words)["data"].bytes < 0.01 * whole
    next((place / "hwdyno-cosmoflow-24" / "train").iterdir()).unlink()
    assert prepared(*words)["data"].bytes == pytest.approx(whole / 24, rel=0.2)


@pytest.mark.machine
def test_journal_is_named_with_its_bytes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = place.parent / "journal"
    words = ["--rw", "randwrite", "--bs", "4k", "--numjobs", "2", "--size", "4M", "--journal", str(journal)]
    words += ["--ioengine=psync", "--direct=0", "--iodepth=1", "--runtime=50ms", "--budget=1s", "--path", str(place)]
    words += ["--verify", "crc32c"]
    assert main(["storage", *words, "--dry-run"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("journal:"))
    assert str(journal) in line and not journal.exists()
    assert main(["storage", *words, "--no-page", "--quiet"]) in {0, 3}
    size = (1024 + 2 * 8 + 2 * (4 << 20) // 4096) * 8
    assert journal.stat().st_size == size and f"writes {format_bytes(size)}" in line


# --- as a part of ``hwdyno run``


SMALL = """
path = "{path}"
budget = "60s"
[[experiment]]
name = "training.accelerators"
options = {{ workload = "cosmoflow", accelerator = "a100", samples = 8 }}
axes = {{ accelerators = "1,2" }}
[[experiment]]
name = "training.checkpoint"
options = {{ scale = 0.0001, ranks = "2" }}
[[experiment]]
name = "inference.vector_search"
axes = {{ vectors = "500", dim = "24", queries = "20", threads = "1" }}
[[experiment]]
name = "inference.kv_cache"
options = {{ scale = 0.0005 }}
axes = {{ users = "1", capacity = "16M", think = "0" }}
[[experiment]]
name = "compute.threads"
"""


@pytest.mark.machine
def test_plan_file_mixes_scenarios_and_experiments(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], runtime_s=0.1, repeats_max=3))
    file = place.parent / "plan.toml"
    file.write_text(SMALL.format(path=place))
    (place / "mine").write_text("stays")
    assert main(["run", str(file), "--dry-run", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "data: 8 samples of cosmoflow" in out and "index: diskann of 500 vectors" in out
    assert "checkpoints: 3" in out and "at most 16.8 MB at a time, written by its points" in out
    assert [path.name for path in place.iterdir()] == ["mine"]
    assert main(["run", str(file), "--quiet", "--json", "--no-page"]) in {0, 3}
    run = json.loads(capsys.readouterr().out)
    named = {experiment["name"]: experiment for experiment in run["experiments"]}
    assert list(named) == [
        "training.cosmoflow.a100", "storage.pattern.cosmoflow", "training.checkpoint.llama3-8b",
        "inference.vector_search.diskann", "inference.kv_cache.llama3.1-8b", "compute.threads",
    ]  # fmt: skip
    assert all(experiment["points"] for experiment in named.values())
    assert [point["parameters"]["accelerators"] for point in named["training.cosmoflow.a100"]["points"]] == [1, 2]
    assert [path.name for path in place.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "training.accelerators"\noptions = { samplez = 3 }', "training has no option 'samplez'"),
        ('name = "storage.grid"\noptions = { samples = 3 }', "storage.grid takes no options"),
        ('name = "training.checkpoint"\noptions = { checkpoint = "llama" }', "no checkpoint is called 'llama'"),
        ('name = "training.checkpoint"\noptions = { scale = "much" }', "scale = 'much' is of the wrong type"),
        ('name = "training.client"\noptions = { keep = 1 }', "keep = 1 is of the wrong type"),
        ('name = "training.client"\noptions = { samples = [4, "x"] }', "samples"),
        ('name = "inference.kv_cache"\naxes = { epochs = 3 }', "has no parameter 'epochs'"),
    ],
)
def test_what_is_wrong_in_a_plan_file_is_one_line(
    text: str, says: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "plan.toml").write_text(f'path = "{place}"\n[[experiment]]\n{text}\n')
    assert main(["run", str(place / "plan.toml")]) == 2
    printed = capsys.readouterr()
    assert says in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert [path.name for path in place.iterdir()] == ["plan.toml"]


@pytest.mark.machine
def test_run_only_names_resources_and_writes_nothing_in_a_dry_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--only", "training,inference,network", "--path", str(place), "--dry-run", "--quiet"]) == 0
    out = capsys.readouterr().out
    for words in (
        "training.cosmoflow.h100",
        "inference.vector_search.diskann",
        "network.",
        "data: ",
        "index: ",
        "KV cache: ",
    ):
        assert words in out
    assert not list(place.iterdir())
    assert main(["run", "--only", "training.client", "--path", str(place), "--dry-run", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "training.client.cosmoflow" in out and "storage.pattern" not in out and "training.cosmoflow" not in out


@pytest.mark.machine
@pytest.mark.parametrize("at", shortly(1, "measuring", "generating"))
def test_ctrl_c_leaves_nothing_of_a_run(at: str, place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hwdyno", "run", "--only", "training", "--path", str(place), "--json", "--no-page"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    until = "generating" if at == "generating" else "training.cosmoflow"
    line = next(line for line in process.stderr if until in line)
    assert line
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert not list(place.iterdir())
    if at == "measuring":
        assert json.loads(out)["interrupted"] is True


@pytest.mark.machine
def test_ctrl_c_while_an_index_is_built_leaves_nothing(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hwdyno", "inference", "--vector-search", "diskann", "--vectors", "200000", "--path",
         str(place)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "building a diskann index" in process.stderr.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted while the index was built" in err
    assert not list(place.iterdir())
