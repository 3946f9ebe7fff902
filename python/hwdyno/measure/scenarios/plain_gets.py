"""Plain GETs to compare a training workload with: of the data set's own objects, with as many in flight as readers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.analysis.ceilings.loader_reads import OBJECTS
from hwdyno.formats.workload import TrainingWorkload
from hwdyno.model.kernels import OBJECT_REQUESTS
from hwdyno.model.words import Parameters
from hwdyno.system.urls import reach_below

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment

PLAIN_S = 2.0
_BY_SAMPLE = {"tfrecord", "hdf5", "bin"}
"""Formats of which a batch is a range of a shard; of Parquet a column of a row group, of others a whole object."""


def make_experiment(
    workload: TrainingWorkload,
    where: tuple[str, Path],
    in_flight: Sequence[int],
    threads: int,
    reached: Parameters,
) -> Experiment:
    """The experiment for one storage, by its name and the data set's folder, with as many client threads."""
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.sweep import Sweep

    storage, folder = where
    below = reach_below(folder / "train", reached)
    fixed: Parameters = {name: below.pop(name) for name in ("endpoint", "bucket")}
    range_size = _find_range(workload)
    fixed |= {"operation": "range", "range_size": range_size} if range_size else {"operation": "get"}
    return Experiment(
        name=f"{OBJECTS}{workload.name}{f'@{storage}' if storage else ''}",
        asks=f"Plain GETs of the objects of {workload.name}",
        kernel=OBJECT_REQUESTS,
        load="concurrency",
        sweep=Sweep(concurrency=tuple(in_flight)),
        fixed={**fixed, "object_size": int(workload.record_bytes * workload.samples_per_file)},
        settled={**below, "existing": workload.format, "client_threads": threads},
        writes=lambda *_: 0.0,
    )


def _find_range(workload: TrainingWorkload) -> int:
    """Bytes of a request for a part of an object; 0 where a request is for a whole one."""
    if workload.format == "parquet":
        return max(1, int(workload.row_group * workload.record_bytes / max(1, workload.columns)))
    if workload.format in _BY_SAMPLE and workload.batch_size < workload.samples_per_file:
        return int(workload.batch_size * workload.record_bytes)
    return 0
