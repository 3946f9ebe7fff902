"""Wrong inputs of the network's commands: one line with the cause and what mends it, status 2, and no traceback."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hwdyno.cli.main import main
from hwdyno.cli.statuses import ERROR
from network_programs import free_port

Answer = Callable[[socket.socket], None]


@contextlib.contextmanager
def listener(answer: Answer) -> Iterator[int]:
    """Someone who listens at a port and answers each connection in his own way."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen(16)
        door.settimeout(0.05)
        done = threading.Event()

        def serve() -> None:
            connections = []
            while not done.is_set():
                try:
                    connection, _ = door.accept()
                except TimeoutError:
                    continue
                connections.append(connection)
                connection.settimeout(5)
                with contextlib.suppress(OSError):
                    answer(connection)
            for connection in connections:
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield door.getsockname()[1]
        finally:
            done.set()
            thread.join()


def complaint(capfd: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str, quiet: bool = True) -> str:
    """What the command line complains of; the first that is seen, and the only line of an error."""
    common = ["--no-page", "--store", str(tmp_path), "--budget", "3s", *(["--quiet"] if quiet else [])]
    status = main(["network", *arguments, *common])
    printed = capfd.readouterr()
    assert status == ERROR, printed
    assert printed.out == ""
    lines = [line for line in printed.err.splitlines() if line.startswith("hwdyno: ")]
    assert len(lines) == 1, printed.err
    assert "Traceback" not in printed.err
    if quiet:
        assert printed.err.strip() == lines[0]
    assert not list(tmp_path.glob("**/*.json")), "no Run is kept of nothing"
    return lines[0].removeprefix("hwdyno: ")


def test_a_server_that_is_not_there_is_one_line_with_its_mend(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    port = free_port()
    error = complaint(capfd, tmp_path, "--server", f"127.0.0.1:{port}", quiet=False)
    hint = f"start `hwdyno network server --port {port}` or `iperf3 -s -p {port}` there"
    assert error == f"nothing listens at 127.0.0.1 port {port}; {hint}"
    assert complaint(capfd, tmp_path, "--server", "127.0.0.1", "--port", str(port)) == error
    assert complaint(capfd, tmp_path, "latency", "--server", f"127.0.0.1:{port}") == error
    assert complaint(capfd, tmp_path, "--protocol", "udp", "--server", f"localhost:{port}").startswith(
        "nothing listens"
    )


def test_iperf3_document_needs_a_result(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--server", f"127.0.0.1:{free_port()}", "--output-format", "iperf3-json"]
    assert complaint(capfd, tmp_path, *options).startswith("nothing listens at")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--server", "no-such-host.invalid"), "the name 'no-such-host.invalid' cannot be resolved"),
        (("--server", "127.0.0.1:99999"), "'99999' is not a port; use 1 to 65535"),
        (("--server", "127.0.0.1:http"), "'http' is not a port"),
        (("--server", "127.0.0.1", "--port", "99999"), "port"),
        (("--server", "127.0.0.1", "--port", "0"), "port"),
        (("--server", "127.0.0.1", "--port", "-1"), "port"),
        (("--server", "127.0.0.1", "--port", "1,2"), "port"),
        (("ping", "--server", "no-such-host.invalid"), "cannot be resolved"),
        (("--protocol", "udp", "--block", "70000"), "a datagram cannot have 70000 bytes"),
        (("--congestion", "no-such-control"), "congestion = no-such-control: this system does not allow it"),
        (("server", "--bind", "no-such-host.invalid"), "no-such-host.invalid"),
        (("server", "--bind", "192.0.2.7"), "192.0.2.7"),
        (("server", "--bind", "../"), "use an address of this machine"),
        (("server", "--port", "70000"), "port"),
        (("server", "--port", "x"), "port"),
    ],
)
def test_impossible_request_is_one_line(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    assert says in complaint(capfd, tmp_path, *arguments)


def reset(connection: socket.socket) -> None:
    connection.recv(37)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def hang_up(connection: socket.socket) -> None:
    connection.recv(37)
    connection.close()


def web(connection: socket.socket) -> None:
    connection.recv(37)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def midway(connection: socket.socket) -> None:
    connection.recv(37)
    connection.sendall(b"\x09")  # its parameters, please
    connection.recv(4096)
    connection.close()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (reset, "closed the connection before the test; run `hwdyno network server` or `iperf3 -s` there"),
        (hang_up, "closed the connection before the test; run `hwdyno network server` or `iperf3 -s` there"),
        (web, "does not speak iperf3's protocol"),
        (midway, "agree on a test with 127.0.0.1 port"),
    ],
)
def test_a_server_of_something_else_is_named_as_such(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, answer: Answer, says: str
) -> None:
    with listener(answer) as port:
        assert says in complaint(capfd, tmp_path, "streams", "--server", f"127.0.0.1:{port}")


@pytest.mark.slow  # a silent server is given 5 s
def test_a_silent_server_is_given_up(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with listener(lambda connection: None) as port:
        error = complaint(capfd, tmp_path, "--streams", "1", "--server", f"127.0.0.1:{port}")
    assert error.startswith(f"something listens at 127.0.0.1 port {port}, but did not answer as an iperf3 server")
