"""What a plan will take and write, point by point, before anything is measured: a dry run's lines."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hwdyno.measure.plan import WARM_UP_S, WRITE_BYTES_S, Plan, Planned, reading_s, showing, timing
from hwdyno.model.words import Axis, Parameters

# No block device of today answers a write sooner.
MIN_WRITE_S = 5e-6
# Nor a system call that copies a block into the page cache.
MIN_CACHED_S = 3e-7
RECORD_BYTES, RECORD_BYTES_A_POINT = 46_000, 15_000
"""What a Run's journal, document and entry in the index take, about: a point has 7 kB to 36 kB of them."""
CACHED_BYTES_S = 30e9
"""Most bytes/s of a thread that writes into the page cache: a copy within memory."""


@dataclass(frozen=True)
class Line:
    """One point of a dry run."""

    experiment: str
    parameters: Parameters
    writes_bytes: float
    """Upper bound, at ``write_bytes_s``, with the warm-up and every repeat that a noisy point may take."""
    min_bytes: float
    """Lower bound, with the warm-up: 0 where the time decides."""
    takes_s: float
    """Lower bound: a noisy point is repeated."""
    axes: tuple[Axis, ...]
    """Its kernel's."""
    max_readings: int = 0
    """The most readings, with the warm-up; 0 where that is not known."""
    max_s: float = 0.0
    """The longest time that they measure."""


def listing(plan: Plan, write_bytes_s: float = WRITE_BYTES_S) -> list[Line]:
    """Every point with the bytes that it will write and the time that it will take."""
    chosen = timing(plan, plan.budget_s)
    lines = []
    for planned in plan.experiments:
        for point in planned.points:
            parameters = {**planned.fixed, **point}
            once = reading_s(planned, point, chosen, plan.given)
            quoted = point in planned.quoted
            repeats = chosen.least(quoted)
            shown = max(repeats, showing(planned, point, chosen, plan.given)) if repeats > 1 else repeats
            if plan.budget_s is None:
                repeats = shown
            takes = repeats * planned.with_peers_s(plan, once)
            written, counted = estimate_writes(planned, parameters, write_bytes_s, once)
            warm = 0.0
            if point is planned.points[0]:
                warm, counted_too = estimate_writes(planned, _warm(parameters), write_bytes_s, WARM_UP_S)
                counted = counted and (counted_too or not written)
            most = warm + written * max(chosen.most(quoted), shown) * (1 + planned.count_pairs(plan))
            least = warm + written * repeats if counted else 0.0
            readings = max(chosen.most(quoted), shown)
            warmed = point is planned.points[0]
            longest_s = readings * once + warmed * WARM_UP_S
            axes, name = planned.declaration.axes, planned.experiment.name
            lines.append(Line(name, point, most, least, takes, axes, readings + warmed, longest_s))
    return lines


def estimate_record(points: int) -> float:
    """Bytes that the record of a Run takes in its store, about; that is not the storage that is measured."""
    return RECORD_BYTES + RECORD_BYTES_A_POINT * points


def estimate_writes(
    planned: Planned, parameters: Parameters, write_bytes_s: float, seconds: float
) -> tuple[float, bool]:
    """The most bytes that one reading of a point writes, and whether its time does not matter."""
    experiment, most = planned.experiment, write_bytes_s * seconds
    if experiment.writes is not None:
        whole = experiment.writes(planned.declaration, parameters, math.inf)
        return (whole, True) if whole <= most else (experiment.writes(planned.declaration, parameters, most), False)
    return written_blocks(parameters, planned.write_share(parameters), write_bytes_s, seconds)


def written_blocks(parameters: Parameters, share: float, write_bytes_s: float, seconds: float) -> tuple[float, bool]:
    """The same of a job of blocks, a ``share`` of whose operations write."""
    if not parameters.get("direct", True):
        write_bytes_s = max(write_bytes_s, CACHED_BYTES_S * float(parameters.get("numjobs") or 1))
    if parameters.get("time_based", True):
        return share * seconds * min(write_bytes_s, _most_bytes_s(parameters)), share == 0
    jobs = 1.0 if parameters.get("share", "partition") == "partition" else float(parameters.get("numjobs") or 1)
    once = float(parameters.get("io_size") or 0) or float(parameters.get("size") or 0) * jobs
    whole = once * float(parameters.get("loops") or 1)
    # Of a mix of reads and writes, chance decides how many are which.
    return share * whole, share in {0.0, 1.0}


def _warm(parameters: Parameters) -> Parameters:
    """The parameters of the warm-up: as short as it is."""
    limits = {"runtime": WARM_UP_S, "ramp_time": 0.0, "startdelay": 0.0}
    least = {name: min(float(parameters[name] or most), most) for name, most in limits.items() if name in parameters}
    return {**parameters, **least}


def _most_bytes_s(parameters: Parameters) -> float:
    """The highest rate of this many blocks in flight, from the lowest latency of a write."""
    min_s = MIN_WRITE_S if parameters.get("direct", True) else MIN_CACHED_S
    in_flight = float(parameters.get("iodepth") or 1) * float(parameters.get("numjobs") or 1)
    return in_flight * float(parameters.get("bs") or 4096) / min_s
