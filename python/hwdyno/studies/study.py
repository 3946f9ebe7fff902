"""What a study is: its questions, its tables, and the mistakes that were published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hwdyno.model.words import Parameters, Run, Scalar

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
