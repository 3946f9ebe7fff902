"""A made driver as NVIDIA's libraries, and what a new process finds with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from here import missing

FAKE = Path(__file__).parent / "data" / "fake_nvidia.c"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the made driver as NVIDIA's two libraries; the tests of all processes compile a kernel once."""
    if not shutil.which("cc") or not shutil.which("c++"):
        missing("this machine has no C and C++ compilers, by which the made driver compiles kernels")
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libcuda.so.1"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, FAKE, "-ldl"], check=True)
    for name in ("libnvidia-ml.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcufile.so.0"):
        shutil.copy(library, folder / name)
    base = tmp_path_factory.getbasetemp()
    kernels = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernels"
    kernels.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HWDYNO_FAKE_KERNELS", str(kernels))
        yield folder


def of_driver(driver: Path, **planted: str) -> dict[str, str]:
    """The environment of a process that has the made driver alone."""
    libraries = {"LD_LIBRARY_PATH": str(driver), "HWDYNO_LIBRARIES": str(driver), "OCL_ICD_VENDORS": "/nonexistent"}
    return {**os.environ, **libraries, **planted}


def surveyed(driver: Path, **planted: str) -> Any:
    """What a new process finds with the made driver; OpenCL has no driver there."""
    environ = of_driver(driver, **planted)
    code = "import json; from hwdyno.measure import engine; print(json.dumps(engine.survey()))"
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["gpu_drivers"]


def says(found: Any, name: str) -> str:
    (searched,) = (library for library in found["looked_for"] if library["name"] == name)
    return str(searched["says"])
