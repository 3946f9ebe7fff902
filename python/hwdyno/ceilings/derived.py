"""Ceilings that take a measurement to state: FLOP a cycle settled by timing, the best that memory gave, a path's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hwdyno.ceilings import network
from hwdyno.units import format_count, format_value, number_at, plural
from hwdyno.words import Ceiling, ExperimentResult, Measurement, Parameters, Run

DERIVED = "derived from this run's own readings: "
TILE_CYCLES = 16
"""An AMX tile product takes 16 cycles (Intel 64 and IA-32 Architectures Optimization Reference Manual, TMUL)."""
UNITS_MOST = 4
LINPACK = "linpack"
FLOPS = "compute_flops"
BANDWIDTH = ("memory_bandwidth", "memory_loaded_latency")
FROM_MEMORY_BYTES = 128 << 20
"""A working set a thread below this may lie in a cache, and says nothing of the memory behind it."""


def with_derived(run: Run) -> Run:
    """The Run with these ceilings put anew into the experiments that they bound."""
    arithmetic = tuple(_arithmetic(run))
    memory = tuple(_memory(run))
    results = []
    for result in run.experiments:
        kept = tuple(one for one in result.ceilings if not one.source.startswith(DERIVED))
        if result.kernel == FLOPS:
            kept += tuple(one for one in arithmetic if not one.metric.startswith("flop_s/*"))
        elif result.kernel == LINPACK:
            kept += tuple(one for one in arithmetic if one.metric.startswith("flop_s/*"))
        elif result.kernel in BANDWIDTH and not any(one.kind == "physical" for one in kept):
            kept += memory
        elif result.kernel == network.KERNEL:
            processors = run.machine.cpu.threads or 0
            made = network.of_result(result, processors)
            kept += tuple(replace(one, source=DERIVED + one.source) for one in made)
        results.append(replace(result, ceilings=kept))
    return replace(run, experiments=tuple(results))


def _whole(result: ExperimentResult, point: Measurement) -> Parameters:
    return {**result.fixed, **point.parameters}


def _points(run: Run, kernels: Iterable[str]) -> list[tuple[Parameters, Measurement]]:
    return [
        (_whole(result, point), point)
        for result in run.experiments
        if result.kernel in kernels
        for point in result.points
        if point.throughput.value > 0
    ]


# --- arithmetic


def _arithmetic(run: Run) -> Iterable[Ceiling]:
    """One ceiling for each loop and number of cores that was measured: cores x clock x operations a cycle."""
    points = _points(run, {FLOPS})
    cores = [machine.cpu.cores or 1 for machine in run.machines or (run.machine,)]
    # The clock under no load but the chain bounds that under any: it only falls.
    clock_hz = max((number_at(point.details, "clock_hz_best") for _, point in points), default=0.0)
    if not clock_hz:
        return
    units: dict[tuple[str, str, str], float] = {}
    for parameters, point in points:
        key = (*_loop(parameters), str(point.details.get("isa")))
        units[key] = max(units.get(key, 0.0), _units(point.details))
    found: dict[str, Ceiling] = {}
    for parameters, point in points:
        threads = int(number_at(parameters, "threads")) or 1
        isa, wide = str(point.details.get("isa")), number_at(point.details, "flop_per_instruction")
        operation, precision = _loop(parameters)
        pipes = units[operation, precision, isa]
        if not wide or not pipes:
            continue
        made = _peak(
            point.throughput.unit, sum(min(one, threads) for one in cores), clock_hz, wide, pipes, isa, precision
        )
        metric = f"flop_s/{operation}/{precision}/{parameters.get('isa', 'auto')}/{threads}"
        found[metric] = replace(made, metric=metric)
        if (operation, precision, parameters.get("isa", "auto")) == ("fma", "double", "auto"):
            found[f"flop_s/*/{threads}"] = replace(made, metric=f"flop_s/*/{threads}")
    yield from found.values()


def _loop(parameters: Mapping[str, Any]) -> tuple[str, str]:
    return str(parameters.get("operation")), str(parameters.get("precision"))


def _units(details: Mapping[str, Any]) -> float:
    """Instructions a cycle, a whole number of units; of a tile, what one unit does."""
    if details.get("isa") == "amx":
        return 1 / TILE_CYCLES
    return min(UNITS_MOST, max(1, round(number_at(details, "instructions_per_cycle"))))


def _peak(unit: str, cores: int, clock_hz: float, wide: float, pipes: float, isa: str, precision: str) -> Ceiling:
    each = wide * pipes
    value = cores * clock_hz * each
    word = unit.partition("/")[0]
    how = (
        f"1 tile unit, {format_count(wide)} {word} in {TILE_CYCLES} cycles"
        if isa == "amx"
        else f"{plural(pipes, f'{isa} unit')} x {wide:.0f} {word} an instruction"
    )
    formula = (
        f"{plural(cores, 'core')} x {clock_hz / 1e9:.2f} GHz x {each:.0f} {word} a cycle "
        f"({how}) = {format_value(value, unit)}"
    )
    source = f"{DERIVED}instruction sets by feature bits, units settled by timing, clock by a dependent chain"
    return Ceiling("", "physical", value, unit, formula, source, f"{isa} {precision} peak")


# --- memory


def _memory(run: Run) -> Iterable[Ceiling]:
    """What the memory gave at best, where no table of its modules says what it could give."""
    found = [
        (point.throughput.value, parameters)
        for parameters, point in _points(run, BANDWIDTH)
        if point.throughput.unit == "bytes/s" and from_memory(parameters) and point.validity != "invalid"
    ]
    if not found:
        return
    value, parameters = max(found, key=lambda one: one[0])
    formula = f"the best of this run: {parameters.get('operation')}, {parameters.get('threads')} threads"
    source = f"{DERIVED}unknown in theory, no DIMM table here"
    yield Ceiling("dram_bytes_s", "reference", value, "bytes/s", formula, source, "practical")


def from_memory(parameters: Mapping[str, Any]) -> bool:
    """Whether a working set is too large for a cache."""
    return number_at(parameters, "working_set") >= FROM_MEMORY_BYTES


def applies(ceiling: Ceiling, parameters: Mapping[str, Any]) -> bool | None:
    """Whether one of these ceilings bounds a measurement; none for any other ceiling."""
    if ceiling.metric == "dram_bytes_s":
        return from_memory(parameters) or "working_set" not in parameters
    if not ceiling.metric.startswith("flop_s/"):
        return network.applies(ceiling, parameters)
    wanted = ceiling.metric.split("/")[1:]
    used = int(number_at(parameters, "threads") or 1)
    if wanted[0] == "*":
        return used == int(wanted[1])
    return wanted == [*_loop(parameters), str(parameters.get("isa", "auto")), str(used)]
