"""``hwdyno together``: what resources cost each other, each alone and beside each other one at its knee."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.cli import common
from hwdyno.cli.help import Help
from hwdyno.measure import scenarios

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.scenarios import Scenario

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
        common.add_scenario(parser, kind)
    common.add_options(parser)


def planned(args: argparse.Namespace, host: Host) -> Scenario:
    """What the options ask for."""
    (kind,) = scenarios.of_command(COMMAND)
    return kind.make(common.request_of(args, f"hwdyno {COMMAND}"), host)


def run(args: argparse.Namespace) -> int:
    """Measure the resources that the options name."""
    host = common.this_machine()
    return common.perform(planned(args, host), args, host)
