"""SNIA's Solid State Storage Performance Test Specification: its report tables, from the rounds of a Run."""

from __future__ import annotations

from collections.abc import Callable

from hwdyno.analysis.estimates import SNIA_RANGE, SNIA_SLOPE, SniaWindow, snia_window
from hwdyno.model.axes import FIELD_AXES, read_share
from hwdyno.model.histogram import Histogram
from hwdyno.model.units import format_count, format_duration, format_ns, format_size, plural
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run
from hwdyno.studies.point_figures import NONE, experiment, mb_s, micros, number, whole
from hwdyno.studies.study import Study, StudyTable

PREFIX = "storage.snia-"
CELL_S = 60.0
"""Time of each workload in each round by the specification."""
TRACKED: dict[str, tuple[Parameters, str]] = {
    "iops": ({"rw": "randwrite", "bs": 4096}, "IOPS of random writes of 4 KiB"),
    "throughput": ({"rw": "write", "bs": 1 << 20}, "bandwidth of sequential writes of 1 MiB"),
    "latency": ({"rw": "randwrite", "bs": 4096}, "mean latency of random writes of 4 KiB"),
    "demand": ({"numjobs": 32, "iodepth": 32}, "IOPS of 32 threads at depth 32"),
}
"""The workload of each test whose rounds must be steady, and its metric."""


def name_test(run: Run) -> str:
    """The SNIA test of a Run: ``iops``, ``throughput``, ``latency`` or ``demand``."""
    return run.study.removeprefix("snia-")


def tracked_rounds(result: ExperimentResult, test: str) -> list[tuple[int, float]]:
    """The tracked workload's metric in each round: operations/s, bytes/s or ns."""
    wanted = TRACKED[test][0]
    points = [p for p in result.points if all(p.parameters.get(name) == value for name, value in wanted.items())]
    return sorted((number(point.parameters, "round"), variable(point, test)) for point in points)


def variable(point: Measurement, test: str) -> float:
    """The metric of a point that a test tracks."""
    if test == "latency":
        return point.latency_ns.mean if point.latency_ns else 0.0
    value = point.rate if test != "throughput" and point.rate else point.throughput
    return value.value


def with_unit(value: float, test: str) -> str:
    """A tracked value with its unit."""
    if test == "latency":
        return format_ns(value)
    return f"{mb_s(value)} MB/s" if test == "throughput" else f"{format_count(value)} IOPS"


def find_window(run: Run) -> tuple[list[tuple[int, float]], SniaWindow | None]:
    """The tracked rounds of a Run, and the window at their end."""
    test = name_test(run)
    result = experiment(run, f"{PREFIX}{test}-rounds")
    rounds = tracked_rounds(result, test) if result else []
    return rounds, snia_window([value for _, value in rounds])


def _mix(parameters: Parameters) -> str:
    """Reads to writes: ``65/35``."""
    reads = round(100 * (read_share(FIELD_AXES, parameters) or 0.0))
    return f"{reads}/{100 - reads}"


def _matrix(
    result: ExperimentResult,
    title: str,
    rows: Callable[[Parameters], object],
    columns: Callable[[Parameters], object],
    heads: tuple[Callable[[object], str], Callable[[object], str], str],
    cell: Callable[[Measurement], str],
) -> StudyTable:
    cells = {
        (rows(parameters), columns(parameters)): cell(p) for p in result.points for parameters in [whole(result, p)]
    }
    across = list(dict.fromkeys(column for _, column in cells))
    down = list(dict.fromkeys(row for row, _ in cells))
    of_row, of_column, corner = heads
    made = [(of_row(row), *(cells.get((row, column), NONE) for column in across)) for row in down]
    return StudyTable(title, (corner, *(of_column(column) for column in across)), tuple(made))


def _by_size(result: ExperimentResult, title: str, cell: Callable[[Measurement], str]) -> StudyTable:
    def size(value: object) -> str:
        return format_size(value) if isinstance(value, int) else str(value)

    return _matrix(
        result, title, lambda parameters: parameters.get("bs"), _mix, (size, str, "block size \\ reads/writes"), cell
    )


def _iops(point: Measurement) -> str:
    return format_count(point.rate.value) if point.rate else NONE


def _mean(point: Measurement) -> str:
    return micros(point.latency_ns.mean if point.latency_ns else None)


def _five_nines(point: Measurement) -> str:
    """The 99.999th percentile of latency, with at least 100 000 operations."""
    if point.latency_ns is None or not point.latency_ns.histogram or point.latency_ns.count < 100_000:
        return NONE
    return micros(Histogram.unpack(point.latency_ns.histogram).quantile(0.99999))


def tables(run: Run) -> list[StudyTable]:
    """The test's tables, then the rounds and the measurement window."""
    test = name_test(run)
    result = experiment(run, f"{PREFIX}{test}")
    made: list[StudyTable] = []
    if result is not None and test == "iops":
        made.append(_by_size(result, "IOPS, mean of the window's rounds", _iops))
    if result is not None and test == "throughput":
        made.append(
            _by_size(result, "Throughput, MB/s, mean of the window's rounds", lambda p: mb_s(p.throughput.value))
        )
    if result is not None and test == "latency":
        made.append(_by_size(result, "Mean latency, µs", _mean))
        made.append(_by_size(result, "99.999% latency, µs", _five_nines))
        greatest = _by_size(result, "Maximum latency, µs", lambda p: micros(p.latency_ns.max if p.latency_ns else None))
        made.append(greatest)
    if result is not None and test == "demand":
        for title, cell in (("IOPS", _iops), ("Mean response time, µs", _mean)):
            made.append(
                _matrix(
                    result,
                    f"{title}, by threads and depth",
                    lambda parameters: parameters.get("numjobs"),
                    lambda parameters: parameters.get("iodepth"),
                    (str, str, "threads \\ depth"),
                    cell,
                )
            )
    return [*made, *_steady(run)]


def _steady(run: Run) -> list[StudyTable]:
    test = name_test(run)
    rounds, window = find_window(run)
    if not rounds:
        return []
    inside = range(window.first, window.last + 1) if window else range(0)
    rows = []
    for at, (count, value) in enumerate(rounds, 1):
        against = f"{value / window.mean:.1%}" if window and at in inside else NONE
        rows.append((str(count), with_unit(value, test), "yes" if at in inside else "no", against))
    made = [StudyTable(f"Rounds: {TRACKED[test][1]}", ("round", "value", "in the window", "of its mean"), tuple(rows))]
    if window:
        judged = (
            ("mean of the window", with_unit(window.mean, test), NONE, NONE),
            (
                "allowed range, 90% to 110%",
                f"{with_unit(0.9 * window.mean, test)} to {with_unit(1.1 * window.mean, test)}",
                NONE,
                NONE,
            ),
            ("range", f"{window.spread:.1%}", f"{SNIA_RANGE:.0%}", "yes" if window.spread <= SNIA_RANGE else "no"),
            (
                "slope of the best line",
                f"{abs(window.moves):.1%}",
                f"{SNIA_SLOPE:.0%}",
                "yes" if abs(window.moves) <= SNIA_SLOPE else "no",
            ),
        )
        made.append(StudyTable("Steady-state measurement window", ("figure", "found", "at most", "kept"), judged))
    return made


def observations(run: Run) -> list[str]:
    """Whether steady state was reached, what was shortened, and the headline figures."""
    test = name_test(run)
    sentences = [_verdict(run), *_describe_cuts(run)]
    result = experiment(run, f"{PREFIX}{test}")
    points = (
        {
            (str(given["rw"]), number(given, "bs")): p
            for p in (result.points if result else ())
            for given in [whole(result, p)]
        }
        if result
        else {}
    )
    if test == "iops":
        for rw, word in (("randread", "reads"), ("randwrite", "writes")):
            point = points.get((rw, 4096))
            if point is not None and point.rate:
                sentences.append(f"4 KiB random {word}: {_iops(point)} IOPS, {_mean(point)} µs on average.")
    if test == "demand" and result is not None and result.points:
        best = max(result.points, key=lambda point: point.rate.value if point.rate else 0.0)
        enough = [p for p in result.points if p.rate and best.rate and p.rate.value >= 0.9 * best.rate.value]
        least = min(enough, key=lambda p: p.latency_ns.mean if p.latency_ns else float("inf"))
        sentences.append(
            f"The maximum is {_iops(best)} IOPS; {plural(number(least.parameters, 'numjobs'), 'thread')} at depth "
            f"{number(least.parameters, 'iodepth')} reach {_iops(least)} of them at {_mean(least)} µs, the shortest "
            "response time within 10% of the maximum."
        )
    return [sentence for sentence in sentences if sentence]


def _verdict(run: Run) -> str:
    test = name_test(run)
    rounds, window = find_window(run)
    tracked = TRACKED[test][1]
    if window is None:
        return f"Not steady: {len(rounds)} rounds of the {tracked} are fewer than the window of 5."
    figures = (
        f"range {window.spread:.1%} of at most {SNIA_RANGE:.0%}, "
        f"line {abs(window.moves):.1%} of at most {SNIA_SLOPE:.0%}"
    )
    if window.steady:
        counted = f"rounds {window.first} to {window.last} count"
        return f"Steady state reached in round {window.last} ({counted}): {tracked}, {figures}."
    return f"Not steady after {window.last} rounds: {tracked}, {figures}; the figures are of the last 5."


def _describe_cuts(run: Run) -> list[str]:
    test = name_test(run)
    result = experiment(run, f"{PREFIX}{test}")
    if result is None:
        return []
    parts = []
    cell_s = max(point.elapsed_s / max(1, point.repeats) for point in result.points)
    if cell_s < 0.95 * CELL_S:
        parts.append(f"{format_duration(cell_s)} per workload and round instead of {format_duration(CELL_S)}")
    size = max(number(whole(result, point), "size", 0) for point in result.points)
    whole_bytes = sum(disk.size_bytes or 0 for disk in run.machine.storage.disks)
    if size and size < 0.95 * whole_bytes:
        parts.append(f"{format_size(size)} instead of the whole device of {format_size(whole_bytes)}")
    notes = {note.code: note.says for point in result.points for note in point.notes}
    if "snia_purged" not in notes:
        parts.append("not purged first")
    before = [notes[code] for code in ("snia_purged", "snia_not_purged", "snia_preconditioned") if code in notes]
    sentences = [f"Before, {'; then '.join(before)}."] if before else []
    if parts:
        short = f"Shortened: {', '.join(parts)}; do not compare these figures with those of the full specification."
        sentences.insert(0, short)
    return sentences


def _method(test: str, title: str, asks: str) -> Study:
    return Study(
        name=f"snia-{test}",
        title=title,
        asks=asks,
        questions=(),
        tables=tables,
        observations=observations,
        mistakes=(),
        method=True,
    )


IOPS = _method("iops", "SNIA PTS: IOPS test", "Steady-state IOPS by mix and block size")
THROUGHPUT = _method("throughput", "SNIA PTS: throughput test", "Sequential throughput in steady state")
LATENCY = _method("latency", "SNIA PTS: latency test", "Latency of one operation at a time in steady state")
DEMAND = _method("demand", "SNIA PTS: demand intensity", "IOPS and response time by threads and queue depth")
