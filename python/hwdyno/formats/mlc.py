"""Reads the output of Intel's Memory Latency Checker into a Run: matrices, peaks, loaded latencies, core to core."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwdyno.formats import printed
from hwdyno.model.kernels import MEMORY_BANDWIDTH, MEMORY_CORE_TO_CORE, MEMORY_LATENCY, MEMORY_LOADED_LATENCY
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "mlc-text"
_VERSION = re.compile(r"Memory Latency Checker - v?([\w.]+)")
_LOADED = re.compile(r"^\s*\"?(\d{1,9})\s+([\d.]+)\s+([\d.]+)\"?\s*(?:[^\d\s].*)?$")
_CURVE = re.compile(r"^[^\w\n]*Inject(?:ed)?\s+Latency\s+Bandwidth", re.I | re.M)
_PEAK = re.compile(r"^\s*(ALL Reads|\d+:\d+ Reads-Writes|Stream-triad like)\s*:\s*([\d.]+)", re.I)
_MATRIX_ROW = re.compile(r"^\s*(\d{1,4})((?:\s+(?:[\d.]+|-))+)\s*$")
_IDLE = re.compile(r"Each iteration took [\d.]+ (?:base frequency|core) clocks \(\s*([\d.]+)\s*ns\)", re.I)
_BUFFER = re.compile(r"Using buffer size of ([\d.]+)\s*MiB\s*$", re.I | re.M)
_REMOTE = re.compile(r"Remote Socket \S+ (HITM?)\s+latency \(data address homed in (reader|writer) socket\)", re.I)
_BETWEEN = re.compile(r"^\s*(Local|Remote) Socket (?:L2->L2|LLC->LLC)? ?(HITM?)\s+latency\s+([\d.]+)", re.I)
_TRAFFIC = re.compile(r"Using (.+?) traffic type", re.I)
_MIXES = {"all reads": "1:0", "read-only": "1:0", "stream-triad like": "triad"}


def recognizes(text: str) -> bool:
    """Whether this looks like MLC's output."""
    return "Memory Latency Checker" in text[:65536] or _CURVE.search(text[: 1 << 20]) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    section, traffic = "", "1:0"
    remote: Parameters = {}
    loaded: list[Measurement] = []
    peaks: list[Measurement] = []
    idle: list[Measurement] = []
    nodes: list[Measurement] = []
    between: list[Measurement] = []
    size = _BUFFER.search(text)
    for line in text.splitlines():
        low = line.strip().lower()
        if len(low.split(None, 1)) < 2 and not low.startswith("measuring"):
            continue  # It states nothing.
        if low.startswith("measuring") or _CURVE.match(line):
            section, remote = low if low.startswith("measuring") else "loaded", {}
        if match := _TRAFFIC.search(line):
            traffic = _MIXES.get(match[1].lower(), match[1].lower())
        elif match := _BETWEEN.match(line):
            remote = {}
            between += _latency({"operation": _line(match[2]), "socket": match[1].lower()}, match[3])
        elif match := _REMOTE.search(line):
            remote = {"operation": _line(match[1]), "socket": "remote", "homed_in": match[2].lower()}
        elif match := _IDLE.search(line):
            bytes_ = printed.figure(size[1]) if size else None
            idle += _latency({"working_set": round(bytes_ * (1 << 20))} if bytes_ else {}, match[1])
        elif match := _PEAK.match(line):
            mix = _MIXES.get(match[1].lower(), match[1].split(" ")[0])
            peaks += _bandwidth({"mix": mix}, match[2])
        elif "loaded" in section and (match := _LOADED.match(line)):
            latency, rate = printed.figure(match[2]), printed.figure(match[3])
            if latency and rate:
                parameters: Parameters = {"mix": traffic, "delay": int(match[1])}
                loaded.append(printed.point(parameters, rate * 1e6, "bytes/s", latency))
        elif match := _MATRIX_ROW.match(line):
            for number, cell in enumerate(match[2].split()):
                where: Parameters = {"cpu_node": int(match[1]), "node": number}
                if remote:
                    # Rows are writers and columns are readers; the diagonal is empty.
                    between += _latency({**remote, "writer_node": int(match[1]), "reader_node": number}, cell)
                elif "idle latenc" in section:
                    idle += _latency({**where}, cell)
                elif "memory bandwidths between" in section:
                    nodes += _bandwidth({**where}, cell)
    version = _VERSION.search(text)
    tables = [
        printed.experiment("memory.mlc-idle", "Idle memory latency", MEMORY_LATENCY, "node", idle),
        printed.experiment(
            "memory.mlc-peak", "Peak memory bandwidth by read/write mix", MEMORY_BANDWIDTH, "mix", peaks
        ),
        printed.experiment("memory.mlc-nodes", "Memory bandwidth between NUMA nodes", MEMORY_BANDWIDTH, "node", nodes),
        printed.experiment("memory.mlc-loaded", "Memory latency under load", MEMORY_LOADED_LATENCY, "delay", loaded),
        printed.experiment(
            "memory.mlc-c2c", "Core-to-core latency of a cache line", MEMORY_CORE_TO_CORE, "operation", between
        ),
    ]
    return printed.run(NAME, "MLC", text, name, tables, version[1] if version else "")


def _line(word: str) -> str:
    """The state of a line: MLC's hit in a modified line (HITM) is our ``modified``."""
    return "modified" if word.upper() == "HITM" else "clean"


def _latency(parameters: Parameters, text: str) -> Iterator[Measurement]:
    latency = None if text == "-" else printed.figure(text)
    if latency:
        yield printed.point({**parameters}, 1e9 / latency, "operations/s", latency)


def _bandwidth(parameters: Parameters, text: str) -> Iterator[Measurement]:
    rate = None if text == "-" else printed.figure(text)
    if rate:
        yield printed.point({**parameters}, rate * 1e6, "bytes/s")
