"""Loads a model's files to its first answer, by a real loader or by plain reads, from storage or the page cache."""

from __future__ import annotations

from typing import Any

from hwdyno.measure.models.installed import LOADERS, need
from hwdyno.measure.workloads.model_child import MODEL, PATH, complete_settings, reading, run_job, words
from hwdyno.model.words import Axis, Declaration

DECLARATION = Declaration(
    measures="bytes of the model's files a second, from the first open to the first answer",
    operation="load",
    counts={"operations": "1", "bytes": "of the files"},
    stateful=False,
    axes=(
        words(
            "raw: direct reads into one buffer; direct, read: into fresh memory; mmap: each page touched; mapped: ONNX "
            "Runtime with read-ahead and without prepacking",
            LOADERS, "loader",
        ),
        Axis(
            "cache", default="cold", means="the page cache before", kind="choice", choices=("cold", "warm")
        ),
        Axis(
            "threads", role="concurrency", default=4, means="reading threads of raw, direct and read", kind="integer",
            workers=True, least=1, most=1024,
        ),
        Axis("chunk", "B", "label", 4 << 20, "bytes of one read", kind="integer", least=4096, most=1 << 30),
        MODEL,
        PATH,
    ),
)  # fmt: skip


class ModelLoading:
    """One load a reading, in a separate process."""

    def __init__(self, kernel: str, declaration: Declaration, job: str) -> None:
        """``job`` is what the process does, a key of its jobs."""
        self.kernel, self.declaration, self.job = kernel, declaration, job

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Load once; the clock ends at the first answer of a model, or when the last byte is in memory."""
        settings = complete_settings(self.declaration, parameters)
        need(str(settings["loader"]))
        answer = run_job({"do": self.job, **settings})
        stream = {"name": "load", "operations": 1, "bytes": answer["bytes"] if answer else 0}
        return reading(self.kernel, settings, answer, stream, float(settings["threads"]))


WORKLOAD = ModelLoading("inference_load", DECLARATION, "load")
