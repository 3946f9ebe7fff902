"""The peaks of arithmetic: cores x clock x operations per cycle, by the Run's own readings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hwdyno.model.kernels import COMPUTE_FLOPS
from hwdyno.model.units import format_count, format_value, number_at
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Run

LOOPS = COMPUTE_FLOPS
"""The kernel that times one loop of arithmetic beside the clock."""
ANY_LOOP = "flop_s/*"
"""Begins the metric of a peak that bounds all arithmetic in FP64."""
TILE_CYCLES = 16
"""An AMX tile product takes 16 cycles (Intel 64 and IA-32 Architectures Optimization Reference Manual, TMUL)."""
UNITS_MAX = 4
FIELD_NAMES = {
    "sse": "SSE",
    "avx2": "AVX2",
    "avx512": "AVX-512",
    "amx": "AMX",
    "neon": "NEON",
    "sve": "SVE",
    "double": "FP64",
    "single": "FP32",
    "half": "FP16",
    "bfloat16": "BF16",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
}
"""The field's name of an instruction set or a precision, by the kernel's word."""


def field_name(word: str) -> str:
    """The field's name of an instruction set or a precision: ``AVX-512``, ``FP64``."""
    return FIELD_NAMES.get(word, word)


def of_loops(run: Run, result: ExperimentResult) -> Iterable[Ceiling]:
    """The peak of each measured loop and number of cores."""
    return (peak for peak in _peaks(run) if not peak.metric.startswith(ANY_LOOP))


def of_algebra(run: Run, result: ExperimentResult) -> Iterable[Ceiling]:
    """The peak of FMA in FP64 by cores, which bounds linear algebra."""
    return (peak for peak in _peaks(run) if peak.metric.startswith(ANY_LOOP))


def applies(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the peak of this metric bounds a measurement with these parameters."""
    wanted = metric.split("/")[1:]
    used = int(number_at(parameters, "threads") or 1)
    if wanted[0] == "*":
        return used == int(wanted[1])
    return wanted == [*_loop(parameters), str(parameters.get("isa", "auto")), str(used)]


def _peaks(run: Run) -> Iterable[Ceiling]:
    points = [(given, point) for _, _, point, given in run.measured_points(LOOPS) if point.throughput.value > 0]
    cores = [machine.cpu.cores or 1 for machine in run.machines or (run.machine,)]
    # The clock under the dependent chain alone bounds the clock under any load, which only lowers it.
    clock_hz = max((number_at(point.details, "clock_hz_best") for _, point in points), default=0.0)
    if not clock_hz:
        return ()
    shapes = _shapes(points)
    found: dict[str, Ceiling] = {}
    for given, point in points:
        threads = int(number_at(given, "threads")) or 1
        operation, precision = _loop(given)
        wanted = str(given.get("isa", "auto"))
        # The engine chooses again at each reading of "auto", so that the best of its choices bounds them all.
        one_of = [shape for shape in shapes if shape[:2] == (operation, precision) and wanted in {"auto", shape[2]}]
        best = max(one_of, key=lambda shape: shapes[shape][0] * shapes[shape][1], default=None)
        if best is None:
            continue
        busy = sum(min(count, threads) for count in cores)
        made = _peak(point.throughput.unit, busy, clock_hz, *shapes[best], best[2], precision)
        metric = f"flop_s/{operation}/{precision}/{wanted}/{threads}"
        found[metric] = replace(made, metric=metric)
        if (operation, precision, wanted) == ("fma", "double", "auto"):
            found[f"{ANY_LOOP}/{threads}"] = replace(made, metric=f"{ANY_LOOP}/{threads}")
    return found.values()


OTHER_WIDTH = {"double": ("single", 2.0), "single": ("double", 0.5)}
"""The other precision of the same units, and how many times as many a register holds."""


def _shapes(points: Iterable[tuple[Mapping[str, Any], Measurement]]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Operations per instruction and units of each loop, precision and instruction set.

    A point's details are means over its repeats. Where repeats took several instruction sets, the mean width is that
    of none, and no power of two: such a point says nothing here. Its precision then has the other one's units, whose
    registers hold half or twice as many.
    """
    shapes: dict[tuple[str, str, str], tuple[float, float]] = {}
    for given, point in points:
        wide = number_at(point.details, "flop_per_instruction")
        if wide > 0 and math.log2(wide).is_integer():
            key = (*_loop(given), str(point.details.get("isa")))
            shapes[key] = (wide, max(shapes.get(key, (wide, 0.0))[1], _units(point.details)))
    known = {(operation, precision) for operation, precision, _ in shapes}
    for (operation, precision, isa), (wide, units) in list(shapes.items()):
        other, times = OTHER_WIDTH.get(precision, ("", 1.0))
        if other and (operation, other) not in known:
            shapes[operation, other, isa] = (wide * times, units)
    return shapes


def _loop(parameters: Mapping[str, Any]) -> tuple[str, str]:
    return str(parameters.get("operation")), str(parameters.get("precision"))


def _units(details: Mapping[str, Any]) -> float:
    """Instructions per cycle, a whole number of units; of a tile, what one unit does."""
    if details.get("isa") == "amx":
        return 1 / TILE_CYCLES
    return min(UNITS_MAX, max(1, round(number_at(details, "instructions_per_cycle"))))


def _peak(unit: str, cores: int, clock_hz: float, wide: float, pipes: float, isa: str, precision: str) -> Ceiling:
    per_cycle = wide * pipes
    value = cores * clock_hz * per_cycle
    word = unit.partition("/")[0]
    how = (
        f"1 tile unit, {format_count(wide)} {word} in {TILE_CYCLES} cycles"
        if isa == "amx"
        else f"{pipes:.0f} {field_name(isa)} unit{'s' if pipes > 1 else ''} x {wide:.0f} {word} per instruction"
    )
    formula = (
        f"{cores} core{'s' if cores > 1 else ''} x {clock_hz / 1e9:.2f} GHz x {per_cycle:.0f} {word} per cycle "
        f"({how}) = {format_value(value, unit)}"
    )
    source = "instruction sets by feature bits, units by timing, clock by a dependent chain"
    label = f"{field_name(isa)} {field_name(precision)} peak"
    return Ceiling("", "physical", value, unit, formula, source, label)
