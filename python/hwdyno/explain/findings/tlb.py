"""The reach of the TLB: a chase with one element per page beside one on huge pages, which shows the caches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from hwdyno.analysis.curves.caches import MIN_POINTS, find_edges, settled_ns
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number
from hwdyno.model.kernels import MEMORY_LATENCY
from hwdyno.model.units import format_ns, format_ratio, format_size

KERNEL = MEMORY_LATENCY
PAGE_BYTES = 4096
LINE_BYTES = 64
MAX_ENTRIES = 8192
"""No processor's TLB holds more pages (Zen 5: 4096, Golden Cove: 2048); later steps are page tables leaving caches."""
DENSE_BYTES = 256
"""A stride up to this touches each page many times."""
Chase = list[tuple[float, float]]


def tlb_reach(case: Case) -> Verdict | None:
    """Where loads from a new page each time take longer, although their lines are in the same cache as before."""
    dense, paged = _chases(case)
    found = [(stride, sizes) for stride, sizes in paged.items() if len(sizes) >= MIN_POINTS]
    if len(dense) < MIN_POINTS or not found:
        return None
    stride, chase = max(found, key=lambda candidate: len(candidate[1]))
    # Both chases show the caches' steps, at the same number of lines; their ratio shows only the TLB's.
    pairs = [(size, ns, _at(dense, _footprint(size, stride))) for size, ns in sorted(chase)]
    known = [(size, ns, alone) for size, ns, alone in pairs if alone is not None]
    edges = find_edges([size for size, _, _ in known], [max(1.0, ns / alone) for _, ns, alone in known])
    spacing = max(stride, PAGE_BYTES)
    every = _apart([edge.size_bytes / spacing for edge in edges])
    pages = [count for count in every if count <= MAX_ENTRIES]
    if not pages:
        return None
    reach = pages[-1] * PAGE_BYTES
    tables = [count for count in every if count > MAX_ENTRIES]
    size, ns, alone = next(row for row in known if row[0] >= min(4 * pages[-1] * spacing, known[-1][0]))
    steps = " and ".join(format_ratio(count) for count in pages)
    first = format_ratio(tables[0]) if tables else ""
    walks = f" From {first} pages on, the page tables themselves leave a cache." if tables else ""
    return Verdict(
        "info",
        f"The TLB covers about {format_size(_round(reach))} with 4 KiB pages (up to {steps} pages). "
        f"Beyond that, a load from a new page takes {format_ns(ns)}; on huge pages it takes {format_ns(alone)} "
        f"(one element per page over {format_size(_round(size))}).{walks}"
        + (" Caution: most points are degraded." if _poor(case) else ""),
        {
            "reach_bytes": reach,
            "pages": pages,
            "page_tables": tables,
            "stride": stride,
            "beyond_ns": ns,
            "huge_ns": alone,
        },
        "Put data that is read at random on huge pages (madvise or hugetlbfs), which cover 512 times as much. "
        f"Measure the gain: {case.next_run('memory latency', working_set='64M', pages='4k,2m')}",
    )


def _chases(case: Case) -> tuple[Chase, dict[float, Chase]]:
    """The longest random chase on huge pages, line by line, and by stride those with one element per 4 KiB page."""
    dense: dict[str, Chase] = defaultdict(list)
    paged: dict[float, Chase] = defaultdict(list)
    for result, _, point, given in case.run.measured_points(KERNEL):
        size, stride = as_number(given.get("working_set")), as_number(given.get("stride")) or LINE_BYTES
        if not size or point.latency_ns is None or given.get("locality", "random") != "random":
            continue
        if given.get("pages") == "2m" and stride <= DENSE_BYTES:
            dense[result.name].append((size, settled_ns(point.latency_ns)))
        elif given.get("pages") == "4k" and stride >= PAGE_BYTES:
            paged[stride].append((size, settled_ns(point.latency_ns)))
    longest = max(dense.values(), key=lambda chase: len(chase)) if dense else []
    return sorted(longest), paged


def _apart(counts: Sequence[float]) -> list[float]:
    """Merges steps within a factor of 2.5, which noise separated, to their geometric mean."""
    found: list[list[float]] = []
    for count in sorted(counts):
        if found and count <= 2.5 * found[-1][0]:
            found[-1].append(count)
        else:
            found.append([count])
    return [math.exp(sum(map(math.log, group)) / len(group)) for group in found]


def _poor(case: Case) -> bool:
    """Whether most points of the chases are degraded."""
    points = [point for _, _, point, _ in case.run.measured_points(KERNEL)]
    return 2 * sum(point.validity in {"degraded", "invalid"} for point in points) > len(points)


def _round(size: float) -> int:
    """Rounds to an eighth of the power of two below: the edge is not known better."""
    step = max(1, 1 << (int(size).bit_length() - 4))
    return round(size / step) * step


def _footprint(size: float, stride: float) -> float:
    """Bytes of cache that a chase uses: a line per element; a stride of whole pages leaves the other sets unused."""
    return size if stride % PAGE_BYTES == 0 else size * LINE_BYTES / stride


def _at(chase: Sequence[tuple[float, float]], size: float) -> float | None:
    """The latency at a working set, interpolated by logarithms; none beyond the measured ones."""
    if size < chase[0][0]:
        return chase[0][1]  # A smaller working set is in the first cache as well.
    for (low, below), (high, above) in pairwise(chase):
        if low <= size <= high:
            share = math.log(size / low) / math.log(high / low) if high > low else 0.0
            return math.exp(math.log(below) + share * (math.log(above) - math.log(below)))
    return None


RULES = (Rule("tlb_reach", "run", tlb_reach, Applies(kernels=(KERNEL,)), about="memory"),)
