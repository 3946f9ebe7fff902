"""Measures what resources cost each other: each alone, and while each other one is driven at its knee, in turn.

A short sweep finds each resource's knee. Then rounds follow. In each, every resource is read alone, beside one load,
alone again, beside the next load, and so on. So a drift of the machine cancels in the ratio of a reading to its two
neighbours. Loads are measured too, over the time of the reading that they disturb.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hwdyno.analysis import estimates
from hwdyno.analysis.curves import fit_curves
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.hosts import Host, KernelCall, Loadable, LoadError
from hwdyno.measure.hosts.measured_site import make_site
from hwdyno.measure.measurement import Reading, count_operations
from hwdyno.measure.plan import Plan, Planned
from hwdyno.measure.runner.budget import thin_points
from hwdyno.measure.runner.faults import StopError, format_error
from hwdyno.measure.runner.load_details import Turn, shares, summarize_turns, typed_load
from hwdyno.measure.runner.observers import Journal, Keeper, NextReading, Progress, Silent
from hwdyno.measure.runner.plan_run import MIN_OPERATIONS, PlanRun
from hwdyno.measure.runner.point import PointInWork
from hwdyno.measure.sweep import Sweep
from hwdyno.model.axes import ALONE, BACKGROUND
from hwdyno.model.units import format_duration, is_number, plural
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run, Scalar, UserError
from hwdyno.system import signals

SWEEP, PAIRS = "knee", "together"
"""Names of a resource's two experiments, after its own."""
NEAR = 0.9
"""The knee is the least load with this share of the most that the sweep reached."""
SWEEP_S, SWEEP_TIMES = 0.25, 2
"""Length and number of the readings of a load of the sweep."""
SWEEPS_SHARE, MIN_LOADS = 0.4, 3
"""Share of a budget for all sweeps, and the least loads that a sweep is thinned to: two ends and one between them."""
RUNTIME_S = {"quick": 0.5, "standard": 1.0, "full": 3.0}
SHORTEST_S = 0.2
ROUNDS = {"quick": 8, "standard": 10, "full": 20}
MIN_ROUNDS = 3
"""Fewer give no interval that means anything."""
WANTED_ROUNDS = 5
"""Rounds for which a budget is shared out."""
RAMP_S = 0.1
SETTLE_S = 0.1
"""A load's time to begin, beyond the set-up that was measured for it."""
SETTLE_FACTOR = 1.5
OVERHEAD_S = 0.3
"""Time of a reading outside its timed region, for a listing."""
INTERVAL_S = 0.02
"""Time between samples of a load, so that its part beside a reading is known."""


@dataclass
class ContendedResource:
    """A resource: what finds its knee, and its points alone and beside each load."""

    resource: str
    sweep: Planned | None
    """None where its load is given."""
    pairs: Planned
    knee: Parameters = field(default_factory=dict)
    setups_s: list[float] = field(default_factory=list)
    """Time of each reading without a load outside the timed region."""

    @property
    def setup_s(self) -> float:
        """The median time of its readings outside the timed region."""
        return estimates.median(self.setups_s) if self.setups_s else OVERHEAD_S


def make_experiments(knees: Sequence[Planned], given: dict[str, Scalar]) -> tuple[Planned, ...]:
    """The experiments of each resource, from the catalogue's that find knees: its sweep, and its points beside others.

    ``given`` has loads by resource, which need no sweep.
    """
    names = [knee.experiment.resource for knee in knees]
    made: list[Planned] = []
    for planned in knees:
        resource, base = planned.experiment.resource, planned.experiment
        # One curve: the first value of every other axis.
        first = {name: value for name, value in planned.points[0].items() if name != planned.load}
        loads = [point for point in planned.points if {k: v for k, v in point.items() if k != planned.load} == first]
        sweep = replace(base, name=f"{resource}.{SWEEP}", asks=f"Load that saturates: {base.asks.lower()}")
        axes = (*planned.declaration.axes, BACKGROUND)
        points: tuple[Parameters, ...] = tuple(
            {BACKGROUND.name: background} for background in (ALONE, *names) if background != resource
        )
        pairs = Experiment(
            name=f"{resource}.{PAIRS}",
            asks=f"{resource.capitalize()} beside other resources",
            kernel=base.kernel,
            load=BACKGROUND.name,
            sweep=Sweep(background=tuple(point[BACKGROUND.name] for point in points)),
            fixed=base.fixed,
            settled=base.settled,
            needs=base.needs,
            ceilings=base.ceilings,
            setup_s=base.setup_s,
        )
        declaration = replace(planned.declaration, axes=axes)
        if resource in given:
            first[planned.load] = given[resource]
        else:
            made.append(replace(planned, experiment=sweep, points=tuple(loads), quoted=()))
        made.append(Planned(pairs, points, {**planned.fixed, **first}, BACKGROUND.name, declaration))
    return tuple(made)


def count_turns(count: int) -> int:
    """Readings of one round over ``count`` resources: each alone, and before and after each other one."""
    return count * (2 * (count - 1) + 1)


def run(
    plan: Plan,
    host: Host,
    store: Keeper,
    run_id: str,
    progress: Progress | None = None,
    explain: Callable[[Run], Run] = lambda run: run,
) -> Run:
    """Measure the plan that ``make_experiments`` made, and keep its Run; see ``runner.run`` for what may go wrong."""
    return _ContentionRounds(plan, host, progress or Silent()).run(store, run_id, explain)


class _ContentionRounds(PlanRun):
    def __init__(self, plan: Plan, host: Host, progress: Progress) -> None:
        if make_site(host).several or not isinstance(host, Loadable):
            raise UserError("together drives the resources of one machine; unset HWDYNO_AGENTS")
        super().__init__(plan, make_site(host), progress, ())
        self.loadable: Loadable = host
        self.allowance.may_add = dict.fromkeys(self.allowance.may_add, 0)
        self.turns: list[Turn] = []
        self.runtime_s = RUNTIME_S.get(plan.profile.name, RUNTIME_S["quick"])
        self.rounds = ROUNDS.get(plan.profile.name, ROUNDS["quick"])
        self.total = 0
        """Readings that are expected, for the progress."""
        self.left_s = 0.0
        self.is_cut = False
        """Whether the budget ended in the middle of a round."""

    # --- the whole

    def _measure_all(self, journal: Journal) -> None:
        by_name = {planned.experiment.name: planned for planned in self.plan.experiments}
        sides = [
            ContendedResource(
                planned.experiment.resource, by_name.get(f"{planned.experiment.resource}.{SWEEP}"), planned
            )
            for planned in self.plan.experiments
            if planned.load == BACKGROUND.name
        ]
        sweeps = SWEEP_TIMES * sum(len(side.sweep.points) for side in sides if side.sweep)
        self.total = sweeps + self.rounds * count_turns(len(sides))
        try:
            for side in sides:
                if not self.interrupted:
                    with self._left_out(side):
                        self._find_knee(side, journal)
            sides = [side for side in sides if side.knee]
            if len(sides) > 1 and not self.interrupted:
                self._fit(sides)
                self._in_rounds(sides, journal)
        finally:
            for planned in self.plan.experiments:
                for point in self.points[planned.experiment.name]:
                    if point.measurement is None:
                        self._settle(planned, point, journal, "")

    @contextmanager
    def _left_out(self, side: ContendedResource) -> Iterator[None]:
        """Where a resource cannot be measured, it is left out, and the others continue."""
        try:
            yield
        except StopError as stop:
            self._remember_failure(str(stop))
            self._degrade(str(stop))
            side.knee = {}

    def _fit(self, sides: Sequence[ContendedResource]) -> None:
        """Shorten the readings so that enough rounds fit into the budget."""
        left = self.allowance.left_s
        if left is None:
            return
        per_side = 2 * (len(sides) - 1) + 1
        overhead_s = sum(per_side * side.setup_s + (len(sides) - 1) * settle_s(side) for side in sides)
        fits_s = (left / WANTED_ROUNDS - overhead_s) / (per_side * len(sides))
        shortened = max(SHORTEST_S, min(self.runtime_s, fits_s))
        if shortened < self.runtime_s:
            self.progress.says(f"Shortened to {shortened:.2g} s per reading to end in time")
        self.runtime_s = shortened

    # --- the knee

    def _find_knee(self, side: ContendedResource, journal: Journal) -> None:
        """Set ``side.knee``: the least load that reaches nearly the most, by a short sweep or as given."""
        if side.sweep is None:
            side.knee = dict(side.pairs.fixed)
            return
        planned, points, times = self._fitted_sweep(side.sweep)
        for _ in range(times):
            for point in self.random.sample(points, len(points)):
                reading = self._take(side, planned, point, SWEEP_S)
                if reading is None:
                    return
        for point in points:
            self._settle(planned, point, journal, "")
        found = find_knee(self._result(planned, points))
        side.knee = {planned.load: found}
        side.pairs = replace(side.pairs, fixed={**side.pairs.fixed, planned.load: found})
        at = next(
            at
            for at, planned_experiment in enumerate(self.plan.experiments)
            if planned_experiment.experiment is side.pairs.experiment
        )
        every = self.plan.experiments
        self.plan = replace(self.plan, experiments=(*every[:at], side.pairs, *every[at + 1 :]))
        self.progress.says(f"{side.resource} saturates at {planned.load} {found}")

    def _fitted_sweep(self, planned: Planned) -> tuple[Planned, list[PointInWork], int]:
        """The points of a sweep, and the readings of each, that fit into its part of the budget."""
        points, times = self.points[planned.experiment.name], SWEEP_TIMES
        sweeps = sum(planned.load != BACKGROUND.name for planned in self.plan.experiments)
        budget_s = self.allowance.budget_s
        fits = math.inf if budget_s is None else SWEEPS_SHARE * budget_s / sweeps / (SWEEP_S + OVERHEAD_S)
        if fits < SWEEP_TIMES * len(points):
            times = max(1, min(SWEEP_TIMES, int(fits / MIN_LOADS)))
            kept = thin_points(planned.points, planned.load, max(MIN_LOADS, int(fits / times)))
            points = [point for point in points if point.parameters in kept]
        return planned, points, times

    def _is_over(self, side: ContendedResource) -> bool:
        """Whether a reading beside a load, and the next one without, would end beyond the budget; the round is cut."""
        left = self.allowance.left_s
        over = left is not None and left < 2 * (self.runtime_s + side.setup_s) + settle_s(side)
        self.is_cut = self.is_cut or over
        return over

    # --- the rounds

    def _in_rounds(self, sides: list[ContendedResource], journal: Journal) -> None:
        whole = 0
        for number in range(1, self.rounds + 1):
            began = time.monotonic()
            order = [side for side in sides if side.knee]
            for side in self.random.sample(order, len(order)):
                with self._left_out(side):
                    self._round(side, order)
                if self.interrupted:
                    return
            if number == 1:
                # Stored after the first round, so that a killed run has every point with a reading.
                for side in order:
                    for point in self.points[side.pairs.experiment.name]:
                        if point.readings:
                            self._keep(
                                journal,
                                side.pairs.experiment.name,
                                point,
                                self._make_measurement(side.pairs, point, ""),
                            )
            whole = number - self.is_cut
            took, left = time.monotonic() - began, self.allowance.left_s
            self.left_s = took * (self.rounds - number) if left is None else min(left, took * (self.rounds - number))
            if self.is_cut or (left is not None and left < took):
                self.progress.says(f"the time was used up after {plural(whole, 'round')}")
                break
        if whole < MIN_ROUNDS:
            total = format_duration(self.plan.budget_s or 0.0)
            self._degrade(f"only {whole} of {MIN_ROUNDS} rounds fit into the budget of {total}; raise it with --budget")

    def _round(self, side: ContendedResource, sides: Sequence[ContendedResource]) -> None:
        """Read a resource alone, and between that and the next time alone beside each load."""
        points = {point.parameters[BACKGROUND.name]: point for point in self.points[side.pairs.experiment.name]}
        before = None if self._is_over(side) else self._take(side, side.pairs, points[ALONE], self.runtime_s)
        for load in self.random.sample(sides, len(sides)):
            if load is side or not load.knee or before is None or self._is_over(load):
                continue
            turn = self._under_load(side, load, points[load.resource], before)
            before = self._take(side, side.pairs, points[ALONE], self.runtime_s) if not self.interrupted else None
            if turn is not None and before is not None:
                turn.after = before
                self.turns.append(turn)

    def _under_load(
        self, side: ContendedResource, load: ContendedResource, point: PointInWork, before: Reading
    ) -> Turn | None:
        """Read a resource beside a load that covers the reading; none where it is not covered at the second try."""
        signals.check()
        self._begin(self._next(side.pairs, point))
        work = KernelCall(side.pairs.experiment.kernel, self._timed_parameters(side.pairs, point, self.runtime_s))
        driven = self._timed_parameters(load.pairs, PointInWork(0, {}), self.runtime_s)
        driven = {name: value for name, value in driven.items() if name not in {"runtime", "ramp_time"}}
        if "interval_s" in load.pairs.declaration.names:
            driven["interval_s"] = INTERVAL_S
        for tries in (1, 3):
            try:
                taken = self.loadable.run_under_load(
                    KernelCall(load.pairs.experiment.kernel, driven), work, tries * settle_s(load)
                )
            except LoadError as error:
                load.knee = {}
                self._degrade(f"{load.resource} could not be driven beside {side.resource}: {format_error(error)}")
                return None
            except (OSError, ValueError) as error:
                raise StopError(f"{side.pairs.experiment.name} ended early: {format_error(error)}") from None
            self.interrupted = self.interrupted or signals.is_end_requested() or bool(taken.reading.get("interrupted"))
            if self.interrupted:
                return None
            if taken.covered:
                self.readings += 1
                point.readings.append(taken.reading)
                point.snapshots.append((taken.before, taken.after))
                return Turn(side.resource, load.resource, before, taken)
        self._degrade(
            f"{load.resource} did not load {side.resource} for the whole of some readings; they were left out"
        )
        return None

    # --- one reading

    def _timed_parameters(self, planned: Planned, point: PointInWork, runtime_s: float) -> dict[str, Any]:
        parameters = self._parameters(planned, point, repeat=len(point.readings))
        parameters.pop(BACKGROUND.name, None)
        parameters["runtime"] = runtime_s
        if "ramp_time" in planned.declaration.names:
            parameters["ramp_time"] = RAMP_S
        return parameters

    def _take(self, side: ContendedResource, planned: Planned, point: PointInWork, runtime_s: float) -> Reading | None:
        """One reading of a point without any load beside; none where a signal cut it short."""
        signals.check()
        self._begin(self._next(planned, point))
        parameters = self._timed_parameters(planned, point, runtime_s)
        before, began = self.watch.snapshot(), time.monotonic()
        try:
            reading = self.site.run(planned.experiment.kernel, parameters)
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) and not self.readings:
                raise
            raise StopError(f"{side.resource} is left out: {format_error(error)}") from None
        side.setups_s.append(max(0.0, time.monotonic() - began - float(reading["elapsed_s"])))
        self.interrupted = bool(reading.get("interrupted"))
        if self.interrupted and (point.readings or count_operations(reading) < MIN_OPERATIONS):
            return None
        self.readings += 1
        point.readings.append(reading)
        point.snapshots.append((before, self.watch.snapshot()))
        return None if self.interrupted else reading

    def _next(self, planned: Planned, point: PointInWork) -> NextReading:
        repeat, axes = len(point.readings) + 1, planned.declaration.axes
        return NextReading(
            planned.experiment.name, point.parameters, repeat, self.readings, self.total, self.left_s, axes
        )

    # --- what is kept

    def _make_measurement(self, planned: Planned, point: PointInWork, ended_by: str) -> Measurement:
        made = super()._make_measurement(planned, point, ended_by)
        resource, load = planned.experiment.resource, point.parameters.get(BACKGROUND.name)
        turns = [turn for turn in self.turns if (turn.resource, turn.load) == (resource, load)]
        if planned.load != BACKGROUND.name or not turns:
            return made
        driven = next(
            planned_experiment
            for planned_experiment in self.plan.experiments
            if planned_experiment.experiment.name == f"{load}.{PAIRS}"
        )
        alone = self.points[driven.experiment.name][0].readings
        mine = self.points[planned.experiment.name][0]
        details = {**made.details, **summarize_turns(turns, planned, driven, alone)}
        details |= {f"{name}_alone": value for name, value in shares(mine.snapshots)}
        details |= {"at": typed_load(planned), "load_at": typed_load(driven)}
        return replace(made, details=details)


def settle_s(load: ContendedResource) -> float:
    """The time that a load gets to set itself up, s."""
    return SETTLE_S + SETTLE_FACTOR * load.setup_s


def find_knee(result: ExperimentResult) -> Scalar:
    """The least load of a sweep that reaches ``NEAR`` of its ceiling, or of the most that was measured."""
    curve = next(iter(fit_curves(result)), None)
    rates = {
        load: point.throughput.value for point in result.points if is_number(load := point.parameters.get(result.load))
    }
    most = max(rates.values())
    if curve is not None and curve.best is not None and min(rates) <= curve.best.load <= max(rates):
        return min((load for load in rates if load >= curve.best.load), default=max(rates))
    return min(load for load, rate in rates.items() if rate >= NEAR * most)
