"""Loads a model from an object store to its first answer, by ranged reads over several connections."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from hwdyno.measure import engine
from hwdyno.measure.models.installed import STREAMING
from hwdyno.measure.workloads.inference_load import ModelLoading
from hwdyno.measure.workloads.model_child import MODEL, words
from hwdyno.model.kernels import INFERENCE_STREAM, OBJECT_LISTING
from hwdyno.model.words import Axis, Declaration
from hwdyno.system.urls import reach_below

CONNECTIONS = 8
CHUNK_BYTES = 8 << 20
"""Those of the Run:ai model streamer for object stores (RUNAI_STREAMER_CONCURRENCY, RUNAI_STREAMER_CHUNK_BYTESIZE)."""

DECLARATION = Declaration(
    measures="bytes of the model's objects a second, from the first connection to the first answer",
    operation="load",
    counts={"operations": "1", "bytes": "of the objects"},
    stateful=False,
    axes=(
        words(
            "raw: ranged reads into one buffer a connection; read: into memory that is kept; safetensors, onnxruntime: "
            "made of that memory",
            STREAMING, "loader",
        ),
        Axis(
            "threads", role="concurrency", default=CONNECTIONS, means="connections, each with one range in flight",
            kind="integer", workers=True, least=1, most=1024,
        ),
        Axis("chunk", "B", "label", CHUNK_BYTES, "bytes of one range", kind="integer", least=4096, most=1 << 30),
        MODEL,
        Axis("path", default="", means="its folder, s3://BUCKET/PREFIX, or its object", kind="text"),
        Axis("endpoint", default="", means="URLs of the store, separated by commas", kind="text"),
        Axis("ca_file", default="", means="authorities that may sign the store's certificate (PEM)", kind="text"),
    ),
)  # fmt: skip


class ModelStreaming(ModelLoading):
    """The same from an object store, with what is known of the way there, which is looked up after the load."""

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Load once; a way that is not found is left unknown."""
        made = super().run(parameters)
        settings = made["parameters"]
        reached = {name: settings[name] for name in ("endpoint", "ca_file")}
        way = {**reach_below(Path(str(settings["path"])).parent, reached), "route": True}
        made["details"]["client_threads"] = settings["threads"]
        with contextlib.suppress(OSError):
            made["details"] |= {} if made["interrupted"] else engine.run(OBJECT_LISTING, way)["details"]
        return made


WORKLOAD = ModelStreaming(INFERENCE_STREAM, DECLARATION, "stream")
