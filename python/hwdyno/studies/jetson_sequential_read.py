"""The storage of an edge board: does a large transfer fill the link?"""

from __future__ import annotations

from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import format_quantity, format_size
from hwdyno.model.words import ExperimentResult, Measurement, Run
from hwdyno.studies.point_figures import (
    NONE,
    busy,
    experiment,
    fio_samples,
    mb_s,
    micros,
    milliseconds,
    number,
    pattern,
    same,
    sample_s,
    samples,
    sound,
    whole,
)
from hwdyno.studies.published_rows import read_published
from hwdyno.studies.study import Question, Study, StudyTable

NAME = "jetson-sequential-read"
QUESTION = "storage.sequential"
LARGEST_CALL_BYTES = (2 << 30) - 4096
"""Linux moves at most this in one read or write (MAX_RW_COUNT, read(2))."""
CORE_BOUND = 0.9

# The published tables name the study by the board.
_PUBLISHED = "jetson-agx-orin"


def _published_figures() -> dict[tuple[int, int], dict[str, str]]:
    """The study's figures by block size and depth."""
    sizes = {"4KiB": 4 << 10, "4MiB": 4 << 20, "4GiB": 4 << 30}
    return {(sizes[row["bs"]], int(row["iodepth"])): row for row in read_published("storage-fio", _PUBLISHED)}


def tables(run: Run) -> list[StudyTable]:
    """The study's table: minimum, average and maximum bandwidth of the samples, and the published values."""
    result = experiment(run, QUESTION)
    if result is None:
        return []
    figures = _published_figures()
    has_fio = any(peer.tool == "fio" for peer in result.peers)
    rows = []
    for at, point in sorted(enumerate(result.points), key=lambda pair: _order(pair[1])):
        parameters = whole(result, point)
        block, depth = number(parameters, "bs"), number(parameters, "iodepth")
        row = figures.get((block, depth)) or figures.get((4 << 30, depth) if depth == 4 else (0, 0))
        theirs = [mb_s(float(row[name]) * 1e9) for name in ("bw_min", "bw_avg", "bw_max")] if row else [NONE]
        latency = point.latency_ns
        rows.append(
            (
                pattern(parameters),
                format_size(number(parameters, "size", 0)),
                format_size(block),
                str(depth),
                *samples(point),
                milliseconds(sample_s(point)),
                *((fio_samples(result, at),) if has_fio else ()),
                micros(latency.mean if latency else None),
                " / ".join(theirs),
                point.validity,
            )
        )
    columns = (
        *("pattern", "file size", "block size", "iodepth", "min, MB/s", "avg, MB/s", "max, MB/s"),
        *("sample, ms", *(("fio min / avg / max, MB/s",) if has_fio else ()), "latency, µs"),
        *("published min / avg / max, MB/s", "validity"),
    )
    return [StudyTable("Sequential reads, direct, one job", columns, tuple(rows))]


def _order(point: Measurement) -> tuple[int, int]:
    return number(point.parameters, "bs"), number(point.parameters, "iodepth")


def observations(run: Run) -> list[str]:
    """Whether large blocks fill the link, what limits small ones, and how the largest were transferred."""
    result = experiment(run, QUESTION)
    if result is None:
        return []
    sentences = [_link(result), _small(result), _split(result)]
    return [sentence for sentence in sentences if sentence]


def _link(result: ExperimentResult) -> str:
    # Invalid points count too: a figure above the link is what this sentence reports.
    best = max(result.points, key=lambda point: point.throughput.value)
    says = (
        f"The maximum is {format_quantity(best.throughput)}, with blocks of "
        f"{format_size(number(best.parameters, 'bs'))} "
        f"at depth {best.parameters.get('iodepth')}"
    )
    links = [ceiling for ceiling in result.ceilings if ceiling.kind == "physical" and ceiling.metric == "read_bytes_s"]
    if not links:
        return f"{says}; the link's speed is unknown here."
    link = min(links, key=lambda ceiling: ceiling.value)
    share = best.throughput.value / link.value
    word = "is above" if share > 1 else "fills" if share >= 0.9 else "does not fill"
    return f"{says}: that is {share:.0%} of the link ({link.formula}); a large transfer {word} it."


def _small(result: ExperimentResult) -> str:
    """Whether 4 KiB blocks are equally fast at depth 12 and 24, and whether one core is the limit."""
    small = [point for point in sound(result.points) if _order(point)[0] == 4096]
    by_depth = {number(point.parameters, "iodepth"): point for point in small}
    if not {12, 24} <= by_depth.keys():
        return ""
    twelve, twentyfour = by_depth[12], by_depth[24]
    ratio = twentyfour.throughput.value / twelve.throughput.value
    alike = same(twelve.throughput, twentyfour.throughput)
    if alike is None:
        return (
            f"Whether 4 KiB blocks at depth 24 reach more than at 12 ({ratio:.2f} times) is unknown: the repeats vary "
            "too much."
        )
    if not alike:
        return f"4 KiB blocks at depth 24 reach {ratio:.2f} times depth 12: the queue was not full at 12."
    says = f"4 KiB blocks at depth 12 and 24 reach the same ({ratio:.2f} times)"
    share = busy(result, twentyfour)
    if share is None:
        return f"{says}."
    if share >= CORE_BOUND:
        return f"{says}: the reading core is {share:.0%} busy, so the CPU is the limit, not the link."
    return f"{says}: the reading core is only {share:.0%} busy, so the device or its link is the limit."


def _split(result: ExperimentResult) -> str:
    largest = max(number(point.parameters, "bs") for point in result.points)
    if largest <= LARGEST_CALL_BYTES:
        return (
            f"A block of 4 GiB exceeds the limit of one system call (2 GiB - 4 KiB); "
            f"{format_size(largest)}, the largest here, is moved in one."
        )
    calls = -(-largest // LARGEST_CALL_BYTES)
    return (
        f"A block of {format_size(largest)} exceeds the limit of one system call (2 GiB - 4 KiB): "
        f"it is split into {calls}, and its latency is that of all together."
    )


STUDY = Study(
    name=NAME,
    title="Sequential reads on an edge board",
    asks="Large sequential reads against the link's speed",
    questions=(
        Question(
            name=QUESTION,
            asks="Large sequential reads against the link's speed",
            kernel=STORAGE_BLOCKS,
            load="bs",
            blocks=(
                {"rw": "read", "bs": 4096, "iodepth": (1, 12, 24), "numjobs": 1},
                {"rw": "read", "bs": 4 << 20, "iodepth": 24, "numjobs": 1},
                {"rw": "read", "bs": 4 << 30, "iodepth": 4, "numjobs": 1},
            ),
            fixed={"ioengine": "libaio", "direct": True},
            size_bytes=16 << 30,
            runtime_s=60.0,
            startdelay_s=60.0,
            time_share=3.0,  # Ten of its largest blocks take seconds.
        ),
    ),
    tables=tables,
    observations=observations,
    mistakes=(
        "4.05 GB/s is above the 4 GB/s that it calls the link's ceiling: a Gen3 x4 link carries 3.94 GB/s, which makes "
        "it impossible, and a Gen4 x4 link 7.88 GB/s, of which it is half.",
        "its units vary between Gb, GB, Kb and KB; here MB is always 10^6 bytes.",
        "a block of 4 GiB is reported as one operation, though no system call moves more than 2 GiB - 4 KiB.",
        "4 KiB at depth 12 and 24 give the same 0.40 and 0.41 GB/s, about 100 k operations a second: not the link, but "
        "operations are the limit there. Whether a core's, the driver's or the drive's, its figures do not tell.",
        "without time_based, 16 GB at 4 GB/s are read in 4 s, not in 60: with blocks of 4 GiB the least and the "
        "greatest bandwidth are of four operations.",
        "block size and depth change together, so that the effect of each is unknown.",
    ),
)
