"""Questions about inference: what storage does to a model server, its KV cache and its vector index."""

from __future__ import annotations

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.experiments.site_values import ONE_AND_ALL, doublings
from hwdyno.measure.sweep import Sweep
from hwdyno.model.kernels import INFERENCE_KV_CACHE, INFERENCE_STREAM, INFERENCE_VECTOR_SEARCH, MEMORY_BANDWIDTH

# Each storage and each model has a copy, whose `fixed` has the model, and whose sweep has the loaders that are here.
COLD_START = Experiment(
    name="inference.cold_start",
    asks="Time to ready by loader, from storage and the page cache",
    kernel="inference_load",
    load="threads",
    sweep=Sweep(loader=("raw", "read", "mmap", "onnxruntime", "mapped"), cache="cold", threads=4)
    + Sweep(loader=("read", "mmap", "onnxruntime", "mapped"), cache="warm", threads=4),
    base=Sweep(loader=("raw", "mapped"), cache="cold", threads=4),
    named_as={"loader": "cold", "model": "model"},
    time_share=0.7,
    setup_s=0.8,
)

# The same from an object store, whose caches are not known.
STREAM = Experiment(
    name="inference.model_stream",
    asks="Time to ready by loader, from an object store",
    kernel=INFERENCE_STREAM,
    load="threads",
    sweep=Sweep(loader=("raw", "read", "safetensors", "onnxruntime"), threads=8),
    named_as={"loader": "cold", "model": "model"},
    time_share=0.7,
    setup_s=0.8,
)

DECODE = Experiment(
    name="inference.decode",
    asks="Tokens/s of one sequence by threads",
    kernel="inference_decode",
    load="threads",
    sweep=Sweep(stack="onnxruntime", threads=doublings(1)),
    quick=Sweep(stack="onnxruntime", threads=ONE_AND_ALL),
    base=Sweep(stack="onnxruntime", threads=1),
    named_as={"stack": "decode", "model": "model"},
    peers=("llama_bench",),
    setup_s=1.2,
)

# What a token reads at most in a second: its bound is this bandwidth over its bytes.
MEMORY = Experiment(
    name="inference.memory",
    asks="Memory read bandwidth, which bounds decoding",
    kernel=MEMORY_BANDWIDTH,
    load="threads",
    sweep=Sweep(operation="read", threads=doublings(1)),
    quick=Sweep(operation="read", threads=ONE_AND_ALL),
    measured_by="memory",
    needs=("main_memory",),
    time_share=0.3,
    setup_s=0.5,
)

RESTORE = Experiment(
    name="inference.restore",
    asks="KV cache: restore or recompute",
    kernel="inference_restore",
    load="tokens",
    sweep=Sweep(stack="onnxruntime", way=("recompute", "restore"), tokens=(64, 256, 1024), threads=1),
    quick=Sweep(stack="onnxruntime", way=("recompute", "restore"), tokens=(64, 512), threads=1),
    base=Sweep(stack="onnxruntime", way=("recompute", "restore"), tokens=256, threads=1),
    named_as={"stack": "restore", "model": "model"},
    metric="latency",
    setup_s=2.0,
)

# Each storage has a copy, whose `settled` has the folders of the model and of the images.
IMAGES = Experiment(
    name="inference.images",
    asks="Images/s of ResNet-50 from JPEG files",
    kernel="inference_images",
    load="threads",
    sweep=Sweep(cache=("cold", "warm"), threads=doublings(1)),
    base=Sweep(cache=("cold", "warm"), threads=1),
    fixed={"model": "resnet50", "files": 256},
    named_as={"files": "images", "model": "model"},
    setup_s=1.5,
)

# Each model has a copy, whose `fixed` has the model, its scale and its path.
KV_CACHE = Experiment(
    name="inference.kv_cache",
    formerly="training.kv_cache",
    asks="KV cache by number of users",
    kernel=INFERENCE_KV_CACHE,
    load="users",
    sweep=Sweep(users=(1, 2, 4, 8, 16)),
    base=Sweep(users=(1, 2, 4, 8, 16)),
    fixed={"model": "llama3.1-8b", "scale": 0.01, "seed": 1},
    named_as={"model": "kv-cache", "capacity": "capacity"},
    peers=("mlperf_kv",),
    writes=lambda _, __, max_bytes: max_bytes,
)

# Each index has a copy too. Its seed is fixed: other vectors would be another index.
VECTOR_SEARCH = Experiment(
    name="inference.vector_search",
    formerly="training.vector_search",
    asks="Vector search: queries/s, latency and recall",
    kernel=INFERENCE_VECTOR_SEARCH,
    load="threads",
    sweep=Sweep(threads=(1, 2, 4, 8)),
    base=Sweep(threads=(1, 2, 4, 8)),
    fixed={"index": "diskann", "seed": 1},
    named_as={"index": "vector-search"},
)
