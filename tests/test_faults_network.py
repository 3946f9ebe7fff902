"""A server that dies at each state of the protocol: a reading that names it, or one line, and no hang."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hwdyno import engine
from hwdyno.cli.main import main
from hwdyno.store import from_json

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]

STATES = {
    "nothing": 0,
    "PARAM_EXCHANGE": 1,
    "CREATE_STREAMS": 2,
    "TEST_START": 3,
    "TEST_RUNNING": 4,
    "EXCHANGE_RESULTS": 5,
    "a part of the results": 30,
}
"""Bytes of the control connection that a server sends before it dies: a state is one byte (iperf3's iperf_api.h)."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def dying_server(control_bytes: int) -> Iterator[int]:
    """The port of a server that sends so much by the control connection, moves data, and dies with all connections."""
    behind = free_port()
    serving = {"port": behind, "runtime": 2.0, "once": True}
    server = threading.Thread(target=engine.run, args=("network_server", serving))
    server.start()
    front = socket.create_server(("127.0.0.1", 0))
    dead = threading.Event()
    relay = threading.Thread(target=relay_until_death, args=(front, behind, control_bytes, dead))
    relay.start()
    try:
        yield front.getsockname()[1]
    finally:
        dead.set()
        relay.join()
        server.join()


def relay_until_death(front: socket.socket, behind: int, left: int, dead: threading.Event) -> None:
    """Carries bytes both ways; the first connection is the control."""
    other: dict[socket.socket, socket.socket] = {}
    control: socket.socket | None = None
    with contextlib.ExitStack() as all_ends:
        all_ends.enter_context(front)
        while not dead.is_set():
            for end in select.select([front, *other], [], [], 0.05)[0]:
                if end is front:
                    client, server = front.accept()[0], connected(behind)
                    all_ends.enter_context(client)
                    all_ends.enter_context(server)
                    other |= {client: server, server: client}
                    control = control or server
                    if left == 0:
                        return
                    continue
                try:
                    came = end.recv(1 << 16)
                except OSError:
                    came = b""
                if not came:
                    other.pop(end, None)
                    continue
                if end is control:
                    came, left = came[:left], left - len(came)
                with contextlib.suppress(OSError):
                    other[end].sendall(came)
                if end is control and left <= 0:
                    time.sleep(0.05)
                    return


def connected(port: int) -> socket.socket:
    end_s = time.monotonic() + 10
    while time.monotonic() < end_s:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        time.sleep(0.02)
    raise TimeoutError(f"nobody listens at {port}")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_server_that_dies_at_each_state_is_named(state: str, direction: str) -> None:
    with dying_server(STATES[state]) as port:
        began_s = time.monotonic()
        parameters = {"server": "127.0.0.1", "port": port, "runtime": 0.3, "direction": direction}
        try:
            reading = engine.run("network_throughput", parameters)
        except engine.MachineError as error:
            says = str(error)
            assert "\n" not in says and f"port {port}" in says, says
            assert STATES[state] < STATES["TEST_RUNNING"], says
        else:
            assert reading["faults"], "nobody says that the server died"
            assert STATES[state] >= STATES["TEST_RUNNING"]
        assert time.monotonic() - began_s < 20


@pytest.mark.parametrize("control_bytes", [0, 1, 2, 5, 10, 20, 21, 22, 40])
def test_a_server_of_round_trips_that_dies_at_each_state_is_named(control_bytes: int) -> None:
    """Between the states it also tells where its echo is: 4 bytes of length and some 14 of JSON."""
    with dying_server(control_bytes) as port:
        began_s = time.monotonic()
        parameters = {"server": "127.0.0.1", "port": port, "runtime": 0.3}
        try:
            reading = engine.run("network_latency", parameters)
        except engine.MachineError as error:
            says = str(error)
            assert "\n" not in says and f"port {port}" in says, says
            assert control_bytes < 22, says
        else:
            assert reading["faults"], "nobody says that the server died"
        assert time.monotonic() - began_s < 20


def test_a_run_whose_server_dies_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    with dying_server(STATES["TEST_RUNNING"]) as port:
        words = ["network", "--server", "127.0.0.1", "--port", str(port), "--runtime", "200ms", "--budget", "2s"]
        status = main([*words, "--quiet", "--no-page", "--json"])
    printed = capsys.readouterr()
    if status == 2:
        assert printed.err.count("\n") == 1 and str(port) in printed.err
    else:
        run = from_json(printed.out)
        assert status == 3
        assert all(point.validity != "valid" for one in run.experiments for point in one.points)
