"""``hwdyno run``: characterize this machine, by the default experiments or by a plan file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.cli import elsewhere
from hwdyno.cli.help import Help, Rows
from hwdyno.cli.main import COMMANDS
from hwdyno.cli.options import add_options, make_request
from hwdyno.cli.perform import perform
from hwdyno.measure import experiments

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Request

_MEASURED = ("only", "profile", "path", "peers", "seed", "budget", "ceiling", "link", "device")
"""Options that say what is measured, and not what becomes of it."""


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
    add_plan(parser)
    add_options(parser)
    elsewhere.add_option(parser)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """What is measured: a plan file, or experiments by name."""
    parser.add_argument("plan", nargs="?", type=Path, metavar="PLAN.toml", help="a plan file (default: no file)")
    parser.add_argument("--only", metavar="NAMES", help="resources or experiments, e.g. storage or storage.iodepth")


def request(args: argparse.Namespace, **more: Any) -> Request:
    """What the options request; ``more`` has fields that no option sets."""
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
    plan_file = args.plan and PlanFile(args.plan, replaces)
    return make_request(args, "run", experiments=names, plan_file=plan_file, **more)


def list_words(args: argparse.Namespace) -> list[str]:
    """The words of a command line that measures the same from any folder: places are whole paths."""
    named = {**vars(args), "path": args.path if args.plan else args.path or Path()}
    words = [] if args.plan is None else [str(args.plan.absolute())]
    for name in _MEASURED:
        value = named[name]
        for word in value if isinstance(value, list) else [value]:
            if word is True:
                words.append(f"--{name}")
            elif word is not None:
                words += [f"--{name}", str(word.absolute() if isinstance(word, Path) else word)]
    return words


def run(args: argparse.Namespace) -> int:
    """Measure what the options request."""
    return perform(request(args), args)
