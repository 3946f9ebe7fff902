"""Reads the text of sysbench 1 into a Run: cpu, memory, fileio and SQL tests. Its MiB are of 2^20 bytes."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import MEMORY_BANDWIDTH, STORAGE_BLOCKS
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.units import parse_size, printed_number
from hwdyno.model.words import ExperimentResult, Parameters, Run, UserError

NAME = "sysbench-text"
_VERSION = re.compile(r"\bsysbench (\d[\d.]*)")
_THREADS = re.compile(r"(?:Number of threads: |--(?:num-)?threads=|\bwith )(\d{1,6})(?: threads\b)?")
_COUNTED = re.compile(r"total number of events:\s+(\d{1,12})\b")
_EVENTS = re.compile(r"events per second:\s+([\d.]+)")
_MOVED = re.compile(r"(?<![\d.])([\d.]{1,30}) Mi?B transferred \(([\d.]+) Mi?B/sec\)")
"""Version 0.4 prints MiB as MB."""
_OPERATIONS = re.compile(r"(?:Total operations|Operations performed): (\d{1,18})\b", re.ASCII)
_BLOCK = re.compile(r"[Bb]lock size:? ([\d.]+[KMG]?i?B)|--memory-block-size=([\d.]+[KMG]?)\b")
_COMMAND = re.compile(r"\bsysbench\b[^\n]*\bmemory\b")
_PARTS = re.compile(r"(?=\bsysbench \d)|(?=\bsysbench [^\n]*\bmemory\b)|(?=^#{1,6} )", re.M)
_MODE = re.compile(
    r"Doing (sequential write|sequential rewrite|sequential read|random read|random write|"
    r"random r/w|combined)[^\n]*test"
)
_LATENCY = re.compile(
    r"Latency \(ms\):\s+min:\s+([\d.]+)\s+avg:\s+([\d.]+)\s+max:\s+([\d.]+)(?:\s+(95|99)th percentile:\s+([\d.]+))?"
)
_TRANSACTIONS = re.compile(r"transactions:\s+\d+\s+\(([\d.]+) per sec")
_TIME = re.compile(r"total time:\s+([\d.]+)s")
_EACH = re.compile(r"(reads|writes)/s:\s+([\d.]+)")
_RATES = re.compile(r"(read|written), MiB/s:\s+([\d.]+)")
_MIB = 2.0**20
_PATTERNS = {
    "sequential write": "write", "sequential rewrite": "write", "sequential read": "read", "random read": "randread",
    "random write": "randwrite", "random r/w": "randrw", "combined": "randrw",
}  # fmt: skip


def parse_transfer(text: str) -> tuple[PrintedNumber | None, PrintedNumber | None, int]:
    """The bytes that the memory test moved, its bytes/s, and its operations; none where it printed none."""
    match, operations = _MOVED.search(text), _OPERATIONS.search(text)
    if match is None:
        return None, None, 0
    return number(match[1], _MIB, "iB"), number(match[2], _MIB), int(operations[1]) if operations else 0


def recognizes(text: str) -> bool:
    """Whether this looks like sysbench's output."""
    is_whole = (_VERSION.search(text) or _COUNTED.search(text)) is not None and "General statistics" in text
    return is_whole or (_COMMAND.search(text) is not None and _MOVED.search(text) is not None)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    experiments = [experiment for part in _PARTS.split(text) if (experiment := _experiment(part)) is not None]
    version = _VERSION.search(text)
    return printed.run(NAME, "sysbench", text, name, experiments, version[1] if version else "")


def _experiment(text: str) -> ExperimentResult | None:
    threads, mode = _THREADS.search(text), _MODE.search(text)
    data, rate, _ = parse_transfer(text)
    file_rates = _EACH.findall(text)
    parameters: Parameters = {"threads": int(threads[1]) if threads else 1}
    if block := _BLOCK.search(text):
        try:
            parameters["bs" if mode else "block"] = parse_size(block[1] or block[2])
        except UserError:
            parameters.pop("bs", None)
    latency, time = _LATENCY.search(text), _TIME.search(text)
    found = figures(
        lat_min=number(latency[1], 1e-3) if latency else None, lat_mean=number(latency[2], 1e-3) if latency else None,
        lat_max=number(latency[3], 1e-3) if latency else None,
    )  # fmt: skip
    if latency and latency[4]:
        found |= figures(**{f"lat_p{latency[4]}": number(latency[5], 1e-3)})
    if data is not None:
        moves = figures(bw=rate, data=data, time=number(time[1]) if time else None)
        # One buffer of a block's size is moved again and again.
        block_bytes = {"reused_block_bytes": parameters["block"]} if "block" in parameters else {}
        operation = "write" if "operation: write" in text or "--memory-oper=write" in text else "read"
        made = make_point({"operation": operation, **parameters}, moves, **block_bytes)
        return printed.experiment(
            "memory.sysbench", "sysbench memory", MEMORY_BANDWIDTH, "threads", [made] if made else []
        )
    if mode is not None or file_rates:
        # A text that ends early, or begins late, states neither the order nor how many threads there were.
        used = [name.removesuffix("s") for name, figure in file_rates if figure.strip("0.")]
        parameters["rw"] = _PATTERNS[mode[1]] if mode else used[0] if len(used) == 1 else "rw"
        jobs = {"numjobs": parameters.pop("threads")} if threads or mode else {}
        parameters.pop("threads", None)
        rates = [number(figure) for _, figure in file_rates]
        bytes_ = [number(figure, _MIB) for _, figure in _RATES.findall(text)]
        total = figures(iops=_sum(rates), bw=_sum(bytes_))
        # fileio's latency is also of its syncs, so that it does not go with the rate of reads and writes.
        made = make_point({**parameters, **jobs}, total, latency_ms=float(latency[2]) if latency else None)
        return printed.experiment(
            "storage.sysbench", "sysbench fileio", STORAGE_BLOCKS, "numjobs", [made] if made else []
        )
    if sent := _TRANSACTIONS.search(text):
        made = make_point({"operation": "transactions", **parameters}, {**found, **figures(iops=number(sent[1]))})
        return printed.experiment(
            "compute.sysbench-sql", "sysbench SQL transactions", "sysbench_sql", "threads", [made] if made else []
        )
    events, counted = _EVENTS.search(text), _COUNTED.search(text)
    if events or (counted and time):
        rate = number(events[1]) if events else _per_second(counted, time)
        made = make_point({"operation": "primes", **parameters}, {**found, **figures(iops=rate)})
        return printed.experiment("compute.sysbench", "sysbench cpu", "sysbench_cpu", "threads", [made] if made else [])
    return None


def _per_second(count: re.Match[str] | None, time: re.Match[str] | None) -> PrintedNumber | None:
    """The rate of a test whose text ends above it: events over seconds, both as printed."""
    events, seconds = (printed_number(match[1]) if match else None for match in (count, time))
    return PrintedNumber(events / seconds, 0.0) if events and seconds else None


def _sum(numbers: list[PrintedNumber | None]) -> PrintedNumber | None:
    known = [figure for figure in numbers if figure is not None]
    return (
        PrintedNumber(sum(figure.value for figure in known), max(figure.rounding for figure in known))
        if known
        else None
    )
