"""Whether the conditions held while a point ran: steadiness, throttling, load, steal, swap, clock, intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hwdyno.findings.rule import Case, Verdict, as_number, percent, told
from hwdyno.statistics import fold, half_width, line_moves, mean, median, outliers
from hwdyno.units import format_bytes, format_count, format_duration
from hwdyno.words import Measurement

LOAD_A_CORE = 0.1
STEAL = 0.02
STEAL_EXPLAINS = 0.10
OTHERS = 0.25
"""Share of the machine's CPU at others' work above which a measurement is theirs as much as the hardware's."""
RESTLESS = ("throttled", "not_steady", "interval_not_reached")
"""What a machine that is busy with something else brings about by itself."""
SWAP_BYTES_S = 1e6
HELD_OFF = 0.02
"""Share of the quota's periods in which it may be spent."""
LIMIT_REACHED, LIMIT_PASSED = 0.85, 1.5
"""A limit on a device lets bursts through, and a cache's bytes pass it by far."""
CLOCK_DROP = 0.03
THROTTLE_DROP = 0.10
DRIFT = 0.10
"""SNIA PTS: a steady line moves by at most 10% of the mean."""
RANGE = 0.20
"""SNIA PTS: steady rounds lie within 20% of their mean."""
TARGETS = {"quick": 0.10, "standard": 0.05, "full": 0.02}
"""Half-width of the interval that each profile repeats for."""
LEAST_SAMPLES = 8
SURE = 5.0
"""How many standard errors a step or a drift must stand out by: one false alarm in thousands of points."""
LEAST_BESIDE = 3
"""Samples on each side of a step: one or two may be hiccups."""
LEAST_BESIDE_ALONE = 5
"""The same where no other repeat bears it out."""
ALIKE = 0.5
"""How alike (by correlation) each repeat's course must be to the others', to be more than chance."""
SURE_RANGE = 8
"""The same for the range of five rounds, whose own scatter is wider."""


_IN_BURSTS = {"training"}
"""Resources whose load comes in bursts by itself: readers fill their queue, then wait for the accelerators."""


def each_over_time(point: Measurement) -> list[list[float]]:
    """The samples of each repeat, as long as the shortest; none where they are too few to have a course."""
    values = list(point.samples.values) if point.samples is not None else []
    repeats = max(1, point.repeats)
    each = len(values) // repeats
    if each < LEAST_SAMPLES:
        return []
    starts = [round(at * len(values) / repeats) for at in range(repeats)]
    return [values[start : start + each] for start in starts]


def over_time(point: Measurement) -> list[float]:
    """How throughput went in the course of a run: the samples, averaged over the repeats place by place."""
    return [mean(places) for places in zip(*each_over_time(point), strict=True)]


def step_down(values: Sequence[float]) -> tuple[int, float] | None:
    """Where throughput steps down for good, and by what share: none unless a step explains it better than a line."""
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

    edge = max(LEAST_BESIDE, count // 10)
    at = min(range(edge, count - edge + 1), key=lambda k: scatter(0, k) + scatter(k, count))
    left = scatter(0, at) + scatter(at, count)
    before, after = sums[at] / at, (sums[count] - sums[at]) / (count - at)
    drop = 1 - after / before if before > 0 else 0.0
    error = math.sqrt(left / (count - 2) * (1 / at + 1 / (count - at))) / before if before > 0 else 1.0
    if drop <= THROTTLE_DROP or drop <= SURE * error or left > 0.5 * line:
        return None
    return at, drop


def lasting_step(point: Measurement) -> tuple[int, float] | None:
    """A step down of the mean course that each repeat takes too, by its medians, which a few hiccups do not move."""
    step = step_down(over_time(point))
    if step is None:
        return None
    at, drop = step
    repeats = each_over_time(point)
    if len(repeats) == 1 and min(at, len(repeats[0]) - at) < LEAST_BESIDE_ALONE:
        return None
    for one in repeats:
        before = median(one[:at])
        if before <= 0 or 1 - median(one[at:]) / before <= drop / 2:
            return None
    return step


def unsteady(values: Sequence[float]) -> str | None:
    """What moves more than SNIA's window allows, beyond what the scatter of the samples explains; none if steady."""
    count = len(values)
    if count < LEAST_SAMPLES or mean(values) <= 0:
        return None
    moves, centre = line_moves(values), mean(values)
    middle = (count - 1) / 2
    left = math.fsum((v - centre * (1 + moves * (at - middle) / (count - 1))) ** 2 for at, v in enumerate(values))
    error = math.sqrt(12 * left / (count - 2) / count) / centre
    if abs(moves) > DRIFT and abs(moves) > SURE * error:
        return f"it {'fell' if moves < 0 else 'rose'} by {percent(abs(moves))} from start to end"
    rounds = fold(values, 5)
    spread = (max(rounds) - min(rounds)) / centre
    # Scatter from one sample to the next, in which slow swings cancel.
    steps = [b - a for a, b in pairwise(values)]
    noise = math.sqrt(math.fsum(step * step for step in steps) / len(steps) / 2)
    expected = noise / math.sqrt(count / 5) / centre
    if spread > RANGE and spread > SURE_RANGE * expected:
        return f"its fifths lie {percent(spread)} of the mean apart"
    return None


def alike(repeats: Sequence[Sequence[float]]) -> list[float]:
    """How each repeat's course goes with the mean course of the others (Pearson's correlation); 1 for one alone."""
    found = []
    for at, one in enumerate(repeats):
        others = [*repeats[:at], *repeats[at + 1 :]] or [one]
        rest = [mean(places) for places in zip(*others, strict=True)]
        a, b = mean(one), mean(rest)
        both = math.fsum((x - a) * (y - b) for x, y in zip(one, rest, strict=True))
        size = math.sqrt(math.fsum((x - a) ** 2 for x in one) * math.fsum((y - b) ** 2 for y in rest))
        found.append(both / size if size > 0 else 1.0)
    return found


_STEPS = {
    "storage": (
        "a drive that throttles, a full write cache, or a burst budget that is spent",
        "the drive's temperature",
    ),
    "network": ("a burst budget that is spent, a policer, or a clock that fell", "both ends' processors"),
}
"""What steps down in mid-run, by resource, and what to watch."""
_ANY_STEP = ("heat, a power limit, or processor time that others took", "the clock (hwdyno compute clock)")


def throttled(case: Case) -> Verdict | None:
    """Throughput steps down in mid-run and stays there: heat, a full write cache, or a spent burst budget."""
    if case.result.resource in _IN_BURSTS:
        return None
    values = over_time(case.point)
    step = lasting_step(case.point)
    if step is None or case.point.samples is None:
        return None
    at, drop = step
    when = at * case.point.samples.interval_s
    before, after = mean(values[:at]), mean(values[at:])
    unit, resource = case.point.throughput.unit, case.result.resource
    return Verdict(
        "warning",
        f"{case.label}: after {format_duration(when)} it fell by {percent(drop)}, from {case.said(before, unit)} "
        f"to {case.said(after, unit)}, and stayed there: the likely causes are {_STEPS.get(resource, _ANY_STEP)[0]}.",
        {"at_s": when, "drop": drop, "before": before, "after": after, "unit": unit},
        f"Measure longer to see the sustained rate, and watch {_STEPS.get(resource, _ANY_STEP)[1]}: "
        f"{case.command(runtime=60)}",
        weight=drop,
    )


def not_steady(case: Case) -> Verdict | None:
    """The run did not settle: by SNIA's window, and beyond what the scatter of its samples explains."""
    if case.result.resource in _IN_BURSTS:
        return None
    values = over_time(case.point)
    if lasting_step(case.point) is not None:
        return None
    why = unsteady(values)
    if why is None or case.point.samples is None:
        return None
    # What noise drew once, it does not draw in every repeat.
    if min(alike(each_over_time(case.point))) < ALIKE:
        return None
    low, high, unit = min(values), max(values), case.point.throughput.unit
    return Verdict(
        "warning",
        f"{case.label}: not steady: {why} ({case.said(low, unit)} to {case.said(high, unit)} over the samples).",
        {"least": low, "most": high, "unit": unit, "moves": line_moves(values), "cv": case.point.samples.cv},
        f"Warm it up and measure longer: {case.command(ramp_time=10, runtime=60)}",
        weight=(high - low) / max(high, 1e-30),
    )


def _known(case: Case, half: float) -> str:
    """How well a value is known: an interval wider than itself says less than the repeats do."""
    values, unit = case.point.repeat_values, case.point.throughput.unit
    if half < 1 or len(values) < 2:
        return f"is known within {percent(half)} after {case.point.repeats} repeats"
    return f"is hardly known: its {len(values)} repeats lie from {case.said(min(values), unit)} to " + case.said(
        max(values), unit
    )


def interval_not_reached(case: Case) -> Verdict | None:
    """The 95% interval is wider than the profile repeats for."""
    half, target = half_width(case.point.throughput), TARGETS.get(case.run.profile)
    if half is None or target is None or case.imported or half <= target:
        return None
    return Verdict(
        "warning" if half > 2 * target else "info",
        f"{case.label}: {case.said(case.point.throughput.value, case.point.throughput.unit)} {_known(case, half)}; "
        f"the profile {case.run.profile} aims at {percent(target)}.",
        {"half_width": half, "target": target, "repeats": case.point.repeats},
        "Quiet the machine, or give it more time: "
        f"{case.command()} --profile {'full' if case.run.profile == 'standard' else 'standard'}",
        weight=half,
    )


def others_at_work(case: Case) -> Verdict | None:
    """Other processes had a good part of the machine's CPU while the point ran."""
    share = case.others_share
    if share is None or share <= OTHERS:
        return None
    load = as_number(told(case.run.machine, "conditions", "load_1m"))
    before = f" (load {load:.2g} before the first point)" if load and case.threads and load > case.threads / 10 else ""
    return Verdict(
        "warning",
        f"{case.label}: other processes kept {percent(share)} of the machine's CPU busy while this ran{before}, so it "
        f"tells of their work as much as of the hardware.",
        {"others_cpu": share, "limit": OTHERS, "load_1m": load},
        "See who with `top`, wait for it to end, then run it again: " + (case.run.command or case.command()),
        weight=share,
        explains=RESTLESS,
    )


def steal(case: Case) -> Verdict | None:
    """The hypervisor gave this machine's processors to others."""
    share = case.point.conditions.get("steal", 0.0)
    if share <= STEAL:
        return None
    return Verdict(
        "warning",
        f"{case.label}: the hypervisor took {percent(share)} of the CPU time for others while this ran.",
        {"steal": share, "tolerance": STEAL},
        f"Measure again at a quieter time, or on a dedicated host: {case.command()}",
        weight=share,
        explains=RESTLESS if share > STEAL_EXPLAINS else (),
    )


def cpu_limited(case: Case) -> Verdict | None:
    """The container's quota of processor time was spent, and the measuring threads had to wait for more."""
    share = case.point.conditions.get("cgroup_throttled", 0.0)
    if share <= HELD_OFF:
        return None
    limit = as_number(told(case.run.machine, "container", "cpu_limit"))
    quota = f" ({limit:g} processors)" if limit else ""
    return Verdict(
        "warning",
        f"{case.label}: its control group's processor quota{quota} was spent in {percent(share)} of the periods, so "
        f"the measuring threads stood still; this is the container's limit as much as the hardware's.",
        {"throttled_periods_share": share, "tolerance": HELD_OFF, "cpu_limit": limit},
        f"Raise the quota (cpu.max, or the container's CPU limit), then: {case.command()}",
        weight=share,
        explains=RESTLESS,
    )


def io_limit(case: Case) -> Verdict | None:
    """A control group's limit on the device is what was reached."""
    if case.result.resource != "storage" or case.point.elapsed_s <= 0:
        return None
    found: list[tuple[float, float, str, str, dict[str, Any]]] = []
    for limits in told(case.run.machine, "storage", "limits") or []:
        for stream in case.point.streams:
            for unit, done in (("bytes_s", stream.bytes), ("operations_s", stream.operations)):
                limit = as_number(limits.get(f"{stream.name}_{unit}"))
                if limit:
                    found.append((done / case.point.elapsed_s / limit, limit, unit, stream.name, limits))
    if not found:
        return None
    share, limit, unit, direction, limits = max(found, key=lambda one: one[0])
    if not LIMIT_REACHED <= share <= LIMIT_PASSED:
        return None
    allowed = case.said(limit, unit.replace("_s", "/s"))
    return Verdict(
        "warning",
        f"{case.label}: its control group allows {allowed} of {direction}s on {limits.get('device')}, and "
        f"{percent(share)} of that was reached: this is the container's limit, not the device's.",
        {"share": share, "limit": limit, "unit": unit, "direction": direction, "device": limits.get("device")},
        f"Lift the limit (io.max, or blkio.throttle in version 1), then: {case.command()}",
        weight=share,
        explains=("throttled", "not_steady", "interval_not_reached"),
    )


def swapping(case: Case) -> Verdict | None:
    """The machine swapped while the point ran."""
    conditions = case.point.conditions
    moved = conditions.get("swap_in_bytes", 0.0) + conditions.get("swap_out_bytes", 0.0)
    if case.point.elapsed_s <= 0 or moved / case.point.elapsed_s <= SWAP_BYTES_S:
        return None
    return Verdict(
        "warning",
        f"{case.label}: the machine swapped {format_bytes(moved)} while this ran, which loads the storage and waits "
        f"for it.",
        {"swapped_bytes": moved, "elapsed_s": case.point.elapsed_s},
        f"Free some memory (see `free -h`), then: {case.command()}",
        weight=moved,
    )


def clock_dropped(case: Case) -> Verdict | None:
    """The processor's clock fell by more than 3% while a point ran that the CPU has a part in."""
    before, least = case.point.conditions.get("clock_hz_before"), case.point.conditions.get("clock_hz")
    of_the_cpu = case.result.resource in {"memory", "compute"}
    if not before or not least or not (of_the_cpu or (case.cpu_share or 0) > 0.5):
        return None
    drop = 1 - least / before
    if drop <= CLOCK_DROP:
        return None
    return Verdict(
        "warning" if of_the_cpu else "info",
        f"{case.label}: the processor's clock fell by {percent(drop)}, from {before / 1e9:.2f} to {least / 1e9:.2f} "
        f"GHz: it throttles (heat or a power limit).",
        {"before_hz": before, "least_hz": least, "drop": drop},
        f"Fix the clock (governor performance, turbo off) or let it cool, then: {case.command()}",
        weight=drop,
    )


def load_before(case: Case) -> Verdict | None:
    """Others were at work on the machine before the first point."""
    load = as_number(told(case.run.machine, "conditions", "load_1m"))
    if load is None or case.threads is None or load / case.threads <= LOAD_A_CORE:
        return None
    return Verdict(
        "warning",
        f"Before the first point the machine's load was {load:.2g} on {case.threads} processors "
        f"({load / case.threads:.2g} a processor; {LOAD_A_CORE:g} is quiet): others were at work.",
        {"load_1m": load, "threads": case.threads, "limit_a_thread": LOAD_A_CORE},
        "See who with `top`, wait for it to end, then run it again: " + (case.run.command or "hwdyno run"),
    )


def link_below_its_best(case: Case) -> list[Verdict]:
    """A disk's link runs slower or narrower than both its ends can."""
    found = []
    for at, disk in enumerate(told(case.run.machine, "storage", "disks") or []):
        link = told(case.run.machine, "storage", "disks", at, "link") or {}
        names = ("generation", "lanes", "generation_max", "lanes_max")
        now, lanes, best, lanes_best = (as_number(link.get(name)) for name in names)
        if link.get("type") != "pcie" or not now or not lanes or not best or not lanes_best:
            continue
        share = 2.0 ** (now - best) * lanes / lanes_best
        if share < 0.99:
            found.append(
                Verdict(
                    "warning",
                    f"{disk.get('name', 'The disk')}: its link runs at PCIe {now:g}.0 x{lanes:g} and could run at "
                    f"PCIe {best:g}.0 x{lanes_best:g}: about {percent(share)} of its best.",
                    {"generation": now, "lanes": lanes, "generation_max": best, "lanes_max": lanes_best},
                    "Look at the slot (lanes wired), the riser and the firmware's link setting: lspci -vv",
                    resource="storage",
                )
            )
    return found


def outlying_repeats(case: Case) -> Verdict | None:
    """Repeats that lie far off the others, or are skewed, are named, never dropped."""
    values = case.point.repeat_values
    note = next((note for note in case.point.notes if note.code == "median_of_repeats"), None)
    far = outliers(values)
    if not values or not (far or note):
        return None
    unit, centre = case.point.throughput.unit, median(values)
    worst = max(far or range(len(values)), key=lambda at: abs(values[at] - centre))
    which = (
        f"{len(far)} of {format_count(len(values))} repeats {'lies' if len(far) == 1 else 'lie'} far off the others"
        if far
        else f"the {format_count(len(values))} repeats are skewed"
    )
    spoken = "so the median speaks for the point" if note else "and it counts in the mean"
    return Verdict(
        "info",
        f"{case.label}: {which}: {case.said(values[worst], unit)} against a median of {case.said(centre, unit)}, "
        f"{spoken}.",
        {"outliers": [values[at] for at in far], "worst": values[worst], "median": centre, "unit": unit},
        f"If it comes back, look for a timer or a background job: {case.command()}",
        weight=abs(values[worst] / centre - 1) if centre else 0.0,
    )
