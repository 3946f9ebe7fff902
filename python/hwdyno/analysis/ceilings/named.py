"""Ceilings of a link or a device that a person or a table names: ``PCIe 3 x4``, ``USB 3.1 Gen 1``, ``10GbE``.

Of a network's rate, the largest UDP payload of a jumbo frame is left: 8972 B of 9038 B on the wire (IEEE 802.3).
Smaller frames leave less, so it bounds every payload.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from hwdyno.analysis.ceilings.links import PCIE_GT_S, Rate, of_link, pcie
from hwdyno.analysis.ceilings.rated import Rated, catalogue
from hwdyno.model.axes import is_loopback
from hwdyno.model.machine import Link
from hwdyno.model.units import format_bytes_s
from hwdyno.model.words import Ceiling, UserError

GPUS = Path(__file__).with_name("gpus.csv")
LINE, HOST_COPY, DEVICE_COPY = "line/bytes_s", "host_copy/bytes_s", "device_copy/bytes_s"
"""Metrics of a network's line, of copies between host and GPU, and of copies within a GPU."""
JUMBO_PAYLOAD, JUMBO_WIRE = 8972, 9038
_HOW = "write it as 'PCIe 3 x4', 'SATA 3', 'USB 3.1 Gen 1', '10GbE' or 'DDR4-3200 x2'"
_GIGA = r"(?:g(?:b(?:it)?)?(?:e|ps|/s|ig)?|gige|gb ?e(?:thernet)?|g ?e(?:thernet)?)"
_WIDTH = r"(?:\s*[x×]\s*(\d{1,2})|\s+(\d{1,2})\s*[x×]|\s+(\d{1,2}) lanes?)"
_PCIE = re.compile(
    rf"pci(?:-?e| ?express)\s*(?:gen(?:eration)?\s*)?v?([1-6])(?:\.\d)?(?:{_WIDTH})?|gen "
    rf"?([1-6])\s*[x×]\s*(\d{{1,2}})|pci-?e\s*[x×](\d{{1,2}})"
)
_GENERATION, _LANES = re.compile(r"\bgen(?:eration)? ?([1-6])\b"), re.compile(r"\b[x×] ?(\d{1,2})\b")
"""Where they do not follow the name: ``x8 PCIe 4.0``, ``PCIe x4 Gen 3``."""
_SATA = re.compile(
    r"\bsata(?:\s*(?:rev(?:ision)?\.?\s*)?(iii|ii|i|[123])(?:\.\d)?\b)?(?:[^\d]{0,12}(1\.5|3|6)(?:\.0)?\s*g)?"
)
_SAS = re.compile(r"\bsas(?:[- ]?([1-4])\b)?(?:[^\d]{0,8}(3|6|12|24)\s*g)?")
_USB = re.compile(
    r"\busb\s*(?:type-?c\s*)?(4|[1-3](?:\.\d)?)(?:\s*gen\s*([12])(?:\s*[x×]\s*([12]))?)"
    r"?(?:[^\d]{0,8}(5|10|20|40|80)\s*g)?"
)
_ETHERNET = re.compile(
    rf"(?:(\d{{1,2}})\s*[x×]\s*)?(\d{{1,3}}(?:\.\d)?)\s*(?:{_GIGA})\b(?:\s*(?:ethernet|"
    rf"link|nic|network|lan))?|(\d{{2,3}})\s*m(?:bit|b|bps)?(?:/s)?\s*ethernet|gigabit "
    rf"ethernet"
)
_INFINIBAND = re.compile(
    r"\b(?:infiniband|ib)\s*(sdr|ddr|qdr|fdr|edr|hdr|ndr|xdr)\b|\b(fdr|edr|hdr|ndr|xdr)\s*infiniband"
)
_IB_GBIT = {"sdr": 8.0, "ddr": 16.0, "qdr": 32.0, "fdr": 54.54, "edr": 100.0, "hdr": 200.0, "ndr": 400.0, "xdr": 800.0}
_DDR = re.compile(
    r"(?:(\d{1,2})\s*(?:channels?|ch|[x×])\s*(?:of\s*)?)?(lp)?ddr(\d)x?[- ]?(\d{3,5})(?:\s*(?:mt/s|"
    r"mhz))?(?:,?\s*[x×]?\s*(\d{1,2})\s*(?:channels?|ch)?)?"
)
_COMPARED = re.compile(r"\bvs\b|\bversus\b|\band\b|(?<!bit)(?<!b)/")
"""Parts the things that a title compares; ``Gbit/s`` and ``Gb/s`` stay whole."""
_NVLINK = re.compile(r"\bnvlink\s*([1-5])?")
_NVLINK_GB = {1: 80.0, 2: 150.0, 3: 300.0, 4: 450.0, 5: 900.0}


def link_rate(text: str, *, most: bool = False) -> Rate | None:
    """The rate of a link that a text names; none where it names none.

    Where it can mean two links (``USB 3.1``), the faster with ``most``, because it is a bound; else raises
    ``UserError``, which names both. So for PCI Express without lanes.
    """
    words = " ".join(text.lower().replace("_", " ").split())
    for find in _FINDERS:
        rate = find(words, text, most)
        if rate is not None:
            return rate
    return None


def only_link(title: str) -> Rate | None:
    """The link that a table's title names; none where it names none, or several to compare."""
    words = " ".join(title.lower().replace("_", " ").split())
    found = [rate for find in _FINDERS if (rate := find(words, title, True)) is not None]
    apart = [rate for part in _COMPARED.split(words) if (rate := link_rate(part, most=True)) is not None]
    return found[0] if found and len({rate.label for rate in (*found, *apart)}) == 1 else None


def parse_link(text: str) -> Rate:
    """The rate of the link that an option names. Raises ``UserError``."""
    rate = link_rate(text)
    if rate is None:
        raise UserError(f"'{text}' is not a link; {_HOW}")
    return rate


_LINKS_OF = (
    ("storage", r"PCIe|SATA|SAS|USB"),
    ("training", r"PCIe|SATA|SAS|USB"),
    ("inference", r"PCIe|SATA|SAS|USB"),
    ("network", r".*Ethernet|InfiniBand"),
    ("memory", r"DDR"),
    ("gpu", r"PCIe|NVLink"),
    ("table", r"PCIe|SATA|SAS|USB|.*Ethernet|InfiniBand"),
)


def link_ceilings(rate: Rate, resource: str) -> tuple[Ceiling, ...]:
    """The rate as the ceilings of a resource's results; none for a resource that has no such link."""
    if not any(re.match(kinds, rate.label) for name, kinds in _LINKS_OF if name == resource):
        return ()
    if resource in {"storage", "training", "inference"}:
        return rate.ceilings()
    metric = {"network": LINE, "gpu": HOST_COPY}.get(resource, "total_bytes_s")
    return (Ceiling(metric, "physical", rate.bytes_s, "bytes/s", rate.formula, rate.source, rate.label),)


def applies(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a ceiling of a line or of a GPU's copies bounds a measurement with these parameters."""
    operation, path = str(parameters.get("operation") or ""), str(parameters.get("path") or "").lower()
    if metric == LINE:
        return not is_loopback(path)
    if metric == HOST_COPY:
        return "host" in operation or ("access" in parameters and parameters.get("part") in {"whole", "copy"})
    return operation == "device-to-device" and "p2p" not in path


def _parse_pcie(words: str, text: str, most: bool) -> Rate | None:
    match = _PCIE.search(words)
    if match is None:
        return None
    apart = [found[1] if (found := pattern.search(words)) else 0 for pattern in (_GENERATION, _LANES)]
    generation = int(match[1] or match[5] or apart[0])
    lanes = int(match[2] or match[3] or match[4] or match[6] or match[7] or apart[1])
    if generation not in PCIE_GT_S or not 1 <= lanes <= 32:
        if most:
            return None
        missing = "lanes" if generation in PCIE_GT_S else "generation"
        raise UserError(
            f"the link '{text}' has no {missing}; write 'PCIe {generation or 4} x4' or 'PCIe {generation or 4} x16'"
        )
    return pcie(generation, lanes)


def _parse_sata(words: str, text: str, most: bool) -> Rate | None:
    match = _SATA.search(words)
    if match is None:
        return None
    named = {"i": 1.5, "1": 1.5, "ii": 3.0, "2": 3.0, "iii": 6.0, "3": 6.0}.get(match[1] or "")
    giga = float(match[2]) if match[2] else named or 6.0
    return of_link(Link(type="sata", bits_s=giga * 1e9))


def _parse_sas(words: str, text: str, most: bool) -> Rate | None:
    match = _SAS.search(words)
    if match is None:
        return None
    giga = float(match[2]) if match[2] else {"1": 3.0, "2": 6.0, "3": 12.0, "4": 22.5}.get(match[1] or "", 12.0)
    return of_link(Link(type="sas", bits_s=(22.5 if giga == 24 else giga) * 1e9, lanes=1))


def _parse_usb(words: str, text: str, most: bool) -> Rate | None:
    match = _USB.search(words)
    if match is None:
        return None
    version, generation, lanes, giga = match[1], match[2], match[3], match[4]
    if version == "4" or giga in {"40", "80"}:
        bits = float(giga or 40) * 1e9
        formula = f"{bits / 1e9:g} Gbit/s × 128/132 / 8 = {format_bytes_s(bits * 128 / 132 / 8)}"
        return Rate(bits * 128 / 132 / 8, formula, "USB4 Specification", f"USB4 {bits / 1e9:g} Gbit/s")
    if version.startswith("1"):
        return of_link(Link(type="usb", bits_s=12e6))
    if version in {"2", "2.0"}:
        return of_link(Link(type="usb", bits_s=480e6))
    if giga:
        return of_link(Link(type="usb", bits_s=float(giga) * 1e9, lanes=1))
    if version == "3.0":
        generation = generation or "1"
    if generation is None:
        if not most:
            raise UserError(
                f"the link '{text}' is Gen 1 (500 MB/s) or Gen 2 (1.21 GB/s); write 'USB {version} "
                f"Gen 1' or 'USB {version} Gen 2'"
            )
        generation = "2"
    wide = 2 if lanes == "2" else 1
    return of_link(Link(type="usb", bits_s=(5e9 if generation == "1" else 10e9) * wide, lanes=wide))


def _parse_ethernet(words: str, text: str, most: bool) -> Rate | None:
    match = _ETHERNET.search(words)
    if match is None:
        return None
    count = int(match[1] or 1)
    bits = float(match[2]) * 1e9 if match[2] else float(match[3]) * 1e6 if match[3] else 1e9
    return _line(bits * count, f"{count} × " if count > 1 else "", bits)


def _line(bits: float, times: str, link_bits: float) -> Rate:
    bytes_s = bits / 8 * JUMBO_PAYLOAD / JUMBO_WIRE
    framed = f"{JUMBO_PAYLOAD} B of payload in {JUMBO_WIRE} B on the wire"
    formula = f"{times}{link_bits / 1e9:g} Gbit/s / 8 × {framed} = {format_bytes_s(bytes_s)}"
    return Rate(
        bytes_s,
        formula,
        "IEEE 802.3: frames of 9000 B, the largest in use; smaller ones carry less",
        f"{bits / 1e9:g} Gbit/s Ethernet",
    )


def _parse_infiniband(words: str, text: str, most: bool) -> Rate | None:
    match = _INFINIBAND.search(words)
    if match is None:
        return None
    name = match[1] or match[2]
    bytes_s = _IB_GBIT[name] * 1e9 / 8
    formula = f"{_IB_GBIT[name]:g} Gbit/s of data on 4 lanes / 8 = {format_bytes_s(bytes_s)}"
    return Rate(
        bytes_s, formula, "InfiniBand Architecture Specification, 4 lanes after encoding", f"InfiniBand {name.upper()}"
    )


def _parse_ddr(words: str, text: str, most: bool) -> Rate | None:
    match = _DDR.search(words)
    if match is None:
        return None
    channels = int(match[1] or match[5] or 1)
    if not 1 <= channels <= 32:
        return None
    if not (match[1] or match[5]) and most:
        return None
    bytes_s = float(match[4]) * 1e6 * 8 * channels
    formula = f"{match[4]} MT/s × 8 B × {channels} channel{'s' if channels > 1 else ''} = {format_bytes_s(bytes_s)}"
    return Rate(
        bytes_s, formula, f"JEDEC DDR{match[3]}: 64 data bits a channel", f"DDR{match[3]}-{match[4]} x{channels}"
    )


def _parse_nvlink(words: str, text: str, most: bool) -> Rate | None:
    match = _NVLINK.search(words)
    if match is None:
        return None
    generation = int(match[1] or 5)
    bytes_s = _NVLINK_GB[generation] * 1e9
    return Rate(
        bytes_s,
        f"NVLink {generation}: {format_bytes_s(bytes_s)} each way",
        "NVIDIA, NVLink of one GPU each way",
        f"NVLink {generation}",
    )


_FINDERS = (
    _parse_usb,
    _parse_pcie,
    _parse_sata,
    _parse_sas,
    _parse_nvlink,
    _parse_infiniband,
    _parse_ddr,
    _parse_ethernet,
)


# --- devices


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One accelerator by its maker's data sheet."""

    name: str
    pattern: re.Pattern[str]
    cores: int
    boost_hz: float
    flops_s: float
    """Single precision on its ordinary cores: cores × boost clock × 2."""
    double_flops_s: float
    memory_bytes_s: float
    link: str
    source: str

    def ceilings(self) -> tuple[Ceiling, ...]:
        """Its arithmetic, its memory and its link."""
        found = []
        if self.memory_bytes_s:
            formula = f"data sheet: {format_bytes_s(self.memory_bytes_s)}"
            found.append(
                Ceiling(
                    DEVICE_COPY,
                    "physical",
                    self.memory_bytes_s,
                    "bytes/s",
                    formula,
                    self.source,
                    f"{self.name}'s memory",
                )
            )
        rate = link_rate(self.link, most=True) if self.link else None
        if rate is not None:
            found += [
                replace(ceiling, label=f"{ceiling.label} of {self.name}") for ceiling in link_ceilings(rate, "gpu")
            ]
        return tuple(found)


@cache
def gpus() -> tuple[GpuModel, ...]:
    """Every accelerator of the catalogue."""
    with GPUS.open(encoding="utf-8", newline="") as file:
        return tuple(
            GpuModel(
                row["name"], re.compile(row["pattern"], re.I), int(row["cores"]), float(row["boost_mhz"]) * 1e6,
                float(row["fp32_tflop_s"]) * 1e12, float(row["fp64_tflop_s"] or 0) * 1e12,
                float(row["memory_gb_s"] or 0) * 1e9, row["link"], row["source"],
            )
            for row in csv.DictReader(file)
        )  # fmt: skip


def gpu_named(text: str) -> GpuModel | None:
    """The accelerator that a text names; none where it names none, or several."""
    found = [gpu for gpu in gpus() if gpu.pattern.search(text)]
    return found[0] if len(found) == 1 else None


def _join_units(text: str) -> str:
    """Words without brackets, with numbers and their units as one: ``2 TB`` is ``2tb``."""
    plain = re.sub(r"[^a-z0-9.+]+", " ", text.lower().replace("_", " "))
    return re.sub(r"(\d(?:\.\d+)?) (gb|tb|mb)\b", r"\1\2", plain)


def rated_named(text: str, *, asks: bool = False) -> Rated | None:
    """The drive of the catalogue that a text names, with its capacity or without.

    Without a capacity, the largest figures of its capacities bound it; with ``asks`` this raises ``UserError`` where
    the text fits several models.
    """
    exact = [drive for drive in catalogue() if drive.pattern.fullmatch(" ".join(text.split()))]
    if len(exact) == 1:
        return exact[0]
    have = set(_join_units(text).split())
    scored: list[tuple[int, bool, str, Rated]] = []
    for drive in catalogue():
        words = _join_units(
            drive.name.partition(" ")[2]
            if not drive.name.startswith(("Western", "SK"))
            else drive.name.split(" ", 2)[2]
        ).split()
        model = [word for word in words if not re.fullmatch(r"[\d.]+(?:gb|tb)", word) and word not in {"ssd", "hdd"}]
        strong = [word for word in model if any(char.isdigit() for char in word)]
        loose = [word for word in model if word in have]
        known = drive.pattern.search(" ".join(text.split())) is not None
        if known or (strong and model and len(loose) == len(model)):
            sized = any(word in have for word in words if re.fullmatch(r"[\d.]+(?:gb|tb)", word))
            scored.append((len(model) + 9 * known, sized, " ".join(model), drive))
    if not scored:
        return None
    most = max(score for score, *_ in scored)
    best = [candidate for candidate in scored if candidate[0] == most]
    if any(sized for _, sized, _, _ in best):
        best = [candidate for candidate in best if candidate[1]]
    names = sorted({model for _, _, model, _ in best})
    if len(names) > 1:
        if asks:
            raise UserError(
                f"the device '{text}' can be {best[0][3].name} or {best[-1][3].name}; write one of these names"
            )
        return None
    first = best[0][3]
    if len(best) == 1:
        return first
    metrics = dict.fromkeys(metric for *_, drive in best for metric in drive.figures)  # In the order of the catalogue.
    figures = {metric: max(drive.figures.get(metric, 0.0) for *_, drive in best) for metric in metrics}
    stem = re.sub(r"\s[\d.]+ [GT]B$", "", first.name)
    return replace(first, name=f"{stem}, its fastest capacity", capacity_bytes=None, figures=figures)


def device_ceilings(text: str, resource: str) -> tuple[Ceiling, ...]:
    """The ceilings of a drive or an accelerator by its name: its maker's figures and its link; none for others."""
    drive = rated_named(text) if resource in {"storage", "training", "inference", "table"} else None
    if drive is not None:
        rate = link_rate(drive.interface, most=True)
        return (*drive.ceilings(), *(rate.ceilings() if rate else ()))
    gpu = gpu_named(text) if resource == "gpu" else None
    return gpu.ceilings() if gpu else ()


def parse_device(text: str) -> Callable[[str], tuple[Ceiling, ...]]:
    """The ceilings by resource of the device that an option names. Raises ``UserError`` for an unknown one."""
    if rated_named(text, asks=True) is None and gpu_named(text) is None:
        names = [drive.name for drive in catalogue()] + [gpu.name for gpu in gpus()]
        words = set(_join_units(text).split())
        near = max(names, key=lambda name: len(words & set(_join_units(name).split())))
        similar = f" (similar: {near})" if words & set(_join_units(near).split()) else ""
        raise UserError(
            f"the device '{text}' is not in the catalogue{similar}; give its figures: --ceiling 'rated read 7450 MB/s'"
        )
    return lambda resource: device_ceilings(text, resource)
