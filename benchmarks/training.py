"""The training loader against DLIO: CPU time per GB from the page cache, AU, memory, start-up time.

Without DLIO (``HWDYNO_DLIO`` names it), its figures are the best of DLIO 2.0.0 on a machine with two cores, and the
row says so.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from hwdyno.measure import peers
from hwdyno.measure.peers import Peer

from benchmarks import Bench, BenchError, BenchmarkRow, Parameters, Reading, Target, make_row

KERNEL = "training_loader"
MAX_PAIRS = 3
"""Fewer pairs, because a DLIO run takes 10 to 20 s, most of it start-up."""
ACCELERATORS = 100
START_UPS = 5


@dataclass(frozen=True)
class Case:
    """A data set, DLIO's recorded cost on it, and the most that ours may cost as a share of that."""

    title: str
    data: tuple[str, int, int, float, float]
    """Format, files, samples per file, bytes per sample and their standard deviation."""
    loads: tuple[int, int]
    """Samples per batch, and read threads."""
    table_s_per_gb: float
    raw: float
    checked: float

    @property
    def shape(self) -> Parameters:
        """Parameters that generate the data set."""
        names = ("format", "files", "samples_per_file", "record_bytes", "record_bytes_stdev")
        return dict(zip(names, self.data, strict=True))

    @property
    def reads(self) -> Parameters:
        """Parameters that load it."""
        return dict(zip(("batch_size", "read_threads"), self.loads, strict=True))


CASES = (
    Case("npz of 8 MiB", ("npz", 128, 1, 8 << 20, 0), (7, 4), 0.41, 0.3, 0.5),
    Case("npz of 146.6 MB", ("npz", 14, 1, 146600628, 68341808), (7, 4), 0.39, 0.3, 0.5),
    Case("resnet50 tfrecord", ("tfrecord", 8, 1251, 114660.07, 0), (400, 8), 0.97, 0.15, 0.2),
    Case("cosmoflow tfrecord", ("tfrecord", 400, 1, 2828486, 71311), (1, 4), 1.2, 0.15, 0.2),
)
COSMOFLOW_H100: Parameters = {"compute": 0.0035, "epochs": 5, "cache": "warm"}
# 34 MB per step of an H100 on unet3d, which either loader reaches on one core.
UNHURRIED: Parameters = {
    "batch_size": 4, "read_threads": 4, "compute": 0.323, "epochs": 3, "steps": 12, "cache": "warm",
}  # fmt: skip
_MEMORY = """
import json, resource, sys
from hwdyno.measure import engine
reading = engine.run("training_loader", json.loads(sys.argv[1]))
print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, reading["details"]["steps"]]))
"""
_START = """
import os, sys, time
from hwdyno.measure import engine
from hwdyno.cli.main import main
run = engine.run
def timed(kernel, parameters):
    if kernel == "training_loader":
        print(time.time())
        sys.stdout.flush()
        os._exit(0)
    return run(kernel, parameters)
engine.run = timed
main(sys.argv[1:])
"""


def measure(bench: Bench) -> Iterator[BenchmarkRow]:
    """Yield every row as it is measured."""
    peer = peers.find("dlio")
    version = peer.version()
    if version is None:
        bench.says("DLIO is not here: its figures are the table's of DLIO 2.0.0 (name it by HWDYNO_DLIO)")
    for case in CASES:
        bench.says(f"{case.title}, from the page cache" + (f", beside DLIO {version}" if version else ""))
        folder = bench.directory / case.title.replace(" ", "-")
        bench.run("training_generate", {**case.shape, "path": str(folder)})
        parameters = {**case.shape, **case.reads, "path": str(folder)}
        yield from _cost(bench, peer if version else None, case, parameters)
        if case.title.startswith("cosmoflow"):
            yield from _fed(bench, peer if version else None, {**parameters, **COSMOFLOW_H100})
            yield _memory(bench, parameters)
        if case.title == "npz of 8 MiB":
            yield from _apart(bench, peer if version else None, {**parameters, **UNHURRIED})
    yield _start_up(bench)


def _cost(bench: Bench, peer: Peer | None, case: Case, parameters: Parameters) -> Iterator[BenchmarkRow]:
    """CPU seconds per GB with compute = 0, raw and with all checksums verified, without DLIO's start-up."""
    parameters = {**parameters, "compute": 0.0, "cache": "warm", "epochs": 10_000, "runtime": max(1.0, bench.runtime_s)}
    raw, checked = [], []
    for _ in range(min(MAX_PAIRS, bench.pairs) if peer else bench.pairs):
        theirs = case.table_s_per_gb if peer is None else _theirs(peer, {**parameters, "runtime": 4.0})
        raw.append((_ours(bench.run(KERNEL, {**parameters, "parse": "raw"})), theirs))
        checked.append((_ours(bench.run(KERNEL, {**parameters, "parse": "full"})), theirs))
    source = "" if peer else " (DLIO by the table)"
    yield make_row(f"CPU time a GB, {case.title}, raw{source}", "s", raw, Target(at_most=case.raw))
    yield make_row(
        f"CPU time a GB, {case.title}, checksums verified{source}", "s", checked, Target(at_most=case.checked)
    )


def _fed(bench: Bench, peer: Peer | None, parameters: Parameters) -> Iterator[BenchmarkRow]:
    """AU of one H100 on cosmoflow with all data in memory."""
    ours = sorted(100 * _au(bench.run(KERNEL, parameters)) for _ in range(bench.pairs))
    theirs = None if peer is None else 100 * float(_run(peer, parameters)["au"])
    yield BenchmarkRow("AU of cosmoflow on an H100, all cached", "%", statistics.median(ours), theirs, None,
                       ours[0], ours[-1], Target(at_least=97))  # fmt: skip


def _apart(bench: Bench, peer: Peer | None, parameters: Parameters) -> Iterator[BenchmarkRow]:
    """The difference of our AU and DLIO's where neither is limited by CPU; no row without DLIO."""
    if peer is None:
        return
    apart = []
    for _ in range(min(MAX_PAIRS, bench.pairs)):
        ours = _au(bench.run(KERNEL, parameters))
        apart.append(100 * abs(ours - float(_run(peer, parameters)["au"])))
    yield BenchmarkRow("AU apart from DLIO's, neither client-bound", "points", statistics.median(apart),
              low=min(apart), high=max(apart), target=Target(at_most=2))  # fmt: skip


def _memory(bench: Bench, parameters: Parameters) -> BenchmarkRow:
    """Peak memory of a process with many accelerators, each with its readers."""
    bench.says(f"memory of {ACCELERATORS} accelerators")
    parameters = {
        **parameters,
        "batch_size": 1,
        "accelerators": ACCELERATORS,
        "compute": 0.05,
        "epochs": 50,
        "runtime": 5.0,
    }
    peak, steps = json.loads(_python(_MEMORY, json.dumps(parameters)))
    if not steps:
        raise BenchError(f"{ACCELERATORS} accelerators did no step")
    return BenchmarkRow(f"memory of {ACCELERATORS} accelerators", "B", peak, target=Target(at_most=2e9))


def _start_up(bench: Bench) -> BenchmarkRow:
    """The start-up time: command line to start of the load, on existing data, without plain reads."""
    bench.says("start-up")
    options = ["training", "--workload", "cosmoflow", "--accelerator", "h100", "--samples", "8", "--quiet", "--no-page"]
    place = [*options, "--no-plain", "--path", str(bench.directory), "--store", str(bench.directory / "store")]
    subprocess.run([sys.executable, "-m", "hwdyno", *place, "--generate"], check=True)
    took = []
    for _ in range(START_UPS):
        began = time.time()
        took.append(float(_python(_START, *place)) - began)
    return BenchmarkRow("from the command to its first step", "s", statistics.median(took), low=min(took),
                        high=max(took), target=Target(at_most=0.5))  # fmt: skip


def _python(script: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode or not done.stdout:
        raise BenchError(f"a process of ours failed: {done.stderr.strip()[-200:]}")
    return done.stdout.strip().splitlines()[-1]


def _ours(reading: Reading) -> float:
    return float(reading["details"]["client_cpu_s_per_gb"])


def _au(reading: Reading) -> float:
    return float(reading["details"]["au_dlio"] or 0.0)


def _theirs(peer: Peer, parameters: Parameters) -> float:
    cost = _run(peer, parameters)["cpu_s_per_gb"]
    if not cost:
        raise BenchError("DLIO told no CPU time")
    return float(cost)


def _run(peer: Peer, parameters: Parameters) -> Parameters:
    try:
        return dict(peer.run(KERNEL, parameters).details)
    except (ValueError, OSError) as error:
        raise BenchError(f"DLIO: {error}") from None
