"""Whether throughput was steady while a point ran: steps down, drifts and swings beyond the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, contrast, percent
from hwdyno.statistics import fold, line_moves, mean, median
from hwdyno.units import format_duration
from hwdyno.words import Measurement, Samples

THROTTLE_DROP = 0.10
DRIFT = 0.10
"""SNIA PTS: in steady state the fitted line moves by at most 10% of the mean."""
RANGE = 0.20
"""SNIA PTS: in steady state the rounds are within 20% of their mean."""
LEAST_SAMPLES = 8
SURE = 5.0
"""Standard errors by which a step or a drift must stand out: one false alarm in thousands of points."""
LEAST_EACH_SIDE = 3
"""Samples on each side of a step: one or two may be hiccups."""
LEAST_EACH_SIDE_ALONE = 5
"""The same where no other repeat confirms the step."""
ALIKE = 0.5
"""The correlation with the others' mean course that each repeat must have, to be more than chance."""
SURE_RANGE = 8
"""As ``SURE``, for the range of five rounds, whose scatter is wider."""


def each_over_time(point: Measurement) -> list[list[float]]:
    """The samples of each repeat, as many as the shortest has; none where they are too few to show a course."""
    values = list(point.samples.values) if point.samples is not None else []
    repeats = max(1, point.repeats)
    each = len(values) // repeats
    if each < LEAST_SAMPLES:
        return []
    starts = [round(at * len(values) / repeats) for at in range(repeats)]
    return [values[start : start + each] for start in starts]


def over_time(point: Measurement) -> list[float]:
    """Throughput over time: the samples, averaged over the repeats at each position."""
    return [mean(places) for places in zip(*each_over_time(point), strict=True)]


def step_down(values: Sequence[float]) -> tuple[int, float] | None:
    """Where throughput steps down for good, and by what share; none unless a step fits better than a line."""
    count = len(values)
    if count < LEAST_SAMPLES or mean(values) <= 0:
        return None
    centre, moves = mean(values), line_moves(values)
    middle = (count - 1) / 2
    line = math.fsum((v - centre * (1 + moves * (at - middle) / (count - 1))) ** 2 for at, v in enumerate(values))
    sums, squares = [0.0], [0.0]
    for value in values:
        sums.append(sums[-1] + value)
        squares.append(squares[-1] + value * value)

    def scatter(low: int, high: int) -> float:
        return max(0.0, squares[high] - squares[low] - (sums[high] - sums[low]) ** 2 / (high - low))

    edge = max(LEAST_EACH_SIDE, count // 10)
    at = min(range(edge, count - edge + 1), key=lambda k: scatter(0, k) + scatter(k, count))
    left = scatter(0, at) + scatter(at, count)
    before, after = sums[at] / at, (sums[count] - sums[at]) / (count - at)
    drop = 1 - after / before if before > 0 else 0.0
    error = math.sqrt(left / (count - 2) * (1 / at + 1 / (count - at))) / before if before > 0 else 1.0
    if drop <= THROTTLE_DROP or drop <= SURE * error or left > 0.5 * line:
        return None
    return at, drop


def lasting_step(point: Measurement) -> tuple[int, float] | None:
    """A step down of the mean course that each repeat also shows, by medians, which a few hiccups do not move."""
    step = step_down(over_time(point))
    if step is None:
        return None
    at, drop = step
    repeats = each_over_time(point)
    if len(repeats) == 1 and min(at, len(repeats[0]) - at) < LEAST_EACH_SIDE_ALONE:
        return None
    for one in repeats:
        before = median(one[:at])
        if before <= 0 or 1 - median(one[at:]) / before <= drop / 2:
            return None
    return step


def unsteady(values: Sequence[float]) -> str | None:
    """What exceeds SNIA's window, beyond the scatter of the samples; none if steady."""
    count = len(values)
    if count < LEAST_SAMPLES or mean(values) <= 0:
        return None
    moves, centre = line_moves(values), mean(values)
    middle = (count - 1) / 2
    left = math.fsum((v - centre * (1 + moves * (at - middle) / (count - 1))) ** 2 for at, v in enumerate(values))
    error = math.sqrt(12 * left / (count - 2) / count) / centre
    if abs(moves) > DRIFT and abs(moves) > SURE * error:
        return f"throughput {'fell' if moves < 0 else 'rose'} by {percent(abs(moves))} from start to end"
    rounds = fold(values, 5)
    spread = (max(rounds) - min(rounds)) / centre
    # The scatter from one sample to the next, in which slow swings cancel.
    steps = [b - a for a, b in pairwise(values)]
    noise = math.sqrt(math.fsum(step * step for step in steps) / len(steps) / 2)
    expected = noise / math.sqrt(count / 5) / centre
    if spread > RANGE and spread > SURE_RANGE * expected:
        return f"the fifths of the run differ by {percent(spread)} of the mean"
    return None


def alike(repeats: Sequence[Sequence[float]]) -> list[float]:
    """Each repeat's correlation (Pearson) with the mean course of the others; 1 for a single repeat."""
    found = []
    for at, one in enumerate(repeats):
        others = [*repeats[:at], *repeats[at + 1 :]] or [one]
        rest = [mean(places) for places in zip(*others, strict=True)]
        a, b = mean(one), mean(rest)
        both = math.fsum((x - a) * (y - b) for x, y in zip(one, rest, strict=True))
        size = math.sqrt(math.fsum((x - a) ** 2 for x in one) * math.fsum((y - b) ** 2 for y in rest))
        found.append(both / size if size > 0 else 1.0)
    return found


def throttled(case: Case) -> Verdict | None:
    """Throughput steps down in mid-run and stays there: heat, a full write-back cache, or a spent burst budget."""
    values = over_time(case.point)
    step = lasting_step(case.point)
    if step is None or case.point.samples is None:
        return None
    at, drop = step
    when = at * case.point.samples.interval_s
    before, after = mean(values[:at]), mean(values[at:])
    unit, (causes, watch) = case.point.throughput.unit, case.resource.steps_down
    return Verdict(
        "warning",
        f"Throughput fell by {percent(drop)} after {format_duration(when)} and stayed there ({case.label}: "
        f"{contrast(case.quantity(before, unit), case.quantity(after, unit))}). Possible causes: {causes}.",
        {"at_s": when, "drop": drop, "before": before, "after": after, "unit": unit},
        f"Measure longer for the sustained rate, and watch {watch}: {case.command(runtime=60)}",
        weight=drop,
    )


def not_steady(case: Case) -> Verdict | None:
    """No steady state: by SNIA's window, and beyond the scatter of the samples."""
    values = over_time(case.point)
    if case.point.samples is not None and not case.point.samples.values:
        return _varying(case, case.point.samples)
    if lasting_step(case.point) is not None:
        return None
    why = unsteady(values)
    if why is None or case.point.samples is None:
        return None
    # Noise does not repeat the same course in every repeat.
    if min(alike(each_over_time(case.point))) < ALIKE:
        return None
    low, high, unit = min(values), max(values), case.point.throughput.unit
    return Verdict(
        "warning",
        f"No steady state ({case.label}): {why}. "
        f"Samples: {contrast(case.quantity(low, unit), case.quantity(high, unit), 'to')}.",
        {"least": low, "most": high, "unit": unit, "moves": line_moves(values), "cv": case.point.samples.cv},
        f"Warm up and measure longer: {case.command(ramp_time=10, runtime=60)}",
        weight=(high - low) / max(high, 1e-30),
    )


def _varying(case: Case, samples: Samples) -> Verdict | None:
    """The same of samples of which only their spread is known."""
    if samples.cv is None or samples.cv <= RANGE:
        return None
    unit = case.point.throughput.unit
    ends = contrast(case.quantity(samples.min, unit), case.quantity(samples.max, unit), "to")
    return Verdict(
        "warning",
        f"No steady state ({case.label}): the samples deviate by {percent(samples.cv)} of their mean. Samples: {ends}.",
        {"least": samples.min, "most": samples.max, "unit": unit, "cv": samples.cv, "limit": RANGE},
        f"Warm up and measure longer: {case.command(ramp_time=10, runtime=60)}",
        weight=samples.cv,
    )


_COURSE = Applies(where=lambda resource: not resource.bursty, needs=("samples",))
RULES = (
    Rule("throttled", "point", throttled, _COURSE, degrades=True),
    Rule("not_steady", "point", not_steady, _COURSE, degrades=True),
)
