"""Results of a text above what it states itself: its link, its class of disk, its theoretical maximum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.laws import CEILING_ROUNDING, FAR_ABOVE_RATED
from hwdyno.explain.findings.published import sum_rounding
from hwdyno.explain.findings.rule import Case, Verdict, operations_per_s, percent, times
from hwdyno.model.units import format_size, number_at, plural

MIN_SECONDS = 10.0
MAX_CALL_BYTES = (2 << 30) - 4096
"""Linux moves at most 0x7ffff000 B in a call (read(2))."""
FEW_BLOCKS = 16
MULTIPLE = 2.0
"""A share of at least this is printed as a factor."""


def above_stated(case: Case) -> Verdict | None:
    """A result above the link, the class of disk or the maximum that the same text names."""
    if any(ceiling.kind == "physical" for ceiling in case.result.ceilings):
        return None
    limits = case.point.details.get("stated_limits") or ()
    over = [(share, limit) for limit in limits if (share := _share(case, limit)) > _max_share(case, limit)]
    if not over:
        return None
    share, limit = max(over, key=lambda found: found[0])
    value, unit = number_at(limit, "value"), str(limit.get("unit"))
    measured = operations_per_s(case.point) if unit == "operations/s" else case.point.throughput.value
    much = f"{times(share)} times" if share >= MULTIPLE else f"{percent(share - 1)} above"
    return Verdict(
        "warning",
        f"{case.quantity(measured or 0.0, unit)} is {much} {limit.get('label')}, "
        f"{case.quantity(value, unit)} ({case.label}). A cache answered, or one of the two figures is wrong.",
        {"measured": measured, "stated": value, "unit": unit, "source": limit.get("source")},
        f"Check the link and the class of the disk, or measure past the cache: {case.command(direct=True, size='64G')}",
        weight=share,
    )


def file_done_early(case: Case) -> Verdict | None:
    """A run of fio without a fixed time that ends when its file is done, in a few seconds."""
    size, rate = case.number("size"), case.point.throughput
    if not size or rate.unit != "bytes/s" or rate.value <= 0:
        return None
    seconds = size * case.jobs / rate.value
    if seconds >= MIN_SECONDS:
        return None
    return Verdict(
        "warning",
        f"The run lasted about {seconds:.1f} s ({case.label}): {format_size(size)} at {case.quantity(rate)}, and the "
        "text's fio commands end with their file. Caches and a device's first seconds weigh most.",
        {"seconds": seconds, "size": size},
        f"Add --time_based --runtime=60 to fio, or measure here: {case.command(direct=True, size='64G')}",
        weight=1 / seconds,
    )


def block_beyond_call(case: Case) -> Verdict | None:
    """A block that no single call of the system moves."""
    block, size = case.number("bs") or 0.0, case.number("size") or 0.0
    if block <= MAX_CALL_BYTES:
        return None
    count, depth = size / block, case.number("iodepth") or 1.0
    whole = f" The file is {plural(round(count), 'block')}" if 1 <= count <= FEW_BLOCKS else ""
    whole += (
        f", and {depth:.0f} in flight are all of it." if whole and depth > 1 and depth >= count else "." * bool(whole)
    )
    return Verdict(
        "warning",
        f"A block of {format_size(block)} is no single operation ({case.label}): Linux moves 2 GiB - 4 KiB a call at "
        f"most. Rate, latency and depth are of other blocks.{whole}",
        {"bs": block, "max_call_bytes": MAX_CALL_BYTES, "blocks": count},
        f"Measure with blocks that one call moves: {case.command(bs='4M')}",
        weight=block,
    )


def _share(case: Case, limit: Mapping[str, Any]) -> float:
    """The result as a share of a limit; 0 where it does not bound it."""
    point, value, reads = case.point, number_at(limit, "value"), case.read_share
    if limit.get("unit") == "operations/s":
        measured = operations_per_s(point) or 0.0
    else:
        measured = point.throughput.value if point.throughput.unit == "bytes/s" else 0.0
    direction = limit.get("direction")
    if not value or (direction and reads != {"read": 1, "write": 0}[str(direction)]):
        return 0.0
    # A link carries both directions at once, and a row that names none may be of both.
    both = 1.0 if limit.get("shared") or reads in {0, 1} else 2.0
    return measured / value / both


def _max_share(case: Case, limit: Mapping[str, Any]) -> float:
    if limit.get("rated"):
        return FAR_ABOVE_RATED
    return 1 + CEILING_ROUNDING + sum_rounding(case.point, "bw" if limit.get("unit") == "bytes/s" else "iops")


RULES = (
    Rule(
        "above_stated",
        "point",
        above_stated,
        Applies(imported=True, resources=("storage",), needs=("details.stated_limits",)),
        degrades=True,
    ),
    Rule(
        "block_beyond_call",
        "point",
        block_beyond_call,
        Applies(imported=True, resources=("storage",), needs=("parameters.bs",)),
    ),
    Rule(
        "file_done_early",
        "point",
        file_done_early,
        Applies(imported=True, resources=("storage",), needs=("details.ends_with_file", "parameters.size")),
    ),
)
