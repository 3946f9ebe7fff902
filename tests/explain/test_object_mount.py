"""A bucket that is mounted through FUSE, measured beside its store in one Run: what the mount costs, or its cache."""

from __future__ import annotations

import random
import shlex
from dataclasses import replace

import pytest
from here import sample
from hwdyno.cli.main import make_parser
from hwdyno.explain.findings import explain
from hwdyno.model.machine import Disk, Layer, Storage
from hwdyno.model.words import Finding, Run
from made_experiment import made_experiment
from made_memory import point
from simulation.object_store import SimulatedStore
from style import find_faults
from test_object_findings import LARGE, measured

MIB = 1 << 20
PLACE = "/mnt/data"


def with_mount(run: Run, share: float, *, kind: str = "fuse", direct: bool = True) -> Run:
    """The Run with reads of a file, as fast as this share of the fastest reads of objects."""
    fastest = max(made.throughput.value for made in run.experiments[0].points)
    reads = point(share * fastest, rw="read", bs=MIB, iodepth=8, direct=direct, size=256 * MIB)
    file = made_experiment(
        "storage.sweep",
        "storage",
        "?",
        "iodepth",
        "storage_blocks",
        (reads,),
        fixed={"path": f"{PLACE}/hwdyno-1234/data"},
    )
    disk = Disk(name="lab:bench", kind=kind, driver="rclone")
    detail = "lab:bench through rclone (vfs-cache-mode=off)"
    layers = (Layer(PLACE, "network", detail, ("lab:bench",)),)
    machine = replace(
        run.machine, storage=Storage(PLACE, PLACE, "fuse.rclone", source="lab:bench", chain=layers, disks=(disk,))
    )
    return replace(run, machines=(machine,), experiments=(*run.experiments, file), findings=())


def find(run: Run) -> Finding | None:
    return next((finding for finding in explain(run).findings if finding.rule == "object_mount"), None)


def test_random_mounts_show_what_they_cost() -> None:
    for seed in range(sample(10, 200)):
        draw = random.Random(seed)
        run = measured(SimulatedStore.random(seed), LARGE)
        found = find(with_mount(run, share := draw.uniform(0.1, 0.8)))
        assert found is not None and found.severity == "warning", (seed, share)
        assert found.evidence["share"] == pytest.approx(share)
        assert "rclone" in found.says and "vfs-cache-mode=off" in found.says
        cached = find(with_mount(run, draw.uniform(1.3, 20)))
        assert cached is not None and cached.says.startswith("A cache of the mount answers: rclone reads"), seed
        for alike in (draw.uniform(0.93, 1.07), 1.0):
            assert find(with_mount(run, alike)) is None, seed


def test_reads_that_are_no_mounts_are_no_cost() -> None:
    run = measured(SimulatedStore.random(1), LARGE)
    assert find(run) is None and find(with_mount(run, 0.3, kind="nvme")) is None
    assert find(with_mount(run, 0.3, direct=False)) is None, "the page cache is none of the mount's"


@pytest.mark.parametrize("share", [0.3, 5.0])
def test_advice_is_a_command_on_the_mount(share: float) -> None:
    found = find(with_mount(measured(SimulatedStore.random(1), LARGE), share))
    assert found is not None
    assert not find_faults(found.says) + find_faults(found.advice), found.says
    _, _, line = found.advice.partition("hwdyno ")
    words = shlex.split(line)
    args = make_parser("storage").read(words[1:])
    assert words[0] == "storage" and str(args.path) == PLACE and "--rw read" in line
