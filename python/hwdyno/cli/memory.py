"""``hwdyno memory``: any sweep of memory, each axis an option of the same name."""

from __future__ import annotations

import argparse

from hwdyno.cli import common
from hwdyno.cli.resource import add_axes, plan_of

KERNEL = "memory_bandwidth"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno memory``."""
    parser.add_argument(
        "question",
        nargs="*",
        metavar="QUESTION",
        help="bandwidth, mix, block, latency, loaded, cores; without one, the axes that are given, or all questions",
    )
    add_axes(parser, KERNEL, leave_out={"cpus"}, resource="memory")
    common.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    host = common.this_machine()
    return common.perform(plan_of("memory", KERNEL, args, host), args, host)
