"""How long the readings of a plan take, and how many each point has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hwdyno.analysis.samples import repeats_that_show
from hwdyno.measure.plan.plan import Plan, Planned
from hwdyno.model.words import Parameters

# Overhead of a reading outside its timed region: threads, buffers, opening, and reading the counters.
OVERHEAD_S = 0.06
# Buffers are touched and filled before the timed region, and the last blocks end after it: at 80 MiB a block and
# eight threads that is longer than the region itself.
BUFFER_BYTES_S = 0.5e9
SHORTEST_S = 0.25
WARM_UP_S = 0.3
"""The timed region of a reading before the first that counts."""
# Where a link's speed is unknown, a listing counts writes at this rate, as an upper bound for one NVMe drive of today.
WRITE_BYTES_S = 2e9
QUOTED_REPEATS, QUOTED_REPEATS_MAX = 7, 15
"""Repeats of a point that a headline quotes, in a run with a budget: at least, and where it stays uncertain at most."""
FEWER_QUOTED = (5, 3, 2)
"""Repeats of such a point where the budget leaves less than two readings to each other point."""


@dataclass(frozen=True)
class Timing:
    """How long and how often a point of this run is read."""

    runtime_s: float
    ramp_s: float
    repeats_min: int
    repeats_max: int
    quoted_min: int = 0
    """The least repeats of a point that a headline quotes, where it has more than others."""
    quoted_max: int = 0
    says: str = ""
    """A sentence on how it was shortened to fit the budget."""

    def least(self, quoted: bool) -> int:
        """The least repeats of a point."""
        return max(self.repeats_min, self.quoted_min if quoted else 0)

    def most(self, quoted: bool) -> int:
        """The most repeats of a point."""
        return max(self.repeats_max, self.quoted_max if quoted else 0)


def timing(plan: Plan, left_s: float | None, more: int = 0) -> Timing:
    """The profile's times, scaled so that every point's least repeats, and ``more`` points', fit into ``left_s``."""
    profile = plan.profile
    least, most = profile.repeats_min, profile.repeats_max
    # Pairs with a peer are worth what repeats are: the ratio's interval needs as many.
    whole = Timing(profile.runtime_s, profile.ramp_s, least, most)
    if left_s is None or not plan.points or "runtime" in plan.given:
        return whole
    quoted = max(least, QUOTED_REPEATS) if least > 1 else 1
    tiers = [(repeats, quoted) for repeats in range(least, 1, -1)]
    tiers += [(min(least, 2), fewer) for fewer in FEWER_QUOTED if fewer < quoted]
    tiers += [(1, min(quoted, *FEWER_QUOTED)), (1, 1)]
    for repeats, of_quoted in tiers:
        # The number of readings in units of a whole one, and their overhead.
        shares = float(more * repeats)
        overhead = more * repeats * OVERHEAD_S
        for planned in plan.experiments:
            readings = (len(planned.points) - len(planned.quoted)) * repeats + len(planned.quoted) * of_quoted
            paired = readings * planned.count_pairs(plan)
            count = readings + paired + 1
            shares += count * planned.experiment.runtime_share
            summed_s = sum(overhead_s(planned, point) for point in planned.points)
            overhead += paired * planned.peer_overhead_s + count * summed_s / max(1, len(planned.points))
        share = (left_s - overhead) / shares / (profile.runtime_s + profile.ramp_s)
        runtime, ramp = profile.runtime_s * min(1.0, share), profile.ramp_s * min(1.0, share)
        if runtime >= SHORTEST_S or (repeats, of_quoted) == tiers[-1]:
            runtime = max(SHORTEST_S, runtime)
            cut = _describe_cut(plan, runtime, repeats, of_quoted) if share < 1 else ""
            beyond = QUOTED_REPEATS_MAX if of_quoted > 1 else 1
            return Timing(runtime, max(0.05, ramp), repeats, max(repeats, most), of_quoted, beyond, cut)
    return whole


def _describe_cut(plan: Plan, runtime_s: float, repeats: int, quoted: int) -> str:
    """How long readings are in this run, and how many a point has."""
    shares = {planned.experiment.runtime_share for planned in plan.experiments if planned.points}
    times = " to ".join(f"{runtime_s * share:.2g}" for share in sorted({min(shares), max(shares)}))
    counts = f"{repeats} of each point"
    if quoted != repeats and any(planned.quoted for planned in plan.experiments):
        others = any(len(planned.quoted) < len(planned.points) for planned in plan.experiments)
        counts = f"{quoted} of each headline figure" + (f", {repeats} of each other point" if others else "")
    return f"Readings are shortened to {times} s, {counts}, to end in time"


def setup_s(planned: Planned, point: Parameters) -> float:
    """The overhead of a reading of this point beyond ``OVERHEAD_S``, s."""
    parameters = {**planned.fixed, **point}
    blocks = _product(parameters, ("bs", "iodepth", "numjobs"))
    # A loader's workers read whole batches ahead, and a reading ends when they have.
    ahead = ("record_bytes", "batch_size", "read_threads", "prefetch", "accelerators")
    batches = _product(parameters, ahead) if "record_bytes" in parameters else 0.0
    return planned.experiment.setup_s + blocks / BUFFER_BYTES_S + batches / WRITE_BYTES_S


def _product(parameters: Parameters, names: Sequence[str]) -> float:
    """The product of some parameters, where one that is missing or 0 counts as 1; 0 if any is no number."""
    values = [parameters.get(name) or 1 for name in names]
    return math.prod(float(value) if isinstance(value, int | float) else 0.0 for value in values)


def overhead_s(planned: Planned, point: Parameters) -> float:
    """How much longer than its timed region a reading of this point takes, s."""
    return max(0.0, OVERHEAD_S + setup_s(planned, point) + planned.excess_s)


def reading_s(planned: Planned, point: Parameters, chosen: Timing, given: frozenset[str]) -> float:
    """How long one reading of a point takes."""
    parameters = {**planned.fixed, **point}

    def seconds(name: str, default: float) -> float:
        value = parameters.get(name)
        return float(value) if name in given and isinstance(value, int | float) else default

    delay = seconds("startdelay", 0.0)
    if parameters.get("time_based") is False and "runtime" not in given:
        return delay + float(parameters.get("size") or 0) / WRITE_BYTES_S + OVERHEAD_S + max(0.0, planned.excess_s)
    share = planned.experiment.runtime_share
    ramp = seconds("ramp_time", chosen.ramp_s * share) if "ramp_time" in parameters else 0.0
    return delay + ramp + seconds("runtime", chosen.runtime_s * share) + overhead_s(planned, point)


SHOWN_S = 95.0
"""Most that the repeats that show it may take, s, beyond the repeats of the profile."""


def showing(planned: Planned, point: Parameters, chosen: Timing, given: frozenset[str]) -> int:
    """The repeats that show a rare level of a point; 0 where they would take too long."""
    wanted = repeats_that_show(max(1, len(planned.points)))
    takes_s = wanted * reading_s(planned, point, chosen, given)
    return wanted if wanted <= chosen.repeats_max or takes_s <= SHOWN_S else 0
