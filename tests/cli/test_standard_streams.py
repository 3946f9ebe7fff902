"""A standard stream that is closed, full or not read costs one line and no Run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from here import shortly
from hwdyno.system.store import Store

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "COLUMNS": "100"}
MEASURING = "memory --threads 1 --working-set 1M --runtime 1ms --no-page --quiet"
PROGRAM = f"'{sys.executable}' -m hwdyno"


def shell(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A line of bash in which ``hwdyno`` is ours; the status is that of the first command of a pipe."""
    text = f'hwdyno() {{ {PROGRAM} "$@"; }}; {line}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", text], env={**ENVIRONMENT, "HWDYNO_HOME": str(home)}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("words", shortly(2, "--help", MEASURING, "--version", "history", "explain"))
@pytest.mark.parametrize(("how", "why"), [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left on device")])
def test_output_that_cannot_be_written_is_an_error_of_one_line(words: str, how: str, why: str, tmp_path: Path) -> None:
    done = shell(f"hwdyno {words} {how}", tmp_path)
    if words == "history":  # It says on stderr that there are none.
        assert done.returncode == 0
        return
    assert done.returncode == 2
    assert done.stderr == f"hwdyno: standard output: {why}\n"


@pytest.mark.parametrize("how", shortly(2, "2>&-", "2> /dev/full", "2> >(exit 0)"))
def test_a_lost_stderr_changes_neither_answer_nor_status(how: str, tmp_path: Path) -> None:
    done = shell(f"hwdyno {MEASURING.replace('--quiet', '')} {how}", tmp_path)
    (entry,) = Store(tmp_path).history()
    assert (done.returncode, done.stderr) == (0 if entry.verdict == "sound" else 3, "")
    assert entry.id in done.stdout


def test_a_closed_stdout_gives_its_number_to_no_file(tmp_path: Path) -> None:
    """What is printed must not land in a Run's journal, which would be opened in its place."""
    done = shell(f"hwdyno {MEASURING} <&- >&-", tmp_path)
    (entry,) = Store(tmp_path).history()
    assert done.returncode == 2 and entry.points == 1
    assert not list((tmp_path / "runs").glob("*.journal"))


def test_the_words_that_find_the_run_come_in_spite_of_a_full_stdout(tmp_path: Path) -> None:
    words = MEASURING.replace("--no-page --quiet", f"--quiet --out {tmp_path}/out")
    done = shell(f"hwdyno {words} > /dev/full", tmp_path)
    assert done.returncode == 2
    assert f"report: {tmp_path}/out/report.html" in done.stderr and "again:  " in done.stderr


def test_a_reader_that_has_seen_enough_changes_no_status(tmp_path: Path) -> None:
    done = shell(f"hwdyno {MEASURING} | true", tmp_path)
    (entry,) = Store(tmp_path).history()
    assert (done.returncode, done.stderr) == (0 if entry.verdict == "sound" else 3, "")


@pytest.mark.parametrize(("words", "status"), [("history", 0), ("machine", 0), (MEASURING, 2)])
def test_a_current_directory_that_is_gone_is_said(words: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = shell(f"cd '{tmp_path}/gone' && rm -r '{tmp_path}/gone' && hwdyno {words}", tmp_path / "home")
    assert done.returncode == status
    assert ("the current directory was removed, change to another" in done.stderr) == (status == 2)
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr


def test_a_home_of_no_user_is_one_line(tmp_path: Path) -> None:
    done = shell("HWDYNO_HOME='~no-such-user' hwdyno history", tmp_path)
    assert done.returncode == 2
    why = "HWDYNO_HOME=~no-such-user has no home directory; set HWDYNO_HOME to a directory for the Runs"
    assert done.stderr == f"hwdyno: {why}\n"
