"""Whether a curve rises, is level or has a knee, and its best operating point."""

from __future__ import annotations

import math
from typing import Literal

from hwdyno.analysis.curves.knee import FALL_MIN_POINTS
from hwdyno.analysis.curves.knee_model import Knee
from hwdyno.analysis.curves.scalability import Interval
from hwdyno.analysis.curves.series import Series, interpolate
from hwdyno.model.units import format_load, format_ratio
from hwdyno.model.words import OperatingPoint

BEST_SHARE = 0.90


MUCH_WORSE_TAIL = 2.0
"""A load is not the best one if another that is good enough has p99 this many times shorter."""


RISING_GAIN = 0.05
"""A curve is still rising when the last doubling of the load gains more than this, by the fit and, beyond the noise, by
the points."""


MIN_NOISE = 0.01
"""No level is known better than this by its points."""


MIN_FALL = 0.05
"""A fall of the last point below the peak, beyond the noise, from which it counts without a model of it."""


SATURATED_SHARE = 0.95


FLAT_LATENCY = 1.5
"""Throughput and latency that both stay level (latency within this factor) mean that the load never arrived."""


CEILING_SPREAD = 0.25
"""A ceiling that still rises is given only when its interval is within this share on each side."""


State = Literal["knee", "still rising", "saturated at the first point", "flat", "unknown"]


def is_tight(top: Interval) -> bool:
    """Whether a ceiling is known within ``CEILING_SPREAD`` on each side."""
    if top.low is None or top.high is None:
        return False
    return top.high / top.value - 1 < CEILING_SPREAD and 1 - top.low / top.value < CEILING_SPREAD


def judge_state(series: Series, knee: Knee) -> State:
    """Whether the curve has a knee within what was measured; unknown where noise hides whether it still rises."""
    least, most = series.loads[0], series.loads[-1]
    gain, noise = _last_gain(series)
    # With hardly any delay, the loop's time dominates: shorter ones no longer raise the rate.
    if _fitted_gain(knee, series) > RISING_GAIN and not (series.axis.role == "delay" and gain <= RISING_GAIN):
        if gain - noise > RISING_GAIN:
            return "still rising"
        if not is_tight(knee.ceiling):
            return "unknown"
    level = min(series.amounts) >= SATURATED_SHARE * max(series.amounts)
    # A rise within its own error is none.
    uncertain = (knee.gain.low or knee.gain.value) <= 1 and not _has_risen(series)
    if level or knee.gain.value <= 1 / SATURATED_SHARE or uncertain:
        known = [latency for latency in series.latencies if latency]
        same = len(known) == len(series.loads) and max(known) / min(known) < FLAT_LATENCY
        return "flat" if same and most / least >= 2 * FLAT_LATENCY else "saturated at the first point"
    return "knee"


def _fitted_gain(knee: Knee, series: Series) -> float:
    """What the fitted curve gains over the last doubling of the load, a share."""
    most = series.loads[-1]
    return knee.at(most) / knee.at(most / 2) - 1


def _last_gain(series: Series) -> tuple[float, float]:
    """What was measured to be gained over the last doubling of the load, and the noise of that (95%), both shares."""
    half = series.loads[-1] / 2
    before = interpolate(list(zip(series.loads, series.amounts, strict=True)), half)
    if not before:
        return math.inf, 0.0
    nearest = min(range(len(series.loads)), key=lambda at: abs(math.log(series.loads[at] / half)))
    ratio = series.amounts[-1] / before
    return ratio - 1, ratio * series.noise(nearest, -1)


def _has_risen(series: Series) -> bool:
    """Whether the last point is measured to be above the first, beyond the noise of both."""
    ratio = series.amounts[-1] / series.amounts[0]
    return bool(series.errors) and ratio * (1 - series.noise(0, -1)) > 1 / SATURATED_SHARE


def lost_share(series: Series, knee: Knee) -> float:
    """What the greatest load loses against the peak, a share: by the fit, or by points too few to fit a fall."""
    if knee.fall > 0 or len(series.amounts) >= FALL_MIN_POINTS:
        return knee.loss
    places = [at for at in range(len(series.amounts)) if knee.odd is None or at != knee.odd.at]
    peak, last = max(places, key=lambda at: series.amounts[at]), series.amounts[-1]
    lost = 1 - last / series.amounts[peak]
    return lost if lost > MIN_FALL + series.noise(peak, -1) else 0.0


def find_level(series: Series, knee: Knee) -> Interval | None:
    """The level that the points reached where the last doubling of the load gains hardly anything, but in the fit."""
    gain, noise = _last_gain(series)
    if gain + noise > RISING_GAIN or _fitted_gain(knee, series) <= max(gain, 0) + noise + RISING_GAIN:
        return None
    most = max(series.amounts)
    return Interval(most, most * (1 - max(noise, MIN_NOISE)), most * (1 + max(noise, RISING_GAIN)))


def find_best(series: Series, knee: Knee, state: State, top: float) -> tuple[OperatingPoint, float, float]:
    """The best operating point, and the least measured loads that reach 90% and 95% of the ceiling (infinite: none).

    It is the least measured load with at least 90% of the ceiling found, or of the most measured where no point has
    that, unless a greater such load has half its p99. Of a curve that falls again, none past its peak is it.
    """
    odd = None if knee.odd is None else knee.odd.at
    most = max(amount for at, amount in enumerate(series.amounts) if at != odd)
    found = most if state == "still rising" or most < BEST_SHARE * top else top

    def reaching(share: float, of: float) -> list[int]:
        return [at for at, amount in enumerate(series.amounts) if at != odd and amount >= share * of]

    places = reaching(BEST_SHARE, found)
    min_tail = min((tail for at in places if (tail := series.tails[at])), default=math.inf)
    at = next((at for at in places if (series.tails[at] or 0.0) < MUCH_WORSE_TAIL * min_tail), places[0])
    place = series.point(series.loads[at])
    words = [f"{place.throughput / found:.0%} of the {'ceiling' if found == top else 'most measured'}"]
    first, last = series.as_given(series.loads[0]), series.as_given(series.loads[-1])
    if first != place.load:
        words.append(f"{format_ratio(place.throughput / series.amounts[0], 3)} times {format_load(first)}'s throughput")
        if place.latency_ns and series.latencies[0]:
            words[-1] += f" at {format_ratio(place.latency_ns / series.latencies[0], 3)} times its latency"
    if place.load != last and place.latency_ns and series.latencies[-1]:
        words.append(f"{place.latency_ns / series.latencies[-1]:.0%} of the latency at {format_load(last)}")
    words += _trade(series, at, odd)
    best = OperatingPoint(place.load, place.throughput, place.latency_ns, place.measured, "; ".join(words))
    reached_90, reached_95 = (
        next((series.loads[index] for index in reaching(share, top)), math.inf) for share in (0.90, 0.95)
    )
    return best, reached_90, reached_95


def _trade(series: Series, at: int, odd: int | None) -> list[str]:
    """What the measured load below the best one gives away in throughput, and gains in p99."""
    below = next(
        (index for index in reversed(range(at)) if index != odd and series.loads[index] < series.loads[at]), None
    )
    if below is None:
        return []
    tail, less = series.tails[at], series.tails[below]
    if not tail or not less:
        return []
    share, gain = series.amounts[below] / series.amounts[at], less / tail
    load = format_load(series.as_given(series.loads[below]))
    return [f"{load} has {share:.0%} of its throughput at {gain:.0%} of its p99"]
