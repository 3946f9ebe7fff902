"""Questions about the processor: peaks by precision, scaling over threads, and the clock."""

from __future__ import annotations

from hwdyno.experiments import Experiment
from hwdyno.sweep import Sweep, powers

_FLOPS = "compute_flops"

FLOPS = Experiment(
    name="compute.flops",
    asks="How many floating-point operations a second do the cores reach, and what is that a cycle?",
    kernel=_FLOPS,
    load="threads",
    sweep=Sweep(precision=("double", "single"), threads=powers(1, 8)),
    quick=Sweep(precision=("double", "single"), threads=(1, 2)),
    base=Sweep(operation="fma", precision="double", threads=1),
    fixed={"operation": "fma"},
    default=False,
)

INTEGERS = Experiment(
    name="compute.integers",
    asks="How many additions and multiplications of whole numbers a second?",
    kernel=_FLOPS,
    load="threads",
    sweep=Sweep(operation="add", precision=("int8", "int16", "int32", "int64"), threads=powers(1, 8))
    + Sweep(operation="multiply", precision=("int16", "int32"), threads=powers(1, 8)),
    quick=Sweep(operation="add", precision=("int8", "int16", "int32", "int64"), threads=(1, 2))
    + Sweep(operation="multiply", precision=("int16", "int32"), threads=(1, 2)),
    default=False,
)

CLOCK = Experiment(
    name="compute.clock",
    asks="At what clock do the cores really run?",
    kernel="compute_clock",
    load="threads",
    sweep=Sweep(threads=powers(1, 8)),
    quick=Sweep(threads=(1, 2)),
    default=False,
)
