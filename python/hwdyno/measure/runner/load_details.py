"""What a point beside a load keeps: the ratios by round, and what may have limited it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hwdyno.analysis import estimates, resources
from hwdyno.measure import experiments
from hwdyno.measure.hosts import UnderLoad
from hwdyno.measure.measurement import Reading, Snapshot, choose_unit, compute_throughput, read_course
from hwdyno.measure.plan import Planned

EDGE_S = 0.06
"""Time by which a load may end after the reading: the stop is seen within it."""


@dataclass
class Turn:
    """One load beside one resource, between two readings without it."""

    resource: str
    load: str
    before: Reading
    taken: UnderLoad
    after: Reading | None = None


def load_axis(resource: str) -> str:
    """The axis along which a resource is driven."""
    (experiment,) = experiments.find(f"{resource}.{resources.find(resource).knee}")
    return experiment.load


def typed_load(planned: Planned) -> str:
    """The load of a resource as ``--at`` takes it: ``storage=32``."""
    resource = planned.experiment.resource
    return f"{resource}={planned.fixed.get(load_axis(resource))}"


def summarize_turns(
    turns: Sequence[Turn], planned: Planned, driven: Planned, alone: Sequence[Reading]
) -> dict[str, Any]:
    """What a point beside a load keeps: the ratios by round, and what may have caused them, with and without it.

    ``cores`` are processors' worth of CPU time of the measuring threads; ``*_share`` are shares of the machine's CPU
    time; ``load_share`` is the load's throughput beside this resource over that alone.
    """
    counted, _ = choose_unit(planned.declaration, [turn.before for turn in turns])
    load_counted, _ = choose_unit(driven.declaration, alone)
    without = [reading for turn in turns for reading in (turn.before, turn.after) if reading is not None]
    loaded = [turn.taken.reading for turn in turns]
    loads = [turn.taken.load for turn in turns]
    load_alone = estimates.mean([compute_throughput(reading, load_counted) for reading in alone]) if alone else 0.0
    found: dict[str, Any] = {
        "loaded_by_round": [compute_throughput(reading, counted) for reading in loaded],
        "alone_by_round": [
            math.sqrt(compute_throughput(turn.before, counted) * compute_throughput(turn.after or turn.before, counted))
            for turn in turns
        ],
        "cores": estimates.mean(list(map(count_cores, loaded))),
        "cores_alone": estimates.mean(list(map(count_cores, without))),
        "load_cores": estimates.mean(list(map(count_cores, loads))),
        "load_cores_alone": estimates.mean(list(map(count_cores, alone))) if alone else 0.0,
    }
    if load_alone:
        delivered = [load_rate(turn.taken, load_counted) for turn in turns]
        found["load_share_by_round"] = [rate / load_alone for rate in delivered]
        if load_counted == "bytes":
            found |= {"load_bytes_s": estimates.mean(delivered), "load_bytes_s_alone": load_alone}
    if counted == "bytes":
        found["bytes_s"] = estimates.mean(found["loaded_by_round"])
        found["bytes_s_alone"] = estimates.mean(found["alone_by_round"])
    return found | dict(shares([(turn.taken.before, turn.taken.after) for turn in turns]))


def load_rate(taken: UnderLoad, counted: str) -> float:
    """The load's throughput while the reading beside it was timed: its last samples, without the stop itself."""
    course, interval_s = read_course(taken.load, counted)
    ran_s, wanted_s = float(taken.load["elapsed_s"]), float(taken.reading["elapsed_s"])
    if not course or interval_s <= 0:
        return compute_throughput(taken.load, counted)
    first, last = (ran_s - EDGE_S - wanted_s) / interval_s, (ran_s - EDGE_S) / interval_s
    inside = [rate for at, rate in enumerate(course) if first <= at and at + 1 <= last]
    return estimates.mean(inside) if inside else compute_throughput(taken.load, counted)


def count_cores(reading: Reading) -> float:
    """Processors' worth of CPU time that the kernel's threads used, those of a network's other end here included."""
    cpu, elapsed_s = reading.get("cpu", {}), float(reading.get("elapsed_s", 0.0))
    spent_s = float(cpu.get("user_s", 0.0)) + float(cpu.get("system_s", 0.0))
    if not reading.get("parameters", {}).get("server"):
        spent_s += float(reading.get("details", {}).get("cpu_there_s", 0.0))
    return spent_s / elapsed_s if elapsed_s > 0 else 0.0


_SHARES = {
    "busy_share": "cpu_busy_s",
    "steal_share": "cpu_steal_s",
    "interrupt_share": "cpu_interrupt_s",
}


def shares(snapshots: Sequence[tuple[Snapshot, Snapshot]]) -> Iterator[tuple[str, float]]:
    """Shares of the machine's CPU time over these intervals; those that it does not count are left out."""
    spent: dict[str, float] = {}
    for before, after in snapshots:
        for name, value in before.items():
            if name in after:
                spent[name] = spent.get(name, 0.0) + after[name] - value
    total = spent.get("cpu_total_s", 0.0)
    if total <= 0:
        return
    spent["cpu_busy_s"] = total - spent.get("cpu_idle_s", total)
    for name, counter in _SHARES.items():
        if counter in spent:
            yield name, max(0.0, spent[counter] / total)
