"""Holds a Run against the laws: one rule a function, all in one table; a finding is one sentence with evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from hwdyno.curves import curves_of
from hwdyno.findings import conditions, device, laws, limits, peers, queue, training, truth
from hwdyno.findings.limits import why_not_double
from hwdyno.findings.rule import Case, Rule, Scope, Verdict
from hwdyno.words import ExperimentResult, Finding, Measurement, Run, Validity

__all__ = ["RULES", "explain", "why_not_double"]

RULES: tuple[Rule, ...] = (
    # Laws
    Rule("physical_ceiling", "point", laws.physical_ceiling),
    Rule("rated_exceeded", "point", laws.rated_exceeded),
    Rule("little", "point", laws.little, degrades=True),
    Rule("rate_times_size", "point", laws.rate_times_size, degrades=True),
    # Did it measure what it says?
    Rule("unwritten_file", "point", truth.unwritten_file, degrades=True),
    Rule("page_cache", "point", truth.page_cache, degrades=True),
    Rule("direct_refused", "point", truth.direct_refused, degrades=True),
    Rule("synchronous_engine", "point", truth.synchronous_engine, degrades=True),
    Rule("depth_not_reached", "point", truth.depth_not_reached, degrades=True),
    Rule("faults", "point", truth.faults, degrades=True),
    # Did the conditions hold?
    Rule("client_bound", "point", limits.client_bound, degrades=True),
    Rule("throttled", "point", conditions.throttled, degrades=True),
    Rule("not_steady", "point", conditions.not_steady, degrades=True),
    Rule("steal", "point", conditions.steal, degrades=True),
    Rule("swapping", "point", conditions.swapping, degrades=True),
    Rule("clock_dropped", "point", conditions.clock_dropped, degrades=True),
    Rule("interval_not_reached", "point", conditions.interval_not_reached, degrades=True),
    Rule("outlying_repeats", "point", conditions.outlying_repeats),
    Rule("load_before", "run", conditions.load_before),
    Rule("link_below_its_best", "run", conditions.link_below_its_best),
    # What the curves say
    Rule("knee", "curve", queue.knee),
    Rule("still_rising", "curve", queue.still_rising),
    Rule("saturated", "curve", queue.saturated),
    Rule("load_without_effect", "curve", queue.load_without_effect),
    Rule("best_block_size", "curve", queue.best_block_size),
    Rule("best_combination", "experiment", queue.best_combination),
    Rule("mix_penalty", "experiment", device.mix_penalty),
    Rule("spinning_or_solid", "run", device.spinning_or_solid),
    # Does the storage feed the accelerators?
    Rule("training_other_data", "point", training.training_other_data),
    Rule("training_too_small", "point", training.training_too_small),
    Rule("training_read_ahead", "point", training.training_read_ahead, degrades=True),
    Rule("training_cached", "point", training.training_cached, degrades=True),
    Rule("training_client_bound", "point", training.training_client_bound),
    Rule("training_au", "point", training.training_au),
    Rule("training_law", "point", training.training_law, degrades=True),
    Rule("training_capacity", "experiment", training.training_capacity),
    # What the reference tools say
    Rule("peer_ratio", "experiment", peers.peer_ratio),
)
_ORDER = {"invalid": 0, "warning": 1, "info": 2}
_NAMES = {rule.name for rule in RULES}


def explain(run: Run) -> Run:
    """The Run with its points' validity, its curves and its findings, the gravest first.

    Points are judged first, because curves leave the invalid ones out of their models. Explaining a
    Run twice changes nothing; a figure that is missing (an imported Run) silences the rules that need it.
    """
    judged, of_points = [], []
    for result in run.experiments:
        points, found = _judge(run, result)
        judged.append(replace(result, points=points))
        of_points += found
    judged = [replace(result, curves=curves_of(result)) for result in judged]
    run = replace(run, experiments=tuple(judged), findings=())
    findings = [*of_points, *_of_the_rest(run)]
    return replace(run, findings=tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity])))


def _rules(scope: Scope) -> list[Rule]:
    return [rule for rule in RULES if rule.scope == scope]


def _verdicts(rule: Rule, case: Case) -> list[Verdict]:
    found = rule.check(case)
    if found is None:
        return []
    return [found] if isinstance(found, Verdict) else list(found)


def _judge(run: Run, result: ExperimentResult) -> tuple[tuple[Measurement, ...], list[Finding]]:
    """The points with their validity, and one finding a rule for all points that it speaks of."""
    hits: dict[str, list[tuple[int, Verdict]]] = defaultdict(list)
    points = []
    for at, point in enumerate(result.points):
        why, validity = _before(point)
        for rule in _rules("point"):
            for verdict in _verdicts(rule, Case(run, result, at)):
                hits[rule.name].append((at, verdict))
                if verdict.severity == "invalid":
                    why, validity = [*why, rule.name], "invalid"
                elif verdict.severity == "warning" and rule.degrades:
                    why = [*why, rule.name]
                    validity = "invalid" if validity == "invalid" else "degraded"
        points.append(replace(point, validity=validity, why=tuple(dict.fromkeys(why))))
    return tuple(points), [_spoken(rule, result, hits[rule.name]) for rule in _rules("point") if hits[rule.name]]


def _before(point: Measurement) -> tuple[list[str], Validity]:
    """What was known of a point's validity before any rule spoke."""
    others = [why for why in point.why if why not in _NAMES]
    if len(others) == len(point.why):
        return others, point.validity
    return others, "degraded" if others else "valid"


def _spoken(rule: Rule, result: ExperimentResult, hits: list[tuple[int, Verdict]]) -> Finding:
    """The gravest of the verdicts speaks for all, and names how many there are."""
    _, worst = min(hits, key=lambda hit: (_ORDER[hit[1].severity], -hit[1].weight))
    others = len(hits) - 1
    more = f" The same holds for {others} other point{'s' if others > 1 else ''} of {result.name}." if others else ""
    said = replace(worst, says=worst.says + more, points=tuple(at for at, _ in hits))
    return _finding(rule, said, result)


def _finding(rule: Rule, verdict: Verdict, result: ExperimentResult | None) -> Finding:
    return Finding(
        rule=rule.name,
        severity=verdict.severity,
        resource=verdict.resource or (result.resource if result else ""),
        says=verdict.says,
        evidence=verdict.evidence,
        advice=verdict.advice,
        experiment=result.name if result else "",
        points=verdict.points,
    )


def _of_the_rest(run: Run) -> Iterator[Finding]:
    """Findings on curves, experiments and the whole Run."""
    for result in run.experiments:
        for rule in _rules("curve"):
            for curve in result.curves:
                for verdict in _verdicts(rule, Case(run, result, curve=curve)):
                    yield _finding(rule, replace(verdict, points=verdict.points or curve.points), result)
        for rule in _rules("experiment"):
            for verdict in _verdicts(rule, Case(run, result)):
                yield _finding(rule, verdict, result)
    for rule in _rules("run"):
        for verdict in _verdicts(rule, Case(run)):
            yield _finding(rule, verdict, None)
