"""``hwdyno memory``: any sweep of this memory's bandwidth, latency, loaded latency, or between its cores."""

from __future__ import annotations

import argparse

from hwdyno.cli import common
from hwdyno.cli.resource import add_axes, plan_of

KERNELS = ("memory_bandwidth", "memory_latency", "memory_loaded_latency", "memory_core_to_core")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno memory``."""
    parser.add_argument(
        "question",
        nargs="*",
        metavar="QUESTION",
        help="grid, threads, levels, latency, caches, loaded, mix, block, pages, cores; "
        "without one, the axes that are given (--delay asks for loaded latency), or all questions",
    )
    add_axes(parser, KERNELS, leave_out={"cpus", "seed"}, resource="memory")
    common.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    host = common.this_machine()
    return common.perform(plan_of("memory", KERNELS, args, host), args, host)
