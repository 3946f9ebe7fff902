"""How far a call is, as events for a callback, and its early end on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwdyno.model.axes import FIELD_AXES
from hwdyno.model.words import Axis, Measurement
from hwdyno.system import signals

if TYPE_CHECKING:
    from types import TracebackType

    from hwdyno.measure.runner.observers import NextReading
    from hwdyno.session import Shown


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """What has just happened, between two readings."""

    text: str
    """One line for a person."""
    experiment: str = ""
    """The experiment of the next reading or of ``point``; empty for a remark."""
    done: int = 0
    """Readings that have ended."""
    total: int = 0
    """Readings at least; noisy points take more. 0 where the event is no reading."""
    left_s: float = 0.0
    """Seconds that are left, about."""
    point: Measurement | None = None
    """The point that is complete now."""


class Cancellation:
    """Ends a call early from another thread; what was measured is kept. It serves one call.

    As a context it cancels at the end, so that a task of asyncio that is cancelled takes its measurement with it.
    """

    def __init__(self) -> None:
        self._request = signals.EndRequest()

    def cancel(self) -> None:
        """End the call within about 50 ms, or at its next reading; any thread may call it, more than once."""
        self._request.make()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._request.is_made

    @property
    def request(self) -> signals.EndRequest:
        """What the runner looks at."""
        return self._request

    def __enter__(self) -> Cancellation:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


class Follower:
    """Progress that goes to a callback, and to what stderr shows besides.

    A callback that raises ends the call early; ``failure`` has its error.
    """

    def __init__(
        self, shown: Shown, callback: Callable[[ProgressEvent], object] | None, request: signals.EndRequest
    ) -> None:
        self._shown, self._callback, self._request = shown, callback, request
        self._axes: Sequence[Axis] = FIELD_AXES
        self.failure: BaseException | None = None

    def __enter__(self) -> Follower:
        self._progress = self._shown.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._shown.__exit__(kind, error, traceback)

    def _send(self, event: ProgressEvent) -> None:
        if self._callback is None or self.failure is not None:
            return
        try:
            self._callback(event)
        except BaseException as error:
            self.failure = error
            self._request.make()

    def says(self, text: str) -> None:
        """A remark, also on what is prepared."""
        self._shown.says(text)
        self._send(ProgressEvent(text))

    def begins(self, step: NextReading) -> None:
        """A reading is about to begin."""
        from hwdyno.cli.progress import describe_point

        self._axes = step.axes
        self._progress.begins(step)
        text = f"{step.experiment}  {describe_point(step.parameters, step.axes)}  repeat {step.repeat}"
        self._send(ProgressEvent(text, step.experiment, step.done, step.total, step.left_s))

    def end_point(self, experiment: str, measurement: Measurement, rate_word: str) -> None:
        """A point is done."""
        from hwdyno.cli.progress import result_line

        self._progress.end_point(experiment, measurement, rate_word)
        text = result_line(experiment, measurement, rate_word, self._axes)
        self._send(ProgressEvent(text, experiment, point=measurement))
