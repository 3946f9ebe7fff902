"""What is planted in a simulated object store is found, and clean ones have no finding."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.cli import object as object_command
from hwdyno.cli.main import make_parser
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.object_requests import fit_line
from hwdyno.measure.measurement import make_measurement
from hwdyno.measure.scenarios import make_scenario
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Parameters, Run
from made_experiment import made_experiment
from simulation.object_store import KERNEL, SUITE, SimulatedBucket, SimulatedStore
from style import find_faults

KIB, MIB = 1 << 10, 1 << 20
COMMAND = "hwdyno object --endpoint http://10.0.0.2:9000 --bucket bench"
FIXED: Parameters = {
    **{"bucket": "bench", "prefix": "hwdyno-0123456789abcdef/", "client_threads": 4, "objects": 64},
    **{"runtime": 1.0, "interval_s": 0.1},
}
ACCUSES = {"client_bound", "rate_not_reached", "faults", "little", "depth_not_reached", "physical_ceiling"}
"""Rules of every resource that may accuse a store or its client."""


def sweep(axis: str, values: Iterable[Any], **fixed: Any) -> list[Parameters]:
    return [{**fixed, axis: value} for value in values]


LARGE = sweep("concurrency", (1, 4, 16, 64), operation="get", object_size=8 * MIB)
WRITES = sweep("concurrency", (1, 4, 16, 64), operation="put", object_size=8 * MIB)
SMALL = sweep("concurrency", (1, 4, 16, 64), operation="get", object_size=4 * KIB)
HEADS = sweep("operation", ("head", "list", "delete"), object_size=4 * KIB, concurrency=1)
SIZES = sweep("object_size", [4**k * 16 * KIB for k in range(6)], operation="get", concurrency=4)
LARGE_SIZES = sweep("object_size", [2**k * 64 * MIB for k in range(5)], operation="get", concurrency=4)
RANGES = sweep(
    "range_size", [4**k * 16 * KIB for k in range(5)], operation="range", object_size=64 * MIB, concurrency=4
)
FEW_AND_MANY = sweep("objects", (4, 64, 1000), operation="get", object_size=8 * MIB, concurrency=4)
PAGES = sweep("objects", (10, 100, 1000), operation="list", object_size=4 * KIB, concurrency=1)
VISITS = sweep("visit", ("first", "second"), operation="get", object_size=8 * MIB, concurrency=16)
CLEAN = (LARGE, WRITES, SMALL, HEADS, LARGE_SIZES, FEW_AND_MANY, PAGES, VISITS)


def measured(store: SimulatedStore, *sweeps: list[Parameters]) -> Run:
    """A Run with an experiment for each sweep."""
    host, fixed = SimulatedBucket(store), {**FIXED, "endpoint": store.urls}
    results = []
    for number, points in enumerate(sweeps):
        made = [_measure(host, fixed, parameters) for parameters in points]
        results.append(_result(f"object.{number}", tuple(made), fixed))
    machine = host.survey()
    run = Run("id", "2026-01-01T00:00:00+00:00", None, (machine,), "quick", COMMAND, tuple(results))
    return explain(run)


def _measure(host: SimulatedBucket, fixed: Parameters, parameters: Parameters) -> Measurement:
    readings, snapshots = [], []
    for _ in range(3):
        before = host.snapshot()
        readings.append(host.run(KERNEL, {**fixed, **parameters}))
        snapshots.append((before, host.snapshot()))
    return make_measurement(parameters, readings, host.kernels()[KERNEL], snapshots)


def _result(name: str, points: tuple[Measurement, ...], fixed: Parameters) -> ExperimentResult:
    return made_experiment(name, "object", "?", "concurrency", KERNEL, points, fixed=fixed)


def of_the_store(run: Run) -> dict[str, Finding]:
    return {found.rule: found for found in run.findings if found.rule.startswith("object_") or found.rule in ACCUSES}


Case = tuple[SimulatedStore, tuple[list[Parameters], ...], set[str]]


def planted(seed: int) -> dict[str, Case]:
    """Each fault in a store drawn by ``seed``, what is measured there, and the rules that must find it."""
    draw = random.Random(seed + 10_000)
    clean = SimulatedStore.random(seed)
    narrow = draw.uniform(0.15, 0.5) * min(clean.connection_bytes_s * clean.rtt_s, 3.9 * MIB)
    slow = (1.0,) * draw.choice([1, 2, 3])
    skewed = "RequestTimeTooSkewed: this clock and the store's differ by more than 15 minutes"
    return {
        "clean": (clean, CLEAN, set()),
        "throttle": (
            replace(clean, throttle_s=draw.uniform(0.3, 0.6) * clean.requests_s), (SMALL,),
            {"object_throttled", "object_faults"},
        ),
        "timeouts": (
            replace(clean, failing=(("no complete response by the deadline", 0.05), ("404: the key is missing", 0.01))),
            (LARGE,), {"object_faults"},
        ),
        "skewed clock": (replace(clean, failing=((skewed, 0.5),)), (HEADS,), {"object_faults"}),
        "lost keep-alive": (replace(clean, closes=draw.uniform(0.3, 1.0)), (SMALL,), {"object_keep_alive"}),
        "slow endpoint": (
            replace(clean, endpoint_factors=(*slow, draw.uniform(2.0, 5.0))), (SMALL,), {"object_endpoint"},
        ),
        "failing endpoint": (
            replace(clean, endpoint_factors=(1.0, 1.0), failing=(("5xx: the store failed", 0.05),), failing_endpoint=1),
            (LARGE,), {"object_endpoint", "object_faults"},
        ),
        "link": (
            replace(clean, link_bits_s=1e9, connection_bytes_s=5e7, window_bytes=1e9, cpu_s_byte=1e-10),
            (LARGE, WRITES), {"object_link"},
        ),
        "window": (replace(clean, window_bytes=narrow), (LARGE,), {"object_window"}),
        "store's window": (replace(clean, window_bytes=narrow), (WRITES,), {"object_window"}),
        "latency": (replace(clean, requests_s=1e3 / clean.request_s, cpu_s=1e-6), (SMALL,), {"object_latency"}),
        "small objects": (clean, (SIZES,), {"object_request_cost"}),
        "small ranges": (clean, (RANGES,), {"object_request_cost"}),
        "cache": (replace(clean, cache_bytes=9 * 64 * MIB, bytes_s=0.1 * clean.bytes_s), (FEW_AND_MANY,),
                  {"object_cached"}),
        "read cache": (replace(clean, first_read=draw.uniform(2.5, 8.0)), (VISITS,), {"object_first_read"}),
        "slow pages": (replace(clean, page_s=draw.uniform(0.03, 0.3)), (PAGES,), {"object_list"}),
        "slow page alone": (replace(clean, page_s=draw.uniform(0.03, 0.3)), (HEADS,), {"object_list"}),
        "clean by TLS": (replace(clean, tls_bytes_s=draw.uniform(2, 8) * clean.bytes_s), CLEAN, set()),
        "TLS": (
            replace(clean, tls_bytes_s=draw.uniform(0.05, 0.2) * clean.bytes_s / 4, cpu_s_byte=1e-10),
            (LARGE, WRITES), {"object_tls"},
        ),
        "client": (replace(clean, cpu_s=20 * clean.request_s), (SMALL,), {"client_bound"}),
    }  # fmt: skip


def test_random_stores_show_what_was_planted() -> None:
    kinds = list(planted(0))
    tried = set()
    for seed in range(sample(8, 200)):
        # Every seed plants three faults in turn, and is clean besides.
        for kind in {"clean", *(kinds[(3 * seed + turn) % len(kinds)] for turn in range(3))}:
            tried.add(kind)
            store, sweeps, rules = planted(seed)[kind]
            found = of_the_store(measured(store, *sweeps))
            assert set(found) == rules, (seed, kind, store, [finding.says for finding in found.values()])
    assert tried == set(kinds)


@pytest.mark.parametrize("kind", list(planted(0)))
def test_what_is_advised_is_taken_as_it_is_pasted(kind: str) -> None:
    store, sweeps, _rules = planted(7)[kind]
    for rule, finding in of_the_store(measured(store, *sweeps)).items():
        assert not find_faults(finding.says) + find_faults(finding.advice), finding.says
        (line,) = re.findall(r"hwdyno object .*", finding.advice)
        args = make_parser("object").read(shlex.split(line)[2:])
        plan = make_scenario(object_command.request(args), SimulatedBucket(store)).plan
        assert plan.experiments[0].points, (rule, line)


def test_each_failure_is_named_with_its_remedy() -> None:
    store, sweeps, _ = planted(3)["timeouts"]
    found = of_the_store(measured(store, *sweeps))["object_faults"]
    assert "no complete response by the deadline" in found.says and "404: the key is missing" in found.says
    assert "Check the store's load" in found.advice
    store, sweeps, _ = planted(3)["skewed clock"]
    assert "Set this machine's clock" in of_the_store(measured(store, *sweeps))["object_faults"].advice


def test_advice_names_the_authority_that_the_run_trusted() -> None:
    """Also where a plan file had it, which the command line does not show."""
    store, sweeps, _ = planted(7)["lost keep-alive"]
    run = measured(store, *sweeps)
    results = tuple(
        replace(result, fixed={**result.fixed, "endpoint": "https://10.0.0.2", "tls": True, "ca_file": "/etc/lab.pem"})
        for result in run.experiments
    )
    for command in (COMMAND, "hwdyno run store.toml"):
        found = of_the_store(explain(replace(run, experiments=results, command=command)))["object_keep_alive"]
        assert "--ca-file /etc/lab.pem" in found.advice and "--tls" not in found.advice, found.advice


def changed(run: Run, **changes: Any) -> dict[str, Finding]:
    """The findings of a Run with some details of its points replaced."""
    results = (
        replace(result, points=tuple(replace(point, details={**point.details, **changes}) for point in result.points))
        for result in run.experiments
    )
    return of_the_store(explain(replace(run, experiments=tuple(results))))


def test_a_window_of_loopback_or_of_another_direction_is_no_limit() -> None:
    store, sweeps, _ = planted(5)["window"]
    run = measured(store, *sweeps)
    assert "This machine's window" in changed(run)["object_window"].says
    assert not changed(run, loopback=True)
    wide = store.window_bytes / 0.6
    assert not changed(run, window_bytes=wide)
    writes = measured(*planted(5)["store's window"][:1], WRITES)
    assert "The store's window" in changed(writes)["object_window"].says
    # A store that reads slowly closes its window, too; then the sender waits for little of the time, or carries less.
    assert not changed(writes, receiver_limited_share=0.29)


def test_tls_is_the_limit_of_busy_processors_alone() -> None:
    store, sweeps, _ = planted(5)["TLS"]
    run = measured(store, *sweeps)
    says = changed(run)["object_tls"].says
    assert re.search(
        r"^TLS limits the client \(.*\): the processors that it uses are 9\d% busy, and encryption takes", says
    ), says
    assert f"by {SUITE}" in says and "client_bound" not in changed(run)
    # A cipher that takes 29% of the busy time is not what a client mostly does.
    point = max(run.experiments[0].points, key=lambda point: point.bytes / point.elapsed_s)
    spent_s = (point.cpu_user_s or 0.0) + (point.cpu_system_s or 0.0)
    fast = changed(run, tls_bytes_cpu_s=point.bytes / spent_s / 0.28)
    assert "object_tls" not in fast and "client_bound" in fast
    assert "object_tls" not in changed(measured(replace(store, requests_s=1.0), *sweeps))


def test_tls_of_both_ends_is_counted_on_loopback() -> None:
    def on_loopback(busy: float, *, near: bool = True) -> Finding | None:
        store, _, _ = planted(5)["clean by TLS"]
        run = measured(store, LARGE)
        (result,) = run.experiments
        point = result.points[-1]
        cipher = 2 * point.bytes / (0.4 * busy * point.elapsed_s * store.processors)
        details = {**point.details, "tls_bytes_cpu_s": cipher, "loopback": near}
        busy_point = replace(point, details=details, conditions={**point.conditions, "cpu_busy": busy})
        return of_the_store(explain(replace(run, experiments=(replace(result, points=(busy_point,)),)))).get(
            "object_tls"
        )

    found = on_loopback(0.98)
    assert found is not None and found.severity == "info"
    assert "TLS limits both ends" in found.says and "encryption takes 40% of that time or more" in found.says
    assert not find_faults(found.says) + find_faults(found.advice), found.says
    assert on_loopback(0.85) is None and on_loopback(0.98, near=False) is None


def test_connections_that_are_made_by_request_are_no_fault() -> None:
    store, sweeps, _ = planted(5)["lost keep-alive"]
    anew = [{**parameters, "keep_alive": False} for parameters in sweeps[0]]
    assert not of_the_store(measured(store, anew))
    failing = replace(store, closes=0.0, failing=(("the connection ended before the response did", 0.3),))
    assert set(of_the_store(measured(failing, SMALL))) == {"object_faults"}


def test_one_endpoint_is_named_by_its_url_or_its_number() -> None:
    store = replace(planted(5)["clean"][0], endpoint_factors=(1.0, 4.0))
    run = measured(store, SMALL)
    found = of_the_store(run)["object_endpoint"]
    assert "One endpoint is slow: http://10.0.0.3:9000 takes" in found.says
    assert found.advice.endswith(" --endpoint http://10.0.0.3:9000")
    # A name with three addresses has one URL.
    three = changed(run, endpoint_requests=[99, 99, 50], endpoint_failed=[0, 0, 0], endpoint_mean_ns=[1e6, 1e6, 2e6])
    assert "address 3 of 3 takes 2 times as long" in three["object_endpoint"].says
    few = changed(run, endpoint_requests=[99, 19], endpoint_failed=[0, 0], endpoint_mean_ns=[1e6, 9e6])
    assert "object_endpoint" not in few


def test_a_throttle_needs_a_rate_that_does_not_follow() -> None:
    store, sweeps, _ = planted(5)["throttle"]
    found = of_the_store(measured(store, *sweeps))["object_throttled"]
    assert "with 503 SlowDown at 64 requests in flight" in found.says
    assert re.search(r"--concurrency (1|4)$", found.advice)
    # A store that refuses a share of the requests still follows the load.
    sheds = replace(store, throttle_s=0.0, requests_s=1e6, failing=(("503 SlowDown: the store sheds load", 0.2),))
    assert "object_throttled" not in of_the_store(measured(sheds, SMALL))


def test_listing_has_the_time_of_a_key_where_pages_differ() -> None:
    store = replace(planted(5)["clean"][0], page_s=0.005, page_key_s=100e-6)
    found = of_the_store(measured(store, PAGES))["object_list"]
    assert re.search(r"a page takes [\d.]+ ms and (9\d\.\d|10\d) µs a key", found.says), found.says
    alone = of_the_store(measured(replace(store, page_s=0.02), HEADS))["object_list"]
    assert "a page of 64 keys takes" in alone.says and "--objects 1000" in alone.advice


@pytest.mark.parametrize(("amounts", "times_ns"), [
    ([1.0, 1.0], [2.0, 2.0]),  # One amount has no slope.
    ([1.0, 2.0, 4.0], [4.0, 2.0, 1.0]),  # A larger one that is faster is no cost of bytes.
    ([1.0, 2.0, 4.0], [1.0, 4.0, 16.0]),  # A cost below 0 is none.
])  # fmt: skip
def test_no_line_is_fitted_where_there_is_none(amounts: list[float], times_ns: list[float]) -> None:
    assert fit_line(amounts, times_ns) is None


def test_a_line_is_fitted_by_relative_distances() -> None:
    line = fit_line([1e4, 1e6, 1e8], [3e6 + 2e4, 3e6 + 2e6, 3e6 + 2e8])
    assert line is not None
    assert (line.fixed_ns, line.ns_each, line.misfit) == pytest.approx((3e6, 2.0, 0.0), abs=1e-6)


@pytest.mark.parametrize(("concurrency", "threads", "advice"), [
    (64, 4, "Spread the load over more client threads"), (64, 8, "Use larger objects, since all 8 processors"),
])  # fmt: skip
def test_a_busy_client_is_told_of_threads_or_objects(concurrency: int, threads: int, advice: str) -> None:
    store = replace(planted(3)["client"][0], processors=8)
    points = [{"operation": "get", "object_size": 4 * KIB, "concurrency": concurrency, "client_threads": threads}]
    found = of_the_store(measured(store, points))["client_bound"]
    assert advice in found.advice and "not the other end's limit" in found.says
