"""The figures of a scorecard: those that the field quotes, each in one unit, with its mark, share and interval."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import made_run
import pytest
from hwdyno.cli.progress import result_line
from hwdyno.explain.findings import explain
from hwdyno.model.words import Ceiling, Finding, Value
from hwdyno.report.figures import of_finding
from hwdyno.report.headlines import headlines
from hwdyno.report.scorecard import explain_run, scorecard
from hwdyno.system.store.history import make_entry
from made_experiment import made_experiment
from made_scorecards import RUNS, every_resource, moved, of_latency, printed, timed
from test_report_page import machine_run


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
