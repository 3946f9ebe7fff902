"""``hwdyno run``: characterize this machine, by the default experiments or by a plan file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli import common, elsewhere
from hwdyno.cli.help import Help, Rows
from hwdyno.cli.main import COMMANDS
from hwdyno.measure import experiments
from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.scenarios import Scenario


def _resources() -> Rows:
    titles = {one.name: one.help for one in COMMANDS}
    names = dict.fromkeys(one.words[-1] for one in experiments.all())
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
        "plan", nargs="?", type=Path, metavar="PLAN.toml", help="a plan file (default: the usual experiments)"
    )
    parser.add_argument("--only", metavar="NAMES", help="resources or experiments, e.g. storage or storage.iodepth")
    common.add_options(parser)
    elsewhere.add_option(parser)


def planned(args: argparse.Namespace, host: Host) -> Scenario:
    """The plan of the options, with the scenarios that prepare for its experiments; raises ``UserError``."""
    from hwdyno.measure import plan as plans
    from hwdyno.measure import scenarios
    from hwdyno.model.units import parse_duration

    command = common.command_line("hwdyno run", getattr(args, "typed", None))
    only = [name.strip() for name in args.only.split(",") if name.strip()] if args.only is not None else None
    if args.plan is not None:
        if only is not None:
            raise UserError("--only selects default experiments; a plan file already names its own")
        overrides = {
            "profile": args.profile,
            "path": None if args.path is None else str(args.path),
            "peers": args.peers,
            "seed": args.seed,
            "budget": args.budget,
            "ceilings": args.ceiling or None,
            "links": args.link or None,
            "devices": args.device or None,
        }
        return plans.read_toml(args.plan, host, scenarios.of_experiments, overrides, command)
    profile = args.profile or "quick"
    return scenarios.of_experiments(
        plans.select(only, host),
        host,
        profile=profile,
        path=args.path,
        peers=bool(args.peers),
        limits=common.limits_of(args),
        seed=args.seed,
        budget_s=parse_duration(args.budget) if args.budget else plans.budget_of(profile, bool(args.peers)),
        command=command,
    )


def run(args: argparse.Namespace) -> int:
    """Build the plan and perform it."""
    host = common.this_machine(args)
    return common.perform(planned(args, host), args, host)
