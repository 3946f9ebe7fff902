"""Ceilings of several hosts together: the sum of each node's, where it is known for every node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hwdyno.model.machine import Machine, node_name
from hwdyno.model.units import format_value
from hwdyno.model.words import Ceiling


def sum_ceilings(machines: Sequence[Machine], of_one: Callable[[Machine], tuple[Ceiling, ...]]) -> tuple[Ceiling, ...]:
    """The ceilings of the hosts together; for one host, its own ceilings. Ranks of one node share what it has."""
    nodes = {node_name(machine.hostname or str(at)): machine for at, machine in enumerate(machines)}
    per_host = [of_one(machine) for machine in nodes.values()]
    if len(per_host) == 1:
        return per_host[0]
    found = []
    for first in per_host[0] if per_host else ():
        alike = [
            ceiling
            for ceilings in per_host
            for ceiling in ceilings
            if (ceiling.metric, ceiling.kind) == (first.metric, first.kind)
        ]
        if len(alike) == len(per_host):
            value, hosts = sum(ceiling.value for ceiling in alike), f"{len(per_host)} hosts"
            formula = f"{' + '.join(ceiling.formula for ceiling in alike)} = {format_value(value, first.unit)}"
            found.append(replace(first, value=value, formula=formula, label=f"{hosts}, each like {first.label}"))
    return tuple(found)
