"""A checkpoint: a model's, at a stated scale, is saved and loaded by all its ranks at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.object_folder import make_object_folder, name_folder, reach
from hwdyno.measure.scenarios.preparation import FolderOfPoints, Preparation
from hwdyno.measure.scenarios.request import Chosen, Option, Request, free_bytes
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.model.units import format_bytes_s, format_duration, format_size
from hwdyno.model.words import Parameters, Run, UserError
from hwdyno.system.urls import format_place, in_object_store

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host

QUICK_TIMES = 3
ROOM_SHARE = 0.5
"""The share of the free space for concurrent checkpoints."""
MAX_OF_ROOM = 0.98
"""The same for a single checkpoint."""
BRIEF_RUNTIME_SHARE = 2.0
"""Its saves and loads are counted, not timed; this is what they are expected to take."""


def make(request: Request, host: Host) -> Scenario:
    """Saves and loads on each storage."""
    from hwdyno.formats import checkpoint_sizes
    from hwdyno.measure.experiments.training import CHECKPOINT
    from hwdyno.measure.sweep import parse_axis

    model = checkpoint_sizes.find(request.options["checkpoint"], request.options["scale"])
    given = str(request.options["ranks"] or min(16, model.ranks))
    ranks = [int(value) for value in parse_axis(given, host.kernels()[CHECKPOINT.kernel].axis("ranks")) if value]
    request.check_places()
    reached = reach(request)
    is_quick, many = request.profile == "quick", len(request.places) > 1
    chosen: list[Chosen] = []
    folders: list[Preparation] = []
    for name, path in request.places:
        is_remote = in_object_store(path)
        folder = name_folder(path) if is_remote else path / "hwdyno-checkpoint"
        settled: Parameters = {**model.parameters, "path": format_place(folder), **(reached if is_remote else {})}
        fixed: Parameters = {name: settled.pop(name) for name in ("model", "scale")}
        if is_quick:
            settled |= {"writes": QUICK_TIMES, "reads": QUICK_TIMES}
        # As many at the same time as there are saves, or as fit in the free space.
        free = math.inf if is_remote else free_bytes(path)
        if model.bytes > free * MAX_OF_ROOM:
            raise UserError(
                f"a checkpoint of {format_size(model.bytes)} does not fit in the {format_size(free)} free in {path}; "
                f"use --scale {free * ROOM_SHARE / model.full_bytes:.1g} or less"
            )
        writes = int(settled["writes"] or 1)
        slots = writes if is_remote else max(1, min(writes, int(free * ROOM_SHARE / model.bytes)))
        settled["slots"] = slots
        called = f"training.checkpoint.{model.model}" + (f"@{name}" if many else "")
        experiment = replace(CHECKPOINT, name=called, fixed=fixed, settled=settled)
        axes = request.axes if request.is_brief else {}
        chosen.append((request.as_part(experiment, BRIEF_RUNTIME_SHARE), {"ranks": ranks, **axes}))
        folders.append(_folder(folder, slots, model.bytes, reached if is_remote else {}))
    plan = replace(request, load="ranks", peers=False).plan(chosen, host)
    if not request.is_brief:
        plan = replace(plan, profile=replace(plan.profile, repeats_min=1, repeats_max=1))
    remarks = [model.memory(count) for count in ranks]
    if is_quick:
        remarks.append(
            f"profile quick: {QUICK_TIMES} saves, then {QUICK_TIMES} loads, instead of MLPerf Storage's "
            f"{model.writes} and {model.reads} (--profile standard)"
        )
    return Scenario(plan=plan, preparations=tuple(folders), remarks=tuple(remarks), summary=_summary)


def _folder(folder: Path, slots: int, slot_bytes: int, reached: Parameters) -> Preparation:
    if reached:
        contents, place = f"checkpoints: {slots}", format_place(folder)
        return make_object_folder(contents, place, slots * slot_bytes, reached, by_points=True)
    description = f"checkpoints: {slots} in {folder}, removed afterwards"
    return FolderOfPoints(description=description, where=folder, bytes=slots * slot_bytes)


def _summary(run: Run) -> Iterator[str]:
    """Each point's save and load, in GB/s and s."""
    for result in run.experiments:
        for point in result.points:
            for word in ("save", "load"):
                speed, took = point.details.get(f"{word}_bytes_s"), point.details.get(f"{word}_mean_s")
                if speed and took:
                    yield (
                        f"{result.name} ranks {point.parameters.get('ranks')}: {word} {format_bytes_s(speed)}, "
                        f"{format_duration(took)} each"
                    )


KIND = Kind(
    name="checkpoint",
    command="training",
    make=make,
    title="checkpoints",
    options=(
        Option("--checkpoint", "llama3-8b, llama3-70b, llama3-405b or llama3-1t", "MODEL"),
        Option(
            "--scale",
            "share of its size to use (default 0.01)",
            "FACTOR",
            kind=float,
            default=0.01,
        ),
        Option("--ranks", "ranks that save in parallel (default: the model's, at most 16)", "COUNTS"),
    ),
    chosen_by="checkpoint",
    experiments=("training.checkpoint",),
    takes_stores=True,
    brief={"checkpoint": "llama3-8b", "scale": 0.001},
)
