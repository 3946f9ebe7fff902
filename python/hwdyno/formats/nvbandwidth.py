"""Reads nvbandwidth's text into a Run: a point for each pair of a matrix, in 10^9 bytes/s."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import GPU_TRANSFER
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "nvbandwidth-text"
_TEST = re.compile(r"^Running ([a-z0-9_]{3,80})\.\s*$", re.M)
_UNIT = re.compile(r"(bandwidth \(GB/s\)|latency \((?:ns|us)\))")
_ROW = re.compile(r"^\s*(\d{1,3})((?:\s+(?:\d{1,7}\.\d{1,4}|N/A))+)\s*$", re.M)
_DEVICE = re.compile(r"^Device \d+: ([^(\n]{1,80})", re.M)
_VERSION = re.compile(r"nvbandwidth Version: v?([\w.]+)")


def recognizes(text: str) -> bool:
    """Whether this looks like nvbandwidth's output."""
    return _TEST.search(text) is not None and _UNIT.search(text) is not None and "memcpy" in text


def name_operation(name: str) -> str:
    """The way of a copy by the name of its test."""
    if name.startswith("host_to_device") or name.startswith("host_to_all"):
        return "host-to-device"
    if name.startswith("device_to_host") or name.startswith("all_to_host"):
        return "device-to-host"
    return "device-to-device-p2p" if "device_to_device" in name else "device-to-device" if "local" in name else name


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    starts = list(_TEST.finditer(text))
    device = _DEVICE.search(text)
    for at, match in enumerate(starts):
        part = text[match.end() : starts[at + 1].start() if at + 1 < len(starts) else len(text)]
        unit = _UNIT.search(part)
        both = "bidirectional" in match[1]
        if unit is None:
            continue
        for row in _ROW.finditer(part, unit.end()):
            for column, cell in enumerate(row[2].split()):
                given: Parameters = {
                    "test": match[1],
                    "operation": f"{name_operation(match[1])}{'-both' if both else ''}",
                    "from": int(row[1]),
                    "to": column,
                }
                scale = {"n": 1e-9, "u": 1e-6}.get(unit[1][9:10], 1e9)
                value = number(None if cell == "N/A" else cell, scale)
                made = make_point(given, figures(**{"lat" if "latency" in unit[1] else "bw": value}))
                points += [made] if made else []
    version = _VERSION.search(text)
    fixed: Parameters = {"device": device[1].strip()} if device else {}
    table = printed.experiment("gpu.nvbandwidth", "nvbandwidth results", GPU_TRANSFER, "to", points, **fixed)
    return printed.run(NAME, "nvbandwidth", text, name, [table], version[1] if version else "")
