"""Numbers as a reader wants them: one unit a column, three or four digits, intervals beside the value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hwdyno.analysis.estimates import half_width
from hwdyno.explain import repeatability
from hwdyno.model import units
from hwdyno.model.words import Axis, ExperimentResult, RunToRun, Scalar, Value

NONE = "–"
"""Shown for what was not measured or cannot be known."""

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True, slots=True)
class Scale:
    """What to divide by, and the name of the unit that this gives."""

    divisor: float
    unit: str

    def number(self, value: float | None) -> str:
        """The value in this unit, without the unit's name."""
        return NONE if value is None else units.format_number(value / self.divisor)

    def quantity(self, value: float | None) -> str:
        """The value with the unit's name."""
        return NONE if value is None else f"{self.number(value)} {self.unit}".rstrip()

    def interval(self, value: Value) -> str:
        """``low … high`` in this unit; empty without an interval."""
        if value.low is None or value.high is None:
            return ""
        return f"{self.number(value.low)} … {self.number(value.high)}"


def scale_for(values: Iterable[float | None], unit: str, rate_word: str = "") -> Scale:
    """One scale for a whole column or axis, chosen by its largest value.

    Bytes/s as in every sentence (``units.bytes_s_scale``). ``rate_word`` is the field's word for operations a second.
    """
    top = max((abs(value) for value in values if value is not None), default=0.0)
    if unit == "operations/s":
        word = rate_word or unit
        # IOPS and their like are given in full.
        return Scale(1e6, f"M {word}") if top >= 1e7 and "/" in word else Scale(1.0, word)
    if unit == "bytes/s":
        return Scale(*units.bytes_s_scale(top))
    if unit in {"s", "ns"}:
        base = 1.0 if unit == "s" else 1e-9
        for size, name in _TIMES:
            if top * base >= size:
                return Scale(size / base, name)
        return Scale(1e-9 / base, "ns")
    if unit == "1":
        return Scale(0.01, "%")
    if unit in {"ratio", ""}:
        return Scale(1.0, "")
    for size, prefix in _PREFIXES:
        if top >= size:
            return Scale(size, prefix + unit)
    return Scale(1.0, unit)


def count_scale(values: Iterable[float], rate_word: str = "") -> Scale:
    """One scale for rates of operations where three digits are enough: ``139 k IOPS``, as findings say them."""
    least, word = min(map(abs, values), default=0.0), rate_word or "operations/s"
    size, prefix = next(((size, prefix) for size, prefix in _PREFIXES if least >= size), (1.0, ""))
    return Scale(size, f"{prefix} {word}".strip())


def quantity(value: Value, rate_word: str = "") -> str:
    """One value alone with its unit, such as ``3,410 MB/s``."""
    return scale_for([value.value], value.unit, rate_word).quantity(value.value)


def latency_scale(values_ns: Iterable[float | None]) -> Scale:
    """µs for storage-like latencies, ms from 10 ms on, ns below 10 µs."""
    top = max((value for value in values_ns if value is not None), default=0.0)
    if top >= 1e8:
        return Scale(1e6, "ms")
    return Scale(1e3, "µs") if top >= 2e3 else Scale(1.0, "ns")


def size(count: float, *, short: bool = False) -> str:
    """Bytes as ``4 KiB``, or ``4K`` where there is little room."""
    text = units.format_size(count)
    return text.replace("iB", "").replace(" ", "") if short else text


def parameter(axis: Axis, value: Scalar, *, short: bool = False) -> str:
    """A parameter's value as its reader writes it, with the unit of its axis."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return NONE
    if not isinstance(value, (int, float)):
        return str(value)
    if axis.unit == "B":
        return size(value, short=short)
    number = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{number}{'' if axis.unit == '%' else ' '}{axis.unit}".rstrip()


def load(axis: Axis, value: float | None) -> str:
    """A load read off a curve."""
    if value is None:
        return NONE
    if axis.unit == "B":
        return size(value)
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def run_to_run(spread: RunToRun) -> str:
    """How much runs of one machine differ, for the eye that reads an interval of one run beside it."""
    return f"run to run ±{percent(repeatability.half_width(spread))} ({spread.earlier} earlier runs)"


def percent(share: float | None) -> str:
    """A share of one as a percentage."""
    return NONE if share is None else units.format_percent(share)


def of_finding(value: float, unit: str) -> str:
    """What a finding computed, as a figure: three digits, bytes a second with their prefix, counts as they are."""
    return units.format_bytes_s(value) if unit == "bytes/s" else f"{units.format_count(value)} {unit}".rstrip()


def remarks(experiment: ExperimentResult) -> list[str]:
    """What the kernels noted, and faults, each once with how many points it touched; and the spread between runs."""
    counts: dict[str, int] = {}
    for point in experiment.points:
        texts = [note.says for note in point.notes if note.code != "interval_not_reached"]
        texts += [f"{fault.operation}: {fault.says}" for fault in point.faults]
        for text in dict.fromkeys(texts):
            counts[text] = counts.get(text, 0) + 1
    many = len(experiment.points)
    loose = [point for point in experiment.points if any(n.code == "interval_not_reached" for n in point.notes)]
    widths = [width for point in loose if (width := half_width(point.throughput)) is not None]
    if loose:
        worst = f", up to {percent(max(widths))}" if widths else ""
        counts[f"the 95% interval stayed wider than the profile aims at{worst}"] = len(loose)
    found = [text if count == many else f"{text} ({count} of {many} points)" for text, count in counts.items()]
    return [*found, *([run_to_run(experiment.run_to_run)] if experiment.run_to_run else [])]
