"""A hostile rank at rank 0, a hostile rank 0 at a rank, a hostile coordinator at an agent: one line each, in time."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from here import missing, sample
from hwdyno import __version__
from hwdyno.measure.hosts import messages, ranks
from hwdyno.measure.hosts.launch import ByAddress, Meeting
from hwdyno.measure.hosts.speaker import PROTOCOL
from hwdyno.model.words import UserError

pytestmark = pytest.mark.machine
SECRET = b"0123456789abcdef"
BOUND_S = 10.0
GREET_S = 0.5
HUGE = 1 << 70
NOTHING = object()
TARGET = Path(__file__).parents[2] / "target"


@pytest.fixture(autouse=True)
def _short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "GREET_S", GREET_S)
    monkeypatch.setattr(ranks, "JOIN_S", 1.5)
    monkeypatch.setattr(ranks.Rank, "survey_s", 1.0)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def read_line(connection: socket.socket) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(connection.makefile("rb").readline())
    return found


def hello(greeting: dict[str, Any], rank: int = 0, **changes: Any) -> dict[str, Any]:
    """What a rank of this start says, but for the changes; its proof is right unless it is changed."""
    message = {
        "rank": rank, "name": "n0", "boot": "b", "processors": [0], "version": [__version__, PROTOCOL],
        "nonce": "a" * 32, "server": None,
        **changes,
    }  # fmt: skip
    proof = ranks._proof(SECRET, f"rank {message.get('rank')} {greeting['nonce']}").decode()
    return {name: value for name, value in {"proof": proof, **message}.items() if value is not NOTHING}


def line(document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def drip(connection: socket.socket, _: dict[str, Any]) -> None:
    for _ in range(200):
        connection.sendall(b"a")
        time.sleep(0.05)


def flood(connection: socket.socket, _: dict[str, Any]) -> None:
    while True:
        connection.sendall(b"a" * 65536)


def says(*pieces: bytes) -> Callable[[socket.socket, dict[str, Any]], None]:
    def deed(connection: socket.socket, _: dict[str, Any]) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return deed


def introduces(**changes: Any) -> Callable[[socket.socket, dict[str, Any]], None]:
    return lambda connection, greeting: connection.sendall(line(hello(greeting, **changes)))


def breaks_off(connection: socket.socket, _: dict[str, Any]) -> None:
    connection.sendall(b'{"rank"')
    connection.close()


def falls_silent(connection: socket.socket, _: dict[str, Any]) -> None:
    connection.sendall(line(GREETING))
    time.sleep(4)


Deed = Callable[[socket.socket, dict[str, Any]], None]
GREETING = {"hwdyno": "ranks", "nonce": "a" * 32}
AT_THE_DOOR: dict[str, tuple[Deed, str]] = {
    "silence": (lambda connection, _: time.sleep(3), "is not whole after"),
    "a byte at a time": (drip, "is not whole after"),
    "no end of a line": (flood, "a message has more than 524288 bytes"),
    "deep list": (says(b"[" * 100_000 + b"\n"), "nested too deep"),
    "deep table": (says(b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"\n"), "nested"),
    "levels": (says(b"[" * 20 + b"]" * 20 + b"\n"), "a message is a list"),
    "no text": (says(b"\xff\xfe\n"), "is not JSON"),
    "a request": (says(b"GET / HTTP/1.1\r\n\r\n"), "is not JSON"),
    "an empty line": (says(b"\n"), "is not JSON"),
    "NaN": (says(b'{"rank": NaN}\n'), "out of range"),
    "many digits": (says(b'{"rank": ' + b"9" * 5000 + b"}\n"), "is not JSON|out of range"),
    "a list": (says(b"[]\n"), "a message is a list"),
    "null": (says(b"null\n"), "a message is None"),
    "half a line": (breaks_off, "closed"),
    "the end": (lambda connection, _: connection.close(), "it closed the connection"),
    "nothing in it": (says(b"{}\n"), "has no rank"),
    "another secret": (introduces(proof="0" * 64), "does not know the secret"),
    "letters in the proof": (introduces(proof="é" * 64), "does not know the secret"),
    "a short proof": (introduces(proof="00"), "proof is '00'"),
    "a proof that is none": (introduces(proof=7), "proof is 7"),
    "a field more": (introduces(more=1), "unknown field 'more'"),
    **{
        f"{name} {str(value)[:30]}": (introduces(**{name: value}), f"its message.{name}")
        for name, value in [
            ("rank", -1), ("rank", "0"), ("rank", True), ("rank", 0.5), ("rank", HUGE), ("rank", None), ("rank", []),
            ("name", 7), ("name", "n" * 300), ("name", None), ("boot", []), ("boot", None),
            ("processors", []), ("processors", [-1]), ("processors", ["0"]), ("processors", [70_000]),
            ("processors", {}), ("processors", None), ("processors", [0.5]), ("processors", [HUGE]),
            ("version", "0.1"), ("version", [1]), ("version", ["0.1", "4"]), ("version", [[], {}]),
            ("nonce", 7), ("nonce", "a"), ("nonce", "a" * 100), ("server", 7), ("server", ["x"]),
            ("server", ["x", 0]), ("server", ["x", 70_000]), ("server", [7, 7]), ("server", ["x", "7"]),
        ]
    },
    **{f"no {name}": (introduces(**{name: NOTHING}), f"has no {name}") for name in ("name", "nonce", "boot")},
}  # fmt: skip
"""Strangers at rank 0, each with why it is sent away; some know the secret."""


def comes(port: int, deed: Deed) -> threading.Thread:
    def visit() -> None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            deed(connection, read_line(connection))
            connection.recv(1)

    visitor = threading.Thread(target=visit, daemon=True)
    visitor.start()
    return visitor


DOOR = list(AT_THE_DOOR)[:: sample(2, 1)]


@pytest.mark.sampled
@pytest.mark.parametrize("name", DOOR)
def test_a_stranger_is_sent_away_and_named(name: str) -> None:
    deed, why = AT_THE_DOOR[name]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        admission = ranks._Admission(listener, 1, SECRET)
        began = time.monotonic()
        visitor = comes(listener.getsockname()[1], deed)
        with pytest.raises(
            UserError, match=rf"rank 0 of 1 did not connect .*; 127\.0\.0\.1 was sent away: .*(?:{why})"
        ):
            admission.all(GREET_S + 0.5)
        assert not admission.refused and not admission.arrivals
        visitor.join(BOUND_S)
        assert not visitor.is_alive() and time.monotonic() - began < BOUND_S


def test_strangers_hold_up_no_rank() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        admission = ranks._Admission(listener, 2, SECRET)
        port = listener.getsockname()[1]
        visitors = [comes(port, deed) for deed, _ in list(AT_THE_DOOR.values())[:8]]
        visitors += [comes(port, introduces(rank=rank)) for rank in (0, 1)]
        assert [arrival.number for arrival in admission.all(BOUND_S)] == [0, 1]
        for arrival in admission.arrivals.values():
            arrival.connection.close()
        for visitor in visitors:
            visitor.join(BOUND_S)


def test_many_strangers_are_met_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "MAX_STRANGERS", 3)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        admission = ranks._Admission(listener, 1, SECRET)
        before = threading.active_count()
        silent = [socket.create_connection(listener.getsockname()) for _ in range(20)]
        time.sleep(GREET_S / 2)
        assert threading.active_count() <= before + 4
        for connection in silent:
            connection.close()
        comes(listener.getsockname()[1], introduces())
        (arrival,) = admission.all(BOUND_S)
        arrival.connection.close()


@pytest.mark.parametrize(
    ("version", "rank", "why"),
    [(["9.9", 4], 0, "install the same version"), ([__version__, PROTOCOL], 7, "not one of 1")],
)
def test_a_rank_of_another_version_or_number_is_refused(version: list[Any], rank: int, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        admission = ranks._Admission(listener, 1, SECRET)
        comes(listener.getsockname()[1], introduces(version=version, rank=rank))
        with pytest.raises(UserError, match=why):
            admission.all(2.0)


# --- a rank whose agent is hostile once it was let in

AGENTS: dict[str, tuple[Deed, str]] = {
    "garbage": (says(b"hello\n"), "is not JSON"),
    "silence": (lambda connection, _: time.sleep(3), "did not begin within 1 s"),
    "a byte at a time": (drip, "did not begin within 1 s"),
    "no end of a line": (flood, "more than 4096 bytes"),
    "the end": (lambda connection, _: connection.close(), "its connection ended"),
    "another protocol": (
        says(line({"agent": "hwdyno-engine", "protocol": 99, "version": "9"})), "install the same version on both",
    ),
    "no survey": (
        says(line({"agent": "hwdyno-engine", "protocol": PROTOCOL, "version": "1"}), b'{"id": 7, "answer": 1}\n'),
        "request 7, which was not made",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AGENTS)
def test_a_rank_that_is_wrong_at_the_start_is_named(name: str) -> None:
    deed, why = AGENTS[name]
    port = free_port()

    def serve() -> None:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(line(hello(read_line(connection), 1, name="bad")))
                read_line(connection)
                with contextlib.suppress(OSError):
                    deed(connection, {})
                    connection.recv(1)
                return
            time.sleep(0.05)

    threading.Thread(target=serve, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(UserError, match=rf"a rank was lost at the start: bad rank 1: .*{why}") as raised:
        ranks.join_ranks(ByAddress(0, 2, Meeting("127.0.0.1", port, SECRET)), timeout_s=5.0)
    assert "\n" not in str(raised.value) and time.monotonic() - began < BOUND_S


# --- a hostile rank 0


def welcomes(**changes: Any) -> Deed:
    def deed(connection: socket.socket, _: dict[str, Any]) -> None:
        connection.sendall(line(GREETING))
        nonce = read_line(connection)["nonce"]
        message = {"proof": ranks._proof(SECRET, f"site {nonce}").decode(), "processors": [0], **changes}
        connection.sendall(line({name: value for name, value in message.items() if value is not NOTHING}))

    return deed


RANK_0: dict[str, tuple[Deed, str]] = {
    "silence": (lambda connection, _: time.sleep(3), "is not whole after"),
    "a byte at a time": (drip, "is not whole after"),
    "no end of a line": (flood, "a message has more than"),
    "deep": (says(b"[" * 100_000 + b"\n"), "nested too deep"),
    "no JSON": (says(b"SSH-2.0-OpenSSH\r\n"), "is not JSON"),
    "a list": (says(b"[]\n"), "a message is a list"),
    "no nonce": (says(line({"hwdyno": "ranks"})), "has no nonce"),
    "a nonce that is none": (says(line({"hwdyno": "ranks", "nonce": 7})), "nonce is 7"),
    "a short nonce": (says(line({"hwdyno": "ranks", "nonce": ""})), "nonce is ''"),
    "another program": (says(line({"hwdyno": "other", "nonce": "a" * 32})), "hwdyno is 'other'"),
    "a field more": (says(line({**GREETING, "more": 1})), "unknown field 'more'"),
    "no welcome": (says(line(GREETING), b"hello\n"), "is not JSON"),
    "silence after the greeting": (falls_silent, "not whole after"),
    "another secret": (welcomes(proof="0" * 64), "is not this start's rank 0"),
    "no proof": (welcomes(proof=NOTHING), "has no proof"),
    "a proof that is none": (welcomes(proof=[]), "proof is a list"),
    "letters in the proof": (welcomes(proof="é" * 64), "is not this start's rank 0"),
    "no processors": (welcomes(processors=[]), "processors is a list of 0"),
    "processors below 0": (welcomes(processors=[-1]), "processors.0 is -1"),
    "processors that are none": (welcomes(processors=["0"]), "processors.0 is '0'"),
    "a great processor": (welcomes(processors=[HUGE]), "processors.0 is a whole number of 71 bits"),
    "processors as a table": (welcomes(processors={}), "processors is a table"),
    "one more thing": (welcomes(more=1), "unknown field 'more'"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", list(RANK_0)[:: sample(2, 1)])
def test_a_rank_names_a_rank_0_that_is_wrong(name: str) -> None:
    deed, why = RANK_0[name]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            with contextlib.suppress(OSError), listener.accept()[0] as connection:
                deed(connection, {})
                connection.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        began = time.monotonic()
        served = ranks._RankAgent(ByAddress(1, 2, meeting := Meeting("127.0.0.1", port, SECRET)), meeting)
        served.begin()
        with pytest.raises(UserError, match=why) as raised:
            served.end()
        assert f"127.0.0.1:{port}" in str(raised.value) and "\n" not in str(raised.value)
        assert time.monotonic() - began < BOUND_S


# --- a hostile coordinator


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    built = [path for kind in ("release", "debug") if (path := TARGET / kind / "hwdyno-engine").exists()]
    if not built:
        missing("hwdyno-engine is not built (cargo build -p hwdyno-engine)")
    yield os.environ.get("HWDYNO_ENGINE") or str(max(built, key=lambda path: path.stat().st_mtime))


def request(verb: str, **fields: Any) -> bytes:
    return json.dumps({"id": 1, "do": verb, **fields}).encode()


IDLE = {"kernel": "idle", "parameters": {"runtime": 0.01}}
REQUESTS: dict[bytes, str] = {
    b"[" * 500_000: "not JSON",
    b'{"a":' * 100_000: "not JSON",
    b"x" * (3 << 20): "over 1048576 bytes",
    b'{"id": NaN}': "not JSON",
    b'{"id": 1e999, "do": "clock"}': "not JSON",
    b"\xff\xfe": "not JSON",
    b"[]": "JSON object",
    b"null": "JSON object",
    b'{"id": 1}': "unknown verb",
    b'{"id": 1, "do": 7}': "unknown verb",
    b'{"id": 1, "do": "exec"}': "unknown verb 'exec'",
    b'{"id": 1, "do": "' + b"\\u001b" * 1000 + b'"}': "unknown verb",
    b'{"id": [1], "do": "clock"}': "id must be",
    b'{"id": {}, "do": "clock"}': "id must be",
    b'{"id": 1.5, "do": "clock"}': "id must be",
    b'{"id": true, "do": "clock"}': "id must be",
    b'{"id": "' + b"a" * 1000 + b'", "do": "clock"}': "id must be",
    request("clock", more=1): "clock has no field 'more'",
    request("stop", now=True): "stop has no field 'now'",
    request("survey", path=7): "path must be",
    request("survey", path="a" * 5000): "path must be",
    request("survey", path="a\0b"): "path must be",
    request("start"): "start needs a field at_ns",
    request("start", at_ns=-1): "at_ns must be",
    request("start", at_ns=1.5): "at_ns must be",
    request("start", at_ns="1"): "at_ns must be",
    request("start", at_ns=HUGE): "at_ns must be",
    request("find"): "find needs a field tool",
    request("find", tool=7): "tool must be",
    request("find", tool="bash"): "an agent runs no program",
    request("files"): "files needs a field",
    request("files", action="claim"): "files needs a field path",
    request("files", action="erase", path="/"): "files has no action",
    request("files", action=7, path="/"): "action must be",
    request("files", action="claim", path=["/"]): "path must be",
    request("files", action="claim", path="/nowhere/at/all"): "make a directory",
    request("files", action="size", path="/nowhere"): "look at",
    request("run"): "run needs a field kernel",
    request("run", kernel=7): "kernel must be",
    request("run", kernel="none"): "no kernel is called",
    request("run", kernel="k" * 1000): "kernel must be",
    request("run", kernel="idle", parameters=7): "parameters must be",
    request("run", kernel="idle", parameters=[]): "parameters must be",
    request("run", kernel="idle", parameters={"runtime": -1}): "runtime",
    request("run", kernel="idle", parameters={"runtime": "long"}): "runtime",
    request("run", kernel="idle", parameters={"runtime": HUGE}): "runtime",
    request("run", kernel="idle", parameters={"more": 1}): "more",
    request("run", **IDLE, hold="yes"): "hold must be",
    request("run", **IDLE, hold=1): "hold must be",
    request("run", **IDLE, start_at_ns="soon"): "start_at_ns must be",
    request("run", **IDLE, start_at_ns=-1): "start_at_ns must be",
    request("run", **IDLE, more=1): "run has no field 'more'",
    request("program"): "program needs a field tool",
    request("program", tool="bash", arguments=[]): "an agent runs no program",
    request("program", tool="fio", arguments=["--exec_prerun=id"]): "does not run fio",
    request("program", tool="fio", arguments="--version"): "a program's arguments",
    request("program", tool="fio", arguments=[], environment=[]): "environment must be",
    request("program", tool="fio", arguments=[], environment={"LD_PRELOAD": "x"}): "does not set",
    request("program", tool="fio", arguments=["--version"], environment={}, timeout_s="x", files={}): "timeout_s",
    request(
        "program", tool="fio", arguments=["--version"], environment={}, timeout_s=1e300, files={}
    ): "no length of time",
}


def test_each_wrong_request_has_one_error_and_the_agent_goes_on(engine: str, tmp_path: Path) -> None:
    """All of them in one conversation, so that none changes what the next one finds."""
    assert len(REQUESTS) > 50
    with subprocess.Popen([engine, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as agent:
        assert agent.stdin is not None and agent.stdout is not None
        answers = agent.stdout
        assert json.loads(read_bytes(answers))["agent"] == "hwdyno-engine"
        for sent, why in REQUESTS.items():
            began = time.monotonic()
            agent.stdin.write(sent + b"\n")
            error = json.loads(read_bytes(answers))["error"]
            assert any(part in error["says"] for part in why.split("|")), (sent[:80], error)
            assert error["kind"] in {"usage", "machine"} and len(error["says"]) < 2000, (sent[:80], error)
            assert time.monotonic() - began < BOUND_S, sent[:80]
            agent.stdin.write(b'{"id": "after", "do": "clock"}\n')
            assert json.loads(read_bytes(answers))["id"] == "after", sent[:80]
        agent.stdin.close()
        assert agent.wait(BOUND_S) == 0


def read_bytes(answers: Any) -> bytes:
    """A line, read as it comes."""
    found = bytearray()
    while not found.endswith(b"\n"):
        found += answers.read(1)
    return bytes(found)


def test_lengths_are_those_of_the_other_end() -> None:
    """An agent's request is at most 1 MiB, and nothing that a rank says before its proof is longer."""
    assert messages.MAX_HELLO <= 1 << 20 and min(messages.LENGTHS.values()) >= 4096
