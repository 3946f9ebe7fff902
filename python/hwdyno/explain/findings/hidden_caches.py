"""Caches that no counter of the device shows: beside another writer, in a container, and in the host of a guest."""

from __future__ import annotations

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, apart, as_number, percent, quantity, times
from hwdyno.explain.findings.truth import BLOCKS, CACHED, FROM_MEMORY, at_device
from hwdyno.model.units import format_bytes, format_ns
from hwdyno.model.words import Run, Stream

FASTEST_NS = 3e3
"""No disk answers faster: Optane, the fastest that was sold, takes 5 µs with the kernel's part, and flash 50 µs."""
SMALL_BYTES = 16 << 10
"""Larger blocks take a cache longer than that to copy."""
MEMORY_KINDS = {"pmem", "memory"}
"""Disks that are memory, and may answer at once."""
MEMORY_FILESYSTEMS = {"tmpfs", "ramfs"}
VIRTUAL_KINDS = {"virtio", "xen", "hyper-v"}
LARGE_BYTES = 128 << 10
"""Smallest sequential blocks that measure the bandwidth of a disk, and not the latency of one operation."""
FASTER = 1.5
"""No disk is known whose sequential writes are this many times as fast as its reads."""


def cached_writes(case: Case) -> Verdict | None:
    """Buffered writes are in the page cache, and another writer hides in the device's counters how many."""
    point, stream = case.point, _stream(case, "write")
    if case.direct or stream is None or _durable(case) or not case.carries_data:
        return None
    written = point.counters.get("device_write_bytes")
    resident, dirty = (as_number(point.details.get(f"{name}_share_after")) for name in ("cached", "dirty"))
    if written is None or written <= stream.bytes * (1 + CACHED) or not resident or resident <= FROM_MEMORY:
        return None
    still = f", {percent(dirty)} not yet written" if dirty else ""
    return Verdict(
        "warning",
        f"Cached writes beside another writer ({case.label}). After the run {percent(resident)} of the region was in "
        f"the page cache{still}. The device moved {format_bytes(written)} for the {format_bytes(stream.bytes)} "
        "written, so its counters include others' writes.",
        {
            "cached_share_after": resident,
            "dirty_share_after": dirty,
            "issued_bytes": stream.bytes,
            "device_bytes": written,
        },
        f"Measure the device with direct I/O: {case.command(direct=True)}",
        weight=resident,
    )


def cache_hidden(case: Case) -> Verdict | None:
    """No counter shows the device, as in a container, but a cache answered: by cachestat, or by the latency."""
    if not case.carries_data:
        return None
    for stream in case.point.streams:
        seen = at_device(case.point.counters, stream.name)
        if stream.name not in {"read", "write"} or seen is not None or "disk_unseen_s" in case.point.details:
            continue
        if (found := _by_cachestat(case, stream) or _by_latency(case, stream)) is not None:
            return found
    return None


def _by_cachestat(case: Case, stream: Stream) -> Verdict | None:
    """The share of the region that lay in the page cache before it was read, or after it was written."""
    reads = stream.name == "read"
    share = as_number(case.point.details.get(f"cached_share_{'before' if reads else 'after'}"))
    if case.direct or share is None or share <= FROM_MEMORY or (not reads and _durable(case)):
        return None
    return Verdict(
        "warning",
        f"The page cache answered ({case.label}): {percent(share)} of the region lay in it "
        f"{'before' if reads else 'after'} the run. No counter shows the device here. This measures memory as much as "
        "storage.",
        {"cached_share": share, "direction": stream.name},
        f"Measure the device with direct I/O: {case.command(direct=True)}",
        weight=share,
    )


def _by_latency(case: Case, stream: Stream) -> Verdict | None:
    """Half of the operations are faster than any disk answers."""
    disks, latency, size = case.run.machine.storage.disks, stream.latency_ns.get("total"), case.number("bs")
    latency = latency or (case.point.latency_ns if len(case.point.streams) == 1 else None)
    if latency is None or not size or size > SMALL_BYTES or any(disk.kind in MEMORY_KINDS for disk in disks):
        return None
    typical, word = (latency.mean, "on average") if latency.p50 is None else (latency.p50, "at the median")
    if not 0 < typical < FASTEST_NS:
        return None
    memory = case.run.machine.storage.filesystem in MEMORY_FILESYSTEMS
    return Verdict(
        "warning",
        f"{'A filesystem in memory' if memory else 'A cache'} answered ({case.label}): a {stream.name} takes "
        f"{format_ns(typical)} {word}, and no disk takes less than {format_ns(FASTEST_NS)}. "
        "No counter shows the device here.",
        {"latency_ns": typical, "least_ns": FASTEST_NS, "direction": stream.name},
        f"Measure on a disk, with direct I/O (--path): {case.command(direct=True)}",
        weight=FASTEST_NS / typical,
    )


def _stream(case: Case, name: str) -> Stream | None:
    return next((stream for stream in case.point.streams if stream.name == name and stream.bytes > 0), None)


def _durable(case: Case) -> bool:
    """Whether writes are on the device when they count."""
    options = [case.parameter(name) for name in ("fsync", "fdatasync", "end_fsync")]
    return any(options) or case.parameter("sync", "none") not in {None, "none", "", 0}


def host_cache(case: Case) -> Verdict | None:
    """Sequential writes of a virtual disk are much faster than its reads: they were not stored when they counted.

    Where each write had to be stored before it counted (O_DSYNC), what followed from that.
    """
    machine = case.run.machine
    if machine.hypervisor is None and not any(disk.kind in VIRTUAL_KINDS for disk in machine.storage.disks):
        return None
    whole = [(_faster(pair["writes"], pair["reads"]), pair) for pair in _sequential_pairs(case.run)]
    stored = [(ratio, pair) for ratio, pair in whole if _durable(pair["writes"])]
    faster = [(ratio, pair) for ratio, pair in whole if ratio >= FASTER]
    found = [known for known in faster if known in stored] or faster or stored
    if not found:
        return None
    ratio, pair = max(found, key=lambda known: known[0])
    disk = machine.storage.disk.name or "the virtual disk"
    writes, reads = pair["writes"], pair["reads"]
    written, read = writes.point.throughput, reads.point.throughput
    figures = f"({writes.label}: {quantity(written)} against {quantity(read)})"
    evidence = {"ratio": written.value / read.value, "write_bytes_s": written.value, "read_bytes_s": read.value}
    if ratio < FASTER:
        return Verdict(
            "info",
            f"Writes that are stored before they count reach {percent(written.value / read.value)} of reads on {disk} "
            f"{figures}. No cache of the host answers them: this is what the disk takes.",
            evidence,
            "Take this figure for the disk's writes, and not one without --sync.",
            points=(writes.at,),
            experiment=writes.result.name,
        )
    if found[0] in stored:
        says = (
            f"Writes are still {times(ratio)} times as fast as reads on {disk} although each has to be stored "
            f"before it counts {figures}. The host acknowledges flushes too: what the disk takes cannot be measured "
            "from this guest."
        )
        advice = "Have the host open the disk past its cache (QEMU: cache=none or directsync), or measure on the host."
    else:
        says = (
            f"Writes are {times(ratio)} times as fast as reads on {disk} {figures}. No disk is like that: the host's "
            "cache acknowledges them before they are stored."
        )
        command = writes.command(rw="read,write")
        advice = f"Write past it, so that each write is stored before it counts: {command} --sync dsync"
    return Verdict(
        "warning",
        says,
        evidence,
        advice,
        points=tuple(cases["writes"].at for _, cases in faster if cases["writes"].result is writes.result),
        experiment=writes.result.name,
    )


def _sequential_pairs(run: Run) -> list[dict[str, Case]]:
    """The points of large direct sequential ``writes`` and ``reads`` that differ in nothing else."""
    pairs: dict[str, dict[str, Case]] = {}
    for result in run.experiments:
        for at in range(len(result.points)):
            here = Case(run, result, at)
            way = next(iter(here.traits & {"reads", "writes"}), "")
            sequential = here.traits & {"reads", "writes", "random", "trims"} == {way}
            size = here.number("bs")
            if sequential and here.direct and size and size >= LARGE_BYTES and _counts(here):
                others = {name: value for name, value in here.parameters.items() if name not in {"rw", "seed"}}
                pairs.setdefault(repr(sorted(others.items(), key=str)), {})[way] = here
    return [pair for pair in pairs.values() if len(pair) == 2]


def _faster(writes: Case, reads: Case) -> float:
    """How many times as fast the writes are; 0 where their intervals overlap."""
    written, read = writes.point.throughput, reads.point.throughput
    return written.value / read.value if apart(read, written) else 0.0


def _counts(case: Case) -> bool:
    """Whether a point may be set beside another: sound, closed loop, and not flushed as a whole."""
    point, flushes = case.point, any(case.parameter(name) for name in ("fsync", "fdatasync", "end_fsync"))
    return (
        point.validity != "invalid" and point.throughput.value > 0 and not flushes and case.requested_depth is not None
    )


_OF_BLOCKS = Applies(kernels=(BLOCKS,), imported=False)
RULES = (
    Rule(
        "cached_writes",
        "point",
        cached_writes,
        Applies(kernels=(BLOCKS,), needs=("details.cached_share_after",)),
        degrades=True,
    ),
    Rule("cache_hidden", "point", cache_hidden, _OF_BLOCKS, degrades=True),
    Rule("host_cache", "run", host_cache, _OF_BLOCKS, about="storage"),
)
