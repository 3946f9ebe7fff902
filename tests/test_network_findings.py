"""What is planted on a simulated path is found, and nothing else; ceilings come of the interface that led there."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.cli import network, resource
from hwdyno.cli.main import parser_of
from hwdyno.findings import explain
from hwdyno.measurement import measurement_of
from hwdyno.words import Finding, Parameters, Run
from made_experiment import made_experiment
from simulation.network import SimulatedNetwork, SimulatedPath

FIXED: Parameters = {"runtime": 1.0, "interval_s": 0.1, "server": "10.0.0.2"}
TCP: list[Parameters] = [{"protocol": "tcp", "direction": "up", "streams": n} for n in (1, 2, 4)]
ALWAYS = {"network_link", "network_no_link", "network_virtual_link"}
"""What is said of every path of a kind, as its frame."""


def measured(path: SimulatedPath, points: Iterable[Parameters], kernel: str = "network_throughput") -> Run:
    host = SimulatedNetwork(path)
    made = []
    for parameters in points:
        readings, snapshots = [], []
        for _ in range(3):
            before = host.snapshot()
            readings.append(host.run(kernel, {**FIXED, **parameters}))
            snapshots.append((before, host.snapshot()))
        made.append(measurement_of(parameters, readings, host.kernels()[kernel], snapshots))
    load = "load_streams" if kernel == "network_latency" else "streams"
    result = made_experiment("network.streams", "network", "?", load, kernel, tuple(made), fixed=FIXED)
    machine = host.survey()
    return explain(Run("id", "2026-01-01T00:00:00+00:00", None, (machine,), "quick", "hwdyno", (result,)))


def of_the_path(run: Run) -> dict[str, Finding]:
    """The findings of the network's own rules, without those that every path has."""
    found = {one.rule: one for one in run.findings if one.rule.startswith("network_")}
    return {rule: one for rule, one in found.items() if rule not in ALWAYS and one.severity != "info"} | {
        rule: one for rule, one in found.items() if rule == "network_mtu"
    }


def planted(seed: int) -> dict[str, tuple[SimulatedPath, list[Parameters], str, set[str]]]:
    """Each fault on a path drawn by ``seed``, what is measured there, and the rules that must speak."""
    draw = random.Random(seed + 10_000)
    clean = SimulatedPath.random(seed)
    payload = clean.wire_bytes_s()
    slow = min(0.5, draw.uniform(0.1, 0.5)) * payload
    throughput, trips = "network_throughput", "network_latency"
    window = slow * clean.rtt_s / 4
    # Loss by chance that keeps even four streams well below the wire, whatever the path.
    share = min(0.2, max(4e-3, 1.5 * (4 * clean.mss / clean.rtt_s / (0.6 * payload)) ** 2))
    loaded: list[Parameters] = [
        {"protocol": "tcp", "message": 64, "direction": "up", "load_streams": n} for n in (1, 2)
    ]
    datagrams: list[Parameters] = [
        {"protocol": "udp", "direction": "up", "streams": 1, "block": 1400, "rate": round(8 * part * payload)}
        for part in (0.3, 0.8, 1.4)
    ]
    controls: list[Parameters] = [{**TCP[0], "congestion": name} for name in ("cubic", "bbr")]
    return {
        "clean": (clean, TCP, throughput, set()),
        "clean latency": (clean, loaded, trips, set()),
        "clean datagrams": (clean, datagrams[:2], throughput, set()),
        "receiver's window": (replace(clean, window_bytes=window), TCP, throughput, {"network_window"}),
        "send buffer": (
            replace(clean, window_bytes=window, window_is="buffer"), TCP, throughput, {"network_window"},
        ),
        "loss": (replace(clean, loss=share), TCP, throughput, {"network_loss"}),
        "policer": (
            replace(clean, policer_bits_s=8 * slow), TCP, throughput, {"network_loss", "network_policed"},
        ),
        "smaller MTU": (replace(clean, path_mtu=draw.choice([1280, 1420, 1492])), TCP, throughput, {"network_mtu"}),
        "black hole": (replace(clean, hole_mtu=1400), TCP[:1], throughput, {"network_blackhole"}),
        "slow control": (replace(clean, slow_control=draw.choice(["cubic", "bbr"])), controls, throughput,
                         {"network_congestion"}),
        "long queue": (replace(clean, bloat_s=6e-3 + 6 * clean.rtt_s), loaded, trips, {"network_bufferbloat"}),
        "overrun": (clean, datagrams, throughput, {"network_datagram_loss"}),
        "busy here": (replace(clean, busy_end="here"), TCP, throughput, {"network_ends_bound"}),
        "busy there": (replace(clean, busy_end="there"), TCP, throughput, {"network_ends_bound"}),
    }  # fmt: skip


def test_200_random_paths_tell_exactly_what_was_planted() -> None:
    kinds = list(planted(0))
    for seed in range(200):
        # Every seed plants two faults of its own turn, and stands clean besides.
        for kind in {"clean", kinds[seed % len(kinds)], kinds[(seed * 5 + 3) % len(kinds)]}:
            path, points, kernel, rules = planted(seed)[kind]
            found = of_the_path(measured(path, points, kernel))
            assert set(found) == rules, (seed, kind, path, [one.says for one in found.values()])
            if kind in {"busy here", "busy there"}:
                assert ("this end" in found["network_ends_bound"].says) == (kind == "busy here")
            if kind in {"receiver's window", "send buffer"}:
                assert kind in found["network_window"].says


@pytest.mark.parametrize("kind", list(planted(0)))
def test_what_is_advised_is_taken_as_it_is_pasted(kind: str) -> None:
    import re

    path, points, kernel, _rules = planted(7)[kind]
    for rule, finding in of_the_path(measured(path, points, kernel)).items():
        for line in re.findall(r"hwdyno network (?:--[\w-]+ (?:\"[^\"]*\"|[^-\s]\S*) ?)+", finding.advice):
            args = parser_of("network").read(shlex.split(line.rstrip(";,. "))[2:])
            plan = resource.plan_of("network", network.KERNELS, args, SimulatedNetwork(path))
            assert plan.experiments[0].points, (rule, line)
        if rule not in {"network_mtu", "network_bufferbloat"}:
            assert "hwdyno network" in finding.advice, (rule, finding.advice)


def rules_of(path: SimulatedPath, points: list[Parameters] | None = None) -> dict[str, str]:
    return {one.rule: one.says for one in measured(path, TCP if points is None else points).findings}


def test_a_round_trip_that_is_shorter_under_load_is_explained_by_sleep() -> None:
    path, points, kernel, _ = planted(3)["clean latency"]
    run = measured(path, points, kernel)
    (result,) = run.experiments
    rows = [replace(one, details=one.details | {"idle_p50_ns": 9 * one.latency_ns.p50}) for one in result.points
            if one.latency_ns is not None]  # fmt: skip
    findings = explain(replace(run, experiments=(replace(result, points=tuple(rows)),))).findings
    (found,) = (one for one in findings if one.rule == "network_bufferbloat")
    assert found.severity == "info" and "woken" in found.says
    assert not any("woken" in one.says for one in run.findings)


def test_a_link_bounds_its_payload_and_what_exceeds_it_is_invalid() -> None:
    run = measured(SimulatedPath(bits_s=1e9), TCP)
    (ceiling,) = run.experiments[0].ceilings
    # 1448 B of payload in 1538 B of wire: 94.1% of 125 MB/s.
    assert ceiling.kind == "physical"
    assert ceiling.value == pytest.approx(125e6 * 1448 / 1538)
    assert "1448 B of payload in 1538 B" in ceiling.formula
    says = {one.rule: one.says for one in run.findings}
    assert "eth0's link" in says["network_link"]
    faster = replace(
        run.experiments[0].points[0], throughput=replace(run.experiments[0].points[0].throughput, value=2e8)
    )
    lying = explain(replace(run, experiments=(replace(run.experiments[0], points=(faster,)),)))
    assert lying.experiments[0].points[0].validity == "invalid"
    both = measured(SimulatedPath(bits_s=1e9), [{"protocol": "tcp", "direction": "both", "streams": 1}])
    assert both.experiments[0].ceilings[0].value == pytest.approx(2 * ceiling.value)
    datagram = measured(
        SimulatedPath(bits_s=1e9), [{"protocol": "udp", "direction": "up", "streams": 1, "block": 1460}]
    )
    assert datagram.experiments[0].ceilings[0].value == pytest.approx(125e6 * 1460 / (1460 + 28 + 38))


def test_a_hypervisors_speed_is_no_physical_bound() -> None:
    run = measured(SimulatedPath(bits_s=1e9), TCP)
    rows = [replace(p, details={**p.details, "interface_driver": "virtio_net"}) for p in run.experiments[0].points]
    again = explain(replace(run, experiments=(replace(run.experiments[0], points=tuple(rows)),)))
    assert {one.kind for one in again.experiments[0].ceilings} == {"rated"}


def test_a_virtual_interface_and_a_loopback_have_no_link() -> None:
    virtual = measured(SimulatedPath(virtual=True), TCP)
    assert not virtual.experiments[0].ceilings
    assert "virtual" in {one.rule: one.says for one in virtual.findings}["network_virtual_link"]
    # 10 GB/s of a core's copies, two cores, two copies of each byte.
    loop = measured(SimulatedPath(loopback=True, bits_s=50e9, copy_bytes_s=10e9, cpu_ns_per_kib=5.0), TCP[:1])
    (ceiling,) = loop.experiments[0].ceilings
    assert (ceiling.kind, ceiling.value) == ("reference", pytest.approx(10e9))
    says = {one.rule: one.says for one in loop.findings}["network_no_link"]
    assert "One core copies 10" in says
    assert "memory copies" in says
    assert "network_link" not in rules_of(SimulatedPath(loopback=True))


def test_what_moves_at_the_rate_it_was_asked_for_is_limited_by_no_copies() -> None:
    paced = [{"protocol": "udp", "direction": "up", "streams": 1, "rate": 400_000_000}]
    path = SimulatedPath(loopback=True, bits_s=50e9, copy_bytes_s=10e9, cpu_ns_per_kib=5.0)
    run = measured(path, paced)
    moved = run.experiments[0].points[0].throughput.value
    assert moved == pytest.approx(50e6, rel=0.03)
    assert "network_no_link" not in {one.rule for one in run.findings}
    short = [{**paced[0], "rate": 1_000_000_000_000}]
    assert "network_no_link" in {one.rule for one in measured(path, short).findings}


def test_loss_of_a_control_that_does_not_heed_it_is_no_policer() -> None:
    points: list[dict[str, Any]] = [{**one, "congestion": "bbr"} for one in TCP]
    assert "network_policed" not in rules_of(SimulatedPath(loss=0.02), points)
