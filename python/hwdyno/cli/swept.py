"""The command of a resource whose kernels any axis sweeps, made from the resource's description."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.analysis.resources import find
from hwdyno.cli import elsewhere
from hwdyno.cli.axes import add_resource_axes
from hwdyno.cli.help import Help, list_experiments
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request


class SweptCommand:
    """``hwdyno RESOURCE``: its experiments, or any sweep of its axes."""

    def __init__(self, resource: str) -> None:
        described = find(resource)
        self.resource = resource
        self.HELP = Help(
            usage="[EXPERIMENT ...]",
            title="experiments (default: the common ones)",
            rows=lambda: list_experiments(resource),
            options=described.common_options,
            examples=described.examples,
        )

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Declare its options: every axis of its kernels, and those of all measurements."""
        add_resource_axes(parser, self.resource)
        add_options(parser)
        elsewhere.add_option(parser)

    def request(self, args: argparse.Namespace) -> Request:
        """What the options request."""
        return make_request(args, self.resource)

    def run(self, args: argparse.Namespace) -> int:
        """Measure what the options request."""
        return perform(self.request(args), args)
