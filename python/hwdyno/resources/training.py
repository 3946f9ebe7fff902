"""Training and inference I/O: how well storage feeds accelerators and the users of a served model."""

from __future__ import annotations

from hwdyno.resources.description import Resource

RESOURCE = Resource(
    name="training",
    title="Training",
    rate_word="samples/s",
    # What a loader reaches out of memory is nobody's headline: how much of whose load the storage carries is.
    headline_rules=("training_capacity", "kv_users", "vector_queries"),
    limits=("the storage's parallelism", "opening and parsing files", "batches that readers wait for"),
    by_default=False,
    client="by_rule",
    bursty=True,
    on_faults="Look at dmesg and at the data set's files, of which some may be missing or cut",
)
