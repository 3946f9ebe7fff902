"""``hwdyno inference``: what a model server gets of this machine, one scenario each."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hwdyno.cli.axes import add_scenario, add_scenario_axes
from hwdyno.cli.help import Help
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform
from hwdyno.measure import scenarios

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request

COMMAND = "inference"

HELP = Help(
    title="tests (default: the first three, of a model that is made)",
    rows=lambda: (
        ("--cold LOADERS", "Time to ready, from storage and from the page cache"),
        ("--decode STACKS", "Tokens/s of one sequence beside what memory allows"),
        ("--restore STACKS", "KV cache read back, or computed again"),
        ("--images COUNT", "Images/s of ResNet-50, fed from JPEG files"),
        ("--server URL", "Tokens/s and latency of any OpenAI-compatible server"),
        ("--serve FILE", "The same of a GGUF file, served by llama.cpp"),
        ("--in-process STACKS", "The same of a made model in this process"),
        ("--kv-cache MODEL", "KV cache by number of users"),
        ("--vector-search INDEX", "Vector search: queries/s, latency and recall"),
    ),
    options=(
        "model",
        "threads",
        "tokens",
        "concurrency",
        "rate",
        "input_tokens",
        "output_tokens",
        "users",
        "path",
        "keep",
    ),
    examples=(
        "hwdyno inference --path .",
        "hwdyno inference --server http://127.0.0.1:8000 --concurrency 1..64",
        "hwdyno inference --kv-cache llama3.1-8b --users 1..16 --path .",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno inference``: those of its scenarios, and the axes of their kernels."""
    kinds = scenarios.of_command(COMMAND)
    for kind in kinds:
        add_scenario(parser, kind)
    add_scenario_axes(parser, kinds)
    add_options(parser, many_paths=True)


def request(args: argparse.Namespace) -> Request:
    """What the options request."""
    return make_request(args, COMMAND, scenarios.of_command(COMMAND))


def run(args: argparse.Namespace) -> int:
    """Perform the scenario that the options choose."""
    return perform(request(args), args)
