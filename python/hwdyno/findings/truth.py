"""Whether a point measured what it says: caches, files never written, depths never reached, faults."""

from __future__ import annotations

from collections.abc import Mapping

from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, as_flag, as_number, percent
from hwdyno.units import format_bytes, format_count

CACHED = 0.02
"""Bytes issued and bytes at the device's counters agree within 2% for direct I/O."""
NEVER_WRITTEN = 0.01
SHORT_OF_DEPTH = 0.03
DEEPLY_SHORT = 0.10
GRAVE_FAULTS = 0.01


def never_written(case: Case) -> float:
    """Share of the file that has no written block, 0 where that is not known."""
    details = case.point.details
    missing = sum(as_number(details.get(name)) or 0.0 for name in ("extent_unwritten_bytes", "extent_hole_bytes"))
    written = as_number(details.get("extent_written_bytes"))
    size = missing + written if written is not None else as_number(details.get("size_bytes")) or case.number("size")
    return min(1.0, missing / size) if size and missing else 0.0


def unwritten_file(case: Case) -> Verdict | None:
    """Reads of blocks that were never written are answered by the filesystem, at memory's speed."""
    share = never_written(case)
    if share <= NEVER_WRITTEN or not case.read_share:
        return None
    hole = as_number(case.point.details.get("extent_hole_bytes")) or 0.0
    unwritten = as_number(case.point.details.get("extent_unwritten_bytes")) or 0.0
    kind = "holes (a sparse file)" if hole > unwritten else "preallocated but never written"
    return Verdict(
        "invalid" if share > 0.1 else "warning",
        f"{case.label}: {percent(share)} of the file is {kind}, so the filesystem answers such reads itself and the "
        f"device is never asked.",
        {"share": share, "extent_unwritten_bytes": unwritten, "extent_hole_bytes": hole},
        f"Write the file once in full, or let hwdyno lay out its own: {case.command()}",
        weight=share,
    )


def compressed_file(case: Case) -> Verdict | None:
    """Blocks that are stored compressed are fewer bytes at the device, and are decompressed by the CPU."""
    details = case.point.details
    encoded, size = as_number(details.get("extent_encoded_bytes")) or 0.0, as_number(details.get("region_bytes"))
    if not size or encoded / size <= NEVER_WRITTEN:
        return None
    share = min(1.0, encoded / size)
    missed = missed_device(case)
    moved = f": the device moved {format_bytes(missed[3])} for {format_bytes(missed[2])}" if missed else ""
    return Verdict(
        "invalid" if share > 0.1 and case.direct else "warning",
        f"{case.label}: {percent(share)} of the file is stored compressed (or encrypted) by its filesystem, which "
        f"reads it through the page cache whatever is asked{moved}.",
        {"share": share, "extent_encoded_bytes": encoded, "region_bytes": size},
        f"Measure on data that does not compress, as hwdyno lays it out by itself: {case.command()}",
        weight=share,
        explains=("page_cache",),
    )


def missed_device(case: Case) -> tuple[float, str, float, float] | None:
    """Share of the bytes of one direction that the device never saw: (share, direction, issued, at the device)."""
    if not case.carries_data:
        return None
    found = []
    for stream in case.point.streams:
        seen = _at_device(case.point.counters, stream.name)
        if seen is not None and stream.bytes > 0:
            found.append((1 - seen / stream.bytes, stream.name, float(stream.bytes), seen))
    return max(found, default=None)


def _at_device(counters: Mapping[str, float], direction: str) -> float | None:
    """Bytes that reached the device, as far as the counters tell; none if they do not.

    The device's counters hold everybody's bytes, so for reads the process's own (/proc/self/io) count
    too. Those count a buffered write when it dirties the cache, so for writes only the device's count. A
    filesystem without a device may account for nothing: a process counter of 0 alone tells nothing.
    """
    device, process = counters.get(f"device_{direction}_bytes"), counters.get(f"process_{direction}_bytes")
    if device is not None and process is not None and direction == "read":
        return min(device, process)
    return device if device is not None else process or None


def page_cache(case: Case) -> Verdict | None:
    """Bytes that were issued but never reached the device came from, or stayed in, a cache."""
    missed = missed_device(case)
    if missed is None:
        return None
    share, direction, issued, seen = missed
    # Blocks never written explain as much of it, and are another rule's.
    if share - never_written(case) <= CACHED:
        return None
    came = "came from the page cache" if direction == "read" else "stayed in the page cache"
    says = f"{case.label}: {percent(share)} of the {format_bytes(issued)} {came}: the device moved {format_bytes(seen)}"
    evidence = {"cached_share": share, "direction": direction, "issued_bytes": issued, "device_bytes": seen}
    if case.direct:
        return Verdict(
            "invalid" if share > 0.5 else "warning",
            f"{says}, although direct I/O was asked for.",
            evidence,
            "See whether the filesystem honours O_DIRECT (overlay, ZFS and FUSE may not), and take --path on another: "
            + case.command(),
            weight=share,
        )
    return Verdict(
        "info",
        f"{says}; this is the speed of memory as much as of the storage.",
        evidence,
        f"To measure the device: {case.command(direct=True)}",
        weight=share,
    )


def _submit_share(case: Case) -> float | None:
    """Share of the whole latency that was spent in the submitting call."""
    parts = [(s.operations, s.latency_ns["submit"].mean, s.latency_ns["total"].mean) for s in case.point.streams
             if {"submit", "total"} <= set(s.latency_ns)]  # fmt: skip
    total = sum(n * whole for n, _, whole in parts)
    return sum(n * submit for n, submit, _ in parts) / total if total else None


def _device_depth(case: Case) -> float | None:
    """Mean operations at the device: weighted time in its queue over elapsed time."""
    queue = case.point.counters.get("device_queue_s")
    return queue / case.point.elapsed_s if queue is not None and case.point.elapsed_s > 0 else None


def _pretended_depth(case: Case) -> str | None:
    """Why a depth above one cannot be reached with this engine."""
    depth, engine = case.number("iodepth"), str(case.parameter("ioengine", ""))
    if not depth or depth <= 1:
        return None
    if "synchronous" in case.traits:
        return f"{engine} has one operation in flight a job, whatever the depth"
    used = case.point.details.get("direct_used", case.parameter("direct"))
    if "synchronous_buffered" in case.traits and used is not None and not as_flag(used):
        return f"buffered {engine} is synchronous: each submission waits for its operation"
    return None


def synchronous_engine(case: Case) -> Verdict | None:
    """A depth asked of an engine that is synchronous: buffered libaio, psync, mmap."""
    why = _pretended_depth(case)
    if why is None:
        return None
    depth = case.number("iodepth") or 1
    submit, at_device = _submit_share(case), _device_depth(case)
    seen = [
        f"{percent(submit)} of each operation's time is spent in the submitting call" if submit is not None else "",
        f"{at_device:.1f} operations were at the device on average" if at_device is not None else "",
    ]
    seen_words = " and ".join(word for word in seen if word)
    return Verdict(
        "warning",
        f"{case.label}: {why}{'; ' + seen_words if seen_words else ''}, not {depth:.0f}.",
        {"iodepth": depth, "submit_share": submit, "device_depth": at_device, "effective": case.effective},
        f"Take an engine that queues: {case.command(ioengine='io_uring')}",
        weight=depth,
    )


def depth_not_reached(case: Case) -> Verdict | None:
    """Fewer operations in flight than asked for, by Little's law; the effective depth is printed."""
    requested, effective = case.requested, case.effective
    if not requested or not effective or requested / case.jobs <= 1 or _pretended_depth(case):
        return None
    short = 1 - effective / requested
    if short <= max(SHORT_OF_DEPTH, case.tolerance) + case.edges:
        return None
    return Verdict(
        "warning" if short > DEEPLY_SHORT else "info",
        f"{case.label}: {requested:.0f} operations were asked to be in flight, but only {effective:.1f} were "
        f"(Little's law), so this is a point of depth {effective:.0f}.",
        {"asked": requested, "effective": effective, "short": short, "tolerance": SHORT_OF_DEPTH},
        f"See the queue's nr_requests and the tool's own CPU, or spread the depth over jobs: "
        f"{case.command(**{workers: max(2, round(case.jobs * 2))})}"
        if (workers := case.resource.workers)
        else f"See the tool's own CPU, then: {case.command()}",
        weight=short,
    )


def faults(case: Case) -> Verdict | None:
    """Operations that failed or came short."""
    count = sum(fault.count for fault in case.point.faults)
    if not count:
        return None
    share = count / max(1, case.point.operations + count)
    kinds = ", ".join(f"{fault.count} x {fault.operation}: {fault.says}" for fault in case.point.faults)
    return Verdict(
        "invalid" if share > GRAVE_FAULTS else "warning",
        f"{case.label}: {format_count(count)} of {format_count(case.point.operations)} operations failed or came short "
        f"({kinds}).",
        {"faults": count, "operations": case.point.operations, "share": share},
        f"{case.resource.on_faults}, then: {case.command()}",
        weight=share,
    )


_DIRECT_ON_FILE = (
    "Take --path on a filesystem that can do direct I/O (ext4, XFS, btrfs), or say --direct 0 and mean it."
)
_DIRECT_ON_DEVICE = (
    "Take blocks and offsets that are multiples of the device's logical block (blockdev --getss), or say --direct 0 "
    "and mean it."
)


def direct_refused(case: Case) -> Verdict | None:
    """Direct I/O was refused, so that the page cache stood in between."""
    note = next((note for note in case.point.notes if note.code == "direct_refused"), None)
    if note is None:
        return None
    return Verdict(
        "warning",
        f"{case.label}: direct I/O was not possible, so this went through the page cache: {note.says}.",
        {"note": note.says},
        _DIRECT_ON_DEVICE if "/dev/" in str(case.parameter("path")) else _DIRECT_ON_FILE,
    )


RULES = (
    Rule("unwritten_file", "point", unwritten_file, degrades=True),
    Rule("compressed_file", "point", compressed_file, Applies(needs=("details.extent_encoded_bytes",)), degrades=True),
    Rule("page_cache", "point", page_cache, degrades=True),
    Rule("direct_refused", "point", direct_refused, Applies(needs=("notes.direct_refused",)), degrades=True),
    Rule("synchronous_engine", "point", synchronous_engine, Applies(needs=("parameters.iodepth",)), degrades=True),
    # Users and ranks think between their operations: they are no depth.
    Rule("depth_not_reached", "point", depth_not_reached, Applies(where=lambda one: not one.bursty), degrades=True),
    Rule("faults", "point", faults, Applies(needs=("faults",)), degrades=True),
)
