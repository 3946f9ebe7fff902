"""One run of one plan: the order of its readings, and how it handles failures."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from hwdyno.analysis.resources import rate_word
from hwdyno.measure.concurrent_runs import announce_run
from hwdyno.measure.hosts import Host, HostLostError
from hwdyno.measure.hosts.measured_site import Site, make_site
from hwdyno.measure.measurement import BEGAN, count_operations
from hwdyno.measure.peers import Peer
from hwdyno.measure.plan import WARM_UP_S, Plan, Planned, Timing, overhead_s
from hwdyno.measure.runner import faults
from hwdyno.measure.runner.access import reachable
from hwdyno.measure.runner.allowance import Allowance
from hwdyno.measure.runner.faults import StopError
from hwdyno.measure.runner.in_turn import blocks
from hwdyno.measure.runner.layout import lay_out
from hwdyno.measure.runner.near_knee import NOTE, near_the_knee
from hwdyno.measure.runner.observers import Journal, Keeper, NextReading, Progress, Silent
from hwdyno.measure.runner.point import WARM_UP, PointInWork, make_seed
from hwdyno.measure.runner.readiness import make_ready
from hwdyno.measure.runner.run_record import RunRecord
from hwdyno.measure.runner.sizing import size_working_sets
from hwdyno.measure.runner.turns import Turns
from hwdyno.measure.runner.watch import Watch
from hwdyno.measure.workspace import Place
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Note
from hwdyno.model.units import format_duration, plural
from hwdyno.model.words import PeerResult, Run, UserError
from hwdyno.system import signals
from hwdyno.system.store import StoreError

SAMPLES = 20
MIN_OPERATIONS = 10
"""An interrupted reading with fewer operations is not a point of a curve."""
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.01, 0.1
"""Shortest and longest interval between samples; a reading has about 20 of them, and a long one more."""


def run(
    plan: Plan,
    host: Host,
    store: Keeper,
    run_id: str,
    progress: Progress | None = None,
    peers: Sequence[Peer] = (),
    explain: Callable[[Run], Run] = lambda run: run,
) -> Run:
    """Measure the plan and keep the Run; what was measured is kept no matter what happens in between.

    ``explain`` makes the Run's curves and findings before it is stored. Raises ``UserError`` before
    anything is measured where the plan cannot be; later on the Run is degraded instead. After a signal
    (``signals.keeping``) or Ctrl-C the current reading ends early and the Run is partial.
    Where nothing at all can be measured, what failed first is the ``UserError``, and no Run is kept.
    """
    return PlanRun(plan, make_site(host), progress or Silent(), peers).run(store, run_id, explain)


class PlanRun(RunRecord):
    """One run of one plan; ``runner.snia`` reads its points in rounds instead."""

    def __init__(self, plan: Plan, site: Site, progress: Progress, peers: Sequence[Peer]) -> None:
        super().__init__(plan, site, progress, peers)
        self.watch = Watch(site, progress)
        self.random = random.Random(plan.seed)
        self.lost = False
        """Whether the storage of the data file is gone."""
        self.interrupted = False
        self.allowance = Allowance(self.plan, self.points)
        self.headline_turns: Turns | None = None
        self.warm: set[str] = set()
        """The experiments that are warmed up."""
        self.begun = time.monotonic()

    def run(self, store: Keeper, run_id: str, explain: Callable[[Run], Run]) -> Run:
        """Measure, keep and explain the Run."""
        plan = self.plan
        place = self._place() if plan.needs_data_file else None
        begun = self._now()
        machines = self.site.machines(self.plan.path)
        self.plan, notes = self._on(machines)
        self.notes += notes
        self.degraded += plan.left_out
        for note in notes:
            self.progress.says(note.says)
        self._find_ceilings(machines, plan.limits)
        header = self._header(run_id, begun, machines)
        with signals.keeping(), announce_run():
            journal = store.begin(header)
            try:
                self._measure(place, journal)
                if self.failure and not (self.readings or self.interrupted):
                    raise UserError(self.failure)
            except BaseException as error:
                self.interrupted = isinstance(error, KeyboardInterrupt)
                # An interrupt with a text came while something was made for the next reading.
                if not self.interrupted or (str(error) and not self.readings):
                    self._close()
                    if not self.readings:
                        journal.abandon()
                    raise
                self.degraded += filter(None, [str(error)])
            self._close()
            return self._finish(header, journal, explain)

    def _place(self) -> Place | None:
        """Where the data file will be; raises ``UserError``."""
        plan = self.plan
        return self.site.place(plan.path, writes=plan.writes, destroy=plan.destroy, serial=plan.serial)

    def _on(self, machines: Sequence[Machine]) -> tuple[Plan, tuple[Note, ...]]:
        """The plan as these machines allow it, with notes on what that changed."""
        return reachable(size_working_sets(self.plan, machines), machines)

    def _now(self) -> str:
        """When the measurement begins or ends."""
        return datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")

    def _close(self) -> None:
        if self.workspace is not None:
            self.workspace.close()

    def _finish(self, header: Run, journal: Journal, explain: Callable[[Run], Run]) -> Run:
        experiments = tuple(
            self._result(
                planned_experiment,
                [point for point in self.points[planned_experiment.experiment.name] if point.readings],
            )
            for planned_experiment in self.plan.experiments
        )
        degraded = (*self.degraded, *faults.list_refusals(experiments))
        run = replace(header, finished=self._now(), experiments=experiments, degraded=degraded)
        planned = sum(map(len, self.points.values()))
        run = faults.mark_interrupted(run, self.interrupted, planned)
        try:
            run = explain(run)
        except Exception as error:  # A fault in a rule must not cost what was measured.
            run = replace(run, degraded=(*run.degraded, faults.explain_missing_findings(error)))
        run = faults.mark_interrupted(run, self.interrupted, planned)
        try:
            journal.finish(run)
        except StoreError as error:
            return faults.not_stored(run, error)
        return run

    def _measure(self, place: Place | None, journal: Journal) -> None:
        self._lay_out(place)
        self._measure_all(journal)

    def _lay_out(self, place: Place | None) -> None:
        """Write the data file, if any point needs one."""
        self.watch.snapshot()  # Before anything is written: the user may want to stop.
        if place is not None:
            self.workspace = self.site.data_file(place)
            made = lay_out(self.plan, self.workspace, self.site, self.progress)
            self.laid_out_bytes = self.workspace.laid_out_bytes
            if made.interrupted:
                raise KeyboardInterrupt
            self.plan = self.plan if made.size_bytes >= self.plan.data_bytes else self.plan.with_size(made.size_bytes)
            if made.degraded:
                self._degrade(made.degraded)
            if made.says:
                self.notes.append(Note("data_file_smaller", made.says))
                self.progress.says(made.says)

    def _measure_all(self, journal: Journal) -> None:
        """Read the plan's experiments, block by block, within the budget."""
        turns = self.headline_turns = Turns(self.plan, self.allowance)
        for why in self.peer_readings.left_out(self.plan.experiments):
            self.progress.says(why)
        if self.allowance.timing.says:
            self.progress.says(self.allowance.timing.says)
        self._warm_up_all(turns.experiments)
        self._turn_if_due(journal)
        turns.end_first()
        begun, others = 0, turns.others
        for block in blocks(others.experiments):
            if self.interrupted:
                return
            # Planned again for the rest: readings slower than estimated must not use up its time.
            remaining = self._fit_remaining(replace(others, experiments=others.experiments[begun:]), len(block))
            self.allowance.share_out(remaining)
            self.allowance.set_deadline(remaining, len(block))
            names = ", ".join(planned.experiment.name for planned in block)
            if begun and self.allowance.is_spent:
                total = format_duration(self.plan.budget_s or 0.0)
                self._stop(block, f"{names} was skipped: the budget of {total} has no time left for it")
            elif self.lost and any(planned.needs_data_file for planned in block):
                self._stop(block, f"{names} was skipped: its storage is gone")
            else:
                with self._guard_experiments(block):
                    self._block(block, journal)
            self._report_degraded()
            begun += len(block)
        if self.interrupted:
            return
        self.allowance.deadline = None
        self._until_sure(turns.points, journal)
        self._report_degraded()

    def _turn_if_due(self, journal: Journal) -> None:
        """Read the points that headlines quote once more, if it is time for it; not in the time of the others."""
        if self.headline_turns is None or not self.headline_turns.due:
            return
        began, deadline = time.monotonic(), self.allowance.deadline
        self.allowance.deadline = None
        points = self.headline_turns.take()
        self.random.shuffle(points)
        for planned, point in points:
            stop = self.interrupted or self.headline_turns.too_long
            if not (stop or point.done or self.headline_turns.over(planned, point)):
                with self._guard_experiments((planned,)):
                    self._read(planned, point, journal)
        if deadline is not None:
            self.allowance.deadline = deadline + time.monotonic() - began

    @contextmanager
    def _guard_experiments(self, experiments: Sequence[Planned]) -> Iterator[None]:
        """Where the rest of some experiments cannot be measured, the others go on."""
        try:
            yield
        except StopError as stop:
            self.lost = self.lost or any(planned.needs_data_file for planned in experiments)
            names = [f"{planned.experiment.name}: " for planned in experiments]
            self._remember_failure(str(stop).removeprefix(names[0] if len(names) == 1 else ""))
            self._stop(experiments, str(stop))

    def _stop(self, experiments: Sequence[Planned], why: str) -> None:
        """Stop reading these experiments."""
        self._degrade(why)
        for planned in experiments:
            self.allowance.may_add[planned.experiment.name] = 0
            for point in self.points[planned.experiment.name]:
                point.done = True

    def _fit_remaining(self, remaining: Plan, first: int) -> Plan:
        """The remaining experiments, the ``first`` of them with as many points as fit into the time left."""
        found = self.allowance.fit_plan(remaining)
        for planned, kept in zip(remaining.experiments[:first], found.experiments, strict=False):
            name = planned.experiment.name
            if len(kept.points) < len(planned.points):
                every = len(self.points[name])
                self.points[name] = [
                    point for point in self.points[name] if point.quoted or point.parameters in kept.points
                ]
                self.allowance.may_add[name] = 0
                self._degrade(
                    f"{name} has {len(self.points[name])} of its {every} points, to end within the budget of "
                    f"{format_duration(self.plan.budget_s or 0.0)}; raise it with --budget"
                )
        return found

    def _leave_out(self, planned: Planned) -> None:
        """Points without a reading when the experiment's part of the budget was used up."""
        name = planned.experiment.name
        unread = [point for point in self.points[name] if not point.readings and not point.done]
        for point in unread:
            point.done = True
        if unread:
            self._degrade(f"{name}: {plural(len(unread), 'point')} skipped (out of time)")

    def _block(self, block: Sequence[Planned], journal: Journal) -> None:
        """Read the points of some experiments in turn, and then one more near the knee of each of their curves."""
        if not self.allowance.late:
            self._warm_up_all(block)
        points = ((planned, point) for planned in block for point in self.allowance.list_points(planned))
        every = [(planned, point) for planned, point in points if not point.quoted]
        self._until_sure(every, journal)
        bent = [planned for planned in block if self.allowance.may_add[planned.experiment.name]]
        self.allowance.may_add |= dict.fromkeys((planned.experiment.name for planned in bent), 0)
        if not self.interrupted and not self.allowance.late:
            self._until_sure([pair for planned in bent for pair in self._near_the_knee(planned)], journal)

    def _warm_up_all(self, experiments: Iterable[Planned]) -> None:
        """Warm each experiment up by its first point, unless it was."""
        for planned in experiments:
            first = self.allowance.list_points(planned)[0]
            costs_a_reading = self.allowance.overruns if self.readings else self.allowance.is_long
            if planned.experiment.name not in self.warm and not costs_a_reading(planned, first, readings=2):
                self.warm.add(planned.experiment.name)
                with self._guard_experiments((planned,)):
                    self._warm_up(planned, first)

    def _near_the_knee(self, planned: Planned) -> list[tuple[Planned, PointInWork]]:
        """Extra points, outside of the plan, that fit into the time left."""
        points = self.points[planned.experiment.name]
        added = []
        measured = self._result(planned, [point for point in points if point.readings])
        for parameters in near_the_knee(measured, planned):
            more = PointInWork(len(points), parameters, points[0].declaration, notes=(NOTE,))
            left = self.allowance.left_s
            needed = self.allowance.timing.repeats_min * self.allowance.turn_s(planned, more)
            if left is None or left > self.allowance.needed_s(self.plan.experiments) + needed:
                points.append(more)
                added.append((planned, more))
        return added

    def _until_sure(self, points: Sequence[tuple[Planned, PointInWork]], journal: Journal) -> None:
        """Read points in rounds, each round in a new order, until each is precise or has used its time."""
        while open_points := [(planned, point) for planned, point in points if not point.done]:
            self._turn_if_due(journal)
            self.random.shuffle(open_points)
            for planned, point in open_points:
                if self.headline_turns is not None and self.headline_turns.over(planned, point):
                    self._leave_out(planned)
                    if not point.done:
                        self._settle(planned, point, journal, "time")
                if self.allowance.late and any(work.readings for owner, work in points if owner is planned):
                    self._leave_out(planned)
                    if point.readings and not point.done:
                        self._settle(planned, point, journal, "time")
                if not point.done and self.readings and self.allowance.overruns(planned, point):
                    self._leave_out(planned)
                    if not point.done:
                        self._settle(planned, point, journal, "time")
                if not point.done:
                    self.allowance.keep_up(points)
                    with self._guard_experiments((planned,)):
                        self._read(planned, point, journal)
                if self.interrupted:
                    return

    def _warm_up(self, planned: Planned, point: PointInWork) -> None:
        signals.check()
        make_ready(planned, self.allowance, self.progress.says, is_first=not self.readings)
        parameters = self._parameters(planned, point, WARM_UP)
        for name, max_s in (("runtime", WARM_UP_S), ("ramp_time", 0.0), ("startdelay", 0.0)):
            if name in parameters:
                parameters[name] = min(float(parameters[name] or max_s), max_s)
        self._begin(self._step(planned, point))
        begun = time.monotonic()
        try:
            reading = self.site.run(planned.experiment.kernel, parameters)
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) and not self.readings:
                raise  # Nothing was measured yet, so the error is reported at once.
            raise StopError(f"{planned.experiment.name}: {faults.format_error(error)}") from None
        timed_s = float(parameters.get("runtime") or 0.0) + overhead_s(planned, point.parameters)
        self.allowance.learn(planned, time.monotonic() - begun - timed_s)
        self._name_failures(planned.experiment.name, point.parameters, reading)
        if reading.get("interrupted"):
            raise KeyboardInterrupt

    def _read(self, planned: Planned, point: PointInWork, journal: Journal) -> None:
        """Take one reading of one point, with its peers' in turn; settle the point if it is precise now."""
        signals.check()
        make_ready(planned, self.allowance, self.progress.says, is_first=not self.readings)
        name, begun, chosen = planned.experiment.name, time.monotonic(), self.allowance.choose_timing(point)
        parameters = self._parameters(planned, point, len(point.readings), chosen)
        self._begin(self._step(planned, point))
        try:
            before = self.watch.snapshot()
            reading = {BEGAN: begun - self.begun, **self.site.run(planned.experiment.kernel, parameters)}
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) and not self.readings and name not in self.warm:
                raise  # No warm-up has tried the parameters.
            if isinstance(error, ValueError) and "instructions" in planned.experiment.needs and not point.readings:
                point.done = True
                self.absent[name] += 1
                return
            hurt = "" if isinstance(error, HostLostError) else self._hurt(planned)
            if not hurt:
                self._remember_failure(faults.format_error(error))
                self._degrade(f"{name} at {faults.at(point.parameters)}: {faults.format_error(error)}")
            self._settle(planned, point, journal, "")
            if hurt:
                raise StopError(f"{name} ended early: {hurt}") from None
            if faults.ends_all(error):
                raise StopError(f"{name} ended early: {faults.format_error(error)}") from None
            return
        self._name_failures(name, point.parameters, reading)
        self.interrupted = bool(reading.get("interrupted"))
        if self.interrupted and (point.readings or count_operations(reading) < MIN_OPERATIONS):
            return  # Short: it would only blur the whole ones of its point, or has no rate.
        self.readings += 1
        point.readings.append(reading)
        point.snapshots.append((before, self.watch.snapshot()))
        gone, alone_s, paired = faults.explain_loss(reading), time.monotonic() - begun, point.pairs_taken
        if not self.interrupted and not gone and self.allowance.peers_fit(planned, point):
            for why in self.peer_readings.in_turn(planned, point, parameters):
                self._degrade(why)
        peers_s = time.monotonic() - begun - alone_s
        self.allowance.took(planned, point, alone_s, peers_s, point.pairs_taken - paired)
        ended_by = self.allowance.ends(point, self.plan.profile.target, self.plan.experiments)
        if gone or self.interrupted or ended_by:
            self._settle(planned, point, journal, ended_by)
        elif len(point.readings) == 1 or point.quoted:
            # Stored after the first reading, so that a killed run has every point with a reading; and what is read
            # all through the run after each.
            self._keep(journal, name, point, self._make_measurement(planned, point, ""))
        if gone:
            raise StopError(f"{name} ended early at {faults.at(point.parameters)}: {gone}")

    def _step(self, planned: Planned, point: PointInWork) -> NextReading:
        every = [work for points in self.points.values() for work in points if not work.done]
        least = ((work, self.allowance.choose_timing(work).least(work.quoted)) for work in every)
        left = sum(max(0, repeats - len(work.readings)) for work, repeats in least)
        total = self.readings + max(1, left)
        name, repeat = planned.experiment.name, len(point.readings) + 1
        needed_s = self.allowance.needed_s(self.plan.experiments)
        return NextReading(name, point.parameters, repeat, self.readings, total, needed_s, planned.declaration.axes)

    def _parameters(
        self, planned: Planned, point: PointInWork, repeat: int, chosen: Timing | None = None
    ) -> dict[str, Any]:
        """The kernel's parameters for one reading, by default with the times of most points."""
        chosen = chosen or self.allowance.timing
        parameters: dict[str, Any] = {**planned.fixed, **point.parameters}
        for name, value in (("runtime", chosen.runtime_s), ("ramp_time", chosen.ramp_s)):
            if parameters.get(name) and name not in self.plan.given:
                parameters[name] = value * planned.experiment.runtime_share
        runtime = parameters.get("runtime")
        unset = set(planned.declaration.names) - set(parameters)
        if "interval_s" in unset and isinstance(runtime, int | float) and runtime > 0:
            # A short reading has samples enough to show its course, too.
            parameters["interval_s"] = max(MIN_INTERVAL_S, min(MAX_INTERVAL_S, runtime / SAMPLES))
        if "seed" in unset:
            parameters["seed"] = make_seed(self.plan.seed, planned.experiment.name, point.index, repeat)
        if self.workspace is not None and planned.needs_data_file:
            parameters["path"] = str(self.workspace.data)
            if self.workspace.place.written and planned.writes:
                parameters |= {"destroy": self.plan.destroy, "serial": self.plan.serial}
        return parameters

    def _peer_results(self, planned: Planned, point: PointInWork) -> list[PeerResult]:
        parameters = self._parameters(planned, point, repeat=0)
        if self.workspace is not None and "path" in parameters:
            # Not the scratch directory: its name is new in each run.
            parameters["path"] = str(self.plan.path / "data")
        return self.peer_readings.results(planned, point, parameters)

    def _settle(self, planned: Planned, point: PointInWork, journal: Journal, ended_by: str) -> None:
        """Finish a point: store it if it has a reading."""
        point.done = True
        if not point.readings:
            return
        name = planned.experiment.name
        point.measurement = self._make_measurement(planned, point, ended_by)
        point.peers = self._peer_results(planned, point)
        self._keep(journal, name, point, point.measurement)
        self.progress.end_point(name, point.measurement, rate_word(planned.experiment.resource, planned.declaration))
