"""The roofline of the machine: measured bandwidth of each level, measured peaks, and the kernels under them.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hwdyno.analysis.ceilings import bounds_for, gpu
from hwdyno.analysis.curves.roofline import find_roofs
from hwdyno.explain.findings.point_labels import format_label
from hwdyno.model.axes import INTENSITY
from hwdyno.model.kernels import COMPUTE_FLOPS, GPU_ROOFLINE, MEMORY_BANDWIDTH
from hwdyno.model.units import as_number, format_size, plural
from hwdyno.model.words import Declaration, Measurement, Parameters, Run
from hwdyno.report import figures
from hwdyno.report.picture import NEUTRAL, ChartAxis, Dot, Mark, Picture, Polyline, ReferenceLine, Words, decades

LOWEST, HIGHEST = 2.0**-5, 2.0**9
"""Arithmetic intensities that are shown, FLOP a byte."""


HEADROOM = 1.6


@dataclass(frozen=True, slots=True)
class Roof:
    """A slope (bytes/s of a level) or a ceiling (FLOP/s of a loop)."""

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Spot:
    """A kernel at its intensity."""

    label: str
    intensity: float
    flop_s: float


def count_threads(run: Run) -> int:
    """The threads of every roof: the most that have a processor each and that arithmetic and memory both had."""
    kernels = (COMPUTE_FLOPS, MEMORY_BANDWIDTH)
    arithmetic, memory = ({_whole(given.get("threads")) for _, given in _sound(run, kernel)} for kernel in kernels)
    processors = run.machine.cpu.threads
    return max((count for count in arithmetic & memory if not processors or count <= processors), default=0)


def _points(run: Run, kernel: str) -> list[tuple[Parameters, Measurement]]:
    """The kernel's sound points on as many threads as every roof has."""
    wanted = {0, count_threads(run)}  # A foreign document may not know them.
    return [(given, point) for point, given in _sound(run, kernel) if _whole(given.get("threads")) in wanted]


def _sound(run: Run, kernel: str) -> list[tuple[Measurement, Parameters]]:
    return [
        (point, given)
        for _, _, point, given in run.measured_points(kernel)
        if point.validity != "invalid" and point.throughput.value > 0
    ]


def _whole(value: Any) -> int:
    return int(as_number(value) or 0)


def levels(run: Run) -> list[Roof]:
    """The best bandwidth of each working set; the largest set is the memory.

    The bandwidth of a cache is that of reads; past all of them it is the fastest operation's, so that no kernel is
    above its roof.
    """
    best: dict[int, float] = {}
    sequential = [
        (_whole(parameters.get("working_set")), parameters.get("operation") == "read", point.throughput.value)
        for parameters, point in _points(run, MEMORY_BANDWIDTH)
        if parameters.get("pattern", "sequential") == "sequential" and point.throughput.unit == "bytes/s"
    ]
    for size, read, value in sequential:
        if size and read:
            best[size] = max(best.get(size, 0.0), value)
    last = max(best, default=0)
    if best:
        best[last] = max(best[last], *(value for size, _, value in sequential if size >= last))
    roofs: list[Roof] = []
    for size, value in sorted(best.items()):
        # Levels closer than this are one.
        if roofs and value > 0.8 * roofs[-1].value:
            if size == last and value > roofs[-1].value:
                roofs[-1] = Roof(f"{format_size(size)} per thread", value)
            continue
        roofs.append(Roof(f"{format_size(size)} per thread", value))
    return roofs


def peaks(run: Run) -> list[Roof]:
    """The rate of each instruction set and precision: the quoted one, where a grid has it."""
    best: dict[str, float] = {}
    quoted = {id(point) for result, _, point, _ in run.measured_points(COMPUTE_FLOPS) if result.name.endswith(".grid")}
    points = sorted(_points(run, COMPUTE_FLOPS), key=lambda point: id(point[1]) not in quoted)
    of_grid: set[str] = set()
    for parameters, point in points:
        if point.throughput.unit == "FLOP/s" and parameters.get("operands") != "zero":
            axes = {name: parameters.get(name) for name in ("operation", "precision")}
            label = format_label({**axes, "isa": str(point.details.get("isa") or "")}, Declaration())
            if id(point) in quoted:
                of_grid.add(label)
            elif label in of_grid:
                continue
            best[label] = max(best.get(label, 0.0), point.throughput.value)
    return [Roof(label, value) for label, value in sorted(best.items(), key=lambda pair: pair[1])]


def spots(run: Run) -> list[Spot]:
    """Measured kernels: STREAM's loops by their bytes, and linear algebra by the bytes of its matrices."""
    found: dict[str, Spot] = {}

    def keep(spot: Spot) -> None:
        if spot.label not in found or found[spot.label].flop_s < spot.flop_s:
            found[spot.label] = spot

    for parameters, point in _points(run, MEMORY_BANDWIDTH):
        flops, moved = _whole(point.details.get("flops")), _whole(point.details.get("useful_bytes"))
        if flops and moved:
            intensity = flops / moved
            keep(Spot(str(parameters.get("operation")), intensity, point.throughput.value * intensity))
    for parameters, point in _points(run, "linpack"):
        n, lu = _whole(parameters.get("n")), parameters.get("operation") == "lu"
        # Each matrix once: 2/3 n^3 over 2 x 8 n^2 bytes (read and written), 2 n^3 over 4 x 8 n^2.
        intensity = n / 24 if lu else n / 16
        keep(
            Spot(
                "LU (dgesv)" if lu else "matrix multiplication (dgemm)",
                min(intensity, HIGHEST / 2),
                point.throughput.value,
            )
        )
    return list(found.values())


def drawn_of_gpu(run: Run) -> tuple[int, Picture] | None:
    """The experiment of a GPU's roofline and its picture: measured roofs, those of theory, and what was reached."""
    sweeps = (
        (at, experiment, find_roofs(experiment))
        for at, experiment in enumerate(run.experiments)
        if experiment.kernel == GPU_ROOFLINE
    )
    found = next(((at, experiment, roofs) for at, experiment, roofs in sweeps if roofs), None)
    if found is None:
        return None
    at, result, roofs = found
    unit = figures.Scale(1e9, "GFLOP/s")
    xs = [spot.intensity for spot in roofs.spots]
    low, high = xs[0], xs[-1]
    given: Parameters = {**result.fixed, **result.points[0].parameters, INTENSITY: 1.0}
    slope = f"memory: {figures.scale_for([roofs.bytes_s], 'bytes/s').quantity(roofs.bytes_s)}"
    end = min(high, roofs.ridge)
    marks: list[Mark] = [
        Polyline(
            0, tuple((x, x * roofs.bytes_s / unit.divisor) for x in (low, end)), width=2.0, tip=(("slope", slope),)
        )
    ]
    tops = [("measured peak", roofs.flop_s)]
    names = [slope]
    bounds = bounds_for(result.ceilings, given)
    peaks_known = [bound.value for bound in bounds if bound.ceiling.metric.startswith(gpu.PEAK)]
    for bound in bounds:
        if bound.unit != "FLOP/s":
            continue
        if bound.ceiling.metric.startswith(gpu.PEAK):
            tops.append((bound.ceiling.label, bound.value))
            continue
        rate = bound.ceiling.value
        label = f"{bound.ceiling.label}: {figures.scale_for([rate], 'bytes/s').quantity(rate)}"
        far = min([high, *(peak / rate for peak in peaks_known)])
        places = tuple((x, x * rate / unit.divisor) for x in (low, far))
        marks.append(Polyline(len(names), places, dash="5 3", tip=(("theory", label),)))
        names.append(label)
    for label, value in tops:
        text = f"{label}: {figures.scale_for([value], 'FLOP/s').quantity(value)}"
        start = max(low, value / roofs.bytes_s)
        marks.append(
            ReferenceLine(NEUTRAL, value / unit.divisor, min(start, high), high, text, (("peak", text),), "5 3")
        )
    for spot in roofs.spots:
        reached = figures.scale_for([spot.flop_s], "FLOP/s").quantity(spot.flop_s)
        tip = (("intensity", f"{spot.intensity:g} FLOP/B"), ("reaches", reached))
        marks.append(Dot(NEUTRAL, spot.intensity, spot.flop_s / unit.divisor, tip=tip))
    ticks = tuple((x, f"{x:g}" if x >= 1 else f"1/{1 / x:g}") for x in xs)
    side = ChartAxis("arithmetic intensity, FLOP/B", low, high, "log", ticks)
    heights = [low * roofs.bytes_s, *(value for _, value in tops), *(spot.flop_s for spot in roofs.spots)]
    heights += [mark.places[0][1] * unit.divisor for mark in marks if isinstance(mark, Polyline)]
    caption = f"Measured roofs meet at {roofs.ridge:.3g} FLOP/B: memory limits below it, arithmetic above."
    if len(names) > 1:
        caption += " Dashed slope: the memory's bandwidth by its formula."
    y = decades(unit.unit, [value / unit.divisor for value in heights])
    return at, Picture("Roofline of this GPU", caption, side, y, tuple(names), tuple(marks), 250.0)


def draw_roofline(run: Run) -> tuple[int, Picture] | None:
    """The experiment that it belongs to, and its picture; none without a slope and a ceiling."""
    slopes, tops = levels(run), peaks(run)
    if not slopes or not tops:
        return None
    at = run.experiments.index(next(result for result, *_ in run.measured_points(COMPUTE_FLOPS)))
    highest, unit = tops[-1].value, figures.Scale(1e9, "GFLOP/s")  # As everyone compares them, however fast.
    kernels = spots(run)
    names: list[str] = []
    marks: list[Mark] = []
    for number, slope in enumerate(slopes):
        # A slope ends where it meets the highest ceiling.
        end = min(HIGHEST, highest / slope.value)
        names.append(f"{slope.label}: {figures.scale_for([slope.value], 'bytes/s').quantity(slope.value)}")
        ends = tuple((x, x * slope.value / unit.divisor) for x in (LOWEST, end))
        marks.append(Polyline(number, ends, width=2.0, tip=(("slope", names[-1]),)))
    for top in reversed(tops):
        text = f"{top.label}: {figures.scale_for([top.value], 'FLOP/s').quantity(top.value)}"
        start = max(LOWEST, top.value / slopes[0].value)
        marks.append(ReferenceLine(NEUTRAL, top.value / unit.divisor, start, HIGHEST, text, (("peak", text),), "5 3"))
    for spot in kernels:
        reached = figures.scale_for([spot.flop_s], "FLOP/s").quantity(spot.flop_s)
        place = spot.intensity, spot.flop_s / unit.divisor
        marks += [Dot(NEUTRAL, *place, tip=(("kernel", spot.label), ("reaches", reached)))]
        marks += [Words(NEUTRAL, *place, spot.label)]
    ticks = tuple((2.0**power, f"{2.0**power:,g}" if power >= 0 else f"1/{2**-power}") for power in range(-5, 10, 2))
    x = ChartAxis("arithmetic intensity, FLOP/B", LOWEST, HIGHEST, "log", ticks)
    lowest = (
        [slope.value * LOWEST for slope in slopes] + [spot.flop_s for spot in kernels] + [top.value for top in tops]
    )
    # Above the highest roof is room for its name.
    y = decades(unit.unit, [value / unit.divisor for value in (*lowest, HEADROOM * highest)])
    caption = (
        "Slopes: measured bandwidth of each level. Dashed: measured peaks. "
        "A kernel cannot exceed the roof at its intensity."
    )
    return at, Picture(
        f"Roofline of this machine, {plural(count_threads(run), 'thread')}",
        caption,
        x,
        y,
        tuple(names),
        tuple(marks),
        250.0,
    )
