"""The time left of a run's budget, and the share that an experiment and a point may use."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hwdyno.plan import PEER_OVERHEAD_S, SHORTEST_S, Plan, Planned, reading_s, timing
from hwdyno.runner import budget
from hwdyno.runner.bend import may_add
from hwdyno.runner.point import PointInWork


class Allowance:
    """The time of one run; it reads the plan's points and changes none of them."""

    def __init__(self, plan: Plan, points: Mapping[str, Sequence[PointInWork]], peers: Sequence[str]) -> None:
        self.points, self.peers = points, peers
        self.budget_s, self.given = plan.budget_s, plan.given
        self.may_add = {one.experiment.name: may_add(one) for one in plan.experiments}
        """By experiment: the number of points near its bends for which time is reserved."""
        self.started = time.monotonic() - plan.prepared_s
        self.deadline: float | None = None
        """When the current experiments have used their part of the budget."""
        self.taken_s: dict[str, float] = {}
        self.expected_s: dict[str, float] = {}
        """By kernel: the time of the readings so far, and in ``expected_s`` their estimate."""
        self.timing = timing(plan, None)

    @property
    def left_s(self) -> float | None:
        """Seconds of the budget that are left; none without a budget."""
        return None if self.budget_s is None else self.budget_s - (time.monotonic() - self.started)

    def pace(self, planned: Planned) -> float:
        """Actual over estimated time of this kernel's readings so far, or of all; what is left should take as long."""
        kernel = planned.experiment.kernel
        kernels = [kernel] if kernel in self.expected_s else list(self.expected_s)
        expected_s = sum(self.expected_s[one] for one in kernels)
        return max(1.0, sum(self.taken_s[one] for one in kernels) / expected_s) if expected_s else 1.0

    def pace_of_all(self, plan: Plan) -> float:
        """The pace of a plan's experiments, each weighted with the time of its shortest readings."""
        planned = [one for one in plan.experiments if one.points]
        least = [budget.least_s(one, plan) for one in planned]
        slowed = (self.pace(one) * seconds for one, seconds in zip(planned, least, strict=True))
        return sum(slowed) / sum(least) if sum(least) else 1.0

    @property
    def late(self) -> bool:
        """Whether the current experiments have used their part of the budget."""
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def spent(self) -> bool:
        """Whether no further reading fits into the budget."""
        left = self.left_s
        return left is not None and left < -budget.GRACE * (self.budget_s or 0.0) / 2 and bool(self.deadline)

    def took(self, planned: Planned, point: PointInWork, seconds: float) -> None:
        """Record the time of one reading of a point, with its peers'."""
        point.spent_s += seconds
        kernel = planned.experiment.kernel
        self.taken_s[kernel] = self.taken_s.get(kernel, 0.0) + seconds
        self.expected_s[kernel] = self.expected_s.get(kernel, 0.0) + self._expected_s(planned, point)

    def share_out(self, plan: Plan) -> None:
        """How long and how often a point of the experiments is read, so that all fit into the time left."""
        left, bends = self.left_s, sum(self.may_add[one.experiment.name] for one in plan.experiments)
        self.timing = timing(plan, None if left is None else left / self.pace_of_all(plan), bends)

    def fitted(self, rest: Plan) -> Plan:
        """The remaining experiments, with as many points as fit into the time left."""
        return budget.fitted(rest, self.left_s, self.pace_of_all(rest))

    def set_deadline(self, rest: Plan, first: int = 1) -> None:
        """When the ``first`` experiments have had their part: what they need, and what leaves the others theirs."""
        left = self.left_s
        if left is None or "runtime" in self.given:
            return
        needs = [self.pace(one) * budget.needs_s(one, rest, self.timing) for one in rest.experiments]
        part = sum(needs[:first]) / sum(needs) if sum(needs) else 1.0
        others = sum(needs[first:])
        grace = budget.GRACE * (self.budget_s or 0.0)
        # A noisy experiment may take half as much again, but not of the least repeats that the others need.
        most = max(left * part, min(1.5 * left * part, left - others))
        self.deadline = time.monotonic() + max(0.0, most) + grace * part

    def keep_up(self, points: Sequence[tuple[Planned, PointInWork]]) -> None:
        """Shorten what is to come where no time is left for points that nothing was read of: each has a reading."""
        unread = [(planned, point) for planned, point in points if not point.readings and not point.done]
        if self.deadline is None or not unread:
            return
        left = self.deadline - time.monotonic()
        needed = sum(self.turn_s(planned, point) for planned, point in unread)
        if needed <= left:
            return
        # Only timed regions can be shortened; the overhead stays.
        now = self.timing
        timed = (now.runtime_s + now.ramp_s) * sum(planned.experiment.runtime_share for planned, _ in unread)
        overhead_s = max(0.0, needed - timed)
        share = max(0.0, left - overhead_s) / max(1e-9, needed - overhead_s)
        runtime_s = max(min(SHORTEST_S, now.runtime_s), now.runtime_s * share)
        ramp_s = min(now.ramp_s, max(0.05, now.ramp_s * share))
        self.timing = replace(now, runtime_s=runtime_s, ramp_s=ramp_s, repeats_min=1)

    def needed_s(self, experiments: Sequence[Planned]) -> float:
        """Seconds for the least repeats of every point that still lacks them, those near the bends, and warm-ups."""
        needed = 0.0
        for planned in experiments:
            points = self.points[planned.experiment.name]
            if points and not any(point.done or point.readings for point in points):
                needed += self.turn_s(planned, points[0])
            bends = self.may_add[planned.experiment.name]
            if bends:
                needed += bends * self.timing.repeats_min * self.turn_s(planned, points[0])
            for point in points:
                if not point.done:
                    needed += self.turn_s(planned, point) * max(0, self.timing.repeats_min - len(point.readings))
        return needed

    def turn_s(self, planned: Planned, point: PointInWork) -> float:
        """Seconds that one more reading of a point will take, with its peers': as those before, if there were any."""
        if point.readings:
            return point.spent_s / len(point.readings)
        return self.pace(planned) * self._expected_s(planned, point)

    def _expected_s(self, planned: Planned, point: PointInWork) -> float:
        once = reading_s(planned, point.parameters, self.timing, self.given)
        peers = sum(name in planned.experiment.peers for name in self.peers)
        return once + peers * (once + PEER_OVERHEAD_S)

    def ends(self, point: PointInWork, target: float, experiments: Sequence[Planned]) -> str:
        """What ends a point: ``sure`` (within ``target``), ``repeats`` or ``time``; empty if it goes on."""
        repeats = len(point.readings)
        if self.late:
            return "time"
        ended = point.ends(self.timing, target)
        if ended or repeats < self.timing.repeats_min:
            return ended
        left = self.left_s
        if left is not None and left < self.needed_s(experiments) + point.spent_s / repeats:
            return point.ends(self.timing, target, hurried=True) or "time"
        return ""
