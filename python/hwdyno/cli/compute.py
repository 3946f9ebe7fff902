"""``hwdyno compute``: any sweep of this processor's arithmetic, or LINPACK over its sizes."""

from __future__ import annotations

import argparse

from hwdyno.cli import common
from hwdyno.cli.resource import add_axes, plan_of

KERNELS = ("compute_flops", "linpack")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno compute``."""
    parser.add_argument(
        "question",
        nargs="*",
        metavar="QUESTION",
        help="grid, threads, clock, linpack; "
        "without one, the axes that are given (--n asks for LINPACK, --blas all for each library here), or all",
    )
    add_axes(parser, KERNELS, leave_out={"cpus", "seed"}, resource="compute")
    common.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    host = common.this_machine()
    if args.axis_blas == "all":
        from hwdyno.workloads import blas

        # Without LAPACK a library has no LU, so LU is left out there.
        args.axis_blas = ",".join(blas.here())
    return common.perform(plan_of("compute", KERNELS, args, host), args, host)
