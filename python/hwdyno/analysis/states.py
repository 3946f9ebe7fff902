"""Finds when what a Run measures changed for good, by the times of all readings, and keeps its states apart."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hwdyno.analysis.chances import f_tail
from hwdyno.analysis.estimates import harmonic_mean, mean, t_quantile
from hwdyno.model.point_details import Note
from hwdyno.model.units import format_bytes, format_duration, format_percent, format_quantity
from hwdyno.model.words import ExperimentResult, Measurement, Run, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

CHANGED_NOTE, OTHER_STATE = "device_changed", "other_state"
"""Code of the note on a point with readings of another state than most; and why a curve leaves a point out."""
CHANGED_AT = "changed_at_s"
"""Name of a point's condition: when what it measures changed, s after the run began."""
CHANGED_TO = "changed_to_share"
"""Name of the condition: throughput after that over throughput before."""
MAX_P_VALUE = 1e-3
"""Probability, over all places where the readings could be cut, below which a change is no chance."""
MIN_CHANGE = 0.15
"""A smaller change, as a share, is within what many figures leave open anyway, and would degrade them all."""
MIN_SIDE, MIN_ACROSS = 2, 2
"""Readings on each side of a change, and points that were read on both sides: one odd reading or point is no change."""
MIN_SIDE_SHARE = 0.1
"""Minimum share of all readings on each side: what disturbs the last few is no state."""
MIN_SPARE = 3
"""Readings beyond those that tell each point's level and the change."""
MIN_EVIDENCE = 6.0
"""Twice the logarithm of the likelihood of a change over that of a drift: a cut is chosen among many, a line is one."""
ALIKE_SHARE = 0.75
"""Minimum share of the points read on both sides that changed at least half as much as all together."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A moment from which on all readings of a resource are higher or lower by the same share."""

    at_s: float
    """Moment of the change, s after the run began: between the last reading before it and the first after it."""
    ratio: float
    """Throughput after it over throughput before."""


def change_in(points: Sequence[Measurement]) -> StateChange | None:
    """The change that the readings of some points show together; none where chance explains it.

    Each point has a level, and all have the same change (a two-way layout with one cut, chosen among all). F is the
    share of the scatter that the cut explains, against what is left; its chance counts once for each place of a cut
    (Bonferroni). A drift is no change: a straight line over time must explain much less.
    """
    known = [
        point
        for point in points
        if len(point.repeat_starts_s) == len(point.repeat_values) > 1 and min(point.repeat_values) > 0
    ]
    spare = sum(len(point.repeat_values) for point in known) - len(known) - 1
    if len(known) < MIN_ACROSS or spare < MIN_SPARE:
        return None
    import numpy as np

    owner = np.array([at for at, point in enumerate(known) for _ in point.repeat_values], dtype=int)
    starts = np.array([start for point in known for start in point.repeat_starts_s])
    logs = np.log([value for point in known for value in point.repeat_values])

    member = (owner[:, None] == np.arange(len(known))).astype(float)
    mean_of = member / member.sum(axis=0)

    def within(rows: Array) -> Array:
        """What is left of rows of readings without each point's mean."""
        return np.asarray(rows - rows @ mean_of @ member.T)

    off = within(logs[None])[0]
    if np.abs(off).max() < MIN_CHANGE / 4:
        return None
    times = np.unique(starts)
    middle = (times[:-1] + times[1:]) / 2
    side = max(MIN_SIDE, math.ceil(MIN_SIDE_SHARE * len(times)))
    cuts = middle[side - 1 : len(middle) - side + 1]
    if not len(cuts):
        return None
    after = starts[None] > cuts[:, None]
    apart = within(after.astype(float))
    weight = (apart**2).sum(axis=1)
    explained = np.where(weight > 0, (apart @ off) ** 2 / np.maximum(weight, 1e-300), 0.0)
    best = int(explained.argmax())
    unexplained = float((off**2).sum() - explained[best])
    shift = float(apart[best] @ off / weight[best]) if weight[best] > 0 else 0.0
    line = within(starts[None])[0]
    drift = float((line @ off) ** 2 / max(float(line @ line), 1e-300))
    left_by_drift = max(float((off**2).sum()) - drift, 0.0)
    if abs(shift) < -math.log1p(-MIN_CHANGE) or left_by_drift < unexplained * math.exp(MIN_EVIDENCE / spare):
        return None
    p_value = len(cuts) * f_tail(1, spare, float(explained[best]) / max(unexplained / spare, 1e-12))
    across = [found for point in known if (found := _measure_shift(point, float(cuts[best]))) is not None]
    alike = sum(found / shift >= 0.5 for found in across)
    if p_value >= MAX_P_VALUE or len(across) < MIN_ACROSS or alike < ALIKE_SHARE * len(across):
        return None
    return StateChange(float(cuts[best]), math.exp(shift))


def _measure_shift(point: Measurement, at_s: float) -> float | None:
    """The change of a point's own readings, as a logarithm; none where all are of one state."""
    before, after = _split(point, at_s)
    return math.log(harmonic_mean(after) / harmonic_mean(before)) if before and after else None


def _split(point: Measurement, at_s: float) -> tuple[list[float], list[float]]:
    """A point's readings before and after a moment."""
    timed = list(zip(point.repeat_starts_s, point.repeat_values, strict=True))
    return [value for start, value in timed if start < at_s], [value for start, value in timed if start >= at_s]


def with_states(run: Run) -> Run:
    """The Run with what changed stated at the points of each resource that changed for good.

    Points that have readings of another state than most of the resource's have a note, which says what changed.
    """
    points_of: dict[str, list[Measurement]] = defaultdict(list)
    for result in run.experiments:
        points_of[result.resource] += [point for point in result.points if point.validity != "invalid"]
    changes = {resource: change_in(points) for resource, points in points_of.items()}
    notes = {
        resource: Note(CHANGED_NOTE, _words(change, points_of[resource], with_bytes=resource == "storage"))
        for resource, change in changes.items()
        if change is not None
    }
    is_later = {
        resource: _is_mostly_after(points_of[resource], change.at_s)
        for resource, change in changes.items()
        if change is not None
    }

    def mark_point(point: Measurement, resource: str) -> Measurement:
        change = changes[resource]
        conditions = {name: value for name, value in point.conditions.items() if name not in {CHANGED_AT, CHANGED_TO}}
        kept = tuple(note for note in point.notes if note.code != CHANGED_NOTE)
        if change is not None and len(point.repeat_starts_s) == len(point.repeat_values) > 0:
            conditions |= {CHANGED_AT: change.at_s, CHANGED_TO: change.ratio}
            before, after = _split(point, change.at_s)
            if before if is_later[resource] else after:
                kept = (*kept, notes[resource])
        if conditions == point.conditions and kept == point.notes:
            return point
        return replace(point, conditions=conditions, notes=kept)

    return replace(
        run,
        experiments=tuple(
            replace(result, points=tuple(mark_point(point, result.resource) for point in result.points))
            for result in run.experiments
        ),
    )


def _is_mostly_after(points: Sequence[Measurement], at_s: float) -> bool:
    """Whether most readings are of the state after a moment."""
    starts = [start for point in points for start in point.repeat_starts_s]
    return sum(start >= at_s for start in starts) * 2 > len(starts)


def _words(change: StateChange, points: Sequence[Measurement], *, with_bytes: bool) -> str:
    moved = [
        rate * point.elapsed_s / max(1, point.repeats)
        for point in points
        for start, rate in zip(point.repeat_starts_s, point.repeat_values, strict=False)
        if start < change.at_s and point.throughput.unit == "bytes/s"
    ]
    verb = "fell" if change.ratio < 1 else "rose"
    amount = f" and {format_bytes(sum(moved))}" if moved and with_bytes else ""
    return f"throughput {verb} to {format_percent(change.ratio)} after {format_duration(change.at_s)}{amount}"


def format_levels(point: Measurement) -> str:
    """A point's throughput before and after the change, in words; empty where it was read in one state alone."""
    at_s, unit = point.conditions.get(CHANGED_AT), point.throughput.unit
    if at_s is None:
        return ""
    parts = [part for part in _split(point, at_s) if part]
    return " to ".join(format_quantity(harmonic_mean(part), unit) for part in parts) if len(parts) == 2 else ""


def in_one_state(result: ExperimentResult) -> ExperimentResult:
    """The experiment for its curves: each point by its readings of one state, the one that most points were read in.

    A point without such a reading says why it is left out. A latency over readings of both states is none.
    """
    at_s = next((point.conditions[CHANGED_AT] for point in result.points if CHANGED_AT in point.conditions), None)
    if at_s is None:
        return result
    sides = [_split(point, at_s) if CHANGED_AT in point.conditions else ([], []) for point in result.points]
    later = sum(bool(after) for _, after in sides) >= sum(bool(before) for before, _ in sides)
    noise = _noise(sides)
    points = []
    for point, (before, after) in zip(result.points, sides, strict=True):
        kept, other = (after, before) if later else (before, after)
        if kept and other:
            half = t_quantile(30) * noise / math.sqrt(len(kept))
            scale = harmonic_mean(kept) / point.throughput.value
            point = replace(
                point,
                throughput=_scale_value(point.throughput, scale, half),
                rate=point.rate and _scale_value(point.rate, scale, half),
                latency_ns=None,
            )
        elif other:
            point = replace(point, why=(*point.why, OTHER_STATE))
        points.append(point)
    return replace(result, points=tuple(points))


def _noise(sides: Sequence[tuple[list[float], list[float]]]) -> float:
    """Standard deviation of a reading's logarithm within its point and state."""
    steps = [
        (math.log(later / earlier)) ** 2 / 2
        for both in sides
        for part in both
        for earlier, later in pairwise(part)
        if earlier > 0 and later > 0
    ]
    return math.sqrt(mean(steps)) if steps else 0.0


def _scale_value(value: Value, scale: float, half: float) -> Value:
    level = value.value * scale
    return replace(value, value=level, low=level * math.exp(-half), high=level * math.exp(half))
