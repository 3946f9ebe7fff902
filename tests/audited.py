"""What `hwdyno audit` makes of a text: its Run, its points, their figures as printed, and the faults."""

from __future__ import annotations

from pathlib import Path

from hwdyno.cli import audit
from hwdyno.explain.findings import explain
from hwdyno.model.words import Finding, Measurement, Run
from hwdyno.report import sources


def audited(text: str, folder: Path, *maps: str, name: str = "table.md", links: tuple[str, ...] = ()) -> Run:
    path = folder / name
    path.write_text(text)
    given = sources.read_sources([str(path)], sources.parse_maps(maps))
    return explain(sources.merge_sources(given, sources.ceilings_given([], links, [], limits=True)))


def points(run: Run) -> list[Measurement]:
    return [point for experiment in run.experiments for point in experiment.points]


def printed(run: Run) -> list[dict[str, float]]:
    return [point.details["printed"] for point in points(run)]


def faults(run: Run) -> dict[str, Finding]:
    return {fault.rule: fault for fault in audit.list_faults(run)}
