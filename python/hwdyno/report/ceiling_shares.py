"""What a Run reaches of its ceilings, by metric: ``--fail-under`` compares it with a share."""

from __future__ import annotations

from hwdyno.analysis.ceilings import Bound, bounds_for
from hwdyno.model.words import Run


def reached_shares(run: Run) -> dict[str, float]:
    """What the best valid point of each metric reaches of the tightest ceiling that bounds it, as a share of one."""
    best: dict[str, float] = {}
    for experiment in run.experiments:
        for point in experiment.points:
            tightest: dict[str, Bound] = {}
            for bound in bounds_for(experiment.ceilings, {**experiment.fixed, **point.parameters}):
                tightest.setdefault(bound.ceiling.metric, bound)
            for metric, bound in tightest.items():
                if point.validity != "invalid" and bound.unit == point.throughput.unit:
                    best[metric] = max(best.get(metric, 0.0), point.throughput.value / bound.value)
    return best
