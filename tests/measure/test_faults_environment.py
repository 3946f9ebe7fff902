"""A process or a machine that lacks something: each command leaves a valid Run, or refuses in one line.

``docs/dev/faults.md`` lists them; what it says of a test is checked at the end.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from devices import MIB, command, loop, loops, mounted
from groups import group
from hwdyno.cli.main import main
from hwdyno.measure.runner import plan_run
from hwdyno.model.words import Run
from hwdyno.system.store import Store, from_json

pytestmark = [pytest.mark.machine, pytest.mark.timeout(180)]

SHORT = ["--budget", "1s", "--runtime", "80ms", "--ramp-time", "0s", "--size", "4M", "--quiet", "--no-page", "--json"]
NO_HOME = {"HOME": None, "XDG_DATA_HOME": None, "HWDYNO_HOME": None}
C_LOCALE = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def data() -> Iterator[Path]:
    """A directory on a disk as a rule, so that direct I/O is possible."""
    directory = Path(command("mktemp", "--directory", "/var/tmp/hwdyno-test-XXXXXXXX"))
    yield directory
    shutil.rmtree(directory)


def ended(
    place: Path, words: list[str], environment: dict[str, str | None], prepare: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """What a separate process printed, after it prepared itself."""
    variables = {**os.environ, "HWDYNO_HOME": str(place / "home"), **environment}
    return subprocess.run(
        [sys.executable, "-m", "hwdyno", *words],
        env={name: value for name, value in variables.items() if value is not None},
        preexec_fn=prepare,
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        timeout=120,
    )


def read_run(done: subprocess.CompletedProcess[str]) -> Run:
    assert done.returncode in {0, 3}, done.stderr
    assert "Traceback" not in done.stderr
    return from_json(done.stdout)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("hwdyno: "), done.stderr
    return done.stderr


def limited(which: int, most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(which, (most, most))


def without_io_uring() -> None:
    """A filter as that of containers: io_uring_setup, 425 on every architecture, answers EPERM (seccomp(2))."""
    load_number, if_equal, answer = 0x20, 0x15, 0x06
    errno_eperm, allow = 0x0005_0001, 0x7FFF_0000
    steps = [(load_number, 0, 0, 0), (if_equal, 0, 1, 425), (answer, 0, 0, errno_eperm), (answer, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.c_char_p(struct.pack("H6xQ", len(steps), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    no_new_privileges, set_seccomp, filtered = 38, 22, 2
    assert prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert prctl(set_seccomp, filtered, program, 0, 0) == 0


# --- what a process may lack


@pytest.mark.parametrize(
    ("environment", "prepare", "words"),
    [
        pytest.param({}, limited(resource.RLIMIT_NOFILE, 32), ["--numjobs", "4", "--iodepth", "4"], id="descriptors"),
        pytest.param({}, limited(resource.RLIMIT_MEMLOCK, 0), ["--iodepth", "16"], id="locked-memory"),
        pytest.param(NO_HOME, None, [], id="no-home"),
        pytest.param({}, lambda: os.umask(0), [], id="umask-0", marks=pytest.mark.long),
        pytest.param(C_LOCALE, None, [], id="locale-C", marks=pytest.mark.long),
    ],
)
def test_a_poor_process_measures(
    tmp_path: Path,
    data: Path,
    environment: dict[str, str | None],
    prepare: Callable[[], None] | None,
    words: list[str],
) -> None:
    words = ["storage", "--path", str(data), "--rw", "randrw", *SHORT, *words]
    run = read_run(ended(tmp_path, words, environment, prepare))
    (point,) = run.experiments[0].points
    assert point.validity in {"valid", "degraded"} and point.operations > 0
    assert not list(data.iterdir())
    open_to_all = [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o002]
    assert not open_to_all


def test_where_io_uring_is_forbidden_another_engine_measures(tmp_path: Path, data: Path) -> None:
    words = ["storage", "--path", str(data), "--rw", "randread", "--iodepth", "4", *SHORT]
    says = one_line(ended(tmp_path, [*words, "--ioengine", "io_uring"], {}, without_io_uring))
    assert "io_uring is forbidden here" in says and "libaio or psync" in says
    run = read_run(ended(tmp_path, words, {}, without_io_uring))
    (point,) = run.experiments[0].points
    assert run.machine.os.io_uring is False
    assert run.experiments[0].fixed["ioengine"] == "libaio" and point.operations > 0
    assert "io_uring_refused" in {note.code for note in point.notes}


@loops
def test_a_store_that_cannot_be_written_is_one_line_before_anything_is_measured(tmp_path: Path, data: Path) -> None:
    with mounted("tmpfs", tmp_path / "sealed", "-t", "tmpfs", "-o", "ro") as sealed:
        words = ["storage", "--path", str(data), "--rw", "randread", *SHORT]
        says = one_line(ended(tmp_path, words, {"HWDYNO_HOME": str(sealed / "home")}))
    assert "the filesystem is read-only; set HWDYNO_HOME to another directory" in says
    assert not list(data.iterdir())


@loops
def test_a_store_that_is_full_at_each_page_is_named_and_keeps_what_fits(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Any room on the disk gives a stored Run, or one line that says that there is none."""
    outcomes = set()
    for pages in (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 26, 40, 64, 256):
        with mounted("tmpfs", tmp_path / f"{pages}", "-t", "tmpfs", "-o", f"size={pages * 4}k") as small:
            monkeypatch.setenv("HWDYNO_HOME", str(small / "home"))
            words = ["storage", "--path", str(data), "--rw=randread", "--runtime=40ms", "--budget=1s", "--ramp-time=0"]
            status = main([*words, "--size", "1M", "--quiet", "--no-page"])
            printed, left = capfd.readouterr(), list((small / "home").rglob("*"))
            suffixes = {path.suffix for path in left if path.parent.name == "runs"}
            assert printed.err.count("disk is full") == printed.err.count("\n"), printed.err
            if status == 2:
                outcomes.add("refused")
                assert printed.err.count("\n") == 1 and not suffixes
            elif suffixes == {".journal"}:
                outcomes.add("journal")
                assert printed.err.startswith("degraded: the Run could not be stored: ") and status == 3
                assert Store(small / "home").load("last").interrupted
            else:
                outcomes.add("whole")
                assert suffixes == {".json"}
                # The index is only a cache: what it has no room for is read from the documents.
                assert all("index.sqlite cannot be used" in line for line in printed.err.splitlines())
                (run,) = (from_json(path.read_text()) for path in left if path.suffix == ".json")
                assert len(run.experiments[0].points) == 1
        assert not list(data.iterdir())
    assert outcomes == {"refused", "journal", "whole"}


@loops
@pytest.mark.parametrize(
    ("left", "words", "says"),
    [
        (0, ("storage", "--size", "1M"), "no inodes are left, of which each file takes one; use a writable directory"),
        (
            40,
            ("storage", "metadata", "--operation", "create"),
            r"needs \d+ files and directories, .* has \d+ inodes left",
        ),
        (
            40,
            ("storage", "metadata", "--operation", "stat"),
            r"needs \d+ files and directories, .* has \d+ inodes left",
        ),
    ],
    ids=["none", "create", "stat"],
)
def test_inodes_that_are_used_up_are_named_and_no_space(
    tmp_path: Path, left: int, words: tuple[str, ...], says: str
) -> None:
    with mounted("tmpfs", tmp_path / "few", "-t", "tmpfs", "-o", "size=64m,nr_inodes=64") as few:
        for number in range(os.statvfs(few).f_favail - left):
            (few / f"{number}").touch()
        refused = one_line(ended(tmp_path, [*words, "--path", str(few), "--no-page", "--quiet"], {}))
        assert re.search(says, refused), refused
        full = (
            one_line(ended(tmp_path, ["storage", "--size", "1M"], {"HWDYNO_HOME": str(few / "home")}))
            if not left
            else ""
        )
    assert bool(left) or "no inodes are left, of which each file takes one; remove files, or set HWDYNO_HOME" in full


@loops
@pytest.mark.parametrize("most", ["300M"])
def test_a_memory_limit_of_a_control_group_is_kept(tmp_path: Path, most: str) -> None:
    """What does not fit is refused or made smaller; the group's limit ends no process."""
    with group("memory", {"memory.max": most, "memory.limit_in_bytes": most}) as made:

        def join() -> None:
            (made / "cgroup.procs").write_text(str(os.getpid()))

        words = ["memory", "--budget", "3s", "--quiet", "--no-page", "--json"]
        done = ended(tmp_path, words, {}, join)
    if done.returncode == 2:
        assert re.search(r"\d+ MiB are needed in total, but \d+ MiB are free", one_line(done))
    else:
        assert read_run(done).experiments


# --- what a machine may do meanwhile


@loops
def test_a_device_that_vanishes_while_it_is_measured(tmp_path: Path) -> None:
    """Every block beyond the end of the loop's file gives EIO: the Run counts it and ends."""
    backing = tmp_path / "disk"
    with loop(backing, 96 * MIB) as device:
        command("mkfs.ext4", "-q", device)
        with mounted(device, tmp_path / "small") as where:
            cut = threading.Thread(target=cut_when_it_is_read, args=(backing, where))
            cut.start()
            words = ["storage", "--path", str(where), "--rw", "randread", "--runtime", "1s", "--ramp-time", "0s"]
            done = ended(tmp_path, [*words, "--size", "32M", "--quiet", "--no-page", "--json"], {})
            cut.join()
    assert "Traceback" not in done.stderr
    if done.returncode == 2:
        assert "Input/output error" in one_line(done)
        return
    (point,) = read_run(done).experiments[0].points
    assert point.validity != "valid"
    assert {fault.errno for fault in point.faults} == {errno.EIO}, point.faults


def cut_when_it_is_read(backing: Path, where: Path) -> None:
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s and not any(where.rglob("*.hwdyno*")) and len(list(where.iterdir())) < 2:
        time.sleep(0.05)
    time.sleep(1.5)
    os.truncate(backing, 0)


class BackwardsClock(datetime):
    """Each look at the calendar is an hour before the one before."""

    looks = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> BackwardsClock:
        cls.looks += 1
        then = datetime.now(tz) - timedelta(hours=cls.looks)
        return cls.fromtimestamp(then.timestamp(), tz)


def test_a_clock_that_is_set_back_changes_no_figure(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(plan_run, "datetime", BackwardsClock)
    assert main(["storage", "--path", str(data), "--rw", "randread", *SHORT]) in {0, 3}
    assert BackwardsClock.looks > 0
    run = from_json(capsys.readouterr().out)
    (point,) = run.experiments[0].points
    assert point.elapsed_s > 0 and point.throughput.value > 0
    page = tmp_path / "page.html"
    assert main(["report", run.id, "--html", str(page)]) in {0, 3}
    assert run.finished is not None and run.finished < run.started
    assert not re.search(r"-\d{4,} s\b", page.read_text()), "a negative duration"


def test_table_names_existing_tests() -> None:
    here = Path(__file__).parents[1]
    text = (here.parent / "docs" / "dev" / "faults.md").read_text()
    named = re.findall(r"`(test_\w+)\.py::(test_\w+)`", text)
    assert len(named) >= 10
    for file, name in named:
        (path,) = here.rglob(f"{file}.py")
        assert f"def {name}(" in path.read_text(), (file, name)
