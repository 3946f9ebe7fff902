"""Plain reads beside a training workload: its transfer size and threads on one laid-out file of the same storage."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.formats.workload import Workload
from hwdyno.units import format_size, parse_size
from hwdyno.words import Parameters, UserError

if TYPE_CHECKING:
    from hwdyno.experiments import Experiment
    from hwdyno.hosts import Host
    from hwdyno.plan import Plan

NAME = "storage.pattern."
FILE = "hwdyno-plain-reads"
FILE_BYTES = 1 << 30
ROOM_SHARE = 0.1
"""Of the free room, so much at most is taken by the file."""


def beside(
    workload: Workload,
    where: tuple[str, Path],
    accelerators: Sequence[int],
    readers: Sequence[int],
    given: Mapping[str, str],
) -> Experiment:
    """The experiment for one storage, by name and path, with as many threads as so many accelerators' readers are.

    ``given`` are axes as they were typed: those that say how to read are taken, the first value of each.
    """
    from hwdyno.experiments import Experiment
    from hwdyno.sweep import Sweep

    storage, path = where
    jobs = sorted({number * max(1, each) for number in accelerators for each in readers})
    first = {name: text.partition(",")[0] for name, text in given.items()}
    block = parse_size(first["transfer_size"]) if "transfer_size" in first else workload.transfer_size
    least, room = block * jobs[-1], int(shutil.disk_usage(path).free * ROOM_SHARE)
    fixed: Parameters = {
        "path": str(path / FILE), "size": max(least, min(FILE_BYTES, room)) // block * block, "bs": block, "rw": "read",
        "ioengine": "psync", "iodepth": 1, "direct": first.get("direct", False), "drop_cache": True,
        "time_based": False, "runtime": 0.0, "ramp_time": 0.0,
    }  # fmt: skip
    return Experiment(
        name=f"{NAME}{workload.name}{f'@{storage}' if storage else ''}",
        asks=f"What would this storage give readers like {workload.name}'s, without files, batches and parsing?",
        kernel="storage_blocks",
        load="numjobs",
        sweep=Sweep(numjobs=tuple(jobs)),
        fixed=fixed,
    )


def _files(plan: Plan) -> dict[Path, int]:
    """The files that a plan's plain reads are of, with their sizes."""
    mine = [one for one in plan.experiments if one.experiment.name.startswith(NAME)]
    return {Path(str(one.fixed["path"])): int(one.fixed["size"] or 0) for one in mine}


def tell(plan: Plan) -> None:
    """Say what would be written."""
    for path, size in _files(plan).items():
        sys.stdout.write(f"plain reads: {format_size(size)} in {path} (written and removed)\n")


def lay_out(plan: Plan, host: Host, made: list[Path]) -> bool:
    """Write the files, each noted in ``made`` before it is begun; false if it was interrupted."""
    for path, size in _files(plan).items():
        if path.exists():
            raise UserError(f"{path} is in the way of plain reads; remove it, or give --no-plain")
        made.append(path)
        try:
            reading = host.run("storage_layout", {"path": str(path), "size": size, "seed": plan.seed})
        except OSError as error:
            raise UserError(error.strerror or str(error)) from None
        for fault in reading["faults"]:
            raise UserError(f"{path} could not be written: {fault['says']}; free some room, or give --no-plain")
        if reading["interrupted"]:
            return False
    return True
