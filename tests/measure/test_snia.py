"""SNIA's tests: steady state by both criteria at once, at the round where it was planted, and the report's tables."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno import studies
from hwdyno.analysis.estimates import snia_window
from hwdyno.cli import storage
from hwdyno.cli.main import main
from hwdyno.cli.options import make_request
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.applies import ROUND
from hwdyno.explain.findings.snia import is_rounds
from hwdyno.measure.experiments.storage_snia import TESTS
from hwdyno.measure.runner import snia
from hwdyno.measure.scenarios import snia as scenario
from hwdyno.model.point_details import Note
from hwdyno.model.words import Run, Value
from hwdyno.report.charts import list_charts
from hwdyno.report.page import html
from hwdyno.report.rows import make_rows
from hwdyno.report.tables import markdown
from hwdyno.system.store import Store, from_json, to_json
from made_point import base, make_run
from simulation.host import SimulatedHost, SimulatedMachine

MIB = 1 << 20
REGION = 64 * MIB
QUIET = {"noise": 0.0, "link_bytes_s": 1e12}


def performed(name: str, machine: SimulatedMachine, tmp_path: Path) -> Run:
    """A test on a simulated machine, from the command line's options to the stored document."""
    parser = argparse.ArgumentParser()
    storage.add(parser)
    # This much time that each workload has its whole second, however slow this machine is.
    options = ["snia", name, "--path", str(tmp_path), "--size", str(REGION), "--budget", "1h"]
    args = parser.parse_args(options)
    host, store = SimulatedHost(machine), Store(tmp_path / "store")
    plan = scenario.make_plan(TESTS[name], make_request(args, "storage snia", experiments=(name,)), host)
    snia.run(plan, TESTS[name], host, store, "x", explain=explain)
    return store.load("x")


@pytest.mark.parametrize(
    ("rounds", "steady"),
    [
        ([100, 100, 100, 100, 100], True),
        ([100, 104, 98, 102, 100], True),
        ([100, 103, 106, 109, 112], False),  # Its range is 11%, but its line moves by as much.
        ([100, 118, 94, 118, 100], False),  # Its line does not move, but its range is 23%.
        ([500, 300, 100, 100, 101, 99, 100], False),  # The last five alone are steady, after windows that were not.
        ([500, 300, 100, 100, 101, 99, 100, 101], True),  # Two windows in a row are.
        ([300, 100, 100, 100, 100], False),
    ],
)
def test_both_criteria_hold_at_once(rounds: list[float], steady: bool) -> None:
    window = snia_window(rounds)
    assert window is not None and window.steady is steady
    assert (window.first, window.last) == (len(rounds) - 4, len(rounds))
    assert snia_window(rounds[:4]) is None


@pytest.mark.parametrize(("gain", "cells"), [(3.0, 12.0), (1.0, 30.0), (0.0, 1.0)])
def test_planted_drift_ends_on_time(gain: float, cells: float, tmp_path: Path) -> None:
    """A fresh drive writes faster, and ever less so until this much is written: where that ends is computed here."""
    base = SimulatedMachine(**QUIET)
    a_cell = base.operations_per_s("write", 0, MIB, 32) * MIB * 1.0
    machine = SimulatedMachine(**QUIET, fresh_gain=gain, fresh_bytes=3 * REGION + cells * a_cell)
    written, values, steady_at, passed, failed = 3.0 * REGION, [], None, 0, 0
    for number in range(1, 26):
        for bs in (MIB, 128 << 10):
            factor = 1 + gain * max(0.0, 1 - written / machine.fresh_bytes)
            rate = base.operations_per_s("write", 0, bs, 32) * factor * bs
            values += [rate] if bs == MIB else []
            written += rate * 1.0
        window = values[-5:]
        middle, centre = 2, sum(window) / len(window)
        line = sum((at - middle) * value for at, value in enumerate(window)) / 10 * 4 / centre
        if len(window) < 5:
            continue
        if (max(window) - min(window)) <= 0.2 * centre and abs(line) <= 0.1:
            passed += 1
        else:
            passed, failed = 0, failed + 1
        if passed > (failed > 0) + (failed > 3):
            steady_at = number
            break
    run = performed("throughput", machine, tmp_path)
    rounds = run.experiments[1].points
    tracked = [p.throughput.value for p in rounds if p.parameters["rw"] == "write" and p.parameters["bs"] == MIB]
    assert tracked == pytest.approx(values, rel=5e-3)
    assert len(tracked) == steady_at
    assert (gain == 0) is (steady_at == 5)
    assert f"Steady state reached in round {steady_at}" in studies.observations(run)[0]
    # The figures are those of the window's rounds, and of nothing before.
    (cell,) = [p for p in run.experiments[0].points if p.parameters == {"rw": "write", "bs": MIB}]
    assert cell.repeats == 5 and cell.repeat_values == pytest.approx(values[-5:], rel=5e-3)
    assert "snia_not_steady" not in {finding.rule for finding in run.findings}


@pytest.mark.parametrize(("name", "latency_ns", "growth", "named"), [
    ("iops", base().latency_ns, 1.0, True), ("iops", base().latency_ns, 0.0, False),
    ("latency", base().latency_ns, 1.0, False), ("latency", None, 1.0, False),
])  # fmt: skip
def test_rounds_use_latency_or_rate(name: str, latency_ns: Any, growth: float, named: bool) -> None:
    rates = [Value(1000.0 * (1 + growth * at), "operations/s") for at in range(5)]
    rounds = [base(rate=rate, latency_ns=latency_ns, notes=(Note("snia_tracked", ""),)) for rate in rates]
    result = replace(make_run(base()).experiments[0], name=f"storage.snia-{name}", load=ROUND, points=tuple(rounds))
    others = (replace(result, load="iodepth"), replace(result, name="storage.blocks"))
    assert is_rounds(result) and not any(map(is_rounds, others))
    found = explain(replace(make_run(base()), experiments=(result,))).findings
    assert ("snia_not_steady" in {finding.rule for finding in found}) == named


def test_what_is_never_steady_says_so(tmp_path: Path) -> None:
    run = performed("latency", SimulatedMachine(noise=0.5), tmp_path)
    assert studies.observations(run)[0].startswith("Not steady after 25 rounds")
    finding = next(finding for finding in run.findings if finding.rule == "snia_not_steady")
    assert finding.severity == "warning" and finding.evidence["rounds"] == 25
    cut = replace(run, command="hwdyno storage snia latency --budget 70s --profile standard", profile="standard")
    (finding,) = [candidate for candidate in explain(cut).findings if candidate.rule == "snia_not_steady"]
    assert finding.advice.endswith(": hwdyno storage snia latency --profile full")
    assert "no steady state after 25 rounds" in run.degraded[0]


def test_the_matrix_of_iops_has_its_tables_and_its_plot(tmp_path: Path) -> None:
    run = performed("iops", SimulatedMachine(**QUIET), tmp_path)
    matrix, rounds, window = studies.tables(run)
    assert matrix.columns[1:] == ("100/0", "95/5", "65/35", "50/50", "35/65", "5/95", "0/100")
    assert [row[0] for row in matrix.rows][-2:] == ["4 KiB", "512 B"] and len(matrix.rows) == 8
    assert all("-" not in row for row in matrix.rows)
    assert len(rounds.rows) == 5 and all(row[2] == "yes" for row in rounds.rows)
    assert [row[3] for row in window.rows[-2:]] == ["yes", "yes"]
    shortened, before = studies.observations(run)[1:3]
    assert shortened.startswith("Shortened: ") and "not purged first" in shortened
    assert "1 min" in shortened and "64 MiB instead of the whole device" in shortened
    assert before.startswith("Before, ") and "2.0 times the region" in before
    (plot,) = [chart for chart in list_charts(run) if chart.name.endswith("convergence")]
    assert "Steady: in rounds 1 to 5" in plot.caption and {"mean", "90%", "110%"} <= set(plot.picture.texts)
    assert {row.experiment.name for row in make_rows(run)} == {"storage.snia-iops"}
    # No figure of a round is alone, and no rule on queues applies to a matrix.
    assert not {"knee", "best_block_size", "too_short"} & {finding.rule for finding in run.findings}
    again = from_json(to_json(run))
    for text in (markdown(again), html(again)):
        assert "Steady-state measurement window" in text and "Shortened" in text


def test_demand_goes_over_threads_and_depths_once_it_is_steady(tmp_path: Path) -> None:
    run = performed("demand", SimulatedMachine(**QUIET), tmp_path)
    points = run.experiments[0].points
    assert len(points) == 49
    assert {point.repeats for point in points if point.parameters["numjobs"] != 32} == {1}
    iops, response = studies.tables(run)[:2]
    assert iops.columns[1:] == ("32", "16", "8", "6", "4", "2", "1") == tuple(row[0] for row in iops.rows)
    assert "response time" in response.title
    assert "the shortest response time within 10% of the maximum" in studies.observations(run)[-1]


def test_fixed_snia_options_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, says in [
        (["snia", "endurance"], "storage snia takes one test: iops, throughput, latency, demand"),
        (["snia"], "takes one test"),
        (["snia", "iops", "--bs", "4k"], "remove --bs"),
    ]:
        assert main(["storage", *words, "--path", str(tmp_path)]) == 2
        assert says in capsys.readouterr().err
    assert main(["study", "snia-iops"]) == 2
    assert "hwdyno storage snia iops" in capsys.readouterr().err
    assert main(["storage", "snia", "iops", "--path", str(tmp_path), "--dry-run"]) == 0
    assert "5 to 25 of 56 workloads" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.machine
def test_a_test_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    words = ["--path", str(tmp_path), "--size", "16M", "--budget", "3s", "--ioengine", "psync", "--quiet", "--json"]
    assert main(["storage", "snia", "latency", *words, "--no-page"]) in {0, 3}
    run = from_json(capsys.readouterr().out)
    whole: dict[str, Any] = {experiment.name: experiment for experiment in run.experiments}
    assert len(whole["storage.snia-latency"].points) == 9
    assert len(whole["storage.snia-latency-rounds"].points) >= 15
    verdict, shortened, before = studies.observations(run)[:3]
    is_steady = "snia_not_steady" not in {finding.rule for finding in run.findings}
    assert verdict.startswith("Steady " if is_steady else "Not "), verdict
    # A file's drive keeps what it holds, and the report says so.
    assert "not purged first" in shortened and "a file cannot be purged" in before
    assert [entry.name for entry in tmp_path.iterdir()] == ["home"]
