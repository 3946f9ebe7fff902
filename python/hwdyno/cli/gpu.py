"""``hwdyno gpu``: a GPU's arithmetic, memory, copies, loading and launches, through CUDA or OpenCL."""

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
    rows=lambda: list_experiments("gpu"),
    options=("on", "precision", "operation", "array", "intensity", "memory", "block", "runtime", "profile", "dry-run"),
    examples=(
        "hwdyno gpu",
        "hwdyno gpu --operation triad,copy --array 1M..1G",
        "hwdyno gpu load --path .",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno gpu``."""
    add_resource_axes(parser, "gpu")
    add_options(parser)
    elsewhere.add_option(parser)


def request(args: argparse.Namespace) -> Request:
    """What the options request."""
    return make_request(args, "gpu")


def run(args: argparse.Namespace) -> int:
    """Measure what the options request."""
    return perform(request(args), args)
