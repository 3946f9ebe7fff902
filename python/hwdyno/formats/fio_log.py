"""Writes fio's log files (``write_bw_log``, ``write_iops_log``, ``write_lat_log``) from each thread's samples.

A line is ``time_ms, value, direction, block size, offset, priority`` (fio's manual, "Log File Formats"): KiB/s,
operations/s or ns, averaged over a window as with ``log_avg_msec``; block size and offset are then 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LATENCIES = {"slat": "submit_ns", "clat": "complete_ns", "lat": "total_ns"}
_DIRECTIONS = (("read", 0), ("write", 1))


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs that a job writes: the file name prefix of each kind, empty for none."""

    bw: str = ""
    iops: str = ""
    lat: str = ""
    per_job: bool = True


NO_LOGS = Logs()


def files(logs: Logs, threads: Sequence[Mapping[str, Any]], first: int) -> Iterator[tuple[str, str]]:
    """Name and text of each file; ``first`` is the number of the job's first thread, counted from 1 as in fio."""
    for kind, prefix in (("bw", logs.bw), ("iops", logs.iops), ("lat", logs.lat)):
        if not prefix:
            continue
        for name in LATENCIES if kind == "lat" else (kind,):
            texts = [format_log(thread, name) for thread in threads]
            if logs.per_job:
                for number, text in enumerate(texts, first):
                    yield f"{prefix}_{name}.{number}.log", text
            else:
                yield f"{prefix}_{name}.log", "".join(texts)


def format_log(thread: Mapping[str, Any], kind: str) -> str:
    """Text of one thread's log of one kind (``bw``, ``iops``, ``slat``, ``clat``, ``lat``)."""
    window_s = float(thread["interval_s"])
    lines = []
    for row in range(max((len(thread[way]["operations"]) for way, _ in _DIRECTIONS), default=0)):
        for way, number in _DIRECTIONS:
            operations = thread[way]["operations"]
            if row >= len(operations) or not operations[row]:
                continue
            if kind == "bw":
                value = thread[way]["bytes"][row] / window_s / 1024
            elif kind == "iops":
                value = operations[row] / window_s
            else:
                value = thread[way][LATENCIES[kind]][row] / operations[row]
            lines.append(f"{round((row + 1) * window_s * 1000)}, {round(value)}, {number}, 0, 0, 0\n")
    return "".join(lines)
