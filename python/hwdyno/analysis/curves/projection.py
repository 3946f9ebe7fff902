"""What a curve says of loads far past the measured ones: a projection with its interval, or why there is none.

Only past a knee that was measured: there the throughput of a closed system tends to its ceiling, whose interval is
known, and before it no data bound the ceiling. The Universal Scalability Law is never extrapolated, since its term of
coherency turns noise into a collapse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from hwdyno.analysis.curves.knee import fit_knee
from hwdyno.analysis.curves.knee_model import Knee
from hwdyno.analysis.curves.scalability import Interval

MIN_LOADS = 4
FALLS = 0.5
"""Weight of the evidence from which a curve is taken to fall past a load."""
THINKS = 0.05
"""Share of the first request's time from which the time between a client's requests counts as thinking."""


@dataclass(frozen=True)
class Projection:
    """The expected figures at one load, each with its 95% interval."""

    load: float
    throughput: Interval
    latency_ns: Interval | None
    """Latency by Little's law, R = N / X - Z, with the time Z that a client spends between two requests; none where it
    is not known what a request moves."""


@dataclass(frozen=True)
class Bracket:
    """The bounds that hold for any closed system, at one load (Denning & Buzen, Computing Surveys 1978)."""

    load: float
    low: float
    """The most that was measured."""
    high: float
    """N / R1: every client as fast as one alone."""


@dataclass(frozen=True)
class Outlook:
    """The answer for one curve: projections, or brackets with the reason why there are none."""

    projections: tuple[Projection, ...] = ()
    brackets: tuple[Bracket, ...] = ()
    refused: str = ""
    measure: int | None = None
    """The load whose measurement would settle it; none where no load would."""
    crossing: Interval | None = None
    """N*, the least load that can saturate."""
    predicted_share: float | None = None
    """The largest load's throughput as predicted from the smaller ones, over the measured one; none where they do not
    show the knee."""


def outlook(
    loads: Sequence[float],
    throughputs: Sequence[float],
    errors: Sequence[float],
    targets: Sequence[float],
    *,
    latencies_ns: Sequence[float | None] = (),
    per_request: float | None = 1.0,
) -> Outlook:
    """Project a curve's points, in order of load, to the loads ``targets``.

    ``errors`` are the points' own standard errors as shares, empty if unknown; ``per_request`` is what one request adds
    to the throughput, such as its bytes.
    """
    most, highest = loads[-1], max(throughputs)
    brackets = tuple(Bracket(n, highest, n / loads[0] * throughputs[0]) for n in targets)
    if len(set(loads)) < MIN_LOADS:
        needed = f"{len(set(loads))} loads show no curve; measure at least {MIN_LOADS}"
        return Outlook(brackets=brackets, refused=needed)
    knee = fit_knee(loads, throughputs, errors, requests=loads[0] >= 1)
    if knee.falls >= FALLS:
        why = f"the throughput falls past a load of {knee.fall_load:.0f}, and where that ends no point shows"
        return Outlook(brackets=brackets, refused=why, measure=_next_load(most), crossing=knee.crossing)
    if not _is_inside(knee, most):
        why = "the knee was not reached"
        beyond = min(max(knee.crossing.value, most), most * 64)
        return Outlook(brackets=brackets, refused=why, measure=_next_load(beyond), crossing=knee.crossing)
    predicted_share = _prediction_of_last(loads, throughputs, errors)
    rates = [throughput / (per_request or 1.0) for throughput in throughputs]
    thinks_ns = _thinking_ns(loads, rates, latencies_ns)
    return Outlook(
        projections=tuple(_projection(knee, n, predicted_share, thinks_ns, per_request) for n in targets),
        crossing=knee.crossing,
        predicted_share=predicted_share,
    )


def _next_load(load: float) -> int:
    """The power of two from twice a load on."""
    return 1 << math.ceil(math.log2(2 * max(1.0, load)))


def _is_inside(knee: Knee, most: float) -> bool:
    """Whether the knee, with its interval, is inside the data."""
    return knee.crossing.high is not None and knee.crossing.high < most and knee.ceiling.high is not None


def _prediction_of_last(loads: Sequence[float], throughputs: Sequence[float], errors: Sequence[float]) -> float | None:
    """Predicts the largest load from all smaller ones."""
    before = [at for at, load in enumerate(loads) if load < loads[-1]]
    if len({loads[at] for at in before}) < MIN_LOADS:
        return None
    smaller = [loads[at] for at in before]
    known = [errors[at] for at in before] if errors else []
    knee = fit_knee(smaller, [throughputs[at] for at in before], known, requests=loads[0] >= 1)
    return knee.at(loads[-1]) / throughputs[-1] if _is_inside(knee, smaller[-1]) else None


def _thinking_ns(loads: Sequence[float], rates: Sequence[float], latencies_ns: Sequence[float | None]) -> float:
    """Z = N / X - R: what a client spends between two requests, as the median of the points; 0 where it is little."""
    pairs = [
        (load / rate * 1e9, latency)
        for load, rate, latency in zip(loads, rates, latencies_ns, strict=False)
        if latency is not None
    ]
    if not pairs:
        return 0.0
    between = median(whole - latency for whole, latency in pairs)
    return between if between > THINKS * pairs[0][0] else 0.0


def _projection(
    knee: Knee, load: float, predicted_share: float | None, thinks_ns: float, per_request: float | None
) -> Projection:
    """The ceiling's interval, but no narrower than the error of predicting the largest load that was measured."""
    top, rate = knee.ceiling, knee.at(load)
    assert top.low is not None and top.high is not None
    missed = 1.0 if predicted_share is None else math.exp(abs(math.log(predicted_share)))
    low, high = (
        rate / top.value * end for end in (min(top.low, top.value / missed), max(top.high, top.value * missed))
    )
    latency = None
    if per_request is not None:
        waits = [max(0.0, load / throughput * per_request * 1e9 - thinks_ns) for throughput in (rate, high, low)]
        latency = Interval(*waits)
    return Projection(load, Interval(rate, low, high), latency)
