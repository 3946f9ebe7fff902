"""``hwdyno memory``: any sweep of this memory's bandwidth, latency, loaded latency, or between its cores."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.cli import elsewhere
from hwdyno.cli.axes import add_resource_axes
from hwdyno.cli.help import Help, list_experiments
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request

HELP = Help(
    usage="[EXPERIMENT ...]",
    title="experiments (default: the common ones)",
    rows=lambda: list_experiments("memory"),
    options=("operation", "threads", "working-set", "pages", "delay", "mix", "node", "runtime", "profile", "peers"),
    examples=(
        "hwdyno memory",
        "hwdyno memory latency caches",
        "hwdyno memory --operation read,nt_triad --threads 1,2 --peers",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno memory``."""
    add_resource_axes(parser, "memory")
    add_options(parser)
    elsewhere.add_option(parser)


def request(args: argparse.Namespace) -> Request:
    """What the options request."""
    return make_request(args, "memory")


def run(args: argparse.Namespace) -> int:
    """Measure what the options request."""
    return perform(request(args), args)
