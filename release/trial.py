"""Tries the wheel: in an empty environment without compilers, and on each Python with oldest and newest libraries."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from release.build import ROOT, BuildError, run

MAX_INSTALLED_BYTES = 215_000_000
MAX_PAGE_BYTES = 1_500_000
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
RESOLUTIONS = ("lowest-direct", "highest")
"""Of uv: the oldest of each library that pyproject.toml allows, and the newest."""
IN_PART = (("3.10", "lowest-direct"), ("3.13", "highest"))
TESTS = (
    *("statistics", "curves", "units", "sweep", "plan", "axes", "store", "samples", "findings", "open_loop", "report"),
    *("report_page", "scorecard", "simulated", "fio_files", "imports", "comparison", "linpack", "bridge"),
)
"""Files of tests that need nothing but the wheel, by their names."""
TOOLS = ("mypy", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "jsonschema")
COMPILERS = ("cargo", "rustc", "gcc", "cc", "make")
FOREIGN = ("trixie", "3.13")
"""Debian's release with the Python that runs the wheel of the other architecture."""
FOREIGN_CHECKS = """
import json, platform
import numpy
from hwdyno import _engine
runs = {"idle": {}, "compute_flops": {"operation": "fma"}, "memory_bandwidth": {"working_set": 65536},
        "memory_latency": {"working_set": 16384}}
for name, given in runs.items():
    reading = json.loads(_engine.run(name, json.dumps({"runtime": 0.05, **given})))
    assert reading["elapsed_s"] > 0, reading
survey = json.loads(_engine.survey("/"))
kernels = len(json.loads(_engine.kernels()))
print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {numpy.__version__}:",
      f"survey of {len(survey)} parts, {kernels} kernels declared, {len(runs)} run")
"""
SMOKE = (
    ("--version",),
    *(("run", "--path", ".", "--only", "storage,memory", "--budget", "10s", "--store", "store"),),
    *(("report", "last", "--store", "store", "--html", "r.html"), ("history", "--store", "store")),
    ("explain", "knee"),
)
"""Commands of `smoke`: a measurement, its page, the store and a lesson."""


def started(words: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a program of the environment under trial with these variables alone: its status and its output."""
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=dict(environment), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def install(wheel: Path) -> list[str]:
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
        if size > MAX_INSTALLED_BYTES:
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
        if pages[0].stat().st_size > MAX_PAGE_BYTES:
            raise BuildError(f"the page has {pages[0].stat().st_size} bytes")
        for shell in ("bash", "zsh", "fish"):
            if started([hwdyno, "completion", shell], home, alone)[0]:
                raise BuildError(f"hwdyno completion {shell} fails")
        manual = place / "env/share/man/man1/hwdyno.1"
        if not manual.exists():
            raise BuildError("the wheel brings no manual page")
        return [
            f"installed by uv with an empty cache: {size / 1e6:.0f} MB in {took_s:.1f} s",
            f"hwdyno run without a compiler: status {status}, page of {pages[0].stat().st_size / 1e6:.2f} MB",
        ]


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


def install_foreign(wheel: Path) -> str:
    """Install the wheel of aarch64 and measure with it in Debian's Python of that architecture, under qemu-user."""
    emulator = shutil.which("qemu-aarch64")
    if emulator is None or shutil.which("mmdebstrap") is None:
        raise BuildError(f"{wheel.name} needs qemu-user and mmdebstrap here: apt install qemu-user mmdebstrap")
    with tempfile.TemporaryDirectory(prefix="hwdyno-trial-") as folder:
        place = Path(folder)
        root, site = place / "root", place / "site"
        run(*("mmdebstrap", "--quiet", "--format=directory", "--variant=extract", "--architectures=arm64"),
            *("--include=python3-minimal,libpython3-stdlib", FOREIGN[0], root))  # fmt: skip
        run(*("uv", "pip", "install", "--quiet", "--only-binary", ":all:", "--target", site, wheel),
            *("--python-version", FOREIGN[1], "--python-platform", "aarch64-manylinux2014"))  # fmt: skip
        libraries = root / "usr/lib/aarch64-linux-gnu"
        # Through the loader: the root was never entered, so that its links into /lib do not exist.
        loader = libraries / "ld-linux-aarch64.so.1"
        python = [emulator, "-cpu", "max", "-L", str(root), "-E", f"LD_LIBRARY_PATH={libraries}", str(loader),
                  str(root / f"usr/bin/python{FOREIGN[1]}")]  # fmt: skip
        variables = {**os.environ, "PYTHONHOME": str(root / "usr"), "PYTHONPATH": str(site), "HOME": folder}
        for words in (["-m", "hwdyno", "--version"], ["-c", FOREIGN_CHECKS]):
            status, text = started([*python, *words], place, variables)
            if status or not text.strip():
                raise BuildError(f"{wheel.name} {words[:2]} ended with status {status}: {text[-800:]}")
    return f"{wheel.name}: {text.strip()}"


def pythons() -> dict[str, Path]:
    """The Pythons of the matrix that this machine has, on the path or of pyenv, by their versions."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders += sorted(kept.glob("*/bin"))
    found: dict[str, Path] = {}
    for python in PYTHONS:
        for path in (folder / f"python{python}" for folder in folders):
            # A shim of pyenv is there also for a version that is not chosen.
            works = path.exists() and started([path, "-c", "import ensurepip"], ROOT, os.environ)[0] == 0
            if works and python not in found:
                found[python] = path
    return found


def oldest_libraries() -> list[str]:
    """The dependencies of the core, each at the oldest version that pyproject.toml allows."""
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    core: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return [line.replace(">=", "==", 1) for line in core]


def smoke(wheel: Path | None) -> str:
    """Install the wheel with its oldest libraries under the oldest Python here, and measure with it; in one line.

    Without a wheel of `make wheel`, one is packed from the engine that `make setup` built.
    """
    there = pythons()
    if not there:
        raise BuildError(f"no Python of {', '.join(PYTHONS)} here has ensurepip: install python3-venv")
    python, program = min(there.items(), key=lambda candidate: PYTHONS.index(candidate[0]))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hwdyno-trial-") as folder:
        place = Path(folder)
        if wheel is None:
            run("maturin", "build", "--quiet", "--locked", "--compatibility", "linux", "--out", place)
            wheel = next(place.glob("*.whl"))
        run(program, "-m", "venv", place / "env")
        inside = place / "env" / "bin" / "python"
        into = (inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
                "--no-compile")  # fmt: skip
        run(*into, *oldest_libraries())
        run(*into, "--no-deps", wheel)
        alone = {"PATH": str(inside.parent), "HOME": str(place), "LANG": "C.UTF-8"}
        for words in SMOKE:
            status, text = started([inside.parent / "hwdyno", *words], place, alone)
            if status not in {0, 3}:
                raise BuildError(f"Python {python}: hwdyno {' '.join(words)} ended with status {status}: {text[-800:]}")
        versions = "import numpy, scipy; print('NumPy', numpy.__version__ + ', SciPy', scipy.__version__)"
        libraries = started([inside, "-c", versions], place, alone)[1].strip()
    return f"Python {python}, {libraries}: {len(SMOKE)} commands work ({time.monotonic() - began:.0f} s)"


def matrix(wheel: Path, whole: bool) -> Iterator[str]:
    """Run the tests of the installed wheel on Pythons and libraries, oldest and newest; what is missing is a line."""
    pairs = [(python, how) for python in PYTHONS for how in RESOLUTIONS] if whole else list(IN_PART)
    there = pythons()
    absent = [python for python in PYTHONS if python not in there and any(python == wanted for wanted, _ in pairs)]
    if len(absent) == len({python for python, _ in pairs}):
        raise BuildError(f"none of Python {', '.join(absent)} is here: uv python install {absent[0]}")
    for python, how in pairs:
        if python in there:
            yield try_python(wheel, python, there[python], how)
    for python in absent:
        yield f"Python {python}: not on this machine"


def try_python(wheel: Path, python: str, program: Path, how: str) -> str:
    """Run the tests on one Python with the oldest or the newest libraries."""
    with tempfile.TemporaryDirectory(prefix="hwdyno-trial-") as folder:
        environment = Path(folder) / "env"
        run("uv", "venv", "--quiet", "--python", program, environment)
        inside = environment / "bin" / "python"
        into = ("uv", "pip", "install", "--quiet", "--python", inside, "--only-binary", ":all:")
        run(*into, "--resolution", how, "--all-extras", "-r", ROOT / "pyproject.toml")
        run(*into, "--no-deps", wheel)
        # The tests' own tools are the newest: they are no libraries of hwdyno's.
        run(*into, *TOOLS)
        files = [next((ROOT / "tests").rglob(f"test_{name}.py")) for name in TESTS]
        variables = {**os.environ, "PYTHONPATH": "", "HOME": folder}
        status, text = started([inside, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", *files], ROOT,
                               variables)  # fmt: skip
        numpy = started([inside, "-c", "import numpy, scipy; print(numpy.__version__, scipy.__version__)"], ROOT,
                        variables)[1].split()  # fmt: skip
    last = text.strip().splitlines()[-1] if text.strip() else ""
    if status:
        raise BuildError(f"Python {python} with NumPy {numpy[0]}: {text[-1500:]}")
    return f"Python {python}, NumPy {numpy[0]}, SciPy {numpy[-1]}: {last}"
