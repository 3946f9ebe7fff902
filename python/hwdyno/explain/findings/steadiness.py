"""Whether throughput was steady while a point ran: steps down, drifts and swings beyond the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

from hwdyno.analysis.chances import chi_square_tail, t_tail
from hwdyno.analysis.estimates import fold, line_moves, mean, median
from hwdyno.analysis.samples import MIN_EACH, each_over_time, persistence
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, contrast, percent
from hwdyno.model.point_details import Samples
from hwdyno.model.units import format_duration, format_ns
from hwdyno.model.words import Measurement

THROTTLE_DROP = 0.10
DRIFT = 0.10
"""SNIA PTS: in steady state the fitted line moves by at most 10% of the mean."""
RANGE = 0.20
"""SNIA PTS: in steady state the rounds are within 20% of their mean."""
SURE = 5.0
"""Standard errors that a step or a drift must exceed: one false alarm in thousands of points."""
MIN_EACH_SIDE = 3
"""Samples on each side of a step: one or two may be hiccups."""
MIN_EACH_SIDE_ALONE = 5
"""The same where no other repeat confirms the step."""
STILL, SLOW = 0.1, 0.4
"""Shares of the median below which a sample is a stall, or slow. Noise has more slow ones than still ones."""
STALLED, MIN_STILL = 0.05, 3
"""So large a share of the samples, and this many, are stalls."""
MIN_STILL_S = 0.1
"""Seconds of stalls in all: a scheduler of a busy host takes a processor away for less."""
MIN_OPERATIONS = 20
"""Operations a sample on average: fewer are missing from some by chance."""
ALIKE = 0.5
"""The correlation with the others' mean course that each repeat must have, to be more than chance."""
EACH_DROP = 0.08
"""A step down in each repeat at a different moment, which one repeat alone might show by chance."""
EACH_CHANCE = 1e-6
"""Probability of such steps in all repeats together, by chance."""
SURE_RANGE = 8
"""The same as ``SURE``, for the range of five rounds, whose scatter is wider."""


def over_time(point: Measurement) -> list[float]:
    """Throughput over time: the samples, averaged over the repeats at each position."""
    return _mean_course(each_over_time(point))


def _mean_course(repeats: Sequence[Sequence[float]]) -> list[float]:
    return [mean(places) for places in zip(*repeats, strict=True)]


def step_down(values: Sequence[float]) -> tuple[int, float] | None:
    """Where throughput steps down for good, and by what share; none unless a step fits better than a line."""
    count = len(values)
    if count < MIN_EACH or mean(values) <= 0:
        return None
    line = _about_line(values)
    sums, squares = [0.0], [0.0]
    for value in values:
        sums.append(sums[-1] + value)
        squares.append(squares[-1] + value * value)

    def scatter(low: int, high: int) -> float:
        return max(0.0, squares[high] - squares[low] - (sums[high] - sums[low]) ** 2 / (high - low))

    edge = max(MIN_EACH_SIDE, count // 10)
    at = min(range(edge, count - edge + 1), key=lambda k: scatter(0, k) + scatter(k, count))
    left = scatter(0, at) + scatter(at, count)
    before, after = sums[at] / at, (sums[count] - sums[at]) / (count - at)
    if before <= 0:
        return None
    drop = 1 - after / before
    error = math.sqrt(left / (count - 2) * (1 / at + 1 / (count - at))) / before
    if drop <= THROTTLE_DROP or drop <= SURE * error or left > 0.5 * line:
        return None
    return at, drop


def lasting_step(point: Measurement) -> tuple[int, float] | None:
    """A step down of the mean course that each repeat also shows, by medians, which a few hiccups do not move."""
    return _lasting_step(tuple(map(tuple, each_over_time(point))))


# Several rules look at the steps of the same point, one after the other.
@lru_cache(maxsize=32)
def _lasting_step(repeats: tuple[tuple[float, ...], ...]) -> tuple[int, float] | None:
    step = step_down(_mean_course(repeats))
    if step is None:
        return None
    at, drop = step
    if len(repeats) == 1 and min(at, len(repeats[0]) - at) < MIN_EACH_SIDE_ALONE:
        return None
    for repeat in repeats:
        before = median(repeat[:at])
        if before <= 0 or 1 - median(repeat[at:]) / before <= drop / 2:
            return None
    return step


def step_in_each(point: Measurement) -> tuple[list[int], float] | None:
    """Where each repeat steps down, and by what share on average; none unless all of them do, together beyond chance.

    The chances of the greatest t statistic over all places in each repeat (Bonferroni's bound) are combined by
    Fisher's method (Statistical Methods for Research Workers, 1932, section 21.1): 2n degrees of freedom.
    """
    found = _step_in_each(tuple(map(tuple, each_over_time(point))))
    return None if found is None else (list(found[0]), found[1])


@lru_cache(maxsize=32)
def _step_in_each(repeats: tuple[tuple[float, ...], ...]) -> tuple[tuple[int, ...], float] | None:
    if len(repeats) < 2 or min(map(mean, repeats)) <= 0:
        return None
    count = len(repeats[0])
    steps = [_best_step(repeat) for repeat in repeats]
    parts = [part for repeat, at in zip(repeats, steps, strict=True) for part in (repeat[:at], repeat[at:])]
    ratio = persistence(parts)
    scatter, freedom = math.fsum(map(_squares, parts)), len(repeats) * (count - 2)
    spread = math.sqrt(scatter / freedom)
    drops, chances = [], []
    for repeat, at in zip(repeats, steps, strict=True):
        before, after = mean(repeat[:at]), mean(repeat[at:])
        drops.append(1 - after / before if before > 0 else 0.0)
        error = spread * math.sqrt((1 / at + 1 / (count - at)) * (1 + ratio) / (1 - ratio))
        far = (before - after) / error if error > 0 else math.inf
        chances.append(max(1e-300, min(1.0, count * t_tail(freedom, min(far, 1e6)))))
    together = chi_square_tail(2 * len(chances), -2 * math.fsum(map(math.log, chances)))
    drop = mean(drops)
    unsure = together > EACH_CHANCE or scatter > math.fsum(map(_about_line, repeats))
    return None if unsure or drop <= EACH_DROP or min(drops) <= drop / 2 else (tuple(steps), drop)


def _best_step(values: Sequence[float]) -> int:
    """The place at which a step down explains the most scatter; a step up explains none."""
    count, sums = len(values), list(accumulate(values, initial=0.0))

    def explained_squares(at: int) -> float:
        fall = sums[at] / at - (sums[count] - sums[at]) / (count - at)
        return max(0.0, fall) ** 2 * at * (count - at)

    return max(range(MIN_EACH_SIDE, count - MIN_EACH_SIDE + 1), key=explained_squares)


def _squares(values: Sequence[float]) -> float:
    centre = mean(values)
    return math.fsum((value - centre) ** 2 for value in values)


def _about_line(values: Sequence[float]) -> float:
    """The sum of squares about the least-squares line."""
    centre, moves, last = mean(values), line_moves(values), len(values) - 1
    return math.fsum((v - centre * (1 + moves * (at / last - 0.5))) ** 2 for at, v in enumerate(values))


def unsteady(values: Sequence[float]) -> str | None:
    """What exceeds SNIA's window, beyond the scatter of the samples; none if steady."""
    count = len(values)
    if count < MIN_EACH or mean(values) <= 0:
        return None
    moves, centre = line_moves(values), mean(values)
    error = math.sqrt(12 * _about_line(values) / (count - 2) / count) / centre
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
    for at, repeat in enumerate(repeats):
        others = [*repeats[:at], *repeats[at + 1 :]] or [repeat]
        course = [mean(places) for places in zip(*others, strict=True)]
        a, b = mean(repeat), mean(course)
        both = math.fsum((x - a) * (y - b) for x, y in zip(repeat, course, strict=True))
        size = math.sqrt(math.fsum((x - a) ** 2 for x in repeat) * math.fsum((y - b) ** 2 for y in course))
        found.append(both / size if size > 0 else 1.0)
    return found


def check_throttling(case: Case) -> Verdict | None:
    """Throughput steps down in mid-run and stays there: heat, a full write-back cache, or a spent burst budget."""
    values = over_time(case.point)
    step = lasting_step(case.point)
    if case.point.samples is None:
        return None
    if step is None:
        return _throttled_somewhere(case, case.point.samples.interval_s)
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


def _throttled_somewhere(case: Case, interval_s: float) -> Verdict | None:
    """Each repeat steps down at a different moment."""
    found = step_in_each(case.point)
    if found is None:
        return None
    places, drop = found
    when = [at * interval_s for at in places]
    moments = contrast(format_duration(min(when)), format_duration(max(when)), "to")
    repeats = each_over_time(case.point)
    before = mean([mean(repeat[:at]) for repeat, at in zip(repeats, places, strict=True)])
    after = mean([mean(repeat[at:]) for repeat, at in zip(repeats, places, strict=True)])
    unit, (causes, watch) = case.point.throughput.unit, case.resource.steps_down
    return Verdict(
        "warning",
        f"Throughput fell by {percent(drop)} in each of {len(places)} repeats, after {moments} ({case.label}: "
        f"{contrast(case.quantity(before, unit), case.quantity(after, unit))}). Possible causes: {causes}.",
        {"at_s": when, "drop": drop, "before": before, "after": after, "unit": unit},
        f"Measure longer for the sustained rate, and watch {watch}: {case.command(runtime=60)}",
        weight=drop,
    )


def stalls(case: Case) -> Verdict | None:
    """Nothing moves in some samples: the mean hides that a user waits."""
    repeats = each_over_time(case.point)
    shares = [value / typical for repeat in repeats if (typical := median(repeat)) > 0 for value in repeat]
    samples = case.point.samples
    if samples is None or not shares or case.point.operations < MIN_OPERATIONS * len(shares):
        return None
    still = sum(part < STILL for part in shares)
    if still < max(MIN_STILL, STALLED * len(shares)) or still <= sum(STILL <= part < SLOW for part in shares):
        return None
    if still * samples.interval_s < MIN_STILL_S:
        return None
    share, typical = still / len(shares), median([value for repeat in repeats for value in repeat])
    unit = case.point.throughput.unit
    return Verdict(
        "warning",
        f"Throughput stalls ({case.label}): {percent(share)} of the samples of {format_ns(samples.interval_s * 1e9)} "
        f"are below {percent(STILL)} of the median of {case.quantity(typical, unit)}.",
        {"share": share, "samples": len(shares), "median": typical, "unit": unit, "interval_s": samples.interval_s},
        f"Look for timers, garbage collection and background jobs, then: {case.command(runtime=60)}",
        weight=share,
        explains=("two_modes",),
    )


def not_steady(case: Case) -> Verdict | None:
    """No steady state: by SNIA's window, and beyond the scatter of the samples."""
    values = over_time(case.point)
    if case.point.samples is not None and not case.point.samples.values:
        return _varying(case, case.point.samples)
    if lasting_step(case.point) is not None or step_in_each(case.point) is not None:
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
    Rule("stalls", "point", stalls, _COURSE, explains=True),
    Rule("throttled", "point", check_throttling, _COURSE, degrades=True),
    Rule("not_steady", "point", not_steady, _COURSE, degrades=True),
)
