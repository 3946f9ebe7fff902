"""The overview on top of a report: the result in one sentence, and the limit in another."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hwdyno.analysis.resources import Resource, find
from hwdyno.model.units import plural
from hwdyno.model.words import Finding, Run, Validity
from hwdyno.report.headlines import headlines
from hwdyno.report.verdict import tally_points
from hwdyno.system.store import Status, run_status

SEVERITIES = {"invalid": 0, "warning": 1, "info": 2}
"""Order of findings, the gravest first."""

_TROUBLE: tuple[Validity, ...] = ("invalid", "degraded", "unverified")
MAX_CARRIED = 2
"""Loads whose storage is named on top; the findings have all."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Two sentences and how far the Run can be trusted."""

    status: Status
    says: str
    more: str
    tally: str
    """How many points there are, and how many are sound."""


def rank_findings(findings: tuple[Finding, ...]) -> list[Finding]:
    """The findings, the gravest first."""
    return sorted(findings, key=lambda finding: SEVERITIES[finding.severity])


def make_overview(run: Run) -> Overview:
    """The overview of a Run, from its valid figures and its gravest finding."""
    points = [point for experiment in run.experiments for point in experiment.points]
    counts = Counter(point.validity for point in points)
    if not points:
        why = " ".join(run.degraded) or "The run ended before its first point."
        return Overview("empty", "Nothing was measured.", why, "0 points")
    findings = rank_findings(run.findings)
    more = [finding.says for finding in findings[:2] if finding.severity == findings[0].severity]
    if run.degraded:
        more.append(" ".join(run.degraded))
    trouble = [f"{counts[word]} {word}" for word in _TROUBLE if counts[word]]
    return Overview(
        run_status(run),
        _describe_reached(run) or "No figure of this run is valid.",
        " ".join(more),
        f"{tally_points(run)}, {', '.join(trouble) or 'all valid'}",
    )


def _describe_reached(run: Run) -> str:
    """What each resource reached: the figures of the scorecard, or the loads that it carries."""
    sentences, (_, every) = [], headlines(run)
    for name in dict.fromkeys(experiment.resource for experiment in run.experiments):
        rows = [row for row in every if run.experiments[row.experiment].resource == name and row.state != "invalid"]
        clauses: dict[str, list[str]] = {}
        for row in rows:
            clauses.setdefault(row.resource, []).append(f"{row.title} {row.value}")
        reached = (f"{title}: {', '.join(figures)}." for title, figures in clauses.items())
        resource = find(name)
        carried = "" if resource.figures else _by_findings(run, resource)
        sentences.append(carried or " ".join(reached))
    return " ".join(filter(None, sentences))


def _by_findings(run: Run, resource: Resource) -> str:
    """How much of whose load each storage carries, where no figure alone is a headline."""
    carried = [
        finding
        for finding in run.findings
        if finding.rule in resource.headline_rules and finding.resource == resource.name
    ]
    sentences = [f"{finding.says.partition('. ')[0].removesuffix('.')}." for finding in carried[:MAX_CARRIED]]
    if more := len(carried) - len(sentences):
        sentences.append(f"{plural(more, 'more load')} {'is' if more == 1 else 'are'} listed below.")
    return " ".join(sentences)
