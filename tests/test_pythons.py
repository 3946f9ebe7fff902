"""What the installation page says of Pythons and C libraries, against the wheels that PyPI has (``uv pip compile``)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from here import not_packaged, sample, shortly
from hwdyno.system.foreign import parse_toml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "install.md").read_text()
PLACES = (os.environ.get("PATH", ""), str(ROOT / "target/release-env/bin"), str(ROOT / ".venv/bin"))
UV = shutil.which("uv", path=os.pathsep.join(PLACES))
OLDEST_GLIBC = "2.17"
ROW = re.compile(r"^\| (3\.\d+) \| (\d\.\d+) \| [\d., ]+ \| [\d., ]+ \|$", re.MULTILINE)


def resolve(python: str, machine: str, glibc: str) -> subprocess.CompletedProcess[str]:
    """The core's packages from wheels alone, as pip on that Python and C library finds them."""
    platform = f"{machine}-manylinux_{glibc.replace('.', '_')}"
    words = ["pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:"]
    words += ["--python-version", python, "--python-platform", platform, str(ROOT / "pyproject.toml")]
    done = subprocess.run([str(UV), *words], capture_output=True, text=True, check=False)
    if "error sending request" in done.stderr or "Failed to fetch" in done.stderr:
        not_packaged("PyPI cannot be reached")
    return done


def test_page_has_each_python_of_project() -> None:
    project = parse_toml((ROOT / "pyproject.toml").read_text(), "pyproject.toml")["project"]
    listed = [python for python, _ in ROW.findall(PAGE)]
    assert listed == [f"3.{minor}" for minor in range(10, 15)] and project["requires-python"] == f">={listed[0]}"
    assert all(f"Programming Language :: Python :: {python}" in project["classifiers"] for python in listed)


def test_engine_is_of_the_stable_abi_that_page_names() -> None:
    assert '"abi3-py310"' in (ROOT / "crates/bridge/Cargo.toml").read_text()
    assert "`abi3`, CPython 3.10 or newer" in PAGE and "Free-threaded" in PAGE


@pytest.mark.slow  # it asks PyPI
@pytest.mark.parametrize("row", shortly(1, *reversed(ROW.findall(PAGE))), ids="-".join)
def test_wheels_are_there_for_stated_glibc_and_no_older(row: tuple[str, str]) -> None:
    python, glibc = row
    if UV is None:
        not_packaged("uv is missing; make wheel installs it")
    for machine in ("x86_64", "aarch64")[: sample(1, 2)]:
        found = resolve(python, machine, glibc)
        assert found.returncode == 0 and "numpy==" in found.stdout, found.stderr
        if glibc != OLDEST_GLIBC:
            older = resolve(python, machine, OLDEST_GLIBC)
            assert older.returncode != 0, f"Python {python} works with glibc {OLDEST_GLIBC} now: say so in install.md"
            assert "no usable wheels" in older.stderr
