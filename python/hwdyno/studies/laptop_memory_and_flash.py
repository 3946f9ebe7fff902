"""A laptop's memory and a flash drive: the latency cost of throughput, and whether a cache answered for the drive."""

from __future__ import annotations

from hwdyno.model.axes import FIELD_AXES, read_share
from hwdyno.model.kernels import MEMORY_LOADED_LATENCY, STORAGE_BLOCKS
from hwdyno.model.units import format_bytes_s, format_count, format_ns, format_percent, format_ratio, format_size
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run
from hwdyno.studies.point_figures import NONE, experiment, mb_s, micros, number, pattern, sound, whole
from hwdyno.studies.published_rows import read_published
from hwdyno.studies.study import Question, Study, StudyTable

NAME = "laptop-memory-and-flash"
_PUBLISHED = "usb-flash-laptop"
LOADED, FLASH = "memory.loaded", "storage.flash"
MIXES = ("1:0", "3:1-nt", "2:1-nt", "1:1-nt", "0:1")
"""Reads to non-temporal writes, as the study has them; MLC's 0:1 is of such writes, too."""
MIN_POINTS = 5
BACKWARDS = 0.05
"""Load cannot shorten a latency: by more than this, it is the measurement that is off."""
LEVEL = 0.9
"""Bandwidth from this share of the most on is its plateau."""
DELAYS = (0, 2, 8, 15, 50, 100, 200, 300, 400, 500, 700, 1000, 1300, 1700, 2500, 3500, 5000, 9000, 20000)
"""MLC's delays, in cycles."""
DELAYS_IN_BRIEF = (0, 50, 200, 500, 1000, 2500, 5000, 20000)


def tables(run: Run) -> list[StudyTable]:
    """Latency and bandwidth against the delay, by mix and access size; and the drive's IOPS, bandwidth and latency."""
    made = []
    if loaded := experiment(run, LOADED):
        grid: dict[tuple[str, int, int], Measurement] = {}
        for point in loaded.points:
            parameters = whole(loaded, point)
            grid[str(parameters.get("mix")), number(parameters, "block"), number(parameters, "delay", 0)] = point
        series = sorted({key[:2] for key in grid}, key=lambda key: (key[1], _rank(key[0])))
        heads = ("delay, cycles", *(f"{mix}, {format_size(block)}" for mix, block in series))
        delays = sorted({delay for _, _, delay in grid})

        def rows(figure: object) -> tuple[tuple[str, ...], ...]:
            return tuple(
                (
                    str(delay),
                    *(figure(grid[mix, size, delay]) if (mix, size, delay) in grid else NONE for mix, size in series),  # type: ignore[operator]
                )
                for delay in delays
            )

        made.append(StudyTable("Loaded latency: mean, ns", heads, rows(_nanoseconds)))
        made.append(StudyTable("Loaded latency: bandwidth, MB/s", heads, rows(lambda p: mb_s(p.throughput.value))))
        if any(peer.tool == "mlc" for peer in loaded.peers):
            made.append(_of_mlc(loaded))
    if flash := experiment(run, FLASH):
        points = [(whole(flash, point), point) for point in flash.points]
        made += [_drive(points), _makers(points)]
    return made


def _rank(mix: str) -> int:
    return MIXES.index(mix) if mix in MIXES else len(MIXES)


def _nanoseconds(point: Measurement) -> str:
    return f"{point.latency_ns.mean:.0f}" if point.latency_ns else NONE


def _of_mlc(loaded: ExperimentResult) -> StudyTable:
    """Latency and bandwidth of the points that MLC measured, too."""
    rows = []
    for peer in (peer for peer in loaded.peers if peer.tool == "mlc"):
        point = loaded.points[peer.point]
        parameters = whole(loaded, point)
        rows.append(
            (
                str(parameters.get("mix")),
                str(parameters.get("delay")),
                _nanoseconds(point),
                NONE if peer.latency_ns_mean is None else f"{peer.latency_ns_mean:.0f}",
                mb_s(point.throughput.value),
                mb_s(peer.value.value),
            )
        )
    heads = ("mix", "delay, cycles", "ns", "MLC, ns", "MB/s", "MLC, MB/s")
    rows.sort(key=lambda row: (_rank(row[0]), int(row[1])))
    return StudyTable("Loaded latency beside MLC, lines of 64 B", heads, tuple(rows))


def _drive(points: list[tuple[Parameters, Measurement]]) -> StudyTable:
    heads = ("pattern", "block", "depth", "IOPS", "MB/s", "mean latency, µs", "the study's MB/s")
    theirs = {
        (row["read_percent"], row["bs"]): f"{row['bw_avg']} {row['bw_unit']}"
        for row in read_published("storage-fio", _PUBLISHED)
    }
    rows = []
    for parameters, point in points:
        share = f"{100 * (read_share(FIELD_AXES, parameters) or 0.0):.0f}"
        block = number(parameters, "bs")
        rows.append(
            (
                pattern(parameters),
                format_size(block),
                str(parameters.get("iodepth")),
                format_count(point.rate.value) if point.rate else NONE,
                mb_s(point.throughput.value),
                micros(point.latency_ns.mean if point.latency_ns else None),
                theirs.get((share, format_size(block).replace(" ", "")), NONE),
            )
        )
    return StudyTable("The drive at depth 16", heads, tuple(rows))


def _makers(points: list[tuple[Parameters, Measurement]]) -> StudyTable:
    """This drive at 4 KiB compared with rated figures: the study's drive, its link, and an enterprise SSD."""

    def rate(word: str) -> str:
        found = [
            p.rate.value
            for parameters, p in points
            if parameters.get("rw") == word and number(parameters, "bs") == 4096 and p.rate
        ]
        return f"{format_count(max(found))} IOPS" if found else NONE

    def speed(word: str) -> str:
        found = [point.throughput.value for parameters, point in points if parameters.get("rw") == word]
        return mb_s(max(found)) if found else NONE

    rows = (
        ("this drive, measured", speed("randread"), speed("randwrite"), rate("randread"), rate("randwrite")),
        ("the study's drive, rated", "400", "240", NONE, NONE),
        ("USB 3.1 Gen 1: 5 Gbit/s x 8/10", "500", "500", NONE, NONE),
        ("enterprise SSD (PCIe 4.0 x4), rated", NONE, NONE, "1 M IOPS", "130 k IOPS"),
    )
    heads = ("what", "read, MB/s", "write, MB/s", "random read, 4 KiB", "random write, 4 KiB")
    return StudyTable("Compared with rated figures", heads, rows)


def observations(run: Run) -> list[str]:
    """The best compromise of throughput and latency on each curve, and whether the drive's figures are valid."""
    sentences = []
    if loaded := experiment(run, LOADED):
        series = _series(loaded)
        sentences += [sentence for points in series if (sentence := _compromise(loaded, points))]
        sentences += [_of_delay(loaded, series), _of_access_size(loaded, series)]
        sentences.append(
            "A random block of 256 B is four cache lines, and only the first waits for its DRAM row. All its bytes "
            "count as useful bandwidth."
        )
    if flash := experiment(run, FLASH):
        bad = sum(point.validity == "invalid" for point in flash.points)
        cached = sum("page_cache" in point.why for point in flash.points)
        if bad or cached:
            sentences.append(f"{max(bad, cached)} of {len(flash.points)} points of the drive measured a cache instead.")
        else:
            sentences.append(
                "Direct reads and writes reached the drive: the counters agree, and no ceiling is exceeded."
            )
    return [sentence for sentence in sentences if sentence]


def _of_delay(loaded: ExperimentResult, series: list[list[Measurement]]) -> str:
    """What a longer delay does to bandwidth and latency, over all series, and where the bandwidth levels off."""
    ends = [(points[0], points[-1]) for points in series if len(points) >= MIN_POINTS]
    if not ends:
        return ""
    less = [last.throughput.value / first.throughput.value for first, last in ends]
    sooner = [
        last.latency_ns.mean / first.latency_ns.mean for first, last in ends if first.latency_ns and last.latency_ns
    ]
    delays = [number(whole(loaded, point), "delay", 0) for point in ends[0]]
    waits = "fewer accesses wait for each other" if max(sooner) < 1 - BACKWARDS else "not all of them filled the memory"
    says = (
        f"A delay of {delays[1]} instead of {delays[0]} cycles leaves {_between(less)} of the bandwidth and "
        f"{_between(sooner)} of the latency ({len(ends)} series of mix and block): {waits}."
    )
    level = {
        max(
            number(whole(loaded, point), "delay", 0)
            for point in points
            if point.throughput.value >= LEVEL * _most(points)
        )
        for points in series
        if len(points) >= MIN_POINTS
    }
    return f"{says} Bandwidth stays within {format_percent(1 - LEVEL)} of its most up to {_cycles(level)}."


def _most(points: list[Measurement]) -> float:
    return max(point.throughput.value for point in points)


def _between(shares: list[float]) -> str:
    low, high = format_percent(min(shares)), format_percent(max(shares))
    return low if low == high else f"{low} to {high}"


def _cycles(delays: set[int]) -> str:
    low, high = min(delays), max(delays)
    return f"a delay of {low} cycles" if low == high else f"delays of {low} to {high} cycles, by series"


def _of_access_size(loaded: ExperimentResult, series: list[list[Measurement]]) -> str:
    """Blocks of 256 B against those of 64 B without a delay, over the mixes that have both."""
    first = {}
    for points in series:
        parameters = whole(loaded, points[0])
        if number(parameters, "delay", 0) == 0:
            first[str(parameters.get("mix")), number(parameters, "block")] = points[0]
    pairs = [(first[mix, 64], first[mix, 256]) for mix, block in first if block == 64 and (mix, 256) in first]
    if not pairs:
        return ""
    more = [large.throughput.value / small.throughput.value for small, large in pairs]
    slower = [
        large.latency_ns.mean / small.latency_ns.mean for small, large in pairs if large.latency_ns and small.latency_ns
    ]
    return (
        f"Blocks of 256 B move {_times(more)} times the bytes of 64 B without a delay, at {_times(slower)} times the "
        f"latency ({len(pairs)} mixes)."
    )


def _times(ratios: list[float]) -> str:
    low, high = format_ratio(min(ratios)), format_ratio(max(ratios))
    return low if low == high else f"{low} to {high}"


def _series(loaded: ExperimentResult) -> list[list[Measurement]]:
    """The points with a latency of each mix and access size, from the shortest delay on."""
    found: dict[tuple[str, int], list[Measurement]] = {}
    for point in sorted(sound(loaded.points), key=lambda point: number(whole(loaded, point), "delay", 0)):
        parameters = whole(loaded, point)
        if point.latency_ns is not None and point.latency_ns.mean > 0:
            found.setdefault((str(parameters.get("mix")), number(parameters, "block")), []).append(point)
    return [found[key] for key in sorted(found, key=lambda key: (key[1], _rank(key[0])))]


def _compromise(loaded: ExperimentResult, points: list[Measurement]) -> str:
    """The point between the ends with the most throughput for its latency: Kleinrock's power (ICC 1979)."""
    if len(points) < MIN_POINTS:
        return ""  # Of few points, any could be the best.

    def throughput_per_ns(point: Measurement) -> float:
        return point.throughput.value / point.latency_ns.mean if point.latency_ns else 0.0

    full, best = points[0], max(points[1:-1], key=throughput_per_ns)
    parameters = whole(loaded, best)
    name = f"Memory, mix {parameters.get('mix')}, block {format_size(number(parameters, 'block'))}"
    ns = {state: points[at].latency_ns for state, at in (("full", 0), ("idle", -1))}
    if best.latency_ns is None or ns["full"] is None or ns["idle"] is None:
        return ""
    if ns["full"].mean < (1 - BACKWARDS) * ns["idle"].mean:
        return (
            f"{name}: no compromise can be told. Latency without load, {format_ns(ns['idle'].mean)}, is above that "
            f"at full load, {format_ns(ns['full'].mean)}: something else slowed the points down."
        )
    if throughput_per_ns(full) > throughput_per_ns(best):
        return (
            f"{name}: no compromise is needed. At full load, {format_bytes_s(full.throughput.value)}, latency is only "
            f"{ns['full'].mean / ns['idle'].mean:.2f} times that without load."
        )
    return (
        f"{name}: the best compromise is a delay of {number(parameters, 'delay', 0)} cycles. It moves "
        f"{format_bytes_s(best.throughput.value)}, {format_percent(best.throughput.value / full.throughput.value)} "
        f"of what moves at full load, at {format_ns(best.latency_ns.mean)}, "
        f"{best.latency_ns.mean / ns['idle'].mean:.2f} times the latency without load and "
        f"{format_percent(best.latency_ns.mean / ns['full'].mean)} of that at full load."
    )


STUDY = Study(
    name=NAME,
    title="Memory and flash drive of a laptop",
    asks="Latency by throughput of memory and a drive",
    questions=(
        Question(
            name=LOADED,
            asks="Memory latency under load by mix, delay and access size",
            kernel=MEMORY_LOADED_LATENCY,
            load="delay",
            blocks=(
                {
                    "operation": "mix",
                    "mix": MIXES,
                    "delay": DELAYS,
                    "block": (64, 256),
                    "pattern": "random",
                },
            ),
            of_site=("threads",),
            brief={"delay": DELAYS_IN_BRIEF},
            runtime_s=2.0,
        ),
        Question(
            name=FLASH,
            asks="Drive at depth 16 by mix and block size",
            kernel=STORAGE_BLOCKS,
            load="bs",
            blocks=(
                {
                    "rw": ("randread", "randrw:70", "randwrite"),
                    "bs": (4 << 10, 32 << 10, 128 << 10),
                    "iodepth": 16,
                    "numjobs": 1,
                },
            ),
            fixed={"ioengine": "libaio", "direct": True},
            runtime_s=30.0,
        ),
    ),
    tables=tables,
    observations=observations,
    mistakes=(
        "262 k random writes a second beside the enterprise SSD's 130 k: the maker's figure is a steady state, "
        "sustained on a full drive; the flash drive's is that of a cache in front of it.",
        "a longer delay is called a wait for data: it is a pause between accesses, which offers less load.",
        "the drive is rated 400 MB/s behind a 500 MB/s link, but the table shows 1473: it measured the host's cache.",
        "4 KiB at 70/30: 284612 IOPS x 4 KiB is 1166 MB/s, but the table has 997; by Little's law 18 were in flight "
        "at depth 16.",
    ),
)
