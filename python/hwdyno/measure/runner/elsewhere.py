"""Makes the plan that a bare engine measures on another host, and a Run of the readings that it wrote there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from hwdyno import __version__
from hwdyno.measure.hosts import counters
from hwdyno.measure.hosts.elsewhere import PLAN, Elsewhere, Readings, Taken
from hwdyno.measure.hosts.measured_site import make_site
from hwdyno.measure.plan import WARM_UP_S, Plan, Planned
from hwdyno.measure.runner import budget
from hwdyno.measure.runner.in_turn import blocks
from hwdyno.measure.runner.observers import Journal, Keeper, Progress, Silent
from hwdyno.measure.runner.plan_run import PlanRun
from hwdyno.measure.runner.point import WARM_UP, PointInWork
from hwdyno.measure.workspace import Place
from hwdyno.model.machine import Machine, survey_from_machine
from hwdyno.model.words import Run, UserError


def plan_for(plan: Plan, host: Elsewhere, words: Sequence[str]) -> dict[str, Any]:
    """The plan as the document that ``hwdyno-engine measure`` reads; ``words`` are the command's, to import it by.

    A bare engine repeats no point until it is precise: each has as many readings as its profile allows, or the least
    where the budget is limited. Raises ``UserError`` for what it cannot measure.
    """
    if plan.peers:
        raise UserError("--peers runs tools that are installed here; leave it out of a plan for another host")
    if plan.destroy:
        raise UserError("--destroy needs a device of this machine; a plan for another host writes only a file")
    made = _PlanSteps(plan, host)
    return {
        "format": PLAN,
        "version": __version__,
        "words": list(words),
        "machine": survey_from_machine(host.machine),
        "path": str(plan.path) if plan.needs_data_file else None,
        "data_bytes": made.plan.data_bytes,
        "seed": plan.seed,
        "steps": made.steps(),
    }


def run(
    plan: Plan,
    host: Elsewhere,
    store: Keeper,
    run_id: str,
    progress: Progress | None = None,
    explain: Callable[[Run], Run] = lambda run: run,
) -> Run:
    """Make a Run of the host's readings, as if the plan had been measured here; raises ``UserError``."""
    if host.readings is None:
        raise UserError("nothing was measured on that host yet; hwdyno-engine measure PLAN.json does that")
    return _Replay(replace(plan, seed=host.readings.seed), host, host.readings, progress or Silent()).run(
        store, run_id, explain
    )


class _PlanSteps(PlanRun):
    """The plan's readings in their order."""

    def __init__(self, plan: Plan, host: Elsewhere) -> None:
        super().__init__(budget.fit_plan(plan, plan.budget_s), make_site(host), Silent(), ())
        self.plan, _ = self._on(self.site.machines(plan.path))
        self.allowance.share_out(self.plan)

    def steps(self) -> list[dict[str, Any]]:
        timing = self.allowance.timing
        wanted = timing.most if self.plan.budget_s is None else timing.least
        made = []
        for block in blocks(self.plan.experiments):
            made += [self._make_step(planned, self.points[planned.experiment.name][0], WARM_UP) for planned in block]
            every, repeat = [(planned, point) for planned in block for point in self.points[planned.experiment.name]], 0
            while every:
                self.random.shuffle(every)
                made += [self._make_step(planned, point, repeat) for planned, point in every]
                repeat += 1
                every = [
                    (planned, point)
                    for planned, point in every
                    if repeat < wanted(quoted=self.plan.budget_s is not None and point.parameters in planned.quoted)
                ]
        return made

    def _make_step(self, planned: Planned, point: PointInWork, repeat: int) -> dict[str, Any]:
        parameters = self._parameters(planned, point, repeat)
        if repeat == WARM_UP:
            limits = {"runtime": WARM_UP_S, "ramp_time": 0.0, "startdelay": 0.0}
            parameters |= {
                name: min(float(parameters[name] or most), most) for name, most in limits.items() if name in parameters
            }
        return {
            "experiment": planned.experiment.name,
            "point": point.parameters,
            "repeat": repeat,
            "kernel": planned.experiment.kernel,
            "parameters": {name: value for name, value in parameters.items() if name != "path"},
            "on_data_file": planned.needs_data_file,
        }


class _Replay(PlanRun):
    """A session whose readings were taken elsewhere."""

    def __init__(self, plan: Plan, host: Elsewhere, readings: Readings, progress: Progress) -> None:
        super().__init__(plan, make_site(Elsewhere(readings.machine)), progress, ())
        self.planned_for = host.machine
        self.recorded = readings
        self.has_begun = False

    def _place(self) -> Place | None:
        return None

    def _on(self, machines: Sequence[Machine]) -> Any:
        return super()._on((self.planned_for,))

    def _now(self) -> str:
        at_s = self.recorded.ended_s if self.has_begun else self.recorded.started_s
        self.has_begun = True
        at = datetime.fromtimestamp(self.recorded.started_s if at_s is None else at_s, timezone.utc)
        return at.astimezone().isoformat(timespec="seconds")

    def _measure(self, place: Place | None, journal: Journal) -> None:
        planned = {
            planned_experiment.experiment.name: planned_experiment for planned_experiment in self.plan.experiments
        }
        for taken in self.recorded.taken:
            step = self.recorded.steps[taken.step]
            point = self._find_point(step)
            if step.get("repeat") != WARM_UP:
                self._take(point, taken)
        for at, why in self.recorded.errors.items():
            step = self.recorded.steps[at]
            point = self._find_point(step)
            self._fail(planned[step["experiment"]], point, why)
        for name, points in self.points.items():
            for point in points:
                self._settle_recorded(planned[name], point, journal)
        if self.recorded.ended_s is None:
            self._degrade("the readings have no end: hwdyno-engine was killed, or its output was cut")
        self.interrupted = self.recorded.interrupted
        if not self.readings:
            self._remember_failure(
                next(iter(self.recorded.errors.values()), "the readings have no reading that counts")
            )

    def _find_point(self, step: Any) -> PointInWork:
        """The point of the plan that a step reads."""
        name = str(step.get("experiment"))
        points = self.points.get(name, [])
        found = next((work for work in points if work.parameters == step.get("point")), None)
        if found is None:
            raise UserError(f"the plan has a step of {name} that this hwdyno does not plan; make the plan again")
        return found

    def _take(self, point: PointInWork, taken: Taken) -> None:
        self.readings += 1
        point.readings.append(dict(taken.reading))
        point.snapshots.append((counters.parse_counters(taken.before), counters.parse_counters(taken.after)))

    def _fail(self, planned: Planned, point: PointInWork, why: str) -> None:
        """Note a step without a reading; a point whose instructions the host lacks is none of the plan's."""
        if "instructions" not in planned.experiment.needs or point.readings:
            self._degrade(f"{planned.experiment.name}: {why}")
        elif not point.done:
            point.done = True
            self.absent[planned.experiment.name] += 1

    def _settle_recorded(self, planned: Planned, point: PointInWork, journal: Journal) -> None:
        try:
            half = point.half_width()
            is_sure = half is not None and half <= self.plan.profile.target
            self._settle(planned, point, journal, "sure" if is_sure else "repeats")
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
            name = planned.experiment.name
            raise UserError(f"a reading of {name} is not as hwdyno-engine writes it: {error!r}") from None
