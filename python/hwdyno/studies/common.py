"""What the studies share: points looked up, and figures written."""

from __future__ import annotations

from collections.abc import Iterable

from hwdyno.axes import FIELD, is_mixed
from hwdyno.words import Curve, ExperimentResult, Measurement, Parameters, Run, Value

NONE = "-"
SAME = 0.05
"""Two figures closer than this are called the same."""


def experiment(run: Run, name: str) -> ExperimentResult | None:
    """The experiment of a question, if any point was measured."""
    return next((one for one in run.experiments if one.name == name and one.points), None)


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
    """A bandwidth in MB/s (10^6)."""
    return NONE if value is None else f"{value / 1e6:.1f}" if value < 1e8 else f"{value / 1e6:.0f}"


def micros(ns: float | None) -> str:
    """A latency in µs."""
    return NONE if ns is None else f"{ns / 1e3:.1f}" if ns < 1e6 else f"{ns / 1e3:.0f}"


def samples(point: Measurement) -> tuple[str, str, str]:
    """Minimum, average and maximum bandwidth of the samples, MB/s."""
    if point.samples is None:
        return NONE, mb_s(point.throughput.value), NONE
    return mb_s(point.samples.min), mb_s(point.samples.avg), mb_s(point.samples.max)


def sound(points: Iterable[Measurement]) -> list[Measurement]:
    """The points that are not invalid."""
    return [point for point in points if point.validity != "invalid" and point.throughput.value > 0]


def busy(result: ExperimentResult, point: Measurement) -> float | None:
    """CPU time of the measuring threads as a share of their run time."""
    if point.cpu_user_s is None or point.cpu_system_s is None or not point.elapsed_s:
        return None
    return (point.cpu_user_s + point.cpu_system_s) / point.elapsed_s / number(whole(result, point), "numjobs")


def same(one: Value, other: Value) -> bool | None:
    """Whether two throughputs are within ``SAME`` of each other; none if their intervals are too wide to tell."""
    if abs(one.value / other.value - 1) <= SAME:
        return True
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return None if one.low <= other.high and other.low <= one.high else False


def curve_of(result: ExperimentResult, **series: object) -> Curve | None:
    """The curve of the series with these values."""
    return next(
        (one for one in result.curves if all(one.series.get(name) == value for name, value in series.items())), None
    )
