"""The peaks of a GPU from what its driver states: multiprocessors × operations per clock × clock, memory and link.

Operations per multiprocessor and clock are ``gpu-peaks.csv``, by compute capability: its columns ``fp32`` and ``fp64``
count multiply-adds of the vector units, the others operations of the tensor cores, without sparsity.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from hwdyno.analysis.ceilings.links import PCIE_GT_S, pcie
from hwdyno.analysis.ceilings.named import HOST_COPY
from hwdyno.model.axes import INTENSITY, find_per_element
from hwdyno.model.machine import CudaDevice, Machine
from hwdyno.model.units import format_bytes_s, format_value, number_at, plural
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Parameters, Run

PEAKS = Path(__file__).with_name("gpu-peaks.csv")
PEAK = "gpu_peak/"
"""Begins the metric of a peak, which goes on with engine and precision: ``gpu_peak/vector/single``."""
MEMORY = "gpu_memory/"
"""Begins the metric of the memory's bandwidth, which goes on with the bytes of the last cache."""
LOADED = "gpu_load/"
"""Begins the metric of the slower part of a load, which goes on with how the file was read and the block's bytes."""
BEYOND_CACHE = 4
"""Arrays of this many times the last cache are read from memory."""
_VECTOR = {"fp32": "single", "fp64": "double"}
_TENSOR = {
    "tensor_fp16": "FP16 and BF16",
    "tensor_tf32": "TF32",
    "tensor_fp64": "FP64",
    "tensor_fp8": "FP8",
    "tensor_fp4": "FP4",
    "tensor_int8": "INT8",
}
_TENSOR_COLUMN = {"bf16": "fp16"}
_READ_AND_WRITTEN = 2
_ON_VECTORS = "the vector units"


@dataclass(frozen=True, slots=True)
class PerClock:
    """What a multiprocessor does in a clock, by the column of ``gpu-peaks.csv``."""

    amounts: Mapping[str, float]
    source: str


@cache
def per_clock() -> Mapping[str, PerClock]:
    """The table by compute capability."""
    with PEAKS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = (*_VECTOR, *_TENSOR)
    return {
        row["compute_capability"]: PerClock({name: float(row[name]) for name in columns if row[name]}, row["source"])
        for row in rows
    }


def of_machine(machine: Machine) -> tuple[Ceiling, ...]:
    """The peaks, memory bandwidth and link of the machine's GPU; none where it has several kinds.

    An instance of MIG has the multiprocessors that the driver states, and of the memory a share that it does not.
    """
    gpu = the_gpu(machine)
    if gpu is None:
        return ()
    return (*_peaks(gpu), *(() if gpu.mig else _memory(gpu)), *_link(gpu))


def the_gpu(machine: Machine) -> CudaDevice | None:
    """The GPU that a measurement is on, as the driver states it; none where there are several kinds."""
    kinds = {(device.name, device.compute_capability, device.multiprocessors) for device in machine.gpu_drivers.cuda}
    return machine.gpu_drivers.cuda[0] if len(kinds) == 1 else None


def why_none(machine: Machine) -> tuple[str, ...]:
    """Why the peaks of a GPU are unknown."""
    drivers = machine.gpu_drivers
    gpu = the_gpu(machine)
    if gpu is not None:
        known = gpu.compute_capability in per_clock()
        why = f"compute capability {gpu.compute_capability} is not in the table of peaks"
        split = "bandwidth of its memory: an instance of MIG has a share of it; give it with --ceiling"
        return (
            *(() if known else (f"peaks of {gpu.name}: {why}; give them with --ceiling",)),
            *([split] if gpu.mig else ()),
        )
    if drivers.cuda:
        return ("peaks: this machine has GPUs of several kinds; give them with --ceiling",)
    if any(device.kind == "gpu" for device in drivers.opencl):
        return ("peaks: OpenCL does not state them; give them with --ceiling or --device",)
    return ()


def applies(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a peak or the memory's bandwidth bounds a measurement with these parameters."""
    if not str(parameters.get("on", "gpu")).startswith("gpu"):
        return False
    if metric.startswith(PEAK):
        engine, precision = metric.removeprefix(PEAK).split("/")
        given = parameters.get("precision")
        if engine == "tensor":
            return "n" in parameters and _TENSOR_COLUMN.get(str(given), given) == precision
        return given == precision and (INTENSITY in parameters or "array" not in parameters)
    per_element = find_per_element(parameters)
    arrays = _READ_AND_WRITTEN if INTENSITY in parameters else per_element.arrays if per_element else 0
    beyond = BEYOND_CACHE * float(metric.removeprefix(MEMORY))
    return arrays * number_at(parameters, "array") >= max(beyond, 1)


def scale_by_intensity(ceiling: Ceiling, parameters: Mapping[str, Any]) -> Ceiling:
    """The memory's bandwidth as the operations that it feeds at the parameters' intensity; others as they are.

    Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009: intensity × bandwidth, FLOP/s.
    """
    intensity = number_at(parameters, INTENSITY)
    if not intensity or not ceiling.metric.startswith(MEMORY):
        return ceiling
    value = ceiling.value * intensity
    formula = f"{ceiling.formula}; × {intensity:g} FLOP/B = {format_value(value, 'FLOP/s')}"
    return replace(ceiling, value=value, unit="FLOP/s", formula=formula)


def _clock(gpu: CudaDevice) -> float:
    return float(gpu.boost_max_hz or gpu.clock_max_hz or 0)


def _peaks(gpu: CudaDevice) -> Iterator[Ceiling]:
    table, clock_hz = per_clock().get(str(gpu.compute_capability)), _clock(gpu)
    if table is None or not gpu.multiprocessors or not clock_hz:
        return
    for column, amount in table.amounts.items():
        is_vector = column in _VECTOR
        operations = amount * (2 if is_vector else 1)
        value = gpu.multiprocessors * operations * clock_hz
        unit = "IOP/s" if column == "tensor_int8" else "FLOP/s"
        amount_text = f"{amount:g} FMA × 2" if is_vector else f"{amount:g} operations"
        formula = (
            f"{plural(gpu.multiprocessors, 'multiprocessor')} × {amount_text} per clock × "
            f"{format_value(clock_hz, 'Hz')} = {format_value(value, unit)}"
        )
        precision = _VECTOR.get(column, column.removeprefix("tensor_"))
        name = {"single": "FP32", "double": "FP64"}.get(precision) or _TENSOR[column]
        label = f"{name} peak of {_ON_VECTORS if is_vector else 'the tensor cores'}"
        metric = f"{PEAK}{'vector' if is_vector else 'tensor'}/{precision}"
        source = f"{table.source}; clock and multiprocessors by the driver"
        yield Ceiling(metric, "physical", value, unit, formula, source, label)


def _memory(gpu: CudaDevice) -> Iterator[Ceiling]:
    clock_hz, bits = gpu.memory_clock_max_hz, gpu.memory_bus_bits
    if clock_hz and bits:
        value = float(clock_hz) * 2 * bits / 8
        formula = f"{format_value(clock_hz, 'Hz')} × 2 × {bits} bit / 8 = {format_bytes_s(value)}"
        source = "memory clock and bus width by the CUDA driver; two transfers a clock"
        metric = f"{MEMORY}{gpu.l2_bytes or 0}"
        yield Ceiling(metric, "physical", value, "bytes/s", formula, source, f"{gpu.name}'s memory")


def _link(gpu: CudaDevice) -> Iterator[Ceiling]:
    # An idle link runs at a lower generation, so the bound is what it can train to.
    generation, lanes = gpu.link_generation_max or gpu.link_generation, gpu.link_lanes or gpu.link_lanes_max
    if generation in PCIE_GT_S and lanes:
        rate = pcie(generation, lanes)
        (made,) = (replace(ceiling, metric=HOST_COPY) for ceiling in rate.ceilings()[:1])
        yield replace(made, label=f"{made.label} of {gpu.name}")


@dataclass(frozen=True, slots=True)
class GpuFileLoad:
    """Loads of one file to a GPU by one way of reading, block and number of buffers, and their parts alone."""

    whole: Measurement
    read: Measurement
    copy: Measurement
    given: Parameters

    @property
    def slower(self) -> float:
        """The rate of the slower part alone, bytes/s: what reading and copying at once reach at most."""
        return min(self.read.throughput.value, self.copy.throughput.value)

    @property
    def in_turn(self) -> float:
        """The rate of a load that reads and copies each block in turn, bytes/s: the times of the parts add up."""
        return 1 / (1 / self.read.throughput.value + 1 / self.copy.throughput.value)


def list_file_loads(result: ExperimentResult) -> Iterator[GpuFileLoad]:
    """Each load of which both parts were measured alone, on the same block; a copy has no way of reading."""
    found: dict[tuple[Any, ...], dict[str, Measurement]] = {}
    copies: dict[tuple[Any, ...], Measurement] = {}
    for point in result.points:
        given = {**result.fixed, **point.parameters}
        part, at = str(given.get("part")), tuple(given.get(name) for name in ("block", "buffers", "on"))
        if point.validity == "invalid" or point.throughput.value <= 0:
            continue
        if part == "copy":
            copies[at] = point
        else:
            found.setdefault((*at, given.get("access"), given.get("readers")), {})[part] = point
    for key, parts in found.items():
        copy = copies.get(key[:3])
        if copy is not None and {"whole", "read"} <= set(parts):
            given = {**result.fixed, **parts["whole"].parameters}
            yield GpuFileLoad(parts["whole"], parts["read"], copy, given)


def of_parts(run: Run, result: ExperimentResult) -> Iterator[Ceiling]:
    """The slower part of each load, as the same run measured it alone."""
    for load in list_file_loads(result):
        read, copy = (format_bytes_s(point.throughput.value) for point in (load.read, load.copy))
        formula = f"the slower of reading alone ({read}) and copying alone ({copy})"
        metric = LOADED + "/".join(str(load.given.get(name)) for name in _OF_LOAD)
        source = "each part measured in turn with the loads"
        yield Ceiling(metric, "reference", load.slower, "bytes/s", formula, source, "slower part alone")


_OF_LOAD = ("access", "block", "buffers", "readers", "on")


def applies_to_load(metric: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the parts of a load bound a measurement: the load of that way of reading, block and buffers."""
    same = "/".join(str(parameters.get(name)) for name in _OF_LOAD)
    return parameters.get("part") == "whole" and metric.removeprefix(LOADED) == same
