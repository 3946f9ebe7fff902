"""``hwdyno machine``: short sections for a reader, one JSON document, and one line for a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwdyno.cli.main import main

TREES = Path(__file__).parents[1] / "trees"


def output(capsys: pytest.CaptureFixture[str], tree: str, path: str, *more: str) -> str:
    assert main(["machine", "--root", str(TREES / f"{tree}.tree"), "--path", path, *more]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_a_reader_sees_the_way_down_to_the_disk_and_what_bounds_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = output(capsys, "nvme-server", "/srv/data/x")
    for words in (
        "AMD EPYC 7313",
        "2 sockets, 32 cores, 64 threads",
        "vg0-data: logical volume (dm-0) → md127",
        "raid0 of 2, chunk 512 KiB → nvme0n1p1, nvme1n1p1",
        "nvme0n1: SAMSUNG MZQL21T9HCJR-00A07, nvme, solid state",
        "PCIe 4.0 x2; the device can do PCIe 4.0 x4; the slot can do PCIe 4.0 x2",
        "11.8 GB/s  reads and writes: raid0 of 2",
        "16 GT/s × 4 lanes × 128/130 / 8",
        "Samsung Data Center SSD PM9A3 product brief",
        "25.0 Gbit/s",
        "NVIDIA A100 80GB PCIe",
        "0-15, 32-47",
    ):
        assert words in out, words
    assert max(map(len, out.splitlines())) <= 110


def test_every_unknown_has_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(output(capsys, "virtual-machine", "/home").split())
    machine = json.loads(output(capsys, "virtual-machine", "/home", "--json"))
    assert machine["unknown"]
    for path, why in machine["unknown"].items():
        assert path in out and why in out
    assert "no ceiling from the link of vda" in out


def test_limits_of_a_container_stand_out(capsys: pytest.CaptureFixture[str]) -> None:
    out = output(capsys, "container", "/tmp")
    assert "2.5 processors, 4 GiB of memory, processors 0-3" in out


def test_json_is_machine_with_its_ceilings(capsys: pytest.CaptureFixture[str]) -> None:
    machine = json.loads(output(capsys, "usb-stick", "/media/stick", "--json", "--ceiling", "rated write 240 MB/s"))
    assert machine["storage"]["disks"][0]["kind"] == "usb"
    assert [c["value"] for c in machine["ceilings"] if c["kind"] == "physical"] == [500e6, 500e6]
    assert machine["ceilings"][-1]["value"] == 240e6


@pytest.mark.parametrize("tree", sorted(path.stem for path in TREES.glob("*.tree")))
def test_every_recorded_machine_can_be_read(tree: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = output(capsys, tree, "/")
    assert "Processor" in out and "Storage behind /" in out
    assert "None" not in out


@pytest.mark.parametrize(
    "arguments", [["--path", "/no/such/place"], ["--root", "/no/such.tree"], ["--ceiling", "very fast"]]
)
def test_a_mistake_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("hwdyno: ") and err.count("\n") == 1


def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machine"]) == 0
    out, _ = capsys.readouterr()
    assert "Processor" in out and "Hz measured" in out
