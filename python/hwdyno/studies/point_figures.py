"""What the studies share: points looked up, and figures written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from hwdyno.analysis.estimates import mean
from hwdyno.model.axes import FIELD, is_mixed
from hwdyno.model.units import as_number, format_bytes
from hwdyno.model.words import Ceiling, CeilingClass, ExperimentResult, Measurement, Parameters, Run, Value

NONE = "-"
SAME = 0.05
"""Two figures closer than this are called the same."""
SAMPLE_S, SAMPLE_OPERATIONS = 0.5, 10
"""A sample is as long as the longer of the two: fio's bwavgtime, and operations enough that no edge counts."""


def experiment(run: Run, name: str) -> ExperimentResult | None:
    """The experiment of a question, if any point was measured."""
    return next((result for result in run.experiments if result.name == name and result.points), None)


def whole(result: ExperimentResult, point: Measurement) -> Parameters:
    """All parameters of a point."""
    return {**result.fixed, **point.parameters}


def pattern(parameters: Parameters) -> str:
    """A point's access pattern: ``randread``, ``randrw 70/30``."""
    rw = str(parameters.get("rw", ""))
    share = parameters.get("rwmixread")
    return f"{rw} {share}/{100 - share}" if is_mixed(FIELD["rw"], parameters) and isinstance(share, int) else rw


def number(parameters: Parameters, name: str, default: int = 1) -> int:
    """An integer parameter."""
    value = parameters.get(name)
    return value if isinstance(value, int) else default


def mb_s(value: float | None) -> str:
    """A bandwidth in MB/s (10^6), with two significant digits or more."""
    if value is None:
        return NONE
    megabytes = value / 1e6
    if 0 < megabytes < 1:
        return f"{float(f'{megabytes:.2g}'):f}".rstrip("0")
    return f"{megabytes:.1f}" if megabytes < 100 else f"{megabytes:.0f}"


def micros(ns: float | None) -> str:
    """A latency in µs."""
    return NONE if ns is None else f"{ns / 1e3:.1f}" if ns < 1e6 else f"{ns / 1e3:.0f}"


def sample_s(point: Measurement) -> float | None:
    """The length of a sample, s: half a second as fio's, or ten operations where they take longer; none without any.

    A shorter one would count a large block whole where only its end is, and so exceed any bandwidth.
    """
    if point.samples is None or point.samples.interval_s <= 0:
        return None
    rate = point.rate.value if point.rate else 0.0
    wanted_s = max(SAMPLE_S, SAMPLE_OPERATIONS / rate) if rate > 0 else SAMPLE_S
    return math.ceil(round(wanted_s / point.samples.interval_s, 6)) * point.samples.interval_s


def samples(point: Measurement) -> tuple[str, str, str]:
    """Minimum, average and maximum bandwidth, MB/s: the point's one average, and its least and greatest sample.

    A sample is within one repeat, and together they are all of it, so that the average is never beyond them. Fewer than
    two samples, or repeats shorter than one, have neither.
    """
    long_s, average = sample_s(point), mb_s(point.throughput.value)
    if long_s is None or point.samples is None:
        return NONE, average, NONE
    length = round(long_s / point.samples.interval_s)
    repeats = _split_values(point.samples.values, max(1, point.repeats))
    if min(map(len, repeats)) + 1 < length:
        return NONE, average, NONE
    means = [mean(part) for repeat in repeats for part in _split_values(repeat, max(1, len(repeat) // length))]
    return (mb_s(min(means)), average, mb_s(max(means))) if len(means) > 1 else (NONE, average, NONE)


def _split_values(values: Sequence[float], count: int) -> list[Sequence[float]]:
    """Values in ``count`` parts, as alike in length as can be."""
    edges = [round(at * len(values) / count) for at in range(count + 1)]
    return [values[low:high] for low, high in pairwise(edges)]


def milliseconds(seconds: float | None) -> str:
    """A time in ms."""
    return NONE if seconds is None else f"{1e3 * seconds:.0f}" if seconds >= 0.01 else f"{1e3 * seconds:.1f}"


def fio_samples(result: ExperimentResult, at: int) -> str:
    """fio's minimum, average and maximum bandwidth beside a point, MB/s; its samples are of half a second."""
    peer = next((candidate for candidate in result.peers if candidate.point == at and candidate.tool == "fio"), None)
    if peer is None:
        return NONE
    least, most = (as_number(peer.details.get(name)) for name in ("bytes_s_min", "bytes_s_max"))
    if least is None or most is None or not least <= peer.value.value <= most:
        least = most = None  # Of large blocks fio's few samples need not hold its own average.
    return " / ".join((mb_s(least), mb_s(peer.value.value), mb_s(most)))


def describe_drive(run: Run) -> str:
    """The drive and its link as the system reports them, without its serial number."""
    disk = run.machine.storage.disk
    size = f", {format_bytes(disk.size_bytes)}" if disk.size_bytes else ""
    return f"{(disk.model or '').strip() or disk.name or 'a drive without a model'}{size}"


def tightest(result: ExperimentResult, metric: str, kind: CeilingClass) -> Ceiling | None:
    """The lowest ceiling of a metric and class; none where none is known."""
    found = [ceiling for ceiling in result.ceilings if ceiling.metric == metric and ceiling.kind == kind]
    return min(found, key=lambda ceiling: ceiling.value, default=None)


def sound(points: Iterable[Measurement]) -> list[Measurement]:
    """The points that are not invalid."""
    return [point for point in points if point.validity != "invalid" and point.throughput.value > 0]


def busy(result: ExperimentResult, point: Measurement) -> float | None:
    """CPU time of the measuring threads as a share of their run time."""
    if point.cpu_user_s is None or point.cpu_system_s is None or not point.elapsed_s:
        return None
    return (point.cpu_user_s + point.cpu_system_s) / point.elapsed_s / number(whole(result, point), "numjobs")


def same(first: Value, second: Value) -> bool | None:
    """Whether two throughputs are within ``SAME`` of each other; none if their intervals are too wide to tell."""
    if abs(first.value / second.value - 1) <= SAME:
        return True
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return False
    return None if first.low <= second.high and second.low <= first.high else False
