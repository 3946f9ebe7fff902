"""Whether a storage point did enough: operations to speak of, a region beyond caches, blocks of each job's own."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, as_number, percent
from hwdyno.units import format_count, format_size

LEAST_OPERATIONS = 100
"""With fewer, a mean latency is known no better than within 10% even of evenly scattered ones (1 / sqrt n)."""
SMALL_BYTES = 256 << 20
"""So much data fits into the cache of many a drive, controller or hypervisor."""
PASSES = 2.0
"""Visited so often a repeat, a small region is in every cache that could hold it."""


def _region(case: Case) -> float:
    """Bytes of the region that the jobs visited, of all of them together."""
    return as_number(case.point.details.get("region_bytes")) or case.number("size") or 0.0


def too_short(case: Case) -> Verdict | None:
    """So few operations that their mean and their tail are chance."""
    point = case.point
    if not 0 < point.operations < LEAST_OPERATIONS:
        return None
    each = point.elapsed_s / point.operations
    return Verdict(
        "warning",
        f"{case.label}: only {format_count(point.operations)} operations were done, so these figures are of a few "
        f"moments, not of the storage; {LEAST_OPERATIONS} are the least for a mean within 10%.",
        {"operations": point.operations, "least": LEAST_OPERATIONS, "elapsed_s": point.elapsed_s},
        f"Measure longer: {case.command(runtime=max(1, round(2 * LEAST_OPERATIONS * each)))}",
        weight=1 / point.operations,
    )


def small_region(case: Case) -> Verdict | None:
    """A region so small, and visited so often, that a cache below the page cache may have answered."""
    region, point = _region(case), case.point
    if not 0 < region < SMALL_BYTES or not case.direct:
        return None
    passes = point.bytes / max(1, point.repeats) / region
    if passes < PASSES:
        return None
    return Verdict(
        "info",
        f"{case.label}: each repeat went {passes:.1f} times over the same {format_size(region)}, which fits into the "
        f"cache of many a drive, controller or hypervisor, and no counter here would show it.",
        {"region_bytes": region, "passes": passes, "small_bytes": SMALL_BYTES},
        f"Take a region beyond such caches and see whether it falls: {case.command(size='16G')}",
        weight=passes,
    )


def shared_blocks(case: Case) -> Verdict | None:
    """Jobs that cover the same region visit the same blocks, which the first visit brought into every cache."""
    jobs, region, size = case.jobs, _region(case), case.number("bs")
    if case.parameter("share") != "whole" or jobs < 2 or not region or not size:
        return None
    each = case.point.bytes / max(1, case.point.repeats) / jobs / region
    # A job at random without repetition covers a share of the blocks; of several, that of their union is known.
    share = min(1.0, each)
    again = 1 - (1 - (1 - share) ** jobs) / (jobs * share) if share else 0.0
    if not case.random:
        again = 1 - 1 / jobs  # In step, each block is visited by every job.
    return Verdict(
        "info",
        f"{case.label}: its {jobs:.0f} jobs cover the same {format_size(region)}, so about {percent(again)} of their "
        f"visits were to blocks that another job visited too.",
        {"jobs": jobs, "region_bytes": region, "overlap_share": again},
        f"Give each job blocks of its own: {case.command(share='partition')}",
        weight=again,
    )


_OURS = Applies(kernels=("storage_blocks",), imported=False)
RULES = (
    Rule("too_short", "point", too_short, _OURS, degrades=True),
    Rule("small_region", "point", small_region, _OURS),
    Rule("shared_blocks", "point", shared_blocks, replace(_OURS, needs=("parameters.share",))),
)
