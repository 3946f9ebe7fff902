"""Reads lmbench's text into a Run: bw_mem, lat_mem_rd, and the lines that its small programs print.

Sizes are in powers of 1024 in ``lat_mem_rd`` and of 1000 in ``bw_mem``; bandwidths are in 10^6 bytes/s (lmbench 3,
``lib_timing.c``).
"""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, number, point_of
from hwdyno.words import Measurement, Parameters, Run

NAME = "lmbench-text"
_STRIDE = re.compile(r'^"stride=(\d{1,9})\s*$', re.M)
_PAIR = re.compile(r"^(\d{1,6}\.\d{1,6}) (\d{1,9}(?:\.\d{1,6})?)\s*$", re.M)
_COMMAND = re.compile(r"bw_mem\b[^\n]*?\b(rd|wr|rdwr|cp|fwr|frd|fcp|bzero|bcopy)\b")
_LINE = re.compile(
    r"^(Simple (?:syscall|read|write|stat|fstat|open/close)|Select on \d+ (?:tcp )?fd's|"
    r"Signal handler (?:installation|overhead)|Pagefaults on \S+|"
    r"Process fork\+(?:exit|execve|/bin/sh -c)|Pipe latency|AF_UNIX sock stream latency|"
    r"UDP latency using [^\n:]+|TCP latency using [^\n:]+|"
    r"TCP/IP connection cost to [^\n:]+): ([\d.]+) microseconds",
    re.M,
)
_BANDWIDTH = re.compile(
    r"^(AF_UNIX sock stream bandwidth|Pipe bandwidth|Socket bandwidth using \S+): ([\d.]+) MB/sec", re.M
)


def recognizes(text: str) -> bool:
    """Whether this looks like lmbench's output."""
    return any(pattern.search(text) for pattern in (_STRIDE, _LINE, _BANDWIDTH)) or (
        _COMMAND.search(text) is not None and _PAIR.search(text) is not None
    )


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    latencies: list[Measurement] = []
    bandwidths: list[Measurement] = []
    small: list[Measurement] = []
    marks = sorted([*_STRIDE.finditer(text), *_COMMAND.finditer(text)], key=lambda match: match.start())
    for at, mark in enumerate(marks):
        part = text[mark.end() : marks[at + 1].start() if at + 1 < len(marks) else len(text)]
        for size, value in _PAIR.findall(part):
            megabytes = float(size)
            if mark.re is _STRIDE:
                given: Parameters = {"working_set": round(megabytes * 2**20), "stride": int(mark[1])}
                made = point_of(given, figures(lat=number(value, 1e-9)))
                latencies += [made] if made else []
            else:
                made = point_of(
                    {"operation": mark[1], "working_set": round(megabytes * 1e6)}, figures(bw=number(value, 1e6))
                )
                bandwidths += [made] if made else []
    for what, value in _LINE.findall(text):
        made = point_of({"operation": what[:60].lower()}, figures(lat=number(value, 1e-6)))
        small += [made] if made else []
    for what, value in _BANDWIDTH.findall(text):
        made = point_of({"operation": what[:60].lower()}, figures(bw=number(value, 1e6)))
        small += [made] if made else []
    tables = [
        printed.experiment(
            "memory.lmbench", "Memory bandwidth by lmbench", "memory_bandwidth", "working_set", bandwidths
        ),
        printed.experiment(
            "memory.lmbench-latency", "Memory latency by lmbench", "memory_latency", "working_set", latencies
        ),
        printed.experiment("system.lmbench", "Operating system by lmbench", "lmbench", "operation", small),
    ]
    return printed.run(NAME, "lmbench", text, name, tables)
