"""Whether a storage point covered enough: enough operations, a region beyond caches, separate blocks for each job."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import format_size, plural

MIN_OPERATIONS = 100
"""Minimum number of operations: with fewer, the mean of exponential latencies has an error above 10% (1 / sqrt n)."""
SMALL_BYTES = 256 << 20
"""A region below this fits the cache of many drives, controllers and hypervisors."""
PASSES = 2.0
"""Passes per repeat with which a small region is in every cache that is large enough."""


def _region(case: Case) -> float:
    """Bytes of the region that all jobs visited together."""
    return as_number(case.point.details.get("region_bytes")) or case.number("size") or 0.0


def too_short(case: Case) -> Verdict | None:
    """Too few operations for a meaningful mean or tail."""
    point = case.point
    if not 0 < point.operations < MIN_OPERATIONS:
        return None
    operation_s = point.elapsed_s / point.operations
    return Verdict(
        "warning",
        f"Too few operations: only {plural(point.operations, 'operation')} ({case.label}). "
        f"A mean within 10% takes at least {MIN_OPERATIONS}.",
        {"operations": point.operations, "least": MIN_OPERATIONS, "elapsed_s": point.elapsed_s},
        f"Measure longer: {case.command(runtime=max(1, round(2 * MIN_OPERATIONS * operation_s)))}",
        weight=1 / point.operations,
    )


def small_region(case: Case) -> Verdict | None:
    """A small region with many passes, which a cache below the page cache may have served."""
    region, point = _region(case), case.point
    if not 0 < region < SMALL_BYTES or not case.direct:
        return None
    passes = point.bytes / max(1, point.repeats) / region
    if passes < PASSES:
        return None
    return Verdict(
        "info",
        f"A hidden cache may have served this ({case.label}): each repeat went {passes:.1f} times over the same "
        f"{format_size(region)}. That fits many drive, controller and hypervisor caches, which no counter here shows.",
        {"region_bytes": region, "passes": passes, "small_bytes": SMALL_BYTES},
        f"Use a larger region and see whether the result falls: {case.command(size='16G')}",
        weight=passes,
    )


def shared_blocks(case: Case) -> Verdict | None:
    """Jobs that cover the same region visit the same blocks, which are cached after the first visit."""
    jobs, region, size = case.jobs, _region(case), case.number("bs")
    if case.parameter("share") != "whole" or jobs < 2 or not region or not size:
        return None
    coverage = case.point.bytes / max(1, case.point.repeats) / jobs / region
    # A random job without repetition covers a share of the blocks; the union of several jobs follows from it.
    share = min(1.0, coverage)
    again = 1 - (1 - (1 - share) ** jobs) / (jobs * share) if share else 0.0
    if not case.random:
        again = 1 - 1 / jobs  # Sequential jobs in step: every job visits each block.
    return Verdict(
        "info",
        f"Jobs share blocks ({case.label}): about {percent(again)} of the visits were to blocks that another job "
        f"visited too. All {jobs:.0f} jobs cover the same {format_size(region)}.",
        {"jobs": jobs, "region_bytes": region, "overlap_share": again},
        f"Give each job separate blocks: {case.command(share='partition')}",
        weight=again,
    )


_OURS = Applies(kernels=(STORAGE_BLOCKS,), imported=False)
RULES = (
    Rule("too_short", "point", too_short, Applies(kernels=_OURS.kernels), degrades=True),
    Rule("small_region", "point", small_region, _OURS),
    Rule("shared_blocks", "point", shared_blocks, replace(_OURS, needs=("parameters.share",))),
)
