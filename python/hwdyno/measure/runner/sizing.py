"""How much memory a reading of main memory goes through: beyond every cache claimed, and within what is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hwdyno.measure.plan import Plan, Planned
from hwdyno.model.machine import Machine

TIMES_THE_CACHE = 4
"""McCalpin's rule for STREAM: arrays of at least four times the last cache."""
TIMES_IN_QUICK = 2
MIN_BYTES = 256 << 20
FREE_SHARE = 0.5


def size_working_sets(plan: Plan, machines: Sequence[Machine]) -> Plan:
    """The plan with a ``working_set`` a thread for every question of main memory that was not given one."""
    return replace(plan, experiments=tuple(_size_experiment(planned, plan, machines) for planned in plan.experiments))


def _size_experiment(planned: Planned, plan: Plan, machines: Sequence[Machine]) -> Planned:
    given = "working_set" in plan.given or any("working_set" in point for point in planned.points)
    if "main_memory" not in planned.experiment.needs or given:
        return planned
    most = max(int(point.get("threads") or planned.fixed.get("threads") or 1) for point in planned.points)
    times = TIMES_IN_QUICK if plan.profile.name == "quick" else TIMES_THE_CACHE
    wanted = max(MIN_BYTES, times * max(map(claimed_cache, machines)))
    free = min((free for machine in machines if (free := free_memory(machine)) is not None), default=None)
    if free is not None:
        wanted = min(wanted, max(1 << 20, int(free * FREE_SHARE / most)))
    return replace(planned, fixed={**planned.fixed, "working_set": wanted >> 20 << 20})


def claimed_cache(machine: Machine) -> int:
    """Bytes of the largest cache that the system claims, one instance; 0 where it claims none."""
    return max((cache.size_bytes or 0 for cache in machine.cpu.caches), default=0)


def free_memory(machine: Machine) -> int | None:
    """Available bytes, limited by the system and the container; none where both are unknown."""
    inside = machine.container
    limits = (machine.memory.available_bytes, inside.memory_limit_bytes, inside.memory_left_bytes)
    return min((limit for limit in limits if limit), default=None)
