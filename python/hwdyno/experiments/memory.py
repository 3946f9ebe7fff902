"""Questions about memory: bandwidth by operation and mix, latency by working set, and both at once."""

from __future__ import annotations

from hwdyno.experiments import Experiment
from hwdyno.sweep import Sweep, powers

_BANDWIDTH = "memory_bandwidth"
_SET = 512 << 20
_OPERATIONS = ("read", "write", "nt_write", "copy", "scale", "add", "triad", "nt_copy", "nt_triad")
_MIXES = ("1:0", "4:1", "3:1", "2:1", "3:2", "1:1", "0:1", "2:1-nt")
# The inject delays of Intel's Memory Latency Checker, from its published output.
_DELAYS = (0, 2, 8, 15, 50, 100, 200, 300, 400, 500, 700, 1000, 1300, 1700, 2500, 3500, 5000, 9000, 20000)
# Eight sizes an octave from 4 KiB to 1 GiB, in whole lines: enough to see each cache's edge.
_SETS = tuple(dict.fromkeys(int(4096 * 2 ** (step / 8)) // 64 * 64 for step in range(18 * 8 + 1)))

BANDWIDTH = Experiment(
    name="memory.bandwidth",
    asks="How many bytes a second do threads move, by operation?",
    kernel=_BANDWIDTH,
    load="threads",
    sweep=Sweep(operation=_OPERATIONS, threads=powers(1, 8)),
    quick=Sweep(operation=_OPERATIONS, threads=(1, 2)),
    base=Sweep(operation="read", threads=1),
    fixed={"working_set": _SET},
    default=False,
)

MIX = Experiment(
    name="memory.mix",
    asks="What does it cost the memory to read and write at once?",
    kernel=_BANDWIDTH,
    load="threads",
    sweep=Sweep(mix=_MIXES, threads=powers(1, 8)),
    quick=Sweep(mix=_MIXES, threads=(1, 2)),
    fixed={"operation": "mix", "working_set": _SET},
    default=False,
)

BLOCK = Experiment(
    name="memory.block",
    asks="How long must a block at a random place be, before memory moves it as fast as a stream?",
    kernel=_BANDWIDTH,
    load="block",
    sweep=Sweep(
        operation=("read", "copy"), block=(8, 64, 256, 1024, 8192, 65536, 1 << 20, 8 << 20, 80 << 20), threads=1
    ),
    quick=Sweep(operation="read", block=(8, 64, 256, 8192, 8 << 20), threads=1),
    fixed={"pattern": "random", "working_set": _SET},
    default=False,
)

LATENCY = Experiment(
    name="memory.latency",
    asks="How long does a load take that needs the one before, as the working set outgrows each cache?",
    kernel="memory_latency",
    load="working_set",
    sweep=Sweep(pages=("4k", "2m"), working_set=_SETS),
    quick=Sweep(pages=("4k", "2m"), working_set=powers(16 << 10, 512 << 20)),
    base=Sweep(pages="2m", working_set=_SET),
    fixed={"locality": "random"},
    default=False,
)

LOADED = Experiment(
    name="memory.loaded",
    asks="What does a load cost while the others make traffic?",
    kernel="memory_loaded_latency",
    load="delay",
    sweep=Sweep(mix=_MIXES, delay=_DELAYS),
    quick=Sweep(mix="1:0", delay=_DELAYS),
    base=Sweep(mix="1:0", delay=0),
    fixed={"operation": "mix", "threads": 1},
    default=False,
)

CORES = Experiment(
    name="memory.cores",
    asks="What does it cost to get a line from another core?",
    kernel="memory_core_to_core",
    load="operation",
    sweep=Sweep(operation=("cas", "clean", "modified")),
    base=Sweep(operation="cas"),
    default=False,
)
