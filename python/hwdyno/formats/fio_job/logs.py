"""Keys for logs, for recording a trace of a job's operations, and for replaying one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hwdyno.formats.fio_job.reader import Reader
from hwdyno.formats.fio_log import Logs
from hwdyno.model.words import Parameters

WINDOW_MS = 100
"""The default window, where fio would log each operation; a run of any length keeps at most 4096 windows."""
_ACTIONS = {"read", "write", "trim", "sync"}
_TRANSFERS = {"read", "write", "trim"}


def read(reader: Reader, given: Parameters, job: str) -> Logs:
    """Read the logs that a job writes, and have the kernel keep their windows."""
    names = {kind: reader.text(f"write_{kind}_log") for kind in ("bw", "iops", "lat")}
    window = reader.integer("log_avg_msec", 0, 3_600_000)
    per_job = reader.flag("per_job_logs")
    beginnings = {kind: name or job for kind, name in names.items() if name is not None}
    if beginnings:
        given["log"], given["interval_s"] = True, (window or WINDOW_MS) / 1000
        if not window:
            reader.notes["log_avg_msec"] = (
                f"logs have one line per {WINDOW_MS} ms, not per operation; set another window with log_avg_msec"
            )
    if trace := reader.text("write_iolog"):
        given["write_iolog"] = trace
    return Logs(**beginnings, per_job=per_job is not False)


@dataclass(frozen=True, slots=True)
class Trace:
    """The content of a trace to replay."""

    files: tuple[str, ...]
    """Files in the order in which the trace adds them."""
    bytes: int
    """End of the furthest operation in any of the files."""
    longest: int
    """The longest operation, in bytes."""
    reads: bool
    writes: bool


def read_trace(reader: Reader, given: Parameters, opened: Callable[[str], str]) -> Trace | None:
    """The trace that a job replays; none if it generates its operations."""
    entry = reader.options.pop("read_iolog", None)
    skip, redirect = reader.text("replay_skip") or "", reader.text("replay_redirect")
    scale, stalls = reader.integer("replay_time_scale", 1), reader.flag("replay_no_stall")
    if entry is None:
        return None
    left_out = {word.strip() for word in skip.split(",") if word.strip()}
    if left_out - _ACTIONS:
        raise reader.error(entry, f"replay_skip={skip}: use {', '.join(sorted(_ACTIONS))}")
    try:
        found = _scan(opened(entry.value), left_out)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise reader.error(entry, f"read_iolog={entry.value}: {str(why).lower()}") from None
    given["read_iolog"], given["replay_skip"] = entry.value, ",".join(sorted(left_out))
    given["replay_time_scale"] = 0.0 if stalls else 100 / (scale or 100)
    given["bs"], given["rw"] = (
        found.longest,
        "rw" if found.reads and found.writes else "write" if found.writes else "read",
    )
    for key in ("bssplit", "bssplit_write", "positions_apart", "gap", "random_distribution", "norandommap"):
        given.pop(key, None)
    given.pop("rwmixread", None)
    if given["rw"] == "rw":
        given["rwmixread"] = 50
    return Trace((redirect,), found.bytes, found.longest, found.reads, found.writes) if redirect else found


def _scan(text: str, skip: set[str]) -> Trace:
    lines = text.splitlines()
    versions = {"fio version 2 iolog": 0, "fio version 3 iolog": 1}
    if not lines or lines[0].strip() not in versions:
        raise ValueError("it does not begin with 'fio version 2 iolog' or 3 (blktrace's binary files are not read)")
    before = versions[lines[0].strip()]
    files: dict[str, None] = {}
    furthest, longest, ways = 0, 0, set()
    for number, line in enumerate(lines[1:], 2):
        words = line.split()[before:]
        if len(words) >= 2 and words[1] == "add":
            files[words[0]] = None
        if len(words) < 4 or words[1] in skip or words[1] not in _TRANSFERS:
            continue
        if words[1] == "trim":
            raise ValueError(f"line {number} is a trim; skip trims with replay_skip=trim")
        if not (words[2].isdecimal() and words[3].isdecimal()):
            raise ValueError(f"line {number} has no offset and length")
        if not int(words[3]):
            raise ValueError(f"line {number} is an operation of no bytes")
        furthest, longest = max(furthest, int(words[2]) + int(words[3])), max(longest, int(words[3]))
        ways.add(words[1])
    if not ways or not files:
        raise ValueError("it has no operation")
    return Trace(tuple(files), furthest, longest, "read" in ways, "write" in ways)
