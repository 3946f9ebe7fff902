"""A cloud VM, resource by resource: throughput and latency by threads and block, against theory and references."""

from __future__ import annotations

from collections.abc import Callable

from hwdyno.model.kernels import COMPUTE_FLOPS, MEMORY_BANDWIDTH, NETWORK_THROUGHPUT, STORAGE_BLOCKS
from hwdyno.model.units import (
    as_number,
    format_ns,
    format_number,
    format_percent,
    format_quantity,
    format_size,
    format_value,
    plural,
)
from hwdyno.model.words import ExperimentResult, Measurement, Run
from hwdyno.studies import cloud_vm_gpu, cloud_vm_network
from hwdyno.studies.point_figures import NONE, experiment, mb_s, number, sound, tightest, whole
from hwdyno.studies.published_rows import read_published
from hwdyno.studies.study import Question, Study, StudyTable

NAME = "cloud-vm-suite"
CPU, LINPACK, MEMORY, STREAM, DISK = (
    "compute.threads", "compute.linpack", "memory.block", "memory.stream", "storage.block",
)  # fmt: skip
THREADS = (1, 2, 4, 8)
THREADS_IN_BRIEF = (1, 2, 8)
EQUATIONS = (*(1000, 2000, 5000, 10000, 15000, 18000, 20000, 22000, 25000, 26000, 27000, 30000, 35000, 40000, 45000),)
"""The study's 15, of which it published those up to 20000; what memory has no room for is left out and named."""
EQUATIONS_IN_BRIEF = (500, 1000, 2000, 3000, 5000)
"""Systems that are solved in about a second, enough of them to see where the rate levels off."""
MIN_POINTS = 3
"""Minimum number of points: of fewer none is an optimum."""
BLOCKS = (8, 8 << 10, 8 << 20, 80 << 20)
DISK_BLOCKS = (4 << 10, 8 << 10, 8 << 20, 80 << 20)
STDIO_BLOCKS = (8, 8 << 10, 8 << 20, 80 << 20)
STDIO = "storage.stdio"
_RULES = (
    *cloud_vm_network.RULES,
    *cloud_vm_gpu.RULES,
    "linpack_share",
    "peak_share",
    "practical_bandwidth",
    "write_allocate",
    "spinning_or_solid",
    "page_cache",
)


def tables(run: Run) -> list[StudyTable]:
    """A table a resource: by threads, or by threads and block; LINPACK's beside the study's."""
    made = []
    if cpu := experiment(run, CPU):
        made.append(_by_threads(cpu, "CPU: operations per second by threads", ("operation", "precision"), "threads"))
    if solved := experiment(run, LINPACK):
        made.append(_linpack(solved))
    for name, title, threads, block, parts in (
        (MEMORY, "Memory", "threads", "block", ("pattern", "mix")),
        (DISK, "Disk", "numjobs", "bs", ("rw",)),
        (STDIO, "Files by stdio", "numjobs", "bs", ("rw",)),
    ):
        if found := experiment(run, name):
            made += _by_block(found, title, threads, block, parts)
    if loops := experiment(run, STREAM):
        made.append(_stream(loops))
    if efficiency := _efficiency(run):
        made.append(efficiency)
    return [*made, *cloud_vm_gpu.tables(run), *cloud_vm_network.tables(run)]


def _in_one_unit(value: float, unit: str) -> str:
    """A figure in the one unit that its table has: MB/s of bytes, G of operations."""
    if unit == "bytes/s":
        return f"{mb_s(value)} MB/s"
    return f"{format_number(value / 1e9)} G{unit}" if unit in {"FLOP/s", "IOP/s"} else format_value(value, unit)


def _throughput(point: Measurement) -> str:
    return _in_one_unit(point.throughput.value, point.throughput.unit)


def _by_threads(result: ExperimentResult, title: str, parts: tuple[str, ...], axis: str) -> StudyTable:
    grid: dict[tuple[str, ...], dict[int, Measurement]] = {}
    for point in result.points:
        parameters = whole(result, point)
        grid.setdefault(tuple(str(parameters.get(part)) for part in parts), {})[number(parameters, axis)] = point
    counts = sorted({count for row in grid.values() for count in row})
    rows = tuple(
        (" ".join(key), *(_throughput(row[count]) if count in row else NONE for count in counts))
        for key, row in grid.items()
    )
    return StudyTable(title, (" ".join(parts), *(plural(count, "thread") for count in counts)), rows)


def _stream(result: ExperimentResult) -> StudyTable:
    """STREAM's loops by threads, with what the study's STREAM printed with and without OpenMP."""
    table = _by_threads(result, "Memory: STREAM's loops by threads", ("operation",), "threads")
    theirs = {(row["kernel"], row["threads"]): row["best_mb_s"] for row in read_published("memory-stream", NAME)}
    counts = sorted({threads for _, threads in theirs})
    heads = (*table.columns, *(f"the study's, {plural(int(count), 'thread')}, MB/s" for count in counts))
    rows = ((*row, *(theirs.get((row[0], count), NONE) for count in counts)) for row in table.rows)
    return StudyTable(table.title, heads, tuple(rows))


def _efficiency(run: Run) -> StudyTable | None:
    """Each resource's best against theory and against its reference tools."""
    evidence = {finding.rule: finding.evidence for finding in run.findings}
    rows: list[tuple[str, ...]] = []
    for name, title, rule, best, share in (
        (CPU, "processor, double precision", "peak_share", "flop_s", "share"),
        (LINPACK, "LINPACK", "linpack_share", "flop_s", "theory_share"),
        (MEMORY, "memory", "practical_bandwidth", "best_bytes_s", "share"),
        (STREAM, "memory, STREAM's loops", "", "", ""),
        (DISK, "disk", "", "", ""),
    ):
        result = experiment(run, name)
        points = sound(result.points) if result else []
        # Of arithmetic, integers are another peak: theory here is of double precision.
        points = [point for point in points if point.throughput.unit != "IOP/s" and _is_double(result, point)]
        if result is None or not points:
            continue
        if name == DISK:
            rows += _disk_shares(result, points)
            continue
        most = max(points, key=lambda point: point.throughput.value).throughput
        figures = evidence.get(rule, {})
        value, reached = float(figures.get(best) or most.value), figures.get(share)
        bounds = [
            ceiling.value for ceiling in result.ceilings if ceiling.kind != "reference" and ceiling.unit == most.unit
        ]
        if not rule and bounds:
            reached = value / min(bounds)
        rows.append(
            (
                title,
                _in_one_unit(value, most.unit),
                _in_one_unit(value / reached, most.unit) if reached else "unknown",
                format_percent(reached, precise=True) if reached else NONE,
                _against(result),
            )
        )
    heads = ("resource", "best", "theory", "of theory", "of the reference tool (median of points)")
    return StudyTable("Efficiency against theory and the reference tool", heads, tuple(rows)) if rows else None


def _is_double(result: ExperimentResult | None, point: Measurement) -> bool:
    return result is None or result.name != CPU or whole(result, point).get("precision") == "double"


def _disk_shares(result: ExperimentResult, points: list[Measurement]) -> list[tuple[str, ...]]:
    """The disk's best reads and writes against its maker's figures, or else its link."""
    rows: list[tuple[str, ...]] = []
    for way, patterns in (("reads", ("read", "randread")), ("writes", ("write", "randwrite"))):
        found = [point for point in points if whole(result, point).get("rw") in patterns]
        if not found:
            continue
        best = max(found, key=lambda point: point.throughput.value).throughput
        metric = f"{way.removesuffix('s')}_bytes_s"
        bound = tightest(result, metric, "rated") or tightest(result, metric, "physical")
        theory = f"{_in_one_unit(bound.value, bound.unit)} ({bound.label or bound.formula})" if bound else "unknown"
        share = format_percent(best.value / bound.value, precise=True) if bound else NONE
        rows.append((f"disk, {way}", _in_one_unit(best.value, best.unit), theory, share, _against(result)))
    return rows


def _against(result: ExperimentResult) -> str:
    """Ours over each reference tool, the median over its points."""
    ratios: dict[str, list[float]] = {}
    for peer in result.peers:
        if peer.ratio:
            ratios.setdefault(peer.tool, []).append(peer.ratio.value)
    medians = {tool: sorted(found)[len(found) // 2] for tool, found in ratios.items()}
    return ", ".join(f"{tool} {format_percent(value, precise=True)}" for tool, value in medians.items()) or NONE


def _linpack(result: ExperimentResult) -> StudyTable:
    theirs = {row["n"]: row["gflops_max"] for row in read_published("cpu-linpack", NAME)}
    rows = []
    for point in result.points:
        parameters = whole(result, point)
        once_s = point.elapsed_s / point.operations if point.operations else None
        norms = (as_number(point.details.get(name)) for name in ("residual_absolute", "residual"))
        lda = as_number(point.details.get("lda"))
        rows.append(
            (
                str(parameters.get("n")),
                NONE if lda is None else f"{lda:.0f}",
                NONE if once_s is None else f"{once_s:.3f}",
                f"{point.throughput.value / 1e9:.1f}",
                f"{float(point.details.get('flops_s_best') or point.throughput.value) / 1e9:.1f}",
                *(NONE if norm is None else f"{norm:.3g}" for norm in norms),
                str(point.details.get("verification", NONE)),
                theirs.get(str(parameters.get("n")), NONE),
            )
        )
    heads = ("equations", "LDA", "time, s", "average", "best", "residual", "residual (norm)", "check")
    return StudyTable("LINPACK, GFLOP/s", (*heads, "the study's best, 2 threads"), tuple(rows))


def _by_block(
    result: ExperimentResult, title: str, threads: str, block: str, parts: tuple[str, ...]
) -> list[StudyTable]:
    groups: dict[str, dict[tuple[int, int], Measurement]] = {}
    for point in result.points:
        parameters = whole(result, point)
        words = " ".join(str(parameters[part]) for part in parts if part in parameters)
        groups.setdefault(words, {})[number(parameters, block), number(parameters, threads)] = point
    made = []
    figures: tuple[tuple[str, Callable[[Measurement], str]], ...] = (
        ("MB/s", lambda point: mb_s(point.throughput.value)),
        ("mean latency of a block", lambda point: _latency(point)),
    )
    for words, grid in groups.items():
        counts = sorted({count for _, count in grid})
        for quantity, figure in figures:
            rows = tuple(
                (format_size(size), *(figure(grid[size, count]) if (size, count) in grid else NONE for count in counts))
                for size in sorted({size for size, _ in grid})
            )
            heads = ("block", *(plural(count, "thread") for count in counts))
            made.append(StudyTable(f"{title}, {words}: {quantity}", heads, rows))
    return made


def _latency(point: Measurement) -> str:
    found = _latency_ns(point)
    return NONE if found is None else format_ns(found)


def _latency_ns(point: Measurement) -> float | None:
    """The mean time of a block, ns: measured, or by Little's law."""
    if point.latency_ns is not None:
        return point.latency_ns.mean
    if point.rate is None or point.rate.value <= 0 or point.concurrency is None:
        return None
    return point.concurrency.requested / point.rate.value * 1e9


def observations(run: Run) -> list[str]:
    """The optimal concurrency of each resource, both efficiencies, and what kind of device the disk is."""
    sentences = []
    for name, title, threads, block, parts in (
        (CPU, "Processor", "threads", "", ("operation", "precision")),
        (MEMORY, "Memory", "threads", "block", ("pattern", "mix")),
        (STREAM, "Memory, STREAM's", "threads", "", ("operation",)),
        (DISK, "Disk", "numjobs", "bs", ("rw",)),
        (STDIO, "Files by stdio", "numjobs", "bs", ("rw",)),
    ):
        if found := experiment(run, name):
            sentences += _optima(found, title, threads, block, parts)
    if experiment(run, DISK):
        sentences.append("Direct reads cannot read 8 B, which is less than a sector: 4 KiB are read instead.")
    if experiment(run, STDIO):
        sentences.append(
            "Blocks by stdio, 8 B among them, come from the C library's buffer and the page cache: they are no "
            "figures of the disk."
        )
    rated = any(ceiling.kind == "rated" for result in run.experiments for ceiling in result.ceilings)
    if experiment(run, DISK) and not rated:
        sentences.append("The disk's maker's figures are unknown: name it by --device, or give --ceiling 'rated …'.")
    sentences += cloud_vm_gpu.observations(run)
    if any(run.measured_points(NETWORK_THROUGHPUT)):
        sentences += cloud_vm_network.observations(run)
    sentences += [finding.says for finding in run.findings if finding.rule in _RULES]
    ratios = {(peer.tool, peer.ratio.value) for result in run.experiments for peer in result.peers if peer.ratio}
    for tool in sorted({tool for tool, _ in ratios}):
        values = sorted(ratio for name, ratio in ratios if name == tool)
        median = format_percent(values[len(values) // 2], precise=True)
        sentences.append(f"Ratio to {tool}: {median} (median of the points).")
    return sentences


def _optima(result: ExperimentResult, title: str, threads: str, block: str, parts: tuple[str, ...]) -> list[str]:
    """The optimal concurrency of each table: of each pattern, mix or precision by itself."""
    groups: dict[str, list[Measurement]] = {}
    for point in sound(result.points):
        parameters = whole(result, point)
        groups.setdefault(" ".join(str(parameters[part]) for part in parts if part in parameters), []).append(point)
    few = [words for words, points in groups.items() if len(points) < MIN_POINTS]
    found = [
        _optimum(result, f"{title}, {words}", threads, block, points)
        for words, points in groups.items()
        if words not in few
    ]
    if few:
        found.append(f"{title}: no best concurrency of fewer than {MIN_POINTS} points ({', '.join(few)}).")
    return found


def _optimum(result: ExperimentResult, title: str, threads: str, block: str, points: list[Measurement]) -> str:
    most = max(point.throughput.value for point in points)
    # The least concurrency within 10% of the most is the optimum: more only waits.
    near = [
        (number(whole(result, point), threads) * (number(whole(result, point), block) if block else 1), at, point)
        for at, point in enumerate(points)
        if point.throughput.value >= 0.9 * most
    ]
    _, _, best = min(near, key=lambda candidate: candidate[:2])
    parameters = whole(result, best)
    size = f" x {format_size(number(parameters, block))}" if block else ""
    return (
        f"{title}: best concurrency {plural(number(parameters, threads), 'thread')}{size}, the fewest within 10% of "
        f"the maximum: {format_quantity(best.throughput)}.{_for_latency(result, threads, block, points)}"
    )


def _for_latency(result: ExperimentResult, threads: str, block: str, points: list[Measurement]) -> str:
    """The concurrency with the shortest time of a block; empty for a table without latencies."""
    if not block:
        return ""
    timed = [(found, point) for point in points if (found := _latency_ns(point)) is not None]
    if not timed:
        return ""
    ns, best = min(timed, key=lambda candidate: candidate[0])
    parameters = whole(result, best)
    return (
        f" For latency: {plural(number(parameters, threads), 'thread')} x {format_size(number(parameters, block))}, "
        f"{format_ns(ns)} a block."
    )


STUDY = Study(
    name=NAME,
    title="All resources of a cloud VM",
    asks="Each resource against theory and a reference tool",
    questions=(
        Question(
            name=CPU,
            asks="Operations per second by threads",
            kernel=COMPUTE_FLOPS,
            load="threads",
            blocks=(
                {"operation": "fma", "precision": ("double", "single"), "isa": "auto", "threads": THREADS},
                {"operation": "add", "precision": "int32", "isa": "auto", "threads": THREADS},
            ),
            runtime_s=5.0,
        ),
        Question(
            name=LINPACK,
            asks="LINPACK by size of the system",
            kernel="linpack",
            load="n",
            blocks=({"operation": "lu", "n": EQUATIONS, "threads": 2},),
            brief={"n": EQUATIONS_IN_BRIEF},
            runtime_s=5.0,
        ),
        Question(
            name=MEMORY,
            asks="Bandwidth by block size and threads, sequential and random",
            kernel=MEMORY_BANDWIDTH,
            load="threads",
            blocks=(
                {
                    "operation": "mix",
                    "mix": ("1:0", "1:1", "0:1"),
                    "pattern": ("sequential", "random"),
                    "block": BLOCKS,
                    "threads": THREADS,
                },
            ),
            brief={"threads": THREADS_IN_BRIEF},
            runtime_s=5.0,
        ),
        Question(
            name=STREAM,
            asks="STREAM's four loops",
            kernel=MEMORY_BANDWIDTH,
            load="threads",
            blocks=({"operation": ("copy", "scale", "add", "triad"), "threads": (1, 2, 4)},),
            runtime_s=5.0,
        ),
        Question(
            name=DISK,
            asks="Bandwidth by block size and threads, sequential and random",
            kernel=STORAGE_BLOCKS,
            load="numjobs",
            blocks=(
                {
                    "rw": ("read", "rw", "write", "randread", "randrw", "randwrite"),
                    "bs": DISK_BLOCKS,
                    "numjobs": THREADS,
                    "iodepth": 1,
                },
            ),
            fixed={"ioengine": "psync", "direct": True},
            brief={"numjobs": THREADS_IN_BRIEF},
            peers=("iozone",),
            runtime_s=10.0,
        ),
        Question(
            name=STDIO,
            asks="The study's own way: blocks by stdio's fread and fwrite, cached",
            kernel=STORAGE_BLOCKS,
            load="numjobs",
            blocks=(
                {
                    "rw": ("read", "rw", "write", "randread", "randrw", "randwrite"),
                    "bs": STDIO_BLOCKS,
                    "numjobs": THREADS,
                    "iodepth": 1,
                },
            ),
            fixed={"ioengine": "stdio", "direct": False},
            brief={"rw": ("read", "write", "randread", "randwrite"), "bs": STDIO_BLOCKS[:2], "numjobs": (1,)},
            runtime_s=10.0,
        ),
        *cloud_vm_gpu.QUESTIONS,
        *cloud_vm_network.QUESTIONS,
    ),
    tables=tables,
    observations=observations,
    mistakes=(
        "the memory's theoretical bandwidth is computed from the CPU clock; it is transfers/s x channels x 8 B.",
        "the hypervisor misnames the CPU, so LINPACK exceeds the 'peak'; feature bits and the measured clock give the "
        "right one.",
        "5 GB/s of a virtual disk is page-cache speed: the reads were not direct.",
        "the network's theory compares a loopback with a NIC, and the GPU's counts 8 FLOP per core and clock.",
    ),
)
