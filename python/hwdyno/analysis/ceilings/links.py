"""Ceilings of a wire: what its signal rate leaves for data once the standard's encoding is paid.

Each is the bound of one direction. PCI Express, SAS, USB 3 and Ethernet carry both directions at once;
SATA, USB 2 and memory card buses carry one at a time, so that reads and writes together are bounded too.
"""

from __future__ import annotations

from dataclasses import dataclass

from hwdyno.model.machine import Link
from hwdyno.model.units import format_bytes_s, plural
from hwdyno.model.words import Ceiling

PCIE_GT_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Transfers per second and lane, in 10^9, by generation (PCI Express Base Specification 1.0 to 6.0)."""
PCIE_ENCODING = {1: (8, 10), 2: (8, 10), 3: (128, 130), 4: (128, 130), 5: (128, 130), 6: (242, 256)}
"""Data and signal bits by generation; generation 6 sends flits of 256 B of which 242 B are data and their headers."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a wire can carry in one direction, in bytes/s, and whether both directions share it."""

    bytes_s: float
    formula: str
    source: str
    label: str
    shared: bool = False

    def ceilings(self) -> tuple[Ceiling, ...]:
        """The bounds of reads, of writes, and of both together where they share the wire."""
        metrics = ("read_bytes_s", "write_bytes_s", *(("total_bytes_s",) if self.shared else ()))
        return tuple(
            Ceiling(metric, "physical", self.bytes_s, "bytes/s", self.formula, self.source, self.label)
            for metric in metrics
        )


def of_link(link: Link) -> Rate | None:
    """The rate of a disk's ``link`` by the survey; none where its standard or rate is unknown."""
    makers = {"pcie": _pcie, "sata": _sata, "sas": _sas, "usb": _usb, "mmc": _mmc, "network": _network}
    maker = makers.get(link.type or "")
    return maker(link) if maker and link.bits_s else None


def _equals(bytes_s: float) -> str:
    return f"= {format_bytes_s(bytes_s)}"


def pcie(generation: int, lanes: int) -> Rate:
    """A PCI Express link: GT/s × lanes × encoding / 8."""
    data, signal = PCIE_ENCODING[generation]
    giga = PCIE_GT_S[generation]
    bytes_s = giga * 1e9 * lanes * data / signal / 8
    return Rate(
        bytes_s,
        f"{giga:g} GT/s × {plural(lanes, 'lane')} × {data}/{signal} / 8 {_equals(bytes_s)}",
        f"PCI Express Base Specification {generation}.0: {data}b/{signal}b encoding"
        if generation < 6
        else "PCI Express Base Specification 6.0: 242 B of each 256 B flit",
        f"PCIe {generation}.0 x{lanes}",
    )


def _pcie(link: Link) -> Rate | None:
    """The link now, or the slowest one on its way to the processor."""
    narrow = link.upstream or link
    generation, lanes = narrow.generation, narrow.lanes
    if not isinstance(generation, int) or generation not in PCIE_GT_S or lanes is None or lanes < 1:
        return None
    rate = pcie(generation, lanes)
    if narrow is link:
        return rate
    return Rate(rate.bytes_s, rate.formula, rate.source, f"{rate.label} at {narrow.address}, above the disk")


def _eight_ten(link: Link, source: str, label: str, shared: bool = False) -> Rate:
    bits_s = float(link.bits_s or 0)
    bytes_s = bits_s * 8 / 10 / 8
    return Rate(bytes_s, f"{bits_s / 1e9:g} Gbit/s × 8/10 / 8 {_equals(bytes_s)}", source, label, shared)


def _sata(link: Link) -> Rate:
    giga = float(link.bits_s or 0) / 1e9
    return _eight_ten(link, "Serial ATA Revision 3: 8b/10b encoding, half duplex", f"SATA {giga:g} Gbit/s", shared=True)


def _sas(link: Link) -> Rate:
    bits_s, lanes = float(link.bits_s or 0), (link.lanes or 1)
    lane = bits_s / lanes / 1e9
    label = f"SAS {lane:g} Gbit/s" + (f" x{lanes}" if lanes > 1 else "")
    if lane > 12.5:
        bytes_s = bits_s * 128 / 150 / 8
        formula = f"{bits_s / 1e9:g} Gbit/s × 128/150 / 8 {_equals(bytes_s)}"
        return Rate(bytes_s, formula, "SAS-4 (INCITS 534): 128b/150b encoding", label)
    return _eight_ten(link, "SAS-3 (INCITS 519): 8b/10b encoding", label)


def _usb(link: Link) -> Rate | None:
    megabits, lanes = float(link.bits_s or 0) / 1e6, (link.lanes or 1)
    if megabits == 480:
        # protocol, not signalling, is the bound: no host may put more packets into a microframe
        bytes_s = 13 * 512 * 8000.0
        formula = f"13 bulk packets × 512 B × 8000 microframes/s {_equals(bytes_s)}"
        return Rate(bytes_s, formula, "USB 2.0 Specification, table 5-10", "USB 2.0", shared=True)
    if megabits == 12:
        bytes_s = 19 * 64 * 1000.0
        formula = f"19 bulk packets × 64 B × 1000 frames/s {_equals(bytes_s)}"
        return Rate(bytes_s, formula, "USB 2.0 Specification, table 5-9", "USB 1.1 full speed", shared=True)
    if megabits == 5000 or (megabits == 10000 and lanes == 2):
        return _eight_ten(link, "USB 3.2 Specification: Gen 1, 8b/10b encoding", f"USB 3.2 Gen 1x{lanes}")
    if megabits in {10000, 20000}:
        lanes = 2 if megabits == 20000 else 1
        bytes_s = megabits * 1e6 * 128 / 132 / 8
        formula = f"{megabits / 1e3:g} Gbit/s × 128/132 / 8 {_equals(bytes_s)}"
        return Rate(bytes_s, formula, "USB 3.2 Specification: Gen 2, 128b/132b encoding", f"USB 3.2 Gen 2x{lanes}")
    return None


def _mmc(link: Link) -> Rate:
    bits_s, width = float(link.bits_s or 0), (link.lanes or 1)
    clock = link.clock_hz
    bytes_s = bits_s / 8
    edges = f"{bits_s / clock / width:g} × " if clock else ""
    of = f"{edges}{clock / 1e6:g} MHz × {width} bits" if clock else f"{bits_s / 1e9:g} Gbit/s"
    source = "JEDEC JESD84 (eMMC) and SD Physical Layer Specification: clock × width, half duplex"
    return Rate(bytes_s, f"{of} / 8 {_equals(bytes_s)}", source, link.mode or "memory card bus", shared=True)


def _network(link: Link) -> Rate | None:
    if link.nic == "lo":
        return None
    bits_s = float(link.bits_s or 0)
    bytes_s = bits_s / 8
    formula = f"{bits_s / 1e9:g} Gbit/s / 8 {_equals(bytes_s)}"
    source = "IEEE 802.3: the rate that the interface states, after its encoding"
    return Rate(bytes_s, formula, source, f"{bits_s / 1e9:g} Gbit/s network ({link.nic})")
