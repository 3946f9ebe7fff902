"""Training: how well storage feeds accelerators."""

from __future__ import annotations

from hwdyno.analysis.ceilings import loader_reads, object_store
from hwdyno.analysis.resources.description import Resource
from hwdyno.model.kernels import TRAINING_CHECKPOINT, TRAINING_LOADER

RESOURCE = Resource(
    name="training",
    title="Training",
    rate_word="samples/s",
    # The headline is the load that the storage carries, not a loader's speed from memory.
    headline_rules=("training_capacity", "kv_users", "vector_queries"),  # The last two: of Runs until 0.1.
    never_quoted=("training.client",),
    derived={TRAINING_LOADER: loader_reads.of_store, TRAINING_CHECKPOINT: object_store.of_path},
    limits=("the storage's parallelism", "opening and parsing files", "waiting for whole batches"),
    by_default=False,
    client="by_rule",
    bursty=True,
    by_scenario=True,
    on_faults="Check dmesg and the data set for missing or truncated files",
    survey_parts=("storage", "memory"),
)
