"""A Run's tables: rows of text with the unit in each head, as Markdown for people and CSV for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hwdyno.analysis.curves import LOADED_MODEL, is_loaded
from hwdyno.analysis.resources import find_rate_word
from hwdyno.model.units import format_number
from hwdyno.model.words import Curve, ExperimentResult, Latency, Measurement, OperatingPoint, Run, Value
from hwdyno.report import figures, study
from hwdyno.report.overview import make_overview, rank_findings
from hwdyno.report.plotdata import list_quantiles
from hwdyno.report.rows import HeadlineRow, judged_unit, list_series, make_rows, point_label, point_parameters, varying
from hwdyno.report.scorecard import Scorecard, scorecard
from hwdyno.system.printable import csv_cell, markdown_code, markdown_text


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Heads with their units, and rows of text."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _whole(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> ReportTable:
    """A table without the columns in which nothing is known."""
    listed = [tuple(row) for row in rows]
    kept = [at for at in range(len(heads)) if at == 0 or any(row[at] not in {figures.NONE, ""} for row in listed)]
    return ReportTable(caption, tuple(heads[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in listed))


def points_table(experiment: ExperimentResult) -> ReportTable:
    """Every point: parameters, throughput, rate, latencies, concurrency, CPU time an operation, validity."""
    points = experiment.points
    names = varying([point.parameters for point in points]) or list(points[0].parameters) if points else []
    unit = points[0].throughput.unit if points else ""
    scale = figures.scale_for([point.throughput.value for point in points], unit, find_rate_word(experiment))
    rates = [point.rate for point in points if point.rate]
    rate = figures.scale_for(
        [figure.value for figure in rates], rates[0].unit if rates else "operations/s", find_rate_word(experiment)
    )
    latency = figures.latency_scale(point.latency_ns.mean if point.latency_ns else None for point in points)
    # A test of latency is given in times: its rates are the same figures upside down. FLOP/s need no count beside them.
    timed, counted = judged_unit(experiment) == "ns", unit in {"FLOP/s", "IOP/s"}
    heads = [*names, scale.unit, f"95% interval, {scale.unit}", rate.unit]
    heads += [f"{word}, {latency.unit}" for word in ("mean", "p50", "p90", "p99", "p99.9", "max")]
    heads += [f"children's {word}, {scale.unit}" for word in _CHILDREN]
    heads += ["in flight", "CPU, µs/operation", "repeats", "validity"]
    rows = []
    for point in points:
        parameters = point_parameters(experiment, point)
        cells = [figures.parameter(experiment.axis(name), parameters.get(name)) for name in names]
        throughput = [scale.number(point.throughput.value), scale.interval(point.throughput) or figures.NONE]
        cells += [figures.NONE] * 2 if timed else throughput
        cells.append(rate.number(point.rate.value if point.rate and not timed and not counted else None))
        cells += [latency.number(value) for value in _latencies(point.latency_ns)]
        cells += [scale.number(_child(point, word)) for word in _CHILDREN]
        cells += [_effective(point), _cpu(point), str(point.repeats), point.validity]
        rows.append(cells)
    return _whole(heads, rows, f"All {len(points)} points")


_CHILDREN = ("min", "mean", "max", "sum")
"""Statistics of the threads' own throughputs, beside which that of the point is their parent's."""


def _child(point: Measurement, word: str) -> float | None:
    value = point.details.get(f"children_{word}_bytes_s")
    return value if isinstance(value, float) and point.throughput.unit == "bytes/s" else None


def _latencies(latency: Latency | None) -> tuple[float | None, ...]:
    if latency is None:
        return (None,) * 6
    return (latency.mean, latency.p50, latency.p90, latency.p99, latency.p999, latency.max)


def _effective(point: Measurement) -> str:
    if point.concurrency is None or point.concurrency.effective is None:
        return figures.NONE
    return format_number(point.concurrency.effective)


def _cpu(point: Measurement) -> str:
    if point.cpu_user_s is None or point.cpu_system_s is None or not point.operations:
        return figures.NONE
    return format_number((point.cpu_user_s + point.cpu_system_s) / point.operations * 1e6)


def distribution_table(experiment: ExperimentResult, points: Sequence[int]) -> ReportTable:
    """Latency percentiles, and the least, average and greatest throughput over time, of some points."""
    some = [experiment.points[at] for at in points]
    latency = figures.latency_scale(point.latency_ns.p50 if point.latency_ns else None for point in some)
    sampled = [point.samples for point in some if point.samples]
    unit = some[0].throughput.unit if some else ""
    scale = figures.scale_for([samples.max for samples in sampled], unit, find_rate_word(experiment))
    shares = (0.5, 0.9, 0.99, 0.999, 0.9999)
    heads = ["point", *(f"p{share * 100:.6g}, {latency.unit}" for share in shares), f"max, {latency.unit}"]
    heads += [f"{word} over time, {scale.unit}" for word in ("min", "avg", "max")] + ["variation"]
    rows = []
    for at in points:
        point = experiment.points[at]
        known = dict(list_quantiles(point.latency_ns)) if point.latency_ns else {}
        cells = [point_label(experiment, at), *(latency.number(known.get(share)) for share in shares)]
        cells.append(latency.number(point.latency_ns.max if point.latency_ns else None))
        samples = point.samples
        cells += [
            scale.number(value) for value in ((samples.min, samples.avg, samples.max) if samples else (None,) * 3)
        ]
        cells.append(figures.percent(samples.cv) if samples else figures.NONE)
        rows.append(cells)
    parts = ("Latency percentiles" * any(point.latency_ns for point in some), "throughput over time" * bool(sampled))
    caption = " and ".join(filter(None, parts))
    return _whole(heads, rows, caption[:1].upper() + caption[1:])


def curves_table(experiment: ExperimentResult) -> ReportTable | None:
    """The operating points read off each curve; none without curves."""
    series = [member for member in list_series(experiment) if member.curve is not None]
    if not series:
        return None
    unit = judged_unit(experiment)
    tops = [member.curve.ceiling.value for member in series if member.curve and member.curve.ceiling]
    tops += [member.curve.best.throughput for member in series if member.curve and member.curve.best]
    scale = figures.scale_for(tops, unit, find_rate_word(experiment))
    load = scale.unit if is_loaded(experiment) else experiment.load
    heads = ["series", "shape", f"floor, {load}: latency", f"knee, {load}", f"90%, {load}", f"95%, {load}"]
    heads += [f"limit, {scale.unit}", "95% interval", f"best, {load}", f"there, {scale.unit}", "latency there"]
    rows = []
    for member in series:
        curve = member.curve
        assert curve is not None
        rows.append([member.label, curve.state, *_operating(experiment, curve, scale)])
    return _whole(heads, rows, "Operating points")


def _operating(experiment: ExperimentResult, curve: Curve, scale: figures.Scale) -> list[str]:
    load = scale.number if curve.model == LOADED_MODEL else partial(figures.load, experiment.load_axis)

    def place(point: OperatingPoint | None) -> str:
        return load(point.load) if point else figures.NONE

    floor, best = curve.floor, curve.best
    return [
        f"{place(floor)}: {_ns(floor.latency_ns)}" if floor else figures.NONE,
        place(curve.knee),
        load(curve.load_90),
        load(curve.load_95),
        scale.number(curve.ceiling.value if curve.ceiling else None),
        (scale.interval(curve.ceiling) if curve.ceiling else "") or figures.NONE,
        place(best),
        scale.number(best.throughput if best else None),
        _ns(best.latency_ns if best else None),
    ]


def _ns(value: float | None) -> str:
    return figures.latency_scale([value]).quantity(value)


def grid_table(rows: Sequence[HeadlineRow]) -> ReportTable:
    """The headline figures beside reference and ceiling, each cell with its unit, since resources mix here."""
    heads = ("test", "measured", "95% interval", "rate", "mean latency", "reference", "ratio", "ceiling", "of ceiling")
    made = [[row.label, *grid_cells(row, rows)] for row in rows]
    return _whole(heads, made, "Figures")


def grid_cells(row: HeadlineRow, rows: Sequence[HeadlineRow]) -> list[str]:
    """Measured, interval, rate, latency, reference, ratio, ceiling and share of one headline.

    All bytes/s of ``rows`` are in one unit. A test of latency has its time as what was measured, and no rate.
    """
    point, rate_word = row.measurement, find_rate_word(row.experiment)
    timed = judged_unit(row.experiment) == "ns"
    moved = [
        table_row.measurement.throughput.value
        for table_row in rows
        if table_row.measurement.throughput.unit == "bytes/s"
    ]
    unit = point.throughput.unit
    scale = figures.scale_for(moved if unit == "bytes/s" else [point.throughput.value], unit, rate_word)
    peer, ceiling = row.peer, row.ceiling

    def quantity(value: Value) -> str:
        return scale.quantity(value.value) if value.unit == unit else figures.quantity(value, rate_word)

    bound = figures.NONE
    if ceiling:
        figure = quantity(Value(ceiling.value, ceiling.unit))
        bound = f"{figure} ({ceiling.kind}: {ceiling.label or ceiling.formula})"
    rated = point.rate and unit not in {"FLOP/s", "IOP/s"} and not timed
    return [
        _ns(point.latency_ns.mean if point.latency_ns else None) if timed else scale.quantity(point.throughput.value),
        (not timed and scale.interval(point.throughput)) or figures.NONE,
        figures.quantity(point.rate, rate_word) if point.rate and rated else figures.NONE,
        _ns(point.latency_ns.mean if point.latency_ns else None),
        f"{_ns(peer.latency_ns_mean) if timed and peer.latency_ns_mean else quantity(peer.value)} ({peer.full_name})"
        if peer
        else figures.NONE,
        ratio_words(peer.ratio) if peer and peer.ratio else figures.NONE,
        bound,
        figures.percent(row.share),
    ]


def ratio_words(ratio: Value) -> str:
    """``1.013 × (0.998 … 1.029)``."""
    spread = f" ({ratio.low:.3f} … {ratio.high:.3f})" if ratio.low is not None and ratio.high is not None else ""
    return f"{ratio.value:.3f} ×{spread}"


def markdown(run: Run) -> str:
    """The report as Markdown: scorecard, figures, findings, operating points and all points."""
    overview, card = make_overview(run), scorecard(run)
    parts = [f"# {markdown_text(card.machine)}", f"**{card.verdict}**: {markdown_text(card.reason)}"]
    parts += [_markdown_table(card_table(card))] if card.rows else []
    parts += [
        f"{number}. {markdown_text(todo.says)} {markdown_code(todo.command)}"
        for number, todo in enumerate(card.todo, 1)
    ]
    parts.append(f"{overview.status}: {overview.tally}.")
    rows = make_rows(run)
    if rows:
        parts += ["## Figures", _markdown_table(grid_table(rows))]
        parts += [
            f"- **{markdown_text(row.label)}**: {markdown_text(row.why_not_double)}"
            for row in rows
            if row.why_not_double
        ]
    if run.findings:
        parts.append("## Findings")
        parts += [
            f"- **{f.severity}** ({markdown_text(f.rule)}): {markdown_text(f.says)} {markdown_text(f.advice)}".rstrip()
            for f in rank_findings(run.findings)
        ]
    for experiment in run.experiments:
        parts.append(f"## {markdown_text(experiment.name)}: {markdown_text(experiment.asks)}")
        curves = curves_table(experiment)
        parts += [_markdown_table(table) for table in (curves, points_table(experiment)) if table and table.rows]
    parts.append(study.markdown(run))
    parts.append(markdown_text(f"Run {run.id}, hwdyno {run.version}, {run.started}: ") + markdown_code(run.command))
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(table: ReportTable) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(markdown_text(cell) for cell in cells) + " |"

    rule = "| " + " | ".join("---" if at == 0 else "---:" for at in range(len(table.heads))) + " |"
    return "\n".join([line(table.heads), rule, *map(line, table.rows)])


def card_table(card: Scorecard) -> ReportTable:
    """The figures of a scorecard."""
    heads = ("", "figure", "value", "95%", "of ceiling", "p99", "typical", "state")
    rows = []
    for row in card.rows:
        share = f"{figures.percent(row.share.of_ceiling)} of {row.share.ceiling}" if row.share else ""
        share = f"{row.share.of}: {share}" if row.share and row.share.of else share
        typical, state = row.typical.says if row.typical else "", f"{row.state}: {row.why}" if row.why else ""
        rows.append((row.resource, row.title, row.value, row.interval, share, row.p99 or "", typical, state))
    return _whole(heads, rows, "Scorecard")


CSV_HEADS = (
    "experiment",
    "point",
    "throughput",
    "throughput_low",
    "throughput_high",
    "throughput_unit",
    "rate_operations_s",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p90_ns",
    "latency_p99_ns",
    "latency_p999_ns",
    "latency_max_ns",
    "sample_min",
    "sample_avg",
    "sample_max",
    "in_flight",
    "cpu_user_s",
    "cpu_system_s",
    "elapsed_s",
    "operations",
    "bytes",
    "repeats",
    "validity",
    "why",
)


def csv_text(run: Run) -> str:
    """One line a point with exact figures in base units; a column for each parameter, named as its option."""
    names = list(dict.fromkeys(name for e in run.experiments for p in e.points for name in point_parameters(e, p)))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*CSV_HEADS[:2], *map(csv_cell, names), *CSV_HEADS[2:]])
    for experiment in run.experiments:
        for at, point in enumerate(experiment.points):
            parameters = point_parameters(experiment, point)
            cells: list[Any] = [experiment.name, at, *(parameters.get(name) for name in names)]
            throughput, samples = point.throughput, point.samples
            cells += [throughput.value, throughput.low, throughput.high, throughput.unit]
            cells.append(point.rate.value if point.rate and point.rate.unit == "operations/s" else None)
            cells += _latencies(point.latency_ns)
            cells += (samples.min, samples.avg, samples.max) if samples else (None,) * 3
            cells.append(point.concurrency.effective if point.concurrency else None)
            cells += [
                point.cpu_user_s,
                point.cpu_system_s,
                point.elapsed_s,
                point.operations,
                point.bytes,
                point.repeats,
            ]
            cells += [point.validity, " ".join(point.why)]
            writer.writerow([csv_cell(cell) for cell in cells])
    return out.getvalue()
