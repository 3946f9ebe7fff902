"""Questions about inference: what storage does to a model server, its KV cache and its vector index."""

from __future__ import annotations

from hwdyno.experiments import Experiment
from hwdyno.sweep import Sweep

# Each model has a copy, whose `fixed` has the model, its scale and its path.
KV_CACHE = Experiment(
    name="inference.kv_cache",
    formerly="training.kv_cache",
    asks="KV cache by number of users",
    kernel="training_kv_cache",
    load="users",
    sweep=Sweep(users=(1, 2, 4, 8, 16)),
    base=Sweep(users=(1, 2, 4, 8, 16)),
    fixed={"model": "llama3.1-8b", "scale": 0.01, "seed": 1},
    named_as={"model": "kv-cache", "capacity": "capacity"},
    peers=("mlperf_kv",),
    writes=lambda _, __, most_bytes: most_bytes,
)

# Each index has a copy too. Its seed is fixed: other vectors would be another index.
VECTOR_SEARCH = Experiment(
    name="inference.vector_search",
    formerly="training.vector_search",
    asks="Vector search: queries/s, latency and recall",
    kernel="training_vector_search",
    load="threads",
    sweep=Sweep(threads=(1, 2, 4, 8)),
    base=Sweep(threads=(1, 2, 4, 8)),
    fixed={"index": "diskann", "seed": 1},
    named_as={"index": "vector-search"},
)
