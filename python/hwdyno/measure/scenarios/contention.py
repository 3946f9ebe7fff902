"""What resources cost each other: each alone, and while each other one is driven at its knee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hwdyno.analysis import resources
from hwdyno.measure import experiments
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Bench, Scenario
from hwdyno.model.axes import ALONE, BACKGROUND
from hwdyno.model.words import Run, Scalar, UserError
from hwdyno.system.suggestions import hint

if TYPE_CHECKING:
    from hwdyno.measure.dry_run import Line
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan, Planned

COMMAND = "together"
MIN_SET = 64 << 20
"""Bytes a thread of memory traffic, where no cache is known."""
DEFAULT_RESOURCES = "storage,memory,compute,network"


@dataclass(frozen=True, kw_only=True)
class ContentionScenario(Scenario):
    """Short sweeps for the knees, and rounds of readings alone and in pairs."""

    has_earlier: bool = False

    def points(self, write_bytes_s: float) -> list[Line]:
        """Every point with the time that its readings take."""
        from hwdyno.measure import plan as plans
        from hwdyno.measure.dry_run import Line
        from hwdyno.measure.runner import contention as runner

        plan, lines = self.plan, []
        profile = plan.profile.name
        rounds, runtime_s = runner.ROUNDS[profile], runner.RUNTIME_S[profile]
        if plan.budget_s is not None:
            rounds = runner.MIN_ROUNDS
        for planned in plan.experiments:
            for point in planned.points:
                once_s = runner.OVERHEAD_S + plans.setup_s(planned, point)
                if planned.load != BACKGROUND.name:
                    takes_s = runner.SWEEP_TIMES * (runner.SWEEP_S + once_s)
                elif point[BACKGROUND.name] == ALONE:
                    takes_s = rounds * len(planned.points) * (runtime_s + once_s)
                else:
                    takes_s = rounds * (runtime_s + 2 * once_s + runner.SETTLE_S)
                lines.append(Line(planned.experiment.name, point, 0.0, 0.0, takes_s, planned.declaration.axes))
        return lines

    def measure(self, plan: Plan, bench: Bench) -> Run:
        """Measure in rounds, without peers."""
        from hwdyno.measure.runner import contention as runner

        return runner.run(plan, bench.host, bench.store, bench.run_id, bench.progress, explain=bench.explain)


def make(request: Request, host: Host) -> ContentionScenario:
    """The scenario of the request; raises ``UserError`` for resources or loads that cannot be."""
    from hwdyno.measure.hosts.measured_site import make_site
    from hwdyno.measure.plan import choose_budget
    from hwdyno.measure.runner import contention as runner

    if make_site(host).several:
        raise UserError("together drives the resources of one machine; unset HWDYNO_AGENTS")
    if request.peers:
        raise UserError("together runs no reference tools; remove --peers")
    chosen = [_knee_experiment(name) for name in parse_resources(request.options.get("resources") or DEFAULT_RESOURCES)]
    budget_s = choose_budget(request.profile, False) if request.budget_s is None else request.budget_s
    wanted = replace(request, axes={}, load=None, budget_s=budget_s)
    plan = wanted.plan([(experiment, {}) for experiment in chosen], host)
    given = parse_loads(request.options.get("at") or "", plan.experiments)
    plan = _with_small_sets(plan, host)
    return ContentionScenario(plan=replace(plan, experiments=runner.make_experiments(plan.experiments, given)))


def _with_small_sets(plan: Plan, host: Host) -> Plan:
    """The plan with a working set a thread that is just beyond the caches: it is filled anew for each reading."""
    from hwdyno.measure.runner.sizing import TIMES_IN_QUICK, claimed_cache

    size = max(MIN_SET, TIMES_IN_QUICK * claimed_cache(host.survey()))
    every = tuple(
        replace(planned, fixed={**planned.fixed, "working_set": size})
        if "main_memory" in planned.experiment.needs
        else planned
        for planned in plan.experiments
    )
    return replace(plan, experiments=every, given=plan.given | {"working_set"})


def parse_resources(text: str) -> list[str]:
    """The resources of a list such as ``storage,memory``; raises ``UserError``."""
    known = [resource.name for resource in resources.all_resources().values() if resource.knee]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UserError(f"--resources: '{name}' cannot be driven beside others; {hint(name, known)}")
    if len(set(names)) < len(names):
        raise UserError(f"--resources {text}: a resource is named twice")
    if len(names) < 2:
        raise UserError(f"--resources {text}: name at least two of {', '.join(known)}")
    return names


def parse_loads(text: str, knees: Sequence[Planned]) -> dict[str, Scalar]:
    """Loads by resource of a list such as ``storage=32,memory=2``; raises ``UserError``."""
    from hwdyno.measure.plan import read_axis

    by_name = {knee.experiment.resource: knee for knee in knees}
    found: dict[str, Scalar] = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise UserError(f"--at {part}: write RESOURCE=LOAD, such as storage=32")
        if name not in by_name:
            raise UserError(f"--at {part}: '{name}' is not measured here; {hint(name, by_name)}")
        planned = by_name[name]
        declared: Mapping[str, object] = {axis.name: axis for axis in planned.declaration.axes}
        values = read_axis(value, declared, planned.load, planned.experiment.kernel)  # type: ignore[arg-type]
        if len(values) > 1 or name in found:
            raise UserError(f"--at {part}: give one load a resource, such as {name}={values[0]}")
        found[name] = values[0]
    return found


def _knee_experiment(name: str) -> Experiment:
    """The catalogue's experiment whose sweep finds a resource's knee, as the quick profile measures it."""
    (found,) = experiments.find(f"{name}.{resources.find(name).knee}")
    return replace(found, sweep=found.quick or found.sweep)


KIND = Kind(
    name="contention",
    command=COMMAND,
    title="resources",
    make=make,
    options=(
        Option(
            "--resources",
            f"resources that run beside each other (default: {DEFAULT_RESOURCES})",
            metavar="NAMES",
        ),
        Option(
            "--at",
            "loads at which they run, e.g. storage=32,memory=2 (default: the knee by a short sweep)",
            metavar="LOADS",
        ),
    ),
)
