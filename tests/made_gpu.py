"""Points of a GPU made by hand, its machine, and the finding of a rule on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hwdyno.explain import findings
from hwdyno.explain.findings import explain
from hwdyno.model.machine import Cpu, CudaDevice, GpuDrivers, Machine
from hwdyno.model.words import Ceiling, ExperimentResult, Finding, Measurement, Run, Value
from made_experiment import made_experiment
from made_point import base

MEBI = float(1 << 20)
KIBI = 1024
RATED = Ceiling("gpu_memory/1000", "physical", 100.0, "bytes/s", "the memory", "test")


def made(rate: float, unit: str = "bytes/s", details: dict[str, Any] | None = None, **changes: Any) -> Measurement:
    """A point of this rate within 1%; other names are parameters."""
    fields = {name: changes.pop(name) for name in ("validity", "elapsed_s", "counters") if name in changes}
    value = Value(rate, unit, 0.99 * rate, 1.01 * rate)
    return base(parameters=changes, throughput=value, rate=None, latency_ns=None, details=details or {}, **fields)


def with_gpu(**stated: Any) -> Machine:
    return Machine(cpu=Cpu(threads=10), gpu_drivers=GpuDrivers(cuda=(CudaDevice(name="made", **stated),)))


def judged(
    rule: str, points: Iterable[Measurement], machine: Machine | None = None, *others: ExperimentResult,
    **fixed: Any,
) -> Finding | None:  # fmt: skip
    """The rule's finding on points of a kernel, on a machine."""
    (kernel,) = next(all_rule.applies.kernels for all_rule in findings.all_rules() if all_rule.name == rule)
    result = made_experiment("gpu.x", "gpu", "?", "", kernel, tuple(points), fixed=fixed)
    result = replace(result, ceilings=(RATED,) if rule == "gpu_fits_cache" else ())
    run = Run("r", "", None, (machine or Machine(),), "quick", "hwdyno gpu", (result, *others))
    return next((finding for finding in explain(run).findings if finding.rule == rule), None)
