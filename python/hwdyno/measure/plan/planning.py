"""Makes a plan of experiments for a site, with the axes and parameters that were given."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from hwdyno.analysis.resources import find
from hwdyno.analysis.resources.quoted import Configuration, distance, fits
from hwdyno.measure import experiments as catalogue
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.plan.plan import NO_LIMITS, Limits, Plan, Planned, min_region
from hwdyno.measure.plan.profiles import PROFILES, Profile
from hwdyno.measure.sweep import Sweep, parse_axis, parse_value
from hwdyno.measure.topology import Topology
from hwdyno.model.axes import why_not_here
from hwdyno.model.words import Axis, Declaration, Parameters, Scalar, UserError
from hwdyno.system.suggestions import hint
from hwdyno.system.urls import in_object_store

DeclaredKernels = Mapping[str, Declaration]
Given = Mapping[str, Any]
BY_PROFILE = ("runtime", "ramp_time", "size")
"""Axes that a profile settles."""
MAX_SEED = 1 << 62
"""Each repeat counts one on from it, and kernels take what 63 bits hold."""


class PlannedSite(Protocol):
    """The site that a plan is made for."""

    def kernels(self) -> DeclaredKernels:
        """Every kernel's declaration by its name."""
        ...

    def topology(self) -> Topology:
        """The processors and NUMA nodes of each host."""
        ...


def build(
    chosen: Sequence[tuple[Experiment, Given]],
    target: PlannedSite,
    *,
    profile: str = "quick",
    path: Path | None = None,
    load: str | None = None,
    peers: bool = False,
    seed: int | None = None,
    budget_s: float | None = None,
    command: str = "hwdyno",
    study: str = "",
    limits: Limits = NO_LIMITS,
) -> Plan:
    """A plan of experiments, each with the axes and parameters that were given; raises ``UserError`` in one line."""
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise UserError(f"seed {str(seed)[:30]}: use a whole number from 0 to {MAX_SEED}")
    if profile not in PROFILES:
        raise UserError(f"no profile is called '{profile}'; {hint(profile, PROFILES)}")
    if not chosen:
        raise UserError("nothing is selected; name an experiment or a resource")
    how = PROFILES[profile]
    names = [experiment.name for experiment, _ in chosen]
    if len(set(names)) < len(names):
        raise UserError(f"an experiment is named twice: {', '.join(sorted({n for n in names if names.count(n) > 1}))}")
    kernels, topology = target.kernels(), target.topology()
    if topology.clients > 1 and (
        name := next((experiment.name for experiment, _ in chosen if experiment.kernel not in kernels), "")
    ):
        raise UserError(f"{name} is measured on one host only, and this site has several hosts; start it on one")
    sited = [(_at(experiment, topology), given) for experiment, given in chosen]
    planned = _mark_quoted([_plan_one(experiment, given, kernels, how, load) for experiment, given in sited], topology)
    return Plan(
        profile=how,
        experiments=planned,
        path=path if path is not None and in_object_store(path) else (path or Path()).absolute(),
        peers=peers,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        budget_s=budget_s,
        command=command,
        study=study,
        limits=limits,
        given=frozenset(name for _, given in chosen for name in given),
    )


def _at(experiment: Experiment, site: Topology) -> Experiment:
    """The experiment with the sweeps that it has at this site."""
    quick = experiment.quick
    return replace(experiment, sweep=experiment.sweep.at(site), quick=None if quick is None else quick.at(site))


def _plan_one(
    experiment: Experiment, given: Given, kernels: DeclaredKernels, how: Profile, load: str | None
) -> Planned:
    declaration = kernels.get(experiment.kernel)
    if declaration is None:
        raise UserError(
            f"{experiment.name} needs the kernel {experiment.kernel}, which this build lacks; "
            f"{hint(experiment.kernel, kernels)}"
        )
    declared = {axis.name: axis for axis in declaration.axes}
    if any(name in given for name in declaration.consent):
        raise UserError("a raw device can be overwritten from the command line only: --destroy DEVICE --serial TEXT")
    axes = {name: read_axis(value, declared, name, experiment.kernel) for name, value in given.items()}
    # A shortened sweep is for a command that names no axis.
    sweep = experiment.quick if how.name == "quick" and experiment.quick is not None and not axes else experiment.sweep
    swept = {name: values for name, values in axes.items() if len(values) > 1 or name in sweep.axes}
    sweep = _parse_sweep(sweep.replace(swept), declared, experiment.kernel)
    of_profile = dict(zip(BY_PROFILE, (how.runtime_s, how.ramp_s, how.size_bytes), strict=True))
    fixed: Parameters = {name: value for name, value in of_profile.items() if name in declared}
    for name, value in {**experiment.settled, **experiment.fixed}.items():
        fixed[name] = parse_value(value, declared.get(name), name)
    fixed |= {name: values[0] for name, values in axes.items() if name not in swept}
    if axes.get("time_based") == (False,):
        # Once through the region, however long it takes, and all of it timed.
        fixed |= {name: 0.0 for name in ("runtime", "ramp_time") if name in declared and name not in axes}
    fixed = {name: value for name, value in fixed.items() if name not in sweep.axes}
    points = sweep.points(declaration.axes)
    # Where it has none of them, the engine says what it has.
    points = [point for point in points if not declaration.lacks({**fixed, **point})] or points
    if "size" in fixed and "size" not in given:
        fixed["size"] = max(int(fixed["size"] or 0), *(min_region({**fixed, **point}) for point in points))
    for point in points:
        wrong = experiment.check(declaration, {**fixed, **point}) if experiment.check else None
        if wrong:
            raise UserError(wrong)
    along = load or (sweep.load_axis(experiment.load) if axes else experiment.load)
    if along not in sweep.axes:
        raise UserError(f"--load {along} is not an axis of this sweep; {hint(along, sweep.axes, 'use one of: ')}")
    return Planned(experiment, tuple(points), fixed, along, declaration)


def _mark_quoted(experiments: Sequence[Planned], site: Topology) -> tuple[Planned, ...]:
    """The experiments, with those of their points that headlines quote."""
    storages: dict[tuple[str, str], list[tuple[int, Parameters, Configuration]]] = {}
    for at, planned in enumerate(experiments):
        name, fixed, axes = planned.experiment.name, planned.fixed, planned.declaration.axes
        for point in planned.points:
            shown = Configuration(name, planned.experiment.kernel, axes, {**fixed, **point})
            storages.setdefault((planned.experiment.resource, name.partition("@")[2]), []).append((at, point, shown))
    chosen: list[list[Parameters]] = [[] for _ in experiments]
    for (resource, _), points in storages.items():
        for figure in find(resource).figures:
            near = [(distance(figure, of, site.processors), at, point) for at, point, of in points if fits(figure, of)]
            closest = min((apart for apart, _, _ in near), default=None)
            for apart, at, point in near:
                if apart == closest and point not in chosen[at]:
                    chosen[at].append(point)
    return tuple(replace(planned, quoted=tuple(points)) for planned, points in zip(experiments, chosen, strict=True))


def _find_axis(name: str, declared: Mapping[str, Axis], kernel: str) -> Axis:
    if name not in declared:
        raise UserError(why_not_here(name) or f"{kernel} has no parameter '{name}'; {hint(name, declared)}")
    return declared[name]


def read_axis(value: Any, declared: Mapping[str, Axis], name: str, kernel: str = "the kernel") -> tuple[Scalar, ...]:
    """Values of an axis as text (``1..1024``), one value, or a list of either; typed and within bounds."""
    axis = _find_axis(name, declared, kernel)
    values: list[Scalar] = []
    for part in value if isinstance(value, list | tuple) else [value]:
        if isinstance(part, str):
            values += parse_axis(part, axis)
        elif isinstance(part, bool | int | float):
            values.append(parse_value(part, axis))
        else:
            raise UserError(f"{name} = {part!r}: must be a value, or a list of values")
    if not values:
        raise UserError(f"{name}: write at least one value")
    return tuple(dict.fromkeys(values))


def _parse_sweep(sweep: Sweep, declared: Mapping[str, Axis], kernel: str) -> Sweep:
    return Sweep.of_blocks(
        tuple(
            {
                name: tuple(parse_value(value, axis) for value in values)
                for name, values in block.items()
                for axis in (_find_axis(name, declared, kernel),)
            }
            for block in sweep.blocks
        )
    )


def select(names: Sequence[str] | None, target: PlannedSite) -> list[tuple[Experiment, Given]]:
    """The experiments with the given names or resources; without names, the defaults of ``hwdyno run``."""
    site = target.topology()
    defaults = [experiment for experiment in catalogue.all() if experiment.by_default and experiment.fits(site)]
    if not names:
        kernels = target.kernels()
        here = [name for name in defaults if name.kernel in kernels]
        has_gpu = any("gpu" in experiment.needs for experiment in here) and site.gpus() > 0
        return [(experiment, {}) for experiment in here if has_gpu or "gpu" not in experiment.needs]
    found = dict.fromkeys(experiment for name in names for experiment in _by_name(name, defaults))
    return [(experiment, {}) for experiment in found]


def _by_name(name: str, defaults: Sequence[Experiment]) -> tuple[Experiment, ...]:
    found = catalogue.find(name)
    # A resource's name means its default experiments; an experiment's name means that experiment.
    return tuple(experiment for experiment in found if experiment in defaults or experiment.name == name) or found
