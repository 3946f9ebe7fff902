"""iperf3's options one by one against the real iperf3 in both roles, and what both ends write down of it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hwdyno.formats import iperf3 as iperf3_json
from hwdyno.measure import engine
from hwdyno.model.words import UserError
from network_programs import HWDYNO, free_port, running

pytestmark = pytest.mark.peer("iperf3")

# Each with what its document must say of the test. Amounts end a test sooner than iperf3's whole seconds.
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("-n 8M", {"protocol": "TCP", "bytes": 8 << 20}),
    ("-k 200 -l 64K", {"blocks": 200, "blksize": 64 << 10}),
    ("-n 8M -P 3", {"num_streams": 3}),
    ("-n 8M -R", {"reverse": 1}),
    ("-n 8M --bidir -P 2", {"bidir": 1, "num_streams": 2}),
    ("-n 8M -w 128K -M 1000 -N", {"bytes": 8 << 20}),
    ("-n 8M -C reno", {"protocol": "TCP"}),
    ("-n 8M -Z", {"protocol": "TCP"}),
    ("-n 8M --get-server-output", {"protocol": "TCP"}),
    ("-n 8M -R --get-server-output", {"reverse": 1}),
    ("-n 8M -b 400M", {"target_bitrate": 400_000_000}),
    ("-n 8M -S 0x10", {"tos": 16}),
    ("-O 1 -t 1", {"omit": 1, "duration": 1}),
    ("-u -b 80M -n 2M", {"protocol": "UDP"}),
    ("-u -b 80M -n 2M -l 1000 --udp-counters-64bit", {"blksize": 1000}),
    ("-u -b 80M -n 2M -R -P 2", {"protocol": "UDP", "reverse": 1}),
    ("-u -b 80M -k 500 -l 1200 --bidir", {"bidir": 1, "blocks": 500}),
    ("-u -b 80M -n 2M --get-server-output", {"protocol": "UDP"}),
]


def client(port: int, options: str, host: str = "127.0.0.1") -> dict[str, Any]:
    command = ["iperf3", "-c", host, "-p", str(port), "-J", *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def documents(text: str) -> list[dict[str, Any]]:
    """Every document that a server printed, one behind the other."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text.rstrip()):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def once_written(log: Path, count: int) -> list[dict[str, Any]]:
    """The documents of a server's log, as soon as there are this many whole ones."""
    limit = time.monotonic() + 20
    while True:
        try:
            found = documents(log.read_text())
        except ValueError:
            found = []
        if len(found) >= count or time.monotonic() > limit:
            return found
        time.sleep(0.05)


def test_real_client_options_are_served(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "server.json"
    parameters = {"bind": "127.0.0.1", "port": port, "log": str(log)}
    code = f"from hwdyno.measure import engine; engine.run('network_server', {parameters!r})"
    ours = []
    with running(HWDYNO[0], "-c", code, port=port):
        for options, shown in OPTIONS:
            document = client(port, options)
            assert "error" not in document, (options, document["error"])
            test = document["start"]["test_start"]
            expected = {name: value for name, value in shown.items() if name in test}
            assert expected.items() <= test.items(), (options, test)
            found = iperf3_json.convert_document(document)
            assert found.bytes >= 100_000, options
            assert not found.faults
            if "get-server-output" in options:
                assert "hwdyno network server" in document["server_output_text"], options
            ours.append((options, shown, found))
        # The server writes a test down after its client has ended.
        written = once_written(log, len(OPTIONS))
    assert len(written) == len(OPTIONS)
    # iperf3 before 3.13 names no direction but the reverse.
    for (options, shown, found), document in zip(ours, written, strict=True):
        test = document["start"]["test_start"]
        # Of the rates and marks that were requested, iperf3's client tells both; times it rounds.
        assert shown.items() <= {**test, "omit": round(test["omit"])}.items(), (options, test)
        there = iperf3_json.convert_document(document)
        assert there.parameters["direction"] == found.parameters["direction"]
        # The client's last bytes may be on their way still when it asks for the results.
        assert there.bytes == pytest.approx(found.bytes, rel=0.35), options
        run = iperf3_json.read(json.dumps(document), "server.json")
        assert run.experiments[0].points[0].bytes == there.bytes


def test_a_test_that_fails_is_written_down_as_valid_json(tmp_path: Path) -> None:
    import socket

    port, log = free_port(), tmp_path / "server.json"
    parameters = {"bind": "127.0.0.1", "port": port, "log": str(log), "once": True}
    code = f"from hwdyno.measure import engine; engine.run('network_server', {parameters!r})"
    with running(HWDYNO[0], "-c", code, port=port) as server:
        with socket.create_connection(("127.0.0.1", port)) as rude:
            rude.sendall(b"a" * 36 + b"\0")
            rude.sendall((9).to_bytes(4, "big") + b"[1, 2, 3]")
            rude.recv(1)
        server.wait(10)
    (document,) = documents(log.read_text())
    assert "not a JSON object" in document["error"]
    assert iperf3_json.read(json.dumps(document), "x").degraded


def test_command_line_prints_each_server_test() -> None:
    port = free_port()
    command = (*HWDYNO, "network", "server", "--port", str(port), "--once", "--output-format", "iperf3-json")
    with running(*command, port=port) as server:
        client(port, "-n 4M")
        out, _ = server.communicate(timeout=20)
    (document,) = documents(out)
    assert document["end"]["sum_received"]["bytes"] > 1_000_000


def test_ipv6_in_both_roles() -> None:
    port = free_port()
    with running(*HWDYNO, "network", "server", "--bind", "::", "--port", str(port), port=port):
        for options in ("-6 -n 4M", "-6 -u -b 80M -n 1M", "-4 -n 4M", "-4 -u -b 80M -n 1M"):
            document = client(port, options, "::1" if "-6" in options else "127.0.0.1")
            assert "error" not in document, (options, document["error"])
    port = free_port()
    with running("iperf3", "-s", "-B", "::1", "-p", str(port), port=port):
        for protocol in ("tcp", "udp"):
            given = {"server": "::1", "port": port, "runtime": 0.2, "protocol": protocol, "rate": 50_000_000}
            reading = engine.run("network_throughput", given)
            assert not reading["faults"]
            assert reading["streams"][0]["bytes"] > 100_000


# Where it gets no processor, iperf3's server refuses a test while it still ends the one before.
@pytest.mark.timing
def test_each_option_drives_a_real_server() -> None:
    port = free_port()
    with running("iperf3", "-s", "-B", "127.0.0.1", "-p", str(port), port=port):
        for given in (
            {"blocks": 300, "block": 20_000},
            {"bytes": 64 << 20, "streams": 2, "direction": "both"},
            {"zero_copy": True, "skip_rx_copy": True},
            {"nodelay": True, "mss": 1000, "window": 200_000},
            {"congestion": "reno", "direction": "down"},
            {"rate": 80_000_000, "burst": 4},
            {"ramp_time": 1.0},
            {"protocol": "udp", "rate": 20_000_000, "direction": "both"},
            {"protocol": "udp", "rate": 20_000_000, "blocks": 300, "handing": "plain"},
        ):
            reading = engine.run("network_throughput", {"server": "127.0.0.1", "port": port, "runtime": 0.2, **given})
            assert reading["faults"] == [], given
            assert reading["details"]["server"] == "iperf3"
            assert sum(stream["bytes"] for stream in reading["streams"]) > 100_000, given
        # Busy with someone else, it says so, and so do we; it may need a moment to be rid of us first.
        for _ in range(10):
            other = subprocess.Popen(
                ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", "4"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(0.7)
            if other.poll() is None:
                break
        try:
            with pytest.raises(OSError, match="busy"):
                engine.run("network_throughput", {"server": "127.0.0.1", "port": port, "runtime": 0.05})
        finally:
            other.kill()
            other.wait()


def test_what_is_no_document_of_a_server_is_refused() -> None:
    with pytest.raises(UserError, match="iperf3"):
        iperf3_json.parse("not a document")
