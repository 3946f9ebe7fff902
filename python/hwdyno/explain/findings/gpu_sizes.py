"""What limits a GPU's bandwidth at small arrays: a cache, or the start of each pass."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from hwdyno.analysis.ceilings.gpu import MEMORY, the_gpu
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, quantity
from hwdyno.model.axes import find_per_element
from hwdyno.model.kernels import GPU_BANDWIDTH, GPU_LAUNCH
from hwdyno.model.units import format_ns, format_ratio, format_size
from hwdyno.model.words import Ceiling, Measurement

KERNEL = GPU_BANDWIDTH
ABOVE = 1.05
"""Times the memory's rated bandwidth from which on it cannot have been the memory."""
SAME_TIME = 1.25
"""A pass over an array twice as large takes at most this many times longer where its start is what takes the time."""


def gpu_fits_cache(case: Case) -> Verdict | None:
    """A bandwidth above the memory's rated one, of an array that the last cache holds: it is the cache's."""
    bound = min(
        (ceiling for ceiling in case.result.ceilings if ceiling.metric.startswith(MEMORY)), key=_value, default=None
    )
    passes = [sized_point for group in _passes(case).values() for sized_point in group]
    if bound is None or not passes:
        return None
    size, point, _ = max(passes, key=lambda candidate: candidate[1].throughput.value)
    ratio = point.throughput.value / bound.value
    gpu = the_gpu(case.run.machine)
    cache = float(gpu.l2_bytes or 0) if gpu is not None else 0.0
    if ratio < ABOVE or size > cache:
        return None
    operation = point.parameters.get("operation") or case.result.fixed.get("operation")
    return Verdict(
        "info",
        f"This is L2 and not memory: the {operation} of {format_size(size)} reaches {quantity(point.throughput)}, "
        f"{format_ratio(ratio)} times the memory's rated bandwidth. It fits the {format_size(cache)} of L2.",
        {"bytes_s": point.throughput.value, "rated_bytes_s": bound.value, "ratio": ratio, "cache_bytes": cache},
        f"For the memory, take arrays beyond four times L2: {case.command(array='256M')}",
        weight=ratio,
    )


def gpu_launch_bound(case: Case) -> Verdict | None:
    """Passes over small arrays that take the same time regardless of their size: what bounds them is their start."""
    found = []
    for operation, passes in _passes(case).items():
        flat = []
        for (size, _, ns), (next_size, _, next_ns) in pairwise(sorted(passes, key=lambda candidate: candidate[0])):
            if next_size < 2 * size or next_ns > SAME_TIME * ns:
                break
            flat += [(size, ns), (next_size, next_ns)]
        if flat:
            found.append((flat[-1][0], operation, flat[0], flat[-1]))
    if not found:
        return None
    size, operation, (small, small_ns), (_, large_ns) = max(found, key=lambda candidate: candidate[0])
    launches = [
        1e9 / point.throughput.value
        for _, _, point, _ in case.run.measured_points(GPU_LAUNCH)
        if point.validity != "invalid" and point.throughput.value > 0
    ]
    launch = f" A launch alone takes {format_ns(min(launches))}." if launches else ""
    return Verdict(
        "info",
        f"Passes up to {format_size(size)} are bound by their start: the {operation} of {format_size(small)} takes "
        f"{format_ns(small_ns)}, that of {format_size(size)} {format_ns(large_ns)}.{launch}",
        {"operation": operation, "bytes": size, "pass_ns": small_ns, "launch_ns": min(launches, default=None)},
        "Give a kernel more work, or put several into one launch (a graph); larger arrays show the memory: "
        + case.command(array="256M"),
    )


def _passes(case: Case) -> dict[str, list[tuple[float, Measurement, float]]]:
    """The points of each operation: the bytes of all arrays, the point, and the time of a pass, ns."""
    found: dict[str, list[tuple[float, Measurement, float]]] = defaultdict(list)
    for point in case.result.points:
        given = {**case.result.fixed, **point.parameters}
        operation, array = str(given.get("operation")), as_number(given.get("array"))
        per_element = find_per_element(given, case.result.declaration.axes)
        if point.validity != "invalid" and point.throughput.value > 0 and array and per_element:
            size = per_element.arrays * array
            found[operation].append((size, point, size * 1e9 / point.throughput.value))
    return found


def _value(ceiling: Ceiling) -> float:
    return ceiling.value


_APPLIES = Applies(kernels=(KERNEL,), needs=("parameters.array",))
RULES = (
    Rule("gpu_fits_cache", "experiment", gpu_fits_cache, _APPLIES),
    Rule("gpu_launch_bound", "experiment", gpu_launch_bound, _APPLIES),
)
