"""Signals before they are owned, and requests that what runs does not follow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from here import sample
from signals.commands import ROOT, here
from signals.moments import Moment, perform, sample_starts

STARTS = sample(8, 12)
"""Two or three of each of four commands."""


def start(code: str, *words: str) -> subprocess.Popen[str]:
    """A program with this code."""
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.machine
def test_signal_in_the_first_moments_has_its_status_and_prints_no_traceback(tmp_path: Path) -> None:
    quick = [command for command in here() if command.name in {"history", "machine", "compare", "storage"}]
    bad = []
    for number, moment in enumerate(sample_starts(quick, STARTS, seed=5)):
        verdict = perform(moment, tmp_path / str(number), number)
        if verdict.problems:
            bad.append(f"{moment.command.name}, {moment.how} at {moment.at:.2f}: {verdict.problems} {verdict.details}")
    assert not bad, "\n".join(bad)


@pytest.mark.long  # below, what runs follows no request either, without a compiler
@pytest.mark.slow  # until the compiler runs, and until the Run has its findings
@pytest.mark.timeout(300)
@pytest.mark.machine
def test_signal_while_a_gpus_kernels_are_compiled_keeps_the_run(tmp_path: Path) -> None:
    for command in [command for command in here() if command.name == "gpu"]:
        verdict = perform(Moment(command, "INT", 0.3), tmp_path / "moment")
        assert verdict.outcome == "kept" and not verdict.problems, verdict


EARLY = """
import os
from hwdyno.system import first_signals
first_signals.keep()
os.kill(os.getpid(), 15)
import xml.dom.minidom  # no import is cut
from hwdyno.system import signals
from hwdyno._engine import Guard
signals.take_over("early", Guard)
import time
time.sleep(60)
"""


def test_signal_before_the_take_over_counts_as_one_after_it() -> None:
    with start(EARLY) as process:
        assert process.communicate(timeout=60)[1] == "early: interrupted\n" and process.returncode == 143


TWICE = """
import os, time
from hwdyno.system import first_signals
first_signals.keep()
for number in (1, 15):
    os.kill(os.getpid(), number)
time.sleep(60)
"""


def test_second_signal_before_the_take_over_ends_an_import_that_hangs() -> None:
    with start(TWICE) as process:
        assert process.communicate(timeout=60)[1] == "" and process.returncode == 129


DEAF = """
import hashlib, sys
from pathlib import Path
from hwdyno.system import signals
from hwdyno._engine import Guard
signals.HALT_S = 0.2
signals.take_over("deaf", Guard)
signals.register(signals.Stage.KEEP, lambda: Path(sys.argv[1]).write_text("kept"))
with signals.keeping(), signals.running():
    print("go", flush=True)
    while True:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000)  # a library that sees no request
"""


def test_request_that_what_runs_does_not_follow_becomes_an_end_that_keeps(tmp_path: Path) -> None:
    with start(DEAF, str(tmp_path / "file")) as process:
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert (tmp_path / "file").read_text() == "kept"
