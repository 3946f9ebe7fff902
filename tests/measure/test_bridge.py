"""The border between Python and the engine: three verbs, errors mapped, the lock released, a true stub."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hwdyno.measure import engine, experiments, workloads
from hwdyno.measure.hosts.local import Local
from hwdyno.model import kernels as names_of_kernels
from hwdyno.model.axes import with_clients

ROOT = Path(__file__).parents[2]


def test_stub_says_what_bridge_has(tmp_path: Path) -> None:
    (tmp_path / "hwdyno").mkdir()
    (tmp_path / "hwdyno" / "__init__.pyi").touch()
    shutil.copy(ROOT / "python" / "hwdyno" / "_engine.pyi", tmp_path / "hwdyno")
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "hwdyno._engine", "--ignore-missing-stub"],
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_kernel_declares_itself_in_full() -> None:
    for name, kernel in engine.kernels().items():
        assert kernel.measures, name
        assert kernel.counts, name
        for axis in kernel.axes:
            assert axis.means, (name, axis.name)
            assert axis.kind in {"integer", "number", "choice", "text", "flag", "integers"}


ROLES = {"concurrency", "size", "rate", "delay", "label"}
TRAITS = {"reads", "writes", "random", "trims", "synchronous", "synchronous_buffered", "page_cache"}
LABELS_AS_LOADS = {
    "working_set": "names a level of the memory: a larger set is another memory, not more load",
    "node": "names a NUMA node",
    "operation": "names an operation: each is a point of its own",
    "nrfiles": "names the size of a tree",
    "n": "names the size of a problem",
    "on": "names a device: each is a point of its own",
    "precision": "names a type of numbers: each is a point of its own",
    "intensity": "names a point under both roofs: more operations a byte are another kernel, not more load",
    "tokens": "names the length of a context: a longer one is another question, not more load",
}


def test_every_kernel_and_workload_declares_what_its_axes_are_and_what_it_changes() -> None:
    for name, kernel in (engine.kernels() | workloads.all()).items():
        assert kernel.operation, name
        assert kernel.writes in {"nothing", "file", "folder", "device"}, name
        assert set(kernel.consent) <= set(kernel.names), name
        for axis in kernel.axes:
            place = (name, axis.name)
            assert axis.role in ROLES, place
            assert not axis.workers or axis.role == "concurrency", place
            assert set(axis.traits) <= set(axis.choices), place
            assert set(axis.per_element) <= set(axis.choices), place
            assert {trait for traits in axis.traits.values() for trait in traits} <= TRAITS, place
            assert not axis.split or axis.split in kernel.names, place


def test_every_kernel_that_is_named_exists() -> None:
    named = {value for name, value in vars(names_of_kernels).items() if name.isupper()}
    assert named and named <= set(Local().kernels())


def test_a_load_has_a_role_or_a_reason_for_none() -> None:
    known = with_clients(engine.kernels() | workloads.all(), 4, between=True)
    for experiment in experiments.all():
        if known[experiment.kernel].axis(experiment.load).role == "label":
            assert experiment.load in LABELS_AS_LOADS, experiment.name


def test_an_unknown_kernel_is_named_with_those_that_there_are() -> None:
    with pytest.raises(engine.UsageError, match=r"no kernel is called 'nonsense'; known: .*\bidle\b"):
        engine.run("nonsense", {})


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"runtim": 1}, "idle has no parameter 'runtim'"),
        ({"runtime": "long"}, 'runtime = "long": must be a number'),
        ({"runtime": -1}, "runtime = -1: must be 0.001 to"),
    ],
)
def test_wrong_parameter_is_named_first(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(engine.UsageError) as error:
        engine.run("idle", parameters)
    assert says in str(error.value)


def test_the_interpreter_runs_on_while_a_kernel_does() -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    engine.run("idle", {"runtime": 0.3})
    during = ticks - before
    done.set()
    thread.join()
    assert during > 20, "the lock was held"


def test_the_first_interrupt_ends_the_run_with_what_it_has() -> None:
    killer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    killer.start()
    reading = engine.run("idle", {"runtime": 30.0})
    assert reading["interrupted"]
    assert 0.1 < reading["elapsed_s"] < 10
    assert reading["streams"][0]["operations"] > 0


KEEPER = """
import re, threading
from pathlib import Path
from hwdyno.measure import engine

CHUNK, CHUNKS, THREADS = 64 << 10, 400, 2
kept, full = [], threading.Barrier(THREADS)

def work():
    # Both at once, so that they have arenas of their own; what is kept lies above all that is freed.
    chunks = [b"x" * CHUNK for _ in range(CHUNKS)]
    full.wait()
    kept.append(b"x" * CHUNK)
    del chunks

def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10

engine.run("idle", {"runtime": 0.01})
threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
before = anonymous()
engine.run("idle", {"runtime": 0.01})
print((before - anonymous()) / (THREADS * CHUNKS * CHUNK))
"""


def test_a_kernel_gives_back_the_memory_that_the_allocator_keeps_for_ended_threads() -> None:
    done = subprocess.run([sys.executable, "-c", KEEPER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.9
