"""What a Run keeps of a kernel's declaration: the axes that its results are read by, as the command has them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any

from hwdyno.measure import experiments
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.plan import BY_PROFILE, Planned
from hwdyno.measure.sweep import parse_value
from hwdyno.measure.topology import FromSite
from hwdyno.model.words import Axis, Declaration, Parameters, Scalar

_BY_RUNNER = {"path", "seed"}


def kept_declaration(planned: Planned, given: Set[str], fixed: Parameters) -> Declaration:
    """The kernel's declaration with the axes that matter to the experiment.

    These are the ones that are swept, that a command has to name, that have a role or whose words mean something, and
    that give a unit to a value in ``fixed``, which every point shares. The others would make a Run ten times as long.
    An axis's default is what the experiment's command takes without it: what the command's own point or the data set
    settles, or else the kernel's.
    """
    experiment, kernel = planned.experiment, planned.declaration
    swept = {name for point in planned.points for name in point}
    named = {*experiment.fixed, *experiment.named_as, *given} - _BY_RUNNER
    axes = []
    for axis in kernel.axes:
        value = fixed.get(axis.name)
        has_unit = bool(axis.unit and value and value != axis.default)
        if axis.name in swept | named or axis.role != "label" or axis.traits or has_unit:
            is_set = axis.name in swept | named | _SIZED
            default = _find_default(planned, axis) if is_set else fixed.get(axis.name, axis.default)
            option = experiment.named_as.get(axis.name, axis.name)
            option = option if option != axis.name else ""
            is_same = default is axis.default and option == axis.option
            axes.append(axis if is_same else replace(axis, default=default, option=option))
    return replace(kernel, axes=tuple(axes), possible=(), command=_command(experiment))


_SIZED = {"working_set"}
"""Axes that the runner sizes by the machine: the same command differs elsewhere, so advice names them."""


def _resource(experiment: Experiment) -> str:
    """The resource whose command runs the experiment's kernel."""
    if experiment.measured_by:
        return experiment.measured_by
    owners = experiments.list_resources(experiment.kernel)
    return experiment.resource if experiment.resource in owners else next(iter(owners), experiment.resource)


def _command(experiment: Experiment) -> str:
    if experiment.by_name:
        return experiment.name.replace(".", " ", 1)
    resource = _resource(experiment)
    return "" if resource == experiment.resource else resource


def _find_default(planned: Planned, axis: Axis) -> Scalar:
    """The command's default for an axis; none where the axis must be given."""
    experiment = planned.experiment
    resource = _resource(experiment)
    first = next(iter(experiments.list_kernels(resource)), "")
    like = experiments.find_base(resource, experiment.kernel)
    if axis.name in {*experiment.named_as, *BY_PROFILE, *_SIZED} or like is None:
        return None
    point: dict[str, Any] = {name: values[0] for name, values in like.single_point.axes.items()}
    settled = {**like.fixed, **point}
    # The axes in a command select the kernel; without them it is the resource's first one.
    if experiment.kernel != first or isinstance(settled.get(axis.name), FromSite):
        return None
    return parse_value(settled[axis.name], axis) if axis.name in settled else axis.default
