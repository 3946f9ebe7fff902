"""The scorecard: one screen on any Run, the field's figures, a verdict with its reason, commands that work."""

from __future__ import annotations

import importlib
import io
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import hostile
import made_run
import pytest
from hwdyno.cli.machine import show
from hwdyno.cli.main import main, make_parser
from hwdyno.cli.progress import result_line
from hwdyno.explain.findings import ABOUT_THE_RUN, all_rules, explain
from hwdyno.explain.findings.summary import name_effect
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Concurrency
from hwdyno.model.words import Ceiling, ExperimentResult, Finding, Latency, Measurement, Run, Value
from hwdyno.report.figures import of_finding
from hwdyno.report.headlines import DISBELIEVED, MAX_ROWS, headlines
from hwdyno.report.machine import describe_machine
from hwdyno.report.scorecard import (
    MAX_TODO,
    Scorecard,
    command_in,
    command_lines,
    explain_run,
    machine_line,
    scorecard,
)
from hwdyno.report.tables import markdown
from hwdyno.report.terminal import print_run
from hwdyno.system.store import to_json
from hwdyno.system.store.history import make_entry
from made_experiment import made_experiment
from test_report_page import machine_run

SCREEN = 36
"""Lines that a scorecard may have."""
ADVICE = {
    "whole": "Measure: hwdyno storage --rw randread --bs 4k --iodepth 64 --path /srv/data --profile full --runtime 9",
    "machine": "Look closer: hwdyno memory caches",
}


def degraded(run: Run, rule: str = "interval_not_reached") -> Run:
    """The same Run with every point degraded by a rule."""
    results = (
        replace(
            experiment, points=tuple(replace(point, validity="degraded", why=(rule,)) for point in experiment.points)
        )
        for experiment in run.experiments
    )
    return replace(run, experiments=tuple(results))


def of_latency(name: str, kernel: str, *points: Measurement, resource: str = "memory") -> ExperimentResult:
    return made_experiment(name, resource, "?", "working_set", kernel, points, metric="latency", planned=len(points))


def timed(ns: float, low: float = 0.99, high: float = 1.01, **parameters: Any) -> Measurement:
    """One operation at a time, whose rate has an interval of the given shares."""
    rate = 1e9 / ns
    whole = Latency(ns, ns, ns, 1.3 * ns, None, 0.9 * ns, 2 * ns, 50_000)
    return replace(
        made_run.measured({"bs": 64}, rate, 1, 1), parameters=parameters, latency_ns=whole, rate=None,
        throughput=Value(rate, "operations/s", low * rate, high * rate), concurrency=Concurrency(1, 1.0),
        repeat_values=(0.8 * rate, rate, 1.25 * rate),
    )  # fmt: skip


def moved(bytes_s: float, unit: str = "bytes/s", **parameters: Any) -> Measurement:
    value = Value(bytes_s, unit, 0.97 * bytes_s, 1.03 * bytes_s)
    return replace(
        made_run.measured({"bs": 64}, 1e6, 1, 1), parameters=parameters, latency_ns=None, rate=None, throughput=value,
        concurrency=None, repeat_values=(bytes_s, 1.01 * bytes_s, 0.99 * bytes_s),
    )  # fmt: skip


def every_resource() -> Run:
    """A Run of five resources, with more figures than a screen holds and findings with commands."""
    memory = made_experiment(
        *("memory.grid", "memory", "?", "threads", "memory_bandwidth"),
        tuple(moved(n * 2e10, operation=operation, threads=n) for operation in ("triad", "read") for n in (1, 4)),
    )
    latency = of_latency("memory.latency", "memory_latency", *(timed(80.0 + n, working_set=n << 20) for n in (1, 64)))
    loops = tuple(
        moved(n * 1e11, "FLOP/s", operation="fma", precision=p, threads=n) for p in ("double", "single") for n in (1, 4)
    )
    compute = made_experiment("compute.grid", "compute", "?", "threads", "compute_flops", loops)
    lu = (moved(3e11, "FLOP/s", operation="lu", n=3000, threads=4),)
    linpack = made_experiment("compute.linpack", "compute", "?", "n", "linpack", lu)
    loopback = {"loopback": True}
    streams = (replace(moved(5e9, protocol="tcp", direction="up", streams=2), details=loopback),)
    network = made_experiment("network.streams", "network", "?", "streams", "network_throughput", streams)
    trips = (replace(timed(1.3e4, protocol="tcp", in_flight=1, message=64), details=loopback),)
    trip = of_latency("network.latency", "network_latency", *trips, resource="network")
    fed = made_experiment(
        "training.accelerators", "training", "?", "accelerators", "training_loader", (moved(1e9, accelerators=1),)
    )
    carried = Finding(
        "training_capacity", "info", "training", "This storage feeds 1.",
        {"headline": {"title": "H100s fed, unet3d", "value": 1}}, ADVICE["whole"], fed.name, (0,),
    )  # fmt: skip
    others = [
        Finding(
            f"rule_{at}",
            "warning",
            "memory",
            f"Finding {at}, which is long: {'word ' * 30}.",
            {},
            f"{ADVICE['whole']} --seed {at}",
        )
        for at in range(5)
    ]
    whole = made_run.whole_run()
    measured = (*whole.experiments, memory, latency, compute, linpack, network, trip, fed)
    return replace(whole, experiments=measured, findings=(carried, *others))


def _explained(make: Callable[[], Run]) -> Run:
    return explain(make())


RUNS = made_run.MadeLater(
    {
        **made_run.ALL,
        **{f"explained {name}": partial(_explained, make) for name, make in made_run.ALL.items()},
        "every resource": every_resource,
        "all degraded": lambda: degraded(made_run.whole_run()),
        "one resource": lambda: replace(made_run.whole_run(), experiments=made_run.whole_run().experiments[:1]),
        "wholly hostile": hostile.wholly_hostile_run,
        "huge": made_run.huge_run,
        "interrupted": lambda: replace(made_run.whole_run(), interrupted=True),
        "no machine": lambda: replace(made_run.whole_run(), machines=()),
    }
)


def printed(run: Run, width: int = 80, **more: Any) -> str:
    out = io.StringIO()
    print_run(run, file=out, width=width, **more)
    return out.getvalue()


# --- one screen


@pytest.mark.parametrize("width", [80, 100, 132])
@pytest.mark.parametrize("name", RUNS)
def test_a_scorecard_fits_one_screen(name: str, width: int) -> None:
    text = printed(RUNS[name], width)
    lines = text.splitlines()
    assert 3 <= len(lines) <= SCREEN
    assert all(len(line) <= width for line in lines)
    assert not any(letter in text for letter in "\x1b\x07\u202e")


def test_a_scorecard_has_its_limits_and_keeps_the_figures_of_a_resource_together() -> None:
    for run in RUNS.values():
        card = scorecard(run)
        assert len(card.rows) <= MAX_ROWS and len(card.todo) <= MAX_TODO
        names = [row.resource for row in card.rows]
        assert names == sorted(names, key=names.index)
        for row in card.rows:
            point = run.experiments[row.experiment].points[row.point]
            doubted = {finding.rule for finding in run.findings} & {*DISBELIEVED} or row.title.endswith("read / write")
            assert row.state == point.validity or (doubted and row.state != "valid")
            assert row.title and re.match(r"[\d.,]+( \S|$)", row.value)


def test_everything_is_printed_on_request() -> None:
    run = RUNS["explained whole"]
    short, whole = printed(run), printed(run, verbose=True)
    assert short.splitlines()[:-1] == whole.splitlines()[: len(short.splitlines()) - 1]
    assert "--verbose" in short and "--verbose" not in whole
    for experiment in run.experiments:
        assert experiment.asks in whole and experiment.asks not in short
    plain = " ".join(whole.split())
    assert all(" ".join(finding.says.split()) in plain for finding in run.findings)


def test_the_command_shows_the_scorecard_and_names_what_shows_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("my run.json")
    path.write_text(to_json(made_run.whole_run()))
    assert main(["report", str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    command = shlex.split(last.partition(": ")[2])
    assert command == ["hwdyno", "report", str(path), "--verbose"]
    assert main(command[1:]) == 0
    assert "Standard disk tests" in capsys.readouterr().out


# --- the figures


def test_a_round_trip_beside_a_load_is_no_round_trip() -> None:
    run = replace(every_resource(), findings=())
    network = [experiment for experiment in run.experiments if experiment.resource == "network"]
    loaded = [
        replace(experiment, name="network.loaded_latency")
        for experiment in network
        if experiment.kernel == "network_latency"
    ]
    assert "round trip, loopback" in {row.title for row in scorecard(replace(run, experiments=tuple(network))).rows}
    streams = [experiment for experiment in network if experiment.kernel != "network_latency"]
    rows = scorecard(replace(run, experiments=(*streams, *loaded))).rows
    assert "round trip, loopback" not in {row.title for row in rows} and rows


def test_figures_are_the_fields_quoted_ones() -> None:
    run = replace(every_resource(), findings=())
    alone = {
        name: [
            (row.title, row.value)
            for row in scorecard(replace(run, experiments=tuple(e for e in run.experiments if e.resource == name))).rows
        ]
        for name in ("memory", "compute", "network", "storage")
    }
    assert [title for title, _ in alone["storage"]] == [
        *("SEQ1M Q8T1 read / write", "RND4K Q32T1 read / write", "RND4K Q1T1 read / write"),
        "RND4K Q1T1 latency, read / write",
    ]
    assert [value.rpartition(" / ")[2].partition(" ")[2] for _, value in alone["storage"]] == [
        *("MB/s", "k IOPS", "k IOPS", "µs"),
    ]
    assert alone["memory"] == [
        ("read, 4 threads", "80.0 GB/s"),
        ("triad, 4 threads", "80.0 GB/s"),
        ("idle latency, 64 MiB", "144 ns"),
    ]
    assert alone["compute"] == [
        ("FP64 peak, 4 threads", "400 GFLOP/s"),
        ("FP32 peak, 4 threads", "400 GFLOP/s"),
        ("LINPACK, n = 3000", "300 GFLOP/s"),
        ("FP64 peak, 1 thread", "100 GFLOP/s"),
    ]
    assert alone["network"] == [("TCP loopback, 2 streams", "5,000 MB/s"), ("round trip, loopback", "13.0 µs")]
    everything = scorecard(every_resource())
    assert {row.resource for row in everything.rows} == {"Storage", "Memory", "Processor", "Network", "Training"}
    assert [(row.title, row.value) for row in everything.rows if row.resource == "Training"] == [
        ("H100s fed, unet3d", "1")
    ]


def test_storage_is_quoted_as_the_field_does_reads_and_writes_in_a_row() -> None:
    card = scorecard(RUNS["every resource"])
    (first, *_) = rows = [row for row in card.rows if row.resource == "Storage"]
    tests = ["SEQ1M Q8T1", "RND4K Q32T1", "RND4K Q1T1", "RND4K Q1T1 latency,"]
    assert [row.title for row in rows] == [f"{test} read / write" for test in tests]
    assert (first.value, first.interval) == ("3,288 / 2,566 MB/s", "±1.8%")
    assert rows[-1].p99 and rows[-1].value.endswith(" µs") and rows[-2].value.endswith("IOPS")
    assert first.share is not None and first.share.of == "read" and first.typical is not None
    assert first.typical.value == "3,200 / 2,300 MB/s"
    for width, title in ((80, "SEQ1M Q8T1 r/w"), (132, "SEQ1M Q8T1 read / write")):
        assert re.search(rf"{title} +3,288 / 2,566 MB/s", printed(RUNS["every resource"], width))
    # A write that is degraded is not quoted as a valid one.
    run = every_resource()
    points = tuple(
        replace(point, validity="degraded", why=("interval_not_reached",))
        if "write" in str(point.parameters["rw"])
        else point
        for point in run.experiments[0].points
    )
    mixed = replace(run, experiments=(replace(run.experiments[0], points=points), *run.experiments[1:]))
    (first, *_) = [row for row in scorecard(mixed).rows if row.resource == "Storage"]
    assert (first.state, first.why) == ("degraded", "a wide interval")


def test_each_resource_has_one_unit() -> None:
    for run in RUNS.values():
        card = scorecard(run)
        for resource in {row.resource for row in card.rows}:
            values = [row.value for row in card.rows if row.resource == resource]
            assert len({value.rpartition(" ")[2] for value in values if value.endswith("B/s")}) <= 1
    card = scorecard(RUNS["every resource"])
    units = {row.resource: row.value.rpartition(" ")[2] for row in card.rows if row.value.endswith("B/s")}
    assert units == {"Storage": "MB/s", "Memory": "GB/s", "Network": "MB/s"}
    for run in (explain(made_run.whole_run()), machine_run()):
        stored = [finding.says for finding in run.findings if finding.resource == "storage"]
        assert not any("GB/s" in says for says in stored)
        assert {row.value.rpartition(" ")[2] for row in scorecard(run).rows if row.title.startswith("SEQ")} == {"MB/s"}


def test_a_figure_is_chosen_by_its_configuration_and_a_degraded_one_is_marked() -> None:
    """Whichever thread count is faster, and however doubtful one is: all processors, and no more than they are."""
    whole = made_run.whole_run()
    for values, state in (
        ((5e10, 9e10, 9e10), "valid"),
        ((9e10, 5e10, 9e10), "valid"),
        ((5e10, 9e10, 9e10), "degraded"),
    ):
        points = [
            moved(bandwidth, operation="triad", threads=n) for n, bandwidth in zip((8, 16, 32), values, strict=True)
        ]
        points[1] = replace(points[1], validity=state, why=("interval_not_reached",) if state == "degraded" else ())
        base = made_experiment("memory.grid", "memory", "?", "threads", "memory_bandwidth", tuple(points))
        run = replace(whole, experiments=(base,), findings=())
        (row,) = scorecard(run).rows
        assert (row.title, row.state) == ("triad, 16 threads", state) and whole.machine.cpu.threads == 16
        assert row.why == ("a wide interval" if state == "degraded" else "")
        assert (f"{values[1] / 1e9:.1f} GB/s !" in printed(run)) == (state == "degraded")


def test_a_run_whose_figures_are_all_impossible_is_not_to_be_trusted() -> None:
    run = made_run.whole_run()
    spoilt = [
        replace(
            experiment,
            points=tuple(replace(point, validity="invalid", why=("page_cache",)) for point in experiment.points),
        )
        for experiment in run.experiments
    ]
    card = scorecard(replace(run, experiments=tuple(spoilt), findings=()))
    assert card.verdict == "not to be trusted" and card.reason.endswith("and 4 more: bytes that missed the device.")
    assert {row.state for row in card.rows} == {"invalid"}


def test_an_impossible_figure_stands_with_its_mark_and_decides_the_verdict() -> None:
    card = scorecard(RUNS["invalid"])
    assert next(row for row in card.rows if "SEQ1M Q8T1 read" in row.title).state == "invalid"
    assert card.verdict == "not to be trusted" and "12.0 GB/s" in card.reason
    assert " !!" in printed(RUNS["invalid"])


def test_what_a_hosts_cache_took_is_marked_in_its_row() -> None:
    run = made_run.whole_run()
    writes = Finding("host_cache", "warning", "storage", "Writes are faster.", {}, "", "storage.grid", (1,))
    rows = {row.title: row for row in scorecard(replace(run, findings=(writes,))).rows}
    row = rows["SEQ1M Q8T1 read / write"]
    assert (row.state, row.why) == ("degraded", "the host's cache answered")
    assert rows["RND4K Q32T1 read / write"].state == "valid"


def test_cache_is_not_quoted_as_memory() -> None:
    small, large = timed(5.0, working_set=1 << 20, pages="2m"), timed(90.0, working_set=1 << 28, pages="2m")
    poor = replace(large, validity="degraded", why=("interval_not_reached",))
    for point in (large, poor):
        latency = of_latency("memory.latency", "memory_latency", small, point)
        levels = made_experiment(
            *("memory.levels", "memory", "?", "working_set", "memory_bandwidth"),
            (moved(9e11, operation="read", working_set=1 << 15, threads=4),),
        )
        card = scorecard(replace(made_run.whole_run(), experiments=(latency, levels), findings=()))
        assert [row.value for row in card.rows] == ["90.0 ns"]
        assert "256 MiB" in card.rows[0].title


def test_rows_of_several_experiments_with_one_load_name_them() -> None:
    """A loader's speed from memory is none of them."""
    names = ("training.unet3d.a100", "training.unet3d.h100", "training.client.unet3d")
    found = [
        made_experiment(name, "training", "", "accelerators", "training_loader", (moved(2e9, accelerators=1),))
        for name in names
    ]
    card = scorecard(replace(made_run.whole_run(), experiments=tuple(found), findings=()))
    assert [row.title for row in card.rows] == ["unet3d.a100, 1 accelerator", "unet3d.h100, 1 accelerator"]
    card = scorecard(replace(made_run.whole_run(), experiments=(found[0], found[2]), findings=()))
    assert [row.title for row in card.rows] == ["1 accelerator"]


def test_latency_has_interval_and_tail() -> None:
    for width, expected in ((0.02, "±2.0%"), (0.9, "80.0–125")):
        latency = of_latency(
            "memory.latency", "memory_latency", timed(100.0, 1 - width, 1 + width, working_set=1 << 28)
        )
        (row,) = scorecard(replace(made_run.whole_run(), experiments=(latency,), findings=())).rows
        assert (row.value, row.interval, row.p99, row.share) == ("100 ns", expected, "130 ns", None)
    few = timed(100.0, 0.1, 1.9, working_set=1 << 28)
    few = replace(few, repeat_values=few.repeat_values[:2], latency_ns=replace(few.latency_ns, count=500))  # type: ignore[type-var]
    latency = of_latency("memory.latency", "memory_latency", few)
    (row,) = scorecard(replace(made_run.whole_run(), experiments=(latency,), findings=())).rows
    assert (row.interval, row.p99) == ("few repeats", None)


def test_no_interval_that_says_nothing_stands_in_a_scorecard() -> None:
    point = replace(moved(6e10, operation="triad", threads=4), throughput=Value(6e10, "bytes/s", 0.0, 1.9e11))
    base = made_experiment("memory.grid", "memory", "?", "threads", "memory_bandwidth", (point,))
    run = explain(replace(made_run.whole_run(), experiments=(base,), findings=()))
    for printed_run in (run, *RUNS.values()):
        for half in re.findall(r"±([\d.]+)%", "\n".join(printed(printed_run).splitlines()[2:])):
            assert float(half) <= 50


def test_a_share_is_of_the_tightest_physical_or_rated_ceiling() -> None:
    rows = {row.title: row for row in scorecard(made_run.whole_run()).rows}
    read = rows["SEQ1M Q8T1 read / write"].share
    assert read is not None and read.of_ceiling == pytest.approx(3288e6 / 3.938e9, rel=0.001)
    assert read.ceiling == "PCIe 3.0 x4, 3,938 MB/s" and read.formula.startswith("8 GT/s x 4 lanes")
    assert "████████░░ 83%" in printed(made_run.whole_run(), 132) and "83% read" in printed(made_run.whole_run())
    whole = made_run.whole_run()
    bounds = tuple(replace(ceiling, kind="reference") for ceiling in whole.experiments[0].ceilings)
    bare = replace(whole, experiments=(replace(whole.experiments[0], ceilings=bounds, peers=()),))
    assert all(row.share is None for row in scorecard(bare).rows)


def test_a_list_of_runs_has_the_verdict_and_the_figures_of_the_scorecard() -> None:
    latency = of_latency(
        "memory.latency", "memory_latency", timed(5.0, working_set=1 << 20), timed(90.0, working_set=1 << 28)
    )
    run = explain_run(replace(every_resource(), experiments=(latency, *every_resource().experiments)))
    entry, card = make_entry(run, Path("run.json")), scorecard(run)
    assert (entry.verdict, run.reason) == (card.verdict, card.reason)
    shown = {title: (value, unit) for title, value, unit in entry.headline}
    assert shown["idle latency, 256 MiB"] == (90.0, "ns"), "by its configuration, not the least of several"
    assert shown["FP64 peak, 4 threads"] == (4e11, "FLOP/s") and len(entry.headline) >= len(card.rows)
    assert explain_run(run) == run


def test_scorecard_comes_first_in_markdown() -> None:
    text = markdown(made_run.whole_run())
    assert text.startswith("# bench-07: Example CPU 9000, 16 threads")
    assert (
        text.index("**sound**")
        < text.index("| Storage | SEQ1M Q8T1 read / write | 3,288 / 2,566 MB/s |")
        < text.index("## Figures")
    )
    assert "83% of PCIe 3.0 x4, 3,938 MB/s" in text and "3,200 / 2,300 MB/s for PCIe 3.0 x4 NVMe" in text


# --- what to do


def test_warnings_come_first_those_on_the_machine_before_the_noise_of_this_run() -> None:
    noise = Finding(
        "interval_not_reached",
        "warning",
        "memory",
        "24 results vary.",
        {},
        "Measure longer: hwdyno memory --profile full",
    )
    again = replace(
        noise, rule="outlying_repeats", says="One repeat was off.", advice="Again: hwdyno memory --threads 2"
    )
    link = Finding("link_below_its_best", "warning", "storage", "The drive links at half.", {}, "Check: hwdyno machine")
    cache = Finding("claimed_cache", "info", "memory", "L3 is smaller.", {}, ADVICE["machine"])
    run = replace(made_run.whole_run(), findings=(noise, again, cache, link))
    assert [todo.says for todo in scorecard(run).todo] == [
        "The drive links at half.",
        "24 results vary.",
        "L3 is smaller.",
    ]
    wrong = Finding(
        "page_cache", "invalid", "storage", "This is the page cache.", {}, "Measure: hwdyno storage --direct 1"
    )
    assert scorecard(replace(run, findings=(noise, cache, wrong))).todo[0].says == "This is the page cache."


def test_grave_finding_without_command_is_explained() -> None:
    link = Finding(
        "link_below_its_best", "warning", "storage", "The drive links at half.", {}, "Move it to another slot."
    )
    run = replace(made_run.whole_run(), findings=(link, replace(link, rule="foreign"), replace(link, severity="info")))
    (todo,) = scorecard(run).todo
    assert (todo.says, todo.command) == ("The drive links at half.", "hwdyno explain link_below_its_best")
    assert main(shlex.split(todo.command)[1:]) == 0


def test_rules_about_run_are_rules() -> None:
    known = {rule.name for rule in all_rules()}
    assert {"interval_not_reached", "repeats_disagree", "steal"} <= ABOUT_THE_RUN & known
    assert known >= ABOUT_THE_RUN
    assert name_effect("client_bound") == "a busy client CPU" and name_effect("no_such_rule") == "no such rule"


def parsed(command: str) -> None:
    words = shlex.split(command)
    assert words[0] == "hwdyno"
    importlib.import_module(f"hwdyno.cli.{words[1]}")
    make_parser(words[1]).read(words[2:])


@pytest.mark.parametrize("name", sorted(set(RUNS) - {"every resource", "explained sweep"}))
def test_each_thing_to_do_is_a_command_that_the_parser_takes(name: str) -> None:
    for todo in scorecard(RUNS[name]).todo:
        assert todo.says and len(todo.says) <= 76
        parsed(todo.command)
        # As printed, over several lines if it is long.
        lines = command_lines(todo.command)
        assert all(line.endswith("\\") for line in lines[:-1])
        assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(todo.command)


@pytest.mark.parametrize(
    ("advice", "command"),
    [
        (ADVICE["whole"], ADVICE["whole"].partition(": ")[2]),
        ("Look closer: hwdyno memory caches", "hwdyno memory caches"),
        ("Compare runs: `hwdyno compare` uses this.", "hwdyno compare"),
        ("Measure a path: `hwdyno network server --bind ADDR` there.", ""),
        ("Set the governor.", ""),
        ("Again: hwdyno storage --path .", "hwdyno storage --path ."),
        ("Again: hwdyno storage --path . Then compare.", "hwdyno storage --path ."),
        ("Again: hwdyno run --path '/a b'", "hwdyno run --path '/a b'"),
        ("Again: hwdyno run; rm -rf /", "hwdyno run"),
        ("Again: hwdyno run && rm -rf /", ""),
        ("Again: hwdyno run --path $(reboot)", ""),
        ("Again: hwdyno run --path '/a", ""),
        ("Again: hwdyno run | sh", ""),
        ("Again: hwdyno storage --path /a/hwdyno-scratch-1f/made/data", ""),
    ],
)
def test_a_command_is_taken_from_an_advice_only_if_it_works_as_printed(advice: str, command: str) -> None:
    assert command_in(advice) == command


def test_example_ceiling_is_not_offered() -> None:
    advice = "Read the modules, then: hwdyno memory --ceiling 'physical 51.2 GB/s'"
    guess = Finding("practical_bandwidth", "info", "memory", "Memory reaches 60 GB/s.", {}, advice)
    run = replace(made_run.whole_run(), findings=(guess,))
    assert scorecard(run).todo == ()
    given = replace(run, command="hwdyno memory --ceiling 'physical 51.2 GB/s'")
    assert [todo.command for todo in scorecard(given).todo] == ["hwdyno memory --ceiling 'physical 51.2 GB/s'"]


def test_a_foreign_command_is_not_offered() -> None:
    nasty = replace(made_run.partial_run(), command="hwdyno run; reboot")
    assert scorecard(nasty).todo == ()


# --- the machine


def test_the_machine_is_one_line() -> None:
    assert (
        machine_line(made_run.whole_run()) == "bench-07: Example CPU 9000, 16 threads; 64 GiB; ext4 on Example SSD 1TB"
    )
    assert "storage" not in machine_line(replace(made_run.whole_run(), machines=(Machine(),)))
    two = replace(made_run.whole_run(), machines=made_run.whole_run().machines * 2)
    assert machine_line(two).startswith("bench-07 and 1 more host: ")
    assert "unknown" in machine_line(RUNS["imported"])


def test_the_command_and_the_page_say_the_bytes_of_a_machine_alike() -> None:
    whole = Machine.of_survey(made_run.MACHINE)
    out = io.StringIO()
    show(whole, (), (), out)
    paged = " ".join(fact.says for group in describe_machine(whole) for fact in group.facts)
    for amount in ("64 GiB", "51 GiB", "48 KiB"):
        assert amount in out.getvalue() and amount in paged
    assert "1 TB" in out.getvalue() and "1 TB" in paged
    for text in (out.getvalue(), paged):
        assert not re.search(r"\b(68\.7|54\.8|49\.2) |\b931 GiB", text), "the same bytes in another unit"


def test_a_scorecard_of_a_frozen_run_is_the_same_each_time() -> None:
    first: Scorecard = scorecard(RUNS["explained whole"])
    assert first == scorecard(RUNS["explained whole"])


@pytest.mark.parametrize(
    ("value", "unit", "says"),
    [
        (2.92088e8, "bytes/s", "292 MB/s"),
        (85.2882, "tokens/s", "85.3 tokens/s"),
        (1.2345e6, "queries/s", "1.23 M queries/s"),
        (3, "", "3"),
    ],
)
def test_what_a_finding_computed_has_three_digits_and_its_unit(value: float, unit: str, says: str) -> None:
    assert of_finding(value, unit) == says


def test_an_uncertain_rate_has_the_word_of_its_rate_everywhere() -> None:
    rates = replace(
        moved(1.0), throughput=Value(1220.0, "operations/s", -9e3, 2e4), repeats=2, repeat_values=(8.19e3, 1.49e4)
    )
    line = result_line("inference.restore", replace(rates, concurrency=None, latency_ns=None), "tokens/s")
    assert "(2 repeats from 8.19 k tokens/s to 14.9 k tokens/s)" in line and "operations" not in line


def test_unbounded_figure_has_a_reference() -> None:
    best = Ceiling("dram_bytes_s", "reference", 5e10, "bytes/s", "the best of this run: copy", "this run", "practical")
    memory = made_experiment(
        "memory.grid", "memory", "?", "threads", "memory_bandwidth",
        tuple(moved(rate, operation=name, threads=2) for name, rate in (("triad", 4e10), ("copy", 5e10))),
        ceilings=(best,),
    )  # fmt: skip
    storage = made_experiment(
        "storage.grid", "storage", "?", "iodepth", "storage_blocks",
        (moved(1e9, rw="read", bs=1 << 20, iodepth=8, numjobs=1),),
    )  # fmt: skip
    rows = {row.title: row for row in headlines(replace(made_run.whole_run(), experiments=(memory, storage)))[1]}
    shares = {title: row.share and (round(row.share.of_ceiling, 2), row.share.reference) for title, row in rows.items()}
    assert shares["triad, 2 threads"] == (0.8, "best kernel") and shares["copy, 2 threads"] == (1.0, "best kernel")
    assert shares["SEQ1M Q8T1 read"] is None and rows["SEQ1M Q8T1 read"].no_ceiling.endswith("unknown; rated: --device")
