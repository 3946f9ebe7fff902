"""A mounted bucket beside its store, where one Run measured the mount and the other one the store."""

from __future__ import annotations

import math
from dataclasses import replace

from hwdyno.explain.comparison.differences import is_one_machine
from hwdyno.explain.findings.object_mount import find_mount, object_mount
from hwdyno.explain.findings.rule import Case
from hwdyno.explain.findings.summary import make_finding
from hwdyno.explain.repeatability import half_width, unknown
from hwdyno.model.kernels import OBJECT_REQUESTS
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Run


def find_mount_cost(before: Run, after: Run) -> Finding | None:
    """What the mount costs, by the rule for both in one Run; none unless one machine measured both."""
    for mount, store in ((before, after), (after, before)):
        requests = [result for result in store.experiments if result.kernel == OBJECT_REQUESTS]
        files = [result for result in mount.experiments if result.kernel != OBJECT_REQUESTS]
        if find_mount(mount.machine) is None or not requests or not is_one_machine(before, after):
            continue
        joined = replace(mount, experiments=tuple(map(_between_runs, (*files, *requests))), findings=())
        verdict = object_mount(Case(joined))
        if verdict is not None:
            return make_finding("object_mount", verdict, None)
    return None


def _between_runs(result: ExperimentResult) -> ExperimentResult:
    """The experiment with intervals that hold for another Run too: with the variance between Runs."""
    more = half_width(result.run_to_run or unknown())

    def widen(point: Measurement) -> Measurement:
        value = point.throughput.value
        if value <= 0:
            return point
        low, high = (value if end is None else end for end in (point.throughput.low, point.throughput.high))
        below, above = (math.hypot(abs(end / value - 1), more) for end in (low, high))
        wide = replace(point.throughput, low=max(0.0, value * (1 - below)), high=value * (1 + above))
        return replace(point, throughput=wide)

    return replace(result, points=tuple(map(widen, result.points)))
