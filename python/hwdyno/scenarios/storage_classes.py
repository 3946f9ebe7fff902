"""The study of storage classes: training and inference on each storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hwdyno.scenarios import Kind, Option, kv_cache, manifests, training, vector_search
from hwdyno.scenarios.request import Request
from hwdyno.scenarios.scenario import Scenario, together

if TYPE_CHECKING:
    from hwdyno.hosts import Host

SAMPLES = {"quick": "42,112", "standard": "100,350", "full": "1000,3500"}
"""Those of the published study, or fewer where there is less time and room: 42 have epochs
of 6 steps, longer than the 4 batches that 4 readers hold ahead."""
SCALES = {"quick": 0.01, "standard": 0.1, "full": 1.0}
"""Of the contexts' tokens."""
MODEL, USERS = "llama3.1-8b", "1,4,16"
INDEX, THREADS = "diskann", "1,4"


def make(request: Request, host: Host) -> Scenario:
    """Unet3d on A100 and H100, one accelerator, two sizes of data set, 5 epochs; a KV cache; a vector index."""
    defaults = {one.name: one.default for one in training.KIND.options}
    counts = request.options["study_samples"] or SAMPLES.get(request.profile)
    options = {**defaults, "workload": "unet3d", "accelerator": "a100,h100", "samples": counts}
    loaded = training.make(replace(request, axes={"accelerators": "1", "epochs": "5"}, options=options), host)
    if request.options["no_inference"]:
        return loaded
    served = replace(
        request,
        axes={"users": USERS, "runtime": kv_cache.RUNTIME_S[request.profile]},
        options={"kv_cache": MODEL, "scale": SCALES[request.profile]},
    )
    searched = replace(
        request,
        axes={"threads": THREADS, "runtime": vector_search.RUNTIME_S[request.profile]},
        options={"vector_search": INDEX},
    )
    parts = (loaded, kv_cache.make(served, host), vector_search.make(searched, host))
    # A study's report has tables.
    return replace(together(parts), remarks=(), summary=loaded.summary)


def manifests_of(study: str, options: Mapping[str, Any], profile: str | None) -> str:
    """The Kubernetes manifests by which this study is done; at its own length where no profile is named."""
    profile = profile or "full"
    counts = options["study_samples"] or SAMPLES.get(profile, SAMPLES["full"])
    return manifests.text_of(study, options["manifests"], options["image"], profile, counts)


KIND = Kind(
    name="storage_classes",
    command="study",
    make=make,
    title="kubernetes-ai-storage",
    options=(
        Option(
            "--samples",
            "samples of the data sets (default: by profile)",
            "COUNTS",
            keyword="study_samples",
        ),
        Option("--no-inference", "skip the KV cache and the vector index", kind=bool, default=False),
        Option(
            "--manifests",
            "print Kubernetes manifests instead of measuring: NAME=CLASS,NAME=emptyDir",
            "CLASSES",
        ),
        Option("--image", f"container image with hwdyno ({manifests.IMAGE})", "IMAGE", default=manifests.IMAGE),
    ),
)
