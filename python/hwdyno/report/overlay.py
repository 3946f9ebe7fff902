"""Two or more Runs in one picture: the like curves of each experiment over each other, and all ratios side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hwdyno.explain.comparison import Change, Compared
from hwdyno.model.words import Curve, ExperimentResult, Measurement, Run
from hwdyno.report import bars, plots
from hwdyno.report.charts import Chart, choose_kinds
from hwdyno.report.compared import interval_text, label, list_rows, ratio_text, verdict_words
from hwdyno.report.picture import NEUTRAL, Picture, Polyline
from hwdyno.report.rows import ChartSeries, by_unit, list_series, point_label

MAX_SIDES = 8
"""Curves of one picture that can be distinguished."""
MAX_RATIOS = 16
"""Rows of the picture of ratios."""
_EMPTY = 1.0


def ratios(base: str, sides: Sequence[Compared]) -> Picture | None:
    """Every experiment's ratio to the base with its interval, and a line where nothing changed."""
    rows = []
    for side in sides[:MAX_SIDES]:
        for change in list_rows(side):
            name = change.stated.partition(",")[0] or change.experiment
            words = "" if change.points > 1 else label(side, change)
            rows.append(
                {
                    "name": f"{name} · {words}" if words and words != "-" else name,
                    "series": side.name,
                    "y": 100 * change.ratio.value,
                    "low": None if change.ratio.low is None else 100 * change.ratio.low,
                    "high": None if change.ratio.high is None else 100 * change.ratio.high,
                    "text": f"{100 * change.ratio.value:.3g}%",
                    "tip": _tip(base, side, change),
                }
            )
    shown = list(dict.fromkeys(str(row["name"]) for row in rows))[:MAX_RATIOS]
    names = tuple(dict.fromkeys(side.name for side in sides[:MAX_SIDES]))
    more = len({str(row["name"]) for row in rows}) - len(shown)
    caption = f"% of {base}, more is better; whiskers show the 95% interval; the line is {base} itself"
    caption += f". {more} more in the table." if more > 0 else "."
    rows = [row for row in rows if row["name"] in shown]
    picture = bars.of_rows(f"Ratio to {base}", caption, "%", rows, names, reach=100 * _EMPTY)
    if picture is None:
        return None
    mark = Polyline(NEUTRAL, ((100.0, -0.5), (100.0, len(shown) - 0.5)), dash="3 3", width=1.4)
    return replace(picture, marks=(mark, *picture.marks))


def _tip(base: str, side: Compared, change: Change) -> tuple[tuple[str, str], ...]:
    return (
        ("ratio", f"{ratio_text(change)} ({interval_text(change.ratio)})"),
        ("verdict", verdict_words(side, change)),
        ("sides", f"{side.name} / {base}"),
    )


def overlays(base: str, sides: Sequence[Compared]) -> list[Chart]:
    """A chart for each series that the base and another side have, the experiments that changed most first."""
    with_runs = [side for side in sides if side.before is not None][: MAX_SIDES - 1]
    if not with_runs or with_runs[0].before is None:
        return []
    first = with_runs[0].before
    found = []
    urgent = {change.experiment: at for at, change in reversed(list(enumerate(list_rows(with_runs[0]))))}
    ordered = sorted(enumerate(first.experiments), key=lambda pair: urgent.get(pair[1].name, len(urgent)))
    for at, result in ordered:
        parts = [(base, result)]
        parts += [(side.name, partner) for side in with_runs if (partner := _partner(side, result)) is not None]
        if len(parts) > 1:
            found += list(_charts(at, parts))
    return found


def _partner(side: Compared, result: ExperimentResult) -> ExperimentResult | None:
    """The later experiment whose points pair with this one's."""
    return next(
        (pair.result for pairs in side.matching.pairs.values() for pair in pairs if pair.earlier.name == result.name),
        None,
    )


def _charts(at: int, parts: Sequence[tuple[str, ExperimentResult]]) -> Iterator[Chart]:
    first = parts[0][1]
    units = {experiment.points[0].throughput.unit for part in by_unit(first) for experiment in (part,) if part.points}
    for unit in sorted(units):
        alike = [
            (name, part)
            for name, result in parts
            for part in by_unit(result)
            if part.points and part.points[0].throughput.unit == unit
        ]
        if len(alike) > 1:
            yield from _of_unit(at, alike)


def _of_unit(at: int, parts: Sequence[tuple[str, ExperimentResult]]) -> Iterator[Chart]:
    names = [name for name, _ in parts]
    merged, offsets = _merge_sides(parts)
    stem = f"overlay-{at + 1}"
    if merged.name.endswith(".grid"):
        picture = _grid(parts)
        if picture is not None:
            yield Chart(f"{stem}-tests", at, replace(picture, title=f"{merged.asks}: each test"))
        return
    by_label: dict[str, dict[str, ChartSeries]] = {}
    for (name, result), offset in zip(parts, offsets, strict=True):
        for series in list_series(result):
            key = repr(sorted((series.parameters or {}).items(), key=lambda item: item[0]))
            curve = _shift_curve(series.curve, offset) if series.curve else None
            points = tuple(point + offset for point in series.points)
            by_label.setdefault(key, {})[name] = ChartSeries(name, series.parameters, points, curve)
    several = sum(len(of) > 1 for of in by_label.values()) > 1
    labels = {
        repr(sorted((series.parameters or {}).items(), key=lambda item: item[0])): series.label
        for series in list_series(parts[0][1])
    }
    for number, (key, of) in enumerate(by_label.items()):
        if len(of) < 2:
            continue
        # A side without this curve stays in the legend, so that a colour means one side in every chart.
        group = [of.get(name) or ChartSeries(name, {}, ()) for name in names]
        for kind, draw in choose_kinds(merged, group):
            if kind not in {"throughput", "latency"} or draw is plots.tradeoff:
                continue
            picture = draw(merged, group)
            if picture is not None:
                part = f" · {labels.get(key, '')}" if several and labels.get(key) else ""
                title = f"{merged.asks or merged.name}{part}"
                title = title if kind == "throughput" else f"{title}: latency"
                yield Chart(f"{stem}-{number + 1}-{kind}", at, replace(picture, title=title))


def _merge_sides(parts: Sequence[tuple[str, ExperimentResult]]) -> tuple[ExperimentResult, list[int]]:
    """All sides' points as one experiment, and where each side's begin; ceilings that not all share are left out."""
    first = parts[0][1]
    offsets: list[int] = []
    points: list[Measurement] = []
    for _, result in parts:
        offsets.append(len(points))
        # What all points of a side share may differ between the sides.
        points += [replace(point, parameters={**result.fixed, **point.parameters}) for point in result.points]
    ceilings = tuple(ceiling for ceiling in first.ceilings if all(ceiling in result.ceilings for _, result in parts))
    return replace(first, points=tuple(points), curves=(), peers=(), ceilings=ceilings), offsets


def _shift_curve(curve: Curve, offset: int) -> Curve:
    return replace(curve, points=tuple(point + offset for point in curve.points))


def _grid(parts: Sequence[tuple[str, ExperimentResult]]) -> Picture | None:
    """The tests of a grid, a bar for each side."""
    merged, offsets = _merge_sides(parts)
    group = [
        ChartSeries(name, {}, tuple(range(offset, offset + len(result.points))))
        for (name, result), offset in zip(parts, offsets, strict=True)
    ]
    labels: dict[int, str] = {}
    for (_, result), offset in zip(parts, offsets, strict=True):
        labels |= {offset + at: point_label(result, at) for at in range(len(result.points))}
    return bars.draw_tests(merged, group, labels)


def list_runs(base: str, sides: Sequence[Compared]) -> list[tuple[str, Run]]:
    """Every Run that is compared, the base first."""
    first = next((side.before for side in sides if side.before is not None), sides[0].after)
    return [(base, first), *((side.name, side.after) for side in sides if side.before is not None)]
