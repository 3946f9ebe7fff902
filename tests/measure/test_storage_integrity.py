"""Faults, kills and long runs end to end: an operation that fails degrades its Run, a kill leaves blocks that can be
checked and ten million
operations or a day of samples cost no more memory than a few."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import warm
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.measurement import MAX_SAMPLES, make_measurement

MIB = 1 << 20
LOCAL = Local()


def hwdyno(place: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm.run(words, cwd=place, env={**os.environ, "HWDYNO_HOME": str(place / "home"), **environment})


@pytest.mark.parametrize(("engine", "depth"), [("io_uring", 4), ("libaio", 4), ("psync", 1), ("mmap", 1)])
def test_an_operation_that_fails_degrades_the_run_and_is_named(engine: str, depth: int, tmp_path: Path) -> None:
    text = f"[j]\nrw=randwrite\nsize=64k\nioengine={engine}\niodepth={depth}\n"
    (tmp_path / "x.fio").write_text(text)
    done = hwdyno(tmp_path, "storage", "job", "x.fio", "--json", "--quiet", "--no-page", HWDYNO_FAIL="5:28")
    assert done.returncode == 3, done.stderr
    (point,) = json.loads(done.stdout)["experiments"][0]["points"]
    assert point["validity"] != "valid" and "faults" in point["why"] and point["operations"] == 15
    (fault,) = point["faults"]
    assert (fault["operation"], fault["errno"], fault["count"]) == ("write", 28, 1)
    assert "No space left" in fault["says"]
    assert not list(tmp_path.glob("hwdyno-scratch-*"))


def blocks(path: Path, **more: Any) -> dict[str, Any]:
    parameters = {"path": str(path), "ioengine": "psync", "time_based": False, "runtime": 0.0, "verify": "crc32c"}
    return dict(LOCAL.run("storage_blocks", parameters | more))


def stale_blocks(path: Path) -> int:
    return int(blocks(path, rw="read", generation=2)["details"]["verify_stale_blocks"])


KILLED = """
import sys
from hwdyno.measure.hosts.local import Local
print("begins", flush=True)
Local().run("storage_blocks", {"path": sys.argv[1], "rw": "randwrite", "ioengine": "io_uring", "iodepth": 8,
    "time_based": False, "runtime": 0.0, "verify": "crc32c", "generation": 2, "rate": 20000.0, "direct": True})
"""


def test_after_a_kill_every_block_is_of_one_write_or_the_other_and_the_rest_is_written(tmp_path: Path) -> None:
    path = tmp_path / "data"
    LOCAL.run("storage_layout", {"path": str(path), "size": 16 * MIB})
    assert not blocks(path, rw="write", generation=1)["faults"]
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begins\n"
    deadline = time.monotonic() + 60
    # Somewhere in the middle: some blocks are of the second write, and not yet all.
    while time.monotonic() < deadline and stale_blocks(path) == 4096:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    # No block is torn, misplaced, flipped or lost by any cut; old ones are whole, and of the first write.
    either = blocks(path, rw="read", generation=1)
    assert either["details"]["verify_checked_blocks"] == 4096 and not either["faults"], either["faults"]
    resumed = blocks(path, rw="read", generation=2)
    stale = resumed["details"]["verify_stale_blocks"]
    assert stale < 4096 and all(fault["says"].startswith("stale") for fault in resumed["faults"])
    assert not blocks(path, rw="randwrite", generation=3)["faults"]
    assert not blocks(path, rw="read", generation=3)["faults"]


def test_a_killed_run_is_checked_by_the_journal_that_it_leaves(tmp_path: Path) -> None:
    """The whole way of someone who tests a drive: write with a journal, kill, check, and check a faulty drive."""
    journal, data = tmp_path / "journal", tmp_path / "data"
    data.mkdir()
    # Bursts of 300 writes, a second apart: the warm-up of 0.3 s has one of them, and only the reading has more.
    typed = (
        f"--rw randwrite --verify crc32c --journal {journal} --fsync 64 --ioengine psync --direct 0 --size 16M "
        "--runtime 300s --ramp-time 0 --thinktime 1s --thinktime-blocks 300 --no-page --quiet"
    )
    writer = subprocess.Popen(
        [sys.executable, "-m", "hwdyno", "storage", "--path", str(data), *typed.split()],
        env={**os.environ, "HWDYNO_HOME": str(tmp_path / "home")},
    )
    deadline = time.monotonic() + 100
    acknowledged = 0
    while acknowledged <= 300:
        assert writer.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
        done = hwdyno(tmp_path, "storage", "check", str(journal), "--json") if journal.exists() else None
        if done is not None and done.returncode == 0:
            acknowledged = json.loads(done.stdout)["details"]["journal_acknowledged_blocks"]
    writer.kill()
    writer.wait()
    done = hwdyno(tmp_path, "storage", "check", str(journal))
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "that was cut short" in done.stdout and done.stdout.endswith("no acknowledged write is lost\n")
    (file,) = data.glob("hwdyno-scratch-*/data")
    with file.open("r+b") as opened:  # A drive that gives everything up.
        opened.write(bytes(16 * MIB))
    done = hwdyno(tmp_path, "storage", "check", str(journal))
    assert done.returncode == 3 and "LOST: " in done.stdout and "lost block whose write was acknowledged" in done.stdout
    assert "although a sync had covered them" in done.stdout
    moved = tmp_path / "moved"
    file.rename(moved)
    done = hwdyno(tmp_path, "storage", "check", str(journal))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No such file" in done.stderr
    assert hwdyno(tmp_path, "storage", "check", str(journal), str(moved), "--after-power-cut").returncode == 3
    assert hwdyno(tmp_path, "storage", "check").returncode == 2


def grown_mib(work: str) -> float:
    """Growth of the resident memory of a fresh process between the first run of ``work`` and the last."""
    script = f"""
import resource
from hwdyno.measure.hosts.local import Local
host = Local()
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
{work}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=True)
    return float(done.stdout)


def test_ten_million_operations_hold_memory_flat() -> None:
    """The loop alone, at its full speed: what it keeps of ten million operations is what it keeps of a thousand."""
    assert (
        grown_mib(
            """
told = {"rw": "randrw", "bs": 4096, "iodepth": 32, "size": 1 << 30}
host.run("idle", told | {"runtime": 0.05})
before, done = peak(), 0
while done < 10_000_000:
    done += sum(stream["operations"] for stream in host.run("idle", told | {"runtime": 0.4})["streams"])
print(peak() - before)
"""
        )
        < 32
    )


def test_a_day_of_samples_is_folded_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "data"
    LOCAL.run("storage_layout", {"path": str(path), "size": MIB})
    parameters = {
        "path": str(path),
        "ioengine": "psync",
        "runtime": 6.0,
        "interval_s": 0.001,
        "rate": 5000.0,
        "log": True,
    }
    reading = LOCAL.run("storage_blocks", parameters)
    # 6000 intervals of 1 ms represent a day of 14.4 s: rows are added up in twos, and never more than 4096.
    rows = reading["samples"]["operations"][0]
    assert len(rows) <= 4096 and reading["samples"]["interval_s"] == pytest.approx(0.002)
    assert len(reading["details"]["logs"][0]["read"]["total_ns"]) == len(rows)
    point = make_measurement({}, [reading] * 8)
    assert point.samples is not None and len(point.samples.values) <= MAX_SAMPLES


WITH_LITTLE_MEMORY = """
import json, resource, sys
from hwdyno.measure import engine
bytes_now = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (bytes_now + (512 << 20), resource.RLIM_INFINITY))
reading = engine.run("storage_check", {"journal": sys.argv[1], "path": sys.argv[2]})
print(json.dumps([reading["details"]["verify_checked_blocks"], reading["faults"]]))
"""


def test_huge_journal_blocks_take_no_memory(tmp_path: Path) -> None:
    """Its words are in crates/engine/src/storage/integrity/journal.rs: one block of 1 GiB, begun and acknowledged."""
    header = [int.from_bytes(b"hwdynoJ1", sys.byteorder), 1024 + 8 + 2, 1 << 30, 1, 77, 1]
    part, entry = [0, 1, 0, 0, 0, 0, 0, 0], [1 << 32 | 1, 0]
    words = header + [0] * (1024 - len(header)) + part + entry
    journal, data = tmp_path / "journal", tmp_path / "data"
    journal.write_bytes(b"".join(word.to_bytes(8, sys.byteorder) for word in words))
    data.write_bytes(bytes(4096))
    command = [sys.executable, "-c", WITH_LITTLE_MEMORY, str(journal), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    checked, (fault,) = json.loads(done.stdout)
    assert checked == 0 and (fault["operation"], fault["count"]) == ("verify", 1)
