"""The open loop from the rate to the report, on a simulated queue M/M/m whose service and servers are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hwdyno.curves.open_loop import mean_latency
from hwdyno.findings import explain
from hwdyno.report.charts import charts_of
from hwdyno.report.picture import Line
from hwdyno.words import ExperimentResult, Finding, Note, Run
from simulated_runs import FIXED, experiment, run_of
from simulation.host import SimulatedMachine

SERVICE_S = 1e-4
SHARES = (0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)


def over_rates(servers: int, shares: tuple[float, ...] = SHARES) -> tuple[SimulatedMachine, ExperimentResult]:
    machine = SimulatedMachine(servers=servers, latency_one_s=SERVICE_S, noise=0.002, link_bytes_s=1e12)
    capacity = servers / SERVICE_S
    rates = [{"rw": "randread", "bs": 4096, "iodepth": 256, "rate": share * capacity} for share in shares]
    return machine, experiment(machine, "rate", rates, FIXED)


def with_closed(servers: int, shares: tuple[float, ...] = SHARES) -> Run:
    machine, opened = over_rates(servers, shares)
    depths = [{"rw": "randread", "bs": 4096, "iodepth": 1 << k} for k in range(8)]
    return explain(run_of(machine, opened, experiment(machine, "iodepth", depths, FIXED)))


def of(run: Run, rule: str) -> list[Finding]:
    return [finding for finding in run.findings if finding.rule == rule]


@pytest.mark.parametrize("servers", [1, 4, 16])
def test_what_users_wait_is_the_planted_queues(servers: int) -> None:
    run = with_closed(servers)
    (finding,) = of(run, "users_wait")
    assert finding.evidence["capacity_operations_s"] == pytest.approx(servers / SERVICE_S, rel=0.05)
    assert finding.evidence["service_ns"] == pytest.approx(1e9 * SERVICE_S, rel=0.05)
    for share, latency in finding.evidence["latency_ns_at_share"].items():
        rate = float(share) * servers / SERVICE_S
        assert latency == pytest.approx(mean_latency(rate, 1e9 * SERVICE_S, servers), rel=0.15)
    assert f"model G/G/{finding.evidence['servers']}, " in finding.says
    assert not of(run, "rate_not_reached") and "without end" not in finding.says


def test_beyond_what_can_be_served_the_backlog_is_named_and_not_fitted() -> None:
    run = with_closed(4, (*SHARES, 1.3, 2.0))
    (finding,) = of(run, "rate_not_reached")
    assert finding.severity == "warning" and finding.evidence["share"] == pytest.approx(0.5, rel=0.02)
    assert "the backlog of this runtime" in finding.says and "Worst of 2 points" in finding.says
    (waits,) = of(run, "users_wait")
    assert waits.evidence["capacity_operations_s"] == pytest.approx(4 / SERVICE_S, rel=0.05)
    assert "requests queue up without end" in waits.says


def test_an_open_capacity_advises_the_rates_with_a_higher_one() -> None:
    machine, opened = over_rates(16, (0.05, 0.1, 0.2, 0.3, 0.4))
    (finding,) = of(explain(run_of(machine, opened)), "users_wait")
    assert "The capacity is open: " in finding.says
    # The highest was 40% of 160,000 a second; 50% of it tells more.
    assert finding.advice.startswith("Measure a higher rate too: hwdyno storage ")
    assert "--rate 8000,16000,32000,48000,64000,80000" in finding.advice


def test_without_such_a_queue_it_says_what_was_measured() -> None:
    machine, opened = over_rates(4)
    points = []
    for at, point in enumerate(opened.points):
        assert point.latency_ns is not None
        points.append(replace(point, latency_ns=replace(point.latency_ns, mean=1e5 * (1 + 40 * (at % 2)))))
    (finding,) = of(explain(run_of(machine, replace(opened, points=tuple(points)))), "users_wait")
    assert "No queueing model fits" in finding.says


def test_the_chart_lays_the_open_loop_over_the_closed_one_and_the_model() -> None:
    run = with_closed(4)
    (chart,) = [chart for chart in charts_of(run) if chart.name.endswith("open-closed")]
    assert chart.picture.series[:2] == ("open loop", "closed loop") and "G/G/" in chart.caption
    lines = [mark for mark in chart.picture.marks if isinstance(mark, Line)]
    assert [line.series for line in lines] == [0, 1, 2]
    assert len(lines[2].places) == 15 and lines[2].dash
    machine, opened = over_rates(4)
    (alone,) = [chart for chart in charts_of(explain(run_of(machine, opened))) if chart.name.endswith("open-closed")]
    assert "`hwdyno storage rate iodepth` measures both" in alone.caption


def test_what_chance_brings_is_no_backlog() -> None:
    """Random arrivals at a low rate: fewer came than were meant to, by luck."""
    machine, opened = over_rates(4)
    few = opened.points[0]
    assert few.rate is not None
    unlucky = replace(
        few,
        rate=replace(few.rate, value=0.94 * few.rate.value),
        operations=1500,
        notes=(Note("rate_not_reached", "94% was reached"),),
    )
    run = explain(run_of(machine, replace(opened, points=(unlucky, *opened.points[1:]))))
    assert not of(run, "rate_not_reached")
    assert "without end" not in of(run, "users_wait")[0].says
    many = replace(unlucky, operations=1_000_000)
    assert of(explain(run_of(machine, replace(opened, points=(many, *opened.points[1:])))), "rate_not_reached")
