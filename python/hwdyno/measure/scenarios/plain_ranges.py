"""Plain ranged GETs to compare a workload in an object store with: its reads' size and connections, in the same run."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.analysis.ceilings.inference import name_plain_gets
from hwdyno.model.kernels import OBJECT_REQUESTS
from hwdyno.system.urls import reach_below

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.plan import Planned

OBJECTS = 4
MIN_BYTES, MAX_BYTES = 1 << 20, 256 << 20
"""Bytes of an object: all together are as large as what they are compared with, where that is neither tiny nor huge."""


def make_experiment(
    workload: Experiment, loads: Iterable[tuple[int, int]], read_bytes: int, total_bytes: int
) -> Experiment:
    """The experiment beside a workload, whose folder in the store it shares: each load is threads and connections."""
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.sweep import Sweep

    folder = Path(str(workload.settled["path"]))
    reached = {name: value for name, value in workload.settled.items() if name in {"endpoint", "ca_file"}}
    below = reach_below(folder, reached)
    object_bytes = min(max(total_bytes // OBJECTS, MIN_BYTES, read_bytes), max(MAX_BYTES, read_bytes))
    points = [Sweep(concurrency=connections, client_threads=threads) for threads, connections in sorted({*loads})]
    return Experiment(
        name=name_plain_gets(workload.name),
        asks=f"Plain GETs at the size of {workload.name.partition('.')[2]}",
        kernel=OBJECT_REQUESTS,
        load="concurrency",
        sweep=reduce(add, points),
        fixed={
            "endpoint": below["endpoint"],
            "bucket": below["bucket"],
            "operation": "range",
            "range_size": read_bytes,
            "object_size": object_bytes // read_bytes * read_bytes,
        },
        settled={
            **{name: value for name, value in below.items() if name not in {"endpoint", "bucket"}},
            "objects": OBJECTS,
        },
    )


def read_layout(planned: Planned) -> dict[str, Any]:
    """The parameters of the layout of the objects that a planned experiment reads."""
    return {name: planned.fixed[name] for name in ("object_size", "objects")}
