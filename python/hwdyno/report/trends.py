"""A machine's history in words and pictures: since when it is slower, and what changed then."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hwdyno.explain.findings.point_labels import format_label
from hwdyno.explain.fleet.slow import Loss
from hwdyno.explain.trends.account import CONDITIONS, Account, Shift
from hwdyno.explain.trends.change_points import MIN_RUNS, ChangePoint, Trend
from hwdyno.explain.trends.news import News
from hwdyno.explain.trends.time_series import Event, FigureKey, History, Metric, figure_key
from hwdyno.model.axes import FIELD_AXES
from hwdyno.model.units import format_ns, format_percent, format_value, plural
from hwdyno.model.words import Declaration, Parameters, Run, Value
from hwdyno.report import figures
from hwdyno.report.compared import difference_words
from hwdyno.report.picture import Band, ChartAxis, Dot, Mark, Picture, Polyline, nice_step, plain
from hwdyno.report.rows import point_label
from hwdyno.system.printable import columns, printable

NOTHING_KNOWN = "nothing that a Run records"
FIRST_EXPERIMENTS = 6
_HEIGHT = 120.0
_MAX_TICKS = 4


def when(started: str) -> str:
    """A Run's start as people write it; the text itself where it is no time."""
    try:
        return f"{datetime.fromisoformat(started).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return started


def label_points(run: Run) -> dict[FigureKey, str]:
    """The names of a Run's points as its report has them, by the key of their series."""
    return {
        figure_key(
            experiment.name,
            experiment.kernel,
            {**experiment.fixed, **point.parameters},
            experiment.judged_value(point).unit,
        ): point_label(experiment, at)
        for experiment in run.experiments
        for at, point in enumerate(experiment.points)
    }


def name_figure(metric: Metric | Loss, labels: Mapping[FigureKey, str]) -> str:
    """The figure's name: its experiment and its point."""
    label = labels.get(metric.key) or _format_label(metric.parameters)
    return f"{metric.experiment}  {label}" if label != metric.experiment else label


OF_A_READING = {"seed", "runtime", "ramp_time", "startdelay", "interval_s", "cpus", "size", "offset", "time_based"}
"""Parameters that tell how a point was read, and not what it is."""


def _format_label(parameters: Parameters) -> str:
    """A point's name where no Run at hand has it: by the parameters that are set."""
    shown = {name: value for name, value in parameters.items() if value and value != "[]" and name not in OF_A_READING}
    return format_label(shown, Declaration(axes=tuple(FIELD_AXES)))


def amount(value: float, unit: str) -> str:
    """A figure in its unit."""
    return format_ns(value) if unit == "ns" else format_value(value, unit)


def as_change(ratio: Value, *, less_is_better: bool = False) -> str:
    """A ratio as a change with its interval: ``10% slower (8.1 to 12%)``."""
    change = ratio.value - 1
    word = "slower" if (change < 0) != less_is_better else "faster"
    if ratio.low is None or ratio.high is None:
        return f"{format_percent(abs(change))} {word}"
    ends = sorted((abs(ratio.low - 1), abs(ratio.high - 1))) if (ratio.low - 1) * (ratio.high - 1) > 0 else None
    between = f" ({' to '.join(format_percent(end) for end in ends)})" if ends else ""
    return f"{format_percent(abs(change))} {word}{between}"


def trend_words(metric: Metric, trend: Trend) -> str:
    """A figure's trend: its changes, the newest first, its drift, or that it is flat."""
    if trend.drift is not None:
        # A run's share is too small to be read: what ten of them make.
        ten = Value(
            *(trend.drift.value**10, "ratio"), *(bound and bound**10 for bound in (trend.drift.low, trend.drift.high))
        )
        return f"drifts: {as_change(ten, less_is_better=metric.less_is_better)} in 10 runs"
    parts = [
        f"{as_change(change.ratio, less_is_better=metric.less_is_better)} since {when(metric.runs[change.at].started)}"
        for change in reversed(trend.changes)
    ]
    return "; ".join(parts) or (
        "flat" if len(metric.runs) >= MIN_RUNS else f"{MIN_RUNS - len(metric.runs)} more runs needed"
    )


def event_head(event: Event, history: History) -> str:
    """The first line of an event: how many figures, which way, by how much."""
    slower, all_of = event.slower, len(event.changes)
    says = []
    for count, word, is_slower in ((slower, "slower", True), (all_of - slower, "faster", False)):
        sizes = [
            abs(change.ratio.value - 1)
            for metric, change in event.changes
            if ((change.ratio.value > 1) == metric.less_is_better) == is_slower
        ]
        if sizes:
            low, high = (format_percent(size) for size in (min(sizes), max(sizes)))
            says.append(f"{count} {word} by {low if low == high else f'{low} to {high}'}")
    return f"Since {when(event.first.started)}, of {plural(len(history.trends), 'figure')}: {' and '.join(says)}"


def event_parts(event: Event) -> list[tuple[str, str]]:
    """Each experiment of an event with its mean change, the most changed first."""
    by_experiment: dict[str, list[tuple[Metric, ChangePoint]]] = {}
    for metric, change in event.changes:
        by_experiment.setdefault(metric.experiment, []).append((metric, change))
    found = []
    for name, some in by_experiment.items():
        better = [
            -math.log(change.ratio.value) if metric.less_is_better else math.log(change.ratio.value)
            for metric, change in some
        ]
        mean = math.exp(sum(better) / len(better))
        ratio = some[0][1].ratio if len(some) == 1 and not some[0][0].less_is_better else Value(mean, "ratio")
        found.append((abs(math.log(mean)), name, f"{plural(len(some), 'point')}, {as_change(ratio)}"))
    return [(name, says) for _, name, says in sorted(found, reverse=True)]


def account_words(account: Account) -> str:
    """What differed on both sides, in one line."""
    parts = [difference_words(difference) for difference in account.differences] + [
        shift_words(shift) for shift in account.shifts
    ]
    return "; ".join(parts) or NOTHING_KNOWN


def shift_words(shift: Shift) -> str:
    """A condition on both sides, in its unit."""
    name = CONDITIONS[shift.condition][0]
    if shift.condition.endswith("_c"):
        return f"{name} {shift.before:.0f} → {shift.after:.0f} °C"
    return f"{name} {format_percent(shift.before)} → {format_percent(shift.after)} of the CPU"


def heading(history: History) -> str:
    """How much is known of the machine, and whether anything changed."""
    if not history.runs:
        return "No runs are stored."
    span = f"{plural(len(history.runs), 'run')}, {when(history.runs[0].started)} to {when(history.runs[-1].started)}"
    known = [len(metric.values) for metric, _ in history.trends]
    judged = sum(count >= MIN_RUNS for count in known)
    if not judged:
        of_a_figure = f" of a figure; the most here is {max(known)}" if known and len(history.runs) >= MIN_RUNS else ""
        return f"{span}. Trends need at least {MIN_RUNS} runs{of_a_figure}."
    if not history.events and not _drifting(history):
        kept = f"{plural(judged, 'figure')} kept {'its' if judged == 1 else 'their'} level"
        few = f"; {len(known) - judged} have fewer than {MIN_RUNS} runs" if judged < len(known) else ""
        return f"{span}. No change: {kept}{few}.{_left_out_words(history)}"
    return f"{span}.{_left_out_words(history)}"


def _left_out_words(history: History) -> str:
    values = plural(history.left_out, "value")
    return f" Left out: {values} measured beside other load." if history.left_out else ""


def format_history(history: History, accounts: Sequence[Account], labels: Mapping[FigureKey, str]) -> str:
    """The whole history for a terminal; events first, then every figure."""
    lines = [f"{history.machine}: {heading(history)}"]
    for event, account in zip(history.events, accounts, strict=True):
        lines += ["", *_event_lines(event, account, history)]
    rows = [("figure", "runs", "newest", "trend")]
    rows += [
        (
            name_figure(metric, labels),
            str(len(metric.runs)),
            amount(metric.values[-1], metric.unit),
            trend_words(metric, trend),
        )
        for metric, trend in changed_first(history)
    ]
    return "\n".join(map(printable, lines)) + "\n" + ("\n" + columns(printable(rows)) if history.trends else "")


def _event_lines(event: Event, account: Account, history: History) -> list[str]:
    return [
        event_head(event, history),
        f"  first run   {event.first.id}",
        *(f"  {name}: {says}" for name, says in event_parts(event)[:FIRST_EXPERIMENTS]),
        f"  different   {account_words(account)}",
    ]


def format_news(news: News, accounts: Sequence[Account], labels: Mapping[FigureKey, str]) -> str:
    """What the newest Run shows for the first time, for a terminal or a message; one line where that is nothing."""
    history = news.history
    lines = [f"{history.machine}: {heading(history)}"]
    if not news.events and not news.drifts and (history.events or _drifting(history)):
        lines[0] += " Nothing new."
    for event, account in zip(news.events, accounts, strict=True):
        lines += _event_lines(event, account, history)
    lines += [f"{name_figure(metric, labels)}: {trend_words(metric, trend)}" for metric, trend in news.drifts]
    return "\n".join(map(printable, lines)) + "\n"


def _drifting(history: History) -> bool:
    return any(trend.drift for _, trend in history.trends)


def plain_news(news: News, accounts: Sequence[Account], labels: Mapping[FigureKey, str]) -> dict[str, Any]:
    """What is new as plain values for JSON; ``text`` is what chat programs show of a message."""
    return {
        "text": format_news(news, accounts, labels).strip(),
        "machine": news.history.machine,
        "run": news.history.runs[-1].id,
        "started": news.history.runs[-1].started,
        "runs": len(news.history.runs),
        "changed": bool(news.events or news.drifts),
        "slower": news.slower,
        "faster": news.faster,
        "events": [plain_event(event, account) for event, account in zip(news.events, accounts, strict=True)],
        "drifts": [
            {"figure": name_figure(metric, labels), "drift_a_run": _plain_ratio(trend.drift)}
            for metric, trend in news.drifts
        ],
    }


def changed_first(history: History) -> list[tuple[Metric, Trend]]:
    """Every figure with its trend, those first that did not keep their level."""
    return sorted(history.trends, key=lambda pair: not (pair[1].changes or pair[1].drift))


def plain_history(history: History, accounts: Sequence[Account], labels: Mapping[FigureKey, str]) -> dict[str, Any]:
    """The history as plain values for JSON."""
    return {
        "machine": history.machine,
        "runs": [run.id for run in history.runs],
        "events": [plain_event(event, account) for event, account in zip(history.events, accounts, strict=True)],
        "figures": [
            {
                "experiment": metric.experiment,
                "point": labels.get(metric.key, ""),
                "parameters": metric.parameters,
                "unit": metric.unit,
                "runs": [run.id for run in metric.runs],
                "values": list(metric.values),
                "drift_a_run": _plain_ratio(trend.drift),
                "changes": [
                    {"run": metric.runs[change.at].id, "before": change.before, "after": change.after}
                    | (_plain_ratio(change.ratio) or {})
                    for change in trend.changes
                ],
            }
            for metric, trend in history.trends
        ],
    }


def plain_event(event: Event, account: Account) -> dict[str, Any]:
    """A change with what differed then, as plain values for JSON."""
    return {
        "run": event.first.id,
        "started": event.first.started,
        "after_run": event.last.id,
        "figures": [list(metric.key) for metric, _ in event.changes],
        "slower": event.slower,
        "differences": [
            {"path": difference.path, "before": difference.before, "after": difference.after}
            for difference in account.differences
        ],
        "conditions": [
            {"condition": shift.condition, "before": shift.before, "after": shift.after} for shift in account.shifts
        ],
    }


def _plain_ratio(ratio: Value | None) -> dict[str, float | None] | None:
    return None if ratio is None else {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}


def draw_trend(metric: Metric, trend: Trend, name: str) -> Picture:
    """A figure over its runs, with its levels as steps and each change marked."""
    is_time = metric.unit == "ns"
    scale = figures.latency_scale(metric.values) if is_time else figures.scale_for(metric.values, metric.unit)
    values = [value / scale.divisor for value in metric.values]
    x = _runs_side(metric)
    y = _level_side(scale.unit, values)
    ends = [0, *(change.at for change in trend.changes), len(values)]
    marks: list[Mark] = []
    for low, high in itertools.pairwise(ends):
        part = sorted(values[low:high])
        middle = part[len(part) // 2]
        spread = [abs(value - middle) for value in part]
        half = sorted(spread)[len(spread) // 2] * 1.4826
        if trend.drift is None:
            marks.append(
                Band(0, ((low - 0.4, middle - half, middle + half), (high - 0.6, middle - half, middle + half)))
            )
            marks.append(Polyline(0, ((low - 0.4, middle), (high - 0.6, middle))))
    marks += [
        Polyline(-1, ((change.at - 0.5, y.low), (change.at - 0.5, y.high)), dash="3 3", width=1.2)
        for change in trend.changes
    ]
    marks += [
        Dot(
            0,
            float(at),
            value,
            tip=(("run", run.id), ("started", when(run.started)), ("value", amount(raw, metric.unit))),
        )
        for at, (value, run, raw) in enumerate(zip(values, metric.runs, metric.values, strict=True))
    ]
    return Picture(name, trend_words(metric, trend), x, y, (name,), tuple(marks), height=_HEIGHT)


def _runs_side(metric: Metric) -> ChartAxis:
    count = len(metric.runs)
    step = max(1, math.ceil((count - 1) / _MAX_TICKS))
    ticks = tuple((float(at), metric.runs[at].started[:10]) for at in range(0, count, step))
    return ChartAxis("run", -0.6, count - 0.4, "linear", ticks)


def _level_side(unit: str, values: Sequence[float]) -> ChartAxis:
    """An axis around the values and not from zero: of a history, the change is read and not the height."""
    low, high = min(values), max(values)
    room = max(high - low, 0.1 * high, 1e-12) * 0.25
    step = nice_step((high - low + 2 * room) / 4)
    first, last = math.floor((low - room) / step), math.ceil((high + room) / step)
    ticks = tuple((at * step, plain(at * step, step)) for at in range(max(0, first), last + 1))
    return ChartAxis(unit, ticks[0][0], ticks[-1][0], "linear", ticks)
