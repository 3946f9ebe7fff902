"""Finds what a text states of the devices that it measured, and of others that it compares them with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hwdyno.analysis.ceilings.named import link_rate
from hwdyno.formats.statements.sentences import is_denied, split_sentences

_MEASURED = re.compile(
    r"\b(?:installed|tested|measured|benchmarked|using|used|selected|(?:drive|disk|ssd|device|storage) (?:is|was))\b"
    r"[^.;]{0,30}?\b(?:an?|the|one|my|our)\b[^.;,]{0,30}?\b(SATA|NVMe|eMMC|USB|SAS)\b(?![^.;,]{0,20}\b(?:raid|arrays?)\b)",
    re.I,
)
_FLASH = re.compile(r"\bssds?\b|\bsolid[- ]state\b|\bflash\b", re.I)
_PLATTERS = re.compile(r"\bhdds?\b|\bhard (?:disks?|drives?)\b|\brpm\b", re.I)
_DEPTH = r"(?:queue depth|i/?o ?depth)"
_ONE_DEPTH = re.compile(
    rf"{_DEPTH}[`*\"']*(?: of| was| is|[ ]?[=:]| \(i\.e\.)?[ ]*[`*\"'(]*(\d{{1,5}})\b(?!\.?\d|%)", re.I
)
_RANGES = (
    re.compile(rf"{_DEPTH}[`*\"']*\s*[:=]?\s*[`(]?(\d{{1,5}})`?\s*(?:-|–|to|\.\.+|…)\s*`?(\d{{1,5}})\b(?!\.?\d)", re.I),
    re.compile(rf"{_DEPTH}\b[^\n]{{0,160}}?\bfrom `?(\d{{1,5}})`? (?:up )?to `?(\d{{1,5}})\b`?(?! ?[kKMG]i?B)", re.I),
)
_SPAN = re.compile(r"\b(?:from|between)\s+(?P<a>[^.;,:]{2,40}?)\s+(?:to|and|into)\s+(?P<b>[^.;,:]{2,40})", re.I)
_MOVES = re.compile(r"\btransfer\w*|\btransmit\w*|\bcop(?:y|ied|ying)\b|\bbandwidth\b|\bthroughput\b|\bbus\b", re.I)
_EMMC = re.compile(r"\be\.?mmc\b", re.I)
EMMC_BYTES_S = 400e6
"""HS400, the fastest bus of eMMC: 200 MHz x 2 edges x 8 bits (JEDEC JESD84-B51)."""
_RATING = re.compile(
    r"\b(?:random )?(?:4 ?(?:k|kb|kib) )?writes?(?:[- ]only)? IOPS of (?:up to |about )?"
    r"(?P<a>\d[\d.,]{0,10}) ?(?P<ka>[kKM])?\b|"
    r"\b(?P<b>\d[\d.,]{0,10}) ?(?P<kb>[kKM])? (?:4 ?(?:k|kb|kib) )?(?:random )?write IOPS\b",
    re.I,
)
_RATED = re.compile(
    r"\breports?\b|\brated\b|\brating\b|\bspec(?:s|ifie[sd]|ifications?)?\b|\badvertis\w*|\bdata ?sheet\b|\bquotes?\b",
    re.I,
)
_ENTERPRISE = re.compile(r"\bent\w{1,6}prise\b|\bdata ?cent(?:er|re)\b", re.I)
_NEAR = 400
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6}


@dataclass(frozen=True, slots=True)
class MeasuredDrive:
    """The kind of drive that a text measured: its interface in capitals, and whether it is of flash."""

    interface: str
    flash: bool


def measured_drive(text: str) -> MeasuredDrive | None:
    """The drive that the text measured; none where it does not say, or says it of two kinds."""
    found = [match for match in _MEASURED.finditer(text) if not is_denied(match[0])]
    kinds = {match[1].upper() for match in found}
    if len(kinds) != 1:
        return None
    (match,) = found[:1]
    words = text[match.start() : match.end() + 40]
    return MeasuredDrive(kinds.pop(), bool(_FLASH.search(words)) and not _PLATTERS.search(words))


def stated_depths(text: str) -> list[int] | None:
    """The least and the greatest queue depth of a sweep that a text states."""
    found = [(int(match[1]), int(match[2])) for pattern in _RANGES for match in pattern.finditer(text)]
    found = [(least, most) for least, most in found if least < most]
    least, most = max(found, key=lambda pair: pair[1], default=(0, 0))
    return [least, most] if found else None


def stated_depth(text: str) -> int | None:
    """The queue depth that a text states, where it states one alone."""
    found = {int(match[1]) for match in _ONE_DEPTH.finditer(text)}
    return found.pop() if len(found) == 1 and stated_depths(text) is None else None


def slow_endpoint(text: str) -> dict[str, object]:
    """The slow device that a text's transfers go to or come from by its words, with its rate; empty without one."""
    for sentence in split_sentences(text):
        match = _SPAN.search(sentence)
        if match is None or is_denied(sentence) or not _MOVES.search(sentence):
            continue
        for words in (match["b"], match["a"]):
            if _EMMC.search(words):
                source = "JEDEC eMMC 5.1, HS400: 200 MHz x 2 edges x 8 bits"
                return {"label": "eMMC", "value": EMMC_BYTES_S, "source": source}
            rate = link_rate(words, most=True) if re.search(r"\busb ?[12]", words, re.I) else None
            if rate is not None:
                return {"label": rate.label, "value": rate.bytes_s, "source": rate.source}
    return {}


def rated_writes(text: str) -> dict[str, object]:
    """The rate of random writes that a text quotes of a data centre drive's specification; empty without one."""
    for match in _RATING.finditer(text):
        above = text[max(0, match.start() - _NEAR) : match.end()]
        sentence = above[max(above.rfind(mark, 0, len(above) - len(match[0])) for mark in (". ", "\n")) + 1 :]
        digits, factor = match["a"] or match["b"], (match["ka"] or match["kb"] or "").lower()
        number = re.sub(r",(?=\d{3})", "", digits).rstrip(".,")
        if _RATED.search(sentence) and _ENTERPRISE.search(above) and re.fullmatch(r"\d+(?:\.\d+)?", number):
            return {"value": float(number) * _FACTORS[factor], "quote": " ".join(match[0].split())}
    return {}
