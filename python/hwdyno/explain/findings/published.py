"""Laws of a published table: slips of a unit, curves that run backwards, floors, loopback."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from itertools import pairwise

from hwdyno.analysis.estimates import half_width
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, operations_per_s, percent
from hwdyno.model.axes import is_loopback
from hwdyno.model.kernels import GPU_TRANSFER, MEMORY_BANDWIDTH, MEMORY_LOADED_LATENCY
from hwdyno.model.units import SLIPS, format_bytes_s, format_count, format_ns, format_size, number_at, plural
from hwdyno.model.words import Measurement, Parameters

SLIP = 0.005
MAX_SLIP_ROUNDING = 0.008
RISES, SLOWS = 0.1, 0.25
"""How much bandwidth may rise and latency grow between neighbouring delays by noise."""
MAX_LINES = 128
"""Lines of 64 B that one core cannot have in flight: line fill buffers, L2 queues and prefetchers hold fewer."""
LINE_BYTES = 64
BLOCK_ERROR = 0.3
_FLOORS = (
    ("hard disk", r"\bhdd\b|\brpm\b|spinning|hard (?:disk|drive)|\bst\d{4,}", 2e6, "half a turn at 15,000 rpm"),
    ("SATA SSD", r"\bsata\b|\bmx500\b|8[67]0 evo", 20e3, "a command over SATA and a read of flash"),
    ("USB drive", r"\busb\b", 30e3, "a command over USB"),
    ("NVMe drive", r"\bnvme\b|\bpcie\b|optane", 4e3, "a command over PCIe and the fastest media"),
    ("disk of any kind", r"", 1.5e3, "a system call and a command to a device"),
)
"""Classes of devices: the words for each, the least mean latency of one operation in ns, and what takes it."""
_FASTEST = (
    ("hard disk", _FLOORS[0][1], 600e6, "no platter passes its heads faster, and SATA carries 600 MB/s"),
    ("SATA SSD", r"\bsata\b", 600e6, "SATA 6 Gbit/s carries 600 MB/s"),
    ("virtual disk", r"\bvirtio\b|virtual disk|\bvda\b|\bebs\b", 4.75e9, "clouds limit one volume to less"),
)
"""Classes of devices: the words for each, the most bytes/s of one device, and why."""
_MANY = re.compile(
    r"raid|array|\b\d+ ?x\b|\bx ?\d+\b(?! ?(?:lane|pcie))|ceph|lustre|\bnfs\b|zfs|beegfs|"
    r"gpfs|weka|cluster|pool|stripe|lvm|distributed|dram|optane|ram ?disk"
)
"""Words for storage of several devices, or with built-in memory."""
FASTEST_MEMORY_BYTES_S, FASTEST_HOST_LINK_BYTES_S = 8e12, 450e9
"""HBM3E of one device (NVIDIA B200: 8 TB/s), and NVLink-C2C each way (NVIDIA GH200: 450 GB/s)."""
_HBM4 = re.compile(r"hbm4|rubin|\bmi4\d\d")
HBM4_MEMORY_BYTES_S, HBM4_HOST_LINK_BYTES_S = 22e12, 900e9
"""The same of devices with HBM4 (NVIDIA Vera Rubin: 22 TB/s, and 900 GB/s each way)."""
ABOVE_MEMORY = 1.5
"""A cache of the device may answer a copy's reads."""
SMALL_FILE, FAST_DISK, MOSTLY = 16 << 30, 600e6, 0.5
FASTEST_DRIVE_BYTES_S = 15.8e9
"""PCIe 5.0 x4 carries 4 lanes x 32 GT/s x 128/130 / 8 = 15.75 GB/s (PCI Express Base 5.0)."""
_NVME = _FLOORS[3][1]
_NETWORK_FLOOR_NS, _MEMORY_FLOOR_NS = 500.0, 30.0
_RUN_LABELS = ("device", "link", "storage", "storage_type", "interface", "study")


def is_of_several(words: str) -> bool:
    """Whether words in lower case name storage of several devices, or with built-in memory."""
    return _MANY.search(words) is not None


def sum_rounding(point: Measurement, *names: str) -> float:
    """The rounding of the figures as printed, together, as a share; 0 where the table does not show it."""
    printed = point.details.get("rounding") or {}
    return sum(number_at(printed, name) for name in printed if name.removesuffix("_mean") in names)


def unit_slip(case: Case) -> Verdict | None:
    """Bandwidth and rate x block size differ by one factor in every row: the column's unit is another."""
    ratios = []
    for at, point in enumerate(case.result.points):
        rate, size = operations_per_s(point), as_number(point.parameters.get("bs") or case.result.fixed.get("bs"))
        rounding = sum_rounding(point, "bw", "iops")
        if (
            rate
            and size
            and point.throughput.unit == "bytes/s"
            and point.throughput.value > 0
            and rounding <= MAX_SLIP_ROUNDING
        ):
            ratios.append((at, rate, size, rate * size / point.throughput.value, rounding))
    for factor, (digits, unit, other) in SLIPS.items():
        for wanted in (factor, 1 / factor):
            hits = [candidate for candidate in ratios if abs(candidate[3] / wanted - 1) <= SLIP + candidate[4]]
            # One row may be off by chance, where rate and bandwidth are means of other samples.
            if len(hits) < max(1, 0.8 * len(ratios)) or (factor < 1.1 and len(hits) < 2):
                continue
            at, rate, size, ratio, _ = hits[0]
            point = case.result.points[at]
            return Verdict(
                "warning",
                f"The bandwidth is off by a factor of {digits} in {plural(len(hits), 'row')} (x{ratio:.4g})"
                f", which parts {unit} and {other}. "
                f"Example: {format_count(rate)} IOPS x {format_size(size)} is {format_bytes_s(rate * size)}, "
                f"but the table has {format_bytes_s(point.throughput.value)}.",
                {"factor": wanted, "rows": len(hits), "ratio": ratio},
                mapping_advice(case, point, wanted),
                weight=abs(wanted - 1),
                points=tuple(at for at, *_ in hits),
            )
    return None


_RATES = tuple((f"{prefix}B/s", 1000.0**at) for at, prefix in enumerate(("", "k", "M", "G", "T"))) + tuple(
    (f"{prefix}iB/s", 1024.0**at) for at, prefix in enumerate(("K", "M", "G", "T"), start=1)
)


def mapping_advice(case: Case, point: Measurement, wanted: float) -> str:
    """The command that reads the column of a table by the unit that fits; for a tool's output, where to look."""
    column = str((point.details.get("heads") or {}).get("bw") or "")
    unit = str((point.details.get("printed_in") or {}).get("bw") or "")
    now = next((factor for name, factor in _RATES if name.lower() == unit.lower()), None)
    fits = [name for name, factor in _RATES if now and abs(factor / (now * wanted) - 1) <= SLIP]
    file = re.fullmatch(r".*? \((.*)\)", case.run.command)
    if not column or not fits or file is None:
        return "Correct the unit of the bandwidth: its digits are those of another."
    return f"Correct the column's unit, or read it so: hwdyno audit {shlex.quote(file[1])} --map '{column}={fits[0]}'"


def runs_backwards(case: Case) -> Verdict | None:
    """Bandwidth must not rise with an injected delay, nor latency grow: more delay is less load."""
    series: dict[tuple[tuple[str, str], ...], list[tuple[float, int]]] = defaultdict(list)
    for at, point in enumerate(case.result.points):
        delay = as_number(point.parameters.get("delay"))
        if delay is not None and point.throughput.unit == "bytes/s" and point.throughput.value > 0:
            key = tuple(sorted((name, str(value)) for name, value in point.parameters.items() if name != "delay"))
            series[key].append((delay, at))
    worst: tuple[float, int, int, str] | None = None
    pairs, against = 0, 0
    for rows in series.values():
        rows.sort()
        for (less, first), (more, second) in pairwise(rows):
            if less == more:
                continue
            pairs += 1
            base, delayed = case.result.points[first], case.result.points[second]
            known_to = sum(
                0.0 if case.is_imported else half_width(point.throughput) or 0.0 for point in (base, delayed)
            )
            rounded = {
                name: sum_rounding(base, name) + sum_rounding(delayed, name) + known_to for name in ("bw", "lat")
            }
            rises = delayed.throughput.value / base.throughput.value - 1 - rounded["bw"]
            slows = 0.0
            if base.latency_ns and delayed.latency_ns and base.latency_ns.mean > 0:
                slows = delayed.latency_ns.mean / base.latency_ns.mean - 1 - rounded["lat"]
            against += rises > RISES or slows > SLOWS
            for off, limit, quantity in ((rises, RISES, "bandwidth"), (slows, SLOWS, "latency")):
                if off > limit and (worst is None or off > worst[0]):
                    worst = (off, first, second, quantity)
    if worst is None:
        return None
    off, first, second, figure = worst
    base, delayed = case.result.points[first], case.result.points[second]
    before, after = (
        (format_bytes_s(base.throughput.value), format_bytes_s(delayed.throughput.value))
        if figure == "bandwidth"
        else (
            format_ns(base.latency_ns.mean if base.latency_ns else 0),
            format_ns(delayed.latency_ns.mean if delayed.latency_ns else 0),
        )
    )
    return Verdict(
        "warning",
        f"The {figure} runs backwards: it rises by {percent(off)} ({before} to {after}) as the injected delay grows "
        f"from {base.parameters['delay']} to {delayed.parameters['delay']}, but more delay is less load. "
        + _why_backwards(against, pairs, is_ours=not case.is_imported),
        {"off": off, "what": figure},
        "Check the two rows against the tool's output, or measure here: hwdyno memory"
        if case.is_imported
        else f"Quiet the machine and measure again: {case.command_with({'profile': 'standard'})}",
        weight=off,
        points=(first, second),
    )


def _why_backwards(against: int, pairs: int, *, is_ours: bool) -> str:
    if is_ours:
        return "Possible causes: another load beside the test, a clock that changes, and readings that are too short."
    if against == 1 or against > 0.5 * pairs:
        return "Two rows or columns are swapped, or another load ran beside the test."
    return f"So it is at {against} of {pairs} delays: possible causes are another load and readings that are too short."


def latency_floor(case: Case) -> Verdict | None:
    """A mean latency below what its kind of device needs for one operation: a cache answered, or the unit is wrong."""
    latency = case.point.latency_ns
    if latency is None or latency.mean <= 0:
        return None
    found = _floor(case)
    if found is None or latency.mean >= found[1] * (1 - sum_rounding(case.point, "lat")):
        return None
    kind, floor, takes = found
    slip = next(
        (
            f" In {unit} it would be plausible."
            for factor, unit in ((1e3, "µs"), (1e6, "ms"))
            if latency.mean * factor > floor and kind != "loopback" and _is_unit(case, factor)
        ),
        "",
    )
    return Verdict(
        "warning",
        f"{format_ns(latency.mean)} is too short for a {kind} ({case.label}): {takes} takes "
        f"at least {format_ns(floor)}.{slip} "
        "A cache answered, or the unit is wrong.",
        {"latency_ns": latency.mean, "floor_ns": floor, "class": kind},
        f"Check the unit, or measure past the cache: {case.command(**_past_cache(case))}",
        weight=floor / latency.mean,
    )


def _past_cache(case: Case) -> Parameters:
    return {"direct": True} if case.resource.page_cache else {}


def _is_unit(case: Case, factor: float) -> bool:
    """Whether the printed unit is the one below: ns for µs, µs for ms."""
    printed = case.point.details.get("printed_in") or {}
    unit = next((unit for name, unit in printed.items() if name.startswith("lat")), "")
    return (unit, factor) in {("ns", 1e3), ("us", 1e3), ("ns", 1e6)}


def _floor(case: Case) -> tuple[str, float, str] | None:
    """The device class of a point, its least latency, and what takes that time."""
    given = case.parameters
    if case.result.resource == "memory":
        size = as_number(given.get("working_set")) or as_number(given.get("bs"))
        delayed = given.get("delay") is not None
        return ("memory module", _MEMORY_FLOOR_NS, "an access to DRAM") if delayed or (size or 0) > 1 << 30 else None
    if case.result.resource == "network":
        path = f"{given.get('path') or ''} {case.result.asks}"
        return None if is_loopback(path) else ("network", _NETWORK_FLOOR_NS, "a message between two hosts")
    if case.result.resource != "storage" or case.parameter("direct") is False:
        return None
    words = _words(case)
    if is_of_several(words):
        return None
    for kind, pattern, floor, takes in _FLOORS:
        if re.search(pattern, words):
            if kind == "hard disk" and not (case.random and case.read_share == 1):
                continue
            return kind, floor, takes
    return None


def _words(case: Case) -> str:
    """What the point's labels and ceilings say of its device."""
    given = case.parameters
    texts = [*(str(given.get(name) or "") for name in _RUN_LABELS), case.result.asks, case.result.name]
    return " ".join([*texts, *(ceiling.label for ceiling in case.result.ceilings)]).lower()


def through_page_cache(case: Case) -> Verdict | None:
    """A file that was just written is read from memory without direct I/O, and writes end there."""
    point, size = case.point, case.number("size")
    parent = number_at(point.details, "parent_bytes_s")
    if case.parameter("direct") is not False or "disk_unseen_s" in point.details or point.throughput.unit != "bytes/s":
        return None
    waits = 0 < parent < MOSTLY * point.throughput.value
    small = size is not None and size <= SMALL_FILE and point.throughput.value > FAST_DISK
    # IOzone reads the file that it has just written; others may read one that is on the disk alone.
    is_cold = case.read_share == 1 and not case.run.imported_from.startswith("iozone")
    is_possible = is_cold and not waits and point.throughput.value <= FASTEST_DRIVE_BYTES_S
    if not (waits or small) or (is_possible and (re.search(_NVME, _words(case)) or is_of_several(_words(case)))):
        return None
    verb = "may be" if is_possible else "is"
    seen = f" Its parent, which waits for the file, sees {format_bytes_s(parent)}." if waits else ""
    file = f", and the file is {format_size(size)}" if size else ""
    return Verdict(
        "warning",
        f"{format_bytes_s(point.throughput.value)} {verb} the page cache's speed, not the disk's ({case.label}). "
        f"Direct I/O was not requested{file}.{seen}",
        {"throughput": point.throughput.value, "size": size, "parent_bytes_s": parent or None},
        f"Measure with direct I/O (IOzone: -I): {case.command(direct=True, size='64G')}",
        weight=point.throughput.value,
    )


def too_fast_for_class(case: Case) -> Verdict | None:
    """More bandwidth than one device of its kind has."""
    point, words = case.point, _words(case)
    if case.result.resource != "storage" or point.throughput.unit != "bytes/s" or is_of_several(words):
        return None
    found = next((row for row in _FASTEST if re.search(row[1], words)), None)
    if found is None or any(ceiling.kind == "physical" for ceiling in case.result.ceilings):
        return None
    kind, _, most, why = found
    if point.throughput.value <= most * (1 + sum_rounding(point, "bw")):
        return None
    return Verdict(
        "warning",
        f"{format_bytes_s(point.throughput.value)} is more than a {kind} can do ({case.label}): {why}. "
        "A cache answered, or the unit is wrong.",
        {"measured": point.throughput.value, "most": most, "class": kind},
        f"Check the unit, or measure past the cache: {case.command(direct=True, size='64G')}",
        weight=point.throughput.value / most,
    )


def too_many_lines(case: Case) -> Verdict | None:
    """Bandwidth x latency is the bytes in flight, and a core can have only this many lines of them."""
    point, threads = case.point, case.number("threads")
    if not threads or point.latency_ns is None or point.throughput.unit != "bytes/s":
        return None
    block = case.number("bs") or 0.0
    lines = point.throughput.value * point.latency_ns.mean / 1e9 / LINE_BYTES / threads
    # A program's own block may be what is timed: one is in flight a thread.
    if lines * LINE_BYTES <= block * (1 + BLOCK_ERROR):
        return None
    if lines <= MAX_LINES * (1 + sum_rounding(point, "bw", "lat")):
        return None
    return Verdict(
        "warning",
        f"Bandwidth and latency do not go together ({case.label}): {format_bytes_s(point.throughput.value)} x "
        f"{format_ns(point.latency_ns.mean)} is {lines:.0f} lines of 64 B in flight per thread (Little's law). "
        f"No core has more than {MAX_LINES}.",
        {"lines": lines, "most": MAX_LINES},
        "Check the units of both columns, and the number of threads.",
        weight=lines / MAX_LINES,
    )


def more_than_memory(case: Case) -> Verdict | None:
    """A copy cannot be faster than every memory: nothing was copied, or the unit is wrong."""
    point, operation = case.point, str(case.parameter("operation") or "").lower()
    if point.throughput.unit != "bytes/s" or any(ceiling.kind == "physical" for ceiling in case.result.ceilings):
        return None
    moves = operation.startswith(("host", "device-to-host", "buffer map"))
    memory = _device_memory(case) if moves else 0.0
    is_newest = _HBM4.search(" ".join([_words(case), *map(str, case.parameters.values())]).lower())
    known = "of any device" if is_newest else "of devices without HBM4"
    if memory:
        most, bound = memory, "this device's memory"
    elif moves:
        most = HBM4_HOST_LINK_BYTES_S if is_newest else FASTEST_HOST_LINK_BYTES_S
        bound = f"the fastest link to the host {known}"
    else:
        most, bound = HBM4_MEMORY_BYTES_S if is_newest else FASTEST_MEMORY_BYTES_S, f"the fastest memory {known}"
    value = point.throughput.value
    if value <= most * ABOVE_MEMORY:
        return None
    cause = (
        "Mapping a buffer moves no byte here; the driver only hands out an address."
        if operation.startswith("buffer map")
        else "Nothing was copied, a cache answered, or the unit is wrong."
    )
    return Verdict(
        "warning",
        f"{format_bytes_s(value)} is no copy ({case.label}): {bound} has {format_bytes_s(most)}. {cause}",
        {"measured": value, "most": most},
        "Take the copies of the same output instead, and check the unit: hwdyno audit --help",
        weight=value / most,
    )


def _device_memory(case: Case) -> float:
    """The bandwidth of the device's own memory in the same table; 0 where it has none."""
    return max(
        (
            point.throughput.value
            for point in case.result.points
            if point.throughput.unit == "bytes/s" and str(point.parameters.get("operation")) == "device-to-device"
        ),
        default=0.0,
    )


def on_loopback(case: Case) -> Verdict | None:
    """A loopback result beside the ceiling of a network interface, which its bytes never cross."""
    points = [at for at in range(len(case.result.points)) if _is_local(case, at)]
    if not points:
        return None
    bound = _find_link(case)
    if bound is None:
        return None
    label, value = bound
    return Verdict(
        "warning",
        f"Loopback has no link: {plural(len(points), 'result')} of this table cannot be compared with "
        f"{label} ({format_bytes_s(value)}). The bytes are copied in memory.",
        {"ceiling": value, "points": len(points)},
        "Compare loopback with the memory's copy bandwidth: hwdyno memory",
        points=tuple(points),
    )


def _find_link(case: Case) -> tuple[str, float] | None:
    """The network link given beside the results: a ceiling, or a claim of the same study."""
    for ceiling in case.result.ceilings:
        if ceiling.metric.startswith("line/"):
            return ceiling.label, ceiling.value
    studies = {str(case.result.fixed.get("study") or "")}
    for other, _, point, _ in case.run.measured_points("claim"):
        if other.resource == "network" and str(point.parameters.get("study") or "") in studies:
            return f"the claimed ceiling '{point.parameters.get('claim')}'", point.throughput.value
    return None


def _is_local(case: Case, at: int) -> bool:
    point = case.result.points[at]
    return bool(point.details.get("loopback")) or is_loopback(str(point.parameters.get("path") or ""))


RULES = (
    Rule("unit_slip", "experiment", unit_slip, Applies(imported=True, needs=("parameters.bs",))),
    Rule("runs_backwards", "experiment", runs_backwards, Applies(kernels=(MEMORY_LOADED_LATENCY,))),
    Rule("latency_floor", "point", latency_floor, Applies(imported=True, needs=("latency",)), degrades=True),
    Rule(
        "through_page_cache", "point", through_page_cache, Applies(imported=True, resources=("storage",)), degrades=True
    ),
    Rule(
        "too_fast_for_class", "point", too_fast_for_class, Applies(imported=True, resources=("storage",)), degrades=True
    ),
    Rule(
        "too_many_lines",
        "point",
        too_many_lines,
        Applies(imported=True, resources=("memory",), needs=("latency",)),
        degrades=True,
    ),
    Rule(
        "more_than_memory",
        "point",
        more_than_memory,
        Applies(imported=True, kernels=(GPU_TRANSFER, MEMORY_BANDWIDTH)),
        degrades=True,
    ),
    Rule("on_loopback", "experiment", on_loopback, Applies(imported=True, resources=("network",))),
)
