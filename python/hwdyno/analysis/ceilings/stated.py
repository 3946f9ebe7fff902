"""Limits that a text states beside its results: the one link or class of disk that it names, a theoretical maximum.

Nothing is guessed: where a text names two links or classes, several disks, or denies or compares what it names,
no one knows which of its results it bounds, and it states none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hwdyno.analysis.ceilings.named import link_rate

LONGEST_TEXT = 200_000
_FAMILIES = (
    ("USB", re.compile(r"\busb\b|\busb(?=\d)", re.I)),
    ("PCIe", re.compile(r"\bpci-?e\b|\bpci-?e(?=\d)|\bpci express|\bnvme", re.I)),
    ("SATA", re.compile(r"\bsata\b(?!/\d)", re.I)),
    ("SAS", re.compile(r"\bsas\b", re.I)),
    ("", re.compile(r"\bem?mc\b|\bsd ?cards?\b|\bnfs\b|\bsmb\b|\biscsi\b|ethernet|thunderbolt|fibre channel", re.I)),
)
"""Kinds of links by their words; the last ones have no rate here. CrystalDiskMark explains MB/s by SATA/600."""
_SEVERAL = re.compile(
    r"\braid|\barrays?\b|\b\d+ ?x\b(?! ?(?:lane|pcie))|ceph|lustre|zfs|beegfs|gpfs|weka|\bpools?\b|stripe|\blvm\b|"
    r"\b(?:two|three|four|six|eight|several|multiple|both) (?:\w+ ){0,2}(?:disks|drives|ssds|links|ports)\b",
    re.I,
)
_DENIED = re.compile(r"\b(?:no|not|non|instead|than|unlike|without|other|if|would|could|versus|vs|n't)\b", re.I)
_GENERATION = re.compile(r"\d|\bsata i+\b", re.I)
_NAMED_WITHIN, _NEAR = 24, 60
"""Characters in which a link's generation follows its name, and around it in which it may be denied."""
_MAXIMUM = re.compile(
    r"\b(?:max(?:imum)? theoretical|theoretical(?: max(?:imum)?| peak| limit)?|peak theoretical) "
    r"(?:bandwidth|throughput|speed|rate)\b[^;|\n]{0,120}?(?:\bis|\bof|=|:) (?:about |around |~ ?)?"
    r"(\d{1,6}(?:\.\d{1,3})?) ?([KMG])(i?)B/s",
    re.I,
)
_RATED = re.compile(
    r"^[ \t]*[-*+][ \t]+(\d{1,6}(?:\.\d{1,3})?) ?([KMG])(i?)B/s (?:sequential )?(read|write) speed[ \t]*$", re.I | re.M
)
_CLASSES = (
    ("Standard HDD", re.compile(r"\bstandard hdds?\b", re.I), 500e6, 3000.0),
    ("Standard SSD", re.compile(r"\bstandard ssds?\b", re.I), 750e6, 6000.0),
    ("Premium SSD", re.compile(r"\bpremium ssds?\b", re.I), 0.0, 0.0),
    ("Ultra Disk", re.compile(r"\bultra disks?\b", re.I), 0.0, 0.0),
)
"""Azure's classes of managed disks: the most bytes/s and IOPS of their largest disk; 0 where it may burst above."""
_FIO = re.compile(r"\bfio\b[^\n]{0,1000}?\s-{1,2}size=\S")
_AZURE = "learn.microsoft.com, Azure managed disk types: maximums of the largest disk"
_MIB = 1.048576
"""Azure does not say whether its MB are MiB."""


@dataclass(frozen=True, slots=True)
class StatedLimit:
    """What a text states that its results cannot or should not exceed, in bytes/s or operations/s."""

    label: str
    value: float
    unit: str
    source: str
    direction: str = ""
    """``read`` or ``write``, where it bounds that alone."""
    shared: bool = False
    """Whether reads and writes together are bounded too."""
    rated: bool = False
    """Whether a maker's figure, which a device may exceed a little."""


def stated_limits(text: str) -> tuple[StatedLimit, ...]:
    """All limits that a text states for the storage that it measured."""
    text = text[:LONGEST_TEXT]
    found = [*_of_maximum(text), *_of_rated(text)]
    if not _SEVERAL.search(text):
        found += [*_of_link(text), *_of_class(text)]
    return tuple(found)


def ends_with_file(text: str) -> bool:
    """Whether the fio commands that a text states end when their file was read or written once."""
    commands = [match[0] for match in _FIO.finditer(text[:LONGEST_TEXT])]
    return bool(commands) and not re.search(r"time_based|\bloops\b|io_size|io_limit", text)


def _of_link(text: str) -> Iterator[StatedLimit]:
    mentions = [(family, match.start()) for family, pattern in _FAMILIES for match in pattern.finditer(text)]
    if len({family for family, _ in mentions}) != 1:
        return
    rates = {}
    for family, at in mentions:
        words = text[at : at + _NAMED_WITHIN]
        rate = link_rate(words, most=True) if _GENERATION.search(words) else None
        if rate is not None and family and rate.label.startswith(family):
            rates[rate.label] = rate
            if _DENIED.search(text[max(0, at - _NEAR) : at + _NEAR]):
                return
    if len(rates) == 1:
        (rate,) = rates.values()
        yield StatedLimit(rate.label, rate.bytes_s, "bytes/s", rate.source, shared=rate.shared)


def _of_class(text: str) -> Iterator[StatedLimit]:
    named = [(label, most, iops, found) for label, of, most, iops in _CLASSES if (found := of.search(text))]
    if len(named) != 1 or not re.search(r"(?i)\bazure\b", text):
        return
    label, most, iops, match = named[0]
    if most and not _DENIED.search(text[max(0, match.start() - _NEAR) : match.end() + _NEAR]):
        yield StatedLimit(f"an Azure {label}", most * _MIB, "bytes/s", _AZURE, shared=True)
        yield StatedLimit(f"an Azure {label}", iops, "operations/s", _AZURE, shared=True)


def _of_maximum(text: str) -> Iterator[StatedLimit]:
    found = {_bytes_s(match[1], match[2], match[3]) for match in _MAXIMUM.finditer(text)}
    if len(found) == 1:
        yield StatedLimit("the theoretical maximum that the text states", found.pop(), "bytes/s", "the text")


def _of_rated(text: str) -> Iterator[StatedLimit]:
    found = {(match[4].lower(), _bytes_s(match[1], match[2], match[3])) for match in _RATED.finditer(text)}
    for direction, value in sorted(found):
        if len([name for name, _ in found if name == direction]) == 1:
            label = f"the {direction} speed that the text states"
            yield StatedLimit(label, value, "bytes/s", "the text", direction, rated=True)


def _bytes_s(number: str, prefix: str, binary: str) -> float:
    return float(number) * (1024.0 if binary else 1000.0) ** ("KMG".index(prefix.upper()) + 1)
