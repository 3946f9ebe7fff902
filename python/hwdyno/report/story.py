"""The three to five charts that tell what this machine is like, before any resource is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hwdyno.analysis.estimates import larger_side
from hwdyno.analysis.resources import find
from hwdyno.explain.findings.rule import USELESS
from hwdyno.model.words import ExperimentResult, Run
from hwdyno.report import figures, plots, roofline, svg
from hwdyno.report.bars import of_rows
from hwdyno.report.charts import list_charts, split_series
from hwdyno.report.headlines import MARKS, Headline, headlines
from hwdyno.report.picture import Picture
from hwdyno.report.rows import is_number, point_load

MAX_CHARTS, MIN_CHARTS = 5, 3
"""Figures of a story."""
MIN_LOADS = 3
"""Points of a curve that is worth a story."""


@dataclass(frozen=True, slots=True)
class ChartGroup:
    """One or two pictures above each other, with one title."""

    name: str
    title: str
    caption: str
    pictures: tuple[Picture, ...]


def make_story(run: Run) -> list[ChartGroup]:
    """The figures in the order in which they are read; charts of single experiments fill up where there are few."""
    made = list(_figures(run))[:MAX_CHARTS]
    several = len({experiment.resource for experiment in run.experiments}) > 1
    for chart in list_charts(run):
        if len(made) >= MIN_CHARTS:
            break
        experiment = run.experiments[chart.experiment]
        taken = {picture.title for figure in made for picture in figure.pictures}
        title = f"{find(experiment.resource).title}: {_lower(chart.title)}" if several else chart.title
        if chart.title not in taken and not chart.name.endswith(("percentiles", "samples")):
            made.append(ChartGroup(chart.name, title, chart.caption, (chart.picture,)))
    return made


def _figures(run: Run) -> Iterator[ChartGroup]:
    shares = _shares(run)
    if shares is not None:
        yield ChartGroup("shares", shares.title, shares.caption, (shares,))
    depth = next(_by_depth(run), None)
    if depth is not None:
        yield depth
    working_set = next(_by_size(run), None)
    if working_set is not None:
        yield working_set
    roofs = roofline.draw_roofline(run)
    if roofs is not None:
        yield ChartGroup("roofline", roofs[1].title, roofs[1].caption, (roofs[1],))


def _lower(title: str) -> str:
    return title[:1].lower() + title[1:]


def _shares(run: Run) -> Picture | None:
    """Each headline as a share of its ceiling, or of the run's own best where no hardware tells one."""
    _, every = headlines(run)
    known = [row for row in every if row.share is not None and row.state != "invalid"]
    if len(known) < 2:
        return None
    several = len({row.resource for row in known}) > 1
    rows = [_share(run, row, several) for row in known]
    caption = "100% is what the link, the data sheet or the instruction set allows"
    if best := dict.fromkeys(row.share.reference for row in known if row.share and row.share.reference):
        caption += f"; where the hardware tells nothing, the {' and the '.join(best)} of this run"
    return of_rows("Share of the ceiling reached", f"{caption}.", "% of the ceiling", rows, ("share",), reach=100.0)


def _share(run: Run, row: Headline, several: bool) -> dict[str, Any]:
    assert row.share is not None
    percent = 100 * row.share.of_ceiling
    value = run.experiments[row.experiment].points[row.point].throughput
    half = larger_side(value)
    is_known = half is not None and half <= USELESS
    ends = [percent * end / value.value if is_known and end is not None else None for end in (value.low, value.high)]
    mark = MARKS.get(row.state, " ?")
    return {
        "name": (f"{row.resource}: " if several else "") + row.title + mark,
        "series": "share",
        "y": percent,
        "low": ends[0],
        "high": ends[1],
        "text": f"{figures.percent(row.share.of_ceiling)}{f' of {row.share.reference}' if row.share.reference else ''}",
        "tip": (("test", row.title), ("measured", row.value), ("ceiling", row.share.ceiling)),
    }


def _by_depth(run: Run) -> Iterator[ChartGroup]:
    """Throughput above p99 by load, of the first experiment along a concurrency that knows both; storage first."""
    for experiment in sorted(run.experiments, key=lambda experiment: experiment.resource != "storage"):
        if experiment.load_axis.role != "concurrency" or not _is_followed(experiment):
            continue
        group = [series for series in split_series(experiment)[0][1] if len(series.points) >= MIN_LOADS]
        if not group:
            continue
        above, below = plots.throughput(experiment, group), plots.tail(experiment, group)
        if above is None or below is None:
            continue
        axis = experiment.load_axis
        title = f"{find(experiment.resource).title}: throughput and p99 by {axis.words}"
        caption = f"{above.caption} Below: {_lower(below.caption)}"
        margin = max(svg.label_margin(above), svg.label_margin(below))
        bare = replace(above, x=replace(above.x, title=""), series=(), height=165.0, margin=margin)
        # A point without a latency is missing below: both have one axis, so that a load is in one place.
        below = replace(below, x=replace(above.x, title=below.x.title), height=130.0, margin=margin)
        yield ChartGroup("depth", title, caption, (bare, below))


def _by_size(run: Run) -> Iterator[ChartGroup]:
    """Latency by the bytes that are touched."""
    for experiment in run.experiments:
        if experiment.metric == "latency" and experiment.load_axis.unit == "B" and _is_followed(experiment):
            picture = plots.latency(experiment, split_series(experiment)[0][1])
            if picture is not None:
                title = f"{find(experiment.resource).title}: {_lower(picture.title)}"
                yield ChartGroup("working-set", title, picture.caption, (picture,))


def _is_followed(experiment: ExperimentResult) -> bool:
    """Whether there are three loads or more, all of them quantities, and latencies."""
    loads = {point_load(experiment, at) for at in range(len(experiment.points))}
    return (
        len(loads) >= MIN_LOADS and all(map(is_number, loads)) and any(point.latency_ns for point in experiment.points)
    )
