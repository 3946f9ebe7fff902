"""What a machine's newest Run shows of it for the first time: changes and drifts that the history before had not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from hwdyno.explain.trends.change_points import MIN_SIDE, Trend
from hwdyno.explain.trends.time_series import Event, History, HistoryRow, Metric, make_history

MAX_RUNS = 120
"""Runs that are looked at: the search for changes takes the square of their number."""
STRICTNESS = 10.0
"""A history is judged after each Run, and not once on request: each judgement may be wrong by chance."""
CONFIRMED, DRIFT_CONFIRMED = 2, 4
"""Runs in a row whose histories must have a change or a drift: a young step looks like a drift."""
SAME_PLACE = 2 * MIN_SIDE
"""Runs apart that two dates of one change may be: the fewer runs a level has, the less exact is its begin."""
LOOK_BACK = 5
"""Runs before the newest at which it must not have been confirmed: near its limit it comes and goes."""


@dataclass(frozen=True, slots=True)
class News:
    """A machine's history, and what of it is new with its newest Run."""

    history: History
    events: tuple[Event, ...]
    """The newest first."""
    drifts: tuple[tuple[Metric, Trend], ...]

    @property
    def slower(self) -> int:
        """How many figures became worse."""
        return sum(event.slower for event in self.events) + sum(map(_is_worse, self.drifts))

    @property
    def faster(self) -> int:
        """How many figures became better."""
        return sum(len(event.changes) for event in self.events) + len(self.drifts) - self.slower


def find_news(rows: Iterable[HistoryRow], machine: str) -> News:
    """What is new with the newest Run of the machine of that name among its last ``MAX_RUNS``."""
    mine = sorted((row for row in rows if row[0].machine == machine), key=lambda row: (row[0].started, row[0].id))
    past = _Past(mine, machine)
    history = past.history(0)
    events = [event for event in history.events if _is_new(partial(past.has_event, event), CONFIRMED)]
    drifting = [pair for pair in history.trends if pair[1].drift is not None]
    drifts = [pair for pair in drifting if _is_new(partial(past.has_drift, pair[0]), DRIFT_CONFIRMED)]
    return News(history, tuple(events), tuple(drifts))


def _is_new(is_found: Callable[[int], bool], confirmed: int) -> bool:
    """Whether a change is confirmed in the newest history, and in none before; ``is_found`` takes how many Runs ago."""

    def is_confirmed(back: int) -> bool:
        return all(is_found(back + more) for more in range(confirmed))

    return is_confirmed(0) and not any(is_confirmed(back) for back in range(1, LOOK_BACK + 1))


class _Past:
    """The histories of a machine as they were at its last Runs; each is made when it is needed."""

    def __init__(self, rows: Sequence[HistoryRow], machine: str) -> None:
        self._rows, self._machine = rows, machine
        self._made: dict[int, History] = {}
        self._place = {entry.id: at for at, (entry, _) in enumerate(rows)}

    def history(self, back: int) -> History:
        """The history this many Runs ago."""
        if back not in self._made:
            end = max(0, len(self._rows) - back)
            rows = self._rows[max(0, end - MAX_RUNS) : end]
            self._made[back] = make_history(rows, self._machine, strictness=STRICTNESS)
        return self._made[back]

    def has_event(self, event: Event, back: int) -> bool:
        """Whether that history has this change: it may be dated a few Runs apart."""
        return any(
            abs(self._place[event.first.id] - self._place[known.first.id]) <= SAME_PLACE
            and _is_mostly_slower(event) == _is_mostly_slower(known)
            for known in self.history(back).events
        )

    def has_drift(self, metric: Metric, back: int) -> bool:
        """Whether that history has this figure drift."""
        return any(known.key == metric.key and trend.drift is not None for known, trend in self.history(back).trends)


def _is_mostly_slower(event: Event) -> bool:
    return 2 * event.slower > len(event.changes)


def _is_worse(pair: tuple[Metric, Trend]) -> bool:
    metric, trend = pair
    return trend.drift is not None and (trend.drift.value > 1) == metric.less_is_better
