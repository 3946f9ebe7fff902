"""Every experiment of this folder, found by walking it, and the lookup by name."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import cache

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.model.words import UserError
from hwdyno.system.suggestions import hint


@cache
def all() -> tuple[Experiment, ...]:
    """Every experiment of every file in this folder, in the order written."""
    folder = importlib.import_module(__package__)
    found: list[Experiment] = []
    for module in pkgutil.iter_modules(folder.__path__):
        names = vars(importlib.import_module(f"{__package__}.{module.name}"))
        found += [value for value in names.values() if isinstance(value, Experiment)]
    return tuple(found)


OTHER_NAMES = {"cpu": "compute", "disk": "storage", "net": "network", "ram": "memory", "ssd": "storage"}
"""Names that people type for a resource."""


def find(name: str) -> tuple[Experiment, ...]:
    """The experiment that has or had this name, or all experiments of the resource; raises ``UserError``."""
    name = OTHER_NAMES.get(name, name)
    found = tuple(experiment for experiment in all() if name in experiment.words)
    found = found or tuple(
        replace(experiment, renamed_from=name) for experiment in all() if experiment.formerly == name
    )
    if not found:
        resource, _, suffix = name.partition(".")
        of_resource = [experiment.name for experiment in all() if experiment.resource == resource] if suffix else []
        groups = dict.fromkeys(experiment.words[-1] for experiment in all())
        known = of_resource or [*groups, *(experiment.name for experiment in all())]
        raise UserError(f"no experiment or resource is called '{name}'; {hint(name, known)}")
    return found


@cache
def find_base(resource: str, kernel: str) -> Experiment | None:
    """The experiment that a resource's command lays axes of a kernel over; none where the resource has none of it."""
    same = [experiment for experiment in all() if experiment.resource == resource and experiment.kernel == kernel]
    return next((experiment for experiment in same if experiment.base is not None), same[0] if same else None)


@cache
def list_resources(kernel: str) -> tuple[str, ...]:
    """The resources of the experiments that measure a kernel, in their order."""
    return tuple(dict.fromkeys(experiment.resource for experiment in all() if experiment.kernel == kernel))


@cache
def list_kernels(resource: str) -> tuple[str, ...]:
    """The kernels of a resource's experiments, in their order."""
    return tuple(dict.fromkeys(experiment.kernel for experiment in all() if experiment.resource == resource))
