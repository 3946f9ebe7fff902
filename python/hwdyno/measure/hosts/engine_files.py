"""The files of a bare engine on another host: its survey, and the readings of a plan that it measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hwdyno.measure.hosts.elsewhere import PLAN, READINGS, Elsewhere, Readings, Taken
from hwdyno.model.machine import Machine
from hwdyno.model.words import UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table
from hwdyno.system.store.former_names import rename_keys

LARGEST_SURVEY = 16 << 20
LARGEST_READINGS = 1 << 30


def host_of_survey(survey: Path) -> Elsewhere:
    """The host of a survey that ``hwdyno-engine survey PATH`` printed; raises ``UserError``."""
    name = "the survey on stdin" if str(survey) == "-" else survey.name
    text = sys.stdin.read(LARGEST_SURVEY) if str(survey) == "-" else foreign.read_text(survey, LARGEST_SURVEY)
    return Elsewhere(_machine(foreign.parse_json(text, name), name))


def _machine(document: Any, name: str) -> Machine:
    values = Table.from_value(document, name).values
    if not isinstance(values.get("cpu"), dict):
        raise UserError(f"{name} is no survey; hwdyno-engine survey PATH prints one")
    return Machine.of_survey(values)


def is_readings(head: str) -> bool:
    """Whether a file that begins so has a bare engine's readings."""
    return READINGS in head.partition("\n")[0][:200]


def read_readings(path: Path) -> tuple[list[str], Elsewhere]:
    """The command that was planned, and its host with the readings; raises ``UserError`` in one line."""
    lines = foreign.read_text(path, LARGEST_READINGS).splitlines()
    documents = [
        Table.from_value(rename_keys(foreign.parse_json(line, f"{path.name}, line {at}")), path.name)
        for at, line in _whole(lines)
    ]
    if not documents:
        raise UserError(f"{path.name} is cut off in its first line; take the readings again")
    head, *records = documents
    plan = Table.from_value(head.values.get("plan"), path.name)
    if plan.values.get("format") != PLAN:
        raise UserError(f"{path.name} has readings of another version's plan; use the same version of hwdyno")
    steps = [Table.from_value(step, path.name) for step in _list(plan, "steps", path.name)]
    for step in steps:
        Table.from_value(step.values.get("point"), path.name)
    end = next((document for document in records if "ended_s" in document), None)
    taken = [document for document in records if "step" in document]
    if any(document.count("step") >= len(steps) for document in taken):
        raise UserError(f"{path.name} has readings of steps that its plan has not")
    readings = Readings(
        machine=_machine(head.values.get("survey"), path.name),
        started_s=head.number("started_s", most=1e11),
        ended_s=end.number("ended_s", most=1e11) if end else None,
        interrupted=bool(end and end.values.get("interrupted")),
        seed=plan.count("seed"),
        steps=tuple({"repeat": 0, **step.values} for step in steps),
        taken=tuple(_parse_step(document, path.name) for document in taken if "reading" in document),
        errors={document.count("step"): str(document.values.get("error")) for document in taken if "error" in document},
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


def _parse_step(table: Table, name: str) -> Taken:
    def files(key: str) -> dict[str, str]:
        return {path: str(text) for path, text in Table.from_value(table.values.get(key), name).values.items()}

    reading = Table.from_value(table.values["reading"], name).values
    return Taken(table.count("step"), reading, files("before"), files("after"))
