"""What a rule's case reads off a point, how it prints figures, and the command that it advises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings.commands import Typed, add_launcher, find_place, make_command, takable, typed_command
from hwdyno.explain.findings.rule import Case, contrast, quantity
from hwdyno.explain.findings.summary import add_caution
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Concurrency
from hwdyno.model.words import Curve, ExperimentResult, HostShare, Latency, Parameters, Stream, Value
from made_experiment import made_experiment
from made_point import base, case_of_base, make_case, make_run


@pytest.mark.parametrize(("first", "second", "words"), [
    ("0.94 µs", "0.25 µs", "0.94 → 0.25 µs"), ("1.04 µs", "9.96 µs", "1.0 → 10.0 µs"),
    ("10.4 µs", "99.6 µs", "10 → 100 µs"), ("10.4 µs", "10.6 µs", "10.4 → 10.6 µs"),
    ("940 ns", "1.3 µs", "940 ns → 1.3 µs"), ("1,240 µs", "10.0 µs", "1,240 → 10 µs"),
])  # fmt: skip
def test_two_quantities_differ_in_their_digits(first: str, second: str, words: str) -> None:
    assert contrast(first, second) == words


@pytest.mark.parametrize(("value", "words"), [
    (Value(43.3e9, "bytes/s", 22e9, 64.6e9), "43.3 GB/s ±49%"),
    (Value(2.08e9, "bytes/s", 1.82e9, 2.69e9), "2,080 MB/s ±29%"),
    (Value(43.3e9, "bytes/s", 20e9, 66.6e9), "43.3 GB/s (20 to 67 GB/s)"),
    (Value(43.3e9, "bytes/s", 12e9, 95e9), "43.3 GB/s (12 to 95 GB/s)"),
    (Value(43.3e9, "bytes/s", 0.0, 135e9), "43.3 GB/s (few repeats)"),
    (Value(0.5, "ns", 0.45, 0.55), "0.500 ns ±10%"), (Value(0.0, "ns", 0.0, 0.0), "0 ns"), (Value(5.0, "s"), "5.00 s"),
])  # fmt: skip
def test_wide_interval_shows_its_ends(value: Value, words: str) -> None:
    assert quantity(value) == words


def test_point_without_parameters_has_experiments_name() -> None:
    assert case_of_base(parameters={}).label == "storage.iodepth"


def test_rate_of_latency_test_is_printed_as_time() -> None:
    eight, alone = case_of_base(), case_of_base(concurrency=Concurrency(1.0, 1.0))
    timed = replace(alone, result=replace(alone.result, metric="latency"))
    assert timed.is_latency_test and not alone.is_latency_test and not replace(timed, at=-1).is_latency_test
    assert not replace(eight, result=replace(eight.result, metric="latency")).is_latency_test, "eight in flight"
    assert timed.quantity(Value(1e6, "operations/s", 0.8e6, 1.25e6)) == "1.00 µs ±25%"
    assert timed.quantity(Value(0.0, "operations/s", 0.0, 1e6)) == "0 ns"
    assert [timed.quantity(rate, "operations/s") for rate in (2e6, 0.0)] == ["500 ns", "0 ns"]


TIMED, UNTIMED = base().streams[0], Stream("write", 100, 409600)


@pytest.mark.parametrize(("changes", "in_flight"), [
    ({"concurrency": Concurrency(8, 7.5)}, 7.5),
    # By Little's law: 10,000 a second at 0.8 ms, where all streams are timed or none.
    ({"concurrency": None}, 8.0), ({"concurrency": None, "streams": (UNTIMED,)}, 8.0),
    ({"concurrency": None, "latency_ns": Latency(1e6, 1e6, 1e6, 1e6, None, 1e6, 1e6, 9)}, 10.0),
    ({"concurrency": None, "streams": (TIMED, UNTIMED)}, None),
    ({"concurrency": Concurrency(8, None), "streams": (TIMED, replace(UNTIMED, operations=0))}, 8.0),
])  # fmt: skip
def test_in_flight_is_measured_or_by_littles_law(changes: dict[str, Any], in_flight: float | None) -> None:
    assert case_of_base(**changes).effective == (in_flight and pytest.approx(in_flight))


@pytest.mark.parametrize(("cpu_s", "elapsed_s", "known", "share"), [
    # Half of 8 processors is busy for 3 s: 0.3 s are 1.25%.
    ((0.3, 0.3), 3.0, "busy user", 0.475), ((0.3, 0.0), 3.0, "busy user", 0.4875),
    ((0.0, 0.3), 3.0, "busy user", 0.4875), ((0.3, 0.3), 0.5, "busy user", 0.35), ((0.0, 0.0), 3.0, "busy user", None),
    ((0.3, 0.3), 0.0, "busy user", None), ((0.3, 0.3), 3.0, "busy", None), ((0.3, 0.3), 3.0, "user", None),
])  # fmt: skip
def test_others_share_excludes_own_and_idle(cpu_s: Any, elapsed_s: float, known: str, share: float | None) -> None:
    conditions = {f"cpu_{name}": 0.5 for name in known.split()}
    case = case_of_base(cpu_user_s=cpu_s[0], cpu_system_s=cpu_s[1], elapsed_s=elapsed_s, conditions=conditions)
    assert case.others_share == (share and pytest.approx(share))


@pytest.mark.parametrize(
    ("hosts", "at", "part", "jobs"),
    [("ab", 0, 0.5, 8), ("ax", 0, 0.25, 8), ("x", 0, 1.0, 4), ("", 0, 1.0, 16), ("ab", -1, 1.0, 4)],
)
def test_points_hosts_are_part_of_site(hosts: str, at: int, part: float, jobs: float) -> None:
    """One of four nodes, each with four jobs; the experiment as a whole has no number of jobs."""
    shares = tuple(HostShare(host, Value(1.0, "bytes/s"), 1, 1, 1.0, 0.0, 1) for host in hosts)
    case = case_of_base(hosts=shares, parameters={**base().parameters, "numjobs": 4})
    site = replace(case.run, machines=tuple(replace(Machine(), hostname=name) for name in "abcd"))
    found = Case(site, case.result, at)
    assert (found.part_of_site, found.jobs) == (part, jobs)


@pytest.mark.parametrize(("printed", "rounding", "tolerance"), [
    # Of 50.0 two digits count, so that it is off by 1 in 50, unless the table says how it was rounded.
    (None, None, 0.03), ({"x": 50.0}, None, 0.03), (None, {"x": 0.2}, 0.03),
    ({"x": 50.0}, {"x": 0.2}, 0.21), ({"x": 51.0}, {"x": 0.2}, 0.03),
])  # fmt: skip
def test_figure_of_table_is_as_exact_as_its_digits(printed: Any, rounding: Any, tolerance: float) -> None:
    case = case_of_base(details={"printed": printed, "rounding": rounding})
    assert replace(case, run=replace(case.run, imported_from="x")).tolerance(0.01, 50.0) == pytest.approx(tolerance)
    assert case.tolerance(0.001, 50.0) == 0.01


@pytest.mark.parametrize(("points", "caution"), [(4, ""), (3, " Caution: 2 of 3 points are degraded or invalid.")])
def test_curve_of_poor_points_has_caution(points: int, caution: str) -> None:
    poor = (base(validity="degraded"), base(validity="invalid"))
    result = replace(case_of_base().result, points=(*poor, *(base(),) * (points - 2)))
    assert add_caution("It.", result, Curve({}, "iodepth", (*range(points),), "bytes/s", "none")) == f"It.{caution}"


def make_result(resource: str, kernel: str = "", name: str = "x", fixed: Parameters | None = None) -> ExperimentResult:
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


BLOCKS, TRAINING = make_result("storage", "storage_blocks"), make_result("training", "training_loader")
BERT = make_result("training", "training_loader", fixed={"workload": "bert", "accelerator": "h100"})
CHECKPOINT = replace(TRAINING, declaration=replace(make_result("training").declaration, command="training checkpoint"))
AGAIN = "hwdyno training --accelerators 2 --workload bert --accelerator h100"


@pytest.mark.parametrize(("command", "result", "again"), [
    # A job file and SNIA's tests are repeated as a whole.
    ("hwdyno storage job x.fio --out o", BLOCKS, "hwdyno storage job x.fio"),
    ("hwdyno storage snia iops --out o", BLOCKS, "hwdyno storage snia iops"),
    *((command, BLOCKS, "hwdyno storage --iodepth 2") for command in ("hwdyno storage x job", "hwdyno run snia")),
    # A training keeps the options of its command.
    ("hwdyno training ++a=1 --keep --out o", TRAINING, "hwdyno training ++a=1 --keep --accelerators 2"),
    ("hwdyno training --workload my.yaml", BERT, "hwdyno training --workload my.yaml --accelerators 2"),
    ("hwdyno training --workload unet3d", BERT, AGAIN), ("hwdyno run --keep", BERT, AGAIN),
    ("hwdyno training checkpoint --keep", CHECKPOINT, "hwdyno training checkpoint --keep --accelerators 2"),
    ("hwdyno run --keep", CHECKPOINT, "hwdyno training checkpoint --accelerators 2"),
    # A scenario names its storage.
    ("hwdyno training --path fast=/data", make_result("training", name="x@fast", fixed={"path": "/data"}),
     "hwdyno training --accelerators 2 --path fast=/data"),
    ("hwdyno storage --path fast=/data", make_result("storage", name="x@fast", fixed={"path": "/data"}),
     "hwdyno storage --iodepth 2 --path /data"),
])  # fmt: skip
def test_point_repeats_with_its_original_command(command: str, result: ExperimentResult, again: str) -> None:
    run = replace(make_run(base()), command=command, experiments=(result,))
    assert make_command(run, result, result.points[0].parameters, {}) == again
    if result.name.endswith("@fast"):
        named = replace(make_case(result), run=run).next_run(f"{result.resource} grid")
        assert typed_command(named).values("path") == ["/data"]


@pytest.mark.parametrize(("files", "in_file", "samples"), [(4, 6, ["24"]), (None, 6, []), (0, 6, []), (4, None, [])])
def test_generated_data_samples_all_files(files: int | None, in_file: int | None, samples: list[str]) -> None:
    fixed: Parameters = {"files": files, "samples_per_file": in_file, "path": "/data/hwdyno-set"}
    result = replace(make_result("training", "training_loader"), fixed=fixed)
    found = make_command(replace(make_run(base()), command="hwdyno run"), result, {"accelerators": 2}, {})
    assert typed_command(found).values("samples") == samples


@pytest.mark.parametrize(("hosts", "command", "clients", "line"), [
    (1, "hwdyno storage", 4, "hwdyno storage"), (2, "fio x", None, "fio x"),
    (2, "hwdyno storage", None, "mpirun -n 2 hwdyno storage"), (2, "hwdyno run", 4, "mpirun -n 4 hwdyno run"),
])  # fmt: skip
def test_launcher_starts_several_hosts(hosts: int, command: str, clients: int | None, line: str) -> None:
    run = replace(make_run(base()), machines=(Machine(),) * hosts, job={"launcher": "mpi"})
    assert add_launcher(run, command, clients) == line


@pytest.mark.parametrize(("resource", "path", "place"), [
    ("storage", "/data/hwdyno.data", "/data/hwdyno.data"), ("training", "/data/hwdyno-set", "/data"),
    ("storage", "/data/hwdyno-run-1/file", "/data"), ("training", "/data/other", "/data/other"),
])  # fmt: skip
def test_path_is_folder_around_made_files(resource: str, path: str, place: str) -> None:
    assert (
        find_place(replace(make_run(base()), command="hwdyno run"), make_result(resource, fixed={"path": path}))
        == place
    )


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
    assert takable(make_result(resource), foreign) == taken


@pytest.mark.parametrize(("at", "depths"), [(-1, "1,4"), (0, "1"), (1, "4")])
def test_curve_is_repeated_at_all_loads(at: int, depths: str) -> None:
    points = tuple(base(parameters={"rw": "randread", "iodepth": depth}) for depth in (1, 4))
    curve = Curve(series={"rw": "randread"}, load="iodepth", points=(0, 1), unit="operations/s", model="")
    case = replace(make_case(replace(make_result("storage", "storage_blocks"), points=points), at), curve=curve)
    assert typed_command(case.command_alone()).values("iodepth") == [depths]


@pytest.mark.parametrize(("free_bytes", "size"), [(1 << 30, []), (None, ["64G"]), (20 << 30, [str(18 << 30)])])
def test_larger_file_is_advised_where_there_is_room(free_bytes: int | None, size: list[str]) -> None:
    case = make_case(make_run(base(parameters={"rw": "read"})).experiments[0])
    storage = replace(case.run.machine.storage, free_bytes=free_bytes)
    run = replace(case.run, machines=(replace(case.run.machine, storage=storage),))
    assert typed_command(replace(case, run=run).command_alone(size="64G")).values("size") == size
