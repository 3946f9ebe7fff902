"""Writes Runs as OpenMetrics text, for Prometheus and what reads its format: a sample a point and figure.

The format is OpenMetrics 1.0 (prometheus.io/docs/specs/om/open_metrics_spec): families with type, unit and help,
samples of one family together, those of one series in order of time, and ``# EOF``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from hwdyno.model.words import Measurement, Run, Value
from hwdyno.system.printable import printable

_UNITS = {
    "bytes/s": "bytes_per_second",
    "operations/s": "operations_per_second",
    "FLOP/s": "flop_per_second",
    "IOP/s": "iop_per_second",
    "s": "seconds",
}
_QUANTILES = {"mean": "mean", "p50": "0.5", "p90": "0.9", "p99": "0.99", "p999": "0.999"}

MetricLabels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, order=True)
class Sample:
    """One value of a series at a time."""

    labels: MetricLabels
    at_s: float
    value: float


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A kind of figure."""

    name: str
    unit: str
    help: str


def format_runs(runs: Sequence[tuple[str, Run]]) -> str:
    """The figures of Runs, each with its machine's label, as OpenMetrics text."""
    families: dict[MetricFamily, list[Sample]] = {}
    for machine, run in runs:
        at_s = _seconds(run.started)
        for family, labels, value in _figures(printable(run)):
            found = Sample((("machine", printable(machine)), *labels), at_s, value)
            families.setdefault(family, []).append(found)
    lines = []
    for family, samples in sorted(families.items(), key=lambda pair: pair[0].name):
        lines += [
            f"# TYPE {family.name} gauge",
            f"# UNIT {family.name} {family.unit}",
            f"# HELP {family.name} {family.help}",
        ]
        last: tuple[MetricLabels, float] | None = None
        for sample in sorted(samples):
            if (sample.labels, sample.at_s) != last:  # A series has one value at a time.
                shown = ",".join(f'{name}="{_escape_label(text)}"' for name, text in sample.labels)
                lines.append(f"{family.name}{{{shown}}} {sample.value!r} {sample.at_s!r}")
            last = (sample.labels, sample.at_s)
    return "\n".join([*lines, "# EOF", ""])


def _figures(run: Run) -> Iterator[tuple[MetricFamily, MetricLabels, float]]:
    for result in run.experiments:
        for point in (point for point in result.points if point.validity != "invalid"):
            parameters = {**result.fixed, **point.parameters}
            labels = {
                "experiment": result.name,
                "resource": result.resource,
                "kernel": result.kernel,
                **{
                    f"parameter_{_name(key)}": str(value)
                    for key, value in sorted(parameters.items())
                    if value is not None
                },
            }
            plain = tuple(labels.items())
            yield from _of_point(point, plain)


def _of_point(point: Measurement, labels: MetricLabels) -> Iterator[tuple[MetricFamily, MetricLabels, float]]:
    for quantity, value in (("throughput", point.throughput), ("rate", point.rate)):
        if value is not None:
            yield from _of_value(quantity, value, labels)
    if point.latency_ns is not None:
        family = MetricFamily(
            "hwdyno_latency_seconds", "seconds", "Latency of one operation: its mean and its quantiles."
        )
        for field, word in _QUANTILES.items():
            figure = getattr(point.latency_ns, field)
            if figure is not None:
                yield family, (*labels, ("statistic", word)), figure / 1e9


def _of_value(quantity: str, value: Value, labels: MetricLabels) -> Iterator[tuple[MetricFamily, MetricLabels, float]]:
    unit = _UNITS.get(value.unit) or _name(value.unit.replace("/s", "_per_second").replace("/", "_per_")) or "units"
    family = MetricFamily(
        f"hwdyno_{quantity}_{unit}", unit, f"What a point reached, and its 95% interval ({quantity})."
    )
    for word, figure in (("value", value.value), ("low", value.low), ("high", value.high)):
        if figure is not None:
            yield family, (*labels, ("statistic", word)), float(figure)


def _name(text: str) -> str:
    """Text as a name of the format: letters, digits and underscores."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", text).lower()


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _seconds(started: str) -> float:
    try:
        return datetime.fromisoformat(started).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
