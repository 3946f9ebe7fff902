"""Questions about an object store: throughput and latency of each kind of request, by requests in flight."""

from __future__ import annotations

from functools import partial

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.sweep import Sweep, powers
from hwdyno.model.kernels import OBJECT_REQUESTS
from hwdyno.model.units import number_at
from hwdyno.model.words import Declaration, Parameters

LARGE, SMALL = 8 << 20, 4096
"""Bytes of an object: a common part size, and one where latency decides."""


def _count_written_bytes(_: Declaration, point: Parameters, storage_takes: float) -> float:
    """Bytes that a reading writes at most: what a store takes in its time, or the objects that it deletes."""
    match point.get("operation"):
        case "put" | "multipart" | "mixed":
            return storage_takes
        case "get" if point.get("visit", "any") != "any":
            return number_at(point, "objects") * number_at(point, "object_size")
        case "delete":
            return number_at(point, "objects") * number_at(point, "object_size")
        case _:
            return 0.0


_requests = partial(
    Experiment,
    kernel=OBJECT_REQUESTS,
    load="concurrency",
    # Its scenario puts the store's here; without one the engine would measure a null server.
    fixed={"endpoint": "http://127.0.0.1:9", "bucket": "bucket"},
    writes=_count_written_bytes,
    setup_s=0.1,
)

GET = _requests(
    name="object.get",
    asks="Reads of large objects by requests in flight",
    sweep=Sweep(operation="get", object_size=LARGE, concurrency=powers(1, 64)),
    quick=Sweep(operation="get", object_size=LARGE, concurrency=(1, 4, 16)),
    base=Sweep(operation="get", object_size=LARGE, concurrency=20),
)

PUT = _requests(
    name="object.put",
    asks="Writes of large objects by requests in flight",
    sweep=Sweep(operation="put", object_size=LARGE, concurrency=powers(1, 64)),
    quick=Sweep(operation="put", object_size=LARGE, concurrency=(1, 4, 16)),
)

SMALL_GET = _requests(
    name="object.small",
    asks="Reads of small objects by requests in flight",
    sweep=Sweep(operation="get", object_size=SMALL, concurrency=powers(1, 256)),
    quick=Sweep(operation="get", object_size=SMALL, concurrency=(1, 16, 64)),
)

OTHERS = _requests(
    name="object.metadata",
    asks="Requests that move no object",
    sweep=Sweep(operation=("head", "list", "delete"), object_size=SMALL, concurrency=(1, 16)),
    quick=Sweep(operation=("head", "list", "delete"), object_size=SMALL, concurrency=16),
)

RATE = _requests(
    name="object.rate",
    asks="Latency of small reads by offered rate (open loop)",
    load="rate",
    sweep=Sweep(operation="get", object_size=SMALL, rate=powers(100, 3200), concurrency=64),
    default=False,
)
