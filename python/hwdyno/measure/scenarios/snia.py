"""A test of SNIA's specification on a file or a raw device, scaled by the profile and the budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.preparation import Preparation
from hwdyno.measure.scenarios.request import Request
from hwdyno.measure.scenarios.scenario import Bench, Scenario
from hwdyno.model.words import Run, UserError

if TYPE_CHECKING:
    from hwdyno.measure.dry_run import Line
    from hwdyno.measure.experiments.storage_snia import SniaTest
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan

# Axes that may differ from the specification: the place, the I/O engine, and the size.
MAY_GIVE = {"size", "ioengine", "direct", "offset"}


@dataclass(frozen=True, kw_only=True)
class SniaScenario(Scenario):
    """One test: its region is preconditioned, and its points are read in rounds."""

    has_earlier: bool = False
    test: SniaTest

    def prepares(self) -> tuple[Preparation, ...]:
        """The region, and what is written over it first."""
        from hwdyno.measure.experiments.storage_snia import PRECONDITION_TIMES

        size = PRECONDITION_TIMES * self.plan.data_bytes
        description = "preconditioning: sequential writes of 128 KiB"
        return (*super().prepares(), Preparation(description=description, where=self.plan.path, bytes=size))

    def points(self, write_bytes_s: float) -> list[Line]:
        """Every workload with what its rounds write at most: time decides how many there are, and how long."""
        from hwdyno.analysis.estimates import SNIA_ROUNDS
        from hwdyno.measure.dry_run import Line, estimate_writes
        from hwdyno.measure.experiments.storage_snia import CELL_S, ROUNDS, matches
        from hwdyno.measure.runner.snia import LONGEST_S, SHORTEST_S

        (planned,) = self.plan.experiments
        every = [point for point in planned.points if matches(point, self.test.each_round or {})]
        longest_s, lines = LONGEST_S.get(self.plan.profile.name, CELL_S), []
        for point in planned.points:
            min_s, max_s = (times * longest_s if point in every else longest_s for times in (SNIA_ROUNDS, ROUNDS))
            if self.plan.budget_s is not None:
                min_s = SNIA_ROUNDS * SHORTEST_S
                max_s = max(min_s, min(max_s, self.plan.budget_s / len(every)))
            most, _ = estimate_writes(planned, {**planned.fixed, **point, "time_based": True}, write_bytes_s, max_s)
            lines.append(Line(planned.experiment.name, point, most, 0.0, min_s, planned.declaration.axes))
        return lines

    def measure(self, plan: Plan, bench: Bench) -> Run:
        """Perform the test, without peers."""
        from hwdyno.measure.runner import snia

        return snia.run(plan, self.test, bench.host, bench.store, bench.run_id, bench.progress, explain=bench.explain)


def make(request: Request, host: Host) -> SniaScenario:
    """The test of the request."""
    from hwdyno.measure.experiments.storage_snia import TESTS

    names = request.experiments
    if len(names) != 1 or names[0] not in TESTS:
        raise UserError(f"storage snia takes one test: {', '.join(TESTS)}")
    test = TESTS[names[0]]
    return SniaScenario(plan=make_plan(test, request, host), test=test)


def make_plan(test: SniaTest, request: Request, host: Host) -> Plan:
    """The test's plan; its workloads are SNIA's own, regardless of the options."""
    from hwdyno.measure.plan import choose_budget
    from hwdyno.measure.workspace import check_place

    given, (_, path) = dict(request.axes), request.places[0]
    if extra := sorted(set(given) - MAY_GIVE):
        raise UserError(f"SNIA's tests define {', '.join(extra)} themselves; remove --{extra[0].replace('_', '-')}")
    if "size" not in given and request.profile != "quick" and path.is_block_device():
        # The specification is about the whole device.
        given["size"] = str(check_place(path, writes=True, destroy=request.destroy, serial=request.serial).device_bytes)
    budget_s = choose_budget(request.profile, False) if request.budget_s is None else request.budget_s
    return replace(request, load=None, peers=False, budget_s=budget_s).plan([(test.experiment, given)], host)


KIND = Kind(name="snia", command="storage snia", make=make)
