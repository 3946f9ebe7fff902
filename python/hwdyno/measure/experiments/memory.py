"""Memory experiments: bandwidth by operation, mix, block and threads; latency idle, loaded and between cores."""

from __future__ import annotations

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.experiments.site_values import (
    ALL,
    ALL_BUT_ONE,
    CLIENTS,
    CPU_NODES,
    MEMORY_NODES,
    OF_ONE_NODE,
    doublings,
)
from hwdyno.measure.sweep import Sweep, octaves, powers
from hwdyno.model.kernels import MEMORY_BANDWIDTH, MEMORY_CORE_TO_CORE, MEMORY_LATENCY, MEMORY_LOADED_LATENCY
from hwdyno.model.words import CeilingClass, Declaration, Parameters

_CEILINGS: tuple[CeilingClass, ...] = ("physical", "reference")
_PEERS = ("stream", "likwid", "sysbench")
# Intel Memory Latency Checker's default delays, in cycles, so that curves can be compared with MLC's.
_DELAYS = (0, 2, 8, 15, 50, 100, 200, 300, 400, 500, 700, 1000, 1300, 1700, 2500, 3500, 5000, 9000, 20000)
_BUS_MIXES = ("1:0", "4:1", "3:1", "2:1", "3:2", "1:1", "2:1-nt", "0:1")


def _nonsense(_: Declaration, point: Parameters) -> str | None:
    """The error of parameters that contradict each other; none for a valid point."""
    mix, operation = point.get("mix"), point.get("operation")
    if isinstance(mix, str) and mix != "1:0" and operation not in {None, "mix"}:
        return f"mix {mix} applies to the operation mix only, and this is {operation}; use --operation mix"
    return None


GRID = Experiment(
    name="memory.grid",
    asks="Memory bandwidth by operation",
    kernel=MEMORY_BANDWIDTH,
    load="threads",
    sweep=Sweep(
        operation=("read", "write", "nt_write", "copy", "scale", "add", "triad", "nt_copy", "nt_triad"),
        threads=(1, ALL),
    ),
    quick=Sweep(operation=("read", "nt_write", "copy", "triad", "nt_triad"), threads=(1, ALL)),
    base=Sweep(operation="read", threads=1),
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("main_memory",),
    setup_s=0.5,
    check=_nonsense,
)

THREADS = Experiment(
    name="memory.threads",
    asks="Memory bandwidth by threads",
    kernel=MEMORY_BANDWIDTH,
    load="threads",
    sweep=Sweep(operation=("read", "nt_triad"), threads=doublings(8)),
    quick=Sweep(operation="read", threads=doublings(4)),
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("main_memory",),
    setup_s=0.5,
)

STREAM = Experiment(
    name="memory.stream",
    asks="STREAM loops beside STREAM and HPC Challenge",
    kernel=MEMORY_BANDWIDTH,
    load="threads",
    sweep=Sweep(
        operation=("copy", "nt_copy", "scale", "add", "triad"),
        threads=(1, ALL),
    ),
    ceilings=_CEILINGS,
    # hpcc runs all of its parts each time, which takes too long for the grid.
    peers=("stream", "hpcc"),
    needs=("main_memory",),
    setup_s=0.5,
    check=_nonsense,
    default=False,
)

LEVELS = Experiment(
    name="memory.levels",
    asks="Bandwidth of each cache level and of memory",
    kernel=MEMORY_BANDWIDTH,
    load="working_set",
    sweep=Sweep(operation=("read", "write", "copy"), working_set=powers(16 << 10, 512 << 20), threads=ALL),
    quick=Sweep(operation="read", working_set=(24 << 10, 1 << 20, 4 << 20, 128 << 20), threads=ALL),
    setup_s=0.2,
)

LATENCY = Experiment(
    name="memory.latency",
    asks="Memory latency by working set and page size",
    kernel=MEMORY_LATENCY,
    load="working_set",
    metric="latency",
    sweep=Sweep(working_set=powers(8 << 10, 1 << 30), pages=("4k", "2m")),
    quick=Sweep(working_set=(16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20), pages=("4k", "2m")),
    base=Sweep(working_set="256MiB", pages="2m"),
    fixed={"locality": "random", "stride": 64},
    peers=("multichase",),
    setup_s=0.4,
)

LATENCY_MATRIX = Experiment(
    name="memory.latency_matrix",
    asks="Memory latency between NUMA nodes",
    kernel=MEMORY_LATENCY,
    load="node",
    metric="latency",
    sweep=Sweep(cpu_node=CPU_NODES, node=MEMORY_NODES),
    fixed={"locality": "random", "stride": 64, "working_set": 256 << 20, "pages": "2m"},
    setup_s=0.4,
    default=False,
)

BANDWIDTH_MATRIX = Experiment(
    name="memory.bandwidth_matrix",
    asks="Memory bandwidth between NUMA nodes",
    kernel=MEMORY_BANDWIDTH,
    load="node",
    sweep=Sweep(
        operation=("read", "nt_triad"),
        cpu_node=CPU_NODES,
        node=MEMORY_NODES,
        threads=OF_ONE_NODE,
    ),
    needs=("main_memory",),
    setup_s=0.5,
    default=False,
)

CACHES = Experiment(
    name="memory.caches",
    asks="Effective cache sizes and TLB reach",
    kernel=MEMORY_LATENCY,
    load="working_set",
    metric="latency",
    sweep=Sweep(working_set=octaves(8 << 10, 1 << 30, 8), pages="2m", stride=64)
    # One element a page, and a line further each time: at a stride of 4096 all would fall into the same few sets.
    + Sweep(working_set=octaves(64 << 10, 1 << 30, 8), pages="4k", stride=4160),
    fixed={"locality": "random"},
    time_share=0.5,
    setup_s=0.4,
    default=False,
)

LOADED = Experiment(
    name="memory.loaded",
    asks="Memory latency under load",
    kernel=MEMORY_LOADED_LATENCY,
    load="delay",
    # Random, so that no prefetcher hides what a load waits for.
    sweep=Sweep(operation="mix", mix=_BUS_MIXES, delay=_DELAYS, block=(64, 256), pattern="random", threads=ALL_BUT_ONE),
    # In sequence, as MLC does by default: random blocks of one thread reach a twelfth of the bandwidth.
    quick=Sweep(
        operation="mix",
        mix="1:0",
        delay=(0, 20, 40, 80, 150, 300, 700, 2500, 20000),
        block=64,
        pattern="sequential",
        threads=ALL_BUT_ONE,
    ),
    base=Sweep(operation="read", delay=0, threads=ALL_BUT_ONE),
    ceilings=_CEILINGS,
    peers=("mlc",),
    needs=("main_memory",),
    setup_s=0.6,
    check=_nonsense,
)

MIX = Experiment(
    name="memory.mix",
    asks="Memory bandwidth by read/write mix",
    kernel=MEMORY_BANDWIDTH,
    load="threads",
    sweep=Sweep(operation="mix", mix=(*_BUS_MIXES, "3:1-nt", "1:1-nt"), threads=(1, ALL)),
    ceilings=_CEILINGS,
    needs=("main_memory",),
    setup_s=0.5,
    default=False,
)

BLOCK = Experiment(
    name="memory.block",
    asks="Random-access bandwidth by block size",
    kernel=MEMORY_BANDWIDTH,
    load="block",
    sweep=Sweep(
        operation="read", pattern=("random", "sequential"), block=(8, 64, 256, 4096, 8192, 1 << 20, 8 << 20), threads=1
    ),
    ceilings=_CEILINGS,
    needs=("main_memory",),
    setup_s=0.5,
    default=False,
)

PAGES = Experiment(
    name="memory.pages",
    asks="Memory bandwidth by page size",
    kernel=MEMORY_BANDWIDTH,
    load="threads",
    sweep=Sweep(
        operation=("read", "triad"),
        pattern=("sequential", "random"),
        pages=("4k", "2m"),
        threads=(1, ALL),
    ),
    ceilings=_CEILINGS,
    needs=("main_memory",),
    setup_s=0.7,
    default=False,
)

CORES = Experiment(
    name="memory.cores",
    asks="Core-to-core latency of a cache line",
    kernel=MEMORY_CORE_TO_CORE,
    load="operation",
    metric="latency",
    sweep=Sweep(operation=("cas", "clean", "modified")),
    min_processors=2,
)

SCALING = Experiment(
    name="memory.scaling",
    asks="Memory bandwidth by number of clients",
    kernel=MEMORY_BANDWIDTH,
    load="clients",
    sweep=Sweep(operation=("read", "nt_triad"), threads=ALL, clients=CLIENTS),
    quick=Sweep(operation="read", threads=ALL, clients=CLIENTS),
    ceilings=_CEILINGS,
    peers=_PEERS,
    needs=("main_memory",),
    setup_s=0.5,
    min_clients=2,
)
