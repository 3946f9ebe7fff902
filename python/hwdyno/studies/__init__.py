"""Published characterizations, one file each: what they asked, what they found, and their tables made of a Run.

A study is data, and right of the wall: its questions are plain axes, from which the command line makes
experiments, and its tables and observations come from any Run that answers them.
"""

from __future__ import annotations

import csv
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from hwdyno.words import Parameters, Run, Scalar, UserError

Block = Mapping[str, Scalar | tuple[Scalar, ...]]


@dataclass(frozen=True, slots=True)
class Question:
    """One sweep of a study, at the study's own sizes; it becomes an experiment."""

    name: str
    """``resource.question``."""
    asks: str
    kernel: str
    load: str
    blocks: tuple[Block, ...]
    """Axes with their values; each block is a full combination."""
    fixed: Parameters = field(default_factory=dict)
    brief: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    """Axes of which fewer values are asked where the study is not done at full length: what those leave out takes
    long, or tells little more."""
    size_bytes: int = 1 << 30
    runtime_s: float = 30.0
    startdelay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its title; units stand in the columns' names."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Study:
    """A published characterization."""

    name: str
    title: str
    asks: str
    questions: tuple[Question, ...]
    tables: Callable[[Run], list[Table]]
    observations: Callable[[Run], list[str]]
    mistakes: tuple[str, ...]
    """What is wrong in the published study, a sentence each."""
    method: bool = False
    """Not a published characterization but a method of testing, with a command of its own."""


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
    """The study called so. Raises ``UserError``."""
    for study in _every():
        if study.name == name:
            return study
    raise UserError(f"no study is called '{name}'; there are: {', '.join(study.name for study in all())}")


def tables(run: Run) -> list[Table]:
    """The tables of the Run's study; none for a Run of no study."""
    return find(run.study).tables(run) if run.study else []


def observations(run: Run) -> list[str]:
    """What the study's readers would ask, answered by this Run in sentences: scaling first, mistakes last."""
    if not run.study:
        return []
    from hwdyno.studies.common import scaling

    study = find(run.study)
    wrong = [f"In the published study: {mistake}" for mistake in study.mistakes]
    return [*scaling(study, run), *study.observations(run), *wrong]


@cache
def published(table: str, study: str) -> tuple[dict[str, str], ...]:
    """The rows of a study in a published table, such as ``storage-fio``."""
    text = (resources.files("hwdyno") / "data" / "published" / f"{table}.csv").read_text(encoding="utf-8")
    return tuple(row for row in csv.DictReader(text.splitlines()) if row["study"] == study)
