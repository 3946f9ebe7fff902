"""The command that measures a point again: its axes, and shared parameters that are not the command's defaults."""

from __future__ import annotations

from collections.abc import Mapping

from hwdyno.axes import shares_joined
from hwdyno.words import Axis, Declaration, ExperimentResult, Parameters, Scalar

_NO_AXES = {"seed", "path", "cpus"}
"""Options of every command, and parameters that the runner decides."""


def shared_options(result: ExperimentResult) -> Parameters:
    """The shared parameters that a command must name because its defaults differ."""
    shared = [(axis, result.fixed.get(axis.name)) for axis in result.declaration.axes]
    return {axis.name: value for axis, value in shared if value not in {None, "", axis.default}}


def takes(result: ExperimentResult, name: str) -> bool:
    """Whether the experiment's command has this axis; a kernel without a declaration may have any."""
    return not result.declaration.measures or name in result.declaration.names or name in result.fixed


def command_of(resource: str, parameters: Mapping[str, Scalar], kernel: Declaration) -> str:
    """The command line that measures these parameters."""
    given = shares_joined(kernel.axes, dict(parameters))
    named = [axis for axis in kernel.axes if axis.option and axis.name in given]
    options = {axis.option: typed(axis, given.pop(axis.name)) for axis in named}
    options |= {name: typed(kernel.axis(name), value) for name, value in given.items() if name not in _NO_AXES}
    words = [f"--{name.replace('_', '-')} {value}" for name, value in options.items()]
    return " ".join(["hwdyno", kernel.command or resource or "run", *words])


def typed(axis: Axis, value: Scalar) -> str:
    """A value as typed on the command line: 4k, 1M, true as 1."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float) and axis.unit == "B":
        for suffix, size in (("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10)):
            if value >= size and value % size == 0:
                return f"{value // size:.0f}{suffix}"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)
