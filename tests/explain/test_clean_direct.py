"""Direct I/O that reaches the device is never called cached, regardless of its blocks, depth, jobs and times.

``HWDYNO_CLEAN_RUNS=1000 python -m pytest tests/explain/test_clean_direct.py`` tries as many geometries as that.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from devices import MIB, command
from here import sample
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.rule import Case
from hwdyno.explain.findings.truth import missed_device
from hwdyno.measure import engine
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.measurement import make_measurement
from hwdyno.model.machine import Machine
from hwdyno.model.words import Parameters, Run
from made_experiment import made_experiment

pytestmark = [
    pytest.mark.machine,
    pytest.mark.slow,  # 60 real readings or more
]

RUNS = int(os.environ.get("HWDYNO_CLEAN_RUNS", sample(12, 100)))
SIZE = 256 * MIB
MAX_IN_FLIGHT = 128 * MIB
KERNEL = Local().kernels()["storage_blocks"]


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    """A written file on a disk as a rule, so that direct I/O is possible."""
    directory = Path(command("mktemp", "--directory", "/var/tmp/hwdyno-test-XXXXXXXX"))
    path = directory / "file"
    engine.run("storage_layout", {"path": str(path), "size": SIZE})
    yield path
    shutil.rmtree(directory)


def geometry(number: int) -> Parameters:
    """Blocks of 4 KiB to 32 MiB, one job to eight, most of them too long for their window's edges."""
    draw = random.Random(number)
    bs = 1 << draw.choice((12, 14, 17, 20, 22, 24, 25))
    jobs = min(draw.choice((1, 2, 4, 8)), MAX_IN_FLIGHT // bs)
    engine_name = draw.choice(("libaio", "io_uring", "psync"))
    depth = 1 if engine_name == "psync" else min(draw.choice((1, 4, 16)), MAX_IN_FLIGHT // bs // jobs)
    return {
        "rw": draw.choice(("read", "randread", "read", "randread", "randrw", "write")),
        "bs": bs,
        "iodepth": max(1, depth),
        "numjobs": jobs,
        "ioengine": engine_name,
        "direct": True,
        "runtime": draw.choice((0.01, 0.02)),
        "ramp_time": draw.choice((0.0, 0.01)),
    }


def test_clean_direct_run_is_never_cached(file: Path) -> None:
    cached = []
    for number in range(RUNS):
        given = geometry(number)
        readings = [engine.run("storage_blocks", {**given, "path": str(file), "seed": seed}) for seed in (1, 2)]
        point = make_measurement(given, readings, KERNEL)
        result = made_experiment("storage.clean", "storage", "clean", "bs", "storage_blocks", (point,))
        run = explain(Run("r", "", None, (Machine(),), "quick", "hwdyno storage", (result,)))
        if any(finding.rule == "page_cache" for finding in run.findings):
            cached.append((given, missed_device(Case(run, result, 0))))
    assert not cached, f"{len(cached)} of {RUNS}"
