"""Which points a resource is quoted by: chosen by their configuration alone, before or after they are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hwdyno.analysis.resources.description import HeadlineFigure
from hwdyno.model.axes import ALONE, BACKGROUND, list_traits, splits
from hwdyno.model.units import as_number
from hwdyno.model.words import Axis, Parameters, Trait

ACCESSES: frozenset[Trait] = frozenset({"reads", "writes", "random", "trims"})
"""What points do, regardless of their engine."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What one point is measured with."""

    experiment: str
    """Its name; with the storage's name where several are measured."""
    kernel: str
    axes: tuple[Axis, ...]
    """Its kernel's."""
    parameters: Parameters
    """All of them, what all points of the experiment share included."""

    @property
    def name(self) -> str:
        """The experiment's name without the storage's."""
        return self.experiment.partition("@")[0]


def fits(figure: HeadlineFigure, configuration: Configuration) -> bool:
    """Whether a figure can be of a point."""
    if configuration.parameters.get(BACKGROUND.name, ALONE) != ALONE:
        return False  # What is left beside a load is no figure of the resource.
    if figure.kernels and configuration.kernel not in figure.kernels:
        return False
    # A pattern of files goes through the page cache: it does not measure the device.
    axes = [axis for axis in splits(configuration.axes) if axis.name in configuration.parameters]
    if figure.pattern and list_traits(axes, configuration.parameters) & ACCESSES != set(figure.pattern):
        return False
    return configuration.name not in figure.not_in and figure.where.items() <= configuration.parameters.items()


def distance(figure: HeadlineFigure, configuration: Configuration, processors: int) -> tuple[bool, float, float]:
    """How far a point is from the one that a figure means: the least is quoted."""
    most = as_number(configuration.parameters.get(figure.most)) or 0.0
    # Of more threads than processors some wait, and measure the scheduler.
    most = processors / most if figure.most == "threads" and 0 < processors < most else most
    apart = sum(_apart(configuration.parameters.get(name), wanted) for name, wanted in figure.prefer.items())
    return configuration.name not in figure.experiments, -most, apart


def _apart(value: object, wanted: object) -> float:
    """How far a parameter is from the one that is meant: in doublings where both are numbers."""
    number, target = as_number(value), as_number(wanted)
    if isinstance(value, bool) or not number or not target:
        return 0.0 if value == wanted else 1e3
    return abs(math.log2(number / target))
