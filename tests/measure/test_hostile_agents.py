"""A hostile or broken agent ends in one line that names it, in time, and costs the Run no other host's points."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hostile_peer
import pytest
import warm
from here import sample
from hostile_messages import AT_START, HUGE, IN_RUN, NO_FAULTS, Fault
from hwdyno import _engine
from hwdyno.explain.findings import explain
from hwdyno.measure import experiments, plan, runner
from hwdyno.measure.hosts import HostLostError, lines, speaker
from hwdyno.measure.hosts.agent import Agent
from hwdyno.measure.hosts.agents_site import of_commands
from hwdyno.measure.hosts.several_hosts import SeveralHosts, Timeouts
from hwdyno.measure.hosts.speaker import PROTOCOL, Speaker
from hwdyno.model.words import Run, UserError
from hwdyno.report.page import html
from hwdyno.system.processes import read_stat
from hwdyno.system.store import from_json, to_json
from simulated_hosts import Memory
from simulation.host import SimulatedMachine
from simulation.site import SimulatedMember

BOUND_S = 15.0
"""Limit for a whole Run with a hostile agent, here: the timeouts below, with what a busy machine adds."""
TIMEOUT_S = 0.6
TIMEOUTS = Timeouts(silent_s=0.6, pulse_s=0.2, apart_s=0.6, setup_s=1.0, stop_s=0.4)


def named(fault: Fault) -> str:
    return re.sub(r"\s+", " ", json.dumps(fault))[:90]


@pytest.fixture(scope="session")
def canned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a sound agent of this version answers, with a reading of a moment."""
    reading = json.loads(_engine.run("idle", json.dumps({"runtime": 0.01}), _engine.Stop()))
    reading["elapsed_s"] = 0.01
    found = {
        "greeting": {"agent": "hwdyno-engine", "protocol": PROTOCOL, "version": "0.1.0"},
        "survey": {**json.loads(_engine.survey("/", None)), "hostname": "bad"},
        "kernels": json.loads(_engine.kernels()),
        "snapshot": {"proc/loadavg": "0.1 0.2 0.3", "proc/meminfo": "MemAvailable: 100 kB\n"},
        "find": {"path": None},
        "reading": reading,
    }
    path = tmp_path_factory.mktemp("canned") / "canned.json"
    path.write_text(json.dumps(found))
    return path


def command(canned: Path, fault: Fault) -> list[str]:
    return [sys.executable, "-S", str(Path(hostile_peer.__file__)), str(canned), json.dumps(fault)]


def alive(number: str) -> list[int]:
    """The processes of a hostile agent, by a mark that each of them inherits."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and number.encode() in (entry / "environ").read_bytes():
                found += [int(entry.name)] if read_stat(int(entry.name))[:1] not in ([], ["Z"]) else []
    return found


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    text = f"hostile-{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv("HOSTILE_MARK", text)
    yield text
    until = time.monotonic() + 2
    while alive(text + "\0") and time.monotonic() < until:
        time.sleep(0.05)
    monkeypatch.delenv("HOSTILE_MARK")
    # This process has it in its environment only since it started it.
    assert not alive(text + "\0"), "no process stays"


class Wired(Speaker):
    """The controller's end of a connection to a hostile agent in a thread of this process."""

    survey_s = TIMEOUT_S
    display_name = "wired"

    def __init__(self, canned: Path, fault: Fault) -> None:
        super().__init__(TIMEOUT_S)
        self._here, there = socket.socketpair()
        self._here.settimeout(TIMEOUT_S)
        peer = hostile_peer.Peer(there.makefile("rb"), there.makefile("wb"), json.loads(canned.read_text()), fault)

        def serve() -> None:
            with contextlib.suppress(OSError, ValueError), there:
                peer.serve()

        self.thread = threading.Thread(target=serve, daemon=True)
        self.thread.start()
        self._greet()

    @property
    def descriptor(self) -> int:
        return self._here.fileno()

    def _write(self, line: bytes) -> None:
        self._here.sendall(line)

    def _lost_error(self) -> HostLostError:
        return HostLostError("its connection ended")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._here.shutdown(socket.SHUT_RDWR)
        self._here.close()

    abandon = close


def measured_with(member: Speaker, path: Path) -> tuple[Run, SeveralHosts, list[str]]:
    """A Run of a sound simulated host and one more, with every line that named a lost host."""
    reported: list[str] = []
    good = SimulatedMember("good", SimulatedMachine(seed=3, noise=0.005))
    site = SeveralHosts([good, member], TIMEOUTS, reported.append)
    chosen = [(experiments.find("storage.iodepth")[0], {"iodepth": "1,8", "size": "256M"})]
    try:
        run = runner.run(plan.build(chosen, site, path=path, seed=5), site, Memory(), "run-1", explain=explain)
    finally:
        site.close()
    return run, site, reported


def check_whole(run: Run) -> None:
    """The Run has the sound host's points, and can be kept and shown."""
    (result,) = run.experiments
    assert len(result.points) == result.planned == 2 and not run.interrupted
    assert all(point.hosts[0].operations > 0 for point in result.points)
    assert from_json(to_json(run)).id == run.id
    assert "hwdyno" in html(run)


def check_lost(member: Speaker, path: Path, why: str) -> None:
    began = time.monotonic()
    run, site, reported = measured_with(member, path)
    assert time.monotonic() - began < BOUND_S
    assert re.search(why, site.lost["bad"]), site.lost
    (line,) = reported
    assert line.startswith("bad was lost, and the others continue: ") and "\n" not in line and len(line) < 400
    check_whole(run)


def wire_fit(fault: Fault) -> bool:
    """Whether a thread can commit it: what ends, floods or fills takes a process."""
    return (
        "then" not in fault
        and "endless" not in fault
        and len(fault.get("raw", "")) * fault.get("times", 1) < 1e5
        and "fill" not in fault
    )


WIRED = [(fault, why) for fault, why in IN_RUN if wire_fit(fault)]
SPAWNED = [(fault, why) for fault, why in IN_RUN if not wire_fit(fault)]


def test_the_table_is_long_enough() -> None:
    assert len(AT_START) > 25 and len(IN_RUN) > 120 and len(SPAWNED) > 12


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("fault", "why"), AT_START[:: sample(3, 1)], ids=[named(fault) for fault, _ in AT_START[:: sample(3, 1)]]
)
def test_what_is_wrong_at_the_start_is_one_line_that_names_the_agent(
    canned: Path, mark: str, monkeypatch: pytest.MonkeyPatch, fault: Fault, why: str
) -> None:
    monkeypatch.setattr(Speaker, "survey_s", 1.0)
    began = time.monotonic()
    with pytest.raises(UserError, match=why) as raised:
        of_commands(shlex.join(command(canned, fault)))
    assert time.monotonic() - began < BOUND_S
    assert "hostile_peer.py" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("fault", "why"), WIRED[:: sample(3, 1)], ids=[named(fault) for fault, _ in WIRED[:: sample(3, 1)]]
)
@pytest.mark.sampled
def test_a_wrong_message_costs_its_host_alone(canned: Path, tmp_path: Path, fault: Fault, why: str) -> None:
    check_lost(Wired(canned, fault), tmp_path, why)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("fault", "why"), SPAWNED[:: sample(3, 1)], ids=[named(fault) for fault, _ in SPAWNED[:: sample(3, 1)]]
)
def test_an_agent_that_floods_hangs_or_ends_costs_its_host_alone(
    canned: Path, tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch, fault: Fault, why: str
) -> None:
    monkeypatch.setattr(lines, "LINE_S", 1.0)
    check_lost(Agent(command(canned, fault), TIMEOUT_S), tmp_path, why)


@pytest.mark.parametrize("fault", NO_FAULTS, ids=named)
def test_odd_contents_leave_a_whole_run(
    canned: Path, tmp_path: Path, mark: str, fault: Fault, monkeypatch: Any
) -> None:
    monkeypatch.setattr("hwdyno.measure.hosts.agent.CLOSE_S", 0.5)
    began = time.monotonic()
    run, site, _ = measured_with(Agent(command(canned, fault), TIMEOUT_S), tmp_path)
    assert time.monotonic() - began < BOUND_S and (not site.lost or "then" in fault), site.lost
    check_whole(run)


def leaves(plain: Any, at: str = "") -> Iterator[str]:
    """The dotted path of each value of a document, the inner ones too."""
    if isinstance(plain, dict | list):
        for name, inner in plain.items() if isinstance(plain, dict) else enumerate(plain[:2]):
            yield f"{at}{name}"
            yield from leaves(inner, f"{at}{name}.")


WRONG_VALUES: tuple[Any, ...] = (None, -1, HUGE, 1.5, "x", [], {}, True, [[]], {"a": "b"}, hostile_peer.NO_ANSWER)


@pytest.mark.sampled
def test_any_value_of_any_answer_ends_in_one_line_or_a_whole_run(canned: Path, tmp_path: Path) -> None:
    """Each value of a reading, of a survey's machine and of the other answers, replaced by one of each type."""
    known = json.loads(canned.read_text())
    answers = {
        "start": {"reading": known["reading"], "started_ns": 1, "ended_ns": 1},
        "survey": known["survey"],
        "claim": {"data": "", "directory": "", "size_bytes": 1, "free_bytes": 1},
        "snapshot": known["snapshot"],
    }
    cases = [(at, path, value) for at, answer in answers.items() for path in leaves(answer) for value in WRONG_VALUES]
    for at, path, value in cases[:: sample(len(cases) // 30, 7)]:
        if "parameters." in path or "unknown." in path:
            continue
        fault = {"at": at, "path": path} | ({} if value is hostile_peer.NO_ANSWER else {"value": value})
        try:
            member = Wired(canned, fault)
            run, site, reported = measured_with(member, tmp_path)
        except HostLostError as error:
            assert at == "survey" and "\n" not in str(error), fault
            continue
        assert len(reported) == len(site.lost) <= 1, fault
        check_whole(run)


def test_the_command_line_names_a_hostile_agent_and_keeps_the_others(canned: Path, tmp_path: Path, mark: str) -> None:
    bad = command(canned, {"at": "start", "path": "reading.streams.0.operations", "value": -7})
    good = command(canned, {"at": "nothing"})
    environment = {
        **os.environ,
        "HWDYNO_AGENTS": "; ".join(map(shlex.join, (good, bad))),
    }
    words = ["memory", "--operation", "read", "--threads", "1", "--working-set", "1M", "--runtime", "0.05"]
    more = ("--budget", "1s", "--json", "--no-page", "--store", str(tmp_path))
    done = warm.run([*words, *more], env=environment, cwd=tmp_path, timeout_s=60)
    assert done.returncode == 3, done.stderr
    run = json.loads(done.stdout)
    assert len(run["experiments"][0]["points"]) == 1
    (why,) = [why for why in run["degraded"] if "host" in why and "lost" in why]
    assert "bad#2" in why and "operations is -7, and must be a whole number" in why
    assert "internal error" not in done.stderr


def test_an_agent_that_reads_nothing_is_named(canned: Path, mark: str) -> None:
    agent = Agent(command(canned, {"at": "clock", "then": "deaf"}), TIMEOUT_S)
    agent.clock_ns()
    with pytest.raises(HostLostError, match=r"stuck: it has not read a request within 0\.6 s"):
        agent.prepare("idle", {"more": "x" * 300_000})
    agent.abandon()


def test_what_an_agent_has_started_is_ended_with_it(canned: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwdyno.measure.hosts.agent.CLOSE_S", 0.5)
    shell = shlex.join(command(canned, {"at": "nothing", "stays": True}))
    agent = Agent(["sh", "-c", f"{shell}; exit 0"], TIMEOUT_S)
    agent.close()


def test_a_kernel_with_endless_teams_is_ended(canned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaker, "MAX_STARTS", 20)
    member = Wired(canned, {"at": "start", "raw": '{"id": NUMBER, "ready": true}\n', "nth": 1})
    member.prepare("idle", {})
    peer_answers = hostile_peer.Peer.answer

    def always_ready(self: hostile_peer.Peer, verb: str, request: Any, right: Any) -> None:
        if verb == "start":
            peer_answers(self, "run", {"id": self.request}, {"ready": True})

    monkeypatch.setattr(hostile_peer.Peer, "answer", always_ready)
    with pytest.raises(HostLostError, match="'ready' more than 20 times in one run"):
        for _ in range(30):
            member.poll(1)
            member.start(0)
    member.close()
