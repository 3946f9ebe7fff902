"""The figures of one machine as series over its Runs, and the changes in them that came at one time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwdyno.explain.findings import OF_OTHERS
from hwdyno.explain.trends.change_points import ChangePoint, Trend, find_trends
from hwdyno.model.axes import FREE, PLACES
from hwdyno.model.words import Parameters
from hwdyno.system.store import HistoryEntry, PointFigure

HistoryRow = tuple[HistoryEntry, Sequence[PointFigure]]
"""A Run with its figures."""
FigureKey = tuple[str, str]
"""An experiment's name, and what tells its points and units apart."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One point of an experiment over the runs that measured it, oldest first."""

    key: FigureKey
    experiment: str
    resource: str
    parameters: Parameters
    unit: str
    runs: tuple[HistoryEntry, ...]
    values: tuple[float, ...]

    @property
    def less_is_better(self) -> bool:
        """Whether it is a time."""
        return self.unit in {"ns", "s"}


@dataclass(frozen=True, slots=True)
class Event:
    """The figures whose level changed at one run."""

    last: HistoryEntry
    """The last run before it."""
    first: HistoryEntry
    """The first run of the new levels."""
    changes: tuple[tuple[Metric, ChangePoint], ...]

    @property
    def slower(self) -> int:
        """How many of its figures became worse."""
        return sum((change.ratio.value > 1) == metric.less_is_better for metric, change in self.changes)


@dataclass(frozen=True, slots=True)
class History:
    """A machine's Runs with the trend of each figure that several of them share, and what happened when."""

    machine: str
    runs: tuple[HistoryEntry, ...]
    trends: tuple[tuple[Metric, Trend], ...]
    events: tuple[Event, ...]
    """The newest first."""
    left_out: int = 0
    """Values that were measured beside other load, and count for no trend."""


def figure_key(experiment: str, kernel: str, parameters: Mapping[str, object], unit: str) -> FigureKey:
    """The same for points of different runs that are one figure."""
    like = {name: value for name, value in parameters.items() if name not in FREE | PLACES}
    return experiment, json.dumps([kernel, like, unit], sort_keys=True, default=str)


def make_history(rows: Iterable[HistoryRow], machine: str, metric: str = "", strictness: float = 1.0) -> History:
    """The history of the machine of that name; ``metric`` is a part of the names of the figures to look at.

    ``strictness`` divides the rate of false changes.
    """
    mine = [(entry, figures) for entry, figures in rows if entry.machine == machine]
    mine.sort(key=lambda pair: (pair[0].started, pair[0].id))
    found: dict[FigureKey, list[tuple[HistoryEntry, PointFigure]]] = {}
    for entry, figures in mine:
        taken: set[FigureKey] = set()
        for figure in figures:
            key = figure_key(figure.experiment, figure.kernel, figure.parameters, figure.unit)
            if key not in taken and metric.lower() in " ".join([figure.experiment, key[1]]).lower():
                taken.add(key)
                found.setdefault(key, []).append((entry, figure))
    quiet = {key: _without_disturbed(some) for key, some in found.items()}
    metrics = {key: _metric(key, some) for key, some in quiet.items() if len(some) > 1}
    trends = find_trends({key: found_metric.values for key, found_metric in metrics.items()}, strictness)
    runs = tuple(entry for entry, _ in mine)
    pairs = tuple((found_metric, trends[key]) for key, found_metric in metrics.items())
    left_out = sum(len(some) - len(quiet[key]) for key, some in found.items())
    return History(machine, runs, pairs, tuple(_events(runs, pairs)), left_out)


def _without_disturbed(some: list[tuple[HistoryEntry, PointFigure]]) -> list[tuple[HistoryEntry, PointFigure]]:
    """The values that no other load disturbed; all of them where most were, as a machine that is always busy is."""
    quiet = [pair for pair in some if not OF_OTHERS & set(pair[1].why)]
    return quiet if 2 * len(quiet) >= len(some) else some


def _metric(key: FigureKey, some: Sequence[tuple[HistoryEntry, PointFigure]]) -> Metric:
    newest = some[-1][1]
    return Metric(
        key,
        newest.experiment,
        newest.resource,
        newest.parameters,
        newest.unit,
        tuple(entry for entry, _ in some),
        tuple(figure.value for _, figure in some),
    )


def _events(runs: Sequence[HistoryEntry], pairs: Sequence[tuple[Metric, Trend]]) -> list[Event]:
    """The changes by the run at which most of them came; those one run beside belong to it."""
    place = {entry.id: at for at, entry in enumerate(runs)}
    changes = [
        (place[metric.runs[change.at].id], metric, change) for metric, trend in pairs for change in trend.changes
    ]
    times = Counter(at for at, _, _ in changes)
    found = []
    while times:
        at = max(times, key=lambda position: (times[position], position))
        members = tuple(
            (metric, change) for where, metric, change in changes if where in times and abs(where - at) <= 1
        )
        found.append(Event(runs[at - 1], runs[at], members))
        for near in (at - 1, at, at + 1):
            times.pop(near, None)
    return sorted(found, key=lambda event: (event.first.started, event.first.id), reverse=True)
