"""A server that dies at each state of the protocol: a reading that names it, or one line, and no hang."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hwdyno.cli.main import main
from hwdyno.measure import engine
from hwdyno.system.store import from_json

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


def both_fronts() -> tuple[socket.socket, socket.socket]:
    """A listening socket and one of datagrams at one port, bound at once: a port that is only known may be taken."""
    while True:
        front = socket.create_server(("127.0.0.1", 0))
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            datagrams.bind(front.getsockname())
        except OSError:
            front.close()
            datagrams.close()
        else:
            return front, datagrams


@contextlib.contextmanager
def dying_server(control_bytes: int) -> Iterator[int]:
    """The port of a server that sends this much by the control connection, moves data, and dies."""
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


@pytest.mark.parametrize("control_bytes", [0, 1, 2, 5, 10, 20, 21, 22, 40])
def test_a_server_of_round_trips_that_dies_at_each_state_is_named(control_bytes: int) -> None:
    """The place of its echo is also sent between the states: 4 bytes of length and some 14 of JSON."""
    with dying_server(control_bytes) as port:
        parameters = {"server": "127.0.0.1", "port": port, "runtime": 0.3}
        try:
            reading = engine.run("network_latency", parameters)
        except engine.MachineError as error:
            says = str(error)
            assert "\n" not in says and f"port {port}" in says, says
            assert control_bytes < 22, says
        else:
            assert reading["faults"], "nobody says that the server died"


def test_run_whose_server_dies_is_kept(
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
        assert all(point.validity != "valid" for experiment in run.experiments for point in experiment.points)


SERVING = """
import sys
from hwdyno import _engine
given = f'{{"bind": "127.0.0.2", "port": {sys.argv[1]}, "runtime": 60.0}}'
_engine.run("network_server", given, _engine.Stop())
"""
UDP_STATES = {**STATES, "the first stream is open": 2}
"""States as above; in the last one the server dies by its answer to the first of two streams' datagrams."""
DIRECTIONS = ("up", "down", "both")


def wait_until_listening(address: str, port: int) -> None:
    """Wait for a server without a connection, which would be its client."""
    entry = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X} 00000000:0000 0A"
    end_s = time.monotonic() + 60
    while entry not in Path("/proc/net/tcp").read_text():
        assert time.monotonic() < end_s, f"no server listens at {address} port {port}"
        time.sleep(0.05)


class DyingProcess:
    """A server's process behind a relay of both protocols at one port; it dies when its control sent this many bytes.

    With ``answers`` it dies after this many datagrams from it instead, and ``after_s`` later. What a dead process would
    no longer take is refused, and what a frozen one would not answer is swallowed.
    """

    def __init__(self, control_bytes: int, death: signal.Signals, *, answers: int = 0, after_s: float = 0.0) -> None:
        self.left = control_bytes
        self.death = death
        self.answers = answers
        self.after_s = after_s
        self.front, self.datagrams = both_fronts()
        self.port: int = self.front.getsockname()[1]
        self.dead = threading.Event()
        self.over = threading.Event()
        self.served = 0

    def __enter__(self) -> DyingProcess:
        self.process = subprocess.Popen([sys.executable, "-c", SERVING, str(self.port)])
        # A client gives a server 5 s to answer, and the relay's port listens already.
        wait_until_listening("127.0.0.2", self.port)
        self.relay = threading.Thread(target=self.carry)
        self.relay.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.relay.join()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def die(self) -> None:
        os.kill(self.process.pid, self.death)
        self.dead.set()

    def carry(self) -> None:
        """Carries connections and datagrams both ways until the server dies; a frozen one keeps its sockets."""
        streams: dict[socket.socket, socket.socket] = {}
        clients: dict[tuple[str, int], socket.socket] = {}
        by_socket: dict[socket.socket, tuple[str, int]] = {}
        control: socket.socket | None = None
        due_s = float("inf")
        with contextlib.ExitStack() as ends:
            ends.enter_context(self.front)
            ends.enter_context(self.datagrams)
            while not self.over.is_set() and not self.dead.is_set():
                if time.monotonic() >= due_s:
                    self.die()
                    break
                for end in select.select([self.front, self.datagrams, *streams, *by_socket], [], [], 0.01)[0]:
                    if end is self.front:
                        client, server = self.front.accept()[0], self.connected()
                        for peer_end in (client, server):
                            ends.enter_context(peer_end)
                        streams |= {client: server, server: client}
                        control = control or server
                        if self.left == 0:
                            due_s = time.monotonic()
                    elif end is self.datagrams:
                        self.to_the_server(clients, by_socket, ends)
                    elif end in by_socket:
                        with contextlib.suppress(OSError):
                            # The refusal that woke us may have been taken by the sending of a datagram since.
                            self.datagrams.sendto(end.recv(1 << 16, socket.MSG_DONTWAIT), by_socket[end])
                            self.served += 1
                        if self.served == self.answers:
                            due_s = time.monotonic() + self.after_s
                    else:
                        sent = self.along(streams, end, limited=end is control)
                        if end is control and sent and self.left <= 0 and not self.answers:
                            due_s = time.monotonic() + self.after_s
            if self.death is signal.SIGSTOP:
                self.over.wait()

    def connected(self) -> socket.socket:
        end_s = time.monotonic() + 10
        while time.monotonic() < end_s:
            with contextlib.suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.2", self.port), timeout=10)
            time.sleep(0.02)
        raise TimeoutError(f"nobody listens at {self.port}")

    def to_the_server(
        self,
        clients: dict[tuple[str, int], socket.socket],
        by_socket: dict[socket.socket, tuple[str, int]],
        ends: contextlib.ExitStack,
    ) -> None:
        with contextlib.suppress(OSError):
            datagram, client = self.datagrams.recvfrom(1 << 16)
            if client not in clients:
                clients[client] = ends.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                clients[client].connect(("127.0.0.2", self.port))
                by_socket[clients[client]] = client
            clients[client].send(datagram)

    def along(self, streams: dict[socket.socket, socket.socket], end: socket.socket, *, limited: bool) -> int:
        """Carries what came by a connection; of the control no more than the bytes that are left."""
        try:
            came = end.recv(1 << 16)
        except OSError:
            came = b""
        if not came:
            streams.pop(end, None)
            return 0
        if limited and not self.answers:
            came, self.left = came[: self.left], self.left - len(came)
        with contextlib.suppress(OSError):
            streams[end].sendall(came)
        return len(came)


def udp(port: int, **more: Any) -> tuple[dict[str, Any] | None, str, float]:
    """The reading of a short test with datagrams, or the line that refuses it; and how long it took, s."""
    parameters = {"server": "127.0.0.1", "port": port, "protocol": "udp", "runtime": 0.4, "rate": 20_000_000, **more}
    began_s = time.monotonic()
    try:
        reading = engine.run("network_throughput", parameters)
    except engine.MachineError as error:
        return None, str(error), time.monotonic() - began_s
    return reading, "", time.monotonic() - began_s


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("state", UDP_STATES)
def test_a_server_of_datagrams_that_is_killed_at_each_state_is_named(state: str, direction: str) -> None:
    the_death_is_named(state, direction, signal.SIGKILL)


def test_a_server_of_datagrams_that_freezes_at_each_state_is_named() -> None:
    """A machine that is gone without a word; several at a time, because each client waits as long as its timeout."""
    cases = [(state, direction, signal.SIGSTOP) for state in UDP_STATES for direction in DIRECTIONS]
    with ThreadPoolExecutor(8) as pool:
        ended = [(case, pool.submit(the_death_is_named, *case)) for case in cases]
    failed = [(case, error) for case, future in ended if (error := future.exception()) is not None]
    assert not failed, failed


def the_death_is_named(state: str, direction: str, death: signal.Signals) -> None:
    """Runs a short test with datagrams against a server that dies then, and looks at the message.

    A process that is killed has ports that refuse from then on, and one that is stopped swallows all.
    """
    opening = state == "the first stream is open"
    more = {"answers": 1} if opening else {"after_s": 0.1 if state == "TEST_RUNNING" else 0.0}
    with DyingProcess(UDP_STATES[state], death, **more) as server:
        reading, says, took_s = udp(server.port, direction=direction, streams=2)
        assert server.dead.is_set(), "the test was over before"
    if opening or STATES[state] < STATES["TEST_RUNNING"]:
        assert reading is None, reading and reading["faults"]
        assert "\n" not in says and f"port {server.port}" in says, says
    else:
        assert reading is not None, says
        assert reading["faults"], "nobody says that the server died"
        is_over = death == signal.SIGKILL and STATES[state] > STATES["TEST_RUNNING"]
        named = "exchange results: " if is_over else "the other end "
        assert any(named in fault["says"] for fault in reading["faults"]), reading["faults"]
        assert reading["elapsed_s"] < took_s
        codes = [note["code"] for note in reading["notes"]]
        if direction != "down":
            assert "loss_share" not in reading["details"], "nobody can know what arrived"
            assert "arrivals_unknown" in codes and "counted_at_the_sender" not in codes


@pytest.mark.parametrize("handing", ["plain", "batched", "segmented"])
def test_a_real_server_that_is_killed_amid_datagrams_ends_the_reading_then(handing: str) -> None:
    """A server without a relay: the kernel closes the control connection and refuses each datagram from then on."""
    port = free_port()
    serving = SERVING.replace("127.0.0.2", "127.0.0.1")
    with subprocess.Popen([sys.executable, "-c", serving, str(port)]) as server:
        try:
            connected(port).close()
            killer = threading.Timer(0.7, server.kill)
            killer.start()
            reading, says, took_s = udp(port, runtime=30.0, rate=0, handing=handing)
            killer.join()
        finally:
            server.kill()
    assert reading is not None, says
    assert reading["elapsed_s"] < took_s < 30.0, "it ends before its runtime"
    assert any("other end" in fault["says"] for fault in reading["faults"]), reading["faults"]
    assert reading["details"]["datagrams_sent"] > 0 and "loss_share" not in reading["details"]


def test_a_run_of_datagrams_whose_server_dies_is_kept_and_degraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    with DyingProcess(1, signal.SIGKILL, answers=2, after_s=0.1) as server:
        words = [
            "network",
            "--server",
            "127.0.0.1",
            "--port",
            str(server.port),
            "--protocol",
            "udp",
            "--direction",
            "up",
        ]
        status = main([*words, "--runtime", "400ms", "--budget", "20s", "--quiet", "--no-page", "--json"])
        assert server.dead.is_set()
    printed = capsys.readouterr()
    assert status == 3, printed.err
    run = from_json(printed.out)
    points = [point for experiment in run.experiments for point in experiment.points]
    assert points and all(point.validity != "valid" for point in points)
    says = [finding.says for finding in run.findings if finding.rule == "faults"]
    assert says and says[0].startswith("No operation is known to have succeeded"), says
