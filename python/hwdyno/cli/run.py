"""``hwdyno run``: characterize this machine, by the default experiments or by a plan file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli import elsewhere
from hwdyno.cli.help import Help, Rows
from hwdyno.cli.main import COMMANDS
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform
from hwdyno.measure import experiments

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request


def _resources() -> Rows:
    titles = {command.name: command.help for command in COMMANDS}
    names = dict.fromkeys(experiment.words[-1] for experiment in experiments.all())
    return tuple((name, titles.get(name, "")) for name in names)


HELP = Help(
    usage="[PLAN.toml]",
    title="resources, for --only (default: storage, memory and compute)",
    rows=_resources,
    options=("only", "path", "profile", "budget", "peers", "ceiling", "dry-run", "json", "out", "fail-under"),
    examples=(
        "hwdyno run",
        "hwdyno run --only storage,memory --path . --peers",
        "hwdyno run --only storage.iodepth --budget 1m --path .",
    ),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hwdyno run``."""
    parser.add_argument(
        "plan",
        nargs="?",
        type=Path,
        metavar="PLAN.toml",
        help="a plan file (default: no file)",
    )
    parser.add_argument("--only", metavar="NAMES", help="resources or experiments, e.g. storage or storage.iodepth")
    add_options(parser)
    elsewhere.add_option(parser)


def request(args: argparse.Namespace) -> Request:
    """What the options request."""
    from hwdyno.measure.scenarios import PlanFile

    names = tuple(name.strip() for name in (args.only or "").split(",") if name.strip())
    replaces = {
        "profile": args.profile,
        "path": None if args.path is None else str(args.path),
        "peers": args.peers,
        "seed": args.seed,
        "budget": args.budget,
        "ceilings": args.ceiling or None,
        "links": args.link or None,
        "devices": args.device or None,
    }
    return make_request(args, "run", experiments=names, plan_file=args.plan and PlanFile(args.plan, replaces))


def run(args: argparse.Namespace) -> int:
    """Measure what the options request."""
    return perform(request(args), args)
