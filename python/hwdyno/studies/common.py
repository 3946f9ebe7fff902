"""What the studies of storage share: points looked up, figures written, and how far a Run was scaled down."""

from __future__ import annotations

from collections.abc import Iterable

from hwdyno.axes import FIELD, is_mixed
from hwdyno.studies import Study
from hwdyno.units import format_duration, format_size
from hwdyno.words import Curve, ExperimentResult, Measurement, Parameters, Run, Value

NONE = "-"
SAME = 0.05
"""Two figures closer than this are called the same."""


def experiment(run: Run, name: str) -> ExperimentResult | None:
    """The answer to a question, if any point of it was measured."""
    return next((one for one in run.experiments if one.name == name and one.points), None)


def whole(result: ExperimentResult, point: Measurement) -> Parameters:
    """All parameters of a point."""
    return {**result.fixed, **point.parameters}


def pattern(parameters: Parameters) -> str:
    """A point's direction as it is written: ``randread``, ``randrw 70/30``."""
    rw = str(parameters.get("rw", ""))
    share = parameters.get("rwmixread")
    return f"{rw} {share}/{100 - share}" if is_mixed(FIELD["rw"], parameters) and isinstance(share, int) else rw


def number(parameters: Parameters, name: str, otherwise: int = 1) -> int:
    """A parameter that is a whole number."""
    value = parameters.get(name)
    return value if isinstance(value, int) else otherwise


def mb_s(value: float | None) -> str:
    """A bandwidth in MB/s (10^6)."""
    return NONE if value is None else f"{value / 1e6:.1f}" if value < 1e8 else f"{value / 1e6:.0f}"


def micros(ns: float | None) -> str:
    """A latency in µs."""
    return NONE if ns is None else f"{ns / 1e3:.1f}" if ns < 1e6 else f"{ns / 1e3:.0f}"


def samples(point: Measurement) -> tuple[str, str, str]:
    """Least, average and greatest bandwidth over the samples, MB/s."""
    if point.samples is None:
        return NONE, mb_s(point.throughput.value), NONE
    return mb_s(point.samples.min), mb_s(point.samples.avg), mb_s(point.samples.max)


def sound(points: Iterable[Measurement]) -> list[Measurement]:
    """The points that are not invalid."""
    return [point for point in points if point.validity != "invalid" and point.throughput.value > 0]


def busy(result: ExperimentResult, point: Measurement) -> float | None:
    """The share of its threads' time that the tool itself spent on a processor."""
    if point.cpu_user_s is None or point.cpu_system_s is None or not point.elapsed_s:
        return None
    return (point.cpu_user_s + point.cpu_system_s) / point.elapsed_s / number(whole(result, point), "numjobs")


def same(one: Value, other: Value) -> bool | None:
    """Whether two throughputs are within ``SAME`` of each other; none where their intervals are too wide to tell."""
    if abs(one.value / other.value - 1) <= SAME:
        return True
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return None if one.low <= other.high and other.low <= one.high else False


def curve_of(result: ExperimentResult, **series: object) -> Curve | None:
    """The curve whose series has these values."""
    return next(
        (one for one in result.curves if all(one.series.get(name) == value for name, value in series.items())), None
    )


def scaling(study: Study, run: Run) -> list[str]:
    """Say in a sentence how far this Run's sizes and times are below the study's own; nothing if they are not."""
    told = []
    measured = {one.resource for one in run.experiments}
    for question in study.questions:
        result = experiment(run, question.name)
        if question.name.partition(".")[0] not in measured:
            continue  # Left out by --only.
        if result is None:
            told.append(f"{question.name} was not measured.")
            continue
        size = max(number(whole(result, point), "size", 0) for point in result.points)
        runtime_s = sum(point.elapsed_s / max(1, point.repeats) for point in result.points) / len(result.points)
        parts = []
        if size and size < question.size_bytes:
            parts.append(f"a file of {format_size(size)} instead of {format_size(question.size_bytes)}")
        if runtime_s < 0.95 * question.runtime_s:
            repeats = min(point.repeats for point in result.points)
            parts.append(
                f"{repeats} or more readings of {format_duration(runtime_s)} a point instead of one of "
                f"{format_duration(question.runtime_s)}"
            )
        if question.startdelay_s and not any(whole(result, point).get("startdelay") for point in result.points):
            parts.append(f"no start delay instead of {format_duration(question.startdelay_s)}")
        largest = max((number(whole(result, point), "bs") for point in result.points), default=0)
        asked = max(_blocks(question.blocks), default=0)
        if 0 < largest < asked:
            parts.append(f"blocks of at most {format_size(largest)} instead of {format_size(asked)}")
        most = max((number(whole(result, point), "n", 0) for point in result.points), default=0)
        most_asked = max(_values(question.blocks, "n"), default=0)
        if 0 < most < most_asked:
            parts.append(f"at most {most} equations instead of {most_asked}")
        for axis in question.brief:
            values = {whole(result, point).get(axis) for point in result.points}
            every = set(_values(question.blocks, axis))
            if axis != "n" and len(values) < len(every):
                parts.append(f"{len(values)} of {len(every)} values of {axis}")
        if parts:
            told.append(f"{question.name} is scaled down (profile {run.profile}): {', '.join(parts)}.")
    return told


def _blocks(blocks: Iterable[object]) -> list[int]:
    return _values(blocks, "bs")


def _values(blocks: Iterable[object], axis: str) -> list[int]:
    found: list[int] = []
    for block in blocks:
        values = block.get(axis, ()) if isinstance(block, dict) else ()
        found += [value for value in (values if isinstance(values, tuple) else (values,)) if isinstance(value, int)]
    return found
