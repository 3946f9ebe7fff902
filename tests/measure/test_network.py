"""The network end to end: the real iperf3 in both roles, its JSON both ways, what is found, and the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import warm
from here import missing, shortly
from hwdyno.formats import iperf3 as iperf3_json
from hwdyno.measure import engine
from hwdyno.model.words import Measurement, UserError, Value
from made_network import make_run, point, rules
from network_programs import ENV, HWDYNO, free_port, running, wait_for


def measure(kernel: str = "network_throughput", **parameters: Any) -> dict[str, Any]:
    return engine.run(kernel, {"runtime": 0.3, **parameters})


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


# The command line


def hwdyno(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(arguments)


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
