"""Classifies images from files in a closed loop: each worker reads, decodes and infers one after the other."""

from __future__ import annotations

from typing import Any

from hwdyno.measure.models import jpeg_images
from hwdyno.measure.models.installed import need
from hwdyno.measure.workloads.model_child import MODEL, PATH, complete_settings, reading, run_job
from hwdyno.model.histogram import Histogram
from hwdyno.model.words import Axis, Declaration

STAGES = ("read", "decode", "infer")
DECLARATION = Declaration(
    measures="images a second, each read from its file, decoded, and classified by a vision model",
    operation="image",
    counts={"operations": "1"},
    stateful=False,
    axes=(
        Axis(
            "threads", role="concurrency", default=1, means="workers, each with one image at a time", kind="integer",
            title="workers", workers=True, least=1, most=1024,
        ),
        Axis(
            "cache", default="cold", means="cold: each image comes from storage, also when its turn comes again",
            kind="choice", choices=("cold", "warm"),
        ),
        Axis("files", default=256, means="JPEG files", kind="integer", least=1, most=10**6),
        MODEL,
        PATH,
        Axis("folder", default="", means="the folder of the images", kind="text"),
        Axis("runtime", "s", default=1.0, means="classify for this long; one image a worker at least",
             least=0.0, most=86400.0),
    ),
)  # fmt: skip


class ImageClassification:
    """A closed loop of workers, in a process of their own."""

    declaration = DECLARATION

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Classify for the runtime; the time of an image has its three stages as details."""
        settings = complete_settings(DECLARATION, parameters)
        need("onnxruntime")
        jpeg_images.need()
        answer = run_job({"do": "classify", "stack": "onnxruntime", **settings})
        stream: dict[str, Any] = {"name": "image"}
        if answer:
            times = answer["times_s"]
            whole = [sum(stage_times) for stage_times in zip(*(times[stage] for stage in STAGES), strict=True)]
            stream["operations"] = len(whole)
            stream["latency_ns"] = {
                "total": _histogram(whole),
                **{stage: _histogram(times[stage]) for stage in STAGES},
            }
            for stage in STAGES:
                answer["details"][f"{stage}_s"] = sum(times[stage]) / len(whole)
        return reading("inference_images", settings, answer, stream, float(settings["threads"]))


WORKLOAD = ImageClassification()


def _histogram(times_s: list[float]) -> dict[str, Any]:
    return Histogram.from_values(1e9 * seconds for seconds in times_s).to_reading()
