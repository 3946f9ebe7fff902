"""Every chart of a Run, described once; the page, the pictures and the paper all draw these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from hwdyno.analysis.curves import is_loaded
from hwdyno.explain.findings.snia import is_rounds
from hwdyno.model.words import ExperimentResult, Run
from hwdyno.report import bars, distributions, open_closed, plots, roofline, snia
from hwdyno.report.picture import Picture
from hwdyno.report.rows import ChartSeries, by_unit, is_number, list_series, make_label, point_load, varying
from hwdyno.system.failures import attempt

MAX_SERIES = 8
"""Most lines of one chart: more are not distinguishable."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart by its name (fit for a file)."""

    name: str
    experiment: int
    """Index of its experiment in the Run."""
    picture: Picture

    @property
    def title(self) -> str:
        """What it shows in a few words."""
        return self.picture.title

    @property
    def caption(self) -> str:
        """How to read it, in a sentence or two."""
        return self.picture.caption


def list_charts(run: Run) -> list[Chart]:
    """All charts of a Run, in the order of its experiments; none for a point alone."""
    return [
        chart
        for at in range(len(run.experiments))
        for part in (_of_experiment, _roofline)
        for chart in attempt(f"the charts of {run.experiments[at].name}", partial(_list, part, run, at), ())
    ]


def first_chart(run: Run, at: int) -> Chart | None:
    """The first chart of an experiment; the others are not drawn."""
    return next(_of_experiment(run, at), None)


def _list(part: Callable[[Run, int], Iterator[Chart]], run: Run, at: int) -> list[Chart]:
    return list(part(run, at))


def _roofline(run: Run, at: int) -> Iterator[Chart]:
    for drawn in (roofline.draw_roofline(run), roofline.drawn_of_gpu(run)):
        if drawn is not None and drawn[0] == at:
            yield Chart(f"{at + 1}-roofline", at, drawn[1])


def _of_experiment(run: Run, at: int) -> Iterator[Chart]:
    experiment = run.experiments[at]
    if not experiment.points:
        return
    stem = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in experiment.name
    )
    stem = f"{at + 1}-{stem.strip('-')[:40] or 'experiment'}"

    def make_chart(kind: str, draw: Callable[[], Picture | None], part: str = "") -> Iterator[Chart]:
        drawn = attempt(f"the chart {kind} of {experiment.name}", draw, None)
        if drawn is not None:
            titled = replace(drawn, title=f"{drawn.title}: {part}") if part else drawn
            yield Chart(f"{stem}-{kind}", at, titled)

    if is_rounds(experiment):
        yield from make_chart("convergence", partial(snia.convergence, experiment))
        return
    yield from make_chart("open-closed", partial(open_closed.draw_loops, run, experiment))
    chosen = distributions.chosen_points(experiment)
    grid = experiment.name.endswith(".grid")
    alike = by_unit(experiment)
    if grid:
        for number, result in enumerate(alike):
            suffix, unit = (f"-{number + 1}", result.points[0].throughput.unit) if len(alike) > 1 else ("", "")
            yield from make_chart(f"tests{suffix}", partial(bars.tests, result), unit)
    else:
        groups = [(result, part, group) for result in alike for part, group in split_series(result)]
        for number, (result, part, group) in enumerate(groups):
            unit = result.points[0].throughput.unit if len(alike) > 1 else ""
            suffix = f"-{number + 1}" if part or unit else ""
            for kind, draw in choose_kinds(result, group):
                yield from make_chart(kind + suffix, partial(draw, result, group), part or unit)
    yield from make_chart("percentiles", partial(distributions.percentiles, experiment, chosen))
    yield from make_chart("samples", partial(distributions.samples, experiment, chosen))


Draw = Callable[[ExperimentResult, list[ChartSeries]], Picture | None]


def choose_kinds(experiment: ExperimentResult, group: list[ChartSeries]) -> list[tuple[str, Draw]]:
    """Lines where the load is a quantity with enough values to follow, bars where it is a word."""
    loads = {point_load(experiment, at) for series in group for at in series.points}
    if is_loaded(experiment) and len(loads) >= 3:
        return [("tradeoff", plots.tradeoff)]
    if experiment.metric == "latency":
        many = len(loads) >= 3 and all(is_number(load) for load in loads)
        return [("latency", plots.latency if many else bars.latency)]
    if len(loads) >= 3 and all(is_number(load) for load in loads):
        return [("throughput", plots.throughput), ("latency", plots.latency), ("tradeoff", plots.tradeoff)]
    if sum(len(series.points) for series in group) < 2:
        return []
    return [("throughput", bars.throughput), ("latency", bars.latency)]


def split_series(experiment: ExperimentResult) -> list[tuple[str, list[ChartSeries]]]:
    """The series in groups of at most eight, split by the axes with the fewest values; the words name the groups."""
    series = list_series(experiment)
    if len(series) <= MAX_SERIES:
        return [("", series)]
    names = varying([member.parameters for member in series])
    # The axis with most values below the limit stays inside a chart; the others part the charts.
    counts = {name: len({repr(member.parameters.get(name)) for member in series}) for name in names}
    inside = max((name for name in names if counts[name] <= MAX_SERIES), key=lambda name: counts[name], default="")
    outside = [name for name in names if name != inside]
    groups: dict[str, list[ChartSeries]] = {}
    for member in series:
        groups.setdefault(make_label(member.parameters, outside, experiment.declaration), []).append(member)
    result = []
    for words, members in groups.items():
        for start in range(0, len(members), MAX_SERIES):
            some = [
                replace(member, label=make_label(member.parameters, [inside], experiment.declaration))
                for member in members[start : start + MAX_SERIES]
            ]
            more = f"from series {start + 1}" if len(members) > MAX_SERIES else ""
            result.append((" · ".join(filter(None, [words, more])) or "all", some))
    return result
