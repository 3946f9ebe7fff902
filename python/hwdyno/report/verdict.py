"""The verdict on top of a report: what was reached in one sentence, and what stands in the way in another."""

from __future__ import annotations

from dataclasses import dataclass

from hwdyno.axes import splits, traits_of
from hwdyno.findings.snia import is_rounds
from hwdyno.report import figures
from hwdyno.report.rows import direction, in_unit, parameters_of, point_label, unit_of
from hwdyno.store import Status, status_of
from hwdyno.units import plural
from hwdyno.words import ExperimentResult, Finding, Measurement, Run, Value

SEVERITIES = {"invalid": 0, "warning": 1, "info": 2}
"""Order in which findings are told."""

MOST_CARRIED = 2
"""Loads whose storage is named on top; the findings have all."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Two sentences and how far the Run can be trusted."""

    status: Status
    says: str
    more: str
    tally: str
    """How many points there are, and how many are sound."""


def ranked(findings: tuple[Finding, ...]) -> list[Finding]:
    """The findings, the gravest first."""
    return sorted(findings, key=lambda finding: SEVERITIES[finding.severity])


def verdict_of(run: Run) -> Verdict:
    """The verdict of a Run, from its valid figures and its gravest finding."""
    points = [point for experiment in run.experiments for point in experiment.points]
    invalid = sum(point.validity == "invalid" for point in points)
    degraded = sum(point.validity == "degraded" for point in points)
    planned = sum(max(experiment.planned, len(experiment.points)) for experiment in run.experiments)
    if not points:
        why = " ".join(run.degraded) or "The run ended before its first point."
        return Verdict("empty", "Nothing was measured.", why, "0 points")
    findings = ranked(run.findings)
    more = [finding.says for finding in findings[:2] if finding.severity == findings[0].severity]
    if run.degraded:
        more.append(" ".join(run.degraded))
    tally = f"{len(points)} of {planned} points" if planned > len(points) else plural(len(points), "point")
    trouble = [f"{count} {word}" for count, word in ((invalid, "invalid"), (degraded, "degraded")) if count]
    return Verdict(
        status_of(run),
        _reached(run) or "No figure of this run is valid.",
        " ".join(more),
        f"{tally}, {' and '.join(trouble) or 'all valid'}",
    )


def _reached(run: Run) -> str:
    """What each resource reached, storage in the words that everyone compares."""
    said = []
    for resource in dict.fromkeys(experiment.resource for experiment in run.experiments):
        experiments = [one for one in run.experiments if one.resource == resource and not is_rounds(one)]
        said.append(_storage(experiments) or _fed(run, resource) or _fastest(resource, experiments))
    return " ".join(filter(None, said))


def _storage(experiments: list[ExperimentResult]) -> str:
    best: dict[tuple[str, str], Value] = {}
    for experiment in experiments:
        for point in experiment.points:
            parameters = parameters_of(experiment, point)
            # A pattern of files goes through the page cache: it says nothing of the device.
            axes = [axis for axis in splits(experiment.declaration.axes) if axis.name in parameters]
            way, random = direction(parameters, axes), "random" in traits_of(axes, parameters)
            value = _figure(point, "operations/s" if random else "bytes/s")
            if way not in {"read", "write"} or value is None:
                continue
            key = ("random" if random else "sequential", way)
            if key not in best or value.value > best[key].value:
                best[key] = value
    parts = []
    for order, words in (("sequential", "in sequence"), ("random", "at random")):
        known = [(way, best[order, way]) for way in ("read", "write") if (order, way) in best]
        verbs = " and ".join(f"{way}s {figures.said(value, 'storage')}" for way, value in known)
        if known:
            parts.append(f"{verbs} {words}")
    return f"This storage {', and '.join(parts)}." if parts else ""


_CARRIES = {"training_capacity", "kv_users", "vector_queries"}


def _fed(run: Run, resource: str) -> str:
    """How much of whose load each storage carries: what a loader reaches out of memory is nobody's headline."""
    told = [one for one in run.findings if one.rule in _CARRIES and one.resource == resource]
    said = [f"{one.says.partition('; ')[0]}." for one in told[:MOST_CARRIED]]
    if more := len(told) - len(said):
        said.append(f"{plural(more, 'more load')} {'is' if more == 1 else 'are'} told of below.")
    return " ".join(said)


def _figure(point: Measurement, unit: str) -> Value | None:
    return None if point.validity == "invalid" else in_unit(point, unit)


def _fastest(resource: str, experiments: list[ExperimentResult]) -> str:
    # The numbers that everyone compares, where they were asked for: a cache's bandwidth is not the memory's.
    best: tuple[float, Value, str] | None = None
    for experiment in [one for one in experiments if one.name.endswith(".grid")] or experiments:
        for at, point in enumerate(experiment.points):
            value = _figure(point, unit_of(experiment))
            if value is not None and (best is None or value.value > best[0]):
                best = (value.value, value, point_label(experiment, at))
    name = {"gpu": "The GPU", "compute": "The processor"}.get(resource, f"{resource[:1].upper()}{resource[1:]}")
    return f"{name} reaches {figures.said(best[1], resource)} ({best[2]})." if best else ""
