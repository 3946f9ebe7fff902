"""The graphics processor: arithmetic by precision, memory and caches, copies to and from the host, launches."""

from __future__ import annotations

from hwdyno.analysis.ceilings import gpu
from hwdyno.analysis.resources.description import Doubt, HeadlineFigure, Resource
from hwdyno.model.kernels import GPU_BANDWIDTH, GPU_FLOPS, GPU_LATENCY, GPU_LAUNCH, GPU_LOAD, GPU_TRANSFER

RESOURCE = Resource(
    name="gpu",
    title="GPU",
    common_options=(
        "on",
        "precision",
        "operation",
        "array",
        "intensity",
        "memory",
        "block",
        "runtime",
        "profile",
        "dry-run",
    ),
    examples=(
        "hwdyno gpu",
        "hwdyno gpu --operation triad,copy --array 1M..1G",
        "hwdyno gpu load --path .",
    ),
    subject="The GPU",
    figures=(
        HeadlineFigure(
            title="FP32 peak",
            unit="FLOP/s",
            kernels=(GPU_FLOPS,),
            experiments=("gpu.peaks",),
            where={"precision": "single"},
            typical="gpu_fp32_flop_s",
        ),
        HeadlineFigure(
            title="memory {operation}, arrays of {array}",
            unit="bytes/s",
            kernels=(GPU_BANDWIDTH,),
            experiments=("gpu.bandwidth",),
            where={"operation": "triad"},
            prefer={"array": 256 << 20},
            typical="gpu_triad_bytes_s",
        ),
        HeadlineFigure(
            title="pinned, {operation}",
            unit="bytes/s",
            kernels=(GPU_TRANSFER,),
            experiments=("gpu.transfer",),
            where={"operation": "host-to-device", "memory": "pinned"},
            prefer={"block": 64 << 20},
            typical="gpu_pinned_bytes_s",
        ),
        HeadlineFigure(
            title="BF16 matrix product, n = {n}",
            unit="FLOP/s",
            kernels=("gpu_matrix",),
            experiments=("gpu.matrix",),
            where={"precision": "bf16"},
            prefer={"n": 8192, "library": "cublaslt"},
            typical="gpu_bf16_flop_s",
        ),
        HeadlineFigure(
            title="storage to GPU ({access})",
            unit="bytes/s",
            kernels=(GPU_LOAD,),
            experiments=("gpu.load",),
            where={"part": "whole"},
            prefer={"access": "direct", "block": 8 << 20},
        ),
        HeadlineFigure(
            title="FP64 peak",
            unit="FLOP/s",
            kernels=(GPU_FLOPS,),
            experiments=("gpu.peaks",),
            where={"precision": "double"},
            typical="gpu_fp64_flop_s",
        ),
    ),
    ceilings=gpu.of_machine,
    why_no_ceiling=gpu.why_none,
    derived={GPU_LOAD: gpu.of_parts},
    limits=("the clock under this load", "the power cap", "the memory's channels", "the time of a launch"),
    # The device computes; of an OpenCL driver of the processor the host's processors do.
    client="by_rule",
    latency_kernels=(GPU_LAUNCH, GPU_LATENCY),
    above_ceiling=Doubt(
        cause="arrays that fit the last cache, a clock above the stated one, or a wrong ceiling",
        test="Measure again, longer",
        changes={"runtime": 5},
    ),
    steps_down=("heat, a power cap, or another program on the GPU", "clocks and throttle reasons (`nvidia-smi -q`)"),
    on_faults="Check dmesg for the GPU's errors (Xid) and its ECC counters",
    runtime_share=0.3,
)
