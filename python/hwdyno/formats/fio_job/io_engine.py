"""Keys for how operations reach the file: I/O engine, queue depth, page cache, buffer pages, processors."""

from __future__ import annotations

import re

from hwdyno.formats.fio_job.reader import JobOption, Reader
from hwdyno.model.axes import FIELD, list_traits
from hwdyno.model.words import Parameters

STANDS_FOR: dict[str, tuple[str, str]] = {
    "io_uring": ("io_uring", ""),
    "libaio": ("libaio", ""),
    "mmap": ("mmap", ""),
    "null": ("null", ""),
    "psync": ("psync", ""),
    "sync": ("psync", "lseek and read; pread needs no lseek"),
    "vsync": ("psync", "readv of merged neighbours; pread does one operation per call"),
    "pvsync": ("psync", "preadv, which is equivalent"),
    "pvsync2": ("psync", "preadv2, which is equivalent without its flags"),
    "posixaio": (
        "libaio",
        "C library threads with pread, one at a time per file. Here the kernel's queue is used: more operations in "
        "flight at less cost, so do not compare with fio's posixaio",
    ),
}
"""The supported fio engines, each with our engine and, where that differs, what fio's does."""

_COMMANDS = "it sends commands past the block layer, whose guards protect data here"
_LAYOUT = "it changes a file's layout and moves no data; use rw=trim to discard blocks"
_NEEDS: dict[str, str] = {
    **dict.fromkeys(("net", "netsplice"), "hwdyno network measures the network"),
    "rdma": "it needs RDMA adapters; hwdyno network measures TCP and UDP",
    **dict.fromkeys(("rados", "rbd"), "it uses Ceph's library; mount the cluster and name a file"),
    **dict.fromkeys(("gfapi", "gfapi_async"), "it uses Gluster's library; mount the volume and name a file"),
    "libhdfs": "it uses Hadoop's library",
    "dfs": "it uses DAOS's library",
    "nfs": "it uses an NFS library; mount the share and name a file on it",
    "http": "it accesses an object store or WebDAV, not a file",
    "libiscsi": "it uses an iSCSI library; log in with the kernel's initiator and name the device",
    "nbd": "it uses an NBD library; attach the device with nbd-client and name it",
    **dict.fromkeys(("ime_psync", "ime_psyncv", "ime_aio"), "it uses DDN IME's library"),
    "libblkio": "it drives devices through libblkio, past the kernel",
    **dict.fromkeys(("libpmem", "dev-dax", "pmemblk"), "it needs persistent memory and its library"),
    **dict.fromkeys(("libcufile", "libhipfile"), "it moves data into a GPU's memory through the GPU maker's library"),
    **dict.fromkeys(("libzbc", "io_uring_cmd", "xnvme", "sg", "mtd"), _COMMANDS),
    "exec": "it runs a command; no commands are run from a job file",
    "external": "it loads a library named in the job file; no code is run from a job file",
    "cpp_null": "it is fio's sample engine in C++; ioengine=null is the same",
    "cpuio": "it only loads the CPU; hwdyno compute measures that",
    "page_fault": "it measures page faults; hwdyno memory measures memory",
    **dict.fromkeys(("e4defrag", "falloc", "ftruncate"), _LAYOUT),
    "splice": "it moves data through a pipe, where read data cannot be verified",
    "libsmbclient": "it uses an SMB library; mount the share and name a file on it",
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
    entry = reader.options.pop("ioengine", None) or JobOption("psync", line)
    direct, buffered = reader.flag("direct"), reader.flag("buffered")
    given["direct"] = direct if direct is not None else buffered is False
    depth = reader.integer("iodepth", 1, 1024) or 1
    ours, instead_of = STANDS_FOR[entry.value]
    given["ioengine"] = ours
    if instead_of:
        reader.notes[f"engine_{entry.value}"] = f"ioengine={entry.value} runs as {ours}: fio's is {instead_of}"
    if depth > 1 and "synchronous" in list_traits((FIELD["ioengine"],), {"ioengine": ours}):
        reader.notes["depth_moot"] = (
            f"iodepth {depth} has no effect on the synchronous engine {entry.value}: one operation is in flight"
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
        raise reader.error(durable, f"sync={durable.value} is not supported; use none, sync or dsync")
    if durable is not None and _SYNCS[durable.value] != "none":
        given["sync"] = _SYNCS[durable.value]
    if (cpus := reader.options.pop("cpus_allowed", None)) is not None:
        given["cpus"] = ",".join(_numbers(reader, "cpus_allowed", cpus))


def _buffers(reader: Reader, given: Parameters) -> None:
    buffers = reader.options.pop("iomem", None)
    kind = buffers.value.split(":")[0] if buffers is not None else "malloc"
    if buffers is not None and kind not in _BUFFERS:
        raise reader.error(buffers, f"mem={buffers.value} is not supported; use one of: {', '.join(_BUFFERS)}")
    given["mem"] = _BUFFERS[kind]


def _numbers(reader: Reader, key: str, entry: JobOption) -> list[str]:
    found: list[str] = []
    for part in entry.value.split(","):
        if not (match := re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())):
            raise reader.error(entry, f"{key}={entry.value} is not a list of CPUs, such as 0,2-3")
        found += map(str, range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def why_not(engine: str) -> str:
    """Why an engine is not supported, or which alternative measures the same."""
    names = _NAMES.fullmatch(engine)
    if names:
        operation = {"delete": "unlink"}.get(names[2], names[2])
        return f"hwdyno storage --operation {operation} measures that"
    engine = engine.partition(":")[0]
    known = f"use one of: {', '.join(STANDS_FOR)}"
    return f"{_NEEDS[engine]}; {known}" if engine in _NEEDS else known
