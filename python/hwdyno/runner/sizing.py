"""How much memory a reading of main memory goes through: beyond every cache claimed, and within what is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hwdyno.plan import Plan, Planned

TIMES_THE_CACHE = 4
"""McCalpin's rule for STREAM: arrays of at least four times the last cache."""
TIMES_IN_QUICK = 2
LEAST_BYTES = 256 << 20
FREE_SHARE = 0.5


def sized(plan: Plan, machine: Mapping[str, Any]) -> Plan:
    """The plan with a ``working_set`` a thread for every question of main memory that was not given one."""
    return replace(plan, experiments=tuple(_sized(one, plan, machine) for one in plan.experiments))


def _sized(planned: Planned, plan: Plan, machine: Mapping[str, Any]) -> Planned:
    told = "working_set" in plan.given or any("working_set" in point for point in planned.points)
    if "main_memory" not in planned.experiment.needs or told:
        return planned
    most = max(int(point.get("threads") or planned.fixed.get("threads") or 1) for point in planned.points)
    times = TIMES_IN_QUICK if plan.profile.name == "quick" else TIMES_THE_CACHE
    wanted = max(LEAST_BYTES, times * claimed_cache(machine))
    free = free_memory(machine)
    if free is not None:
        wanted = min(wanted, max(1 << 20, int(free * FREE_SHARE / most)))
    return replace(planned, fixed={**planned.fixed, "working_set": wanted >> 20 << 20})


def claimed_cache(machine: Mapping[str, Any]) -> int:
    """Bytes of the largest cache that the system claims, one instance; 0 where it claims none."""
    caches = (machine.get("cpu") or {}).get("caches") or []
    return max((int(cache.get("size_bytes") or 0) for cache in caches), default=0)


def free_memory(machine: Mapping[str, Any]) -> int | None:
    """Bytes that may be used, by the system and by the container; none where neither tells."""
    container = machine.get("container") or {}
    told = [(machine.get("memory") or {}).get("available_bytes"), container.get("memory_limit_bytes")]
    known = [int(one) for one in told if isinstance(one, int | float) and one > 0]
    return min(known, default=None)
