"""A SATA drive's queue: the knee, the best block size, and the cost of mixed reads and writes."""

from __future__ import annotations

from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import format_count, format_ns, format_percent, format_quantity, format_size
from hwdyno.model.words import Curve, ExperimentResult, Measurement, Parameters, Run
from hwdyno.studies.point_figures import (
    NONE,
    describe_drive,
    experiment,
    mb_s,
    micros,
    number,
    pattern,
    same,
    samples,
    sound,
    tightest,
    whole,
)
from hwdyno.studies.study import Question, Study, StudyTable

NAME = "sata-ssd-queue"
MIX, DEPTH, JOBS, CUBE = "storage.mix", "storage.iodepth", "storage.jobs", "storage.cube"
PATTERNS = ("randread", "randwrite", "randrw 70/30", "randrw 50/50")
MEET = 0.10
"""Curves within this share of each other meet."""
PENALTY = 0.05
"""A mix penalty below this share is not reported."""
MAX_UNSEEN = 0.15
"""Where the interval leaves a greater penalty open, none is reported as absent."""
BEST_SHARE, MIN_BLOCKS = 0.9, 3
ENTERPRISE_IOPS = {"randread": ("random reads", 1e6), "randwrite": ("random writes", 130e3)}
"""The maker's rating of the study's enterprise SSD by pattern, at 4 KiB (rated-devices.csv, D7-P5600)."""


def tables(run: Run) -> list[StudyTable]:
    """Bandwidth, IOPS and latency against block size, queue depth and jobs."""
    made = []
    if mix := experiment(run, MIX):
        made += _by_block(mix)
    if depth := experiment(run, DEPTH):
        made.append(_by_load(depth, "iodepth", "Against depth: 4 KiB random reads"))
    if jobs := experiment(run, JOBS):
        made.append(_by_load(jobs, "numjobs", "Against jobs: 4 KiB random reads at depth 8"))
    if cube := experiment(run, CUBE):
        made += _cube(cube)
    if made:
        made.append(_compare_drive(run))
    return made


def _grid(result: ExperimentResult) -> dict[tuple[str, int], Measurement]:
    return {(pattern(q), number(q, "bs")): p for p in result.points for q in [whole(result, p)]}


def _by_block(result: ExperimentResult) -> list[StudyTable]:
    grid = _grid(result)
    blocks = sorted({block for _, block in grid})
    kinds = [kind for kind in PATTERNS if any(key[0] == kind for key in grid)]

    def table(title: str, figure: object) -> StudyTable:
        rows = []
        for block in blocks:
            cells = [figure(grid[kind, block]) if (kind, block) in grid else NONE for kind in kinds]  # type: ignore[operator]
            rows.append((format_size(block), *cells))
        return StudyTable(title, ("block size", *kinds), tuple(rows))

    return [
        table("Against block size: bandwidth min / avg / max, MB/s", _spread),
        table("Against block size: IOPS", lambda point: format_count(point.rate.value) if point.rate else NONE),
        table("Against block size: mean latency, µs", lambda p: micros(p.latency_ns.mean if p.latency_ns else None)),
    ]


def _by_load(result: ExperimentResult, axis: str, title: str) -> StudyTable:
    rows = []
    for point in sorted(result.points, key=lambda point: number(point.parameters, axis)):
        latency, flight = point.latency_ns, point.concurrency
        rows.append(
            (
                str(point.parameters.get(axis)),
                *samples(point),
                format_count(point.rate.value) if point.rate else NONE,
                micros(latency.mean if latency else None),
                micros(latency.p99 if latency else None),
                f"{flight.effective:.1f}" if flight and flight.effective is not None else NONE,
                point.validity,
            )
        )
    columns = (axis, "min, MB/s", "avg, MB/s", "max, MB/s", "IOPS", "mean latency, µs", "p99 latency, µs", "in flight")
    return StudyTable(title, (*columns, "validity"), tuple(rows))


def _cube(result: ExperimentResult) -> list[StudyTable]:
    """Bandwidth and latency by depth and block size, a table each mix."""
    grid: dict[str, dict[tuple[int, int], Measurement]] = {}
    for point in result.points:
        parameters = whole(result, point)
        place = (number(parameters, "iodepth"), number(parameters, "bs"))
        grid.setdefault(pattern(parameters), {})[place] = point
    made = []
    for kind, points in grid.items():
        blocks = sorted({block for _, block in points})
        rows = tuple(
            (str(depth), *(_bandwidth_and_latency(points.get((depth, block))) for block in blocks))
            for depth in sorted({depth for depth, _ in points})
        )
        heads = ("iodepth", *(format_size(block) for block in blocks))
        made.append(StudyTable(f"Depth x block size, {kind}: MB/s / mean latency, µs", heads, rows))
    return made


def _bandwidth_and_latency(point: Measurement | None) -> str:
    if point is None:
        return NONE
    return f"{mb_s(point.throughput.value)} / {micros(point.latency_ns.mean if point.latency_ns else None)}"


def _measured_rows(run: Run) -> list[tuple[str, str, str, str]]:
    """What this drive reaches of each published figure, and its own maker's where they are known."""
    depth, mix = experiment(run, DEPTH), experiment(run, MIX)
    rows, name = [], f"this drive, measured ({describe_drive(run)})"
    curve = next((candidate for candidate in depth.curves if candidate.load == "iodepth"), None) if depth else None
    if curve is not None and curve.ceiling is not None:
        rows.append((name, "ceiling of 4 KiB random reads", _ceiling(curve), mb_s(curve.ceiling.value)))
        if curve.best is not None:
            rows.append((name, "best depth at 4 KiB", f"{curve.best.load:.0f}", NONE))
    best = _best_blocks(mix).get("randread") if mix else None
    if best is not None:
        rows.append((name, "best block size at depth 8, randread", format_size(best[0]), mb_s(best[1])))
    for rw, metric in (("randread", "randread_4k_iops"), ("randwrite", "randwrite_4k_iops")):
        most = _most_iops(run, rw)
        if most is not None:
            rows.append((name, f"{rw}, 4 KiB", f"{format_count(most)} IOPS", mb_s(most * 4096)))
        rated = next(
            (ceiling for result in (mix, depth) if result and (ceiling := tightest(result, metric, "rated"))), None
        )
        if rated is not None:
            text = f"{format_count(rated.value)} IOPS"
            rows.append((f"this drive, rated ({rated.label})", f"{rw}, 4 KiB", text, mb_s(rated.value * 4096)))
    return rows


def _most_iops(run: Run, rw: str) -> float | None:
    """The most operations a second of 4 KiB that were measured; none where none was."""
    found = [
        point.rate.value
        for result in (experiment(run, MIX), experiment(run, DEPTH))
        if result is not None
        for point in sound(result.points)
        if pattern(whole(result, point)) == rw and number(whole(result, point), "bs") == 4096 and point.rate
    ]
    return max(found, default=None)


def _of_enterprise_figures(run: Run) -> str:
    parts = [
        f"{format_percent(most / rated)} of its {format_count(rated)} {word} a second"
        for rw, (word, rated) in ENTERPRISE_IOPS.items()
        if (most := _most_iops(run, rw)) is not None
    ]
    if not parts:
        return ""
    return f"Beside the enterprise SSD that the study quotes, this drive reaches {' and '.join(parts)}, at 4 KiB."


def _compare_drive(run: Run) -> StudyTable:
    """This drive beside the study's figures, and those of the enterprise drive that it compares with."""
    rows = (
        *_measured_rows(run),
        ("the study's drive (SATA)", "ceiling, read by eye", "240 MiB/s", "251.7"),
        ("the study's drive (SATA)", "best block size at depth 8", "16 KiB", NONE),
        ("the study's drive (SATA)", "best depth at 4 KiB", "8", NONE),
        *(
            ("enterprise SSD (PCIe 4.0 x4)", f"rated {word}, 4 KiB", f"{format_count(rated)} IOPS", mb_s(rated * 4096))
            for word, rated in ENTERPRISE_IOPS.values()
        ),
    )
    return StudyTable("This drive beside published figures", ("device", "figure", "value", "MB/s"), rows)


def observations(run: Run) -> list[str]:
    """The knee and ceiling, the best block size, the mix penalty, and whether jobs help, each in a sentence."""
    sentences = []
    if depth := experiment(run, DEPTH):
        sentences += _depth(run, depth)
    if mix := experiment(run, MIX):
        sentences += [_block(mix), _penalty(mix), _meeting(mix)]
    if jobs := experiment(run, JOBS):
        sentences.append(_jobs(jobs))
    sentences.append(_of_enterprise_figures(run))
    return [sentence for sentence in sentences if sentence]


def _depth(run: Run, result: ExperimentResult) -> list[str]:
    curve = next((candidate for candidate in result.curves if candidate.load == "iodepth"), None)
    if curve is None or curve.ceiling is None:
        return []
    found = f"{_on(run, result)}4 KiB random reads tend to {_ceiling(curve)}{_of_link(result, curve)}"
    if curve.state == "still rising":
        return [f"{found}, and still rise at the deepest queue; the study read 240 MiB/s (251.7 MB/s) off by eye."]
    sentences = [f"{found}; the study read a ceiling of 240 MiB/s (251.7 MB/s) off by eye."]
    if curve.best is not None:
        latency = f" at {format_ns(curve.best.latency_ns)} each" if curve.best.latency_ns else ""
        sentences.append(
            f"The best depth is {curve.best.load:.0f}: the least that reaches 90% of that{latency} "
            f"(the study: 8, by eye){_price(result, curve)}."
        )
    return sentences


def _on(run: Run, result: ExperimentResult) -> str:
    """``APPLE SSD SM256E, 251 GB, behind SATA 6 Gbit/s: ``; empty where nothing is known of the drive."""
    link = tightest(result, "read_bytes_s", "physical")
    behind = f" behind {link.label or link.formula}" if link else ", its link unknown"
    disk = run.machine.storage.disk
    return f"{describe_drive(run)}{behind}: " if disk.model or disk.name else ""


def _of_link(result: ExperimentResult, curve: Curve) -> str:
    link = tightest(result, "read_bytes_s", "physical")
    if link is None or curve.ceiling is None:
        return ""
    return f", {format_percent(curve.ceiling.value / link.value)} of that link"


def _ceiling(curve: Curve) -> str:
    assert curve.ceiling is not None
    return format_quantity(curve.ceiling)


def _price(result: ExperimentResult, curve: Curve) -> str:
    """The latency cost of the deepest queue, relative to the best depth."""
    deepest = result.points[curve.points[-1]]
    if curve.best is None or not curve.best.latency_ns or deepest.latency_ns is None or not curve.best.throughput:
        return ""
    gain = deepest.throughput.value / curve.best.throughput
    cost = deepest.latency_ns.mean / curve.best.latency_ns
    return f"; depth {deepest.parameters.get('iodepth')} gives {gain:.2f} times that for {cost:.1f} times the latency"


def _best_blocks(result: ExperimentResult) -> dict[str, tuple[int, float, bool] | None]:
    """The smallest block size that reaches 90% of each pattern's maximum, that maximum, and whether it still rises.

    None where a block size of the table is not sound, or too few are: what the table shows there may be the maximum.
    """
    found: dict[str, tuple[int, float, bool] | None] = {}
    for kind in PATTERNS:
        every = {block: point for (name, block), point in _grid(result).items() if name == kind}
        points = {block: point.throughput.value for block, point in every.items() if sound([point])}
        if not every:
            continue
        if len(points) < max(MIN_BLOCKS, len(every)):
            found[kind] = None
            continue
        most = max(points.values())
        best = min(block for block, value in points.items() if value >= BEST_SHARE * most)
        found[kind] = (best, most, best == max(points))
    return found


def _block(result: ExperimentResult) -> str:
    best = _best_blocks(result)
    found = [
        f"{format_size(optimum[0])} for {kind} ({mb_s(optimum[1])} MB/s{' and still rising' if optimum[2] else ''})"
        for kind, optimum in best.items()
        if optimum is not None
    ]
    unknown = [kind for kind, optimum in best.items() if optimum is None]
    sentences = []
    if found:
        sentences.append(
            f"The best block size at depth 8, the least that reaches 90%, is {', '.join(found)} (the study: 16 KiB)."
        )
    if unknown:
        sentences.append(f"The best block size for {', '.join(unknown)} is unknown: not all of its points are valid.")
    return " ".join(sentences)


def _turns(grid: dict[tuple[str, int], Measurement], kind: str, block: int) -> tuple[float, float, float] | None:
    """A mix's loss relative to serving the same reads and writes in turn, and the bounds of it.

    In turn, X = 1 / (r / Xr + (1 - r) / Xw).
    """
    points = [grid.get((name, block)) for name in (kind, "randread", "randwrite")]
    mixed, read, write = (point.throughput if point and sound([point]) else None for point in points)
    if mixed is None or read is None or write is None:
        return None
    share = int(kind.split()[1].split("/")[0]) / 100

    def loss(mixed: float, read: float, write: float) -> float:
        return 1 - mixed * (share / read + (1 - share) / write) if min(read, write) > 0 else 0.0

    ends = [(value.low or value.value, value.high or value.value) for value in (mixed, read, write)]
    least, most = (loss(ends[0][1 - at], ends[1][at], ends[2][at]) for at in (0, 1))
    return loss(mixed.value, read.value, write.value), least, most


def _penalty(result: ExperimentResult) -> str:
    grid = _grid(result)
    blocks = sorted({block for _, block in grid})
    losses = {
        block: max(found)
        for block in blocks
        if (found := [x for kind in PATTERNS[2:] if (x := _turns(grid, kind, block)) is not None])
    }
    if not losses:
        return ""
    costly = [block for block, (loss, least, _) in losses.items() if loss > PENALTY and least > 0]
    unsure = [block for block, (_, _, most) in losses.items() if block not in costly and most > MAX_UNSEEN]
    if not costly and unsure:
        return "The cost of mixed reads and writes is unknown: the repeats vary too much."
    if not costly:
        return "Mixed reads and writes cost nothing here: none is over 5% slower than reads and writes in turn."
    worst = max(costly, key=lambda block: losses[block][0])
    after = [block for block in losses if block > max(costly)]
    until = f"no cost from {format_size(after[0])}" if after else "up to the largest block measured"
    if after and set(after) & set(unsure):
        until = f"whether larger blocks than {format_size(max(costly))} cost any is unknown, the repeats vary too much"
    return (
        f"Mixes cost up to {losses[worst][0]:.0%} (at {format_size(worst)}) compared with the same reads and writes "
        f"in turn; {until} (the study: until 128 KiB)."
    )


def _meeting(result: ExperimentResult) -> str:
    grid = _grid(result)
    spreads = {}
    for block in sorted({block for _, block in grid}):
        values = [p.throughput.value for (_, at), p in grid.items() if at == block and sound([p])]
        if len(values) == len(PATTERNS):
            spreads[block] = 1 - min(values) / max(values)
    meet = next((b for b in spreads if all(spread <= MEET for at, spread in spreads.items() if at >= b)), None)
    if not spreads:
        return ""
    if meet is None:
        last = max(spreads)
        return f"The four patterns do not converge: at {format_size(last)} they still differ by {spreads[last]:.0%}."
    return f"From {format_size(meet)}, the four patterns are within {MEET:.0%} of each other (the study: 128 KiB)."


def _spread(point: Measurement) -> str:
    """Minimum, average and maximum; the average alone where the point is too short for the others."""
    return " / ".join(cell for cell in samples(point) if cell != NONE)


def _jobs(result: ExperimentResult) -> str:
    points = {number(point.parameters, "numjobs"): point for point in sound(result.points)}
    if len(points) < 2 or 1 not in points:
        return ""
    most = max(points, key=lambda jobs: points[jobs].throughput.value)
    gain = points[most].throughput.value / points[1].throughput.value
    alike = [same(point.throughput, points[1].throughput) for point in points.values()]
    if None in alike and False not in alike:
        return f"The effect of more jobs ({gain:.2f} times) is unknown: the repeats vary too much."
    if all(alike):
        return f"More jobs change nothing: {max(points)} jobs reach {gain:.2f} times one job (the study: no change)."
    last = max(points)
    if most == 1:
        loss = points[last].throughput.value / points[1].throughput.value
        return f"More jobs are slower: {last} jobs reach {loss:.2f} times one job (the study: no change)."
    return f"More jobs help: {most} jobs reach {gain:.2f} times one job (the study: no change)."


_FIXED: Parameters = {"ioengine": "libaio", "direct": True}

STUDY = Study(
    name=NAME,
    title="Queue of a SATA drive",
    asks="Queue depth, block size, mixes and jobs",
    questions=(
        Question(
            name=MIX,
            asks="Mixed reads and writes by block size",
            kernel=STORAGE_BLOCKS,
            load="bs",
            blocks=(
                {
                    "rw": ("randwrite", "randread", "randrw:70", "randrw:50"),
                    "bs": (4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10),
                    "iodepth": 8,
                    "numjobs": 1,
                },
            ),
            fixed=_FIXED,
            runtime_s=35.0,
        ),
        Question(
            name=DEPTH,
            asks="Throughput and latency by queue depth",
            kernel=STORAGE_BLOCKS,
            load="iodepth",
            blocks=({"rw": "randread", "bs": 4096, "iodepth": tuple(1 << k for k in range(11)), "numjobs": 1},),
            fixed=_FIXED,
            runtime_s=35.0,
        ),
        Question(
            name=JOBS,
            asks="Throughput by number of jobs",
            kernel=STORAGE_BLOCKS,
            load="numjobs",
            blocks=({"rw": "randread", "bs": 4096, "iodepth": 8, "numjobs": (1, 2, 4)},),
            fixed=_FIXED,
            runtime_s=35.0,
        ),
        Question(
            name=CUBE,
            asks="Queue depth x block size x mix",
            kernel=STORAGE_BLOCKS,
            load="iodepth",
            blocks=(
                {
                    "rw": ("randread", "randwrite", "randrw:70"),
                    "bs": (4 << 10, 16 << 10, 32 << 10, 128 << 10),
                    "iodepth": tuple(1 << k for k in range(11)),
                    "numjobs": 1,
                },
            ),
            fixed=_FIXED,
            brief={"bs": (4 << 10, 32 << 10, 128 << 10), "iodepth": (1, 8, 64)},
            runtime_s=35.0,
        ),
    ),
    tables=tables,
    observations=observations,
    mistakes=(
        "the plateau of 240 MiB/s (252 MB/s) is 84% of the 300 MB/s of SATA 3 Gbit/s, which is what the study's laptop "
        "has: its host's link is the limit, not the drive's age.",
        "bandwidth and latency are called inversely related. With N requests in flight X = N / R (Little), and of more "
        "requests or larger blocks both rise.",
        "queues of up to 1024 are taken for the drive's: a SATA drive holds 32 commands (NCQ), and the rest wait in "
        "the host.",
        "the knee, the ceiling and the best block size were read from charts by eye, without intervals.",
        "a 1 GB file fits in many drive caches and in memory; each point was measured once.",
    ),
)
