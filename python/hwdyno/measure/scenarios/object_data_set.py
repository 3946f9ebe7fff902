"""A data set in an object store: the user's, used as it is, or one of the run that is written and removed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.formats.workload import TrainingWorkload
from hwdyno.measure.scenarios.object_folder import (
    ObjectFolder,
    count_endings,
    report_left,
    show_folder,
)
from hwdyno.measure.scenarios.preparation import Interrupted, Says, make_error
from hwdyno.model.units import format_bytes_s, format_duration, format_size
from hwdyno.model.words import Parameters, UserError
from hwdyno.system.urls import format_place, reach_below

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host


def has_data(host: Host, path: Path, workload: TrainingWorkload, reached: Parameters) -> bool:
    """Whether a place has a data set of the workload, in DLIO's layout; raises ``UserError`` for another one's."""
    endings = count_endings(host, path / "train", reached)
    if endings and workload.format not in endings:
        raise UserError(
            f"{format_place(path)}/train has no .{workload.format} object of {workload.name}, but "
            f".{min(endings)}: it belongs to another workload; select that one with --workload, or use another --path"
        )
    return bool(endings)


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectDataSet(ObjectFolder):
    """A data set of the run, one object a file."""

    data: TrainingWorkload

    def fill(self, host: Host, says: Says) -> None:
        """Write the objects; raises ``UserError``, and ``Interrupted`` where it was stopped."""
        kind = self.data
        says(f"writing {kind.samples} samples of {kind.name} ({format_size(kind.bytes)}) as objects …")
        reached = {name: self.reached[name] for name in ("endpoint", "ca_file") if name in self.reached}
        try:
            parameters = {**kind.layout, **reached, "path": format_place(self.where)}
            reading = host.run("training_generate", parameters)
        except OSError as error:
            raise make_error(error) from None
        report_left(reading["details"], says)
        for fault in reading["faults"]:
            raise UserError(f"the data set could not be written: {fault['says']}")
        if reading["interrupted"]:
            raise Interrupted("interrupted while the data set was written; it is removed")
        (stream,) = reading["streams"]
        speed = format_bytes_s(stream["bytes"] / reading["elapsed_s"])
        says(f"wrote {format_size(stream['bytes'])} in {format_duration(reading['elapsed_s'])}: {speed}")


def make_object_data_set(folder: Path, data: TrainingWorkload, reached: Parameters) -> ObjectDataSet:
    """The data set of a workload in a folder of the run."""
    return ObjectDataSet(
        description=show_folder(
            f"data: {data.samples} samples of {data.name}, {format_size(data.bytes)}, below {format_place(folder)} "
            "(written and removed)"
        ),
        where=folder,
        bytes=int(data.bytes),
        data=data,
        reached=reach_below(folder, reached),
    )
