"""Applies the rules to a Run: one function per rule, called only for what it applies to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from hwdyno.analysis.curves import fit_curves
from hwdyno.analysis.resources import with_derived
from hwdyno.analysis.states import in_one_state, with_states
from hwdyno.explain.findings.applies import Rule
from hwdyno.explain.findings.catalogue import all_rules, rules_by_name
from hwdyno.explain.findings.rule import Case, Scope, Verdict
from hwdyno.explain.findings.summary import ORDER, Hit, add_caution, make_finding, summarize_hits
from hwdyno.explain.repeatability import with_pooled_repeats
from hwdyno.model.words import Curve, ExperimentResult, Finding, Measurement, Run, Validity
from hwdyno.system.failures import attempt

T = TypeVar("T")


def explain(run: Run) -> Run:
    """The Run with its points' validity, its curves and its findings, the gravest first.

    Points are judged first, because curve models leave invalid points out. Explaining a Run twice changes
    nothing. Rules whose figures are missing, as in an imported Run, return no finding. A rule or a model that fails is
    left out, where failures are collected.
    """
    for part, derive in _DERIVED:
        run = attempt(part, partial(derive, run), run)
    judged: list[ExperimentResult] = []
    hits: dict[tuple[str, str], list[Hit]] = defaultdict(list)
    for result in run.experiments:
        points, rules = [], _rules_for("point", Case(run, result))
        for at, point in enumerate(result.points):
            verdicts = _drop_explained(_verdicts(rules, Case(run, result, at)))
            for rule, verdict, dependent in verdicts:
                hits[rule.name, result.resource].append(Hit(result, at, verdict, dependent))
            points.append(_judge_point(point, verdicts))
        judged.append(replace(result, points=tuple(points)))
    judged = [replace(result, curves=_fit(result)) for result in judged]
    run = replace(run, experiments=tuple(judged), findings=())
    of_points = [
        finding
        for rule in _rules("point")
        for (name, _), found in hits.items()
        if name == rule.name
        for finding in _attempt_rule(name, partial(_summarize, name, found))
    ]
    findings = [*of_points, *_of_the_rest(run)]
    names = {finding.rule for finding in findings}
    findings = [finding for finding in findings if not names & set(rules_by_name()[finding.rule].unless)]
    return replace(run, findings=tuple(sorted(findings, key=_gravity)))


_DERIVED: tuple[tuple[str, Callable[[Run], Run]], ...] = (
    ("what the figures of a point tell together", with_derived),
    ("the noise of all repeats together", with_pooled_repeats),
    ("the states that the device was in", with_states),
)


def _fit(result: ExperimentResult) -> tuple[Curve, ...]:
    return attempt(f"the curve of {result.name}", lambda: fit_curves(in_one_state(result)), ())


def _summarize(rule: str, hits: list[Hit]) -> list[Finding]:
    return [summarize_hits(rule, hits)]


def _attempt_rule(name: str, call: Callable[[], list[T]]) -> list[T]:
    return attempt(f"the rule {name}", call, [])


def _gravity(finding: Finding) -> tuple[int, bool]:
    """Sorts the gravest first, then findings that explain others."""
    return ORDER[finding.severity], not rules_by_name()[finding.rule].explains


def _rules(scope: Scope) -> list[Rule]:
    return [rule for rule in all_rules() if rule.scope == scope]


def _rules_for(scope: Scope, case: Case) -> list[Rule]:
    """The rules of a scope that may apply to parts of the case's experiment."""
    return _that_apply(_rules(scope), lambda rule: rule.applies.to_experiment(case))


def _that_apply(rules: list[Rule], applies: Callable[[Rule], bool]) -> list[Rule]:
    try:
        return [rule for rule in rules if applies(rule)]
    except Exception:  # Each by itself, so that only those that fail are left out: many times as slow.
        return [rule for rule in rules if attempt(f"the rule {rule.name}", partial(applies, rule), False)]


def _verdicts(rules: list[Rule], case: Case) -> list[tuple[Rule, Verdict]]:
    """The verdicts of rules for an experiment on a part of it, without rules that a more specific one replaces."""
    apply = _that_apply(rules, lambda rule: rule.applies.to_part(case))
    replaced = {name for rule in apply for name in rule.instead_of}
    return [(rule, verdict) for rule in apply if rule.name not in replaced for verdict in _call_rule(rule, case)]


def _call_rule(rule: Rule, case: Case) -> list[Verdict]:
    return _attempt_rule(rule.name, partial(_list_verdicts, rule, case))


def _list_verdicts(rule: Rule, case: Case) -> list[Verdict]:
    found = rule.check(case)
    if found is None:
        return []
    return [found] if isinstance(found, Verdict) else list(found)


def _drop_explained(found: list[tuple[Rule, Verdict]]) -> list[tuple[Rule, Verdict, tuple[str, ...]]]:
    """A point's verdicts to report, each with the other verdicts that it explains; those are left out."""
    names = {rule.name for rule, _ in found}
    explained = {name for _, verdict in found for name in verdict.explains} & names
    return [
        (rule, verdict, tuple(name for name in verdict.explains if name in names))
        for rule, verdict in found
        if rule.name not in explained
    ]


def _judge_point(point: Measurement, verdicts: list[tuple[Rule, Verdict, tuple[str, ...]]]) -> Measurement:
    """The point with its validity and the rules that lowered it."""
    why, validity = _before(point)
    for rule, verdict, dependent in verdicts:
        if verdict.severity == "invalid":
            why, validity = [*why, rule.name], "invalid"
        elif verdict.severity == "warning" and rule.degrades:
            # A step down that other load explains is unsteadiness, not throttling.
            why = [*why, rule.name, *("not_steady" if name == "throttled" else name for name in dependent)]
            validity = "invalid" if validity == "invalid" else "degraded"
        elif rule.doubts:
            why = [*why, rule.name]
            validity = "unverified" if validity == "valid" else validity
    return replace(point, validity=validity, why=tuple(dict.fromkeys(why)))


def _before(point: Measurement) -> tuple[list[str], Validity]:
    """A point's validity before any rule was applied."""
    others = [why for why in point.why if why not in rules_by_name()]
    if len(others) == len(point.why):
        return others, point.validity
    return others, "degraded" if others else "valid"


def _of_the_rest(run: Run) -> Iterator[Finding]:
    """Findings on curves, experiments and the whole Run."""
    for result in map(in_one_state, run.experiments):
        whole = Case(run, result)
        curves, rules = ((curve, replace(whole, curve=curve)) for curve in result.curves), _rules_for("curve", whole)
        by_curve = [(rule, verdict, curve) for curve, case in curves for rule, verdict in _verdicts(rules, case)]
        for rule, verdict, curve in sorted(by_curve, key=lambda found: all_rules().index(found[0])):
            says = add_caution(verdict.says, result, curve)
            yield make_finding(rule.name, replace(verdict, says=says, points=verdict.points or curve.points), result)
        for rule, verdict in _verdicts(_rules_for("experiment", whole), whole):
            yield make_finding(rule.name, verdict, result)
    for rule in _rules("run"):
        if rule.applies.to_run(run):
            for verdict in _call_rule(rule, Case(run)):
                yield make_finding(rule.name, replace(verdict, resource=verdict.resource or rule.about), None)
