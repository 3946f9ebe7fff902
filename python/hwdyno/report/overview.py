"""The overview on top of a report: the result in one sentence, and the limit in another."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hwdyno.axes import splits, traits_of
from hwdyno.findings.snia import is_rounds
from hwdyno.report import figures
from hwdyno.report.rows import in_unit, parameters_of, point_label, unit_of
from hwdyno.resources import Figure, Resource, find, rate_word_of
from hwdyno.store import Status, status_of
from hwdyno.units import plural
from hwdyno.words import ExperimentResult, Finding, Measurement, Run, Trait, Validity, Value

SEVERITIES = {"invalid": 0, "warning": 1, "info": 2}
"""Order of findings, the gravest first."""

ACCESSES: frozenset[Trait] = frozenset({"reads", "writes", "random", "trims"})
"""What points do, whatever their engine."""
_TROUBLE: tuple[Validity, ...] = ("invalid", "degraded", "unverified")
MOST_CARRIED = 2
"""Loads whose storage is named on top; the findings have all."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Two sentences and how far the Run can be trusted."""

    status: Status
    says: str
    more: str
    tally: str
    """How many points there are, and how many are sound."""


def ranked(findings: tuple[Finding, ...]) -> list[Finding]:
    """The findings, the gravest first."""
    return sorted(findings, key=lambda finding: SEVERITIES[finding.severity])


def overview_of(run: Run) -> Overview:
    """The overview of a Run, from its valid figures and its gravest finding."""
    points = [point for experiment in run.experiments for point in experiment.points]
    counts = Counter(point.validity for point in points)
    planned = sum(max(experiment.planned, len(experiment.points)) for experiment in run.experiments)
    if not points:
        why = " ".join(run.degraded) or "The run ended before its first point."
        return Overview("empty", "Nothing was measured.", why, "0 points")
    findings = ranked(run.findings)
    more = [finding.says for finding in findings[:2] if finding.severity == findings[0].severity]
    if run.degraded:
        more.append(" ".join(run.degraded))
    tally = f"{len(points)} of {planned} points" if planned > len(points) else plural(len(points), "point")
    trouble = [f"{counts[word]} {word}" for word in _TROUBLE if counts[word]]
    return Overview(
        status_of(run),
        _reached(run) or "No figure of this run is valid.",
        " ".join(more),
        f"{tally}, {', '.join(trouble) or 'all valid'}",
    )


def _reached(run: Run) -> str:
    """What each resource reached: the figures that everyone compares, or else the fastest point."""
    sentences = []
    for name in dict.fromkeys(experiment.resource for experiment in run.experiments):
        experiments = [one for one in run.experiments if one.resource == name and not is_rounds(one)]
        resource = find(name)
        sentences.append(
            reached_by_figures(resource, experiments) or _by_findings(run, resource) or _fastest(resource, experiments)
        )
    return " ".join(filter(None, sentences))


def reached_by_figures(resource: Resource, experiments: list[ExperimentResult]) -> str:
    """The headline figures that were measured, those of one kind in one clause."""
    clauses: dict[str, list[str]] = {}
    for figure in resource.figures:
        known = [
            (value, experiment)
            for experiment in experiments
            if figure.experiment in {"", experiment.name.partition("@")[0]}
            for point in experiment.points
            if _is_of(figure, experiment, point) and (value := _figure(point, figure.unit)) is not None
        ]
        if known:
            value, experiment = (min if figure.lowest else max)(known, key=lambda one: one[0].value)
            reached = figures.quantity(value, rate_word_of(experiment))
            clauses.setdefault(figure.how, []).append(f"{figure.does} {reached}")
    parts = [f"{' and '.join(verbs)} {how}".rstrip() for how, verbs in clauses.items()]
    return f"{resource.subject or resource.title} {', and '.join(parts)}." if parts else ""


def _is_of(figure: Figure, experiment: ExperimentResult, point: Measurement) -> bool:
    parameters = parameters_of(experiment, point)
    # A pattern of files goes through the page cache: it says nothing of the device.
    axes = [axis for axis in splits(experiment.declaration.axes) if axis.name in parameters]
    pattern = traits_of(axes, parameters) & ACCESSES
    return figure.where.items() <= parameters.items() and (not figure.pattern or pattern == set(figure.pattern))


def _by_findings(run: Run, resource: Resource) -> str:
    """How much of whose load each storage carries, where no figure alone is a headline."""
    carried = [one for one in run.findings if one.rule in resource.headline_rules and one.resource == resource.name]
    sentences = [f"{one.says.partition('. ')[0].removesuffix('.')}." for one in carried[:MOST_CARRIED]]
    if more := len(carried) - len(sentences):
        sentences.append(f"{plural(more, 'more load')} {'is' if more == 1 else 'are'} listed below.")
    return " ".join(sentences)


def _figure(point: Measurement, unit: str) -> Value | None:
    return None if point.validity == "invalid" else in_unit(point, unit)


def _fastest(resource: Resource, experiments: list[ExperimentResult]) -> str:
    # The numbers that everyone compares, where they were measured: a cache's bandwidth is not the memory's.
    best: tuple[Value, ExperimentResult, int] | None = None
    for experiment in [one for one in experiments if one.name.endswith(".grid")] or experiments:
        for at, point in enumerate(experiment.points):
            value = _figure(point, unit_of(experiment))
            if value is not None and (best is None or value.value > best[0].value):
                best = (value, experiment, at)
    if best is None:
        return ""
    value, experiment, at = best
    reached = figures.quantity(value, rate_word_of(experiment))
    return f"{resource.subject or resource.title} reaches {reached} ({point_label(experiment, at)})."
