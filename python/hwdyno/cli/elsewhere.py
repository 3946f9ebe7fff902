"""Files between hwdyno and a bare engine on another host: its survey, the plan for it, and the readings it wrote."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli.main import load_subcommand, make_parser
from hwdyno.cli.statuses import OK
from hwdyno.measure.hosts.elsewhere import Elsewhere
from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.scenarios import Scenario

COMMANDS = ("run", "storage", "memory", "compute")
"""The commands that have ``--plan-for``."""
_OUTPUT = {
    "dry_run": False, "json": False, "verbose": False, "out": None, "overwrite": False, "store": None,
    "no_page": False, "quiet": False, "fail_under": None,
}  # fmt: skip
"""Options of the command that was planned which an import takes from its own command line."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option ``--plan-for``."""
    parser.add_argument(
        "--plan-for",
        type=Path,
        metavar="SURVEY",
        help="print a plan for hwdyno-engine on the host of this survey (- for stdin); measure nothing",
    )


def print_plan(scenario: Scenario, host: Elsewhere, args: argparse.Namespace) -> int:
    """Print the plan of a scenario that needs no preparation; raises ``UserError``."""
    from hwdyno.measure.runner import elsewhere

    if scenario.preparations:
        names = [planned_experiment.experiment.name for planned_experiment in scenario.plan.experiments]
        prepared = {name for preparation in scenario.preparations for name in preparation.experiments} or set(names)
        name = next(name for name in names if name in prepared)
        raise UserError(f"{name} needs files that a bare engine does not prepare; choose other experiments with --only")
    document = elsewhere.plan_for(scenario.plan, host, [args.command, *_without_survey(args.typed)])
    sys.stdout.write(json.dumps(document, ensure_ascii=True) + "\n")
    return OK


def _without_survey(words: list[str]) -> list[str]:
    kept, skips = [], False
    for word in words:
        if not skips and word != "--plan-for" and not word.startswith("--plan-for="):
            kept.append(word)
        skips = word == "--plan-for"
    return kept


def rebuild_scenario(
    words: list[str], host: Elsewhere, given: argparse.Namespace
) -> tuple[Scenario, argparse.Namespace]:
    """The scenario that a command planned, with the output options of another one; raises ``UserError``."""
    if not words or words[0] not in COMMANDS:
        raise UserError("the plan is of no command that hwdyno can plan for another host; make it again")
    args = _read(words)
    if getattr(args, "plan", None) is not None:
        raise UserError("the plan was made of a file, which is not here; use --only and the options of hwdyno run")
    for name, default in _OUTPUT.items():
        setattr(args, name, getattr(given, name, default))
    return _scenario(words[0], args, host), args


def parse_scenario(words: list[str], host: Host) -> Scenario:
    """The scenario of one of ``COMMANDS`` with its options; raises ``UserError``."""
    return _scenario(words[0], _read(words), host)


def _read(words: list[str]) -> argparse.Namespace:
    parser = make_parser(words[0])
    parser.raises = True
    return parser.read(words[1:])


def _scenario(command: str, args: argparse.Namespace, host: Host) -> Scenario:
    from hwdyno.measure.scenarios import make_scenario

    return make_scenario(load_subcommand(command).request(args), host)
