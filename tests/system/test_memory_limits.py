"""Little memory: one line that says so, with the limit, and nothing left behind."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from here import shortly
from hwdyno.system import memory_limits
from hwdyno.system.memory_limits import MIB, MemoryLimit, explain_refusal
from signals.commands import ROOT

LIMIT = MemoryLimit("-v", 300 * MIB, 290 * MIB)


def limited(mib: int, *words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """A program whose address space is limited."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        preexec_fn=limit,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), f"out of memory: an allocation was refused; {LIMIT}"),
        (
            MemoryError("numpy needs 9 MiB; `ulimit -v` allows 5"),
            "out of memory: numpy needs 9 MiB; `ulimit -v` allows 5",
        ),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), f"out of memory: Cannot allocate memory; {LIMIT}"),
        (ImportError("x.so: failed to map segment from shared object"), None),
        (
            RuntimeError("can't start new thread"),
            f"no thread can be started: {LIMIT}, or allow more threads (`ulimit -u`, pids.max of the control group)",
        ),
        (OSError(errno.EIO, "Input/output error"), ""),
        (ImportError("no module named x"), ""),
    ],
    ids=repr,
)
def test_refusal_of_memory_is_named_with_the_limit(
    error: Exception, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limits, "find_limit", lambda: LIMIT)
    if says is None:
        says = f"out of memory: {error}; {LIMIT}"
    assert (explain_refusal(error) or "") == says


def test_limit_that_leaves_the_least_is_found() -> None:
    code = "from hwdyno.system.memory_limits import find_limit; print(find_limit())"
    done = limited(300, "-c", code)
    assert done.stdout.startswith("`ulimit -v` allows this process 300 MiB of memory, of which "), done


def test_large_library_is_not_imported_without_room() -> None:
    code = "from hwdyno.system import memory_limits as m; m.refuse_large_libraries(); import numpy"
    done = limited(100, "-c", code)
    assert done.returncode == 1 and "MemoryError: numpy needs " in done.stderr
    assert limited(3000, "-c", code).returncode == 0


@pytest.mark.parametrize("mib", [150, 300, 500])
def test_command_without_room_is_one_line_with_its_status(tmp_path: Path, mib: int) -> None:
    run = str(ROOT / "tests" / "data" / "run-1.json")
    done = limited(mib, "-m", "hwdyno", "compare", run, run)
    if done.returncode == 0:  # There was room enough.
        return
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("hwdyno: out of memory: ") and f"allows this process {mib} MiB of memory" in line


def test_control_groups_limit_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "/proc/self/cgroup": "4:memory:/a/b\n0::/a\n",
        "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": str(300 * MIB),
        "/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": str(280 * MIB),
        "/sys/fs/cgroup/memory/a/b/memory.stat": f"inactive_file 9\ntotal_inactive_file {90 * MIB}\n",
        "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": str((1 << 63) - 4096),
        "/sys/fs/cgroup/memory/a/memory.usage_in_bytes": "5",
        "/sys/fs/cgroup/a/memory.max": "max\n",
        "/sys/fs/cgroup/a/memory.current": "5\n",
    }
    monkeypatch.setattr(memory_limits, "_read_text", lambda path: texts.get(str(path), ""))
    assert memory_limits.control_group_left() == 110 * MIB
    texts["/sys/fs/cgroup/a/memory.max"] = str(40 * MIB)
    assert memory_limits.control_group_left() == 40 * MIB - 5


ABORTS = """
import ctypes, sys, threading, time
from pathlib import Path
from hwdyno.system import signals
from hwdyno._engine import Guard
signals.take_over("aborts", Guard)
signals.register(signals.Stage.KEEP, lambda: Path(sys.argv[1]).write_text("kept"))
threading.Thread(target=ctypes.CDLL(None).abort, daemon=True).start()  # as a driver's thread where memory ends
time.sleep(60)
"""


def test_librarys_abort_keeps_what_was_measured_and_is_one_line(tmp_path: Path) -> None:
    done = limited(4000, "-c", ABORTS, str(tmp_path / "file"))
    assert done.returncode == 2 and (tmp_path / "file").read_text() == "kept"
    (line,) = done.stderr.splitlines()
    assert line.startswith("hwdyno: a library aborted this process; memory may have ended: `ulimit -v` allows ")


def test_small_file_is_audited_where_the_largest_would_not_fit() -> None:
    fio = sorted((ROOT / "tests" / "data" / "fio").glob("*.json"))[0]
    assert limited(700, "-m", "hwdyno", "audit", str(fio)).returncode == 0


READS = ("storage", "--rw", "randread", "--size", "8M", "--runtime", "100ms", "--ramp-time", "0")
CREATES = ("storage", "--operation", "create", "--nrfiles", "200", "--runtime", "100ms")
SOLVES = ("compute", "--operation", "lu", "--n", "1500", "--runtime", "100ms")
MOVES = ("memory", "--budget", "1s")
STARTS = ("inference", "--model", "tiny", "--cold", "raw", "--budget", "1s")
# The last three end where another does: numpy or scipy is refused its room.
LIMITED = [
    *((READS, 100), (READS, 400), (CREATES, 400), (SOLVES, 400), (MOVES, 100), (MOVES, 400), (STARTS, 400)),
    *((CREATES, 100), (SOLVES, 100), (STARTS, 100)),
]


@pytest.mark.slow  # measures
@pytest.mark.machine
@pytest.mark.parametrize("case", shortly(7, *LIMITED), ids=[f"{'-'.join(words[:3])}-{mib}" for words, mib in LIMITED])
def test_measuring_with_little_memory_ends_in_one_line_and_leaves_nothing(
    case: tuple[tuple[str, ...], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, mib = case
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    done = limited(mib, "-m", "hwdyno", *words, "--path", str(data), "--no-page")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode in {0, 2, 3} and "Traceback" not in done.stderr, done
    assert done.returncode != 2 or (last.startswith("hwdyno: ") and f"allows this process {mib} MiB" in last), done
    assert "internal error" not in done.stderr and not list(data.iterdir()), done
