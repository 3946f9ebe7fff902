"""``hwdyno compute``: any sweep of compute, each axis an option of the same name."""

from __future__ import annotations

import argparse

from hwdyno.cli import common
from hwdyno.cli.resource import add_axes, plan_of

KERNEL = "compute_flops"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno compute``."""
    parser.add_argument(
        "question",
        nargs="*",
        metavar="QUESTION",
        help="flops, integers, clock; without one, the axes that are given, or all questions",
    )
    add_axes(parser, KERNEL, leave_out={"cpus"}, resource="compute")
    common.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    host = common.this_machine()
    return common.perform(plan_of("compute", KERNEL, args, host), args, host)
