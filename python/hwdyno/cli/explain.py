"""``hwdyno explain RULE``: what a finding means: its law, a drawing, an example, when it is wrong, its source."""

from __future__ import annotations

import argparse
import sys

from hwdyno.cli.help import Help, Rows
from hwdyno.cli.statuses import OK
from hwdyno.explain import findings
from hwdyno.explain.findings import lessons
from hwdyno.model.words import UserError
from hwdyno.system.suggestions import hint

HELP = Help(
    usage="[RULE]",
    examples=("hwdyno explain", "hwdyno explain knee", "hwdyno explain page_cache"),
)


def topics() -> Rows:
    """Every rule with the title of its lesson."""
    return tuple((rule.name, lessons.lesson(rule.name).title) for rule in findings.all_rules())


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the argument of ``hwdyno explain``."""
    parser.add_argument("rule", nargs="?", metavar="RULE", help="name of a finding (default: list them)")


def run(args: argparse.Namespace) -> int:
    """Print the lesson of a rule, or the list of all."""
    names = [rule.name for rule in findings.all_rules()]
    if args.rule is None:
        width = max(map(len, names))
        sys.stdout.write("".join(f"{name:{width}}  {title}\n" for name, title in topics()))
        return OK
    if args.rule not in names:
        raise UserError(f"no finding is called '{args.rule}'; {hint(args.rule, names)}")
    sys.stdout.write(lessons.lesson(args.rule).text.replace("**", ""))
    return OK
