"""Makes one finding of all points that a rule speaks of: the worst case, how many there are, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hwdyno.findings.rule import Verdict
from hwdyno.words import Curve, ExperimentResult, Finding

ORDER = {"invalid": 0, "warning": 1, "info": 2}
# Of several points, and of one.
_EXPLAINED_AS = {
    "throttled": ("stepped down in mid-run", "stepped down in mid-run"),
    "page_cache": ("missed the device", "missed the device"),
    "not_steady": ("did not settle", "did not settle"),
    "depth_not_reached": ("had fewer operations in flight than requested",) * 2,
    "interval_not_reached": (
        "are known less well than wanted",
        "is known less well than wanted",
    ),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule's verdict on one point, with the names of the other rules that it explains there."""

    result: ExperimentResult
    at: int
    verdict: Verdict
    explains: tuple[str, ...] = ()


def summarized(rule: str, hits: Sequence[Hit]) -> Finding:
    """The gravest of the verdicts speaks for all, and names how many there are and where."""
    worst = min(hits, key=lambda hit: (ORDER[hit.verdict.severity], -hit.verdict.weight))
    where = Counter(hit.result.name for hit in hits)
    says, evidence = worst.verdict.says, worst.verdict.evidence
    if len(hits) > 1:
        case = "clearest" if worst.verdict.severity == "info" else "worst"
        places = ", ".join(f"{name} {count}" for name, count in where.items())
        named = f"points of {worst.result.name}" if len(where) == 1 else f"points ({places})"
        says += f" It is the {case} of {len(hits)} such {named}."
        evidence = {**evidence, "points": {name: [h.at for h in hits if h.result.name == name] for name in where}}
    says += _explained(hits)
    indices = tuple(dict.fromkeys(hit.at for hit in hits if hit.result is worst.result))
    return finding_of(rule, replace(worst.verdict, says=says, evidence=evidence, points=indices), worst.result)


def _explained(hits: Sequence[Hit]) -> str:
    """What is not told again, because this explains it."""
    counts = Counter(name for hit in hits for name in dict.fromkeys(hit.explains))
    if not counts:
        return ""
    if len(hits) == 1:
        return f" That explains why it {' and '.join(_EXPLAINED_AS[name][1] for name in counts)}."
    parts = [f"{count} {_EXPLAINED_AS[name][0]}" for name, count in counts.items()]
    return f" That explains why, of these, {', '.join(parts)}."


def hedged(says: str, result: ExperimentResult, curve: Curve) -> str:
    """What a curve says, with a word of care where most of its points are degraded."""
    poor = sum(result.points[at].validity != "valid" for at in curve.points)
    if poor * 2 <= len(curve.points):
        return says
    return f"{says} Take it with care: {poor} of its {len(curve.points)} points are degraded or invalid."


def finding_of(rule: str, verdict: Verdict, result: ExperimentResult | None) -> Finding:
    """A verdict as a finding of the Run."""
    return Finding(
        rule=rule,
        severity=verdict.severity,
        resource=verdict.resource or (result.resource if result else ""),
        says=verdict.says,
        evidence=verdict.evidence,
        advice=verdict.advice,
        experiment=result.name if result else "",
        points=verdict.points,
    )
