"""The survey by the engine: recorded machines of unlike kinds, and the ceilings that follow from each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hwdyno.analysis.resources import list_ceilings, why_no_ceiling
from hwdyno.measure import engine
from hwdyno.model.machine import Machine

TREES = Path(__file__).parents[1] / "trees"


def machine(tree: str, path: str) -> dict[str, Any]:
    return engine.survey(Path(path), TREES / f"{tree}.tree")


def typed(tree: str, path: str) -> Machine:
    return Machine.of_survey(machine(tree, path))


@pytest.mark.parametrize(
    ("tree", "path", "disk", "kind", "read_gb_s", "label"),
    [
        ("nvme-server", "/srv/data/file", "nvme0n1", "nvme", 11.815, "raid0 of 2"),
        ("nvme-server", "/dev/nvme1n1", "nvme1n1", "nvme", 3.938, "PCIe 4.0 x2"),
        ("sata-laptop", "/home/anna", "sda", "sata", 0.6, "SATA 6 Gbit/s"),
        ("sata-laptop", "/mnt/my archive", "sdb", "sata", 0.3, "SATA 3 Gbit/s"),
        ("usb-stick", "/media/stick", "sda", "usb", 0.5, "USB 3.2 Gen 1x1"),
        ("usb-stick", "/media/old", "sdb", "usb", 0.053248, "USB 2.0"),
        ("usb-stick", "/media/box", "sdc", "usb", 1.2121, "USB 3.2 Gen 2x1"),
        ("arm64-edge", "/data", "nvme0n1", "nvme", 3.938, "PCIe 3.0 x4"),
        ("arm64-edge", "/", "mmcblk0", "mmc", 0.4, "mmc HS400 enhanced strobe"),
        ("container", "/tmp", "nvme0n1", "nvme", 7.877, "PCIe 4.0 x4"),
        ("cluster-node", "/home/u1001", "filer.cluster:/export/home", "nfs", 12.5, "100 Gbit/s network (ens2f0)"),
        ("cluster-node", "/opt/image", "sda", "sas", 1.2, "SAS 12 Gbit/s"),
    ],
)
def test_disk_below_path_and_its_link(tree: str, path: str, disk: str, kind: str, read_gb_s: float, label: str) -> None:
    found = machine(tree, path)
    first = found["storage"]["disks"][0]
    assert (first["name"], first["kind"]) == (disk, kind)
    ceiling = next(
        c for c in list_ceilings(typed(tree, path), "storage") if (c.metric, c.kind) == ("read_bytes_s", "physical")
    )
    assert ceiling.value == pytest.approx(read_gb_s * 1e9, rel=1e-3)
    assert ceiling.label == label


@pytest.mark.parametrize(
    ("tree", "path", "read_mb_s"),
    [
        ("nvme-server", "/srv/data/file", 13600),
        ("sata-laptop", "/home/anna", 560),
        ("sata-laptop", "/mnt/my archive", 115),
        ("usb-stick", "/media/stick", 400),
        ("arm64-edge", "/data", 3500),
        ("container", "/tmp", 5150),
        ("cluster-node", "/local", 261),
    ],
)
def test_found_drive_has_makers_figures(tree: str, path: str, read_mb_s: float) -> None:
    rated = [c for c in list_ceilings(typed(tree, path), "storage") if (c.metric, c.kind) == ("read_bytes_s", "rated")]
    assert [c.value for c in rated] == [read_mb_s * 1e6]


@pytest.mark.parametrize(
    ("tree", "path", "why"),
    [
        ("virtual-machine", "/home", "hypervisor"),
        ("cluster-node", "/tank", "ZFS"),
        ("cluster-node", "/dev/shm", "memory"),
    ],
)
def test_unknown_storage_has_a_reason(tree: str, path: str, why: str) -> None:
    found = typed(tree, path)
    assert list_ceilings(found, "storage") == ()
    assert why in why_no_ceiling(found, "storage")[0]


def test_this_machine_is_described() -> None:
    found = engine.survey(Path("/"))
    assert found["cpu"]["threads"] >= 1 and found["memory"]["total_bytes"] > 0
    assert found["storage"]["mount_point"]
    assert all(isinstance(why, str) and why for why in found["unknown"].values())
