"""Experiments made by hand, with the declaration that a Run of their kernel has."""

from __future__ import annotations

from typing import Any

from hwdyno.measure import experiments
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.plan import BY_PROFILE, Planned
from hwdyno.measure.runner.declared import kept_declaration
from hwdyno.measure.sweep import Sweep
from hwdyno.measure.topology import Topology
from hwdyno.model.axes import with_field_axes
from hwdyno.model.words import ExperimentResult

KERNELS = Local().kernels()
NOT_GIVEN = {*BY_PROFILE, "interval_s"}


def made_experiment(*args: Any, **named: Any) -> ExperimentResult:
    """An ``ExperimentResult`` of the fields, declared as the runner declares it; the field's axes for any kernel."""
    result = ExperimentResult(*args, **named)
    kernel = KERNELS.get(result.kernel)
    if kernel is None:
        return with_field_axes(result)
    base = experiments.find_base(result.resource, result.kernel)
    experiment = base or Experiment(
        name=f"{result.resource}.test", asks="?", kernel=result.kernel, load=result.load, sweep=Sweep()
    )
    points = tuple(point.parameters for point in result.points)
    planned = Planned(experiment, points, result.fixed, result.load, kernel)
    given = {
        name for name, value in result.fixed.items() if value != kernel.axis(name).default or name in experiment.fixed
    }
    declaration = kept_declaration(planned, given - NOT_GIVEN, result.fixed)
    return ExperimentResult(*args, **{**named, "declaration": declaration})


ON_ONE_HOST = tuple(experiment for experiment in experiments.all() if experiment.fits(Topology(64)))
"""The experiments that need no second host; tests/report/test_scaling.py has the others."""
