"""Inference: what storage and memory give to a model server."""

from __future__ import annotations

from hwdyno.analysis.ceilings import inference, object_store
from hwdyno.analysis.resources.description import Resource
from hwdyno.model.kernels import INFERENCE_KV_CACHE, INFERENCE_STREAM, INFERENCE_VECTOR_SEARCH

RESOURCE = Resource(
    name="inference",
    title="Inference",
    rate_word="tokens/s",
    headline_rules=(
        "cold_start", "decode_bound", "kv_restore", "images_from_files", "kv_users", "vector_queries",
        "serving_capacity",
    ),
    derived={
        inference.LOAD: inference.of_file, inference.DECODE: inference.of_memory, inference.IMAGES: inference.of_images,
        inference.SERVED: inference.of_served, INFERENCE_STREAM: inference.of_object,
        INFERENCE_VECTOR_SEARCH: inference.of_gets, INFERENCE_KV_CACHE: object_store.of_path,
    },
    limits=("the storage's parallelism", "how the loader reads", "the engine's own work for each operator"),
    by_default=False,
    client="by_rule",
    bursty=True,
    by_scenario=True,
    on_faults="Check dmesg and the model's files",
    survey_parts=("storage", "memory"),
)  # fmt: skip
