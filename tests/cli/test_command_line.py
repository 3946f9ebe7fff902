"""The command line from the outside: real kernels on small files, bad input, and bad luck in the middle."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from here import may_mount, needs
from hwdyno.cli.main import main, make_parser
from hwdyno.cli.options import make_request
from hwdyno.cli.perform import perform_scenario
from hwdyno.measure import experiments
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.scenarios import make_scenario
from hwdyno.system import program_name
from hwdyno.system.store import Store, from_json
from simulation.host import SimulatedHost, SimulatedMachine

SMALL = ["--budget", "1s", "--size", "16M", "--runtime", "50ms", "--ramp-time", "0", "--no-page"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python"), "COLUMNS": "100"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["storage", "--filename", "x"], "unknown option --filename; use --path;"),
        (["storage", "-iodepth", "4"], "unknown option -iodepth; use --iodepth;"),
        (["network", "-c", "10.0.0.1"], "unknown option -c; use --server;"),
        (["storage", "-c", "10.0.0.1"], "unexpected argument '-c';"),
        (["run", "--only", "foo"], "compute.grid, compute.threads, compute.clock, "),
    ],
)
def test_what_other_tools_call_an_option_is_answered_by_ours(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and len(error) < 300


@pytest.mark.parametrize(
    ("typed", "resource"), [("cpu", "compute"), ("disk", "storage"), ("ram", "memory"), ("net", "network")]
)
def test_resource_has_names_that_people_type(typed: str, resource: str) -> None:
    assert {experiment.resource for experiment in experiments.find(typed)} == {resource}


@pytest.mark.parametrize(
    ("started", "on_path", "program"),
    [
        (".venv/bin/hwdyno", False, ".venv/bin/hwdyno"),
        (".venv/bin/hwdyno", True, "hwdyno"),
        ("/x/hwdyno/__main__.py", False, f"{sys.executable} -m hwdyno"),
        ("/x/pytest", False, "hwdyno"),
    ],
)
def test_printed_command_works_in_place(
    started: str, on_path: bool, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [started])
    monkeypatch.setattr(program_name.shutil, "which", lambda name: f"/usr/bin/{name}" if on_path else None)
    program_name.program.cache_clear()
    try:
        assert program_name.as_called("Again: hwdyno run") == f"Again: {program} run"
        assert program_name.as_called("what hwdyno can plan") == "what hwdyno can plan"
    finally:
        program_name.program.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


def started(*arguments: str, home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hwdyno", *arguments],
        env={**ENVIRONMENT, "HWDYNO_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def one_line(capsys: pytest.CaptureFixture[str], *says: str) -> None:
    """stdout is empty, and stderr one line that says what is wrong."""
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    assert "Traceback" not in printed.err
    for text in says:
        assert text in printed.err


HEAVY = ["numpy", "scipy", "pydantic", "altair", "jinja2", "pyarrow"]


def test_help_needs_no_library_or_engine() -> None:
    heavy = [*HEAVY, "rich", "hwdyno._engine", "hwdyno.model.words"]
    code = "import sys; from hwdyno.cli.main import main; main(['--help']); print([m for m in {} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code.format(heavy)], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "hwdyno run" in done.stdout


@pytest.mark.machine
def test_a_measurement_imports_nothing_heavy(tmp_path: Path) -> None:
    words = ["memory", "grid", "--budget", "1s", "--no-page", "--quiet", "--json", "--store", str(tmp_path)]
    code = (
        f"import sys; from hwdyno.cli.main import main; main({words}); print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [[], ["-h"], ["help"], ["--version"], ["run", "--help"], ["storage", "--help"]])
def test_help_goes_to_stdout_without_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "hwdyno" in printed.out
    assert printed.err == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["storge"], "did you mean 'storage'?"),
        (["frobnicate"], "known: run"),
        (["storage", "--iodepth", "-8"], "iodepth"),
        (["storage", "--iodepth=-8"], "negative"),
        (["storage", "--bs", "4x"], "'4x' is not a size"),
        (["storage", "--rw", "scribble"], "use one of: read, write"),
        (["storage", "--ioengine", "psync", "--iodepth", "8"], "use --numjobs 8"),
        (["storage", "--colour", "red"], "--colour"),
        (["storage", "colour"], "storage.colour"),
        (["storage", "--profile", "hasty", "--bs", "4k"], "no profile is called 'hasty'"),
        (["run", "--only", "wetware"], "wetware"),
        (["run", "--seed", "-1"], "--seed"),
        (["run", "--fail-under", "120"], "percentage"),
        (["run", "--budget", "soon"], "not a time"),
        (["run", "none.toml"], "plan file none.toml does not exist"),
        (["run", "--path", "/nowhere/at/all"], "no such directory"),
        (["run", "--path", "/dev/null"], "not a directory"),
        (["storage", "grid", "--ceiling", "rated fast"], "not a ceiling"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], says: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    one_line(capsys, says)
    assert not home.exists() or not list((home / "runs").iterdir())


def test_torn_plan_file_is_one_line(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "torn.toml").write_text("[[experiment]\n")
    assert main(["run", "torn.toml"]) == 2
    one_line(capsys, "torn.toml is not a readable TOML file")


def test_dry_run_measures_and_writes_nothing(home: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--dry-run", "--path", str(data), "--only", "storage"]) == 0
    printed = capsys.readouterr()
    assert "randwrite 4 KiB, iodepth=1, 1 job" in printed.out
    assert printed.out.splitlines()[-1].startswith("total: ")
    assert not list(data.iterdir())
    assert not home.exists()


def test_dry_run_lists_supported_instruction_sets(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--dry-run", "--only", "compute.grid"]) == 0
    out = capsys.readouterr().out
    elsewhere = {"NEON", "SVE"} if platform.machine() == "x86_64" else {"SSE", "AVX2", "AVX-512", "AMX"}
    assert "FMA FP64, scalar, 1 thread" in out
    assert not elsewhere.intersection(re.split("[ ,]+", out))


def test_a_sweep_with_the_real_kernel(home: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "mine").write_text("precious")
    arguments = ["--rw", "randread,randrw:70", "--iodepth", "1..4", "--path", str(data), "--json", *SMALL]
    assert main(["storage", *arguments]) in {0, 3}
    printed = capsys.readouterr()
    run = from_json(printed.out)
    result = run.experiments[0]
    assert [(p.parameters["rw"], p.parameters["iodepth"]) for p in result.points] == [
        (rw, depth) for rw in ("randread", "randrw") for depth in (1, 2, 4)
    ]
    for point in result.points:
        assert point.rate is not None
        assert point.throughput.value == pytest.approx(point.rate.value * 4096, rel=1e-6)
        assert point.latency_ns is not None
        assert point.latency_ns.count == point.operations > 0
        assert point.repeats >= 3
    assert [entry.name for entry in data.iterdir()] == ["mine"]
    assert (data / "mine").read_text() == "precious"
    assert Store().load("last") == run
    assert printed.err.count("storage.sweep  rand") == 6
    assert "\x1b" not in printed.err


def test_the_report_is_data_without_escapes_when_it_is_piped(
    home: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--rw", "read", "--bs", "64k", "--path", str(data), *SMALL]
    arguments.remove("--no-page")
    assert main(["storage", *arguments, "--out", str(tmp_path / "out"), "--quiet"]) in {0, 3}
    printed = capsys.readouterr()
    assert printed.out
    assert "\x1b" not in printed.out
    page = tmp_path / "out" / "report.html"
    assert str(page) in printed.err
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")


def test_below_the_ceiling_that_was_asked_for_is_status_1(
    home: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["storage", "--rw", "read", "--path", str(data), "--fail-under", "50%", "--quiet", "--json", *SMALL]
    assert _exit_status(arguments, data, ["--ceiling", "rated read 900 GB/s"]) == 1
    assert "below 50%" in capsys.readouterr().err
    assert _exit_status(arguments, data, ["--ceiling", "rated read 50 MB/s"]) == 0


def _exit_status(arguments: list[str], data: Path, more: list[str]) -> int:
    """The exit status on a simulated machine: a real one may be degraded by what else goes on."""
    args = make_parser("storage").read([*arguments[1:], *more])
    host = SimulatedHost(SimulatedMachine(seed=3))
    return perform_scenario(make_scenario(make_request(args, "storage"), host), args, host)


def test_refused_direct_io_degrades_the_run(home: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = make_parser("storage").read(["--rw", "randread", "--path", str(data), "--json", *SMALL])
    host = SimulatedHost(SimulatedMachine(seed=3, direct_refused=True))
    assert perform_scenario(make_scenario(make_request(args, "storage"), host), args, host) == 3
    printed = capsys.readouterr()
    run = from_json(printed.out)
    assert "direct I/O was refused" in run.degraded[0]
    assert any(note.code == "direct_refused" for note in run.experiments[0].points[0].notes)
    assert "degraded: direct I/O was refused" in printed.err
    assert "exit status 3: use with care\n" in printed.err


def test_a_store_that_cannot_be_written_is_named_before_anything_is_measured(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "file"))
    assert main(["storage", "--rw", "read", "--path", str(data), *SMALL]) == 2
    one_line(capsys, str(tmp_path / "file"))
    assert not list(data.iterdir())


def test_closed_reader_is_no_error(home: Path, data: Path) -> None:
    process = started("run", "--dry-run", "--path", str(data), home=home)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


# --- bad luck in the middle

LONG = ["--rw", "randread", "--iodepth", "1,2,4", "--size", "16M", "--runtime", "300ms", "--no-page", "--json"]


def measuring(data: Path, home: Path, *more: str) -> subprocess.Popen[str]:
    """A run whose readings have begun: its data file is whole. ``more`` has an option that replaces the default one."""
    at = [index for word in more if word in LONG for index in (LONG.index(word), LONG.index(word) + 1)]
    kept = [word for number, word in enumerate(LONG) if number not in at]
    process = started("storage", *kept, *more, "--path", str(data), home=home)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        files = list(data.glob("hwdyno-scratch-*/data"))
        with contextlib.suppress(FileNotFoundError):
            if files and files[0].stat().st_size == 16 << 20:
                time.sleep(0.7)
                return process
        time.sleep(0.02)
    raise AssertionError(f"no run began: {process.communicate()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_interrupt_keeps_what_was_measured(data: Path, home: Path, number: signal.Signals) -> None:
    process = measuring(data, home)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    run = from_json(out)
    assert run.interrupted
    assert run.finished
    assert run.degraded[0].startswith("interrupted: ")
    assert not list(data.iterdir())
    assert Store(home).load(run.id) == run
    assert "Traceback" not in err


def test_a_second_interrupt_ends_at_once_and_keeps_it_too(data: Path, home: Path) -> None:
    # A reading that would go on for a minute: only its end by the second interrupt is quick.
    process = measuring(data, home, "--runtime", "60s")
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=50)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert not list(data.iterdir())
    runs = Store(home).history()
    assert len(runs) == 1
    kept = Store(home).load(runs[0].id)
    # The second signal may come before the document is printed, never before it is kept.
    assert kept.interrupted and (not out or from_json(out) == kept)


def test_what_a_killed_run_left_is_cleaned_by_the_next_and_its_points_are_kept(
    data: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process = measuring(data, home, "--iodepth", "1")
    time.sleep(0.8)
    process.kill()
    process.communicate()
    assert len(list(data.iterdir())) == 1
    killed = Store(home).history()[0]
    assert Store(home).load(killed.id).interrupted
    monkeypatch.setenv("HWDYNO_HOME", str(home))
    assert main(["storage", "--rw", "read", "--path", str(data), "--quiet", "--json", *SMALL]) in {0, 3}
    assert not list(data.iterdir())


# --- filesystems of their own, where this user may mount them


@contextlib.contextmanager
def mounted(where: Path, options: str) -> Iterator[Path]:
    where.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)], check=True, capture_output=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True, capture_output=True)


mounts = needs(may_mount(), "this user may not mount; the same is tested on a simulation")


@mounts
def test_no_room_is_one_line(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mounted(tmp_path / "small", "size=8m") as small:
        assert main(["storage", "--rw", "read", "--path", str(small), "--size", "64M"]) == 2
        one_line(capsys, "64 MiB are needed", "another --path")
        assert main(["run", "--only", "storage", "--path", str(small)]) == 2
        one_line(capsys, "minus a reserve")
        assert not list(small.iterdir())


@mounts
def test_read_only_filesystem_is_one_line(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mounted(tmp_path / "frozen", "ro,size=64m") as frozen:
        assert main(["storage", "--rw", "read", "--path", str(frozen), *SMALL]) == 2
        one_line(capsys, "read-only")


@mounts
def test_a_filesystem_in_memory_is_degraded(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mounted(tmp_path / "memory", "size=64m") as memory:
        assert main(["storage", "--rw", "randread", "--path", str(memory), "--quiet", "--json", *SMALL]) == 3
        run = from_json(capsys.readouterr().out)
        assert "direct I/O" in run.degraded[0]
        assert not list(memory.iterdir())


@mounts
def test_a_disk_that_fills_up_under_the_layout_is_degraded(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Someone else takes the room after it was checked and the first stretch was written."""
    real = Local.run

    def taken(self: Local, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if kernel == "storage_layout" and parameters["size"] > 128 << 20:
            (tmp_path / "small" / "theirs").write_bytes(bytes(60 << 20))
        return real(self, kernel, parameters)

    monkeypatch.setattr(Local, "run", taken)
    # However slowly a busy machine writes the first stretch, the second is requested.
    monkeypatch.setattr("hwdyno.measure.runner.layout.BUDGET_SHARE", 1e6)
    with mounted(tmp_path / "small", "size=200m") as small:
        arguments = ["--only", "storage.grid", "--path", str(small), "--budget", "4s", "--quiet", "--json", "--no-page"]
        assert main(["run", *arguments]) == 3
        run = from_json(capsys.readouterr().out)
        assert any("the filesystem was full after 128 MiB" in why for why in run.degraded)
        assert run.experiments[0].points, (
            "what was laid out is measured; on a busy machine the budget leaves points out"
        )
        assert run.experiments[0].fixed["size"] == 128 << 20
        assert [entry.name for entry in small.iterdir()] == ["theirs"]


def test_no_room_is_one_line_on_any_machine(
    data: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hwdyno.measure.workspace.place.room", lambda _: 3 << 20)
    assert main(["storage", "--rw", "read", "--path", str(data), *SMALL]) == 2
    one_line(capsys, "3.15 MB free (minus a reserve)")
    assert not list(data.iterdir())


def test_a_fault_of_our_own_says_how_to_report_it(
    data: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> dict[str, Any]:
        raise KeyError("slip")

    monkeypatch.delenv("HWDYNO_TRACEBACK", raising=False)
    monkeypatch.setattr(Local, "survey", broken)
    assert main(["storage", "--rw", "read", "--path", str(data), *SMALL]) == 2
    one_line(capsys, "internal error: KeyError")


def test_document_on_stdout_is_json_alone(home: Path, data: Path) -> None:
    process = started("storage", "--rw", "read", "--path", str(data), "--json", *SMALL, home=home)
    out, err = process.communicate(timeout=60)
    assert process.returncode in {0, 3}, err
    assert json.loads(out)["schema"] == "hwdyno.run/2"
    assert "writing 16 MiB" in err
