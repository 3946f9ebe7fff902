"""Laws that every point obeys: what breaks each is named, on both sides of its limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.rule import Verdict
from hwdyno.explain.findings.summary import Hit, summarize_hits
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Concurrency, Fault
from hwdyno.model.words import Ceiling, CeilingClass, Finding, HostShare, Severity, Value
from made_point import BLOCK, RATE, base, case_of_base, make_run

READS, WRITES = "read_bytes_s", "write_bytes_s"
MOVED = RATE * BLOCK


def ceiling(value: float, kind: CeilingClass = "physical", metric: str = READS) -> Ceiling:
    return Ceiling(metric, kind, value, "bytes/s", "as given", "the data sheet", "the link")


def found(rule: str, *ceilings: Ceiling, imported: str = "", nodes: str = "", **changes: Any) -> Finding | None:
    """What a rule finds of the clean point with these changes, below these ceilings."""
    run = make_run(base(**changes))
    machines = tuple(replace(Machine(), hostname=name) for name in nodes) or run.machines
    result = replace(run.experiments[0], ceilings=ceilings)
    run = explain(replace(run, experiments=(result,), imported_from=imported, machines=machines))
    return next((finding for finding in run.findings if finding.rule == rule), None)


def severity(rule: str, *ceilings: Ceiling, **changes: Any) -> Severity | None:
    finding = found(rule, *ceilings, **changes)
    return finding.severity if finding else None


def counted(in_flight: float) -> dict[str, Any]:
    return {"concurrency": Concurrency(8.0, in_flight), "latency_ns": None}


def timed(in_flight: float) -> dict[str, Any]:
    """A point with a rate that is known to 2%, and a mean latency."""
    latency = base().latency_ns
    assert latency is not None
    return {"concurrency": None, "latency_ns": replace(latency, mean=in_flight / RATE * 1e9)}


@pytest.mark.parametrize(("changes", "shown"), [
    (counted(1.029 * 8), ""), (counted(1.031 * 8), "Throughput x latency is 8.2 in flight"), (timed(1.049 * 8), ""),
    (counted(10.0), "Throughput x latency is 10.0 in flight, but only 8 were requested"),
    (timed(1.051 * 8), "10.0 k IOPS x 841 µs is 8.4 in flight, but only 8 were requested (Little's law)."),
    (counted(8 * 8.0), "The factor 8 is what parts bytes from bits."),
])  # fmt: skip
def test_no_more_in_flight_than_requested(changes: dict[str, Any], shown: str) -> None:
    finding = found("little", **changes)
    assert finding is None if not shown else finding is not None and shown in finding.says


def test_reading_against_littles_law_is_invalid() -> None:
    """64 KiB at 48.1 GB/s with a mean of 85.7 us and one in flight was quoted. A table's figures may be rounded."""
    severities = [severity("little", **counted(8 * off)) for off in (1.02, 1.09, 1.11, 63.0)]
    assert severities == [None, "warning", "invalid", "invalid"]
    assert severity("little", **counted(8 * 63.0), imported="table") == "warning"


def rated(times: float, **more: Any) -> dict[str, Any]:
    return {"rate": Value(123_457 * times, "operations/s"), "throughput": Value(123_457.0 * BLOCK, "bytes/s"), **more}


@pytest.mark.parametrize(("changes", "expected"), [
    *((rated(1 + sign * off), expected) for sign in (1, -1) for off, expected in ((0.0095, None), (0.0105, "warning"))),
    # A table's rate and bandwidth may be means of different samples, up to 5%, but a unit's factor is an error.
    *((rated(1 + off, imported="table"), expected) for off, expected in ((0.047, "info"), (0.0525, "warning"))),
    *((rated(1.024, imported="table"), "warning"), (rated(1.03, imported="table"), "info")),
    # Short transfers are reported as faults.
    (rated(0.9, faults=(Fault("read", 0, "short", 1),)), None),
])  # fmt: skip
def test_bandwidth_is_rate_times_size(changes: dict[str, Any], expected: str | None) -> None:
    assert severity("rate_times_size", **changes) == expected


@pytest.mark.parametrize(("kind", "rule", "expected"), [
    ("physical", "physical_ceiling", "invalid"), ("rated", "rated_exceeded", "info"),
])  # fmt: skip
@pytest.mark.parametrize(("share", "low", "above"), [
    *((1.0095, None, False), (1.0105, None, True)),
    # An interval that reaches below excuses 5% at most.
    *((1.05, 0.96, False), (1.05, 0.97, True), (1.06, 0.5, False), (1.07, 0.5, True)),
])  # fmt: skip
def test_ceiling_is_exceeded_by_1_percent(
    kind: CeilingClass, rule: str, expected: str, share: float, low: float | None, above: bool
) -> None:
    value = Value(share * 1e9, "bytes/s", low and low * share * 1e9, low and 2e9)
    assert severity(rule, ceiling(1e9, kind), throughput=value, rate=None) == (expected if above else None)


@pytest.mark.parametrize(("ratio", "advice"), [(1.19, "Nothing to do"), (1.21, "Suspect a cache")])
def test_fifth_above_rated_makes_cache_likely(ratio: float, advice: str) -> None:
    finding = found("rated_exceeded", ceiling(MOVED / ratio, "rated"), throughput=Value(MOVED, "bytes/s"))
    assert finding is not None and finding.advice.startswith(advice) and f"is {ratio} times the rated" in finding.says


@pytest.mark.parametrize(("given", "is_named"), [({}, True), ({"rw": "trim"}, False), ({"ioengine": "null"}, False)])
def test_only_data_crosses_link(given: dict[str, Any], is_named: bool) -> None:
    parameters = {**base().parameters, **given}
    assert (found("physical_ceiling", ceiling(MOVED / 2), parameters=parameters) is not None) == is_named


@pytest.mark.parametrize(("nodes", "most"), [("a", 1.5e8), ("ab", 0.75e8), ("abcd", 0.375e8)])
def test_partial_site_has_partial_ceiling(nodes: str, most: float) -> None:
    hosts = (HostShare("a", Value(1.0, "bytes/s"), 1, 1, 1.0, 0.0, 1),)
    finding = found("physical_ceiling", ceiling(1.5e8), nodes=nodes, hosts=hosts, throughput=Value(2e8, "bytes/s"))
    assert finding is not None and finding.evidence["ceiling"] == most


UNWRITTEN = {"extent_unwritten_bytes": 1.0}


@pytest.mark.parametrize(("seen", "details", "cause"), [
    (0.89, {}, "The device moved only 89% of the bytes; a cache supplied the rest."),
    (0.90, {}, "The device's counters agree."), (None, {}, "Possible causes: "),
    (0.90, UNWRITTEN, "The filesystem answers reads of blocks that were never written, without the device."),
])  # fmt: skip
def test_cause_of_impossible_figure_is_measured(seen: float | None, details: dict[str, Any], cause: str) -> None:
    counters = {} if seen is None else {"device_read_bytes": seen * 3 * MOVED}
    finding = found("physical_ceiling", ceiling(MOVED / 2), counters=counters, details=details)
    assert finding is not None and cause in finding.says


@pytest.mark.parametrize(("ratio", "imported", "expected"), [
    *((ratio, "table", None) for ratio in (0.5, 1.009)), *((ratio, "table", "warning") for ratio in (1.011, 2.018)),
    *((2.022, "table", "invalid"), (2.022, "", None)),
])  # fmt: skip
def test_row_without_direction_is_either_way(ratio: float, imported: str, expected: str | None) -> None:
    """A link of 1 GB/s each way."""
    ways = ceiling(1e9), ceiling(1e9, metric=WRITES)
    value = Value(ratio * 1e9, "bytes/s")
    given: dict[str, Any] = {"parameters": {"iodepth": 8}, "streams": (), "throughput": value, "rate": None}
    assert severity("physical_ceiling", *ways, imported=imported, **given) == expected
    assert found("physical_ceiling", ways[0], imported=imported, **given) is None


@pytest.mark.parametrize(("rule", "severities", "says", "points"), [
    # Notes on rounding count apart from warnings.
    ("rate_times_size", ("info", "warning", "info"), "Warning 1.", (1,)),
    ("rate_times_size", ("info", "info"), "Info 1. Clearest of 2 points of storage.iodepth.", (0, 1)),
    ("little", ("info", "warning"), "Warning 1. Worst of 2 points of storage.iodepth.", (0, 1)),
    ("little", ("warning", "info"), "Warning 0. Worst of 2 points of storage.iodepth.", (0, 1)),
    ("little", ("invalid", "warning"), "Invalid 0. Worst of 2 points of storage.iodepth.", (0, 1)),
])  # fmt: skip
def test_gravest_of_several_points_is_printed(
    rule: str, severities: tuple[Severity, ...], says: str, points: tuple[int, ...]
) -> None:
    result = replace(case_of_base().result, points=(base(),) * len(severities))
    verdicts = (
        Verdict(of, f"{of.capitalize()} {at}.", {}, "Repeat it.", weight=at) for at, of in enumerate(severities)
    )
    finding = summarize_hits(rule, [Hit(result, at, verdict) for at, verdict in enumerate(verdicts)])
    assert (finding.says, finding.points) == (says, points)
