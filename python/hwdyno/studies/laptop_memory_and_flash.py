"""A laptop's memory and a flash drive: the latency cost of throughput, and whether a cache answered for the drive."""

from __future__ import annotations

from hwdyno.axes import FIELD_AXES, read_share
from hwdyno.studies import Question, Study, Table, published
from hwdyno.studies.common import NONE, experiment, mb_s, micros, number, pattern, whole
from hwdyno.units import format_bytes_s, format_count, format_ns, format_size
from hwdyno.words import Curve, Measurement, Parameters, Run

NAME = "laptop-memory-and-flash"
_PUBLISHED = "usb-flash-laptop"
LOADED, FLASH = "memory.loaded", "storage.flash"
MIXES = ("1:0", "3:1", "2:1", "1:1")
LEAST_POINTS = 5
DELAYS = (0, 2, 8, 15, 50, 100, 200, 300, 400, 500, 700, 1000, 1300, 1700, 2500, 3500, 5000, 9000, 20000)
"""MLC's delays, in cycles."""
DELAYS_IN_BRIEF = (0, 50, 200, 500, 1000, 2500, 5000, 20000)


def tables(run: Run) -> list[Table]:
    """Latency and bandwidth against the delay, by mix and access size; and the drive's IOPS, bandwidth and latency."""
    made = []
    if loaded := experiment(run, LOADED):
        grid: dict[tuple[str, int, int], Measurement] = {}
        for point in loaded.points:
            parameters = whole(loaded, point)
            grid[str(parameters.get("mix")), number(parameters, "block"), number(parameters, "delay", 0)] = point
        series = sorted({key[:2] for key in grid}, key=lambda key: (key[1], MIXES.index(key[0])))
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

        made.append(Table("Loaded latency: mean, ns", heads, rows(_nanoseconds)))
        made.append(Table("Loaded latency: bandwidth, MB/s", heads, rows(lambda p: mb_s(p.throughput.value))))
    if flash := experiment(run, FLASH):
        points = [(whole(flash, point), point) for point in flash.points]
        made += [_drive(points), _makers(points)]
    return made


def _nanoseconds(point: Measurement) -> str:
    return f"{point.latency_ns.mean:.0f}" if point.latency_ns else NONE


def _drive(points: list[tuple[Parameters, Measurement]]) -> Table:
    heads = ("pattern", "block", "depth", "IOPS", "MB/s", "mean latency, µs", "the study's MB/s")
    theirs = {
        (row["read_percent"], row["bs"]): f"{row['bw_avg']} {row['bw_unit']}"
        for row in published("storage-fio", _PUBLISHED)
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
    return Table("The drive at depth 16", heads, tuple(rows))


def _makers(points: list[tuple[Parameters, Measurement]]) -> Table:
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
    return Table("Compared with rated figures", heads, rows)


def observations(run: Run) -> list[str]:
    """The best compromise of throughput and latency on each curve, and whether the drive's figures are valid."""
    sentences = []
    if loaded := experiment(run, LOADED):
        sentences += [sentence for curve in loaded.curves if (sentence := _compromise(curve))]
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
    return sentences


def _compromise(curve: Curve) -> str:
    best, floor = curve.best, curve.floor
    if best is None or floor is None or best.latency_ns is None or not floor.latency_ns:
        return ""
    if len(curve.points) < LEAST_POINTS or curve.state != "knee":
        return ""  # With few points, or on a curve without a knee, any point could be the best.
    name = ", ".join(f"{name} {value}" for name, value in curve.series.items() if name in {"mix", "block"})
    return (
        f"Memory, {name}: the best compromise is a delay of {best.load:.0f} cycles, {format_bytes_s(best.throughput)} "
        f"at {format_ns(best.latency_ns)}, {best.latency_ns / floor.latency_ns:.2f} times the latency without load."
    )


STUDY = Study(
    name=NAME,
    title="Memory and flash drive of a laptop",
    asks="Latency by throughput of memory and a drive",
    questions=(
        Question(
            name=LOADED,
            asks="Memory latency under load by mix, delay and access size",
            kernel="memory_loaded_latency",
            load="delay",
            blocks=(
                {
                    "operation": "mix",
                    "mix": MIXES,
                    "delay": DELAYS,
                    "block": (64, 256),
                    "pattern": "random",
                    "threads": 1,
                },
            ),
            brief={"delay": DELAYS_IN_BRIEF},
            runtime_s=2.0,
        ),
        Question(
            name=FLASH,
            asks="Drive at depth 16 by mix and block size",
            kernel="storage_blocks",
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
        "the drive is rated 400 MB/s behind a 500 MB/s link, but the table shows 1473: it measured the host's cache.",
        "4 KiB at 70/30: 284612 IOPS x 4 KiB is 1166 MB/s, but the table has 997; by Little's law 18 were in flight "
        "at depth 16.",
    ),
)
