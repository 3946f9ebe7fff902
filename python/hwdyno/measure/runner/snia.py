"""Runs a test of SNIA's specification: preconditioning, rounds until the steady state, and the window that counts.

Twice the region is written in sequence, then the test's own workloads go round after round (which is the
workload-dependent preconditioning), until the tracked one is steady by both criteria at once over five
rounds. The figures of a workload are those of its five rounds in that window.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from hwdyno.analysis.estimates import SNIA_ROUNDS, SniaWindow, snia_window
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.experiments.storage_snia import (
    CELL_S,
    PRECONDITION_BYTES,
    PRECONDITION_TIMES,
    ROUNDS,
    SniaTest,
    matches,
)
from hwdyno.measure.hosts import Host
from hwdyno.measure.hosts.measured_site import make_site
from hwdyno.measure.measurement import Reading, Snapshot, make_measurement
from hwdyno.measure.plan import Plan, Planned
from hwdyno.measure.runner.faults import StopError, format_error
from hwdyno.measure.runner.observers import Journal, Keeper, NextReading, Progress, Silent
from hwdyno.measure.runner.plan_run import PlanRun
from hwdyno.measure.runner.point import WARM_UP, PointInWork
from hwdyno.measure.sweep import Sweep
from hwdyno.model.axes import list_traits
from hwdyno.model.point_details import Note
from hwdyno.model.units import format_duration, format_size
from hwdyno.model.words import Measurement, Parameters, Run
from hwdyno.system import signals

LIKELY_ROUNDS = 8
"""Rounds for which a budget is shared out: five make a window, and few drives need none before it."""
PRECONDITION_SHARE = 0.25
SHORTEST_S = 0.03
OVERHEAD_S = 0.08
LONGEST_S = {"quick": 1.0, "standard": 5.0}
"""Time of one workload in one round, where the profile is not SNIA's own minute."""

Took = tuple[Reading, tuple[Snapshot, Snapshot]]


def make_rounds(test: SniaTest) -> Experiment:
    """What keeps the rounds of the workloads shown, for the plot of convergence."""
    experiment = test.experiment
    return replace(
        experiment, name=f"{experiment.name}-rounds", asks="Convergence to steady state", load="round", sweep=Sweep()
    )


def with_rounds(plan: Plan, test: SniaTest) -> Plan:
    """The plan with a second experiment that holds the rounds."""
    (planned,) = plan.experiments
    rounds = Planned(make_rounds(test), (), planned.fixed, "round", planned.declaration)
    # The time of a reading is shared out here, and not by the session.
    given = plan.given | {"runtime"}
    return replace(plan, experiments=(planned, rounds), study=f"snia-{test.name}", given=given)


def run(
    plan: Plan,
    test: SniaTest,
    host: Host,
    store: Keeper,
    run_id: str,
    progress: Progress | None = None,
    explain: Callable[[Run], Run] = lambda run: run,
) -> Run:
    """Perform a test and keep its Run; see ``runner.run`` for what happens when something goes wrong."""
    return _SniaRounds(with_rounds(plan, test), test, host, progress or Silent()).run(store, run_id, explain)


class _SniaRounds(PlanRun):
    def __init__(self, plan: Plan, test: SniaTest, host: Host, progress: Progress) -> None:
        super().__init__(plan, make_site(host), progress, ())
        self.test = test
        self.allowance.may_add = dict.fromkeys(self.allowance.may_add, 0)
        self.history: dict[int, list[Took]] = {}
        """Each round's reading of a workload."""
        self.tracked: list[float] = []
        self.runtime_s = CELL_S

    def _block(self, block: Sequence[Planned], journal: Journal) -> None:
        (planned,) = block
        if planned.experiment.name != self.test.experiment.name:
            return  # Its rounds came with the others.
        points = self.points[planned.experiment.name]
        every = [point for point in points if matches(point.parameters, self.test.each_round or {})]
        once = [point for point in points if point not in every]
        self._precondition(planned)
        self.runtime_s = self._share_out(len(every), len(once))
        window = None
        for number in range(1, ROUNDS + 1):
            began = time.monotonic()
            for point in every:
                self._round(planned, point, number, journal)
                if self.interrupted:
                    break
            window = snia_window(self.tracked)
            took, left = time.monotonic() - began, self.allowance.left_s
            if self.interrupted or (window is not None and window.steady):
                break
            if left is not None and left < took + len(once) * (self.runtime_s + OVERHEAD_S) and number >= SNIA_ROUNDS:
                self.progress.says(f"the time was used up after {number} rounds")
                break
        self._report_window(window)
        for point in once:
            if not self.interrupted:
                self._round(planned, point, 0, journal)
        for point in points:
            taken = self.history.get(point.index, [])[-SNIA_ROUNDS:]
            point.readings = [reading for reading, _ in taken]
            point.snapshots = [pair for _, pair in taken]
            self._settle(planned, point, journal, "")

    def _precondition(self, planned: Planned) -> None:
        """Workload-independent: twice the region in sequence, or what the budget has time for."""
        parameters = self._parameters(planned, self.points[planned.experiment.name][0], WARM_UP)
        size = int(parameters["size"])
        depth = 1 if "synchronous" in list_traits(planned.declaration.axes, parameters) else 32
        parameters |= {"rw": "write", "bs": PRECONDITION_BYTES, "iodepth": depth, "numjobs": 1, "time_based": False}
        parameters |= {"io_size": PRECONDITION_TIMES * size, "runtime": 0.0, "ramp_time": 0.0}
        if "purge" in planned.declaration.names:
            parameters["purge"] = True
        parameters.pop("rwmixread", None)
        left = self.allowance.left_s
        if left is not None:
            parameters["runtime"] = max(1.0, PRECONDITION_SHARE * left)
        self.progress.says(f"preconditioning: {format_size(parameters['io_size'])} sequentially, in blocks of 128 KiB")
        try:
            reading = self.site.run(planned.experiment.kernel, parameters)
        except OSError as error:
            raise StopError(f"{planned.experiment.name}: {format_error(error)}") from None
        if reading.get("interrupted"):
            raise KeyboardInterrupt
        written = sum(int(stream["bytes"]) for stream in reading["streams"])
        says = f"{format_size(written)} were written sequentially, {written / size:.1f} times the region"
        self.notes.append(Note("snia_preconditioned", says))
        self.notes += [
            Note(f"snia_{note['code']}", note["says"])
            for note in reading.get("notes", ())
            if note["code"] in {"purged", "not_purged"}
        ]

    def _share_out(self, every: int, once: int) -> float:
        """Seconds of one workload in one round."""
        longest = LONGEST_S.get(self.plan.profile.name, CELL_S)
        left = self.allowance.left_s
        if left is None:
            return longest
        min_s = (every * SNIA_ROUNDS + once) * (SHORTEST_S + OVERHEAD_S)
        if left < min_s:
            needed = format_duration(min_s + self.allowance.run_s)
            workloads = f"{every + once} workloads, most in {SNIA_ROUNDS} rounds"
            self.progress.says(f"SNIA's test has {workloads}: it takes {needed}")
        turns = every * LIKELY_ROUNDS + once
        return max(SHORTEST_S, min(longest, left / turns - OVERHEAD_S))

    def _round(self, planned: Planned, point: PointInWork, number: int, journal: Journal) -> None:
        """One workload in one round (0: once, after the steady state)."""
        signals.check()
        parameters = self._parameters(planned, point, repeat=number) | {"runtime": self.runtime_s}
        parameters |= {"ramp_time": 0.0, "interval_s": max(0.01, min(1.0, self.runtime_s / 10))}
        total = len(self.points[planned.experiment.name]) * SNIA_ROUNDS
        left = max(0, total - self.readings) * (self.runtime_s + OVERHEAD_S)
        shown = {**point.parameters, "round": number} if number else point.parameters
        self._begin(
            NextReading(
                planned.experiment.name, shown, max(1, number), self.readings, total, left, planned.declaration.axes
            )
        )
        before = self.watch.snapshot()
        try:
            reading = self.site.run(planned.experiment.kernel, parameters)
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) and not self.readings:
                raise
            raise StopError(f"{planned.experiment.name} ended early: {format_error(error)}") from None
        self.interrupted = bool(reading.get("interrupted"))
        if self.interrupted:
            return
        self.readings += 1
        took = (reading, (before, self.watch.snapshot()))
        self.history.setdefault(point.index, []).append(took)
        if number and matches(point.parameters, self.test.shown):
            self._keep_round(point, number, took, journal)
        if number and matches(point.parameters, self.test.tracked):
            self.tracked.append(tracked_value(make_measurement({}, [reading], point.declaration), self.test.variable))

    def _keep_round(self, point: PointInWork, number: int, took: Took, journal: Journal) -> None:
        rounds = self.plan.experiments[1]
        kept = self.points[rounds.experiment.name]
        parameters: Parameters = {**point.parameters, "round": number}
        made = PointInWork(len(kept), parameters, point.declaration, [took[0]], [took[1]])
        if matches(point.parameters, self.test.tracked):
            made.notes = (Note("snia_tracked", "the rounds of this workload determine steady state"),)
        kept.append(made)
        self._settle(rounds, made, journal, "")

    def _report_window(self, window: SniaWindow | None) -> None:
        rounds = len(self.tracked)
        if window is not None and window.steady:
            self.progress.says(f"steady after {rounds} rounds of {format_duration(self.runtime_s)} per workload")
        elif not self.interrupted:
            self._degrade(f"no steady state after {rounds} rounds; its figures are from the last {SNIA_ROUNDS}")


def tracked_value(point: Measurement, variable: str) -> float:
    """What is tracked of a round: operations/s, bytes/s, or ns."""
    if variable == "latency":
        return point.latency_ns.mean if point.latency_ns else 0.0
    value = point.rate if variable == "rate" and point.rate is not None else point.throughput
    return value.value
