"""Reads elbencho's text into a Run: files, or objects of an S3 store, each operation when its last thread was done.

Its MiB are of 2^20 bytes.
"""

from __future__ import annotations

import re

from hwdyno.formats import elbencho_objects, object_results, printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "elbencho-text"
_HEADS = re.compile(r"^OPERATION\s+RESULT TYPE\s+FIRST DONE\s+LAST DONE", re.M)
_START = re.compile(r"^(?P<operation>[A-Z][A-Z_+\d]{2,20})?\s+(?:Elapsed time|Elapsed ms|Elapsed us)\s*:", re.M)
_LINE = re.compile(r"(IOPS|Throughput MiB/s|Total MiB|Files/s|Dirs/s|Entries/s|Total files)\s*:\s+([\d.]+)\s+([\d.]+)")
_ELAPSED = re.compile(r"Elapsed (?:time|ms|us)\s*:\s+(\S+)\s+(\S+)")
_LATENCY = re.compile(
    r"IO lat(?:ency)?(?: us)?\s*:\s*\[\s*min=([\d.]+)(us|ms|s)?\s+avg=([\d.]+)(us|ms|s)?\s+max=([\d.]+)(us|ms|s)?"
)
_MIB = 2.0**20
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1e-6}


def recognizes(text: str) -> bool:
    """Whether this looks like elbencho's output."""
    return _HEADS.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points, of_store = list[Measurement](), list[Measurement]()
    command = elbencho_objects.find_command(text)
    starts = list(_START.finditer(text))
    for at, match in enumerate(starts):
        part = text[match.start() : starts[at + 1].start() if at + 1 < len(starts) else len(text)]
        if elbencho_objects.is_of_store(part):
            elapsed = _ELAPSED.search(part)
            seconds = _seconds(elapsed[2]) if elapsed else None
            time = number(str(seconds)) if seconds else None
            made = elbencho_objects.read_operation(match["operation"] or "", part, command, time)
            of_store += [made] if made else []
            continue
        lines = {label: last for label, _, last in _LINE.findall(part)}
        operation = (match["operation"] or "").lower()
        parameters: Parameters = {"operation": operation} if operation not in {"read", "write"} else {"rw": operation}
        latency = _LATENCY.search(part)
        found = figures(
            bw=number(lines.get("Throughput MiB/s"), _MIB),
            iops=number(lines.get("IOPS") or lines.get("Files/s") or lines.get("Dirs/s") or lines.get("Entries/s")),
            lat_min=number(latency[1], _TIMES[latency[2] or ""]) if latency else None,
            lat_mean=number(latency[3], _TIMES[latency[4] or ""]) if latency else None,
            lat_max=number(latency[5], _TIMES[latency[6] or ""]) if latency else None,
        )
        moved, elapsed = number(lines.get("Total MiB"), _MIB, "iB"), _ELAPSED.search(part)
        seconds = _seconds(elapsed[2]) if elapsed else None
        if moved is not None and seconds is not None and elapsed is not None:
            found |= figures(data=moved, time=number(str(seconds)))
        made = make_point(parameters, found)
        points += [made] if made else []
    table = printed.experiment("storage.elbencho", "elbencho results", STORAGE_BLOCKS, "operation", points)
    return printed.run(NAME, "elbencho", text, name, [table, object_results.experiment("elbencho", of_store)])


def _seconds(text: str) -> float | None:
    """Seconds of ``1.234s`` or ``2m3.4s``; a bare number is of ms."""
    match = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,4})m)?(?:(\d{1,9}(?:\.\d{1,6})?)(ms|us|s)?)?", text)
    if match is None:
        return None
    unit_s = {"ms": 1e-3, "us": 1e-6, "s": 1.0}.get(match[4] or "ms", 1e-3)
    return 3600 * int(match[1] or 0) + 60 * int(match[2] or 0) + float(match[3] or 0) * unit_s
