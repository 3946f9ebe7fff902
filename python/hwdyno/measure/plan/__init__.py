"""The plan of a run: experiments with their points, their times and repeats, from options or a TOML file."""

from __future__ import annotations

from hwdyno.measure.plan.plan import NO_LIMITS, Limits, Making, Plan, Planned, every
from hwdyno.measure.plan.plan_file import read_toml
from hwdyno.measure.plan.planning import BY_PROFILE, MAX_SEED, Given, build, read_axis, select
from hwdyno.measure.plan.profiles import PROFILES, Profile, choose_budget
from hwdyno.measure.plan.reading_times import (
    FEWER_QUOTED,
    QUOTED_REPEATS,
    SHORTEST_S,
    WARM_UP_S,
    WRITE_BYTES_S,
    Timing,
    overhead_s,
    reading_s,
    setup_s,
    showing,
    timing,
)

__all__ = [
    "BY_PROFILE",
    "FEWER_QUOTED",
    "MAX_SEED",
    "NO_LIMITS",
    "PROFILES",
    "QUOTED_REPEATS",
    "SHORTEST_S",
    "WARM_UP_S",
    "WRITE_BYTES_S",
    "Given",
    "Limits",
    "Making",
    "Plan",
    "Planned",
    "Profile",
    "Timing",
    "build",
    "choose_budget",
    "every",
    "overhead_s",
    "read_axis",
    "read_toml",
    "reading_s",
    "select",
    "setup_s",
    "showing",
    "timing",
]
