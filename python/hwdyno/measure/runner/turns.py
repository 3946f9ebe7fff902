"""Points that headlines quote are read in turn, first and again all through the run: when the next turn is due."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.measure.plan import Plan, Planned
from hwdyno.measure.runner.allowance import Allowance
from hwdyno.measure.runner.point import PointInWork

FIRST_SHARE = 0.3
"""Share of the budget that the first turn may take."""


class Turns:
    """The turns of the points that headlines quote.

    A machine's speed drifts within minutes: readings of one minute agree with each other on a speed that the next
    run does not find. None are taken in turn without a budget, or where the user settled the time of a reading.
    """

    def __init__(self, plan: Plan, allowance: Allowance) -> None:
        self.plan, self.allowance = plan, allowance
        self.points: list[tuple[Planned, PointInWork]] = []
        self.left = 0
        """Turns that are still to come before the end."""
        self.next_s = self.every_s = 0.0
        """When the next one is due since the run began, and the time from one to the next."""
        self.began = False
        """Whether the first one is over."""
        self.first_s = 0.0
        """Most that the first one may take."""
        allowance.share_out(plan)
        if plan.budget_s is None or "runtime" in plan.given or allowance.timing.least(quoted=True) == 1:
            return
        for planned in plan.experiments:
            quoted = [point for point in allowance.list_points(planned) if point.parameters in planned.quoted]
            self.points += [(planned, point) for point in quoted]
        if not self.points:
            return
        for _, point in self.points:
            point.quoted = True
        allowance.of_quoted = allowance.timing
        self.left = allowance.timing.least(quoted=True)
        self.every_s = (allowance.left_s or 0.0) / self.left
        self.next_s = allowance.run_s
        self.first_s = FIRST_SHARE * (allowance.left_s or 0.0)

    @property
    def experiments(self) -> tuple[Planned, ...]:
        """Those that they are points of."""
        return tuple({planned.experiment.name: planned for planned, _ in self.points}.values())

    @property
    def others(self) -> Plan:
        """The plan without the points that are read in turn."""
        bare = (
            replace(
                planned,
                quoted=(),
                points=tuple(p.parameters for p in self.allowance.list_points(planned) if not p.quoted),
            )
            for planned in self.plan.experiments
        )
        return replace(self.plan, experiments=tuple(planned for planned in bare if planned.points))

    @property
    def too_long(self) -> bool:
        """Whether the first turn has used its share of the budget."""
        return not self.began and self.allowance.run_s > self.next_s - self.every_s + self.first_s

    def end_first(self) -> None:
        """Points that the first turn had no time for are measured with those of their experiments."""
        self.began = True
        for _, point in self.points:
            point.quoted = bool(point.readings) or point.done
        self.points = [(planned, point) for planned, point in self.points if point.quoted]

    @property
    def due(self) -> bool:
        """Whether it is time for the next turn."""
        return self.left > 0 and self.allowance.run_s >= self.next_s

    def take(self) -> list[tuple[Planned, PointInWork]]:
        """The points that are read in this turn."""
        self.left -= 1
        self.next_s += self.every_s
        return [pair for pair in self.points if not pair[1].done and not self.allowance.slow(*pair)]

    def over(self, planned: Planned, point: PointInWork) -> bool:
        """Whether the budget has no time for one more reading of a point."""
        left = self.allowance.left_s
        if not point.quoted or left is None:
            return False
        needed = self.allowance.turn_s(planned, point) if point.readings else 0.0
        return left + self.allowance.slow_s < needed
