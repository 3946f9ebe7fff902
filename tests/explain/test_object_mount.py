"""A bucket that is mounted through FUSE, measured beside its store in one Run: what the mount costs, or its cache."""

from __future__ import annotations

import json
import random
import shlex
from dataclasses import replace

import pytest
from here import sample
from hwdyno.cli.main import make_parser
from hwdyno.explain.comparison import runs_compared, status
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.object_mount import find_bucket
from hwdyno.model.machine import Disk, Layer, Storage
from hwdyno.model.words import Finding, Run
from hwdyno.report import compared_files, compared_page
from hwdyno.report.compared import format_comparison
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


def apart(run: Run) -> tuple[Run, Run]:
    """Its measurement of the mount, and that of the store from another folder of the same machine."""
    requests, file = run.experiments
    elsewhere = replace(run.machine, storage=Storage(filesystem="ext4", disks=(Disk(name="vda", kind="virtio"),)))
    mount = replace(run, id="m", experiments=(file,), command=f"hwdyno storage --path {PLACE}")
    return mount, replace(run, id="s", experiments=(requests,), machines=(elsewhere,))


def with_bucket(run: Run, name: str) -> Run:
    requests, *others = run.experiments
    return replace(run, experiments=(replace(requests, fixed={**requests.fixed, "bucket": name}), *others))


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


def test_two_runs_of_one_machine_tell_what_a_mount_costs() -> None:
    for seed in range(sample(10, 200)):
        draw = random.Random(seed)
        whole = with_mount(measured(SimulatedStore.random(seed), LARGE), share := draw.uniform(0.1, 0.7))
        mount, store = apart(whole)
        for before, after in ((mount, store), (store, mount)):
            side = runs_compared(before, after, "other")
            assert side.is_one_machine and side.is_alike and not side.changes, seed
            assert side.finding is not None and side.finding.evidence["share"] == pytest.approx(share)
            text = format_comparison("base", [side])
            assert "The mount costs" in text and "ratio" not in text and "common points" not in text
            assert status([side], None) == "passed" and status([side], 0.9) == "open"
        for alike in (draw.uniform(0.93, 1.07), draw.uniform(0.88, 0.9)):
            sides = apart(with_mount(measured(SimulatedStore.random(seed), LARGE), alike))
            assert runs_compared(*sides, "other").finding is None, (seed, alike)


def test_runs_of_different_machines_or_buckets_tell_nothing_of_a_mount() -> None:
    whole = with_mount(measured(SimulatedStore.random(1), LARGE), 0.3)
    mount, store = apart(whole)
    other = replace(store, machines=(replace(store.machine, cpu=replace(store.machine.cpu, model="Other")),))
    assert runs_compared(mount, other, "other").finding is None
    assert runs_compared(mount, with_bucket(store, "logs"), "other").finding is None
    assert runs_compared(store, store, "other").finding is None
    assert runs_compared(whole, store, "other").finding is not None, "another Run's reads are taken, not its own"
    assert find(with_bucket(whole, "logs")) is None, "one Run has the same care"


@pytest.mark.parametrize(
    ("program", "source", "bucket"),
    [
        ("rclone", "lab:bench", "bench"),
        ("rclone", "lab:bench/folder", "bench"),
        ("rclone", "secret:", ""),
        ("goofys", "bench:folder", "bench"),
        ("s3fs", "s3fs", ""),
        ("mount-s3", "mountpoint-s3", ""),
    ],
)
def test_a_mounts_bucket_is_read_from_its_source(program: str, source: str, bucket: str) -> None:
    assert find_bucket(Disk(name=source, kind="fuse", driver=program)) == bucket


def test_a_mount_that_does_not_state_its_bucket_says_so() -> None:
    mount, store = apart(with_mount(measured(SimulatedStore.random(1), LARGE), 0.3))
    disk = Disk(name="secret:", kind="fuse", driver="rclone")
    unknown = replace(mount, machines=(replace(mount.machine, storage=replace(mount.machine.storage, disks=(disk,))),))
    found = runs_compared(unknown, store, "other").finding
    assert found is not None and "It does not state its bucket." in found.says
    assert not find_faults(found.says) + find_faults(found.advice), found.says


def test_every_format_of_a_comparison_has_the_mount() -> None:
    side = runs_compared(*apart(with_mount(measured(SimulatedStore.random(1), LARGE), 0.3)), "other")
    assert side.finding is not None
    (stated,) = json.loads(compared_files.json_text("base", [side], None))["sides"]
    assert stated["finding"]["says"] == side.finding.says
    assert side.finding.says.split(":")[0] in compared_page.html("base", [side])
    assert "<testsuites" in compared_files.junit("base", [side], None)
