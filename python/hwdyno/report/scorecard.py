"""The scorecard on top of every report: the machine, a verdict, the figures that the field quotes, and what to do."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hwdyno.axes import ALONE, BACKGROUND, splits, traits_of
from hwdyno.findings import RULES, about_this_run
from hwdyno.findings.rule import USELESS, Case, first_sentence, load_words
from hwdyno.findings.snia import is_rounds, is_tracked
from hwdyno.findings.summary import ORDER, effect_of
from hwdyno.report import figures, typical
from hwdyno.report.rows import headline_points, in_unit, parameters_of, point_label, tightest, unit_of
from hwdyno.report.typical import Typical
from hwdyno.resources import Figure, Resource, find, rate_word_of
from hwdyno.statistics import half_width
from hwdyno.units import as_number, format_memory, format_percent, plural
from hwdyno.words import ExperimentResult, Finding, Measurement, Run, Trait, Validity, Value

Verdict = Literal["sound", "use with care", "not to be trusted"]

MOST_TODO = 3
MOST_ROWS = 10
MOST_LINES = 14
"""Rows, and the lines of what to do: with everything around them they fit 20 lines of a terminal."""
MOST_BY_DEFAULT = 3
"""Figures of a resource whose headline was not measured."""
MOST_SENTENCE = 76
MOST_REASON = 130
"""Characters of a thing to do and of the verdict's reason."""
COMMAND_COLUMNS = 76
"""Columns of a command before it goes on in the next line."""
LEAST_REPEATS = 3
LEAST_FOR_P99 = 1000
"""Operations that leave ten beyond the 99th percentile."""
OF_A_RUN = "hwdyno-scratch-"
"""Begins the name of a run's own directory, which is gone when the run has ended."""
LITTLE = 0.02
"""How far operations in flight by Little's law may be off the requested ones where rate and latency are two views of
one thing, so that the interval of one holds for the other."""
CONDEMNED = 0.1
"""The share of invalid points from which on the rest is doubted too."""
CAREFUL = 0.25
"""The share of degraded points from which on a Run is used with care, even if every quoted figure is valid."""
MORE_OF_A_CURVE = {"knee", "saturated", "load_without_effect", "best_block_size", "best_combination"}
"""Rules that describe a curve and advise to measure more of it."""
ACCESSES: frozenset[Trait] = frozenset({"reads", "writes", "random", "trims"})
"""What points do, whatever their engine."""
_LESSONS = {rule.name for rule in RULES}
_ENDS = r"`|;|(?<! )\. |(?<= \.) [A-Z]|(?<! )\.?$"
_COMMAND = re.compile(rf"(?:(?<=: )|(?<=`)|(?<=, then ))hwdyno [a-z][^`;]*?(?={_ENDS})")
_UNQUOTED = re.compile(r"[\w@%+=:,./-]+")
_HALF = re.compile(r" ±([\d.]+)%")
_PLACEHOLDER = re.compile(r"(?<![\w./-])[A-Z]{3,}(?![\w./-])|\.\.\.|…")


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
    value: str
    """The figure with its unit: ``3,150 MB/s``, ``70.9 µs``, ``3,150 / 2,420 MB/s``."""
    interval: str
    """``±1.8%`` (95%); ``few repeats`` where the interval says nothing; empty where none is known."""
    share: Share | None
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
class Todo:
    """One thing to do: a sentence, and a command that works as printed."""

    says: str
    command: str


@dataclass(frozen=True, slots=True)
class Scorecard:
    """What a reader takes from a Run in ten seconds."""

    machine: str
    """The machine in one line."""
    verdict: Verdict
    reason: str
    """The verdict's one reason, a sentence."""
    rows: tuple[Headline, ...]
    """At most ``MOST_ROWS``, those of one resource together."""
    todo: tuple[Todo, ...]
    """At most ``MOST_TODO``, what is about the machine before what is about this run."""
    rest: str
    """How much the Run has in all: ``64 points, 14 findings``."""


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
    figure: Figure | None = None
    """The resource's figure that chose it."""
    opposite: _Found | None = None
    """The same test in the other direction, quoted in the same row for want of one of its own."""


def scorecard(run: Run) -> Scorecard:
    """The scorecard of a Run, whatever it lacks."""
    found = _found(run)
    rows = _joined(run, found[:MOST_ROWS])
    verdict, reason = _verdict(run, rows)
    todo = _todo(run)
    while todo and sum(map(_lines, todo)) + len(rows) > MOST_LINES:
        # What it costs to drop a figure is small where there are many, and the first thing to do is worth one.
        if len(todo) > 1:
            todo = todo[:-1]
        else:
            rows = rows[:-1]
    return Scorecard(machine_line(run), verdict, reason, rows, todo, _rest(run))


# --- the machine


def machine_line(run: Run) -> str:
    """The machine in one line: host, processor, memory, and the storage if it was measured."""
    machine = run.machine
    if not run.machines:
        return f"Imported from {run.imported_from}: the machine is unknown" if run.imported_from else "Unknown machine"
    more = f" and {plural(len(run.machines) - 1, 'more host')}" if len(run.machines) > 1 else ""
    threads = plural(machine.cpu.threads, "thread") if machine.cpu.threads else ""
    parts = [", ".join(filter(None, [machine.cpu.model, threads]))]
    parts.append(format_memory(machine.memory.total_bytes) if machine.memory.total_bytes else "")
    if any(one.resource in {"storage", "training", "inference"} for one in run.experiments):
        disk = machine.storage.disk
        parts.append(" on ".join(filter(None, [machine.storage.filesystem, disk.model or disk.kind])))
    parts.append(f"{machine.hypervisor} guest" if machine.hypervisor else "")
    return f"{machine.hostname or 'This machine'}{more}: " + (
        "; ".join(filter(None, parts)) or "nothing is known of it"
    )


# --- the figures


def _found(run: Run) -> list[_Found]:
    """The headline figures of every resource; where they are too many, the most quoted of each resource."""
    groups: dict[tuple[str, str], list[int]] = {}
    for at, one in enumerate(run.experiments):
        if one.points:
            groups.setdefault((one.resource, one.name.partition("@")[2]), []).append(at)
    every = [list(_of_resource(run, name, place, which)) for (name, place), which in groups.items()]
    left, rank = MOST_ROWS, 0
    counts = [0] * len(every)
    while left and any(rank < len(one) for one in every):
        for group, figures_of in enumerate(every):
            if rank < len(figures_of) and left:
                counts[group], left = rank + 1, left - 1
        rank += 1
    return [
        replace(found, opposite=next((other for other in one[count:] if _opposite(found, other)), None))
        for one, count in zip(every, counts, strict=True)
        for found in one[:count]
    ]


def _opposite(one: _Found, other: _Found) -> bool:
    """Whether two figures are of one test, in which the one reads and the other writes."""
    a, b = one.figure, other.figure
    if a is None or b is None or one.title.rpartition(" ")[0] != other.title.rpartition(" ")[0]:
        return False
    alike = (a.unit, a.kernels, a.where, a.prefer) == (b.unit, b.kernels, b.where, b.prefer)
    return alike and set(a.pattern) ^ set(b.pattern) == {"reads", "writes"}


def _of_resource(run: Run, name: str, place: str, which: Sequence[int]) -> Iterator[_Found]:
    resource = find(name)
    title = " ".join(filter(None, [resource.title or name, place]))
    shown = [at for at in which if not is_rounds(run.experiments[at])]
    chosen: dict[tuple[int, int], _Found] = {}
    for figure in resource.figures:
        if found := _picked(run, figure, title, shown):
            # One point is quoted once: what one operation at a time takes, not how many that makes a second.
            chosen[found.experiment, found.point] = found
    carried = list(_by_findings(run, resource, title, which))
    yield from (*carried, *chosen.values())
    if not chosen and not carried:
        yield from _by_default(run, title, which)


def _picked(run: Run, figure: Figure, resource: str, which: Sequence[int]) -> _Found | None:
    """The point that a figure quotes: of the most beyond all caches, then a valid one, then the preferred, the best."""
    known: list[tuple[int, int, Value]] = []
    for at in which:
        experiment = run.experiments[at]
        for index, point in enumerate(experiment.points):
            value = in_unit(point, figure.unit)
            if value is not None and point.validity != "invalid" and _fits(figure, experiment, point):
                known.append((at, index, value))
    if not known:
        return None

    def given(at: int, index: int) -> dict[str, object]:
        return {**parameters_of(run.experiments[at], run.experiments[at].points[index])}

    if figure.most:
        sizes = {
            (at, index): size for at, index, _ in known if isinstance(size := given(at, index).get(figure.most), int)
        }
        top = max(sizes.values(), default=None)
        known = [one for one in known if sizes.get(one[:2]) == top]

    def rank(one: tuple[int, int, Value]) -> tuple[int, int, float]:
        at, index, value = one
        parameters = given(at, index)
        unlike = sum(parameters.get(name) != wanted for name, wanted in figure.prefer.items())
        return _doubt(run.experiments[at].points[index]), unlike, value.value if figure.lowest else -value.value

    at, index, value = min(known, key=rank)
    experiment = run.experiments[at]
    # What is typical of loopback is not typical of a path.
    elsewhere = "{path}" in figure.title and experiment.points[index].details.get("loopback") is not True
    usual = "" if elsewhere else figure.typical
    return _Found(resource, _title(figure.title, experiment, index), at, index, value, usual, figure=figure)


def _fits(figure: Figure, experiment: ExperimentResult, point: Measurement) -> bool:
    if point.parameters.get(BACKGROUND.name, ALONE) != ALONE:
        return False  # What is left beside a load is no figure of the resource.
    if figure.kernels and experiment.kernel not in figure.kernels:
        return False
    parameters = parameters_of(experiment, point)
    # A pattern of files goes through the page cache: it says nothing of the device.
    axes = [axis for axis in splits(experiment.declaration.axes) if axis.name in parameters]
    pattern = traits_of(axes, parameters) & ACCESSES
    named = experiment.name.partition("@")[0] not in figure.not_in
    return (
        named and figure.where.items() <= parameters.items() and (not figure.pattern or pattern == set(figure.pattern))
    )


def _title(template: str, experiment: ExperimentResult, index: int) -> str:
    if not template:
        return point_label(experiment, index)
    point = experiment.points[index]
    parameters = parameters_of(experiment, point)

    def words(name: re.Match[str]) -> str:
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


def _by_default(run: Run, title: str, which: Sequence[int]) -> Iterator[_Found]:
    """The best points of other measurements, the valid ones first; of rounds until steady, the last that decides."""
    known = []
    for at in which:
        experiment = run.experiments[at]
        unit = unit_of(experiment)
        rounds = [index for index, point in enumerate(experiment.points) if is_tracked(point)]
        best = rounds[-1:] if is_rounds(experiment) else headline_points(experiment)[:MOST_BY_DEFAULT]
        for index in best:
            point = experiment.points[index]
            if point.validity != "invalid" and (value := in_unit(point, unit)) is not None:
                known.append(_Found(title, point_label(experiment, index), at, index, value))
    yield from sorted(known, key=lambda one: _doubt(run.experiments[one.experiment].points[one.point]))[
        :MOST_BY_DEFAULT
    ]


def _doubt(point: Measurement) -> int:
    """How little a point can be trusted: a valid one before one that nothing verified, that before a degraded one."""
    return 0 if point.validity == "valid" else 2 if point.validity == "degraded" else 1


def _joined(run: Run, found: Sequence[_Found]) -> tuple[Headline, ...]:
    """The figures as text, a row each, but reads and writes in one row where there is no room for two."""
    rows = iter(_rows(run, [part for one in found for part in (one, one.opposite) if part is not None]))
    return tuple(next(rows) if one.opposite is None else _pair(next(rows), next(rows)) for one in found)


def _pair(read: Headline, write: Headline) -> Headline:
    """Two figures of one test in one row."""
    ways = [one.title.rpartition(" ")[2] for one in (read, write)]
    share, worse = read.share, max(read, write, key=lambda one: ("valid", "unverified", "degraded").index(one.state))
    usual = read.typical and write.typical and read.typical.what == write.typical.what
    return replace(
        read,
        title=f"{read.title} / {ways[1]}",
        value=_both(read.value, write.value),
        interval=_both_intervals(read.interval, write.interval),
        share=replace(share, of=ways[0]) if share else None,
        p99=_both(read.p99, write.p99) if read.p99 and write.p99 else None,
        typical=replace(read.typical, value=_both(read.typical.value, write.typical.value))
        if usual and read.typical and write.typical
        else None,
        state=worse.state,
        why=worse.why,
    )


def _both_intervals(one: str, other: str) -> str:
    """``±14 / 27%``, or once if they are the same."""
    if one == other:
        return one
    if one.startswith("±") and other.startswith("±"):
        return f"{one.removesuffix('%')} / {other.removeprefix('±')}"
    return f"{one or '–'} / {other or '–'}"


def _both(one: str, other: str) -> str:
    """``3,150 / 2,420 MB/s`` of two quantities; each keeps its unit where they differ."""
    (number, _, unit), unit_of_other = one.partition(" "), other.partition(" ")[2]
    return f"{number} / {other}" if unit == unit_of_other else f"{one} / {other}"


def _rows(run: Run, found: Sequence[_Found]) -> tuple[Headline, ...]:
    """The figures as text: those of a resource in one unit, which is that of its findings and tables."""
    rows = []
    for one in found:
        experiment = run.experiments[one.experiment]
        point, word = experiment.points[one.point], rate_word_of(experiment)
        alike = [
            other.value.value for other in found if (other.value.unit, other.resource) == (one.value.unit, one.resource)
        ]
        by_time = one.value.unit == "ns"
        scale = figures.latency_scale(alike) if by_time else figures.scale_for(alike, one.value.unit, word)
        if one.value.unit == "operations/s":
            scale = figures.count_scale(alike, word)
        latency = point.latency_ns if by_time else None
        rows.append(
            Headline(
                resource=one.resource,
                title=one.title,
                value=scale.quantity(one.value.value)
                if one.measured
                else figures.of_finding(one.value.value, one.value.unit),
                interval=_interval(run, experiment, one, scale),
                share=_share(experiment, one, scale),
                p99=scale.quantity(latency.p99)
                if latency and latency.p99 is not None and latency.count >= LEAST_FOR_P99
                else None,
                typical=typical.of(one.typical, run.machine, scale),
                state=point.validity,
                why=effect_of(point.why[0]) if point.why and point.validity != "unverified" else "",
                experiment=one.experiment,
                point=one.point,
            )
        )
    return tuple(rows)


def _interval(run: Run, experiment: ExperimentResult, found: _Found, scale: figures.Scale) -> str:
    """The interval as a share of the figure; where it says nothing, the least and the most of the repeats."""
    point = experiment.points[found.point]
    if not found.measured:
        return ""
    source: Value | None = found.value
    by_rate = found.value.unit == "ns"
    if by_rate:
        case = Case(run, experiment, found.point)
        requested, effective = case.requested, case.effective
        same = requested and effective and abs(effective / requested - 1) <= LITTLE
        source = point.throughput if same else None
    if source is None or source.value <= 0:
        return ""
    width = half_width(source)
    if width is not None and width <= USELESS:
        return f"±{format_percent(width)}"
    if len(point.repeat_values) < LEAST_REPEATS:
        return "few repeats" if width is not None else ""
    # Of the throughput, with which a rate and a latency change in proportion.
    ends = [value for value in (min(point.repeat_values), max(point.repeat_values)) if value > 0]
    middle = point.throughput.value
    shown = [found.value.value * (middle / end if by_rate else end / middle) for end in ends]
    return "–".join(scale.number(end) for end in sorted(shown)) if len(shown) == 2 else "few repeats"


def _share(experiment: ExperimentResult, found: _Found, scale: figures.Scale) -> Share | None:
    """How much of the tightest ceiling is reached; what a peer or the run itself reached is no ceiling here."""
    if found.value.unit == "ns" or not found.measured:
        return None
    bounds = [one for one in experiment.ceilings if one.kind != "reference"]
    ceiling, share = tightest(replace(experiment, ceilings=tuple(bounds)), found.point)
    if ceiling is None or share is None:
        return None
    same = figures.quantity(Value(ceiling.value, ceiling.unit), rate_word_of(experiment))
    value = scale.quantity(ceiling.value) if ceiling.unit == found.value.unit else same
    return Share(share, f"{ceiling.label or ceiling.kind}, {value}", ceiling.formula, ceiling.source)


# --- the verdict


def _verdict(run: Run, rows: Sequence[Headline]) -> tuple[Verdict, str]:
    points = [point for experiment in run.experiments for point in experiment.points]
    if not points:
        return "not to be trusted", _short(
            "Nothing was measured: " + (" ".join(run.degraded) or "the run ended first.")
        )
    invalid = [point for point in points if point.validity == "invalid"]
    wrong = next((one for one in run.findings if one.severity == "invalid"), None)
    why = first_sentence(wrong.says) if wrong else ""
    lost = any(_all_invalid(figure, experiment) for experiment in run.experiments for figure in _figures(experiment))
    if not rows or lost or len(invalid) >= CONDEMNED * len(points) or (wrong and not invalid):
        return "not to be trusted", _short(why or f"{_of_points(len(invalid), len(points))} invalid{_cause(invalid)}.")
    bad = [row for row in rows if row.state == "degraded"]
    if bad:
        cause = Counter(row.why for row in bad).most_common(1)[0][0] or "see the findings"
        which = f"{len(bad)} of {len(rows)} figures below {'is' if len(bad) == 1 else 'are'}"
        which = which if len(bad) < len(rows) else "Every figure below is"
        return "use with care", _short(f"{which} degraded: {cause}.")
    if invalid:
        return "use with care", _short(why or f"{_of_points(len(invalid), len(points))} invalid and not quoted.")
    planned = sum(max(one.planned, len(one.points)) for one in run.experiments)
    if run.interrupted or planned > len(points):
        ended = "Interrupted" if run.interrupted else "Incomplete"
        return "use with care", f"{ended}: {len(points)} of {plural(planned, 'point')} were measured."
    degraded = [point for point in points if point.validity == "degraded"]
    if len(degraded) >= CAREFUL * len(points):
        cause = effect_of(Counter(why for point in degraded for why in point.why).most_common(1)[0][0])
        return "use with care", _short(f"{_of_points(len(degraded), len(points))} degraded, most by {cause}.")
    if run.degraded:
        return "use with care", _short(run.degraded[0])
    if doubted := sum(point.validity == "unverified" for point in points):
        return "use with care", f"{_of_points(doubted, len(points))} unverified: one reading, and nothing confirms it."
    if run.imported_from:
        return "use with care", f"Imported from {run.imported_from}: how it was measured is not known."
    rest = f"; {_of_points(len(degraded), len(points))} degraded" if degraded else ""
    return "sound", f"Every figure below is valid{rest}."


def _cause(points: Sequence[Measurement]) -> str:
    """What most of these points suffer from, after a colon; empty where none names a rule."""
    rules = Counter(why for point in points for why in point.why).most_common(1)
    return f": {effect_of(rules[0][0])}" if rules else ""


def _figures(experiment: ExperimentResult) -> tuple[Figure, ...]:
    return () if is_rounds(experiment) else find(experiment.resource).figures


def _all_invalid(figure: Figure, experiment: ExperimentResult) -> bool:
    """Whether an experiment has a headline figure, and no point of it can be quoted."""
    states = [point.validity for point in experiment.points if _fits(figure, experiment, point)]
    return bool(states) and set(states) == {"invalid"}


def _of_points(count: int, total: int) -> str:
    return f"{count} of {plural(total, 'point')} {'is' if count == 1 else 'are'}"


# --- what to do


def _todo(run: Run) -> tuple[Todo, ...]:
    """What is wrong first, then the machine; of what is only about this run, the first; then more of a curve."""
    made: dict[str, Todo] = {}
    if run.interrupted and _is_plain(run.command):
        made[run.command] = Todo("Measure the rest.", run.command)
    rules: set[str] = set()
    for finding in sorted(run.findings, key=urgency):
        command, only_run = command_in(finding.advice), about_this_run(finding) and finding.severity != "invalid"
        if " --ceiling " in command and " --ceiling " not in run.command:
            continue  # Its value is an example, and only the user knows the true one.
        if not command and not only_run and finding.severity != "info" and finding.rule in _LESSONS:
            command = f"hwdyno explain {finding.rule}"  # What to do has no command, such as to move a drive.
        kind = "noise" if only_run else finding.rule
        if command and command not in made and kind not in rules and not (only_run and finding.severity == "info"):
            rules.add(kind)
            made[command] = Todo(_short(_without_wide(first_sentence(finding.says)), MOST_SENTENCE), command)
    return tuple(made.values())[:MOST_TODO]


def urgency(finding: Finding) -> tuple[bool, bool, bool, int]:
    """By what findings are sorted, the most urgent first."""
    only_run = about_this_run(finding)
    more_of_a_curve = finding.severity == "info" and finding.rule in MORE_OF_A_CURVE
    return finding.severity != "invalid", more_of_a_curve, only_run, ORDER[finding.severity]


def command_in(advice: str) -> str:
    """The first command in an advice that works as printed; empty where there is none."""
    found = (one[0].strip() for one in _COMMAND.finditer(advice))
    return next((one for one in found if not _PLACEHOLDER.search(one) and _is_plain(one)), "")


def _is_plain(command: str) -> bool:
    """Whether a shell takes a line as one command of these very words, and what it names outlives the run."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    again = " ".join(word if _UNQUOTED.fullmatch(word) else shlex.quote(word) for word in words)
    return command.startswith("hwdyno ") and again == command and OF_A_RUN not in command


def command_lines(command: str, columns: int = COMMAND_COLUMNS) -> list[str]:
    """A command in lines that a shell takes as one, each but the last with a backslash."""
    lines = [""]
    for word in re.split(r" (?=--)", command):
        if lines[-1] and len(lines[-1]) + len(word) + 3 > columns:
            lines.append("  " + word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _lines(todo: Todo) -> int:
    return 1 + sum(-(-len(line) // COMMAND_COLUMNS) for line in command_lines(todo.command))


def _without_wide(text: str) -> str:
    """A text without intervals that say nothing."""
    text = text.replace(" (few repeats)", "")
    return _HALF.sub(lambda half: "" if float(half[1]) > 100 * USELESS else half[0], text)


def _short(text: str, most: int = MOST_REASON) -> str:
    """A sentence within so many characters: without its brackets if it has to, or its first clause, or cut."""
    if len(text) > most:
        text = re.sub(r" \([^()]*\)", "", text)
    clause = re.split(r"[:;] |, which ", text)[0]
    if len(text) > most > len(clause) >= most // 2:
        return f"{clause}."
    if len(text) > most:
        text = text[: most - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"
    return text


def _rest(run: Run) -> str:
    counts = [(sum(len(one.points) for one in run.experiments), "point"), (len(run.findings), "finding")]
    return ", ".join(plural(count, noun) for count, noun in counts if count) or "No points"
