"""Plain reads to compare a training workload with: its transfer size and threads on one file of the same storage."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.analysis.ceilings.loader_reads import FILES
from hwdyno.formats.workload import TrainingWorkload
from hwdyno.measure.scenarios.preparation import Interrupted, Preparation, Says, make_error
from hwdyno.measure.scenarios.request import free_bytes
from hwdyno.measure.workspace import MadeFolder
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import parse_size
from hwdyno.model.words import Parameters, UserError
from hwdyno.system import safe_files, signals

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan

FOLDER, FILE = "hwdyno-plain-reads", "data"
FILE_BYTES = 1 << 30
ROOM_SHARE = 0.1
"""The largest share of the free space that the file may take."""


def make_experiment(
    workload: TrainingWorkload,
    where: tuple[str, Path],
    accelerators: Sequence[int],
    readers: Sequence[int],
    given: Mapping[str, Any],
    max_bytes: int = FILE_BYTES,
) -> Experiment:
    """The experiment for one storage, by name and path, with as many threads as the readers of that many accelerators.

    ``given`` are axes as they were typed: those that say how to read are taken, the first value of each.
    """
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.sweep import Sweep

    storage, path = where
    jobs = count_readers(accelerators, readers)
    first = {name: _first(values) for name, values in given.items()}
    block = parse_size(first["transfer_size"]) if "transfer_size" in first else workload.transfer_size
    least, room = block * jobs[-1], int(free_bytes(path) * ROOM_SHARE)
    fixed: Parameters = {
        "path": str(path / FOLDER / FILE), "size": max(least, min(max_bytes, room)) // block * block, "bs": block,
        "rw": "read", "ioengine": "psync", "iodepth": 1, "direct": first.get("direct", False), "drop_cache": True,
        "time_based": False, "runtime": 0.0, "ramp_time": 0.0,
    }  # fmt: skip
    return Experiment(
        name=f"{FILES}{workload.name}{f'@{storage}' if storage else ''}",
        asks=f"Plain reads at the size of {workload.name}",
        kernel=STORAGE_BLOCKS,
        load="numjobs",
        sweep=Sweep(numjobs=tuple(jobs)),
        fixed=fixed,
    )


def count_readers(accelerators: Sequence[int], readers: Sequence[int]) -> list[int]:
    """How many readers those numbers of accelerators have together, each with those numbers of readers."""
    return sorted({number * max(1, count) for number in accelerators for count in readers})


def _first(values: Any) -> Any:
    if isinstance(values, str):
        return values.partition(",")[0]
    return values[0] if isinstance(values, list | tuple) else values


def list_files(plan: Plan) -> tuple[PlainFile, ...]:
    """The files that a plan's plain reads are of."""
    mine = [planned for planned in plan.experiments if planned.experiment.name.startswith(FILES)]
    sizes = {Path(str(planned.fixed["path"])): int(planned.fixed["size"] or 0) for planned in mine}
    return tuple(
        PlainFile(
            description=f"plain reads: {path} (written and removed)",
            where=path,
            bytes=size,
            seed=plan.seed,
        )
        for path, size in sizes.items()
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PlainFile(Preparation):
    """A file of incompressible data, in a separate folder beside the data set."""

    seed: int
    left_out_by: str = "--no-plain"
    """The option that does without it."""

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """Make the file; nothing that exists is replaced."""
        path = self.where
        with contextlib.ExitStack() as stack:
            with signals.delay_exit():
                folder = MadeFolder(path.parent, path.name)
                if not folder.is_new:
                    why = f"already exists, and this file needs that name; remove it or use {self.left_out_by}"
                    raise UserError(f"{path.parent} {why}")
                stack.callback(folder.remove)
            try:
                safe_files.create(path)
            except OSError as error:
                raise UserError(f"{path} could not be written: {error.strerror}; use {self.left_out_by}") from None
            try:
                reading = host.run("storage_layout", {"path": str(path), "size": self.bytes, "seed": self.seed})
            except OSError as error:
                raise make_error(error) from None
            for fault in reading["faults"]:
                raise UserError(f"{path} could not be written: {fault['says']}; free space, or use {self.left_out_by}")
            if reading["interrupted"]:
                raise Interrupted("interrupted while the file of plain reads was written")
            yield True
