"""Storage experiments: the standard disk tests, queue depth, block size, mixes and jobs."""

from __future__ import annotations

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.experiments.site_values import CLIENTS
from hwdyno.measure.sweep import Sweep, powers
from hwdyno.model.axes import list_traits
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import format_size
from hwdyno.model.words import CeilingClass, Declaration, Parameters

_PEERS = ("fio",)
_CEILINGS: tuple[CeilingClass, ...] = ("physical", "rated")
_DIRECT: Parameters = {"ioengine": "io_uring", "direct": True}


def nonsense(kernel: Declaration, point: Parameters) -> str | None:
    """Parameters that contradict each other (fio #1388: depth on a synchronous engine)."""
    engine, depth = point.get("ioengine"), point.get("iodepth", 1)
    traits = list_traits(kernel.axes, point)
    if "synchronous" in traits and isinstance(depth, int) and depth > 1:
        return (
            f"{engine} is synchronous: one operation in flight, so iodepth {depth} has no effect; use --numjobs {depth}"
        )
    if "page_cache" in traits and point.get("direct"):
        return f"{engine} goes through the page cache, so direct has no effect; use --direct 0"
    runtime = point.get("runtime")
    if isinstance(runtime, int | float) and runtime <= 0 and point.get("time_based", True):
        return "a reading needs time; use --runtime 1s or more, or --time-based 0 for one pass over the file"
    block, jobs, size = point.get("bs"), point.get("numjobs", 1), point.get("size")
    if isinstance(block, int) and isinstance(jobs, int) and isinstance(size, int) and size < block * jobs:
        return (
            f"{jobs} job(s) of {format_size(block)} blocks do not fit into {format_size(size)}; "
            f"use --size {format_size(block * jobs).replace(' ', '')} or more"
        )
    if point.get("direct") and isinstance(block, int) and block % 512:
        return f"direct I/O moves whole sectors, and bs {block} is not a multiple of 512; use --direct 0 or another bs"
    return None


GRID = Experiment(
    name="storage.grid",
    asks="Standard disk tests",
    kernel=STORAGE_BLOCKS,
    load="iodepth",
    sweep=Sweep(rw=("read", "write"), bs="1MiB", iodepth=(8, 1), numjobs=1)
    + Sweep(rw=("randread", "randwrite"), bs="4KiB", iodepth=(32, 1), numjobs=1),
    base=Sweep(rw="randread", bs="4KiB", iodepth=1, numjobs=1),
    fixed=_DIRECT,
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("data_file",),
    check=nonsense,
)

IODEPTH = Experiment(
    name="storage.iodepth",
    asks="Throughput and latency by queue depth",
    kernel=STORAGE_BLOCKS,
    load="iodepth",
    sweep=Sweep(rw="randread", bs="4KiB", iodepth=powers(1, 1024), numjobs=1),
    quick=Sweep(rw="randread", bs="4KiB", iodepth=powers(1, 256), numjobs=1),
    fixed=_DIRECT,
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("data_file",),
    check=nonsense,
)

BLOCKSIZE = Experiment(
    name="storage.blocksize",
    asks="Bandwidth by block size",
    kernel=STORAGE_BLOCKS,
    load="bs",
    sweep=Sweep(rw=("randread", "randwrite"), bs=powers(4096, 4 << 20), iodepth=8, numjobs=1),
    quick=Sweep(rw="randread", bs=(4096, 16384, 65536, 262144, 1 << 20), iodepth=8, numjobs=1),
    fixed=_DIRECT,
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("data_file",),
    check=nonsense,
)

MIX = Experiment(
    name="storage.mix",
    asks="Mixed reads and writes",
    kernel=STORAGE_BLOCKS,
    load="bs",
    sweep=Sweep(
        rw=("randread", "randrw:70", "randrw:50", "randwrite"),
        bs=(4096, 16384, 32768, 65536, 131072),
        iodepth=8,
        numjobs=1,
    ),
    quick=Sweep(rw=("randread", "randrw:70", "randrw:50", "randwrite"), bs="4KiB", iodepth=8, numjobs=1),
    fixed=_DIRECT,
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("data_file",),
    check=nonsense,
)

JOBS = Experiment(
    name="storage.jobs",
    asks="Throughput by number of jobs",
    kernel=STORAGE_BLOCKS,
    load="numjobs",
    sweep=Sweep(rw="randread", bs="4KiB", iodepth=32, numjobs=powers(1, 16)),
    quick=Sweep(rw="randread", bs="4KiB", iodepth=32, numjobs=powers(1, 4)),
    fixed=_DIRECT,
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("data_file",),
    check=nonsense,
)

RATE = Experiment(
    name="storage.rate",
    asks="Latency by request rate (open loop)",
    kernel=STORAGE_BLOCKS,
    load="rate",
    # Up to what a SATA SSD gives at 4 KiB; --rate asks for others. Poisson arrivals: users do not take turns.
    sweep=Sweep(
        rw="randread", bs="4KiB", iodepth=256, numjobs=1, rate=(1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
    ),
    quick=Sweep(rw="randread", bs="4KiB", iodepth=256, numjobs=1, rate=(1000, 5000, 20_000, 50_000)),
    fixed={**_DIRECT, "rate_process": "poisson"},
    ceilings=_CEILINGS,
    needs=("data_file",),
    check=nonsense,
    default=False,
)

SCALING = Experiment(
    name="storage.scaling",
    asks="Throughput by number of clients",
    kernel=STORAGE_BLOCKS,
    load="clients",
    sweep=Sweep(rw=("randread", "randwrite"), bs="4KiB", iodepth=8, numjobs=1, clients=CLIENTS),
    quick=Sweep(rw="randread", bs="4KiB", iodepth=8, numjobs=1, clients=CLIENTS),
    fixed=_DIRECT,
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("data_file",),
    check=nonsense,
    min_clients=2,
)

SHARING = Experiment(
    name="storage.shared_file",
    asks="One shared file or a file for each client",
    kernel=STORAGE_BLOCKS,
    load="iodepth",
    sweep=Sweep(rw=("write", "read"), bs=("1MiB", "4KiB"), iodepth=8, numjobs=1, shared_file=(False, True)),
    quick=Sweep(rw="write", bs="1MiB", iodepth=8, numjobs=1, shared_file=(False, True)),
    fixed=_DIRECT,
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("data_file",),
    check=nonsense,
    min_clients=2,
)
