"""Ceilings of several hosts together: the sum of each host's, where it is known for every host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hwdyno.machine import Machine
from hwdyno.units import format_value
from hwdyno.words import Ceiling


def summed(machines: Sequence[Machine], of_one: Callable[[Machine], tuple[Ceiling, ...]]) -> tuple[Ceiling, ...]:
    """The ceilings of these hosts together; for one host, its own ceilings."""
    each = [of_one(machine) for machine in machines]
    if len(each) == 1:
        return each[0]
    found = []
    for first in each[0] if each else ():
        alike = [one for ceilings in each for one in ceilings if (one.metric, one.kind) == (first.metric, first.kind)]
        if len(alike) == len(each):
            value, hosts = sum(one.value for one in alike), f"{len(each)} hosts"
            formula = f"{' + '.join(one.formula for one in alike)} = {format_value(value, first.unit)}"
            found.append(replace(first, value=value, formula=formula, label=f"{hosts}, each like {first.label}"))
    return tuple(found)
