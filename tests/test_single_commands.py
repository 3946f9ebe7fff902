"""Single lines of command lines, of what rules read and apply to, of laws, other tools and imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.axes import BACKGROUND, with_field_axes
from hwdyno.ceilings.named import (
    only_link,
)
from hwdyno.findings.applies import ROUND, Applies
from hwdyno.findings.commands import Typed, command_of, started, takable, typed_command
from hwdyno.findings.coverage import PASSES, shared_blocks, small_region
from hwdyno.findings.imports import contradicts_itself, disk_not_reached
from hwdyno.findings.laws import against_ceilings, little, physical_ceiling, rate_times_size, rated_exceeded
from hwdyno.findings.peers import peer_ratio
from hwdyno.findings.rule import Case, load_words
from hwdyno.machine import Machine
from hwdyno.units import parse_size
from hwdyno.words import (
    Axis,
    Ceiling,
    Claim,
    Concurrency,
    Curve,
    ExperimentResult,
    HostShare,
    Latency,
    PeerResult,
    Scalar,
    Stream,
    Value,
)
from made_experiment import made_experiment
from test_single_ceilings import result_of
from test_single_lines import case_of
from test_thresholds import THREADS, base, run_of

# --- command lines


@pytest.mark.parametrize(
    ("resource", "name", "least", "most", "above"),
    [
        ("storage", "rwmixread", 0, 100, 101),
        ("storage", "bs", 512, 10**12, 10**12 + 1),
        ("storage", "iodepth", 1, 1024, 1025),
        ("storage", "direct", 0, 1, 1.2),
        ("storage", "size", 1, 10**18, 11 * 10**17),
        ("storage", "runtime", 1e-3, 1e6, 1e6 + 1),
        ("storage", "drop_cache", 0, 1, 1.2),
    ],
)
def test_a_foreign_figure_is_taken_up_to_its_most(
    resource: str, name: str, least: float, most: float, above: float
) -> None:
    result = ExperimentResult("one", resource, "?", name, "foreign", ())
    assert takable(result, {name: least}) == {name: least}
    assert takable(result, {name: most}) == {name: most}
    assert takable(result, {name: above}) == {}


@pytest.mark.parametrize(
    ("resource", "name", "value", "is_taken"),
    [
        ("storage", "iodepth", 1.5, False),
        ("storage", "iodepth", 2.0, True),
        ("storage", "rwmixread", 70.5, False),
        ("storage", "runtime", 1.5, True),
        ("memory", "threads", 1.5, False),
        ("compute", "n", 1000.5, False),
        ("network", "streams", 1.5, False),
        ("network", "rate", 1000.5, True),
        ("training", "accelerators", 1.5, False),
    ],
)
def test_a_count_is_whole_and_a_time_need_not_be(resource: str, name: str, value: float, is_taken: bool) -> None:
    """A table's mean of a depth would be refused by the command that the advice prints."""
    result = ExperimentResult("one", resource, "?", name, "foreign", ())
    assert takable(result, {name: value}) == ({name: value} if is_taken else {})


def test_a_foreign_round_trip_has_no_streams() -> None:
    result = ExperimentResult("one", "network", "?", "message", "foreign", ())
    streams: dict[str, Any] = {"streams": 4, "block": 65536, "rate": 1e6}
    assert takable(result, {"message": 64, "protocol": "tcp", **streams}) == {"message": 64, "protocol": "tcp"}
    assert takable(result, streams) == streams


@pytest.mark.parametrize(
    ("line", "words", "options", "pasted"),
    [
        ("hwdyno storage --size=4G=x job", ("hwdyno", "storage", "job"), (("size", "4G=x"),), ()),
        ("hwdyno storage --json --size 4k --odd", ("hwdyno", "storage"),
         (("json", None), ("size", "4k"), ("odd", None)), ()),
        ("hwdyno fio x --seed 1 -- fio --rw=read y", ("hwdyno", "fio", "x"), (("seed", "1"),),
         ("fio", "--rw=read", "y")),
        ("hwdyno fio --seed 1 x -- fio", ("hwdyno", "fio", "x"), (("seed", "1"),), ("fio",)),
    ],
)  # fmt: skip
def test_a_command_line_is_read_as_it_was_typed(
    line: str, words: tuple[str, ...], options: tuple[tuple[str, str | None], ...], pasted: tuple[str, ...]
) -> None:
    assert typed_command(line) == Typed(words, options, pasted)


def test_options_are_chosen_by_name_and_quoted_where_a_shell_needs_it() -> None:
    command = Typed(("hwdyno", "storage"), (("seed", "1"), ("path", "/mnt/größe")))
    assert command.only({"seed", "1"}).options == (("seed", "1"),)
    assert command.only({"/mnt/größe"}).options == ()
    assert command.line == "hwdyno storage --seed 1 --path /mnt/größe"
    assert Typed(("a b",), ()).line == "'a b'"


@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("hwdyno storage job x.fio --out o", "hwdyno storage job x.fio"),
        ("hwdyno storage snia iops --out o", "hwdyno storage snia iops"),
        ("hwdyno storage x job", "hwdyno storage --bs 4k"),
        ("hwdyno run snia", "hwdyno storage --bs 4k"),
        ("hwdyno storage", "hwdyno storage --bs 4k"),
    ],
)
def test_a_job_file_and_a_test_of_snias_are_repeated_as_a_whole(command: str, again: str) -> None:
    result = result_of("storage", base())
    assert command_of(replace(run_of(base()), command=command), result, {"bs": 4096}, {}) == again


@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("hwdyno training ++a=1 --keep --out o", "hwdyno training ++a=1 --keep --accelerators 2"),
        ("hwdyno training --workload my.yaml --accelerator v", "hwdyno training --workload my.yaml --accelerator v"
         " --accelerators 2"),
        ("hwdyno training --workload unet3d", "hwdyno training --accelerators 2 --workload bert --accelerator h100"),
        ("hwdyno run --keep", "hwdyno training --accelerators 2 --workload bert --accelerator h100"),
    ],
)  # fmt: skip
def test_a_training_is_repeated_with_the_options_of_its_own_command(command: str, again: str) -> None:
    point = replace(base(), parameters={"accelerators": 2})
    named_so: dict[str, Scalar] = {} if "++" in command else {"workload": "bert", "accelerator": "h100"}
    result = replace(result_of("training", point, kernel="training_loader", **named_so), fixed=named_so)
    found = command_of(replace(run_of(base()), command=command), result, {"accelerators": 2}, {})
    assert found == again


def test_a_kind_of_training_is_repeated_with_the_options_of_its_own_command() -> None:
    result = result_of("training", base())
    result = replace(result, declaration=replace(result.declaration, command="training checkpoint"))
    run = replace(run_of(base()), command="hwdyno training checkpoint --keep")
    assert command_of(run, result, {"iodepth": 2}, {}) == "hwdyno training checkpoint --keep --iodepth 2"
    assert command_of(replace(run, command="hwdyno run --keep"), result, {"iodepth": 2}, {}) == (
        "hwdyno training checkpoint --iodepth 2"
    )


@pytest.mark.parametrize(
    ("files", "each", "samples"), [(4, 6, "24"), (None, 6, None), (4, 0, None), (0, 6, None), (4, None, None)]
)
def test_generated_data_has_the_samples_of_all_its_files(
    files: int | None, each: int | None, samples: str | None
) -> None:
    point = replace(base(), parameters={"accelerators": 2})
    fixed: dict[str, Scalar] = {"files": files, "samples_per_file": each, "path": "/data/hwdyno-set"}
    result = replace(result_of("training", point, kernel="training_loader"), fixed=fixed)
    found = typed_command(command_of(replace(run_of(base()), command="hwdyno run"), result, {"accelerators": 2}, {}))
    assert found.values("samples") == ([] if samples is None else [samples])


@pytest.mark.parametrize(
    ("hosts", "command", "clients", "line"),
    [
        (1, "hwdyno storage", 4, "hwdyno storage"),
        (2, "hwdyno storage", None, "mpirun -n 2 hwdyno storage"),
        (2, "hwdyno storage", 4, "mpirun -n 4 hwdyno storage"),
        (2, "fio x", None, "fio x"),
        (3, "hwdyno storage", None, "mpirun -n 3 hwdyno storage"),
    ],
)
def test_a_launcher_starts_our_commands_on_several_hosts(
    hosts: int, command: str, clients: int | None, line: str
) -> None:
    run = replace(run_of(base()), machines=(Machine(),) * hosts, job={"launcher": "mpi"})
    assert started(run, command, clients) == line


@pytest.mark.parametrize(
    ("resource", "command", "path"),
    [
        ("training", "hwdyno training --path fast=/data", "fast=/data"),
        ("storage", "hwdyno storage --path fast=/data", "/data"),
    ],
)
def test_a_scenario_names_the_storage_with_its_place(resource: str, command: str, path: str) -> None:
    result = replace(result_of(resource, base()), name=f"{resource}.x@fast", fixed={"path": "/data"})
    run = replace(run_of(base()), command=command)
    assert typed_command(command_of(run, result, {}, {})).values("path") == [path]
    case = Case(replace(run, experiments=(result,)), result, 0)
    assert typed_command(case.named(f"{resource} grid")).values("path") == ["/data"]


# --- what a rule reads of its case


@pytest.mark.parametrize(
    ("details", "tolerance"),
    [
        ({}, 0.03),
        ({"printed": {"x": 50.0}}, 0.03),
        ({"printed": {"x": 50.0}, "rounding": {"x": 0.2}}, 0.21),
        ({"printed": {"x": 51.0}, "rounding": {"x": 0.2}}, 0.03),
        ({"rounding": {"x": 0.2}}, 0.03),
    ],
)
def test_a_tables_figure_is_as_exact_as_its_digits(details: dict[str, Any], tolerance: float) -> None:
    """Of 50.0 two digits count, so that it is off by 1 in 50."""
    run = replace(run_of(replace(base(), details=details)), imported_from="a table")
    assert Case(run, run.experiments[0], 0).tolerance(0.01, 50.0) == pytest.approx(tolerance)


def in_flight(**changes: Any) -> float | None:
    run = run_of(replace(base(), **changes))
    return Case(run, run.experiments[0], 0).effective


def test_operations_in_flight_are_as_measured_or_by_littles_law() -> None:
    """8 at 10,000 a second and 0.8 ms."""
    timed = base().streams[0]
    untimed = Stream("write", 100, 409600)
    assert in_flight(concurrency=Concurrency(8, 7.5)) == 7.5
    assert in_flight(concurrency=None) == pytest.approx(8.0)
    assert in_flight(concurrency=None, latency_ns=Latency(1e6, 1e6, 1e6, 1e6, None, 1e6, 1e6, 9)) == pytest.approx(10.0)
    assert in_flight(concurrency=Concurrency(8, None), streams=(timed, replace(untimed, operations=0))) == (
        pytest.approx(8.0)
    )
    assert in_flight(concurrency=None, streams=(timed, untimed)) is None
    assert in_flight(concurrency=None, streams=(untimed,)) == pytest.approx(8.0)


def test_a_part_of_a_site_is_the_share_of_its_nodes() -> None:
    def part(at: int, *hosts: str) -> float:
        shares = tuple(
            HostShare(host=host, throughput=Value(1.0, "bytes/s"), operations=1, bytes=1, elapsed_s=1.0,
                      start_offset_s=0.0, repeats=1)
            for host in hosts
        )  # fmt: skip
        run = run_of(replace(base(), hosts=shares))
        run = replace(run, machines=tuple(replace(Machine(), hostname=name) for name in "abcd"))
        return Case(run, run.experiments[0], at).part_of_site

    assert part(0, "a", "b") == 0.5
    assert part(0, "a", "elsewhere") == 0.25
    assert part(0, "elsewhere") == 1.0
    assert part(0) == 1.0
    assert part(-1, "a", "b") == 1.0


@pytest.mark.parametrize(("elapsed_s", "share"), [(0.0, None), (0.5, 0.35), (1.0, 0.35)])
def test_others_have_a_share_of_any_time(elapsed_s: float, share: float | None) -> None:
    """60% busy, of which 25% is ours."""
    ours = 0.25 * elapsed_s * THREADS or 0.1
    run = run_of(replace(base(), elapsed_s=elapsed_s, cpu_user_s=ours, cpu_system_s=0.0,
                         conditions={"cpu_busy": 0.6, "cpu_user": 0.6}))  # fmt: skip
    found = Case(run, run.experiments[0], 0).others_share
    assert found is None if share is None else found == pytest.approx(share)


def test_a_curve_is_measured_again_at_all_its_loads_and_a_point_at_its_own() -> None:
    points = tuple(replace(base(), parameters={"rw": "randread", "iodepth": depth}) for depth in (1, 4))
    result = made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})
    curve = Curve(series={"rw": "randread"}, load="iodepth", points=(0, 1), unit="operations/s", model="")
    for at, depths in ((-1, "1,4"), (0, "1"), (1, "4")):
        case = replace(case_of(result, at), curve=curve)
        assert typed_command(case.command_alone()).values("iodepth") == [depths]


def advised(resource: str, free_gib: int | None, changes: Mapping[str, Any], kernel: str = "", **given: Any) -> Typed:
    point = replace(base(), parameters=given)
    result = made_experiment(f"{resource}.x", resource, "?", "iodepth", kernel, (point,), fixed={})
    storage = {} if free_gib is None else {"free_bytes": free_gib << 30}
    machine = Machine.of_survey({"storage": storage})
    run = replace(run_of(base()), machines=(machine,), experiments=(result,))
    return typed_command(Case(run, result, 0).command_alone(**changes))


@pytest.mark.parametrize(
    ("resource", "free_gib", "given", "size_gib"),
    [
        ("storage", None, {}, [64]),
        ("storage", 1000, {}, [64]),
        # Nine tenths of what is free.
        ("storage", 20, {}, [18]),
        ("storage", 20, {"size": 30 << 30}, [30]),
        ("memory", 1000, {}, []),
    ],
)
def test_an_advised_file_fits_into_the_storage(
    resource: str, free_gib: int | None, given: dict[str, Any], size_gib: list[int]
) -> None:
    found = advised(resource, free_gib, {"size": 64 << 30}, **given).values("size")
    assert [parse_size(one) for one in found] == [one << 30 for one in size_gib]


def test_an_advice_of_direct_io_leaves_the_engines_of_the_page_cache() -> None:
    for direct, engine in ((1, "psync"), (0, "mmap")):
        command = advised("storage", None, {"direct": direct}, "storage_blocks", ioengine="mmap")
        assert command.values("ioengine") == [engine]


def test_a_delay_is_said_in_a_sentence() -> None:
    axis = Axis("delay", unit="cycles", role="delay")
    assert load_words(axis, 100.0) == "a delay of 100 cycles"
    assert load_words(axis, 0.0) == "no delay"


# --- what a rule applies to


@pytest.mark.parametrize(
    ("load", "name", "limits", "does"),
    [
        ("iodepth", "storage.x", {}, True),
        (ROUND, "storage.x", {}, False),
        (ROUND, "storage.x", {"rounds": True}, True),
        ("iodepth", "storage.x", {"rounds": True}, False),
        ("iodepth", "storage.x", {"not_named": "storage."}, False),
        (ROUND, "storage.x", {"rounds": True, "not_named": "storage."}, False),
        ("iodepth", "storage.x", {"not_named": "memory."}, True),
        (BACKGROUND.name, "storage.x", {}, False),
        (BACKGROUND.name, "storage.x", {"under_load": True}, True),
        ("iodepth", "storage.x", {"under_load": True}, False),
        ("iodepth", "storage.x", {"loads": ("bs", "iodepth")}, True),
        ("iodepth", "storage.x", {"loads": ("bs",)}, False),
        ("iodepth", "storage.x", {"needs": ("run_to_run",)}, False),
        ("iodepth", "storage.x", {"needs": ("parameters.shared",)}, True),
        ("iodepth", "storage.x", {"needs": ("parameters.own",)}, True),
        ("iodepth", "storage.x", {"needs": ("parameters.none",)}, False),
    ],
)
def test_a_rule_applies_within_its_limits_alone(load: str, name: str, limits: dict[str, Any], does: bool) -> None:
    point = replace(base(), parameters={"own": 1})
    result = with_field_axes(ExperimentResult(name, "storage", "?", load, "", (point,), fixed={"shared": 1}))
    assert Applies(**limits).to(case_of(result)) == does


def test_a_rule_on_the_machine_alone_needs_no_experiment() -> None:
    run = replace(run_of(base()), experiments=())
    assert Applies(machine=("cpu.threads",)).to_run(run)
    assert not Applies(machine=("cpu.cores",)).to_run(run)
    assert not Applies(machine=("cpu.threads",), resources=("storage",)).to_run(run)


# --- laws


def of_point(resource: str = "storage", imported: str = "", **changes: Any) -> Case:
    run = replace(run_of(replace(base(), **changes), resource), imported_from=imported)
    return Case(run, run.experiments[0], 0)


def test_more_in_flight_without_a_latency_is_said_as_a_product() -> None:
    found = little(of_point(concurrency=Concurrency(8, 10.0), latency_ns=None))
    assert found is not None and "Throughput x latency is 10.0 in flight, but only 8 were requested" in found.says


@pytest.mark.parametrize(("off", "severity"), [(0.04, "info"), (0.055, "warning")])
def test_a_tables_rate_may_be_off_by_a_mean_of_other_samples(off: float, severity: str) -> None:
    rate = Value(10_000 * (1 + off) + 0.1, "operations/s")
    found = rate_times_size(of_point(imported="a table", rate=rate))
    assert found is not None and found.severity == severity


def bounded(case: Case, kind: Any, value: float) -> Case:
    ceiling = Ceiling("read_bytes_s", kind, value, "bytes/s", "the link", "test")
    return replace(case, result=replace(case.result, ceilings=(ceiling,)))


@pytest.mark.parametrize(("times", "suspect"), [(1.15, False), (1.25, True)])
def test_a_result_far_above_the_makers_figure_is_a_caches(times: float, suspect: bool) -> None:
    case = of_point()
    found = rated_exceeded(bounded(case, "rated", case.point.throughput.value / times))
    assert found is not None and ("Suspect a cache" in found.advice) == suspect


def test_a_part_of_a_site_has_a_part_of_its_ceiling() -> None:
    share = HostShare(host="a", throughput=Value(1.0, "bytes/s"), operations=1, bytes=1, elapsed_s=1.0,
                      start_offset_s=0.0, repeats=1)  # fmt: skip
    case = of_point(hosts=(share,))
    machines = tuple(replace(Machine(), hostname=name) for name in "abcd")
    case = bounded(replace(case, run=replace(case.run, machines=machines)), "physical", 1e8)
    (found,) = against_ceilings(case, "physical")
    assert found.bound.value == 0.25e8


def test_what_carries_no_data_is_within_every_ceiling() -> None:
    case = of_point(parameters={**base().parameters, "ioengine": "null"})
    assert against_ceilings(bounded(case, "physical", 1e6), "physical") == []


@pytest.mark.parametrize(
    ("device", "words"), [(8.0, "The device moved only 80% of the bytes"), (9.0, "counters agree")]
)
def test_a_device_that_moved_less_than_nine_tenths_had_a_cache(device: float, words: str) -> None:
    case = of_point(bytes=10, counters={"device_read_bytes": device})
    found = physical_ceiling(bounded(case, "physical", 1e6))
    assert found is not None and words in found.says


# --- other tools


def test_twice_a_figure_is_said_as_a_share_and_more_as_a_factor() -> None:
    for stated, words in ((200.0, "100% apart"), (300.0, "a factor of 3 apart")):
        claim = Claim("bandwidth", stated, 100.0, "bytes/s", "bytes / time", 0.01)
        found = contradicts_itself(of_point(imported="fio", claims=(claim,)))
        assert found is not None and found.says.partition(" The factor")[0].endswith(f"{words}.")


def unreached(*streams: Stream, **details: float) -> tuple[str, int] | None:
    """The direction that missed the disk the most, and its share in whole percent."""
    engine = "null" if "null" in details else "libaio"
    parameters = {**base().parameters, "ioengine": engine}
    details = {"disk_unseen_s": 0.0, "issued_s": 1.0, **details}
    found = disk_not_reached(of_point(imported="fio", parameters=parameters, streams=streams, details=details))
    return None if found is None else (found.evidence["direction"], round(100 * found.evidence["missed_share"]))


def test_the_disk_was_not_reached_by_what_its_counters_did_not_see() -> None:
    read, write = Stream("read", 1000, 4096000), Stream("write", 1000, 4096000)
    assert unreached(read, disk_read_operations=400) == ("read", 60)
    assert unreached(read, disk_read_operations=400, null=1) is None
    assert unreached(read) is None
    both = {"disk_read_operations": 400, "disk_write_operations": 100}
    assert unreached(read, write, **both) == ("write", 90)
    assert unreached(write, read, **both) == ("write", 90)
    assert unreached(Stream("read", 0, 0), disk_read_operations=0) is None
    assert unreached(Stream("read", 1, 4096), disk_read_operations=0) == ("read", 100)


def pair(at: int, ratio: Value | None, cpu: float | None = None, tool: str = "fio") -> PeerResult:
    of_cpu = None if cpu is None else Value(cpu, "1")
    return PeerResult(tool, "1.0", at, Value(1e9, "bytes/s"), ratio, cpu_ratio=of_cpu)


def compared(*peers: PeerResult) -> Case:
    result = made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", (base(),), fixed={})
    return case_of(replace(result, peers=peers), -1)


def test_a_pair_counts_with_a_ratio_and_a_point() -> None:
    one = Value(1.0, "1", 0.99, 1.01)
    for peer in (pair(0, None), pair(0, Value(0.0, "1")), pair(1, one), pair(-1, one)):
        assert peer_ratio(compared(peer)) == []
    assert len(peer_ratio(compared(pair(0, one)))) == 1


@pytest.mark.parametrize(
    ("ratio", "severity", "begins"),
    [
        (Value(0.95, "1", 0.94, 0.96), "info", "Differs from"),
        (Value(0.89, "1", 0.87, 0.91), "warning", "Differs from"),
        (Value(0.91, "1", 0.89, 0.93), "info", "Differs from"),
        (Value(1.2, "1", 1.1, 1.3), "info", "Differs from"),
        # Without an interval a tenth is the least difference, and no evidence.
        (Value(1.11, "1"), "info", "Differs from"),
        (Value(1.09, "1"), "info", "Agrees with"),
        (Value(0.5, "1"), "info", "Differs from"),
    ],
)
def test_a_tool_that_is_a_tenth_faster_is_a_warning(ratio: Value, severity: str, begins: str) -> None:
    (found,) = peer_ratio(compared(pair(0, ratio)))
    assert found.severity == severity and found.says.startswith(begins)


@pytest.mark.parametrize(("cpu", "mean"), [((0.5,), 0.5), ((0.5, 2.0), 1.0), ((0.0,), None), ((0.0, 0.25), 0.25)])
def test_cpu_time_is_compared_where_both_took_any(cpu: tuple[float, ...], mean: float | None) -> None:
    (found,) = peer_ratio(compared(*(pair(0, Value(1.0, "1", 0.99, 1.01), one) for one in cpu)))
    assert found.evidence["cpu_ratio"] == (None if mean is None else pytest.approx(mean))


# --- what a point covered


@pytest.mark.parametrize(
    ("repeats", "passes", "found"), [(1, PASSES, True), (1, 0.9 * PASSES, False), (2, 2 * PASSES, True)]
)
def test_a_small_region_is_passed_twice_in_each_repeat(repeats: int, passes: float, found: bool) -> None:
    case = of_point(repeats=repeats, bytes=round(passes * (1 << 20)), details={"region_bytes": 1 << 20})
    assert (small_region(case) is not None) == found


@pytest.mark.parametrize(("visited", "again"), [(0, 0.0), (1 << 20, 0.25), (4 << 20, 0.5)])
def test_jobs_meet_each_others_blocks_as_chance_has_it(visited: int, again: float) -> None:
    """Two jobs, each of half the region: 3/4 of it in as many visits as it has blocks."""
    parameters = {**base().parameters, "share": "whole", "numjobs": 2}
    case = of_point(parameters=parameters, repeats=1, bytes=visited, details={"region_bytes": 1 << 20})
    found = shared_blocks(case)
    assert found is not None and found.evidence["overlap_share"] == pytest.approx(again)


@pytest.mark.parametrize(
    "title",
    ["PCIe 3 x4 vs PCIe 4 x4", "PCIe 4 x4 and PCIe 5 x4", "USB 3.0 versus USB 2.0", "10GbE/25GbE", "SATA vs PCIe 4 x4"],
)
def test_a_title_that_compares_links_names_none(title: str) -> None:
    assert only_link(title) is None


@pytest.mark.parametrize(
    ("title", "label"),
    [
        ("Reads and writes over PCIe 4 x4", "PCIe 4.0 x4"),
        ("IOPS/s of a drive on PCIe 4 x4", "PCIe 4.0 x4"),
        ("TCP over 25 Gbit/s Ethernet", "25 Gbit/s Ethernet"),
        ("PCIe 4 x4 vs pcie 4.0 x4", "PCIe 4.0 x4"),
        ("local disk vs. nothing", None),
    ],
)
def test_a_title_that_names_one_link_has_its_rate(title: str, label: str | None) -> None:
    rate = only_link(title)
    assert (rate.label if rate is not None else None) == label


def test_a_larger_file_is_not_advised_where_there_is_no_room_for_one() -> None:
    run = run_of(replace(base(), parameters={"rw": "read"}))
    small = replace(run.machine, storage=replace(run.machine.storage, free_bytes=1 << 30))
    case = Case(replace(run, machines=(small,)), run.experiments[0], 0)
    assert "size" not in case.command_alone(size="64G")
    assert "--size 64G" in Case(run, run.experiments[0], 0).command_alone(size="64G")
