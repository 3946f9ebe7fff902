"""Runs on an older kernel, and where a container forbids io_uring, go on, with one line on what that changes."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from here import missing, shortly
from old_kernel import KERNELS

pytestmark = pytest.mark.machine
LAUNCHER = Path(__file__).parents[1] / "old_kernel.py"
LINE = "io_uring is forbidden or missing here, so storage was accessed by libaio"
USED = {"5.4": "io_uring", "3.10": "libaio", "container": "libaio"}


def under(kernel: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run hwdyno as if on that kernel."""
    if platform.machine() not in {"x86_64", "aarch64"}:
        missing("the filter knows the system calls of x86_64 and aarch64 alone")
    line = [sys.executable, str(LAUNCHER), kernel, sys.executable, "-m", "hwdyno", *words]
    done = subprocess.run(line, cwd=cwd, capture_output=True, text=True, check=False)
    if "a seccomp filter is refused here" in done.stderr:
        missing("seccomp filters are refused here")
    return done


@pytest.mark.parametrize("kernel", shortly(2, *KERNELS))
def test_storage_is_measured_with_one_line_on_what_is_missing(kernel: str, tmp_path: Path) -> None:
    words = ("--rw", "randread,randwrite", "--iodepth=4", "--size=4M", "--runtime=50ms", "--budget=1s", "--path", ".")
    done = under(kernel, "storage", *words, "--json", "--no-page", "--store", "store", cwd=tmp_path)
    assert done.returncode in {0, 3}, done.stderr
    (experiment,) = json.loads(done.stdout)["experiments"]
    assert [point["repeats"] > 0 for point in experiment["points"]] == [True, True]
    assert experiment["fixed"]["ioengine"] == USED[kernel]
    assert done.stderr.splitlines().count(LINE) == (USED[kernel] == "libaio")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("kernel", shortly(1, *KERNELS))
def test_an_engine_that_was_asked_for_and_is_missing_is_one_line(kernel: str, tmp_path: Path) -> None:
    words = ("--rw", "randread", "--ioengine=io_uring", "--size=4M", "--runtime=50ms", "--budget=1s", "--path", ".")
    done = under(kernel, "storage", *words, "--quiet", "--no-page", "--store", "store", cwd=tmp_path)
    if USED[kernel] == "io_uring":
        assert done.returncode in {0, 3}, done.stderr
    else:
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert "io_uring" in done.stderr and "internal error" not in done.stderr


@pytest.mark.parametrize(
    "kernel", [pytest.param(kernel, marks=[pytest.mark.long] * (kernel != "container")) for kernel in KERNELS]
)
def test_memory_compute_and_the_machine_need_no_new_call(kernel: str, tmp_path: Path) -> None:
    short = ("--runtime", "20ms", "--budget=1s", "--seed", "1", "--no-page", "--quiet", "--store", "store")
    for words in (
        ("machine",),
        ("compute", "--isa", "scalar", "--operation", "fma", "--precision", "double", *short),
        ("memory", "--operation", "read", "--threads", "1", "--working-set", "16M", *short),
    ):
        done = under(kernel, *words, cwd=tmp_path)
        assert done.returncode in {0, 3}, done.stderr
        assert "internal error" not in done.stderr and "Traceback" not in done.stderr


def test_the_filter_hides_io_uring(tmp_path: Path) -> None:
    """A planted kernel: the same survey says that io_uring is there without the filter, unless it is refused anyway."""
    code = "import json; from hwdyno.measure import engine; print(json.dumps(engine.survey(None)['os']['io_uring']))"
    line = [sys.executable, str(LAUNCHER), "container", sys.executable, "-c", code]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "a seccomp filter is refused here" in done.stderr:
        missing("seccomp filters are refused here")
    assert done.stdout == "false\n", done.stderr
