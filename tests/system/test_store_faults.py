"""The store loses nothing: not when killed, not when full, not with two processes at once."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hwdyno
import made_store as made
import pytest
from hwdyno.model.words import PeerResult, Value
from hwdyno.system.store import Store, StoreError, from_json, to_json

ROOT = Path(__file__).parents[2]
KILLED = """
import os, signal, sys
from dataclasses import replace
from hwdyno.system.store import Store
import hwdyno
import made_store as made
writer = Store(sys.argv[1]).begin(replace(made.run(made.experiment(planned=9)), finished=None))
for depth in (1, 2, 4):
    writer.point("storage.iodepth", made.point(depth))
print("ready", flush=True)
{then}
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    ours = Path(hwdyno.__file__).parents[1]  # of a checkout or of an installed wheel
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ours), str(ROOT / "tests")])}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_killed_process_leaves_a_valid_partial_run(tmp_path: Path) -> None:
    with python(KILLED.format(then="os.kill(os.getpid(), signal.SIGKILL)"), tmp_path) as process:
        process.wait()
    assert process.returncode == -signal.SIGKILL
    store = Store(tmp_path)
    run = store.load("last")
    assert [point.parameters["iodepth"] for point in run.experiments[0].points] == [1, 2, 4]
    assert run.interrupted and run.finished is None
    assert run.degraded == ("the run was cut short: 3 of 9 points were measured",)
    assert from_json(to_json(run)) == run
    assert [entry.verdict for entry in store.history()] == ["partial"]


def test_a_living_process_shows_as_running(tmp_path: Path) -> None:
    with python(KILLED.format(then="sys.stdin.read()"), tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            assert [entry.verdict for entry in Store(tmp_path).history()] == ["running"]
        finally:
            process.kill()


def test_a_torn_last_line_costs_only_its_point(tmp_path: Path) -> None:
    store = Store(tmp_path)
    writer = store.begin(made.run(made.experiment()))
    writer.point("storage.iodepth", made.point(1))
    writer.point("storage.iodepth", made.point(2))
    writer.close()
    writer.path.write_bytes(writer.path.read_bytes()[:-40])
    assert len(store.load("last").experiments[0].points) == 1


def test_a_spoilt_line_costs_only_its_point(tmp_path: Path) -> None:
    store = Store(tmp_path)
    writer = store.begin(made.run(made.experiment()))
    for depth in (1, 2, 4):
        writer.point("storage.iodepth", made.point(depth))
    writer.close()
    lines = writer.path.read_bytes().split(b"\n")
    lines[2] = b"\x00" * 30
    writer.path.write_bytes(b"\n".join(lines))
    run = store.load("last")
    assert [point.parameters["iodepth"] for point in run.experiments[0].points] == [1, 4]
    assert "1 more could not be read" in run.degraded[0]


def test_journal_has_peers_and_late_experiments(tmp_path: Path) -> None:
    store = Store(tmp_path)
    peer = PeerResult("fio", "fio-3.33", 0, Value(1e8, "bytes/s"), None)
    with store.begin(made.run(made.experiment())) as writer:
        writer.experiment(made.experiment(name="storage.bs"))
        writer.point("storage.bs", made.point(1))
        writer.peer("storage.bs", peer)
        with pytest.raises(ValueError, match="not an experiment"):
            writer.point("memory.copy", made.point(1))
    result = store.load("last").experiments[1]
    assert (result.name, len(result.points), result.peers) == ("storage.bs", 1, (peer,))


def full_after(count: int, real: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    """A disk with room for this many bytes more."""
    left = [count]

    def write(descriptor: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(descriptor, data[: left[0]])
        left[0] -= written
        return written

    return write


def test_a_full_disk_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of bytes that still fit gives one line, no torn journal, no half document."""
    whole = made.run()
    document = len(to_json(whole).encode())
    for room in (0, 1, 500, document - 1):
        store = Store(tmp_path / str(room))
        writer = store.begin(made.run(made.experiment()))
        writer.point("storage.iodepth", made.point(1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full_after(room, os.write))
            with pytest.raises(StoreError, match=r"the disk is full.*the results are kept") as caught:
                writer.finish(whole)
        assert "\n" not in str(caught.value)
        assert [path.suffix for path in store.runs.iterdir()] == [".journal"]
        assert len(store.load("last").experiments[0].points) == 1


def test_a_journal_on_a_full_disk_goes_on_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    writer = store.begin(made.run(made.experiment()))
    real = os.write
    monkeypatch.setattr(writer, "_file", _Full(writer._file))
    monkeypatch.setattr(os, "write", full_after(100, real))
    with pytest.raises(StoreError, match="the disk is full"):
        writer.point("storage.iodepth", made.point(1))
    monkeypatch.setattr(os, "write", real)
    writer.point("storage.iodepth", made.point(2))
    writer.close()
    assert [point.parameters["iodepth"] for point in store.load("last").experiments[0].points] == [2]


class _Full:
    """Passes everything on to a file, in place of a real one."""

    def __init__(self, file: object) -> None:
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


SAVES = """
import sys
from hwdyno.system.store import Store
import hwdyno
import made_store as made
store = Store(sys.argv[1])
for number in range(15):
    writer = store.begin(made.run(made.experiment(), run_id=f"{sys.argv[2]}-{number:02}"))
    writer.point("storage.iodepth", made.point(1))
    writer.finish(made.run(run_id=f"{sys.argv[2]}-{number:02}"))
    assert not [entry for entry in store.history() if entry.error]
"""


def test_three_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    processes = [python(SAVES, tmp_path, name) for name in "abc"]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0, 0]
    store = Store(tmp_path)
    assert len(store.history()) == 45
    assert {path.suffix for path in store.runs.iterdir()} == {".json"}
    assert store.rebuild() == (45, True)
    with sqlite3.connect(store.index) as index:
        assert index.execute("SELECT count(*) FROM runs").fetchone() == (45,)
        assert index.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert index.execute("PRAGMA journal_mode").fetchone() == ("wal",)
