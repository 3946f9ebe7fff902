"""Makes the data file of a run: of the requested size, as far as space and time allow."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from hwdyno.measure.hosts import Host
from hwdyno.measure.measurement import compute_throughput
from hwdyno.measure.plan import Plan
from hwdyno.measure.runner.observers import Progress
from hwdyno.measure.workspace import DataFile, fit
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import format_bytes_s, format_size
from hwdyno.model.words import UserError
from hwdyno.system.safe_files import why_refused

# The first part measures the write rate, and so how much fits into the budget.
PROBE_BYTES = 128 << 20
BUDGET_SHARE = 0.15
FILL_BYTES = 1 << 20
"""An operation of the pass over a raw device."""
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass
class FileLayout:
    """The result of laying out the data file."""

    size_bytes: int
    says: str = ""
    """Why it is smaller than requested; empty if it is not."""
    degraded: str = ""
    """The error during the layout; empty if there was none."""
    full: bool = False
    """Whether the filesystem ran out of space during the layout."""
    interrupted: bool = False


def may_shrink(plan: Plan) -> bool:
    """Whether the data file's size is hwdyno's to choose."""
    return not {"size", "offset"} & plan.given


def lay_out(plan: Plan, workspace: DataFile, host: Host, progress: Progress) -> FileLayout:
    """Write the data file; raises ``UserError`` where not even the smallest one fits."""
    place, wanted, least = workspace.place, plan.data_bytes, plan.min_bytes
    size, says = fit(place, wanted, least, may_shrink=may_shrink(plan))
    made = FileLayout(size, says)
    if not wanted and not place.is_device:
        return made  # only a place to make names in is needed
    if place.is_device:
        if place.written:
            _fill(made, plan, workspace, host, progress)
        return made
    if may_shrink(plan) and plan.budget_s is not None and size > PROBE_BYTES:
        speed = _write(made, PROBE_BYTES, plan, workspace, host, progress)
        affordable = max(PROBE_BYTES, least, int(speed * plan.budget_s * BUDGET_SHARE) >> 20 << 20)
        if speed and affordable < size:
            made.size_bytes = affordable
            made.says = (
                f"the data file has {format_size(affordable)} instead of {format_size(wanted)}: "
                f"writing more at {format_bytes_s(speed)} takes too long"
            )
    if not made.interrupted and not made.full:
        _write(made, made.size_bytes, plan, workspace, host, progress)
    there = workspace.laid_out_bytes if made.full else made.size_bytes
    if not made.interrupted and there < made.size_bytes:
        smaller = there >> 20 << 20
        if smaller < max(least, 1 << 20):
            why = why_refused(OSError(errno.ENOSPC, "no space left"), place.path)
            raise UserError(f"--path {place.path}: {why} for the data file; free space or use another --path")
        made.degraded = (
            f"the filesystem was full after {format_size(smaller)} of the data file's {format_size(made.size_bytes)}; "
            "the points were measured on that"
        )
        made.size_bytes = smaller
    return made


def _fill(made: FileLayout, plan: Plan, workspace: DataFile, host: Host, progress: Progress) -> None:
    """Write once over the part of a raw device that is measured: blocks never written are read without the flash."""
    progress.says(f"writing {format_size(made.size_bytes)} of {workspace.place.path} once")
    parameters = {
        "path": str(workspace.data),
        "rw": "write",
        "bs": min(FILL_BYTES, made.size_bytes),
        "ioengine": "psync",
    }
    parameters |= {"direct": True, "size": made.size_bytes, "time_based": False, "runtime": 0.0, "seed": plan.seed}
    reading = host.run(STORAGE_BLOCKS, parameters | {"destroy": plan.destroy, "serial": plan.serial})
    made.interrupted = bool(reading.get("interrupted"))


def _write(made: FileLayout, size: int, plan: Plan, workspace: DataFile, host: Host, progress: Progress) -> float:
    """Lay out the data file up to ``size``; gives bytes/s, and 0 where it stopped before its end."""
    progress.says(f"writing {format_size(size)} of incompressible data in {workspace.place.path}")
    try:
        reading = host.run("storage_layout", {"path": str(workspace.data), "size": size, "seed": plan.seed})
    except OSError as error:
        if error.errno in NO_ROOM:
            made.full = True
            return 0.0
        remedy = "" if error.errno == errno.ENOMEM else "; use another --path"
        raise UserError(f"--path {workspace.place.path}: {error.strerror or error}{remedy}") from None
    made.full = made.full or any(int(fault["errno"]) in NO_ROOM for fault in reading.get("faults", ()))
    made.interrupted = made.interrupted or bool(reading.get("interrupted"))
    return 0.0 if made.interrupted else compute_throughput(reading, "bytes")
