"""``hwdyno gpu``: a GPU's arithmetic, memory, copies and launches, through OpenCL."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.cli import common, elsewhere
from hwdyno.cli.help import Help, experiments_of
from hwdyno.cli.resource import add_axes, plan_of
from hwdyno.words import UserError

if TYPE_CHECKING:
    from hwdyno.hosts import Host
    from hwdyno.plan import Plan

KERNELS = ("gpu_flops", "gpu_bandwidth", "gpu_transfer", "gpu_latency", "gpu_launch")
DEVICE = "axis_on"

HELP = Help(
    usage="[EXPERIMENT ...]",
    title="experiments (default: the usual ones)",
    rows=lambda: experiments_of("gpu"),
    options=("on", "precision", "operation", "array", "memory", "block", "runtime", "profile", "dry-run"),
    examples=(
        "hwdyno gpu",
        "hwdyno gpu peaks --on cpu",
        "hwdyno gpu --operation triad,copy --array 1M..1G",
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
    add_axes(parser, KERNELS, leave_out={"cpus", "seed"}, resource="gpu")
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
    if any(one.kind != "cpu" for one in drivers.opencl):
        return
    found = "; ".join(f"{one.name}: {one.says}" for one in drivers.looked_for)
    cpu = any(one.kind == "cpu" for one in drivers.opencl)
    remedy = "install the GPU's OpenCL driver"
    if cpu:
        remedy += ", or measure the processor through OpenCL: hwdyno gpu --on cpu"
    raise UserError(f"OpenCL lists no GPU here ({found or 'nothing was looked for'}); {remedy}")


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    host = common.this_machine(args)
    return common.perform(planned(args, host), args, host)
