"""Shows how far a run is: a live bar with the time left on a terminal, plain lines elsewhere; on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from hwdyno.measure.runner import NextReading
from hwdyno.model.axes import FIELD_AXES
from hwdyno.model.units import (
    format_count,
    format_duration,
    format_ns,
    format_percent,
    format_quantity,
)
from hwdyno.model.words import Axis, Declaration, Measurement, Parameters
from hwdyno.system import signals
from hwdyno.system.printable import Escaping, console_on, printable

if TYPE_CHECKING:
    from rich.live import Live


def describe_point(parameters: Parameters, axes: Sequence[Axis] = FIELD_AXES) -> str:
    """A point's parameters in a few words: ``randread 4 KiB, iodepth=8, 1 job``; ``axes`` are its kernel's."""
    from hwdyno.explain.findings.point_labels import format_label

    return format_label(parameters, Declaration(axes=tuple(axes)))


def result_line(experiment: str, measurement: Measurement, rate_word: str, axes: Sequence[Axis] = FIELD_AXES) -> str:
    """One point's result in one line."""
    value, latency = measurement.throughput, measurement.latency_ns
    one_at_a_time = measurement.concurrency is not None and measurement.concurrency.requested == 1
    # What is timed one at a time is printed as a time: its rate is the same figure upside down.
    timed = latency is not None and one_at_a_time and value.unit == "operations/s"
    words = [format_quantity(value.value, value.unit, rate_word)]
    if latency is not None:
        mean = f"mean {format_ns(latency.mean)}"
        words = [mean] if timed else [*words, mean]
        if latency.p99 is not None:
            words.append(f"p99 {format_ns(latency.p99)}")
    words[0] += _apart(measurement, latency.mean if timed and latency else None, rate_word)
    if measurement.rate is not None and rate_word:
        words.insert(1, f"{format_count(measurement.rate.value)} {rate_word}")
    if measurement.validity != "valid":
        words.append(f"{measurement.validity}: {', '.join(measurement.why)}")
    return printable(f"{experiment}  {describe_point(measurement.parameters, axes)}:  " + ", ".join(words))


def _apart(measurement: Measurement, mean_ns: float | None, rate_word: str) -> str:
    """How far apart the repeats are: the interval of the value also counts with other points, which are not read yet.

    ``mean_ns`` is the latency that is printed for the throughput, if one does.
    """
    values, value = measurement.repeat_values, measurement.throughput
    if len(values) < 2 or not value.value:
        return ""
    ends, unit = [min(values), max(values)], value.unit
    apart = (ends[1] - ends[0]) / value.value
    if apart < 1:
        return f" ({len(values)} repeats within {format_percent(apart, precise=True)})"
    if mean_ns is not None and ends[0] > 0:
        ends, unit = [mean_ns * value.value / end for end in reversed(ends)], "ns"
    low, high = (format_quantity(end, unit, rate_word) for end in ends)
    return f" ({len(values)} repeats from {low} to {high})"


class Lines:
    """Progress for a file or a pipe: one line for each event and each point."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._axes: Sequence[Axis] = FIELD_AXES

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def says(self, text: str) -> None:
        """One line for it."""
        self._write(text)

    def begins(self, step: NextReading) -> None:
        """No line: one for each reading would be too many."""
        self._axes = step.axes

    def end_point(self, experiment: str, measurement: Measurement, rate_word: str) -> None:
        """One line with the point's result."""
        self._write(result_line(experiment, measurement, rate_word, self._axes))


class LiveBar:
    """Progress on a terminal; drawn only between readings, so never during a timed region."""

    def __init__(self) -> None:
        self._console = console_on(sys.stderr)
        self._live: Live | None = None
        self._axes: Sequence[Axis] = FIELD_AXES

    def __enter__(self) -> LiveBar:
        from rich.live import Live

        # No refresh thread: it would wake up in timed regions.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.__enter__()
        signals.register(signals.Stage.REMOVE, _show_cursor)
        # While it lives, it takes what is written to stdout and stderr, and would obey orders in it.
        sys.stdout, sys.stderr = Escaping(sys.stdout), Escaping(sys.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
        signals.unregister(_show_cursor)

    def says(self, text: str) -> None:
        """One line above the bar."""
        self._console.print(text, style="dim")

    def begins(self, step: NextReading) -> None:
        """Draw the current state of the bar."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        self._axes = step.axes
        if self._live is None:
            return
        step = printable(step)
        grid = Table.grid(padding=(0, 1))
        for _ in range(4):
            grid.add_column(no_wrap=True, overflow="ellipsis")
        left = f"{format_duration(step.left_s)} left" if step.left_s > 0 else "repeating"
        doing = Text(
            f"{step.experiment}  {describe_point(step.parameters, step.axes)}  repeat {step.repeat}",
            overflow="ellipsis",
        )
        bar = ProgressBar(total=step.total, completed=step.done, width=24)
        grid.add_row(bar, Text(f"{step.done}/{step.total}"), Text(left, style="bold"), doing)
        self._live.update(grid, refresh=True)

    def end_point(self, experiment: str, measurement: Measurement, rate_word: str) -> None:
        """One line with the point's result above the bar."""
        self._console.print(result_line(experiment, measurement, rate_word, self._axes), soft_wrap=True)


def _show_cursor() -> None:
    """Show the cursor that the bar hides, past what the main thread may be writing (DECTCEM)."""
    os.write(2, b"\x1b[?25h\n")


def choose_progress(quiet: bool = False) -> LiveBar | Lines:
    """What fits stderr: a bar on a terminal, lines elsewhere, and nothing at all if ``quiet``."""
    if quiet:
        return _Quiet()
    return LiveBar() if sys.stderr.isatty() else Lines()


class _Quiet(Lines):
    def _write(self, text: str) -> None:
        pass
