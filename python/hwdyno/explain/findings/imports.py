"""Whether another tool's result holds: what contradicts itself, idle disks, figures that nothing confirms.

What a format states twice is in a point's claims, and what its counters saw in its details.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from hwdyno.analysis.resources import DERIVED
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.laws import against_ceilings
from hwdyno.explain.findings.rule import Case, Verdict, percent, times
from hwdyno.explain.findings.truth import CACHED
from hwdyno.model.point_details import Claim
from hwdyno.model.units import format_bytes, format_count, format_size, number_at, slip
from hwdyno.model.words import CeilingClass, Stream

GRAVE = 0.05
"""Relative error from which on a contradiction is not one of rounding or of means: one of the figures is wrong."""
MOSTLY = 0.5
LARGEST_REQUEST = 4 << 20
"""Bytes that one request to a disk carries at most (queue/max_sectors_kb; drivers set 128 KiB to 4 MiB)."""
READ_AHEAD = 128 << 10
"""Bytes that the kernel reads at most where one block of a random order is missing (queue/read_ahead_kb)."""
MIN_ELEMENTS = 1_000_000
"""STREAM's run rules: an array has at least a million elements, and four times the bytes of the last caches."""
CACHES = 4
MAX_CACHED_BLOCK = 256 << 10
"""Bytes that the level 2 cache of every core of servers and PCs holds."""
MAX_OVERHEAD_BLOCK = 16 << 10
"""Up to here a block takes less than about a microsecond, as much as a tool's loop around it."""


def contradicts_itself(case: Case) -> Verdict | None:
    """A figure of the result disagrees with the same figure computed from its other figures."""
    found = [(off, claim) for claim in case.point.claims if (off := _off(claim)) > claim.error]
    if not found:
        return None
    off, claim = max(found, key=lambda candidate: candidate[0])
    stated, follows = (case.quantity(value, claim.unit) for value in (claim.stated, claim.follows))
    words = slip(claim.stated / claim.follows, claim.error)
    cause = f" The factor {words}." if words else ""
    apart = f"a factor of {times(1 + off, 3)} apart" if off > 1 else f"{percent(off)} apart"
    says = (
        f"Impossible ({case.label}): {stated} {claim.what}, but only {follows} {claim.formula}."
        if claim.at_most
        else f"The {claim.what} contradicts its own result ({case.label}): {stated} is stated, and {claim.formula} is "
        f"{follows}, {apart}."
    )
    return Verdict(
        "invalid" if claim.at_most or off > GRAVE else "warning",
        says + cause,
        {"stated": claim.stated, "follows": claim.follows, "unit": claim.unit, "off": off, "tolerance": claim.error},
        f"Check the unit of each figure, then measure again: {case.command()}",
        weight=off,
        explains=("rate_times_size",),
    )


def _off(claim: Claim) -> float:
    """How far the two figures of a claim are apart, as a share; 0 where a bound is kept."""
    if claim.stated <= 0 or claim.follows <= 0:
        return 0.0
    ratio = claim.stated / claim.follows
    return max(0.0, ratio - 1) if claim.at_most else max(ratio, 1 / ratio) - 1


def disk_not_reached(case: Case) -> Verdict | None:
    """The tool's own counters of the disk saw fewer operations than the jobs issued."""
    if not case.carries_data:
        return None
    found = [miss for stream in case.point.streams if (miss := _find_missed(case, stream)) is not None]
    if not found:
        return None
    missed, stream, seen = max(found, key=lambda candidate: candidate[0])
    many = f"{format_count(stream.operations)} {'direct' if case.direct else 'buffered'} {stream.name}s"
    saw = f"its counters saw {seen} at most" if case.direct else f"it moved {seen} at most"
    if case.direct:
        cause = " Possible causes: a file that was never written (sparse), or a cache that ignores O_DIRECT."
        advice = "Write the whole file before, then read it with direct I/O"
    else:
        where = "came from" if stream.name == "read" else "stayed in"
        cause = f" They {where} the page cache, so this measures memory as much as storage."
        advice = "Measure the device with direct I/O"
    return Verdict(
        "invalid" if case.direct and missed > MOSTLY else "warning",
        f"{percent(missed)} of the {many} never reached the disk ({case.label}): {saw}.{cause}",
        {"missed_share": missed, "direction": stream.name, "operations": stream.operations},
        f"{advice}: {case.command(direct=True)}",
        weight=missed,
        explains=("page_cache",),
    )


def _find_missed(case: Case, stream: Stream) -> tuple[float, Stream, str] | None:
    """The least share of a direction that missed the disks, and what these saw at most; none within the tolerance.

    The counters are of all jobs together: a job alone must fit into them, and so must the sum of jobs that are alike.
    """
    details, name = case.point.details, stream.name
    if f"disk_{name}_operations" not in details:
        return None
    requests = number_at(details, f"disk_{name}_operations")
    alike = {Case(case.run, case.result, at).direct for at in range(len(case.result.points))} == {case.direct}
    if f"disk_{name}_bytes" in details or not case.direct:
        issued, every = float(stream.bytes), number_at(details, f"issued_{name}_bytes")
        request_bytes = max(case.number("bs") or 0.0, READ_AHEAD) if case.random else LARGEST_REQUEST
        moved = number_at(details, f"disk_{name}_bytes", requests * request_bytes)
        seen, words = moved, format_bytes(moved)
    else:
        # Each direct operation is at least one request; neighbours may be merged, and are counted apart.
        issued, every = float(stream.operations), number_at(details, f"issued_{name}_operations")
        seen = requests + number_at(details, f"disk_{name}_merges")
        words = format_count(seen)
    whole = max(issued, every) if alike else issued
    if whole <= 0:
        return None
    missed = 1 - seen / whole
    unseen = number_at(details, "disk_unseen_s") / max(number_at(details, "issued_s"), 1e-9)
    return (missed, stream, words) if missed > CACHED + unseen else None


def array_in_cache(case: Case) -> Verdict | None:
    """STREAM's arrays are smaller than its run rules ask for, so that caches answer."""
    elements, size = (number_at(case.point.details, name) for name in ("array_elements", "array_bytes"))
    least = CACHES * sum(_last_caches(case))
    if not elements or (elements >= MIN_ELEMENTS and size >= least):
        return None
    rule = f"{MIN_ELEMENTS:,} elements" if elements < MIN_ELEMENTS else f"{format_bytes(least)} on this machine"
    return Verdict(
        "warning",
        f"The arrays fit a cache ({case.label}): {elements:,.0f} elements, {format_bytes(size)} each. "
        f"STREAM's rules ask for at least {rule}.",
        {"elements": elements, "array_bytes": size, "least_elements": MIN_ELEMENTS, "least_bytes": least},
        "Build STREAM with -DSTREAM_ARRAY_SIZE=80000000, or measure here: hwdyno memory",
        weight=1 / elements,
    )


def _last_caches(case: Case) -> Iterator[float]:
    caches = case.run.machine.cpu.caches
    last = max((cache.level or 0 for cache in caches), default=0)
    yield from (float((cache.size_bytes or 0) * (cache.instances or 1)) for cache in caches if cache.level == last)


def block_in_cache(case: Case) -> Verdict | None:
    """sysbench moves one block again and again, and a core's cache holds it."""
    block = number_at(case.point.details, "reused_block_bytes")
    if not 0 < block <= MAX_CACHED_BLOCK:
        return None
    overhead = ", and what each operation of the tool costs" if block <= MAX_OVERHEAD_BLOCK else ""
    return Verdict(
        "warning",
        f"A cache's rate, not memory's ({case.label}): sysbench moves one block of {format_size(int(block))} again "
        f"and again, which a core's cache holds. The figure shows that cache{overhead}.",
        {"block": block},
        "Use --memory-block-size=1G with sysbench, or measure here: hwdyno memory",
        weight=1 / block,
    )


def check_confirmation(case: Case) -> Verdict | None:
    """Nothing contradicts the figure, and nothing confirms it: no repeats, no counters, no ceiling."""
    point = case.point
    repeated = point.repeats > 1 or point.throughput.low is not None
    counted = point.counters or "disk_unseen_s" in point.details or any(claim.at_most for claim in point.claims)
    bounds = (
        utilization.bound.ceiling for kind in get_args(CeilingClass) for utilization in against_ceilings(case, kind)
    )
    if repeated or counted or any(not bound.source.startswith(DERIVED) for bound in bounds):
        return None
    return Verdict(
        "info",
        f"Unverified ({case.label}): one reading, without repeats, counters or a ceiling. "
        "Nothing contradicts it, and nothing confirms it.",
        {"repeats": point.repeats},
        "Repeat it, or give a limit that you know: hwdyno report FILE --ceiling 'rated read 400 MB/s'",
        several=f"{{count}} {case.result.resource} figures are unverified: one reading each, without repeats, counters "
        "or a ceiling. Nothing contradicts them, and nothing confirms them.",
    )


_IMPORTED = Applies(imported=True)
RULES = (
    Rule("contradicts_itself", "point", contradicts_itself, _IMPORTED, degrades=True),
    Rule(
        "disk_not_reached",
        "point",
        disk_not_reached,
        Applies(imported=True, needs=("details.disk_unseen_s",)),
        degrades=True,
    ),
    Rule(
        "array_in_cache",
        "point",
        array_in_cache,
        Applies(imported=True, needs=("details.array_elements",)),
        degrades=True,
    ),
    Rule(
        "block_in_cache",
        "point",
        block_in_cache,
        Applies(imported=True, needs=("details.reused_block_bytes",)),
        degrades=True,
    ),
    Rule("unverified", "point", check_confirmation, _IMPORTED, doubts=True),
)
