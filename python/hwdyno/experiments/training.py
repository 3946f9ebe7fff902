"""Questions about AI training: how many accelerators a storage feeds, and what the loader itself can deliver."""

from __future__ import annotations

from hwdyno.experiments import Experiment
from hwdyno.sweep import Sweep

KERNEL = "training_loader"

# Each workload has a copy, whose `fixed` has the workload, its data set and its path.
ACCELERATORS = Experiment(
    name="training.accelerators",
    asks="Accelerators that this storage can feed",
    kernel=KERNEL,
    load="accelerators",
    sweep=Sweep(accelerators=(1, 2, 4)),
    base=Sweep(accelerators=1),
    fixed={"cache": "drop", "seed": 10},
    peers=("dlio", "numpy", "pytorch"),
)

CLIENT = Experiment(
    name="training.client",
    asks="Loader throughput with the data in memory",
    kernel=KERNEL,
    load="accelerators",
    sweep=Sweep(accelerators=(1, 2, 4)),
    fixed={"cache": "warm", "compute": 0.0, "epochs": 10_000, "steps": 0, "seed": 10},
    peers=("dlio", "numpy", "pytorch"),
)

CHECKPOINT = Experiment(
    name="training.checkpoint",
    asks="Checkpoint save and load",
    kernel="training_checkpoint",
    load="ranks",
    sweep=Sweep(ranks=8),
    named_as={"model": "checkpoint"},
    writes=lambda _, point, __: float(point.get("writes") or 0) * float(point.get("checkpoint_bytes") or 0),
)

# Each model has a copy, whose `fixed` has the model, its scale and its path.
KV_CACHE = Experiment(
    name="training.kv_cache",
    asks="KV cache by number of users",
    kernel="training_kv_cache",
    load="users",
    sweep=Sweep(users=(1, 2, 4, 8, 16)),
    base=Sweep(users=(1, 2, 4, 8, 16)),
    fixed={"model": "llama3.1-8b", "scale": 0.01, "seed": 1},
    named_as={"model": "kv-cache", "capacity": "capacity"},
    peers=("mlperf_kv",),
    group="inference",
    writes=lambda _, __, most_bytes: most_bytes,
)

# Each index has a copy too. Its seed is fixed: other vectors would be another index.
VECTOR_SEARCH = Experiment(
    name="training.vector_search",
    asks="Vector search: queries/s, latency and recall",
    kernel="training_vector_search",
    load="threads",
    sweep=Sweep(threads=(1, 2, 4, 8)),
    base=Sweep(threads=(1, 2, 4, 8)),
    fixed={"index": "diskann", "seed": 1},
    named_as={"index": "vector-search"},
    group="inference",
)
