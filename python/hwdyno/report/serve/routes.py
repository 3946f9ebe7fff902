"""The pages of `hwdyno serve`: which path shows what, from the store at the time of the request."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from hwdyno.explain.comparison import runs_compared
from hwdyno.explain.fleet.slow import judge_fleet, list_nodes, node_name
from hwdyno.explain.trends.account import make_account
from hwdyno.explain.trends.time_series import make_history
from hwdyno.formats import openmetrics
from hwdyno.model.words import Run
from hwdyno.report import compared_page, page, served
from hwdyno.report.fleet import heading as fleet_heading
from hwdyno.report.redaction import without_names
from hwdyno.report.serve.http_server import NOTHING_LOADED, HttpResponse
from hwdyno.report.serve.live import LiveRuns
from hwdyno.system.printable import printable
from hwdyno.system.store import HistoryEntry, Store, StoreError

RUNS_A_PAGE = 100
MAX_MACHINES = 60
"""Machines of the fleet that are shown, and in the metrics."""
MAX_PLANS = 4
"""Plans of a machine whose newest Runs are in the metrics."""
KEPT_RUNS, KEPT_PAGES = 64, 16
LARGE_BYTES = 4 << 20
"""Size of a Run's document, from which on its page is made by another process."""

_FRAME = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')


class Pages:
    """All pages of one store; Runs never change, so the last ones that were read are kept."""

    def __init__(self, store: Store, *, with_names: bool, has_metrics: bool = False) -> None:
        self._store, self._with_names, self._has_metrics = store, with_names, has_metrics
        self._live = LiveRuns(store, with_names=with_names)
        self._making: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._load = lru_cache(maxsize=KEPT_RUNS)(self._read)
        self._samples = lru_cache(maxsize=MAX_MACHINES * MAX_PLANS)(
            lambda path: openmetrics.list_samples(self._read(path))
        )
        self._run_page = lru_cache(maxsize=KEPT_PAGES)(self._render_run)

    def answer(self, path: str, query: dict[str, str]) -> HttpResponse:
        """The page at a path; a wrong one names what is there."""
        found: dict[str, Callable[[dict[str, str]], str]] = {
            "/": self._runs,
            "/run": self._run,
            "/trends": self._trends,
            "/compare": self._compare,
            "/fleet": self._fleet,
            "/live": lambda query: self._live.page(query.get("id", "")),
        }
        try:
            if path == "/live/part":
                return self._live.fragment(query.get("id", ""))
            if path == "/metrics" and self._has_metrics:
                return HttpResponse(self._metrics(), kind=openmetrics.TYPE)
            if path not in found:
                return self._problem("there is no such page", HTTPStatus.NOT_FOUND)
            return _frame_page(found[path](query))
        except StoreError as error:
            return self._problem(str(error), HTTPStatus.NOT_FOUND)

    def _problem(self, says: str, status: HTTPStatus) -> HttpResponse:
        return _frame_page(served.problem(printable(says)), status)

    def _entries(self) -> list[HistoryEntry]:
        """Newest first by when they started: an imported Run's id does not say when."""
        found = [entry for entry in self._store.history() if entry.verdict not in {"running", "unreadable"}]
        return sorted(found, key=_age, reverse=True)

    def _machines(self, entries: list[HistoryEntry]) -> dict[str, str]:
        """What each machine is called: by its name, or by a number in the order of the first Runs."""
        names = dict.fromkeys(entry.machine for entry in reversed(entries))
        return {name: name if self._with_names else f"machine-{at}" for at, name in enumerate(names, 1)}

    def _read(self, path: str) -> Run:
        run = self._store.load(path)
        return run if self._with_names else without_names(run)

    def _entry(self, query: dict[str, str], field: str, entries: list[HistoryEntry]) -> HistoryEntry:
        """The Run that a query names by its whole id: no name is a path here."""
        wanted = query.get(field, "")
        found = next((entry for entry in entries if entry.id == wanted), None)
        if found is None:
            raise StoreError("there is no such run; the list of runs has those that are stored")
        return found

    def _runs(self, query: dict[str, str]) -> str:
        entries = self._entries()
        machines = self._machines(entries)
        chosen = next((name for name, word in machines.items() if word == query.get("machine")), None)
        some = [entry for entry in entries if chosen is None or entry.machine == chosen]
        number = query.get("page", "1")
        at = int(number) if number.isascii() and number.isdecimal() and 0 < len(number) < 7 else 1
        last = max(1, -(-len(some) // RUNS_A_PAGE))
        at = min(max(1, at), last)
        shown = some[(at - 1) * RUNS_A_PAGE : at * RUNS_A_PAGE]
        pages, word = (at, last), machines.get(chosen or "", "")
        return served.runs(printable(shown), machines, entries, word, pages, self._live.ids())

    def _run(self, query: dict[str, str]) -> str:
        path = self._entry(query, "id", self._entries()).path
        # Two that ask for one run wait for one another, and for no one else.
        with self._making[path]:
            return self._run_page(path)

    def _render_run(self, path: str) -> str:
        is_large = Path(path).is_file() and Path(path).stat().st_size > LARGE_BYTES
        return served.with_places(self._rendered_apart(path) if is_large else page.html(self._load(path)), "runs")

    def _rendered_apart(self, path: str) -> str:
        """The page of a large Run, made by another process: reading it would hold the interpreter for seconds."""
        words = ["--with-names"] if self._with_names else []
        name = write_page.__name__
        line = [sys.executable, "-c", f"from {__name__} import {name}; {name}()", path, *words]
        done = subprocess.run(line, capture_output=True, check=False)
        if done.returncode != 0:
            why = done.stderr.decode(errors="replace").strip().splitlines()
            raise StoreError(why[-1] if why else "its page could not be made")
        return done.stdout.decode()

    def _trends(self, query: dict[str, str]) -> str:
        rows = self._store.figures()
        entries = self._entries()
        machines = self._machines(entries)
        chosen = next((name for name, word in machines.items() if word == query.get("machine")), None)
        if chosen is None:
            chosen = entries[0].machine if entries else ""
        history = make_history(rows, chosen, query.get("metric", "")[:200])
        accounts = [make_account(event, history.runs, self._load) for event in history.events]
        labels = {}
        if history.runs:
            path = history.runs[-1].path
            labels = served.label_figures(self._store.load(path), self._load(path))
        return served.trends_page(history, accounts, labels, machines, chosen)

    def _metrics(self) -> str:
        """The newest Run of each machine and plan, which is its command line."""
        entries = self._entries()
        words = self._machines(entries)
        newest: dict[str, dict[str, HistoryEntry]] = {}
        for entry in entries:
            plans = newest.setdefault(entry.machine, {})
            if len(plans) < MAX_PLANS and len(newest) <= MAX_MACHINES:
                plans.setdefault(entry.command, entry)
        found = [entry for plans in newest.values() for entry in plans.values()]
        return openmetrics.format_newest((words[entry.machine], self._samples(entry.path)) for entry in found)

    def _compare(self, query: dict[str, str]) -> str:
        entries = self._entries()
        machines = self._machines(entries)
        if not query.get("before"):
            return served.choose(printable(entries), machines, None)
        before = self._entry(query, "before", entries)
        if not query.get("after"):
            return served.choose(printable(entries), machines, before)
        after = self._entry(query, "after", entries)
        side = runs_compared(self._load(before.path), self._load(after.path), after.id)
        if not side.changes:
            return served.problem("these runs have no point in common, so there is nothing to compare")
        return served.with_places(compared_page.html(before.id, [side]), "compare")

    def _fleet(self, query: dict[str, str]) -> str:
        entries = self._entries()
        words = self._machines(entries)
        newest: dict[str, HistoryEntry] = {}
        counts: dict[str, int] = {}
        for entry in entries:
            name = node_name(entry.machine)
            newest.setdefault(name, entry)
            counts[name] = counts.get(name, 0) + 1
        order = list(words)
        shown = sorted(list(newest)[:MAX_MACHINES], key=lambda name: order.index(newest[name].machine))
        machines = {name: words[newest[name].machine] for name in shown}
        runs = {name: self._load(newest[name].path) for name in machines}
        found = judge_fleet(list_nodes(self._store.figures()), self._load)
        slow = [
            (newest[slow_node.node.name], words[slow_node.node.entry.machine], slow_node) for slow_node in found.slow
        ]
        more = f" The {len(machines)} with the newest runs are shown." if len(newest) > len(machines) else ""
        return served.fleet(machines, newest, counts, runs, (fleet_heading(found) + more, slow))


def write_page() -> None:
    """The body of the separate process: the page of the Run in a file, to stdout; without names by default."""
    path, *words = sys.argv[1:]
    run = Store(Path(path).parent.parent).load(Path(path))
    sys.stdout.buffer.write(page.html(run if words else without_names(run)).encode())


def _frame_page(body: str, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    """A page with its policy in the header too, where no frame may hold it."""
    stated = _FRAME.search(body[:20_000])
    policy = stated[1].replace("&#39;", "'") + "; frame-ancestors 'none'" if stated else NOTHING_LOADED
    return HttpResponse(body, policy, status=status)


def _age(entry: HistoryEntry) -> tuple[str, str]:
    return entry.started, entry.id
