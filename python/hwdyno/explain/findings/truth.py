"""Whether a point measured what it claims: caches, unwritten files, queue depths not reached, faults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_flag, as_number, mean_rate, percent
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import format_bytes, format_count

CACHED = 0.02
"""Largest difference between the bytes issued with direct I/O and the device's counters, as a share."""
FROM_MEMORY = 0.10
"""Share of the bytes of a buffered point that may miss the device; above it, the figure is not the storage's."""
BLOCKS = STORAGE_BLOCKS
NEVER_WRITTEN = 0.01
SHORT_OF_DEPTH = 0.03
MOSTLY_SHORT = 0.5
DEEPLY_SHORT = 0.10
LITTLES_LAW = "Little's law"
GRAVE_FAULTS = 0.01
OTHER_SEED = 2311
"""Seed for the same test with other data and another order."""


def never_written(case: Case) -> float:
    """Share of the file without written blocks; 0 where that is unknown."""
    details = case.point.details
    missing = sum(as_number(details.get(name)) or 0.0 for name in ("extent_unwritten_bytes", "extent_hole_bytes"))
    written = as_number(details.get("extent_written_bytes"))
    size = missing + written if written is not None else as_number(details.get("size_bytes")) or case.number("size")
    return min(1.0, missing / size) if size and missing else 0.0


def unwritten_file(case: Case) -> Verdict | None:
    """The filesystem answers reads of blocks that were never written, at memory speed."""
    share = never_written(case)
    if share <= NEVER_WRITTEN or not case.read_share:
        return None
    hole = as_number(case.point.details.get("extent_hole_bytes")) or 0.0
    unwritten = as_number(case.point.details.get("extent_unwritten_bytes")) or 0.0
    kind = "holes (sparse)" if hole > unwritten else "preallocated but never written"
    return Verdict(
        "invalid" if share > 0.1 else "warning",
        f"Reads did not reach the device ({case.label}): {percent(share)} of the file is {kind}. "
        "The filesystem answers those reads itself.",
        {"share": share, "extent_unwritten_bytes": unwritten, "extent_hole_bytes": hole},
        f"Write the whole file once, or let hwdyno create one: {case.command()}",
        weight=share,
    )


def compressed_file(case: Case) -> Verdict | None:
    """Blocks stored compressed are fewer bytes at the device, and the CPU decompresses them."""
    details = case.point.details
    encoded, size = as_number(details.get("extent_encoded_bytes")) or 0.0, as_number(details.get("region_bytes"))
    if not size or encoded / size <= NEVER_WRITTEN:
        return None
    share = min(1.0, encoded / size)
    missed = missed_device(case)
    moved = f" The device moved {format_bytes(missed[3])} for {format_bytes(missed[2])}." if missed else ""
    return Verdict(
        "invalid" if share > 0.1 and case.direct else "warning",
        f"{percent(share)} of the file is stored compressed or encrypted ({case.label}). "
        f"The filesystem reads it through the page cache even with direct I/O.{moved}",
        {"share": share, "extent_encoded_bytes": encoded, "region_bytes": size},
        f"Use data that does not compress, which hwdyno writes by default: {case.command()}",
        weight=share,
        explains=("page_cache",),
    )


def missed_device(case: Case) -> tuple[float, str, float, float] | None:
    """The share of one direction's bytes that missed the device: (share, direction, issued, at the device).

    What was in flight as the timed region began counts as seen: it ended inside, and the counters had it before.
    """
    if not case.carries_data:
        return None
    found = []
    for stream in case.point.streams:
        seen = at_device(case.point.counters, stream.name)
        if seen is not None and stream.bytes > 0:
            share = 1 - (seen + _straddling_bytes(case)) / stream.bytes
            found.append((share, stream.name, float(stream.bytes), seen))
    return max(found, default=None)


def _straddling_bytes(case: Case) -> float:
    """Bytes in flight as the timed regions began; at most as many as were requested where no counter tells.

    One block of each repeat at least: the counters are read a moment before, and one that is missing proves nothing.
    """
    counted, block = case.point.counters.get("straddling_bytes"), case.number("bs") or 0.0
    repeats = max(1, case.point.repeats)
    return (
        max(counted, block * repeats) if counted is not None else block * (case.requested_depth or case.jobs) * repeats
    )


def at_device(counters: Mapping[str, float], direction: str) -> float | None:
    """Bytes that reached the device, by the counters; none if no counter shows it.

    The device's counters include all processes, so for reads the process's counters (/proc/self/io) apply too.
    Those count a buffered write when it dirties the page cache, so for writes only the device's counters apply.
    A filesystem without a device may not account at all: a process counter of 0 alone means nothing.
    """
    device, process = counters.get(f"device_{direction}_bytes"), counters.get(f"process_{direction}_bytes")
    if device is not None and process is not None and direction == "read":
        return min(device, process)
    return device if device is not None else process or None


def _direct_missed(case: Case, share: float, issued: float, seen: float, evidence: dict[str, Any]) -> Verdict:
    """Bytes of direct I/O that the device did not see: what kept them from it was not measured."""
    cached = as_number(evidence["cached_share_after"]) or 0.0
    causes = "the filesystem compresses or deduplicates data, or has a cache besides the page cache"
    if cached > CACHED:
        causes = (
            f"the filesystem ignores O_DIRECT ({percent(cached)} of the region is in the page cache now), or {causes}"
        )
    plain = {name: 0 for name in ("buffer_compress_percentage", "dedupe_percentage") if case.number(name)}
    return Verdict(
        "invalid" if share > 0.5 else "warning",
        f"{percent(share)} of the {format_bytes(issued)} never reached the device, which moved {format_bytes(seen)} "
        f"({case.label}). Direct I/O was requested. Possible causes: {causes}.",
        evidence,
        f"Repeat it with {'data that neither shrinks nor repeats' if plain else 'other data'}, and then on another "
        f"filesystem (--path): {case.command_with({'seed': str(OTHER_SEED)}, **plain)}",
        weight=share,
    )


def page_cache(case: Case) -> Verdict | None:
    """Issued bytes that never reached the device: they came from a cache or stayed in it."""
    missed = missed_device(case)
    if missed is None:
        return None
    share, direction, issued, seen = missed
    # Unwritten blocks explain that share; another rule reports them.
    if share - never_written(case) <= CACHED:
        return None
    came = "came from the page cache" if direction == "read" else "stayed in the page cache"
    says = (
        f"{percent(share)} of the {format_bytes(issued)} {came} ({case.label}); the device moved {format_bytes(seen)}."
    )
    resident = {name: case.point.details.get(name) for name in ("cached_share_before", "cached_share_after")}
    evidence = {"cached_share": share, "direction": direction, "issued_bytes": issued, "device_bytes": seen, **resident}
    if case.direct:
        return _direct_missed(case, share, issued, seen, evidence)
    before = as_number(resident["cached_share_before"]) if direction == "read" else None
    warm = f" {percent(before)} of the region was cached before." if before else ""
    return Verdict(
        "warning" if share > FROM_MEMORY and case.result.kernel == BLOCKS else "info",
        f"{says}{warm} This measures memory as much as storage.",
        evidence,
        f"Measure the device with direct I/O: {case.command(direct=True)}",
        weight=share,
    )


def _submit_share(case: Case) -> float | None:
    """Share of the total latency that passed in the submitting call."""
    parts = [(s.operations, s.latency_ns["submit"].mean, s.latency_ns["total"].mean) for s in case.point.streams
             if {"submit", "total"} <= set(s.latency_ns)]  # fmt: skip
    total = sum(n * whole for n, _, whole in parts)
    return sum(n * submit for n, submit, _ in parts) / total if total else None


def _device_depth(case: Case) -> float | None:
    """Mean number of operations at the device: weighted time in its queue over elapsed time."""
    queue = case.point.counters.get("device_queue_s")
    return queue / case.point.elapsed_s if queue is not None and case.point.elapsed_s > 0 else None


def _pretended_depth(case: Case) -> str | None:
    """Why this engine cannot reach a queue depth above 1; none if it can."""
    depth, engine = case.number("iodepth"), str(case.parameter("ioengine", ""))
    if not depth or depth <= 1:
        return None
    if "synchronous" in case.traits:
        return f"{engine} has one operation in flight per job at any depth"
    used = case.point.details.get("direct_used", case.parameter("direct"))
    if "synchronous_buffered" in case.traits and used is not None and not as_flag(used):
        return f"buffered {engine} is synchronous, and each submission waits for its operation"
    return None


def synchronous_engine(case: Case) -> Verdict | None:
    """A queue depth requested from a synchronous engine: buffered libaio, psync, mmap."""
    why = _pretended_depth(case)
    if why is None:
        return None
    depth = case.number("iodepth") or 1
    submit, at_device = _submit_share(case), _device_depth(case)
    seen = [
        f"{percent(submit)} of each operation's time was in the submitting call" if submit is not None else "",
        f"{at_device:.1f} operations were at the device on average" if at_device is not None else "",
    ]
    seen_words = ", and ".join(word for word in seen if word)
    return Verdict(
        "warning",
        f"Queue depth {depth:.0f} was not reached ({case.label}): {why}."
        + (f" Measured: {seen_words}." if seen_words else ""),
        {"iodepth": depth, "submit_share": submit, "device_depth": at_device, "effective": case.effective},
        f"Use an asynchronous engine: {case.command(ioengine='io_uring')}",
        weight=depth,
    )


def depth_not_reached(case: Case) -> Verdict | None:
    """Fewer operations in flight than requested, by Little's law."""
    requested, effective = case.requested_depth, case.effective
    if not requested or requested / case.jobs <= 1 or _pretended_depth(case):
        return None
    most = as_number(case.point.details.get("iodepth_level_most"))
    counted = most is not None and most * case.jobs < (1 - DEEPLY_SHORT) * requested
    if most is not None and counted:
        effective = min(effective or math.inf, most * case.jobs)
    if not effective:
        return None
    short = 1 - effective / requested
    latency = case.point.latency_ns
    tolerance = case.tolerance(SHORT_OF_DEPTH, mean_rate(case.point), latency.mean if latency else None)
    # Other tools wait for what is in flight at the end, and count it.
    if short <= tolerance + (0.0 if case.is_imported else case.edges):
        return None
    # A foreign table's mean latency may leave out what its rate counts: no contradiction until most of it is missing.
    deeply = short > (MOSTLY_SHORT if case.is_imported and not counted else DEEPLY_SHORT)
    queue = "" if case.resource.two_ended else "the queue's nr_requests and "
    return Verdict(
        "warning" if deeply else "info",
        f"Queue depth not reached ({case.label}): {effective:.1f} operations were in flight instead of "
        f"{requested:.0f} ({'by the shares of operations at each depth' if counted else LITTLES_LAW}).",
        {"asked": requested, "effective": effective, "short": short, "tolerance": SHORT_OF_DEPTH},
        f"Check {queue}the tool's CPU, or spread the depth over more {case.result.axis(workers).words}: "
        + case.command(**{workers: max(2, round(case.jobs * 2))})
        if (workers := case.resource.workers)
        else f"Check the tool's CPU, then: {case.command()}",
        weight=short,
    )


def faults(case: Case) -> Verdict | None:
    """Operations that failed or were short."""
    count = sum(fault.count for fault in case.point.faults)
    if not count:
        return None
    operations = case.point.operations
    share = count / max(1, operations + count)
    failed = f"{format_count(count)} of {format_count(operations + count)} operations failed or were short"
    kinds = "; ".join(f"{fault.count} x {fault.operation}: {fault.says}" for fault in case.point.faults)
    return Verdict(
        "invalid" if share > GRAVE_FAULTS else "warning",
        f"{failed if operations else 'No operation is known to have succeeded'} ({case.label}). Faults: {kinds}.",
        {"faults": count, "operations": operations, "share": share},
        f"{case.on_faults}, then: {case.command()}",
        weight=share,
    )


_DIRECT_ON_FILE = "Use a filesystem with direct I/O (ext4, XFS, btrfs)"
_DIRECT_ON_DEVICE = "Use blocks and offsets that are multiples of the device's logical block (blockdev --getss)"


def direct_refused(case: Case) -> Verdict | None:
    """Direct I/O was refused, so the I/O went through the page cache."""
    note = next((note for note in case.point.notes if note.code == "direct_refused"), None)
    if note is None:
        return None
    return Verdict(
        "warning",
        f"Direct I/O was refused, so the page cache was used ({case.label}). Reason: {note.says}.",
        {"note": note.says},
        f"{_DIRECT_ON_DEVICE if '/dev/' in str(case.parameter('path')) else _DIRECT_ON_FILE}, or measure the cache: "
        + case.command(direct=False),
    )


RULES = (
    Rule("unwritten_file", "point", unwritten_file, Applies(resources=("storage",)), degrades=True),
    Rule("compressed_file", "point", compressed_file, Applies(needs=("details.extent_encoded_bytes",)), degrades=True),
    Rule("page_cache", "point", page_cache, Applies(resources=("storage", "training")), degrades=True),
    Rule("direct_refused", "point", direct_refused, Applies(needs=("notes.direct_refused",)), degrades=True),
    Rule("synchronous_engine", "point", synchronous_engine, Applies(needs=("parameters.iodepth",)), degrades=True),
    # Users and ranks pause between operations: their number is no queue depth.
    Rule(
        "depth_not_reached",
        "point",
        depth_not_reached,
        Applies(where=lambda resource: not resource.bursty),
        degrades=True,
    ),
    Rule("faults", "point", faults, Applies(needs=("faults",)), degrades=True),
)
