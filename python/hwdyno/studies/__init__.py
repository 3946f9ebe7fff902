"""Published characterizations, one file each: their sweeps, their figures, and their tables made from a Run.

A study is data: its questions are plain axes, from which experiments are made, and its tables and observations
are made from any Run that has those experiments.
"""

from __future__ import annotations

import csv
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from hwdyno.model.units import format_duration, format_size
from hwdyno.model.words import Parameters, Run, Scalar, UserError
from hwdyno.studies.point_figures import experiment, number, whole
from hwdyno.system.suggestions import hint

Block = Mapping[str, Scalar | tuple[Scalar, ...]]


@dataclass(frozen=True, slots=True)
class Question:
    """One sweep of a study, at the study's sizes; it becomes an experiment."""

    name: str
    """``resource.question``."""
    asks: str
    kernel: str
    load: str
    blocks: tuple[Block, ...]
    """Axes with their values; each block is a full combination."""
    fixed: Parameters = field(default_factory=dict)
    brief: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    """Axes with fewer values for a run that is shorter than the study: the others take long or add little."""
    of_site: tuple[str, ...] = ()
    """Axes whose values the catalogue's experiment of this name takes from the site, such as its processors."""
    size_bytes: int = 1 << 30
    runtime_s: float = 30.0
    startdelay_s: float = 0.0
    peers: tuple[str, ...] = ()
    """Reference tools that the study used, beside those of the catalogue."""
    time_share: float = 1.0
    """Factor on a profile's default reading time for a shorter run."""


@dataclass(frozen=True, slots=True)
class StudyTable:
    """A table with its title; units are in the column names."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def without_empty(self, *columns: str) -> StudyTable:
        """The same table without those of some columns that have no figure in any row."""
        kept = [
            at
            for at, name in enumerate(self.columns)
            if name not in columns or any(row[at] not in {"", "-"} for row in self.rows)
        ]
        rows = tuple(tuple(row[at] for at in kept) for row in self.rows)
        return StudyTable(self.title, tuple(self.columns[at] for at in kept), rows)


@dataclass(frozen=True, slots=True)
class Study:
    """A published characterization."""

    name: str
    title: str
    asks: str
    questions: tuple[Question, ...]
    tables: Callable[[Run], list[StudyTable]]
    observations: Callable[[Run], list[str]]
    mistakes: tuple[str, ...]
    """Errors in the published study, a sentence each."""
    method: bool = False
    """Whether it is a test method with a separate command instead of a published characterization."""


def all() -> tuple[Study, ...]:
    """Every published characterization in this folder, by name."""
    return tuple(study for study in _every() if not study.method)


@cache
def _every() -> tuple[Study, ...]:
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    studies = (value for module in modules for value in vars(module).values() if isinstance(value, Study))
    return tuple(sorted(studies, key=lambda study: study.name))


def is_known(name: str) -> bool:
    """Whether a study is called so."""
    return any(study.name == name for study in _every())


def find(name: str) -> Study:
    """Look up a study by name. Raises ``UserError``."""
    for study in _every():
        if study.name == name:
            return study
    raise UserError(f"no study is called '{name}'; {hint(name, (study.name for study in all()))}")


def tables(run: Run) -> list[StudyTable]:
    """The tables of the Run's study; empty without one."""
    return find(run.study).tables(run) if run.study else []


def observations(run: Run) -> list[str]:
    """The study's conclusions for this Run, a sentence each: scaling first, the study's errors last."""
    if not run.study:
        return []
    study = find(run.study)
    wrong = [f"In the published study: {mistake}" for mistake in study.mistakes]
    return [*_scaling(study, run), *study.observations(run), *wrong]


@cache
def published(table: str, study: str) -> tuple[dict[str, str], ...]:
    """A study's rows of a published table, such as ``storage-fio``."""
    text = (resources.files("hwdyno") / "data" / "published" / f"{table}.csv").read_text(encoding="utf-8")
    return tuple(row for row in csv.DictReader(text.splitlines()) if row["study"] == study)


def _scaling(study: Study, run: Run) -> list[str]:
    """Sentences on how far this Run's sizes and times are below the study's."""
    sentences = []
    measured = {one.resource for one in run.experiments}
    for question in study.questions:
        result = experiment(run, question.name)
        if question.name.partition(".")[0] not in measured:
            continue  # Left out by --only.
        if result is None:
            sentences.append(f"{question.name} was not measured.")
            continue
        size = max(number(whole(result, point), "size", 0) for point in result.points)
        runtime_s = sum(point.elapsed_s / max(1, point.repeats) for point in result.points) / len(result.points)
        parts = []
        if size and size < question.size_bytes:
            parts.append(f"a file of {format_size(size)} instead of {format_size(question.size_bytes)}")
        if runtime_s < 0.95 * question.runtime_s:
            repeats = min(point.repeats for point in result.points)
            parts.append(
                f"{repeats} or more readings of {format_duration(runtime_s)} a point instead of one of "
                f"{format_duration(question.runtime_s)}"
            )
        if question.startdelay_s and not any(whole(result, point).get("startdelay") for point in result.points):
            parts.append(f"no start delay instead of {format_duration(question.startdelay_s)}")
        largest = max((number(whole(result, point), "bs") for point in result.points), default=0)
        largest_of_study = max(_values(question.blocks, "bs"), default=0)
        if 0 < largest < largest_of_study:
            parts.append(f"blocks of at most {format_size(largest)} instead of {format_size(largest_of_study)}")
        most = max((number(whole(result, point), "n", 0) for point in result.points), default=0)
        full = max(_values(question.blocks, "n"), default=0)
        if 0 < most < full:
            parts.append(f"at most {most} equations instead of {full}")
        for axis in question.brief:
            values = {whole(result, point).get(axis) for point in result.points}
            every = set(_values(question.blocks, axis))
            if axis != "n" and len(values) < len(every):
                parts.append(f"{len(values)} of {len(every)} values of {axis}")
        if parts:
            sentences.append(f"{question.name} is scaled down (profile {run.profile}): {', '.join(parts)}.")
    return sentences


def _values(blocks: Iterable[object], axis: str) -> list[int]:
    found: list[int] = []
    for block in blocks:
        values = block.get(axis, ()) if isinstance(block, dict) else ()
        found += [value for value in (values if isinstance(values, tuple) else (values,)) if isinstance(value, int)]
    return found
