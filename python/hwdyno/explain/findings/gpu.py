"""Why a GPU stays below its ceilings, by what was sampled: clock, link, host memory, storage, intensity."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

from hwdyno.analysis.ceilings.gpu import GpuFileLoad, list_file_loads, the_gpu
from hwdyno.analysis.ceilings.links import PCIE_GT_S, pcie
from hwdyno.analysis.curves.roofline import find_roofs
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, apart, as_number, percent, quantity
from hwdyno.model.kernels import GPU_FLOPS, GPU_LOAD, GPU_ROOFLINE, GPU_TRANSFER
from hwdyno.model.units import format_ratio, format_size, format_value
from hwdyno.model.words import Measurement, Parameters

FALLEN = 0.95
"""Share of the highest clock below which a finding is reported; GPUs move their clock in steps of 1 to 2%."""
NARROW = 0.9
"""A link at less than this share of what it can carry is narrowed; below is nothing but a lower generation or width."""
MIN_INTENSITY = 0.125
"""FLOP/B: an operation on a number of 8 B, read or written in all."""
MAX_INTENSITY = 1024.0
"""FLOP/B: what the kernel takes at most."""
SLOWER = 0.9
"""Pageable memory below this share of pinned memory's rate."""
BOTH = 1.2
"""Both ways at once carry at least this many times one way, if each way has a separate engine."""
AT_PART = 0.9
"""A load from this share of the slower part's rate on is as fast as that part lets it be."""
FASTER = 1.25
"""The other part must be this many times faster, to say that it waits."""
OVERLAP = 0.5
"""Share of the time that overlapping could save, below which the parts count as done in turn."""
WORTH = 1.2
"""Minimum time of a load in turn, in multiples of the slower part's: with less nothing could be seen."""
BUSY = 0.9
"""Share of the processors' time from which they are the limit."""
ON_ROOF = 0.9
"""A point at this share of a measured roof is on it."""
MIN_BYTES = 1 << 20
"""Smaller copies take the time of a call, no matter what they go through."""


def gpu_clock_fell(case: Case) -> Verdict | None:
    """The clock that was sampled while the GPU computed is lower than the one that its peak counts with."""
    gpu = the_gpu(case.run.machine)
    clock_hz = as_number(case.point.details.get("clock_hz"))
    max_hz = float(gpu.boost_max_hz or gpu.clock_max_hz or 0) if gpu else 0.0
    if not clock_hz or not max_hz or clock_hz >= FALLEN * max_hz:
        return None
    why = str(case.point.details.get("slowed_by") or "")
    cause = f" NVML's reason: {why}." if why else " NVML gives no reason."
    return Verdict(
        "warning",
        f"The clock was {percent(clock_hz / max_hz)} of the highest ({case.label}): {format_value(clock_hz, 'Hz')} of "
        f"{format_value(max_hz, 'Hz')}. The peak at this clock is lower by as much.{cause}",
        {"clock_hz": clock_hz, "clock_max_hz": max_hz, "slowed_by": why},
        "Look at power, heat and clocks (`nvidia-smi -q -d PERFORMANCE,POWER,CLOCK`), then measure again: "
        + case.command(),
        weight=max_hz / clock_hz,
    )


def gpu_link_narrow(case: Case) -> Verdict | None:
    """The link ran slower, while bytes went over it, than both its ends can."""
    gpu = the_gpu(case.run.machine)
    seen = [(point.details.get("link_generation"), point.details.get("link_lanes")) for point in case.result.points]
    known = [
        (int(link_generation), int(many))
        for link_generation, many in seen
        if link_generation in PCIE_GT_S and isinstance(many, int) and many
    ]
    generation, lanes = (gpu.link_generation_max, gpu.link_lanes_max) if gpu else (None, None)
    if not known or generation not in PCIE_GT_S or not generation or not lanes:
        return None
    now, most = max(known), (generation, lanes)
    share = pcie(*now).bytes_s / pcie(*most).bytes_s
    if share >= NARROW:
        return None
    return Verdict(
        "warning",
        f"The GPU's link ran at PCIe {now[0]} x{now[1]} during the copies, although it can PCIe {most[0]} x{most[1]}. "
        f"That leaves {percent(share)} of its rate.",
        {"link": list(now), "link_max": list(most), "share": share},
        "Try another slot, and look at risers and the firmware's setting of the slot (`lspci -vv`, LnkSta). "
        f"Then measure again: {case.next_run('gpu transfer')}",
        weight=1 / share,
    )


def gpu_pageable(case: Case) -> Verdict | None:
    """Copies of pageable memory are slower, since the driver copies them to pinned memory first."""
    found = []
    for way, block, memory, point in _copies(case):
        other = [copy for a, b, kind, copy in _copies(case) if (a, b, kind) == (way, block, "pinned")]
        one_way = memory == "pageable" and way != "both-ways"
        if one_way and other and point.throughput.value < SLOWER * other[0].throughput.value:
            found.append((point.throughput.value / other[0].throughput.value, way, block, point, other[0]))
    found = [candidate for candidate in found if apart(candidate[3].throughput, candidate[4].throughput)]
    if not found:
        return None
    share, way, block, slow, fast = min(found, key=lambda candidate: candidate[0])
    return Verdict(
        "info",
        f"Pageable memory carries {percent(share)} of what pinned memory does ({way}, {format_size(block)}): "
        f"{quantity(slow.throughput)} against {quantity(fast.throughput)}. The driver copies it twice.",
        {"share": share, "block": block, "operation": way},
        "Pin the buffers that are copied often (cudaHostAlloc, pin_memory=True). Measure both: "
        + case.next_run("gpu", memory="pinned,pageable", operation=way, block=str(int(block))),
        weight=1 / share,
    )


def gpu_one_way(case: Case) -> Verdict | None:
    """Copies both ways at once carry hardly more than one way does."""
    copies = [copy for copy in _copies(case) if copy[2] == "pinned"]
    both = [(block, point) for way, block, _, point in copies if way == "both-ways"]
    if not both:
        return None
    block, point = max(both, key=lambda candidate: candidate[0])
    ways = [copy for way, size, _, copy in copies if size == block and way in {"host-to-device", "device-to-host"}]
    if len(ways) < 2:
        return None
    fastest = max(ways, key=lambda copy: copy.throughput.value).throughput
    gain = point.throughput.value / fastest.value
    if gain >= BOTH:
        return None
    return Verdict(
        "info",
        f"Both directions share one engine or one path: together they carry {quantity(point.throughput)}, "
        f"{format_ratio(gain)} times the faster direction alone ({format_size(block)}).",
        {"gain": gain, "block": block},
        "Copies that overlap gain nothing here. Look at the copy engines in `hwdyno machine`, and measure again: "
        + case.next_run(
            "gpu", operation="host-to-device,device-to-host,both-ways", memory="pinned", block=str(int(block))
        ),
        weight=BOTH / gain,
    )


def gpu_load_waits(case: Case) -> Verdict | None:
    """A load is as fast as its slower part, and the other part waits for it."""
    found = [
        candidate
        for candidate in list_file_loads(case.result)
        if candidate.whole.throughput.value >= AT_PART * candidate.slower
    ]
    found = [candidate for candidate in found if _ratio(candidate) >= FASTER or _ratio(candidate) <= 1 / FASTER]
    if not found:
        return None
    load = max(found, key=lambda candidate: candidate.whole.throughput.value)
    is_storage = load.read.throughput.value < load.copy.throughput.value
    slow, fast = ("reading", "copying") if is_storage else ("copying", "reading")
    slower, faster = (load.read, load.copy) if is_storage else (load.copy, load.read)
    waits = "The copy to the GPU waits for storage" if is_storage else "Storage waits for the copy to the GPU"
    remedy = "More reads at once may be faster" if is_storage else "Larger blocks and a wider link may be faster"
    tried = {"readers": "1,2,4", "buffers": "8"} if is_storage else {"block": "1M..64M"}
    return Verdict(
        "info",
        f"{waits} ({_name_load(load)}): loading reaches {quantity(load.whole.throughput)}, {slow} alone "
        f"{quantity(slower.throughput)}, {fast} alone {quantity(faster.throughput)}.",
        {"load": load.whole.throughput.value, "read": load.read.throughput.value, "copy": load.copy.throughput.value},
        f"{remedy}: {_again(case, load, **tried)}",
        weight=faster.throughput.value / slower.throughput.value,
    )


def gpu_load_in_turn(case: Case) -> Verdict | None:
    """Reading and copying at once take about as long as one after the other."""
    found = []
    for load in list_file_loads(case.result):
        in_turn_s, slower_s, took_s = 1 / load.in_turn, 1 / load.slower, 1 / load.whole.throughput.value
        overlap = (in_turn_s - took_s) / (in_turn_s - slower_s)
        part = min((load.read, load.copy), key=lambda point: point.throughput.value)
        if in_turn_s >= WORTH * slower_s and overlap < OVERLAP and apart(load.whole.throughput, part.throughput):
            found.append((overlap, load))
    if not found:
        return None
    overlap, load = min(found, key=lambda candidate: candidate[0])
    busy = _processors(case, load)
    if load.given.get("buffers") == 1:
        cause, tried = "there is one buffer", {"buffers": "1,2,4"}
    elif busy is not None and busy >= BUSY:
        cause, tried = f"both need the processors, which are {percent(busy)} busy", {"access": "direct,read"}
    else:
        cause, tried = "limit not identified", {"buffers": "2,4,8"}
    return Verdict(
        "warning",
        f"Reading and copying do not overlap ({_name_load(load)}): {cause}. Loading reaches "
        f"{quantity(load.whole.throughput)}, the slower part alone {quantity(load.slower, 'bytes/s')}.",
        {"overlap": overlap, "in_turn": load.in_turn, "slower": load.slower, "processors_busy": busy},
        f"Compare with {_again(case, load, **tried)}",
        weight=load.slower / load.whole.throughput.value,
    )


def _ratio(load: GpuFileLoad) -> float:
    return load.copy.throughput.value / load.read.throughput.value


def _name_load(load: GpuFileLoad) -> str:
    return f"{load.given.get('access')}, {format_size(as_number(load.given.get('block')) or 0)}"


def _again(case: Case, load: GpuFileLoad, **changes: str) -> str:
    given = {"part": "whole,read,copy", "access": str(load.given.get("access"))}
    given |= {name: str(load.given.get(name)) for name in ("block", "buffers", "readers", "on")}
    return case.next_run("gpu", **{**given, **changes})


def _processors(case: Case, load: GpuFileLoad) -> float | None:
    """Share of the processors' time that hwdyno and the driver took while a load was timed; none where unknown."""
    counters = load.whole.counters
    used = [counters.get(f"process_cpu_{kind}_s") for kind in ("user", "system")]
    known = [seconds for seconds in used if seconds is not None]
    if len(known) < 2 or not case.threads or load.whole.elapsed_s <= 0:
        return None
    return sum(known) / (load.whole.elapsed_s * case.threads)


def gpu_roofline(case: Case) -> Verdict | None:
    """Where the measured roofs of memory and arithmetic meet, and how far below them the worst point is."""
    roofs = find_roofs(case.result)
    if roofs is None:
        return None
    first, last = roofs.spots[0], roofs.spots[-1]
    slope, top = format_value(roofs.bytes_s, "bytes/s"), format_value(roofs.flop_s, "FLOP/s")
    data = {"bytes_s": roofs.bytes_s, "flop_s": roofs.flop_s}
    if last.flop_s >= ON_ROOF * last.intensity * roofs.bytes_s:
        return Verdict(
            "info",
            f"Memory limits up to {last.intensity:g} FLOP/B, the highest that was measured: {slope}. "
            "The peak of arithmetic was not reached.",
            data,
            f"Measure higher intensities: {_at_intensities(case, last.intensity, 2, 4, 8)}",
        )
    if first.flop_s >= ON_ROOF * roofs.flop_s:
        return Verdict(
            "info",
            f"Arithmetic limits from {first.intensity:g} FLOP/B on, the lowest that was measured: {top}. "
            "The bandwidth of the memory was not reached.",
            data,
            f"Measure lower intensities: {_at_intensities(case, first.intensity, 1 / 8, 1 / 4, 1 / 2)}",
        )
    lowest = min(roofs.spots, key=lambda spot: spot.flop_s / roofs.over(spot.intensity))
    share = lowest.flop_s / roofs.over(lowest.intensity)
    gap = f" Furthest below: {percent(share)} of the roof at {lowest.intensity:g} FLOP/B." if share < ON_ROOF else ""
    return Verdict(
        "info",
        f"Memory limits below {roofs.ridge:.3g} FLOP/B ({slope}), arithmetic above ({top}).{gap}",
        {**data, "ridge": roofs.ridge, "share": share, "intensity": lowest.intensity},
        "Kernels below the ridge gain from fewer bytes, those above from fewer operations. "
        f"Measure around it: {_at_intensities(case, 2.0 ** round(log2(roofs.ridge)), 1 / 2, 1, 2)}",
        weight=1 / share,
    )


def _at_intensities(case: Case, around: float, *times: float) -> str:
    """The command that measures at multiples of an intensity, within what the kernel takes."""
    wanted = sorted({min(max(around * factor, MIN_INTENSITY), MAX_INTENSITY) for factor in times})
    return case.command(intensity=",".join(f"{intensity:g}" for intensity in wanted))


def _copies(case: Case) -> Iterator[tuple[str, float, str, Measurement]]:
    """Way, block, memory and point of each valid copy between host and GPU that is large enough to count."""
    for point in case.result.points:
        given: Parameters = {**case.result.fixed, **point.parameters}
        block = as_number(given.get("block")) or 0
        if point.validity != "invalid" and point.throughput.value > 0 and block >= MIN_BYTES:
            yield str(given.get("operation")), block, str(given.get("memory")), point


RULES = (
    Rule(
        "gpu_clock_fell",
        "point",
        gpu_clock_fell,
        Applies(kernels=(GPU_FLOPS,), needs=("details.clock_hz",), machine=("gpu_drivers.cuda",)),
    ),
    Rule(
        "gpu_link_narrow",
        "experiment",
        gpu_link_narrow,
        Applies(kernels=(GPU_TRANSFER,), needs=("details.link_lanes",), machine=("gpu_drivers.cuda",)),
    ),
    Rule(
        "gpu_roofline",
        "experiment",
        gpu_roofline,
        Applies(kernels=(GPU_ROOFLINE,), needs=("parameters.intensity",)),
    ),
    Rule("gpu_pageable", "experiment", gpu_pageable, Applies(kernels=(GPU_TRANSFER,), needs=("parameters.memory",))),
    Rule("gpu_load_waits", "experiment", gpu_load_waits, Applies(kernels=(GPU_LOAD,), needs=("parameters.part",))),
    Rule("gpu_load_in_turn", "experiment", gpu_load_in_turn, Applies(kernels=(GPU_LOAD,), needs=("parameters.part",))),
    Rule("gpu_one_way", "experiment", gpu_one_way, Applies(kernels=(GPU_TRANSFER,), needs=("parameters.operation",))),
)
