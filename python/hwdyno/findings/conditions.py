"""Whether the conditions held while a point ran: load, steal, quotas, swap, clock, the spread of the repeats."""

from __future__ import annotations

from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, as_number, percent
from hwdyno.machine import IoLimit, Link
from hwdyno.statistics import half_width, median, outliers
from hwdyno.units import format_bytes, format_count

LOAD_A_CORE = 0.1
STEAL = 0.02
STEAL_EXPLAINS = 0.10
OTHERS = 0.25
"""Share of the machine's CPU at others' work above which a measurement is theirs as much as the hardware's."""
RESTLESS = ("throttled", "not_steady", "interval_not_reached")
"""What a machine that is busy with something else brings about by itself."""
SWAP_BYTES_S = 1e6
THROTTLED = 0.02
"""Share of the quota's periods in which it may be spent."""
LIMIT_REACHED, LIMIT_PASSED = 0.85, 1.5
"""A limit on a device lets bursts through, and a cache's bytes pass it by far."""
CLOCK_DROP = 0.03
TARGETS = {"quick": 0.10, "standard": 0.05, "full": 0.02}
"""Half-width of the interval that each profile repeats for."""


def _known(case: Case, half: float) -> str:
    """How well a value is known: an interval wider than itself says less than the repeats do."""
    values, unit = case.point.repeat_values, case.point.throughput.unit
    if half < 1 or len(values) < 2:
        return f"is known within {percent(half)} after {case.point.repeats} repeats"
    return (
        f"is hardly known: its {len(values)} repeats lie from {case.quantity(min(values), unit)} to "
        + case.quantity(max(values), unit)
    )


def interval_not_reached(case: Case) -> Verdict | None:
    """The 95% interval is wider than the profile repeats for."""
    half, target = half_width(case.point.throughput), TARGETS.get(case.run.profile)
    if half is None or target is None or half <= target:
        return None
    return Verdict(
        "warning" if half > 2 * target else "info",
        f"{case.label}: {case.quantity(case.point.throughput.value, case.point.throughput.unit)} {_known(case, half)}; "
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
    load = case.run.machine.conditions.load_1m
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
    if share <= THROTTLED:
        return None
    limit = case.run.machine.container.cpu_limit
    quota = f" ({limit:g} processors)" if limit else ""
    return Verdict(
        "warning",
        f"{case.label}: its control group's processor quota{quota} was spent in {percent(share)} of the periods, so "
        f"the measuring threads stood still; this is the container's limit as much as the hardware's.",
        {"throttled_periods_share": share, "tolerance": THROTTLED, "cpu_limit": limit},
        f"Raise the quota (cpu.max, or the container's CPU limit), then: {case.command()}",
        weight=share,
        explains=RESTLESS,
    )


def io_limit(case: Case) -> Verdict | None:
    """A control group's limit on the device is what was reached."""
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
    share, limit, unit, direction, limits = max(found, key=lambda one: one[0])
    if not LIMIT_REACHED <= share <= LIMIT_PASSED:
        return None
    allowed = case.quantity(limit, unit.replace("_s", "/s"))
    return Verdict(
        "warning",
        f"{case.label}: its control group allows {allowed} of {direction}s on {limits.device}, and "
        f"{percent(share)} of that was reached: this is the container's limit, not the device's.",
        {"share": share, "limit": limit, "unit": unit, "direction": direction, "device": limits.device},
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
    of_the_cpu = case.resource.client == "measured"
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
    load = case.run.machine.conditions.load_1m
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
                    f"{disk.name or 'The disk'}: its link runs at PCIe {now:g}.0 x{lanes:g} and could run at "
                    f"PCIe {best:g}.0 x{lanes_best:g}: about {percent(share)} of its best.",
                    {"generation": now, "lanes": lanes, "generation_max": best, "lanes_max": lanes_best},
                    "Look at the slot (lanes wired), the riser and the firmware's link setting: lspci -vv",
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
    counted = "so the median speaks for the point" if note else "and it counts in the mean"
    return Verdict(
        "info",
        f"{case.label}: {which}: {case.quantity(values[worst], unit)} against a median of "
        f"{case.quantity(centre, unit)}, {counted}.",
        {"outliers": [values[at] for at in far], "worst": values[worst], "median": centre, "unit": unit},
        f"If it comes back, look for a timer or a background job: {case.command()}",
        weight=abs(values[worst] / centre - 1) if centre else 0.0,
    )


RULES = (
    Rule("others_at_work", "point", others_at_work, degrades=True, explains=True),
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
    Rule("load_before", "run", load_before, Applies(machine=("conditions.load_1m",)), unless=("others_at_work",)),
    Rule("link_below_its_best", "run", link_below_its_best, Applies(machine=("storage.disks",)), about="storage"),
)
