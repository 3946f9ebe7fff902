"""Which points of two Runs are alike, and what parts those that are not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from hwdyno.model.axes import FREE, PLACES, is_loopback, is_mixed, splits
from hwdyno.model.words import Axis, ExperimentResult, Measurement, Parameters, Run, Scalar

LOOPBACK = "loopback"
WAY, WORKERS, UNIT, LOAD = "network path", "threads or streams", "unit", "axis of load"
"""What two points may differ in beside their parameters."""
_IGNORED = FREE | PLACES
"""Parameters that may differ between two points that are compared. A network's path is not one: see ``WAY``."""
_ACROSS = (
    *("rw", "rwmixread", "bs", "iodepth", "numjobs", "direct", "operation", "protocol", "direction", "message"),
    *("working_set", "delay", "n", "accelerators", "concurrency", "model", WAY, WORKERS),
)
"""What makes a point of one tool the same test as another tool's; their other parameters are each tool's matter."""
_STATED = {"rw", "bs", "operation", "n"}
"""Parameters that both must state: no one can guess them."""
_LOADS = ("iodepth", "concurrency", "accelerators", WORKERS)
"""Loads that both must state, or neither: a figure at an unknown load is no other one's pair."""
_NO_AXIS = Axis("")
DISBELIEVED = {"host_cache": "the host's cache answered"}
"""Rules that doubt the figures of their points without degrading them, with what is doubted."""
_MAX_TRIED = 64
"""Points of an experiment that are tried for the nearest unlike pair."""


@dataclass(frozen=True, slots=True)
class PointPair:
    """A point of the earlier Run and the one of the later Run that is the same test."""

    earlier: ExperimentResult
    old: Measurement
    result: ExperimentResult
    new: Measurement
    doubt: str = ""
    """What a finding disbelieves of a side, so that their ratio says nothing."""


@dataclass(frozen=True, slots=True)
class Unlike:
    """One parameter, or the unit or the axis, in which two results differ, so that no ratio of them means anything."""

    experiment: str
    fact: str
    before: Scalar
    after: Scalar
    axis: Axis = _NO_AXIS
    """The parameter's, with its unit."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The like points by the later Run's experiment, and what is left."""

    pairs: Mapping[str, Sequence[PointPair]]
    unlike: tuple[Unlike, ...] = ()
    """What parts the nearest points of each experiment that has no like point."""
    alone: tuple[tuple[str, int, int], ...] = ()
    """Experiment, and how many points of each side have no partner."""


def match_points(before: Run, after: Run) -> Matching:
    """Pair the like points of two Runs; invalid points are left out.

    Points of one kernel are alike where all parameters agree; what one Run does not state has its default. Where
    another tool's result is on a side, what both tools state must agree, and what one does not must leave no choice.
    """
    defaults = _defaults(before) | _defaults(after)
    old, new = (list(_points(run, defaults)) for run in (before, after))
    pairs = _exact(old, new)
    if before.imported_from or after.imported_from:
        pairs |= _across(old, new, pairs)
    found: dict[str, list[PointPair]] = {}
    for at in sorted(pairs):
        old_point, new_point = old[pairs[at]], new[at]
        points = _one_unit(old_point.point, new_point.point)
        if points is not None:
            pair = PointPair(
                old_point.result, points[0], new_point.result, points[1], old_point.doubt or new_point.doubt
            )
            found.setdefault(new_point.result.name, []).append(pair)
    return Matching(found, tuple(_unlike(old, new, found)), tuple(_alone(old, new, found)))


@dataclass(frozen=True, slots=True)
class _Point:
    """A point with all that it was measured with."""

    result: ExperimentResult
    point: Measurement
    facts: Parameters
    doubt: str = ""

    @property
    def key(self) -> str:
        """The same for like points of one kernel."""
        return json.dumps([self.result.kernel, self.facts], sort_keys=True)


def points_with_facts(run: Run) -> Iterator[tuple[ExperimentResult, Measurement, Parameters]]:
    """Each valid point of a Run with all that tells it from others."""
    for point in _points(run, _defaults(run)):
        yield point.result, point.point, point.facts


def _defaults(run: Run) -> dict[tuple[str, str], Scalar]:
    """What a kernel takes for an axis that is not given, so that a later version's new axis parts nothing."""
    return {
        (experiment.kernel, axis.name): axis.default
        for experiment in run.experiments
        for axis in experiment.declaration.axes
    }


def _points(run: Run, defaults: Mapping[tuple[str, str], Scalar]) -> Iterator[_Point]:
    doubts = {
        (finding.experiment, at): DISBELIEVED[finding.rule]
        for finding in run.findings
        if finding.rule in DISBELIEVED and finding.severity == "warning"
        for at in finding.points
    }
    for result in run.experiments:
        unstated = {name: value for (kernel, name), value in defaults.items() if kernel == result.kernel}
        filled = {} if run.imported_from else unstated
        for at, point in enumerate(result.points):
            if point.validity != "invalid" and result.kernel != "claim":
                facts = _facts(result, point, {**filled, **result.fixed, **point.parameters})
                yield _Point(result, point, facts, doubts.get((result.name, at), ""))


def _facts(result: ExperimentResult, point: Measurement, whole: Parameters) -> Parameters:
    """What tells this point from others: the parameters that matter, the page cache, and the network's path."""
    facts = {name: value for name, value in whole.items() if name not in _IGNORED}
    for axis in splits(result.declaration.axes):
        if not is_mixed(axis, whole):
            facts.pop(axis.split, None)
    if any(note.code == "direct_refused" for note in point.notes):
        facts["direct"] = False
    if result.resource == "network":
        way = str(facts.pop("server", "") or whole.get("path") or "")
        known = "server" in whole or way or point.details.get("loopback")
        if known:
            facts[WAY] = LOOPBACK if not way or is_loopback(way) else way
    return facts


def _exact(old: Sequence[_Point], new: Sequence[_Point]) -> dict[int, int]:
    """Indices of like points by the later one's: in the same experiment, or by their key where that is unique."""
    named: dict[tuple[str, str], int] = {}
    for at, point in enumerate(old):
        named.setdefault((point.result.name, point.key), at)
    keys, wanted = (Counter(point.key for point in points) for points in (old, new))
    alone = {point.key: at for at, point in enumerate(old) if keys[point.key] == 1}
    found = {}
    for at, point in enumerate(new):
        partner = named.get((point.result.name, point.key), alone.get(point.key) if wanted[point.key] == 1 else None)
        if partner is not None:
            found[at] = partner
    return found


def _across(old: Sequence[_Point], new: Sequence[_Point], taken: Mapping[int, int]) -> dict[int, int]:
    """The pairs of different tools: each point with the only one that it can be."""
    free_old = [at for at in range(len(old)) if at not in taken.values()]
    free_new = [at for at in range(len(new)) if at not in taken]
    can_be = {at: [index for index in free_old if not _find_differences(old[index], new[at])] for at in free_new}
    times = Counter(candidate for candidates in can_be.values() for candidate in candidates)
    return {at: some[0] for at, some in can_be.items() if len(some) == 1 and times[some[0]] == 1}


def _find_differences(first: _Point, second: _Point) -> list[str]:
    """The names by which two tools' points are different tests."""
    if first.result.resource != second.result.resource or _one_unit(first.point, second.point) is None:
        return [UNIT]
    left, right = _shared_facts(first), _shared_facts(second)
    return [
        name
        for name in _ACROSS
        if (name in left and name in right and left[name] != right[name])
        or (name in {*_STATED, *_LOADS} and (name in left) != (name in right))
    ]


def _shared_facts(point: _Point) -> Parameters:
    facts: Parameters = {name: value for name, value in point.facts.items() if name in _ACROSS and value is not None}
    if workers := point.facts.get("threads") or point.facts.get("streams"):
        facts[WORKERS] = workers
    if "iodepth" in facts:
        facts.setdefault("numjobs", 1)
    return facts


def _one_unit(old: Measurement, new: Measurement) -> tuple[Measurement, Measurement] | None:
    """Both points with their throughput in one unit; none where they have none in common."""
    if old.throughput.unit == new.throughput.unit:
        return old, new
    for left, right in ((as_rate(old), new), (old, as_rate(new))):
        if left is not None and right is not None and left.throughput.unit == right.throughput.unit:
            return left, right
    return None


def as_rate(point: Measurement) -> Measurement | None:
    """The point with its operations a second as its throughput; none where they are not known."""
    if point.rate is None or point.throughput.value <= 0:
        return None
    factor = point.rate.value / point.throughput.value
    return replace(point, throughput=point.rate, repeat_values=tuple(repeat * factor for repeat in point.repeat_values))


# --- what is left


def _unlike(old: Sequence[_Point], new: Sequence[_Point], found: Mapping[str, Sequence[PointPair]]) -> Iterator[Unlike]:
    """What parts the nearest points of each later experiment without a like point.

    The nearest are sought in the experiment of the same name; where nothing at all is alike, also in those of the same
    kernel and the same resource.
    """
    for name, points in _by_experiment(new).items():
        if name in found:
            continue
        first = points[0].result
        near = [point for point in old if point.result.name == name]
        if not near and not found:
            near = [point for point in old if point.result.kernel == first.kernel]
            near = near or [point for point in old if point.result.resource == first.resource]
        if near:
            tried = ((a, b) for a in islice(near, _MAX_TRIED) for b in islice(points, _MAX_TRIED))
            yield from min((list(_what_parts(a, b)) for a, b in tried), key=len)


def _what_parts(first: _Point, second: _Point) -> Iterator[Unlike]:
    name = second.result.name
    is_stated = all((load in first.facts) == (load in second.facts) for load in _LOADS)
    if first.result.load != second.result.load and first.result.kernel == second.result.kernel and is_stated:
        yield Unlike(name, LOAD, first.result.load, second.result.load)
    if _one_unit(first.point, second.point) is None:
        yield Unlike(name, UNIT, first.point.throughput.unit, second.point.throughput.unit)
    same_kernel = first.result.kernel == second.result.kernel
    left, right = (first.facts, second.facts) if same_kernel else (_shared_facts(first), _shared_facts(second))
    for fact in dict.fromkeys((*left, *right)):
        before, after = left.get(fact), right.get(fact)
        stated = before is not None and after is not None
        if before != after and (stated or same_kernel or fact in {*_STATED, *_LOADS}):
            yield Unlike(
                name, fact, before, after, second.result.axis(fact) if fact in right else first.result.axis(fact)
            )


def _alone(
    old: Sequence[_Point], new: Sequence[_Point], found: Mapping[str, Sequence[PointPair]]
) -> Iterator[tuple[str, int, int]]:
    ours, theirs = _by_experiment(new), _by_experiment(old)
    used: Counter[str] = Counter(pair.earlier.name for pairs in found.values() for pair in pairs)
    for name in dict.fromkeys((*theirs, *ours)):
        left = len(theirs.get(name, ())) - used[name]
        right = len(ours.get(name, ())) - len(found.get(name, ()))
        if left or right:
            yield name, left, right


def _by_experiment(points: Iterable[_Point]) -> dict[str, list[_Point]]:
    found: dict[str, list[_Point]] = {}
    for point in points:
        found.setdefault(point.result.name, []).append(point)
    return found
