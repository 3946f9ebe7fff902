"""The time left of a run's budget, and the share that an experiment and a point may use."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hwdyno.measure.plan import FEWER_QUOTED, QUOTED_REPEATS, SHORTEST_S, Plan, Planned, Timing, reading_s, timing
from hwdyno.measure.runner import budget
from hwdyno.measure.runner.near_knee import may_add
from hwdyno.measure.runner.point import PointInWork
from hwdyno.model.words import Parameters

SLOW_SHARE = 0.02
"""Share of the budget that one reading may take that is repeated all through the run."""
LONG_SHARE = 0.2
"""Share of the budget above which a reading has no warm-up before it, which would cost another point."""


Middle = Callable[[Sequence[float]], float]
"""A median of an even number of values that is one of them: the lower or the higher."""


class Allowance:
    """The time of one run; it reads the plan's points and changes none of them."""

    def __init__(self, plan: Plan, points: Mapping[str, Sequence[PointInWork]]) -> None:
        self.points, self.plan = points, plan
        # Where a machine is slow the end takes long, too; some time for readings stays.
        self.budget_s = None if plan.budget_s is None else max(plan.budget_s / 2, plan.budget_s - plan.ending_s)
        self.given = plan.given
        self.may_add = {planned.experiment.name: may_add(planned) for planned in plan.experiments}
        """The number of points near an experiment's bends for which time is reserved."""
        self.started = time.monotonic() - plan.prepared_s
        self.deadline: float | None = None
        """When the current experiments have used their part of the budget."""
        self.excess_s: dict[str, list[float]] = {}
        """How much longer than estimated each reading of a kernel took so far without its peers'."""
        self._middles: dict[Middle, dict[str, float]] = {statistics.median_low: {}, statistics.median_high: {}}
        """Each kernel's median excess, the lower and the higher one."""
        self._as_read_so_far: dict[tuple[int, Middle], tuple[Planned, Planned]] = {}
        self._turns: dict[int, tuple[Planned, Timing, Parameters, float]] = {}
        """Each point's next turn with what it was estimated from: a run's end is estimated before each reading."""
        self.peers_s: dict[str, list[float]] = {}
        """How much longer than the reading beside it each reading of a kernel's peer took."""
        self.timing = timing(plan, None)
        self.of_quoted: Timing | None = None
        """How long and how often points that headlines quote are read, where they are read all through the run."""
        self.left_to_peers_s = math.inf
        """What readings of points without any leave to their peers, of the current experiments' time."""

    @property
    def run_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.started

    @property
    def left_s(self) -> float | None:
        """Seconds of the budget that are left for readings and their explanation; none without a budget."""
        return None if self.budget_s is None else self.budget_s - self.run_s - self._unmade_s

    @property
    def _unmade_s(self) -> float:
        """Seconds for making what the experiments that are still to be read lack."""
        if self.plan.making is None:
            return 0.0
        return self.plan.making.unmade_s(
            {name for name, points in self.points.items() if not all(point.done for point in points)}
        )

    @property
    def unreserved_s(self) -> float | None:
        """Seconds of the budget that are left to points which no headline quotes: half at least; none without one."""
        left = self.left_s
        if left is None or self.of_quoted is None:
            return left
        every = (
            (planned, point) for planned in self.plan.experiments for point in self.list_points(planned) if point.quoted
        )
        return max(left / 2, left - sum(self._due_s(*pair) for pair in every if not self.slow(*pair)))

    @property
    def slow_s(self) -> float:
        """Longest time of a reading that is taken several times all through the run."""
        return SLOW_SHARE * (self.budget_s or 0.0)

    def slow(self, planned: Planned, point: PointInWork) -> bool:
        """Whether a quoted point waits for the end with its further readings, and reserves no time for them."""
        return bool(point.readings) and self.turn_s(planned, point) > self.slow_s

    def list_points(self, planned: Planned) -> Sequence[PointInWork]:
        """The points of an experiment."""
        return self.points[planned.experiment.name]

    def choose_timing(self, point: PointInWork) -> Timing:
        """How long and how often a point is read."""
        return self.of_quoted if point.quoted and self.of_quoted is not None else self.timing

    def _due_s(self, planned: Planned, point: PointInWork) -> float:
        """Seconds for the least repeats that a point still lacks."""
        lacking = 0 if point.done else max(0, self.choose_timing(point).least(point.quoted) - len(point.readings))
        return lacking * self.turn_s(planned, point) if lacking else 0.0

    @property
    def late(self) -> bool:
        """Whether the current experiments have used their part of the budget."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def overruns(self, planned: Planned, point: PointInWork, readings: int = 1) -> bool:
        """Whether this many more readings of a point, without its peers', would end beyond the budget and its grace."""
        left = self.left_s
        if left is None or "runtime" in self.given:
            return False
        # Of readings that differ in length, the longer half: at the end of a budget one too many is worse.
        once_s = self._once_s(planned, point, statistics.median_high)
        return left + budget.GRACE * (self.budget_s or 0.0) < readings * once_s

    def is_long(self, planned: Planned, point: PointInWork, readings: int = 1) -> bool:
        """Whether this many readings of a point take more than ``LONG_SHARE`` of the budget.

        Never of instructions that may be missing: the warm-up finds that out.
        """
        if self.budget_s is None or "instructions" in planned.experiment.needs:
            return False
        return readings * self._once_s(planned, point) > LONG_SHARE * self.budget_s

    @property
    def is_spent(self) -> bool:
        """Whether no further reading fits into the budget."""
        left = self.left_s
        return left is not None and left < -budget.GRACE * (self.budget_s or 0.0) / 2 and bool(self.deadline)

    def took(self, planned: Planned, point: PointInWork, alone_s: float, peers_s: float, peers: int) -> None:
        """Record the time of one reading of a point, and of those of its peers."""
        point.spent_s += alone_s + peers_s
        estimate_s = reading_s(planned, point.parameters, self.choose_timing(point), self.given)
        self.learn(planned, alone_s - estimate_s)
        if peers:
            self.peers_s.setdefault(planned.experiment.kernel, []).append(max(0.0, peers_s / peers - alone_s))

    def learn(self, planned: Planned, excess_s: float) -> None:
        """How much longer than estimated one reading of a kernel took, a warm-up included."""
        excesses = self.excess_s.setdefault(planned.experiment.kernel, [])
        excesses.append(excess_s)
        # A point far slower than the others of its kernel is no measure of them.
        for middle, known in self._middles.items():
            known[planned.experiment.kernel] = middle(excesses)

    def _with_overheads(self, plan: Plan) -> Plan:
        """The plan with the overheads of its readings and of its peers as they were so far."""
        return replace(plan, experiments=tuple(map(self._as_read, plan.experiments)))

    def _as_read(self, planned: Planned, middle: Middle = statistics.median_low) -> Planned:
        """A kernel's excess before its first reading is the least of any: a machine that is slow in all is in this."""
        kernel, known = planned.experiment.kernel, self._middles[middle]
        excess_s = known[kernel] if kernel in known else max(0.0, min(known.values(), default=0.0))
        peers = self.peers_s.get(kernel)
        overhead_s = sum(peers) / len(peers) if peers else planned.peer_overhead_s
        of, so_far = self._as_read_so_far.get((id(planned), middle), (None, None))
        if of is planned and so_far and (so_far.excess_s, so_far.peer_overhead_s) == (excess_s, overhead_s):
            return so_far
        as_read = replace(planned, excess_s=excess_s, peer_overhead_s=overhead_s)
        self._as_read_so_far[id(planned), middle] = (planned, as_read)
        return as_read

    def share_out(self, plan: Plan) -> None:
        """How long and how often a point of the experiments is read, so that all fit into the time left."""
        plan = self._with_overheads(plan)
        bends = sum(self.may_add[planned.experiment.name] for planned in plan.experiments)
        for fewer in (QUOTED_REPEATS, *FEWER_QUOTED):
            if self.of_quoted is not None:
                self.of_quoted = replace(self.of_quoted, quoted_min=min(fewer, self.of_quoted.quoted_min))
            self.timing = timing(plan, self.unreserved_s, bends)
            # Where readings take longer than planned, other points need a second one more than these a seventh.
            if self.of_quoted is None or self.timing.repeats_min > 1 or plan.profile.repeats_min == 1:
                break

    def fit_plan(self, remaining: Plan) -> Plan:
        """The remaining experiments, with as many points as fit into the time left."""
        return budget.fit_plan(self._with_overheads(remaining), self.left_s)

    def set_deadline(self, remaining: Plan, first: int = 1) -> None:
        """When the ``first`` experiments have had their part: what they need, and what leaves the others theirs."""
        left = self.unreserved_s
        if left is None or "runtime" in self.given:
            return
        remaining = self._with_overheads(remaining)
        needs = [budget.needs_s(planned, remaining, self.timing) for planned in remaining.experiments]
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
        self.left_to_peers_s = left - sum(self._once_s(planned, point) for planned, point in unread)

    def peers_fit(self, planned: Planned, point: PointInWork) -> bool:
        """Whether the peers of a point can be read without taking the time of points that nothing was read of."""
        once_s = self._once_s(planned, point)
        return self._as_read(planned).with_peers_s(self.plan, once_s) - once_s <= self.left_to_peers_s

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
            needed += sum(self._due_s(planned, point) for point in points)
        return needed

    def turn_s(self, planned: Planned, point: PointInWork) -> float:
        """Seconds that one more reading of a point will take, with its peers': as those before, if there were any."""
        if point.readings:
            return point.spent_s / len(point.readings)
        as_read, chosen = self._as_read(planned), self.choose_timing(point)
        known = self._turns.get(id(point))
        if known and known[0] is as_read and known[1] is chosen and known[2] is point.parameters:
            return known[3]
        turn_s = as_read.with_peers_s(self.plan, reading_s(as_read, point.parameters, chosen, self.given))
        self._turns[id(point)] = (as_read, chosen, point.parameters, turn_s)
        return turn_s

    def _once_s(self, planned: Planned, point: PointInWork, middle: Middle = statistics.median_low) -> float:
        return reading_s(self._as_read(planned, middle), point.parameters, self.choose_timing(point), self.given)

    def ends(self, point: PointInWork, target: float, experiments: Sequence[Planned]) -> str:
        """What ends a point: ``sure`` (within ``target``), ``repeats`` or ``time``; empty if it goes on."""
        repeats, chosen, left = len(point.readings), self.choose_timing(point), self.left_s
        if self.late or (point.quoted and self.of_quoted is not None and left is not None and left < 0):
            return "time"
        ended = point.ends(chosen, target)
        if ended or repeats < chosen.least(point.quoted):
            return ended
        if left is not None and left < self.needed_s(experiments) + point.spent_s / repeats:
            return point.ends(chosen, target, hurried=True) or "time"
        return ""
