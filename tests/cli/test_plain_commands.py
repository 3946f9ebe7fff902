"""Each resource's plain command and each study run whole, with a page of which no part is missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import warm
from here import missing
from hwdyno import studies

pytestmark = pytest.mark.machine

IN_A_DIRECTORY = {"run", "storage", "training", "inference", "together", "study"}
PLAIN = (
    *("memory", "compute", "network", "storage", "training", "inference", "together", "gpu --on cpu", "run"),
    *("storage snia iops", "compute linpack", "network latency", "network ping", "training --checkpoint llama3-8b"),
    *(f"study {study.name}" for study in studies.all()),
)
SAMPLED = [line for line in PLAIN[::2] if line != "study kubernetes-ai-storage"]
"""That study reads whole samples of 146 MB, however short its budget is."""
LIMIT_S = 1200


def performed(line: str, tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """A command's end, in a directory that is empty afterwards."""
    if "gpu" in line and not list(Path("/etc/OpenCL/vendors").glob("pocl*")):
        missing("an OpenCL driver of the processor (Debian's pocl-opencl-icd)")
    data = tmp_path / "data"
    data.mkdir()
    words = [*line.split(), *(("--path", str(data)) if line.split()[0] in IN_A_DIRECTORY else ())]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python"), "HWDYNO_HOME": str(tmp_path)}
    done = warm.run([*words, "--out", str(tmp_path / "out"), *more], env=environment, timeout_s=LIMIT_S, cwd=tmp_path)
    assert list(data.iterdir()) == []
    return done


def check_answer(done: subprocess.CompletedProcess[str], tmp_path: Path) -> None:
    """There are a verdict and a page, and nothing failed on the way to them."""
    assert done.returncode in {0, 3}, done.stderr
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr
    assert any(words in done.stdout for words in ("SOUND", "USE WITH CARE", "NOT TO BE TRUSTED"))
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Left out: " not in page and page.rstrip().endswith("</html>")
    assert len(list(tmp_path.glob("runs/*.json"))) == 1


@pytest.mark.parametrize("line", SAMPLED)
def test_a_plain_command_in_two_seconds_gives_an_answer(line: str, tmp_path: Path) -> None:
    check_answer(performed(line, tmp_path, "--budget", "2s"), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("line", PLAIN)
def test_a_plain_command_runs_whole(line: str, tmp_path: Path) -> None:
    check_answer(performed(line, tmp_path), tmp_path)
