"""Reads s3bench's text into a Run: a point for writes and one for reads. Its MB are of 2^20 bytes."""

from __future__ import annotations

import re

from hwdyno.formats import object_results, printed
from hwdyno.formats.object_results import Requests, find_size
from hwdyno.formats.row import figures, number
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Measurement, Run

NAME = "s3bench-text"
_SUMMARY = re.compile(r"^Results Summary for (\w{3,12}) Operation\(s\)", re.M)
_SETTING = re.compile(r"^(numClients|numSamples):\s{1,20}(\d{1,9})\s*$", re.M)
_FIGURE = re.compile(
    r"^(Total Transferred|Total Throughput|Ops/sec|Total Duration|Number of Errors): {1,20}(\d{1,15}(?:\.\d{1,9})?)",
    re.M,
)
_TIME = re.compile(r"^\w{3,6} times (Max|Min|50th %ile|90th %ile|99th %ile): {1,20}(\d{1,9}(?:\.\d{1,9})?) s", re.M)
_NAMES = {"Max": "max", "Min": "min", "50th %ile": "p50", "90th %ile": "p90", "99th %ile": "p99"}
_MIB = 2.0**20


def recognizes(text: str) -> bool:
    """Whether this looks like s3bench's output."""
    return _SUMMARY.search(text) is not None and "Total Transferred:" in text


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    settings = {key: int(value) for key, value in _SETTING.findall(text)}
    heads = list(_SUMMARY.finditer(text))
    points: list[Measurement] = []
    for at, head in enumerate(heads):
        part = text[head.end() : heads[at + 1].start() if at + 1 < len(heads) else len(text)]
        made = object_results.to_point(_read_summary(head[1], part, settings))
        points += [made] if made else []
    return printed.run(NAME, "s3bench", text, name, [object_results.experiment("s3bench", points)])


def _read_summary(operation: str, part: str, settings: dict[str, int]) -> Requests:
    """The requests of a summary, which has no mean of their times; older versions state no rate."""
    stated = dict(reversed(_FIGURE.findall(part)))
    moved, elapsed = number(stated.get("Total Transferred"), _MIB, "iB"), number(stated.get("Total Duration"))
    errors = number(stated.get("Number of Errors"))
    failed = round(errors.value) if errors else 0
    completed = max(0, settings.get("numSamples", 0) - failed)
    count = PrintedNumber(float(completed), 0.0, None) if completed else None
    rate = number(stated.get("Ops/sec"))
    claims = object_results.find_rate_claim(rate, completed, elapsed)
    if rate is None and count is not None and elapsed is not None and elapsed.value > 0:
        rate = PrintedNumber(completed / elapsed.value, elapsed.rounding, None)
    found = figures(bw=number(stated.get("Total Throughput"), _MIB, "MiB/s"), iops=rate, data=moved, time=elapsed)
    found |= {
        f"lat_{_NAMES[word]}": time
        for word, seconds in reversed(_TIME.findall(part))
        if (time := number(seconds)) is not None and time.value > 0
    }
    return Requests(
        operation,
        found,
        concurrency=settings.get("numClients", 0),
        object_size=find_size(figures(bw=moved, iops=count)),
        completed=completed,
        moved_bytes=round(moved.value) if moved else 0,
        elapsed_s=elapsed.value if elapsed else 0.0,
        failed={"a request that s3bench counts as an error": failed},
        claims=claims,
    )
