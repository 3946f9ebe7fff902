"""``hwdyno together``: what resources cost each other, each alone and beside each other one at its knee."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.cli.axes import add_scenario
from hwdyno.cli.help import Help
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform
from hwdyno.measure import scenarios

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request

COMMAND = "together"

HELP = Help(
    options=("resources", "at", "path", "profile", "budget", "seed", "dry-run", "json", "out", "quiet"),
    examples=(
        "hwdyno together --path .",
        "hwdyno together --resources storage,memory --path .",
        "hwdyno together --resources memory,compute --at memory=2,compute=2 --budget 1m",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno together``."""
    for kind in scenarios.of_command(COMMAND):
        add_scenario(parser, kind)
    add_options(parser)


def request(args: argparse.Namespace) -> Request:
    """What the options request."""
    return make_request(args, COMMAND, scenarios.of_command(COMMAND))


def run(args: argparse.Namespace) -> int:
    """Measure the resources that the options name."""
    return perform(request(args), args)
