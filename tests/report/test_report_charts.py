"""Charts of reports on made Runs: what each draws and marks, how many series it holds, its files and its colours."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_run
import pytest
from hwdyno.model.words import UserError
from hwdyno.report import chart_files, charts, figures, plotdata, rows, theme
from hwdyno.report.picture import Bar, Dot, Picture, Whisker
from report_runs import MADE, WHOLE


def test_the_fitted_line_of_a_chart_is_the_curve_s_own_model() -> None:
    experiment = made_run.iodepth(("randread",))
    curve = experiment.curves[0]
    assert curve.ceiling is not None
    assert curve.load_90 is not None
    at_90 = plotdata.model_at(curve, curve.load_90)
    assert at_90 == pytest.approx(0.9 * curve.parameters["Xm"].value, rel=1e-3)
    for at in curve.points:
        load, rate = float(experiment.points[at].parameters["iodepth"] or 0), experiment.points[at].rate
        assert rate is not None
        assert plotdata.model_at(curve, load) == pytest.approx(rate.value, rel=0.05)


def test_a_block_size_curve_s_line_passes_its_points() -> None:
    from hwdyno.analysis.curves import fit_curves

    experiment = made_run.mix()
    for curve in fit_curves(experiment):
        for at in curve.points:
            size, reached = float(experiment.points[at].parameters["bs"] or 0), experiment.points[at].throughput.value
            assert plotdata.model_at(curve, size) == pytest.approx(reached, rel=0.12)


def test_the_knee_of_a_block_size_curve_is_marked_in_its_unit() -> None:
    """A chart read "90% at 4.87e+04" where the table beside it has 48 KiB."""
    from hwdyno.analysis.curves import fit_curves
    from hwdyno.report.rows import ChartSeries

    experiment = made_run.mix()
    curve = next(
        candidate
        for candidate in fit_curves(experiment)
        if candidate.ceiling is not None and candidate.load_90 is not None
    )
    group = [ChartSeries("alone", {}, curve.points, curve)]
    rows, scale = plotdata.make_rows(experiment, group, "bytes/s")
    marked = [row["text"] for row in plotdata.marks(group, rows, scale, experiment.load_axis) if row["text"]]
    assert marked and all(text.endswith((" KiB", " MiB", " B")) for text in marked)


def list_kinds(picture: Picture) -> set[str]:
    return {type(mark).__name__ for mark in picture.marks}


def test_the_throughput_chart_draws_knee_90_percent_ceiling_intervals_and_peers() -> None:
    chart = next(chart for chart in charts.list_charts(WHOLE) if chart.name.endswith("iodepth-throughput"))
    picture = chart.picture
    assert any(text.startswith("knee ") for text in picture.texts)
    assert any(text.startswith("90% at ") for text in picture.texts)
    assert {"rated (read): 155,000 IOPS", "rated (write): 120,000 IOPS"} <= set(picture.texts)
    assert "PCIe 3.0 x4, 961,426 IOPS" in chart.caption  # too far above to draw
    assert "the fitted model" in chart.caption
    assert list_kinds(picture) == {"Polyline", "ReferenceLine", "Words", "Dot", "Whisker"}
    dots = [mark for mark in picture.marks if isinstance(mark, Dot)]
    assert any("ours ÷ theirs" in dict(dot.tip) for dot in dots if dot.look == "peer")
    assert picture.x.kind == "log" and [label for _, label in picture.x.ticks] == [str(1 << step) for step in range(9)]
    experiment = WHOLE.experiments[1]
    points = [dot for dot in dots if dot.look == "point"]
    assert len(points) == len([mark for mark in picture.marks if isinstance(mark, Whisker)]) == len(experiment.points)
    for dot, at in zip(points, (at for series in rows.list_series(experiment) for at in series.points), strict=True):
        rate = experiment.points[at].rate
        assert rate is not None and (dot.x, dot.y) == (experiment.points[at].parameters["iodepth"], rate.value)


def test_lines_join_only_three_or_more_quantities_and_words_get_bars() -> None:
    names = {chart.name: chart for chart in charts.list_charts(MADE["sweep"])}
    assert list_kinds(names["2-gpu-device-throughput"].picture) == {"Bar"}
    two = replace(made_run.iodepth(("randread",)), curves=(), points=made_run.iodepth(("randread",)).points[:2])
    assert plotdata.lines(rows.list_series(two), *_measured(two)) == ([], "")


def test_a_grid_has_a_bar_with_its_value_and_whisker_for_each_test() -> None:
    picture = next(chart for chart in charts.list_charts(WHOLE) if chart.name.endswith("grid-tests")).picture
    assert picture.title == "Throughput of each test"
    assert [name for _, name in picture.y.ticks] == [row.label for row in rows.make_rows(WHOLE)[:6]]
    bars = [mark for mark in picture.marks if isinstance(mark, Bar)]
    for at, (bar, point) in enumerate(zip(bars, WHOLE.experiments[0].points, strict=True)):
        value = point.throughput
        assert value.low is not None and value.high is not None
        assert bar.row == pytest.approx(at) and bar.text == f"{figures.Scale(1e6, '').number(value.value)}"
        assert (bar.low, bar.value, bar.high) == (value.low / 1e6, value.value / 1e6, value.high / 1e6)


def _measured(experiment: Any) -> tuple[Any, Any]:
    return plotdata.make_rows(experiment, rows.list_series(experiment), "operations/s")


def test_a_chart_holds_at_most_eight_series_and_no_point_is_lost() -> None:
    made = made_run.huge_run()
    parts = charts.split_series(made.experiments[0])
    assert all(len(group) <= charts.MAX_SERIES for _, group in parts)
    points = [at for _, group in parts for series in group for at in series.points]
    assert sorted(points) == list(range(1056))
    assert len({words for words, _ in parts}) == len(parts)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_charts_become_files_for_papers(kind: chart_files.ChartFormat, tmp_path: Path) -> None:
    short = replace(WHOLE, experiments=(replace(WHOLE.experiments[1]),))
    paths = chart_files.write(short, tmp_path / "new", kind)
    start = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}[kind]
    assert len(paths) == 5
    assert all(path.read_bytes().startswith(start) for path in paths)
    if kind == "svg":
        drawn = paths[0].read_text()
        assert "Throughput by queue depth" in drawn
        assert "var(--" not in drawn
        assert "NaN" not in drawn


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_without_vl_convert_one_line_names_what_is_missing(
    kind: chart_files.ChartFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = charts.list_charts(WHOLE)[0]
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UserError, match=f"{kind} needs vl-convert: pip install"):
        chart_files.draw(chart, kind)
    assert chart_files.draw(chart, "svg").startswith(b"<svg")


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(ink: str, paper: str) -> float:
    low, high = sorted((luminance(ink), luminance(paper)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("colours", "series"), [(theme.PAGE_LIGHT, theme.SERIES_LIGHT), (theme.PAGE_DARK, theme.SERIES_DARK)]
)
def test_colours_stand_out_from_their_background(colours: dict[str, str], series: tuple[str, ...]) -> None:
    for name in ("ink", "muted", "accent", "good", "warn", "bad", "ceiling"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
    for colour in series:
        assert contrast(colour, colours["paper"]) >= 3, colour
    assert contrast(colours["warn"], colours["warn-wash"]) >= 4.5
    assert contrast(colours["bad"], colours["bad-wash"]) >= 4.5
