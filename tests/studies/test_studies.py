"""Each study's tables and observations come from a Run alone, and say what was planted in it."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import replace
from pathlib import Path

import made_store as made
import pytest
from conftest import SURVEYED
from hwdyno import studies
from hwdyno.analysis.curves import fit_curves
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.measure import engine, runner
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.plan import Limits
from hwdyno.measure.scenarios import Request, Scenario, storage_classes
from hwdyno.measure.scenarios import study as command
from hwdyno.model.point_details import Samples
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Parameters, PeerResult, Run, UserError, Value
from hwdyno.report.page import html
from hwdyno.report.study import text as study_text
from hwdyno.report.tables import markdown
from hwdyno.report.terminal import print_run
from hwdyno.studies import sata_ssd_queue as sata
from hwdyno.studies.point_figures import mb_s, same, samples
from hwdyno.system.store import Store, from_json, to_json
from simulation.host import SimulatedHost, SimulatedMachine

KIB = 1024


def point(value: float, **parameters: str | int) -> Measurement:
    base = made.point(1, value)
    given = {"rw": "randread", "bs": 4096, "iodepth": 8, "numjobs": 1, **parameters}
    return replace(base, parameters=given, cpu_user_s=0.2, cpu_system_s=0.4)


def answered(study: str, *results: ExperimentResult) -> Run:
    run = replace(made.run(*results), study=study)
    return replace(
        run, experiments=tuple(replace(experiment, curves=fit_curves(experiment)) for experiment in run.experiments)
    )


def result(name: str, load: str, *points: Measurement) -> ExperimentResult:
    fixed = {"size": 1 << 30, "ioengine": "libaio", "direct": True}
    return replace(made.experiment(*points, name=name), load=load, fixed=fixed)


def sequential(*points: Measurement, ceilings: tuple[Ceiling, ...] = ()) -> Run:
    with_ceilings = replace(result("storage.sequential", "bs", *points), ceilings=ceilings)
    return answered("jetson-sequential-read", with_ceilings)


def read(bs: int, depth: int, value: float, cpu_s: float = 0.6) -> Measurement:
    made = point(value, rw="read", bs=bs, iodepth=depth)
    halves = Samples(value * 0.9, value, value * 1.1, 0.5, values=(value * 0.9, value, value * 1.1))
    rate = Value(max(20.0, value / bs), "operations/s")
    return replace(made, cpu_user_s=0.0, cpu_system_s=cpu_s, elapsed_s=3.0, samples=halves, rate=rate)


LINK = Ceiling("read_bytes_s", "physical", 4e9, "bytes/s", "4 lanes x 1 GB/s", "test")


def join_observations(run: Run) -> str:
    return "\n".join(studies.observations(run))


def test_every_study_is_found_and_stands_in_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert [study.name for study in studies.all()] == [
        "cloud-vm-suite",
        "jetson-sequential-read",
        "kubernetes-ai-storage",
        "laptop-memory-and-flash",
        "sata-ssd-queue",
    ]
    assert main(["study"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    with pytest.raises(UserError, match="no study is called 'none'"):
        studies.find("none")


@pytest.mark.parametrize("budget_s", [30.0, 60.0])
def test_a_budget_that_the_user_gives_shortens_the_readings_of_the_kubernetes_study(
    budget_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "survey", SURVEYED)
    words = ["study", "kubernetes-ai-storage", "--path", str(tmp_path), "--dry-run", "--profile", "quick"]

    def seconds(*more: str) -> float:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main([*words, *more]) == 0
        (total,) = (line for line in out.getvalue().splitlines() if line.startswith("total:"))
        took = re.search(r"at least (?:(\d+) min ?)?(?:([\d.]+) s)?", total)
        assert took is not None
        return 60 * float(took[1] or 0) + float(took[2] or 0)

    # What trains takes five epochs regardless of the budget, and an index is built for longer on fewer processors.
    min_s = seconds("--budget", "1s")
    assert seconds("--budget", f"{budget_s:g}s") <= max(min_s, budget_s) < seconds()


def test_a_wide_table_says_once_what_its_rows_share_and_cuts_no_cell() -> None:
    run = sequential(read(4096, 12, 5e8), read(4096, 24, 5e8), read(4 << 30, 4, 3.9e9))
    lines = study_text(run).splitlines()
    at = lines.index("Sequential reads, direct, one job")
    table = lines[at + 1 : lines.index("", at)]
    assert max(map(len, table)) <= 100 and "in all rows: pattern read" in table[-1]
    assert [line.split()[-1] for line in table if "380 / 4" in line] == ["valid", "valid"]


def test_run_without_study_has_no_tables() -> None:
    assert studies.tables(made.run()) == [] and studies.observations(made.run()) == []


def test_published_figures_stand_beside_ours() -> None:
    run = sequential(read(4096, 12, 5e8), read(4 << 30, 4, 3.9e9))
    (table,) = studies.tables(run)
    small, large = table.rows
    assert small[:9] == ("read", "1 GiB", "4 KiB", "12", "450", "500", "550", "500", "250.0")
    assert small[9] == "380 / 400 / 420"
    assert large[9] == "4010 / 4050 / 4060"
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_a_sample_is_ten_operations_or_half_a_second_long() -> None:
    """Two blocks that end in one short interval are no bandwidth of twice their rate."""
    block = 256 << 20
    # 50 ms each: four blocks in flight end two at a time, every 100 ms or so.
    course = tuple(float(2 * block / 0.05 if at % 2 else 0) for at in range(60))
    whole = replace(read(block, 4, block * 20.0), rate=Value(20.0, "operations/s"))
    sampled = replace(whole, samples=Samples(0, block * 20.0, block * 40.0, 0.05, values=course))
    (row,) = studies.tables(sequential(sampled))[0].rows
    average = mb_s(block * 20.0)
    assert row[4:8] == (average, average, average, "500")
    slow = replace(sampled, rate=Value(5.0, "operations/s"), samples=replace(sampled.samples, values=course[:30]))
    (row,) = studies.tables(sequential(slow))[0].rows
    assert row[4:8] == ("-", average, "-", "2000")  # Ten operations take 2 s, and 1.5 s were measured.


def test_fios_least_and_greatest_sample_stand_beside_ours() -> None:
    run = sequential(read(4096, 12, 5e8), read(4 << 20, 24, 2e9))
    details = {"bytes_s_min": 4e8, "bytes_s_max": 5e8}
    peer = PeerResult("fio", "fio-3.33", 1, Value(4.5e8, "bytes/s"), None, details=details)
    run = replace(run, experiments=(replace(run.experiments[0], peers=(peer,)),))
    (table,) = studies.tables(run)
    assert table.columns[8] == "fio min / avg / max, MB/s"
    assert [row[8] for row in table.rows] == ["-", "400 / 450 / 500"]
    odd = replace(peer, details={"bytes_s_min": 1e8, "bytes_s_max": 4e8})
    run = replace(run, experiments=(replace(run.experiments[0], peers=(odd,)),))
    assert [row[8] for row in studies.tables(run)[0].rows] == ["-", "- / 450 / -"]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_link_is_full_or_not_or_cannot_be_known() -> None:
    assert "96% of the link" in join_observations(sequential(read(4 << 20, 24, 3.84e9), ceilings=(LINK,)))
    assert "a large transfer fills it" in join_observations(sequential(read(4 << 20, 24, 3.84e9), ceilings=(LINK,)))
    assert "does not fill it" in join_observations(sequential(read(4 << 20, 24, 2e9), ceilings=(LINK,)))
    assert "is above it" in join_observations(sequential(read(4 << 20, 24, 4.4e9), ceilings=(LINK,)))
    assert "the link's speed is unknown here" in join_observations(sequential(read(4 << 20, 24, 2e9)))


def test_one_core_is_blamed_only_when_it_is_busy() -> None:
    bound = sequential(read(4096, 12, 4.0e8, 2.9), read(4096, 24, 4.1e8, 2.9))
    assert "the reading core is 97% busy" in join_observations(bound)
    idle = sequential(read(4096, 12, 4.0e8, 0.6), read(4096, 24, 4.1e8, 0.6))
    assert "only 20% busy" in join_observations(idle)
    rising = sequential(read(4096, 12, 4.0e8), read(4096, 24, 6e8))
    assert "depth 24 reach 1.50 times depth 12" in join_observations(rising)


def test_a_block_above_one_call_is_said_to_be_split() -> None:
    assert "it is split into 3" in join_observations(sequential(read(4 << 30, 4, 3e9)))
    assert "256 MiB, the largest here, is moved in one" in join_observations(sequential(read(256 << 20, 4, 3e9)))


def test_scaling_down_is_said_and_a_full_run_says_nothing() -> None:
    sentences = join_observations(sequential(read(256 << 20, 4, 3e9)))
    assert "a file of 1 GiB instead of 16 GiB" in sentences
    assert "no start delay instead of 1 min" in sentences
    assert "blocks of at most 256 MiB instead of 4 GiB" in sentences
    whole = replace(read(4 << 30, 4, 3e9), elapsed_s=60.0, repeats=1)
    full = replace(
        result("storage.sequential", "bs", whole), fixed={"size": 16 << 30, "startdelay": 60.0, "direct": True}
    )
    assert "scaled down" not in join_observations(answered("jetson-sequential-read", full))


def mixes(penalty: dict[int, float], read_s: float = 2e8, write_s: float = 1e8) -> ExperimentResult:
    """Mixes that lose a planted share against taking turns; every size doubles the bandwidth up to 64 KiB."""
    points = []
    for block, scale in {4: 0.2, 16: 0.95, 32: 0.98, 64: 1.0, 128: 1.0}.items():
        bs = block * KIB
        points += [point(read_s * scale, bs=bs), point(write_s * scale, rw="randwrite", bs=bs)]
        for share in (70, 50):
            turns = scale / (share / 100 / read_s + (1 - share / 100) / write_s)
            points.append(point(turns * (1 - penalty.get(block, 0)), rw="randrw", rwmixread=share, bs=bs))
    return result(sata.MIX, "bs", *points)


def test_mix_penalty_is_what_was_planted() -> None:
    sentences = join_observations(answered(sata.NAME, mixes({4: 0.3, 16: 0.2, 32: 0.1})))
    assert "Mixes cost up to 30% (at 4 KiB)" in sentences and "no cost from 64 KiB" in sentences
    assert "Mixed reads and writes cost nothing here" in join_observations(answered(sata.NAME, mixes({4: 0.02})))


def test_the_best_block_size_is_the_least_that_reaches_90_percent() -> None:
    assert "is 16 KiB for randread" in join_observations(answered(sata.NAME, mixes({})))


A100_NEED = 7 * 146600628 / 0.636


@pytest.mark.parametrize(("au", "of_need", "verdict"), [
    (0.95, 0.95, "pass"), (0.5, 0.52, "fail"),
    (None, 0.05, "fail (AU at most 5.0%)"), (None, 0.97, "unknown (too few steps for an AU)"),
    (1.0, 1.23, "pass (23% more was read than computed on: read ahead, or twice)"),
    (0.88, 0.6, "fail (32% less was read than computed on: read ahead before the clock)"),
])  # fmt: skip
def test_each_storage_row_has_verdict(au: float | None, of_need: float, verdict: str) -> None:
    details: dict[str, float] = {} if au is None else {"au_dlio": au}
    measured = replace(point(of_need * A100_NEED), parameters={"accelerators": 1}, details=details)
    fixed: Parameters = {
        "accelerator": "a100", "batch_size": 7, "record_bytes": 146600628, "compute": 0.636, "storage": "ceph",
        "files": 3500, "samples_per_file": 1,
    }  # fmt: skip
    trained = replace(result("training.unet3d@ceph", "accelerators", measured), fixed=fixed, kernel="training_loader")
    tables = {table.title: table for table in studies.tables(answered("kubernetes-ai-storage", trained))}
    (row,) = tables["unet3d: accelerator utilisation by storage"].rows
    assert row[-1] == verdict
    theirs = tables["As published (its MB/s are MiB/s)"].rows
    assert [row[-1] for row in theirs] == ["fail", "fail", "fail", "pass"]


def test_feeding_storage_is_named_once() -> None:
    fixed: Parameters = {
        "accelerator": "a100", "batch_size": 7, "record_bytes": 146600628, "compute": 0.636, "storage": "w",
        "files": 42, "samples_per_file": 1,
    }  # fmt: skip
    results = []
    for name, share in (("training.unet3d@w", 0.0), ("training.unet3d.112@w", 0.3)):
        details = {"au_dlio": 0.99, "cached_share_by_device": share}
        fed = replace(point(A100_NEED), parameters={"accelerators": 1}, details=details)
        results.append(replace(result(name, "accelerators", fed), fixed=fixed, kernel="training_loader"))
    sentences = join_observations(answered("kubernetes-ai-storage", *results))
    assert "A100 on unet3d: w feeds it" in sentences
    assert "A100 on unet3d: w (from the page cache) feeds it" in join_observations(
        answered("kubernetes-ai-storage", results[1])
    )


def test_no_best_block_size_is_read_beside_points_that_are_not_valid() -> None:
    """Neither 884 MB/s in the table nor 159 MB/s in the only valid point is the best."""
    good = mixes({})
    bad = replace(good, points=tuple(
        replace(mix, validity="invalid") if mix.parameters["rw"] == "randread" and mix.parameters["bs"] == 64 * KIB
        else mix for mix in good.points
    ))  # fmt: skip
    sentences = join_observations(answered(sata.NAME, bad))
    assert "The best block size for randread is unknown: not all of its points are valid" in sentences
    assert "is 16 KiB for randwrite" in sentences


def test_wide_intervals_leave_penalty_open() -> None:
    alike = mixes({4: 0.02})
    wide = replace(alike, points=tuple(spread(measurement, 0.9) for measurement in alike.points))
    narrow = replace(alike, points=tuple(spread(measurement, 0.02) for measurement in alike.points))
    assert "cost of mixed reads and writes is unknown" in join_observations(answered(sata.NAME, wide))
    assert "Mixed reads and writes cost nothing here" in join_observations(answered(sata.NAME, narrow))


def test_what_the_study_of_a_sata_drive_gets_wrong_is_said() -> None:
    sentences = join_observations(answered(sata.NAME, mixes({})))
    for words in ("84% of the 300 MB/s of SATA 3 Gbit/s", "X = N / R", "holds 32 commands"):
        assert words in sentences
    assert "reaches 1.0% of its 1.00 M random reads a second and 3.8% of its 130 k random writes" in sentences


@pytest.mark.parametrize("count", [17, 24, 31])
def test_a_least_sample_is_never_above_the_average_nor_a_greatest_below(count: int) -> None:
    """Samples within each repeat are all of it: 3 repeats whose rates differ and whose ends are slow."""
    values = tuple(1e8 * (1 + at // (count / 3)) * (0.2 if at % 8 == 7 else 1.0) for at in range(count))
    parts = [values[round(at * count / 3) : round((at + 1) * count / 3)] for at in range(3)]
    average = 3 / sum(len(part) / sum(part) for part in parts)
    made = replace(point(average), repeats=3, samples=Samples(0, 0, 0, 0.1, values=values),
                   rate=Value(1e4, "operations/s"))  # fmt: skip
    least, middle, most = (float(cell) for cell in samples(made))
    assert least <= middle <= most


def test_where_the_patterns_meet() -> None:
    assert "From 4 KiB, the four patterns are within 10%" in join_observations(answered(sata.NAME, mixes({}, 1e8, 1e8)))
    assert "The four patterns do not converge" in join_observations(answered(sata.NAME, mixes({})))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((1e8, 1.01e8, 0.99e8), "More jobs change nothing"),
        ((1e8, 2e8, 4e8), "4 jobs reach 4.00 times"),
        ((1e8, 8e7, 5e7), "are slower"),
    ],
)
def test_whether_jobs_help(values: tuple[float, ...], says: str) -> None:
    points = [point(value, numjobs=jobs) for jobs, value in zip((1, 2, 4), values, strict=True)]
    assert says in join_observations(answered(sata.NAME, result(sata.JOBS, "numjobs", *points)))


def test_knee_and_its_price_are_reported() -> None:
    points = [point(1e8 * min(depth, 8) / 8, iodepth=depth) for depth in (1, 2, 4, 8, 16, 32, 64)]
    sentences = join_observations(answered(sata.NAME, result(sata.DEPTH, "iodepth", *points)))
    assert "4 KiB random reads tend to" in sentences and "The best depth is" in sentences


def test_what_was_not_measured_is_said_and_breaks_nothing() -> None:
    run = answered(sata.NAME, result(sata.JOBS, "numjobs", point(1e8)))
    assert "storage.mix was not measured." in join_observations(run)
    assert len(studies.tables(run)) == 2
    assert studies.tables(answered(sata.NAME, result(sata.JOBS, "numjobs"))) == []


def test_storage_without_any_figure_has_no_table() -> None:
    """A budget that ends before the first point of a model's start leaves a row without a name and a figure."""
    skipped = replace(made.experiment(name="inference.cold_start@"), kernel="inference_load", resource="inference")
    run = answered("kubernetes-ai-storage", skipped)
    assert [table.title for table in studies.tables(run)] == ["As published (its MB/s are MiB/s)"]
    assert "As published" in study_text(run)


@pytest.mark.parametrize("name", ["jetson-sequential-read", "sata-ssd-queue"])
def test_study_runs_from_plan_to_tables(name: str, tmp_path: Path) -> None:
    """A simulated machine runs the sweep of the study, its Run is stored, and its tables come from the document."""
    host = SimulatedHost(SimulatedMachine())
    request = Request(places=(("", tmp_path),), profile="quick", seed=1)
    study = studies.find(name)
    plan = command.make_plan(study, request, host)
    assert plan.study == name
    store = Store(tmp_path / "home")
    run = runner.run(plan, host, store, "run-1", explain=explain)
    again = from_json(to_json(store.load("run-1")))
    assert [experiment.name for experiment in again.experiments] == [question.name for question in study.questions]
    assert studies.tables(again) == studies.tables(run) and len(studies.tables(run)) >= 1
    sentences = studies.observations(again)
    assert "is scaled down (profile quick)" in sentences[0]
    assert len(sentences) >= len(study.mistakes) + 3
    assert not any("nan" in sentence or "\n" in sentence for sentence in sentences)


def test_full_is_at_the_studys_own_size_and_time(tmp_path: Path) -> None:
    host = SimulatedHost(SimulatedMachine())
    request = Request(places=(("", tmp_path),), profile="full", seed=1)
    plan = command.make_plan(studies.find("jetson-sequential-read"), request, host)
    assert plan.data_bytes == 16 << 30
    assert {planned.fixed["runtime"] for planned in plan.experiments} == {60.0} and "runtime" in plan.given
    assert plan.experiments[0].fixed["startdelay"] == 60.0
    assert [(p["bs"], p["iodepth"]) for p in plan.experiments[0].points][:4] == [
        (4096, 1), (4096, 12), (4096, 24), (4 << 20, 24),
    ]  # fmt: skip
    plan = command.make_plan(studies.find("sata-ssd-queue"), request, host)
    assert plan.data_bytes == 1 << 30 and {planned.fixed["runtime"] for planned in plan.experiments} == {35.0}
    assert [len(planned.points) for planned in plan.experiments] == [20, 11, 3, 132]


def test_this_drive_its_link_and_the_cube_stand_in_the_sata_study(tmp_path: Path) -> None:
    host = SimulatedHost(SimulatedMachine())
    limits = Limits(links=("PCIe 4 x4",), devices=("Intel SSD D7-P5600 1.6TB",))
    plan = command.make_plan(studies.find(sata.NAME), Request(places=(("", tmp_path),), seed=1, limits=limits), host)
    run = runner.run(plan, host, Store(tmp_path / "home"), "run-1", explain=explain)
    disk = replace(run.machine.storage.disk, model="APPLE SSD SM256E", size_bytes=251 * 10**9, serial="SECRET")
    storage = replace(run.machine.storage, disks=(disk,))
    run = replace(run, machines=(replace(run.machine, storage=storage),))
    tables = {table.title: table for table in studies.tables(run)}
    cube = [title for title in tables if title.startswith("Depth x block size")]
    assert cube == [
        f"Depth x block size, {kind}: MB/s / mean latency, µs" for kind in ("randread", "randwrite", "randrw 70/30")
    ]
    assert tables[cube[0]].columns == ("iodepth", "4 KiB", "32 KiB", "128 KiB")
    assert {"1", "8", "64"} <= {row[0] for row in tables[cube[0]].rows}
    rows = tables["This drive beside published figures"].rows
    mine = {row[1]: row for row in rows if row[0] == "this drive, measured (APPLE SSD SM256E, 251 GB)"}
    assert {"ceiling of 4 KiB random reads", "best depth at 4 KiB", "randread, 4 KiB", "randwrite, 4 KiB"} <= set(mine)
    rated = [row for row in rows if row[0].startswith("this drive, rated (Intel")]
    assert [row[1:3] for row in rated] == [("randread, 4 KiB", "1.00 M IOPS"), ("randwrite, 4 KiB", "130 k IOPS")]
    (knee,) = (observation for observation in studies.observations(run) if "random reads tend to" in observation)
    assert knee.startswith("APPLE SSD SM256E, 251 GB behind PCIe") and "of that link" in knee
    assert "SECRET" not in study_text(run)


@pytest.mark.parametrize("peers", [False, True])
@pytest.mark.parametrize("name", [study.name for study in studies.all() if study.questions])
def test_a_quick_study_is_planned_to_end_within_five_minutes(name: str, peers: bool, tmp_path: Path) -> None:
    request = Request(places=(("", tmp_path),), profile="quick", seed=1, peers=peers, options={"only": None})
    plan = command.make_plan(studies.find(name), request, Local(), ("198.18.67.2", 5201))
    assert plan.budget_s is not None and plan.budget_s <= storage_classes.LONGEST_QUICK_S
    assert 0 < sum(line.takes_s for line in Scenario(plan=plan).points(1e9)) < 300


def test_intervals_decide_what_is_the_same() -> None:

    assert same(Value(1, "x"), Value(1.04, "x")) and not same(Value(1, "x"), Value(1.2, "x"))
    assert same(Value(1, "x", 0.8, 1.2), Value(1.2, "x", 1.1, 1.3)) is None
    assert same(Value(1, "x", 0.9, 1.1), Value(1.3, "x", 1.2, 1.4)) is False


def spread(point: Measurement, width: float) -> Measurement:
    value = point.throughput.value
    return replace(point, throughput=Value(value, "bytes/s", value * (1 - width), value * (1 + width)))


def test_wide_spread_is_not_reported() -> None:
    noisy = result("storage.sequential", "bs", spread(read(4096, 12, 3e8), 0.5), spread(read(4096, 24, 4e8), 0.5))
    assert "is unknown: the repeats vary too much" in join_observations(answered("jetson-sequential-read", noisy))
    wide = mixes({4: 0.2})
    wide = replace(wide, points=tuple(spread(point, 0.4) for point in wide.points))
    assert "The cost of mixed reads and writes is unknown: the repeats vary too much" in join_observations(
        answered(sata.NAME, wide)
    )
    jobs = [spread(point(value, numjobs=jobs), 0.6) for jobs, value in ((1, 1e8), (2, 1.5e8))]
    assert "The effect of more jobs" in join_observations(answered(sata.NAME, result(sata.JOBS, "numjobs", *jobs)))


def test_the_report_shows_the_study_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    run = explain(sequential(read(4096, 12, 5e8), read(4 << 20, 24, 2e9)))
    print_run(run)
    title = studies.tables(run)[0].title
    sentence = studies.observations(run)[1]
    for shown in (capsys.readouterr().out, markdown(run), html(run)):
        assert title in shown
        assert max(len(line) for line in study_text(run).splitlines()) <= 100
        assert sentence[:40] in shown.replace("\N{NO-BREAK SPACE}", " ")
    assert "study" not in markdown(made.run()).lower()
