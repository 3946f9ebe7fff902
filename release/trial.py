"""Tries the wheel: in an empty environment without compilers, and on each Python with oldest and newest libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from release.build import ROOT, BuildError, run

MOST_INSTALLED_BYTES = 215_000_000
MOST_PAGE_BYTES = 1_500_000
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
RESOLUTIONS = ("lowest-direct", "highest")
"""Of uv: the oldest of each library that pyproject.toml allows, and the newest."""
IN_PART = (("3.10", "lowest-direct"), ("3.13", "highest"))
TESTS = (
    *("statistics", "curves", "units", "sweep", "plan", "axes", "store", "samples", "findings", "open_loop", "report"),
    *("report_page", "scorecard", "simulated", "fio_files", "imports", "comparison", "linpack", "bridge"),
)
"""Files of tests that need nothing but the wheel, by their names."""
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "jsonschema")
COMPILERS = ("cargo", "rustc", "gcc", "cc", "make")


def started(words: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a program of the environment under trial with these variables alone: its status and its output."""
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=dict(environment), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def install(wheel: Path, engines: Sequence[Path]) -> list[str]:
    """Install a wheel into an empty environment and do the main job on a PATH without compilers; what was measured."""
    with tempfile.TemporaryDirectory(prefix="hwdyno-trial-") as folder:
        place = Path(folder)
        home = place / "home"
        home.mkdir()
        run("uv", "venv", "--quiet", place / "env")
        began = time.monotonic()
        run(*("uv", "pip", "install", "--quiet", "--python", place / "env/bin/python", wheel),
            environment={"UV_CACHE_DIR": str(place / "cache")})  # fmt: skip
        took_s = time.monotonic() - began
        size = sum(path.stat().st_size for path in (place / "env/lib").rglob("*") if path.is_file())
        if size > MOST_INSTALLED_BYTES:
            raise BuildError(f"{wheel.name} installs {size / 1e6:.0f} MB")
        alone = {"PATH": str(place / "env/bin"), "HOME": str(home), "LANG": "C.UTF-8"}
        found = [name for name in COMPILERS if shutil.which(name, path=alone["PATH"])]
        if found:
            raise BuildError(f"the trial's PATH has {', '.join(found)}")
        hwdyno = place / "env/bin/hwdyno"
        status, text = started([hwdyno, "run", "--path", home, "--budget", "40s"], home, alone)
        pages = list(home.glob("hwdyno-runs/*/report.html"))
        if status not in {0, 3} or len(pages) != 1:
            raise BuildError(f"hwdyno run ended with status {status}: {text[-300:]}")
        if pages[0].stat().st_size > MOST_PAGE_BYTES:
            raise BuildError(f"the page has {pages[0].stat().st_size} bytes")
        for shell in ("bash", "zsh", "fish"):
            if started([hwdyno, "completion", shell], home, alone)[0]:
                raise BuildError(f"hwdyno completion {shell} fails")
        manual = place / "env/share/man/man1/hwdyno.1"
        if not manual.exists():
            raise BuildError("the wheel brings no manual page")
        lines = [
            f"installed by uv with an empty cache: {size / 1e6:.0f} MB in {took_s:.1f} s",
            f"hwdyno run without a compiler: status {status}, page of {pages[0].stat().st_size / 1e6:.2f} MB",
        ]
    return lines + [try_engine(path) for path in engines]


def try_engine(path: Path) -> str:
    """Run a bare engine's verbs, one of another architecture under qemu-user."""
    words: list[str | Path] = [path]
    if not path.name.endswith(os.uname().machine):
        emulator = shutil.which(f"qemu-{path.name.rpartition('-')[2]}")
        if emulator is None:
            raise BuildError(f"{path.name} needs qemu-user here: apt install qemu-user")
        words = [emulator, "-cpu", "max", path]
    for verb in (["--version"], ["kernels"], ["survey"], ["run", "idle", '{"runtime": 0.05, "numjobs": 1}']):
        status, text = started([*words, *verb], ROOT, os.environ)
        if status or not text.strip():
            raise BuildError(f"{path.name} {verb[0]} ended with status {status}: {text[-200:]}")
    return f"{path.name}: version, kernels, survey and run work"


def matrix(wheel: Path, whole: bool) -> list[str]:
    """Run the tests of the installed wheel on Pythons and libraries, oldest and newest."""
    pairs = [(python, how) for python in PYTHONS for how in RESOLUTIONS] if whole else list(IN_PART)
    return [try_python(wheel, python, how) for python, how in pairs]


def try_python(wheel: Path, python: str, how: str) -> str:
    """Run the tests on one Python with the oldest or the newest libraries."""
    with tempfile.TemporaryDirectory(prefix="hwdyno-trial-") as folder:
        environment = Path(folder) / "env"
        try:
            run("uv", "venv", "--quiet", "--python", python, environment)
        except BuildError:
            raise BuildError(f"no Python {python} here: uv python install {python}") from None
        inside = environment / "bin" / "python"
        into = ("uv", "pip", "install", "--quiet", "--python", inside, "--only-binary", ":all:")
        run(*into, "--resolution", how, "--all-extras", "-r", ROOT / "pyproject.toml")
        run(*into, "--no-deps", wheel)
        # The tests' own tools are the newest: they are no libraries of hwdyno's.
        run(*into, *TOOLS)
        files = [ROOT / "tests" / f"test_{name}.py" for name in TESTS]
        variables = {**os.environ, "PYTHONPATH": "", "HOME": folder}
        status, text = started([inside, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", *files], ROOT,
                               variables)  # fmt: skip
        numpy = started([inside, "-c", "import numpy, scipy; print(numpy.__version__, scipy.__version__)"], ROOT,
                        variables)[1].split()  # fmt: skip
    last = text.strip().splitlines()[-1] if text.strip() else ""
    if status:
        raise BuildError(f"Python {python} with NumPy {numpy[0]}: {text[-1500:]}")
    return f"Python {python}, NumPy {numpy[0]}, SciPy {numpy[-1]}: {last}"
