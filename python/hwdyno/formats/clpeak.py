"""Reads clpeak's text into a Run: memory bandwidth, arithmetic and transfers of each device; GBPS are 10^9 bytes/s."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwdyno.formats import printed
from hwdyno.formats.row import figures, number, point_of
from hwdyno.words import Measurement, Parameters, Run

NAME = "clpeak-text"
_SECTION = re.compile(r"^\s*(.{3,60}?) \((GBPS|GFLOPS|GIOPS|TFLOPS|TIOPS)\)\s*$")
_VALUE = re.compile(r"^\s+([A-Za-z][\w ()]{1,60}?)\s*:\s*(\d{1,9}(?:\.\d{1,4})?)\s*$")
_DEVICE = re.compile(r"^\s*Device: ([^\n]{1,80})")
_LAUNCH = re.compile(r"^\s*Kernel launch latency\s*:\s*([\d.]+)\s*us")
_WAYS = {
    "enqueuewritebuffer": "host-to-device",
    "enqueuereadbuffer": "device-to-host",
    "memcpy to mapped ptr": "host-to-device",
    "memcpy from mapped ptr": "device-to-host",
}
MAPPED = "buffer map"
"""Mapping a buffer: where host and device share memory, or the driver waits with the copy, no byte moves."""


def recognizes(text: str) -> bool:
    """Whether this looks like clpeak's output."""
    return "memory bandwidth (GBPS)" in text and any(map(_VALUE.match, text.splitlines()))


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: dict[str, list[Measurement]] = {}
    for device, point in _points(text):
        points.setdefault(device, []).append(point)
    tables = [
        printed.experiment(
            f"gpu.clpeak@{device}", f"clpeak results: {device}", "gpu_transfer", "width", found, device=device
        )
        for device, found in points.items()
    ]
    return printed.run(NAME, "clpeak", text, name, tables)


def _points(text: str) -> Iterator[tuple[str, Measurement]]:
    device, section, unit = "device", "", ""
    for line in text.splitlines():
        if match := _DEVICE.match(line):
            device, section = match[1].strip(), ""
        elif match := _SECTION.match(line):
            section, unit = match[1].strip(), match[2]
        elif match := _LAUNCH.match(line):
            made = point_of({"operation": "kernel launch"}, figures(lat=number(match[1], 1e-6)))
            if made is not None:
                yield device, made
        elif section and (match := _VALUE.match(line)):
            word = match[1].strip().lower()
            parameters: Parameters = {"operation": section.lower(), "width": word}
            if "transfer" in section.lower():
                way = _WAYS.get(word.removesuffix(" non-blocking"))
                parameters["operation"] = way or (MAPPED if "map" in word else "host transfer")
            elif "global memory" in section.lower():
                parameters["operation"] = "device-to-device"
            scale = 1e12 if unit.startswith("T") else 1e9
            kind = "bw" if unit == "GBPS" else "flops" if "FLOPS" in unit else "iops"
            made = point_of(parameters, figures(**{kind: number(match[2], scale)}))
            if made is not None:
                yield device, made
