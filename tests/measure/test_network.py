"""The network end to end: the real iperf3 in both roles, its JSON both ways, and two namespaces as two hosts."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from here import missing, shortly
from hwdyno.explain.findings import explain
from hwdyno.formats import iperf3 as iperf3_json
from hwdyno.measure import engine
from hwdyno.model.machine import Machine
from hwdyno.model.words import Measurement, Run, UserError, Value
from made_experiment import made_experiment

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python")}
HWDYNO = [sys.executable, "-m", "hwdyno"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, *inside: str, state: str = "0A", least: int = 1) -> None:
    """Wait until someone listens at a port (0A), or it has this many connections (01), by the kernel's table."""
    for _ in range(1500):
        table = subprocess.run(
            [*inside, "cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True, text=True, check=False
        ).stdout
        if len(re.findall(rf"\d: [0-9A-F]+:{port:04X} [0-9A-F]+:[0-9A-F]{{4}} {state}", table)) >= least:
            return
        time.sleep(0.02)
    raise AssertionError(f"nobody is at {port}")


@contextlib.contextmanager
def running(*command: str, port: int, inside: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*inside, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)
    try:
        wait_for(port, *inside)
        yield process
    finally:
        process.kill()
        process.communicate()


def measure(kernel: str = "network_throughput", **parameters: Any) -> dict[str, Any]:
    return engine.run(kernel, {"runtime": 0.3, **parameters})


def make_run(*points: Measurement, kernel: str = "network_throughput", machine: Any = None) -> Run:
    result = made_experiment("network.streams", "network", "?", "streams", kernel, points)
    return Run(
        "id", "2026-01-01T00:00:00+00:00", None, (Machine.of_survey(machine or {}),), "quick", "hwdyno", (result,)
    )


def point(details: dict[str, Any], **parameters: Any) -> Measurement:
    return Measurement(
        parameters={"streams": 1, "protocol": "tcp", **parameters},
        throughput=Value(1e9, "bytes/s"),
        rate=None,
        latency_ns=None,
        streams=(),
        samples=None,
        concurrency=None,
        cpu_user_s=0.1,
        cpu_system_s=0.1,
        elapsed_s=1.0,
        operations=1000,
        bytes=10**9,
        repeats=1,
        details=details,
    )


def rules(run: Run) -> dict[str, str]:
    return {finding.rule: finding.says for finding in explain(run).findings}


# Against the real iperf3


@pytest.mark.peer("iperf3")
@pytest.mark.parametrize(
    "options",
    shortly(
        4,
        "-P 3",
        "--bidir",
        "-u -b 50M -R -P 2",
        "-l 32K -w 256K -C reno -N",
        "",
        "-R",
        "-u -b 50M",
        "-u -b 20M --bidir",
        "-Z --get-server-output",
    ),
)
def test_a_real_iperf3_client_is_served(options: str) -> None:
    port = free_port()
    with running(*HWDYNO, "network", "server", "--port", str(port), "--once", port=port):
        command = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-J", "-t", "1", *options.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    document = json.loads(done.stdout)
    assert "error" not in document, document["error"]
    found = iperf3_json.convert_document(document)
    assert found.bytes > 100_000
    assert not found.faults
    if "get-server-output" in options:
        assert "hwdyno network server" in done.stdout


@pytest.mark.peer("iperf3")
def test_a_real_iperf3_server_is_driven() -> None:
    port = free_port()
    with running("iperf3", "-s", "-B", "127.0.0.1", "-p", str(port), port=port):
        for parameters in (
            {},
            {"streams": 3},
            {"direction": "down"},
            {"direction": "both"},
            {"protocol": "udp", "rate": 20_000_000},
            {"protocol": "udp", "rate": 20_000_000, "direction": "down", "streams": 2},
            {"bytes": 20_000_000, "congestion": "reno", "window": 300_000, "block": 50_000},
        ):
            reading = measure(server="127.0.0.1", port=port, **parameters)
            assert reading["faults"] == [], parameters
            assert reading["details"]["server"] == "iperf3"
            assert sum(stream["bytes"] for stream in reading["streams"]) > 200_000, parameters
            # iperf3 counts no calls: blocks of TCP follow from bytes, which it called "nothing done".
            assert all(stream["operations"] > 0 for stream in reading["streams"]), parameters
        with pytest.raises(OSError, match="does not echo"):
            measure("network_latency", server="127.0.0.1", port=port)


@pytest.mark.peer("iperf3")
def test_busy_server_answers_as_iperf3_does() -> None:
    port = free_port()
    with running(*HWDYNO, "network", "server", "--port", str(port), port=port):
        base = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t"]
        first = subprocess.Popen([*base, "3"], stdout=subprocess.DEVNULL)
        wait_for(port, state="01", least=2)  # its control connection and its stream
        second = subprocess.run([*base, "1"], capture_output=True, text=True, timeout=20, check=False)
        assert "busy" in second.stderr + second.stdout
        assert first.wait(40) == 0


# Its document


@pytest.mark.peer("iperf3")
def test_our_document_is_read_back_as_it_was() -> None:
    for parameters in ({"streams": 2}, {"direction": "both"}, {"protocol": "udp", "rate": 10_000_000}):
        reading = measure(**parameters)
        from hwdyno.measure.measurement import make_measurement

        ours = make_measurement(dict(parameters), [reading])
        text = iperf3_json.write(make_run(ours))
        assert iperf3_json.recognizes(text)
        back = iperf3_json.read(text, "ours").experiments[0].points[0]
        assert back.bytes == pytest.approx(ours.bytes, rel=0.01)
        assert back.throughput.value == pytest.approx(ours.throughput.value, rel=0.02)
        assert len(json.loads(text)["intervals"]) >= 2


def test_error_in_document_degrades_run() -> None:
    text = json.dumps({"start": {"version": "iperf 3.12"}, "intervals": [], "end": {}, "error": "unable to connect"})
    run = iperf3_json.read(text, "x.json")
    assert run.degraded == ("iperf3 failed: unable to connect",)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": 1}', '{"start": 3, "end": []', "null"])
def test_what_is_no_document_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError, match="iperf3"):
        iperf3_json.parse(text)


@pytest.mark.parametrize("junk", [None, 7, "x", [], [None], {"streams": 3}, {"sum_sent": {"bytes": "many"}}])
def test_a_document_of_nonsense_never_raises(junk: Any) -> None:
    found = iperf3_json.convert_document({"start": junk, "intervals": junk, "end": junk})
    assert found.validity == "degraded"


# What is found


def test_small_window_is_named() -> None:
    findings = rules(make_run(point({"receiver_limited_share": 0.9, "rtt_mean_us": 20_000, "loopback": False})))
    assert "receiver's window" in findings["network_window"]
    assert "network_window" not in rules(make_run(point({"receiver_limited_share": 0.1, "rtt_mean_us": 20_000})))
    # Over loopback with windows as the system has them it is the reader who had no processor.
    busy = {"receiver_limited_share": 0.9, "rtt_mean_us": 700, "loopback": True}
    assert "network_window" not in rules(make_run(point(busy)))
    assert "network_window" in rules(make_run(point(busy, window=65536)))


def test_loss_is_named_for_both_protocols() -> None:
    tcp = point({"retransmit_share": 0.02, "rtt_mean_us": 1000, "mss_bytes": 1448, "congestion_control": "cubic"})
    assert "2.0% of the segments" in rules(make_run(tcp))["network_loss"]
    udp = point({"loss_share": 0.3}, protocol="udp", rate=1000)
    assert "30% of the datagrams" in rules(make_run(udp))["network_datagram_loss"]
    assert "network_loss" not in rules(make_run(point({"retransmit_share": 0.0001})))


def test_busy_processor_at_end_is_named() -> None:
    for direction, whose in (("up", "The receiver's"), ("down", "The sender's"), ("both", "The other end's")):
        busy = make_run(
            point({"cpu_there_s": 1.98 if direction == "both" else 0.99, "loopback": False}, direction=direction)
        )
        assert rules(busy)["network_ends_bound"].startswith(f"{whose} CPU is the bottleneck, not the network")
    assert "network_ends_bound" not in rules(make_run(point({"cpu_there_s": 0.5, "loopback": False})))


def test_slow_congestion_control_is_named() -> None:
    slow = point({"congestion_control": "bbr", "loopback": True}, congestion="bbr")
    fast = point({"congestion_control": "cubic", "loopback": True}, congestion="cubic")
    fast = Measurement(**{f: getattr(fast, f) for f in fast.__slots__} | {"throughput": Value(3e9, "bytes/s")})
    findings = rules(make_run(slow, fast))
    assert "bbr is slow" in findings["network_congestion"]
    assert "memory copies" in findings["network_no_link"]


@pytest.mark.parametrize(
    ("copy_bytes_s", "says"),
    [
        (10e9, "copies alone would allow"),
        (0.2e9, "so the timing of the copy was disturbed"),
        (0.0, "Both ends together spend"),
    ],
)
def test_a_loopback_is_held_against_a_copy_that_was_timed_in_peace(copy_bytes_s: float, says: str) -> None:
    details = {"loopback": True, "copy_bytes_s": copy_bytes_s, "cpu_ns_per_kib": 100.0}
    finding = rules(make_run(point(details), machine={"cpu": {"threads": 2}}))["network_no_link"]
    assert says in finding
    assert ("% of that" in finding) == (copy_bytes_s == 10e9)


# Two hosts made of namespaces


def bed_is_here() -> bool:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return False
    made = subprocess.run(["ip", "netns", "add", "hwdyno-probe"], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", "hwdyno-probe"], capture_output=True, check=False)
    return made


class TwoHosts:
    def __init__(self) -> None:
        self.tag = f"hwd{os.getpid() % 10000}"
        self.here, self.there = f"{self.tag}a", f"{self.tag}b"

    def inside(self, name: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", name)

    def do(self, command: str, *, check: bool = True) -> bool:
        return subprocess.run(command.split(), check=check, capture_output=not check).returncode == 0

    def build(self) -> None:
        for name in (self.here, self.there):
            self.do(f"ip netns add {name}")
        self.do(f"ip link add {self.tag}x netns {self.here} type veth peer name {self.tag}y netns {self.there}")
        for name, link, address in ((self.here, "x", "10.99.0.1"), (self.there, "y", "10.99.0.2")):
            self.do(f"ip -n {name} addr add {address}/24 dev {self.tag}{link}")
            self.do(f"ip -n {name} link set {self.tag}{link} up")
            self.do(f"ip -n {name} link set lo up")

    def close(self) -> None:
        for name in (self.here, self.there):
            self.do(f"ip netns del {name}", check=False)

    def shape(self, rate: str, limit: str = "1mb") -> None:
        self.do(f"tc -n {self.here} qdisc replace dev {self.tag}x root tbf rate {rate} burst 64kb limit {limit}")

    def drop(self, rule: str) -> None:
        """Let the far host drop what it is sent, by a rule of nftables."""
        if not shutil.which("nft"):
            missing("needs nft (nftables)")
        table = f"table inet t {{\nchain c {{\ntype filter hook input priority 0\n{rule}\n}}\n}}\n"
        subprocess.run([*self.inside(self.there), "nft", "-f", "-"], input=table, text=True, check=True)

    def wait_for_streams(self) -> None:
        """Wait until a client has its control connection and a stream, and some of it was sent."""
        wait_for(5201, *self.inside(self.there), state="01", least=2)
        time.sleep(0.5)

    @contextlib.contextmanager
    def server(self) -> Iterator[subprocess.Popen[str]]:
        command = (*HWDYNO, "network", "server", "--bind", "10.99.0.2", "--port", "5201", "--parallel-clients")
        with running(*command, port=5201, inside=self.inside(self.there)) as process:
            yield process

    def measure(self, kernel: str = "network_throughput", **parameters: Any) -> dict[str, Any]:
        given = json.dumps({"server": "10.99.0.2", "runtime": 1.0, **parameters})
        code = (
            "import json; from hwdyno.measure import engine; "
            f"print(json.dumps(engine.run({kernel!r}, json.loads({given!r}))))"
        )
        done = subprocess.run(
            [*self.inside(self.here), sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=ENV,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def two_hosts() -> Iterator[TwoHosts]:
    if not bed_is_here():
        missing("needs root and network namespaces")
    hosts = TwoHosts()
    try:
        hosts.build()
        yield hosts
    finally:
        hosts.close()


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


# The command line


def hwdyno(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HWDYNO, *arguments], capture_output=True, text=True, env=ENV, timeout=90, check=False)


@pytest.mark.machine
def test_command_line_writes_both_documents(tmp_path: Path) -> None:
    common = ["--runtime", "0.1", "--no-page", "--quiet", "--store", str(tmp_path), "--budget", "1s"]
    done = hwdyno("network", "--streams", "1,2", "--json", *common)
    assert done.returncode in {0, 3}, done.stderr
    run = json.loads(done.stdout)
    assert [measurement["parameters"]["streams"] for measurement in run["experiments"][0]["points"]] == [1, 2]
    assert "network_no_link" in {finding["rule"] for finding in run["findings"]}
    done = hwdyno("network", "--direction", "down", "--output-format", "iperf3-json", *common)
    assert json.loads(done.stdout)["start"]["test_start"]["reverse"] == 1
    done = hwdyno("network", "--direction", "up,down,both", "--json", *common)
    titles = [figure["title"] for figure in json.loads(done.stdout)["quoted"]]
    assert titles == [f"TCP loopback, 1 stream{way}" for way in ("", ", received", " each way")]


@pytest.mark.machine
@pytest.mark.parametrize(
    "words",
    [("network", "--streams", "1"), ("network", "latency", "--message", "64"), ("network", "ping", "--message", "56")],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_host_with_ipv6_alone_is_measured_over_its_own_loopback(words: tuple[str, ...], tmp_path: Path) -> None:
    only_ipv6 = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo"
    unshared = ["unshare", "--net", "sh", "-c", f'{only_ipv6} && exec "$@"', "sh"]
    if shutil.which("ip") is None or subprocess.run([*unshared, "true"], capture_output=True, check=False).returncode:
        missing("network namespaces cannot be made here")
    quick = ("--runtime", "0.05", "--budget", "1s", "--no-page", "--quiet", "--json", "--store", str(tmp_path))
    done = subprocess.run([*unshared, *HWDYNO, *words, *quick], capture_output=True, text=True, env=ENV, timeout=90,
                          check=False)  # fmt: skip
    assert done.returncode in {0, 3}, done.stderr
    (result,) = json.loads(done.stdout)["experiments"]
    assert all(point["operations"] > 0 and point["details"]["loopback"] for point in result["points"])
