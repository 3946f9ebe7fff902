"""Histories of simulated machines: Runs of a few figures over months, with planted changes, drifts and settings."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import made_store as made
from hwdyno.model.machine import Machine
from hwdyno.model.words import Run, Value

FIRST = datetime(2026, 1, 5, 9, 30, tzinfo=timezone.utc)
NOISE = 0.03
DEPTHS = (1, 2, 4, 8, 16, 32)
SURVEY: dict[str, Any] = {
    "hostname": "atlas7",
    "os": {"kernel": "6.1.0-21-amd64", "distribution": "Debian GNU/Linux 12"},
    "cpu": {"model": "Some CPU", "threads": 16},
    "memory": {"total_bytes": 1 << 36},
    "storage": {"path": "/home/alice/x", "filesystem": "ext4", "disks": [{"model": "Some Disk", "serial": "SECRET77"}]},
    "conditions": {"governor": "performance", "others_cpu_share": 0.02, "steal_share": 0.0},
}
LATER = {
    **SURVEY,
    "os": {**SURVEY["os"], "kernel": "6.8.0-31-amd64"},
    "conditions": {**SURVEY["conditions"], "governor": "powersave", "others_cpu_share": 0.31},
}

Level = Callable[[int, int], float]
"""The factor of a figure (its number) at a run (its number) on its base level."""


def make_runs(
    count: int,
    level: Level,
    *,
    survey: Callable[[int], dict[str, Any]] = lambda _: SURVEY,
    seed: int = 1,
    name: str = "r",
) -> list[Run]:
    rng = random.Random(seed)
    found = []
    for at in range(count):
        points = [
            made.point(depth, 2e8 * depth**0.7 * level(at, figure) * (1 + rng.gauss(0, NOISE)))
            for figure, depth in enumerate(DEPTHS)
        ]
        mixed = [
            replace(
                made.point(depth, 1e8 * level(at, len(DEPTHS) + figure) * (1 + rng.gauss(0, NOISE)), rw="randwrite")
            )
            for figure, depth in enumerate(DEPTHS)
        ]
        probe = made.point(1, 1e9, rw="chase")
        probe = replace(
            probe,
            throughput=Value(1e7, "operations/s"),
            latency_ns=made.latency(90 / level(at, 99) * (1 + rng.gauss(0, NOISE))),
        )
        started = (FIRST + timedelta(days=3 * at)).isoformat()
        found.append(
            replace(
                made.run(
                    made.experiment(*points, name="storage.iodepth", planned=6),
                    made.experiment(*mixed, name="storage.write", planned=6),
                    replace(
                        made.experiment(probe, name="memory.latency", planned=1), resource="memory", metric="latency"
                    ),
                    run_id=f"{name}-{at:03}",
                ),
                started=started,
                machines=(Machine.of_survey(survey(at)),),
            )
        )
    return found
