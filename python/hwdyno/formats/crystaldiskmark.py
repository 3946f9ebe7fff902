"""Reads the text that CrystalDiskMark and KDiskMark copy into a Run: MB/s, IOPS and mean latency of each test."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.cell import bytes_from_number
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.quantities import number_in
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "crystaldiskmark-text"
_SECTION = re.compile(r"^\s*\[(Read|Write|Mix)\](?:\s*Read (\d{1,3})%)?", re.I)
# "  SEQ    1MiB (Q=  8, T= 1):  7427.749 MB/s [   7083.7 IOPS] <   987.81 us>"
# Version 5: "Sequential Read (Q= 32,T= 1) :  3495.9 MB/s"
_LINE = re.compile(
    r"^\s*(?P<order>SEQ|RND|Sequential|Random)\s+(?P<way>Read|Write)?\s*(?P<size>\d{1,5}\s?[KM]i?B)?\s*"
    r"\(Q=\s*(?P<depth>\d{1,4})\s*,\s*T=\s*(?P<jobs>\d{1,4})\s*\)\s*:\s*(?P<bw>[\d.]+)\s*MB/s"
    r"(?:\s*\[\s*(?P<iops>[\d.]+)\s*IOPS\])?(?:\s*<\s*(?P<lat>[\d.]+)\s*us>)?",
    re.M | re.I,
)
_TEST = re.compile(r"^\s*Test\s*:\s*(\d{1,5} ?[KMG]i?B)", re.M)
_VERSION = re.compile(r"(CrystalDiskMark|KDiskMark)[ (]+([\d.]+)")
_SEQUENTIAL = {"seq", "sequential"}


def recognizes(text: str) -> bool:
    """Whether this looks like CrystalDiskMark's text."""
    return _LINE.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    way, share = "read", ""
    file = _TEST.search(text)
    for line in text.splitlines():
        if section := _SECTION.match(line):
            way, share = section[1].lower(), section[2] or ""
        elif match := _LINE.match(line):
            found = figures(bw=number(match["bw"], 1e6, "MB/s"), iops=number(match["iops"]))
            found |= figures(lat_mean=number(match["lat"], 1e-6, "us"))
            made = make_point(_parameters(match, way, share), found)
            points += [made] if made else []
    version = _VERSION.search(text)
    fixed: Parameters = {"direct": True}
    if file and (size := number_in(file[1])) is not None:
        fixed["size"] = int(bytes_from_number(size, None))
    table = printed.experiment(
        "storage.crystaldiskmark", "CrystalDiskMark results", STORAGE_BLOCKS, "iodepth", points, **fixed
    )
    return printed.run(
        NAME, version[1] if version else "CrystalDiskMark", text, name, [table], version[2] if version else ""
    )


def _parameters(match: re.Match[str], way: str, share: str) -> Parameters:
    """The pattern of a line, by its section, or by its own words before version 7."""
    sequential = match["order"].lower() in _SEQUENTIAL
    word = (match["way"] or way).lower()
    parameters: Parameters = {"rw": ("" if sequential else "rand") + ("rw" if word == "mix" else word)}
    if word == "mix":
        parameters["rwmixread"] = int(share or 70)
    size = number_in(match["size"] or "")
    if size is not None:
        parameters["bs"] = int(bytes_from_number(size, None))
    elif match["iops"] is None and not sequential:
        parameters["bs"] = 4096
    return {**parameters, "iodepth": int(match["depth"]), "numjobs": int(match["jobs"])}
