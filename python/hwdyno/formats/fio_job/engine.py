"""Keys for how operations reach the file: I/O engine, queue depth, page cache, buffer pages, processors."""

from __future__ import annotations

import re

from hwdyno.axes import FIELD, traits_of
from hwdyno.formats.fio_job.reader import Entry, Reader
from hwdyno.words import Parameters

STANDS_FOR: dict[str, tuple[str, str]] = {
    "io_uring": ("io_uring", ""),
    "libaio": ("libaio", ""),
    "mmap": ("mmap", ""),
    "null": ("null", ""),
    "psync": ("psync", ""),
    "sync": ("psync", "lseek and read; pread spares the lseek"),
    "vsync": ("psync", "readv of neighbours queued together; pread moves one operation a call"),
    "pvsync": ("psync", "preadv, which moves the same in one call"),
    "pvsync2": ("psync", "preadv2, which moves the same in one call; its flags are not given"),
    "posixaio": (
        "libaio",
        "threads of the C library around pread, one at a time for a file. The kernel's own queue stands in: more are "
        "in flight and each costs less, so do not compare the figures with fio's posixaio",
    ),
}
"""The supported fio engines, each with our engine and, where that differs, what fio's does."""

_COMMANDS = "it sends a device commands of its own, past the block layer whose guards keep data safe here"
_LAYOUT = "it changes how a file lies on its filesystem and moves no data; rw=trim gives blocks of a file back"
_NEEDS: dict[str, str] = {
    **dict.fromkeys(("net", "netsplice"), "hwdyno network measures the network"),
    "rdma": "it needs RDMA adapters; hwdyno network measures TCP and UDP",
    **dict.fromkeys(("rados", "rbd"), "it speaks to a Ceph cluster through Ceph's library; mount it and name a file"),
    **dict.fromkeys(("gfapi", "gfapi_async"), "it speaks to Gluster through its library; mount it and name a file"),
    "libhdfs": "it speaks to Hadoop's filesystem through its library",
    "dfs": "it speaks to DAOS through its library",
    "nfs": "it speaks NFS by a library of its own; mount the share and name a file on it",
    "http": "it speaks to an object store or WebDAV, not to a file",
    "libiscsi": "it speaks iSCSI by a library of its own; log in with the kernel's initiator and name the device",
    "nbd": "it speaks NBD by a library of its own; attach it with nbd-client and name the device",
    **dict.fromkeys(("ime_psync", "ime_psyncv", "ime_aio"), "it speaks to DDN IME through its library"),
    "libblkio": "it drives devices through the library libblkio, past the kernel",
    **dict.fromkeys(("libpmem", "dev-dax", "pmemblk"), "it needs persistent memory, and the library of it"),
    **dict.fromkeys(("libcufile", "libhipfile"), "it moves data into a GPU's memory through the GPU maker's library"),
    **dict.fromkeys(("libzbc", "io_uring_cmd", "xnvme", "sg", "mtd"), _COMMANDS),
    "exec": "it runs a command; no commands are run from a job file",
    "external": "it loads a program library named in the job file; nothing is run from a job file",
    "cpp_null": "it is fio's sample of an engine in C++; ioengine=null is the same",
    "cpuio": "it moves no data: it keeps processors busy; hwdyno compute measures those",
    "page_fault": "it measures faults of anonymous memory; hwdyno memory measures memory",
    **dict.fromkeys(("e4defrag", "falloc", "ftruncate"), _LAYOUT),
    "splice": "it moves data through a pipe, and checks of what was read would have nothing to look at",
    "libsmbclient": "it speaks SMB by a library of its own; mount the share and name a file on it",
}
_NAMES = re.compile(r"(file|dir)(create|stat|delete)")
# fio's buffer memory types, and our page sizes.
_BUFFERS = {"malloc": "small", "mmap": "small", "shm": "small", "mmaphuge": "huge", "shmhuge": "huge"}
_SYNCS = {"0": "none", "none": "none", "1": "sync", "sync": "sync", "": "sync", "dsync": "dsync"}


def check(reader: Reader) -> None:
    """Reject an unsupported engine, before any of its keys."""
    entry = reader.options.get("ioengine")
    if entry is not None and entry.value not in STANDS_FOR:
        raise reader.error(entry, f"ioengine={entry.value} is not supported: {why_not(entry.value)}")


def read(reader: Reader, given: Parameters, line: int) -> None:
    """Read the keys of access; the engine is supported."""
    entry = reader.options.pop("ioengine", None) or Entry("psync", line)
    direct, buffered = reader.flag("direct"), reader.flag("buffered")
    given["direct"] = direct if direct is not None else buffered is False
    depth = reader.integer("iodepth", 1, 1024) or 1
    ours, instead_of = STANDS_FOR[entry.value]
    given["ioengine"] = ours
    if instead_of:
        reader.notes[f"engine_{entry.value}"] = f"ioengine={entry.value} runs as {ours}: fio's is {instead_of}"
    if depth > 1 and "synchronous" in traits_of((FIELD["ioengine"],), {"ioengine": ours}):
        reader.notes["depth_moot"] = (
            f"iodepth {depth} means nothing on the synchronous engine {entry.value}: 1 is in flight"
        )
        depth = 1
    given["iodepth"] = depth
    least = reader.integer("iodepth_batch_complete_min", 0, 1024)
    if least:
        given["iodepth_batch_complete_min"] = least
    # By default fio drops a buffered file from the cache first.
    given["drop_cache"] = reader.flag("invalidate") is not False
    if reader.flag("pre_read"):
        given["pre_read"], given["drop_cache"] = True, False
    if reader.flag("hipri"):
        given["hipri"] = True
    _buffers(reader, given)
    durable = reader.options.pop("sync", None)
    if durable is not None and durable.value not in _SYNCS:
        raise reader.error(durable, f"sync={durable.value} is not supported; there are none, sync, dsync")
    if durable is not None and _SYNCS[durable.value] != "none":
        given["sync"] = _SYNCS[durable.value]
    if (cpus := reader.options.pop("cpus_allowed", None)) is not None:
        given["cpus"] = ",".join(_numbers(reader, "cpus_allowed", cpus))


def _buffers(reader: Reader, given: Parameters) -> None:
    buffers = reader.options.pop("iomem", None)
    kind = buffers.value.split(":")[0] if buffers is not None else "malloc"
    if buffers is not None and kind not in _BUFFERS:
        raise reader.error(buffers, f"mem={buffers.value} is not supported; there are {', '.join(_BUFFERS)}")
    given["mem"] = _BUFFERS[kind]


def _numbers(reader: Reader, key: str, entry: Entry) -> list[str]:
    found: list[str] = []
    for part in entry.value.split(","):
        if not (match := re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())):
            raise reader.error(entry, f"{key}={entry.value} is no list of processors, such as 0,2-3")
        found += map(str, range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def why_not(engine: str) -> str:
    """Why an engine is not supported, or which alternative measures the same."""
    names = _NAMES.fullmatch(engine)
    if names:
        operation = {"delete": "unlink"}.get(names[2], names[2])
        return f"hwdyno storage --operation {operation} measures what it does"
    engine = engine.partition(":")[0]
    known = f"there are {', '.join(STANDS_FOR)}"
    return f"{_NEEDS[engine]}; {known}" if engine in _NEEDS else known
