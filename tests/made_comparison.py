"""Runs to be compared: on one machine, scaled, with results and points changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import made_store as made
from hwdyno.model.machine import Conditions, Cpu, Machine, Memory, OperatingSystem, Settings
from hwdyno.model.words import Measurement, Run

DEVICE = "Samsung 990 PRO 2TB"


def machine(**changed: Any) -> Machine:
    base = Machine(
        os=OperatingSystem(kernel="6.1", distribution="Debian 12"),
        cpu=Cpu(model="Some CPU", threads=4),
        memory=Memory(total_bytes=64 << 30, transparent_huge_pages="madvise"),
        conditions=Conditions(governor="performance", load_1m=0.1),
        settings=Settings(environment={"OMP_NUM_THREADS": "4"}),
    )
    return replace(base, **changed)


def scaled(factor: float = 1.0, *, name: str = "storage.iodepth", noise: float = 0.001, run_id: str = "a") -> Run:
    points = [
        made.point(depth, value * factor, tuple(value * factor * (1 + at * noise) for at in (-1, 0, 1)))
        for depth, value in ((1, 1e8), (2, 1.9e8), (4, 2.5e8), (8, 2.6e8))
    ]
    return replace(made.run(made.experiment(*points, name=name), run_id=run_id), machines=(machine(),))


def with_results(run: Run, **changed: Any) -> Run:
    return replace(run, experiments=tuple(replace(experiment, **changed) for experiment in run.experiments))


def with_points(run: Run, change: Any) -> Run:
    return replace(
        run,
        experiments=tuple(
            replace(experiment, points=tuple(map(change, experiment.points))) for experiment in run.experiments
        ),
    )


def given(point: Measurement, **parameters: Any) -> Measurement:
    return replace(point, parameters={**point.parameters, **parameters})
