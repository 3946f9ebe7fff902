"""Typical figures of a class of hardware, from a catalogue with sources: a scale to judge a headline by."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hwdyno.analysis import estimates
from hwdyno.analysis.ceilings.gpu import the_gpu
from hwdyno.analysis.ceilings.rated import catalogue
from hwdyno.model.machine import Disk, Machine
from hwdyno.report.figures import Scale

CATALOGUE = Path(__file__).parents[1] / "data" / "typical.csv"
GPU = "gpu_"
"""Begins the figures of GPUs, whose rows name a device (a pattern of its name) or the link, as ``PCIe 4.0 x16``."""
SERVERS = re.compile(r"\b(?:Xeon|EPYC|Opteron|Neoverse|Ampere|Altra|ThunderX\d?|Kunpeng|POWER\d+)\b", re.I)
MOBILE = re.compile(r"\d(?:U|H|HX|HS|P|Y|HQ|MQ|G[1-7])\b|\b(?:Core|Celeron|Pentium)\b.*\b[NM]\d{4}\b|\bM[1-9]\b")
"""Intel's and AMD's suffixes of processors for laptops."""
RDMA_DRIVERS = {"mlx4_core", "mlx5_core", "hfi1", "cxi_core", "efa"}
MIN_DRIVES = 3
"""Drives of one interface whose makers' figures have a median worth the name."""


@dataclass(frozen=True, slots=True)
class Typical:
    """A scale to judge a figure by, from the catalogue."""

    value: str
    """The value with its unit, that of the figure: ``3,500 MB/s``."""
    hardware: str
    """What has it: ``PCIe 3.0 x4 NVMe``."""
    source: str

    @property
    def says(self) -> str:
        """A value and what has it: ``3,500 MB/s for PCIe 3.0 x4 NVMe``."""
        return f"{self.value} for {self.hardware}"


def find_typical(figure: str, machine: Machine, scale: Scale) -> Typical | None:
    """The catalogue's figure of this name for hardware of the machine's kind, in the unit of ``scale``."""
    interface = name_interface(machine.storage.disk)
    drives = [
        drive.figures[figure] for drive in catalogue() if drive.interface == interface and figure in drive.figures
    ]
    if len(drives) >= MIN_DRIVES:
        source = f"median of {len(drives)} drives with this interface, by their makers' figures"
        return Typical(scale.quantity(estimates.median(drives)), _kind(interface), source)
    named = (candidate for candidate in rows() if candidate["figure"] == figure)
    row = next((candidate for candidate in named if _fits(candidate["interface"], figure, interface, machine)), None)
    if row is None:
        return None
    value = row["value"] if "%" in row["value"] else scale.quantity(float(row["value"]))
    return Typical(value, row["what"], row["source"])


def _fits(wanted: str, figure: str, interface: str, machine: Machine) -> bool:
    """Whether a row is of the machine's storage or, by its name or its link, of its GPU."""
    if not figure.startswith(GPU):
        return wanted in {interface, classify_machine(machine)} - {""}
    gpu = the_gpu(machine)
    if gpu is None or gpu.mig:
        return False
    link = f"PCIe {gpu.link_generation_max}.0 x{gpu.link_lanes_max}"
    return wanted == link or re.search(rf"\b{wanted}\b(?! ?(?:Ti|Super)\b)", gpu.name or "", re.I) is not None


def classify_machine(machine: Machine) -> str:
    """The class of a machine, as the catalogue names it; empty where nothing is known of its processor.

    One of the six in which figures are alike: laptop, desktop, board, server, cloud VM, HPC node.
    """
    model = machine.cpu.model or ""
    if machine.hypervisor is not None:
        return "cloud VM"
    if (machine.cpu.sockets or 0) > 1 and any(nic.driver in RDMA_DRIVERS for nic in machine.nics):
        return "HPC node"
    if (machine.cpu.sockets or 0) > 1 or SERVERS.search(model):
        return "server"
    if machine.os.architecture in {"aarch64", "armv7l"}:
        return "board"
    if not model:
        return ""
    return "laptop" if MOBILE.search(model) else "desktop"


def name_interface(disk: Disk) -> str:
    """A disk's interface as the catalogues name it: ``PCIe 4.0 x4``; empty where it is unknown or virtual."""
    link = disk.link
    if disk.rotational:
        return "hard disk"
    if link is None or link.type not in {"pcie", "sata"}:
        return ""
    return f"PCIe {link.generation}.0 x{link.lanes}" if link.type == "pcie" else "SATA 6 Gbit/s"


def _kind(interface: str) -> str:
    return f"{interface} NVMe" if interface.startswith("PCIe") else f"{interface.partition(' ')[0]} SSD"


@cache
def rows() -> tuple[Mapping[str, str], ...]:
    """The catalogue's rows: in base units or a share of a peak, each of an interface, a GPU or a class of machine."""
    with CATALOGUE.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))
