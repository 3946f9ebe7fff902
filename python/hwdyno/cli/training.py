"""``hwdyno training``: what training needs from storage, one scenario each."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli.axes import add_scenario, add_scenario_axes
from hwdyno.cli.help import Help
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform
from hwdyno.measure import scenarios
from hwdyno.model.words import Run
from hwdyno.system import output_files

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request

COMMAND = "training"

HELP = Help(
    title="tests",
    rows=lambda: (
        ("--workload NAMES", "Accelerators that this storage can feed (default: unet3d)"),
        ("--checkpoint MODEL", "Checkpoint save and load"),
    ),
    options=(
        "accelerator",
        "accelerators",
        "samples",
        "scale",
        "ranks",
        "path",
        "keep",
        "profile",
        "peers",
    ),
    examples=(
        "hwdyno training --workload cosmoflow --accelerator a100 --accelerators 1,2 --path .",
        "hwdyno training --workload unet3d --samples 42 --peers --path .",
        "hwdyno training --checkpoint llama3-8b --ranks 1,2 --path .",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno training``: those of its scenarios, and the axes of their kernels."""
    kinds = scenarios.of_command(COMMAND)
    for kind in kinds:
        add_scenario(parser, kind)
    output = parser.add_argument_group("DLIO report")
    output.add_argument("--summary", type=Path, metavar="DIR", help="write DLIO's summary.json of each point to DIR")
    add_scenario_axes(parser, kinds)
    add_options(parser, many_paths=True)


def request(args: argparse.Namespace) -> Request:
    """What the options request."""
    return make_request(args, COMMAND, scenarios.of_command(COMMAND))


def run(args: argparse.Namespace) -> int:
    """Perform the scenario that the options choose."""
    return perform(request(args), args, also=write_summaries if args.summary else None)


def write_summaries(run: Run, args: argparse.Namespace) -> None:
    """DLIO's ``summary.json`` of every point, one folder each."""
    import json

    from hwdyno.formats import dlio

    for result in run.experiments:
        for point in result.points:
            if not point.details.get("au_dlio_by_epoch") or result.fixed.get("compute") == 0:
                continue
            name = f"{result.name.removeprefix('training.')}-{point.parameters.get('accelerators')}"
            folder = output_files.output_folder(args.summary / name)
            text = json.dumps(dlio.write(run, result, point), indent=4) + "\n"
            output_files.write_output(folder / "summary.json", text.encode(), overwrite=args.overwrite)
