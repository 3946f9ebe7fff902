"""Compute experiments: peaks by precision and instruction set, scaling over threads, and LINPACK."""

from __future__ import annotations

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.experiments.site_values import ALL, doublings
from hwdyno.measure.sweep import Sweep
from hwdyno.model.kernels import COMPUTE_FLOPS
from hwdyno.model.words import CeilingClass

_CEILINGS: tuple[CeilingClass, ...] = ("physical",)
_ONE_AND_ALL = (1, ALL)
# The widest first: it warms the units up, and names what "auto" takes.
_ISAS = ("scalar", "sse", "avx2", "avx512", "neon", "sve")

GRID = Experiment(
    name="compute.grid",
    asks="Peak arithmetic by precision and instruction set",
    kernel=COMPUTE_FLOPS,
    load="threads",
    sweep=Sweep(operation="fma", precision=("double", "single", "half"), isa="auto", threads=_ONE_AND_ALL)
    + Sweep(operation="fma", precision=("double", "single"), isa=_ISAS, threads=1)
    + Sweep(operation="dot", precision=("bfloat16", "half", "int8", "int16"), isa="auto", threads=_ONE_AND_ALL)
    + Sweep(operation="dot", precision=("bfloat16", "int8"), isa=("amx", "avx512", "avx2", "neon"), threads=1)
    + Sweep(operation="dot", precision=("bfloat16", "int8"), isa="amx", operands="zero", threads=1)
    + Sweep(
        operation=("add", "multiply"),
        precision=("int8", "int16", "int32", "int64", "double"),
        isa="auto",
        threads=_ONE_AND_ALL,
    ),
    quick=Sweep(operation="fma", precision=("double", "single"), isa="auto", threads=_ONE_AND_ALL)
    + Sweep(operation="fma", precision="double", isa=_ISAS, threads=1)
    + Sweep(operation="dot", precision=("bfloat16", "int8"), isa="auto", threads=ALL)
    + Sweep(operation="dot", precision="int8", isa="amx", operands=("nonzero", "zero"), threads=1)
    + Sweep(operation="add", precision=("int32", "int64"), isa="auto", threads=ALL)
    + Sweep(operation="multiply", precision="int32", isa="auto", threads=ALL),
    base=Sweep(operation="fma", precision="double", isa="auto", threads=1),
    ceilings=_CEILINGS,
    peers=("likwid", "cpufp"),
    needs=("instructions",),
)

THREADS = Experiment(
    name="compute.threads",
    asks="Peak arithmetic by threads",
    kernel=COMPUTE_FLOPS,
    load="threads",
    sweep=Sweep(operation="fma", precision=("double", "single"), isa="auto", threads=doublings(8))
    + Sweep(operation="add", precision=("int32", "int64"), isa="auto", threads=doublings(8)),
    quick=Sweep(operation="fma", precision="double", isa="auto", threads=doublings(4)),
    ceilings=_CEILINGS,
    peers=("likwid", "cpufp"),
    needs=("instructions",),
)

CLOCK = Experiment(
    name="compute.clock",
    asks="CPU clock under load",
    kernel="compute_clock",
    load="threads",
    sweep=Sweep(threads=_ONE_AND_ALL),
    by_name=True,
    default=False,
)

LINPACK = Experiment(
    name="compute.linpack",
    asks="LINPACK and matrix multiplication (GEMM)",
    kernel="linpack",
    load="n",
    sweep=Sweep(operation=("lu", "gemm"), n=(500, 1000, 2000, 3000, 4000, 5000, 8000, 10000), threads=ALL),
    # Below 5000 a solve is too small for its plateau.
    quick=Sweep(operation="lu", n=(1000, 2000, 5000), threads=ALL)
    + Sweep(operation="gemm", n=(1000, 2000, 3000), threads=ALL),
    ceilings=_CEILINGS,
    peers=("hpcc",),
    setup_s=0.5,
)
