"""Questions about how programs go through files: IOzone's and IOR's patterns, threads, and mdtest's names."""

from __future__ import annotations

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.sweep import Sweep
from hwdyno.model.axes import list_traits, write_share
from hwdyno.model.words import CeilingClass, Declaration, Parameters

_PATTERNS = "storage_patterns"
_METADATA = "storage_metadata"
# They go through the page cache unless direct is set, so a device's ceiling does not apply.
_CEILINGS: tuple[CeilingClass, ...] = ("reference",)
# Six loads are the least that the Universal Scalability Law is fitted to.
_THREADS = (1, 2, 3, 4, 6, 8)
ALL = (
    *("write", "rewrite", "read", "reread", "randread", "randwrite", "backward_read", "record_rewrite", "stride"),
    *("fwrite", "frewrite", "fread", "freread"),
)
_SIZES = ("nrfiles", "numjobs", "filesize")
OPERATIONS = ("create", "stat", "open", "readdir", "rename", "unlink")


def _nonsense(kernel: Declaration, point: Parameters) -> str | None:
    """The error of parameters that contradict each other; none for a valid point."""
    pattern, block = str(point.get("pattern", "")), point.get("bs")
    streams = pattern in {"fwrite", "frewrite", "fread", "freread"}
    if point.get("direct") and (streams or "page_cache" in list_traits(kernel.axes, point)):
        return f"{pattern} copies through a buffer, so direct has no effect; use --direct 0"
    if point.get("direct") and isinstance(block, int) and block % 512:
        return f"direct I/O moves whole sectors, and bs {block} is not a multiple of 512; use --direct 0 or another bs"
    if pattern == "write" and point.get("ioengine") == "mmap":
        return "mmap cannot write a new, empty file; use --ioengine psync or --pattern rewrite"
    return None


def _pass_bytes(kernel: Declaration, point: Parameters, max_bytes: float) -> float:
    """One pass over the file, or as much of it as there is time for."""
    return write_share(kernel.axes, point) * min(float(point.get("size") or 0), max_bytes)


PATTERNS = Experiment(
    name="storage.patterns",
    asks="File access patterns of IOzone and IOR",
    kernel=_PATTERNS,
    load="bs",
    sweep=Sweep(pattern=ALL, bs=(4096, 65536, 1 << 20, 16 << 20), numjobs=1),
    quick=Sweep(pattern=ALL, bs=65536, numjobs=1),
    base=Sweep(pattern="read", bs=65536, numjobs=1),
    ceilings=_CEILINGS,
    needs=("data_file",),
    check=_nonsense,
    writes=_pass_bytes,
    default=False,
)

THREADS = Experiment(
    name="storage.threads",
    asks="File access patterns by threads",
    kernel=_PATTERNS,
    load="numjobs",
    sweep=Sweep(
        pattern=("write", "rewrite", "read", "reread", "randread", "randwrite"),
        bs=(8, 8192, 8 << 20, 80 << 20),
        numjobs=_THREADS,
    ),
    quick=Sweep(pattern=("rewrite", "reread"), bs=8192, numjobs=_THREADS),
    # Two records of 80 MiB for each of eight threads: all of the grid goes through the same file, and ends in time.
    fixed={"size": 2 * 8 * (80 << 20)},
    time_share=0.2,
    setup_s=0.1,
    ceilings=_CEILINGS,
    needs=("data_file",),
    check=_nonsense,
    writes=_pass_bytes,
    default=False,
)


def _file_bytes(kernel: Declaration, point: Parameters, max_bytes: float) -> float:
    """Every file of the tree, once: it is made anew for each reading."""
    files, jobs, size = (float(point.get(name, kernel.axis(name).default) or 0) for name in _SIZES)
    return min(files * jobs * size, max_bytes)


METADATA = Experiment(
    name="storage.metadata",
    asks="File metadata operations per second",
    kernel=_METADATA,
    load="numjobs",
    sweep=Sweep(operation=OPERATIONS, numjobs=_THREADS, directories=("unique", "shared")),
    quick=Sweep(operation=OPERATIONS, numjobs=(1, 2, 4), directories="unique"),
    base=Sweep(operation="create", numjobs=1),
    ceilings=_CEILINGS,
    needs=("data_file",),
    writes=_file_bytes,
    default=False,
)

NAMES = Experiment(
    name="storage.names",
    asks="File metadata operations with fsync",
    kernel=_METADATA,
    load="nrfiles",
    sweep=Sweep(operation=("create", "rename", "unlink"), fsync=("none", "file", "directory"), nrfiles=(100, 1000)),
    quick=Sweep(operation=("create", "rename", "unlink"), fsync=("none", "file", "directory"), nrfiles=200),
    ceilings=_CEILINGS,
    needs=("data_file",),
    writes=_file_bytes,
    default=False,
)
