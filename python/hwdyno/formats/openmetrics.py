"""Writes Runs as OpenMetrics text, for Prometheus and what reads its format: a sample a point and figure.

The format is OpenMetrics 1.0 (prometheus.io/docs/specs/om/open_metrics_spec): families with type, unit and help,
samples of one family together, those of one series in order of time, and ``# EOF``. It is also a file for the textfile
collector of Prometheus' node_exporter, which takes no times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from hwdyno.model.axes import FREE
from hwdyno.model.words import Measurement, Run, Validity, Value
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


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a series."""

    labels: MetricLabels
    value: float
    at_s: float | None
    """Its time since 1970, s; none where the reader gives it the time at which it reads."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A kind of figure."""

    name: str
    unit: str
    help: str


RunSample = tuple[MetricFamily, MetricLabels, float]
"""A value of a Run, without its machine."""
TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The content type that a server states."""
HEADER = b"# TYPE hwdyno_"
"""What every text begins with."""
STARTED = MetricFamily("hwdyno_run_started_timestamp_seconds", "seconds", "When the newest Run began, since 1970.")
POINTS = MetricFamily("hwdyno_points", "", "Points of the newest Run by validity.")
CHANGED = MetricFamily("hwdyno_changed_figures", "", "Figures whose level the last turn of hwdyno watch found changed.")
_NO_LABELS = FREE | {"port"}
"""Parameters that differ between runs of one figure, of which each value would be another series."""


def format_runs(runs: Sequence[tuple[str, Run]]) -> str:
    """The figures of Runs, each with its machine's label and the time at which it began, as OpenMetrics text."""
    families: dict[MetricFamily, list[Sample]] = {}
    for machine, run in runs:
        for family, labels, value in _figures(printable(run)):
            _add(families, family, labels, value, machine, _seconds(run.started))
    return _format_families(families)


def list_samples(run: Run) -> tuple[RunSample, ...]:
    """All that a scrape has of one Run: its figures, when it began, and how many of its points are valid."""
    shown = printable(run)
    return (*_figures(shown), *_about(shown))


def changed_samples(changed: Mapping[str, int]) -> tuple[RunSample, ...]:
    """How many figures the last turn of `hwdyno watch` found changed, by direction."""
    return tuple((CHANGED, (("direction", direction),), float(count)) for direction, count in changed.items())


def format_newest(runs: Iterable[tuple[str, Iterable[RunSample]]]) -> str:
    """Samples of the newest Run of each machine and plan for a scrape: without times, as the reader gives its own.

    A series that several of them have is that of the first.
    """
    families: dict[MetricFamily, list[Sample]] = {}
    for machine, samples in runs:
        for family, labels, value in samples:
            _add(families, family, labels, value, machine)
    return _format_families(families)


def _add(
    families: dict[MetricFamily, list[Sample]],
    family: MetricFamily,
    labels: MetricLabels,
    value: float,
    machine: str,
    at_s: float | None = None,
) -> None:
    found = families.setdefault(family, [])
    found.append(Sample((("machine", printable(machine)), *labels), value, at_s))


def _format_families(families: Mapping[MetricFamily, Sequence[Sample]]) -> str:
    lines = []
    for family, samples in sorted(families.items(), key=lambda pair: pair[0].name):
        lines.append(f"# TYPE {family.name} gauge")
        lines += [f"# UNIT {family.name} {family.unit}"] if family.unit else []
        lines.append(f"# HELP {family.name} {family.help}")
        last: tuple[MetricLabels, float | None] | None = None
        # A stable sort: of one series and time the sample that was added first.
        for sample in sorted(samples, key=lambda sample: (sample.labels, sample.at_s or 0.0)):
            if (sample.labels, sample.at_s) != last:  # A series has one value at a time.
                shown = ",".join(f'{name}="{_escape_label(text)}"' for name, text in sample.labels)
                time = "" if sample.at_s is None else f" {sample.at_s!r}"
                lines.append(f"{family.name}{{{shown}}} {sample.value!r}{time}")
            last = (sample.labels, sample.at_s)
    return "\n".join([*lines, "# EOF", ""])


def _about(run: Run) -> Iterator[RunSample]:
    """When a Run began, and how many of its points are valid."""
    labels = (("profile", run.profile), ("study", run.study))
    yield STARTED, labels, _seconds(run.started)
    validities = Counter(point.validity for result in run.experiments for point in result.points)
    for validity in get_args(Validity):
        yield POINTS, (*labels, ("validity", validity)), float(validities[validity])


def _figures(run: Run) -> Iterator[RunSample]:
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
                    if value is not None and key not in _NO_LABELS
                },
            }
            plain = tuple(labels.items())
            yield from _of_point(point, plain)


def _of_point(point: Measurement, labels: MetricLabels) -> Iterator[RunSample]:
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


def _of_value(quantity: str, value: Value, labels: MetricLabels) -> Iterator[RunSample]:
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
