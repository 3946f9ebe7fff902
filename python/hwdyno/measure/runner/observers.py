"""The observers of a run: Progress for a person, and the Journal of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from hwdyno.model.axes import FIELD_AXES
from hwdyno.model.words import Axis, Measurement, Parameters, PeerResult, Run


@dataclass(frozen=True)
class NextReading:
    """One reading that is about to begin."""

    experiment: str
    parameters: Parameters
    repeat: int
    done: int
    """Readings that have ended."""
    total: int
    """Readings at least; noisy points take more."""
    left_s: float
    axes: tuple[Axis, ...] = FIELD_AXES
    """Its kernel's."""


class Progress(Protocol):
    """Follows how far a run is; called only between readings, so that nothing disturbs a timed region."""

    def says(self, text: str) -> None:
        """Show a message."""
        ...

    def begins(self, step: NextReading) -> None:
        """A reading is about to begin."""
        ...

    def end_point(self, experiment: str, measurement: Measurement, rate_word: str) -> None:
        """A point is done; ``rate_word`` is the field's word for its operations a second."""
        ...


class Silent:
    """Progress that shows nothing."""

    def says(self, text: str) -> None:
        """Nothing."""

    def begins(self, step: NextReading) -> None:
        """Nothing."""

    def end_point(self, experiment: str, measurement: Measurement, rate_word: str) -> None:
        """Nothing."""


class Journal(Protocol):
    """Where points are kept as they end, and the whole Run at last; see ``store.Writer``."""

    def point(self, experiment: str, measurement: Measurement, left_s: float | None = None) -> None:
        """Keep one point with the time left; a later one with the same parameters replaces it."""
        ...

    def peer(self, experiment: str, result: PeerResult) -> None:
        """Keep a peer's result on a point."""
        ...

    def finish(self, run: Run) -> Any:
        """Keep the whole Run."""
        ...

    def abandon(self) -> None:
        """Forget a Run that measured nothing."""
        ...


class Keeper(Protocol):
    """What opens a Journal; see ``store.Store``."""

    def begin(self, run: Run) -> Journal:
        """Open the journal of a Run that has no points yet."""
        ...
