"""Each way in which storage benchmarks are fooled, brought about for real, and the finding that names it.

``docs/never-fooled.md`` lists them; what it says of a test here is checked at the end.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from devices import MIB, command, loop, loops, mounted
from groups import group
from here import missing, once
from hwdyno.cli.main import main
from hwdyno.explain.findings import all_rules, explain
from hwdyno.measure import engine
from hwdyno.measure.hosts.local import Local
from hwdyno.model.words import Finding, Run
from hwdyno.system.store import from_json

pytestmark = pytest.mark.machine

SHORT = ["--runtime", "80ms", "--ramp-time", "0s", "--size", "16M", "--quiet", "--no-page", "--json"]
PSYNC = ["--ioengine", "psync", "--direct", "1"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data() -> Iterator[Path]:
    """A directory on a disk as a rule, so that direct I/O is possible."""
    directory = Path(command("mktemp", "--directory", "/var/tmp/hwdyno-test-XXXXXXXX"))
    yield directory
    shutil.rmtree(directory)


def found(run: Run, rule: str) -> Finding:
    names = [finding.rule for finding in run.findings]
    assert rule in names, f"{rule} was not found, only {names}"
    return next(finding for finding in run.findings if finding.rule == rule)


def measured(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> Run:
    capsys.readouterr()
    assert main(once("storage", "--path", str(path), *SHORT, *words)) in {0, 3}
    return from_json(capsys.readouterr().out)


def in_peace(run: Run) -> Run:
    """The Run of one experiment, judged as if no other process had taken processor time from it."""
    (result,) = run.experiments
    quiet = tuple(
        replace(
            point,
            elapsed_s=point.elapsed_s - point.counters["run_delay_s"],
            conditions={**point.conditions, "cpu_busy": 0.0, "steal": 0.0},
        )
        for point in result.points
    )
    return explain(replace(run, experiments=(replace(result, points=quiet),)))


def of_job(capsys: pytest.CaptureFixture[str], directory: Path, *lines: str) -> Run:
    """A job on a file that is there already, which is only read."""
    job = directory / "job.fio"
    job.write_text("\n".join(["[j]", "time_based=1", "runtime=200ms", "ioengine=psync", "direct=1", *lines]))
    capsys.readouterr()
    words = ["--path", str(directory), "--quiet", "--no-page", "--json"]
    assert main(["storage", "job", str(job), *words]) in {0, 3}
    return from_json(capsys.readouterr().out)


# --- caches, and data that is none


def test_the_page_cache_answers(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = measured(capsys, data, "--rw", "randread", "--direct", "0", "--ioengine", "psync")
    assert "came from the page cache" in found(run, "page_cache").says


@loops
def test_a_filesystem_in_memory_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mounted("tmpfs", tmp_path / "memory", "-t", "tmpfs", "-o", "size=64m") as memory:
        run = measured(capsys, memory, "--rw", "randread", *PSYNC)
    assert "is in memory" in found(run, "direct_refused").says
    assert run.experiments[0].points[0].validity != "valid"


@pytest.mark.parametrize("kind", ["sparse", "preallocated"])
def test_blocks_that_were_never_written(data: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (data / "file").open("wb") as file:
        if kind == "sparse":
            file.truncate(16 * MIB)
        else:
            os.posix_fallocate(file.fileno(), 0, 16 * MIB)
    run = of_job(capsys, data, "rw=randread", "filename=file", "size=16m")
    finding = found(run, "unwritten_file")
    assert finding.severity == "invalid"
    assert ("holes" if kind == "sparse" else "preallocated") in finding.says
    assert run.experiments[0].points[0].validity == "invalid"


@loops
def test_data_that_its_filesystem_compresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not shutil.which("mkfs.btrfs") or "btrfs" not in Path("/proc/filesystems").read_text():
        missing("no btrfs here; the rule itself is tested on a made Run")
    with loop(tmp_path / "disk", 160 * MIB) as device:
        command("mkfs.btrfs", "-q", device)
        with mounted(device, tmp_path / "compressed", "-o", "compress-force=zstd") as where:
            (where / "file").write_bytes(b"the same words again and again. " * (MIB // 2))
            os.sync()
            run = of_job(capsys, where, "rw=randread", "filename=file", "size=16m")
            result = measured(capsys, where, "--rw", "randread", *PSYNC, "--budget", "1s")
    finding = found(run, "compressed_file")
    assert finding.severity == "invalid" and finding.evidence["share"] > 0.9
    # What hwdyno lays out does not compress, so that nothing of it is found there.
    assert "compressed_file" not in {run_finding.rule for run_finding in result.findings}


def test_filling_buffers_is_no_part_of_a_write(data: Path) -> None:
    engine.run("storage_layout", {"path": str(data / "file"), "size": 256 * MIB})
    parameters = {"path": str(data / "file"), "rw": "write", "bs": 16 * MIB, "ioengine": "psync", "direct": True}

    def cpu_s(**more: str) -> float:
        reading = engine.run("storage_blocks", {**parameters, "time_based": False, **more})
        assert reading["details"]["fill_s"] > 0
        return float(reading["cpu"]["user_s"] + reading["cpu"]["system_s"])

    # Blocks that are verified are made for each write, inside the region. Other processes change no CPU time.
    assert cpu_s() < 0.5 * cpu_s(verify="crc32c")


def test_the_tools_own_cpu_is_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    run = measured(capsys, Path("/dev/shm"), "--rw", "randread", "--direct", "0", "--ioengine", "psync")
    finding = found(in_peace(run), "client_bound")
    assert "the measuring threads used" in finding.says and finding.evidence["cpu_share"] > 0.9
    # A thread that sleeps on a device is not the limit, however long it waits for a processor.
    (point,) = run.experiments[0].points
    asleep = replace(point, elapsed_s=2 * point.elapsed_s)
    run = in_peace(replace(run, experiments=(replace(run.experiments[0], points=(asleep,)),)))
    assert "client_bound" not in {finding.rule for finding in run.findings}


# --- a depth that is none


def test_a_depth_on_a_synchronous_engine_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([*PSYNC, "--iodepth", "32"], ["--ioengine", "mmap", "--direct", "0", "--iodepth", "32"]):
        assert main(["storage", "--path", str(data), *SHORT, *words]) == 2
        assert "use --numjobs 32" in capsys.readouterr().err


def test_buffered_libaio_is_synchronous(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rw", "randread", "--direct", "0", "--ioengine", "libaio", "--iodepth", "32"]
    assert "buffered libaio is synchronous" in found(measured(capsys, data, *words), "synchronous_engine").says


# --- time


def test_a_rate_that_is_not_reached_counts_the_wait(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed = measured(capsys, data, "--rw", "randread", "--iodepth", "4").experiments[0].points[0]
    assert closed.latency_ns is not None
    # No storage is so fast: a multiple of what the first run reached is in reach where that one was slowed down.
    run = measured(capsys, data, "--rw", "randread", "--rate", "5000000", "--iodepth", "4")
    finding = found(run, "rate_not_reached")
    point = run.experiments[0].points[0]
    assert point.latency_ns is not None and point.rate is not None
    assert finding.evidence["share"] < 0.98
    # From the intended start: the mean is a good part of the runtime, and no device's.
    assert point.latency_ns.mean > 3 * closed.latency_ns.mean


def test_too_few_operations_are_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = measured(capsys, data, "--rw", "read", "--bs", "4M", "--time-based", "0", *PSYNC)
    assert "Too few operations" in found(run, "too_short").says


def test_a_region_that_fits_into_any_cache_is_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = measured(capsys, data, "--rw", "read", "--bs", "256k", "--size", "1M", "--iodepth", "8", "--direct", "1")
    if any(note.code == "direct_refused" for note in run.experiments[0].points[0].notes):
        missing("no direct I/O in /var/tmp")
    assert "times over the same 1 MiB" in found(run, "small_region").says


def test_jobs_that_read_the_same_blocks_are_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = measured(capsys, data, "--rw", "randread", "--numjobs", "2", "--share", "whole", *PSYNC)
    assert "blocks that another job visited too" in found(run, "shared_blocks").says
    apart = measured(capsys, data, "--rw", "randread", "--numjobs", "2", *PSYNC)
    assert "shared_blocks" not in {finding.rule for finding in apart.findings}


def test_a_random_order_takes_no_memory_by_the_block(data: Path) -> None:
    """2^28 blocks would be a map of 32 MiB; a permutation takes none."""
    parameters = {"path": str(data / "file"), "rw": "randread", "ioengine": "psync", "runtime": 0.05, "size": 1 << 40}
    with (data / "file").open("wb") as file:
        file.truncate(1 << 40)

    def resident() -> int:
        return int(re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[0]) << 10

    engine.run("storage_blocks", {**parameters, "size": MIB})
    Path("/proc/self/clear_refs").write_text("5")  # The peak counts from here on.
    before = resident()
    engine.run("storage_blocks", parameters)
    assert resident() - before < 8 * MIB


# --- the machine around it


def _spins(until: float) -> None:
    while time.monotonic() < until:
        pass


def test_others_at_work_are_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    until = time.monotonic() + 30
    fork = multiprocessing.get_context("fork")
    hogs = [fork.Process(target=_spins, args=(until,)) for _ in range(os.cpu_count() or 1)]
    for hog in hogs:
        hog.start()
    try:
        run = measured(capsys, data, "--rw", "randread", *PSYNC, "--runtime", "250ms")
    finally:
        for hog in hogs:
            hog.kill()
            hog.join()
    assert "Other processes kept" in found(run, "others_at_work").says


@contextlib.contextmanager
def readings_in(made: Path, *limits: str, after_s: float = 0.2, first: int = 0) -> Iterator[None]:
    """Readings are taken in that control group; with two limits the second one comes a while after each begins.

    If ``first`` is given, that number of readings has the first limit, and all after them the second.
    """
    real_run, real_snapshot = Local.run, Local.snapshot
    taken: list[str] = []
    file = next((made / name for name in ("io.max", "blkio.throttle.read_iops_device") if (made / name).exists()), None)

    def joins() -> None:
        (made / "cgroup.procs").write_text(str(os.getpid()))

    def runs(self: Local, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        joins()
        if file is None or not limits or kernel != "storage_blocks":
            return real_run(self, kernel, parameters)
        if first:
            taken.append(kernel)
            file.write_text(limits[len(taken) > first])
            return real_run(self, kernel, parameters)
        file.write_text(limits[0])
        time.sleep(0.2)  # The limit works in slices, and the last one has to run out.
        timer = threading.Timer(after_s, file.write_text, [limits[1]])
        timer.start()
        try:
            return real_run(self, kernel, parameters)
        finally:
            timer.join()

    def snaps(self: Local) -> dict[str, float]:
        joins()
        return real_snapshot(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Local, "run", runs)
        patch.setattr(Local, "snapshot", snaps)
        try:
            yield
        finally:
            (made.parent / "cgroup.procs").write_text(str(os.getpid()))


@contextlib.contextmanager
def limited(tmp_path: Path, *rates: int) -> Iterator[tuple[Path, Path, list[str]]]:
    """A filesystem on a loop device, a control group, and what limits reads there to these operations/s."""
    with loop(tmp_path / "disk", 96 * MIB) as device:
        command("mkfs.ext4", "-q", device)
        number = f"{os.major(device.stat().st_rdev)}:{os.minor(device.stat().st_rdev)}"
        files = {"io.max": f"{number} riops={rates[0]}", "blkio.throttle.read_iops_device": f"{number} {rates[0]}"}
        with mounted(device, tmp_path / "slow") as where, group("io", files) as made:
            word = "riops=" if (made / "io.max").exists() else ""
            yield where, made, [f"{number} {word}{operations}" for operations in rates]


def inside(made: Path, path: Path, *words: str) -> Run:
    """A Run measured by a separate process that lives in that control group."""
    command = " ".join([sys.executable, "-m", "hwdyno", "storage", "--path", str(path), *once(*words)])
    script = f"echo $$ > {made}/cgroup.procs && exec {command}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode in {0, 3}, done.stderr
    return from_json(done.stdout)


@loops
def test_a_quota_of_processor_time_is_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = {"cpu.max": "5000 100000", "cpu.cfs_quota_us": "5000"}
    with group("cpu", limits) as made, readings_in(made):
        run = measured(capsys, data, "--rw", "randread", "--direct", "0", "--ioengine", "psync", "--budget", "500ms")
    assert re.search(r"CPU quota( of [\d.]+ processors?)? was exhausted", found(run, "cpu_limited").says)


@loops
def test_a_limit_on_the_device_is_named(tmp_path: Path) -> None:
    with loop(tmp_path / "disk", 96 * MIB) as device:
        command("mkfs.ext4", "-q", device)
        number = f"{os.major(device.stat().st_rdev)}:{os.minor(device.stat().st_rdev)}"
        limits = {"io.max": f"{number} riops=200", "blkio.throttle.read_iops_device": f"{number} 200"}
        with mounted(device, tmp_path / "slow") as where, group("io", limits) as made:
            run = inside(made, where, *SHORT, "--rw", "randread", *PSYNC, "--runtime", "500ms", "--budget", "2s")
    finding = found(run, "io_limit")
    assert "200 IOPS of reads" in finding.says and device.name in finding.says


# On a machine that is busy beyond measure the limit comes late.
@pytest.mark.timing
@loops
def test_storage_that_slows_down_in_mid_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A spent burst budget or a full write cache; here a limit that falls after a third of each repeat."""
    with limited(tmp_path, 1000, 100) as (where, made, limits):
        # A sample holds a whole slice of the limit, or it would look like hiccups.
        course = ["--runtime", "2s", "--interval-s", "200ms", "--budget", "4s"]
        with readings_in(made, *limits, after_s=0.8):
            run = measured(capsys, where, "--rw", "randread", *PSYNC, *course)
    # Other running processes would explain it, too.
    run = in_peace(run)
    assert "throttled" in run.experiments[0].points[0].why
    assert found(run, "throttled").severity == "warning"


# The kernel takes a limit into effect when it has the time: of other tests' load the change can drown in stalls.
@pytest.mark.timing
@loops
def test_storage_that_slows_down_for_good_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A drive whose write cache is full: here half of the operations are left from the eighth reading on."""
    with limited(tmp_path, 2000, 1000) as (where, made, limits), readings_in(made, *limits, first=7):
        points = ["--rw", "randread", "--ioengine", "psync", "--numjobs", "1,2,3,4", "--size", "16M"]
        run = measured(capsys, where, *points, "--runtime", "0.3s", "--budget", "6s")
    # Other load would explain it.
    finding = found(in_peace(run), "device_changed")
    assert finding.severity == "warning" and finding.evidence["ratio"] == pytest.approx(0.5, abs=0.1)


@loops
def test_a_small_filesystem_that_is_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with loop(tmp_path / "disk", 32 * MIB) as device:
        command("mkfs.ext4", "-q", device)
        with mounted(device, tmp_path / "small") as where:
            assert main(once("storage", "--path", str(where), "--rw", "write", *SHORT, "--size", "30M")) == 2
            assert "minus a reserve" in capsys.readouterr().err
            # A size that is hwdyno's to choose shrinks to the room, and the report says so.
            words = ["--only", "storage.grid", "--path", str(where), "--budget", "1s", "--quiet", "--json"]
            assert main(["run", *words, "--no-page"]) in {0, 3}
            run = from_json(capsys.readouterr().out)
            notes = {note.code: note.says for point in run.experiments[0].points for note in point.notes}
            assert "no more space" in notes["data_file_smaller"]
            assert [entry.name for entry in where.iterdir()] == ["lost+found"]


# --- the table


def test_the_table_names_rules_and_tests_that_there_are() -> None:
    here = Path(__file__).parents[1]
    text = (here.parent / "docs" / "never-fooled.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(rows) >= 15
    rules = {rule.name for rule in all_rules()}
    for row in rows:
        named = re.findall(r"`([a-z_]+)`", row[3])
        assert set(named) <= rules, set(named) - rules
        tests = re.findall(r"`(test_\w+)\.py::(test_\w+)`", row[4])
        assert tests, row
        for file, name in tests:
            (path,) = here.rglob(f"{file}.py")
            assert f"def {name}(" in path.read_text(), (file, name)
    json.dumps(sorted(rules))
