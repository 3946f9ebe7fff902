"""Reads lmbench's text into a Run: bw_mem, lat_mem_rd, and the lines that its small programs print.

Sizes are in powers of 1024 in ``lat_mem_rd`` and of 1000 in ``bw_mem``; bandwidths are in 10^6 bytes/s (lmbench 3,
``lib_timing.c``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import MEMORY_BANDWIDTH, MEMORY_LATENCY
from hwdyno.model.words import Measurement, Parameters, Run

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
# "*Local* Communication bandwidths in MB/s - bigger is better", and a rule of dashes under two lines of heads.
_SUMMARY = re.compile(
    r"^[^\n]{0,20}?(?P<title>Processor, Processes|Context switching|\*Local\* Communication latencies|"
    r"File & VM system latencies|"
    r"\*Local\* Communication bandwidths|Memory latencies|Basic \w+ operations)[^\n]{0,10}?"
    r"in (?P<unit>MB/s|microseconds|nanoseconds)|^[^\n]{0,20}?(?P<other>Processor, Processes) - times in microseconds",
    re.M,
)
_RULE = re.compile(r"^[ >]*-{3,}(?: +-{2,})+ *$")
_WORD = re.compile(r"\S+")
_UNITS = {"MB/s": ("bw", 1e6), "microseconds": ("lat", 1e-6), "nanoseconds": ("lat", 1e-9)}
_LABELS = {"Host", "OS", "Mhz", "Guesses", "kernel"}
HEAD_LINES = 3


def recognizes(text: str) -> bool:
    """Whether this looks like lmbench's output."""
    return any(pattern.search(text) for pattern in (_STRIDE, _LINE, _BANDWIDTH, _SUMMARY)) or (
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
                made = make_point(given, figures(lat=number(value, 1e-9)))
                latencies += [made] if made else []
            else:
                made = make_point(
                    {"operation": mark[1], "working_set": round(megabytes * 1e6)}, figures(bw=number(value, 1e6))
                )
                bandwidths += [made] if made else []
    for operation, value in _LINE.findall(text):
        made = make_point({"operation": operation[:60].lower()}, figures(lat=number(value, 1e-6)))
        small += [made] if made else []
    for operation, value in _BANDWIDTH.findall(text):
        made = make_point({"operation": operation[:60].lower()}, figures(bw=number(value, 1e6)))
        small += [made] if made else []
    summaries = _summaries(text)
    tables = [
        printed.experiment(
            "memory.lmbench", "Memory bandwidth by lmbench", MEMORY_BANDWIDTH, "working_set", bandwidths
        ),
        printed.experiment(
            "memory.lmbench-latency", "Memory latency by lmbench", MEMORY_LATENCY, "working_set", latencies
        ),
        printed.experiment("system.lmbench", "Operating system by lmbench", "lmbench", "operation", small),
        *(
            printed.experiment(f"system.lmbench-{at}", title, "lmbench", "operation", points)
            for at, (title, points) in enumerate(summaries, start=1)
        ),
    ]
    return printed.run(NAME, "lmbench", text, name, tables)


# --- the summary of several hosts, with cells under their heads


def _summaries(text: str) -> list[tuple[str, list[Measurement]]]:
    """Each table of the summary with its points."""
    marks = list(_SUMMARY.finditer(text))
    found = []
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        quantity, factor = _UNITS[mark["unit"] or "microseconds"]
        title = f"{(mark['title'] or mark['other']).replace('*', '')}, by lmbench"
        lines = text[text.find("\n", mark.end()) + 1 : end].splitlines()
        rule = next((number for number, line in enumerate(lines) if _RULE.match(line)), None)
        if rule is not None:
            found.append((title, list(_rows(lines, rule, quantity, factor))))
    return found


def _rows(lines: list[str], rule: int, quantity: str, factor: float) -> Iterator[Measurement]:
    spans = [match.span() for match in _WORD.finditer(lines[rule].replace(">", " "))]
    above = lines[max(0, rule - HEAD_LINES) : rule]
    ends = [at for at, line in enumerate(above) if not set(line) - set("-=> ")]
    heads = above[ends[-1] + 1 :] if ends else above
    names = [" ".join(filter(None, (_cell(line, span) for line in heads))) for span in spans]
    for line in lines[rule + 1 :]:
        if not line.strip(" >"):
            continue
        cells: dict[int, str] = {}
        for word in _WORD.finditer(line):
            shared = [_overlap(span, word.span()) for span in spans]
            if (most := max(shared)) > 0:
                column = shared.index(most)
                cells[column] = f"{cells.get(column, '')} {word[0]}".strip()
        if len(cells) < 2:
            break
        first = [
            cells[at] for at in sorted(cells) if names[at].split(" ")[0] in _LABELS and not names[at].startswith("Mhz")
        ]
        for at, cell in cells.items():
            if names[at].split(" ")[0] in _LABELS or at == 0:
                continue
            given: Parameters = {"operation": names[at][:60].lower(), "system": " ".join(first)[:60]}
            made = make_point(given, figures(**{quantity: number(cell, factor)}))
            if made is not None:
                yield made


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> int:
    return min(first[1], second[1]) - max(first[0], second[0])


def _cell(line: str, span: tuple[int, int]) -> str:
    """The words of a line that are mostly over a span."""
    words = [word for word in _WORD.finditer(line) if _overlap(span, word.span()) > 0]
    return " ".join(word[0] for word in words)
