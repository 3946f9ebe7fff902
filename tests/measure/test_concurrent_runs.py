"""Two Runs at once on one machine notice each other; a Run alone says nothing, and a killed one leaves no trace."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from here import needs
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.measure import concurrent_runs
from hwdyno.measure.concurrent_runs import announce_run, name_runs, other_runs
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.measurement import summarize_conditions
from hwdyno.measure.runner.observers import Silent
from hwdyno.measure.runner.watch import Watch
from hwdyno.model.words import Run
from hwdyno.system.processes import pid_namespace
from hwdyno.system.store import from_json
from simulated_runs import at, experiment, list_rules, make_run, the
from simulation.host import SimulatedHost, SimulatedMachine

pytestmark = needs(sys.platform == "linux", "abstract names and /proc are Linux's")

_PRELUDE = """import os, signal, sys
from hwdyno.measure import concurrent_runs
concurrent_runs.NAME = sys.argv[1]
"""
MEASURES = f"""{_PRELUDE}
with concurrent_runs.announce_run():
    print("measuring", flush=True)
    signal.pause()
"""
COMMAND = f"""{_PRELUDE}
from hwdyno.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@contextlib.contextmanager
def neighbour() -> Iterator[subprocess.Popen[str]]:
    """A process that says that it measures."""
    with subprocess.Popen(
        [sys.executable, "-c", MEASURES, concurrent_runs.NAME], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "measuring\n"
            yield process
        finally:
            process.kill()


class Listener(Silent):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def says(self, text: str) -> None:
        """Keep it."""
        self.texts.append(text)


# --- names


def test_a_process_that_measures_is_seen_until_it_is_killed() -> None:
    assert other_runs() == frozenset()
    with neighbour() as process:
        assert other_runs() == {(pid_namespace(), process.pid)}
        assert name_runs(frozenset({(pid_namespace(), process.pid)})) == f"pid {process.pid}"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert other_runs() == frozenset()


def test_a_process_is_no_other_run_to_itself_and_may_announce_itself_twice() -> None:
    def names() -> int:
        return Path("/proc/net/unix").read_bytes().count(f"@{concurrent_runs.NAME}.".encode())

    with announce_run():
        with announce_run():
            assert names() == 1 and other_runs() == frozenset()
        assert names() == 1
    assert names() == 0


def test_names_that_are_not_ours_are_no_runs(tmp_path: Path) -> None:
    name, space = concurrent_runs.NAME, pid_namespace()
    listed = tmp_path / "proc/net/unix"
    listed.parent.mkdir(parents=True)
    row = "00000000a0f7d258: 00000002 00000000 00000000 0001 01 1896000"
    lines = [
        "Num       RefCount Protocol Flags    Type St Inode Path",
        row,
        f"{row} /tmp/@{name}.1.2",
        f"{row} @{name}.1.2.3",
        f"{row} @{name}.1.x",
        f"{row} @{name}.1.{'9' * 40}",
        f"{row} @{name}.{space}.{os.getpid()}",
        f"{row} @{name}.{space}.8",
        f"{row} @{name}.{space}.7",
        f"{row} @{name}.1.7",
    ]
    listed.write_bytes("\n".join(lines).encode() + b"\n" + row.encode() + b" @\xff\x1b[2J\n")
    assert other_runs(tmp_path) == {(space, 7), (space, 8), ("1", 7)}
    assert name_runs(frozenset({(space, 7), (space, 8), ("1", 7)})) == "pids 7, 8 and 1 in another container"
    assert other_runs(tmp_path / "absent") is None


def test_nothing_can_connect_to_the_name() -> None:
    with announce_run(), socket.socket(socket.AF_UNIX) as other, pytest.raises(ConnectionRefusedError):
        other.connect(f"\0{concurrent_runs.NAME}.{pid_namespace()}.{os.getpid()}")


def test_system_without_names_measures_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    with announce_run():
        assert other_runs() == frozenset()


def test_pid_is_named_once() -> None:
    listener = Listener()
    watch = Watch(Local(), listener)
    assert watch.snapshot()["other_runs"] == 0 and not listener.texts
    with neighbour() as process:
        assert watch.snapshot()["other_runs"] == watch.snapshot()["other_runs"] == 1
        says = f"Another hwdyno run measures on this machine (pid {process.pid}); the results will disturb each other"
        assert listener.texts == [says]


# --- the points and the finding


def test_the_points_that_overlapped_have_a_note_and_one_finding_counts_them() -> None:
    both = SimulatedMachine(other_runs=1.0)
    touched = experiment(both, "iodepth", [at(iodepth=4), at(iodepth=8)], repeats=2)
    clean = experiment(SimulatedMachine(), "iodepth", [at(iodepth=4)], name="storage.alone", repeats=2)
    run = explain(make_run(both, touched, clean))
    finding = the(run, "another_run")
    assert finding.severity == "warning" and "during 2 storage points" in finding.says
    assert list_rules(run.findings, "warning", "invalid") == {"another_run"}
    for point in run.experiments[0].points:
        assert point.validity == "degraded" and point.conditions["other_runs"] == 1
        (note,) = [note for note in point.notes if note.code == "another_run"]
        assert note.says == "another hwdyno run measured on this machine during 2 of 2 repeats"
    (alone,) = run.experiments[1].points
    assert alone.validity == "valid" and not [note for note in alone.notes if note.code == "another_run"]


def test_a_run_that_ended_in_between_touches_only_its_repeats() -> None:
    before, after = ({"other_runs": 0.0}, {"other_runs": 1.0})
    assert summarize_conditions([(before, before), (before, after)])["other_runs"] == 1
    assert SimulatedHost(SimulatedMachine()).snapshot()["other_runs"] == 0


# --- whole commands


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="hwdyno-test-", dir="/var/tmp"))
    yield made
    shutil.rmtree(made)


def begun(folder: Path, name: str, runtime: str, *words: str) -> subprocess.Popen[str]:
    """A command that measures a folder and keeps its Run in a store named after it."""
    data = folder / f"data-{name}"
    data.mkdir()
    options = ["--rw", "randread", "--ioengine", "psync", "--size", "8M", "--ramp-time", "0s", "--runtime", runtime]
    arguments = ["storage", "--path", str(data), *options, "--profile", "quick", "--no-page", "--json", *words]
    environment = {**os.environ, "HWDYNO_HOME": str(folder / f"home-{name}")}
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, concurrent_runs.NAME, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def ended(process: subprocess.Popen[str]) -> tuple[Run, str]:
    printed, errors = process.communicate(timeout=120)
    assert process.returncode in {0, 3}, errors  # Degraded, where the machine has other load.
    return from_json(printed), errors


def until_measuring(process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while (pid_namespace(), process.pid) not in (other_runs() or ()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.machine
def test_two_commands_at_once_both_notice_and_one_alone_does_not(folder: Path) -> None:
    first = begun(folder, "first", "1s")
    until_measuring(first)
    second = begun(folder, "second", "300ms", "--budget", "1s")
    for process, other in ((second, first), (first, second)):
        run, errors = ended(process)
        assert errors.count("Another hwdyno run measures on this machine") == 1
        assert f"(pid {other.pid})" in errors
        assert "another_run" in list_rules(run.findings)
        assert any("another_run" in point.why for result in run.experiments for point in result.points)
    run, errors = ended(begun(folder, "alone", "100ms", "--budget", "1s"))
    assert "Another hwdyno run" not in errors and "another_run" not in list_rules(run.findings)


@pytest.mark.machine
def test_a_killed_command_leaves_no_trace_that_another_would_see(folder: Path) -> None:
    killed = begun(folder, "killed", "30s")
    until_measuring(killed)
    killed.kill()
    killed.communicate()
    assert other_runs() == frozenset()
    _, errors = ended(begun(folder, "next", "100ms"))
    assert "Another hwdyno run" not in errors


JOB = "[one]\nrw=randread\nbs=4k\nsize=4m\nioengine=psync\ntime_based\nruntime=200ms\n"
QUIETLY = ["--no-page", "--store", "home"]


@pytest.mark.machine
@pytest.mark.parametrize(
    "words",
    [
        ["storage", "job", "x.fio"],
        ["storage", "snia", "latency", "--path", ".", "--size", "4M", "--budget", "4s"],
        ["study", "sata-ssd-queue", "--path", ".", "--budget", "4s"],
        ["memory", "latency", "--budget", "1s"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_each_kind_of_run_announces_itself_and_notices(
    words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / "x.fio").write_text(JOB)
    announcements = []
    took = Local.snapshot

    def snapshot(local: Local) -> dict[str, float]:
        announcements.append(
            f"@{concurrent_runs.NAME}.{pid_namespace()}.{os.getpid()}\n" in Path("/proc/net/unix").read_text()
        )
        return took(local)

    monkeypatch.setattr(Local, "snapshot", snapshot)
    with neighbour():
        assert main([*words, *QUIETLY]) in {0, 3}
    assert announcements and all(announcements)
    assert capsys.readouterr().err.count("Another hwdyno run measures") == 1
    (kept,) = (folder / "home").glob("runs/**/*.json")
    run = from_json(kept.read_text())
    points = [point for result in run.experiments for point in result.points]
    assert points and all("another_run" in {note.code for note in point.notes} for point in points)
    assert "another_run" in list_rules(run.findings)
