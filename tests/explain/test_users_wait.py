"""The open loop from the rate to the report, on a simulated queue M/M/m whose service and servers are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.curves.open_loop import mean_latency
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.open_loop import rate_not_reached, users_wait
from hwdyno.model.axes import with_field_axes
from hwdyno.model.point_details import Note
from hwdyno.model.words import Curve, ExperimentResult, Finding, Run, Value
from hwdyno.report.charts import list_charts
from hwdyno.report.picture import Polyline
from made_point import base, make_case
from simulated_runs import FIXED, experiment, make_run
from simulation.host import SimulatedMachine

SERVICE_S = 1e-4
SHARES = (0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
RATES = (1e3, 2e3, 5e3)


def over_rates(servers: int, shares: tuple[float, ...] = SHARES) -> tuple[SimulatedMachine, ExperimentResult]:
    machine = SimulatedMachine(servers=servers, latency_one_s=SERVICE_S, noise=0.002, link_bytes_s=1e12)
    capacity = servers / SERVICE_S
    rates = [{"rw": "randread", "bs": 4096, "iodepth": 256, "rate": share * capacity} for share in shares]
    return machine, experiment(machine, "rate", rates, FIXED)


def with_closed(servers: int, shares: tuple[float, ...] = SHARES) -> Run:
    machine, opened = over_rates(servers, shares)
    depths = [{"rw": "randread", "bs": 4096, "iodepth": 1 << k} for k in range(8)]
    return explain(make_run(machine, opened, experiment(machine, "iodepth", depths, FIXED)))


def of(run: Run, rule: str) -> list[Finding]:
    return [finding for finding in run.findings if finding.rule == rule]


@pytest.mark.parametrize("servers", [1, 4, 16])
def test_users_wait_is_the_planted_queues(servers: int) -> None:
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


def test_open_capacity_advises_higher_rates() -> None:
    machine, opened = over_rates(16, (0.05, 0.1, 0.2, 0.3, 0.4))
    (finding,) = of(explain(make_run(machine, opened)), "users_wait")
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
    (finding,) = of(explain(make_run(machine, replace(opened, points=tuple(points)))), "users_wait")
    assert "No queueing model fits" in finding.says


def test_the_chart_lays_the_open_loop_over_the_closed_one_and_the_model() -> None:
    run = with_closed(4)
    (chart,) = [chart for chart in list_charts(run) if chart.name.endswith("open-closed")]
    assert chart.picture.series[:2] == ("open loop", "closed loop") and "G/G/" in chart.caption
    lines = [mark for mark in chart.picture.marks if isinstance(mark, Polyline)]
    assert [line.series for line in lines] == [0, 1, 2]
    assert len(lines[2].places) == 15 and lines[2].dash
    machine, opened = over_rates(4)
    (alone,) = [
        chart for chart in list_charts(explain(make_run(machine, opened))) if chart.name.endswith("open-closed")
    ]
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
    run = explain(make_run(machine, replace(opened, points=(unlucky, *opened.points[1:]))))
    assert not of(run, "rate_not_reached")
    assert "without end" not in of(run, "users_wait")[0].says
    many = replace(unlucky, operations=1_000_000)
    assert of(explain(make_run(machine, replace(opened, points=(many, *opened.points[1:])))), "rate_not_reached")


@pytest.mark.parametrize(("axis", "arrived", "rate", "throughput", "share"), [
    # 98%, less four standard errors of a count: 0.4% of a million, 20% of 400; in the unit that was requested.
    ("rate", 10**6, 9.75e6, (1, "bytes/s"), 0.975), ("rate", 10**6, 9.77e6, (1, "bytes/s"), None),
    ("rate", 400, 7.7e6, (1, "bytes/s"), 0.77), ("rate", 400, 7.9e6, (1, "bytes/s"), None),
    ("rate", 0, 1e6, (1, "bytes/s"), None), ("rate", 10**6, 7e6, (1, "operations/s"), 0.7),
    ("rate_bytes", 10**6, 7e6, (5e6, "bytes/s"), 0.5), ("rate_bytes", 10**6, 7e6, (5e6, "operations/s"), None),
    ("iodepth", 10**6, 7e6, (5e6, "bytes/s"), None),
])  # fmt: skip
def test_a_rate_is_missed_beyond_chance(axis: str, arrived: int, rate: float, throughput: Any, share: Any) -> None:
    """A requested rate of 10,000,000 a second."""
    served = round(arrived * (share or rate / 1e7))
    point = base(parameters={"rw": "randread", "bs": 4096, axis: 1e7}, operations=served,
                 rate=Value(rate, "operations/s"), throughput=Value(*throughput))  # fmt: skip
    result = with_field_axes(ExperimentResult("s", "storage", "?", axis, "storage_blocks", (point,)))
    assert rate_not_reached(make_case(result)) is None, "the measurement did not note it"
    noted = replace(point, notes=(Note("rate_not_reached", "missed"),))
    found = rate_not_reached(make_case(replace(result, points=(noted,))))
    assert (found and (found.evidence["share"], found.weight)) == (share and pytest.approx((share, 1 - share)))
    if found is not None and share == 0.7:
        assert "7.00 M of 10.0 M IOPS (70%). Requests queued up" in found.says
        assert found.advice.startswith("Request a rate that it can serve: ") and "--rate 4900000" in found.advice


def waits(reached: Any = RATES, axis: str = "rate", model: str = "", servers: int = 1, bounds: Any = ()) -> Any:
    """Users' waits at 1,000, 2,000 and 5,000 a second, by servers that take 0.1 ms."""
    points = tuple(
        base(parameters={axis: rate}, rate=None, throughput=Value(done, "operations/s"), operations=round(100 * done))
        for rate, done in zip(RATES, reached, strict=True)
    )
    result = with_field_axes(ExperimentResult("storage.rate", "storage", "?", axis, "storage_blocks", points))
    capacity = Value(servers * 1e4, "operations/s", *bounds)
    named = {"S": Value(1e5, "ns"), "m": Value(servers, "servers"), "capacity": capacity} if bounds else {}
    curve = Curve({}, axis, (0, 1, 2), "operations/s", model or "none", named, ceiling=capacity if model else None)
    return users_wait(replace(make_case(result), curve=curve))


@pytest.mark.parametrize(("bounds", "words"), [
    ((9.1e3, 10.9e3), " ("), ((9.5e3, 11.1e3), ", 9.50 k to 11.1 k ("), ((8.9e3, 10.9e3), ", 8.90 k to 10.9 k ("),
])  # fmt: skip
def test_capacity_has_its_range_beyond_tenth(bounds: tuple[float, float], words: str) -> None:
    """M/M/1: S / (1 - r) is 200 us at half the capacity, where the clean point took 800 us."""
    found = waits(model="g-g-m", bounds=bounds)
    assert found.says.startswith(f"Capacity: 10.0 k IOPS{words}")
    assert "Users wait 200 µs at 50%, 500 µs at 80%, 2.00 ms at 95% load, and 100 µs without a queue." in found.says
    assert found.says.endswith("Measured at 50% load: 800 µs on average, p99 800 µs.")


@pytest.mark.parametrize(("low", "words"), [(2e4, "20.0 k to 80.0 k"), (None, "0 to 80.0 k")])
def test_open_capacity_has_range_and_advice(low: float | None, words: str) -> None:
    found = waits(servers=4, bounds=(low, 8e4))
    assert f"The capacity is open: {words} IOPS fit these points alike (best fit: 40.0 k)." in found.says
    assert found.advice == "Measure a higher rate too: hwdyno storage --rate 1000,2000,5000,6250"


@pytest.mark.parametrize(("reached", "rates", "edge"), [
    # 95%, less four standard errors of 500,000 arrivals, 0.6%: 4,722 a second. The last rates served too little.
    ((1e3, 2e3, 4.73e3), [1e3, 4.73e3], ""), ((1e3, 1e3, 1e3), None, ""), ((1.0, 1.0, 1.0), None, ""),
    ((1e3, 2e3, 4.71e3), [1e3, 2e3], " At 5.00 k IOPS, requests queue up without end."),
])  # fmt: skip
def test_users_wait_at_served_rates(reached: Any, rates: list[float] | None, edge: str) -> None:
    found = waits(reached)
    assert (found and found.evidence["rates"]) == rates
    assert found is None or found.says.endswith(f"No queueing model fits these points.{edge}")
    assert waits(reached, axis="rate_bytes") is None, "bytes a second are no rate of requests"
