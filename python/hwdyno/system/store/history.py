"""Summarizes a Run as one line of the history, and as the figures that a trend is made of."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from hwdyno.model.words import Parameters, Run, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table
from hwdyno.system.store.atomic_files import StoreError
from hwdyno.system.store.former_names import kernel_of_today

Status = Literal["valid", "unverified", "degraded", "invalid", "partial", "empty"]
"""How far a Run can be trusted: as a point, and ``partial`` is interrupted or killed, ``empty`` without a point."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of the history."""

    id: str
    started: str
    machine: str
    profile: str
    study: str
    verdict: str
    """That of the Run, a ``Status`` of one without a verdict, or ``running`` or ``unreadable``."""
    points: int
    headline: tuple[tuple[str, float, str], ...]
    """The figures that the Run is quoted by: title, value and unit."""
    path: str
    error: str = ""
    """Why the document cannot be read, in one line."""
    command: str = ""
    """The command line that measured it; empty in an index of an earlier version."""


@dataclass(frozen=True, slots=True)
class PointFigure:
    """What one point of a Run reached: its throughput, or of a latency test the mean latency in ns."""

    experiment: str
    resource: str
    kernel: str
    parameters: Parameters
    """All of them, also those that its experiment fixes."""
    value: float
    unit: str
    why: tuple[str, ...] = ()
    """The rules that lowered the point's validity."""


def run_status(run: Run) -> Status:
    """How far a Run can be trusted, in one word."""
    validities = {point.validity for experiment in run.experiments for point in experiment.points}
    if not validities:
        return "empty"
    if "invalid" in validities or any(finding.severity == "invalid" for finding in run.findings):
        return "invalid"
    if run.interrupted or any(experiment.planned > len(experiment.points) for experiment in run.experiments):
        return "partial"
    if run.degraded or "degraded" in validities:
        return "degraded"
    return "unverified" if "unverified" in validities else "valid"


def name_machine(run: Run) -> str:
    """A Run's machine in a few words: first host, number of others, processor."""
    more = f" and {len(run.machines) - 1} more" if len(run.machines) > 1 else ""
    parts = (f"{run.machine.hostname or 'unnamed'}{more}" if more else run.machine.hostname, run.machine.cpu.model)
    return ", ".join(part for part in parts if part) or "unknown"


def make_entry(run: Run, path: Path, verdict: str = "") -> HistoryEntry:
    """Summarize a Run; ``verdict`` overrides the status, for a Run that is still going on."""
    points = sum(len(experiment.points) for experiment in run.experiments)
    return HistoryEntry(
        id=run.id,
        started=run.started,
        machine=name_machine(run),
        profile=run.profile,
        study=run.study,
        verdict=verdict or run.verdict or run_status(run),
        points=points,
        headline=tuple((figure.title, figure.value, figure.unit) for figure in run.quoted),
        path=str(path),
        command=run.command,
    )


def figures_text(run: Run) -> str:
    """The figures of a Run's points that are not invalid, as a line of the index."""
    experiments = []
    for experiment in run.experiments:
        points: list[list[Any]] = []
        for point in experiment.points:
            if point.validity == "invalid":
                continue
            figure = experiment.judged_value(point)
            points.append([point.parameters, figure.value, figure.unit, point.why])
        experiments.append([experiment.name, experiment.resource, experiment.kernel, experiment.fixed, points])
    return json.dumps(experiments, default=str)


def list_figures(run: Run) -> tuple[PointFigure, ...]:
    """The figures of a Run, as the index has them."""
    return figures_from(figures_text(run))


def figures_from(text: str) -> tuple[PointFigure, ...]:
    """Parse a Run's figures as the index has them; none where another program wrote them."""
    try:
        plain = foreign.parse_json(text, "it", is_ours=True)
        found = []
        for name, resource, kernel, fixed, points in plain:
            # A team's database may have rows of an earlier version, which do not say why.
            for parameters, value, unit, *why in points:
                rules = why[0] if why else []
                if not all(isinstance(word, str) for word in (name, resource, kernel, unit, *rules)):
                    return ()
                given, today = {**fixed, **parameters}, kernel_of_today(kernel)
                found.append(PointFigure(name, resource, today, given, float(value), unit, tuple(rules)))
    except (UserError, ValueError, TypeError):
        return ()
    return tuple(found)


def entry_text(entry: HistoryEntry) -> str:
    """A line of the history, as the index has it."""
    return json.dumps({field.name: getattr(entry, field.name) for field in fields(entry)})


def entry_from(text: str, path: Path) -> HistoryEntry | None:
    """Parse a line of the index; none if another program wrote it."""
    try:
        row = Table.from_value(foreign.parse_json(text, "it", is_ours=True), "it")
        plain = {key: value for key, value in row.values.items() if key not in {"headline", "path"}}
        headline = row.values.get("headline")
        best = tuple(_best(figure) for figure in headline) if isinstance(headline, list) else ()
        return Table(plain, row.name).to_dataclass(HistoryEntry, headline=best, path=str(path))
    except UserError:
        return None


def _best(line: object) -> tuple[str, float, str]:
    match line:
        case [str(name), int() | float() as value, str(unit)]:
            return name, float(value), unit
    raise UserError("it is not a name, a value and a unit")


def unreadable(path: Path, error: StoreError) -> HistoryEntry:
    """The line of a document that cannot be read, with the reason."""
    return HistoryEntry(path.stem, "", "", "", "", "unreadable", 0, (), str(path), str(error))
