"""The network's reference tools: the options of each, what of its answer is read, and what it complains of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hwdyno.measure.peers import iperf3, netperf, network, ping, sockperf
from hwdyno.model.words import UserError
from hwdyno.system import loopback

LATENCY = "network_latency"


# ping


PING = """PING 127.0.0.1 (127.0.0.1) 64000(64028) bytes of data.

--- 127.0.0.1 ping statistics ---
50123 packets transmitted, 50120 received, 0.00598% packet loss, time 1000ms
rtt min/avg/max/mdev = 0.006/0.009/1.019/0.005 ms, ipg/ewma 0.019/0.010 ms
"""


def test_what_ping_prints_is_read() -> None:
    found = ping.parse_output(PING)
    assert found.latency_ns_mean == pytest.approx(9000)
    assert found.rate == pytest.approx(50120)
    assert (found.details["echoes_lost"], found.details["rtt_max_ns"]) == (3, pytest.approx(1.019e6))
    for out, complaint in (("", "ping: nowhere: Name or service not known"), ("PING x\n\n5 packets transmitted", "")):
        with pytest.raises(OSError, match="ping failed"):
            ping.parse_output(out, complaint)


@pytest.mark.parametrize("ends", ["echo; exit 1", "kill -KILL $$"])
def test_what_a_killed_tool_leaves_among_temporary_files_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    tool, temporary = tmp_path / "ping", tmp_path / "temporary"
    tool.write_text(f"#!/bin/sh\nmktemp > {tmp_path}/made\n{ends}\n")
    tool.chmod(0o755)
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("HWDYNO_PING", str(tool))
    with pytest.raises(OSError, match="ping failed"):
        ping.PEER.run("network_ping", {"runtime": 0.1})
    assert (tmp_path / "made").read_text().startswith(str(temporary))
    assert not any(temporary.iterdir())


def test_pings_command_is_like_ours() -> None:
    kernel = "network_ping"
    assert ping.PEER.command(kernel, {"message": 64000, "runtime": 0.3}) == [
        *("ping", "-n", "-q", "-w", "1", "-s", "64000", "-A", "127.0.0.1"),
    ]
    assert "0.010000" in ping.PEER.command(kernel, {"rate": 100.0, "server": "::1"})
    assert ping.PEER.unsupported_reason(kernel, {"in_flight": 2})
    assert ping.PEER.unsupported_reason("network_latency", {})
    with pytest.raises(UserError):
        ping.PEER.run(kernel, {"in_flight": 2})


@pytest.mark.peer("ping")
def test_ping_stands_beside_our_echoes() -> None:
    found = ping.PEER.run("network_ping", {"message": 1000, "runtime": 1})
    assert found.latency_ns_mean
    assert found.operations > 10
    assert (ping.PEER.version() or "").startswith("iputils")


# iperf3


@pytest.mark.peer("iperf3")
def test_the_peer_measures_the_same_point() -> None:
    found = iperf3.PEER.run("network_throughput", {"streams": 2, "runtime": 1, "block": 65536, "direction": "up"})
    assert found.throughput > 1e6
    assert found.unit == "bytes/s"
    assert found.cpu_s
    assert "-u" in iperf3.PEER.command("network_throughput", {"protocol": "udp"})


# sockperf


SOCKPERF = """sockperf: == version #3.7-no.git ==
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)

[ 0] IP = 127.0.0.1       PORT = 15901 # TCP
sockperf: Warmup stage (sending a few dummy messages)...
sockperf: Starting test...
sockperf: Test end (interrupted by timer)
sockperf: Test ended
sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=6285; ReceivedMessages=6284
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.548 sec; SentMessages=858; ReceivedMessages=857
sockperf: ====> avg-rtt=638.555 (std-dev=1759.448)
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Round trip is 638.555 usec
sockperf: Total 858 observations; each percentile contains 8.58 observations
sockperf: ---> <MAX> observation = 9154.160
sockperf: ---> percentile 99.999 = 9154.160
sockperf: ---> percentile 99.990 = 9154.160
sockperf: ---> percentile 99.900 = 8990.852
sockperf: ---> percentile 99.000 = 8009.196
sockperf: ---> percentile 90.000 = 2866.343
sockperf: ---> percentile 75.000 =   45.630
sockperf: ---> percentile 50.000 =   39.064
sockperf: ---> percentile 25.000 =   37.713
sockperf: ---> <MIN> observation =   30.545
"""


def test_what_sockperf_prints_is_read() -> None:
    found = sockperf.parse_output(SOCKPERF)
    assert (found.rate, found.unit) == (pytest.approx(857 / 0.548), "operations/s")
    assert found.latency_ns_mean == pytest.approx(638_555)
    parameters = {"p50_ns": 39_064, "p90_ns": 2_866_343, "p99_ns": 8_009_196, "p99_9_ns": 8_990_852}
    assert {name: found.details[name] for name in parameters} == pytest.approx(parameters)
    assert (found.operations, found.details["messages_lost"]) == (857, 1)


@pytest.mark.parametrize(
    ("out", "complaint", "says"),
    [
        ("sockperf: ERROR: Can`t connect socket (errno=111 Connection refused)", "", "Connection refused"),
        ("", "sockperf: unknown option", "unknown option"),
        ("", "", "it printed no round trips"),
        (SOCKPERF.replace("RunTime=0.548", "RunTime=0.000"), "", "sockperf failed"),
    ],
)
def test_a_sockperf_that_failed_says_why(out: str, complaint: str, says: str) -> None:
    with pytest.raises(OSError, match="sockperf failed: ") as caught:
        sockperf.parse_output(out, complaint)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sockperfs_command_is_like_ours() -> None:
    point = {"protocol": "tcp", "message": 1024, "waiting": "spin", "runtime": 0.3, "port": 77}
    assert sockperf.PEER.command(LATENCY, point) == [
        *("sockperf", "ping-pong", "-i", "127.0.0.1", "-p", "77", "--tcp", "--nonblocked"),
        *("-m", "1024", "-t", "1", "--full-rtt"),
    ]
    server = sockperf.PEER.server("/bin/sockperf", {"protocol": "udp"}, 78)
    assert server == ["/bin/sockperf", "server", "-i", "127.0.0.1", "-p", "78"]


# netperf


NETPERF = """THROUGHPUT=46399.16
THROUGHPUT_UNITS=Trans/s
MEAN_LATENCY=21.50
MIN_LATENCY=5
P50_LATENCY=6
P90_LATENCY=7
P99_LATENCY=13
MAX_LATENCY=47856
STDDEV_LATENCY=336.89
ELAPSED_TIME=1.00
"""
NOBODY = """establish control: are you sure there is a netserver listening on 127.0.0.1 at port 15900?
establish_control could not establish the control connection from 0.0.0.0 port 0 to 127.0.0.1 port 15900
"""


def test_what_netperf_prints_is_read() -> None:
    found = netperf.parse_output(NETPERF)
    assert (found.rate, found.unit, found.operations) == (46399.16, "operations/s", 46399)
    assert found.latency_ns_mean == 21_500
    parameters = {
        "min_ns": 5000,
        "p50_ns": 6000,
        "p90_ns": 7000,
        "p99_ns": 13_000,
        "max_ns": 47_856_000,
        "elapsed_s": 1.0,
    }
    assert {name: found.details[name] for name in parameters} == parameters


@pytest.mark.parametrize(
    ("out", "says"),
    [
        (NOBODY, "are you sure there is a netserver listening"),
        ("", "it printed no rate"),
        (NETPERF.replace("46399.16", "-1"), "netperf failed"),
        (NETPERF.replace("46399.16", "nan?"), "netperf failed"),
        (NETPERF.replace("Trans/s", "10^6bits/s"), "10^6bits/s"),
    ],
)
def test_a_netperf_that_failed_says_why(out: str, says: str) -> None:
    with pytest.raises(OSError, match="netperf failed: ") as caught:
        netperf.parse_output(out)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("point", "test"),
    [
        ({}, "TCP_RR"),
        ({"protocol": "tcp", "exchange": "echo"}, "TCP_RR"),
        ({"protocol": "udp"}, "UDP_RR"),
        ({"exchange": "connect"}, "TCP_CRR"),
    ],
)
def test_netperfs_command_is_like_ours(point: dict[str, Any], test: str) -> None:
    command = netperf.PEER.command(LATENCY, {**point, "message": 100, "runtime": 2.0, "port": 77})
    assert command[:5] == ["netperf", "-4", "-H", "127.0.0.1", "-p"]
    assert command[command.index("-t") + 1] == test
    assert command[command.index("-l") + 1] == "2"
    assert command[command.index("-r") + 1] == "100,100"
    # Its datagrams have no Nagle's algorithm to turn off, and netperf refuses the option.
    assert ("-D" in command) == (test != "UDP_RR")


def test_netperf_needs_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "netperf"
    program.write_text("#!/bin/sh\necho Netperf version 2.7.1\n")
    program.chmod(0o755)
    monkeypatch.setenv("HWDYNO_NETPERF", str(program))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if netperf.PEER.version() is not None:
        pytest.fail("a netserver lies on the path of this machine")
    (tmp_path / "netserver").write_text("#!/bin/sh\n")
    (tmp_path / "netserver").chmod(0o755)
    assert netperf.PEER.version() == "netperf 2.7.1"


# All of them


@pytest.mark.parametrize(
    ("peer", "point", "says"),
    [
        (sockperf.PEER, {"in_flight": 2}, "one message"),
        (sockperf.PEER, {"load_streams": 1}, "cannot load"),
        (sockperf.PEER, {"server": "192.0.2.7"}, "own server"),
        (sockperf.PEER, {"exchange": "connect"}, "cannot open a connection"),
        (sockperf.PEER, {"message": 13}, "at least 14"),
        (netperf.PEER, {"in_flight": 2}, "one message"),
        (netperf.PEER, {"waiting": "spin"}, "sleep"),
        (netperf.PEER, {"protocol": "udp", "exchange": "connect"}, "no such test"),
    ],
)
def test_foreign_point_is_refused(peer: network.NetworkPeer, point: dict[str, Any], says: str) -> None:
    assert says in (peer.unsupported_reason(LATENCY, point) or "")
    with pytest.raises(UserError, match=says):
        peer.run(LATENCY, point)
    assert peer.unsupported_reason("network_throughput", {})


def test_missing_tool_says_where_from(monkeypatch: pytest.MonkeyPatch) -> None:
    for peer in (iperf3.PEER, ping.PEER, sockperf.PEER, netperf.PEER):
        monkeypatch.setenv(peer.variable, "/nowhere/at-all")
        assert peer.version() is None
        with pytest.raises(FileNotFoundError, match=f"{peer.name} is not installed; .*{peer.variable}"):
            peer.run(next(iter(peer.kernels)), {})


def test_a_server_that_ends_before_it_listens_is_named() -> None:
    with (
        pytest.raises(OSError, match=r"false: the server ended with status 1 before listening"),
        network.listening(["false"], loopback.free_port()),
    ):
        pass


def test_a_server_ends_with_all_its_children() -> None:
    """netserver has a child for each test, which would outlive it."""
    port = loopback.free_port()
    # Memory that takes the kernel a while to free: the port is the child's until then.
    child = (
        "import socket, time; held = bytearray(b'x') * (256 << 20); "
        f"s = socket.create_server(('127.0.0.1', {port})); time.sleep(60)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with network.listening([sys.executable, "-c", parent], port):
        pass
    with pytest.raises(OSError, match="before listening"), network.listening(["false"], port):
        pass


@pytest.mark.peer("sockperf")
@pytest.mark.machine
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_sockperf_stands_beside_our_round_trips(protocol: str) -> None:
    found = sockperf.PEER.run(LATENCY, {"protocol": protocol, "message": 64, "runtime": 1})
    assert found.operations > 0
    assert found.details["p99_ns"] >= found.details["p50_ns"] > 0
    assert (sockperf.PEER.version() or "").startswith("sockperf ")
