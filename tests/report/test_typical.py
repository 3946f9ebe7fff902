"""Typical values are those of their like: storage of the same interface, the same GPU, the same class of machine."""

from __future__ import annotations

from typing import Any

import pytest
from hwdyno.model.machine import Cpu, CudaDevice, Disk, GpuDrivers, Link, Machine, Nic, OperatingSystem, Storage
from hwdyno.report import typical
from hwdyno.report.figures import Scale


def test_a_typical_figure_is_of_this_kind_of_hardware_and_has_a_source() -> None:
    megabytes, micro = Scale(1e6, "MB/s"), Scale(1e3, "µs")

    def machine(**link: Any) -> Machine:
        return Machine(storage=Storage(disks=(Disk(name="a", link=Link(**link)),)))

    fourth = typical.find_typical("read_bytes_s", machine(type="pcie", generation=4, lanes=4), megabytes)
    third = typical.find_typical("read_bytes_s", machine(type="pcie", generation=3, lanes=4), megabytes)
    assert fourth is not None and third is not None and "makers' figures" in fourth.source
    number = [float(figure.value.partition(" ")[0].replace(",", "")) for figure in (third, fourth)]
    assert 3000 < number[0] < 3938 and 5000 < number[1] < 7877, "below what each link carries"
    assert fourth.hardware == "PCIe 4.0 x4 NVMe" and fourth.says == f"{fourth.value} for PCIe 4.0 x4 NVMe"
    assert typical.find_typical("read_bytes_s", machine(type="none"), megabytes) is None
    assert typical.find_typical("randread_4k_q1_ns", machine(type="usb"), micro) is None
    assert typical.find_typical("", Machine(), megabytes) is None
    for row in typical.rows():
        assert row["source"] and row["what"] and float(row["value"].partition("%")[0]) > 0


def test_gpu_figure_has_published_like() -> None:
    def of(figure: str, **stated: Any) -> str:
        made = Machine(gpu_drivers=GpuDrivers(cuda=(CudaDevice(**stated),)))
        found = typical.find_typical(figure, made, Scale(1e9, "GB/s"))
        return found.says if found else ""

    assert of("gpu_triad_bytes_s", name="Tesla K40m") == "191 GB/s for a Tesla K40m"
    assert of("gpu_triad_bytes_s", name="NVIDIA GeForce GTX 980 Ti") == "269 GB/s for a GeForce GTX 980 Ti"
    assert of("gpu_triad_bytes_s", name="NVIDIA GeForce GTX 980") == "172 GB/s for a GeForce GTX 980"
    assert of("gpu_triad_bytes_s", name="NVIDIA TITAN X (Pascal)") == of("gpu_triad_bytes_s", name="Tesla M40") == ""
    assert of("gpu_triad_bytes_s", name="Tesla K80", mig=True) == "", "of a part nothing is published"
    link = {"link_generation_max": 4, "link_lanes_max": 16}
    assert of("gpu_pinned_bytes_s", name="any", **link) == "26.0 GB/s for PCIe 4.0 x16"
    assert of("gpu_pinned_bytes_s", name="any", **{**link, "link_lanes_max": 8}) == ""
    assert typical.find_typical("gpu_fp32_flop_s", Machine(), Scale(1e9, "GFLOP/s")) is None


@pytest.mark.parametrize(("given", "name"), [
    ({"cpu": Cpu(model="AMD EPYC 7763"), "hypervisor": "kvm"}, "cloud VM"),
    ({"cpu": Cpu(model="Intel(R) Xeon(R) Gold 6248", sockets=2), "nics": (Nic(driver="mlx5_core"),)}, "HPC node"),
    ({"cpu": Cpu(model="Intel(R) Xeon(R) Silver 4110", sockets=1)}, "server"),
    ({"cpu": Cpu(model="Neoverse-N1"), "os": OperatingSystem(architecture="aarch64")}, "server"),
    ({"cpu": Cpu(model="Cortex-A76"), "os": OperatingSystem(architecture="aarch64")}, "board"),
    ({"cpu": Cpu(model="11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz")}, "laptop"),
    ({"cpu": Cpu(model="AMD Ryzen 7 5800H with Radeon Graphics")}, "laptop"),
    ({"cpu": Cpu(model="AMD Ryzen 9 7950X 16-Core Processor")}, "desktop"),
    ({"cpu": Cpu(model="13th Gen Intel(R) Core(TM) i7-13700K")}, "desktop"), ({}, ""),
])  # fmt: skip
def test_a_machine_stands_beside_its_like(given: dict[str, Any], name: str) -> None:
    machine = Machine(**given)
    assert typical.classify_machine(machine) == name
    found = {
        figure: typical.find_typical(figure, machine, Scale(1e9, "x"))
        for figure in ("linpack", "dram_idle_ns", "dram_bytes_s")
    }
    more = {"cloud VM": {"dram_bytes_s"}, "server": {"dram_idle_ns"}, "board": {"dram_bytes_s"}}
    known = {"linpack"} | more.get(name, set()) if name else set()
    assert {figure for figure, typical_figure in found.items() if typical_figure} == known
