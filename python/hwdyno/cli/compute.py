"""``hwdyno compute``: any sweep of this processor's arithmetic, or LINPACK over its sizes."""

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
    rows=lambda: list_experiments("compute"),
    options=("operation", "precision", "isa", "threads", "n", "blas", "runtime", "profile", "peers", "dry-run"),
    examples=(
        "hwdyno compute",
        "hwdyno compute linpack --peers",
        "hwdyno compute --operation fma --precision double,single --isa auto --threads 1",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno compute``."""
    add_resource_axes(parser, "compute")
    add_options(parser)
    elsewhere.add_option(parser)


def request(args: argparse.Namespace) -> Request:
    """What the options request."""
    return make_request(args, "compute")


def run(args: argparse.Namespace) -> int:
    """Measure what the options request."""
    return perform(request(args), args)
