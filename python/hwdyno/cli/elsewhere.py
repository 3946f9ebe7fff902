"""Files between hwdyno and a bare engine on another host: its survey, the plan for it, and the readings it wrote."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.cli.main import parser_of
from hwdyno.cli.statuses import OK
from hwdyno.measure.hosts.elsewhere import Elsewhere, Readings, Taken
from hwdyno.model.machine import Machine
from hwdyno.model.words import UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.scenarios import Scenario

LARGEST_SURVEY = 16 << 20
LARGEST_READINGS = 1 << 30
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


def host_of(survey: Path) -> Elsewhere:
    """The host of a survey that ``hwdyno-engine survey PATH`` printed; raises ``UserError``."""
    name = "the survey on stdin" if str(survey) == "-" else survey.name
    text = sys.stdin.read(LARGEST_SURVEY) if str(survey) == "-" else foreign.text_of(survey, LARGEST_SURVEY)
    return Elsewhere(_machine(foreign.json_of(text, name), name))


def _machine(document: Any, name: str) -> Machine:
    values = Table.of(document, name).values
    if not isinstance(values.get("cpu"), dict):
        raise UserError(f"{name} is no survey; hwdyno-engine survey PATH prints one")
    return Machine.of_survey(values)


def print_plan(scenario: Scenario, host: Elsewhere, args: argparse.Namespace) -> int:
    """Print the plan of a scenario that needs no preparation; raises ``UserError``."""
    from hwdyno.measure.runner import elsewhere

    if scenario.preparations:
        names = [one.experiment.name for one in scenario.plan.experiments]
        prepared = {name for one in scenario.preparations for name in one.experiments} or set(names)
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


def is_readings(head: str) -> bool:
    """Whether a file that begins so has a bare engine's readings."""
    from hwdyno.measure.runner.elsewhere import READINGS

    return READINGS in head.partition("\n")[0][:200]


def read(path: Path) -> tuple[list[str], Elsewhere]:
    """The command that was planned, and its host with the readings; raises ``UserError`` in one line."""
    from hwdyno.measure.runner.elsewhere import PLAN

    lines = foreign.text_of(path, LARGEST_READINGS).splitlines()
    documents = [Table.of(foreign.json_of(line, f"{path.name}, line {at}"), path.name) for at, line in _whole(lines)]
    if not documents:
        raise UserError(f"{path.name} is cut off in its first line; take the readings again")
    head, *rest = documents
    plan = Table.of(head.values.get("plan"), path.name)
    if plan.values.get("format") != PLAN:
        raise UserError(f"{path.name} has readings of another version's plan; use the same version of hwdyno")
    steps = [Table.of(step, path.name) for step in _list(plan, "steps", path.name)]
    for step in steps:
        Table.of(step.values.get("point"), path.name)
    end = next((one for one in rest if "ended_s" in one), None)
    taken = [one for one in rest if "step" in one]
    if any(one.count("step") >= len(steps) for one in taken):
        raise UserError(f"{path.name} has readings of steps that its plan has not")
    readings = Readings(
        machine=_machine(head.values.get("survey"), path.name),
        started_s=head.number("started_s", most=1e11),
        ended_s=end.number("ended_s", most=1e11) if end else None,
        interrupted=bool(end and end.values.get("interrupted")),
        seed=plan.count("seed"),
        steps=tuple({"repeat": 0, **one.values} for one in steps),
        taken=tuple(_taken(one, path.name) for one in taken if "reading" in one),
        errors={one.count("step"): str(one.values.get("error")) for one in taken if "error" in one},
    )
    words = [str(word) for word in _list(plan, "words", path.name)]
    return words, Elsewhere(_machine(plan.values.get("machine"), path.name), readings)


def _whole(lines: list[str]) -> list[tuple[int, str]]:
    """The lines by their numbers, without a last one that was cut off."""
    numbered = list(enumerate(lines, 1))
    return numbered if not lines or lines[-1].endswith("}") else numbered[:-1]


def _list(table: Table, key: str, name: str) -> list[Any]:
    found = table.values.get(key)
    if not isinstance(found, list):
        raise UserError(f"{name} has no list of {key}")
    return found


def _taken(table: Table, name: str) -> Taken:
    def files(key: str) -> dict[str, str]:
        return {path: str(text) for path, text in Table.of(table.values.get(key), name).values.items()}

    reading = Table.of(table.values["reading"], name).values
    return Taken(table.count("step"), reading, files("before"), files("after"))


def planned(words: list[str], host: Elsewhere, given: argparse.Namespace) -> tuple[Scenario, argparse.Namespace]:
    """The scenario that a command planned, with the output options of another one; raises ``UserError``."""
    if not words or words[0] not in COMMANDS:
        raise UserError("the plan is of no command that hwdyno can plan for another host; make it again")
    args = _read(words)
    if getattr(args, "plan", None) is not None:
        raise UserError("the plan was made of a file, which is not here; use --only and the options of hwdyno run")
    for name, default in _OUTPUT.items():
        setattr(args, name, getattr(given, name, default))
    return _scenario(words[0], args, host), args


def scenario_of(words: list[str], host: Host) -> Scenario:
    """The scenario of one of ``COMMANDS`` with its options; raises ``UserError``."""
    return _scenario(words[0], _read(words), host)


def _read(words: list[str]) -> argparse.Namespace:
    parser = parser_of(words[0])
    parser.raises = True
    return parser.read(words[1:])


def _scenario(command: str, args: argparse.Namespace, host: Host) -> Scenario:
    import importlib

    from hwdyno.measure.scenarios import scenario_of

    return scenario_of(importlib.import_module(f"hwdyno.cli.{command}").request(args), host)
