"""The way that the command line and the Python API share: a request becomes a Run with its findings, kept in a store.

It joins the two sides of the wall: ``measure`` makes the Run, ``explain`` judges it. It parses no words and prints
nothing; what is to be said goes to the progress that it is given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from types import TracebackType

    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan
    from hwdyno.measure.runner.observers import Progress
    from hwdyno.measure.scenarios import Scenario
    from hwdyno.model.words import Run
    from hwdyno.system.store import Store


class Shown(Protocol):
    """A progress that is shown while a context lasts."""

    def __enter__(self) -> Progress:
        """Begin to show it."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> object:
        """End it."""
        ...

    def says(self, text: str) -> None:
        """One line about what is prepared."""
        ...


def this_site() -> Host:
    """The host that points run on: this machine, or the site of its ranks or of the agents in ``HWDYNO_AGENTS``."""
    from hwdyno.measure.hosts import ranks

    if (site := ranks.site()) is not None:
        return site
    if commands := os.environ.get("HWDYNO_AGENTS"):
        from hwdyno.measure.hosts.agents_site import of_commands

        return of_commands(commands)
    from hwdyno.measure.hosts.local import Local

    return Local()


MEASURE_ON_RANKS = {
    *("run", "storage", "memory", "compute", "network", "object", "training", "inference", "together", "study"),
}
"""Commands that measure on every rank of a start by ``mpirun``; any other runs on rank 0 alone."""
LAUNCHERS = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "HWDYNO_RENDEZVOUS"}
"""Variables of the environment, of which a launcher of ranks sets one."""


def only_serves(command: str) -> bool:
    """Whether this process was one of several ranks, and served rank 0, which runs the command, until its end."""
    if not LAUNCHERS & os.environ.keys():
        return False
    from hwdyno.measure.hosts.launch import find_launch

    launch = find_launch()
    if launch is None:
        return False
    if command in MEASURE_ON_RANKS:
        from hwdyno.measure.hosts import ranks

        serves = command == "network"
        if launch.rank:
            ranks.serve(launch, serves=serves)
        else:
            ranks.join(launch, serves=serves)
    return bool(launch.rank)


def measure_scenario(scenario: Scenario, host: Host, store: Store, shown: Shown, spent_s: float = 0.0) -> Run:
    """Prepare a scenario, measure it, explain the Run and keep it in the store.

    ``spent_s`` is the time since the command began. Raises ``Interrupted`` where it was stopped before it could measure
    a point, and ``UserError`` for what cannot be prepared; what goes wrong later degrades the Run.
    """
    run: Run | None = None
    try:
        with scenario.ready(host, shown.says) as plan, shown as progress:
            run = _measure(scenario, plan, host, store, progress, spent_s)
    except OSError as error:  # Of the clean-up: it costs nothing that was measured.
        if run is None:
            raise
        shown.says(f"what was made is not all removed: {error}")
    return run


def _measure(scenario: Scenario, plan: Plan, host: Host, store: Store, progress: Progress, spent_s: float) -> Run:
    from hwdyno.measure import peers
    from hwdyno.measure.scenarios.scenario import Bench
    from hwdyno.system.store import new_id

    def judge_run(run: Run) -> Run:
        from hwdyno.explain.repeatability import with_stored
        from hwdyno.report.scorecard import explain_run

        return explain_run(with_stored(run, store) if scenario.has_earlier else run)

    # Findings and report load and do about twice as much as the start did, at this machine's present speed.
    plan = replace(plan, prepared_s=plan.prepared_s + spent_s, ending_s=plan.ending_s + 2 * spent_s)
    bench = Bench(
        host=host,
        store=store,
        run_id=new_id(),
        progress=progress,
        peers=peers.find_installed(plan, host, progress.says),
        explain=judge_run,
    )
    return scenario.measure(plan, bench)


def take_reading(kernel: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """One Reading of a kernel on this site, which an interrupt ends early."""
    from hwdyno.system import signals

    with signals.keeping():
        return this_site().run(kernel, dict(parameters))
