"""The network's part of the cloud VM's study: its tables and observations, and where a second node is found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from here import missing
from hwdyno import studies
from hwdyno.explain.findings import explain
from hwdyno.measure import engine
from hwdyno.measure.measurement import make_measurement
from hwdyno.measure.scenarios.two_nodes import PORT, second_node
from hwdyno.measure.sweep import Sweep
from hwdyno.model.machine import Cpu, Machine
from hwdyno.model.words import ExperimentResult, PeerResult, Run, UserError, Value
from hwdyno.studies import cloud_vm_network as study
from made_experiment import made_experiment
from network_bed import bed_is_here
from simulation.network import SimulatedNetwork, SimulatedPath

FIXED = {"runtime": 1.0, "interval_s": 0.1}


def answered(path: SimulatedPath, suffix: str = "") -> tuple[ExperimentResult, ...]:
    """Every question, measured on a path, with a peer beside the streams and the echo."""
    host, results = SimulatedNetwork(path), []
    for question in study.QUESTIONS:
        points = [point for block in question.blocks for point in Sweep(block).points()]
        measured = [
            make_measurement(point, [host.run(question.kernel, {**FIXED, **point})], host.kernels()[question.kernel])
            for point in points
        ]
        tool = {"network_throughput": "iperf3", "network_ping": "ping"}.get(question.kernel)
        details: dict[str, Any] = {"loss_share": 0.25, "jitter_us": 40.0, "rtt_max_ns": 9e6}
        details |= {"rtt_min_ns": 2e6, "rtt_mdev_ns": 5e5, "echoes_sent": 200, "echoes_lost": 2}
        peers = tuple(
            PeerResult(tool, "1", at, Value(1.25e8, "bytes/s"), Value(2.0, ""), 2, latency_ns_mean=3e6, details=details)
            for at in range(len(points))
            if tool
        )
        name = question.name + suffix
        results.append(
            made_experiment(
                name, "network", question.asks, question.load, question.kernel, tuple(measured), peers=peers
            )
        )
    return tuple(results)


def make_run(*results: ExperimentResult) -> Run:
    machine = Machine(cpu=Cpu(threads=2))
    return explain(Run("id", "2026-01-01", None, (machine,), "quick", "hwdyno study", results, study=study.STUDY))


def test_the_tables_are_the_studys_on_one_node_and_on_two() -> None:
    near = answered(SimulatedPath(loopback=True, bits_s=40e9, cpu_ns_per_kib=1.0))
    far = answered(SimulatedPath(bits_s=1e9), study.TWO_NODES)
    run = make_run(*near, *far)
    tables = {table.title: table for table in studies.tables(run)}
    near_table = tables["Network, one node: throughput, both directions, by threads"]
    far_table = tables["Network, two nodes: throughput, both directions, by threads"]
    assert near_table.columns == ("Gbit/s", "1 thread", "2 threads", "4 threads", "8 threads")
    rows = {row[0]: row[1:] for row in far_table.rows}
    # Both ways of 1 Gbit/s, less headers.
    assert all(1.7 < float(cell) < 1.9 for cell in rows["TCP"])
    assert rows["UDP lost, iperf3"] == ("25.0%",) * 4
    assert rows["TCP, iperf3"] == ("1.00",) * 4
    trips = tables["Network, two nodes: round trip of 64 KiB each way"]
    names = [f"{p} {w}" for p in ("TCP", "UDP") for w in ("mean", "p50", "p99")]
    assert [row[0] for row in trips.rows] == [*names, "theory of one"]
    near_trips = tables["Network, one node: round trip of 64 KiB each way"]
    assert re.fullmatch(
        r"[\d.]+ µs = 2 x 64 KiB x 2 copies / [\d.]+ GB/s \+ [\d.]+ µs of stack \(the shortest ICMP echo's\)",
        near_trips.rows[-1][1],
    )
    echo = tables["Network, two nodes: ICMP echo of 64000 B"]
    assert echo.columns == ("", "min", "mean", "p50", "p99", "max", "mdev", "lost")
    assert [row[0] for row in echo.rows] == ["hwdyno", "ping"]
    assert echo.rows[1][1:] == ("2.00 ms", "3.00 ms", "-", "-", "9.00 ms", "500 µs", "1.00%")
    assert "-" not in echo.rows[0][:7]
    counted = tables["Network, two nodes: a fixed count of blocks beside the timed runs"]
    assert [row[:3] for row in counted.rows] == [
        (protocol, str(streams), f"65536 x {block} x 2")
        for protocol, block in (("TCP", "64 KiB"), ("UDP", "64 KiB"))
        for streams in (1, 2, 4, 8)
    ]
    for _, _, _, seconds, by_count, timed in counted.rows:
        # 65536 blocks of 64 KiB at about 0.95 Gbit/s each way.
        assert 33 < float(seconds) < 40 and abs(float(by_count) / float(timed) - 1) < 0.05
    published = tables["Network, one node: compared with the study's iperf3"]
    assert [row[:3] for row in published.rows] == [("TCP", "20.083", "-"), ("UDP", "41.891", "32%")]
    sentences = "\n".join(studies.observations(run))
    assert "Network, two nodes, TCP: best concurrency 1 thread" in sentences
    assert "x 2 ways" in sentences
    assert "Network, two nodes: UDP delivers" in sentences and "times TCP's throughput" in sentences
    assert "Network, two nodes, TCP: best concurrency for latency " in sentences
    assert "one core copies" in sentences
    assert "two nodes were not measured" not in sentences
    assert "compute.threads was not measured" not in sentences


def test_one_node_alone_says_how_to_have_two() -> None:
    run = make_run(*answered(SimulatedPath(loopback=True)))
    assert any("two nodes were not measured" in observation for observation in studies.observations(run))
    assert not any("two nodes" in table.title for table in studies.tables(run))
    assert not study.tables(replace(run, experiments=()))


def test_second_node_is_named_or_none() -> None:
    for given, place in (
        ("192.0.2.7", ("192.0.2.7", PORT)),
        ("192.0.2.7:99", ("192.0.2.7", 99)),
        ("2001:db8::7", ("2001:db8::7", PORT)),
        ("[2001:db8::7]:99", ("2001:db8::7", 99)),
        ("[2001:db8::7]", ("2001:db8::7", PORT)),
    ):
        with second_node(given) as found:
            assert found == place, given
    with pytest.raises(UserError, match="port"), second_node("192.0.2.7:many"):
        pass
    with second_node(None, dry_run=True) as found:
        assert found is None


def _namespaces() -> list[str]:
    return subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout.split()


SECOND_NODE = """
import sys
from hwdyno.measure import engine
from hwdyno.measure.scenarios.two_nodes import second_node
with second_node(None) as place:
    print(place is not None, flush=True)
    sys.stdin.readline()
    reading = engine.run("network_throughput", {"server": place[0], "port": place[1], "runtime": 0.1})
    print(place[0], reading["streams"][0]["bytes"] > 100_000, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.machine
def test_two_programs_at_a_time_have_a_second_node_each() -> None:
    if not bed_is_here():
        missing("needs root and network namespaces")
    programs = [
        subprocess.Popen((sys.executable, "-c", SECOND_NODE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in "12"
    ]
    lines = []
    for _ in ("ready", "measured"):  # Both are ready before one measures, and have measured before one ends.
        for program in programs:
            assert program.stdout and program.stdin
            lines.append(program.stdout.readline().split())
        for program in programs:
            assert program.stdin
            program.stdin.write("\n")
            program.stdin.flush()
    for program in programs:
        program.communicate(timeout=20)
    ready, measured = lines[:2], lines[2:]
    assert not any(f"hwdyno{program.pid}" in _namespaces() for program in programs)
    assert ready == [["True"], ["True"]]
    assert [line[1:] for line in measured] == [["True"], ["True"]] and measured[0][0] != measured[1][0]


@pytest.mark.machine
def test_a_namespace_stands_for_the_second_node_and_goes_again() -> None:
    if not bed_is_here():
        missing("needs root and network namespaces")
    with second_node(None) as place:
        assert place is not None
        reading = engine.run("network_throughput", {"server": place[0], "port": place[1], "runtime": 0.1})
        assert reading["details"]["loopback"] is False
        assert reading["streams"][0]["bytes"] > 100_000
    assert f"hwdyno{os.getpid()}" not in _namespaces()


@pytest.mark.machine
def test_a_killed_program_s_namespace_goes_with_the_next() -> None:
    if not bed_is_here():
        missing("needs root and network namespaces")
    with subprocess.Popen(
        (sys.executable, "-c", SECOND_NODE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout and program.stdout.readline() == "True\n"
        program.kill()
    assert f"hwdyno{program.pid}" in _namespaces()
    with second_node(None) as place:
        assert place is not None and f"hwdyno{program.pid}" not in _namespaces()


def test_a_trips_theory_is_serialization_and_what_an_echo_leaves() -> None:
    """Frames of 1538 B at 1 Gbit/s take 1.11 ms for 64 KiB each way; an echo of 64,000 B has 200 µs beside its own."""
    far = answered(SimulatedPath(bits_s=1e9), study.TWO_NODES)
    echo_ns = 2 * 64_000 / (1e9 / 8 * 1448 / 1538) * 1e9 + 2e5

    def made(result: ExperimentResult) -> ExperimentResult:
        if result.name != study.PING + study.TWO_NODES:
            return result
        (point,) = result.points
        assert point.latency_ns is not None
        return replace(result, points=(replace(point, latency_ns=replace(point.latency_ns, min=echo_ns)),))

    def theory(*results: ExperimentResult) -> str:
        tables = {table.title: table for table in studies.tables(make_run(*results))}
        return tables["Network, two nodes: round trip of 64 KiB each way"].rows[-1][1]

    whole = theory(*map(made, far))
    assert whole == "1.31 ms = 2 x 64 KiB / 118 MB/s + 200 µs of link and stack (the shortest ICMP echo's)"
    without = theory(*(experiment for experiment in far if not experiment.name.startswith(study.PING)))
    assert without == "1.11 ms or more = 2 x 64 KiB / 118 MB/s + unknown link and stack"
    assert (
        theory(*(experiment for experiment in far if not experiment.name.startswith(study.TCP)))
        == "unknown: no link's speed is known"
    )
