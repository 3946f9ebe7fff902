"""The typed options of each function that measures; a test compares them with what kernels and scenarios declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypedDict

from hwdyno.api.following import Cancellation, ProgressEvent

Integers = int | str | Iterable[int | str] | None
"""One value or many; a text may have a unit (``"4k"``) or a range (``"1..64"``)."""
Numbers = float | str | Iterable[float | str] | None
"""One value or many, likewise."""
Flags = bool | int | str | Iterable[bool | int | str] | None
"""``True`` or ``False``, or both to compare them."""
Texts = str | Iterable[str] | None
"""One word or many."""
Paths = str | Path | Iterable[str | Path] | None
"""One folder or many."""


class CommonOptions(TypedDict, total=False):
    """Options of every function that measures."""

    path: Paths
    profile: str | None
    peers: bool
    seed: int | None
    budget: str | None
    ceiling: Texts
    link: Texts
    device: Texts
    store: str | Path | None
    quiet: bool
    progress: Callable[[ProgressEvent], object] | None
    cancellation: Cancellation | None


class RunOptions(CommonOptions, total=False):
    """Options of ``run``."""

    only: Texts


class StorageOptions(CommonOptions, total=False):
    """Options of ``measure("storage")``, which are those of ``hwdyno storage``."""

    rw: Texts
    rwmixread: Integers
    bs: Integers
    iodepth: Integers
    iodepth_batch_submit: Integers
    iodepth_batch_complete_min: Integers
    numjobs: Integers
    ioengine: Texts
    hipri: Flags
    mem: Texts
    direct: Flags
    size: Integers
    offset: Integers
    runtime: Numbers
    time_based: Flags
    ramp_time: Numbers
    startdelay: Numbers
    interval_s: Numbers
    share: Texts
    end_fsync: Flags
    drop_cache: Flags
    rate: Numbers
    rate_bytes: Integers
    rate_process: Texts
    thinktime: Numbers
    thinktime_blocks: Integers
    thinktime_iotime: Numbers
    thinktime_spin: Numbers
    random_distribution: Texts
    bssplit: Texts
    bssplit_write: Texts
    pattern: Texts
    stride: Integers
    io_size: Integers
    fsync: Integers
    fdatasync: Integers
    verify: Texts
    verify_seed: Integers
    generation: Integers
    journal: Texts
    loops: Integers
    file_service_type: Texts
    openfiles: Integers
    steadystate: Texts
    steadystate_duration: Numbers
    steadystate_ramp_time: Numbers
    steadystate_interval: Numbers
    log: Flags
    rate_iops_read: Numbers
    rate_iops_write: Numbers
    rate_read: Integers
    rate_write: Integers
    rate_iops_min_read: Numbers
    rate_iops_min_write: Numbers
    rate_min_read: Integers
    rate_min_write: Integers
    rate_cycle: Numbers
    rate_ignore_thinktime: Flags
    number_ios: Integers
    latency_target: Numbers
    latency_window: Numbers
    latency_percentile: Numbers
    latency_run: Flags
    zonesize: Integers
    zonerange: Integers
    zoneskip: Integers
    blockalign: Integers
    blockalign_write: Integers
    bs_unaligned: Flags
    bs_is_seq_rand: Flags
    sequential_read: Integers
    sequential_write: Integers
    random_every: Integers
    rw_sequencer: Texts
    positions_apart: Flags
    gap: Integers
    norandommap: Flags
    buffer_compress_percentage: Integers
    buffer_compress_chunk: Integers
    dedupe_percentage: Integers
    buffer_pattern: Texts
    sync: Texts
    pre_read: Flags
    write_iolog: Texts
    read_iolog: Texts
    replay_skip: Texts
    replay_time_scale: Numbers
    flow: Integers
    flow_id: Integers
    flow_sleep: Numbers
    operation: Texts
    nrfiles: Integers
    filesize: Integers
    depth: Integers
    directories: Texts
    clients: Integers
    shared_file: Flags
    destroy: str
    serial: str
    load: str


class MemoryOptions(CommonOptions, total=False):
    """Options of ``measure("memory")``, which are those of ``hwdyno memory``."""

    operation: Texts
    mix: Texts
    pattern: Texts
    stride: Integers
    block: Integers
    isa: Texts
    working_set: Integers
    threads: Integers
    runtime: Numbers
    interval_s: Numbers
    pages: Texts
    node: Integers
    cpu_node: Integers
    locality: Texts
    local_size: Integers
    batch: Integers
    delay: Integers
    chase_set: Integers
    lines: Integers
    clients: Integers
    load: str


class ComputeOptions(CommonOptions, total=False):
    """Options of ``measure("compute")``, which are those of ``hwdyno compute``."""

    operation: Texts
    precision: Texts
    isa: Texts
    operands: Texts
    threads: Integers
    runtime: Numbers
    interval_s: Numbers
    n: Integers
    blas: Texts
    clients: Integers
    load: str


class GpuOptions(CommonOptions, total=False):
    """Options of ``measure("gpu")``, which are those of ``hwdyno gpu``."""

    precision: Texts
    width: Integers
    chains: Integers
    on: Texts
    runtime: Numbers
    interval_s: Numbers
    operation: Texts
    array: Integers
    memory: Texts
    block: Integers
    size: Integers
    part: Texts
    access: Texts
    buffers: Integers
    readers: Integers
    n: Integers
    library: Texts
    intensity: Numbers
    working_set: Integers
    clients: Integers
    load: str


class NetworkOptions(CommonOptions, total=False):
    """Options of ``measure("network")``, which are those of ``hwdyno network``."""

    protocol: Texts
    streams: Integers
    block: Integers
    direction: Texts
    rate: Integers
    burst: Integers
    window: Integers
    congestion: Texts
    nodelay: Flags
    mss: Integers
    zero_copy: Flags
    skip_rx_copy: Flags
    handing: Texts
    search: Flags
    bytes: Integers
    blocks: Integers
    server: Texts
    port: Integers
    runtime: Numbers
    ramp_time: Numbers
    exchange: Texts
    message: Integers
    in_flight: Integers
    waiting: Texts
    load_streams: Integers
    clients: Integers
    between: Texts
    load: str


class ObjectOptions(CommonOptions, total=False):
    """Options of ``measure("object")``, which are those of ``hwdyno object``."""

    operation: Texts
    concurrency: Integers
    rate: Numbers
    range_size: Integers
    part_size: Integers
    visit: Texts
    object_size: Integers
    objects: Integers
    checksum: Texts
    client_threads: Integers
    keep_alive: Flags
    timeout: Numbers
    region: Texts
    style: Texts
    separate_objects: Flags
    runtime: Numbers
    interval_s: Numbers
    clients: Integers
    endpoint: Texts
    bucket: Texts
    prefix: Texts
    price: Texts
    ca_file: Texts
    mix: Texts
    create_bucket: bool
    load: str


class TrainingOptions(CommonOptions, total=False):
    """Options of ``measure("training")``, which are those of ``hwdyno training``."""

    timeout: Numbers
    accelerators: Integers
    batch_size: Integers
    read_threads: Integers
    prefetch: Integers
    epochs: Integers
    steps: Integers
    compute: Numbers
    runtime: Numbers
    order: Texts
    parse: Texts
    transfer_size: Integers
    read_columns: Integers
    direct: Flags
    cache: Texts
    barrier: Flags
    clients: Integers
    workload: Texts
    accelerator: Texts
    samples: Texts
    keep: bool
    generate: bool
    no_client: bool
    no_plain: bool
    endpoint: Texts
    ca_file: Texts
    checkpoint: Texts
    scale: float | str
    ranks: Texts
    load: str


class InferenceOptions(CommonOptions, total=False):
    """Options of ``measure("inference")``, which are those of ``hwdyno inference``."""

    cache: Texts
    threads: Integers
    chunk: Integers
    clients: Integers
    prompt: Integers
    prepack: Flags
    runtime: Numbers
    users: Integers
    user_kind: Texts
    turns: Integers
    decode_batch: Integers
    token_time: Numbers
    think: Numbers
    memory: Integers
    capacity: Integers
    transfer_size: Integers
    direct: Flags
    drop_cache: Flags
    fsync: Flags
    verify: Flags
    way: Texts
    tokens: Integers
    endpoint: Texts
    served_model: Texts
    concurrency: Integers
    rate: Numbers
    arrivals: Texts
    burstiness: Numbers
    think_time: Numbers
    trace: Texts
    input_tokens: Texts
    output_tokens: Texts
    text_prompts: Flags
    ignore_eos: Flags
    shared_prefix: Integers
    reuse_prompts: Flags
    ttft_target: Numbers
    tpot_target: Numbers
    connections: Integers
    timeout: Numbers
    allow_remote: Flags
    requests: Integers
    batch: Integers
    vectors: Integers
    dim: Integers
    distribution: Texts
    degree: Integers
    build_list: Integers
    lists: Integers
    queries: Integers
    search_list: Integers
    beam: Integers
    probes: Integers
    k: Integers
    ioengine: Texts
    model: Texts
    keep: bool
    generate: bool
    cold: Texts
    decode: Texts
    images: Texts
    kv_cache: Texts
    scale: float | str
    store_endpoint: Texts
    ca_file: Texts
    restore: Texts
    server: Texts
    serve: Texts
    slots: int | str
    server_threads: int | str
    context: int | str
    in_process: Texts
    vector_search: Texts
    load: str


class TogetherOptions(CommonOptions, total=False):
    """Options of ``measure("together")``, which are those of ``hwdyno together``."""

    resources: Texts
    at: Texts


class StudyOptions(CommonOptions, total=False):
    """Options of ``measure("study")``, which are those of ``hwdyno study``."""

    stream: Texts
    only: Texts
    on: Texts
    server: Texts
    samples: Texts
    no_grid: bool
    no_inference: bool
    manifests: Texts
    image: Texts
    endpoint: Texts
    ca_file: Texts
