"""The levels of a GPU's memory by a pointer chase: L1, L2, memory, and where a TLB's reach ends."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hwdyno.analysis.ceilings.gpu import the_gpu
from hwdyno.analysis.curves.caches import MIN_POINTS, Edge, find_edges, quickest, settled_ns
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number
from hwdyno.model.kernels import GPU_LATENCY
from hwdyno.model.machine import Machine
from hwdyno.model.units import format_ns, format_size
from hwdyno.model.words import Measurement

KERNEL = GPU_LATENCY
NEAR_OCTAVES = 1.6
"""How far from a cache's stated size its edge may be: a chase uses a part of it, and sizes are steps of up to 4."""
MIN_RISE = 1.4
"""Minimum rise between two levels; a GPU's memory takes about twice as long as its last cache."""
MAX_L1_BYTES = 2 << 20
"""A first level ends below: NVIDIA's H100 has 256 KiB of it (its whitepaper), and sizes are steps of up to 4."""
SPLIT = 2.0
"""A stated last cache larger by this factor than the one that was found is worth a word: large GPUs split it."""


def gpu_levels(case: Case) -> Verdict | None:
    """Where the latency of a load rises with the working set, and which level ends there."""
    chase = quickest((_size(case, point), _ns(point)) for point in case.result.points)
    if len(chase) < MIN_POINTS:
        return None
    sizes, latencies_ns = zip(*chase, strict=True)
    octaves = math.log2(sizes[-1] / sizes[0]) / (len(sizes) - 1)
    # A slope is read between neighbours, so a step is spread over two distances of the sizes.
    edges = find_edges(sizes, latencies_ns, math.log(MIN_RISE) / (2 * octaves))
    known = _list_caches(case.run.machine, str(case.result.fixed.get("on") or ""))
    named = _name_edges(edges, known)
    if not named or chase[-1][0] < 2 * max(edge.size_bytes for edge in edges):
        return None
    caches = [(name, edge) for name, edge in named if name != "TLB"]
    beyond = [edge for name, edge in named if name == "TLB"]
    parts = [f"{format_ns(edge.below_ns)} from {name} (up to about {_about(edge)})" for name, edge in caches]
    memory_ns = caches[-1][1].above_ns if caches else beyond[0].below_ns
    parts.append(f"{format_ns(memory_ns)} from memory")
    reach = (
        f" From {_about(beyond[0])} on it takes {format_ns(beyond[0].above_ns)}: past a TLB's reach." if beyond else ""
    )
    evidence = {
        "levels": {name: {"ends_bytes": edge.size_bytes, "latency_ns": edge.below_ns} for name, edge in caches},
        "memory_ns": memory_ns,
        "reach_bytes": beyond[0].size_bytes if beyond else None,
    }
    last = known[-1] if known else None
    part = ""
    if last is not None and caches and caches[-1][0] == last[0] and last[1] > SPLIT * caches[-1][1].size_bytes:
        part = f" The driver states {format_size(last[1])} of {last[0]}; a load reaches a part of it this fast."
    return Verdict(
        "info",
        f"A load on the GPU takes {', '.join(parts)}.{reach}{part}",
        evidence,
        f"Keep what a block of threads reads again in the smaller level. Look closer: {case.next_run('gpu latency')}",
    )


def _name_edges(edges: Sequence[Edge], known: Sequence[tuple[str, float]]) -> list[tuple[str, Edge]]:
    """The edges with the level that ends there: a stated cache near it, ``L1`` below all, ``TLB`` above the last.

    Without any stated size, the first two are L1 and L2. Of two edges near one cache, the nearer one has its name, and
    the other one none.
    """
    if not known:
        return list(zip(("L1", "L2", "TLB"), edges, strict=False))
    found: dict[str, Edge] = {}
    for name, size in known:
        near = [edge for edge in edges if abs(math.log2(edge.size_bytes / size)) <= NEAR_OCTAVES]
        near = [edge for edge in near if edge not in found.values()]
        if near:
            found[name] = min(near, key=lambda edge: abs(math.log2(edge.size_bytes / size)))
    placed = [edge.size_bytes for edge in found.values()]
    below = [edge for edge in edges if edge.size_bytes < min([*placed, known[0][1] / 4, MAX_L1_BYTES])]
    above = [edge for edge in edges if edge.size_bytes > max([*placed, known[-1][1]])]
    if below and "L1" not in found:
        found["L1"] = below[-1]
    if above:
        found["TLB"] = above[0]
    return sorted(found.items(), key=lambda candidate: candidate[1].size_bytes)


def _list_caches(machine: Machine, on: str) -> list[tuple[str, float]]:
    """The caches that the driver, or the system of a processor, states: the smallest first."""
    if on == "cpu":
        caches = sorted(
            (float(cache.size_bytes or 0), f"L{cache.level}") for cache in machine.cpu.caches if cache.level
        )
        return [(name, size) for size, name in caches if size]
    gpu = the_gpu(machine)
    return [("L2", float(gpu.l2_bytes))] if gpu is not None and gpu.l2_bytes else []


def _size(case: Case, point: Measurement) -> float:
    return as_number({**case.result.fixed, **point.parameters}.get("working_set")) or 0.0


def _ns(point: Measurement) -> float:
    if point.validity == "invalid":
        return 0.0
    if point.latency_ns is not None:
        return settled_ns(point.latency_ns)
    return 1e9 / point.throughput.value if point.throughput.value > 0 else 0.0


def _about(edge: Edge) -> str:
    return format_size(2 ** round(math.log2(edge.size_bytes)))


RULES = (Rule("gpu_levels", "experiment", gpu_levels, Applies(kernels=(KERNEL,), needs=("parameters.working_set",))),)
