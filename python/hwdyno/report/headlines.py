"""The figures that a Run is quoted by: which points, chosen by configuration alone, and each as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hwdyno.analysis.ceilings.compute import LOOPS
from hwdyno.analysis.estimates import half_width, larger_side
from hwdyno.analysis.resources import HeadlineFigure, Resource, find, find_rate_word
from hwdyno.analysis.resources.quoted import Configuration, distance, fits
from hwdyno.explain.comparison.matching import DISBELIEVED
from hwdyno.explain.findings.conditions import TARGETS
from hwdyno.explain.findings.point_labels import load_words
from hwdyno.explain.findings.rule import USELESS, Case
from hwdyno.explain.findings.snia import is_rounds, is_tracked
from hwdyno.explain.findings.summary import name_effect
from hwdyno.model.units import as_number, format_percent
from hwdyno.model.words import ExperimentResult, Measurement, Run, Validity, Value
from hwdyno.report import figures, typical
from hwdyno.report.rows import headline_points, in_unit, judged_unit, point_label, point_parameters, tightest
from hwdyno.report.typical import Typical

MAX_ROWS = 16
"""Rows: those of storage, memory, processor and network together."""
MAX_BY_DEFAULT = 3
"""Figures of a resource whose headline was not measured."""
MIN_REPEATS = 3
MIN_FOR_P99 = 1000
"""Operations that leave ten beyond the 99th percentile."""
LITTLE = 0.02
"""How far operations in flight by Little's law may be off the requested ones where rate and latency are two views of
one thing, so that the interval of one holds for the other."""
WIDE = 2
"""How many times as wide as the profile targets an interval may be."""
MIN_PEAK_SHARE = 0.05
"""Share of their peak that loops on registers reach on any processor: below it, they or the ceiling are wrong."""
STATES: tuple[Validity, ...] = ("valid", "unverified", "degraded", "invalid")
"""States in order, the best first."""
MARKS: dict[Validity, str] = {"valid": "", "degraded": " !", "invalid": " !!"}
"""Marks behind a figure, where colour does not reach; any other state has a question mark."""


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a ceiling a figure reaches."""

    of_ceiling: float
    """0 to 1; above 1 where a rated or reference ceiling is exceeded."""
    ceiling: str
    """Its name and value: ``PCIe 3.0 x4, 3,938 MB/s``."""
    formula: str
    source: str
    of: str = ""
    """Which of two figures it is of, ``read``; empty where there is one."""
    reference: str = ""
    """What the run itself reached, ``best kernel``, where the hardware has no known ceiling; empty for a ceiling."""


@dataclass(frozen=True, slots=True)
class Headline:
    """One figure of a resource, as text."""

    resource: str
    """Its heading, with the storage's name where several were measured: ``Storage``, ``Storage fast``."""
    title: str
    """The field's name of the test: ``SEQ1M Q8T1 read``, ``FP64 peak``, ``idle latency, 256 MiB, 2 MiB pages``.

    Where reads and writes share a row, ``SEQ1M Q8T1 read / write``; then value, interval, p99 and what is typical
    have two figures in that order, and the state is the worse one.
    """
    amount: Value
    """The figure; of reads, where reads and writes share a row."""
    value: str
    """The figure with its unit: ``3,150 MB/s``, ``70.9 µs``, ``3,150 / 2,420 MB/s``."""
    interval: str
    """``±1.8%`` (95%); ``few repeats`` where the interval says nothing; empty where none is known."""
    share: Share | None
    no_ceiling: str
    """Why there is no share, in a few words: ``virtio: unknown; rated: --device``; empty for a latency."""
    p99: str | None
    """The 99th percentile with its unit; none where the figure is no latency."""
    typical: Typical | None
    state: Validity
    why: str
    """Why it is degraded, in a few words; empty for a valid figure."""
    experiment: int
    """Index of its experiment in the Run."""
    point: int
    """Index of its point there."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A point that was chosen for a headline, and how to say it."""

    resource: str
    title: str
    experiment: int
    point: int
    value: Value
    typical: str = ""
    measured: bool = True
    """False for a number that a finding has from several points."""
    figure: HeadlineFigure | None = None
    """The resource's figure that chose it."""
    opposite: _Found | None = None
    """The same test in the other direction, quoted in the same row."""


def headlines(run: Run) -> tuple[tuple[Headline, ...], tuple[Headline, ...]]:
    """The rows of a Run's figures, in which reads and writes of one test share one, and each figure by itself."""
    found = _find_figures(run)
    every = _rows(run, [part for figure in found for part in (figure, figure.opposite) if part is not None])
    return _join_rows(found, every), every


def _find_figures(run: Run) -> list[_Found]:
    """The headline figures of every resource; where they are too many, the most quoted of each resource."""
    groups: dict[tuple[str, str], list[int]] = {}
    for at, experiment in enumerate(run.experiments):
        if experiment.points:
            groups.setdefault((experiment.resource, experiment.name.partition("@")[2]), []).append(at)
    every = [_in_pairs(list(_of_resource(run, name, place, which))) for (name, place), which in groups.items()]
    left, rank = MAX_ROWS, 0
    counts = [0] * len(every)
    while left and any(rank < len(group) for group in every):
        for group, figures_of in enumerate(every):
            if rank < len(figures_of) and left:
                counts[group], left = rank + 1, left - 1
        rank += 1
    return [found for group, count in zip(every, counts, strict=True) for found in group[:count]]


def _in_pairs(found: list[_Found]) -> list[_Found]:
    """The figures in order, those of reads and of writes of one test together."""
    pairs: list[_Found] = []
    for figure in found:
        at = next((at for at, other in enumerate(pairs) if not other.opposite and _opposite(other, figure)), None)
        if at is None:
            pairs.append(figure)
        else:
            pairs[at] = replace(pairs[at], opposite=figure)
    return pairs


def _opposite(first: _Found, second: _Found) -> bool:
    """Whether two figures are of one test, in which the one reads and the other writes."""
    a, b = first.figure, second.figure
    if a is None or b is None or first.title.rpartition(" ")[0] != second.title.rpartition(" ")[0]:
        return False
    alike = (a.unit, a.kernels, a.where, a.prefer) == (b.unit, b.kernels, b.where, b.prefer)
    return alike and set(a.pattern) ^ set(b.pattern) == {"reads", "writes"}


def _of_resource(run: Run, name: str, place: str, which: Sequence[int]) -> Iterator[_Found]:
    resource = find(name)
    title = " ".join(filter(None, [resource.title or name, place]))
    shown = [at for at in which if not is_rounds(run.experiments[at])]
    chosen: dict[tuple[int, int, str], _Found] = {}
    for figure in resource.figures:
        if found := _pick_point(run, figure, title, shown):
            chosen.setdefault((found.experiment, found.point, found.value.unit), found)
    carried = list(_by_findings(run, resource, title, which))
    yield from (*chosen.values(), *carried)
    if not chosen and not carried:
        yield from _by_default(run, resource, title, which)


def _pick_point(run: Run, figure: HeadlineFigure, resource: str, which: Sequence[int]) -> _Found | None:
    """The point that a figure quotes, by its configuration; only what that leaves open is decided by the best."""
    known: list[tuple[int, int, Value]] = []
    for at in which:
        experiment = run.experiments[at]
        for index, point in enumerate(experiment.points):
            value = in_unit(point, figure.unit)
            if value is not None and fits(figure, _configuration(experiment, index)):
                known.append((at, index, value))
    if not known:
        return None
    processors = run.machine.cpu.threads or 0

    def rank(candidate: tuple[int, int, Value]) -> tuple[tuple[bool, float, float], float]:
        at, index, value = candidate
        best = value.value if figure.unit == "ns" else -value.value
        return distance(figure, _configuration(run.experiments[at], index), processors), best

    at, index, value = min(known, key=rank)
    experiment = run.experiments[at]
    # What is typical of loopback is not typical of a path.
    elsewhere = "{path}" in figure.title and experiment.points[index].details.get("loopback") is not True
    typical = "" if elsewhere else figure.typical
    return _Found(resource, _title(figure.title, experiment, index), at, index, value, typical, figure=figure)


def _configuration(experiment: ExperimentResult, index: int) -> Configuration:
    parameters = point_parameters(experiment, experiment.points[index])
    return Configuration(experiment.name, experiment.kernel, experiment.declaration.axes, parameters)


def _title(template: str, experiment: ExperimentResult, index: int) -> str:
    if not template:
        return point_label(experiment, index)
    point = experiment.points[index]
    parameters = point_parameters(experiment, point)

    def words(name: re.Match[str]) -> str:
        test, _, way = point_label(experiment, index).rpartition(" ")
        if name[1] in {"test", "way"}:
            return test if name[1] == "test" else way
        if name[1] == "path":
            return _path(point, str(parameters.get("server") or ""))
        axis, value = experiment.axis(name[1]), parameters.get(name[1])
        if axis.role == "concurrency" and isinstance(value, int):
            return load_words(axis, value)
        return figures.parameter(axis, value)

    return re.sub(r"\{(\w+)\}", words, template)


def _path(point: Measurement, server: str) -> str:
    loopback = point.details.get("loopback")
    return "loopback" if loopback is True else f"to {server}" if server else "to the server"


def _by_findings(run: Run, resource: Resource, title: str, which: Sequence[int]) -> Iterator[_Found]:
    """The load that each storage carries, where findings are the headline."""
    names = {run.experiments[at].name: at for at in which}
    found: dict[tuple[str, str], _Found] = {}  # Of several data sets, the last one is the largest.
    for finding in run.findings:
        says = finding.evidence.get("headline")
        if finding.rule in resource.headline_rules and finding.experiment in names and isinstance(says, Mapping):
            at, value = names[finding.experiment], as_number(says.get("value"))
            points = [index for index in finding.points if index < len(run.experiments[at].points)]
            if value is not None and points:
                made, name = Value(value, str(says.get("unit") or "")), str(says.get("title"))
                of = (finding.experiment.partition("@")[2], name)
                found[of] = _Found(title, name, at, points[0], made, measured=False)
    yield from found.values()


def _by_default(run: Run, resource: Resource, title: str, which: Sequence[int]) -> Iterator[_Found]:
    """The best points of other measurements; of rounds until steady, the last that decides."""
    found: list[_Found] = []
    for at in which:
        experiment = run.experiments[at]
        if experiment.name.startswith(resource.never_quoted):
            continue
        rounds = [index for index, point in enumerate(experiment.points) if is_tracked(point)]
        best = rounds[-1:] if is_rounds(experiment) else headline_points(experiment)
        values = [(index, in_unit(experiment.points[index], judged_unit(experiment))) for index in best]
        found += [
            _Found(title, point_label(experiment, index), at, index, value)
            for index, value in values
            if value is not None
        ]
    shown = found[:MAX_BY_DEFAULT]
    several = len({figure.title for figure in shown}) < len(shown)
    for figure in shown:
        # Of several experiments with the same load, each says which it is.
        name = run.experiments[figure.experiment].name.partition("@")[0].partition(".")[2]
        yield replace(figure, title=f"{name}, {figure.title}") if several else figure


def _join_rows(found: Sequence[_Found], every: Sequence[Headline]) -> tuple[Headline, ...]:
    """The figures as rows: reads and writes of one test share one."""
    rows = iter(every)
    return tuple(next(rows) if figure.opposite is None else _pair(next(rows), next(rows)) for figure in found)


def _pair(read: Headline, write: Headline) -> Headline:
    """Two figures of one test in one row."""
    ways = [headline.title.rpartition(" ")[2] for headline in (read, write)]
    share, worse = read.share, max(read, write, key=lambda headline: STATES.index(headline.state))
    is_alike = read.typical and write.typical and read.typical.hardware == write.typical.hardware
    return replace(
        read,
        title=f"{read.title} / {ways[1]}",
        value=_both(read.value, write.value),
        interval=_both_intervals(read.interval, write.interval),
        share=replace(share, of=ways[0]) if share else None,
        p99=_both(read.p99, write.p99) if read.p99 and write.p99 else None,
        typical=replace(read.typical, value=_both(read.typical.value, write.typical.value))
        if is_alike and read.typical and write.typical
        else None,
        state=worse.state,
        why=worse.why,
    )


def _both_intervals(first: str, second: str) -> str:
    """``±14 / 27%``, or once if they are the same."""
    if first == second:
        return first
    if first.startswith("±") and second.startswith("±"):
        return f"{first.removesuffix('%')} / {second.removeprefix('±')}"
    return f"{first or '–'} / {second or '–'}"


def _both(first: str, second: str) -> str:
    """``3,150 / 2,420 MB/s`` of two quantities; each keeps its unit where they differ."""
    (number, _, unit), unit_of_other = first.partition(" "), second.partition(" ")[2]
    return f"{number} / {second}" if unit == unit_of_other else f"{first} / {second}"


def _rows(run: Run, found: Sequence[_Found]) -> tuple[Headline, ...]:
    """The figures as text: those of a resource in one unit, which is that of its findings and tables."""
    rows = []
    for figure in found:
        experiment = run.experiments[figure.experiment]
        point, word = experiment.points[figure.point], find_rate_word(experiment)
        alike = [
            other.value.value
            for other in found
            if (other.value.unit, other.resource) == (figure.value.unit, figure.resource)
        ]
        by_time = figure.value.unit == "ns"
        scale = figures.latency_scale(alike) if by_time else figures.scale_for(alike, figure.value.unit, word)
        if figure.value.unit == "operations/s":
            scale = figures.count_scale(alike, word)
        latency = point.latency_ns if by_time else None
        share = _share(experiment, figure, scale)
        state, why = _state(run, figure, share)
        rows.append(
            Headline(
                resource=figure.resource,
                title=figure.title,
                amount=figure.value,
                value=scale.quantity(figure.value.value)
                if figure.measured
                else figures.of_finding(figure.value.value, figure.value.unit),
                interval=_interval(run, experiment, figure, scale),
                share=share,
                no_ceiling=_why_no_ceiling(run, experiment, figure),
                p99=scale.quantity(latency.p99)
                if latency and latency.p99 is not None and latency.count >= MIN_FOR_P99
                else None,
                typical=typical.find_typical(figure.typical, run.machine, scale),
                state=state,
                why=why,
                experiment=figure.experiment,
                point=figure.point,
            )
        )
    return tuple(rows)


def _state(run: Run, found: _Found, share: Share | None) -> tuple[Validity, str]:
    """A figure's state with its reason: its point's, what a finding on the point doubts, or a share that cannot be."""
    experiment = run.experiments[found.experiment]
    point = experiment.points[found.point]
    for finding in run.findings:
        is_its = finding.experiment == experiment.name and found.point in finding.points
        if is_its and finding.severity == "invalid":
            return "invalid", name_effect(finding.rule)
        if is_its and finding.rule in DISBELIEVED and finding.severity == "warning" and point.validity == "valid":
            return "degraded", DISBELIEVED[finding.rule]
    if share and not share.reference and experiment.kernel == LOOPS and share.of_ceiling < MIN_PEAK_SHARE:
        return "invalid", f"only {format_percent(share.of_ceiling)} of its ceiling"
    if point.validity == "valid" and _is_wide(run, point):
        return "degraded", name_effect("interval_not_reached")
    return point.validity, name_effect(point.why[0]) if point.why and point.validity != "unverified" else ""


def _is_wide(run: Run, point: Measurement) -> bool:
    """Whether the interval of a point is more than ``WIDE`` times what the Run's profile targets."""
    target, half = TARGETS.get(run.profile), half_width(point.throughput)
    return target is not None and half is not None and point.repeats >= MIN_REPEATS and half > WIDE * target


def _interval(run: Run, experiment: ExperimentResult, found: _Found, scale: figures.Scale) -> str:
    """The interval as a share of the figure; where it says nothing, the least and the most of the repeats."""
    point = experiment.points[found.point]
    if not found.measured:
        return ""
    source: Value | None = found.value
    by_rate = found.value.unit == "ns"
    if by_rate:
        case = Case(run, experiment, found.point)
        requested, effective = case.requested_depth, case.effective
        same = requested and effective and abs(effective / requested - 1) <= LITTLE
        source = point.throughput if same else None
    if source is None or source.value <= 0:
        return ""
    width = larger_side(source)
    if width is not None and width <= USELESS:
        return f"±{format_percent(width)}"
    if len(point.repeat_values) < MIN_REPEATS:
        return "few repeats" if width is not None else ""
    # Of the throughput, with which a rate and a latency change in proportion.
    ends = [value for value in (min(point.repeat_values), max(point.repeat_values)) if value > 0]
    middle = point.throughput.value
    shown = [found.value.value * (middle / end if by_rate else end / middle) for end in ends]
    return "–".join(scale.number(end) for end in sorted(shown)) if len(shown) == 2 else "few repeats"


OF_THE_RUN = {"practical": "best kernel"}
"""References by their labels that are a run's own best measurement of the same thing, and what each is called."""


def _share(experiment: ExperimentResult, found: _Found, scale: figures.Scale) -> Share | None:
    """How much of the tightest ceiling is reached, or of the best own measurement where no hardware tells one.

    What a peer reached is no ceiling here.
    """
    if found.value.unit == "ns" or not found.measured:
        return None
    for of_run in (False, True):
        bounds = [ceiling for ceiling in experiment.ceilings if (ceiling.kind == "reference") == of_run]
        bounds = [ceiling for ceiling in bounds if not of_run or ceiling.label in OF_THE_RUN]
        ceiling, share = tightest(replace(experiment, ceilings=tuple(bounds)), found.point)
        if ceiling is not None and share is not None:
            same = figures.quantity(Value(ceiling.value, ceiling.unit), find_rate_word(experiment))
            value = scale.quantity(ceiling.value) if ceiling.unit == found.value.unit else same
            name = OF_THE_RUN[ceiling.label] if of_run else ceiling.label or ceiling.kind
            return Share(share, f"{name}, {value}", ceiling.formula, ceiling.source, reference=name if of_run else "")
    return None


def _why_no_ceiling(run: Run, experiment: ExperimentResult, found: _Found) -> str:
    """Why nothing bounds a figure; empty where something may."""
    if (
        found.value.unit == "ns"
        or not found.measured
        or any(ceiling.label in OF_THE_RUN for ceiling in experiment.ceilings)
    ):
        return ""
    if any(ceiling.kind != "reference" for ceiling in experiment.ceilings):
        return ""
    if experiment.resource == "storage":
        return f"{run.machine.storage.disk.kind or 'device'}: unknown; rated: --device"
    loopback = experiment.points[found.point].details.get("loopback") is True
    return "loopback has no link" if loopback else "no ceiling known"
