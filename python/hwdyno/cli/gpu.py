"""``hwdyno gpu``: a GPU's arithmetic, memory, copies, loading and launches, through CUDA or OpenCL."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.cli import common, elsewhere
from hwdyno.cli.help import Help, experiments_of
from hwdyno.cli.resource import add_axes, plan_of
from hwdyno.measure.topology import gpus_in, why_no_gpu
from hwdyno.model.kernels import GPU_BANDWIDTH, GPU_FLOPS, GPU_LATENCY, GPU_LAUNCH, GPU_LOAD, GPU_ROOFLINE, GPU_TRANSFER
from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan

KERNELS = (
    GPU_FLOPS,
    GPU_BANDWIDTH,
    GPU_ROOFLINE,
    GPU_TRANSFER,
    GPU_LATENCY,
    GPU_LAUNCH,
    GPU_LOAD,
    "gpu_matrix",
)
DEVICE = "axis_on"
UNSEEN = "No figure of hwdyno gpu has been checked on a real GPU yet, neither through CUDA nor through OpenCL"
"""Is said before a GPU is measured, until a record of one is in the documentation."""

HELP = Help(
    usage="[EXPERIMENT ...]",
    title="experiments (default: the usual ones)",
    rows=lambda: experiments_of("gpu"),
    options=("on", "precision", "operation", "array", "intensity", "memory", "block", "runtime", "profile", "dry-run"),
    examples=(
        "hwdyno gpu",
        "hwdyno gpu --operation triad,copy --array 1M..1G",
        "hwdyno gpu load --path .",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno gpu``."""
    parser.add_argument(
        "question",
        nargs="*",
        metavar="EXPERIMENT",
        help="experiments (default: the axes that are given, or the usual experiments)",
    )
    add_axes(parser, KERNELS, leave_out={"cpus", "seed", "path"}, resource="gpu")
    common.add_options(parser)
    elsewhere.add_option(parser)


def planned(args: argparse.Namespace, host: Host) -> Plan:
    """What the options ask for; raises ``UserError`` where no GPU is there and none is named."""
    device = getattr(args, DEVICE, None)
    if not device:
        if not getattr(args, "dry_run", False):
            _expect_gpu(host)
    elif set(common.given_axes(args)) == {"on"} and "," not in device:
        # The device alone is no sweep: the experiments are as short on it as on any other.
        setattr(args, DEVICE, None)
        return plan_of("gpu", KERNELS, args, host, {"on": device})
    return plan_of("gpu", KERNELS, args, host)


def _expect_gpu(host: Host) -> None:
    drivers = host.survey().gpu_drivers
    if not gpus_in(drivers):
        raise UserError(why_no_gpu(drivers, "hwdyno gpu --on cpu"))


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    host = common.this_machine(args)
    is_gpu = getattr(args, DEVICE, None) != "cpu"
    plan = planned(args, host)
    if is_gpu and not args.dry_run:
        common.says(args)(UNSEEN)
    return common.perform(plan, args, host)
