"""``hwdyno scaling``: throughput, fairness, latency and limit by the number of clients, and far past it."""

from __future__ import annotations

import argparse
import json
import sys

from hwdyno.cli.help import Help
from hwdyno.cli.options import add_store
from hwdyno.cli.project import add_loads, parse_loads
from hwdyno.cli.statuses import OK
from hwdyno.model.words import Run, UserError
from hwdyno.report.sources import load_run, runs_in
from hwdyno.system.printable import printable

HELP = Help(
    usage="[FOLDER | RUN …]",
    examples=(
        "hwdyno scaling",
        "hwdyno scaling runs/ --load 100,1000,10000",
        "hwdyno scaling last --json",
    ),
)
LATEST = "last"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno scaling``."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help="a run along --clients, or runs and folders of runs with different numbers of ranks (default: last)",
    )
    add_loads(parser)
    parser.add_argument("--json", action="store_true", help="print the curves as JSON")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Print each curve with its projection."""
    from hwdyno.report import scaling

    run, loads = _one(args), parse_loads(args.load)
    if args.json:
        sys.stdout.write(json.dumps(scaling.documents(run, loads), indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(scaling.text(printable(run), loads))
    return OK


def _one(args: argparse.Namespace) -> Run:
    """The Run whose curves go along the number of clients; raises ``UserError`` where there is none."""
    from hwdyno.explain.comparison.clients import has_curve, over_clients
    from hwdyno.report.scorecard import explain_run

    names = args.runs or [LATEST]
    runs = [stored_run for _, stored_run in runs_in(names, args.store)] if args.runs else [load_run(LATEST, args.store)]
    if len(runs) == 1 and has_curve(runs[0]):
        return runs[0]
    together = over_clients(sorted(runs, key=lambda stored_run: stored_run.started, reverse=True))
    if together is None:
        raise UserError(
            f"{', '.join(names)}: no point was measured with two numbers of clients; measure a curve: "
            "mpirun -n 8 hwdyno storage scaling"
        )
    return explain_run(together)
