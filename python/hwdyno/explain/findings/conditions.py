"""Whether conditions were good while a point ran: load, steal, quotas, swap, clock, the spread of the repeats."""

from __future__ import annotations

import math

from hwdyno.analysis.estimates import POOLED_FREEDOM, half_width, median, outliers, standard_deviation, t_quantile
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.repeats import repeats_disagree
from hwdyno.explain.findings.rule import Case, Verdict, as_number, contrast, percent, times
from hwdyno.explain.findings.steadiness import check_throttling, not_steady
from hwdyno.model.machine import IoLimit, Link
from hwdyno.model.units import format_bytes, format_count, format_value, plural
from hwdyno.model.words import Measurement

OTHERS_BEFORE = 0.1
"""Share of the machine's CPU at others' work before the first point, above which the machine is not quiet."""
STEAL, STEAL_MIN = 0.10, 0.02
"""Share of the CPU time that the hypervisor may take, as on any shared host; where the result is noisy, the second."""
OTHERS = 0.25
"""Share of the machine's CPU used by other processes above which they affect a result too much."""
OTHERS_MIN = 0.10
"""The same where the result suffers: it is too noisy, or needs all processors itself."""
NOISE_RULES = ("device_changed", "throttled", "not_steady", "interval_not_reached", "repeats_disagree", "stalls")
"""Findings that other load on the machine explains."""
SWAP_BYTES_S = 1e6
THROTTLED = 0.02
"""Share of the periods in which the quota may be exhausted."""
LIMIT_REACHED, LIMIT_PASSED = 0.85, 1.5
"""Shares of the limit between which it was reached: it allows bursts, and bytes from a cache exceed it by far."""
CLOCK_DROP = 0.03
SCATTERS = 1.2
"""The factor by which an interval must exceed that of the repeats' scatter, for this to be what makes it wide."""
REACH = 10
"""This many repeats are a matter of time alone; what would take more is noise."""
TARGETS = {"quick": 0.10, "standard": 0.05, "full": 0.02}
"""Half-width of the interval at which repeats stop, by profile."""


def _spread(case: Case, half: float) -> str:
    """``±36%``; for an interval wider than the value, the range of the repeats instead."""
    values, unit = case.point.repeat_values, case.point.throughput.unit
    if half < 1 or len(values) < 2:
        return f"±{percent(half)}"
    return contrast(case.quantity(min(values), unit), case.quantity(max(values), unit), "to")


def repeats_needed(point: Measurement, target: float) -> int | None:
    """The number of repeats with this scatter that bring the interval within a target; none above ``REACH``.

    None also where the scatter of the repeats is not what makes the interval wide: their samples wander, or switch
    between levels. Two repeats lean on those of other points, with their degrees of freedom.
    """
    count, half, value = point.repeats, half_width(point.throughput), point.throughput.value
    if count < 2 or half is None or len(point.repeat_values) != count or value <= 0:
        return None
    freedom = POOLED_FREEDOM + 1 if count == 2 else count - 1
    scatter = half * math.sqrt(count) / t_quantile(freedom)
    if count > 2 and scatter > SCATTERS * standard_deviation(point.repeat_values) / value:
        return None
    enough = (n for n in range(count + 1, REACH + 1) if t_quantile(n - 1) * scatter / math.sqrt(n) <= target)
    return next(enough, None)


def interval_not_reached(case: Case) -> Verdict | None:
    """The 95% interval is wider than the profile's target.

    It is a warning where more repeats alone would not mend it.
    """
    half, target = half_width(case.point.throughput), TARGETS.get(case.run.profile)
    if half is None or target is None or half <= target:
        return None
    needed = repeats_needed(case.point, target)
    takes = f" About {needed} repeats would reach the target." if needed else ""
    return Verdict(
        "warning" if half > 2 * target and not needed else "info",
        f"The result varies by more than ±{percent(target)}, the target of profile {case.run.profile} "
        f"({case.label}: {case.quantity(case.point.throughput.value, case.point.throughput.unit)}, "
        f"{_spread(case, half)}, {plural(case.point.repeats, 'repeat')}).{takes}",
        {"half_width": half, "target": target, "repeats": case.point.repeats, "repeats_needed": needed},
        ("Measure longer: " if needed else "Quiet the machine or measure longer: ")
        + case.command_with({"profile": "full" if case.run.profile == "standard" else "standard"}),
        weight=half,
        several=f"{{count}} {case.result.resource} results vary by more than ±{percent(target)} "
        f"(worst: {case.label}, {_spread(case, half)}).",
    )


def another_run(case: Case) -> Verdict | None:
    """Another hwdyno Run measured on the machine at the same time."""
    runs = case.point.conditions.get("other_runs", 0.0)
    if not runs:
        return None
    return Verdict(
        "warning",
        f"Another hwdyno run measured on this machine at the same time ({case.label}). "
        "Each run takes part of what the other one measures.",
        {"other_runs": runs},
        "Wait until the other run ends, then run again: " + (case.run.command or case.command()),
        weight=runs,
        explains=(*NOISE_RULES, "others_at_work"),
        several=f"Another hwdyno run measured on this machine during {{count}} {case.result.resource} points. "
        "Each run takes part of what the other one measures.",
    )


def others_at_work(case: Case) -> Verdict | None:
    """Other processes used a large share of the machine's CPU while the point ran, or enough for it to suffer."""
    share = case.others_share
    if share is None or share <= OTHERS_MIN or (share <= OTHERS and not _suffers(case)):
        return None
    before = case.run.machine.conditions.others_cpu_share
    already = f", {percent(before)} of it before the first point" if before and before > OTHERS_BEFORE else ""
    return Verdict(
        "warning",
        f"Other processes kept {percent(share)} of the machine's CPU busy{already} ({case.label}). "
        "The result depends on their load as much as on the hardware.",
        {"others_cpu": share, "limit": OTHERS if share > OTHERS else OTHERS_MIN, "others_before": before},
        "Find them with `top`, wait until they end, then run again: " + (case.run.command or case.command()),
        weight=share,
        explains=NOISE_RULES,
    )


def _suffers(case: Case) -> bool:
    """Whether a point is too noisy, or other work takes processors that it needs."""
    fills = case.resource.fills_processors and case.threads is not None and case.jobs >= case.threads
    bursty = case.resource.bursty
    noisy = (
        (interval_not_reached,) if bursty else (interval_not_reached, check_throttling, not_steady, repeats_disagree)
    )
    return fills or any(rule(case) is not None for rule in noisy)


def steal(case: Case) -> Verdict | None:
    """The hypervisor took CPU time from this machine (steal)."""
    share = case.point.conditions.get("steal", 0.0)
    target, half = TARGETS.get(case.run.profile), half_width(case.point.throughput)
    if share <= STEAL_MIN:
        return None
    wide = target is not None and half is not None and half > 2 * target
    noisy = wide or any(rule(case) is not None for rule in (check_throttling, not_steady, repeats_disagree))
    if share <= STEAL and not noisy:
        return None
    return Verdict(
        "warning",
        f"The hypervisor took {percent(share)} of the CPU time (steal; {case.label}).",
        {"steal": share, "tolerance": STEAL if share > STEAL else STEAL_MIN},
        f"Repeat at a quieter time or on a dedicated host: {case.command()}",
        weight=share,
        explains=NOISE_RULES if share > STEAL else (),
    )


def cpu_limited(case: Case) -> Verdict | None:
    """The container exhausted its CPU quota, and the measuring threads had to wait."""
    share = case.point.conditions.get("cgroup_throttled", 0.0)
    if share <= THROTTLED:
        return None
    limit = case.run.machine.container.cpu_limit
    quota = f" of {plural(limit, 'processor')}" if limit else ""
    return Verdict(
        "warning",
        f"The container's CPU quota{quota} was exhausted in {percent(share)} of the periods ({case.label}). "
        "The measuring threads had to wait, so the result is the container's limit as much as the hardware's.",
        {"throttled_periods_share": share, "tolerance": THROTTLED, "cpu_limit": limit},
        f"Raise the quota (cpu.max, or the container's CPU limit), then: {case.command()}",
        weight=share,
        explains=NOISE_RULES,
    )


def io_limit(case: Case) -> Verdict | None:
    """The result is the control group's limit on the device."""
    if case.point.elapsed_s <= 0:
        return None
    found: list[tuple[float, float, str, str, IoLimit]] = []
    for limits in case.run.machine.storage.limits:
        for stream in case.point.streams:
            for unit, done in (("bytes_s", stream.bytes), ("operations_s", stream.operations)):
                limit = getattr(limits, f"{stream.name}_{unit}", None)
                if limit:
                    found.append((done / case.point.elapsed_s / limit, limit, unit, stream.name, limits))
    if not found:
        return None
    share, limit, unit, direction, limits = max(found, key=lambda candidate: candidate[0])
    if not LIMIT_REACHED <= share <= LIMIT_PASSED:
        return None
    allowed = case.quantity(limit, unit.replace("_s", "/s"))
    return Verdict(
        "warning",
        f"At {percent(share)} of the container's limit of {allowed} of {direction}s on {limits.device} ({case.label}). "
        "This is not the device's limit.",
        {"share": share, "limit": limit, "unit": unit, "direction": direction, "device": limits.device},
        f"Raise the limit (io.max, or blkio.throttle in cgroup version 1), then: {case.command()}",
        weight=share,
        explains=NOISE_RULES,
    )


def swapping(case: Case) -> Verdict | None:
    """The machine swapped while the point ran."""
    conditions = case.point.conditions
    moved = conditions.get("swap_in_bytes", 0.0) + conditions.get("swap_out_bytes", 0.0)
    if case.point.elapsed_s <= 0 or moved / case.point.elapsed_s <= SWAP_BYTES_S:
        return None
    return Verdict(
        "warning",
        f"The machine swapped {format_bytes(moved)} ({case.label}). Swapping loads the storage and waits for it.",
        {"swapped_bytes": moved, "elapsed_s": case.point.elapsed_s},
        f"Free memory (see `free -h`), then: {case.command()}",
        weight=moved,
    )


def clock_dropped(case: Case) -> Verdict | None:
    """The CPU clock fell by more than 3% during a point that depends on the CPU."""
    before, least = case.point.conditions.get("clock_hz_before"), case.point.conditions.get("clock_hz")
    of_the_cpu = case.resource.client == "measured"
    if not before or not least or not (of_the_cpu or (case.cpu_share or 0) > 0.5):
        return None
    drop = 1 - least / before
    if drop <= CLOCK_DROP:
        return None
    return Verdict(
        "warning" if of_the_cpu else "info",
        f"The CPU clock fell by {percent(drop)}, {contrast(format_value(before, 'Hz'), format_value(least, 'Hz'))} "
        f"({case.label}). Possible causes: heat or a power limit.",
        {"before_hz": before, "least_hz": least, "drop": drop},
        f"Fix the clock (governor performance, turbo off) or let the CPU cool, then: {case.command()}",
        weight=drop,
    )


def load_before(case: Case) -> Verdict | None:
    """Other processes kept the machine busy right before the first point.

    It is read from their CPU time over half a second: the load average counts work that has ended.
    """
    share = case.run.machine.conditions.others_cpu_share
    if share is None or share <= OTHERS_BEFORE:
        return None
    return Verdict(
        "warning",
        f"Other processes kept {percent(share)} of the machine's CPU busy right before the first point; "
        f"{percent(OTHERS_BEFORE)} or less is quiet.",
        {"others_before": share, "limit": OTHERS_BEFORE},
        "Find them with `top`, wait until they end, then run again: " + (case.run.command or "hwdyno run"),
    )


def link_below_its_best(case: Case) -> list[Verdict]:
    """A disk's link runs slower or narrower than both ends support."""
    found = []
    for disk in case.run.machine.storage.disks:
        link = disk.link or Link()
        names = ("generation", "lanes", "generation_max", "lanes_max")
        now, lanes, best, lanes_best = (as_number(getattr(link, name)) for name in names)
        if link.type != "pcie" or not now or not lanes or not best or not lanes_best:
            continue
        share = 2.0 ** (now - best) * lanes / lanes_best
        if share < 0.99:
            found.append(
                Verdict(
                    "warning",
                    f"The link of {disk.name or 'the disk'} runs at about {percent(share)} of its best: "
                    f"PCIe {now:g}.0 x{lanes:g} instead of PCIe {best:g}.0 x{lanes_best:g}.",
                    {"generation": now, "lanes": lanes, "generation_max": best, "lanes_max": lanes_best},
                    "Check the slot (lanes wired), the riser and the firmware's link setting: lspci -vv",
                )
            )
    return found


def outlying_repeats(case: Case) -> Verdict | None:
    """Repeats that are far from the others, or skewed: they are reported, never dropped."""
    values = case.point.repeat_values
    note = next((note for note in case.point.notes if note.code == "median_of_repeats"), None)
    far = outliers(values)
    if not values or not (far or note):
        return None
    unit, centre = case.point.throughput.unit, median(values)
    worst = max(far or range(len(values)), key=lambda at: abs(values[at] - centre))
    ratio = values[worst] / centre if centre else 0.0
    if case.is_latency_test and ratio:
        ratio = 1 / ratio  # As times, which is what the sentence has.
    which = (
        f"{'One' if len(far) == 1 else len(far)} of {format_count(len(values))} repeats "
        f"{_ratio_words(ratio) if len(far) == 1 and ratio else 'were far from the others'}"
        if far
        else f"The {format_count(len(values))} repeats are skewed"
    )
    counted = (
        "the median is reported" if note else "it counts in the mean" if len(far) == 1 else "they count in the mean"
    )
    figures = contrast(case.quantity(values[worst], unit), case.quantity(centre, unit), "vs")
    return Verdict(
        "info",
        f"{which} ({case.label}: {figures}); {counted}.",
        {"outliers": [values[at] for at in far], "worst": values[worst], "median": centre, "unit": unit},
        f"If it recurs, look for a timer or a background job: {case.command()}",
        weight=abs(values[worst] / centre - 1) if centre else 0.0,
    )


def _ratio_words(ratio: float) -> str:
    """A repeat beside the median of all: ``was half the others``."""
    if round(ratio, 1) in {0.5, 2.0}:
        return f"was {'half' if ratio < 1 else 'twice'} the others"
    if ratio > 2:
        return f"was {times(ratio)} times the others"
    return f"was {percent(abs(ratio - 1))} {'below' if ratio < 1 else 'above'} the others"


RULES = (
    Rule(
        *("another_run", "point", another_run),
        Applies(needs=("conditions.other_runs",)),
        degrades=True,
        explains=True,
    ),
    Rule(
        "others_at_work",
        "point",
        others_at_work,
        Applies(where=lambda resource: not resource.two_ended),
        degrades=True,
        explains=True,
    ),
    Rule("steal", "point", steal, Applies(needs=("conditions.steal",)), degrades=True, explains=True),
    Rule(
        "cpu_limited",
        "point",
        cpu_limited,
        Applies(needs=("conditions.cgroup_throttled",)),
        degrades=True,
        explains=True,
    ),
    Rule(
        *("io_limit", "point", io_limit),
        Applies(resources=("storage",), machine=("storage.limits",)),
        degrades=True,
        explains=True,
    ),
    Rule("swapping", "point", swapping, degrades=True),
    Rule("clock_dropped", "point", clock_dropped, Applies(needs=("conditions.clock_hz",)), degrades=True),
    Rule("interval_not_reached", "point", interval_not_reached, Applies(imported=False), degrades=True),
    Rule("outlying_repeats", "point", outlying_repeats),
    Rule(
        "load_before",
        "run",
        load_before,
        Applies(machine=("conditions.others_cpu_share",)),
        unless=("another_run", "others_at_work"),
    ),
    Rule("link_below_its_best", "run", link_below_its_best, Applies(machine=("storage.disks",)), about="storage"),
)
