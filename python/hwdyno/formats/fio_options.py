"""Parses the values of fio's options, and finds which of them are axes of a sweep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hwdyno.model.axes import FIELD, is_mixed
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.words import Parameters, Scalar

KERNEL = STORAGE_BLOCKS
"""The kernel whose points fio's documents hold."""

# fio's defaults (fio's manual, 3.33).
DEFAULTS: dict[str, Scalar] = {
    "rw": "read",
    "bs": 4096,
    "iodepth": 1,
    "numjobs": 1,
    "ioengine": "psync",
    "direct": False,
}
AXES = ("rw", "bs", "iodepth", "numjobs", "ioengine", "direct", "size", "rwmixread", "offset", "rate", "rate_iops")
ALIASES = {
    **{"readwrite": "rw", "blocksize": "bs", "blocksize_range": "bsrange", "mem": "iomem", "threads": "thread"},
    **{"ss": "steadystate", "ss_dur": "steadystate_duration", "ss_ramp": "steadystate_ramp_time"},
    **{
        "ss_interval": "steadystate_check_interval",
        "ratemin": "rate_min",
        "timeout": "runtime",
        "prio_class": "prioclass",
    },
    **{"fileoffset": "offset", "iodepth_batch_submit": "iodepth_batch", "verify_header_interval": "verify_interval"},
    **{"ba": "blockalign", "norandmap": "norandommap", "replay_nostall": "replay_no_stall", "fill_fs": "fill_device"},
}
LOADS = ("iodepth", "bs", "numjobs")

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgtp])(i?)b?)?", re.IGNORECASE)


def size(text: object, kb_base: int = 1024) -> Scalar:
    """Read a size as fio does: with kb_base 1024, its default, ``4k`` and ``4kb`` are 4096 and ``4kib`` is 4000.

    A value that is not a single size (a range, a list, a percentage) is returned as written.
    """
    written = str(text).strip()
    parts = {part for part in re.split(r"[,:-]", written) if part}
    match = _SIZE.fullmatch(parts.pop()) if len(parts) == 1 else None
    if match is None:
        return written
    amount, prefix, reverse = match.groups()
    base = kb_base if not reverse else (1000 if kb_base == 1024 else 1024)
    factor = base ** ("kmgtp".index(prefix.lower()) + 1) if prefix else 1
    value = float(amount) * factor
    return int(value) if value < 2**63 else written


def convert_options(given: Mapping[str, Any], entries: int) -> Parameters:
    """The parameters of a job under our names; ``entries`` is the number of equal jobs' records in fio's output."""
    options = {ALIASES.get(name, name): value for name, value in given.items()}
    kb_base = 1000 if str(options.get("kb_base")) == "1000" else 1024
    found: Parameters = dict(DEFAULTS)
    for name in AXES:
        if name not in options:
            continue
        value = options[name]
        if name == "direct":
            found[name] = str(value) not in {"0", "false"}
        elif name in {"bs", "size", "offset"}:
            found[name] = size(value, kb_base)
        elif name in {"iodepth", "numjobs", "rwmixread", "rate_iops"}:
            found[name] = int(value) if str(value).isdecimal() and len(str(value)) < 10 else str(value)
        else:
            found[name] = str(value)
    for name in ("bsrange", "bssplit"):
        if name in options:
            found["bs"] = str(options[name])  # No single size: bandwidth is not rate x size.
    if "buffered" in options and "direct" not in options:
        found["direct"] = str(options["buffered"]) in {"0", "false"}
    if is_mixed(FIELD["rw"], found):
        found["rw"] = "rw" if found["rw"] == "readwrite" else found["rw"]
        write = options.get("rwmixwrite", "")
        if "rwmixread" not in found:
            found["rwmixread"] = 100 - int(write) if str(write).isdecimal() and len(str(write)) < 4 else 50
    else:
        found.pop("rwmixread", None)
    if found["numjobs"] == 1 and entries > 1:
        found["numjobs"] = entries
    return found


def choose_load(points: Sequence[Parameters]) -> str:
    """The load axis of the points: the one with the most numeric values."""

    def values(axis: str) -> int:
        return len({point.get(axis) for point in points if isinstance(point.get(axis), int)})

    return max(LOADS, key=values)
