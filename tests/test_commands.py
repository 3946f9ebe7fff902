"""The command that a finding advises: what it takes of the Run's own command line and of other tools' figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.findings.commands import Typed, command_of, place_of, started, takable, typed_command
from hwdyno.machine import Machine
from hwdyno.words import Curve, ExperimentResult, Parameters
from made_experiment import made_experiment
from made_point import base, case_of, run_of


def result_of(resource: str, kernel: str = "", name: str = "x", fixed: Parameters | None = None) -> ExperimentResult:
    load = "accelerators" if resource == "training" else "iodepth"
    made = (f"{resource}.{name}", resource, "?", load, kernel, (base(parameters={load: 2}),))
    return made_experiment(*made, fixed=fixed or {})


@pytest.mark.parametrize(("line", "read"), [
    ("hwdyno storage --size=4G=x job", Typed(("hwdyno", "storage", "job"), (("size", "4G=x"),))),
    ("hwdyno s --json --size 4k --odd", Typed(("hwdyno", "s"), (("json", None), ("size", "4k"), ("odd", None)))),
    ("hwdyno f --seed 1 x -- fio --rw=read y",
     Typed(("hwdyno", "f", "x"), (("seed", "1"),), ("fio", "--rw=read", "y"))),
])  # fmt: skip
def test_command_line_is_read_as_typed(line: str, read: Typed) -> None:
    assert typed_command(line) == read


def test_options_are_chosen_and_quoted() -> None:
    command = Typed(("hwdyno", "storage"), (("seed", "1"), ("path", "/mnt/größe")))
    assert command.only({"seed", "1", "/mnt/größe"}).options == (("seed", "1"),)
    assert command.line == "hwdyno storage --seed 1 --path /mnt/größe"
    assert Typed(("a b",), ()).line == "'a b'"


BLOCKS, TRAINING = result_of("storage", "storage_blocks"), result_of("training", "training_loader")
BERT = result_of("training", "training_loader", fixed={"workload": "bert", "accelerator": "h100"})
CHECKPOINT = replace(TRAINING, declaration=replace(result_of("training").declaration, command="training checkpoint"))
AGAIN = "hwdyno training --accelerators 2 --workload bert --accelerator h100"


@pytest.mark.parametrize(("command", "result", "again"), [
    # A job file and SNIA's tests are repeated as a whole.
    ("hwdyno storage job x.fio --out o", BLOCKS, "hwdyno storage job x.fio"),
    ("hwdyno storage snia iops --out o", BLOCKS, "hwdyno storage snia iops"),
    *((command, BLOCKS, "hwdyno storage --iodepth 2") for command in ("hwdyno storage x job", "hwdyno run snia")),
    # A training keeps the options of its own command.
    ("hwdyno training ++a=1 --keep --out o", TRAINING, "hwdyno training ++a=1 --keep --accelerators 2"),
    ("hwdyno training --workload my.yaml", BERT, "hwdyno training --workload my.yaml --accelerators 2"),
    ("hwdyno training --workload unet3d", BERT, AGAIN), ("hwdyno run --keep", BERT, AGAIN),
    ("hwdyno training checkpoint --keep", CHECKPOINT, "hwdyno training checkpoint --keep --accelerators 2"),
    ("hwdyno run --keep", CHECKPOINT, "hwdyno training checkpoint --accelerators 2"),
    # A scenario names its storage.
    ("hwdyno training --path fast=/data", result_of("training", name="x@fast", fixed={"path": "/data"}),
     "hwdyno training --accelerators 2 --path fast=/data"),
    ("hwdyno storage --path fast=/data", result_of("storage", name="x@fast", fixed={"path": "/data"}),
     "hwdyno storage --iodepth 2 --path /data"),
])  # fmt: skip
def test_point_is_repeated_as_it_was_started(command: str, result: ExperimentResult, again: str) -> None:
    run = replace(run_of(base()), command=command, experiments=(result,))
    assert command_of(run, result, result.points[0].parameters, {}) == again
    if result.name.endswith("@fast"):
        named = replace(case_of(result), run=run).named(f"{result.resource} grid")
        assert typed_command(named).values("path") == ["/data"]


@pytest.mark.parametrize(("files", "each", "samples"), [(4, 6, ["24"]), (None, 6, []), (0, 6, []), (4, None, [])])
def test_generated_data_has_samples_of_all_files(files: int | None, each: int | None, samples: list[str]) -> None:
    fixed = {"files": files, "samples_per_file": each, "path": "/data/hwdyno-set"}
    result = replace(result_of("training", "training_loader"), fixed=fixed)
    found = command_of(replace(run_of(base()), command="hwdyno run"), result, {"accelerators": 2}, {})
    assert typed_command(found).values("samples") == samples


@pytest.mark.parametrize(("hosts", "command", "clients", "line"), [
    (1, "hwdyno storage", 4, "hwdyno storage"), (2, "fio x", None, "fio x"),
    (2, "hwdyno storage", None, "mpirun -n 2 hwdyno storage"), (2, "hwdyno run", 4, "mpirun -n 4 hwdyno run"),
])  # fmt: skip
def test_launcher_starts_several_hosts(hosts: int, command: str, clients: int | None, line: str) -> None:
    run = replace(run_of(base()), machines=(Machine(),) * hosts, job={"launcher": "mpi"})
    assert started(run, command, clients) == line


@pytest.mark.parametrize(("resource", "path", "place"), [
    ("storage", "/data/hwdyno.data", "/data/hwdyno.data"), ("training", "/data/hwdyno-set", "/data"),
    ("storage", "/data/hwdyno-run-1/file", "/data"), ("training", "/data/other", "/data/other"),
])  # fmt: skip
def test_path_is_the_folder_around_made_files(resource: str, path: str, place: str) -> None:
    assert place_of(replace(run_of(base()), command="hwdyno run"), result_of(resource, fixed={"path": path})) == place


@pytest.mark.parametrize(("resource", "foreign", "taken"), [
    # A count is whole, and a time and a rate need not be.
    ("storage", {"iodepth": 1.5, "rwmixread": 70.5, "numjobs": 0.95, "runtime": 1.5}, {"runtime": 1.5}),
    ("storage", {"iodepth": 2.0, "direct": 1.2}, {"iodepth": 2.0}), ("memory", {"threads": 1.5}, {}),
    ("network", {"streams": 1.5, "rate": 1000.5}, {"rate": 1000.5}),
    # A round trip has no streams.
    ("network", {"message": 64, "protocol": "tcp", "streams": 4, "block": 65536, "rate": 1e6},
     {"message": 64, "protocol": "tcp"}),
    ("network", {"streams": 4, "block": 65536, "rate": 1e6}, {"streams": 4, "block": 65536, "rate": 1e6}),
])  # fmt: skip
def test_foreign_figures_are_taken_where_allowed(resource: str, foreign: dict[str, Any], taken: dict[str, Any]) -> None:
    assert takable(result_of(resource), foreign) == taken


@pytest.mark.parametrize(("at", "depths"), [(-1, "1,4"), (0, "1"), (1, "4")])
def test_curve_is_repeated_at_all_loads(at: int, depths: str) -> None:
    points = tuple(base(parameters={"rw": "randread", "iodepth": depth}) for depth in (1, 4))
    curve = Curve(series={"rw": "randread"}, load="iodepth", points=(0, 1), unit="operations/s", model="")
    case = replace(case_of(replace(result_of("storage", "storage_blocks"), points=points), at), curve=curve)
    assert typed_command(case.command_alone()).values("iodepth") == [depths]


@pytest.mark.parametrize(("free_bytes", "size"), [(1 << 30, []), (None, ["64G"]), (20 << 30, [str(18 << 30)])])
def test_larger_file_is_advised_where_there_is_room(free_bytes: int | None, size: list[str]) -> None:
    case = case_of(run_of(base(parameters={"rw": "read"})).experiments[0])
    storage = replace(case.run.machine.storage, free_bytes=free_bytes)
    run = replace(case.run, machines=(replace(case.run.machine, storage=storage),))
    assert typed_command(replace(case, run=run).command_alone(size="64G")).values("size") == size
