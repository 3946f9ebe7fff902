"""Signals at any moment: the first keeps what was measured, the next leaves within a second, and nothing stays."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from here import sample
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.scenarios.model import ModelFiles, ModelSource
from hwdyno.measure.scenarios.preparation import Interrupted, Says
from hwdyno.system.processes import end_orphans, read_stat
from hwdyno.system.store import Store
from signals.commands import COMMANDS, ROOT, Command, here
from signals.moments import LIMIT_S, Control, Moment, is_pending, perform
from signals.moments import sample as sample_moments

MOMENTS = sample(2, 4)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "python"), str(ROOT)]))
    (tmp_path / "data").mkdir()
    return tmp_path / "home"


@contextlib.contextmanager
def started(*line: str, ignored: tuple[signal.Signals, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """A program that inherits that some signals are ignored, as a background job or one of ``nohup`` does."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        process = subprocess.Popen(
            [sys.executable, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def until(process: subprocess.Popen[str], is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow  # commands, each until its signal; on a busy machine all the longer
@pytest.mark.timeout(1800)
@pytest.mark.machine
def test_a_signal_at_any_moment_leaves_a_valid_run_and_nothing_else(tmp_path: Path) -> None:
    bad = []
    for number, moment in enumerate(sample_moments(here(), MOMENTS, seed=11)):
        verdict = perform(moment, tmp_path / str(number), number)
        if verdict.problems:
            bad.append(f"{moment.command.name}, {moment.how} at {moment.at:.2f}: {verdict.problems} {verdict.details}")
    assert not bad, "\n".join(bad)


def test_sample_reaches_every_command_and_signal() -> None:
    made = list(sample_moments(COMMANDS, len(COMMANDS) * 6, seed=1))
    assert len({(moment.command.name, moment.how) for moment in made}) == len(made)


@pytest.mark.timeout(60)
def test_a_process_that_ends_with_a_signal_untaken_is_judged(tmp_path: Path) -> None:
    """Its second signal waited for ever for the first one to be taken: a process that has ended takes none."""
    code = "import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, {2, 15}); time.sleep(1.5)"
    deaf = Command("deaf", (), seconds=0.2, program=(sys.executable, "-I", "-S", "-c", code))
    verdict = perform(Moment(deaf, "INT INT", 0.9, 0.05), tmp_path / "moment")
    assert verdict.outcome == "finished" and not verdict.problems


# --- what once ended badly


GIL = """
from hwdyno.system import signals
from hwdyno._engine import Guard
signals.take_over("gil", Guard)
print("go", flush=True)
sum(range(10**12))  # native code with the interpreter's lock, as a picture is drawn
"""


def test_code_that_holds_the_interpreters_lock_does_not_outlive_a_signal(home: Path) -> None:
    with started("-c", GIL) as process:
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143


SHUTDOWN = """
import time
from hwdyno.system import signals
from hwdyno._engine import Guard
signals.take_over("shutdown", Guard)

class Late:
    def __del__(self):
        print("go", flush=True)
        time.sleep(0.3)

late = Late()
"""


def test_signal_while_interpreter_ends_changes_nothing(home: Path) -> None:
    with started("-c", SHUTDOWN) as process:
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[1] == "" and process.returncode == 0


IMPORTS = """
import importlib, sys
from hwdyno.system import signals
from hwdyno._engine import Guard
signals.take_over("imports", Guard)
with signals.keeping():
    try:
        print("go", flush=True)
        while not signals.is_end_requested():
            for name in [module for module in sys.modules if module.startswith(("json", "email", "xml"))]:
                del sys.modules[name]
            for name in ("json", "email.message", "xml.dom.minidom"):
                importlib.import_module(name)
    except KeyboardInterrupt:
        sys.exit("an import was cut")
sys.exit(signals.status(0))
"""


def test_no_import_is_cut(home: Path) -> None:
    with started("-c", IMPORTS) as process:
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (130, "", "")


MADE = """
import sys, time
from pathlib import Path
from hwdyno.measure.workspace import scratch_directories; from hwdyno.system import signals
from hwdyno._engine import Guard
from hwdyno.measure.workspace import MadeFolder
signals.take_over("maker", Guard)
made = MadeFolder(Path(sys.argv[1]), "*.bin")
(made.path / "1.bin").write_text("x")
if sys.argv[2] == "released":
    made.release()
if sys.argv[2] == "removed":
    def slow(_path):
        print("go", flush=True)
        time.sleep(0.1)
    scratch_directories.clean_stale = slow
    made.remove()
else:
    print("go", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("end", ["held", "released", "removed"])
def test_a_made_folder_goes_with_its_process_from_the_first_moment_on(home: Path, tmp_path: Path, end: str) -> None:
    """A signal may come between its making and the work in it, and in the middle of its removal."""
    folder = tmp_path / "data" / "hwdyno-set"
    with started("-c", MADE, str(folder), end) as process:
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert folder.exists() == (end == "released")


def test_the_end_of_a_model_makes_no_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second signal removes it while the interruption by the first one ends the preparation."""
    where = tmp_path / "hwdyno-model-resnet50"

    def removed(self: ModelFiles, says: Says) -> None:
        shutil.rmtree(self.where)
        raise Interrupted("interrupted")

    monkeypatch.setattr(ModelFiles, "_make", removed)
    files = ModelFiles(
        description="",
        where=where,
        bytes=0,
        compute_s=0.0,
        model=ModelSource("resnet50").made_model,
        with_gguf=False,
        keeps=False,
    )
    with pytest.raises(Interrupted), files.make_available(Local(), print):
        pass
    assert not where.exists()


UNDIVIDED = """
import sys, time
from pathlib import Path
from hwdyno.system import signals
from hwdyno._engine import Guard
signals.take_over("writer", Guard)
with signals.delay_exit(), Path(sys.argv[1]).open("w") as file:
    print("go", flush=True)
    file.write("begun ")
    time.sleep(0.3)
    file.write("ended")
time.sleep(60)
"""


def test_a_process_that_leaves_ends_the_write_that_it_is_in(home: Path, tmp_path: Path) -> None:
    with started("-c", UNDIVIDED, str(tmp_path / "file")) as process:
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(30) == 129
    assert (tmp_path / "file").read_text() == "begun ended"


NATIVE = """
import hashlib, sys
from pathlib import Path
from hwdyno.system import signals
from hwdyno._engine import Guard
signals.take_over("native", Guard)
stands_still = lambda: Path(sys.argv[1]).write_text(str(signals._owner.parked))
signals.register(signals.Stage.REMOVE, stands_still)
print("go", flush=True)
while True:
    hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000)  # native code that nothing cuts short, as a builder of an index
"""


def test_what_was_made_is_removed_when_nothing_makes_more_of_it(home: Path, tmp_path: Path) -> None:
    with started("-c", NATIVE, str(tmp_path / "file")) as process:
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert (tmp_path / "file").read_text() == "True"


ORPHANS = """
import os, signal, subprocess
from hwdyno.system import signals
from hwdyno._engine import Guard
signals.take_over("parent", Guard)
print(subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True).pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_run_ends_the_children_of_a_killed_one_and_of_no_other(home: Path) -> None:
    lives = ORPHANS.replace("os.kill(os.getpid(), signal.SIGKILL)", "signal.pause()")
    with started("-c", ORPHANS) as killed, started("-c", lives) as living:
        assert killed.stdout is not None and living.stdout is not None
        orphan, child = int(killed.stdout.readline()), int(living.stdout.readline())
        killed.wait(60)
        try:
            end_orphans()
            until(living, lambda: read_stat(orphan)[:1] in ([], ["Z"]))
            assert read_stat(child)[:1] not in ([], ["Z"]), "the child of a living one was ended, too"
        finally:
            for pid in (orphan, child):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


BEGINS = """
import time
import hwdyno.system.store.journal as journals
from hwdyno.system import signals
from hwdyno._engine import Guard
from hwdyno.system.store import Store
from made_run import empty_run
signals.take_over("begins", Guard)
publish = journals.Folder.publish

def slowly(*paths):
    publish(*paths)
    print("go", flush=True)
    time.sleep(0.15)  # as a sync of a busy disk

journals.Folder.publish = slowly
Store().begin(empty_run())
time.sleep(60)
"""


def test_journal_that_just_begins_becomes_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests")]))
    with started("-c", BEGINS) as process:
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert [path.name for path in (home / "runs").iterdir()] == ["empty.json"]


LONG = ("-m", "hwdyno", "storage", "--rw", "randread", "--size", "4M", "--runtime", "60s", "--no-page")


@contextlib.contextmanager
def starved(process: subprocess.Popen[str]) -> Iterator[None]:
    """Leave a process less than a hundredth of one processor."""
    cpu = min(os.sched_getaffinity(0))
    loop = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"]
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.callback(stack.enter_context(subprocess.Popen(loop)).kill)
        for entry in Path(f"/proc/{process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # A thread that just ended.
                os.sched_setaffinity(int(entry.name), {cpu})
                os.setpriority(os.PRIO_PROCESS, int(entry.name), 19)
        yield


@pytest.mark.timeout(300)
@pytest.mark.machine
def test_a_process_that_hardly_gets_a_processor_leaves_nothing_either(home: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(*LONG, "--path", str(data)) as process:
        until(process, lambda: any((home / "runs").glob("*.journal")) and any(data.glob("*/data")))
        with starved(process):
            process.send_signal(signal.SIGINT)
            until(process, lambda: not is_pending(process.pid, signal.SIGINT))
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 130
    assert not any(data.iterdir())
    (path,) = (home / "runs").iterdir()
    assert path.suffix == ".json" and Store(home).load(path.stem).interrupted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_background_job_whose_ctrl_c_is_ignored_ends_cleanly(
    home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    with started(*LONG, "--path", str(data), ignored=(signal.SIGINT,)) as process:
        until(process, lambda: any((home / "runs").glob("*.journal")) and any(data.glob("*/data")))
        process.send_signal(signal.SIGINT)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    (entry,) = Store(home).history()
    assert Store(home).load(entry.id).interrupted and not any(data.iterdir())


def test_nohup_is_obeyed(home: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(*LONG, "--path", str(data), ignored=(signal.SIGHUP,)) as process:
        until(process, lambda: any(data.glob("*/data")))
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)


def test_closed_terminal_keeps_the_run(home: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    # A separate session, whose terminal this becomes: then its end is a hangup.
    script = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(*eval(sys.argv[1]))"
    line = [sys.executable, *LONG, "--path", str(tmp_path / "data")]
    process = subprocess.Popen(
        [sys.executable, "-c", script, repr((sys.executable, line))],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        end = time.monotonic() + 60
        while not any((home / "runs").glob("*.journal")):
            assert process.poll() is None and time.monotonic() < end
            os.set_blocking(ours, False)
            with contextlib.suppress(BlockingIOError):
                os.read(ours, 1 << 16)
            time.sleep(0.01)
        os.close(ours)
        assert process.wait(60) == 129
    finally:
        process.kill()
        process.wait()
    (entry,) = Store(home).history()
    run = Store(home).load(entry.id)
    assert run.interrupted and run.finished and not any((tmp_path / "data").iterdir())


@pytest.mark.parametrize("ignored", [(), (signal.SIGINT,)], ids=["", "background"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ended_benchmarks_leave_no_folder(
    home: Path, tmp_path: Path, number: signal.Signals, ignored: tuple[signal.Signals, ...]
) -> None:
    if number in ignored:
        return
    words = ("-m", "benchmarks", "--path", str(tmp_path / "data"), "--pairs", "1", "--only", "storage")
    with started(*words, ignored=ignored) as process:
        until(process, lambda: any((tmp_path / "data").iterdir()))
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        shown, error = process.communicate()
        assert "Traceback" not in error and "targets met" in shown
    assert not any((tmp_path / "data").iterdir())


def test_second_signal_ends_long_solve(home: Path, tmp_path: Path) -> None:
    words = ("compute", "--operation", "lu", "--n", "9000", "--blas", "auto", "--no-page", "--path", str(tmp_path))
    with started("-m", "hwdyno", *words) as process:
        until(process, lambda: any((home / "runs").glob("*.journal")))
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        control, began = Control(), time.monotonic()
        control.go()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130, process.communicate()
        took_s = time.monotonic() - began
        assert took_s - control.late_s() < LIMIT_S
    (entry,) = Store(home).history()
    run = Store(home).load(entry.id)
    assert run.interrupted and run.finished and not list((home / "runs").glob("*.journal"))
