"""What memory figures mean: theoretical bandwidth, write-allocate, huge pages, lines in flight, caches, NUMA nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hwdyno.analysis.ceilings.memory import BANDWIDTH, UNKNOWN, from_memory, of_modules
from hwdyno.analysis.curves import LOADED_MODEL
from hwdyno.analysis.curves.caches import MIN_POINTS, Edge, find_edges, settled_ns
from hwdyno.analysis.curves.loaded import BEARABLE
from hwdyno.analysis.resources import rate_word
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, apart, as_number, contrast, percent, quantity
from hwdyno.model.axes import find_per_element
from hwdyno.model.kernels import MEMORY_BANDWIDTH, MEMORY_LATENCY, MEMORY_LOADED_LATENCY
from hwdyno.model.machine import Cache
from hwdyno.model.units import format_ns, format_size, plural
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run

LINE_BYTES = 64
MIN_GAIN = 0.05
TESTED = 0.8
"""Share of the bandwidth of reads, up to which a load must have gone for its latency to be known at high loads."""
BEYOND = 1.1
"""A gain this many times greater than what write-allocate costs has another cause too."""
CACHE_FACTOR = 2.0
FAR_NODE = 0.10


def _whole(result: ExperimentResult, point: Measurement) -> Parameters:
    return {**result.fixed, **point.parameters}


def _list_points(case: Case, *kernels: str) -> Iterator[tuple[ExperimentResult, int, Measurement, Parameters]]:
    """Every valid or degraded point that one of the kernels measured in the Run."""
    for row in case.run.measured_points(*kernels):
        if row[2].validity != "invalid" and row[2].throughput.value > 0:
            yield row


def wrong_result(case: Case) -> Verdict | None:
    """The results of a pass failed verification."""
    if case.point.details.get("verification") != "failed":
        return None
    return Verdict(
        "invalid",
        f"Wrong results ({case.label}): verification after the pass failed. This speed does not count.",
        {"verification": "failed"},
        "Run a memory test and rule out an unstable clock, then measure again.",
    )


def practical_bandwidth(case: Case) -> Verdict | None:
    """The best bandwidth beside the modules' theoretical bandwidth, or why that is unknown."""
    found = [(p.throughput, w) for _, _, p, w in _list_points(case, *BANDWIDTH) if p.throughput.unit == "bytes/s"]
    found = [(value, parameters) for value, parameters in found if from_memory(parameters)]
    if not found or case.is_imported:
        return None
    best, parameters = max(found, key=lambda candidate: candidate[0].value)
    how = f"{parameters.get('operation')}, {plural(as_number(parameters.get('threads')) or 1, 'thread')}"
    ceilings = of_modules(case.run.machine)
    if not ceilings:
        return Verdict(
            "info",
            f"Memory reaches {quantity(best)} ({how}). Its theoretical bandwidth is {UNKNOWN}, "
            "so this is the practical ceiling.",
            {"best_bytes_s": best.value, "theory_bytes_s": None},
            "Read speed and channels with `dmidecode -t memory` as root on the host. Then give them, here for two "
            f"channels of DDR4-3200: {case.next_run('memory', ceiling='physical 51.2 GB/s')}",
        )
    share = best.value / ceilings[0].value
    return Verdict(
        "info",
        f"Memory reaches {quantity(best)} ({how}), {percent(share)} of its theoretical bandwidth. "
        f"Theory: {ceilings[0].formula}.",
        {"best_bytes_s": best.value, "theory_bytes_s": ceilings[0].value, "share": share},
        "Look for empty channels if the share is below 70%: refresh and bus turnaround leave 70 to 90%."
        if share < 0.9
        else "Nothing to do.",
    )


def write_allocate(case: Case) -> Verdict | None:
    """Non-temporal stores are faster than cached ones, which read each written line first."""
    by: dict[tuple[str, str], tuple[int, Measurement]] = {}
    for at, point in enumerate(case.result.points):
        others = {k: v for k, v in point.parameters.items() if k != "operation"}
        if point.validity != "invalid" and from_memory(_whole(case.result, point)):
            by[str(point.parameters.get("operation")), repr(sorted(others.items()))] = (at, point)
    found = []
    for (operation, key), (at, plain) in by.items():
        past = by.get((f"nt_{operation}", key))
        per_element = find_per_element({"operation": operation}, case.result.declaration.axes)
        if per_element and per_element.allocates and past is not None and apart(plain.throughput, past[1].throughput):
            ratio = past[1].throughput.value / plain.throughput.value
            found.append((ratio, operation, (at, past[0]), plain, past[1], per_element.bus_factor))
    if not found:
        return None
    ratio, operation, places, plain, fast, factor = max(found, key=lambda candidate: candidate[0])
    if ratio < 1 + MIN_GAIN:
        return None
    whole = f", which explains a factor of {factor:.2f}" if ratio > BEYOND * factor else ""
    return Verdict(
        "info",
        f"Write-allocate costs bandwidth: nt_{operation} reaches {quantity(fast.throughput)}, {ratio:.2f} times "
        f"{operation} ({quantity(plain.throughput)}). Cached stores read each line first{whole}. "
        f"The bus moves {quantity(plain.throughput.value * factor, 'bytes/s')}, {factor:.2f} times what STREAM counts.",
        {"operation": operation, "ratio": ratio, "bus_bytes_s": plain.throughput.value * factor, "factor": factor},
        "Use non-temporal (streaming) stores for results that are not read again soon.",
        points=places,
    )


def huge_pages(case: Case) -> Verdict | None:
    """The same point on 2 MiB pages and on 4 KiB pages: the cost of TLB misses."""
    pairs: dict[str, dict[str, tuple[int, Measurement]]] = defaultdict(dict)
    for at, point in enumerate(case.result.points):
        pages = str(point.parameters.get("pages"))
        others = {name: value for name, value in point.parameters.items() if name != "pages"}
        if point.validity != "invalid" and pages in {"4k", "2m"}:
            pairs[repr(sorted(others.items()))][pages] = (at, point)
    both = [pair for pair in pairs.values() if len(pair) == 2 and _size(case, pair) >= 1 << 20]
    both = [pair for pair in both if apart(pair["4k"][1].throughput, pair["2m"][1].throughput)]
    if not both:
        return None
    latency = both[0]["2m"][1].throughput.unit == "operations/s"
    gains = [(_gain(pair, latency), pair) for pair in both]
    gain, pair = max(gains, key=lambda pair: pair[0])
    if gain < MIN_GAIN:
        return None
    base, huge = pair["4k"][1], pair["2m"][1]
    if latency and base.latency_ns and huge.latency_ns:
        figures = f"{format_ns(base.latency_ns.mean)} on 4 KiB pages, {format_ns(huge.latency_ns.mean)} on 2 MiB pages"
    else:
        figures = f"{quantity(base.throughput)} on 4 KiB pages, {quantity(huge.throughput)} on 2 MiB pages"
    return Verdict(
        "info",
        f"Huge pages gain {percent(gain)} at a working set of {format_size(_size(case, pair))}: {figures}.",
        {"gain": gain, "pages_4k": base.throughput.value, "pages_2m": huge.throughput.value},
        "Set transparent_hugepage to always, or use madvise(MADV_HUGEPAGE) for large data that is read at random.",
        weight=gain,
        points=(pair["4k"][0], pair["2m"][0]),
    )


def _size(case: Case, pair: dict[str, tuple[int, Measurement]]) -> float:
    return as_number(_whole(case.result, pair["2m"][1]).get("working_set")) or 0.0


def _gain(pair: dict[str, tuple[int, Measurement]], latency: bool) -> float:
    base, huge = pair["4k"][1], pair["2m"][1]
    if latency and base.latency_ns and huge.latency_ns:
        return 1 - huge.latency_ns.mean / base.latency_ns.mean
    return huge.throughput.value / base.throughput.value - 1 if base.throughput.value else 0.0


def lines_in_flight(case: Case) -> Verdict | None:
    """One thread cannot saturate memory: the lines that it keeps in flight, by Little's law."""
    reads = [
        (int(as_number(w.get("threads")) or 1), p)
        for _, _, p, w in _list_points(case, MEMORY_BANDWIDTH)
        if w.get("operation") == "read" and from_memory(w) and w.get("pattern", "sequential") == "sequential"
    ]
    latencies = [
        p.latency_ns.mean
        for _, _, p, w in _list_points(case, MEMORY_LATENCY)
        if p.latency_ns and from_memory(w) and w.get("pages") == "2m" and w.get("locality") == "random"
    ]
    alone = max((p.throughput for threads, p in reads if threads == 1), key=lambda v: v.value, default=None)
    together = max((p.throughput for threads, p in reads if threads > 1), key=lambda v: v.value, default=None)
    if alone is None or together is None or not latencies or not apart(alone, together):
        return None
    single, most = alone.value, together.value
    if most < 1.2 * single:
        return None
    lines = single * min(latencies) / 1e9 / LINE_BYTES
    return Verdict(
        "info",
        f"One thread cannot saturate memory: it reads {quantity(single, 'bytes/s')}, all threads together read "
        f"{quantity(most, 'bytes/s')}. At a load latency of {format_ns(min(latencies))}, one thread keeps "
        f"{plural(round(lines), 'cache line')} in flight (Little's law).",
        {"one_bytes_s": single, "all_bytes_s": most, "latency_ns": min(latencies), "lines_in_flight": lines},
        "Spread memory-bound work over more cores.",
    )


def claimed_cache(case: Case) -> Verdict | None:
    """The last cache by a pointer chase, beside the size that the system reports."""
    last = max(case.run.machine.cpu.caches, key=lambda cache: float(cache.size_bytes or 0), default=Cache())
    claimed = float(last.size_bytes or 0)
    # The curve with the most sizes first: its steps decide how sharp an edge is.
    curves = sorted(_chases(case.run), key=len, reverse=True)
    if not claimed or not curves or len(curves[0]) < MIN_POINTS:
        return None
    sizes, latencies = zip(*curves[0], strict=True)
    edges = find_edges(sizes, latencies)
    if not edges or max(sizes) < CACHE_FACTOR * edges[-1].size_bytes:
        return None
    found = edges[-1]
    ends = ", ".join(_ends(edges))
    evidence = {
        "claimed_bytes": claimed,
        "found_bytes": [edge.size_bytes for edge in edges],
        "below_ns": [edge.below_ns for edge in edges],
        "above_ns": found.above_ns,
    }
    if claimed <= CACHE_FACTOR * found.size_bytes:
        return Verdict(
            "info",
            f"Caches end at about {ends}. The system reports {format_size(claimed)} for the last one.",
            evidence,
            "Nothing to do.",
        )
    level = f"L{last.level}" if last.level else "The last cache"
    host = "guest" if case.run.machine.hypervisor else "machine"
    others = f" Smaller caches end at about {', '.join(_ends(edges[:-1]))}." if len(edges) > 1 else ""
    return Verdict(
        "info",
        f"{level} reads as {format_size(claimed)}, but this {host} behaves as if it had about "
        f"{format_size(round(found.size_bytes))} "
        f"(latency {contrast(format_ns(found.below_ns), format_ns(found.above_ns))}).{others}",
        evidence,
        f"Size blocks and tables for the smaller cache. Look closer: {case.next_run('memory caches')}",
    )


def _ends(edges: Iterable[Edge]) -> list[str]:
    """``48 KiB (1.1 ns)`` for each cache."""
    return [f"{format_size(round(edge.size_bytes))} ({format_ns(edge.below_ns)})" for edge in edges]


def _chases(run: Run) -> list[list[tuple[float, float]]]:
    """The random pointer chases on huge pages by working set, one per experiment."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for result, _, point, given in run.measured_points(MEMORY_LATENCY):
        size = as_number(given.get("working_set"))
        alike = given.get("pages") == "2m" and given.get("locality", "random") == "random"
        if alike and (as_number(given.get("stride")) or 64) <= 256 and size and point.latency_ns is not None:
            found[result.name].append((size, settled_ns(point.latency_ns)))
    return list(found.values())


def wrong_node(case: Case) -> Verdict | None:
    """The same point is much faster on memory of another node: thread and memory are on different nodes."""
    groups: dict[str, list[tuple[float, int, Measurement]]] = defaultdict(list)
    for at, point in enumerate(case.result.points):
        node = as_number(point.parameters.get("node"))
        others = {name: value for name, value in point.parameters.items() if name != "node"}
        if node is not None and node >= 0 and point.validity != "invalid":
            groups[repr(sorted(others.items()))].append((node, at, point))
    slow = [_apart(group) for group in groups.values()]
    # A matrix over nodes has the distance on purpose, and its thread is where it should be if its own node is nearest.
    slow = [
        candidate
        for candidate in slow
        if candidate[2] is None or candidate[2][2].parameters.get("cpu_node") != candidate[2][0]
    ]
    loss, far, near = max(slow, key=lambda candidate: candidate[0], default=(0.0, None, None))
    if loss < FAR_NODE or far is None or near is None:
        return None
    return Verdict(
        "warning",
        f"Memory on node {far[0]:.0f} is {percent(loss)} slower for this thread than memory on node {near[0]:.0f} "
        f"({contrast(_figure(far[2]), _figure(near[2]), 'vs')}). The thread or its memory is on the wrong node.",
        {"far_node": far[0], "near_node": near[0], "loss": loss},
        f"Bind threads to NUMA-local memory: numactl --cpunodebind={near[0]:.0f} --membind={near[0]:.0f}",
        points=(far[1], near[1]),
    )


_Placed = tuple[float, int, Measurement]


def _apart(group: Iterable[_Placed]) -> tuple[float, _Placed | None, _Placed | None]:
    ordered = sorted(group, key=lambda candidate: candidate[2].throughput.value)
    far, near = ordered[0], ordered[-1]
    if near[2].throughput.value <= 0:
        return 0.0, None, None
    return 1 - far[2].throughput.value / near[2].throughput.value, far, near


def _figure(point: Measurement) -> str:
    if point.throughput.unit == "operations/s" and point.latency_ns is not None:
        return format_ns(point.latency_ns.mean)
    return quantity(point.throughput.value, point.throughput.unit, rate_word("memory"))


_OF_BANDWIDTH, _OF_LATENCY = Applies(kernels=BANDWIDTH), Applies(kernels=(MEMORY_LATENCY,))


def loaded_latency(case: Case) -> Verdict | None:
    """Up to which bandwidth of other threads a load takes hardly longer than on an idle memory."""
    curve = case.curve
    if curve is None or curve.model != LOADED_MODEL or curve.ceiling is None or curve.best is None:
        return None
    idle_ns, peak = curve.parameters["idle"].value, curve.ceiling.value
    sustained = curve.knee.throughput if curve.knee else peak
    full = max((case.result.points[at] for at in curve.points), key=lambda point: point.throughput.value)
    peak_ns = full.latency_ns.mean if full.latency_ns else None
    fit = {name: value.value for name, value in curve.parameters.items()}
    half_ns = fit["R0"] + fit["A"] * (peak / 2) / (fit["Xm"] - peak / 2)
    there = f", {format_ns(peak_ns)} at the peak of {peak / 1e9:.3g} GB/s" if peak_ns else ""
    tested = f"{percent(sustained / peak)} of peak" if curve.knee else "the highest load tested"
    of_reads = [
        point.throughput.value
        for _, _, point, given in case.run.measured_points(*BANDWIDTH)
        if from_memory(given) and given.get("operation") == "read" and point.validity != "invalid"
    ]
    more = max(of_reads, default=0.0)
    untested = f" Higher loads were not tested: all threads read {more / 1e9:.3g} GB/s." if peak < TESTED * more else ""
    return Verdict(
        "info",
        f"Load latency stays within {percent(BEARABLE - 1)} of idle up to {sustained / 1e9:.3g} GB/s, {tested} "
        f"({case.label}). Latency: {format_ns(idle_ns)} idle{there}.{untested}",
        {
            "sustained_bytes_s": sustained,
            "peak_bytes_s": peak,
            "share": sustained / peak,
            "idle_ns": idle_ns,
            "peak_ns": peak_ns,
            **fit,
            "headline": {"title": "latency at half load", "value": half_ns, "unit": "ns"},
        },
        f"Keep other traffic below that where latency counts. Look closer: {case.command()}",
        points=curve.points,
    )


RULES = (
    Rule("wrong_result", "point", wrong_result, Applies(needs=("details.verification",)), degrades=True),
    Rule("practical_bandwidth", "run", practical_bandwidth, _OF_BANDWIDTH, about="memory"),
    Rule("write_allocate", "experiment", write_allocate, Applies(kernels=(MEMORY_BANDWIDTH,))),
    Rule("huge_pages", "experiment", huge_pages, Applies(needs=("parameters.pages",))),
    Rule("lines_in_flight", "run", lines_in_flight, _OF_LATENCY, about="memory"),
    Rule("claimed_cache", "run", claimed_cache, replace(_OF_LATENCY, machine=("cpu.caches",)), about="memory"),
    Rule("loaded_latency", "curve", loaded_latency, Applies(kernels=(MEMORY_LOADED_LATENCY,))),
    Rule("wrong_node", "experiment", wrong_node, Applies(resources=("memory",), needs=("parameters.node",))),
)
