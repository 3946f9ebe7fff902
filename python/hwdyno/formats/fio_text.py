"""Reads fio's normal output (no ``--output-format``) into a Run: jobs or groups, by direction.

What a published text left out is unknown, unless other lines state it: the command line, or bandwidth over IOPS for
the block size. The totals of a group ("Run status group") are read where no job's own lines are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hwdyno.formats import fio_text_lines as lines
from hwdyno.formats import printed
from hwdyno.formats.fio import depth_reached
from hwdyno.formats.fio_text_jobs import PrintedJob, list_jobs
from hwdyno.formats.fio_text_lines import Direction
from hwdyno.formats.row import make_point
from hwdyno.formats.table_labels import NO_ORDER
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.point_details import Note
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Measurement, Parameters, Run, Stream

NAME = "fio-text"
_VERSION = re.compile(r"^(fio-[\w.-]+)", re.M)
_RATES = (lines.WAY, lines.OLD_WAY, lines.STATUS, lines.OLD_STATUS)
MAX_APART = 1.02
"""Greatest over least block size that the printed digits allow; above it, they are too few to tell a size."""
_KINDS = {"slat": "submit", "clat": "complete", "lat": "total"}
_OF_COMPLETION = Note("percentiles_of_completion", "the percentiles are those of completion (clat), as fio prints them")
_NO_LAT = Note("latency_of_completion", "the latency is that of completion (clat): the text has no lat line")
_SIZE_FOLLOWS = Note("block_size_follows", "the block size is bandwidth / IOPS: the text does not state it")
_GROUP = Note("group_total", "the total of a group of jobs (run status), without block size, depth and latency")
_CROWDED = Note("ran_beside_others", "it ran together with other jobs of its group (no stonewall between them)")


def recognizes(text: str) -> bool:
    """Whether this looks like fio's normal output."""
    return '"fio version"' not in text[:65536] and any(pattern.search(text) is not None for pattern in _RATES)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    jobs = list_jobs(text)
    points = [point for job in jobs for point in _points(job)] or list(_totals(text))
    version = _VERSION.search(text)
    table = printed.experiment("storage.fio", "fio results", STORAGE_BLOCKS, "iodepth", points)
    return printed.run(NAME, "fio", text, name, [table], version[1] if version else "")


def _points(job: PrintedJob) -> Iterator[Measurement]:
    """A point of each direction that ran; of a mix, both as one."""
    found = []
    for at, way in enumerate(job.ways):
        end = job.ways[at + 1].start() if at + 1 < len(job.ways) else job.begin + len(job.text)
        parsed = lines.parse_direction(way, job.text[way.end() - job.begin : end - job.begin])
        if {"bw", "iops"} <= set(parsed.numbers):
            found.append(parsed)
    is_mix = [direction.name for direction in found] == ["read", "write"]
    for part in [found] if is_mix else [[direction] for direction in found]:
        made = _make_point(job, part, alone=len(found) == 1)
        if made is not None:
            yield made


def _make_point(job: PrintedJob, part: Sequence[Direction], *, alone: bool) -> Measurement | None:
    """One point of a job's directions: of a single one, or of reads and writes together."""
    parameters, notes = dict(job.given), [_CROWDED] if job.is_crowded else []
    numbers = dict(part[0].numbers) if len(part) == 1 else _together([direction.numbers for direction in part])
    pattern = str(parameters.get("rw") or "")
    if len(part) == 2:
        shares = [direction.numbers["iops"].value for direction in part]
        notes += [] if pattern else [NO_ORDER]
        parameters.setdefault("rw", "rw")
        parameters["rwmixread"] = round(100 * shares[0] / sum(shares)) if sum(shares) else 50
    elif not pattern or not alone:
        notes += [] if pattern else [NO_ORDER]
        parameters["rw"] = ("rand" if pattern.startswith("rand") else "") + part[0].name
    if "bs" not in parameters and (size := _block_size(part, job)) is not None:
        parameters["bs"] = size
        notes.append(_SIZE_FOLLOWS)
    made = make_point(parameters, numbers, **({"jobname": job.name} if job.name else {}), **_depth(job))
    if made is None:
        return None
    operations = _count_operations(job)
    streams = tuple(
        Stream(
            direction.name,
            operations.get(direction.name, 0),
            int(direction.numbers["data"].value) if "data" in direction.numbers else 0,
            latency_ns={_KINDS[kind]: latency for kind, latency in direction.spreads.items()},
        )
        for direction in part
    )
    if any("lat" not in direction.spreads and "clat" in direction.spreads for direction in part):
        notes.append(_NO_LAT)
    made = _with_percentiles(made, part[0], notes) if len(part) == 1 else made
    elapsed_s = max(direction.milliseconds for direction in part) / 1e3
    user_s, system_s = _cpu_s(job, elapsed_s)
    return replace(
        made,
        streams=streams,
        samples=part[0].samples if len(part) == 1 and job.jobs == 1 else None,
        cpu_user_s=user_s,
        cpu_system_s=system_s,
        elapsed_s=elapsed_s,
        operations=sum(stream.operations for stream in streams) if all(s.operations for s in streams) else 0,
        bytes=sum(stream.bytes for stream in streams) if all(stream.bytes for stream in streams) else 0,
        notes=tuple(notes),
    )


def _together(parts: Sequence[Mapping[str, PrintedNumber]]) -> dict[str, PrintedNumber]:
    """Reads and writes of one job: rates and bytes add up, and mean latencies are weighted by rates."""
    found = {
        key: PrintedNumber(
            sum(part[key].value for part in parts), max(part[key].rounding for part in parts), parts[0][key].unit
        )
        for key in ("bw", "iops", "data")
        if all(key in part for part in parts)
    }
    if all("time" in part for part in parts):
        found["time"] = max((part["time"] for part in parts), key=lambda time: time.value)
    if all("lat_mean" in part for part in parts) and found["iops"].value:
        mean = sum(part["iops"].value * part["lat_mean"].value for part in parts) / found["iops"].value
        found["lat_mean"] = PrintedNumber(mean, max(part["lat_mean"].rounding for part in parts))
    return found


def _block_size(part: Sequence[Direction], job: PrintedJob) -> int | None:
    """The one power of two that bandwidth over IOPS allows within the printed digits, equal in all directions."""
    issued, sizes = _count_operations(job), set[int | None]()
    for direction in part:
        bounds = [_quotient(direction.numbers["bw"], direction.numbers["iops"])]
        if (count := issued.get(direction.name)) and "data" in direction.numbers:
            bounds.append(_quotient(direction.numbers["data"], PrintedNumber(float(count), 0.0)))
        low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
        exponents = [power for power in range(9, 31) if low <= 1 << power <= high]
        sizes.add(1 << exponents[0] if len(exponents) == 1 and high < MAX_APART * low else None)
    return sizes.pop() if len(sizes) == 1 else None


def _quotient(amount: PrintedNumber, count: PrintedNumber) -> tuple[float, float]:
    """The least and the greatest quotient of two printed numbers, of which fio may have cut the last digit."""
    if count.value <= 0:
        return 0.0, float("inf")
    low, high = (amount.value * (1 + sign * 2 * amount.rounding) for sign in (-1, 1))
    return low / (count.value * (1 + count.rounding)), high / (count.value * (1 - min(count.rounding, 0.5)))


def _with_percentiles(point: Measurement, direction: Direction, notes: list[Note]) -> Measurement:
    """The point with the printed percentiles, which fio gives of completion unless ``lat_percentiles`` is set."""
    found = direction.percentiles
    if not found:
        return point
    if direction.percentiles_of == "clat":
        notes.append(_OF_COMPLETION)
    ns = {name: round(figure.value * 1e9, 3) for name, figure in found.items()}
    latency = point.latency_ns
    if latency is not None:
        latency = replace(latency, p50=ns.get("p50"), p90=ns.get("p90"), p99=ns.get("p99"), p999=ns.get("p999"))
    shown = {f"lat_{name}": figure.value for name, figure in found.items()}
    errors = {f"lat_{name}": figure.rounding for name, figure in found.items()}
    details = dict(point.details)
    details["printed"], details["rounding"] = {**details["printed"], **shown}, {**details["rounding"], **errors}
    return replace(point, latency_ns=latency, details=details)


def _count_operations(job: PrintedJob) -> dict[str, int]:
    """How many operations were issued in each direction; empty where the line was left out."""
    match = lines.ISSUED.search(job.text)
    return dict(zip(("read", "write", "trim"), map(int, match.groups()), strict=True)) if match else {}


def _depth(job: PrintedJob) -> dict[str, float]:
    """The most that the mean depth of one job can be, by the shares of operations at each depth."""
    match = lines.DEPTHS.search(job.text)
    shares = re.findall(r"(>=64|\d{1,2})=([\d.]{1,8})%", match[1]) if match else []
    level = {depth: float(share) for depth, share in shares if share.count(".") < 2 and share != "."}
    return depth_reached([{"iodepth_level": level}])


def _cpu_s(job: PrintedJob, elapsed_s: float) -> tuple[float | None, float | None]:
    """CPU time in user and system mode: fio prints shares of the time of all jobs together."""
    match = lines.CPU.search(job.text)
    if match is None or elapsed_s <= 0:
        return None, None
    user, system = (printed.figure(share) or 0.0 for share in match.groups())
    had_s = elapsed_s * (job.jobs or 1)
    return user / 100 * had_s, system / 100 * had_s


def _totals(text: str) -> Iterator[Measurement]:
    """The totals of each group by direction."""
    starts = [(match.start(), int(match[1])) for match in lines.GROUP.finditer(text)]
    found = [*lines.STATUS.finditer(text), *lines.OLD_STATUS.finditer(text)]
    for way in sorted(found, key=lambda match: match.start()):
        direction = lines.parse_direction(way, "")
        while len(starts) > 1 and starts[1][0] < way.start():
            starts.pop(0)
        parameters: Parameters = {"rw": direction.name}
        if len({match["way"] for match in found}) < len(found) and starts:
            parameters["group"] = starts[0][1]
        made = make_point(parameters, direction.numbers)
        if made is not None:
            moved = int(direction.numbers["data"].value) if "data" in direction.numbers else 0
            yield replace(
                made,
                elapsed_s=direction.milliseconds / 1e3,
                bytes=moved,
                streams=(Stream(direction.name, 0, moved),),
                notes=(_GROUP,),
            )
