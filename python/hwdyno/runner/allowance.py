"""The time left of a run's budget, and the share that an experiment and a point may use."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hwdyno.plan import SHORTEST_S, Plan, Planned, reading_s, timing
from hwdyno.runner import budget
from hwdyno.runner.bend import may_add
from hwdyno.runner.point import PointInWork


class Allowance:
    """The time of one run; it reads the plan's points and changes none of them."""

    def __init__(self, plan: Plan, points: Mapping[str, Sequence[PointInWork]]) -> None:
        self.points, self.plan = points, plan
        self.budget_s, self.given = plan.budget_s, plan.given
        self.may_add = {one.experiment.name: may_add(one) for one in plan.experiments}
        """By experiment: the number of points near its bends for which time is reserved."""
        self.started = time.monotonic() - plan.prepared_s
        self.deadline: float | None = None
        """When the current experiments have used their part of the budget."""
        self.taken_s: dict[str, float] = {}
        self.expected_s: dict[str, float] = {}
        """By kernel: the time of the readings so far without their peers', and in ``expected_s`` their estimate."""
        self.peers_s: dict[str, list[float]] = {}
        """By kernel: how much longer than the reading beside it each reading of a peer took."""
        self.timing = timing(plan, None)
        self.left_to_peers_s = math.inf
        """What readings of points without any leave to their peers, of the current experiments' time."""

    @property
    def left_s(self) -> float | None:
        """Seconds of the budget that are left; none without a budget."""
        return None if self.budget_s is None else self.budget_s - (time.monotonic() - self.started)

    def pace(self, planned: Planned) -> float:
        """Actual over estimated time of this kernel's readings so far; what is left of it should take as long.

        Before its first reading it is the least of any kernel: a machine that is slow in all is slow in this one.
        """
        kernel = planned.experiment.kernel
        kernels = [kernel] if kernel in self.expected_s else list(self.expected_s)
        return max(1.0, min((self.taken_s[one] / self.expected_s[one] for one in kernels), default=1.0))

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

    def took(self, planned: Planned, point: PointInWork, alone_s: float, peers_s: float, peers: int) -> None:
        """Record the time of one reading of a point, and of those of its peers."""
        point.spent_s += alone_s + peers_s
        kernel = planned.experiment.kernel
        self.taken_s[kernel] = self.taken_s.get(kernel, 0.0) + alone_s
        self.expected_s[kernel] = self.expected_s.get(kernel, 0.0) + self._once_s(planned, point)
        if peers:
            self.peers_s.setdefault(kernel, []).append(max(0.0, peers_s / peers - alone_s))

    def _learned(self, plan: Plan) -> Plan:
        """The plan with the overhead of its peers as it was so far: a slow peer says nothing of other kernels."""
        return replace(plan, experiments=tuple(map(self._with_overhead, plan.experiments)))

    def _with_overhead(self, planned: Planned) -> Planned:
        known = self.peers_s.get(planned.experiment.kernel)
        return replace(planned, peer_overhead_s=sum(known) / len(known)) if known else planned

    def share_out(self, plan: Plan) -> None:
        """How long and how often a point of the experiments is read, so that all fit into the time left."""
        plan = self._learned(plan)
        left, bends = self.left_s, sum(self.may_add[one.experiment.name] for one in plan.experiments)
        self.timing = timing(plan, None if left is None else left / self.pace_of_all(plan), bends)

    def fitted(self, rest: Plan) -> Plan:
        """The remaining experiments, with as many points as fit into the time left."""
        rest = self._learned(rest)
        return budget.fitted(rest, self.left_s, self.pace_of_all(rest))

    def set_deadline(self, rest: Plan, first: int = 1) -> None:
        """When the ``first`` experiments have had their part: what they need, and what leaves the others theirs."""
        left = self.left_s
        if left is None or "runtime" in self.given:
            return
        rest = self._learned(rest)
        needs = [self.pace(one) * budget.needs_s(one, rest, self.timing) for one in rest.experiments]
        part = sum(needs[:first]) / sum(needs) if sum(needs) else 1.0
        others = sum(needs[first:])
        grace = budget.GRACE * (self.budget_s or 0.0)
        # A noisy experiment may take half as much again, but not of the least repeats that the others need.
        most = max(left * part, min(1.5 * left * part, left - others))
        self.deadline = time.monotonic() + max(0.0, most) + grace * part

    def keep_up(self, points: Sequence[tuple[Planned, PointInWork]]) -> None:
        """Shorten what is to come where no time is left for points that nothing was read of: each has a reading.

        Where the shortest readings with their peers' still take too long, it is the peers that go without.
        """
        unread = [(planned, point) for planned, point in points if not point.readings and not point.done]
        self.left_to_peers_s = math.inf
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
        self.left_to_peers_s = left - sum(
            self.pace(planned) * self._once_s(planned, point) for planned, point in unread
        )

    def peers_fit(self, planned: Planned, point: PointInWork) -> bool:
        """Whether the peers of a point can be read without taking the time of points that nothing was read of."""
        once_s = self._once_s(planned, point)
        return self._with_overhead(planned).with_peers_s(self.plan, once_s) - once_s <= self.left_to_peers_s

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
        once_s = self._once_s(planned, point)
        return self.pace(planned) * self._with_overhead(planned).with_peers_s(self.plan, once_s)

    def _once_s(self, planned: Planned, point: PointInWork) -> float:
        return reading_s(planned, point.parameters, self.timing, self.given)

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
