"""The pages of `hwdyno serve` beside a run's own: the list of runs, trends, the choice of a comparison, the fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from hwdyno import __version__
from hwdyno.explain.fleet.slow import Slow
from hwdyno.explain.trends.account import Account
from hwdyno.explain.trends.time_series import FigureKey, History
from hwdyno.model.units import format_value, plural
from hwdyno.model.words import Run
from hwdyno.report import figures, page, svg, theme, trends
from hwdyno.report.bars import of_rows
from hwdyno.report.fleet import different_words, slow_words
from hwdyno.report.picture import Picture
from hwdyno.system.printable import printable
from hwdyno.system.store import HistoryEntry

PLACES = (
    ("runs", "/", "Runs"),
    ("trends", "/trends", "Trends"),
    ("compare", "/compare", "Compare"),
    ("fleet", "/fleet", "Fleet"),
)
MAX_CHARTS = 24
"""Figures of a machine that are drawn: the changed ones first; the table has all."""
MAX_FLEET_CHARTS = 8
HEADLINES = 3


def with_places(whole: str, here: str) -> str:
    """A page with the links to the other pages on top."""
    links = "".join(
        f'<a href="{address}"{" aria-current=page" if name == here else ""}>{title}</a>'
        for name, address, title in PLACES
    )
    return whole.replace("<main>", f'<main>\n<nav class="places" aria-label="Pages">{links}</nav>', 1)


def problem(says: str) -> str:
    """A page that says in one line what is wrong."""
    return _render_page("served_problem.html.j2", "Not found", "", says=says)


def runs(
    shown: Sequence[HistoryEntry],
    machines: Mapping[str, str],
    every: Sequence[HistoryEntry],
    chosen: str,
    pages: tuple[int, int],
    running: Sequence[str] = (),
) -> str:
    """The list of Runs, the newest first, below those that are being measured, by their ids."""
    before = _before(every)
    rows = [_run_row(entry, machines, before.get(entry.id, "")) for entry in shown]
    at, last = pages

    def to(number: int) -> str:
        return "/?" + urlencode({**({"machine": chosen} if chosen else {}), "page": number})

    return _render_page(
        "served_runs.html.j2",
        "Runs",
        "runs",
        rows=rows,
        running=[(live_address("/live", run_id), printable(run_id)) for run_id in running],
        chosen=chosen,
        tally=f"{plural(len(every), 'run')} of {plural(len(machines), 'machine')}",
        newer=to(at - 1) if at > 1 else "",
        older=to(at + 1) if at < last else "",
        machines=_machine_links("/", machines),
    )


def live_address(path: str, run_id: str) -> str:
    """The address of what is shown of a Run that is being measured."""
    return f"{path}?{urlencode({'id': run_id})}"


def live(run_id: str, part: str) -> str:
    """The page of a Run that is being measured, with its first part; it asks for the next ones by itself."""
    addresses = {"part": live_address("/live/part", run_id), "ended": live_address("/run", run_id)}
    return _render_page(
        "served_live.html.j2", "Live", "runs", id=printable(run_id), first=part, **addresses, is_live=True
    )


def _before(entries: Sequence[HistoryEntry]) -> dict[str, str]:
    """The id of the run of the same machine before each one."""
    found: dict[str, str] = {}
    newest: dict[str, str] = {}
    for entry in reversed(entries):
        if entry.machine in newest:
            found[entry.id] = newest[entry.machine]
        newest[entry.machine] = entry.id
    return found


def _run_row(entry: HistoryEntry, machines: Mapping[str, str], before: str) -> dict[str, Any]:
    best = [f"{name} {format_value(value, unit)}" for name, value, unit in entry.headline[:HEADLINES]]
    return {
        "id": entry.id,
        "address": "/run?" + urlencode({"id": entry.id}),
        "when": trends.when(entry.started),
        "machine": machines.get(entry.machine, ""),
        "trends": "/trends?" + urlencode({"machine": machines.get(entry.machine, "")}),
        "what": entry.study or entry.profile,
        "verdict": entry.verdict,
        "points": entry.points,
        "headline": best,
        "more": len(entry.headline) > HEADLINES,
        "compare": "/compare?" + urlencode({"before": before, "after": entry.id}) if before else "",
    }


def _machine_links(address: str, machines: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"{address}?{urlencode({'machine': word})}", printable(word)) for word in machines.values()]


def label_figures(stored: Run, shown: Run) -> dict[FigureKey, str]:
    """The names of points by the keys of the stored Run, in the words of the copy that is shown."""
    return dict(zip(trends.label_points(stored), trends.label_points(shown).values(), strict=False))


def trends_page(
    history: History,
    accounts: Sequence[Account],
    labels: Mapping[FigureKey, str],
    machines: Mapping[str, str],
    chosen: str,
) -> str:
    """One machine's history: what changed when, the figures that did, and a table of all."""
    word = machines.get(chosen, "")
    names = {metric.key: printable(trends.name_figure(metric, labels)) for metric, _ in history.trends}
    changed = trends.changed_first(history)
    drawn = [
        _draw_picture(trends.draw_trend(metric, trend, names[metric.key])) for metric, trend in changed[:MAX_CHARTS]
    ]
    events = [
        {
            "head": trends.event_head(event, history),
            "parts": trends.event_parts(event)[: trends.FIRST_EXPERIMENTS],
            "tally": plural(len(trends.event_parts(event)), "experiment"),
            "different": trends.account_words(account),
            "compare": "/compare?" + urlencode({"before": event.last.id, "after": event.first.id}),
            "state": "warning" if event.slower else "info",
        }
        for event, account in zip(history.events, accounts, strict=True)
    ]
    table = [
        [
            names[metric.key],
            len(metric.runs),
            trends.amount(metric.values[-1], metric.unit),
            trends.trend_words(metric, trend),
        ]
        for metric, trend in changed
    ]
    return _render_page(
        "served_trends.html.j2",
        "Trends",
        "trends",
        machine=printable(word),
        machines=_machine_links("/trends", machines),
        heading=trends.heading(history),
        events=printable(events),
        charts=drawn,
        more=max(0, len(changed) - MAX_CHARTS),
        heads=["Figure", "Runs", "Newest", "Trend"],
        table=printable(table),
    )


def choose(entries: Sequence[HistoryEntry], machines: Mapping[str, str], before: HistoryEntry | None) -> str:
    """The Runs to choose from: the first side of a comparison, or the second one."""
    rows = []
    for entry in entries:
        if before is None or entry.id != before.id:
            query = {"before": entry.id} if before is None else {"before": before.id, "after": entry.id}
            rows.append(_run_row(entry, machines, "") | {"address": "/compare?" + urlencode(query)})
    first = _run_row(printable(before), machines, "") if before is not None else None
    return _render_page("served_choose.html.j2", "Compare", "compare", rows=rows, first=first)


def fleet(
    machines: Mapping[str, str],
    newest: Mapping[str, HistoryEntry],
    counts: Mapping[str, int],
    runs_: Mapping[str, Run],
    judged: tuple[str, Sequence[tuple[HistoryEntry, str, Slow]]],
) -> str:
    """Every machine with its newest Run, the slow ones first, and the figures that several have beside each other."""
    heading, slow = judged
    rows = [
        {
            "machine": printable(word),
            "address": "/run?" + urlencode({"id": entry.id}),
            "says": printable(slow_words(slow_node)),
            "different": printable(different_words(slow_node)),
        }
        for entry, word, slow_node in slow
    ]
    cards = []
    for name, word in machines.items():
        run, entry = printable(runs_[name]), printable(newest[name])
        row = _run_row(entry, {entry.machine: word}, "")
        machine = run.machine
        facts = [machine.cpu.model, machine.storage.disk.model, machine.os.kernel and f"kernel {machine.os.kernel}"]
        cards.append(
            row
            | {
                "machine": printable(word),
                "trends": "/trends?" + urlencode({"machine": word}),
                "facts": [fact for fact in facts if fact],
                "runs": plural(counts[name], "run"),
            }
        )
    charts = [_draw_picture(picture) for picture in _side_by_side(machines, newest)]
    return _render_page(
        "served_fleet.html.j2", "Fleet", "fleet", cards=cards, charts=charts, heading=heading, slow=rows
    )


def _side_by_side(machines: Mapping[str, str], newest: Mapping[str, HistoryEntry]) -> list[Picture]:
    """The best figure of each experiment that several machines have, a bar each."""
    found: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for name, word in machines.items():
        for experiment, value, unit in newest[name].headline:
            found.setdefault((experiment, unit), []).append((printable(word), value))
    shared = sorted((pair for pair in found.items() if len(pair[1]) > 1), key=lambda pair: -len(pair[1]))
    pictures = []
    for (experiment, unit), values in shared[:MAX_FLEET_CHARTS]:
        scale = figures.scale_for([value for _, value in values], unit)
        rows = [
            {
                "name": word,
                "series": "",
                "y": value / scale.divisor,
                "text": scale.quantity(value),
                "tip": (("machine", word), ("newest", trends.amount(value, unit))),
            }
            for word, value in values
        ]
        which = "lower is better" if unit == "ns" else "higher is better"
        picture = of_rows(printable(experiment), f"Newest run of each machine; {which}.", scale.unit, rows, ("",))
        pictures += [picture] if picture is not None else []
    return pictures


def _draw_picture(picture: Picture) -> dict[str, Any]:
    drawing = svg.draw(picture, theme.paint(page=True))
    return {"name": "", "title": picture.title, "caption": picture.caption, "drawings": [drawing]}


def _render_page(template: str, title: str, here: str, *, is_live: bool = False, **context: Any) -> str:
    frame = {"title": f"{title} – hwdyno", "version": __version__, "contents": [], "data": ""}
    return with_places(page.render_page(template, frame | context, is_live=is_live), here)
