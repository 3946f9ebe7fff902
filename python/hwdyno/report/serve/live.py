"""Runs that are being measured, in `hwdyno serve`: read from their journals as they grow, at a bounded cost."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwdyno.model.units import format_value, plural
from hwdyno.model.words import ExperimentResult, Run
from hwdyno.report import served, svg, theme
from hwdyno.report.charts import first_chart
from hwdyno.report.page import render_part
from hwdyno.report.redaction import without_names
from hwdyno.report.serve.http_server import HttpResponse
from hwdyno.system.printable import printable
from hwdyno.system.store import JournalReader, Store, StoreError

SHORTEST_WAIT_S = 1.5
"""Shortest time from one look at a journal to the next."""
CPU_SHARE = 0.004
"""Share of a core that looking and drawing may take: what took longer waits longer until the next time."""
CHARTS = 4
"""Experiments that are drawn: those that had a point last."""
MAX_FOLLOWED = 8
"""Runs that are followed at once."""


class LiveRuns:
    """The Runs of a store that are being measured on this machine."""

    def __init__(self, store: Store, *, with_names: bool) -> None:
        self._store, self._with_names = store, with_names
        self._followed: dict[str, FollowedRun] = {}
        self._adding = threading.Lock()

    def ids(self) -> list[str]:
        """Their names, the newest first."""
        return [path.stem for path in self._store.running()]

    def page(self, run_id: str) -> str:
        """The page of one; raises ``StoreError`` where it is not being measured."""
        return served.live(run_id, self._find(run_id).fragment().body)

    def fragment(self, run_id: str) -> HttpResponse:
        """What changes on that page; raises ``StoreError`` likewise."""
        return self._find(run_id).fragment()

    def _find(self, run_id: str) -> FollowedRun:
        """The Run of a whole id: no name is a path here."""
        path = self._store.running_journal(run_id)
        with self._adding:
            if run_id not in self._followed:
                running = set(self.ids())
                self._followed = {name: followed for name, followed in self._followed.items() if name in running}
                if len(self._followed) >= MAX_FOLLOWED:
                    raise StoreError(f"{MAX_FOLLOWED} runs are shown live already; try again when one has ended")
                self._followed[run_id] = FollowedRun(path, with_names=self._with_names)
            return self._followed[run_id]


class FollowedRun:
    """One Run as it grows: what is shown of it, made again when its journal has more and its time allows."""

    def __init__(self, path: Path, *, with_names: bool) -> None:
        self._journal, self._with_names = JournalReader(path), with_names
        self._drawn: dict[str, tuple[str, dict[str, Any]]] = {}
        """The chart of each experiment by what it was drawn from."""
        self._making = threading.Lock()
        self._due_s = 0.0
        self._fragment = HttpResponse("")

    def fragment(self) -> HttpResponse:
        """What is shown now; viewers that come meanwhile get the same."""
        with self._making:
            if time.monotonic() >= self._due_s:
                began_s, is_first = time.thread_time(), not self._fragment.body
                self._look()
                # The first look also loads what draws, once.
                wait_s = 0.0 if is_first else (time.thread_time() - began_s) / CPU_SHARE
                self._due_s = time.monotonic() + max(SHORTEST_WAIT_S, wait_s)
            return self._fragment

    def _look(self) -> None:
        try:
            has_more = self._journal.read_more()
            written_s = self._journal.path.stat().st_mtime
        except OSError:  # It ended just now.
            return
        if has_more or not self._fragment.body:
            tag = f"{sum(self._journal.lines.values())}-{self._journal.lost}"
            self._fragment = HttpResponse(render_part("served_live_part.html.j2", self._context(written_s)), tag=tag)

    def _context(self, written_s: float) -> dict[str, Any]:
        run, left_s = self._journal.run, self._journal.left_s
        last = list(reversed(self._journal.lines))
        # In the order of the plan: a chart must not change its place with each point.
        shown = [experiment.name for experiment in run.experiments if experiment.name in last[:CHARTS]]
        charts = [chart for name in shown if (chart := self._chart(run, name)) is not None]
        done = sum(len(experiment.points) for experiment in run.experiments)
        planned = max(done, sum(experiment.planned for experiment in run.experiments))
        return {
            "until": "" if left_s is None else f"{written_s + left_s:.0f}",
            "tally": f"{done} of {plural(planned, 'point')} measured",
            "heads": ["Experiment", "Points", "Best so far"],
            "table": [_row(printable(experiment)) for experiment in run.experiments],
            "charts": charts,
            "host_heads": ["Host", "Newest point", "State"],
            "hosts": self._hosts(run, last),
        }

    def _chart(self, run: Run, name: str) -> dict[str, Any] | None:
        """The first chart of an experiment; drawn anew where it has more lines."""
        tag = str(self._journal.lines[name])
        known = self._drawn.get(name)
        if known is None or known[0] != tag:
            alone = self._hide_names(replace(run, experiments=(self._journal.experiment(name),)))
            chart = first_chart(alone, 0)
            if chart is None:
                return None
            drawing = svg.draw(chart.picture, theme.paint(page=True))
            known = self._drawn[name] = (
                tag,
                {
                    "tag": tag,
                    "name": chart.name,
                    "experiment": alone.experiments[0].asks or alone.experiments[0].name,
                    "title": chart.title,
                    "caption": chart.caption,
                    "drawings": [drawing],
                },
            )
        return known[1]

    def _hosts(self, run: Run, last: list[str]) -> list[tuple[str, str, str]]:
        """Each host of a site with its part of the point that ended last; none for one machine alone."""
        if len(run.machines) < 2 or not last:
            return []
        alone = self._hide_names(replace(run, experiments=(self._journal.experiment(last[0]),)))
        points = alone.experiments[0].points
        shares = {share.host: share for share in points[-1].hosts} if points else {}
        rows = []
        for machine in alone.machines:
            name = machine.hostname or "unnamed"
            share = shares.get(name)
            reached = format_value(share.throughput.value, share.throughput.unit) if share else ""
            rows.append((name, reached, (share.failure if share else "") or ("measures" if share else "waits")))
        return rows

    def _hide_names(self, run: Run) -> Run:
        return printable(run if self._with_names else without_names(run))


def _row(experiment: ExperimentResult) -> tuple[str, str, str]:
    judged = [experiment.judged_value(point) for point in experiment.points]
    best = max(judged, key=lambda value: -value.value if value.unit in {"ns", "s"} else value.value, default=None)
    reached = "" if best is None else format_value(best.value, best.unit)
    return experiment.name, f"{len(experiment.points)} of {max(experiment.planned, len(experiment.points))}", reached
