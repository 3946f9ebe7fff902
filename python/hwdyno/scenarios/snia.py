"""A test of SNIA's specification on a file or a raw device, scaled by the profile and the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hwdyno.scenarios import Kind
from hwdyno.scenarios.preparation import Preparation
from hwdyno.scenarios.request import Request
from hwdyno.scenarios.scenario import Scenario
from hwdyno.words import Run, UserError

if TYPE_CHECKING:
    from hwdyno.experiments.storage_snia import SniaTest
    from hwdyno.hosts import Host
    from hwdyno.peers import Peer
    from hwdyno.plan import Plan
    from hwdyno.runner.progress import Keeper, Progress

# Axes that may differ from the specification: the place, the I/O engine, and the size.
MAY_GIVE = {"size", "ioengine", "direct", "offset"}


@dataclass(frozen=True, kw_only=True)
class SniaScenario(Scenario):
    """One test: its region is preconditioned, and its points are read in rounds."""

    has_earlier: bool = False
    test: SniaTest

    def prepares(self) -> tuple[Preparation, ...]:
        """The region, and what is written over it first."""
        from hwdyno.experiments.storage_snia import PRECONDITION_TIMES

        size = PRECONDITION_TIMES * self.plan.data_bytes
        what = "preconditioning: sequential writes of 128 KiB"
        return (*super().prepares(), Preparation(what=what, where=self.plan.path, bytes=size))

    def measure(
        self,
        plan: Plan,
        host: Host,
        store: Keeper,
        run_id: str,
        progress: Progress,
        peers: Sequence[Peer],
        explain: Callable[[Run], Run],
    ) -> Run:
        """Perform the test, without peers."""
        from hwdyno.runner import snia

        return snia.run(plan, self.test, host, store, run_id, progress, explain=explain)


def make(request: Request, host: Host) -> SniaScenario:
    """The test of the request."""
    from hwdyno.experiments.storage_snia import TESTS

    names = request.options["tests"]
    if len(names) != 1 or names[0] not in TESTS:
        raise UserError(f"storage snia takes one test: {', '.join(TESTS)}")
    test = TESTS[names[0]]
    return SniaScenario(plan=plan_of(test, request, host), test=test)


def plan_of(test: SniaTest, request: Request, host: Host) -> Plan:
    """The test's plan; its workloads are SNIA's own, whatever the options."""
    from hwdyno.plan import budget_of
    from hwdyno.workspace import check_place

    given, (_, path) = dict(request.axes), request.places[0]
    if extra := sorted(set(given) - MAY_GIVE):
        raise UserError(f"SNIA's tests define {', '.join(extra)} themselves; remove --{extra[0].replace('_', '-')}")
    consent = {name: request.options.get(name, "") for name in ("destroy", "serial")}
    if "size" not in given and request.profile != "quick" and path.is_block_device():
        # The specification is about the whole device.
        given["size"] = str(check_place(path, writes=True, **consent).device_bytes)
    budget_s = budget_of(request.profile, False) if request.budget_s is None else request.budget_s
    plan = replace(request, load=None, peers=False, budget_s=budget_s).plan([(test.experiment, given)], host)
    return replace(plan, **consent)


KIND = Kind(name="snia", command="storage", make=make)
