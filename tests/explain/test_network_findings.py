"""What is planted on a simulated path is found, and nothing else; ceilings come of the interface that led there."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.cli.main import make_parser
from hwdyno.cli.options import make_request
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.network_path import server_options
from hwdyno.measure.measurement import make_measurement
from hwdyno.measure.scenarios import make_scenario
from hwdyno.model.words import Finding, Latency, Measurement, Parameters, Run, Value
from made_experiment import made_experiment
from made_point import base, make_run
from simulation.network import SimulatedNetwork, SimulatedPath

FIXED: Parameters = {"runtime": 1.0, "interval_s": 0.1, "server": "10.0.0.2"}
TCP: list[Parameters] = [{"protocol": "tcp", "direction": "up", "streams": n} for n in (1, 2, 4)]
ALWAYS = {"network_link", "network_no_link", "network_virtual_link"}
"""Findings on every path of a kind, as its frame."""


def measured(path: SimulatedPath, points: Iterable[Parameters], kernel: str = "network_throughput") -> Run:
    host = SimulatedNetwork(path)
    made = []
    for parameters in points:
        readings, snapshots = [], []
        for _ in range(3):
            before = host.snapshot()
            readings.append(host.run(kernel, {**FIXED, **parameters}))
            snapshots.append((before, host.snapshot()))
        made.append(make_measurement(parameters, readings, host.kernels()[kernel], snapshots))
    load = "load_streams" if kernel == "network_latency" else "streams"
    result = made_experiment("network.streams", "network", "?", load, kernel, tuple(made), fixed=FIXED)
    machine = host.survey()
    return explain(Run("id", "2026-01-01T00:00:00+00:00", None, (machine,), "quick", "hwdyno", (result,)))


def of_the_path(run: Run) -> dict[str, Finding]:
    """The findings of the network's own rules, without those that every path has."""
    found = {finding.rule: finding for finding in run.findings if finding.rule.startswith("network_")}
    return {rule: finding for rule, finding in found.items() if rule not in ALWAYS and finding.severity != "info"} | {
        rule: finding for rule, finding in found.items() if rule == "network_mtu"
    }


def planted(seed: int) -> dict[str, tuple[SimulatedPath, list[Parameters], str, set[str]]]:
    """Each fault on a path drawn by ``seed``, what is measured there, and the rules that must find it."""
    draw = random.Random(seed + 10_000)
    clean = SimulatedPath.random(seed)
    payload = clean.wire_bytes_s()
    slow = min(0.5, draw.uniform(0.1, 0.5)) * payload
    throughput, trips = "network_throughput", "network_latency"
    window = slow * clean.rtt_s / 4
    # Loss by chance that keeps even four streams well below the wire, regardless of the path.
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


def test_random_paths_show_what_was_planted() -> None:
    kinds = list(planted(0))
    tried = set()
    for seed in range(sample(8, 200)):
        # Every seed plants two faults in turn, and is clean besides.
        for kind in {"clean", *(kinds[(2 * seed + turn) % len(kinds)] for turn in range(2))}:
            tried.add(kind)
            path, points, kernel, rules = planted(seed)[kind]
            found = of_the_path(measured(path, points, kernel))
            assert set(found) == rules, (seed, kind, path, [finding.says for finding in found.values()])
            if kind in {"busy here", "busy there"}:
                assert ("The sender's CPU" in found["network_ends_bound"].says) == (kind == "busy here")
            if kind in {"receiver's window", "send buffer"}:
                assert kind in found["network_window"].says
    assert tried == set(kinds)


@pytest.mark.parametrize("kind", list(planted(0)))
def test_what_is_advised_is_taken_as_it_is_pasted(kind: str) -> None:
    import re

    path, points, kernel, _rules = planted(7)[kind]
    for rule, finding in of_the_path(measured(path, points, kernel)).items():
        for line in re.findall(r"hwdyno network (?:--[\w-]+ (?:\"[^\"]*\"|[^-\s]\S*) ?)+", finding.advice):
            args = make_parser("network").read(shlex.split(line.rstrip(";,. "))[2:])
            plan = make_scenario(make_request(args, "network"), SimulatedNetwork(path)).plan
            assert plan.experiments[0].points, (rule, line)
        if rule not in {"network_mtu", "network_bufferbloat"}:
            assert "hwdyno network" in finding.advice, (rule, finding.advice)


def list_rules(path: SimulatedPath, points: list[Parameters] | None = None) -> dict[str, str]:
    return {finding.rule: finding.says for finding in measured(path, TCP if points is None else points).findings}


def test_a_round_trip_that_is_shorter_under_load_is_explained_by_sleep() -> None:
    path, points, kernel, _ = planted(3)["clean latency"]
    run = measured(path, points, kernel)
    (result,) = run.experiments
    rows = [replace(point, details=point.details | {"idle_p50_ns": 9 * point.latency_ns.p50}) for point in result.points
            if point.latency_ns is not None]  # fmt: skip
    findings = explain(replace(run, experiments=(replace(result, points=tuple(rows)),))).findings
    (found,) = (finding for finding in findings if finding.rule == "network_bufferbloat")
    assert found.severity == "info" and "woken" in found.says
    assert not any("woken" in finding.says for finding in run.findings)


def test_a_link_bounds_its_payload_and_what_exceeds_it_is_invalid() -> None:
    run = measured(SimulatedPath(bits_s=1e9), TCP)
    (ceiling,) = run.experiments[0].ceilings
    # 1448 B of payload in 1538 B of wire: 94.1% of 125 MB/s.
    assert ceiling.kind == "physical"
    assert ceiling.value == pytest.approx(125e6 * 1448 / 1538)
    assert "1448 B of payload in 1538 B" in ceiling.formula
    says = {finding.rule: finding.says for finding in run.findings}
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


def test_hypervisors_speed_is_no_physical_bound() -> None:
    run = measured(SimulatedPath(bits_s=1e9), TCP)
    rows = [replace(p, details={**p.details, "interface_driver": "virtio_net"}) for p in run.experiments[0].points]
    again = explain(replace(run, experiments=(replace(run.experiments[0], points=tuple(rows)),)))
    assert {ceiling.kind for ceiling in again.experiments[0].ceilings} == {"rated"}


def test_virtual_and_loopback_have_no_link() -> None:
    virtual = measured(SimulatedPath(virtual=True), TCP)
    assert not virtual.experiments[0].ceilings
    assert "virtual" in {finding.rule: finding.says for finding in virtual.findings}["network_virtual_link"]
    # 10 GB/s of a core's copies, two cores, two copies of each byte.
    loop = measured(SimulatedPath(loopback=True, bits_s=50e9, copy_bytes_s=10e9, cpu_ns_per_kib=5.0), TCP[:1])
    (ceiling,) = loop.experiments[0].ceilings
    assert (ceiling.kind, ceiling.value) == ("reference", pytest.approx(10e9))
    says = {finding.rule: finding.says for finding in loop.findings}["network_no_link"]
    assert "One core copies 10" in says
    assert "memory copies" in says
    assert "network_link" not in list_rules(SimulatedPath(loopback=True))


def test_paced_traffic_is_not_copy_bound() -> None:
    paced = [{"protocol": "udp", "direction": "up", "streams": 1, "rate": 400_000_000}]
    path = SimulatedPath(loopback=True, bits_s=50e9, copy_bytes_s=10e9, cpu_ns_per_kib=5.0)
    run = measured(path, paced)
    moved = run.experiments[0].points[0].throughput.value
    assert moved == pytest.approx(50e6, rel=0.03)
    assert "network_no_link" not in {finding.rule for finding in run.findings}
    short = [{**paced[0], "rate": 1_000_000_000_000}]
    assert "network_no_link" in {finding.rule for finding in measured(path, short).findings}


def test_loss_of_a_control_that_does_not_heed_it_is_no_policer() -> None:
    points: list[dict[str, Any]] = [{**point, "congestion": "bbr"} for point in TCP]
    assert "network_policed" not in list_rules(SimulatedPath(loss=0.02), points)


# --- points made by hand


def sent(parameters: Parameters | None = None, rate: float = 1e9, **details: Any) -> Measurement:
    """Three repeats of a second at this rate in bytes/s, with these details."""
    return base(
        parameters={"protocol": "tcp", "streams": 1, **(parameters or {})}, rate=None, latency_ns=None, samples=None,
        concurrency=None, counters={}, streams=(), throughput=Value(rate, "bytes/s", 0.99 * rate, 1.01 * rate),
        details=details,
    )  # fmt: skip


def list_findings(*points: Measurement) -> dict[str, Finding]:
    kind = ("load_streams", "network_latency") if points[0].latency_ns else ("streams", "network_throughput")
    result = made_experiment("network.x", "network", "?", *kind, points, fixed={})
    return {found.rule: found for found in explain(replace(make_run(base()), experiments=(result,))).findings}


def round_trips(idle_ns: float, loaded_ns: float) -> Measurement:
    point = replace(sent(idle_p50_ns=idle_ns, load_bytes_s=1e9), parameters={"protocol": "tcp", "load_streams": 1})
    return replace(point, latency_ns=Latency(*[loaded_ns] * 4, None, *[loaded_ns] * 2, 1000))


def controls(*rates: float, window: int = 0) -> list[Measurement]:
    """One stream with cubic and one with bbr."""
    return [
        sent({"congestion": name, "window": window}, rate, congestion_control=name)
        for name, rate in zip(("cubic", "bbr"), rates, strict=True)
    ]


def lossy(last: float = 1e8, **details: Any) -> list[Measurement]:
    """1, 2 and 4 streams that lose segments without a queue, at 100 MB/s but for the last, which has these details."""
    lost = {"congestion_control": "cubic", "retransmit_share": 0.02, "rtt_mean_us": 1000.0, "rtt_min_us": 990.0}
    whole = {1: (1e8, lost), 2: (1e8, lost), 4: (last, {**lost, **details})}
    return [sent({"streams": count}, rate, **given) for count, (rate, given) in whole.items()]


ETH0 = {"loopback": False, "interface": "eth0"}


def link(bytes_s: float) -> dict[str, Any]:
    """An interface whose link leaves this for payload, in segments of 1448 B and frames of 1538 B."""
    return {**ETH0, "interface_virtual": False, "interface_bits_s": 8 * bytes_s * 1538 / 1448, "mss_bytes": 1448}


def stuck(parameters: Parameters | None = None, moved: int = 0, elapsed_s: float = 0.9, **details: Any) -> Measurement:
    """Segments of 1000 B of which few arrive, in three repeats."""
    details = {"mss_bytes": 1000, "server": "answered", "retransmits": 3, **details}
    return replace(sent(parameters, **details), bytes=moved, elapsed_s=elapsed_s)


Points = Callable[[float], list[Measurement]]
FEW, MANY = {"streams": 1}, {"streams": 12}
BOTH, UDP = {"direction": "both"}, {"protocol": "udp"}
# The rule, what is measured, a number without a finding, one with it, and its severity.
THRESHOLDS: list[tuple[str, Points, float, float, str]] = [
    ("network_ends_bound", lambda share: [sent(FEW, cpu_here_s=share)], 0.895, 0.905, "warning"),
    ("network_ends_bound", lambda share: [sent(BOTH, cpu_there_s=2 * share)], 0.895, 0.905, "warning"),
    ("network_ends_bound", lambda share: [sent(MANY, cpu_here_s=8 * share)], 0.895, 0.905, "warning"),
    ("network_window", lambda share: [sent(rtt_mean_us=100.0, receiver_limited_share=share)], 0.299, 0.301, "warning"),
    ("network_window", lambda share: [sent(rtt_mean_us=100.0, buffer_limited_share=share)], 0.299, 0.301, "warning"),
    ("network_window", lambda rtt: [sent(rtt_mean_us=rtt, buffer_limited_share=0.9)], 0.0, 100.0, "warning"),
    ("network_loss", lambda share: [sent(retransmit_share=share)], 0.00099, 0.00101, "warning"),
    ("network_datagram_loss", lambda share: [sent({**UDP, "rate": 10**6}, loss_share=share)], 0.00099, 0.00101,
     "warning"),
    ("network_bufferbloat", lambda added: [round_trips(0.5e6, 0.5e6 + added)], 4.95e6, 5.05e6, "warning"),
    ("network_bufferbloat", lambda times: [round_trips(10e6, times * 10e6)], 4.98, 5.02, "warning"),
    ("network_congestion", lambda ratio: controls(ratio * 1e9, 1e9), 1.295, 1.305, "warning"),
    ("network_congestion", lambda ratio: controls(1e9, ratio * 1e9), 1.295, 1.305, "warning"),
    ("network_mtu", lambda pmtu: [sent(pmtu_bytes=pmtu, interface_mtu_bytes=1500)], 1500, 1499, "info"),
    ("network_fragments", lambda block: [sent({**UDP, "block": round(block)}, interface_mtu_bytes=1500)], 1472, 1473,
     "warning"),
    ("network_fragments", lambda mtu: [sent({**UDP, "block": 8192}, interface_mtu_bytes=mtu)], 8220, 8219, "warning"),
    ("network_policed", lossy, 1.063e8, 1.057e8, "warning"),
    ("network_policed", lambda share: lossy(retransmit_share=share), 0.0029, 0.003, "warning"),
    ("network_policed", lambda mean: lossy(rtt_mean_us=mean, rtt_min_us=1000.0), 2000.5, 2000.0, "warning"),
    ("network_policed", lambda mean: lossy(rtt_mean_us=mean, rtt_min_us=0.0), 0.0, 0.5, "warning"),
    ("network_policed", lambda count: lossy()[: int(count)], 1, 2, "warning"),
    ("network_policed", lambda whole: lossy(1.05e8, **link(whole)), 1.15e8, 1.2e8, "warning"),
    ("network_blackhole", lambda time: [stuck(elapsed_s=3 * time)], 0.19, 0.2001, "warning"),
    ("network_blackhole", lambda moved: [stuck(moved=int(moved))], 20_000, 19_999, "warning"),
    ("network_blackhole", lambda count: [stuck(retransmits=count)], 0, 1, "warning"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "points", "below", "above", "severity"), THRESHOLDS)
def test_a_network_threshold_is_kept(rule: str, points: Points, below: float, above: float, severity: str) -> None:
    silent, named = (list_findings(*points(number)).get(rule) for number in (below, above))
    assert named is not None and named.severity == severity
    assert silent is None or silent.severity != severity


WINDOW, LOOPBACK = {"rtt_mean_us": 100.0, "receiver_limited_share": 0.5}, {"loopback": True}
RENO = {"congestion_control": "reno", "rtt_mean_us": 1e4, "mss_bytes": 1000}


@pytest.mark.parametrize(
    ("rule", "point", "severity", "words"),
    [
        ("network_ends_bound", sent(cpu_there_s=0.95, cpu_ns_per_kib=250.0), "warning", "250 ns per KiB"),
        (
            "network_ends_bound",
            sent(cpu_here_s=0.95, **LOOPBACK),
            "info",
            "The sender's CPU is the bottleneck, not the network",
        ),
        ("network_window", sent(FEW, **WINDOW), "warning", "Each stream had 100 kB in flight"),
        ("network_window", sent(MANY, 12e9, **WINDOW), "warning", "Each stream had 100 kB in flight"),
        ("network_window", sent(**WINDOW, **LOOPBACK), None, ""),
        ("network_window", sent({"window": 65536}, **WINDOW, **LOOPBACK), "info", "The receiver's window limited"),
        # Mathis and others: 1000 B in 10 ms by the root of 1.5 / 0.06, which is 5.
        ("network_loss", sent(retransmit_share=0.06, **RENO), "warning", "reaches about 0.500 MB/s (Mathis)"),
        ("network_loss", sent(retransmit_share=0.06, **LOOPBACK), "info", "6.0% of the segments"),
        ("network_loss", sent(UDP, retransmit_share=0.1), None, ""),
        ("network_datagram_loss", sent(UDP, loss_share=0.1), "info", "no rate was set"),
        ("network_datagram_loss", sent(loss_share=0.1), None, ""),
        ("network_bufferbloat", round_trips(1000.0, 905.0), "info", "Latency is the same under load ("),
        ("network_bufferbloat", round_trips(1000.0, 1095.0), "info", "Latency is the same under load ("),
        ("network_bufferbloat", round_trips(1000.0, 895.0), "info", "Latency falls under load"),
        ("network_bufferbloat", round_trips(1000.0, 1110.0), "info", "Latency grows 1.1 times under load"),
        ("network_mtu", sent(pmtu_bytes=1400, interface_mtu_bytes=1500, **LOOPBACK), None, ""),
        # 8200 B of UDP in parts of 1480 B; 7126 B in four of 1424 B and a last one of 1430 B.
        ("network_fragments", sent({**UDP, "block": 8192}, interface_mtu_bytes=1500), "warning", "in 6 fragments"),
        ("network_fragments", sent({**UDP, "block": 7118}, interface_mtu_bytes=1450), "warning", "in 5 fragments"),
        ("network_fragments", sent({**UDP, "block": 7119}, interface_mtu_bytes=1450), "warning", "in 6 fragments"),
        ("network_fragments", sent({"block": 8192}, interface_mtu_bytes=1500), None, ""),
        ("network_fragments", sent({**UDP, "block": 8192}, interface_mtu_bytes=1500, **LOOPBACK), None, ""),
        ("network_blackhole", stuck(UDP), None, ""),
        ("network_blackhole", stuck(**LOOPBACK), None, ""),
        ("network_blackhole", stuck(server="gone"), None, ""),
        ("network_blackhole", stuck(pmtu_bytes=1400), "warning", "an MTU below 1400 B"),
        ("network_link", sent(FEW, 1e8, **link(1.12e8)), "info", "The best result is 89% of eth0's link"),
        ("network_no_link", sent(rate=1.05e9, copy_bytes_s=1e9, **LOOPBACK), "info", "The result is 105% of that."),
        ("network_no_link", sent(rate=1.06e9, copy_bytes_s=1e9, **LOOPBACK), "info", "was disturbed"),
        ("network_policed", lossy(), "warning", "from 1 to 4 streams"),
        ("network_virtual_link", sent(**ETH0, interface_virtual=True), "info", "No ceiling is known"),
    ],
)
def test_a_network_rule_says(rule: str, point: Any, severity: str | None, words: str) -> None:
    found = list_findings(*point if isinstance(point, list) else [point]).get(rule)
    assert (found and found.severity) == severity
    assert found is None or words in found.says


@pytest.mark.parametrize(
    ("points", "ratio"),
    [
        ([*controls(1e9, 5e8), *controls(3e8, 1e8, window=1)], 3.0),
        ([*controls(3e8, 1e8), *controls(1e9, 5e8, window=1)], 3.0),
        (controls(2.0, 1.0), 2.0),
        (controls(1e9, 0.0), None),
        ([replace(controls(1e9, 5e8)[0], validity="invalid", why=("test",)), controls(1e9, 5e8)[1]], None),
    ],
)
def test_the_worst_congestion_control_is_named(points: list[Measurement], ratio: float | None) -> None:
    found = list_findings(*points).get("network_congestion")
    assert (found and found.evidence.get("ratio")) == ratio


@pytest.mark.parametrize(
    ("given", "rate", "paced"),
    [
        ({"rate": 800}, 95.5, True),
        ({"rate": 800}, 94.5, False),
        ({"rate": 800, "streams": 2}, 190.5, True),
        ({"rate": 800, "streams": 2}, 189.5, False),
        ({"rate": 800, "direction": "both"}, 190.5, True),
        ({"rate": 800, "direction": "both"}, 189.5, False),
        ({"rate": 0}, 1.0, False),
    ],
)
def test_a_path_at_its_requested_rate_is_not_the_limit(given: Parameters, rate: float, paced: bool) -> None:
    """The rate is in bits per second for each stream and each way: 800 bit/s are 100 bytes/s."""
    assert ("network_no_link" in list_findings(sent(given, rate, loopback=True))) != paced


@pytest.mark.parametrize(
    ("given", "unit", "words"),
    [
        ({"operation": "copy", "threads": 4, "working_set": 128 << 20}, "bytes/s", "One core copies 10.0 GB/s here."),
        ({"operation": "nt_copy", "working_set": 128 << 20}, "bytes/s", "One core copies 40.0 GB/s here."),
        ({"operation": "read", "working_set": 128 << 20}, "bytes/s", ""),
        ({"operation": "copy", "working_set": (128 << 20) - 1}, "bytes/s", ""),
        ({"operation": "copy"}, "bytes/s", ""),
        ({"operation": "copy", "working_set": 128 << 20}, "operations/s", ""),
    ],
)
def test_core_copies_half_per_thread(given: Parameters, unit: str, words: str) -> None:
    """80 GB/s of traffic beyond the caches are 40 GB/s copied; a copy timed in the point itself comes first."""
    copies = base(parameters=given, throughput=Value(8e10, unit, 7.9e10, 8.1e10))
    memory = made_experiment("memory.x", "memory", "?", "threads", "memory_bandwidth", (copies,), fixed={})
    for timed in ({}, {"copy_bytes_s": 5e9}):
        point = sent(loopback=True, **timed)
        path = made_experiment("network.x", "network", "?", "streams", "network_throughput", (point,), fixed={})
        run = explain(replace(make_run(base()), experiments=(path, memory)))
        (found,) = (found for found in run.findings if found.rule == "network_no_link")
        wanted = "One core copies 5,000 MB/s here" if timed else words
        assert wanted in found.says and ("One core" in found.says) == bool(wanted)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"server": "there", "port": 5201}, {"server": "there"}),
        ({"server": "there", "port": 0}, {"server": "there"}),
        ({"server": "there", "port": 5202}, {"server": "there", "port": "5202"}),
        ({"port": 5202}, {}),
    ],
)
def test_command_names_server_and_its_port(given: Parameters, options: dict[str, str]) -> None:
    result = made_experiment("network.x", "network", "?", "streams", "network_throughput", (sent(given),), fixed={})
    assert server_options(result) == options
