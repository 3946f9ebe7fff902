"""Reads clpeak's text or clpeak 2's XML into a Run: bandwidth, arithmetic, transfers; GBPS are 10^9 bytes/s."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import GPU_TRANSFER
from hwdyno.model.words import Measurement, Parameters, Run
from hwdyno.system import foreign

NAME = "clpeak-text"
_SECTION = re.compile(r"^\s*(.{3,60}?) \((GBPS|GFLOPS|GIOPS|TFLOPS|TIOPS)\)\s*$")
_VALUE = re.compile(r"^\s+([A-Za-z][\w ()]{1,60}?)\s*:\s*(\d{1,9}(?:\.\d{1,4})?)\s*$")
_DEVICE = re.compile(r"^\s*Device: ([^\n]{1,80})")
_LAUNCH = re.compile(r"^\s*Kernel launch latency\s*:\s*([\d.]+)\s*us")
_XML = re.compile(r"<clpeak\b[^<>]{0,200}>")
_UNITS = {
    "gbps": ("bw", 1e9), "gflops": ("flops", 1e9), "tflops": ("flops", 1e12), "gops": ("iops", 1e9),
    "tops": ("iops", 1e12), "us": ("lat", 1e-6), "ns": ("lat", 1e-9),
}  # fmt: skip
"""The units of clpeak 2's XML: what they measure, and the base unit's multiple."""
_WAYS = {
    "h2d": "host-to-device",
    "d2h": "device-to-host",
    "enqueuewritebuffer": "host-to-device",
    "enqueuereadbuffer": "device-to-host",
    "memcpy to mapped ptr": "host-to-device",
    "memcpy from mapped ptr": "device-to-host",
}
MAPPED = "buffer map"
"""Mapping a buffer: where host and device share memory, or the driver waits with the copy, no byte moves."""


def recognizes(text: str) -> bool:
    """Whether this looks like clpeak's output."""
    if _XML.search(text[:65536]):
        return True
    return "memory bandwidth (GBPS)" in text and any(map(_VALUE.match, text.splitlines()))


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: dict[str, list[Measurement]] = {}
    for device, point in _of_xml(text, name) if _XML.search(text[:65536]) else _points(text):
        points.setdefault(device, []).append(point)
    tables = [
        printed.experiment(
            f"gpu.clpeak@{device}", f"clpeak results: {device}", GPU_TRANSFER, "width", found, device=device
        )
        for device, found in points.items()
    ]
    return printed.run(NAME, "clpeak", text, name, tables)


def _of_xml(text: str, name: str) -> Iterator[tuple[str, Measurement]]:
    """Each metric of each device and interface ("Metal", "CUDA", "CPU" …) that clpeak drove."""
    for run in foreign.parse_xml(text, name).iter("run"):
        device = " ".join(filter(None, (run.get("device"), run.get("backend"))))
        for test in run.iter("test"):
            kind, scale = _UNITS.get(test.get("unit", ""), ("", 0.0))
            title = test.get("display") or test.get("name") or ""
            for metric in test.iter("metric") if kind else ():
                word = metric.get("name", "")
                parameters = _name_test(title, word)
                if made := make_point(parameters, figures(**{kind: number(metric.text, scale)})):
                    yield device, made


def _name_test(section: str, word: str) -> Parameters:
    """What a value of a section measures: a way between host and device, a copy in memory, or the section's own."""
    low = section.lower()
    if "transfer" in low:
        way = _WAYS.get(re.sub(r" non-blocking$|_\w+$", "", word))
        return {"operation": way or (MAPPED if "map" in word else "host transfer"), "width": word}
    return {"operation": "device-to-device" if "global memory" in low else low, "width": word}


def _points(text: str) -> Iterator[tuple[str, Measurement]]:
    device, section, unit = "device", "", ""
    for line in text.splitlines():
        if match := _DEVICE.match(line):
            device, section = match[1].strip(), ""
        elif match := _SECTION.match(line):
            section, unit = match[1].strip(), match[2]
        elif match := _LAUNCH.match(line):
            made = make_point({"operation": "kernel launch"}, figures(lat=number(match[1], 1e-6)))
            if made is not None:
                yield device, made
        elif section and (match := _VALUE.match(line)):
            parameters = _name_test(section, match[1].strip().lower())
            scale = 1e12 if unit.startswith("T") else 1e9
            kind = "bw" if unit == "GBPS" else "flops" if "FLOPS" in unit else "iops"
            made = make_point(parameters, figures(**{kind: number(match[2], scale)}))
            if made is not None:
                yield device, made
