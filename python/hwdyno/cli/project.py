"""``hwdyno project``: what the curves of a Run say of loads far past the measured ones, and where they say nothing."""

from __future__ import annotations

import argparse
import json
import sys

from hwdyno.cli.help import Help
from hwdyno.cli.statuses import OK
from hwdyno.model.words import UserError
from hwdyno.report.sources import load_run
from hwdyno.system.printable import printable

HELP = Help(
    usage="[RUN]",
    examples=("hwdyno project", "hwdyno project --load 100,1000,10000", "hwdyno project last --load 500 --json"),
)
LATEST = "last"
MAX_LOAD = 1e9


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno project``."""
    parser.add_argument("run", metavar="RUN", nargs="?", default=LATEST, help="a run's id, a file, or last")
    add_loads(parser)
    parser.add_argument("--json", action="store_true", help="print the projections as JSON")
    parser.add_argument("--store", metavar="DIR", help="folder of the stored Runs (default $HWDYNO_HOME)")


def add_loads(parser: argparse.ArgumentParser) -> None:
    """The option for the loads to project to."""
    parser.add_argument(
        "--load", default="100,1000,10000", metavar="VALUES", help="loads to project to [100,1000,10000]"
    )


def run(args: argparse.Namespace) -> int:
    """Print a table for each curve along a number of requests, clients or threads."""
    from hwdyno.report.projections import plain_projection, project_curves, section

    run = load_run(args.run, args.store)
    found = project_curves(run, parse_loads(args.load))
    if not found:
        raise UserError(
            f"{run.id} has no curve along a number of requests, clients or threads; measure one, such as: "
            "hwdyno storage --iodepth 1..64"
        )
    if args.json:
        sys.stdout.write(json.dumps([plain_projection(projected) for projected in found], indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(map(section, printable(found))))
    return OK


def parse_loads(text: str) -> list[float]:
    """The loads of the option, in order; raises ``UserError`` for what is none."""
    try:
        loads = {float(word) for word in text.split(",")}
    except ValueError:
        loads = {0.0}
    if not all(1 <= load <= MAX_LOAD for load in loads):
        raise UserError(f"--load '{text}' must be numbers from 1 to {MAX_LOAD:.0e}, such as 100,1000")
    return sorted(loads)
