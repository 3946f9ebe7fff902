"""The network between two namespaces as two hosts: queues, rates, losses, black holes and policers are seen."""

from __future__ import annotations

import math

import pytest
from made_network import make_run, rules
from network_bed import TwoHosts
from network_bed import two_hosts as two_hosts


@pytest.mark.machine
def test_a_bottleneck_with_a_long_queue_is_seen_as_bufferbloat(two_hosts: TwoHosts) -> None:
    two_hosts.shape("100mbit")
    with two_hosts.server():
        reading = two_hosts.measure(
            "network_latency", load_streams=2, direction="up", ramp_time=0.5, congestion="cubic"
        )
    from hwdyno.measure.measurement import make_measurement

    found = make_measurement({"load_streams": 2, "direction": "up"}, [reading])
    assert reading["details"]["load_up_bytes_s"] * 8 < 1.1e8
    findings = rules(make_run(found, kernel="network_latency"))
    assert "Bufferbloat" in findings["network_bufferbloat"], findings


@pytest.mark.machine
def test_shaped_path_shows_its_rate(two_hosts: TwoHosts) -> None:
    two_hosts.shape("1gbit", "4mb")
    with two_hosts.server():
        reading = two_hosts.measure(streams=2, congestion="cubic", ramp_time=0.3)
        udp = two_hosts.measure(protocol="udp", rate=50_000_000, block=1200)
    goodput = reading["streams"][0]["bytes"] * 8 / reading["elapsed_s"]
    # A busy machine may stay below the rate; nothing may exceed it.
    assert 0.05e9 < goodput < 1.02e9
    # MTU 1500 leaves 1448 bytes of a segment.
    assert reading["details"]["mss_bytes"] == 1448
    assert reading["details"]["pmtu_bytes"] == 1500
    assert udp["details"]["loss_share"] == 0


@pytest.mark.machine
def test_planted_loss_is_within_interval(two_hosts: TwoHosts) -> None:
    two_hosts.drop("meta l4proto udp udp length > 1000 numgen random mod 100 < 2 drop")
    with two_hosts.server():
        reading = two_hosts.measure(protocol="udp", rate=40_000_000, block=1200, runtime=3.0, handing="plain")
    # Of some 12500, fewer on a busy machine: five standard errors of 2%.
    error = math.sqrt(0.02 * 0.98 / reading["details"]["datagrams_sent"])
    assert reading["details"]["loss_share"] == pytest.approx(0.02, abs=5 * error)
    assert reading["details"]["datagrams_duplicated"] == 0


@pytest.mark.machine
def test_a_peer_that_dies_and_a_path_that_swallows_end_in_time(two_hosts: TwoHosts) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool, two_hosts.server() as server:
        waiting = pool.submit(two_hosts.measure, runtime=50.0)
        two_hosts.wait_for_streams()
        server.kill()
        reading = waiting.result(45)
        assert reading["faults"]
        assert reading["streams"][0]["bytes"] > 0
    with ThreadPoolExecutor(1) as pool, two_hosts.server():
        waiting = pool.submit(two_hosts.measure, runtime=4.0)
        two_hosts.wait_for_streams()
        two_hosts.drop("ip protocol tcp drop")
        reading = waiting.result(45)
        assert reading["faults"]
        assert reading["streams"][0]["bytes"] > 0


@pytest.mark.machine
def test_full_segment_black_hole_is_named(two_hosts: TwoHosts) -> None:
    # Filters see what the sender's card would cut up in one piece, so it cuts here.
    two_hosts.do(f"ip -n {two_hosts.here} link set dev {two_hosts.tag}x gso_max_segs 1")
    two_hosts.drop("ip protocol tcp meta length > 1400 drop")
    with two_hosts.server():
        reading = two_hosts.measure(runtime=0.7)
        small = two_hosts.measure(runtime=0.3, mss=1000)
    from hwdyno.measure.measurement import make_measurement

    found = make_measurement({"streams": 1, "protocol": "tcp"}, [reading])
    findings = rules(make_run(found))
    assert "short messages pass, segments of 1448 B do not" in findings["network_blackhole"], findings
    # What is advised shows it: short segments pass.
    assert small["streams"][0]["bytes"] > 100_000


@pytest.mark.machine
def test_policer_differs_from_queue(two_hosts: TwoHosts) -> None:
    two_hosts.drop("ip protocol tcp limit rate over 8 mbytes/second burst 300 kbytes drop")
    from hwdyno.measure.measurement import make_measurement

    points = []
    with two_hosts.server():
        for streams in (2, 8):
            reading = two_hosts.measure(streams=streams, congestion="cubic", runtime=1.5, ramp_time=0.3)
            points.append(make_measurement({"streams": streams, "protocol": "tcp"}, [reading]))
    for point in points:
        assert point.throughput.value < 1.5 * 8 * 2**20  # and unpoliced it is a hundred times that
        assert point.details["retransmit_share"] > 1e-3
        # Nothing queues: a round trip stays far below the 50 ms that 8 MiB/s need for a window's worth.
        assert point.details["rtt_mean_us"] < 20_000
    assert "network_loss" in rules(make_run(*points))


@pytest.mark.machine
def test_ping_and_its_peer_cross_path(two_hosts: TwoHosts) -> None:
    reading = two_hosts.measure("network_ping", runtime=0.2, message=1000)
    assert reading["streams"][0]["operations"] > 10
    details = reading["details"]
    assert (details["loopback"], details["interface_virtual"]) == (False, True)
    assert details["interface"] == f"{two_hosts.tag}x"
