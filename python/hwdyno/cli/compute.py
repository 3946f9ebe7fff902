"""``hwdyno compute``: any sweep of this processor's arithmetic, or LINPACK over its sizes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.cli import common, elsewhere
from hwdyno.cli.help import Help, experiments_of
from hwdyno.cli.resource import add_axes, plan_of

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan

KERNELS = ("compute_flops", "linpack")

HELP = Help(
    usage="[EXPERIMENT ...]",
    title="experiments (default: the usual ones)",
    rows=lambda: experiments_of("compute"),
    options=("operation", "precision", "isa", "threads", "n", "blas", "runtime", "profile", "peers", "dry-run"),
    examples=(
        "hwdyno compute",
        "hwdyno compute linpack --peers",
        "hwdyno compute --operation fma --precision double,single --isa auto --threads 1",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno compute``."""
    parser.add_argument(
        "question",
        nargs="*",
        metavar="EXPERIMENT",
        help="experiments (default: the axes that are given, or the usual experiments)",
    )
    add_axes(parser, KERNELS, leave_out={"cpus", "seed"}, resource="compute")
    common.add_options(parser)
    elsewhere.add_option(parser)


def planned(args: argparse.Namespace, host: Host) -> Plan:
    """What the options ask for."""
    if getattr(args, "axis_blas", None) == "all":
        from hwdyno.measure.workloads import blas

        # Without LAPACK a library has no LU, so LU is left out there.
        args.axis_blas = ",".join(blas.here())
    return plan_of("compute", KERNELS, args, host)


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    host = common.this_machine(args)
    return common.perform(planned(args, host), args, host)
