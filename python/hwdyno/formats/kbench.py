"""Reads the summary of kbench (Longhorn's fio test of a Kubernetes volume) into a Run.

Its three tests are runs of their own with blocks and depths that the summary does not state, so no figure follows from
another.
"""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run

NAME = "kbench-text"
_SUMMARY = re.compile(r"^\s*FIO Benchmark (?:Compar\w{4,8} )?Summary\s*$", re.M)
_SECTION = re.compile(r"^\s*(IOPS|Bandwidth in KiB/sec|Latency in ns) \(Read/Write\)", re.M)
_PAIR = r"([\d,]{1,20}) / ([\d,]{1,20})"
_ROW = re.compile(rf"^\s*(Random|Sequential):\s+{_PAIR}(?:\s+vs\s+{_PAIR})?", re.M)
_COMPARED = re.compile(r"^\s*(\S[^\n]{0,60}?)\s+vs\s+(\S[^\n:]{0,60}?)\s*:\s*Change\s*$", re.M)
_FOR = re.compile(r"^\s*For: (\S[^\n]{0,60})$", re.M)
_SIZE = re.compile(r"^\s*Size: (\d{1,6})([MGT])\b", re.M | re.I)
_FIGURES = {"IOPS": ("iops", 1.0), "Bandwidth in KiB/sec": ("bw", 1024.0), "Latency in ns": ("lat", 1e-9)}
_PATTERNS = {"Random": ("randread", "randwrite"), "Sequential": ("read", "write")}
_BINARY = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def recognizes(text: str) -> bool:
    """Whether this looks like kbench's summary."""
    return _SUMMARY.search(text) is not None and _SECTION.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it, an experiment for each summary and each side of a comparison. Raises ``UserError``."""
    starts = [match.start() for match in _SUMMARY.finditer(text)]
    tables: list[ExperimentResult] = []
    for at, start in enumerate(starts):
        part = text[start : starts[at + 1] if at + 1 < len(starts) else len(text)]
        measured, size, compared = _FOR.search(part), _SIZE.search(part), _COMPARED.search(part)
        labels = compared.groups() if compared else (measured[1].strip(),) if measured else ("",)
        for side, label in enumerate(labels):
            fixed: Parameters = {"label": label} if label else {}
            if size is not None:
                fixed["size"] = int(size[1]) * _BINARY[size[2].upper()]
            which = f"storage.kbench-{len(tables) + 1}" if tables else "storage.kbench"
            points = _points(part, side)
            tables.append(printed.experiment(which, "kbench's summary", STORAGE_BLOCKS, "rw", points, **fixed))
    return printed.run(NAME, "kbench", text, name, tables)


def _points(text: str, side: int) -> list[Measurement]:
    """The points of a summary, or of one side of a comparison."""
    points: list[Measurement] = []
    sections = list(_SECTION.finditer(text))
    for at, section in enumerate(sections):
        quantity, factor = _FIGURES[section[1]]
        part = text[section.end() : sections[at + 1].start() if at + 1 < len(sections) else len(text)]
        for row in _ROW.finditer(part):
            for rw, cell in zip(_PATTERNS[row[1]], row.group(2 + 2 * side, 3 + 2 * side), strict=True):
                if cell is None:
                    continue
                given: Parameters = {"rw": rw, "test": {"bw": "bandwidth", "lat": "latency"}.get(quantity, quantity)}
                made = make_point(given, figures(**{quantity: number(cell.replace(",", ""), factor)}))
                points += [made] if made else []
    return points
