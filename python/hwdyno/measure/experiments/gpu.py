"""GPU experiments: peaks by precision, bandwidth by array size, roofline, copies, loading from storage, latency."""

from __future__ import annotations

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.sweep import Sweep, powers
from hwdyno.model.kernels import GPU_BANDWIDTH, GPU_FLOPS, GPU_LATENCY, GPU_LAUNCH, GPU_LOAD, GPU_ROOFLINE, GPU_TRANSFER
from hwdyno.model.units import format_size
from hwdyno.model.words import CeilingClass, Declaration, Parameters

_CEILINGS: tuple[CeilingClass, ...] = ("physical", "rated")
# A driver compiles its kernels before the first reading.
_COMPILE_S = 0.5

PEAKS = Experiment(
    name="gpu.peaks",
    asks="GPU peak arithmetic by precision",
    kernel=GPU_FLOPS,
    load="precision",
    sweep=Sweep(precision=("single", "double", "half", "bfloat16", "int32", "int8")),
    base=Sweep(precision="single"),
    fixed={"on": "gpu"},
    ceilings=_CEILINGS,
    # A device without a precision is not short of it.
    needs=("instructions", "gpu"),
    setup_s=_COMPILE_S,
)

BANDWIDTH = Experiment(
    name="gpu.bandwidth",
    asks="GPU bandwidth by array size",
    kernel=GPU_BANDWIDTH,
    load="array",
    sweep=Sweep(operation=("copy", "mul", "add", "triad", "dot"), array=powers(16 << 10, 1 << 30)),
    quick=Sweep(operation="triad", array=tuple(64 << 10 << 2 * k for k in range(7))),
    base=Sweep(operation="triad", array="256MiB"),
    fixed={"on": "gpu", "precision": "single"},
    ceilings=_CEILINGS,
    # An array that the device has no room for is left out.
    needs=("instructions", "gpu"),
    setup_s=_COMPILE_S,
)

TRANSFER = Experiment(
    name="gpu.transfer",
    asks="Copies between host and GPU by block size",
    kernel=GPU_TRANSFER,
    load="block",
    sweep=Sweep(
        operation=("host-to-device", "device-to-host", "both-ways", "device-to-device"),
        memory=("pinned", "pageable"),
        block=powers(4 << 10, 256 << 20),
    ),
    quick=Sweep(
        operation=("host-to-device", "device-to-host"),
        memory=("pinned", "pageable"),
        block=(64 << 10, 1 << 20, 64 << 20),
    ),
    base=Sweep(operation="host-to-device", memory="pinned", block="64MiB"),
    fixed={"on": "gpu"},
    ceilings=_CEILINGS,
    needs=("instructions", "gpu"),
    setup_s=_COMPILE_S,
)


def too_large(kernel: Declaration, point: Parameters) -> str | None:
    """A block that the file has no room for."""
    block, size = point.get("block"), point.get("size")
    if isinstance(block, int) and isinstance(size, int) and size < block:
        room = format_size(block).replace(" ", "")
        return f"a block of {format_size(block)} does not fit into {format_size(size)}; use --size {room} or more"
    return None


LOAD = Experiment(
    name="gpu.load",
    asks="Storage to GPU by block size",
    kernel=GPU_LOAD,
    load="block",
    sweep=Sweep(part=("whole", "read"), access=("direct", "read", "mmap"), block=powers(256 << 10, 64 << 20))
    + Sweep(part="copy", access="direct", block=powers(256 << 10, 64 << 20)),
    quick=Sweep(part=("whole", "read"), access=("direct", "read", "mmap"), block=8 << 20)
    + Sweep(part="copy", access="direct", block=8 << 20),
    base=Sweep(part=("whole", "read", "copy"), access="direct", block="8MiB"),
    fixed={"on": "gpu", "buffers": 2, "readers": 1},
    ceilings=_CEILINGS,
    needs=("data_file", "instructions", "gpu"),
    setup_s=_COMPILE_S,
    check=too_large,
    # It writes a file, which the other questions about a GPU do not need.
    default=False,
)

MATRIX = Experiment(
    name="gpu.matrix",
    asks="Tensor-core matrix products by precision",
    kernel="gpu_matrix",
    load="precision",
    # The first one is what every tensor core has.
    sweep=Sweep(precision=("fp16", "bf16", "tf32", "fp64", "fp8", "int8"), n=8192, library=("cublaslt", "cublas")),
    quick=Sweep(precision=("fp16", "bf16", "tf32", "fp64", "fp8", "int8"), n=8192, library="cublaslt"),
    base=Sweep(precision="fp16", n=8192, library="cublaslt"),
    fixed={"on": "gpu"},
    ceilings=_CEILINGS,
    # Tensor cores without a precision are not short of it.
    needs=("instructions", "gpu"),
    setup_s=_COMPILE_S,
    # It needs a library that no driver brings along.
    default=False,
)

_BYTES = {"single": 4, "double": 8, "half": 2, "bfloat16": 2, "int32": 4, "int8": 1}


def in_parts(kernel: Declaration, point: Parameters) -> str | None:
    """An intensity that would take a part of an operation on each element, which is read and written."""
    intensity, element_bytes = point.get("intensity"), _BYTES.get(str(point.get("precision")))
    if not isinstance(intensity, int | float) or element_bytes is None:
        return None
    operations = intensity * 2 * element_bytes
    if operations >= 1 and operations == int(operations):
        return None
    near = max(1, round(operations)) / (2 * element_bytes)
    return (
        f"intensity {intensity:g}: an element of {2 * element_bytes} B takes whole operations; the nearest is {near:g}"
    )


ROOFLINE = Experiment(
    name="gpu.roofline",
    asks="GPU roofline by arithmetic intensity",
    kernel=GPU_ROOFLINE,
    load="intensity",
    sweep=Sweep(intensity=tuple(2.0**power for power in range(-3, 8))),
    quick=Sweep(intensity=tuple(2.0**power for power in range(-3, 8, 2))),
    base=Sweep(intensity=1.0),
    fixed={"on": "gpu", "precision": "single", "array": "256MiB"},
    ceilings=_CEILINGS,
    needs=("instructions", "gpu"),
    setup_s=_COMPILE_S,
    check=in_parts,
)

LAUNCH = Experiment(
    name="gpu.launch",
    asks="Latency of a kernel launch",
    kernel=GPU_LAUNCH,
    load="on",
    metric="latency",
    sweep=Sweep(on="gpu"),
    needs=("gpu",),
    by_name=True,
    setup_s=_COMPILE_S,
)

LATENCY = Experiment(
    name="gpu.latency",
    asks="GPU memory latency by working set",
    kernel=GPU_LATENCY,
    load="working_set",
    metric="latency",
    sweep=Sweep(working_set=powers(8 << 10, 1 << 30)),
    # Enough of them to see where a level ends.
    quick=Sweep(working_set=tuple(16 << 10 << 2 * k for k in range(8))),
    base=Sweep(working_set="256MiB"),
    fixed={"on": "gpu"},
    needs=("instructions", "gpu"),
    setup_s=_COMPILE_S,
)
