"""Reads the text of Wasabi's s3-benchmark into a Run: a point for each operation of a loop. Its M are of 2^20 bytes."""

from __future__ import annotations

import re

from hwdyno.formats import object_results, printed
from hwdyno.formats.object_results import Requests
from hwdyno.formats.row import figures, number
from hwdyno.model.words import Measurement, Run

NAME = "s3-benchmark-text"
_PARAMETERS = re.compile(r"Parameters:? ?\{? ?url=[^\n]{0,500}")
_THREADS, _SIZE = re.compile(r"\bthreads=(\d{1,6})\b"), re.compile(r"\bsize=(\d{1,12}(?:\.\d{1,6})?)([BKMGT]?)B?\b")
# "Loop 1: PUT time 60.1 secs, objects = 5484, speed = 91.3MB/sec, 91.3 operations/sec. Slowdowns = 0"
_LOOP = re.compile(
    r"Loop (\d{1,6}): (PUT|GET|DELETE) time[ =](\d{1,9}(?:\.\d{1,6})?) secs"
    r"(?:, objects ?=? (\d{1,15}), speed ?=? (\d{1,9}(?:\.\d{1,6})?) ?([KMGT]?) ?B/sec)?"
    r", (\d{1,12}(?:\.\d{1,6})?) (?:operations|deletes)/sec\.?(?:,? Slowdowns ?= ?(\d{1,12}))?"
)
_VERSION = re.compile(r"benchmark program v([\d.]{1,12})")
_BYTES = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def recognizes(text: str) -> bool:
    """Whether this looks like s3-benchmark's output."""
    return _LOOP.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    threads = size = 0
    for line in text.splitlines():
        if stated := _PARAMETERS.search(line):
            found = _THREADS.search(stated[0])
            threads = int(found[1]) if found else 0
            sized = _SIZE.search(stated[0])
            size = round(float(sized[1]) * _BYTES[sized[2]]) if sized else 0
        elif match := _LOOP.search(line):
            made = object_results.to_point(_read_loop(match, threads, size))
            points += [made] if made else []
    version = _VERSION.search(text)
    table = object_results.experiment("s3-benchmark", points)
    return printed.run(NAME, "s3-benchmark", text, name, [table], version[1] if version else "")


def _read_loop(match: re.Match[str], threads: int, size: int) -> Requests:
    loop, operation, time, objects, speed, prefix, rate, slowdowns = match.groups()
    elapsed, completed = number(time), int(objects or 0)
    found = figures(bw=number(speed, _BYTES[prefix or ""]), iops=number(rate))
    return Requests(
        operation,
        found,
        concurrency=threads,
        object_size=size,
        completed=completed,
        moved_bytes=completed * size,
        elapsed_s=elapsed.value if elapsed else 0.0,
        failed={"503 SlowDown: the store sheds load": int(slowdowns or 0)},
        claims=object_results.find_rate_claim(found.get("iops"), completed, elapsed),
        details={"loop": int(loop)},
    )
