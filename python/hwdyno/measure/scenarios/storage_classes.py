"""The study of storage classes: training and inference on each storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.measure.models.installed import is_here
from hwdyno.measure.scenarios import images, inference, kv_cache, manifests, plain_reads, training, vector_search
from hwdyno.measure.scenarios.model import ModelSource
from hwdyno.measure.scenarios.object_folder import CA_FILE, ENDPOINT
from hwdyno.measure.scenarios.request import Chosen, Option, Request, free_bytes
from hwdyno.measure.scenarios.scenario import Scenario, together
from hwdyno.system.urls import in_object_store

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host

SAMPLES = {"quick": "42,112", "standard": "100,350", "full": "1000,3500"}
"""Those of the published study, or fewer where there is less time and room: 42 have epochs
of 6 steps, longer than the 4 batches that 4 readers hold ahead."""
SCALES = {"quick": 0.01, "standard": 0.1, "full": 1.0}
"""Scale of the contexts' tokens."""
MODEL, USERS = "llama3.1-8b", "1,4,16"
MODELS = {"quick": "62m", "standard": "246m", "full": "850m"}
"""What is loaded from each storage."""
LOADERS, STREAM_LOADERS, RESTORED = "raw,onnxruntime,mapped", "raw,onnxruntime", "64,1024"
"""Loaders of files and of objects, and the tokens of contexts that are restored."""
IMAGE_COUNTS = {"quick": 64, "standard": 1024, "full": 8192}
INDEX, THREADS = "diskann", "1,4"
GRID_AXES: dict[str, tuple[str | int, ...]] = {
    "rw": ("read", "write", "randread", "randwrite", "randrw:70"),
    "bs": (4 << 10, 128 << 10, 1 << 20),
    "iodepth": (1, 4, 16, 64),
    "numjobs": (1,),
}
GRID_IN_BRIEF: dict[str, tuple[str | int, ...]] = {"bs": (4 << 10, 1 << 20), "iodepth": (1, 16)}
GRID_RUNTIME_S = {"quick": 0.3, "standard": 5.0, "full": 30.0}
"""Stated, as those of the parts beside it are: in one plan, a time that is given holds for all."""
LONGEST_QUICK_S = 250.0
"""Longest run of the profile quick, peers included: with its report it ends within 5 minutes."""
GRID_FOLDER, MIN_GRID_BYTES = "hwdyno-fio-grid", 64 << 20


def make(request: Request, host: Host) -> Scenario:
    """Unet3d on A100 and H100, one accelerator, two sizes of data set, 5 epochs; a KV cache; a vector index.

    With the profile quick each part's readings have the length that suits it. Where there are this many storages and
    peers that this takes too long, the time is divided among all points, as with a budget of the user's.
    """
    if request.budget_s is not None:
        return _parts(request, host, timed=False)
    if request.profile != "quick":
        return _parts(request, host, timed=True)
    request = replace(request, budget_s=LONGEST_QUICK_S)
    whole = _parts(request, host, timed=True)
    return whole if whole.takes_s() <= LONGEST_QUICK_S else _parts(request, host, timed=False)


def _parts(request: Request, host: Host, *, timed: bool) -> Scenario:
    """All parts that are wanted; ``timed`` if each states the length of its readings.

    An object store has all but fio's grid, images and a restored context, which are of files.
    """
    defaults = {option.name: option.default for option in training.KIND.options}
    reached = {option.name: request.options.get(option.name) for option in (ENDPOINT, CA_FILE)}
    options = {**defaults, "workload": "unet3d", "accelerator": "a100,h100", **reached}
    options["samples"] = request.options["study_samples"] or _choose_counts(request, options)
    loaded = training.make(replace(request, axes={"accelerators": "1", "epochs": "5"}, options=options), host)
    files = replace(request, places=tuple(place for place in request.places if not in_object_store(place[1])))
    has_grid = files.places and not request.options["no_grid"]
    grids = (make_grid(files, host, timed=timed),) if has_grid else ()
    if request.options["no_inference"]:
        return replace(together((loaded, *grids)), remarks=(), summary=loaded.summary)
    served = replace(
        request,
        axes={"users": USERS, **({"runtime": kv_cache.RUNTIME_S[request.profile]} if timed else {})},
        options={"kv_cache": MODEL, "scale": SCALES[request.profile], **reached},
    )
    searched = replace(
        request,
        axes={"threads": THREADS, **({"runtime": vector_search.RUNTIME_S[request.profile]} if timed else {})},
        options={"vector_search": INDEX, **reached},
    )
    parts = (
        loaded, *grids, *_model(request, files, host, reached), kv_cache.make(served, host),
        vector_search.make(searched, host),
    )  # fmt: skip
    whole = together(parts)
    if not timed:
        # A time that a part states for its own readings does not outdo what is left for all of them.
        whole = replace(whole, plan=replace(whole.plan, given=whole.plan.given - {"runtime"}))
    # A study's report has tables.
    return replace(whole, remarks=(), summary=loaded.summary)


def _choose_counts(request: Request, options: dict[str, Any]) -> str:
    """The profile's numbers of samples that a budget has time to generate; empty for as many as it has time for."""
    counts = SAMPLES.get(request.profile, "").split(",")
    (kind, *_), *_ = training.choose_workloads(options)
    bytes_ = training.max_data_bytes(request)
    fit = [count for count in counts if request.budget_s is None or int(count or 0) * kind.record_bytes <= bytes_]
    return ",".join(fit)


def _model(request: Request, files: Request, host: Host, reached: Mapping[str, Any]) -> tuple[Scenario, ...]:
    """A model's cold start on each storage, and its KV cache and images on those of ``files``.

    Nothing where no engine is installed. ``reached`` are the options by which an object store is reached.
    """
    if not is_here("onnxruntime"):
        return ()
    source = ModelSource(MODELS.get(request.profile, MODELS["quick"]))
    cold = LOADERS if files.places else STREAM_LOADERS
    chosen = replace(request, load=None, options={"cold": cold, "restore": "onnxruntime", **reached})
    parts = (inference.PARTS[0], inference.PARTS[3])
    axes = {inference.PARTS[3]: {"tokens": RESTORED}}
    models = inference.make_scenario(chosen, host, source, parts, axes, names=True)
    if not files.places or not is_here("images"):
        return (models,)
    workers = {"threads": str(host.topology().processors)}
    fed = replace(files, load=None, axes=workers, options={})
    count = IMAGE_COUNTS.get(request.profile, IMAGE_COUNTS["quick"])
    return models, images.make_scenario(fed, host, ModelSource(images.RESNET), count, names=True)


def make_grid(request: Request, host: Host, *, timed: bool = True) -> Scenario:
    """The study's fio: reads, writes and a mix by block size and depth, of a file on each storage; with fio beside.

    Its readings are as long as the profile has them, or as a budget that the user gave leaves time for.
    """
    from hwdyno.measure.experiments.storage import GRID
    from hwdyno.measure.sweep import Sweep

    axes = GRID_AXES if request.profile != "quick" else {**GRID_AXES, **GRID_IN_BRIEF}
    chosen: list[Chosen] = []
    files: dict[Path, int] = {}
    for name, path in request.places:
        file = path / GRID_FOLDER / "data"
        room = int(free_bytes(path) * plain_reads.ROOM_SHARE)
        files[file] = max(MIN_GRID_BYTES, min(plain_reads.FILE_BYTES, room)) // MIN_GRID_BYTES * MIN_GRID_BYTES
        chosen.append(
            (
                replace(
                    GRID,
                    name=f"{GRID.name}@{name}",
                    asks=f"fio's grid on {name}",
                    sweep=Sweep(axes),
                    quick=None,
                    needs=(),
                    fixed={**GRID.fixed, "path": str(file), "size": files[file]},
                ),
                {"runtime": GRID_RUNTIME_S[request.profile]} if timed else {},
            )
        )
    plan = replace(request, load=None).plan(chosen, host)
    preparations = tuple(
        plain_reads.PlainFile(
            description=f"fio's grid: {file} (written and removed)", where=file, bytes=size, seed=plan.seed,
            left_out_by="--no-grid",
        )
        for file, size in files.items()
    )  # fmt: skip
    return Scenario(plan=plan, preparations=preparations)


def make_manifests(study: str, options: Mapping[str, Any], profile: str | None) -> str:
    """The Kubernetes manifests by which this study is done; at its own length where no profile is named."""
    profile = profile or "full"
    counts = options["study_samples"] or SAMPLES.get(profile, SAMPLES["full"])
    return manifests.format_manifests(study, options["manifests"], options["image"], profile, counts)


GROUP = "kubernetes-ai-storage"
OPTIONS = (
    Option(
        "--samples",
        "samples of the data sets (default: by profile)",
        "COUNTS",
        keyword="study_samples",
        group=GROUP,
    ),
    Option("--no-grid", "skip fio's grid of each storage", kind=bool, default=False, group=GROUP),
    Option("--no-inference", "skip the KV cache and the vector index", kind=bool, default=False, group=GROUP),
    Option(
        "--manifests",
        "print Kubernetes manifests instead of measuring: NAME=CLASS,NAME=emptyDir",
        "CLASSES",
        group=GROUP,
    ),
    Option(
        "--image", f"container image with hwdyno ({manifests.IMAGE})", "IMAGE", default=manifests.IMAGE, group=GROUP
    ),
    replace(ENDPOINT, group=GROUP),
    replace(CA_FILE, group=GROUP),
)
