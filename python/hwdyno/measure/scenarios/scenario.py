"""A scenario: its preparations, its points, and a context in which it can be measured."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

from hwdyno.measure.dry_run import Line, listing
from hwdyno.measure.plan import WRITE_BYTES_S, Plan
from hwdyno.measure.scenarios import data_file
from hwdyno.measure.scenarios.affordable import explain_left_out, list_unaffordable, uses
from hwdyno.measure.scenarios.on_demand import OnDemand, is_on_demand
from hwdyno.measure.scenarios.preparation import Preparation, Says
from hwdyno.model.words import Run, UserError
from hwdyno.system import signals
from hwdyno.system.processes import end_orphans

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.peers import Peer
    from hwdyno.measure.runner.observers import Keeper, Progress


REMOVAL_SHARE = 0.2
"""How long removing takes, as a share of making: ext4 frees the blocks of 16 GB in 3 s that took 12 s to write."""


def _nothing(_: Run) -> Iterable[str]:
    return ()


def _no_costs(_: Sequence[Line]) -> Iterable[str]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The means by which a plan is measured, and where its Run goes."""

    host: Host
    store: Keeper
    run_id: str
    progress: Progress
    peers: Sequence[Peer] = ()
    explain: Callable[[Run], Run] = lambda run: run


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What one command measures, with its preparations."""

    plan: Plan
    preparations: tuple[Preparation, ...] = ()
    needs: tuple[str, ...] = ()
    """Lines of a dry run about the load."""
    costs: Callable[[Sequence[Line]], Iterable[str]] = _no_costs
    """Lines beneath a dry run, of its points."""
    remarks: tuple[str, ...] = ()
    """Sentences shown first, such as the memory that it needs."""
    summary: Callable[[Run], Iterable[str]] = _nothing
    """Lines beneath the report."""
    has_earlier: bool = True
    """Whether its intervals include the variation between earlier Runs."""
    is_prepared_only: bool = False
    """Whether it only prepares files for the next command, and measures nothing."""

    def prepares(self) -> tuple[Preparation, ...]:
        """All that it has time to make, the data file that the runner lays out included."""
        plan = self._affordable()
        made = (preparation for preparation in self.preparations if not _is_for_nothing(preparation, self.plan, plan))
        return (*made, *data_file.list_preparations(self.plan))

    def _affordable(self) -> Plan:
        """The plan without what its budget has no time to prepare, as far as that is known before."""
        names = list_unaffordable(self.plan, self.preparations)
        kept = tuple(planned for planned in self.plan.experiments if planned.experiment.name not in names)
        return replace(self.plan, experiments=kept)

    def points(self, write_bytes_s: float) -> list[Line]:
        """Every point with the bytes that it writes and the time that it takes."""
        from hwdyno.measure.runner import budget

        whole_s = self.plan.budget_s
        left_s = None if whole_s is None else whole_s - self._made_s(write_bytes_s)
        return listing(budget.fit_plan(replace(self._affordable(), budget_s=left_s), left_s), write_bytes_s)

    def takes_s(self, write_bytes_s: float = WRITE_BYTES_S) -> float:
        """Seconds that it takes at least, with what it makes first."""
        return self._made_s(write_bytes_s) + sum(line.takes_s for line in self.points(write_bytes_s))

    def _made_s(self, write_bytes_s: float) -> float:
        return sum(preparation.seconds(write_bytes_s) for preparation in self.prepares())

    @contextlib.contextmanager
    def ready(self, host: Host, says: Says) -> Iterator[Plan]:
        """The plan, ready to be measured; what is prepared is removed at the end, also on errors.

        What experiments read, and takes time to make, is made just before the first of them is measured.
        """
        from hwdyno.measure.hosts.measured_site import make_site

        signals.check()
        end_orphans()
        of_one_host = [preparation for preparation in self.preparations if not preparation.is_of_a_site]
        if of_one_host and make_site(host).several:
            description = of_one_host[0].description or "what this measures must be prepared"
            raise UserError(f"{description}: works on one machine only, and this site has several hosts")
        began = time.monotonic()
        with signals.keeping(), contextlib.ExitStack() as outer:
            made = contextlib.ExitStack()
            demand = OnDemand(self.plan, host, made, [])
            outer.push(_delay_exit(made, demand))
            outer.enter_context(signals.at_leave(signals.Stage.REMOVE, made.close))
            plan = self.plan
            for at, preparation in enumerate(self.preparations):
                plan = _leave_out(plan, self.preparations[at:], time.monotonic() - began, says)
                if _is_for_nothing(preparation, self.plan, plan):
                    continue
                if self._waits(host) and is_on_demand(preparation, plan):
                    demand.unmade.append(preparation)
                    continue
                if not made.enter_context(preparation.make_available(host, says)):
                    kept = (
                        planned
                        for planned in plan.experiments
                        if planned.experiment.name not in preparation.experiments
                    )
                    plan = replace(plan, experiments=tuple(kept))
            made_s = time.monotonic() - began
            names = {planned.experiment.name for planned in plan.experiments}
            ending_s = REMOVAL_SHARE * (made_s + demand.unmade_s(names))
            yield replace(plan, prepared_s=made_s, ending_s=ending_s, making=demand if demand.unmade else None)

    def _waits(self, host: Host) -> bool:
        """Whether what an experiment reads can wait until it is measured: its plan is measured here, in its order."""
        from hwdyno.measure.hosts.elsewhere import Elsewhere

        in_order = type(self).measure is Scenario.measure
        return in_order and not self.is_prepared_only and not isinstance(host, Elsewhere)

    def measure(self, plan: Plan, bench: Bench) -> Run:
        """Measure the plan that ``ready`` gave."""
        from hwdyno.measure import runner
        from hwdyno.measure.hosts.elsewhere import Elsewhere

        if isinstance(bench.host, Elsewhere):
            from hwdyno.measure.runner import elsewhere

            return elsewhere.run(
                plan, bench.host, bench.store, bench.run_id, progress=bench.progress, explain=bench.explain
            )
        return runner.run(
            plan, bench.host, bench.store, bench.run_id,
            progress=bench.progress, peers=bench.peers, explain=bench.explain,
        )  # fmt: skip


def together(scenarios: Sequence[Scenario]) -> Scenario:
    """Several as one, measured as the first one's plan says; raises ``UserError`` where two have a name in common."""
    first = scenarios[0]
    experiments = tuple(planned for scenario in scenarios for planned in scenario.plan.experiments)
    names = [planned.experiment.name for planned in experiments]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"an experiment is named twice:  {', '.join(twice)}")
    return replace(
        first,
        plan=replace(
            first.plan,
            experiments=experiments,
            given=frozenset().union(*(scenario.plan.given for scenario in scenarios)),
        ),
        preparations=tuple(dict.fromkeys(made for scenario in scenarios for made in scenario.preparations)),
        needs=tuple(text for scenario in scenarios for text in scenario.needs),
        remarks=tuple(text for scenario in scenarios for text in scenario.remarks),
        summary=lambda run: [line for scenario in scenarios for line in scenario.summary(run)],
    )


def _leave_out(plan: Plan, unmade: Sequence[Preparation], spent_s: float, says: Says) -> Plan:
    """The plan without the experiments for which the budget has no time left to make what they read."""
    names = list_unaffordable(plan, unmade, spent_s)
    if not names:
        return plan
    why = explain_left_out(plan, names)
    says(why)
    kept = tuple(planned for planned in plan.experiments if planned.experiment.name not in names)
    return replace(plan, experiments=kept, left_out=(*plan.left_out, why))


def _is_for_nothing(preparation: Preparation, whole: Plan, plan: Plan) -> bool:
    """Whether what it makes was for experiments that are all left out."""
    users, left = ([planned for planned in which.experiments if uses(planned, preparation)] for which in (whole, plan))
    return bool(users) and not left


def _delay_exit(
    stack: contextlib.ExitStack, demand: OnDemand
) -> Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], bool | None]:
    """The stack's end, for which a process that leaves waits.

    What an interrupt of ``demand`` left behind ends with it, although the Run is kept.
    """

    def end(
        kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        stop = demand.interrupted
        if error is None and stop is not None:
            kind, error, traceback = type(stop), stop, stop.__traceback__
        with signals.delay_exit():
            return stack.__exit__(kind, error, traceback)

    return end
