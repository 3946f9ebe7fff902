"""The scenario that measures a request, found for each command that measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hwdyno.measure.scenarios.catalogue import of_experiments
from hwdyno.measure.scenarios.kinds import Kind, of_command
from hwdyno.measure.scenarios.request import Request, refuse_stores
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.model.axes import CLIENTS, axes_of_a_site
from hwdyno.model.words import Axis, Declaration, UserError

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan

MAX_HOSTS = 100_000
NOT_SEEN = "No figure of hwdyno gpu has been checked on a real GPU yet, neither through CUDA nor through OpenCL"
"""Is printed before a GPU is measured, until a record of one is in the documentation."""


@dataclass(frozen=True)
class Swept:
    """The kernels that a resource's command sweeps."""

    kernels: tuple[str, ...]
    """Where several have a parameter of one name, the first one's words are shown."""
    hidden: frozenset[str]
    """Parameters that the plan sets itself, so they are not axes."""


_NO_AXES = frozenset({"cpus", "seed"})
_NO_AXES_OF = {
    "storage": _NO_AXES | {"path", "files", "purge", "destroy", "serial", "overwrite"},
    "gpu": _NO_AXES | {"path"},
    "network": frozenset({"interval_s"}),
}


def is_swept(command: str) -> bool:
    """Whether a command measures a resource and can sweep any axis of its kernels."""
    from hwdyno.analysis.resources import all_resources

    resource = all_resources().get(command)
    return resource is not None and not resource.by_scenario


def swept_by(command: str) -> Swept:
    """What the command of a resource sweeps: the kernels of its experiments, in their order."""
    from hwdyno.measure import experiments

    kernels = dict.fromkeys(experiment.kernel for experiment in experiments.all() if experiment.resource == command)
    return Swept(tuple(kernels), _NO_AXES_OF.get(command, _NO_AXES))


def make_scenario(request: Request, host: Host) -> Scenario:
    """The scenario that measures the request; raises ``UserError`` in one line before anything is made."""
    _check_limits(request)
    if request.name == "run":
        return _of_run(request, host)
    if is_swept(request.name):
        return _of_resource(request, host)
    kind = _choose_kind(request)
    if not kind.takes_stores:
        refuse_stores(request)
    return kind.make(request, host)


def merge_axes(swept: Swept, known: Mapping[str, Declaration]) -> dict[str, Axis]:
    """The axes of a command by name: of all its kernels that the engine has, and of the site."""
    axes: dict[str, Axis] = {}
    for name in swept.kernels:
        for axis in known[name].axes if name in known else ():
            axes[axis.name] = _join_axes(axes.get(axis.name), axis)
    of_site = () if CLIENTS.name in axes else axes_of_a_site(axes, MAX_HOSTS, between=True)
    shown = {name: axis for name, axis in axes.items() if name not in swept.hidden}
    return shown | {axis.name: axis for axis in of_site}


def _join_axes(first: Axis | None, second: Axis) -> Axis:
    """An axis of two kernels: the first one's words, and the choices of both."""
    if first is None or not first.choices:
        return first or second
    return replace(first, choices=tuple(dict.fromkeys([*first.choices, *second.choices])))


def _check_limits(request: Request) -> None:
    from hwdyno.analysis.ceilings.limits import known_ceilings

    given = request.limits
    for resource in ("storage", "compute"):
        known_ceilings(resource, given.ceilings, given.links, given.devices)


def _choose_kind(request: Request) -> Kind:
    """The scenario of a command that the request's options choose."""
    kinds, options = of_command(request.name), request.options
    found = next((kind for kind in kinds if kind.chosen_by and options.get(kind.chosen_by)), kinds[0])
    if found.chosen_by and not options.get(found.chosen_by):
        raise UserError(f"name what to measure: {', '.join('--' + kind.chosen_by.replace('_', '-') for kind in kinds)}")
    return found


def _of_run(request: Request, host: Host) -> Scenario:
    """The plan file's experiments, or the catalogue's."""
    from hwdyno.measure import plan as plans

    if file := request.plan_file:
        if request.experiments:
            raise UserError("--only selects default experiments; a plan file already names its own")
        return plans.read_toml(file.path, host, of_experiments, file.replaces, request.command)
    budget_s = request.budget_s
    return of_experiments(
        plans.select(request.experiments, host),
        host,
        profile=request.profile,
        path=request.places[0][1],
        peers=request.peers,
        limits=request.limits,
        seed=request.seed,
        budget_s=plans.choose_budget(request.profile, request.peers) if budget_s is None else budget_s,
        command=request.command,
    )


def _of_resource(request: Request, host: Host) -> Scenario:
    """The named experiments of the resource, the sweep of the given axes, or the resource's default experiments."""
    if request.name == "gpu":
        return _of_gpu(request, host)
    if request.axes.get("blas") == "all":
        from hwdyno.measure.hosts.local import installed_blas

        # Without LAPACK a library has no LU, so LU is left out there.
        request = replace(request, axes={**request.axes, "blas": ",".join(installed_blas())})
    return Scenario(plan=_make_plan(request, host))


def _of_gpu(request: Request, host: Host) -> Scenario:
    """The GPU's, which has to be there or named; raises ``UserError``."""
    from hwdyno.measure.topology import gpus_in, why_no_gpu

    device = request.axes.get("on")
    if not device and not request.dry_run:
        drivers = host.survey().gpu_drivers
        if not gpus_in(drivers):
            raise UserError(why_no_gpu(drivers, "hwdyno gpu --on cpu"))
    remarks = () if request.dry_run or device == "cpu" else (NOT_SEEN,)
    if device and set(request.axes) == {"on"} and "," not in device:
        # The device alone is no sweep: the experiments are as short on it as on any other.
        return Scenario(plan=_make_plan(replace(request, axes={}), host, {"on": device}), remarks=remarks)
    return Scenario(plan=_make_plan(request, host), remarks=remarks)


def _make_plan(request: Request, host: Host, shared: Mapping[str, str] | None = None) -> Plan:
    """The plan of a resource's command. ``shared`` are parameters that every point has, and that are no sweep."""
    from hwdyno.measure import experiments
    from hwdyno.measure import plan as plans

    resource, given = request.name, request.axes
    chosen: list[tuple[Experiment, Any]]
    if request.experiments:
        chosen = [
            (experiment, given) for word in request.experiments for experiment in experiments.find(f"{resource}.{word}")
        ]
    elif given or request.load:
        chosen = [(_base_sweep(resource, _kernel_with(swept_by(resource).kernels, given, host)), given)]
    else:
        chosen = plans.select([resource], host)
    is_whole = not given and not request.experiments and request.profile in plans.PROFILES
    if request.budget_s is None and is_whole:
        request = replace(request, budget_s=plans.choose_budget(request.profile, request.peers))
    return request.plan([(_sharing(experiment, shared or {}), axes) for experiment, axes in chosen], host)


def _sharing(experiment: Experiment, shared: Mapping[str, str]) -> Experiment:
    """The experiment with these parameters in every point, whichever it has for them."""
    swept = {name: (value,) for name, value in shared.items() if name in experiment.sweep.axes}
    sweep = experiment.sweep.replace(swept) if swept else experiment.sweep
    return replace(experiment, sweep=sweep, fixed={**experiment.fixed, **shared}) if shared else experiment


def _kernel_with(kernels: tuple[str, ...], given: Mapping[str, Any], host: Host) -> str:
    """The first of the kernels that takes every axis given, with its words; the first of all where none does."""
    known = host.kernels()

    def takes(name: str) -> bool:
        kernel = known.get(name, Declaration())
        return set(given) <= set(kernel.names) and all(
            not kernel.axis(axis).choices or set(str(values).split(",")) <= set(kernel.axis(axis).choices)
            for axis, values in given.items()
        )

    return next((name for name in kernels if takes(name)), kernels[0])


def _base_sweep(resource: str, kernel: str) -> Experiment:
    """The experiment that a resource's axes override: its first one, at a single point."""
    from hwdyno.measure.experiments import find_base

    like = find_base(resource, kernel)
    if like is None:
        raise UserError(f"{resource} cannot be swept by axes alone; name an experiment")
    return replace(like, name=f"{resource}.sweep", asks="Custom sweep", sweep=like.single_point, quick=None)
