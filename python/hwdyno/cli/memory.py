"""``hwdyno memory``: any sweep of this memory's bandwidth, latency, loaded latency, or between its cores."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.cli import common, elsewhere
from hwdyno.cli.help import Help, experiments_of
from hwdyno.cli.resource import add_axes, plan_of

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan

KERNELS = ("memory_bandwidth", "memory_latency", "memory_loaded_latency", "memory_core_to_core")

HELP = Help(
    usage="[EXPERIMENT ...]",
    title="experiments (default: the usual ones)",
    rows=lambda: experiments_of("memory"),
    options=("operation", "threads", "working-set", "pages", "delay", "mix", "node", "runtime", "profile", "peers"),
    examples=(
        "hwdyno memory",
        "hwdyno memory latency caches",
        "hwdyno memory --operation read,nt_triad --threads 1,2 --peers",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno memory``."""
    parser.add_argument(
        "question",
        nargs="*",
        metavar="EXPERIMENT",
        help="experiments (default: the axes that are given, or the usual experiments)",
    )
    add_axes(parser, KERNELS, leave_out={"cpus", "seed"}, resource="memory")
    common.add_options(parser)
    elsewhere.add_option(parser)


def planned(args: argparse.Namespace, host: Host) -> Plan:
    """What the options ask for."""
    return plan_of("memory", KERNELS, args, host)


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    host = common.this_machine(args)
    return common.perform(planned(args, host), args, host)
